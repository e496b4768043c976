//! `callsheet flow`: drives a whole change, phase by phase.

mod decision;
mod show;
mod start;

use callsheet::error::CommandResult;
use callsheet::run::InterruptFlag;

use crate::context::CommandContext;
use decision::DecisionArg;
use show::{list, print_graph, print_report, print_status};
use start::FlowStartArgs;

/// Drive a whole change, phase by phase, with the agents that you name
///
/// Which phase follows which is a data file: `sdd` (plan, challenge, implement, review, archive) and `staged` (architect, planner,
/// coders, reviewers, summary) ship with callsheet. A phase is left on a verdict and on facts, never on a claim alone; where
/// evidence is missing, a person is asked. Everything that was decided is in the ledger, so that a flow can be resumed after
/// whatever happened.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: FlowCommand,
}

impl Args {
    /// Checks whether the command works without a valid configuration: it ends a flow, or only shows flows.
    pub(crate) const fn is_config_optional(&self) -> bool {
        let rejects = matches!(&self.command, FlowCommand::Decide { decision: DecisionArg::Reject, .. });
        rejects
            || matches!(&self.command, FlowCommand::Status { .. } | FlowCommand::Stop(_) | FlowCommand::List)
    }
}

#[derive(Debug, clap::Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a command line is read once")]
enum FlowCommand {
    Start(FlowStartArgs),
    /// Show where flows stand: phase, what runs, round, cost, what is waited for
    Status {
        #[command(flatten)]
        which: FlowNameArg,
        /// Show it again and again until the flow has ended or waits for a person
        #[arg(long)]
        watch: bool,
    },
    /// Go on with a flow that was stopped, or whose callsheet died
    Resume {
        #[command(flatten)]
        which: FlowNameArg,
        /// Ask runs that were cut the very same once more, whatever has changed since
        #[arg(long)]
        same_prompt: bool,
    },
    /// Decide what a flow waits for: approve the work as it is, reject it, say what has to be changed, or answer a question
    Decide {
        #[arg(value_name = "DECISION")]
        decision: DecisionArg,
        /// What has to be changed, or the answer
        #[arg(value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        which: FlowNameOption,
        /// Decide without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Stop a flow and what runs in it; it can be resumed
    Stop(FlowNameArg),
    /// List the flows of this ledger, the newest first
    List,
    /// Print a flow as a Mermaid diagram; of one that was started, with where it is
    Graph {
        /// A flow by its name, or one that was started [default: the newest]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct FlowNameArg {
    /// A flow: the name of its folder, or the beginning of its id [default: the newest that has not ended]
    #[arg(value_name = "FLOW")]
    flow: Option<String>,
}

#[derive(Debug, clap::Args)]
struct FlowNameOption {
    /// A flow: the name of its folder, or the beginning of its id [default: the newest that has not ended]
    #[arg(long, value_name = "FLOW")]
    flow: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let interrupt = InterruptFlag::listen;
    match &args.command {
        FlowCommand::Start(start) => print_report(app, &app.start_flow(&start.to_start(), &interrupt()?)?),
        FlowCommand::Status { which, watch } => print_status(app, which.flow.as_deref(), *watch),
        FlowCommand::Resume { which, same_prompt } => {
            print_report(app, &app.resume_flow(which.flow.as_deref(), *same_prompt, &interrupt()?)?)
        }
        FlowCommand::Decide { decision, text, which, yes } => {
            let choice = decision.to_choice(text.as_deref());
            print_report(app, &app.decide_flow(which.flow.as_deref(), &choice, *yes, &interrupt()?)?)
        }
        FlowCommand::Stop(which) => {
            let stopped = app.stop_flow(which.flow.as_deref())?;
            print_status(app, Some(stopped.as_str()), false)
        }
        FlowCommand::List => list(app),
        FlowCommand::Graph { name } => print_graph(app, name.as_deref()),
    }
}
