//! Recording: a finished prompt goes into the ledger before anybody gets it.

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::{Id, Run, keep};
use callsheet_core::render::{Api, Rendered};
use callsheet_core::secrets::Passed;
use callsheet_core::{Composed, Request, Snapshot};
use callsheet_store::{Ledger, new_id, now};

use crate::ledger::failure;

/// What a prompt was made of.
pub(crate) struct Made {
    pub(crate) request: Request,
    pub(crate) snapshot: Snapshot,
    pub(crate) api: Option<Api>,
    /// Which secrets were found, and what became of them.
    pub(crate) passed: Passed,
    /// Where it goes.
    pub(crate) ledger: Ledger,
}

impl Made {
    /// Records the prompt, and says as which run.
    pub(crate) fn record(
        mut self,
        composed: &Composed,
        rendered: &Rendered,
        talk: &[Diag],
        parent: Option<Id>,
    ) -> Result<Id, Failure> {
        let fault = |why: String| Diag::error(Code::LedgerFailed, why);
        let id = new_id().ok_or_else(|| fault("an id could not be made".into()))?;
        let task = self.request.task.as_ref().and_then(|task| task.id.as_ref());
        let run = Run {
            id: id.clone(),
            parent,
            task: task.map(ToString::to_string),
            agent: self.request.agent.clone(),
            phase: self.request.phase.clone(),
            role: self.request.role.clone(),
            recipe: composed.prompt.recipe.clone(),
            started: now(),
        };
        let made = (composed, rendered, self.api);
        let kept = keep(run, &self.request, &self.snapshot, made, talk).map_err(fault)?;
        self.ledger.compose(&kept).map_err(failure)?;
        Ok(id)
    }
}
