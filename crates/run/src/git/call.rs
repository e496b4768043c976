//! One call of git: it ends in time, with all that it started, and what it prints has a limit.
//!
//! A signal ends this process with its calls of git. They are in process groups of their own: one that waits would stay behind.

use std::collections::BTreeSet;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::kill_process_group;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, exit};

use crate::tree::{self, Signal};

/// How long git may take.
pub(super) const MOST_TIME: Duration = Duration::from_secs(60);

/// How long git may take once a person wants this process to end.
const HURRIED: Duration = Duration::from_secs(5);

/// How often a call looks whether a person wants that.
const LOOK: Duration = Duration::from_millis(50);

/// The exit code of a process that was interrupted twice.
const INTERRUPTED: i32 = 130;

/// How much git may print.
const MOST_OUTPUT: u64 = 1 << 30;

/// How often a call looks whether git has ended.
const BLINK: Duration = Duration::from_millis(1);

/// Set by the first signal, for who ends in order.
static TAKEN: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// When the first signal came.
static HURRY: OnceLock<Instant> = OnceLock::new();

/// A call did not end in time after it: no other one is made.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The processes of git that are going on.
static GOING_ON: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Takes the signals that end a process. The first one sets the flag that is given, and git has little time from then on; the
/// second one ends this process and every git at once.
pub fn take_interrupts() -> io::Result<Arc<AtomicBool>> {
    let taken = Arc::clone(TAKEN.get_or_init(Arc::default));
    watch()?;
    Ok(taken)
}

/// Waits for signals, in one thread for all.
fn watch() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if *watched {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match TAKEN.get() {
                Some(taken) if !taken.swap(true, Ordering::SeqCst) => {
                    let _ = HURRY.set(Instant::now());
                }
                Some(_) => {
                    let _held = end_all();
                    exit(INTERRUPTED);
                }
                None => {
                    let _held = end_all();
                    let _ = emulate_default_handler(signal);
                }
            }
        }
    })?;
    *watched = true;
    Ok(())
}

/// Ends every git. No other one begins as long as the answer is held.
fn end_all() -> MutexGuard<'static, BTreeSet<u32>> {
    let going_on = GOING_ON.lock().unwrap_or_else(PoisonError::into_inner);
    for pid in going_on.iter() {
        end_tree(*pid);
    }
    going_on
}

/// Runs git to its end, or ends it after `limit`.
pub(super) fn call(mut command: Command, input: Vec<u8>, limit: Duration) -> io::Result<Output> {
    watch()?;
    if GIVEN_UP.load(Ordering::SeqCst) {
        return Err(io::Error::other("it was interrupted"));
    }
    let begun = Instant::now();
    // In a group of its own, so that filters end with it.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = {
        let mut going_on = GOING_ON.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        going_on.insert(child.id());
        child
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A git that does not read all of it says why itself.
        thread::spawn(move || stdin.write_all(&input));
    }
    let (stdout, stderr) = (child.stdout.take().map(whole), child.stderr.take().map(whole));
    let ended = answer(&mut child, stdout, stderr, &CallDeadline { begun, limit });
    if ended.is_err() {
        end(&mut child);
    }
    GOING_ON.lock().unwrap_or_else(PoisonError::into_inner).remove(&child.id());
    ended.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            io::Error::new(error.kind(), format!("it did not end within {} seconds", limit.as_secs_f32()))
        }
        io::ErrorKind::Interrupted => {
            GIVEN_UP.store(true, Ordering::SeqCst);
            io::Error::other("it was interrupted")
        }
        _ => error,
    })
}

/// How long a call may go on.
struct CallDeadline {
    begun: Instant,
    limit: Duration,
}

impl CallDeadline {
    /// How long to wait before the next question, or why not.
    fn wait(&self) -> io::Result<Duration> {
        if self.begun.elapsed() >= self.limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if HURRY.get().is_some_and(|hurry| self.begun.max(*hurry).elapsed() >= HURRIED) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(self.limit.saturating_sub(self.begun.elapsed()).min(LOOK))
    }
}

type PipeReceiver = Option<Receiver<io::Result<Vec<u8>>>>;

fn answer(
    child: &mut Child,
    stdout: PipeReceiver,
    stderr: PipeReceiver,
    until: &CallDeadline,
) -> io::Result<Output> {
    let wait_for = |stream: PipeReceiver| {
        let Some(stream) = stream else { return Ok(Vec::new()) };
        loop {
            match stream.recv_timeout(until.wait()?) {
                Ok(read) => return read,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    };
    let (stdout, stderr) = (wait_for(stdout)?, wait_for(stderr)?);
    Ok(Output { status: status(child, until)?, stdout, stderr })
}

fn status(child: &mut Child, until: &CallDeadline) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        until.wait()?;
        thread::sleep(BLINK);
    }
}

/// Ends git and everything that it started.
fn end(child: &mut Child) {
    end_tree(child.id());
    let _ = child.kill();
    let _ = child.wait();
}

fn end_tree(raw: u32) {
    if let Ok(pid) = tree::pid(raw) {
        tree::signal_below(pid, Signal::KILL);
        // One that is gone needs no end.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// All of a stream, as soon as it ends.
fn whole(stream: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stream.take(MOST_OUTPUT + 1).read_to_end(&mut bytes);
        let read = match read {
            Ok(_) if bytes.len() as u64 > MOST_OUTPUT => Err(io::Error::other("it printed more than 1 GiB")),
            Ok(_) => Ok(bytes),
            Err(error) => Err(error),
        };
        // A call that was ended waits for nothing.
        let _ = send.send(read);
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_does_not_end_is_ended_with_all_that_it_started() {
        let mark = format!("callsheet-call-{}", std::process::id());
        for script in [
            format!("sleep 600; : {mark}"),
            format!("sh -c 'sleep 600; : {mark}' & wait; : {mark}"),
            // It has ended, and something of it holds the pipes.
            format!("sh -c 'sleep 600; : {mark}' &"),
            format!("setsid sh -c 'sleep 600; : {mark}'; : {mark}"),
            format!("exec >&- 2>&-; sleep 600; : {mark}"),
        ] {
            let begun = Instant::now();
            let error = call(sh(&script), Vec::new(), Duration::from_millis(300)).unwrap_err();
            assert_eq!(error.to_string(), "it did not end within 0.3 seconds", "{script}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{script}");
            let waited = Instant::now();
            while !processes(&mark).is_empty() {
                assert!(waited.elapsed() < Duration::from_secs(10), "{script}: {:?}", processes(&mark));
                thread::sleep(BLINK);
            }
        }
    }

    /// Processes that have `mark` in their command line.
    fn processes(mark: &str) -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .filter(|line| line.contains(mark))
            .collect()
    }

    #[test]
    fn what_ends_is_whole() {
        let output = call(sh("cat; echo err >&2; exit 3"), vec![b'x'; 1 << 20], MOST_TIME).unwrap();
        assert_eq!(
            (output.stdout.len(), output.stderr, output.status.code()),
            (1 << 20, b"err\n".to_vec(), Some(3))
        );
    }
}
