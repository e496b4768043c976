//! Builds the record of a composed prompt, which is in the ledger before the prompt is delivered.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::format::ModelApi;
use callsheet_core::record::{Digest, Id, MadeBy, RecordBundle, Run, SealedText, build_record};
use callsheet_core::render::{RenderedText, render};
use callsheet_core::secrets::{GateReport, HmacKey, seal};
use callsheet_core::{ComposedPrompt, Request, Snapshot, compose};
use callsheet_run::read_user_name;
use callsheet_store::{new_id, now};

use crate::compose::Composition;
use crate::error::Result;
use crate::project::Project;
use crate::random::random_key;
use callsheet_run::host_name;

/// Inputs of a prompt.
#[derive(Debug)]
pub(crate) struct PromptInputs {
    pub request: Request,
    pub snapshot: Snapshot,
    pub api: Option<ModelApi>,
    /// Secrets found in the inputs, and how each was handled.
    pub passed: GateReport,
}

fn ledger_error(why: impl ToString) -> Diagnostic {
    Diagnostic::error(Code::LedgerFailed, why.to_string())
}

impl PromptInputs {
    /// Creates a new run for the prompt.
    pub(crate) fn new_run(&self, project: &Project, composed: &ComposedPrompt) -> Result<Run> {
        let id = new_id().ok_or_else(|| ledger_error("cannot generate an id"))?;
        let run = Run::new(id, &now(), &self.request, &composed.prompt.recipe)?;
        Ok(run.with_project(project.project_name()?)?)
    }

    /// Builds the ledger records of the prompt.
    pub(crate) fn build_record(
        &self,
        run: Run,
        (composed, rendered): (&ComposedPrompt, &RenderedText),
        diagnostics: &[Diagnostic],
    ) -> Result<RecordBundle> {
        let mut kept = if self.request.secret.is_empty() {
            let made = (composed, rendered, self.api);
            build_record(run, &self.request, &self.snapshot, made, diagnostics).map_err(ledger_error)?
        } else {
            self.build_sealed_record(run, rendered, diagnostics)?
        };
        kept.composed.made_by = Some(MadeBy { host: host_name(), user: read_user_name() });
        kept.composed.secrets = Some(self.passed.clone()).filter(|passed| !passed.found.is_empty());
        Ok(kept)
    }

    /// Builds the records of the same prompt with a seal in the place of each secret value, and with the
    /// keyed hash of the delivered text.
    fn build_sealed_record(
        &self,
        run: Run,
        delivered: &RenderedText,
        diagnostics: &[Diagnostic],
    ) -> Result<RecordBundle> {
        let key = random_key()?;
        let keyed = HmacKey::new(key);
        let request = seal(&self.request, &keyed);
        let composed = compose(&request, &self.snapshot)?;
        let rendered = render(&composed.prompt, composed.prompt.format, self.api)?;
        let made = (&composed, &rendered, self.api);
        let mut kept =
            build_record(run, &request, &self.snapshot, made, diagnostics).map_err(ledger_error)?;
        kept.composed.sealed =
            Some(SealedText { key: Digest(key), text: keyed.hash(delivered.text.as_bytes()) });
        Ok(kept)
    }
}

impl Project {
    /// Records a prompt in the ledger as a run that is not started, and returns the run's id.
    ///
    /// ```no_run
    /// use callsheet::{ComposeInput, Project, Purpose};
    ///
    /// let project = Project::open(".")?;
    /// let input = ComposeInput { task: Some("Add a login page.".into()), ..ComposeInput::default() };
    /// let run = project.record(&project.compose(&input, Purpose::Record)?)?;
    /// println!("recorded as {run}");
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn record(&self, composition: &Composition) -> Result<Id> {
        let Some(inputs) = &composition.inputs else {
            return Err(ledger_error("this prompt was composed without recording").into());
        };
        let run = inputs.new_run(self, &composition.composed)?;
        let id = run.id.clone();
        let made = (&composition.composed, &composition.rendered);
        let bundle = inputs.build_record(run, made, &composition.diagnostics)?;
        self.create_ledger()?.record_prompt(&bundle)?;
        Ok(id)
    }
}
