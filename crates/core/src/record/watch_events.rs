//! Maps ledger records to the events that `callsheet watch` prints.

use alloc::vec::Vec;

use serde_json::{Value, json};

use super::{Event, Exit, RunStatus};
use crate::request::fact::ViolationDecision;

/// Returns the named events of a record in order, each with its data. A kind of record without an event of
/// its own is returned under its own name, so that a subscriber misses no record.
pub fn watch_events(event: &Event) -> Vec<(&'static str, Value)> {
    match event {
        Event::Composed(composed) => match &composed.launch {
            Some(launch) => {
                let run = &composed.run;
                let data = json!({
                    "stage": "composed", "agent": run.agent, "phase": run.phase, "role": run.role, "task": run.task,
                    "parent": run.parent, "worktree": launch.worktree, "prompt_sha256": composed.output.sha256,
                });
                alloc::vec![
                    ("run.started", data),
                    ("run.status_changed", json!({ "status": RunStatus::Running }))
                ]
            }
            None => alloc::vec![("record.composed", json!({ "prompt_sha256": composed.output.sha256 }))],
        },
        Event::Delivered(delivered) => {
            let data =
                json!({ "stage": "delivered", "receipt": delivered.receipt, "evidence": delivered.evidence });
            alloc::vec![("run.started", data)]
        }
        Event::Output(output) => {
            let data = json!({ "stream": output.stream, "line": output.line, "text": output.text, "cut": output.cut });
            alloc::vec![("run.output", data)]
        }
        Event::Exit(exit @ Exit { ended, code, signal, why, .. }) => {
            let data = json!({
                "status": exit.status(), "ended": ended, "exit_code": code, "signal": signal, "why": why,
            });
            alloc::vec![("run.status_changed", data)]
        }
        Event::Replied(replied) => {
            alloc::vec![("record.replied", json!({ "verdict": replied.verdict }))]
        }
        Event::SubmissionRecord(submitted) => {
            let mut data =
                json!({ "tool": submitted.tool, "verdict": submitted.verdict, "done": submitted.done });
            if !submitted.refused.is_empty() {
                data["refused"] = json!(submitted.refused);
            }
            alloc::vec![("record.submitted", data)]
        }
        Event::Observed(observed) => {
            let checks = observed.checks.iter().map(|check| {
                let data = json!({
                    "check": check.name, "status": check.result, "exit_code": check.exit_code,
                    "duration_ms": check.duration_ms,
                });
                ("check.status_changed", data)
            });
            let violations = observed.worktree.iter().flat_map(|seen| &seen.violations).map(|violation| {
                let data = json!({
                    "path": violation.path, "reason": violation.reason, "decision": ViolationDecision::Pending,
                });
                ("scope_violation.created", data)
            });
            let finished =
                ("run.finished", json!({ "changed": observed.worktree.as_ref().map(|seen| &seen.changed) }));
            checks.chain(violations).chain([finished]).collect()
        }
        Event::Decided(decided) if decided.by.is_person() && decided.detail["violation"] == true => {
            let data = json!({ "path": decided.what, "decision": decided.decision });
            alloc::vec![("scope_violation.decided", data)]
        }
        Event::Decided(decided) => alloc::vec![("record.decided", json!(decided))],
        Event::FlowRecord(record) => alloc::vec![("record.decided", record.watched())],
        Event::Removed(removed) => alloc::vec![("record.removed", json!(removed))],
        Event::Imported(imported) => alloc::vec![("record.imported", json!(imported))],
    }
}
