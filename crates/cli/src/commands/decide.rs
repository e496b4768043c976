//! `callsheet decide`: a person approves or rejects a change outside of a run's scope.

use callsheet_core::diag::{Code, Diag};
use callsheet_core::fact::Decision;
use callsheet_core::record::{By, Decided, Event};
use clap::ArgGroup;
use serde_json::json;

use crate::app::App;
use crate::failure::Outcome;
use crate::ledger::failure;
use crate::secrets;

/// Approve or reject a change that a run made outside of its scope
///
/// A person decides, and once: the decision is recorded and cannot be taken back.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("decision").args(["approve", "reject"]).required(true))]
pub(crate) struct Args {
    /// A run: its id, the beginning of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The path, as the run tells it
    #[arg(value_name = "PATH")]
    path: String,
    #[arg(long)]
    approve: bool,
    #[arg(long)]
    reject: bool,
    /// Why, for those who read it later
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

pub(crate) fn run(app: &App<'_>, args: &Args) -> Outcome {
    let refused = |message: String| Diag::error(Code::RunRefused, message);
    if std::env::var_os("CALLSHEET_RUN").is_some_and(|run| !run.is_empty()) {
        return Err(refused("an agent cannot decide about what it did".into()).into());
    }
    let mut ledger = app.write_ledger()?;
    let id = app.find_own(&mut ledger, &args.run)?.run.id;
    let violations = ledger.account(&id).map_err(failure)?.violations();
    let Some(violation) = violations.iter().find(|violation| violation.path == args.path) else {
        let message = format!("run {id} did not change `{}` against its scope", args.path);
        let error = Diag::error(Code::ViolationNotFound, message);
        return Err(error.looked(violations.iter().map(|violation| &violation.path)).into());
    };
    if violation.decision != Decision::Pending {
        let message = format!("`{}` is {} already", args.path, violation.decision.name());
        return Err(refused(message).hint("a decision is made once").into());
    }
    let decision = if args.approve { "approve" } else { "reject" };
    let mut detail = json!({ "violation": true });
    if let Some(because) = &args.because {
        secrets::refuse_in(app, None, &[("the reason".into(), because)])?;
        detail["because"] = json!(because);
    }
    let decided = Decided { by: By::Person, what: args.path.clone(), decision: decision.into(), detail };
    let seq = ledger.append(Some(&id), None, &Event::Decided(decided)).map_err(failure)?;
    if app.print.json {
        return app.print.value(&json!({ "run": id, "path": args.path, "decision": decision, "seq": seq }));
    }
    app.print.say(&format!("{decision}: {}", args.path));
    Ok(0)
}
