//! Finds and ends the processes below this one, however deep.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, WaitOptions, getpid, kill_process, kill_process_group};

use super::ancestry::{ProcessStat, list_processes, read_stat};

const BLINK: Duration = Duration::from_millis(20);

/// How long after `grace` we give up, however fast a process starts others: then only the system can help.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Makes this process the parent of all orphans below it, from now on.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

pub(crate) fn to_pid(raw: u32) -> io::Result<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Sends a signal to the group of a process and to all descendants of this one.
pub(crate) fn signal_all(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
    signal_below(getpid(), signal);
}

/// Sends a signal to all descendants of `root`.
pub(crate) fn signal_below(root: Pid, signal: Signal) {
    send_signal(&find_descendants(root), signal);
}

fn send_signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // A process that is gone meanwhile needs no signal.
        let _ = kill_process(*pid, signal);
    }
}

/// Terminates all descendants: SIGTERM, wait up to `grace` (less if `hurry()`), then SIGKILL.
pub(crate) fn terminate_descendants(hurry: &dyn Fn() -> bool, grace: Duration) {
    let begun = Instant::now();
    let mut hurried = false;
    reap_children();
    signal_below(getpid(), Signal::TERM);
    loop {
        reap_children();
        if find_descendants(getpid()).is_empty() || begun.elapsed() > grace + MOST_TIME {
            return;
        }
        hurried |= hurry();
        if hurried || begun.elapsed() >= grace {
            signal_below(getpid(), Signal::KILL);
        }
        thread::sleep(BLINK);
    }
}

/// Ends a process that is not our child, and all its descendants.
pub(crate) fn terminate_tree(root: Pid, grace: Duration) {
    let mut all = find_descendants(root);
    all.push(root);
    let begun = Instant::now();
    send_signal(&all, Signal::TERM);
    let is_there = |pid: &Pid| is_alive(*pid);
    while all.iter().any(is_there) && begun.elapsed() < grace + MOST_TIME {
        if begun.elapsed() >= grace {
            send_signal(&all, Signal::KILL);
        }
        thread::sleep(BLINK);
        // Before their parent is gone, its new children can still be found.
        let more: Vec<Pid> =
            all.iter().flat_map(|pid| find_descendants(*pid)).filter(|pid| !all.contains(pid)).collect();
        all.extend(more);
    }
}

/// Checks whether a process is alive. A zombie is not: its parent has not collected it yet.
fn is_alive(pid: Pid) -> bool {
    match read_stat(&pid.as_raw_nonzero().to_string()) {
        Some(stat) => stat.is_alive(),
        None => !cfg!(target_os = "linux") && rustix::process::test_kill_process(pid).is_ok(),
    }
}

/// Collects every child that ended, so that none stays a zombie.
fn reap_children() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// Returns all descendants of `root`, except zombies. Only Linux lists processes; elsewhere only the agent's own
/// group can be found.
pub(crate) fn find_descendants(root: Pid) -> Vec<Pid> {
    let all: Vec<ProcessStat> = list_processes().into_iter().filter(|stat| stat.is_alive()).collect();
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.stamp.pid));
        at += 1;
    }
    found.drain(..1);
    found.into_iter().filter_map(Pid::from_raw).collect()
}
