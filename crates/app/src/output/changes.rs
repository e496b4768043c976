//! The changes of a run: as patches, taken back, applied.

use callsheet_core::record::{FileMode, Id};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostics::ReasonOutput;
use crate::run::changes::{FileDiff, PatchBody, RestoreReport, RestoredFile};

/// The changes of a run, or the differences between the results of two runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChangesOutput {
    /// The run.
    pub run: Id,
    /// The run that it is compared with; `null` if the changes of one run are shown.
    pub from: Option<Id>,
    /// The files.
    pub items: Vec<FileDiffOutput>,
}

/// A changed file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FileDiffOutput {
    /// The path.
    pub path: String,
    /// The path before the change, if it is another one.
    pub from: Option<String>,
    /// The kind of the file before the change; `null` if it did not exist.
    pub mode_before: Option<FileMode>,
    /// The kind of the file after the change; `null` if it does not exist.
    pub mode_after: Option<FileMode>,
    /// The number of added lines, if it is known.
    pub added_count: Option<usize>,
    /// The number of removed lines, if it is known.
    pub removed_count: Option<usize>,
    /// The patch, as `git apply` takes it; `null` if the contents are not kept.
    pub patch: Option<String>,
    /// Why the contents are not kept.
    pub reason: Option<ReasonOutput>,
}

impl ChangesOutput {
    /// Describes changed files.
    pub fn new(run: &Id, from: Option<&Id>, files: &[FileDiff]) -> Self {
        Self {
            run: run.clone(),
            from: from.cloned(),
            items: files.iter().map(FileDiffOutput::from).collect(),
        }
    }
}

impl From<&FileDiff> for FileDiffOutput {
    fn from(file: &FileDiff) -> Self {
        let (added, removed) = file.line_counts().unzip();
        let reason = match &file.body {
            PatchBody::Lines { .. } => None,
            PatchBody::Omitted(why) => Some(ReasonOutput::new(why.name(), why.reason())),
        };
        Self {
            path: file.path.clone(),
            from: file.from.clone(),
            mode_before: file.mode_before,
            mode_after: file.mode_after,
            added_count: added,
            removed_count: removed,
            patch: reason.is_none().then(|| file.patch()),
            reason,
        }
    }
}

/// Files that were taken back or applied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RestoreOutput {
    /// The run.
    pub run: Id,
    /// The checkout.
    pub worktree: String,
    /// The files.
    pub items: Vec<RestoredFile>,
}

impl From<&RestoreReport> for RestoreOutput {
    fn from(report: &RestoreReport) -> Self {
        Self {
            run: report.run.clone(),
            worktree: report.dir.display().to_string(),
            items: report.files.clone(),
        }
    }
}
