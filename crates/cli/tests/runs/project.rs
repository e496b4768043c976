//! A repository in which agents run, and the records of the runs.

use std::io::Write as _;
use std::ops::Deref;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use callsheet_testing::{CommandOutput, TestProject, callsheet_program, run_with_input};
use serde_json::Value;

/// A project in which `callsheet run` starts agents.
pub(crate) struct RunProject(TestProject);

impl Deref for RunProject {
    type Target = TestProject;

    fn deref(&self) -> &TestProject {
        &self.0
    }
}

impl RunProject {
    /// Creates a repository with one commit of `README.md` and `src/a.txt`.
    pub(crate) fn new() -> Self {
        Self::from_project(TestProject::with_repository())
    }

    /// Creates a folder that is not a repository.
    pub(crate) fn without_repository() -> Self {
        Self::from_project(TestProject::new())
    }

    /// Creates a repository below folders that no other user can write.
    pub(crate) fn in_private_dir() -> Self {
        let project = TestProject::in_private_dir();
        project.create_repository();
        Self::from_project(project)
    }

    fn from_project(project: TestProject) -> Self {
        let (sockets, state) =
            (project.path().parent().unwrap().to_owned(), project.beside("home/.local/state"));
        Self(
            project
                .with_variable("TMUX_TMPDIR", sockets)
                // An agent may have another home; later commands must still find its state.
                .with_variable("XDG_STATE_HOME", state)
                // Keeps tests from waiting longer than necessary for a process that does not end by itself.
                .with_variable("CALLSHEET_TEST_GRACE_MS", "500")
                // Fixes the project, whatever is in the folders above it.
                .with_arguments(&["-C", "."]),
        )
    }

    /// Runs `callsheet run` with the fake agent.
    pub(crate) fn run_agent(&self, flags: &[&str], words: &[&str]) -> CommandOutput {
        run_with_input(&mut self.agent_command(flags, words), b"Do it.")
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

    /// Returns the run as `callsheet show` reports it.
    pub(crate) fn show(&self, run: &str) -> Value {
        self.run(["--json", "show", run]).expect_code(0).json()
    }

    /// Returns the recorded prompt of a run.
    pub(crate) fn prompt(&self, run: &str) -> String {
        self.run(["show", run, "--prompt"]).expect_code(0).out()
    }

    /// Asserts that every run is recorded to its end, that the chain is valid, and that no process is left.
    pub(crate) fn assert_all_runs_finished(&self) {
        let recovered = self.run(["recover"]);
        assert_eq!((recovered.code, recovered.out().as_str()), (Some(0), "no unfinished runs\n"));
        // A prompt with values that are not recorded cannot be composed again, which is not damage.
        let verified = self.run(["verify", "--all", "--read-data"]);
        assert!(matches!(verified.code, Some(0 | 12)), "{verified:?}");
        for row in self.run(["--json", "log"]).expect_code(0).json()["items"].as_array().unwrap() {
            let run = row["run"].as_str().unwrap();
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
}

/// Returns the path of the agent that is scripted by its arguments. It belongs to another package, which
/// `./test` builds as well.
pub(crate) fn fake_agent() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = callsheet_program().with_file_name("fake-agent");
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "callsheet-run", "--bin", "fake-agent"]);
            assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        }
        path.display().to_string()
    })
}

/// Returns the result of a run in one line: everything that does not depend on the clock or the machine.
pub(crate) fn summarize(output: &CommandOutput) -> String {
    let result = output.json();
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
        (Value::Null, Value::Null) => text(&result["end"]),
        (code, Value::Null) => format!("{} {code}", text(&result["end"])),
        (_, signal) => format!("{} by {signal}", text(&result["end"])),
    };
    let mut line = format!("{} {}: {how}", output.code.unwrap_or(-1), text(&result["status"]));
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
