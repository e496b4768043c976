//! `callsheet decide`: records that a person approves or rejects a change outside of a run's scope, or made
//! it.

use callsheet::error::CommandResult;
use callsheet::output::DecisionOutput;
use callsheet::paths::path_words;
use callsheet::run::decide::ChangeDecision;
use clap::ArgGroup;

use crate::context::CommandContext;

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
