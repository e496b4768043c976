//! Runs a process and everything that it starts, from its first byte of input to its last byte of output.
//!
//! Output is reported as it arrives: as bytes, and as lines in records of a bounded size. Records beyond a
//! limit are counted and left out, except for the last ones. No process of it is left when [`run_process`]
//! returns.

pub(crate) mod ancestry;
pub(crate) mod checks;
pub(crate) mod environment;
pub(crate) mod guard;
pub(crate) mod handshake;
pub(crate) mod host;
mod output;
pub(crate) mod peer;
pub(crate) mod programs;
pub(crate) mod submission;
pub(crate) mod trace;
pub(crate) mod tree;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use callsheet_core::record::SubmissionRecord;
use callsheet_core::request::fact::EndReason;

use ancestry::{ProcessStamp, guard_arguments, read_stat};
use environment::{grace_period, new_command};
use guard::{GuardMessage, SpawnRequest};
use handshake::{STARTED_AS_GUARD, await_greeting, end_impostor, find_guard_program};
use output::OutputCollector;
use submission::{SubmissionGate, send};
use trace::{MARK, ProcessTrace, kill_adopted};

/// A process to run, and its limits.
#[derive(Clone, Debug, Default)]
pub struct ProcessJob {
    /// The program and its arguments. No shell interprets them.
    pub argv: Vec<String>,
    /// Variables that are added to our own environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The whole standard input, which is closed after it.
    pub stdin: Vec<u8>,
    /// The limits of time and output.
    pub limits: ProcessLimits,
    /// The program that is started as the [guard](crate::guard_if_asked): if none is named, this program if
    /// it has called `guard_if_asked`, else the `callsheet` binary.
    pub guard: Option<PathBuf>,
    /// The flag that stops the process.
    pub stop: StopFlag,
    /// The submissions that the process may make.
    pub submissions: Option<SubmissionGate>,
    /// The traces of its run, if another process may search for its processes.
    pub trace: Option<ProcessTrace>,
}

impl ProcessJob {
    /// Returns a job without input, with the usual limits and the usual guard.
    pub fn new(argv: Vec<String>, cwd: PathBuf) -> Self {
        Self { argv, cwd, ..Self::default() }
    }
}

/// The limits of a process in time and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// The longest time that the process may take.
    pub deadline: Option<Duration>,
    /// How long the process may take to end after a request.
    pub grace: Duration,
    /// How many bytes of output are reported as they arrive.
    pub head_bytes: usize,
    /// How many of the last bytes of each stream are reported in addition.
    pub tail_bytes: usize,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        let (head_bytes, tail_bytes) = (64 * 1024 * 1024, 1024 * 1024);
        Self { deadline: None, grace: grace_period(), head_bytes, tail_bytes }
    }
}

/// The largest record; a longer line becomes several records.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// A flag that ends a process from another thread.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Requests the stop.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Checks whether the stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// An output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Returns the name of the stream.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// An event of a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// The process was started.
    Started {
        /// The process id.
        pid: u32,
    },
    /// A line without its line end, or a part of one.
    Output {
        /// The stream of the line.
        stream: OutputStream,
        /// The text of the record.
        text: String,
        /// Whether the line continues in the next record of this stream.
        goes_on: bool,
        /// Whether bytes that are not UTF-8 were replaced.
        replaced: bool,
    },
    /// A submission of the process was accepted.
    Submitted(SubmissionRecord),
    /// Bytes as they were printed. None of them are left out.
    Printed {
        /// The stream of the bytes.
        stream: OutputStream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that are left out of the records at this place.
    LeftOut {
        /// The stream of the bytes.
        stream: OutputStream,
        /// The number of bytes.
        bytes: u64,
    },
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessExit {
    /// The reason of the end.
    pub ended: EndReason,
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// The time from start to end.
    pub duration: Duration,
}

/// The reason why a process did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program or the working directory does not exist.
    #[error("{0}")]
    NotFound(String),
    /// No program became the guard of the process. Nothing was sent to it.
    #[error("{0}")]
    NoGuard(String),
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

/// A message from the threads of a run to the waiting one.
enum ThreadMessage {
    Bytes(OutputStream, Vec<u8>),
    Closed,
    News(GuardMessage),
    /// The guard sends nothing more.
    Silence,
}

/// A guard that has not ended so long after it should have is killed.
const GUARD_SLACK: Duration = Duration::from_secs(15);
const BLINK: Duration = Duration::from_millis(50);

/// Runs a job to its end, and passes its events to `tell`.
///
/// ```no_run
/// use callsheet_run::{ProcessEvent, ProcessJob, guard_if_asked, run_process};
///
/// // The first line of `main`: the program is started once more, as the guard of each process.
/// guard_if_asked();
/// let job = ProcessJob::new(vec!["cargo".into(), "test".into()], ".".into());
/// let exit = run_process(&job, &mut |event| {
///     if let ProcessEvent::Output { text, .. } = event {
///         println!("{text}");
///     }
/// })?;
/// assert_eq!(exit.code, Some(0));
/// # Ok::<(), callsheet_run::StartError>(())
/// ```
pub fn run_process(
    job: &ProcessJob,
    report: &mut dyn FnMut(ProcessEvent),
) -> Result<ProcessExit, StartError> {
    let begun = Instant::now();
    let program = find_guard_program(job.guard.as_deref())?;
    // If the guard is killed, its processes become children of ours.
    tree::adopt_orphans()?;
    let trace = job.trace.clone().unwrap_or_else(|| ProcessTrace::new_unnamed(new_mark()));
    let (ours, theirs) = UnixStream::pair()?;
    let mut guard = start_guard(&program, theirs)?;
    if let Err(error) = await_greeting(&ours, &program) {
        end_impostor(&mut guard);
        return Err(error);
    }
    let stamp = i32::try_from(guard.id()).ok().and_then(ProcessStamp::from_pid);
    let (send, receive) = mpsc::sync_channel(64);
    if let Some(stdout) = guard.stdout.take() {
        read_output(stdout, OutputStream::Stdout, send.clone());
    }
    if let Some(stderr) = guard.stderr.take() {
        read_output(stderr, OutputStream::Stderr, send.clone());
    }
    let listening = ours.try_clone()?;
    thread::spawn(move || forward_guard_messages(listening, &send));
    let known = stamp.map_or(Ok(()), |guard| trace.add_guard(guard.pid));
    let given = known.and_then(|()| send_request(job, &trace, &ours));
    let mut run = RunningProcess {
        job,
        trace,
        guard: stamp,
        traced: None,
        begun,
        control: ours,
        ended: None,
        news: None,
        pid: None,
        lost: None,
        killed: false,
    };
    let result = given.map_err(StartError::from).and_then(|()| run.watch(&receive, &mut guard, report));
    if result.is_err() {
        drop(run);
        // The guard ends its processes when our end of the control socket closes.
        let _ = guard.wait();
    }
    result
}

fn start_guard(program: &Path, control: UnixStream) -> io::Result<Child> {
    let guard = new_command(program)
        .args(guard_arguments())
        .env(STARTED_AS_GUARD, "1")
        .stdin(Stdio::from(OwnedFd::from(control)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Some agents exit before all of their output is read: the larger the pipe, the less is lost.
    #[cfg(target_os = "linux")]
    if let Some(stdout) = &guard.stdout {
        let _ = rustix::pipe::fcntl_setpipe_size(stdout, 1024 * 1024);
    }
    Ok(guard)
}

fn send_request(job: &ProcessJob, trace: &ProcessTrace, mut control: &UnixStream) -> io::Result<()> {
    let cwd = job.cwd.to_str().ok_or_else(|| io::Error::other("the path of the worktree is not UTF-8"))?;
    let order = SpawnRequest {
        argv: job.argv.clone(),
        env: job.env.clone().into_iter().chain([(MARK.to_owned(), trace.mark())]).collect(),
        cwd: cwd.to_owned(),
        stdin_bytes: job.stdin.len() as u64,
        grace_ms: u64::try_from(job.limits.grace.as_millis()).unwrap_or(u64::MAX),
        own_group: true,
        submissions: job.submissions.clone(),
        token: trace.token(),
        cgroup: trace.cgroup().map(PathBuf::from),
    };
    send(control, &order)?;
    control.write_all(&job.stdin)
}

fn read_output(
    mut from: impl io::Read + Send + 'static,
    stream: OutputStream,
    to: SyncSender<ThreadMessage>,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; MAX_RECORD_BYTES];
        // Output that was read before an error is still the program's output.
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if to.send(ThreadMessage::Bytes(stream, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
        let _ = to.send(ThreadMessage::Closed);
    });
}

fn forward_guard_messages(control: UnixStream, to: &SyncSender<ThreadMessage>) {
    for line in BufReader::new(control).lines() {
        let Some(news) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
        if to.send(ThreadMessage::News(news)).is_err() {
            return;
        }
    }
    let _ = to.send(ThreadMessage::Silence);
}

/// Returns a mark that no other run has.
fn new_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{}-{now}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

struct RunningProcess<'j> {
    job: &'j ProcessJob,
    trace: ProcessTrace,
    /// The guard's process id and start time.
    guard: Option<ProcessStamp>,
    /// When a debugger began to hold the guard.
    traced: Option<Instant>,
    begun: Instant,
    control: UnixStream,
    /// Why and when we ended the process.
    ended: Option<(EndReason, Instant)>,
    news: Option<(Option<i32>, Option<i32>)>,
    pid: Option<u32>,
    /// When the guard was first missing although it should run.
    lost: Option<Instant>,
    killed: bool,
}

impl RunningProcess<'_> {
    fn watch(
        &mut self,
        messages: &Receiver<ThreadMessage>,
        guard: &mut Child,
        tell: &mut dyn FnMut(ProcessEvent),
    ) -> Result<ProcessExit, StartError> {
        let limits = self.job.limits;
        let mut head_left = limits.head_bytes;
        let mut streams = [
            OutputCollector::new(OutputStream::Stdout, limits),
            OutputCollector::new(OutputStream::Stderr, limits),
        ];
        // Both streams and the control socket: the guard holds all of them open until no process is left
        // below it.
        let mut open = 3;
        // The guard's message may arrive later than the agent's output.
        let mut early: Vec<(OutputStream, Vec<u8>)> = Vec::new();
        while open > 0 {
            match messages.recv_timeout(BLINK) {
                Ok(ThreadMessage::Bytes(stream, bytes)) if self.pid.is_none() && self.lost.is_none() => {
                    early.push((stream, bytes));
                }
                Ok(ThreadMessage::Bytes(stream, bytes)) => {
                    streams[stream as usize].push(bytes, &mut head_left, tell);
                }
                Ok(ThreadMessage::Closed) => open -= 1,
                Ok(ThreadMessage::Silence) => {
                    open -= 1;
                    self.lost = self.news.is_none().then(Instant::now);
                }
                Ok(ThreadMessage::News(GuardMessage::Started { pid })) => {
                    self.pid = Some(pid);
                    tell(ProcessEvent::Started { pid });
                    for (stream, bytes) in early.drain(..) {
                        streams[stream as usize].push(bytes, &mut head_left, tell);
                    }
                }
                Ok(ThreadMessage::News(GuardMessage::Submitted(accepted))) => {
                    tell(ProcessEvent::Submitted(accepted))
                }
                Ok(ThreadMessage::News(GuardMessage::Ended { code, signal })) => {
                    self.news = Some((code, signal))
                }
                Ok(ThreadMessage::News(GuardMessage::Failed { why, missing })) => {
                    let _ = guard.wait();
                    let program = self.job.argv.first().map_or("", String::as_str);
                    let why = format!("cannot start `{program}` in `{}`: {why}", self.job.cwd.display());
                    return Err(if missing { StartError::NotFound(why) } else { StartError::Other(why) });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.enforce_deadline(guard);
            if self.lost.is_some() {
                break;
            }
        }
        // The guard was killed: we end its processes. One that escaped may hold the streams open for ever.
        while self.lost.is_some_and(|since| since.elapsed() < GUARD_SLACK) && self.kill_orphans() {
            thread::sleep(BLINK);
        }
        let rest = messages.try_iter();
        for (stream, bytes) in early.into_iter().chain(rest.filter_map(|message| match message {
            ThreadMessage::Bytes(stream, bytes) => Some((stream, bytes)),
            _ => None,
        })) {
            streams[stream as usize].push(bytes, &mut head_left, tell);
        }
        for mut stream in streams {
            stream.finish(tell);
        }
        let _ = guard.wait();
        let (code, signal) = self.news.unwrap_or_default();
        let ended = match (self.ended, self.news) {
            (Some((why, _)), _) => why,
            (None, None) => EndReason::Lost,
            (None, Some((_, Some(_)))) => EndReason::Signaled,
            (None, Some(_)) => EndReason::Exited,
        };
        Ok(ProcessExit { ended, code, signal, duration: self.begun.elapsed() })
    }

    /// Ends the processes of a guard that was killed. Returns whether there were any.
    fn kill_orphans(&self) -> bool {
        let adopted = self.guard.is_some_and(kill_adopted);
        self.trace.kill_now() || adopted
    }

    /// Continues a guard that is stopped, because it watches nothing. Kills a guard that a debugger holds for
    /// long.
    fn continue_guard(&mut self, guard: &mut Child) {
        let state = self.guard.and_then(|guard| read_stat(&guard.pid.to_string())).map(|stat| stat.state);
        if state == Some('T')
            && let Ok(pid) = tree::to_pid(guard.id())
        {
            let _ = rustix::process::kill_process(pid, tree::Signal::CONT);
        }
        self.traced = (state == Some('t')).then(|| self.traced.unwrap_or_else(Instant::now));
        if self.traced.is_some_and(|since| since.elapsed() > GUARD_SLACK) && !self.killed {
            self.killed = true;
            let _ = guard.kill();
        }
    }

    fn enforce_deadline(&mut self, guard: &mut Child) {
        self.continue_guard(guard);
        let now = Instant::now();
        // A process that ended by itself was not stopped, even if it left others behind.
        if self.ended.is_none() && self.news.is_none() {
            let late =
                self.job.limits.deadline.is_some_and(|deadline| now.duration_since(self.begun) >= deadline);
            let why = if self.job.stop.is_stopped() {
                Some(EndReason::Stopped)
            } else {
                late.then_some(EndReason::Timeout)
            };
            if let Some(why) = why {
                self.ended = Some((why, now));
                // A guard that is gone has nothing left to end.
                let _ = self.control.write_all(b"s");
            }
        }
        let since = self.ended.map_or(self.begun, |(_, at)| at);
        let over = self.ended.is_some() && now > since + self.job.limits.grace + GUARD_SLACK;
        if over && !self.killed {
            self.killed = true;
            let _ = guard.kill();
        }
    }
}

/// Returns the path of our own program.
pub fn find_own_program() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    // A program that was replaced while it runs is still reachable by its process id.
    let gone = own.as_os_str().to_string_lossy().ends_with(" (deleted)");
    Ok(if gone { PathBuf::from("/proc/self/exe") } else { own })
}
