//! Renders the result of a verification.

use callsheet::diagnostics::diagnostic_json;
use callsheet::ledger::verify::problem_diag;
use callsheet_store::{LedgerProblem, LedgerProblemKind, VerifyReport};
use serde_json::{Value, json};

use super::findings_page;
use crate::print::OutputPrinter;

/// Describes a verification as JSON.
pub(crate) fn report_json(report: &VerifyReport) -> Value {
    let VerifyReport { records, runs, same, blobs, sealed, other_engines, problems, head } = report;
    let sealed = sealed.iter().map(|(run, values)| json!({ "run": run, "values": values }));
    let engines = other_engines.iter().map(|(run, engine)| json!({ "run": run, "engine": engine }));
    let problem_json = |problem: &LedgerProblem| diagnostic_json(&problem_diag(problem));
    json!({
        "records": records,
        "runs": runs,
        "same": same,
        "blobs": blobs,
        "head": { "seq": head.seq, "chain": head.chain },
        "sealed": sealed.collect::<Vec<_>>(),
        "other_engines": engines.collect::<Vec<_>>(),
        "problems": problems.iter().map(problem_json).collect::<Vec<_>>(),
    })
}

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
