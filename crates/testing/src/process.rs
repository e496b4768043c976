//! Runs commands to their end, within a limit.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a command that cannot be run fails the test")]

use std::io::{self, Read, Write as _};
use std::ops::Deref;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::documents::check_documents;
use crate::mcp_session::{McpAnswer, check_answers};
use crate::output::CommandOutput;
use crate::server::Request;

/// No command may wait forever. Far above the needs of a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// Runs a command without input to its end.
///
/// # Panics
///
/// If it does not end within the limit, or prints anything but UTF-8.
pub fn run_command(command: &mut Command) -> CommandOutput {
    run_for_bytes(command).expect_text()
}

/// Runs a command without input that may print anything to its end.
///
/// # Panics
///
/// If it does not end within the limit.
pub fn run_for_bytes(command: &mut Command) -> CommandOutput {
    let output = collect_output(spawn_piped(command, Stdio::null()).unwrap());
    check_documents(command, &output);
    output
}

/// Runs a command with this standard input to its end.
///
/// # Panics
///
/// If it does not end within the limit, or prints anything but UTF-8.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> CommandOutput {
    let mut child = spawn_piped(command, Stdio::piped()).unwrap();
    spawn_writer(&mut child, input);
    let output = wait_for_end(child);
    check_documents(command, &output);
    check_answers(command, input, &output);
    output
}

/// Waits for the end of a started command, and for the end of its streams.
///
/// # Panics
///
/// If it does not end within the limit, or prints anything but UTF-8.
pub fn wait_for_end(child: Child) -> CommandOutput {
    collect_output(child).expect_text()
}

fn collect_output(mut child: Child) -> CommandOutput {
    let started = Instant::now();
    let (stdout, stderr) = (spawn_reader(child.stdout.take()), spawn_reader(child.stderr.take()));
    let left = || TIME_LIMIT.saturating_sub(started.elapsed());
    let streams = (stdout.recv_timeout(left()), stderr.recv_timeout(left()));
    let status = wait_within(&mut child, left()).unwrap();
    let (Some(status), (Ok(stdout), Ok(stderr))) = (status, streams) else {
        let _ = child.kill();
        panic!("process {} does not end, or another one holds its streams", child.id());
    };
    CommandOutput { code: status.code(), stdout, stderr, took: started.elapsed() }
}

/// Waits until the condition holds.
///
/// # Panics
///
/// If it does not hold within the limit.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < TIME_LIMIT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The result of a CLI in a [`Room`](crate::Room).
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code and output.
    pub output: CommandOutput,
    /// Whether it reached its deadline.
    pub timed_out: bool,
    /// The requests that the mock received in the meantime.
    pub requests: Vec<Request>,
    /// The answers of callsheet's MCP server, which fit their revisions.
    pub answers: Vec<McpAnswer>,
}

impl Deref for Ran {
    type Target = CommandOutput;

    fn deref(&self) -> &CommandOutput {
        &self.output
    }
}

impl Ran {
    /// Returns the requests that a turn of the script answered.
    pub fn turns(&self) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.answer.starts_with("step ")).collect()
    }
}

/// Runs a command in a process group of its own, and kills the rest of the group before it returns: wrappers
/// leave children behind.
pub(crate) fn run_in_group(command: &mut Command, input: &[u8], deadline: Duration) -> io::Result<Ran> {
    let started = Instant::now();
    let mut child = spawn_piped(command.process_group(0), Stdio::piped())?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
    spawn_writer(&mut child, input);
    let (stdout, stderr) = (spawn_reader(child.stdout.take()), spawn_reader(child.stderr.take()));
    let status = wait_within(&mut child, deadline);
    // An error is normal: usually the whole group has already exited.
    let _ = kill_process_group(group, Signal::KILL);
    let timed_out = matches!(status, Ok(None));
    let code = child.wait()?.code();
    let (stdout, stderr) = (stdout.recv().unwrap_or_default(), stderr.recv().unwrap_or_default());
    let output = CommandOutput { code, stdout, stderr, took: started.elapsed() };
    Ok(Ran { output, timed_out, requests: Vec::new(), answers: Vec::new() })
}

fn spawn_piped(command: &mut Command, stdin: Stdio) -> io::Result<Child> {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Writes the input in a thread. A program that does not read all of it is not an error.
fn spawn_writer(child: &mut Child, input: &[u8]) {
    let (stdin, input) = (child.stdin.take(), input.to_vec());
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
}

/// Reads a stream in a thread and sends all its bytes when it ends.
fn spawn_reader(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before an error are still output of the program.
        drop(from.map(|mut from| from.read_to_end(&mut bytes)));
        // The receiver is gone if the program was killed.
        drop(send.send(bytes));
    });
    receive
}

fn wait_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || started.elapsed() > limit {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn shell(script: &str, input: &[u8], deadline_ms: u64) -> Ran {
        run_in_group(Command::new("sh").args(["-c", script]), input, Duration::from_millis(deadline_ms))
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
        let output = (ran.code, ran.timed_out, ran.out(), ran.err());
        assert_eq!(output, (Some(3), false, "data".to_owned(), "talk\n".to_owned()));
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
