//! `callsheet decide`: records that a person approves or rejects a change outside of a run's scope, or made
//! it.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Decided, Event};
use callsheet_core::request::fact::ViolationDecision;
use clap::ArgGroup;
use serde_json::json;

use crate::context::CommandContext;
use callsheet::compose::secrets;
use callsheet::error::CommandResult;
use callsheet::ledger::ledger_diagnostics;
use callsheet::project::person::refuse_below_guard;

/// Approve or reject a change that a run made outside of its scope, or say that the change is yours
///
/// An edit of your own in the checkout of a run looks like the agent's: `--mine` records that you made it.
///
/// A person decides, and once: the decision is recorded and cannot be taken back. An agent cannot decide, nor can any other
/// process below a guard.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("decision").args(["approve", "reject", "mine"]).required(true))]
pub(crate) struct Args {
    /// A run: its id, the beginning of it, or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The path, as the run reports it
    #[arg(value_name = "PATH")]
    path: String,
    #[arg(long)]
    approve: bool,
    #[arg(long)]
    reject: bool,
    /// You changed the file yourself; also for a change inside of the scope
    #[arg(long)]
    mine: bool,
    /// The reason, for later readers
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
    /// Decide without a terminal
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    refuse_below_guard()?;
    if std::env::var_os("CALLSHEET_RUN").is_some_and(|run| !run.is_empty()) {
        return Err(refused("an agent cannot decide about what it did".into()).into());
    }
    let mut ledger = app.write_ledger()?;
    app.refuse_below_ledger_guard(&mut ledger)?;
    let id = app.find_own_run(&mut ledger, &args.run)?.run.id;
    let account = ledger.run_summary(&id).map_err(ledger_diagnostics)?;
    let violations = account.violations();
    let violation = violations.iter().find(|violation| violation.path == args.path);
    let is_changed = args.mine && account.has_observed_change(&args.path);
    if violation.is_none() && !is_changed {
        let message = if args.mine {
            format!("run {id} did not see a change of `{}`", args.path)
        } else {
            format!("run {id} did not change `{}` against its scope", args.path)
        };
        let error = Diagnostic::error(Code::ViolationNotFound, message);
        return Err(error.searched(violations.iter().map(|violation| &violation.path)).into());
    }
    let decided = account.decision(&args.path);
    if decided != ViolationDecision::Pending {
        let message = format!("`{}` is {} already", args.path, decided.name());
        return Err(refused(message).hint("a decision is made once").into());
    }
    let decision = match (args.approve, args.mine) {
        (true, _) => "approve",
        (_, true) => "mine",
        _ => "reject",
    };
    let mut detail = json!({ "violation": violation.is_some() });
    if let Some(because) = &args.because {
        secrets::refuse_secrets(app, None, &[("the reason".into(), because)])?;
        detail["because"] = json!(because);
    }
    let by = app.require_person(args.yes)?;
    let decided = Decided { by, what: args.path.clone(), decision: decision.into(), detail };
    let seq = ledger.append(Some(&id), None, &Event::Decided(decided)).map_err(ledger_diagnostics)?;
    if app.print.json {
        let done = json!({ "run": id, "path": args.path, "decision": decision, "by": by, "seq": seq });
        return app.print.print_value(&done);
    }
    app.print.print_status(&format!("{decision}: {}", args.path));
    let in_flow = account.launch.as_ref().and_then(|launch| launch.flow.get("flow"));
    if let Some(flow) = in_flow.filter(|_| decision != "reject") {
        app.print.print_status(&format!("`callsheet flow resume {flow}` goes on if its flow waits for this"));
    }
    Ok(0)
}
