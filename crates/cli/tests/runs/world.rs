//! A repository in a directory of its own, the real binary that runs in it, and the processes that it leaves.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) project: PathBuf,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    /// `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails and shows the output if the exit code is a different one.
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Returns the id of the run in the result.
    pub(crate) fn run(&self) -> String {
        self.json()["run"].as_str().unwrap().to_owned()
    }

    /// Returns the exit code and the diagnostic code of the error, which is one object on standard error.
    pub(crate) fn error(&self) -> (Option<i32>, String) {
        let line = self.err.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        let error: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        (self.code, error["code"].as_str().unwrap().to_owned())
    }
}

impl World {
    /// Creates a repository with one commit of `README.md` and `src/a.txt`.
    pub(crate) fn new() -> Self {
        let world = Self::without_git();
        world.commit_first_files();
        world
    }

    fn commit_first_files(&self) {
        self.git(&["init", "-q", "-b", "main"]);
        self.write("README.md", "what the readme says\n");
        self.write("src/a.txt", "a\n");
        self.commit();
    }

    /// Creates a folder that is not a repository.
    pub(crate) fn without_git() -> Self {
        let dir = tempfile::Builder::new().prefix("callsheet-runs-").tempdir().unwrap();
        Self::in_dir(dir)
    }

    /// Creates a repository below folders that no other user can write: Gemini accepts no settings from other
    /// places.
    pub(crate) fn in_private_dir() -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let is_apart = |dir: &PathBuf| {
            let shared = |dir: &Path| dir.metadata().is_ok_and(|meta| meta.mode() & 0o022 != 0);
            dir.is_dir() && !dir.ancestors().any(shared)
        };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let places = [
            Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))),
            home.clone().map(|home| home.join(".cache")),
            home,
        ];
        let place = places.into_iter().flatten().find(is_apart);
        let place = place.unwrap_or_else(|| {
            callsheet_testing::not_tested("settings for Gemini: every folder here can be written by others");
            std::env::temp_dir()
        });
        let world =
            Self::in_dir(tempfile::Builder::new().prefix("callsheet-runs-").tempdir_in(place).unwrap());
        world.commit_first_files();
        world
    }

    fn in_dir(dir: tempfile::TempDir) -> Self {
        let project = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        fs::create_dir(project.parent().unwrap().join("home")).unwrap();
        Self { dir, project }
    }

    /// Returns a path next to the project.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.project.parent().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a program into a folder that is first on the search path.
    pub(crate) fn write_program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.at("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.project, args)
    }

    pub(crate) fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "work"]);
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callsheet"));
        command.current_dir(&self.project).env_clear();
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
        command.env("HOME", self.at("home")).env("PATH", path).env("TMUX_TMPDIR", self.dir.path());
        // An agent may have another home; later commands must still find its state.
        command.env("XDG_STATE_HOME", self.at("home/.local/state"));
        // Keeps tests from waiting longer than necessary for a process that does not end by itself.
        command.env("CALLSHEET_TEST_GRACE_MS", "500");
        // Fixes the project, whatever is in the folders above it.
        command.args(["-C", "."]);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        run_to_end(self.command().args(args), b"")
    }

    /// Runs `callsheet run` with the fake agent.
    pub(crate) fn run_agent(&self, flags: &[&str], words: &[&str]) -> Said {
        run_to_end(&mut self.agent_command(flags, words), b"Do it.")
    }

    /// Returns a `callsheet run` command that reads its instructions from standard input.
    pub(crate) fn agent_command(&self, flags: &[&str], words: &[&str]) -> Command {
        let program: Vec<&str> = [fake_agent()].iter().chain(words).copied().collect();
        self.program_command(flags, &program)
    }

    pub(crate) fn program_command(&self, flags: &[&str], program: &[&str]) -> Command {
        let mut command = self.command();
        command.args(["--json", "-q", "run"]).args(flags).args(["-", "--"]).args(program);
        command
    }

    /// Starts a run in the background.
    pub(crate) fn start_agent(&self, flags: &[&str], words: &[&str]) -> Child {
        let mut command = self.agent_command(flags, words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"Do it.").unwrap();
        child
    }

    /// Returns the path of the project's ledger.
    pub(crate) fn ledger(&self) -> PathBuf {
        PathBuf::from(self.run(&["-q", "ledger", "path"]).out.trim_end())
    }

    /// Returns the run as `callsheet show` reports it.
    pub(crate) fn show(&self, run: &str) -> Value {
        self.run(&["--json", "show", run]).expect_code(0).json()
    }

    /// Returns the recorded prompt of a run.
    pub(crate) fn prompt(&self, run: &str) -> String {
        self.run(&["show", run, "--prompt"]).expect_code(0).out
    }

    /// Asserts that every run is recorded to its end, that the chain is valid, and that no process is left.
    pub(crate) fn assert_all_runs_finished(&self) {
        let recovered = self.run(&["recover"]);
        assert_eq!((recovered.code, recovered.out.as_str()), (Some(0), "no run was left unfinished\n"));
        // A prompt with values that are not recorded cannot be composed again, which is not damage.
        let verified = self.run(&["verify", "--all", "--read-data"]);
        assert!(matches!(verified.code, Some(0 | 12)), "{verified:?}");
        for row in self.run(&["--json", "log"]).expect_code(0).json()["runs"].as_array().unwrap() {
            let run = row["id"].as_str().unwrap();
            let kinds = self.record_kinds(run);
            let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
            assert_eq!((count("exit"), count("observed")), (1, 1), "{run}: {kinds:?}");
        }
        self.assert_no_process_left();
    }

    /// Returns the kinds of a run's records, in order.
    pub(crate) fn record_kinds(&self, run: &str) -> Vec<String> {
        let ledger = rusqlite::Connection::open(self.ledger()).unwrap();
        let mut rows = ledger.prepare("select kind from records where run = ?1 order by seq").unwrap();
        let kinds = rows.query_map([run], |row| row.get(0)).unwrap();
        kinds.map(Result::unwrap).collect()
    }

    /// Asserts that no process of this world exists, now or soon.
    pub(crate) fn assert_no_process_left(&self) {
        let begun = Instant::now();
        while !self.list_processes().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(5), "left: {:#?}", self.list_processes());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the processes that have this world in their environment.
    pub(crate) fn list_processes(&self) -> Vec<String> {
        let mark = self.project.parent().unwrap().display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| {
                let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            if entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())
                && read("environ").contains(&mark)
            {
                found.push(format!("{} {}", entry.file_name().display(), read("cmdline")));
            }
        }
        found
    }
}

/// A failing test leaves no process behind.
impl Drop for World {
    fn drop(&mut self) {
        for line in self.list_processes() {
            let pid = line.split(' ').next().and_then(|pid| pid.parse().ok()).unwrap_or_default();
            let own = i32::try_from(std::process::id()).unwrap();
            if pid > 1 && pid != own {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
        }
    }
}

/// Returns the path of the agent that is scripted by its arguments. It belongs to another package, which
/// `./test` builds as well.
pub(crate) fn fake_agent() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_callsheet")).with_file_name("fake-agent");
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "callsheet-run", "--bin", "fake-agent"]);
            assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        }
        path.display().to_string()
    })
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=T", "-c", "user.email=t@t"]).args(args);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// No command may wait forever. Far above the needs of a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs the command to its end, or fails if it does not end.
pub(crate) fn run_to_end(command: &mut Command, input: &[u8]) -> Said {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may end without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    wait_for_end(child)
}

/// Waits for the end of a started command.
pub(crate) fn wait_for_end(mut child: Child) -> Said {
    let read = |mut from: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        })
    };
    let out = read(Box::new(child.stdout.take().unwrap()));
    let err = read(Box::new(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it hangs");
        }
        thread::sleep(Duration::from_millis(5));
    };
    Said { code, out: out.join().unwrap(), err: err.join().unwrap() }
}

/// Waits until the condition holds.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the result of a run in one line: everything that does not depend on the clock or the machine.
pub(crate) fn summarize(said: &Said) -> String {
    let result = said.json();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let list = |key: &str, second: &str| {
        let items = result[key].as_array().unwrap().iter();
        items
            .map(|item| format!("{}:{}", text(&item["path"]), text(&item[second])))
            .collect::<Vec<_>>()
            .join(",")
    };
    let checks = result["checks"].as_array().unwrap().iter();
    let checks: Vec<String> =
        checks.map(|check| format!("{}:{}", text(&check["name"]), text(&check["result"]))).collect();
    let receipts: Vec<String> = result["receipts"].as_array().unwrap().iter().map(text).collect();
    let how = match (&result["exit_code"], &result["signal"]) {
        (Value::Null, Value::Null) => text(&result["ended"]),
        (code, Value::Null) => format!("{} {code}", text(&result["ended"])),
        (_, signal) => format!("{} by {signal}", text(&result["ended"])),
    };
    let mut line = format!("{} {}: {how}", said.code.unwrap_or(-1), text(&result["status"]));
    for (name, part) in [
        ("checks", checks.join(",")),
        ("changed", list("changed", "change")),
        ("violations", list("violations", "reason")),
        ("receipts", receipts.join(",")),
    ] {
        if !part.is_empty() {
            line += &format!(" | {name} {part}");
        }
    }
    let outcome = text(&result["reply"]["outcome"]);
    if outcome != "none" {
        line += &format!(" | reply {outcome}");
    }
    line
}
