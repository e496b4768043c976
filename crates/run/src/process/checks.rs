//! Runs checks: commands in the worktree after an agent, each judged by its exit code.

use std::path::Path;
use std::time::Duration;

use callsheet_core::request::fact::{CheckResult, CheckRun, CheckSpec, EndReason};

use super::trace::ProcessTrace;
use super::{ProcessEvent, ProcessJob, ProcessLimits, StopFlag, run_process};

/// How many bytes of a check's output are kept.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Runs a check to its end. A check that cannot be started, or did not finish, is pending: never a pass.
pub fn run_check(
    check: &CheckSpec,
    worktree: &Path,
    guard: Option<&Path>,
    stop: &StopFlag,
    trace: Option<&ProcessTrace>,
    tell: &mut dyn FnMut(&ProcessEvent),
) -> CheckRun {
    let limits = ProcessLimits {
        deadline: check.timeout_ms.map(Duration::from_millis),
        head_bytes: OUTPUT_BYTES / 2,
        tail_bytes: OUTPUT_BYTES / 2,
        ..ProcessLimits::default()
    };
    let job = ProcessJob {
        limits,
        guard: guard.map(Path::to_owned),
        stop: stop.clone(),
        trace: trace.cloned(),
        ..ProcessJob::new(check.argv.clone(), worktree.to_owned())
    };
    let mut output = String::new();
    let ran = run_process(&job, &mut |event| {
        match &event {
            ProcessEvent::Output { text, goes_on, .. } => {
                output.push_str(text);
                output.push_str(if *goes_on { "" } else { "\n" });
            }
            ProcessEvent::LeftOut { bytes, .. } => output.push_str(&format!("[{bytes} bytes left out]\n")),
            ProcessEvent::Started { .. } | ProcessEvent::Submitted(_) | ProcessEvent::Printed { .. } => {}
        }
        tell(&event);
    });
    let (result, ended, exit_code, duration) = match ran {
        Ok(exit) => {
            let result = match exit.ended {
                EndReason::Exited if exit.code == Some(0) => CheckResult::Passed,
                EndReason::Exited | EndReason::Signaled => CheckResult::Failed,
                EndReason::Unstarted
                | EndReason::Timeout
                | EndReason::Cost
                | EndReason::Stopped
                | EndReason::Parked
                | EndReason::Unauthenticated
                | EndReason::Lost => CheckResult::Pending,
            };
            (result, Some(exit.ended), exit.code, exit.duration)
        }
        Err(error) => {
            output = error.to_string();
            (CheckResult::Pending, None, None, Duration::ZERO)
        }
    };
    let (name, argv) = (check.name.clone(), check.argv.clone());
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    CheckRun { name, argv, result, ended, exit_code, duration_ms, output }
}
