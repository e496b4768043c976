//! Maps ledger records to the events that `callsheet watch` prints.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Decided, DecidedBy, Digest, Event, Exit, FlowRecord, Id, LogStream, RunStatus};
use crate::delivery::receipt::DeliveryReceipt;
use crate::flow::FlowEvent;
use crate::request::fact::{
    ChangeKind, ChangedFile, CheckResult, EndReason, ViolationDecision, ViolationReason,
};
use crate::text::SharedText;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The name of an event.
    EventName {
        /// A run is about to start, or the delivery of its prompt is proven further.
        RunStarted "run.started",
        /// A run printed lines.
        RunOutput "run.output",
        /// The status of a run changed.
        RunStatusChanged "run.status_changed",
        /// A check was run.
        CheckStatusChanged "check.status_changed",
        /// A run changed a file that its scope does not allow.
        ViolationCreated "scope_violation.created",
        /// A person decided about such a change.
        ViolationDecided "scope_violation.decided",
        /// Everything about a run is recorded.
        RunFinished "run.finished",
        /// A flow was started.
        FlowStarted "flow.started",
        /// A flow entered a phase.
        FlowEntered "flow.entered",
        /// A phase cannot begin.
        FlowRefused "flow.refused",
        /// A lane of a flow started a run.
        FlowLaneStarted "flow.lane_started",
        /// The run of a lane ended.
        FlowLaneEnded "flow.lane_ended",
        /// A person approved changes of lanes, which are judged again.
        FlowCleared "flow.cleared",
        /// The work of a lane was merged, or is in conflict.
        FlowMerged "flow.merged",
        /// Documents of a flow changed.
        FlowDocuments "flow.documents",
        /// A step of a flow failed.
        FlowFailed "flow.failed",
        /// The quota of an agent is used up, and the flow waits for it.
        FlowParked "flow.parked",
        /// A person decided about a flow.
        FlowDecided "flow.decided",
        /// A person stopped a flow.
        FlowStopped "flow.stopped",
        /// A person resumed a flow.
        FlowResumed "flow.resumed",
        /// The contents of changed files were kept.
        RecordChanged "record.changed",
        /// A prompt was recorded without a run.
        RecordComposed "record.composed",
        /// The reply of an agent was recorded.
        RecordReplied "record.replied",
        /// An agent submitted something by a tool.
        RecordSubmitted "record.submitted",
        /// A probe of the run's prompt was recorded.
        RecordContext "record.context",
        /// A person decided something else.
        RecordDecided "record.decided",
        /// Retention removed runs.
        RecordRemoved "record.removed",
        /// A run or flow was imported.
        RecordImported "record.imported",
        /// Retention removed the contents of this record.
        RecordEmptied "record.emptied",
    }
}

/// More about an event.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum EventData {
    /// A run is about to start.
    Composed {
        /// How far it is.
        stage: StartStage,
        /// The agent.
        agent: Option<String>,
        /// The phase.
        phase: Option<String>,
        /// The role.
        role: Option<String>,
        /// The task.
        task: Option<String>,
        /// The run that it retries or continues.
        parent: Option<Id>,
        /// The working directory of the agent.
        worktree: String,
        /// The SHA-256 of the prompt.
        prompt_sha256: Digest,
    },
    /// The delivery of a prompt is proven further.
    Delivered {
        /// How far the run is.
        stage: StartStage,
        /// How far the delivery is proven.
        receipt: DeliveryReceipt,
        /// The proof.
        evidence: SharedText,
    },
    /// A probe of a prompt.
    Context {
        /// The agent.
        agent: String,
        /// The version of its CLI.
        version: Option<String>,
        /// The bytes of the request.
        bytes: u64,
    },
    /// The status of a run.
    Status {
        /// The status.
        status: RunStatus,
        /// Why it ended.
        end: Option<EndReason>,
        /// The exit code of the agent.
        exit_code: Option<i32>,
        /// The signal that ended the agent.
        signal: Option<i32>,
        /// More about the end.
        message: Option<String>,
    },
    /// Lines that an agent printed.
    Output {
        /// The stream.
        stream: LogStream,
        /// The number of the first line, from 1.
        line: u64,
        /// The lines.
        text: SharedText,
        /// Whether the line was truncated.
        cut: bool,
    },
    /// Files whose contents before and after a run are kept.
    Kept {
        /// The paths.
        paths: Vec<String>,
    },
    /// A check.
    Check {
        /// The name.
        name: String,
        /// The result.
        result: CheckResult,
        /// The exit code.
        exit_code: Option<i32>,
        /// How long it took.
        duration_ms: u64,
    },
    /// A change that the scope does not allow, without or with a person's decision.
    Violation {
        /// The path.
        path: String,
        /// Why it is not allowed; `null` in a decision.
        reason: Option<ViolationReason>,
        /// The decision.
        decision: ViolationDecision,
    },
    /// The end of a run.
    Finished {
        /// The changed files; `null` if no repository was observed.
        changed: Option<Vec<ChangedFileData>>,
    },
    /// An event of a flow.
    Flow {
        /// Who caused it.
        by: DecidedBy,
        /// The phase; empty before the first.
        phase: String,
        /// The fields of the event.
        detail: Map<String, Value>,
    },
    /// A prompt that was recorded without a run.
    Prompt {
        /// The SHA-256 of the prompt.
        prompt_sha256: Digest,
    },
    /// The reply of an agent.
    Reply {
        /// The verdict.
        verdict: Option<String>,
    },
    /// A submission by a tool.
    Submission {
        /// The tool.
        tool: String,
        /// The verdict.
        verdict: Value,
        /// Its effects.
        done: Value,
        /// Why it was refused.
        refused: Vec<String>,
    },
    /// Another decision.
    Decision {
        /// Who decided.
        by: DecidedBy,
        /// The subject.
        what: String,
        /// The decision.
        decision: String,
        /// More about it.
        detail: Value,
    },
    /// Runs that retention removed.
    Removed {
        /// The rule.
        rule: String,
        /// The runs.
        runs: Vec<Id>,
    },
    /// An import.
    Imported {
        /// The number of the head that the export names.
        head_seq: u64,
    },
    /// A record whose contents retention removed.
    Emptied {
        /// The kind of the record.
        kind: String,
    },
}

/// A changed file.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedFileData {
    /// The path, relative to the worktree.
    pub path: String,
    /// The kind of the change.
    pub change: ChangeKind,
    /// The path before the change.
    pub from: Option<String>,
}

impl From<&ChangedFile> for ChangedFileData {
    fn from(file: &ChangedFile) -> Self {
        let ChangedFile { path, change, from } = file.clone();
        Self { path, change, from }
    }
}

word_enum! {
    /// How far the start of a run is.
    StartStage {
        /// Its prompt is recorded.
        Composed "composed",
        /// Its prompt was delivered.
        Delivered "delivered",
    }
}

/// Returns the events of a record in order, each with its data. Every record has at least one, so that a
/// follower misses none.
pub fn watch_events(event: &Event) -> Vec<(EventName, EventData)> {
    match event {
        Event::Composed(composed) => {
            let prompt_sha256 = composed.output.sha256;
            let Some(launch) = &composed.launch else {
                return alloc::vec![(EventName::RecordComposed, EventData::Prompt { prompt_sha256 })];
            };
            let run = composed.run.clone();
            let started = EventData::Composed {
                stage: StartStage::Composed,
                agent: run.agent,
                phase: run.phase,
                role: run.role,
                task: run.task,
                parent: run.parent,
                worktree: launch.worktree.clone(),
                prompt_sha256,
            };
            let status = EventData::Status {
                status: RunStatus::Running,
                end: None,
                exit_code: None,
                signal: None,
                message: None,
            };
            alloc::vec![(EventName::RunStarted, started), (EventName::RunStatusChanged, status)]
        }
        Event::Delivered(delivered) => {
            let (receipt, evidence) = (delivered.receipt, delivered.evidence.clone());
            let data = EventData::Delivered { stage: StartStage::Delivered, receipt, evidence };
            alloc::vec![(EventName::RunStarted, data)]
        }
        Event::Output(output) => {
            let (stream, line, text, cut) = (output.stream, output.line, output.text.clone(), output.cut);
            alloc::vec![(EventName::RunOutput, EventData::Output { stream, line, text, cut })]
        }
        Event::Exit(exit @ Exit { ended, code, signal, why, .. }) => {
            let data = EventData::Status {
                status: exit.status(),
                end: Some(*ended),
                exit_code: *code,
                signal: *signal,
                message: why.clone(),
            };
            alloc::vec![(EventName::RunStatusChanged, data)]
        }
        Event::ChangedContents(changed) => {
            let paths = changed.files.iter().map(|file| file.path.clone()).collect();
            alloc::vec![(EventName::RecordChanged, EventData::Kept { paths })]
        }
        Event::ContextRecord(context) => {
            let data = EventData::Context {
                agent: context.agent.clone(),
                version: context.version.clone(),
                bytes: context.bytes,
            };
            alloc::vec![(EventName::RecordContext, data)]
        }
        Event::Replied(replied) => {
            alloc::vec![(EventName::RecordReplied, EventData::Reply { verdict: replied.verdict.clone() })]
        }
        Event::SubmissionRecord(submitted) => {
            let submitted = submitted.clone();
            let data = EventData::Submission {
                tool: submitted.tool,
                verdict: submitted.verdict,
                done: submitted.done,
                refused: submitted.refused,
            };
            alloc::vec![(EventName::RecordSubmitted, data)]
        }
        Event::Observed(observed) => {
            let checks = observed.checks.iter().map(|check| {
                let data = EventData::Check {
                    name: check.name.clone(),
                    result: check.result,
                    exit_code: check.exit_code,
                    duration_ms: check.duration_ms,
                };
                (EventName::CheckStatusChanged, data)
            });
            let violations = observed.worktree.iter().flat_map(|seen| &seen.violations).map(|violation| {
                let data = EventData::Violation {
                    path: violation.path.clone(),
                    reason: Some(violation.reason),
                    decision: ViolationDecision::Pending,
                };
                (EventName::ViolationCreated, data)
            });
            let files = observed.worktree.as_ref().map(|seen| seen.changed.iter());
            let changed = files.map(|files| files.map(ChangedFileData::from).collect());
            let finished = (EventName::RunFinished, EventData::Finished { changed });
            checks.chain(violations).chain([finished]).collect()
        }
        Event::Decided(decided) if decided.by.is_person() && decided.detail["violation"] == true => {
            let data = EventData::Violation {
                path: decided.what.clone(),
                reason: None,
                decision: ViolationDecision::from_word(&decided.decision),
            };
            alloc::vec![(EventName::ViolationDecided, data)]
        }
        Event::Decided(decided) => match event.clone().into_flow_record() {
            Ok(Some(record)) => alloc::vec![flow_event(&record)],
            _ => {
                let Decided { by, what, decision, detail } = decided.clone();
                alloc::vec![(EventName::RecordDecided, EventData::Decision { by, what, decision, detail })]
            }
        },
        Event::FlowRecord(record) => alloc::vec![flow_event(record)],
        Event::Removed(removed) => {
            let data = EventData::Removed { rule: removed.why.clone(), runs: removed.runs.clone() };
            alloc::vec![(EventName::RecordRemoved, data)]
        }
        Event::Imported(imported) => {
            alloc::vec![(EventName::RecordImported, EventData::Imported { head_seq: imported.seq })]
        }
    }
}

fn flow_event(record: &FlowRecord) -> (EventName, EventData) {
    let name = match &record.event {
        FlowEvent::Started { .. } => EventName::FlowStarted,
        FlowEvent::Entered { .. } => EventName::FlowEntered,
        FlowEvent::Refused { .. } => EventName::FlowRefused,
        FlowEvent::LaneStarted { .. } => EventName::FlowLaneStarted,
        FlowEvent::LaneEnded { .. } => EventName::FlowLaneEnded,
        FlowEvent::Cleared { .. } => EventName::FlowCleared,
        FlowEvent::Merged { .. } => EventName::FlowMerged,
        FlowEvent::Documents { .. } => EventName::FlowDocuments,
        FlowEvent::Failed { .. } => EventName::FlowFailed,
        FlowEvent::Parked { .. } => EventName::FlowParked,
        FlowEvent::Decided { .. } => EventName::FlowDecided,
        FlowEvent::Stopped => EventName::FlowStopped,
        FlowEvent::Resumed => EventName::FlowResumed,
    };
    let mut detail = match serde_json::to_value(&record.event) {
        Ok(Value::Object(detail)) => detail,
        _ => Map::new(),
    };
    // The name is the event's own; the start options are in the ledger, and would hide the rest here.
    detail.shift_remove("event");
    detail.shift_remove("more");
    if let Some(cost) = detail.shift_remove("cost") {
        detail.insert("cost_microusd".to_string(), cost);
    }
    (name, EventData::Flow { by: record.by, phase: record.phase.clone(), detail })
}
