//! Progress of a run for a person: its last tool call, turns, tokens, cost and elapsed time, or why it waits for its model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use callsheet_core::delivery::receipt::{AgentReport, ReceiptWatcher};
use callsheet_core::library::agent::{Agent, AgentFault, ToolCall};

use super::progress_line::{ProgressView, render_progress};
use crate::text_width::visible_line;

#[derive(Debug)]
pub(crate) struct RunProgress {
    name: String,
    begun: Instant,
    seen: Mutex<SeenProgress>,
}

/// What was seen of a run so far.
#[derive(Debug, Default)]
struct SeenProgress {
    activity: RunActivity,
    report: AgentReport,
    fault: Option<AgentFault>,
    words: ToolWords,
    /// Whether a line without its end was printed.
    within_line: bool,
}

/// The last thing that a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunActivity {
    #[default]
    None,
    /// A tool was called with a path or the like.
    Call { verb: String, detail: String },
    /// A command was started.
    Command(String),
    /// Other words.
    Words(String),
}

impl RunActivity {
    /// Returns the whole words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Call { verb, detail } if detail.is_empty() => verb.clone(),
            Self::Call { verb, detail } => format!("{verb} {detail}"),
            Self::Command(command) => format!("{COMMAND}: {command}"),
            Self::Words(words) => words.clone(),
        }
    }
}

/// The words for the tools of an agent.
#[derive(Debug, Default)]
struct ToolWords {
    verbs: BTreeMap<String, String>,
    /// The text in front of the name of every tool of an MCP server.
    mcp_prefix: Option<String>,
    /// The names of the agent's directory, each with a slash at its end.
    places: Vec<String>,
    /// Whether the agent prints events, whose texts are for programs.
    has_events: bool,
}

/// The verb of commands.
const COMMAND: &str = "Bash";

impl RunProgress {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), begun: Instant::now(), seen: Mutex::default() }
    }

    /// Sets the words for the tools of an agent that works in `place`.
    pub(crate) fn set_agent(&self, agent: &Agent, place: &Path) {
        if let Ok(mut seen) = self.seen.lock() {
            seen.words = ToolWords::new(agent, &place.display().to_string());
        }
    }

    /// Shows the agent's last tool call or why it waits for its model; the last line of a program that prints text.
    pub(crate) fn set_event(&self, text: &str, is_partial: bool, watch: &ReceiptWatcher<'_>) {
        let Ok(mut seen) = self.seen.lock() else { return };
        let was_within = std::mem::replace(&mut seen.within_line, is_partial);
        if let Some(call) = &watch.last_call {
            seen.activity = seen.words.describe_call(call);
        } else if !seen.words.has_events && !was_within && !is_partial {
            let line = visible_line(text);
            if !line.is_empty() && !is_data(&line) {
                seen.activity = RunActivity::Words(line);
            }
        }
        seen.report.clone_from(&watch.report);
        seen.fault.clone_from(&watch.fault);
    }

    /// Shows work beside the agent, such as a check.
    pub(crate) fn set_activity(&self, what: &str) {
        if let Ok(mut seen) = self.seen.lock() {
            seen.activity = RunActivity::Words(visible_line(what));
            seen.fault = None;
        }
    }

    /// Renders the run as one line of at most `width` columns.
    pub(crate) fn render_line(&self, width: usize) -> String {
        let Ok(seen) = self.seen.lock() else { return String::new() };
        let view = ProgressView {
            name: &self.name,
            seconds: self.begun.elapsed().as_secs(),
            activity: &seen.activity,
            fault: seen.fault.as_ref(),
            report: &seen.report,
        };
        render_progress(&view, width)
    }

    /// Returns the time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Renders the fault of a run for a reader without a live line.
    pub(crate) fn render_fault(&self) -> Option<String> {
        let seen = self.seen.lock().ok()?;
        Some(format!("{}: retrying: {}", visible_line(&self.name), seen.fault.as_ref()?.words()))
    }
}

/// Says in words what a tool is called with.
pub(crate) fn describe_call(agent: &Agent, place: &str, call: &ToolCall) -> String {
    ToolWords::new(agent, place).describe_call(call).words()
}

impl ToolWords {
    fn new(agent: &Agent, place: &str) -> Self {
        let mcp = agent.tools.mcp.as_ref().and_then(|name| name.strip_suffix("{tool}"));
        Self {
            verbs: agent.events.verbs.clone(),
            mcp_prefix: mcp.map(|prefix| prefix.replace("{server}", "callsheet")),
            places: [Some(place.into()), Path::new(place).canonicalize().ok()]
                .iter()
                .flatten()
                .map(|place: &PathBuf| format!("{}/", place.display().to_string().trim_end_matches('/')))
                .collect(),
            has_events: agent.output.stream.is_some(),
        }
    }

    fn describe_call(&self, call: &ToolCall) -> RunActivity {
        let tool = visible_line(&call.tool);
        let own = self.mcp_prefix.as_ref().and_then(|prefix| tool.strip_prefix(prefix.as_str()));
        let verb = self.verbs.get(&tool).cloned().unwrap_or_else(|| cut_data(own.unwrap_or(&tool)));
        let detail = call.detail.as_deref().unwrap_or_default();
        if verb == COMMAND {
            return RunActivity::Command(cut_data(&visible_line(unwrap_shell(detail))));
        }
        let detail = visible_line(detail);
        let inside = self.places.iter().find_map(|place| detail.strip_prefix(place.as_str()));
        let detail = cut_data(inside.unwrap_or(&detail));
        RunActivity::Call { verb, detail }
    }
}

/// Returns the command that a shell is started for: `pytest -q` of `/bin/bash -lc 'pytest -q'`.
fn unwrap_shell(command: &str) -> &str {
    let inner = command.split_once(" -lc ").or_else(|| command.split_once(" -c "));
    let Some((shell, inner)) = inner else { return command };
    let is_shell = matches!(shell.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash"));
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'));
    match quote {
        _ if !is_shell => command,
        Some(quote) => inner.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).unwrap_or(inner),
        None => inner,
    }
}

/// Cuts a text before the data in it.
fn cut_data(text: &str) -> String {
    match ["{\"", "[{", "[\"", "\\\""].iter().filter_map(|part| text.find(part)).min() {
        Some(at) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Checks whether a line is data for programs, or a part of it.
pub(crate) fn is_data(line: &str) -> bool {
    let begins = line.starts_with(['{', '}', '[', ']', '"', ',']);
    begins || ["{\"", "\":", "\\\"", "\"}"].iter().any(|part| line.contains(part))
}

#[cfg(test)]
mod tests {
    use callsheet_core::library::layout::Layout;
    use callsheet_core::{Builtin, Library, find_agent};

    use super::*;
    use crate::text_width::text_width;

    #[test]
    fn shell_around_command_is_removed() {
        for (command, inner) in [
            ("/bin/bash -lc 'pytest -q'", "pytest -q"),
            ("/bin/bash -lc \"printf 'a' | tee b\"", "printf 'a' | tee b"),
            ("bash -lc ls", "ls"),
            ("grep -c x y", "grep -c x y"),
            ("cargo test", "cargo test"),
        ] {
            assert_eq!(unwrap_shell(command), inner);
        }
    }

    /// Every recorded event of every agent, whole and cut at any place, at every width.
    #[test]
    fn progress_lines_hold_no_data() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams");
        let mut shown = 0;
        for name in ["claude", "codex", "gemini", "copilot", "opencode"] {
            let (_, agent) = find_agent(&Library::new(&Builtin), name, &Layout::default()).unwrap();
            let mut files: Vec<_> = [root.join(name), root.join("faults").join(name)]
                .iter()
                .filter_map(|dir| std::fs::read_dir(dir).ok())
                .flat_map(|dir| dir.map(|entry| entry.unwrap().path()))
                .collect();
            files.push(root.join("work").join(format!("{name}.jsonl")));
            let lines: Vec<String> = files
                .iter()
                .flat_map(|file| {
                    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
                })
                .collect();
            assert!(lines.len() >= 200, "{name}: {} events", lines.len());
            // A tab, a bell, a direction mark and wide letters in the arguments of a tool.
            let odd = lines
                .iter()
                .map(|line| line.replace("note", "no\\t\\u0007\\u202e\u{65e5}\u{672c}\u{8a9e}te"));
            let all: Vec<String> = lines.iter().cloned().chain(odd).collect();
            for agent in [&agent, &Agent::default()] {
                let progress = RunProgress::new(name);
                progress.set_agent(agent, Path::new("/room/project"));
                let mut watch = ReceiptWatcher::new(agent, "");
                for line in &all {
                    let middle = line.floor_char_boundary(line.len() / 2);
                    for (piece, is_partial) in
                        [(&line[..middle], true), (&line[middle..], false), (line.as_str(), false)]
                    {
                        watch.read_output(piece, is_partial);
                        progress.set_event(piece, is_partial, &watch);
                        for width in [120, 80, 40, 13] {
                            let line = progress.render_line(width);
                            assert!(text_width(&line) <= width, "{line}");
                            assert!(!line.contains("{\"") && !line.contains(char::is_control), "{line}");
                            assert_eq!(callsheet_core::diag::escape_invisible(&line), line);
                        }
                        shown += 1;
                    }
                }
            }
        }
        assert!(shown > 6_000, "{shown}");
    }
}
