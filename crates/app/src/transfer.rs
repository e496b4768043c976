//! Moves runs between ledgers, and removes old ones.

use std::fs::Permissions;
use std::io::{self, BufRead, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_store::{
    ExportScope, ImportReport, LedgerError, RetentionPolicy, SweepReport, in_toto_statement,
};
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::project::Project;
use crate::project::person::refuse_below_guard;
use crate::session::write::check_stays_inside;

/// Contents of an export.
#[derive(Clone, Debug)]
pub enum ExportContents {
    /// The whole ledger.
    Ledger,
    /// A run with everything that it needs.
    Run(String),
    /// An in-toto statement about the prompt of a run.
    Statement(String),
}

impl Project {
    /// Writes an export.
    ///
    /// ```no_run
    /// use callsheet::Project;
    /// use callsheet::transfer::ExportContents;
    ///
    /// let mut file = std::fs::File::create("ledger.jsonl").expect("a new file");
    /// Project::open(".")?.export(&ExportContents::Ledger, &mut file)?;
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn export(&self, contents: &ExportContents, out: &mut dyn Write) -> Result<()> {
        let mut ledger = self.read_ledger()?;
        let scope = match contents {
            ExportContents::Ledger => ExportScope::All,
            ExportContents::Run(name) => ExportScope::Run(self.find_run(&mut ledger, name)?.run.id),
            ExportContents::Statement(name) => {
                let run = self.find_run(&mut ledger, name)?.run.id;
                let text = format!("{}\n", in_toto_statement(&mut ledger, &run)?);
                let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                return Ok(written.map_err(|error| LedgerError::Failed(error.to_string()))?);
            }
        };
        Ok(callsheet_store::export(&mut ledger, &scope, out)?)
    }

    /// Writes an export to a file that only its owner can read. Other files stay as they are, and so does
    /// this one if the export fails.
    pub fn export_to_file(&self, contents: &ExportContents, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let real = folder.canonicalize().map_err(write_error)?;
        check_stays_inside(&self.dir, path, &real)?;
        let mut file = NamedTempFile::new_in(&real).map_err(write_error)?;
        self.export(contents, &mut BufWriter::new(file.as_file_mut()))?;
        file.as_file()
            .set_permissions(Permissions::from_mode(0o600))
            .and_then(|()| file.as_file().sync_all())
            .and_then(|()| {
                let path = real.join(path.file_name().unwrap_or_default());
                file.persist(path).map_err(|error| error.error)
            })
            .map_err(write_error)?;
        Ok(())
    }

    /// Adds the contents of an export to the ledger: everything or, if the export has any fault, nothing.
    pub fn import(&self, file: &mut dyn BufRead) -> Result<ImportReport> {
        // An import can hold decisions.
        refuse_below_guard()?;
        let mut ledger = self.create_ledger()?;
        self.refuse_below_ledger_guard(&mut ledger)?;
        let report = callsheet_store::import(&mut ledger, file)?;
        // Closing the ledger stores its last head; that must happen before the ledger is forgotten.
        drop(ledger);
        if report.same_chain {
            // All its records were made elsewhere, so the ledger is foreign.
            self.forget_ledger()?;
        }
        Ok(report)
    }

    /// Removes the runs of this project that the policy does not keep; with `preview` only lists them.
    pub fn sweep(&self, policy: RetentionPolicy, preview: bool) -> Result<SweepReport> {
        if preview {
            let mut ledger = self.read_ledger()?;
            let project = self.project_filter(&ledger)?;
            return Ok(ledger.preview_project_sweep(policy, project.as_ref())?);
        }
        refuse_below_guard()?;
        let mut ledger = self.write_ledger()?;
        self.refuse_below_ledger_guard(&mut ledger)?;
        let project = self.project_filter(&ledger)?;
        Ok(ledger.sweep_project(policy, project.as_ref())?)
    }
}

fn write_error(error: io::Error) -> Error {
    let message = format!("cannot write the export: {error}");
    Error::new(Diagnostic::error(Code::OutputFailed, message), error)
}
