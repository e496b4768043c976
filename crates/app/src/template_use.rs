//! Finds the runs that used a template.

use callsheet_core::SourceId;
use callsheet_core::record::Digest;
use callsheet_store::{Ledger, RunFilter, RunRow};

use crate::error::Result;
use crate::project::Project;

/// Runs that used a template, the newest first.
#[derive(Clone, Debug)]
pub struct TemplateUse {
    /// The runs, each with the SHA-256 of the text that it used.
    pub runs: Vec<(RunRow, Digest)>,
    /// Number of runs that were examined.
    pub examined: usize,
    /// Whether older runs were not examined.
    pub has_more: bool,
}

impl Project {
    /// Finds the runs whose prompt has text of a source, among the newest `most` of the project.
    pub fn template_use(&self, ledger: &mut Ledger, source: &SourceId, most: usize) -> Result<TemplateUse> {
        let project = self.project_filter(ledger)?;
        let filter = RunFilter { project, limit: most.saturating_add(1), ..RunFilter::default() };
        let mut rows = ledger.runs(&filter)?;
        let has_more = rows.len() > most;
        rows.truncate(most);
        let examined = rows.len();
        let mut runs = Vec::new();
        for row in rows {
            // Retention may have removed the record of the prompt.
            let Ok(composed) = ledger.prompt_record(&row.run.id) else { continue };
            if let Some(Some(digest)) = composed.snapshot.texts.get(source) {
                runs.push((row, *digest));
            }
        }
        Ok(TemplateUse { runs, examined, has_more })
    }
}
