//! Records submissions that the guard of a terminal accepted.

use std::path::PathBuf;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Event, Id, SubmissionRecord};
use callsheet_core::secrets::{mask_address_in, mask_addresses};
use callsheet_run::{SubmissionError, SubmissionGate};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::project::{Project, ProjectOptions};

/// Returns the ledger settings with which the guard of a terminal records a submission. They travel over a
/// socket, because they can contain a password.
pub(super) fn recorder_settings(project: &Project) -> Value {
    let named = project.ledger.clone();
    let configured =
        project.config.ledger.value.clone().filter(|_| project.config.ledger.from == "environment");
    let (here, project) = (project.here.display().to_string(), project.dir.display().to_string());
    json!({ "here": here, "project": project, "ledger": named.or(configured) })
}

/// Records a submission that the guard of a terminal accepted.
pub fn record_submission(gate: &SubmissionGate, accepted: &SubmissionRecord) -> Result<(), SubmissionError> {
    let text = |name: &str| gate.recorder[name].as_str().map(str::to_owned);
    let record = || {
        let project = Project::open_with(ProjectOptions {
            here: Some(PathBuf::from(text("here").unwrap_or_default())),
            dir: Some(PathBuf::from(text("project").unwrap_or_default())),
            ledger: text("ledger"),
            all_projects: true,
            ..ProjectOptions::default()
        })?;
        let id = Id::parse(&gate.run)
            .ok_or_else(|| Diagnostic::error(Code::RunNotFound, format!("`{}` is not a run id", gate.run)))?;
        let event = Event::SubmissionRecord(accepted.clone());
        project.write_ledger()?.append(Some(&id), None, &event)?;
        Ok(())
    };
    // The agent reads the error, so it must not contain a password.
    record().map_err(|failure: Error| {
        let masked = mask_addresses(&failure.to_string());
        SubmissionError::Refused(mask_address_in(&masked, &text("ledger").unwrap_or_default()))
    })
}
