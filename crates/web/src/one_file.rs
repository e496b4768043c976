//! A page as one file: the same template, read-only, with its style and script inside, and without a link to the server.

use askama::Template;
use callsheet::Project;
use callsheet::error::Result;
use callsheet::output::ContextOutput;
use callsheet_core::diag::{Code, Diagnostic};

use crate::pages::context_pane::ContextPage;
use crate::pages::flow::FlowPage;
use crate::pages::layout::PageLayout;
use crate::pages::log_pane::LogIndexes;
use crate::pages::run::RunPage;

/// Renders the page of a run as one file. The middle of a long log is left out, and the page says so.
pub fn run_file(project: &Project, run: &str) -> Result<String> {
    let mut ledger = project.read_ledger()?;
    let row = project.find_run(&mut ledger, run)?;
    let layout = PageLayout::one_file(project);
    render(&RunPage::read(project, &mut ledger, &LogIndexes::default(), layout, None, row)?)
}

/// Renders the page of a flow as one file; without a name, of the newest one that has not ended, or else the newest.
pub fn flow_file(project: &Project, flow: Option<&str>) -> Result<String> {
    let mut ledger = project.read_ledger()?;
    let view = project.flow_view(&mut ledger, flow)?;
    render(&FlowPage::read(project, &mut ledger, PageLayout::one_file(project), &view, None)?)
}

/// Renders the request of an agent's CLI as one file.
pub fn context_file(project: &Project, context: &ContextOutput) -> Result<String> {
    render(&ContextPage::new(project, context)?)
}

pub(crate) fn render(page: &impl Template) -> Result<String> {
    let failed =
        |error: askama::Error| Diagnostic::error(Code::OutputFailed, format!("the page failed: {error}"));
    Ok(page.render().map_err(failed)?)
}
