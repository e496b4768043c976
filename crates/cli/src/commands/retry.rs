//! `callsheet retry` and `callsheet continue`: start a new run with the facts of an earlier one in its
//! prompt.

use callsheet::compose::secrets;
use callsheet::error::{CommandResult, Result, usage_error};
use callsheet::run::rerun::RerunOptions;

use crate::args::ModeArg;
use crate::context::CommandContext;
use crate::run_args::{RunArgs, drive, print_dry_run};

/// Run again, with the facts of an earlier run in the prompt
///
/// Composes the prompt again from the same request, and adds the facts of the earlier run and the number of runs so far. The
/// new run names the earlier one as its parent. Refuses while another run of the task is active, and if neither the prompt nor
/// the facts have changed: the result would be the same.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    again: RerunArgs,
    /// Run even if neither the prompt nor the facts have changed
    #[arg(long)]
    force: bool,
    /// A program that replaces the agent; it gets the prompt on standard input [default: the earlier run's]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Run again, with the facts of an earlier run and new instructions in the prompt
#[derive(Debug, clap::Args)]
pub(crate) struct ContinueArgs {
    #[command(flatten)]
    again: RerunArgs,
    /// The new instructions
    #[arg(value_name = "TEXT")]
    text: String,
    /// A program that replaces the agent; it gets the prompt on standard input [default: the earlier run's]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct RerunArgs {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    #[arg(value_name = "RUN")]
    run: String,
    /// The agent [default: the earlier run's]
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    run_args: RunArgs,
    /// Give the secret value KEY again, from a file: the ledger does not contain it
    #[arg(long, value_name = "KEY=PATH")]
    set_secret: Vec<String>,
    /// Give the secret value KEY again, from the environment variable NAME
    #[arg(long, value_name = "KEY=NAME")]
    set_secret_env: Vec<String>,
    /// Choose the treatment of a secret in the new prompt [default: the configured one; else `refuse`]; `warn` is an error,
    /// because a run is recorded
    #[arg(long, value_name = "MODE")]
    secrets: Option<ModeArg>,
    /// Print the plan of the run; start and record nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn retry(app: &CommandContext, args: &RetryArgs) -> CommandResult {
    let options = RerunOptions { force: args.force, ..args.again.to_options(app, &args.program)? };
    rerun(app, &args.again, &options)
}

pub(crate) fn continue_run(app: &CommandContext, args: &ContinueArgs) -> CommandResult {
    if args.text.trim().is_empty() {
        return Err(usage_error("no instructions given")
            .hint("to run again without new instructions, use `callsheet retry`")
            .into());
    }
    let options = args.again.to_options(app, &args.program)?;
    rerun(app, &args.again, &RerunOptions { text: Some(args.text.clone()), force: true, ..options })
}

fn rerun(app: &CommandContext, args: &RerunArgs, options: &RerunOptions) -> CommandResult {
    let ready = app.prepare_rerun(&args.run, options)?;
    if args.dry_run { print_dry_run(app, ready) } else { drive(app, &args.run_args, ready) }
}

impl RerunArgs {
    fn to_options(&self, app: &CommandContext, program: &[String]) -> Result<RerunOptions> {
        Ok(RerunOptions {
            agent: self.agent.clone(),
            program: program.to_vec(),
            values: secrets::read_secret_values(app, &self.set_secret, &self.set_secret_env)?,
            secrets: self.secrets.map(|mode| mode.0),
            dry: self.dry_run,
            overrides: self.run_args.to_overrides(),
            ..RerunOptions::default()
        })
    }
}
