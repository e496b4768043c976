//! Recording: a finished prompt goes into the ledger before anybody gets it.

use std::fs::File;
use std::io::Read as _;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::{Digest, Kept, MadeBy, Run, Sealed, keep};
use callsheet_core::render::{Api, Rendered, render};
use callsheet_core::secrets::{Keyed, Passed, seal};
use callsheet_core::{Composed, Request, Snapshot, compose};
use callsheet_run::user_name;
use callsheet_store::{new_id, now};

use crate::app::App;
use crate::drive::host;

/// What a prompt was made of.
pub(crate) struct Made {
    pub(crate) request: Request,
    pub(crate) snapshot: Snapshot,
    pub(crate) api: Option<Api>,
    /// Which secrets were found, and what became of them.
    pub(crate) passed: Passed,
}

fn fault(why: impl Into<String>) -> Diag {
    Diag::error(Code::LedgerFailed, why)
}

impl Made {
    /// A run of its own for the prompt.
    pub(crate) fn run(&self, app: &App<'_>, composed: &Composed) -> Result<Run, Failure> {
        let id = new_id().ok_or_else(|| fault("an id could not be made"))?;
        let task = self.request.task.as_ref().and_then(|task| task.id.as_ref());
        Ok(Run {
            id,
            parent: None,
            task: task.map(ToString::to_string),
            agent: self.request.agent.clone(),
            phase: self.request.phase.clone(),
            role: self.request.role.clone(),
            recipe: composed.prompt.recipe.clone(),
            started: now(),
            project: Some(app.project_name()?),
        })
    }

    /// What goes into the ledger.
    pub(crate) fn kept(
        &self,
        run: Run,
        (composed, rendered): (&Composed, &Rendered),
        talk: &[Diag],
    ) -> Result<Kept, Failure> {
        let mut kept = if self.request.secret.is_empty() {
            let made = (composed, rendered, self.api);
            keep(run, &self.request, &self.snapshot, made, talk).map_err(fault)?
        } else {
            self.sealed(run, rendered, talk)?
        };
        kept.composed.made_by = Some(MadeBy { host: host(), user: user_name() });
        kept.composed.secrets = Some(self.passed.clone()).filter(|passed| !passed.found.is_empty());
        Ok(kept)
    }

    /// The same prompt with a seal in the place of each value that is marked as secret, and the keyed hash of the true
    /// one.
    fn sealed(&self, run: Run, delivered: &Rendered, talk: &[Diag]) -> Result<Kept, Failure> {
        let mut key = [0; 32];
        let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key));
        random.map_err(|error| fault(format!("no random key can be had: {error}")))?;
        let keyed = Keyed::new(key);
        let request = seal(&self.request, &keyed);
        let composed = compose(&request, &self.snapshot)?;
        let rendered = render(&composed.prompt, composed.prompt.format, self.api)?;
        let made = (&composed, &rendered, self.api);
        let mut kept = keep(run, &request, &self.snapshot, made, talk).map_err(fault)?;
        kept.composed.sealed = Some(Sealed { key: Digest(key), text: keyed.hash(delivered.text.as_bytes()) });
        Ok(kept)
    }
}
