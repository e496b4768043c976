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
/// A new run that points at its parent: the prompt is composed anew from the same request, with what was observed of the
/// parent and how many runs the task has had. Refused while a run of the task is running, and where nothing has changed: the
/// same prompt with the same facts gives the same result.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    again: RerunArgs,
    /// Even if the prompt and the facts are those of the attempt that failed
    #[arg(long)]
    force: bool,
    /// A program that gets the prompt on its standard input [default: the one that the earlier run had]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Run again with something to add, which is in the prompt
#[derive(Debug, clap::Args)]
pub(crate) struct ContinueArgs {
    #[command(flatten)]
    again: RerunArgs,
    /// What you have to say
    #[arg(value_name = "TEXT")]
    text: String,
    /// A program that gets the prompt on its standard input [default: the one that the earlier run had]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct RerunArgs {
    /// A run: its id, the beginning of it, `last`, or `last~N` for earlier ones
    #[arg(value_name = "RUN")]
    run: String,
    /// Another agent than before
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    run_args: RunArgs,
    /// A value that was marked as secret, read from a file; it is not kept, so it has to be given again
    #[arg(long, value_name = "KEY=PATH")]
    set_secret: Vec<String>,
    /// The same, read from the environment variable NAME
    #[arg(long, value_name = "KEY=NAME")]
    set_secret_env: Vec<String>,
    /// The treatment of a secret in the new prompt [default: the configured one; else `refuse`]. A run is recorded, so
    /// `warn` is an error
    #[arg(long, value_name = "MODE")]
    secrets: Option<ModeArg>,
    /// Print what would be done, and do nothing
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
