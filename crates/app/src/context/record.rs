//! Recorded probes: a probe belongs to the run whose prompt it shows.

use callsheet_core::SharedText;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{ContextRecord, Event, Id, restore_request, restore_snapshot, sha256};
use callsheet_store::{Ledger, RunFilter};

use super::ContextProbe;
use crate::compose::inputs::PreparedInput;
use crate::compose::{ComposeOptions, Composition, Purpose, compose_input, secrets};
use crate::error::Result;
use crate::output::{ContextOutput, to_line};
use crate::project::Project;

/// The most runs that are searched for the newest probe.
const MOST_RUNS: usize = 200;

/// A recorded probe.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedContext {
    /// The run.
    pub run: Id,
    /// The request by part.
    pub output: ContextOutput,
}

impl Project {
    /// Records a probe with the run whose prompt it shows.
    pub fn record_context(&self, run: &Id, probe: &mut ContextProbe) -> Result<()> {
        let output = &mut probe.output;
        output.run = Some(run.clone());
        let document = to_line(output);
        let digest = sha256(&[document.as_bytes()]);
        let record = ContextRecord {
            agent: output.agent.clone(),
            version: output.version.clone(),
            model: output.model.clone(),
            bytes: output.bytes as u64,
            document: digest,
        };
        let texts = [(digest, SharedText::from(document))].into();
        self.create_ledger()?.record_with_texts(run, &Event::ContextRecord(record), &texts)?;
        Ok(())
    }

    /// Returns the newest recorded probe of a run; `None` if it has none.
    pub fn find_context(&self, ledger: &mut Ledger, run: &Id) -> Result<Option<RecordedContext>> {
        let summary = ledger.run_summary(run)?;
        let Some(record) = summary.context else { return Ok(None) };
        let Some(document) = ledger.blob(record.document)? else { return Ok(None) };
        let output = serde_json::from_str(&document).map_err(|error| {
            Diagnostic::error(Code::LedgerDamaged, format!("the probe of run {run} cannot be read: {error}"))
        })?;
        Ok(Some(RecordedContext { run: run.clone(), output }))
    }

    /// Returns the recorded probe of a run; for `last`, the newest one among the newest runs of the project.
    pub fn read_context(&self, name: &str) -> Result<RecordedContext> {
        let mut ledger = self.read_ledger()?;
        if name == "last" {
            let project = self.project_filter(&ledger)?;
            let filter = RunFilter { project, own: true, limit: MOST_RUNS, ..RunFilter::default() };
            for row in ledger.runs(&filter)? {
                if let Some(found) = self.find_context(&mut ledger, &row.run.id)? {
                    return Ok(found);
                }
            }
            let message = format!("none of the newest {MOST_RUNS} runs has a recorded probe");
            let hint = "record one with `callsheet context --record`";
            return Err(Diagnostic::error(Code::RunNotFound, message).hint(hint).into());
        }
        let row = self.find_own_run(&mut ledger, name)?;
        let missing = || {
            let message = format!("run {} has no recorded probe", row.name());
            let hint = format!("record one with `callsheet context --run {} --record`", row.name());
            Diagnostic::error(Code::RunNotFound, message).hint(hint)
        };
        Ok(self.find_context(&mut ledger, &row.run.id)?.ok_or_else(missing)?)
    }

    /// Composes the recorded prompt of a run again, as it was.
    pub(super) fn compose_recorded(&self, name: &str) -> Result<(Id, Composition)> {
        let mut ledger = self.read_ledger()?;
        let row = self.find_own_run(&mut ledger, name)?;
        let composed = ledger.prompt_record(&row.run.id)?;
        let (request, snapshot) = ledger.with_blobs(|blob| {
            Ok::<_, callsheet_core::record::ReplayError>((
                restore_request(&composed, blob)?,
                restore_snapshot(&composed, blob)?,
            ))
        })?;
        if !request.secret.is_empty() {
            let message = format!("the prompt of run {} has secret values that are not recorded", row.name());
            let hint =
                "probe the prompt again with its values: `callsheet context --record` with `--set-secret`";
            return Err(Diagnostic::error(Code::VerifySecret, message).hint(hint).into());
        }
        let input = PreparedInput { replay: Some(snapshot), ..PreparedInput::from_request(request) };
        let mode = secrets::choose_mode(self, None, Purpose::Record)?;
        let options = ComposeOptions { mode, budget: None, api: composed.api };
        Ok((row.run.id, compose_input(self, input, options, Purpose::Record)?))
    }
}
