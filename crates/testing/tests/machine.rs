//! Tests the install and machines that lack something: with a separate cache, and programs that only pretend.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use callsheet_testing::{Cli, is_isolated, on_loopback};
use tempfile::TempDir;

/// The other tests also start this one, on machines that lack something.
#[test]
fn codex_prints_its_version() {
    on_loopback(&[Cli::Codex], || {
        let said = Command::new(Cli::Codex.program().unwrap()).arg("--version").output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "codex-cli 0.166.0\n");
        let devices = fs::read_to_string("/proc/net/dev").unwrap();
        let names = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
        assert!(!is_isolated() || names.collect::<Vec<_>>() == ["lo"], "{devices}");
    });
}

/// A directory whose `bin` precedes all other programs, or is the only one.
struct Machine {
    dir: TempDir,
    bare: bool,
}

impl Machine {
    fn new(bare: bool, programs: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        for (name, script) in programs {
            let path = dir.path().join("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir, bare }
    }

    /// Starts the test above, with an empty cache.
    fn start(&self) -> Child {
        self.command().spawn().unwrap()
    }

    fn command(&self) -> Command {
        let bin = self.dir.path().join("bin").display().to_string();
        let path = if self.bare { bin } else { format!("{bin}:{}", env::var("PATH").unwrap()) };
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "codex_prints_its_version", "--nocapture"])
            .env("PATH", path)
            .env("CALLSHEET_TEST_CACHE", self.dir.path().join("cache"))
            .env_remove("CALLSHEET_TEST_INSTALLED")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Returns the `NOT TESTED` lines, if the test passed.
    fn not_tested(&self) -> Vec<String> {
        let output = self.start().wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said.lines().filter(|line| line.starts_with("NOT TESTED")).map(str::to_owned).collect()
    }

    fn list_cache(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("cache")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Returns a fake `npm` that installs a Codex which only prints its version, and that logs each call.
fn fake_npm(version: &str, log: &Path) -> String {
    format!(
        "echo \"$8\" >> '{}'; mkdir -p \"$7/node_modules/.bin\"; cd \"$7/node_modules/.bin\"; sleep 0.2\n\
         printf '#!/bin/sh\\necho codex-cli {version}\\n' > codex; chmod +x codex",
        log.display()
    )
}

#[test]
fn one_process_installs_others_wait() {
    let log = TempDir::new().unwrap();
    let log = log.path().join("log");
    let machine = Machine::new(false, &[("npm", &fake_npm("0.166.0", &log))]);
    let children: Vec<_> = (0..4).map(|_| machine.start()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "@openai/codex@0.166.0\n");
    assert_eq!(machine.list_cache(), ["codex-0.166.0", "codex.lock"]);
}

#[test]
fn failed_install_is_reported_and_removed() {
    let log = TempDir::new().unwrap();
    for (npm, why) in [
        (
            "echo first >&2; echo no such package >&2; exit 7".to_owned(),
            "npm failed (exit status: 7): no such package",
        ),
        (
            fake_npm("0.1.0", &log.path().join("log")),
            "@openai/codex@0.166.0 calls itself \"codex-cli 0.1.0\\n\"",
        ),
    ] {
        let machine = Machine::new(false, &[("npm", &npm)]);
        assert_eq!(machine.not_tested(), [format!("NOT TESTED: codex 0.166.0: {why}")]);
        assert_eq!(machine.list_cache(), ["codex.lock"]);
    }
    for (programs, missing) in [(&[][..], "node"), (&[("node", "exit 0")], "npm")] {
        let machine = Machine::new(true, programs);
        let why = format!("{missing} cannot be started: No such file or directory (os error 2)");
        assert_eq!(machine.not_tested(), [format!("NOT TESTED: codex 0.166.0: {why}")]);
    }
}

#[test]
fn missing_cli_fails_after_install() {
    let machine = Machine::new(false, &[("npm", "exit 7")]);
    let mut command = machine.command();
    let output = command.env("CALLSHEET_TEST_INSTALLED", "1").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let why = "./test has installed it, and it is missing: codex 0.166.0: npm failed (exit status: 7): ";
    assert!(!output.status.success() && said.contains(why), "{said}");
}

#[test]
fn test_runs_without_namespaces() {
    let log = TempDir::new().unwrap();
    let log = log.path().join("log");
    let machine = Machine::new(false, &[("npm", &fake_npm("0.166.0", &log)), ("unshare", "exit 1")]);
    let why = "NOT TESTED: network isolation: unshare cannot make a network namespace here";
    assert_eq!(machine.not_tested(), [why]);
    // The test does not pass by default: if this machine's Codex prints another version, it fails.
    let program = machine.dir.path().join("cache/codex-0.166.0/node_modules/.bin/codex");
    fs::write(&program, "#!/bin/sh\necho changed\n").unwrap();
    assert!(!machine.start().wait_with_output().unwrap().status.success());
}
