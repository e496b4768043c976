//! Records receipts and output while a run continues: in the order of their arrival, without secrets.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::Result;

use callsheet_core::delivery::receipt::DeliveryReceipt;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{self, Delivered, Event, Id, OUTPUT_BYTES, Output};
use callsheet_core::secrets::{SecretRedactor, SecretRules};
use callsheet_run::{OutputStream, StopFlag};
use callsheet_store::{Ledger, LedgerError, omission_line};

pub(super) enum RunNote {
    /// Receipt with its evidence.
    Proven(DeliveryReceipt, String),
    /// Line without its line end, or a part of one.
    Text { stream: OutputStream, text: String, goes_on: bool },
    /// Number of bytes that are not kept.
    LeftOut { stream: OutputStream, bytes: u64 },
}

/// Secrets that no record may contain.
#[derive(Clone)]
pub(crate) struct RedactionRules {
    pub(crate) rules: SecretRules,
    /// Values marked as secret, by key.
    pub(crate) values: Vec<(String, String)>,
}

impl RedactionRules {
    pub(crate) fn redactor(&self) -> SecretRedactor<'_> {
        let mut redactor = SecretRedactor::new(&self.rules);
        for (key, value) in &self.values {
            redactor.add_value(key, value);
            // The JSON form of the value, for agents that print JSON.
            let json = serde_json::Value::from(value.as_str()).to_string();
            redactor.add_value(key, &json[1..json.len() - 1]);
        }
        redactor
    }
}

/// Writes notes to the ledger on its own thread, so that the agent does not wait for the disk.
pub(super) struct NoteRecorder {
    send: Option<SyncSender<RunNote>>,
    writer: Option<JoinHandle<(Ledger, NoteWriter)>>,
    proven: Mutex<BTreeSet<DeliveryReceipt>>,
}

/// Delay after which subscribers see a line.
const SOON: Duration = Duration::from_millis(100);

/// Poll interval for the ledger's files.
const LOOK: Duration = Duration::from_secs(1);

/// Most bytes of a line that are kept as evidence.
const MOST_EVIDENCE: usize = 2000;

/// Most bytes of a line that are scanned for secrets as a whole.
pub(super) const MOST_LINE: usize = 4 << 20;

impl NoteRecorder {
    pub(super) fn start(mut ledger: Ledger, run: &Id, clean: RedactionRules, stop: StopFlag) -> Self {
        let (send, receive) = mpsc::sync_channel(256);
        let run = run.clone();
        let writer = thread::spawn(move || {
            let mut writer = NoteWriter::new(run, stop);
            writer.listen(&receive, &mut ledger, &mut clean.redactor());
            (ledger, writer)
        });
        Self { send: Some(send), writer: Some(writer), proven: Mutex::default() }
    }

    pub(super) fn send(&self, note: RunNote) {
        if let (RunNote::Proven(receipt, _), Ok(mut proven)) = (&note, self.proven.lock()) {
            proven.insert(*receipt);
        }
        // If the writer has ended, `finish` returns its error.
        let _ = self.send.as_ref().map(|send| send.send(note));
    }

    pub(super) fn is_proven(&self, receipt: DeliveryReceipt) -> bool {
        self.proven.lock().is_ok_and(|proven| proven.contains(&receipt))
    }

    /// Waits until every note is written.
    pub(super) fn finish(mut self) -> Result<Ledger> {
        drop(self.send.take());
        let joined = self.writer.take().and_then(|writer| writer.join().ok());
        let (ledger, writer) =
            joined.ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "cannot write records"))?;
        match writer.failed {
            Some(error) => Err(error.into()),
            None => Ok(ledger),
        }
    }
}

struct NoteWriter {
    run: Id,
    stop: StopFlag,
    /// Incomplete line of each stream.
    lines: [String; 2],
    /// Whether the rest of a line that is too long is dropped.
    skipping: [bool; 2],
    /// Number of lines of each stream.
    counts: [u64; 2],
    /// Text to write next, in order.
    pending: Vec<(OutputStream, String)>,
    pending_bytes: usize,
    since: Option<Instant>,
    failed: Option<LedgerError>,
}

impl NoteWriter {
    fn new(run: Id, stop: StopFlag) -> Self {
        Self {
            run,
            stop,
            lines: Default::default(),
            counts: [0; 2],
            pending: Vec::new(),
            pending_bytes: 0,
            since: None,
            skipping: [false; 2],
            failed: None,
        }
    }

    fn listen(&mut self, notes: &Receiver<RunNote>, ledger: &mut Ledger, redactor: &mut SecretRedactor<'_>) {
        let mut looked = Instant::now();
        loop {
            let wait = self.since.map_or(LOOK, |since| SOON.saturating_sub(since.elapsed()));
            match notes.recv_timeout(wait) {
                Ok(RunNote::Proven(receipt, evidence)) => {
                    self.flush(ledger);
                    let clean = redactor.redact_text(&evidence);
                    let evidence = clean[..clean.floor_char_boundary(MOST_EVIDENCE)].into();
                    self.append(ledger, &Event::Delivered(Delivered { receipt, evidence }));
                }
                Ok(RunNote::Text { stream, text, goes_on }) => {
                    self.add_text(stream, &text, goes_on, redactor)
                }
                Ok(RunNote::LeftOut { stream, bytes }) => {
                    if !self.lines[stream as usize].is_empty() {
                        self.end_line(stream, redactor);
                    }
                    self.flush(ledger);
                    self.append_omission(ledger, stream, bytes);
                }
                Err(RecvTimeoutError::Timeout) => self.flush(ledger),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let late = self.since.is_some_and(|since| since.elapsed() >= SOON);
            if late || self.pending_bytes >= OUTPUT_BYTES {
                self.flush(ledger);
            }
            if looked.elapsed() >= LOOK {
                self.stop_on_error(ledger.check_files());
                looked = Instant::now();
            }
        }
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            if !self.lines[stream as usize].is_empty() {
                self.end_line(stream, redactor);
            }
        }
        self.flush(ledger);
    }

    /// Adds text to the line of a stream. A line that is too long for the redactor is truncated there, and
    /// [`Output::records`] marks it as cut.
    fn add_text(
        &mut self,
        stream: OutputStream,
        text: &str,
        goes_on: bool,
        redactor: &mut SecretRedactor<'_>,
    ) {
        let at = stream as usize;
        if !self.skipping[at] {
            self.lines[at].push_str(text);
            self.skipping[at] = goes_on && self.lines[at].len() >= MOST_LINE;
            if !goes_on || self.skipping[at] {
                self.end_line(stream, redactor);
            }
        }
        self.skipping[at] &= goes_on;
    }

    fn end_line(&mut self, stream: OutputStream, redactor: &mut SecretRedactor<'_>) {
        let line = std::mem::take(&mut self.lines[stream as usize]);
        let clean = redactor.redact_line(&line);
        self.pending_bytes += clean.len() + 1;
        self.since.get_or_insert_with(Instant::now);
        match self.pending.last_mut() {
            Some((last, text)) if *last == stream => {
                text.push_str(&clean);
                text.push('\n');
            }
            _ => self.pending.push((stream, format!("{clean}\n"))),
        }
    }

    fn flush(&mut self, ledger: &mut Ledger) {
        for (stream, text) in std::mem::take(&mut self.pending) {
            let count = &mut self.counts[stream as usize];
            let first = *count + 1;
            *count += text.matches('\n').count() as u64;
            for output in Output::split_records(log_stream(stream), first, &text) {
                self.append(ledger, &Event::Output(output));
            }
        }
        (self.pending_bytes, self.since) = (0, None);
    }

    fn append_omission(&mut self, ledger: &mut Ledger, stream: OutputStream, bytes: u64) {
        let count = &mut self.counts[stream as usize];
        *count += 1;
        let text = omission_line(bytes).into();
        let output = Output { stream: log_stream(stream), line: *count, text, cut: true };
        self.append(ledger, &Event::Output(output));
    }

    fn append(&mut self, ledger: &mut Ledger, event: &Event) {
        if self.failed.is_none() {
            self.stop_on_error(ledger.append(Some(&self.run), None, event).map(drop));
        }
    }

    /// Stops the agent at the first failure: actions that cannot be recorded must not continue.
    fn stop_on_error(&mut self, done: Result<(), LedgerError>) {
        if let Err(error) = done {
            self.stop.stop();
            self.failed.get_or_insert(error);
        }
    }
}

const fn log_stream(stream: OutputStream) -> record::LogStream {
    match stream {
        OutputStream::Stdout => record::LogStream::Stdout,
        OutputStream::Stderr => record::LogStream::Stderr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that prints JSON escapes the value.
    #[test]
    fn json_escaped_secret_is_redacted() {
        let value = "a \"quoted\" \\ word,\nand \"another\"";
        let rules = SecretRules::load_shipped().unwrap();
        let clean = RedactionRules { rules, values: vec![("deploy".into(), value.into())] };
        let line = serde_json::json!({ "said": value }).to_string();
        assert_eq!(clean.redactor().redact_line(&line), "{\"said\":\"[secret:value:deploy]\"}");
    }
}
