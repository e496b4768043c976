//! Events of a ledger, for programs that follow it.
//!
//! A record is one event or several. Each has the number of its record and its index there, so that a follower that was
//! interrupted between two events misses none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use callsheet_core::diag::Code;
use callsheet_core::record::{EventData, EventName, Id, watch_events};
use callsheet_store::{Ledger, StoredRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Result, usage_error};
use crate::project::Project;

/// An event.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EventOutput {
    /// The number of the record.
    pub seq: u64,
    /// The number of the event in its record, from 0.
    pub index: usize,
    /// When it was recorded.
    pub at: String,
    /// The name of the event.
    pub event: EventName,
    /// The run.
    pub run: Option<String>,
    /// The flow.
    pub flow: Option<String>,
    /// More about it.
    pub data: EventData,
}

impl EventOutput {
    /// Returns the events of a record.
    pub fn from_record(record: &StoredRecord) -> Result<Vec<Self>> {
        let told = match record.event()? {
            Some(event) => watch_events(&event),
            None => vec![(EventName::RecordEmptied, EventData::Emptied { kind: record.kind.clone() })],
        };
        let event = |(index, (event, data))| Self {
            seq: record.seq,
            index,
            at: record.at.clone(),
            event,
            run: record.run.clone(),
            flow: record.flow.clone(),
            data,
        };
        Ok(told.into_iter().enumerate().map(event).collect())
    }
}

/// A position between two events: behind a record, or behind an event of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPosition {
    /// The number of the record.
    pub seq: u64,
    /// The index of the event; `None` for the last one of the record.
    pub index: Option<usize>,
}

impl EventPosition {
    /// Reads a position that is written as `SEQ` or `SEQ.INDEX`.
    pub fn parse(text: &str) -> Result<Self> {
        let (seq, index) = text.split_once('.').map_or((text, None), |(seq, index)| (seq, Some(index)));
        let index = index.map(str::parse).transpose();
        let wrong = || usage_error(format!("`{text}` is not SEQ or SEQ.INDEX, such as 17 or 17.2"));
        match (seq.parse(), index) {
            (Ok(seq), Ok(index)) => Ok(Self { seq, index }),
            _ => Err(wrong().into()),
        }
    }

    fn is_before(&self, event: &EventOutput) -> bool {
        event.seq > self.seq || event.seq == self.seq && self.index.is_some_and(|index| event.index > index)
    }
}

/// Poll interval: too short for a person to notice, and nearly free.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of records that are read at once.
const BATCH: usize = 256;

/// Follows the events of a ledger, whichever process appends them.
#[derive(Debug)]
pub struct EventFollower {
    ledger: Ledger,
    position: EventPosition,
    run: Option<Id>,
}

impl EventFollower {
    /// Begins behind `since`; without it, with the first event from now on. Waits for a ledger that does not exist yet.
    pub fn open(project: &Project, since: Option<EventPosition>) -> Result<Self> {
        let mut was_there = true;
        let mut ledger = loop {
            match project.read_ledger() {
                Err(error) if error.is_only(Code::LedgerNotThere) => thread::sleep(PAUSE),
                opened => break opened?,
            }
            was_there = false;
        };
        let position = match since {
            Some(since) => since,
            None if was_there => EventPosition { seq: ledger.head()?.seq, index: None },
            None => EventPosition::default(),
        };
        Ok(Self { ledger, position, run: None })
    }

    /// Returns the events that were recorded since the last call; none if there are none.
    pub fn poll(&mut self) -> Result<Vec<EventOutput>> {
        let mut events = Vec::new();
        // A record whose last events are still to come is read once more.
        let behind = self.position.index.map_or(self.position.seq, |_| self.position.seq.saturating_sub(1));
        for record in self.ledger.records_after(behind, BATCH)? {
            let is_wanted = self.run.as_ref().is_none_or(|run| record.run.as_deref() == Some(run.as_str()));
            if is_wanted {
                let of_record = EventOutput::from_record(&record)?;
                events.extend(of_record.into_iter().filter(|event| self.position.is_before(event)));
            }
            self.position = EventPosition { seq: record.seq.max(self.position.seq), index: None };
        }
        Ok(events)
    }

    /// Waits for the next events.
    pub fn wait(&mut self) -> Result<Vec<EventOutput>> {
        loop {
            let before = self.position;
            let events = self.poll()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.position == before {
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Calls `take` with the events of a run while `work` runs, and until the last one was taken.
pub fn follow_run<T>(
    project: &Project,
    run: &Id,
    mut take: impl FnMut(&EventOutput) -> Result<()> + Send,
    work: impl FnOnce() -> T,
) -> Result<T> {
    let first = match project.read_ledger() {
        Ok(mut ledger) => EventPosition { seq: ledger.head()?.seq, index: None },
        Err(_) => EventPosition::default(),
    };
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| -> Result<()> {
            let mut follower = None;
            loop {
                // The order matters: what was recorded before the end is read after it was seen.
                let was_done = is_done.load(Ordering::SeqCst);
                if follower.is_none() {
                    let opened = project.read_ledger().ok();
                    follower = opened.map(|ledger| EventFollower {
                        ledger,
                        position: first,
                        run: Some(run.clone()),
                    });
                }
                let before = follower.as_ref().map(|follower| follower.position);
                for event in follower.as_mut().map(EventFollower::poll).transpose()?.unwrap_or_default() {
                    take(&event)?;
                }
                match before == follower.as_ref().map(|follower| follower.position) {
                    true if was_done => return Ok(()),
                    true => thread::sleep(PAUSE),
                    false => {}
                }
            }
        });
        let result = work();
        is_done.store(true, Ordering::SeqCst);
        follower.join().unwrap_or(Ok(()))?;
        Ok(result)
    })
}
