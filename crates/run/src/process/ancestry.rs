//! Finds the processes from which a process descends, and whether a guard is one of them.
//!
//! A guard names its state directory in its own command line, and so does the tmux server of a run. A process
//! below it can change its own environment, session, terminal and program, but not the command line of an
//! ancestor. Orphans stay below the guard, which adopts them. A second mark is inherited and cannot be
//! removed without privileges: it shows that there was a guard if the guard was killed, or if the process
//! sees another list of processes.
//!
//! Only Linux lists processes this way. On other systems no guard is found.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

/// Returns the directory for callsheet's own state: `$XDG_STATE_HOME/callsheet`, or the same below the home
/// directory.
pub fn state_home() -> Option<PathBuf> {
    let dir = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = dir("XDG_STATE_HOME").or_else(|| Some(dir("HOME")?.join(".local/state")))?;
    Some(state.join("callsheet"))
}

/// The run that this process drives, or drove last.
static RUN: Mutex<String> = Mutex::new(String::new());

/// Sets the run that guards are started for from now on.
pub fn set_guarded_run(run: &str) {
    if let Ok(mut known) = RUN.lock() {
        run.clone_into(&mut known);
    }
}

/// The first argument that makes the program a guard.
pub(crate) const GUARD: &str = "__guard";

/// The number of arguments that make our program a guard.
pub(crate) const GUARD_WORDS: usize = 4;

/// Returns the arguments that make our program a guard. They name its state directory, by path and by number,
/// and a run of its ledger.
pub(crate) fn guard_arguments() -> [String; GUARD_WORDS] {
    let state = state_home().unwrap_or_default();
    let run = RUN.lock().map(|run| run.clone()).unwrap_or_default();
    let run = if run.is_empty() { "-".to_owned() } else { run };
    [GUARD.to_owned(), state.display().to_string(), directory_id(&state), run]
}

/// Returns device and inode: two paths of one directory have the same.
fn directory_id(dir: &Path) -> String {
    fs::metadata(dir).map_or_else(|_| "-".to_owned(), |meta| format!("{}:{}", meta.dev(), meta.ino()))
}

/// A process: its id is reused after its end, its id with its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStamp {
    /// The process id.
    pub pid: i32,
    /// The start time, in ticks since the system was started.
    pub started: u64,
}

/// The present data of the system about a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessStat {
    pub(crate) stamp: ProcessStamp,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// `Z` is a zombie, `T` is stopped, `t` is traced.
    pub(crate) state: char,
}

impl ProcessStat {
    /// Checks whether the process can still do something.
    pub(crate) fn is_alive(self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

pub(crate) fn read_stat(pid: &str) -> Option<ProcessStat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let number = stat.split(' ').next()?.parse().ok()?;
    // The name of a program may contain anything, brackets too.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse().ok();
    Some(ProcessStat {
        stamp: ProcessStamp { pid: number, started: fields.get(19)?.parse().ok()? },
        parent: field(1)?,
        session: field(3)?,
        state: fields.first()?.chars().next()?,
    })
}

pub(crate) fn list_processes() -> Vec<ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries.filter_map(|entry| read_stat(entry.file_name().to_str().filter(|name| number(name))?)).collect()
}

impl ProcessStamp {
    /// Returns the process that has this id now.
    pub fn from_pid(pid: i32) -> Option<Self> {
        Some(read_stat(&pid.to_string())?.stamp)
    }

    /// Returns this process.
    pub fn current() -> Option<Self> {
        Some(read_stat("self")?.stamp)
    }

    /// Checks whether this process still exists and can do something.
    pub fn is_alive(self) -> bool {
        read_stat(&self.pid.to_string()).is_some_and(|stat| stat.stamp == self && stat.is_alive())
    }

    /// Checks whether this process still exists and descends from `ancestor`.
    pub(crate) fn descends_from(self, ancestor: Self) -> bool {
        Self::from_pid(self.pid) == Some(self) && find_ancestors(&self.pid.to_string()).contains(&ancestor)
    }
}

/// How often a process is looked up again if its parent ended meanwhile.
const ATTEMPTS: usize = 5;

/// Returns the parent of a process, its parent, and so on.
fn find_ancestors(pid: &str) -> Vec<ProcessStamp> {
    let mut found: Vec<ProcessStamp> = Vec::new();
    let mut at = pid.to_owned();
    loop {
        let parent = (0..ATTEMPTS).find_map(|_| {
            let child = read_stat(&at)?;
            // A younger process has reused the id of a parent that is gone.
            ProcessStamp::from_pid(child.parent).filter(|parent| parent.started <= child.stamp.started)
        });
        match parent {
            Some(parent) if parent.pid > 0 && !found.contains(&parent) => {
                found.push(parent);
                at = parent.pid.to_string();
            }
            _ => return found,
        }
    }
}

/// Checks whether this process runs below a guard of the state directory `state`, or of any if there is none.
pub fn is_below_guard(state: Option<&Path>) -> bool {
    let guards = find_guards_above();
    // The mark of an invisible guard does not name the state directory.
    guards.iter().any(|guard| state.is_none_or(|state| guard.has_state_dir(state)))
        || guards.is_empty() && is_marked()
}

/// Returns the runs whose guards are above this process, of any state directory.
pub fn find_runs_above() -> Vec<String> {
    find_guards_above().into_iter().map(|guard| guard.run).collect()
}

fn find_guards_above() -> Vec<GuardName> {
    find_guards_above_pid("self")
}

fn find_guards_above_pid(pid: &str) -> Vec<GuardName> {
    find_ancestors(pid)
        .into_iter()
        .filter_map(|process| parse_guard_name(&read_command_line(process.pid)))
        .collect()
}

/// Checks whether a process runs below a guard, of any state directory.
pub(crate) fn is_pid_below_guard(pid: i32) -> bool {
    !find_guards_above_pid(&pid.to_string()).is_empty()
}

/// Checks whether the command line of this process is a guard's, or that of the tmux server of a run.
pub(crate) fn is_guard(pid: i32) -> bool {
    parse_guard_name(&read_command_line(pid)).is_some()
}

fn read_command_line(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The state directory and the run that a guard's command line names.
#[derive(Debug, PartialEq, Eq)]
struct GuardName {
    path: String,
    number: String,
    run: String,
}

impl GuardName {
    fn has_state_dir(&self, state: &Path) -> bool {
        let same_path = Path::new(&self.path) == state || self.path.is_empty();
        let canonical = |path: &Path| path.canonicalize().ok();
        same_path
            || self.number == directory_id(state) && self.number != "-"
            || canonical(state).is_some_and(|state| canonical(Path::new(&self.path)) == Some(state))
    }
}

/// Returns the guard that this command line starts, if it starts one.
fn parse_guard_name(words: &[String]) -> Option<GuardName> {
    let at = words.iter().position(|word| word == GUARD)?;
    let word = |at: usize| words.get(at).cloned().unwrap_or_default();
    Some(GuardName { path: word(at + 1), number: word(at + 2), run: word(at + 3) })
}

/// Marks this process and everything that it will start. The limit has had no other effect since Linux 2.4;
/// once lowered, only a privileged process can raise it.
#[cfg(target_os = "linux")]
pub(crate) fn set_mark() {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // Without the mark, the guard is still found by its command line.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Locks, none);
}

#[cfg(target_os = "linux")]
fn is_marked() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::Locks).maximum == Some(0)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_mark() {}

#[cfg(not(target_os = "linux"))]
fn is_marked() -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn guard_is_found_in_command_line() {
        let guard = GuardName { path: "/state".into(), number: "1:2".into(), run: "r".into() };
        assert_eq!(parse_guard_name(&words(&["callsheet", GUARD, "/state", "1:2", "r"])), Some(guard));
        let server =
            words(&["tmux", "-L", "callsheet-x", "--", "env", "A=b", "cs", GUARD, "/state", "1:2", "pane"]);
        assert_eq!(parse_guard_name(&server).unwrap().path, "/state");
        assert_eq!(parse_guard_name(&words(&["callsheet", "run", "__guarded"])), None);
    }

    #[test]
    fn state_matches_path_or_number() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = other.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let guard = |path: &Path, number: String| GuardName {
            path: path.display().to_string(),
            number,
            run: "-".into(),
        };
        assert!(guard(dir.path(), "-".into()).has_state_dir(dir.path()));
        assert!(guard(&link, "-".into()).has_state_dir(dir.path()));
        assert!(guard(dir.path(), "-".into()).has_state_dir(&link));
        assert!(guard(Path::new("/gone"), directory_id(dir.path())).has_state_dir(dir.path()));
        assert!(guard(Path::new(""), "-".into()).has_state_dir(dir.path()), "an unknown one counts");
        assert!(!guard(dir.path(), directory_id(dir.path())).has_state_dir(other.path()));
        assert!(!guard(Path::new("/gone"), "-".into()).has_state_dir(Path::new("/other")));
    }

    #[test]
    fn reused_pid_is_another_process() {
        let own = ProcessStamp::current().unwrap();
        let parent = find_ancestors("self")[0];
        assert!(own.descends_from(parent));
        assert!(!own.descends_from(own), "nothing descends from itself");
        let reused = ProcessStamp { started: own.started + 1, ..own };
        assert!(!reused.descends_from(parent));
        assert!(!own.descends_from(ProcessStamp { started: parent.started + 1, ..parent }));
    }
}
