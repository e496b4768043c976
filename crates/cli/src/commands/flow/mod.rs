//! `callsheet flow`: drives a whole change, phase by phase.

mod decision;
mod show;
mod start;
mod status;

use callsheet::error::CommandResult;
use callsheet::run::InterruptFlag;

use crate::context::CommandContext;
use decision::DecisionArg;
use show::{list, print_graph, print_report};
use start::FlowStartArgs;
use status::FlowStatusArgs;

/// Drive a change through its phases, with the agents that you choose
///
/// A flow is a data file. callsheet ships `sdd` (plan, challenge, implement, review, archive) and `staged`
/// (architect, planner, coders, reviewers, summary). A phase ends on a verdict and on facts, never on a claim
/// alone; if evidence is missing, callsheet asks a person. The ledger holds every event of a flow, so you can
/// resume it after any interruption.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: FlowCommand,
    /// Run this command, without a shell, when the flow waits or has ended
    #[arg(long, global = true, value_name = "COMMAND")]
    notify: Option<String>,
}

impl Args {
    /// Checks whether the command works without a valid configuration: it ends a flow, or only shows flows.
    pub(crate) const fn is_config_optional(&self) -> bool {
        let rejects = matches!(&self.command, FlowCommand::Decide { decision: DecisionArg::Reject, .. });
        rejects || matches!(&self.command, FlowCommand::Status(_) | FlowCommand::Stop(_) | FlowCommand::List)
    }
}

#[derive(Debug, clap::Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a command line is read once")]
enum FlowCommand {
    Start(FlowStartArgs),
    Status(FlowStatusArgs),
    /// Continue a flow that was stopped, or whose callsheet was killed
    Resume {
        #[command(flatten)]
        which: FlowNameArg,
        /// Give interrupted runs the same prompt again, even if its sources have changed
        #[arg(long)]
        same_prompt: bool,
    },
    /// Decide an open question of a flow: approve the work, reject it, request changes, or answer
    Decide {
        #[arg(value_name = "DECISION")]
        decision: DecisionArg,
        /// The changes, or the answer
        #[arg(value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        which: FlowNameOption,
        /// Decide without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Stop a flow and its agents; `flow resume` continues it
    Stop(FlowNameArg),
    /// List the flows of this ledger, the newest first
    List,
    /// Print a flow as a Mermaid diagram, and mark its current phase
    Graph {
        /// A definition, such as sdd, or a started flow [default: the newest flow]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct FlowNameArg {
    /// The flow: its name, or the beginning of its id [default: the newest open flow]
    #[arg(value_name = "FLOW")]
    flow: Option<String>,
}

#[derive(Debug, clap::Args)]
struct FlowNameOption {
    /// The flow: its name, or the beginning of its id [default: the newest open flow]
    #[arg(long, value_name = "FLOW")]
    flow: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let interrupt = InterruptFlag::listen;
    let app = &app.with_notify(args.notify.as_deref())?;
    match &args.command {
        FlowCommand::Start(start) => print_report(app, app.start_flow(&start.to_start(app)?, &interrupt()?)?),
        FlowCommand::Status(args) => status::run(app, args),
        FlowCommand::Resume { which, same_prompt } => {
            print_report(app, app.resume_flow(which.flow.as_deref(), *same_prompt, &interrupt()?)?)
        }
        FlowCommand::Decide { decision, text, which, yes } => {
            let choice = decision.to_choice(text.as_deref());
            print_report(app, app.decide_flow(which.flow.as_deref(), &choice, *yes, &interrupt()?)?)
        }
        FlowCommand::Stop(which) => {
            let stopped = app.stop_flow(which.flow.as_deref())?;
            status::print_status(app, Some(stopped.as_str()), false)
        }
        FlowCommand::List => list(app),
        FlowCommand::Graph { name } => print_graph(app, name.as_deref()),
    }
}
