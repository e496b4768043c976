//! Runs one git command: it ends in time, with everything that it started, and its output has a limit.
//!
//! A signal ends this process and its git processes. They are in process groups of their own, so a waiting
//! one would otherwise stay behind.

use std::collections::BTreeSet;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::diag::exit::INTERRUPTED;
use rustix::process::kill_process_group;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, exit};

use crate::process::tree::{self, Signal};

/// The time limit of a git command.
pub(super) const MOST_TIME: Duration = Duration::from_secs(60);

/// The time limit of a git command once a person wants this process to end.
const HURRIED: Duration = Duration::from_secs(5);

/// How often a call checks whether a person wants this process to end.
const LOOK: Duration = Duration::from_millis(50);

/// The limit of git's output, in bytes.
const MOST_OUTPUT: u64 = 1 << 30;

/// How often a call checks whether git has ended.
const BLINK: Duration = Duration::from_millis(1);

/// Set by the first signal, for callers that shut down in order.
static TAKEN: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The time of the first signal.
static HURRY: OnceLock<Instant> = OnceLock::new();

/// Set if a call did not end in time after the first signal: then no further call is made.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The git processes that are running.
static GOING_ON: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Takes over the signals that end a process. The first one sets the returned flag and shortens the time
/// limit of git; the second one ends this process and every git at once.
pub fn take_interrupts() -> io::Result<Arc<AtomicBool>> {
    let taken = Arc::clone(TAKEN.get_or_init(Arc::default));
    watch_signals()?;
    Ok(taken)
}

/// Starts the one thread that waits for signals, unless it is running.
fn watch_signals() -> io::Result<()> {
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
                    let _held = kill_all();
                    exit(INTERRUPTED.into());
                }
                None => {
                    let _held = kill_all();
                    let _ = emulate_default_handler(signal);
                }
            }
        }
    })?;
    *watched = true;
    Ok(())
}

/// Ends every git. No other git starts while the returned guard is held.
fn kill_all() -> MutexGuard<'static, BTreeSet<u32>> {
    let going_on = GOING_ON.lock().unwrap_or_else(PoisonError::into_inner);
    for pid in going_on.iter() {
        kill_tree(*pid);
    }
    going_on
}

/// Runs git to its end, or ends it after `limit`.
pub(super) fn run_command(mut command: Command, input: Vec<u8>, limit: Duration) -> io::Result<Output> {
    watch_signals()?;
    if GIVEN_UP.load(Ordering::SeqCst) {
        return Err(io::Error::other("it was interrupted"));
    }
    let begun = Instant::now();
    // A process group of its own, so that filters end with it.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = {
        let mut going_on = GOING_ON.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        going_on.insert(child.id());
        child
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A git that does not read all of its input reports the reason itself.
        thread::spawn(move || stdin.write_all(&input));
    }
    let (stdout, stderr) = (child.stdout.take().map(read_stream), child.stderr.take().map(read_stream));
    let ended = wait_for_output(&mut child, stdout, stderr, &CallDeadline { begun, limit });
    if ended.is_err() {
        kill_tree(child.id());
        let _ = child.kill();
        let _ = child.wait();
    }
    GOING_ON.lock().unwrap_or_else(PoisonError::into_inner).remove(&child.id());
    ended.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            io::Error::new(error.kind(), format!("it did not finish within {} seconds", limit.as_secs_f32()))
        }
        io::ErrorKind::Interrupted => {
            GIVEN_UP.store(true, Ordering::SeqCst);
            io::Error::other("it was interrupted")
        }
        _ => error,
    })
}

/// The start and the time limit of a call.
struct CallDeadline {
    begun: Instant,
    limit: Duration,
}

impl CallDeadline {
    /// Returns how long to wait before the next check, or an error if the time is up.
    fn next_wait(&self) -> io::Result<Duration> {
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

fn wait_for_output(
    child: &mut Child,
    stdout: PipeReceiver,
    stderr: PipeReceiver,
    until: &CallDeadline,
) -> io::Result<Output> {
    let wait_for = |stream: PipeReceiver| {
        let Some(stream) = stream else { return Ok(Vec::new()) };
        loop {
            match stream.recv_timeout(until.next_wait()?) {
                Ok(read) => return read,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    };
    let (stdout, stderr) = (wait_for(stdout)?, wait_for(stderr)?);
    Ok(Output { status: wait_for_status(child, until)?, stdout, stderr })
}

fn wait_for_status(child: &mut Child, until: &CallDeadline) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        until.next_wait()?;
        thread::sleep(BLINK);
    }
}

/// Ends git and everything that it started.
fn kill_tree(raw: u32) {
    if let Ok(pid) = tree::to_pid(raw) {
        tree::signal_below(pid, Signal::KILL);
        // A group that is gone needs no signal.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Reads a stream in a thread, and sends all of it when it ends.
fn read_stream(stream: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stream.take(MOST_OUTPUT + 1).read_to_end(&mut bytes);
        let read = match read {
            Ok(_) if bytes.len() as u64 > MOST_OUTPUT => Err(io::Error::other("it printed more than 1 GiB")),
            Ok(_) => Ok(bytes),
            Err(error) => Err(error),
        };
        // A call that was ended no longer receives.
        let _ = send.send(read);
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell_command(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn hanging_command_tree_is_killed() {
        let mark = format!("callsheet-call-{}", std::process::id());
        for script in [
            format!("sleep 600; : {mark}"),
            format!("sh -c 'sleep 600; : {mark}' & wait; : {mark}"),
            // The shell has ended, and its child holds the pipes.
            format!("sh -c 'sleep 600; : {mark}' &"),
            format!("setsid sh -c 'sleep 600; : {mark}'; : {mark}"),
            format!("exec >&- 2>&-; sleep 600; : {mark}"),
        ] {
            let begun = Instant::now();
            let error =
                run_command(shell_command(&script), Vec::new(), Duration::from_millis(300)).unwrap_err();
            assert_eq!(error.to_string(), "it did not finish within 0.3 seconds", "{script}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{script}");
            let waited = Instant::now();
            while !find_command_lines(&mark).is_empty() {
                assert!(
                    waited.elapsed() < Duration::from_secs(10),
                    "{script}: {:?}",
                    find_command_lines(&mark)
                );
                thread::sleep(BLINK);
            }
        }
    }

    /// Returns the command lines that contain `mark`.
    fn find_command_lines(mark: &str) -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .filter(|line| line.contains(mark))
            .collect()
    }

    #[test]
    fn finished_command_returns_all_output() {
        let output =
            run_command(shell_command("cat; echo err >&2; exit 3"), vec![b'x'; 1 << 20], MOST_TIME).unwrap();
        assert_eq!(
            (output.stdout.len(), output.stderr, output.status.code()),
            (1 << 20, b"err\n".to_vec(), Some(3))
        );
    }
}
