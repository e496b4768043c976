//! Prints all output of callsheet. Data goes to stdout; diagnostics go to stderr.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use callsheet_core::diag::{Code, Diagnostic, Severity, is_invisible};
use callsheet_core::secrets::{mask_address_in, mask_addresses};
use serde::Serialize;

use callsheet::diagnostics::mask_diagnostic;
use callsheet::output::{DocumentOutput, ErrorOutput, to_document, to_line};

use crate::args::{ColorMode, GlobalArgs};
use crate::live::LiveArea;
use callsheet::error::{CommandResult, Error, Result};

#[derive(Debug)]
pub(crate) struct OutputPrinter {
    pub(crate) json: bool,
    least: Severity,
    colour_out: bool,
    colour_err: bool,
    /// Columns of the terminal at stdout; `None` without a terminal.
    width: Option<usize>,
    /// Whether a person watches stderr during the work.
    pub(crate) watched: bool,
    /// Lines below the output that change during work.
    pub(crate) live: Arc<Mutex<LiveArea>>,
    /// Ledger addresses, whose passwords no diagnostic shows.
    addresses: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
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
            width: io::stdout().is_terminal().then(terminal_width).flatten(),
            watched: io::stderr().is_terminal() && !global.quiet && !global.json,
            live: Arc::default(),
            addresses: Mutex::new(
                global.ledger.iter().cloned().chain(std::env::var("CALLSHEET_LEDGER").ok()).collect(),
            ),
        }
    }

    /// Returns the columns of the terminal that a page has to fit; `None` without a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Masks the password of this address from now on.
    pub(crate) fn add_hidden_address(&self, address: &str) {
        if let Ok(mut addresses) = self.addresses.lock() {
            addresses.push(address.to_owned());
        }
    }

    /// Returns a printer for errors before the options are known.
    pub(crate) fn plain() -> Self {
        Self {
            json: false,
            least: Severity::Error,
            colour_out: false,
            colour_err: false,
            width: None,
            watched: false,
            live: Arc::default(),
            addresses: Mutex::default(),
        }
    }

    /// Returns a printer for errors before the options are known, but with JSON output.
    pub(crate) fn json() -> Self {
        Self { json: true, ..Self::plain() }
    }

    /// Prints a whole page to stderr.
    pub(crate) fn print_lines<'l>(&self, lines: impl IntoIterator<Item = Cow<'l, str>>) {
        lines.into_iter().for_each(|line| self.write_stderr(&line));
    }

    /// Writes exactly these bytes to stdout. A reader that closes the pipe early is not a failure.
    pub(crate) fn write_data(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        check_write(out.write_all(bytes).and_then(|()| out.flush()))
    }

    /// Returns stdout for data that is too large to hold at once.
    pub(crate) fn stdout_writer(&self) -> impl Write {
        PipeTolerantWriter(io::stdout().lock())
    }

    /// Prints an output for programs, or a page for people. Only the printed one is built.
    pub(crate) fn print_output<T: DocumentOutput>(
        &self,
        output: impl FnOnce() -> T,
        page: impl FnOnce() -> String,
    ) -> CommandResult {
        if self.json { self.print_json(&output()) } else { self.print_page(&page()) }
    }

    /// Prints an output for programs.
    pub(crate) fn print_json<T: DocumentOutput>(&self, output: &T) -> CommandResult {
        self.print_value(&to_document(output))
    }

    /// Prints JSON and a newline: indented at a terminal, else as one line.
    pub(crate) fn print_value(&self, value: &impl Serialize) -> CommandResult {
        let stdout = io::stdout().lock();
        let is_indented = stdout.is_terminal();
        let mut out = VisibleWriter(BufWriter::new(stdout));
        let written = match is_indented {
            true => serde_json::to_writer_pretty(&mut out, value),
            false => serde_json::to_writer(&mut out, value),
        };
        let written = written.map_err(io::Error::from);
        check_write(written.and_then(|()| out.0.write_all(b"\n")).and_then(|()| out.0.flush()))?;
        Ok(0)
    }

    /// Prints a page as data, exactly as it is.
    pub(crate) fn print_page(&self, page: &str) -> CommandResult {
        self.write_data(page.as_bytes())?;
        Ok(0)
    }

    /// Prints an output as one line of a stream. Returns whether the reader is still there.
    pub(crate) fn print_stream_line<T: DocumentOutput>(&self, output: &T) -> Result<bool> {
        match write_message(escape_invisible(to_line(output)).as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                Err(Diagnostic::error(Code::OutputFailed, format!("standard output: {error}")).into())
            }
        }
    }

    /// Prints lines of a stream for people. Returns whether the reader is still there.
    pub(crate) fn print_text_lines(&self, lines: &[String]) -> Result<bool> {
        for line in lines {
            match write_message(line.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                written => check_write(written)?,
            }
        }
        Ok(true)
    }

    /// Prints a status line, which is not a diagnostic, to stderr.
    pub(crate) fn print_status(&self, line: &str) {
        if self.least < Severity::Error && !self.json {
            self.write_stderr(line);
        }
    }

    /// Returns whether the user asked for nothing but errors.
    pub(crate) fn is_quiet(&self) -> bool {
        self.least >= Severity::Error
    }

    /// Returns whether the user asked for verbose output.
    pub(crate) fn is_verbose(&self) -> bool {
        self.least <= Severity::Note && !self.json
    }

    /// Prints a line in verbose mode only.
    pub(crate) fn print_note(&self, line: &str) {
        if self.least <= Severity::Note {
            self.print_status(line);
        }
    }

    pub(crate) fn print_diagnostics<'d>(&self, diags: impl IntoIterator<Item = &'d Diagnostic>) {
        for diag in diags {
            if diag.severity >= self.least && !self.json {
                self.write_stderr(&self.render_diagnostic(diag, self.colour_err));
            }
        }
    }

    /// Prints the diagnostics of a prompt that passed the gate, which has masked their secrets already.
    pub(crate) fn print_masked_diagnostics(&self, diags: &[Diagnostic]) {
        for diag in diags.iter().filter(|diag| diag.severity >= self.least && !self.json) {
            self.write_stderr(&color_diagnostic(diag, self.colour_err));
        }
    }

    pub(crate) fn print_failure(&self, failure: &Error) -> u8 {
        if self.json {
            self.write_stderr(&escape_invisible(to_line(&ErrorOutput::from(failure))));
        } else {
            for diag in failure.diagnostics() {
                self.write_stderr(&self.render_diagnostic(diag, self.colour_err));
            }
        }
        failure.exit_code()
    }

    /// Prints a line to stderr. If stderr is closed, there is no place left to report it.
    fn write_stderr(&self, line: &str) {
        let addresses = self.addresses.lock().map(|addresses| addresses.clone()).unwrap_or_default();
        let line =
            addresses.iter().fold(mask_addresses(line), |line, address| mask_address_in(&line, address));
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.write_above(&format!("{line}\n"), &mut io::stderr().lock());
    }

    /// Returns whether lines that change can be shown.
    pub(crate) fn can_show_lines(&self) -> bool {
        self.watched && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
    }

    /// Rings the bell of the terminal that a person watches.
    pub(crate) fn ring_terminal_bell(&self) {
        if self.watched {
            // If stderr is closed, there is no place left to report it.
            drop(io::stderr().lock().write_all(b"\x07"));
        }
    }

    pub(crate) fn render_diagnostic(&self, diag: &Diagnostic, colour: bool) -> String {
        color_diagnostic(&mask_diagnostic(diag), colour)
    }

    pub(crate) fn render_for_stdout(&self, diag: &Diagnostic) -> String {
        self.render_diagnostic(diag, self.colour_out)
    }

    /// Styles `text` for stdout if colour is enabled.
    pub(crate) fn paint<'t>(&self, paint: TextStyle, text: &'t str) -> Cow<'t, str> {
        if self.colour_out { paint_text(paint, text).into() } else { text.into() }
    }
}

/// Returns the columns of the terminal: COLUMNS if it is a number, else those that the terminal reports.
fn terminal_width() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let reported = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    set.or_else(reported).filter(|width| *width > 0)
}

/// Writes one message of a protocol, which owns stdout while it runs.
pub(crate) fn write_message(json: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(json)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn paint_text(paint: TextStyle, text: &str) -> String {
    format!("\x1b[{}m{text}\x1b[0m", paint.code())
}

/// Writes JSON [without invisible characters](without_invisible). Each write is UTF-8, as `serde_json` writes
/// it.
struct VisibleWriter<W>(W);

impl<W: Write> Write for VisibleWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
            return self.0.write_all(bytes).map(|()| bytes.len());
        }
        let mut json = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        while !json.is_empty() {
            let (piece, rest) = json.split_at(json.floor_char_boundary(64 << 10));
            self.0.write_all(escape_invisible(piece.to_owned()).as_bytes())?;
            json = rest;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escapes invisible characters as JSON allows, because people read JSON on a terminal too. Programs read the
/// same value. Outside strings, line ends are the only such characters.
fn escape_invisible(json: String) -> String {
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

fn color_diagnostic(diag: &Diagnostic, colour: bool) -> String {
    let text = diag.to_string();
    if !colour {
        return text;
    }
    let paint = match diag.severity {
        Severity::Error => TextStyle::Red,
        Severity::Warning => TextStyle::Yellow,
        Severity::Note => TextStyle::Cyan,
    };
    let (head, rest) = text.split_at(text.find(']').map_or(0, |at| at + 1));
    format!("{}{rest}", paint_text(paint, head))
}

/// Standard output, whose reader may stop early: a broken pipe is not an error.
struct PipeTolerantWriter<W>(W);

impl<W: Write> Write for PipeTolerantWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        tolerate_broken_pipe(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        tolerate_broken_pipe(self.0.flush(), ())
    }
}

fn tolerate_broken_pipe<T>(done: io::Result<T>, all: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(all),
        Err(error) => Err(io::Error::new(error.kind(), format!("standard output: {error}"))),
        done => done,
    }
}

/// Converts the result of a write to stdout. A closed pipe is not an error.
fn check_write(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(Code::OutputFailed, format!("standard output: {error}")).into())
        }
        _ => Ok(()),
    }
}
