//! The contents of the files that runs changed: kept in the ledger, shown as a diff, taken back, and applied elsewhere.

mod diff;
mod keep;
mod restore;

use std::collections::BTreeMap;

use callsheet_core::SharedText;
use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::{Digest, FileChange, FileVersion, RunSummary};
use callsheet_store::Ledger;

use crate::error::Result;
use crate::project::Project;

pub use diff::{FileDiff, PatchBody, diff_files, diff_runs};
pub(crate) use keep::{copies_dir, record_contents};
pub use restore::{RestoreReport, RestoredFile};

/// The files that a run changed, with the contents that are kept.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunChanges {
    /// The run.
    pub summary: RunSummary,
    /// The files.
    pub kept: KeptChanges,
}

/// Changed files with the contents that are kept.
#[derive(Debug)]
#[non_exhaustive]
pub struct KeptChanges {
    /// The files with their versions, in byte order of the paths.
    pub files: Vec<FileChange>,
    texts: BTreeMap<Digest, SharedText>,
}

impl Project {
    /// Returns the files that a run changed, with their contents before and after.
    pub fn run_changes(&self, ledger: &mut Ledger, name: &str) -> Result<RunChanges> {
        let run = self.find_run(ledger, name)?.run.id;
        let summary = ledger.run_summary(&run)?;
        let Some(changed) = summary.changed.clone() else {
            let is_open = summary.launch.is_some() && summary.observed.is_none();
            let why = match (is_open, &summary.launch) {
                (true, _) => "it is still running",
                (false, None) => "it was only composed",
                (false, Some(_)) => "the contents of its changed files were not kept",
            };
            return Err(Diagnostic::error(
                Code::RunRefused,
                format!("run {run} has no changes to show: {why}"),
            )
            .into());
        };
        let mut texts = BTreeMap::new();
        for digest in changed.texts() {
            let text = ledger.blob(digest)?;
            let gone = || Diagnostic::error(Code::LedgerDamaged, format!("blob {digest} is gone"));
            texts.insert(digest, text.ok_or_else(gone)?);
        }
        Ok(RunChanges { summary, kept: KeptChanges { files: changed.files, texts } })
    }
}

impl KeptChanges {
    /// Returns the kept contents of a version of a file.
    pub fn text(&self, version: &FileVersion) -> Option<&str> {
        self.texts.get(&version.text()?).map(|text| &**text)
    }
}

impl RunChanges {
    /// Leaves only the files with these paths. Refuses a path that the run did not change.
    pub fn keep_only(&mut self, paths: &[String]) -> Result<()> {
        let (run, files) = (&self.summary.run.id, &mut self.kept.files);
        let is_known = |path: &&String| files.iter().any(|file| file.path == **path);
        let unknown: Vec<&String> = paths.iter().filter(|path| !is_known(path)).collect();
        if !unknown.is_empty() {
            let known = files.iter().map(|file| file.path.as_str());
            let error = |path: &&String| {
                let message = format!("run {run} did not change `{path}`");
                Diagnostic::error(Code::RunRefused, message).suggest(path, known.clone())
            };
            return Err(Diagnostics(unknown.iter().map(error).collect()).into());
        }
        if !paths.is_empty() {
            files.retain(|file| paths.contains(&file.path));
        }
        Ok(())
    }
}
