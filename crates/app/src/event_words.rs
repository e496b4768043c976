//! Says in words what happened: one line for an event of the ledger.

use std::collections::BTreeMap;

use callsheet_core::diag::counted;
use callsheet_core::library::agent::Agent;
use callsheet_core::record::{EventData, EventName, LogStream};
use callsheet_core::{Library, find_agent};
use serde_json::Value;

use crate::events::EventOutput;
use crate::local_time::LocalClock;
use crate::project::Project;
use crate::project::duration::duration_words;
use crate::run::progress::{describe_call, is_data};
use crate::text_width::visible_line;

/// Renders events for a person. It knows the agents of the runs that it has seen.
#[derive(Debug)]
pub struct EventNarrator<'p> {
    project: &'p Project,
    agents: BTreeMap<String, (Agent, String)>,
    /// The names of runs, such as `r42`, by their ids.
    names: BTreeMap<String, String>,
}

/// The characters of an id that are enough to find it.
const SHORT_ID: usize = 13;

impl<'p> EventNarrator<'p> {
    /// Creates a narrator of the events of a project's ledger.
    pub fn new(project: &'p Project) -> Self {
        Self { project, agents: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// Returns the lines about an event; none for one that says nothing to a person.
    pub fn lines(&mut self, event: &EventOutput) -> Vec<String> {
        let time = LocalClock::read().clock_time(&event.at);
        let subject = match (&event.run, &event.flow) {
            (Some(run), _) => format!("run {}", self.run_name(run)),
            (None, Some(flow)) => format!("flow {}", flow.get(..SHORT_ID).unwrap_or(flow)),
            (None, None) => "ledger".to_owned(),
        };
        let words = self.describe_event(event).into_iter();
        words.map(|words| format!("{time}  {subject:<18}  {words}")).collect()
    }

    /// Returns the words about an event, each on one line, without the time and the run; none for one that says nothing to a
    /// person.
    pub fn describe_event(&mut self, event: &EventOutput) -> Vec<String> {
        let words = self.words(event).into_iter().map(|words| visible_line(&words));
        words.filter(|words| !words.is_empty()).collect()
    }

    /// Returns the name by which a person can call the run; the beginning of its id if the ledger has none.
    fn run_name(&mut self, run: &str) -> String {
        if let Some(name) = self.names.get(run) {
            return name.clone();
        }
        let row = self.project.read_ledger().ok().and_then(|mut ledger| ledger.find(run).ok());
        let name = row.map_or_else(|| run.to_owned(), |row| row.name());
        let name = if name == run { run.get(..SHORT_ID).unwrap_or(run).to_owned() } else { name };
        self.names.insert(run.to_owned(), name.clone());
        name
    }

    fn words(&mut self, event: &EventOutput) -> Vec<String> {
        let one = match &event.data {
            EventData::Output { stream, text, .. } => {
                return self.output_words(event.run.as_deref(), *stream, text);
            }
            EventData::Composed { agent, phase, role, task, worktree, .. } => {
                self.note_agent(event.run.as_deref(), agent.as_deref(), worktree);
                let parts = [agent, phase, role, task].into_iter().flatten().map(String::as_str);
                format!("starts: {}", parts.collect::<Vec<_>>().join(", "))
            }
            EventData::Delivered { receipt, .. } => format!("prompt {}", receipt.name()),
            EventData::Status { end: None, .. } => return Vec::new(),
            EventData::Status { end: Some(end), exit_code, message, .. } => {
                let code = exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
                let why = message.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("{}{code}{why}", end.name())
            }
            EventData::Kept { paths } => format!("changes kept of {}", list_words(paths)),
            EventData::Check { name, result, duration_ms, .. } => {
                format!("check {name} {} ({})", result.name(), duration_words(*duration_ms))
            }
            EventData::Violation { path, decision, reason } => match reason {
                Some(_) => format!("{path} is outside of the scope"),
                None => format!("{path}: {}", decision.name()),
            },
            EventData::Finished { changed: None } => "finished".to_owned(),
            EventData::Finished { changed: Some(files) } if files.is_empty() => {
                "finished, nothing changed".to_owned()
            }
            EventData::Finished { changed: Some(files) } => {
                let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
                format!("finished, changed {}", list_words(&paths))
            }
            EventData::Flow { phase, detail, .. } => {
                let run = detail.get("run").and_then(Value::as_str).map(|run| self.run_name(run));
                flow_words(event.event, phase, detail, &run.unwrap_or_default())
            }
            EventData::Prompt { .. } => "prompt composed".to_owned(),
            EventData::Context { agent, version, bytes } => {
                let version = version.as_deref().unwrap_or("version unknown");
                format!("probe: {agent} ({version}) sends {bytes} bytes")
            }
            EventData::Reply { verdict: Some(verdict) } => format!("reply: {verdict}"),
            EventData::Reply { verdict: None } => "reply without a verdict".to_owned(),
            EventData::Submission { tool, refused, .. } if refused.is_empty() => format!("submitted {tool}"),
            EventData::Submission { tool, refused, .. } => {
                format!("submission of {tool} refused: {}", refused.join("; "))
            }
            EventData::Decision { by, what, decision, .. } => format!("{decision} {what} ({})", by.name()),
            EventData::Removed { runs, rule } => {
                format!("removed {} by {rule}", counted(runs.len(), "run"))
            }
            EventData::Imported { .. } => "imported".to_owned(),
            EventData::Emptied { kind } => format!("the contents of a record ({kind}) were removed"),
            // An event that is newer than these words.
            _ => event.event.name().to_owned(),
        };
        vec![one]
    }

    fn note_agent(&mut self, run: Option<&str>, agent: Option<&str>, worktree: &str) {
        let (disk, layout) = (self.project.disk(None), self.project.config.layout());
        if let (Some(run), Some(agent)) = (run, agent)
            && let Ok((_, agent)) = find_agent(&Library::new(&disk), agent, &layout)
        {
            self.agents.insert(run.to_owned(), (agent, worktree.to_owned()));
        }
    }

    /// Returns the agent of a run, also of one that started before.
    fn find_agent(&mut self, run: &str) -> Option<&(Agent, String)> {
        if !self.agents.contains_key(run) {
            let row = self.project.read_ledger().ok()?.find(run).ok()?;
            self.note_agent(Some(run), row.run.agent.as_deref(), "");
        }
        self.agents.get(run)
    }

    /// Says what an agent's events are about. Texts of a program stay as they are.
    fn output_words(&mut self, run: Option<&str>, stream: LogStream, text: &str) -> Vec<String> {
        let known = run.and_then(|run| self.find_agent(run));
        let events = known.filter(|(agent, _)| agent.output.stream.is_some());
        let mut words = Vec::new();
        for line in text.lines() {
            match events {
                Some((agent, place)) if stream == LogStream::Stdout => {
                    let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
                    let calls = agent.events.tools.iter().flat_map(|pattern| pattern.find_calls(&event));
                    words.extend(calls.map(|call| describe_call(agent, place, &call)));
                    let fault = agent.events.faults.iter().find_map(|pattern| pattern.find_in_event(&event));
                    words.extend(fault.map(|fault| format!("retrying: {}", fault.words())));
                }
                Some((agent, _)) => {
                    let fault = agent.events.faults.iter().find_map(|pattern| pattern.find_in_line(line));
                    words.extend(fault.map(|fault| format!("retrying: {}", fault.words())));
                }
                None if is_data(line.trim()) => {}
                None => words.push(format!("│ {line}")),
            }
        }
        words
    }
}

fn flow_words(name: EventName, phase: &str, detail: &serde_json::Map<String, Value>, run: &str) -> String {
    let text = |key: &str| detail.get(key).and_then(Value::as_str).unwrap_or_default();
    let list = |key: &str| {
        let items = detail.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    match name {
        EventName::FlowStarted => format!("started: {}", text("request")),
        EventName::FlowEntered => format!("enters {phase}"),
        EventName::FlowRefused => format!("{phase} cannot begin: {}", list("why")),
        EventName::FlowLaneStarted => format!("{phase} {} starts run {run}", text("lane")),
        EventName::FlowLaneEnded => format!("{phase} {} ended: {}", text("lane"), list("evidence")),
        EventName::FlowCleared => format!("{phase}: changes approved"),
        EventName::FlowMerged if list("conflicts").is_empty() => format!("{phase} {} merged", text("lane")),
        EventName::FlowMerged => format!("{phase} {} has conflicts: {}", text("lane"), list("conflicts")),
        EventName::FlowDocuments => {
            let paths = detail.get("changed").and_then(Value::as_object).into_iter().flatten();
            let paths: Vec<&str> = paths.map(|(path, _)| path.as_str()).collect();
            match paths.is_empty() {
                true => String::new(),
                false => format!("documents changed: {}", paths.join(", ")),
            }
        }
        EventName::FlowFailed => format!("{phase} failed: {}", list("why")),
        EventName::FlowParked => {
            let until = LocalClock::read().clock_time(text("until"));
            format!("{phase} {} is parked until {until}", list("lanes"))
        }
        EventName::FlowDecided => {
            let decision = detail.get("decision").map(|decision| match decision {
                Value::String(word) => word.clone(),
                Value::Object(map) => map
                    .iter()
                    .map(|(word, text)| format!("{word}: {}", text.as_str().unwrap_or_default()))
                    .collect(),
                _ => String::new(),
            });
            format!("decided: {}", decision.unwrap_or_default())
        }
        EventName::FlowStopped => "stopped".to_owned(),
        EventName::FlowResumed => "resumed".to_owned(),
        other => other.name().to_owned(),
    }
}

/// Names a few paths, and counts the others.
fn list_words(paths: &[String]) -> String {
    const FEW: usize = 3;
    let mut words = paths.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if paths.len() > FEW {
        words += &format!(" and {} more", paths.len() - FEW);
    }
    words
}
