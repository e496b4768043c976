//! The records of a run in order of time, each with the pane that shows more.

use callsheet::Project;
use callsheet::error::Result;
use callsheet::event_words::EventNarrator;
use callsheet::events::EventOutput;
use callsheet::local_time::LocalClock;
use callsheet_core::record::{EventName, Id};
use callsheet_store::Ledger;

use crate::shown_text::ShownText;

/// A moment of a run.
#[derive(Debug)]
pub(crate) struct TimelineItem {
    /// The number of the record.
    pub(crate) seq: u64,
    /// The time of day.
    pub(crate) time: ShownText,
    /// The whole time.
    pub(crate) at: ShownText,
    /// The words.
    pub(crate) words: ShownText,
    /// The class: `bad` for a failure.
    pub(crate) class: &'static str,
    /// The pane that shows more.
    pub(crate) pane: &'static str,
}

/// The most moments that a page names.
const MOST: usize = 500;

/// Reads the moments of a run.
pub(crate) fn read_timeline(project: &Project, ledger: &mut Ledger, run: &Id) -> Result<Vec<TimelineItem>> {
    let mut narrator = EventNarrator::new(project);
    let mut items = Vec::new();
    for record in ledger.records_without_output(run)? {
        for event in EventOutput::from_record(&record)? {
            let (class, pane) = classify_event(&event);
            for words in narrator.describe_event(&event) {
                items.push(TimelineItem {
                    seq: event.seq,
                    time: clock_time(&event.at),
                    at: ShownText::new(&event.at),
                    words: words.into(),
                    class,
                    pane,
                });
            }
        }
        if items.len() >= MOST {
            break;
        }
    }
    Ok(items)
}

/// Returns the time of day of a recorded time, in local time.
fn clock_time(at: &str) -> ShownText {
    let local = LocalClock::read().clock_time(at);
    let clock = local.split([' ', 'T']).find(|part| part.contains(':')).unwrap_or(&local);
    ShownText::new(clock)
}

fn classify_event(event: &EventOutput) -> (&'static str, &'static str) {
    let data = serde_json::to_value(&event.data).unwrap_or_default();
    let word =
        |key: &str| data.get(key).and_then(|word| word.as_str()).map(str::to_owned).unwrap_or_default();
    match event.event {
        EventName::RunStarted | EventName::RecordComposed | EventName::RecordContext => ("", "prompt"),
        EventName::RunStatusChanged if word("status") == "failed" => ("bad", "log"),
        EventName::RunStatusChanged | EventName::RunOutput => ("", "log"),
        EventName::CheckStatusChanged if word("result") == "failed" => ("bad", "checks"),
        EventName::CheckStatusChanged => ("good", "checks"),
        EventName::ViolationCreated => ("warn", "change"),
        EventName::ViolationDecided | EventName::RecordChanged | EventName::RunFinished => ("", "change"),
        EventName::RecordReplied | EventName::RecordSubmitted => ("", "reply"),
        _ => ("", ""),
    }
}
