//! A page as one file: the same template, read-only, with its style and script inside, and without a link to the server.

use askama::Template as _;
use callsheet::Project;
use callsheet::error::Result;
use callsheet_core::diag::{Code, Diagnostic};

use crate::pages::layout::PageLayout;
use crate::pages::log_pane::LogIndexes;
use crate::pages::run::RunPage;

/// Renders the page of a run as one file. The middle of a long log is left out, and the page says so.
pub fn run_file(project: &Project, run: &str) -> Result<String> {
    let mut ledger = project.read_ledger()?;
    let row = project.find_run(&mut ledger, run)?;
    let layout = PageLayout::one_file(project);
    let page = RunPage::read(project, &mut ledger, &LogIndexes::default(), layout, None, row)?;
    let failed =
        |error: askama::Error| Diagnostic::error(Code::OutputFailed, format!("the page failed: {error}"));
    Ok(page.render().map_err(failed)?)
}
