//! The commands that a person can type next for a flow. Each names the flow, so that it works if several flows
//! are open.

use callsheet_core::flow::WaitReason;
use callsheet_core::record::{LackCode, LackReason};

use super::RecordedFlow;
use super::explain::ExplainedWait;
use crate::run::next_steps::{NextStep, approve_command};

/// The most changes that one command accepts.
const MOST_CHANGES: usize = 5;

/// Returns the commands for a flow that `word` names, the most useful first.
pub(super) fn flow_next_steps(
    known: &RecordedFlow,
    driven: bool,
    word: &str,
    waits: &[ExplainedWait],
) -> Vec<NextStep> {
    let state = &known.state;
    let mut steps = FlowSteps { word, steps: Vec::new() };
    if state.has_ended() {
    } else if driven {
        steps.add(format!("flow status {word} --watch"), "follow it");
        steps.add(format!("flow stop {word}"), "stop it; it can be resumed");
    } else if !state.failed.is_empty() {
        steps.add(format!("flow resume {word}"), "try again, once the cause is fixed");
        steps.add(format!("flow decide reject --flow {word}"), "end the flow");
    } else if state.is_waiting() {
        waits.iter().for_each(|wait| steps.add_wait(wait));
        steps.add_decisions(waits);
    } else {
        steps.add(format!("flow resume {word}"), "continue");
    }
    steps.steps
}

struct FlowSteps<'w> {
    word: &'w str,
    steps: Vec<NextStep>,
}

impl FlowSteps<'_> {
    fn add(&mut self, command: String, purpose: &str) {
        let step = NextStep { command: format!("callsheet {command}"), purpose: purpose.to_owned() };
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Adds the commands for one reason to wait.
    fn add_wait(&mut self, wait: &ExplainedWait) {
        let word = self.word;
        if let WaitReason::Question { .. } = &wait.reason {
            self.add(format!("flow decide answer \"…\" --flow {word}"), "answer the question");
        }
        if let WaitReason::Parked { .. } = &wait.reason {
            self.add(format!("flow resume {word}"), "continue, once the quota is available again");
        }
        match (&wait.run_name, &wait.reason) {
            (Some(run), WaitReason::Conflicts { .. }) => {
                self.add(format!("show {run} --diff"), "see the changes that cannot be merged");
            }
            (Some(run), WaitReason::Submission { .. }) => {
                self.add(format!("show {run} --full"), "see the run");
            }
            _ => {}
        }
        let (Some(run), WaitReason::Evidence { lacks, .. }) = (&wait.run_name, &wait.reason) else { return };
        let has = |code: LackCode| wait.lacks.iter().any(|lack| lack.code == code);
        if has(LackCode::ExitCode) || has(LackCode::NotExited) || has(LackCode::ReportedFailure) {
            self.add(format!("show {run} --stream stderr"), "see the agent's error output");
        }
        let open: Vec<&str> = wait.lacks.iter().filter_map(undecided_path).collect();
        let decide = |path: &str| approve_command(run, path);
        let is_only = lacks.iter().all(|need| need == "clean")
            && wait.lacks.iter().all(|lack| undecided_path(lack).is_some());
        if is_only && !open.is_empty() && open.len() <= MOST_CHANGES {
            let decided: Vec<String> = open.iter().map(|path| decide(path)).collect();
            let command = format!("{} && callsheet flow resume {word}", decided.join(" && callsheet "));
            self.add(command, "accept its changes outside the scope, and continue");
        } else {
            for path in open.into_iter().take(MOST_CHANGES) {
                self.add(decide(path), "accept the change");
            }
        }
        if has(LackCode::Accepted) {
            self.add(format!("flow resume {word}"), "continue with the accepted changes");
        }
        self.add(format!("show {run} --full"), "see the run");
    }

    /// Adds the decisions of a person, which are possible whatever the flow waits for.
    fn add_decisions(&mut self, waits: &[ExplainedWait]) {
        let word = self.word;
        let all = |is_so: fn(&WaitReason) -> bool| waits.iter().all(|wait| is_so(&wait.reason));
        let approve = if all(|reason| matches!(reason, WaitReason::Cost)) {
            "let it spend the same amount again"
        } else if all(|reason| matches!(reason, WaitReason::Parked { .. })) {
            "continue at once"
        } else if all(|reason| matches!(reason, WaitReason::Refused { .. })) {
            "try to begin the phase again"
        } else if all(|reason| matches!(reason, WaitReason::Documents { .. })) {
            "accept the documents as they are"
        } else {
            "accept the work as it is"
        };
        self.add(format!("flow decide approve --flow {word}"), approve);
        self.add(format!("flow decide changes \"…\" --flow {word}"), "ask for changes");
        self.add(format!("flow decide reject --flow {word}"), "end the flow");
    }
}

fn undecided_path(lack: &LackReason) -> Option<&str> {
    lack.path.as_deref().filter(|_| lack.code == LackCode::Undecided)
}
