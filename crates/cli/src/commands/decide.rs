//! `callsheet decide`: records that a person approves or rejects a change outside of a run's scope, or made
//! it.

use callsheet::error::CommandResult;
use callsheet::output::DecisionOutput;
use callsheet::paths::path_words;
use callsheet::run::decide::ChangeDecision;
use clap::ArgGroup;

use crate::context::CommandContext;

/// Approve or reject a change that a run made outside its scope, or record that the change is yours
///
/// callsheet cannot tell your edit in the checkout of a run from an edit by its agent: `--mine` records that it is yours.
///
/// Only a person can decide, and only once: the decision is recorded and final. Agents and their child processes are refused.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("decision").args(["approve", "reject", "mine"]).required(true))]
pub(crate) struct Args {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    #[arg(value_name = "RUN")]
    run: String,
    /// The path, as the run reports it
    #[arg(value_name = "PATH")]
    path: String,
    /// Accept the change: it no longer counts as a violation
    #[arg(long)]
    approve: bool,
    /// Reject the change: it stays a violation
    #[arg(long)]
    reject: bool,
    /// Record that you changed the file yourself; also for a change inside the scope
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
    let decision = match (args.approve, args.mine) {
        (true, _) => ChangeDecision::Approve,
        (_, true) => ChangeDecision::Mine,
        _ => ChangeDecision::Reject,
    };
    let done = app.decide_change(&args.run, &args.path, decision, args.because.as_deref(), args.yes)?;
    if app.print.json {
        return app.print.print_json(&DecisionOutput::new(&done, &args.path, decision));
    }
    app.print.print_status(&format!("{}: {}", decision.name(), args.path));
    if decision == ChangeDecision::Reject {
        let path = path_words(&args.path);
        app.print.print_status(&format!(
            "the file stays as it is; run `callsheet revert {} {path}` to take it back",
            done.run
        ));
    }
    if let Some(flow) = done.flow.filter(|_| decision != ChangeDecision::Reject) {
        app.print
            .print_status(&format!("if a flow waits for this decision, run `callsheet flow resume {flow}`"));
    }
    Ok(0)
}
