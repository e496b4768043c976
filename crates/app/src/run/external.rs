//! Runs whose agent the caller drives.

use std::time::Instant;

use callsheet_core::request::fact::EndReason;
use callsheet_run::{MAX_RECORD_BYTES, OutputStream, PerformOutcome, ProcessEvent, ProcessExit};

/// Receives the output of an agent that the caller drives.
#[non_exhaustive]
pub struct ExternalOutput<'s>(&'s mut dyn FnMut(ProcessEvent));

impl std::fmt::Debug for ExternalOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExternalOutput")
    }
}

impl ExternalOutput<'_> {
    /// Appends text of the agent as whole lines.
    pub fn print(&mut self, text: &str) {
        let stream = OutputStream::Stdout;
        for line in text.lines() {
            (self.0)(ProcessEvent::Printed { stream, bytes: format!("{line}\n").into_bytes() });
            let mut rest = line;
            loop {
                let (text, more) = rest.split_at(rest.floor_char_boundary(MAX_RECORD_BYTES));
                let goes_on = !more.is_empty();
                (self.0)(ProcessEvent::Output { stream, text: text.to_owned(), goes_on, replaced: false });
                if !goes_on {
                    break;
                }
                rest = more;
            }
        }
    }
}

/// The end of an agent that the caller drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalEnd {
    /// The agent ended by itself, with this exit code.
    Exited(i32),
    /// The caller ended it at a time limit.
    Timeout,
    /// The caller ended it for another reason.
    Stopped,
}

pub(super) type ExternalAgent<'a> = &'a mut dyn FnMut(&mut ExternalOutput<'_>) -> ExternalEnd;

/// Lets the caller drive its agent, and returns the end as that of a process.
pub(super) fn drive_external(agent: ExternalAgent<'_>, take: &mut dyn FnMut(ProcessEvent)) -> PerformOutcome {
    let begun = Instant::now();
    let (ended, code) = match agent(&mut ExternalOutput(take)) {
        ExternalEnd::Exited(code) => (EndReason::Exited, Some(code)),
        ExternalEnd::Timeout => (EndReason::Timeout, None),
        ExternalEnd::Stopped => (EndReason::Stopped, None),
    };
    PerformOutcome::Ran(ProcessExit { ended, code, signal: None, duration: begun.elapsed() })
}
