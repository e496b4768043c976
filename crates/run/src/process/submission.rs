//! Submissions: a process below the agent asks the guard, and the guard passes them on.
//!
//! The agent's own programs start our server, so nothing that they start it with is a secret. The guard
//! answers on a socket in a directory of its owner alone, and only to processes that descend from it. It
//! holds accepted submissions in memory, and passes them on to the process that drives the run: a file cannot
//! forge them.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use callsheet_core::record::SubmissionRecord;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ancestry::ProcessStamp;

/// The submissions that a guard accepts, and the directory of its socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionGate {
    /// The id of the run.
    pub run: String,
    /// A directory of its owner alone, which gets the socket.
    pub dir: PathBuf,
    /// The only session that the run submits to.
    pub session: Option<PathBuf>,
    /// The only role that the run submits as.
    pub role: Option<String>,
    /// Data for the guard of a terminal, which records submissions by itself.
    pub recorder: Value,
    /// A folder of documents, which the guard reads a last time when no process of the run lives any more.
    #[serde(default)]
    pub watched: Option<PathBuf>,
}

/// A submission before it is judged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubmissionRequest {
    /// The id of the run.
    pub run: String,
    /// The tool that submits.
    pub tool: String,
    /// The digest of the submission.
    pub sha256: String,
    /// The session that it is for.
    pub session: PathBuf,
    /// The role of the agent.
    pub role: Option<String>,
}

/// The second message of a client: the outcome.
#[derive(Debug, Serialize, Deserialize)]
struct SubmissionOutcome {
    verdict: Value,
    done: Value,
    refused: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GateAnswer {
    Yes,
    /// The same was submitted before, with this outcome.
    Before(Value),
    Noted,
    No(String),
}

/// The reason why a submission is refused, or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmissionError {
    /// The guard does not answer.
    #[error("its guard does not answer")]
    NoAnswer,
    /// The guard went away before the outcome was noted.
    #[error("its guard is gone")]
    GuardGone,
    /// The guard itself failed.
    #[error("its guard failed")]
    GuardFailed,
    /// The agent has ended.
    #[error("its agent has ended")]
    AgentEnded,
    /// The process does not descend from the guard of the run.
    #[error("this process does not belong to the run")]
    OtherRun,
    /// The run submits as another role.
    #[error("it has another role")]
    OtherRole,
    /// The run submits to another session.
    #[error("it has another session")]
    OtherSession,
    /// The reason of the guard, or of the function that records.
    #[error("{0}")]
    Refused(String),
}

/// The largest message.
const MESSAGE_BYTES: u64 = 4 << 20;
/// The time limit of a message: longer than writing a session's files takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most connections at once; others are closed.
const CONNECTIONS: usize = 32;

/// Returns the path of a socket by its directory: on Linux a path of any length fits.
fn socket_path(dir: &File, path: &Path, name: &str) -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
    } else {
        path.join(name)
    }
}

/// Opens a directory, without waiting for anything else by its name.
fn open_dir(dir: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    Ok(open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Listens on a socket that only its owner can reach.
pub(crate) fn listen_in(dir: &Path, name: &str) -> io::Result<UnixListener> {
    fs::create_dir_all(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    let opened = open_dir(dir)?;
    let path = socket_path(&opened, dir, name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

pub(crate) fn connect_in(dir: &Path, name: &str) -> io::Result<UnixStream> {
    let opened = open_dir(dir)?;
    UnixStream::connect(socket_path(&opened, dir, name))
}

/// Returns the process that connected, or that listens; `None` if this process cannot see it.
#[cfg(target_os = "linux")]
pub(crate) fn peer_process(stream: &UnixStream) -> Option<ProcessStamp> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    let peer = getsockopt(stream, PeerCredentials).ok()?;
    ProcessStamp::from_pid(peer.pid())
}

/// On other systems no process can be identified, so none is.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peer_process(_stream: &UnixStream) -> Option<ProcessStamp> {
    None
}

/// Writes a message as a line of JSON.
pub(crate) fn send(mut stream: impl Write, message: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(message).map_err(io::Error::other)?;
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Reads a message, which is a line of JSON.
pub(crate) fn receive<T: DeserializeOwned>(mut reader: impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

fn set_timeouts(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// The name of the guard's socket in its directory.
const SOCKET: &str = "guard";

/// The permission that the guard gives to a client.
#[derive(Debug)]
pub enum SubmissionPermission {
    /// The submission can be judged and written; the guard waits for its outcome.
    Granted(OpenSubmission),
    /// The same was submitted before, with this outcome.
    Before(Value),
}

/// A submission whose outcome the guard waits for.
#[derive(Debug)]
pub struct OpenSubmission(BufReader<UnixStream>);

/// Asks the guard whose socket is in `dir`. The error is its reason to refuse.
pub fn ask_guard(dir: &Path, request: &SubmissionRequest) -> Result<SubmissionPermission, SubmissionError> {
    let gone = |_| SubmissionError::NoAnswer;
    let stream = connect_in(dir, SOCKET).map_err(gone)?;
    set_timeouts(&stream).map_err(gone)?;
    // Another process can put a socket of its own there.
    let guard = peer_process(&stream).zip(ProcessStamp::current());
    if cfg!(target_os = "linux") && guard.is_some_and(|(guard, own)| !own.descends_from(guard)) {
        return Err(SubmissionError::OtherRun);
    }
    send(&stream, request).map_err(gone)?;
    let mut reader = BufReader::new(stream);
    match receive(reader.by_ref().take(MESSAGE_BYTES)).map_err(gone)? {
        GateAnswer::Yes => Ok(SubmissionPermission::Granted(OpenSubmission(reader))),
        GateAnswer::Before(done) => Ok(SubmissionPermission::Before(done)),
        GateAnswer::No(why) => Err(SubmissionError::Refused(why)),
        GateAnswer::Noted => Err(SubmissionError::NoAnswer),
    }
}

impl OpenSubmission {
    /// Reports the outcome of a submission that was written.
    pub fn finish(self, verdict: Value, done: Value) -> Result<(), SubmissionError> {
        self.report(&SubmissionOutcome { verdict, done, refused: Vec::new() })
    }

    /// Reports why a submission was refused.
    pub fn refuse(self, refused: Vec<String>) -> Result<(), SubmissionError> {
        self.report(&SubmissionOutcome { verdict: Value::Null, done: Value::Null, refused })
    }

    fn report(mut self, outcome: &SubmissionOutcome) -> Result<(), SubmissionError> {
        let gone = |_| SubmissionError::GuardGone;
        send(self.0.get_ref(), outcome).map_err(gone)?;
        match receive(self.0.by_ref().take(MESSAGE_BYTES)).map_err(gone)? {
            GateAnswer::Noted => Ok(()),
            GateAnswer::No(why) => Err(SubmissionError::Refused(why)),
            _ => Err(SubmissionError::GuardGone),
        }
    }
}

/// A function that passes an accepted submission on.
pub(crate) type ForwardSubmission =
    Box<dyn Fn(&SubmissionRecord) -> Result<(), SubmissionError> + Send + Sync>;

/// The guard's side of submissions.
pub(crate) struct SubmissionServer {
    gate: SubmissionGate,
    guard: ProcessStamp,
    forward: ForwardSubmission,
    /// The last submission of each tool; `None` once the agent has ended.
    last: Mutex<Option<BTreeMap<String, SubmissionRecord>>>,
    connections: AtomicUsize,
}

impl SubmissionServer {
    /// Opens the gate's socket, and answers on it until the process ends.
    pub(crate) fn open(gate: SubmissionGate, forward: ForwardSubmission) -> io::Result<Arc<Self>> {
        let guard = ProcessStamp::current().ok_or(io::ErrorKind::Unsupported)?;
        let listener = listen_in(&gate.dir, SOCKET)?;
        let last = Mutex::new(Some(BTreeMap::new()));
        let server = Arc::new(Self { gate, guard, forward, last, connections: AtomicUsize::new(0) });
        let serving = Arc::clone(&server);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&serving);
                if server.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
                    server.connections.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                // Read now: the process may be gone later, and its id reused.
                let peer = peer_process(&stream);
                thread::spawn(move || {
                    // A client that is gone does not need an answer.
                    let _ = server.serve(stream, peer);
                    server.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(server)
    }

    /// Accepts nothing from now on, because the agent has ended.
    pub(crate) fn close(&self) {
        if let Ok(mut last) = self.last.lock() {
            *last = None;
        }
    }

    fn serve(&self, stream: UnixStream, peer: Option<ProcessStamp>) -> io::Result<()> {
        set_timeouts(&stream)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let request: SubmissionRequest = receive(reader.by_ref().take(MESSAGE_BYTES))?;
        if let Err(why) = self.check(&request, peer) {
            return send(&stream, &GateAnswer::No(why.to_string()));
        }
        if let Some(done) = self.find_repeated(&request) {
            return send(&stream, &GateAnswer::Before(done));
        }
        send(&stream, &GateAnswer::Yes)?;
        let SubmissionOutcome { verdict, done, refused } = receive(reader.by_ref().take(MESSAGE_BYTES))?;
        let (tool, sha256) = (request.tool.clone(), request.sha256.clone());
        let accepted = SubmissionRecord { tool, sha256, verdict, done, refused };
        let answer = match self.check(&request, peer).and_then(|()| self.accept(accepted)) {
            Ok(()) => GateAnswer::Noted,
            Err(why) => GateAnswer::No(why.to_string()),
        };
        send(&stream, &answer)
    }

    /// Checks whether this process may submit this. A process that is gone may not, whichever process has its
    /// connection now.
    fn check(&self, request: &SubmissionRequest, peer: Option<ProcessStamp>) -> Result<(), SubmissionError> {
        let gate = &self.gate;
        if self.last.lock().is_ok_and(|last| last.is_none()) {
            return Err(SubmissionError::AgentEnded);
        }
        if request.run != gate.run || !peer.is_some_and(|peer| peer.descends_from(self.guard)) {
            return Err(SubmissionError::OtherRun);
        }
        if gate.role.is_some() && request.role != gate.role {
            return Err(SubmissionError::OtherRole);
        }
        if gate.session.as_ref().is_some_and(|session| *session != request.session) {
            return Err(SubmissionError::OtherSession);
        }
        Ok(())
    }

    fn find_repeated(&self, request: &SubmissionRequest) -> Option<Value> {
        let last = self.last.lock().ok()?;
        let last = last.as_ref()?.get(&request.tool)?;
        (last.sha256 == request.sha256).then(|| last.done.clone())
    }

    fn accept(&self, accepted: SubmissionRecord) -> Result<(), SubmissionError> {
        let mut last = self.last.lock().map_err(|_| SubmissionError::GuardFailed)?;
        let last = last.as_mut().ok_or(SubmissionError::AgentEnded)?;
        (self.forward)(&accepted)?;
        if accepted.refused.is_empty() {
            last.insert(accepted.tool.clone(), accepted);
        }
        Ok(())
    }
}
