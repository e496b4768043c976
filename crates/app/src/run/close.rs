//! Records that a person expects no more of a task, or counts it again.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Decided, DecidedBy, Event, Id, TaskDecision};
use serde_json::json;

use super::tasks::find_task;
use crate::compose::secrets::refuse_secrets;
use crate::error::Result;
use crate::project::Project;
use crate::project::person::{refuse_agent, refuse_below_guard};

/// A recorded decision about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedTask {
    /// Id of the task, else the name of its first run.
    pub task: String,
    /// The decision.
    pub decision: TaskDecision,
    /// The newest run of the task, which holds the decision.
    pub run: Id,
    /// Short name of this run.
    pub name: String,
    /// How the person decided.
    pub by: DecidedBy,
    /// Number of the record.
    pub seq: u64,
}

impl Project {
    /// Records a person's decision about the task with this id or with this run. A later run of the task opens it again.
    pub fn decide_task(
        &self,
        task: &str,
        decision: TaskDecision,
        because: Option<&str>,
        yes: bool,
    ) -> Result<DecidedTask> {
        refuse_below_guard()?;
        refuse_agent("an agent cannot decide about its own work")?;
        let mut ledger = self.write_ledger()?;
        self.refuse_below_ledger_guard(&mut ledger)?;
        let row = self.find_task_row(&mut ledger, task)?;
        let row = self.find_own_run(&mut ledger, row.run.id.as_str())?;
        let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
        if let Some(flow) = row.facts.as_ref().and_then(|facts| facts.flow.as_ref()) {
            let error = refused(format!("{} is a run of a flow, not a task", row.name()));
            return Err(error.hint(format!("end the flow with `callsheet flow stop {flow}`")).into());
        }
        let found = find_task(self, &mut ledger, &row)?;
        let gone = || Diagnostic::error(Code::TaskNotFound, format!("no run of `{task}` is left"));
        let newest = found.runs.last().ok_or_else(gone)?;
        match (decision, found.closed().is_some()) {
            (TaskDecision::Close, true) => {
                return Err(refused(format!("`{}` is already closed", found.name)).into());
            }
            (TaskDecision::Reopen, false) => {
                return Err(refused(format!("`{}` is not closed", found.name)).into());
            }
            _ => {}
        }
        if let Some(running) = found.runs.iter().find(|run| !run.is_complete()) {
            let name = running.name();
            let error = refused(format!("{name} of this task is still running"));
            return Err(error.hint(format!("stop it with `callsheet stop {name}`")).into());
        }
        let mut detail = json!({ "task": found.key });
        if let Some(because) = because {
            refuse_secrets(self, None, &[("the reason".into(), because)])?;
            detail["because"] = json!(because);
        }
        let by = self.require_person(yes)?;
        let decided = Decided { by, what: found.key.clone(), decision: decision.name().into(), detail };
        let run = newest.run.id.clone();
        let name = newest.name().to_owned();
        let seq = ledger.append(Some(&run), None, &Event::Decided(decided))?;
        Ok(DecidedTask { task: found.name, decision, run, name, by, seq })
    }
}
