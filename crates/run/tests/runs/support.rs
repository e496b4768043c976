//! Runs the fake agent, finds the processes that it left, and creates repositories.

use std::fs;
use std::time::{Duration, Instant};
use std::{env, thread};

use callsheet_core::request::fact::EndReason;
use callsheet_run::{OutputStream, ProcessEvent, ProcessExit, ProcessJob, ProcessLimits, run_process};
use callsheet_testing::TestProject;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_fake-agent");

/// A run of the fake agent, and all its events.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: ProcessExit,
    /// All events except the printed bytes.
    pub(crate) events: Vec<ProcessEvent>,
    /// The bytes of standard output as they were printed.
    pub(crate) printed: Vec<u8>,
}

impl Ran {
    pub(crate) fn ended(&self) -> (EndReason, Option<i32>, Option<i32>) {
        (self.exit.ended, self.exit.code, self.exit.signal)
    }

    /// Returns its output on a stream, with line ends.
    pub(crate) fn text(&self, wanted: OutputStream) -> String {
        let mut all = String::new();
        for event in &self.events {
            if let ProcessEvent::Output { stream, text, goes_on, .. } = event
                && *stream == wanted
            {
                all.push_str(text);
                all.push_str(if *goes_on { "" } else { "\n" });
            }
        }
        all
    }

    pub(crate) fn out(&self) -> String {
        self.text(OutputStream::Stdout)
    }
}

pub(crate) fn job(words: &[&str]) -> ProcessJob {
    ProcessJob {
        limits: ProcessLimits { deadline: Some(Duration::from_secs(60)), ..ProcessLimits::default() },
        guard: Some(AGENT.into()),
        ..ProcessJob::new([AGENT].iter().chain(words).map(ToString::to_string).collect(), env::temp_dir())
    }
}

pub(crate) fn run(job: &ProcessJob) -> Ran {
    let (mut events, mut printed) = (Vec::new(), Vec::new());
    let exit = run_process(job, &mut |event| match event {
        ProcessEvent::Printed { stream: OutputStream::Stdout, bytes } => printed.extend(bytes),
        ProcessEvent::Printed { .. } => {}
        event => events.push(event),
    });
    Ran { exit: exit.unwrap(), events, printed }
}

pub(crate) fn run_agent(words: &[&str]) -> Ran {
    run(&job(words))
}

/// Runs the fake agent with a deadline, in milliseconds, and a short grace period after it.
pub(crate) fn run_agent_within(deadline_ms: u64, words: &[&str]) -> Ran {
    let limits = ProcessLimits {
        deadline: Some(Duration::from_millis(deadline_ms)),
        grace: Duration::from_millis(300),
        ..ProcessLimits::default()
    };
    run(&ProcessJob { limits, ..job(words) })
}

/// Returns the processes that have `mark` in their command line, except ourselves.
pub(crate) fn find_left(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if pid != std::process::id() && command.contains(mark) {
            found.push(format!("{pid} {command}"));
        }
    }
    found
}

/// Asserts that no process with `mark` exists, now or soon.
pub(crate) fn assert_nothing_left(mark: &str) {
    let begun = Instant::now();
    while !find_left(mark).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(5), "left: {:#?}", find_left(mark));
        thread::sleep(Duration::from_millis(20));
    }
}

/// A word that no other test has in its command lines. Processes that have it are killed with the test.
pub(crate) struct Mark(String);

pub(crate) fn new_mark(name: &str) -> Mark {
    Mark(format!("mark-{name}-{}", std::process::id()))
}

impl std::ops::Deref for Mark {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for line in find_left(&self.0) {
            let pid = line
                .split(' ')
                .next()
                .and_then(|pid| pid.parse().ok())
                .and_then(rustix::process::Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
    }
}

/// Creates a repository with a commit of `README.md`, `src/a.rs`, `run.sh` and `.gitignore`.
pub(crate) fn create_repository() -> TestProject {
    let project = TestProject::new();
    project.git(&["init", "-q", "-b", "main"]);
    for (path, text) in [
        ("README.md", "readme\n"),
        ("src/a.rs", "fn a() {}\n"),
        ("run.sh", "#!/bin/sh\n"),
        (".gitignore", "target/\n*.log\n"),
    ] {
        project.write(path, text);
    }
    project.commit();
    project
}
