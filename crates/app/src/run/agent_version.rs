//! The version of a run's agent: the one that its events report, else the one that its program reports. The program is asked
//! while the agent works, so that the agent waits for nothing.

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::library::agent::Agent;
use callsheet_core::record::RunSummary;
use callsheet_run::{StopFlag, find_program};
use serde_json::Value;

use super::installed_agents::{VersionQuery, read_version};

/// The most lines of an agent that are searched for its version: it reports it when it begins.
const MOST_LINES: usize = 50;

/// The longest such line.
const MOST_LINE: usize = 256 << 10;

/// The most characters of a version.
const MOST_CHARS: usize = 100;

/// How long the program may take to answer after the agent has ended.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Finds the version of the agent of one run.
#[derive(Debug)]
pub(super) struct AgentVersion<'r> {
    places: &'r [String],
    command: Option<VersionQuery>,
    in_terminal: bool,
    line: String,
    lines: usize,
    found: Option<String>,
    asked: Option<(StopFlag, Receiver<Option<String>>)>,
}

impl<'r> AgentVersion<'r> {
    /// Prepares the search for the version of an agent that these actions start.
    pub(super) fn new(agent: &'r Agent, actions: &[DeliveryAction]) -> Self {
        let in_terminal = actions.iter().any(|action| matches!(action, DeliveryAction::Open { .. }));
        // An agent in a terminal prints no events.
        let places = if in_terminal { &[] } else { agent.events.version.as_slice() };
        let command = if places.is_empty() { find_command(agent, actions) } else { None };
        Self { places, command, in_terminal, line: String::new(), lines: 0, found: None, asked: None }
    }

    /// Asks the program of an agent in a terminal, whose start is not reported.
    pub(super) fn ask_for_terminal(&mut self) {
        if self.in_terminal {
            self.ask();
        }
    }

    /// Asks the program, if the events of the agent do not report the version.
    pub(super) fn ask(&mut self) {
        let Some(mut command) = self.command.take() else { return };
        let stop = StopFlag::default();
        command.stop = stop.clone();
        let (answer, answers) = channel();
        // A thread that cannot be started leaves the version unknown.
        let started = thread::Builder::new().name("version".into()).spawn(move || {
            let _ = answer.send(read_version(&command));
        });
        self.asked = started.is_ok().then_some((stop, answers));
    }

    /// Reads the next piece of standard output; `goes_on` is set if its line continues. Returns a version that is new.
    pub(super) fn read_output(&mut self, text: &str, goes_on: bool) -> Option<&str> {
        if self.found.is_some() || self.places.is_empty() || self.lines >= MOST_LINES {
            return None;
        }
        if self.line.len() + text.len() <= MOST_LINE {
            self.line.push_str(text);
        }
        if goes_on {
            return None;
        }
        self.lines += 1;
        let line = std::mem::take(&mut self.line);
        let event: Value = serde_json::from_str(&line).ok()?;
        let version = self.places.iter().find_map(|place| event.pointer(place)?.as_str());
        self.found = version.and_then(clean_version);
        self.found.as_deref()
    }

    /// Returns the version, and ends the question. Waits for the answer only if the agent `ran`.
    pub(super) fn finish(self, ran: bool) -> Option<String> {
        let Some((stop, answers)) = self.asked else { return self.found };
        let patience = if ran { LAST_WAIT } else { Duration::ZERO };
        let answer = answers.recv_timeout(patience).ok().flatten();
        if answer.is_none() {
            // The process ends before its run does.
            stop.stop();
            let _ = answers.recv_timeout(LAST_WAIT);
        }
        answer.as_deref().and_then(clean_version)
    }
}

/// Returns the command that asks the program of an agent for its version, in the environment of the agent.
fn find_command(agent: &Agent, actions: &[DeliveryAction]) -> Option<VersionQuery> {
    let start = agent.start.as_ref().filter(|start| !start.version.is_empty())?;
    let (argv, env, cwd) = actions.iter().find_map(|action| match action {
        DeliveryAction::Spawn { argv, env, cwd, .. } | DeliveryAction::Open { argv, env, cwd } => {
            Some((argv, env, cwd))
        }
        _ => None,
    })?;
    // A program in the place of the agent's own has versions of another kind.
    let name = argv.first().filter(|name| start.program.as_ref() == Some(name))?;
    let path = env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    let program = find_program(name, path.as_deref(), Path::new(cwd)).ok()?;
    Some(VersionQuery { env: env.clone(), ..VersionQuery::new(&program, &start.version) })
}

/// Returns a version without blanks around it. A text that is no version, such as an event, is refused.
fn clean_version(text: &str) -> Option<String> {
    let text = text.trim();
    let is_version = text.chars().count() <= MOST_CHARS
        && text.contains(|char: char| char.is_ascii_digit())
        && !text.contains(|char: char| char.is_control() || matches!(char, '{' | '}'));
    is_version.then(|| text.to_owned())
}

/// Returns the version of the agent of a run in words; `None` if no agent ran, or if the run has not ended.
pub fn agent_version_words(summary: &RunSummary) -> Option<&str> {
    let exit = summary.exit.as_ref().filter(|_| summary.launch.is_some())?;
    Some(exit.agent_version.as_deref().unwrap_or("version unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Agent {
        let mut agent = Agent::default();
        agent.events.version = vec!["/version".into()];
        agent
    }

    #[test]
    fn version_is_read_from_events() {
        let agent = agent();
        let mut version = AgentVersion::new(&agent, &[]);
        assert_eq!(version.read_output("hello", false), None);
        assert_eq!(version.read_output("{\"version\":", true), None);
        assert_eq!(version.read_output("\"2.1\"}", false), Some("2.1"));
        assert_eq!(version.read_output("{\"version\":\"3\"}", false), None);
        assert_eq!(version.finish(true).as_deref(), Some("2.1"));
    }

    #[test]
    fn late_and_long_lines_are_ignored() {
        let agent = agent();
        let mut version = AgentVersion::new(&agent, &[]);
        let long = format!("{{\"a\":\"{}\",\"version\":\"1\"}}", "a".repeat(MOST_LINE));
        assert_eq!(version.read_output(&long, false), None);
        for _ in 1..MOST_LINES {
            assert_eq!(version.read_output("{}", false), None);
        }
        assert_eq!(version.read_output("{\"version\":\"1\"}", false), None);
        assert_eq!(version.finish(true), None);
    }

    #[test]
    fn other_texts_are_no_version() {
        for (text, version) in [
            (" codex-cli 0.166.0\n", Some("codex-cli 0.166.0")),
            ("2.1.325 (Claude Code)", Some("2.1.325 (Claude Code)")),
            ("no licence", None),
            ("{\"type\":\"turn.completed\",\"n\":1}", None),
            ("1\u{1b}[31m", None),
        ] {
            assert_eq!(clean_version(text).as_deref(), version, "{text}");
        }
        assert_eq!(clean_version(&"1".repeat(MOST_CHARS + 1)), None);
    }
}
