//! Renders the result of a verification.

use callsheet::ledger::verify::problem_diag;
use callsheet_store::{LedgerProblemKind, VerifyReport};

use super::findings_page;
use crate::print::OutputPrinter;

/// Renders a verification: the problems, then the totals.
pub(crate) fn report_page(print: &OutputPrinter, report: &VerifyReport) -> String {
    let VerifyReport { records, same, sealed, other_engines, head, .. } = report;
    let problems: Vec<_> = report.problems.iter().map(problem_diag).collect();
    let mut page = findings_page(print, &problems);
    page += &format!("prompts composed again, the same bytes: {same}\n");
    for (what, runs) in [
        ("need a secret value", sealed.len()),
        ("were composed by another engine version", other_engines.len()),
    ] {
        if runs > 0 {
            page += &format!("prompts that {what}: {runs}\n");
        }
    }
    if report.worst() != Some(LedgerProblemKind::Damaged) {
        page += &format!("records in order: {records}\nhead {}:{}\n", head.seq, head.chain);
    }
    page
}
