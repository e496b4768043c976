//! One call of git: it ends in time, with all that it started, and what it prints has a limit.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::kill_process_group;

use crate::tree::{self, Signal};

/// How long git may take.
pub(super) const MOST_TIME: Duration = Duration::from_secs(60);

/// How much git may print.
const MOST_OUTPUT: u64 = 1 << 30;

/// How often a call looks whether git has ended.
const BLINK: Duration = Duration::from_millis(1);

/// Runs git to its end, or ends it after `limit`.
pub(super) fn call(mut command: Command, input: Vec<u8>, limit: Duration) -> io::Result<Output> {
    let until = Instant::now() + limit;
    // In a group of its own, so that filters end with it.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A git that does not read all of it says why itself.
        thread::spawn(move || stdin.write_all(&input));
    }
    let (stdout, stderr) = (child.stdout.take().map(whole), child.stderr.take().map(whole));
    let ended = answer(&mut child, stdout, stderr, until);
    if ended.is_err() {
        end(&mut child);
    }
    ended.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => {
            io::Error::new(error.kind(), format!("it did not end within {} seconds", limit.as_secs_f32()))
        }
        _ => error,
    })
}

type Stream = Option<Receiver<io::Result<Vec<u8>>>>;

fn answer(child: &mut Child, stdout: Stream, stderr: Stream, until: Instant) -> io::Result<Output> {
    let wait_for = |stream: Stream| {
        let Some(stream) = stream else { return Ok(Vec::new()) };
        let left = until.saturating_duration_since(Instant::now());
        stream.recv_timeout(left).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    };
    let (stdout, stderr) = (wait_for(stdout)?, wait_for(stderr)?);
    Ok(Output { status: status(child, until)?, stdout, stderr })
}

fn status(child: &mut Child, until: Instant) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(BLINK);
    }
}

/// Ends git and everything that it started.
fn end(child: &mut Child) {
    if let Ok(pid) = tree::pid(child.id()) {
        tree::signal_below(pid, Signal::KILL);
        // One that is gone needs no end.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
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
