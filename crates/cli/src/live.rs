//! Lines below all output that change during work, on a terminal that a person watches.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use callsheet::text_width::{shorten_end, text_width};
use callsheet_run::terminal_size;

/// Renders the lines for a terminal of this width.
pub(crate) type RenderLines = Box<dyn Fn(usize) -> Vec<String> + Send>;

/// Work shorter than this is not shown.
const PATIENCE: Duration = Duration::from_millis(500);
const BLINK: Duration = Duration::from_millis(100);

/// The size of a terminal that does not report it.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// The lines on the terminal now. Other output replaces them, and they follow below it.
#[derive(Debug, Default)]
pub(crate) struct LiveArea {
    /// The widths of the lines on the terminal.
    drawn: Vec<usize>,
    lines: Vec<String>,
}

impl LiveArea {
    /// Returns the bytes that remove the lines and put the cursor where the first began.
    fn erase(&mut self, width: usize) -> String {
        // A terminal that became narrower wraps what was drawn before.
        let rows: usize = self.drawn.iter().map(|drawn| drawn.div_ceil(width.max(1)).max(1)).sum();
        self.drawn.clear();
        match rows {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }

    /// Returns the bytes that draw the lines, the cursor behind the last.
    fn draw(&mut self, width: usize, height: usize) -> String {
        let most = height.saturating_sub(2).max(1);
        let mut lines: Vec<String> =
            self.lines.iter().map(|line| shorten_end(line, width.saturating_sub(1))).collect();
        if lines.len() > most {
            let more = lines.len() - most + 1;
            lines.truncate(most - 1);
            lines.push(shorten_end(&format!("and {more} more"), width.saturating_sub(1)));
        }
        self.drawn = lines.iter().map(|line| text_width(line)).collect();
        if lines.is_empty() { String::new() } else { format!("\x1b[?7l{}\x1b[?7h", lines.join("\r\n")) }
    }

    /// Writes `text` in the place of the lines, and the lines below it.
    pub(crate) fn write_above(&mut self, text: &str, out: &mut dyn Write) {
        let (width, height) = size();
        let erased = self.erase(width);
        let drawn = self.draw(width, height);
        // If stderr is closed, there is no place left to report it.
        drop(out.write_all(format!("{erased}{text}{drawn}").as_bytes()).and_then(|()| out.flush()));
    }

    fn set_lines(&mut self, lines: Vec<String>, out: &mut dyn Write) {
        let is_new = lines != self.lines;
        self.lines = lines;
        if is_new {
            self.write_above("", out);
        }
    }
}

fn size() -> (usize, usize) {
    terminal_size(&io::stderr()).unwrap_or(USUAL_SIZE)
}

/// Lines that are shown if work takes long, until it is dropped.
#[derive(Debug)]
pub(crate) struct LiveLines {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LiveLines {
    /// Starts to show lines; `None` if they cannot be shown.
    pub(crate) fn start(area: &Arc<Mutex<LiveArea>>, render: RenderLines) -> Option<Self> {
        let (done, end) = mpsc::channel();
        let area = Arc::clone(area);
        let show = move || show_lines(&area, &*render, &end, &mut io::stderr());
        let thread = thread::Builder::new().spawn(show).ok()?;
        Some(Self { done: Some(done), thread: Some(thread) })
    }
}

impl Drop for LiveLines {
    fn drop(&mut self) {
        drop(self.done.take());
        // A panic of the thread is on standard error already.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Shows the lines until the sender of `end` is dropped, then removes them.
fn show_lines(
    area: &Mutex<LiveArea>,
    render: &dyn Fn(usize) -> Vec<String>,
    end: &Receiver<()>,
    out: &mut dyn Write,
) {
    let mut set = |lines| area.lock().unwrap_or_else(PoisonError::into_inner).set_lines(lines, out);
    let mut wait = PATIENCE;
    while matches!(end.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
        set(render(size().0.saturating_sub(1)));
        wait = BLINK;
    }
    set(Vec::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output while `lines` are shown during `time`.
    fn shown_output(lines: &[&str], time: Duration) -> String {
        let (done, end) = mpsc::channel();
        let (area, mut out) = (Mutex::default(), Vec::new());
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(time);
                drop(done);
            });
            show_lines(&area, &|_| lines.clone(), &end, &mut out);
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn slow_work_shows_transient_lines() {
        assert_eq!(shown_output(&["line"], Duration::ZERO), "");
        let one = shown_output(&["line"], PATIENCE + BLINK * 5);
        assert_eq!(one, "\x1b[?7lline\x1b[?7h\r\x1b[J");
        let two = shown_output(&["one", "two"], PATIENCE + BLINK * 5);
        assert_eq!(two, "\x1b[?7lone\r\ntwo\x1b[?7h\r\x1b[1A\x1b[J");
    }

    #[test]
    fn output_stands_above_live_lines() {
        let mut area = LiveArea { drawn: Vec::new(), lines: vec!["a".into(), "b".into()] };
        let mut out = Vec::new();
        area.write_above("", &mut out);
        area.write_above("said\n", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "\x1b[?7la\r\nb\x1b[?7h\r\x1b[1A\x1b[Jsaid\n\x1b[?7la\r\nb\x1b[?7h");
        // Each line took two rows of the narrower terminal.
        area.drawn = vec![60, 60];
        assert_eq!(area.erase(40), "\r\x1b[3A\x1b[J");
    }
}
