//! Checks: commands that are run in the worktree after an agent, each for its exit code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callsheet_core::fact::{CheckResult, CheckRun, CheckSpec, Ended};

use crate::process::{Event, Job, Limits, Stop, run_process};
use crate::trace::ProcessTrace;

/// How much of a check's output is kept.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Runs a check to its end. One that cannot be started, or did not finish, is pending: never a pass.
pub fn run_check(
    check: &CheckSpec,
    worktree: &Path,
    guard: PathBuf,
    stop: &Stop,
    trace: Option<&ProcessTrace>,
    tell: &mut dyn FnMut(&Event),
) -> CheckRun {
    let limits = Limits {
        deadline: check.timeout_ms.map(Duration::from_millis),
        head_bytes: OUTPUT_BYTES / 2,
        tail_bytes: OUTPUT_BYTES / 2,
        ..Limits::default()
    };
    let job = Job {
        argv: check.argv.clone(),
        env: BTreeMap::new(),
        cwd: worktree.to_owned(),
        stdin: Vec::new(),
        limits,
        guard,
        stop: stop.clone(),
        submissions: None,
        trace: trace.cloned(),
    };
    let mut output = String::new();
    let ran = run_process(&job, &mut |event| {
        match &event {
            Event::Output { text, goes_on, .. } => {
                output.push_str(text);
                output.push_str(if *goes_on { "" } else { "\n" });
            }
            Event::LeftOut { bytes, .. } => output.push_str(&format!("[{bytes} bytes left out]\n")),
            Event::Started { .. } | Event::Submitted(_) | Event::Printed { .. } => {}
        }
        tell(&event);
    });
    let (name, argv) = (check.name.clone(), check.argv.clone());
    match ran {
        Ok(exit) => {
            let result = match (exit.ended, exit.code) {
                (Ended::Exited, Some(0)) => CheckResult::Passed,
                (Ended::Exited | Ended::Signaled, _) => CheckResult::Failed,
                (Ended::Unstarted | Ended::Timeout | Ended::Cost | Ended::Stopped | Ended::Lost, _) => {
                    CheckResult::Pending
                }
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
