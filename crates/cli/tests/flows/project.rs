//! A repository with a flow, and the result of the flow.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use callsheet_testing::{TestProject, wait_until};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A project with a scripted agent, whose processes can meet in a folder.
pub(crate) struct FlowProject {
    project: TestProject,
    agent: PathBuf,
    /// Tests read the ledger while a flow runs, as often as they can.
    ledger: OnceLock<PathBuf>,
}

impl Deref for FlowProject {
    type Target = TestProject;

    fn deref(&self) -> &TestProject {
        &self.project
    }
}

/// The result of a flow, independent of when, where and how often it was interrupted.
#[derive(Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) state: String,
    pub(crate) phase: String,
    /// The phase, the id and the SHA-256 of the prompt of each lane that counted.
    pub(crate) prompts: Vec<(String, String, String)>,
    /// Every file of the project outside of `.git` and `.callsheet`.
    pub(crate) files: BTreeMap<String, String>,
}

impl FlowProject {
    /// Creates a repository with one commit of `src/lib.txt`, and the agent `tests/flows/AGENT` beside it.
    pub(crate) fn new(agent: &str) -> Self {
        let project = Self::without_repository(agent);
        project.git(&["init", "-q"]);
        project.commit();
        project
    }

    /// Creates the same outside of any repository.
    pub(crate) fn without_repository(agent: &str) -> Self {
        let project = TestProject::new();
        let meet_dir = project.beside("meet");
        fs::create_dir(&meet_dir).unwrap();
        // Fixes the project, whatever is in the folders above it.
        let project = project.with_variable("MEET_AT", meet_dir).with_arguments(&["-C", "."]);
        project.write("src/lib.txt", "lib\n");
        let program = project.beside("agent");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows").join(agent), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { project, agent: program, ledger: OnceLock::new() }
    }

    /// Asserts that no lane that ended by itself was run again.
    pub(crate) fn assert_nothing_is_paid_twice(&self) {
        let events = self.read_events();
        let mut runs: BTreeMap<(u64, String), Vec<String>> = BTreeMap::new();
        for event in &events {
            let detail = &event["data"]["detail"];
            if event["event"] == "flow.lane_started" {
                let key = (detail["entry"].as_u64().unwrap(), detail["lane"].as_str().unwrap().to_owned());
                let (runs, run) = (runs.entry(key).or_default(), detail["run"].as_str().unwrap().to_owned());
                if !runs.contains(&run) {
                    runs.push(run);
                }
            }
        }
        for (lane, runs) in runs {
            for run in &runs[..runs.len() - 1] {
                let ended = |event: &&Value| event["run"] == **run && event["data"]["end"] == "exited";
                assert_eq!(events.iter().find(ended), None, "{lane:?} was run again: {runs:?}");
            }
        }
    }

    /// Makes the agent run `script` after its work; `$0` is next to the project.
    pub(crate) fn run_after_agent(&self, script: &str) {
        let real = self.agent.with_extension("real");
        fs::rename(&self.agent, &real).unwrap();
        let text = format!("#!/bin/sh\n'{}'\ncode=$?\n{script}\nexit $code\n", real.display());
        fs::write(&self.agent, text).unwrap();
        fs::set_permissions(&self.agent, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn agent(&self) -> &Path {
        &self.agent
    }

    /// Returns a callsheet command with these arguments.
    pub(crate) fn command_with(&self, args: &[&str]) -> Command {
        let mut command = self.command();
        command.args(args);
        command
    }

    pub(crate) fn meet_dir(&self) -> PathBuf {
        self.beside("meet")
    }

    /// Waits until the agents have ended by themselves.
    pub(crate) fn wait_for_agents(&self) {
        self.wait_for_processes(Duration::from_secs(60));
    }

    /// Kills the processes that an agent or a check left after its guard was killed.
    pub(crate) fn kill_rest(&self) {
        self.kill_processes();
        self.wait_for_agents();
    }

    /// Runs a command and parses its output as one JSON value.
    pub(crate) fn run_json(&self, args: &[&str]) -> Value {
        self.run(args).json()
    }

    /// Returns the arguments that start the flow `name` with the scripted agent.
    pub(crate) fn start_args<'a>(&'a self, name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let mut args = vec!["--json", "-q", "flow", "start", name, "Add a login to the site"];
        args.extend(more);
        args.extend(["--", self.agent.to_str().unwrap()]);
        args
    }

    pub(crate) fn read_prompt(&self, run: &str) -> String {
        self.run(["show", run, "--prompt"]).expect_code(0).out()
    }

    pub(crate) fn read_status(&self) -> Value {
        self.run(["--json", "flow", "status", &self.newest_flow()]).lines_json().remove(0)
    }

    /// Returns the page about the newest flow that has not ended, or else about the newest.
    pub(crate) fn read_page(&self) -> String {
        self.run(["flow", "status", &self.newest_flow()]).expect_code(0).out()
    }

    /// Checks whether a flow is recorded.
    pub(crate) fn has_flow(&self) -> bool {
        let list = self.run(["--json", "flow", "list"]);
        list.code == Some(0) && list.json()["items"].as_array().is_some_and(|items| !items.is_empty())
    }

    fn newest_flow(&self) -> String {
        let list = self.run(["--json", "flow", "list"]).json();
        let items = list["items"].as_array().unwrap();
        let is_open = |item: &&Value| item["state"] != "done" && item["state"] != "rejected";
        let item = items.iter().find(is_open).or_else(|| items.first()).unwrap();
        item["flow"].as_str().unwrap().to_owned()
    }

    /// Reads all events from the ledger by `watch`.
    pub(crate) fn read_events(&self) -> Vec<Value> {
        let mut watch =
            self.command_with(&["--json", "watch", "--since", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let head = self.read_head();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().unwrap()));
        let mut events = Vec::new();
        for line in lines {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let last = line["seq"].as_u64() == Some(head);
            events.push(line);
            // One record can produce several events, but the last record of a flow produces only one.
            if last {
                break;
            }
        }
        watch.kill().unwrap();
        watch.wait().unwrap();
        events
    }

    /// Returns the path of the project's ledger.
    pub(crate) fn ledger(&self) -> &Path {
        self.ledger.get_or_init(|| self.project.ledger())
    }

    /// Returns the number of the last record.
    pub(crate) fn read_head(&self) -> u64 {
        let file = self.ledger();
        let Ok(db) = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        else {
            return 0;
        };
        db.query_row("SELECT seq FROM head", [], |row| row.get::<_, i64>(0)).unwrap_or(0).unsigned_abs()
    }

    pub(crate) fn read_result(&self) -> End {
        let status = self.read_status();
        let mut prompts = Vec::new();
        for event in self.read_events().iter().filter(|event| !event["flow"].is_null()) {
            let (phase, detail) = (&event["data"]["phase"], &event["data"]["detail"]);
            if event["event"] == "flow.lane_ended" {
                let prompt = self.read_prompt(detail["run"].as_str().unwrap());
                let lane = detail["lane"].as_str().unwrap().to_owned();
                let entry = detail["entry"].as_u64().unwrap();
                prompts.push((entry, lane, phase.as_str().unwrap().to_owned(), sha256(&prompt)));
            }
        }
        // Concurrent lanes end in any order.
        prompts.sort();
        let prompts = prompts.into_iter().map(|(_, lane, phase, prompt)| (phase, lane, prompt)).collect();
        let text = |key: &str| status[key].as_str().unwrap().to_owned();
        End { state: text("state"), phase: text("phase"), prompts, files: read_files(self.path()) }
    }

    /// Kills `child` by SIGKILL, and its guards if `with_guards`.
    pub(crate) fn kill(mut child: Child, with_guards: bool) {
        let of_child = |pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit(')').next().unwrap_or_default().split(' ').nth(2).map(str::to_owned);
            parent.as_deref() == Some(child.id().to_string().as_str())
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let guards: Vec<u32> = all.filter(|pid| with_guards && of_child(pid)).collect();
        let signal = |signal: &str| {
            for guard in &guards {
                // The guard may have ended by itself.
                let _ =
                    Command::new("kill").args([signal, &guard.to_string()]).stderr(Stdio::null()).status();
            }
        };
        // A guard that keeps running would end the agent and observe its end.
        signal("-STOP");
        child.kill().unwrap();
        signal("-KILL");
        child.wait().unwrap();
    }

    /// Kills `child` by SIGKILL `later` after the ledger has `seq` records. Returns `false` if it ended
    /// before.
    pub(crate) fn kill_at(&self, mut child: Child, seq: u64, later: Duration, with_guards: bool) -> bool {
        let begun = Instant::now();
        loop {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if self.read_head() >= seq {
                std::thread::sleep(later);
                Self::kill(child, with_guards);
                return true;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "it does not come to record {seq}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits until a process has created this file.
pub(crate) fn wait_for_file(path: &Path) {
    wait_until(&format!("no {}", path.display()), || path.exists());
}

pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_files(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if name == ".git" || name == ".callsheet" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else {
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// Returns the messages of reasons.
pub(crate) fn messages(reasons: &Value) -> Value {
    reasons.as_array().unwrap().iter().map(|reason| reason["message"].clone()).collect()
}
