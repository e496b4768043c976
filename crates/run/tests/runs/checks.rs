//! Tests that checks run without a shell, and that only an exit code of zero is a pass.

use callsheet_core::request::fact::{CheckResult, CheckRun, CheckSpec, EndReason};
use callsheet_core::split_words;
use callsheet_run::{StopFlag, run_check};

use crate::support::AGENT;

fn run_check_command(command: &str, timeout_ms: u64) -> CheckRun {
    let argv = split_words(&format!("{AGENT} {command}")).unwrap();
    let spec = CheckSpec { name: "c".into(), argv, timeout_ms: Some(timeout_ms) };
    run_check(&spec, &std::env::temp_dir(), Some(AGENT.as_ref()), &StopFlag::default(), None, &mut |_| {})
}

#[test]
fn exit_code_decides_result() {
    let of = |command: &str, timeout_ms| {
        let run = run_check_command(command, timeout_ms);
        (run.result, run.ended, run.exit_code, run.output)
    };
    let minute = 60_000;
    assert_eq!(
        of("say 'all well'", minute),
        (CheckResult::Passed, Some(EndReason::Exited), Some(0), "all well\n".into())
    );
    assert_eq!(
        of("talk bad exit 1", minute),
        (CheckResult::Failed, Some(EndReason::Exited), Some(1), "bad\n".into())
    );
    assert_eq!(
        of("kill-self", minute),
        (CheckResult::Failed, Some(EndReason::Signaled), None, String::new())
    );
    assert_eq!(of("sleep 60000", 200), (CheckResult::Pending, Some(EndReason::Timeout), None, String::new()));
}

#[test]
fn check_runs_without_shell() {
    let run = run_check_command(r#"argv exit 0 "a b" '$HOME;x'"#, 60_000);
    assert_eq!(run.output, "[\"argv\", \"exit\", \"0\", \"a b\", \"$HOME;x\"]\n");
}

#[test]
fn unstartable_check_is_pending() {
    let spec = CheckSpec { name: "c".into(), argv: vec!["no-such-program".into()], timeout_ms: None };
    let run = run_check(
        &spec,
        &std::env::temp_dir(),
        Some(AGENT.as_ref()),
        &StopFlag::default(),
        None,
        &mut |_| {},
    );
    assert_eq!((run.result, run.ended, run.exit_code), (CheckResult::Pending, None, None));
}

#[test]
fn end_of_long_output_is_kept() {
    let run = run_check_command("line-of 1000000 say end exit 3", 60_000);
    // The line is reported in several records; the last one is short enough to be kept.
    assert_eq!(run.output, format!("[983040 bytes left out]\n{}\nend\n", "x".repeat(1_000_000 - 983_040)));
}
