//! The one file that prints. Standard output is data, standard error is talk.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, Severity, is_invisible};
use callsheet_core::secrets::{SecretRules, mask_address_in, mask_addresses};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{ColorMode, GlobalArgs};
use crate::failure::{CommandResult, exit_code};

#[derive(Debug)]
pub(crate) struct OutputPrinter {
    pub(crate) json: bool,
    least: Severity,
    colour_out: bool,
    colour_err: bool,
    /// Whether somebody sees standard error while things go on.
    pub(crate) watched: bool,
    /// Addresses of ledgers, whose passwords no diagnostic shows.
    addresses: Mutex<Vec<String>>,
}

#[derive(Clone, Copy)]
pub(crate) enum TextStyle {
    Bold,
    Dim,
    Red,
    Yellow,
    Green,
    Cyan,
}

impl TextStyle {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "1;31",
            Self::Yellow => "1;33",
            Self::Green => "32",
            Self::Cyan => "36",
        }
    }
}

impl OutputPrinter {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let colour = |terminal: bool| match global.color {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => !set("NO_COLOR") && (set("CLICOLOR_FORCE") || terminal),
        };
        Self {
            json: global.json,
            least: match (global.quiet, global.verbose) {
                (true, _) => Severity::Error,
                (_, true) => Severity::Note,
                _ => Severity::Warning,
            },
            colour_out: colour(io::stdout().is_terminal()),
            colour_err: colour(io::stderr().is_terminal()),
            watched: io::stderr().is_terminal() && !global.quiet && !global.json,
            addresses: Mutex::new(
                global.ledger.iter().cloned().chain(std::env::var("CALLSHEET_LEDGER").ok()).collect(),
            ),
        }
    }

    /// Shows no password of this address from now on.
    pub(crate) fn hide(&self, address: &str) {
        if let Ok(mut addresses) = self.addresses.lock() {
            addresses.push(address.to_owned());
        }
    }

    /// For what goes wrong before the options are known.
    pub(crate) fn plain() -> Self {
        Self {
            json: false,
            least: Severity::Error,
            colour_out: false,
            colour_err: false,
            watched: false,
            addresses: Mutex::default(),
        }
    }

    /// The same where it is known that they ask for JSON.
    pub(crate) fn json() -> Self {
        Self { json: true, ..Self::plain() }
    }

    /// Talk that is a page of its own.
    pub(crate) fn lines<'l>(&self, lines: impl IntoIterator<Item = Cow<'l, str>>) {
        lines.into_iter().for_each(|line| self.err(&line));
    }

    /// Writes exactly these bytes to standard output. A reader that has seen enough is no failure.
    pub(crate) fn data(&self, bytes: &[u8]) -> Result<(), Diagnostics> {
        let mut out = io::stdout().lock();
        output(out.write_all(bytes).and_then(|()| out.flush()))
    }

    /// The same for a text that `make` hands over part by part, for room to make the next one in. While it makes one,
    /// another thread writes the one before; a text of one part needs no other thread.
    pub(crate) fn parts<T>(
        &self,
        make: impl FnOnce(&mut dyn FnMut(String) -> String) -> Result<T, Diagnostics>,
    ) -> Result<T, Diagnostics> {
        let (parts, waiting) = mpsc::sync_channel::<String>(1);
        let (done, written) = mpsc::channel();
        let write = move || {
            let mut out = io::stdout().lock();
            waiting.iter().try_for_each(|part| {
                out.write_all(part.as_bytes())?;
                // Whoever made it may be gone by now.
                let _ = done.send(part);
                Ok(())
            })
        };
        thread::scope(|scope| {
            let mut write = Some(write);
            let (mut writer, mut here) = (None, Ok(()));
            let mut last = String::new();
            let made = make(&mut |part| {
                let part = std::mem::replace(&mut last, part);
                if part.is_empty() {
                    return part;
                }
                if let Some(write) = write.take() {
                    writer = thread::Builder::new().spawn_scoped(scope, write).ok();
                }
                // A writer that has failed takes nothing more, and says so in the end.
                if let Err(SendError(part)) = parts.send(part)
                    && writer.is_none()
                    && here.is_ok()
                {
                    here = self.data(part.as_bytes());
                }
                written.try_recv().unwrap_or_default()
            })?;
            drop(parts);
            here?;
            match writer.map(ScopedJoinHandle::join) {
                Some(Ok(written)) => output(written)?,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => {}
            }
            self.data(last.as_bytes()).map(|()| made)
        })
    }

    /// Standard output for what is too much to be held at once.
    pub(crate) fn writer(&self) -> impl Write {
        io::stdout().lock()
    }

    pub(crate) fn line(&self, line: &str) -> Result<(), Diagnostics> {
        self.data(format!("{line}\n").as_bytes())
    }

    /// A JSON value as data, with a newline behind it.
    pub(crate) fn value(&self, value: &Value) -> CommandResult {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Diagnostic::error(Code::OutputFailed, error.to_string()))?;
        self.line(&without_invisible(text))?;
        Ok(0)
    }

    /// The same for what is too much to be held as text.
    pub(crate) fn long_value(&self, value: &impl Serialize) -> Result<(), Diagnostics> {
        let mut out = VisibleWriter(BufWriter::new(io::stdout().lock()));
        let written = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
        output(written.and_then(|()| out.0.write_all(b"\n")).and_then(|()| out.0.flush()))
    }

    /// A JSON value as one line of a stream; whether somebody still reads.
    pub(crate) fn stream(&self, value: &Value) -> Result<bool, Diagnostics> {
        match message(without_invisible(value.to_string()).as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                Err(Diagnostic::error(Code::OutputFailed, format!("standard output: {error}")).into())
            }
        }
    }

    /// Talk that is no diagnostic: what was done.
    pub(crate) fn say(&self, line: &str) {
        if self.least < Severity::Error && !self.json {
            self.err(line);
        }
    }

    /// Whether somebody wants to hear more.
    pub(crate) fn is_verbose(&self) -> bool {
        self.least <= Severity::Note && !self.json
    }

    /// Talk for those who want to hear more.
    pub(crate) fn note(&self, line: &str) {
        if self.least <= Severity::Note {
            self.say(line);
        }
    }

    pub(crate) fn talk<'d>(&self, diags: impl IntoIterator<Item = &'d Diagnostic>) {
        for diag in diags {
            if diag.severity >= self.least && !self.json {
                self.err(&self.diag(diag, self.colour_err));
            }
        }
    }

    /// Talk about a prompt that passed the gate against secrets, which has masked it already.
    pub(crate) fn print_masked_diagnostics(&self, diags: &[Diagnostic]) {
        for diag in diags.iter().filter(|diag| diag.severity >= self.least && !self.json) {
            self.err(&coloured(diag, self.colour_err));
        }
    }

    pub(crate) fn failure(&self, failure: &Diagnostics) -> u8 {
        if self.json {
            let mut object = failure.0.first().map_or_else(|| json!({}), diag_json);
            object["all"] = failure.0.iter().map(diag_json).collect();
            self.err(&without_invisible(object.to_string()));
        } else {
            for diag in &failure.0 {
                self.err(&self.diag(diag, self.colour_err));
            }
        }
        exit_code(failure)
    }

    /// Does `work`. If that takes long, somebody who watches sees `line` until it is done.
    pub(crate) fn run_with_progress<T>(
        &self,
        line: impl Fn() -> String + Sync,
        work: impl FnOnce() -> T,
    ) -> T {
        if !self.watched {
            return work();
        }
        let (done, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            // Without a thread to spare there is nothing to see, and no harm done.
            let line = &line;
            let watch = move || watch(line, &end, &mut io::stderr());
            let _ = thread::Builder::new().spawn_scoped(scope, watch);
            let result = work();
            drop(done);
            result
        })
    }

    /// Nobody is left to tell when standard error is gone.
    fn err(&self, line: &str) {
        let addresses = self.addresses.lock().map(|addresses| addresses.clone()).unwrap_or_default();
        let line =
            addresses.iter().fold(mask_addresses(line), |line, address| mask_address_in(&line, address));
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    pub(crate) fn diag(&self, diag: &Diagnostic, colour: bool) -> String {
        coloured(&masked(diag), colour)
    }

    pub(crate) fn diag_for_stdout(&self, diag: &Diagnostic) -> String {
        self.diag(diag, self.colour_out)
    }

    /// `text` for standard output, in colour where that is wanted.
    pub(crate) fn paint<'t>(&self, paint: TextStyle, text: &'t str) -> Cow<'t, str> {
        if self.colour_out { painted(paint, text).into() } else { text.into() }
    }
}

/// Writes one message of a protocol, which owns standard output for as long as it lasts.
pub(crate) fn message(json: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(json)?;
    out.write_all(b"\n")?;
    out.flush()
}

const PATIENCE: Duration = Duration::from_millis(500);
const BLINK: Duration = Duration::from_millis(100);

/// Writes `line` again and again until the other side of `end` is gone, and leaves nothing behind.
fn watch(line: &dyn Fn() -> String, end: &Receiver<()>, out: &mut dyn Write) {
    let goes_on = |time| matches!(end.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    if !goes_on(PATIENCE) {
        return;
    }
    // A line that goes on in the next row could not be taken back, so it is cut off at the edge. Nobody is left to tell
    // when standard error is gone.
    let mut show = |text: &str| drop(out.write_all(format!("\r\x1b[K\x1b[?7l{text}\x1b[?7h").as_bytes()));
    show(&line());
    while goes_on(BLINK) {
        show(&line());
    }
    show("");
}

fn painted(paint: TextStyle, text: &str) -> String {
    format!("\x1b[{}m{text}\x1b[0m", paint.code())
}

/// Writes JSON [without invisible characters](without_invisible). Each write is UTF-8, as `serde_json` writes it.
struct VisibleWriter<W>(W);

impl<W: Write> Write for VisibleWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
            return self.0.write_all(bytes).map(|()| bytes.len());
        }
        let mut json = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        while !json.is_empty() {
            let (piece, rest) = json.split_at(json.floor_char_boundary(64 << 10));
            self.0.write_all(without_invisible(piece.to_owned()).as_bytes())?;
            json = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// JSON on a terminal is read by people too: what they cannot see is escaped as JSON allows, so that a program
/// reads the same. Outside of strings there is nothing of the kind but line ends.
fn without_invisible(json: String) -> String {
    let hidden = |c: char| is_invisible(c) && c != '\n';
    if !json.contains(hidden) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hidden(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn coloured(diag: &Diagnostic, colour: bool) -> String {
    let text = diag.to_string();
    if !colour {
        return text;
    }
    let paint = match diag.severity {
        Severity::Error => TextStyle::Red,
        Severity::Warning => TextStyle::Yellow,
        Severity::Note => TextStyle::Cyan,
    };
    let (head, rest) = text.split_once(']').unwrap_or((&text, ""));
    format!("{}]{rest}", painted(paint, head))
}

/// What becomes of writing to standard output.
fn output(written: io::Result<()>) -> Result<(), Diagnostics> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(Code::OutputFailed, format!("standard output: {error}")).into())
        }
        _ => Ok(()),
    }
}

thread_local! {
    /// Rules for what is said where a command knows none: they are read when there is something to say.
    static SHIPPED: Option<SecretRules> = SecretRules::shipped().ok();
}

/// The diagnostic with no secret in it, whatever text it is about.
pub(crate) fn masked(diag: &Diagnostic) -> Diagnostic {
    SHIPPED.with(|rules| match rules {
        Some(rules) => rules.mask_diagnostic(diag.clone()),
        None => diag.clone(),
    })
}

/// A diagnostic as JSON: `places` are where it is and where was looked, in this order.
pub(crate) fn diag_json(diag: &Diagnostic) -> Value {
    let diag = masked(diag);
    let place = diag.place.as_ref().map(|place| {
        let (line, column) = place.line_column();
        format!("{}:{line}:{column}", place.name)
    });
    let places: Vec<String> = place.into_iter().chain(diag.looked.iter().cloned()).collect();
    let mut object = json!({
        "code": diag.code.as_str(),
        "severity": diag.severity.name(),
        "message": diag.message,
        "places": places,
        "hint": diag.hints.join("; "),
    });
    if diag.more > 0 {
        object["more"] = diag.more.into();
    }
    object
}

/// A text of several lines as one.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written while something takes `time`.
    fn shown(time: Duration) -> String {
        let (done, end) = mpsc::channel();
        let mut out = Vec::new();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(time);
                drop(done);
            });
            watch(&|| "line".into(), &end, &mut out);
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_shown_where_something_takes_long_and_is_gone_after_it() {
        assert_eq!(shown(Duration::ZERO), "");
        let long = shown(PATIENCE + BLINK * 5);
        let lines = long.strip_suffix("\r\x1b[K\x1b[?7l\x1b[?7h").unwrap();
        assert_eq!(lines, "\r\x1b[K\x1b[?7lline\x1b[?7h".repeat(lines.matches("line").count()));
        assert_ne!(lines, "");
    }
}
