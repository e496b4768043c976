//! The caller's view of work in progress.

use std::any::Any;
use std::fmt::Debug;

use callsheet_core::diag::Diagnostic;

use crate::error::Result;
use crate::events::EventOutput;
use crate::project::trust::TrustRequest;

/// Receives diagnostics, status lines, progress and events while a use case runs. Every method has a default that ignores its
/// argument.
pub trait Observer: Debug + Send + Sync {
    /// Receives diagnostics that do not end the work.
    fn diagnostics(&self, diagnostics: &[Diagnostic]) {
        let _ = diagnostics;
    }

    /// Receives a line for a person.
    fn status(&self, line: &str) {
        let _ = line;
    }

    /// Receives a line for a person who wants details.
    fn note(&self, line: &str) {
        let _ = line;
    }

    /// Returns whether notes are wanted, because some take time to find.
    fn wants_notes(&self) -> bool {
        false
    }

    /// Returns whether events are wanted.
    fn wants_events(&self) -> bool {
        false
    }

    /// Receives an event of a flow after it was recorded.
    fn event(&self, event: &EventOutput) -> Result<()> {
        let _ = event;
        Ok(())
    }

    /// Receives a ledger address. Its password must not be shown.
    fn hide_address(&self, address: &str) {
        let _ = address;
    }

    /// Asks a person to agree to the requests of a project's files. `None` if no person can be asked.
    fn ask_consent(&self, requests: &[TrustRequest]) -> Result<Option<bool>> {
        let _ = requests;
        Ok(None)
    }

    /// Shows lines that change while something takes long, until the returned value is dropped. The argument of `lines` is
    /// the width of the terminal.
    fn show_lines(&self, lines: Box<dyn Fn(usize) -> Vec<String> + Send>) -> Option<Box<dyn Any>> {
        let _ = lines;
        None
    }

    /// Returns whether such lines are shown.
    fn shows_lines(&self) -> bool {
        false
    }

    /// Calls a person back to the terminal, because a run ended or a flow waits.
    fn ring_bell(&self) {}

    /// Shows a line that changes while something takes long, until the returned value is dropped.
    fn show_progress(&self, line: Box<dyn Fn() -> String + Send>) -> Option<Box<dyn Any>> {
        let _ = line;
        None
    }
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentObserver;

impl Observer for SilentObserver {}
