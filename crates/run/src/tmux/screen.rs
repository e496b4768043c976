//! The contents of a terminal, and their meaning for an agent.

use callsheet_core::library::agent::{TerminalDialog, TerminalSpec};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PaneScreen {
    rows: Vec<String>,
}

pub(super) enum ScreenState<'a> {
    Ready,
    Dialog(&'a TerminalDialog),
    Other,
}

impl PaneScreen {
    pub(super) fn new(captured: &str) -> Self {
        let mut rows: Vec<String> = captured.lines().map(|row| row.trim_end().to_owned()).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        Self { rows }
    }

    /// Classifies the screen. Dialogs come first: an agent may draw its input field before it asks something.
    pub(super) fn classify<'a>(&self, agent: &'a TerminalSpec) -> ScreenState<'a> {
        let shows = |words: &String| self.rows.iter().any(|row| row.contains(words.as_str()));
        if let Some(dialog) = agent.dialogs.iter().find(|dialog| dialog.shows.iter().all(shows)) {
            return ScreenState::Dialog(dialog);
        }
        let ready = agent.ready.iter().any(shows) && !agent.busy.iter().any(shows);
        if ready && self.find_composer(agent).is_some() { ScreenState::Ready } else { ScreenState::Other }
    }

    /// Checks whether `line` is in the input field. Long lines are wrapped there, at any place.
    pub(super) fn is_written(&self, agent: &TerminalSpec, line: &str) -> bool {
        let Some(at) = self.find_composer(agent) else { return false };
        let bare = |text: &str| -> String { text.chars().filter(|c| !is_drawn(*c)).collect() };
        let written = bare(&self.rows[at..].concat());
        let written = written.strip_prefix(bare(&agent.composer).as_str()).unwrap_or(&written);
        written.starts_with(bare(line).as_str())
    }

    /// Returns the last row that begins like the input field: earlier messages are above it.
    fn find_composer(&self, agent: &TerminalSpec) -> Option<usize> {
        let begins = |row: &String| row.trim_start_matches(is_drawn).starts_with(agent.composer.as_str());
        self.rows.iter().rposition(begins)
    }

    /// Returns the screen without empty rows, for an error message.
    pub(super) fn to_text(&self) -> String {
        self.rows.iter().filter(|row| !row.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Checks for whitespace and box-drawing characters.
fn is_drawn(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{2500}'..='\u{259f}')
}
