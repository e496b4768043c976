//! Tests that no process of an agent is left when its run is over, however the run ends.

use std::process::{Command, Stdio};
use std::time::Duration;

use callsheet_core::request::fact::EndReason::{Exited, Lost, Signaled, Timeout};
use callsheet_run::StopFlag;

use crate::support::{
    AGENT, assert_nothing_left, find_left, job, new_mark, run, run_agent, run_agent_within,
};

#[test]
fn children_end_with_the_agent() {
    let mark = new_mark("children");
    let child = format!("say {mark} sleep 60000");
    let ran = run_agent(&["child", &child, "child-setsid", &child, "sleep", "2000", "exit", "2"]);
    assert_eq!(ran.ended(), (Exited, Some(2), None));
    assert_eq!(find_left(&mark), Vec::<String>::new());
    assert_eq!(ran.out().matches(&*mark).count(), 2);
}

#[test]
fn detached_grandchildren_end_at_deadline() {
    let mark = new_mark("grandchildren");
    // Its parent ends at once, so it becomes an orphan.
    let parent = format!("child-setsid say+{mark}+sleep+60000 sleep 100");
    let ran = run_agent_within(3000, &["child-wait", &parent, "sleep", "60000"]);
    assert_eq!((ran.ended(), ran.out()), ((Timeout, None, Some(15)), format!("{mark}\n")));
    assert_eq!(find_left(&mark), Vec::<String>::new());
}

#[test]
fn detached_child_ignoring_sigterm_is_killed() {
    let mark = new_mark("stubborn");
    let stubborn = format!("ignore-term say {mark} sleep 60000");
    let ran = run_agent_within(2000, &["child-setsid", &stubborn, "ignore-term", "sleep", "60000"]);
    assert_eq!(ran.ended(), (Timeout, None, Some(9)));
    assert_eq!(find_left(&mark), Vec::<String>::new());
}

#[test]
fn daemons_end_after_finished_agent() {
    let mark = new_mark("daemon");
    let mut job = job(&[]);
    let script = format!(
        "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done; : {mark}' >/dev/null 2>&1 &) ; exit 0"
    );
    job.argv = vec!["sh".into(), "-c".into(), script];
    job.limits.grace = Duration::from_millis(300);
    let ran = run(&job);
    assert_eq!(ran.ended(), (Exited, Some(0), None));
    assert_eq!(find_left(&mark), Vec::<String>::new());
}

#[test]
fn process_storm_is_ended() {
    let mark = new_mark("storm");
    let mut job = job(&[]);
    // Each process starts another one and ends, so there is always one more.
    let script = format!("f() {{ sleep 0.01; sh -c \"$0\" \"$0\" {mark} & }}; f");
    job.argv = vec!["sh".into(), "-c".into(), script.clone(), script, mark.to_string()];
    job.limits.deadline = Some(Duration::from_millis(500));
    job.limits.grace = Duration::from_millis(200);
    run(&job);
    assert_nothing_left(&mark);
}

#[test]
fn no_process_outlives_killed_callsheet() {
    // The points at which we are killed: before, at and after the agent's output, and during the stop.
    for (at, script) in [
        "kill-ours sleep 60000",
        "say on kill-ours sleep 60000",
        "ignore-term kill-ours sleep 60000",
        "child-setsid ignore-term+say+MARK+sleep+60000 kill-ours sleep 60000",
        "kill-ours exit 0",
        "kill-ours for-ever",
    ]
    .iter()
    .enumerate()
    {
        let mark = new_mark(&format!("outlives{at}"));
        let script = script.replace("MARK", &mark);
        let mut child = Command::new(AGENT)
            .args(["run-job", &format!("say {mark} {script} say {mark}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        assert_nothing_left(&mark);
    }
}

#[test]
fn killed_guard_means_lost_run() {
    let mark = new_mark("guard");
    let ran = run_agent(&["say", &mark, "kill-guard", "sleep", "60000"]);
    assert_eq!(ran.ended(), (Lost, None, None));
    assert_nothing_left(&mark);
}

/// Daemons without an environment, in a session of their own, by two forks: we adopt them, and they have the
/// token of the run.
#[test]
fn daemons_end_with_killed_guard() {
    for (at, way) in [
        "setsid sh -c \"$0\" &",
        "env -i setsid sh -c \"$0\" &",
        "(env -i setsid sh -c '(sh -c \"$0\" &)' \"$0\" &)",
        "(env -i setsid sh -c 'ulimit -m 1; (sh -c \"$0\" &)' \"$0\" &)",
    ]
    .iter()
    .enumerate()
    {
        let mark = new_mark(&format!("daemons{at}"));
        let dir = tempfile::tempdir().unwrap();
        let up = dir.path().join("up").display().to_string();
        let work = format!("trap '' TERM; : > {up}; while :; do sleep 0.1; done; : {mark}");
        let script = format!("{way}\nwhile [ ! -e {up} ]; do sleep 0.02; done; kill -9 $PPID; sleep 60");
        let mut job = job(&[]);
        job.argv = ["env", "PATH=/usr/bin:/bin", "sh", "-c", &script, &work].map(str::to_owned).into();
        let ran = run(&job);
        assert_eq!(ran.ended(), (Lost, None, None), "{way}");
        assert_nothing_left(&mark);
    }
}

#[test]
fn stopped_guard_is_continued() {
    let mut job = job(&[]);
    job.argv = ["sh", "-c", "kill -STOP $PPID; exit 3"].map(str::to_owned).into();
    let ran = run(&job);
    assert_eq!(ran.ended(), (Exited, Some(3), None));
}

#[test]
fn stop_ends_three_generations() {
    let mark = new_mark("tree");
    let mut job = job(&[]);
    let script = format!(
        "sh -c 'sh -c \"sleep 1000; : {mark}\" & sleep 1000; : {mark}' & echo on; sleep 1000; : {mark}"
    );
    job.argv = vec!["sh".into(), "-c".into(), script];
    job.limits.grace = Duration::from_millis(500);
    let stop: StopFlag = job.stop.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            stop.stop();
        });
        run(&job);
    });
    assert_eq!(find_left(&mark), Vec::<String>::new());
}

#[test]
fn killed_agent_leaves_no_children() {
    let mark = new_mark("killed");
    let ran = run_agent(&["child-setsid", &format!("say {mark} sleep 60000"), "sleep", "200", "kill-self"]);
    assert_eq!(ran.ended(), (Signaled, None, Some(9)));
    assert_eq!(find_left(&mark), Vec::<String>::new());
}
