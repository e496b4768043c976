//! Finds and ends the processes of a run, even if no process that started them is alive.
//!
//! A run leaves traces that its processes inherit and that outlive the guard and callsheet: a cgroup if one
//! can be created, the session of its guard, a mark in the environment, and a token in a resource limit that
//! has no other use. Only root can raise such a limit again, so an empty environment, a new session and a
//! second fork do not remove the token.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ancestry::{self, ProcessStamp, ProcessStat, list_processes, read_stat};
use crate::disk::read::read_own_text;

/// The environment variable that all processes of a run have.
pub(crate) const MARK: &str = "CALLSHEET_GUARDED";

const TRACE_FILE: &str = "trace.json";
const GUARDS_FILE: &str = "guards";
const BLINK: Duration = Duration::from_millis(20);

/// The traces of one run. They are kept in the directory of the run, so that another process can find the
/// run's processes.
#[derive(Clone, Debug)]
pub struct ProcessTrace {
    run: String,
    dir: Option<PathBuf>,
    kept: KeptTrace,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct KeptTrace {
    /// The boot of the system. Process ids mean nothing after a restart.
    boot: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<PathBuf>,
}

/// A process of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivingProcess {
    /// The process id.
    pub pid: i32,
    /// The program, as the system names it.
    pub name: String,
}

impl std::fmt::Display for LivingProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.pid, self.name)
    }
}

impl ProcessTrace {
    /// Prepares the traces of a run before its first process starts, and keeps them in `dir`.
    pub fn create(run: &str, dir: &Path) -> io::Result<Self> {
        let kept = KeptTrace { boot: read_boot_id(), cgroup: create_cgroup(run) };
        let trace = Self { run: run.to_owned(), dir: Some(dir.to_owned()), kept };
        let text = serde_json::to_string(&trace.kept).map_err(io::Error::other)?;
        let written =
            open_private(&dir.join(TRACE_FILE), true).and_then(|mut file| file.write_all(text.as_bytes()));
        if written.is_err() {
            trace.remove_cgroup_dir();
        }
        written.map(|()| trace)
    }

    /// Opens the traces of a run that another process prepared.
    pub fn open(run: &str, dir: &Path) -> Self {
        let text = read_own_text(&dir.join(TRACE_FILE)).unwrap_or_default();
        let kept =
            serde_json::from_str(&text).unwrap_or_else(|_| KeptTrace { boot: read_boot_id(), cgroup: None });
        Self { run: run.to_owned(), dir: Some(dir.to_owned()), kept }
    }

    /// Creates the traces of processes that no other process searches for.
    pub(crate) fn new_unnamed(run: String) -> Self {
        Self { run, dir: None, kept: KeptTrace { boot: read_boot_id(), cgroup: None } }
    }

    /// Returns the name of the method that finds the processes of the run.
    pub fn method(&self) -> &'static str {
        if self.kept.cgroup.is_some() { "cgroup" } else { "session" }
    }

    /// Returns the mark in the environment of every process of the run.
    pub(crate) fn mark(&self) -> String {
        self.run.clone()
    }

    /// Returns the token in a resource limit of every process of the run.
    pub(crate) fn token(&self) -> u64 {
        let digest = Sha256::digest(self.run.as_bytes());
        let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        TOKENS | number & (TOKENS - 1)
    }

    pub(crate) fn cgroup(&self) -> Option<&Path> {
        self.kept.cgroup.as_deref()
    }

    /// Records a guard of the run before it starts a process.
    pub(crate) fn add_guard(&self, pid: i32) -> io::Result<()> {
        let (Some(dir), Some(guard)) = (&self.dir, ProcessStamp::from_pid(pid)) else { return Ok(()) };
        let mut file = open_private(&dir.join(GUARDS_FILE), false)?;
        file.write_all(format!("{} {}\n", guard.pid, guard.started).as_bytes())
    }

    fn read_guards(&self) -> Vec<ProcessStamp> {
        let text = self.dir.as_ref().and_then(|dir| read_own_text(&dir.join(GUARDS_FILE)));
        let guard = |line: &str| {
            let (pid, started) = line.split_once(' ')?;
            Some(ProcessStamp { pid: pid.parse().ok()?, started: started.parse().ok()? })
        };
        text.unwrap_or_default().lines().filter_map(guard).collect()
    }

    /// Returns the living processes of the run, guards included.
    pub fn living_processes(&self) -> Vec<LivingProcess> {
        let found = self.find_processes().into_iter();
        found
            .map(|stat| LivingProcess { pid: stat.stamp.pid, name: read_program_name(stat.stamp.pid) })
            .collect()
    }

    fn find_processes(&self) -> Vec<ProcessStat> {
        if self.kept.boot != read_boot_id() {
            return Vec::new();
        }
        let guards = self.read_guards();
        let in_cgroup = self.kept.cgroup.as_deref().map(list_members).unwrap_or_default();
        let variable = format!("{MARK}={}", self.mark());
        let (own, token) = (std::process::id(), self.token());
        let is_of_run = |stat: &ProcessStat| {
            let pid = stat.stamp.pid;
            in_cgroup.contains(&pid)
                || guards.contains(&stat.stamp)
                || guards.iter().any(|guard| is_in_session(stat, *guard))
                || read_hard_limit(pid, "Max resident set") == Some(token)
                || has_variable(pid, &variable)
        };
        let others = list_processes().into_iter().filter(|stat| u32::try_from(stat.stamp.pid) != Ok(own));
        others.filter(|stat| stat.is_alive() && is_of_run(stat)).collect()
    }

    /// Ends every process of the run: SIGTERM, then SIGKILL after `grace`. Returns those that are left.
    pub fn terminate(&self, grace: Duration) -> Vec<LivingProcess> {
        let begun = Instant::now();
        if !grace.is_zero() {
            send_signal(&self.find_processes(), Signal::TERM);
            // A stopped process takes SIGTERM when it continues.
            send_signal(&self.find_processes(), Signal::CONT);
        }
        loop {
            let left = self.find_processes();
            if left.is_empty() || begun.elapsed() > grace + MAX_END {
                return self.living_processes();
            }
            if begun.elapsed() >= grace {
                send_signal(&left, Signal::KILL);
            }
            thread::sleep(BLINK);
        }
    }

    /// Sends SIGKILL to every process of the run. Returns whether any lived.
    pub(crate) fn kill_now(&self) -> bool {
        let found = self.find_processes();
        send_signal(&found, Signal::KILL);
        !found.is_empty()
    }

    /// Waits until no process of the run lives. Returns those that are left after `patience`.
    pub fn wait_until_empty(&self, patience: Duration) -> Vec<LivingProcess> {
        let begun = Instant::now();
        loop {
            let left = self.living_processes();
            if left.is_empty() || begun.elapsed() >= patience {
                return left;
            }
            thread::sleep(BLINK);
        }
    }

    /// Removes the cgroup of a run whose processes have ended.
    pub fn remove_cgroup_dir(&self) {
        let Some(cgroup) = &self.kept.cgroup else { return };
        let begun = Instant::now();
        // A process leaves its cgroup some time after it ended.
        while remove_cgroup(cgroup).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            && begun.elapsed() < Duration::from_secs(2)
        {
            thread::sleep(BLINK);
        }
    }
}

/// How long after `grace` callsheet gives up, however fast a process starts others.
const MAX_END: Duration = Duration::from_secs(10);

fn open_private(path: &Path, fresh: bool) -> io::Result<fs::File> {
    OpenOptions::new().create(true).append(!fresh).write(true).truncate(fresh).mode(0o600).open(path)
}

fn send_signal(processes: &[ProcessStat], signal: Signal) {
    for stat in processes {
        // The process id may have been reused since it was looked up, but not within such a short time.
        if let Some(pid) = Pid::from_raw(stat.stamp.pid) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Ends the orphans that this process adopted because their guard was killed. Returns whether there were any.
/// A guard leads a session of its own and marks its processes, so an adopted process is a marked child of
/// ours in a session that is not ours.
pub(crate) fn kill_adopted(guard: ProcessStamp) -> bool {
    let Some(own) = read_stat("self") else { return false };
    let is_adopted = |stat: &ProcessStat| {
        stat.parent == own.stamp.pid
            && stat.session != own.session
            && stat.stamp.started >= guard.started
            && read_hard_limit(stat.stamp.pid, "Max file locks") == Some(0)
            && !ancestry::is_guard(stat.stamp.pid)
    };
    let adopted: Vec<ProcessStat> = list_processes().into_iter().filter(is_adopted).collect();
    send_signal(&adopted, Signal::KILL);
    for pid in adopted.iter().filter_map(|stat| Pid::from_raw(stat.stamp.pid)) {
        // Only this process can reap them.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
    adopted.iter().any(|stat| stat.is_alive())
}

/// Checks whether a process stayed in the session of a guard. The guard's process id may belong to another
/// session by now.
fn is_in_session(stat: &ProcessStat, guard: ProcessStamp) -> bool {
    let leader = ProcessStamp::from_pid(guard.pid);
    stat.session == guard.pid
        && stat.stamp.started >= guard.started
        && leader.is_none_or(|leader| leader == guard)
}

/// The lowest token; all tokens are below twice as much. As a limit, a token is far above any memory.
const TOKENS: u64 = 1 << 61;

/// Sets the token of this process and of everything that it will start. The limit (`ulimit -m`) has had no
/// effect since Linux 2.4.
#[cfg(target_os = "linux")]
pub(crate) fn set_token(token: u64) {
    let limit = rustix::process::Rlimit { current: Some(token), maximum: Some(token) };
    // Below another guard only a lower token can be set. If that fails, the other traces remain.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Rss, limit);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_token(_token: u64) {}

/// Returns a hard resource limit of a process, which it cannot raise, by the system's name for it.
fn read_hard_limit(pid: i32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn has_variable(pid: i32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|known| known == variable.as_bytes())
}

fn read_program_name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Returns the id of this boot of the system. Process ids mean nothing in another one.
pub fn read_boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim_end().to_owned()
}

/// Creates a cgroup for a run below our own, if version 2 is mounted and we may move processes there.
fn create_cgroup(run: &str) -> Option<PathBuf> {
    if cfg!(debug_assertions) && std::env::var_os(TEST_WITHOUT_CGROUP).is_some() {
        return None;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let is_second = |line: &&str| line.split(" - ").nth(1).is_some_and(|end| end.starts_with("cgroup2 "));
    let mount = mounts.lines().find(is_second)?.split(' ').nth(4)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let parent = Path::new(mount).join(own);
    let may_write = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let cgroup = parent.join(format!("callsheet-{run}"));
    if !may_write(&parent.join(PROCS)) || fs::create_dir(&cgroup).is_err() {
        return None;
    }
    if !may_write(&cgroup.join(PROCS)) {
        let _ = fs::remove_dir(&cgroup);
        return None;
    }
    Some(cgroup)
}

/// The variable by which tests disable cgroups. Release builds do not read it.
const TEST_WITHOUT_CGROUP: &str = "CALLSHEET_TEST_WITHOUT_CGROUP";

const PROCS: &str = "cgroup.procs";

/// Moves this process, and so everything that it will start, into a cgroup.
pub(crate) fn join_cgroup(cgroup: &Path) {
    // If that fails, the other traces remain.
    let _ = fs::write(cgroup.join(PROCS), "0");
}

/// Returns every process in a cgroup and below.
fn list_members(cgroup: &Path) -> BTreeSet<i32> {
    let text = fs::read_to_string(cgroup.join(PROCS)).unwrap_or_default();
    let mut found: BTreeSet<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for below in list_subgroups(cgroup) {
        found.extend(list_members(&below));
    }
    found
}

fn list_subgroups(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_cgroup(cgroup: &Path) -> io::Result<()> {
    list_subgroups(cgroup).iter().try_for_each(|below| remove_cgroup(below))?;
    fs::remove_dir(cgroup)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_unique_unreachable_limits() {
        let token = |run: &str| ProcessTrace::new_unnamed(run.into()).token();
        assert_ne!(token("a"), token("b"));
        assert_eq!(token("a"), token("a"));
        for run in 0..1000 {
            assert!((TOKENS..2 * TOKENS).contains(&token(&run.to_string())));
        }
    }

    #[test]
    fn another_boot_has_no_processes() {
        let dir = tempfile::tempdir().unwrap();
        let trace = ProcessTrace::create("here", dir.path()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let parent = read_stat(&own.to_string()).unwrap().parent;
        trace.add_guard(parent).unwrap();
        assert!(trace.living_processes().iter().any(|process| process.pid == parent));
        let text = fs::read_to_string(dir.path().join(TRACE_FILE)).unwrap();
        fs::write(dir.path().join(TRACE_FILE), text.replace(&read_boot_id(), "another")).unwrap();
        assert_eq!(ProcessTrace::open("here", dir.path()).living_processes(), []);
        trace.remove_cgroup_dir();
    }

    #[test]
    fn reused_pid_is_another_session() {
        let own = read_stat("self").unwrap();
        let leader = ProcessStamp::from_pid(own.session);
        let Some(leader) = leader else { return };
        assert!(is_in_session(&own, leader));
        let earlier = ProcessStamp { started: leader.started.saturating_sub(1), ..leader };
        assert!(leader.started == earlier.started || !is_in_session(&own, earlier));
    }
}
