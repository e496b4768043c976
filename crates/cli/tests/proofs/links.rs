//! Links in a clone, in place of every file that callsheet writes into a project and of the folders above it.
//! Nothing outside the project changes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use callsheet_run::WritableFolder;
use callsheet_testing::{CommandOutput, run_command};

use crate::project::{CANARY, CanaryProject, has_leak, run_in_parallel};

/// A command and the paths that it writes.
struct Case {
    args: &'static [&'static str],
    writes: &'static [&'static str],
}

const CASES: [Case; 11] = [
    Case { args: &["init"], writes: &[".callsheet/config.toml", ".callsheet/README.md", ".gitignore"] },
    Case {
        args: &["templates", "eject", "identity/supervisor"],
        writes: &[".callsheet/templates/identity/supervisor.md"],
    },
    Case { args: &["prefs", "add", "coder", "Be kind"], writes: &[".callsheet/prompts/agents/coder.md"] },
    Case { args: &["mcp", "install", "--client", "claude", "--write"], writes: &[".mcp.json"] },
    Case { args: &["mcp", "install", "--client", "gemini", "--write"], writes: &[".gemini/settings.json"] },
    Case {
        args: &["run", "-q", "-a", "claude", "--exclude", "secret/**", "x"],
        writes: &[".callsheet/runs/.gitignore", ".callsheet/runs/settings.json"],
    },
    Case {
        args: &["flow", "start", "sdd", "x", "--id", "one", "--", "true"],
        writes: &[".callsheet/changes/one/PLAN.md", ".callsheet/changes/one/earlier/001/PLAN.md"],
    },
    Case {
        args: &["flow", "start", "staged", "x", "--id", "one", "--", "true"],
        writes: &[".callsheet/sessions/one/state.json", ".callsheet/sessions/one/.request.md"],
    },
    Case { args: &["compose", "-q", "--out", "out/prompt.md", "x"], writes: &["out/prompt.md"] },
    Case {
        args: &["read", "--contract", "submit_review", "--session", "s"],
        writes: &["s/07_review/review.md", "s/07_review/review.yaml"],
    },
    Case { args: &["export", "--all", "--out", "out/all.jsonl"], writes: &["out/all.jsonl"] },
];

/// Ways in which a link leads out.
const WAYS: [&str; 6] = ["relative", "absolute", "chain", "dangling", "file", "FIFO"];

fn create_project() -> CanaryProject {
    let project = CanaryProject::new();
    let agent = project.write_beside("bin/claude", "#!/bin/sh\ncat > /dev/null\n");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    project.write_beside("outside/file", "theirs");
    project.write_beside("outside/dir/config.toml", "");
    project.write_beside("outside/dir/one/PLAN.md", "theirs");
    project.write_beside(
        "outside/dir/07_review/review.yaml",
        "verdict: pass\nsummary: It is good.\nfindings: []\n",
    );
    let made = std::process::Command::new("mkfifo").arg(project.beside("outside/fifo")).status().unwrap();
    assert!(made.success());
    fs::create_dir_all(project.path().join("out")).unwrap();
    project.write("s/07_review/review.yaml", "verdict: pass\nsummary: It is good.\nfindings: []\n");
    project
}

/// Returns every file and folder with a description that shows a change.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = path.symlink_metadata().unwrap();
        let text = if meta.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        let mode = meta.permissions().mode();
        all.insert(path.clone(), format!("{mode:o} {:?} {text}", meta.modified().unwrap()));
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all
}

fn create_outside_link(project: &CanaryProject, path: &Path, way: &str) {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path).unwrap();
    } else {
        let _ = fs::remove_file(path);
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let depth = path.parent().unwrap().strip_prefix(project.path()).unwrap().iter().count();
    let up = "../".repeat(depth + 1);
    let (target, real) = match way {
        "relative" => (PathBuf::from(format!("{up}outside/dir")), true),
        "absolute" | "chain" => (project.beside("outside/dir"), true),
        "dangling" => (project.beside("outside/nothing"), false),
        "file" => (project.beside("outside/file"), true),
        _ => (project.beside("outside/fifo"), true),
    };
    assert_eq!(path.parent().unwrap().join(&target).symlink_metadata().is_ok(), real, "{target:?}");
    if way == "chain" {
        let middle = project.path().join("middle");
        let _ = fs::remove_file(&middle);
        symlink(target, &middle).unwrap();
        symlink(middle, path).unwrap();
    } else {
        symlink(target, path).unwrap();
    }
}

/// Runs the command with an agent to start, and with a record to export.
fn run_case(project: &CanaryProject, args: &[&str]) -> CommandOutput {
    if args[0] == "export" {
        project.run(["compose", "-q", "--record", "--ledger", "../home/l.db", "x"]);
    }
    let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    let mut command = project.command();
    command.env("PATH", path).args(["--ledger", "../home/l.db"]).args(args);
    run_command(&mut command)
}

#[test]
fn writes_do_not_follow_outside_links() {
    let mut tried = 0;
    for Case { args, writes } in CASES {
        let mut places: Vec<PathBuf> = Vec::new();
        for path in writes {
            places.extend(
                Path::new(path).ancestors().filter(|part| *part != Path::new("")).map(Path::to_owned),
            );
        }
        places.sort();
        places.dedup();
        let plain = create_project();
        let before = snapshot(plain.path());
        run_case(&plain, args);
        assert_ne!(snapshot(plain.path()), before, "{args:?} writes nothing where there is no link");
        let cases: Vec<(PathBuf, &str)> =
            places.iter().flat_map(|place| WAYS.map(|way| (place.clone(), way))).collect();
        let done = run_in_parallel(&cases, |part| {
            for (place, way) in part {
                let project = create_project();
                create_outside_link(&project, &project.path().join(place), way);
                let before = snapshot(&project.beside("outside"));
                let output = run_case(&project, args);
                assert!(output.code.is_some(), "{args:?} {place:?} {way}: {}", output.err());
                assert_eq!(
                    snapshot(&project.beside("outside")),
                    before,
                    "{args:?} {place:?} {way}: {}",
                    output.err()
                );
            }
            part.len()
        });
        tried += done.into_iter().sum::<usize>();
    }
    crate::print_measurement(&format!("{tried} links that lead out, nothing written there"));
}

/// A ledger of an older version, in a folder that is a link to another project's folder, stays in its place.
/// Every command answers as in a project without a ledger.
#[test]
fn linked_ledger_is_not_migrated() {
    // A configuration outside of the project is an error; `flow list` and `flow status` continue after it.
    let outside =
        "error[ConfigBad]: cannot read `project:.callsheet/config.toml`: it leads outside its root\n";
    for (folder, link, error) in [
        ("outside/theirs", Some("../outside/theirs"), outside),
        ("outside/theirs", None, outside),
        ("project/theirs/.callsheet", Some("theirs/.callsheet"), ""),
    ] {
        let project = create_project();
        let theirs = project.beside(folder);
        fs::create_dir_all(&theirs).unwrap();
        let ledger = theirs.join("ledger.db");
        let place = ledger.to_str().unwrap();
        assert_eq!(project.run(["compose", "-q", "--record", "--ledger", place, CANARY]).code, Some(0));
        let reads = [
            &["log"][..],
            &["status"],
            &["show", "last"],
            &["show", "last", "--prompt"],
            &["verify", "--all"],
            &["export", "--all"],
            &["flow", "list"],
            &["flow", "status"],
        ];
        // Without a state directory, an older ledger is read in its place.
        let cases = ["home", "/proc/none"].map(|home| reads.map(|args| (home, args))).concat();
        let answer = |(home, args): &(&str, &[&str])| {
            let output = run_command(project.command().env("HOME", project.beside(home)).args(*args));
            assert!(!has_leak(&output), "{home} {args:?}: {}{}", output.out(), output.err());
            (output.code, output.out(), output.err())
        };
        let without: Vec<_> = cases.iter().map(answer).collect();
        symlink(link.map_or(theirs.clone(), PathBuf::from), project.path().join(".callsheet")).unwrap();
        let before = fs::read(&ledger).unwrap();
        let assert_untouched = |args: &[&str]| {
            let names: Vec<_> =
                fs::read_dir(&theirs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["ledger.db"], "{args:?}");
            assert!(fs::read(&ledger).unwrap() == before, "{args:?}");
        };
        for (case, (code, out, err)) in cases.iter().zip(without) {
            assert_eq!(code, Some(4), "{case:?}: {err}");
            let expected = match error.is_empty() || case.1[0] == "flow" {
                true => (code, out, format!("{error}{err}")),
                false => (Some(3), String::new(), error.to_owned()),
            };
            assert_eq!(answer(case), expected, "{folder} {case:?}");
            assert_untouched(case.1);
        }
        for args in [&["ledger", "adopt"][..], &["run", "-q", "x", "--", "true"], &["log"]] {
            answer(&("home", args));
            assert_untouched(args);
        }
    }
}

/// While the agent works, the folder of its files becomes a link. Removing the files does not follow it.
#[test]
fn nothing_outside_is_removed() {
    let project = create_project();
    let script = "#!/bin/sh\ncat > /dev/null\nmkdir -p ../outside/dir/$CALLSHEET_RUN\n\
                  echo keep > ../outside/dir/$CALLSHEET_RUN/keep\n\
                  mv .callsheet/runs .callsheet/old\nln -s ../../outside/dir .callsheet/runs\n";
    project.write_beside("bin/claude", script);
    let path = format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    let mut command = project.command();
    command.env("PATH", path).args(["run", "-q", "-a", "claude", "--exclude", "secret/**", "x"]);
    let output = run_command(&mut command);
    let kept: Vec<PathBuf> =
        snapshot(&project.beside("outside/dir")).into_keys().filter(|path| path.ends_with("keep")).collect();
    assert_eq!(kept.len(), 1, "{}", output.err());
}

/// A folder that becomes a link and a folder again, while files are written to it and removed from it.
#[test]
fn swapped_folder_leads_no_write_outside() {
    let project = create_project();
    let most = if crate::is_long() { 100_000 } else { 2_000 };
    fs::create_dir_all(project.path().join("dir")).unwrap();
    symlink("../outside/dir", project.path().join("link")).unwrap();
    let before = snapshot(&project.beside("outside"));
    let (stop, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut written, mut refused) = (0, 0);
    let at = |name: &str| project.path().join(name);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (from, to) in [("dir", "aside"), ("link", "dir"), ("dir", "link"), ("aside", "dir")] {
                    // The writer creates the folder again while it is away.
                    while fs::rename(at(from), at(to)).is_err() {
                        let _ = fs::remove_dir_all(at(to));
                    }
                }
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        while swaps.load(Ordering::Relaxed) < most {
            let folder = WritableFolder::open(project.path()).unwrap();
            let first = folder.write("dir/new/file", b"mine", 0o600);
            written += usize::from(first.is_ok());
            let done = first
                .and_then(|()| folder.rename("dir/new/file", "dir/new/other"))
                .and_then(|()| folder.remove_tree("dir/new"))
                .and_then(|()| folder.create("dir/fresh", b"mine"))
                .and_then(|()| folder.remove("dir/fresh"));
            refused += usize::from(done.is_err());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(snapshot(&project.beside("outside")), before);
    crate::print_measurement(&format!(
        "{written} files written while their folder was swapped, {refused} attempts refused"
    ));
    assert!(refused > 0);
}

/// A real path that was replaced by a link is not opened.
#[test]
fn project_replaced_by_link_is_refused() {
    let project = create_project();
    let path = project.path().to_owned();
    fs::rename(&path, project.beside("moved")).unwrap();
    symlink(project.beside("outside"), &path).unwrap();
    let error = WritableFolder::open(&path).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "a part of it is a symbolic link or not a folder");
}

/// Returns the lines of all sources except tests, with their files.
pub(crate) fn source_lines(crates: &Path, names: &[&str]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut open: Vec<PathBuf> = names.iter().map(|name| crates.join(name).join("src")).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            files.push(path);
        }
    }
    files.sort();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let text = ["#[cfg(test)]", "#[cfg(all(test,"]
            .iter()
            .fold(&*text, |text, tests| text.split(tests).next().unwrap());
        let name = path.strip_prefix(crates).unwrap().display().to_string();
        lines.extend(text.lines().map(|line| (name.clone(), line.to_owned())));
    }
    lines
}

/// Functions that write. The files of `ALLOWED` may call them, each with the target that it writes to.
/// Everything else uses `WritableFolder`.
const WRITERS: [&str; 16] = [
    "fs::write(",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "fs::set_permissions(",
    "File::create",
    "File::options",
    "OpenOptions::new",
    "DirBuilder::new",
    "create_dir(",
    "create_dir_all",
    "remove_file(",
    "remove_dir",
    "NamedTempFile::new",
    "tempfile_in(",
    "symlink(",
];

const ALLOWED: [(&str, &str); 23] = [
    ("app/src/context/probe_folder.rs", "the user's state directory"),
    ("app/src/transfer.rs", "a file that a person names"),
    ("app/src/ledger/known_ledger.rs", "the user's state directory"),
    ("app/src/ledger/mod.rs", "the ledger's own folder"),
    ("cli/src/demo/folder.rs", "a new folder that a person names"),
    ("cli/src/mcp_install.rs", "the folder of a client's own configuration, in the user's home"),
    ("app/src/run/spool.rs", "the user's state directory"),
    ("app/src/project/state.rs", "the user's state directory"),
    ("app/src/project/trust.rs", "the user's state directory"),
    ("app/src/session/write.rs", "a file outside of the project that a person names"),
    ("run/src/disk/documents.rs", "options to read with"),
    ("run/src/disk/folder.rs", "the capability itself"),
    ("run/src/git/mod.rs", "a temporary folder of our own"),
    ("run/src/process/guard.rs", "the folder of a run in the user's state directory"),
    ("run/src/worktree/lanes.rs", "the user's state directory"),
    ("run/src/disk/lock.rs", "the user's state directory"),
    ("run/src/worktree/fingerprint.rs", "the user's state directory"),
    ("run/src/worktree/contents.rs", "the user's state directory"),
    ("run/src/disk/read.rs", "options to read with"),
    ("run/src/process/submission.rs", "the folder of a run in the user's state directory"),
    ("run/src/process/trace.rs", "the folder of a run in the user's state directory, and a control group"),
    ("run/src/tmux/socket.rs", "the socket of a tmux server of our own"),
    ("run/src/worktree/mod.rs", "the user's state directory"),
];

#[test]
fn writes_go_through_writable_folder() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, line) in source_lines(crates, &["app", "cli", "mcp", "run", "web"]) {
        let line = line.replace("is_symlink(", "");
        let is_call = WRITERS.iter().any(|writer| line.contains(writer)) && !line.trim().starts_with("//");
        // Methods of the capability itself are called on it.
        if is_call && !line.trim().starts_with("use ") {
            found.entry(file).or_default().push(line.trim().to_owned());
        }
    }
    let allowed: Vec<&str> = ALLOWED.iter().map(|(file, _)| *file).collect();
    for (file, lines) in &found {
        assert!(allowed.contains(&file.as_str()), "{file} writes by itself: {lines:#?}");
    }
    for (file, why) in ALLOWED {
        assert!(found.contains_key(file), "{file} ({why}) does not write any more");
    }
}
