//! A ledger that cannot be written can be read: because of its mode or the mode of its folder, on a file
//! system that is mounted read-only, and by a PostgreSQL user with read permission only. In these cases
//! nothing is written, neither in the ledger nor beside it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use callsheet_testing::{CommandOutput, Postgres, run_command};
use postgres::NoTls;

use crate::project::CanaryProject;

/// The user that permissions apply to, if the tests run as root.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A project whose user is subject to permissions.
struct Bound {
    project: CanaryProject,
    binary: PathBuf,
}

impl Bound {
    fn new() -> Self {
        let project = CanaryProject::new();
        let binary = project.beside("callsheet");
        // `cp` copies the binary: a file that this process holds open for writing could be inherited by a
        // child that was just forked, and then cannot be run.
        assert!(
            Command::new("cp").arg(env!("CARGO_BIN_EXE_callsheet")).arg(&binary).status().unwrap().success()
        );
        let top = project.beside(".");
        fs::set_permissions(&top, Permissions::from_mode(0o755)).unwrap();
        let bound = Self { project, binary };
        bound.give_away(&top);
        bound
    }

    fn give_away(&self, path: &Path) {
        if is_root() {
            let owner = format!("{NOBODY}:{NOBODY}");
            assert!(Command::new("chown").args(["-R", &owner]).arg(path).status().unwrap().success());
        }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project.path()).env_clear().env("HOME", self.project.beside("home"));
        command.env("PATH", std::env::var("PATH").unwrap());
        command
    }

    fn run(&self, ledger: &str, args: &[&str]) -> CommandOutput {
        self.run_in(self.project.path(), &[&["--ledger", ledger], args].concat(), NOBODY)
    }

    /// Runs the command as another user if the tests run as root.
    fn run_in(&self, dir: &Path, args: &[&str], user: u32) -> CommandOutput {
        let mut command = self.command(&self.binary);
        command.current_dir(dir).args(args);
        if is_root() {
            command.uid(user).gid(user);
        }
        run_command(&mut command)
    }

    fn change_mode(&self, mode: &str, path: &Path) {
        assert!(Command::new("chmod").args(["-R", mode]).arg(path).status().unwrap().success());
    }

    /// Records an entry of every kind that the commands list.
    fn fill(&self, ledger: &str) {
        for args in [
            &["compose", "-p", "plan", "--task-id", "T-1", "--record", "Plan it"][..],
            &["run", "--task-id", "T-1", "Do it", "--", "true"],
        ] {
            let done = self.run(ledger, args);
            assert_eq!(done.code, Some(0), "{}", done.err());
        }
    }
}

/// All commands that only read.
const READS: &[&[&str]] = &[
    // A page has ages, which change.
    &["--json", "log"],
    &["--json", "log", "--task", "T-1"],
    &["show", "last"],
    &["show", "last", "--prompt"],
    &["show", "last", "--records"],
    &["verify", "--all", "--read-data"],
    &["verify", "last"],
    &["export", "--all"],
    &["export", "last", "--in-toto"],
    &["-q", "diff", "last", "last"],
    &["status"],
    &["flow", "list"],
    &["-q", "gc", "--keep-last", "1", "--dry-run"],
];

const WRITES: &[&[&str]] = &[&["compose", "-p", "plan", "--record", "x"], &["gc", "--keep-last", "0"]];

/// Returns all files of a folder, each with the metadata that shows a change.
fn file_metadata(folder: &Path) -> BTreeMap<String, (u64, u32, i64, i64)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let meta = entry.metadata().unwrap();
            (
                entry.file_name().into_string().unwrap(),
                (meta.len(), meta.mode(), meta.mtime(), meta.mtime_nsec()),
            )
        })
        .collect()
}

/// Creates ledgers in folders of their own: closed, left with a log, and left with a log without its index.
fn create_ledgers(bound: &Bound) -> Vec<PathBuf> {
    let first = bound.project.path().join("closed");
    fs::create_dir(&first).unwrap();
    bound.give_away(&first);
    let ledger = first.join("ledger.db");
    bound.fill(ledger.to_str().unwrap());
    assert_eq!(file_metadata(&first).len(), 1, "{:?}", file_metadata(&first));
    // The log stays as long as a reader is connected.
    let reader = rusqlite::Connection::open(&ledger).unwrap();
    reader.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).unwrap();
    bound.give_away(&first);
    bound.fill(ledger.to_str().unwrap());
    let mut all = Vec::new();
    for (name, endings) in
        [("left", &["", "-wal", "-shm"][..]), ("log", &["", "-wal"]), ("odd ?#%name", &["", "-wal"])]
    {
        let folder = bound.project.path().join(name);
        fs::create_dir(&folder).unwrap();
        for ending in endings {
            let name = format!("ledger.db{ending}");
            fs::copy(first.join(&name), folder.join(&name)).unwrap();
        }
        assert!(folder.join("ledger.db-wal").metadata().unwrap().len() > 0);
        all.push(folder);
    }
    drop(reader);
    // The last connection has written the log into the database.
    assert_eq!(bound.run(ledger.to_str().unwrap(), &["recover"]).code, Some(0));
    let odd = bound.project.path().join("closed ?#%name");
    fs::create_dir(&odd).unwrap();
    fs::copy(&ledger, odd.join("ledger.db")).unwrap();
    all.extend([odd, first]);
    if !crate::is_long() {
        all.retain(|folder| !folder.ends_with("odd ?#%name") && !folder.ends_with("closed"));
    }
    all.iter().for_each(|folder| bound.give_away(folder));
    all
}

#[test]
fn read_only_ledger_is_readable() {
    let bound = Bound::new();
    let mut tried = 0;
    for folder in create_ledgers(&bound) {
        let ledger = folder.join("ledger.db");
        let ledger = ledger.to_str().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let mut expected: Option<Vec<Vec<u8>>> = None;
        let modes = [(0o500, 0o600), (0o555, 0o444), (0o700, 0o400), (0o700, 0o600), (0o500, 0o400)];
        for (of_folder, of_files) in modes.into_iter().take(if crate::is_long() { 5 } else { 4 }) {
            file_metadata(&folder).keys().for_each(|name| mode(&folder.join(name), of_files));
            mode(&folder, of_folder);
            let before = file_metadata(&folder);
            let what = format!("{ledger} as {of_folder:o}/{of_files:o}");
            let answers = READS.iter().map(|args| {
                let output = bound.run(ledger, args);
                assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{args:?} of {what}");
                tried += 1;
                output.stdout
            });
            let answers: Vec<Vec<u8>> = answers.collect();
            // The whole log was read: the answers equal those of a writable ledger.
            let listed: serde_json::Value = serde_json::from_slice(&answers[0]).unwrap();
            assert_eq!(listed["items"].as_array().unwrap().len(), 4, "{what}");
            assert!(expected.get_or_insert_with(|| answers.clone()) == &answers, "{what}");
            let is_writable = of_folder == 0o700 && of_files == 0o600;
            if !is_writable {
                assert_eq!(file_metadata(&folder), before, "{what}");
                // The owner of a file can make it writable again, and needs the folder for a log.
                for args in WRITES.iter().filter(|_| of_files != 0o600 && of_folder != 0o700) {
                    let refused = bound.run(ledger, args);
                    // A copy of a ledger is foreign. This is detected if the copy can be opened at all.
                    let is_refused = [Some(8), Some(10)].contains(&refused.code);
                    assert!(is_refused, "{args:?} of {what}: {:?} {}", refused.code, refused.err());
                }
                assert_eq!(file_metadata(&folder).len(), before.len(), "{what}");
            }
            mode(&folder, 0o700);
        }
        if is_root() {
            check_read_only_mount(&bound, &folder, &expected.unwrap());
        }
    }
    assert!(tried >= 3 * 4 * READS.len(), "{tried}");
    if !is_root() {
        crate::not_tested("ledgers on a file system that is mounted to be read: only root can mount");
    }
}

/// A state directory that cannot be written is enough to read: in the project's place, after the project
/// moved, and for another user with read permission.
#[test]
fn read_only_state_directory_is_readable() {
    let bound = Bound::new();
    let (path, state) = (bound.project.path(), bound.project.beside("home/.local"));
    let init = bound.command(Path::new("git")).args(["init", "-q"]).status().unwrap();
    assert!(init.success());
    bound.give_away(path);
    let own = |dir: &Path, args: &[&str]| bound.run_in(dir, args, NOBODY);
    for args in [
        &["-q", "compose", "-p", "plan", "--task-id", "T-1", "--record", "Plan it"][..],
        &["-q", "run", "--task-id", "T-1", "Do it", "--", "true"],
    ] {
        let done = own(path, args);
        assert_eq!(done.code, Some(0), "{}", done.err());
    }
    let ledger = own(path, &["ledger", "path"]).out();
    let ledger = ledger.trim_end();
    let reads: Vec<&[&str]> =
        READS.iter().copied().chain([&["ledger", "path"][..], &["ledger", "list"]]).collect();
    let expected: Vec<Vec<u8>> = reads.iter().map(|args| own(path, args).stdout).collect();
    bound.change_mode("a-w", &state);
    let moved = bound.project.beside("moved");
    for dir in [path, &moved] {
        if dir == moved {
            fs::rename(path, &moved).unwrap();
        }
        for (args, expected) in reads.iter().zip(&expected) {
            let output = own(dir, args);
            assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{args:?} in {}", dir.display());
            assert!(output.stdout == *expected, "{args:?} in {}: {}", dir.display(), output.out());
        }
        for args in WRITES.iter().copied().chain([&["-q", "run", "x", "--", "true"][..]]) {
            let refused = own(dir, args);
            assert_eq!(refused.code, Some(8), "{args:?} in {}: {}", dir.display(), refused.err());
            let (named, place) =
                (refused.err().contains("--ledger"), refused.err().contains("XDG_STATE_HOME"));
            assert!(named && place, "{args:?} in {}: {}", dir.display(), refused.err());
        }
    }
    // Another user with the same home, who can read everything and change nothing.
    if !is_root() {
        return crate::not_tested("a state directory of another user: only root can be several users");
    }
    bound.change_mode("a+rX", &state);
    bound.change_mode("a+rX", &moved);
    // For this user it is another project, which has no last run and no task.
    for args in READS.iter().filter(|args| !args.contains(&"last") && !args.contains(&"--task")) {
        let output = bound.run_in(&moved, &[&["--ledger", ledger], *args].concat(), NOBODY - 1);
        assert_eq!(output.code, Some(0), "{args:?}: {}", output.err());
    }
    bound.change_mode("u+w", &state);
}

/// A ledger of an earlier version is read in place if it cannot be copied.
#[test]
fn old_ledger_is_read_in_place() {
    let bound = Bound::new();
    let old = bound.project.path().join(".callsheet/ledger.db");
    bound.fill(".callsheet/ledger.db");
    fs::remove_dir_all(bound.project.beside("home")).unwrap();
    fs::create_dir(bound.project.beside("home")).unwrap();
    fs::set_permissions(bound.project.beside("home"), Permissions::from_mode(0o555)).unwrap();
    for args in READS {
        let output = bound.run_in(bound.project.path(), args, NOBODY);
        assert_eq!(output.code, Some(0), "{args:?}: {}", output.err());
    }
    assert!(old.exists());
    fs::set_permissions(bound.project.beside("home"), Permissions::from_mode(0o755)).unwrap();
}

fn check_read_only_mount(bound: &Bound, folder: &Path, expected: &[Vec<u8>]) {
    let mounted = |args: &[&str]| {
        let mut command = bound.command(Path::new("unshare"));
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
        command.args(["-m", "sh", "-c", script]).arg(folder).arg(&bound.binary).args(["--ledger"]);
        command.arg(folder.join("ledger.db")).args(args);
        run_command(&mut command)
    };
    let before = file_metadata(folder);
    if mounted(&["--version"]).code != Some(0) {
        return crate::not_tested(
            "ledgers on a file system that is mounted to be read: unshare cannot mount here",
        );
    }
    for (args, expected) in READS.iter().zip(expected) {
        let output = mounted(args);
        assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{args:?} of {}", folder.display());
        assert!(output.stdout == *expected, "{args:?} of {}", folder.display());
    }
    // A copy of a ledger is foreign, if it is not found to be read-only first.
    for args in WRITES {
        assert!(matches!(mounted(args).code, Some(8 | 10)), "{args:?}");
    }
    assert_eq!(file_metadata(folder), before);
}

#[test]
fn postgres_reader_can_read_ledger() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return crate::not_tested(&format!("a user of PostgreSQL who may only read: {why}")),
    };
    let bound = Bound::new();
    let url = server.create_database("read_only").unwrap();
    let reader = url.replace("callsheet@", "reader@");
    let mut client = postgres::Client::connect(&url, NoTls).unwrap();
    client.batch_execute("CREATE ROLE reader LOGIN").unwrap();
    // If there is no ledger, reading creates none.
    for url in [&url, &reader] {
        let output = bound.run(url, &["log"]);
        assert_eq!(output.code, Some(4), "{}", output.err());
        assert!(output.err().starts_with("error[LedgerNotThere]: "), "{}", output.err());
    }
    let made = client.query("SELECT 1 FROM pg_namespace WHERE nspname = 'callsheet'", &[]).unwrap();
    assert!(made.is_empty());
    bound.fill(&url);
    let grant =
        "GRANT USAGE ON SCHEMA callsheet TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA callsheet TO reader";
    client.batch_execute(grant).unwrap();
    for args in READS {
        let (own, other) = (bound.run(&url, args), bound.run(&reader, args));
        assert_eq!((own.code, other.code, other.err().as_str()), (Some(0), Some(0), ""), "{args:?}");
        assert!(own.stdout == other.stdout, "{args:?}");
    }
    for args in WRITES {
        assert_eq!(bound.run(&reader, args).code, Some(8), "{args:?}");
    }
}
