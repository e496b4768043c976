//! The table "If something goes wrong" of `docs/runs.md`, row by row.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use callsheet_testing::{
    CommandOutput, Postgres, not_tested, run_command, run_with_input, wait_for_end, wait_until,
};
use serde_json::json;

use crate::project::{RunProject, fake_agent, summarize};

/// A process that no environment shows. Dropping it kills the process if the test did not.
struct Daemon<'w>(&'w RunProject);

impl Daemon<'_> {
    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.0.beside("pid")).ok()?.trim().parse().ok()
    }

    /// Returns whether the process is alive; a zombie is not.
    fn is_alive(&self) -> bool {
        let stat = self.pid().and_then(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        stat.is_some_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with(['Z', 'X']))
    }

    fn wait_for_end(&self) {
        wait_until("the daemon wrote its number", || self.pid().is_some());
        let begun = Instant::now();
        while self.is_alive() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?} lives", self.pid());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid().filter(|_| self.is_alive()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Ways in which an agent starts a process that is hard to find. `WORK` is its script.
const WAYS: [&str; 5] = [
    "sh -c \"$WORK\" >/dev/null 2>&1 &",
    "setsid sh -c \"$WORK\" >/dev/null 2>&1 &",
    "env -i setsid sh -c \"$WORK\" >/dev/null 2>&1 &",
    "(env -i PATH=\"$PATH\" setsid sh -c '(sh -c \"$0\" &)' \"$WORK\" >/dev/null 2>&1 &)",
    "(env -i PATH=\"$PATH\" setsid sh -c 'ulimit -m 1; cd /; (sh -c \"$0\" &)' \"$WORK\" >/dev/null 2>&1 &)",
];

/// Returns an agent that starts a daemon in this way, waits until it runs, and then does `rest`.
fn daemon_agent(project: &RunProject, way: &str, rest: &str) -> Vec<String> {
    let pid = project.beside("pid").display().to_string();
    let work = format!("trap '' TERM HUP; echo $$ > {pid}; while :; do sleep 0.2; done");
    let script = format!(
        "WORK=\"{}\"\nread -r _ _ _ ours _ < /proc/$PPID/stat\n{way}\nwhile [ ! -s {pid} ]; do sleep 0.05; done\n{rest}",
        work.replace('$', "\\$")
    );
    vec!["sh".into(), "-c".into(), script]
}

fn run_agent(project: &RunProject, cgroup: bool, flags: &[&str], program: &[String]) -> CommandOutput {
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    let mut command = project.program_command(flags, &program);
    if !cgroup {
        command.env("CALLSHEET_TEST_WITHOUT_CGROUP", "1");
    }
    run_with_input(&mut command, b"Do it.")
}

#[test]
fn daemon_ends_with_run() {
    for way in WAYS {
        let project = RunProject::new();
        let daemon = Daemon(&project);
        let ran = run_agent(&project, false, &[], &daemon_agent(&project, way, "exit 0"));
        assert_eq!(summarize(&ran), "0 completed: exited 0 | receipts spawned", "{way}");
        daemon.wait_for_end();
        project.assert_all_runs_finished();
    }
}

#[test]
fn stopped_guard_is_continued() {
    let project = RunProject::new();
    let program = ["sh", "-c", "kill -STOP $PPID; sleep 0.3; kill -STOP $PPID; exit 3"].map(str::to_owned);
    let ran = run_agent(&project, false, &["--check", "c=true"], &program);
    assert_eq!(summarize(&ran), "6 failed: exited 3 | checks c:passed | receipts spawned");
    project.assert_all_runs_finished();
}

#[test]
fn killed_guard_leaves_nothing_behind() {
    for way in WAYS {
        let project = RunProject::new();
        let daemon = Daemon(&project);
        let ran = run_agent(&project, false, &[], &daemon_agent(&project, way, "kill -9 $PPID; sleep 60"));
        assert_eq!(summarize(&ran), "6 failed: lost | receipts spawned", "{way}");
        daemon.wait_for_end();
        project.assert_all_runs_finished();
    }
}

#[test]
fn killed_callsheet_leaves_nothing_behind() {
    for way in WAYS {
        let project = RunProject::new();
        let daemon = Daemon(&project);
        let ran = run_agent(&project, false, &[], &daemon_agent(&project, way, "kill -9 $ours; sleep 60"));
        assert_eq!(ran.code, None, "{way}");
        daemon.wait_for_end();
        let told = project.run(["--json", "recover"]).expect_code(0).json();
        assert_eq!((&told["items"][0]["end"], &told["running"]), (&json!("lost"), &json!([])), "{way}");
        project.assert_all_runs_finished();
    }
}

/// Nothing is recorded while a process of the run is alive, and `stop` ends it.
#[test]
fn surviving_processes_block_recovery() {
    // Each way alone, and with a cgroup if there is one. A process that lowers its limits too is found only
    // by its cgroup.
    let ways = WAYS[..4].iter().map(|way| (way, false)).chain([(&WAYS[3], true), (&WAYS[4], true)]);
    for (way, cgroup) in ways {
        let project = RunProject::new();
        let daemon = Daemon(&project);
        // Callsheet is stopped first: if either is left alone, it ends the daemon.
        let rest = "echo before > before.txt; kill -STOP $ours; kill -9 $PPID $ours; exit 0";
        let ran = run_agent(&project, cgroup, &["--check", "c=true"], &daemon_agent(&project, way, rest));
        assert_eq!(ran.code, None, "{way}");
        let run = project.run(["--json", "log"]).expect_code(0).json()["items"][0]["run"]
            .as_str()
            .unwrap()
            .to_owned();
        let tracking = project.show(&run)["result"]["tracking"].clone();
        if cgroup && tracking != "cgroup" {
            not_tested("processes of a run by their cgroup: none can be made here");
            continue;
        }
        assert_eq!(tracking, if cgroup { "cgroup" } else { "session" });
        let kinds = project.record_kinds(&run);
        for args in [&["--json", "recover"][..], &["--json", "recover", &run]] {
            let refused = project.run(args);
            assert_eq!(refused.error(), (Some(9), "run/refused".into()), "{way}");
            assert!(refused.err().contains(&format!("callsheet stop {run}")), "{refused:?}");
            assert!(refused.err().contains(&daemon.pid().unwrap().to_string()), "{refused:?}");
            assert_eq!(refused.json()["running"], json!([run]));
        }
        assert_eq!(project.record_kinds(&run), kinds, "nothing was recorded");
        assert!(daemon.is_alive());
        // Its checkout is still claimed.
        let beside = project.run(["--json", "-q", "run", "x", "--", "true"]);
        assert_eq!(beside.error(), (Some(9), "run/refused".into()));
        let stopped = project.run(["--json", "stop", &run]).expect_code(0).json();
        daemon.wait_for_end();
        assert_eq!(
            (&stopped["end"], &stopped["changed"][0]["path"], &stopped["checks"][0]["result"]),
            (&json!("lost"), &json!("before.txt"), &json!("pending"))
        );
        project.assert_all_runs_finished();
        project.run_agent(&[], &["exit", "0"]).expect_code(0);
    }
}

/// Runs the command in a mount namespace of its own, in which `full` is a file system of 200 KB without free
/// space.
fn run_on_full_disk(project: &RunProject, full: &str, args: &[&str]) -> Option<CommandOutput> {
    let script = "mount -t tmpfs -o size=200k full \"$1\" || exit 99\n\
                  head -c 400k /dev/zero > \"$1/filler\" 2>/dev/null\nshift\nexec \"$@\"";
    let like = project.command();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh", full])
        .arg(like.get_program())
        .args(like.get_args())
        .args(args);
    command.current_dir(project.path()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = run_command(&mut command);
    let is_mounted = output.code != Some(99) && !output.err().contains("unshare: ");
    if !is_mounted {
        not_tested(&format!("a full disk: {}", output.err().lines().next().unwrap_or_default()));
    }
    is_mounted.then_some(output)
}

#[test]
fn full_state_disk_starts_nothing() {
    let project = RunProject::new();
    let state = project.beside("home/.local/state");
    fs::create_dir_all(&state).unwrap();
    let mark = project.beside("started").display().to_string();
    let run = ["--json", "-q", "run", "x", "--", "touch", &mark];
    let Some(full) = run_on_full_disk(&project, &state.display().to_string(), &run) else { return };
    assert!(matches!(full.code, Some(8 | 70)), "{full:?}");
    assert!(!project.beside("started").exists(), "nothing was started");
    // With free space again everything is as before.
    project.run_agent(&[], &["exit", "0"]).expect_code(0);
    project.assert_all_runs_finished();
}

#[test]
fn full_worktree_disk_fails_agent() {
    let project = RunProject::new();
    fs::create_dir(project.path().join("full")).unwrap();
    let full = project.path().join("full").display().to_string();
    let script = "echo more > full/more.txt && exit 0; echo other > src/other.txt; exit 4";
    let run = ["--json", "-q", "run", "--write", "src/**", "x", "--", "sh", "-c", script];
    let Some(ran) = run_on_full_disk(&project, &full, &run) else { return };
    let result = ran.json();
    assert_eq!((ran.code, &result["exit_code"]), (Some(6), &json!(4)), "{ran:?}");
    assert!(
        result["changed"].as_array().unwrap().iter().any(|file| file["path"] == "src/other.txt"),
        "{result}"
    );
    project.assert_all_runs_finished();
}

/// The ledger or its server disappears: the agent is ended, and the exit code shows it.
#[test]
fn disappearing_ledger_ends_agent() {
    let project = RunProject::new();
    let go = project.beside("go").display().to_string();
    let ledger = project.beside("own.db");
    let shown = ledger.display().to_string();
    let words = ["say", "one", "wait-for", &go, "say", "two", "sleep", "60000"];
    let mut command = project.command();
    command.args(["--json", "-q", "--ledger", &shown, "run", "x", "--", fake_agent()]).args(words);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let says = || project.run(["--ledger", &shown, "show", "last", "--stream", "stdout"]).out();
    wait_until("it runs", || says() == "one\n");
    fs::remove_file(&ledger).unwrap();
    fs::write(&go, "").unwrap();
    assert_eq!(wait_for_end(running).error().0, Some(8));
    project.assert_no_process_left();
}

#[test]
fn disappearing_server_ends_agent() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_tested(&format!("a PostgreSQL server that disappears: {why}")),
    };
    let url = server.create_database("gone").unwrap();
    let project = RunProject::new();
    let go = project.beside("go").display().to_string();
    let words = ["say", "one", "write", "out.txt", "wait-for", &go, "say", "two", "sleep", "60000"];
    let mut command = project.command();
    command.args(["--json", "-q", "--ledger", &url, "run", "x", "--", fake_agent()]).args(words);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let says = || project.run(["--ledger", &url, "show", "last", "--stream", "stdout"]).out();
    wait_until("it runs", || says() == "one\n");
    server.crash().unwrap();
    fs::write(&go, "").unwrap();
    assert_eq!(wait_for_end(running).error().0, Some(8));
    project.assert_no_process_left();
    // When the server is back, the run is completed with the facts that are still visible.
    server.resume().unwrap();
    let told = project.run(["--json", "--ledger", &url, "recover"]).expect_code(0).json();
    let run = &told["items"][0];
    assert_eq!((&run["end"], &run["changed"][0]["path"]), (&json!("lost"), &json!("out.txt")), "{told}");
    assert_eq!(project.run(["--ledger", &url, "verify", "--all"]).code, Some(0));
}
