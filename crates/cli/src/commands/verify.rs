//! `callsheet verify`: proves that recorded prompts result from their recorded requests and sources.

use std::io::{self, BufRead, BufReader};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::Digest;
use callsheet_run::open_file;
use callsheet_store::{Head, Ledger, LedgerProblem, LedgerProblemKind, VerifyReport, read_export};
use serde_json::json;

use crate::app::AppContext;
use crate::failure::{CommandResult, of, usage};
use crate::inputs::{not_found, unreadable};
use crate::ledger::{HEAD_GONE, KeptHead, failure};
use crate::print::diag_json;
use crate::secrets;

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

pub(crate) fn run(app: &AppContext<'_>, args: &Args) -> CommandResult {
    let wanted = args.head.as_deref().map(parse_head).transpose()?;
    let mut ledger = match &args.file {
        Some(file) => read_export(&mut *open(app, file)?).map_err(failure)?,
        None => app.read_ledger()?,
    };
    ledger = ledger.with_secrets(secrets::given(app, &args.set_secret, &args.set_secret_env)?);
    // The kept head is read before the chain, so records that are appended meanwhile do not count as damage.
    let kept = if args.file.is_none() { app.kept_head()? } else { KeptHead::Unknown };
    let mut checked = check(app, &mut ledger, args)?;
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
        if ledger.has_link(&wanted).map_err(failure)? {
            continue;
        }
        let what = "it does not lead to this head any more".into();
        let place = format!("head {}:{}", wanted.seq, wanted.chain);
        checked.problems.push(LedgerProblem { result: LedgerProblemKind::Damaged, place, what });
    }
    tell(app, &checked)
}

fn check(app: &AppContext<'_>, ledger: &mut Ledger, args: &Args) -> Result<VerifyReport, Diagnostics> {
    if args.all || args.file.is_some() {
        return ledger.verify_all(args.read_data).map_err(failure);
    }
    let mut runs = Vec::new();
    for name in &args.run {
        runs.push(app.find(ledger, name)?.run.id);
    }
    ledger.verify(&runs).map_err(failure)
}

/// Opens the named file, or standard input for `-`.
pub(crate) fn open(app: &AppContext<'_>, file: &str) -> Result<Box<dyn BufRead>, Diagnostics> {
    if file == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let path = app.here.join(file);
    match open_file(&path) {
        Ok(Some(found)) => Ok(Box::new(BufReader::new(found))),
        Ok(None) => Err(not_found(file, &path)),
        Err(error) => Err(unreadable(file, &error)),
    }
}

fn parse_head(text: &str) -> Result<Head, Diagnostics> {
    let parsed = text
        .split_once(':')
        .and_then(|(seq, chain)| Some(Head { seq: seq.parse().ok()?, chain: Digest::parse(chain)? }));
    Ok(parsed.ok_or_else(|| usage(format!("`{text}` is not SEQ:CHAIN")))?)
}

fn diag(problem: &LedgerProblem) -> Diagnostic {
    let code = match problem.result {
        LedgerProblemKind::Damaged => Code::LedgerDamaged,
        LedgerProblemKind::Differs => Code::VerifyMismatch,
        LedgerProblemKind::OtherEngine => Code::VerifyEngine,
        LedgerProblemKind::NeedsSecret => Code::VerifySecret,
    };
    Diagnostic::error(code, problem.to_string())
}

fn tell(app: &AppContext<'_>, checked: &VerifyReport) -> CommandResult {
    let problems: Vec<Diagnostic> = checked.problems.iter().map(diag).collect();
    let worst =
        checked.worst().and_then(|worst| checked.problems.iter().find(|problem| problem.result == worst));
    let exit = worst.map_or(0, |problem| of(diag(problem).code));
    let VerifyReport { records, runs, same, blobs, sealed, other_engines, head, .. } = checked;
    if app.print.json {
        let sealed = sealed.iter().map(|(run, values)| json!({ "run": run, "values": values }));
        let engines = other_engines.iter().map(|(run, engine)| json!({ "run": run, "engine": engine }));
        app.print.value(&json!({
            "records": records,
            "runs": runs,
            "same": same,
            "blobs": blobs,
            "head": { "seq": head.seq, "chain": head.chain },
            "sealed": sealed.collect::<Vec<_>>(),
            "other_engines": engines.collect::<Vec<_>>(),
            "problems": problems.iter().map(diag_json).collect::<Vec<_>>(),
        }))?;
        return Ok(exit);
    }
    for problem in &problems {
        app.print.line(&app.print.diag_for_stdout(problem))?;
    }
    app.print.line(&format!("prompts composed again, the same bytes: {same}"))?;
    for (what, runs) in [
        ("need a secret value", sealed.len()),
        ("were made by another version of the engine", other_engines.len()),
    ] {
        if runs > 0 {
            app.print.line(&format!("prompts that {what}: {runs}"))?;
        }
    }
    if checked.worst() != Some(LedgerProblemKind::Damaged) {
        app.print.line(&format!("records in order: {records}"))?;
        app.print.line(&format!("head {}:{}", head.seq, head.chain))?;
    }
    Ok(exit)
}
