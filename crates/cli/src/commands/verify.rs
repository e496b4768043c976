//! `callsheet verify`: proves that recorded prompts result from their recorded requests and sources.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::Digest;
use callsheet_store::{Head, Ledger, LedgerProblem, LedgerProblemKind, VerifyReport, read_export};
use serde_json::json;

use crate::context::CommandContext;
use callsheet::compose::inputs::open_input;
use callsheet::compose::secrets;
use callsheet::diagnostics::diagnostic_json;
use callsheet::error::{CommandResult, diagnostic_exit_code, usage_error};
use callsheet::ledger::{HEAD_GONE, KeptHead, ledger_diagnostics};

/// Compose recorded prompts again from what was kept, and compare every byte
///
/// Everything is verified, whatever is found on the way. Exits with 8 if something in the ledger was changed or is gone,
/// else with 1 if a prompt differs, else with 12 if a secret value is needed to verify one, else with 11 if another
/// version of the engine made one.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["run", "all", "file", "head"])))]
pub(crate) struct Args {
    /// Runs by their ids, the beginnings of them, or last
    #[arg(conflicts_with_all = ["all", "file"])]
    run: Vec<String>,
    /// Every run, and the chain of all records
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// An export instead of a ledger; - reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// With --all or --file: every text that is kept too, and the database itself
    #[arg(long)]
    read_data: bool,
    /// A head that was told before: the ledger must still lead to it
    #[arg(long, value_name = "SEQ:CHAIN", conflicts_with = "file")]
    head: Option<String>,
    /// A value that was marked as secret, read from a file; - reads standard input
    #[arg(long, value_name = "KEY=PATH")]
    set_secret: Vec<String>,
    /// The same, read from the environment variable NAME
    #[arg(long, value_name = "KEY=NAME")]
    set_secret_env: Vec<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let wanted = args.head.as_deref().map(parse_head).transpose()?;
    let mut ledger = match &args.file {
        Some(file) => read_export(&mut *open_input(app, file)?).map_err(ledger_diagnostics)?,
        None => app.read_ledger()?,
    };
    ledger = ledger.with_secrets(secrets::read_secret_values(app, &args.set_secret, &args.set_secret_env)?);
    // The kept head is read before the chain, so records that are appended meanwhile do not count as damage.
    let kept = if args.file.is_none() { app.kept_head()? } else { KeptHead::Unknown };
    let mut checked = verify_ledger(app, &mut ledger, args)?;
    let kept = match kept {
        KeptHead::Head(head) => Some(head),
        KeptHead::Unknown => None,
        KeptHead::Gone => {
            let (place, what) = ("head".into(), HEAD_GONE.into());
            checked.problems.push(LedgerProblem { result: LedgerProblemKind::Damaged, place, what });
            None
        }
    };
    for wanted in wanted.into_iter().chain(kept) {
        if ledger.has_link(&wanted).map_err(ledger_diagnostics)? {
            continue;
        }
        let what = "it does not lead to this head any more".into();
        let place = format!("head {}:{}", wanted.seq, wanted.chain);
        checked.problems.push(LedgerProblem { result: LedgerProblemKind::Damaged, place, what });
    }
    print_report(app, &checked)
}

fn verify_ledger(
    app: &CommandContext,
    ledger: &mut Ledger,
    args: &Args,
) -> Result<VerifyReport, Diagnostics> {
    if args.all || args.file.is_some() {
        return ledger.verify_all(args.read_data).map_err(ledger_diagnostics);
    }
    let mut runs = Vec::new();
    for name in &args.run {
        runs.push(app.find_run(ledger, name)?.run.id);
    }
    ledger.verify(&runs).map_err(ledger_diagnostics)
}

fn parse_head(text: &str) -> Result<Head, Diagnostics> {
    let parsed = text
        .split_once(':')
        .and_then(|(seq, chain)| Some(Head { seq: seq.parse().ok()?, chain: Digest::parse(chain)? }));
    Ok(parsed.ok_or_else(|| usage_error(format!("`{text}` is not SEQ:CHAIN")))?)
}

fn problem_diag(problem: &LedgerProblem) -> Diagnostic {
    let code = match problem.result {
        LedgerProblemKind::Damaged => Code::LedgerDamaged,
        LedgerProblemKind::Differs => Code::VerifyMismatch,
        LedgerProblemKind::OtherEngine => Code::VerifyEngine,
        LedgerProblemKind::NeedsSecret => Code::VerifySecret,
    };
    Diagnostic::error(code, problem.to_string())
}

fn print_report(app: &CommandContext, checked: &VerifyReport) -> CommandResult {
    let problems: Vec<Diagnostic> = checked.problems.iter().map(problem_diag).collect();
    let worst =
        checked.worst().and_then(|worst| checked.problems.iter().find(|problem| problem.result == worst));
    let exit = worst.map_or(0, |problem| diagnostic_exit_code(problem_diag(problem).code));
    let VerifyReport { records, runs, same, blobs, sealed, other_engines, head, .. } = checked;
    if app.print.json {
        let sealed = sealed.iter().map(|(run, values)| json!({ "run": run, "values": values }));
        let engines = other_engines.iter().map(|(run, engine)| json!({ "run": run, "engine": engine }));
        app.print.print_value(&json!({
            "records": records,
            "runs": runs,
            "same": same,
            "blobs": blobs,
            "head": { "seq": head.seq, "chain": head.chain },
            "sealed": sealed.collect::<Vec<_>>(),
            "other_engines": engines.collect::<Vec<_>>(),
            "problems": problems.iter().map(diagnostic_json).collect::<Vec<_>>(),
        }))?;
        return Ok(exit);
    }
    for problem in &problems {
        app.print.print_line(&app.print.render_for_stdout(problem))?;
    }
    app.print.print_line(&format!("prompts composed again, the same bytes: {same}"))?;
    for (what, runs) in [
        ("need a secret value", sealed.len()),
        ("were made by another version of the engine", other_engines.len()),
    ] {
        if runs > 0 {
            app.print.print_line(&format!("prompts that {what}: {runs}"))?;
        }
    }
    if checked.worst() != Some(LedgerProblemKind::Damaged) {
        app.print.print_line(&format!("records in order: {records}"))?;
        app.print.print_line(&format!("head {}:{}", head.seq, head.chain))?;
    }
    Ok(exit)
}
