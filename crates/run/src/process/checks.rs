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
    let (name, argv) = (check.name.clone(), check.argv.clone());
    match ran {
        Ok(exit) => {
            let result = match (exit.ended, exit.code) {
                (EndReason::Exited, Some(0)) => CheckResult::Passed,
                (EndReason::Exited | EndReason::Signaled, _) => CheckResult::Failed,
                (
                    EndReason::Unstarted
                    | EndReason::Timeout
                    | EndReason::Cost
                    | EndReason::Stopped
                    | EndReason::Lost,
                    _,
                ) => CheckResult::Pending,
            };
            let duration_ms = u64::try_from(exit.duration.as_millis()).unwrap_or(u64::MAX);
            CheckRun {
                name,
                argv,
                result,
                ended: Some(exit.ended),
                exit_code: exit.code,
                duration_ms,
                output,
            }
        }
        Err(error) => {
            let (result, output) = (CheckResult::Pending, error.to_string());
            CheckRun { name, argv, result, ended: None, exit_code: None, duration_ms: 0, output }
        }
    }
}
