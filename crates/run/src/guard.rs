//! The guard: a process between us and an agent, so that nothing of the agent outlives the run.
//!
//! Its command line names its state directory, so that a process below it can be recognised. It also answers processes below
//! it that submit something for the run. An agent in a terminal has a guard too: the first process of the pane.
//!
//! It is the same program, started again. It adopts whatever the agent leaves behind (on Linux, where a process can be a
//! subreaper), ends all of it when the agent ends, when it is told to, and when whoever started it is gone. Elsewhere it
//! ends the agent's process group, and what left that group is not found.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::documents::DocumentReader;
use crate::read::read_own;
use crate::submission::{ForwardSubmission, JudgedSubmission, SubmissionGate, SubmissionServer, connect_in};
use crate::{ancestry, environment, trace, tree};

/// The first argument that makes a guard of the program.
pub const GUARD: &str = "__guard";

/// How often it looks whether something is still there.
const BLINK: Duration = Duration::from_millis(20);

/// What the guard is told, as a line of JSON; the agent's standard input follows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) stdin_bytes: u64,
    pub(crate) grace_ms: u64,
    /// Whether the agent gets a process group of its own; in a terminal it stays in the one that has the keys.
    pub(crate) own_group: bool,
    pub(crate) submissions: Option<SubmissionGate>,
    /// See [`ProcessTrace`](crate::ProcessTrace).
    pub(crate) token: u64,
    pub(crate) cgroup: Option<PathBuf>,
}

/// What the guard tells, each as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardMessage {
    Started { pid: u32 },
    Failed { why: String, missing: bool },
    Submitted(JudgedSubmission),
    Ended { code: Option<i32>, signal: Option<i32> },
}

/// The name of the socket on which the guard of a terminal gets its order.
pub(crate) const ORDER: &str = "order";

/// The name of the file that holds the exit code of an agent in a terminal.
const EXIT: &str = "exit";

/// The name of the file that holds what the watched documents were at the end.
const DOCUMENTS: &str = "documents.json";

/// Records a submission for the guard of a terminal: the process that drove the run may be gone.
pub type RecordSubmission = fn(&SubmissionGate, &JudgedSubmission) -> Result<(), String>;

/// The main function of a guard. The exit code matters for the guard of a terminal alone.
pub fn guard() -> u8 {
    run_guard_with(|_, _| Err("it cannot be recorded".into()))
}

/// The same, which records the submissions from a terminal with `record`.
pub fn run_guard_with(record: RecordSubmission) -> u8 {
    let done = match std::env::args_os().nth(ancestry::GUARD_WORDS + 1) {
        None => guard_process().map(|()| 0),
        Some(dir) => guard_pane(&PathBuf::from(dir), record),
    };
    done.unwrap_or(70)
}

fn guard_process() -> io::Result<()> {
    // Without a terminal nothing below can be stopped by reading from one, and no key reaches it.
    let _ = rustix::process::setsid();
    tree::adopt_orphans()?;
    ancestry::mark();
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut orders = BufReader::new(control.try_clone()?);
    let control = Arc::new(Mutex::new(control));
    let order = read_order(&mut orders)?;
    let mut input = Vec::new();
    orders.by_ref().take(order.stdin_bytes).read_to_end(&mut input)?;
    if input.len() as u64 != order.stdin_bytes {
        // Half a prompt is none.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let told = listen(orders);
    let telling = Arc::clone(&control);
    let desk = open_submissions(order.submissions.clone(), move |accepted| {
        tell(&telling, &GuardMessage::Submitted(accepted.clone())).map_err(|error| error.to_string())
    });
    let mut agent = match start(&order, Stdio::piped()) {
        Ok(agent) => agent,
        Err(error) => return send_failure(&control, &error),
    };
    // From here on nothing may fail before the agent is gone: who does not hear this is noticed below.
    let _ = tell(&control, &GuardMessage::Started { pid: agent.id() });
    if let Some(stdin) = agent.stdin.take() {
        thread::spawn(move || feed(stdin, &input));
    }
    let grace = Duration::from_millis(order.grace_ms);
    let ended = wait(&mut agent, &told, grace).and_then(|status| {
        close_submissions(desk.as_deref());
        let (code, signal) = (status.code(), status.signal());
        tell(&control, &GuardMessage::Ended { code, signal })
    });
    tree::end(&must_hurry(&told, ended.is_err()), grace);
    // Where nothing can be found below us, the group is what is left; where it can, there is nobody in it.
    tree::signal_all(tree::pid(agent.id())?, tree::Signal::KILL);
    if let Some(gate) = &order.submissions {
        save_last_documents(gate);
    }
    Ok(())
}

/// Keeps what the documents are when nobody is left who could change them for the run. Whoever finds them changed later
/// knows that it was somebody else, also if we are the only one left to look.
fn save_last_documents(gate: &SubmissionGate) {
    let Some(folder) = &gate.watched else { return };
    let found = DocumentReader::default().read(folder, &|_| true);
    // Without it nothing is known, and a person is asked.
    if let Ok(text) = serde_json::to_string(&found) {
        let new = gate.dir.join(format!("{DOCUMENTS}.new"));
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, gate.dir.join(DOCUMENTS)));
    }
}

/// What the watched documents of a run were when nothing of it lived any more, as its guard has written it down in `dir`.
pub fn last_documents(dir: &Path) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(&read_own(&dir.join(DOCUMENTS))?).ok()
}

/// The guard of a terminal: it keeps the terminal, the agent has it too, and it works on when its starter is gone.
fn guard_pane(dir: &Path, record: RecordSubmission) -> io::Result<u8> {
    tree::adopt_orphans()?;
    ancestry::mark();
    let (ended, keys) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    // These keys are for the agent.
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&keys))?;
    }
    let control = connect_in(dir, ORDER)?;
    let order = read_order(&mut BufReader::new(control.try_clone()?))?;
    let control = Mutex::new(control);
    let gate = order.submissions.clone();
    let desk = open_submissions(gate.clone(), move |accepted| match &gate {
        Some(gate) => record(gate, accepted),
        None => Ok(()),
    });
    let mut agent = match start(&order, Stdio::inherit()) {
        Ok(agent) => agent,
        Err(error) => return send_failure(&control, &error).map(|()| 127),
    };
    // Its starter is gone, or has a pane without an agent soon.
    let _ = tell(&control, &GuardMessage::Started { pid: agent.id() });
    drop(control);
    let status = loop {
        if let Some(status) = agent.try_wait()? {
            break status;
        }
        if ended.load(Ordering::SeqCst) {
            close_submissions(desk.as_deref());
            tree::end(&|| false, Duration::from_millis(order.grace_ms));
            return Ok(143);
        }
        thread::sleep(BLINK);
    };
    close_submissions(desk.as_deref());
    tree::end(&|| false, Duration::from_millis(order.grace_ms));
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    // tmux does not always know it.
    let _ = fs::write(dir.join(EXIT), code.to_string());
    Ok(u8::try_from(code).unwrap_or(1))
}

/// How the agent of a terminal ended, as its guard has written it down in `dir`.
pub fn terminal_exit_code(dir: &Path) -> Option<i32> {
    read_own(&dir.join(EXIT))?.trim().parse().ok()
}

fn read_order(orders: &mut BufReader<UnixStream>) -> io::Result<SpawnRequest> {
    let mut line = String::new();
    orders.read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// A run whose submissions cannot be taken goes on without them.
fn open_submissions(
    gate: Option<SubmissionGate>,
    forward: impl Fn(&JudgedSubmission) -> Result<(), String> + Send + Sync + 'static,
) -> Option<Arc<SubmissionServer>> {
    let forward: ForwardSubmission = Box::new(forward);
    SubmissionServer::open(gate?, forward).ok()
}

fn close_submissions(desk: Option<&SubmissionServer>) {
    if let Some(desk) = desk {
        desk.close();
    }
}

fn send_failure(control: &Mutex<UnixStream>, error: &io::Error) -> io::Result<()> {
    let missing = error.kind() == io::ErrorKind::NotFound;
    tell(control, &GuardMessage::Failed { why: error.to_string(), missing })
}

fn start(order: &SpawnRequest, stdin: Stdio) -> io::Result<Child> {
    trace::set_token(order.token);
    if let Some(cgroup) = &order.cgroup {
        trace::join_cgroup(cgroup);
    }
    let (program, args) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = environment::program(program);
    command.args(args).current_dir(&order.cwd).stdin(stdin);
    let private = |name: &str| environment::PRIVATE_VARIABLES.contains(&name);
    command.envs(order.env.iter().filter(|(name, _)| !private(name)).map(|(name, value)| (name, value)));
    if order.own_group {
        command.process_group(0);
    }
    command.spawn()
}

/// A program that does not read all of its input is no error of ours.
fn feed(mut stdin: ChildStdin, input: &[u8]) {
    let _ = stdin.write_all(input);
}

fn tell(control: &Mutex<UnixStream>, news: &GuardMessage) -> io::Result<()> {
    let line = serde_json::to_string(news).map_err(io::Error::other)?;
    let mut control = control.lock().map_err(|_| io::ErrorKind::BrokenPipe)?;
    control.write_all(format!("{line}\n").as_bytes())
}

enum GuardCommand {
    Stop,
    /// Whoever could tell something is gone.
    Alone,
}

fn listen(mut orders: BufReader<UnixStream>) -> Receiver<GuardCommand> {
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut byte = [0];
        // A receiver that is gone has no use for it.
        while orders.read(&mut byte).is_ok_and(|read| read == 1) {
            let _ = told.send(GuardCommand::Stop);
        }
        let _ = told.send(GuardCommand::Alone);
    });
    heard
}

/// Waits for the agent's end; ends it when that is asked for.
fn wait(agent: &mut Child, told: &Receiver<GuardCommand>, grace: Duration) -> io::Result<ExitStatus> {
    let group = tree::pid(agent.id())?;
    let mut kill_at: Option<Instant> = None;
    loop {
        if let Some(status) = agent.try_wait()? {
            return Ok(status);
        }
        match told.recv_timeout(BLINK) {
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

/// Whether those that are left have to go at once: who is gone leaves no time for politeness.
fn must_hurry(told: &Receiver<GuardCommand>, nobody_listens: bool) -> impl Fn() -> bool {
    move || {
        nobody_listens
            || matches!(told.try_recv(), Ok(GuardCommand::Alone) | Err(mpsc::TryRecvError::Disconnected))
    }
}
