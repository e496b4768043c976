//! A project in a folder of its own, the real binary that runs in it, and the processes that it leaves.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::not_tested;
use crate::output::CommandOutput;
use crate::process::{run_command, run_with_input};

/// The folder of the built programs, for a test program that runs from elsewhere.
pub(crate) const PROGRAMS: &str = "CALLSHEET_TEST_PROGRAMS";

/// A project, a home beside it, and room for more. Processes that a test leaves are killed with it.
#[derive(Debug)]
pub struct TestProject {
    _dir: TempDir,
    /// The project, as the system resolves it.
    path: PathBuf,
    variables: Vec<(OsString, OsString)>,
    arguments: Vec<OsString>,
}

impl Default for TestProject {
    fn default() -> Self {
        Self::new()
    }
}

impl TestProject {
    /// Creates an empty project that is not a repository.
    pub fn new() -> Self {
        Self::new_in(&env::temp_dir())
    }

    /// Creates a repository with one commit of `README.md` and `src/a.txt`.
    pub fn with_repository() -> Self {
        let project = Self::new();
        project.create_repository();
        project
    }

    /// Creates an empty project in a folder below `parent`.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub fn new_in(parent: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("callsheet-").tempdir_in(parent).unwrap();
        let path = dir.path().canonicalize().unwrap().join("project");
        let project = Self { _dir: dir, path, variables: Vec::new(), arguments: Vec::new() };
        for folder in ["project", "home"] {
            fs::create_dir(project.beside(folder)).unwrap();
        }
        project
    }

    /// Creates an empty project below folders that no other user can write: Gemini accepts no settings from
    /// other places.
    pub fn in_private_dir() -> Self {
        let is_private = |dir: &PathBuf| {
            let is_shared = |dir: &Path| dir.metadata().is_ok_and(|meta| meta.mode() & 0o022 != 0);
            dir.is_dir() && !dir.ancestors().any(is_shared)
        };
        let target = programs_dir().with_file_name("tmp");
        let home = env::var_os("HOME").map(PathBuf::from);
        let places = [Some(target), home.clone().map(|home| home.join(".cache")), home];
        match places.into_iter().flatten().find(is_private) {
            Some(place) => Self::new_in(&place),
            None => {
                not_tested("settings for Gemini: every folder here can be written by others");
                Self::new()
            }
        }
    }

    /// Sets a variable of the environment of every command.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets the arguments that every command begins with.
    #[must_use]
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(OsString::from).collect();
        self
    }

    /// Returns the path of the project.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the home of the user.
    pub fn home(&self) -> PathBuf {
        self.beside("home")
    }

    /// Returns a path next to the project.
    pub fn beside(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap().join(path)
    }

    /// Writes a file of the project.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        write_file(self.path.join(path), bytes.as_ref())
    }

    /// Writes a file next to the project.
    pub fn write_beside(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        write_file(self.beside(path), bytes.as_ref())
    }

    /// Writes a program into a folder that is first on the search path.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn write_program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.write_beside(&format!("bin/{name}"), script);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Reads a file of the project.
    ///
    /// # Panics
    ///
    /// If there is none, or it is not text.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path.join(path)).unwrap()
    }

    /// Creates a symbolic link inside the project.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Makes the project a repository with one commit of `README.md` and `src/a.txt`.
    pub fn create_repository(&self) {
        self.git(&["init", "-q", "-b", "main"]);
        self.write("README.md", "what the readme says\n");
        self.write("src/a.txt", "a\n");
        self.commit();
    }

    /// Runs git in the project and returns its output.
    pub fn git(&self, args: &[&str]) -> String {
        git(&self.path, args)
    }

    /// Commits every change of the project.
    pub fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "work"]);
    }

    /// Returns a callsheet command in the project, with no input and with nothing of the environment of the
    /// test but the search path.
    ///
    /// # Panics
    ///
    /// If callsheet is not built.
    pub fn command(&self) -> Command {
        let mut command = Command::new(callsheet_program());
        command.current_dir(&self.path).env_clear().env("HOME", self.home());
        let path = env::var_os("PATH").unwrap_or_default();
        let search = [self.beside("bin")].into_iter().chain(env::split_paths(&path));
        // A project whose path has a colon cannot have programs of its own.
        command.env("PATH", env::join_paths(search).unwrap_or(path.clone())).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).args(&self.arguments);
        command
    }

    /// Runs callsheet in the project.
    pub fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> CommandOutput {
        run_command(self.command().args(args))
    }

    /// Runs callsheet in the project with this standard input.
    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> CommandOutput {
        run_with_input(self.command().args(args), stdin)
    }

    /// Returns the path of the project's ledger.
    pub fn ledger(&self) -> PathBuf {
        PathBuf::from(self.run(["-q", "ledger", "path"]).out().trim_end())
    }

    /// Returns the path of a file that SQLite creates beside the ledger.
    pub fn sidecar_path(&self, end: &str) -> PathBuf {
        let mut path = self.ledger().into_os_string();
        path.push(end);
        PathBuf::from(path)
    }

    /// Returns the processes that have this project in their environment or command line: the number and the
    /// command line of each.
    ///
    /// # Panics
    ///
    /// If the system does not list its processes.
    pub fn list_processes(&self) -> Vec<String> {
        let mark = self.path.parent().unwrap().display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let read = |file: &str| {
                let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else { continue };
            let command_line = read("cmdline");
            if command_line.contains(&mark) || read("environ").contains(&mark) {
                found.push(format!("{pid} {command_line}"));
            }
        }
        found
    }

    /// Asserts that no process of this project exists, now or soon.
    pub fn assert_no_process_left(&self) {
        self.wait_for_processes(Duration::from_secs(5));
    }

    /// Waits until all processes of this project have ended.
    ///
    /// # Panics
    ///
    /// If one continues for longer than `limit`.
    pub fn wait_for_processes(&self, limit: Duration) {
        let begun = Instant::now();
        loop {
            let left = self.list_processes();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < limit, "left: {left:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills all processes of this project.
    pub fn kill_processes(&self) {
        for process in self.list_processes() {
            let pid = process.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
            // It may have ended by itself.
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

impl Drop for TestProject {
    fn drop(&mut self) {
        // Other systems do not list their processes there.
        if cfg!(target_os = "linux") {
            self.kill_processes();
        }
    }
}

fn write_file(path: PathBuf, bytes: &[u8]) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

/// Runs git in a folder, with no configuration of the user, and returns its output.
///
/// # Panics
///
/// If git fails.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=T", "-c", "user.email=t@t"]);
    command.args(["-c", "protocol.file.allow=always"]).args(args);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the path of the built program.
///
/// # Panics
///
/// If it is not built.
pub fn callsheet_program() -> PathBuf {
    let program = programs_dir().join("callsheet");
    assert!(program.exists(), "no {}: build it by `cargo build -p callsheet-cli`", program.display());
    program
}

/// Returns the folder of the built programs. A test program is in a folder `deps` inside of it.
pub(crate) fn programs_dir() -> PathBuf {
    let beside_tests = || Some(env::current_exe().ok()?.parent()?.parent()?.to_owned());
    env::var_os(PROGRAMS).map(PathBuf::from).or_else(beside_tests).unwrap()
}
