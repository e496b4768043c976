//! The guard: a process between us and an agent, so that no process of the agent outlives the run.
//!
//! Its command line names its state directory, so that a process below it can be recognised. It also answers
//! processes below it that submit something for the run. An agent in a terminal has a guard too: the first
//! process of the pane.
//!
//! The guard is the same program, started again. It adopts every process that the agent leaves behind (on
//! Linux, where a process can be a subreaper), and ends all of them when the agent ends, on request, and when
//! the process that started it is gone. On other systems it ends the agent's process group, and processes
//! that left that group are not found.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::record::SubmissionRecord;
use serde::{Deserialize, Serialize};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::submission::{SubmissionError, SubmissionGate, SubmissionServer, connect_in, receive, send};
use super::{ancestry, environment, handshake, trace, tree};
use crate::disk::documents::DocumentReader;
use crate::disk::read::read_own_text;

/// How often the guard checks whether a process is still there.
const BLINK: Duration = Duration::from_millis(20);

/// The guard's spawn request, as a line of JSON; the agent's standard input follows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) stdin_bytes: u64,
    pub(crate) grace_ms: u64,
    /// Whether the agent gets a process group of its own; in a terminal it stays in the one that gets the
    /// keys.
    pub(crate) own_group: bool,
    pub(crate) submissions: Option<SubmissionGate>,
    /// See [`ProcessTrace`](crate::ProcessTrace).
    pub(crate) token: u64,
    pub(crate) cgroup: Option<PathBuf>,
}

/// A message of the guard, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardMessage {
    Started { pid: u32 },
    Failed { why: String, missing: bool },
    Submitted(SubmissionRecord),
    Ended { code: Option<i32>, signal: Option<i32> },
}

/// The name of the socket on which the guard of a terminal gets its spawn request.
pub(crate) const ORDER: &str = "order";

/// The name of the file that holds the exit code of an agent in a terminal.
const EXIT: &str = "exit";

/// The name of the file that holds the last state of the watched documents.
const DOCUMENTS: &str = "documents.json";

/// A function that records a submission for the guard of a terminal: the process that drove the run may be
/// gone.
pub type RecordSubmission = fn(&SubmissionGate, &SubmissionRecord) -> Result<(), SubmissionError>;

/// Becomes a guard and exits if this process was started as one. It is the first line of `main` of every
/// program that runs agents: [`perform`](crate::perform()) and [`run_process`](crate::run_process) start the
/// program once more, as the guard of the agent.
///
/// ```
/// callsheet_run::guard_if_asked();
/// // Arguments are parsed and agents are run from here on.
/// ```
///
/// A program in another language names the `callsheet` binary as its guard instead.
pub fn guard_if_asked() {
    guard_if_asked_with(|_, _| Err(SubmissionError::Refused("this guard cannot record submissions".into())));
}

/// Does the same as [`guard_if_asked`]; the guard of a terminal records submissions with `record`.
pub fn guard_if_asked_with(record: RecordSubmission) {
    if handshake::is_guard_asked() {
        std::process::exit(run_guard(record));
    }
}

/// Runs a guard. The exit code matters only for the guard of a terminal.
fn run_guard(record: RecordSubmission) -> i32 {
    let done = match std::env::args_os().nth(ancestry::GUARD_WORDS + 1) {
        None => guard_process().map(|()| 0),
        Some(dir) => guard_pane(&PathBuf::from(dir), record),
    };
    done.map_or(70, i32::from)
}

fn guard_process() -> io::Result<()> {
    // Without a terminal, no process below can be stopped by reading from one, and no key reaches it.
    let _ = rustix::process::setsid();
    tree::adopt_orphans()?;
    ancestry::set_mark();
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    handshake::greet(&control)?;
    let mut orders = BufReader::new(control.try_clone()?);
    let control = Arc::new(Mutex::new(control));
    let order: SpawnRequest = receive(&mut orders)?;
    let mut input = Vec::new();
    orders.by_ref().take(order.stdin_bytes).read_to_end(&mut input)?;
    if input.len() as u64 != order.stdin_bytes {
        // A part of a prompt is not a prompt.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let commands = listen_for_commands(orders);
    let telling = Arc::clone(&control);
    let server = open_submissions(order.submissions.clone(), move |accepted| {
        send_message(&telling, &GuardMessage::Submitted(accepted.clone()))
            .map_err(|error| SubmissionError::Refused(error.to_string()))
    });
    let mut agent = match start_agent(&order, Stdio::piped()) {
        Ok(agent) => agent,
        Err(error) => return send_failure(&control, &error),
    };
    // From here on nothing may fail before the agent is gone: a starter that does not get this is noticed
    // below.
    let _ = send_message(&control, &GuardMessage::Started { pid: agent.id() });
    if let Some(mut stdin) = agent.stdin.take() {
        // A program that does not read all of its input is not an error of ours.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let grace = Duration::from_millis(order.grace_ms);
    let ended = wait_for_agent(&mut agent, &commands, grace).and_then(|status| {
        close_submissions(server.as_deref());
        let (code, signal) = (status.code(), status.signal());
        send_message(&control, &GuardMessage::Ended { code, signal })
    });
    tree::terminate_descendants(&hurry_check(&commands, ended.is_err()), grace);
    // If processes below us cannot be found, the group is left; if they can, the group is empty.
    tree::signal_all(tree::to_pid(agent.id())?, tree::Signal::KILL);
    if let Some(gate) = &order.submissions {
        save_last_documents(gate);
    }
    Ok(())
}

/// Saves the state of the documents when no process is left that could change them for the run. A process
/// that finds them changed later knows that the run did not change them, also if we are the only one left to
/// look.
fn save_last_documents(gate: &SubmissionGate) {
    let Some(folder) = &gate.watched else { return };
    let found = DocumentReader::default().read(folder, &|_| true);
    // Without it the state is unknown, and callsheet asks the person.
    if let Ok(text) = serde_json::to_string(&found) {
        let new = gate.dir.join(format!("{DOCUMENTS}.new"));
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, gate.dir.join(DOCUMENTS)));
    }
}

/// Returns the state of the watched documents at the end of a run's last process, as its guard saved it in
/// `dir`.
pub fn read_last_documents(dir: &Path) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(&read_own_text(&dir.join(DOCUMENTS))?).ok()
}

/// Guards a terminal: keeps the terminal, shares it with the agent, and continues when its starter is gone.
fn guard_pane(dir: &Path, record: RecordSubmission) -> io::Result<u8> {
    tree::adopt_orphans()?;
    ancestry::set_mark();
    let (ended, keys) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    // The keys for these signals are meant for the agent.
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&keys))?;
    }
    let control = connect_in(dir, ORDER)?;
    handshake::greet(&control)?;
    let order: SpawnRequest = receive(BufReader::new(control.try_clone()?))?;
    let control = Mutex::new(control);
    let gate = order.submissions.clone();
    let server = open_submissions(gate.clone(), move |accepted| match &gate {
        Some(gate) => record(gate, accepted),
        None => Ok(()),
    });
    let mut agent = match start_agent(&order, Stdio::inherit()) {
        Ok(agent) => agent,
        Err(error) => return send_failure(&control, &error).map(|()| 127),
    };
    // If this fails, the starter is gone, or will soon have a pane without an agent.
    let _ = send_message(&control, &GuardMessage::Started { pid: agent.id() });
    drop(control);
    let status = loop {
        match agent.try_wait()? {
            None if !ended.load(Ordering::SeqCst) => thread::sleep(BLINK),
            status => break status,
        }
    };
    close_submissions(server.as_deref());
    tree::terminate_descendants(&|| false, Duration::from_millis(order.grace_ms));
    let Some(status) = status else { return Ok(143) };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    // tmux does not always know the exit code.
    let _ = fs::write(dir.join(EXIT), code.to_string());
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Returns the exit code of a terminal's agent, as its guard saved it in `dir`.
pub fn read_terminal_exit_code(dir: &Path) -> Option<i32> {
    read_own_text(&dir.join(EXIT))?.trim().parse().ok()
}

/// Opens the submissions. A run whose submissions cannot be accepted continues without them.
fn open_submissions(
    gate: Option<SubmissionGate>,
    forward: impl Fn(&SubmissionRecord) -> Result<(), SubmissionError> + Send + Sync + 'static,
) -> Option<Arc<SubmissionServer>> {
    SubmissionServer::open(gate?, Box::new(forward)).ok()
}

fn close_submissions(server: Option<&SubmissionServer>) {
    if let Some(server) = server {
        server.close();
    }
}

fn send_failure(control: &Mutex<UnixStream>, error: &io::Error) -> io::Result<()> {
    let missing = error.kind() == io::ErrorKind::NotFound;
    send_message(control, &GuardMessage::Failed { why: error.to_string(), missing })
}

fn start_agent(order: &SpawnRequest, stdin: Stdio) -> io::Result<Child> {
    trace::set_token(order.token);
    if let Some(cgroup) = &order.cgroup {
        trace::join_cgroup(cgroup);
    }
    let (program, args) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = environment::new_command(program);
    command.args(args).current_dir(&order.cwd).stdin(stdin).env_remove(handshake::STARTED_AS_GUARD);
    // opencode works in this directory, whatever its working directory is.
    command.env("PWD", Path::new(&order.cwd).components().collect::<PathBuf>());
    let private = |name: &str| environment::PRIVATE_VARIABLES.contains(&name);
    command.envs(order.env.iter().filter(|(name, _)| !private(name)).map(|(name, value)| (name, value)));
    if order.own_group {
        command.process_group(0);
    }
    command.spawn()
}

fn send_message(control: &Mutex<UnixStream>, news: &GuardMessage) -> io::Result<()> {
    send(&*control.lock().map_err(|_| io::ErrorKind::BrokenPipe)?, news)
}

enum GuardCommand {
    Stop,
    /// The process that could send commands is gone.
    Alone,
}

fn listen_for_commands(mut orders: BufReader<UnixStream>) -> Receiver<GuardCommand> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut byte = [0];
        // A receiver that is gone does not need it.
        while orders.read(&mut byte).is_ok_and(|read| read == 1) {
            let _ = sender.send(GuardCommand::Stop);
        }
        let _ = sender.send(GuardCommand::Alone);
    });
    receiver
}

/// Waits for the agent's end; ends it on request.
fn wait_for_agent(
    agent: &mut Child,
    commands: &Receiver<GuardCommand>,
    grace: Duration,
) -> io::Result<ExitStatus> {
    let group = tree::to_pid(agent.id())?;
    let mut kill_at: Option<Instant> = None;
    loop {
        if let Some(status) = agent.try_wait()? {
            return Ok(status);
        }
        match commands.recv_timeout(BLINK) {
            Ok(GuardCommand::Stop) if kill_at.is_none() => {
                tree::signal_all(group, tree::Signal::TERM);
                kill_at = Some(Instant::now() + grace);
            }
            Ok(GuardCommand::Alone) | Err(RecvTimeoutError::Disconnected) => {
                tree::signal_all(group, tree::Signal::KILL);
                return agent.wait();
            }
            Ok(GuardCommand::Stop) | Err(RecvTimeoutError::Timeout) => {}
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            tree::signal_all(group, tree::Signal::KILL);
        }
    }
}

/// Returns a check whether the rest must be killed at once: if the starter is gone, there is no grace.
fn hurry_check(commands: &Receiver<GuardCommand>, is_starter_gone: bool) -> impl Fn() -> bool {
    move || {
        is_starter_gone
            || matches!(commands.try_recv(), Ok(GuardCommand::Alone) | Err(mpsc::TryRecvError::Disconnected))
    }
}
