//! Records what a person decides about a change that a run made.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Decided, DecidedBy, Event, Id};
use callsheet_core::request::fact::ViolationDecision;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::compose::secrets::refuse_secrets;
use crate::error::Result;
use crate::project::Project;
use crate::project::person::{refuse_agent, refuse_below_guard};

/// What a person says about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeDecision {
    /// The change outside of the scope stays.
    Approve,
    /// The change outside of the scope is wrong.
    Reject,
    /// The person made the change.
    Mine,
}

impl ChangeDecision {
    /// Every decision.
    pub const ALL: [Self; 3] = [Self::Approve, Self::Reject, Self::Mine];

    /// Returns the decision as a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Mine => "mine",
        }
    }
}

/// A recorded decision about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecidedChange {
    /// The run that saw the change.
    pub run: Id,
    /// How the person decided.
    pub by: DecidedBy,
    /// Number of the record.
    pub seq: u64,
    /// The flow of the run.
    pub flow: Option<String>,
}

impl Project {
    /// Records a person's decision about the change of `path` by a run. A decision is made once.
    pub fn decide_change(
        &self,
        run: &str,
        path: &str,
        decision: ChangeDecision,
        because: Option<&str>,
        yes: bool,
    ) -> Result<DecidedChange> {
        refuse_below_guard()?;
        refuse_agent("an agent cannot decide about its own work")?;
        let mut ledger = self.write_ledger()?;
        self.refuse_below_ledger_guard(&mut ledger)?;
        let run = self.find_own_run(&mut ledger, run)?.run.id;
        let account = ledger.run_summary(&run)?;
        let violations = account.violations();
        let violation = violations.iter().any(|violation| violation.path == path);
        let mine = decision == ChangeDecision::Mine;
        if !(violation || mine && account.has_observed_change(path)) {
            let message = match mine {
                true => format!("run {run} did not change `{path}`"),
                false => format!("run {run} did not change `{path}` outside its scope"),
            };
            let error = Diagnostic::error(Code::ViolationNotFound, message);
            return Err(error.searched(violations.iter().map(|violation| &violation.path)).into());
        }
        let decided = account.decision(path);
        if decided != ViolationDecision::Pending {
            let message = format!("`{path}` is already {}", decided.name());
            let error = Diagnostic::error(Code::RunRefused, message);
            return Err(error.hint("a decision cannot be changed").into());
        }
        let mut detail = json!({ "violation": violation });
        if let Some(because) = because {
            refuse_secrets(self, None, &[("the reason".into(), because)])?;
            detail["because"] = json!(because);
        }
        let by = self.require_person(yes)?;
        let decided = Decided { by, what: path.into(), decision: decision.name().into(), detail };
        let seq = ledger.append(Some(&run), None, &Event::Decided(decided))?;
        let flow = account.launch.as_ref().and_then(|launch| launch.flow.get("flow")).cloned();
        Ok(DecidedChange { run, by, seq, flow })
    }
}
