//! The guard: a process between us and an agent, so that nothing of the agent outlives the run.
//!
//! It is the same program, started again. It adopts whatever the agent leaves behind (on Linux, where a process can be a
//! subreaper), ends all of it when the agent ends, when it is told to, and when whoever started it is gone. Elsewhere it
//! ends the agent's process group, and what left that group is not found.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{ancestry, tree};

/// The first argument that makes a guard of the program.
pub const GUARD: &str = "__guard";

/// How often it looks whether something is still there.
const BLINK: Duration = Duration::from_millis(20);

/// What the guard is told, as a line of JSON; the agent's standard input follows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) stdin_bytes: u64,
    pub(crate) grace_ms: u64,
}

/// What the guard tells, each as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum News {
    Started { pid: u32 },
    Failed { why: String, missing: bool },
    Ended { code: Option<i32>, signal: Option<i32> },
}

/// The main function of a guard. The exit code matters to nobody.
pub fn guard() -> u8 {
    match watch_over() {
        Ok(()) => 0,
        Err(_) => 70,
    }
}

fn watch_over() -> io::Result<()> {
    // Without a terminal nothing below can be stopped by reading from one, and no key reaches it.
    let _ = rustix::process::setsid();
    tree::adopt_orphans()?;
    ancestry::mark();
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut orders = BufReader::new(control.try_clone()?);
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line).map_err(io::Error::other)?;
    let mut input = Vec::new();
    orders.by_ref().take(order.stdin_bytes).read_to_end(&mut input)?;
    if input.len() as u64 != order.stdin_bytes {
        // Half a prompt is none.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let told = listen(orders);
    let mut agent = match start(&order) {
        Ok(agent) => agent,
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            return tell(&mut control, &News::Failed { why: error.to_string(), missing });
        }
    };
    // From here on nothing may fail before the agent is gone: who does not hear this is noticed below.
    let _ = tell(&mut control, &News::Started { pid: agent.id() });
    if let Some(stdin) = agent.stdin.take() {
        thread::spawn(move || feed(stdin, &input));
    }
    let grace = Duration::from_millis(order.grace_ms);
    let ended = wait(&mut agent, &told, grace).and_then(|status| {
        let (code, signal) = (status.code(), status.signal());
        tell(&mut control, &News::Ended { code, signal })
    });
    tree::end(&told_to_hurry(&told, ended.is_err()), grace);
    // Where nothing can be found below us, the group is what is left; where it can, there is nobody in it.
    tree::signal_all(tree::pid(agent.id())?, tree::Signal::KILL);
    Ok(())
}

fn start(order: &Order) -> io::Result<Child> {
    let (program, args) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(args)
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&order.cwd)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// A program that does not read all of its input is no error of ours.
fn feed(mut stdin: ChildStdin, input: &[u8]) {
    let _ = stdin.write_all(input);
}

fn tell(control: &mut UnixStream, news: &News) -> io::Result<()> {
    let line = serde_json::to_string(news).map_err(io::Error::other)?;
    control.write_all(format!("{line}\n").as_bytes())
}

enum Told {
    Stop,
    /// Whoever could tell something is gone.
    Alone,
}

fn listen(mut orders: BufReader<UnixStream>) -> Receiver<Told> {
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut byte = [0];
        // A receiver that is gone has no use for it.
        while orders.read(&mut byte).is_ok_and(|read| read == 1) {
            let _ = told.send(Told::Stop);
        }
        let _ = told.send(Told::Alone);
    });
    heard
}

/// Waits for the agent's end; ends it when that is asked for.
fn wait(agent: &mut Child, told: &Receiver<Told>, grace: Duration) -> io::Result<ExitStatus> {
    let group = tree::pid(agent.id())?;
    let mut kill_at: Option<Instant> = None;
    loop {
        if let Some(status) = agent.try_wait()? {
            return Ok(status);
        }
        match told.recv_timeout(BLINK) {
            Ok(Told::Stop) if kill_at.is_none() => {
                tree::signal_all(group, tree::Signal::TERM);
                kill_at = Some(Instant::now() + grace);
            }
            Ok(Told::Alone) | Err(RecvTimeoutError::Disconnected) => {
                tree::signal_all(group, tree::Signal::KILL);
                return agent.wait();
            }
            Ok(Told::Stop) | Err(RecvTimeoutError::Timeout) => {}
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            tree::signal_all(group, tree::Signal::KILL);
        }
    }
}

/// Whether those that are left have to go at once: who is gone leaves no time for politeness.
fn told_to_hurry(told: &Receiver<Told>, nobody_listens: bool) -> impl Fn() -> bool {
    move || {
        nobody_listens || matches!(told.try_recv(), Ok(Told::Alone) | Err(mpsc::TryRecvError::Disconnected))
    }
}
