//! Runs a process with all its children, until it exits or reaches its deadline.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::server::Request;

/// The result of a process.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The exit code; `None` if a signal ended it, as at the deadline.
    pub code: Option<i32>,
    /// Whether it reached its deadline.
    pub timed_out: bool,
    /// All bytes of its standard output.
    pub stdout: Vec<u8>,
    /// All bytes of its standard error.
    pub stderr: Vec<u8>,
    /// The requests that the mock received in the meantime.
    pub requests: Vec<Request>,
}

impl Ran {
    /// Returns its standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns its standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns the requests that a turn of the script answered.
    pub fn turns(&self) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.answer.starts_with("step ")).collect()
    }
}

/// Runs a command in a process group of its own, and kills the rest of the group before it returns: wrappers
/// leave children behind.
pub(crate) fn run_command(command: &mut Command, input: &[u8], deadline: Duration) -> io::Result<Ran> {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
    let writing = child.stdin.take().map(|mut stdin| {
        let input = input.to_vec();
        // A program that does not read all of its input is not an error.
        thread::spawn(move || drop(stdin.write_all(&input)))
    });
    let stdout = child.stdout.take().map(spawn_reader);
    let stderr = child.stderr.take().map(spawn_reader);
    let status = wait_until(&mut child, deadline);
    // An error is normal: usually the whole group has already exited.
    let _ = kill_process_group(group, Signal::KILL);
    let timed_out = matches!(status, Ok(None));
    let status = child.wait()?;
    drop(writing.map(JoinHandle::join));
    let collect = |reading: Option<JoinHandle<Vec<u8>>>| reading.and_then(|reading| reading.join().ok());
    Ok(Ran {
        code: status.code(),
        timed_out,
        stdout: collect(stdout).unwrap_or_default(),
        stderr: collect(stderr).unwrap_or_default(),
        requests: Vec::new(),
    })
}

fn spawn_reader(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before an error are still output of the program.
        drop(from.read_to_end(&mut bytes));
        bytes
    })
}

fn wait_until(child: &mut Child, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || started.elapsed() > deadline {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::run_command;

    fn shell(script: &str, input: &[u8], deadline_ms: u64) -> super::Ran {
        run_command(Command::new("sh").args(["-c", script]), input, Duration::from_millis(deadline_ms))
            .unwrap()
    }

    /// Checks whether a process is dead: it has no entry, or is a zombie.
    fn is_dead(pid: &str) -> bool {
        let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    }

    #[test]
    fn output_exit_code_and_input() {
        let ran = shell("cat; echo talk >&2; exit 3", b"data", 60_000);
        let said = (ran.code, ran.timed_out, ran.out(), ran.err());
        assert_eq!(said, (Some(3), false, "data".to_owned(), "talk\n".to_owned()));
    }

    #[test]
    fn unread_input_does_not_block() {
        let ran = shell("exit 0", &vec![b'x'; 1 << 20], 60_000);
        assert_eq!((ran.code, ran.timed_out), (Some(0), false));
    }

    #[test]
    fn children_are_killed_with_process() {
        for (end, deadline_ms, code) in [("wait", 300, None), ("exit 0", 60_000, Some(0))] {
            let ran = shell(&format!("sleep 1000 & echo $!; {end}"), b"", deadline_ms);
            assert_eq!((ran.code, ran.timed_out), (code, code.is_none()));
            let pid = ran.out().trim().to_owned();
            while !is_dead(&pid) {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
