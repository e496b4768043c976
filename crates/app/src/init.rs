//! Writes `.callsheet/` with a commented configuration. Never overwrites.

use callsheet_core::FILES;

use crate::error::Result;
use crate::project::Project;
use crate::proposed_checks::{ProposedCheck, find_checks, propose};
use crate::session::open_folder;
use crate::session::write::write_new;

/// Pattern that keeps the ledger and SQLite's files beside it out of the repository.
const IGNORE: &str = "/.callsheet/ledger.db*";

/// The file that takes the proposed checks.
const CONFIG: &str = "/config.toml";

/// Result of setting up a project. The paths are relative to the project.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct InitReport {
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that existed already.
    pub kept: Vec<String>,
    /// Whether the ledger was added to `.gitignore`.
    pub ignored: bool,
    /// Checks that fit the project. A new configuration has them as comments.
    pub checks: Vec<ProposedCheck>,
}

impl Project {
    /// Writes the files of a new project that do not exist yet.
    pub fn init(&self) -> Result<InitReport> {
        let mut report = InitReport { checks: find_checks(&self.dir)?, ..InitReport::default() };
        for (path, text) in FILES {
            let Some(path) = path.strip_prefix("init/") else { continue };
            let path = format!(".callsheet/{path}");
            if self.dir.join(&path).symlink_metadata().is_ok() {
                report.kept.push(path);
                continue;
            }
            let text = if path.ends_with(CONFIG) { propose(text, &report.checks) } else { text.to_string() };
            write_new(&self.dir, &path, text.as_bytes())?;
            report.written.push(path);
        }
        report.ignored = self.ignore_ledger()?;
        Ok(report)
    }

    /// Adds the ledger to the project's `.gitignore`, and returns whether it was missing. Leaves a
    /// `.gitignore` that is not a regular file unchanged, because it may lead elsewhere.
    fn ignore_ledger(&self) -> Result<bool> {
        let found = self.dir.join(".gitignore").symlink_metadata();
        if found.is_ok_and(|found| !found.is_file()) {
            return Ok(false);
        }
        let add = |text: &str| {
            if text.lines().any(|line| line.trim() == IGNORE) {
                return (text.to_owned(), false);
            }
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            (format!("{text}{end}{IGNORE}\n"), true)
        };
        Ok(open_folder(&self.dir)?.update(".gitignore", self.config.max_file_bytes.value, add)?)
    }
}
