//! `callsheet run`: composes, records and delivers a prompt, watches the agent, and records the result.

use callsheet::error::CommandResult;
use callsheet::run::options::RunLocation;
use clap::ArgMatches;

use crate::args::ComposeArgs;
use crate::context::CommandContext;
use crate::run_args::{RunArgs, drive, print_dry_run};

const EXAMPLES: &str = "Examples:
  callsheet run -a claude --write 'src/**' --check tests='cargo test' \"Fix the timeout\"
  callsheet run -a codex -p review --worktree --task-id T-12 \"Review the change\"
  callsheet run \"Say hello\" -- ./my-agent --fast";

/// Hand a prompt to an agent, watch it, and record what came of it
///
/// The prompt and everything that it was made of is in the ledger before the agent starts. What the agent says of its work is
/// kept beside what is observed: how it ended, which files changed, what of that its scope did not allow, and what the checks
/// say. Exits with the first that applies: 130 interrupted, 10 trust required, 9 refused, 8 ledger, 7 too long or too
/// expensive, 6 the agent failed, 5 outside of its scope, 1 a check failed or the verdict is not pass, 0.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    ask: ComposeArgs,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// A program that gets the prompt on its standard input, in the place of an agent
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let mut input = args.ask.to_input(given);
    input.mcp = args.run_args.mcp;
    let (ref app, file) = app.read_request(&input)?;
    if !args.program.is_empty() && input.agent.is_none() {
        input.agent = Some("command".into());
    }
    let given = args.run_args.to_overrides();
    let mut setup = given.complete(app)?;
    setup.options.program = app.resolve_typed_program(&args.program);
    setup.dry = args.dry_run;
    setup.session = input.session.as_ref().map(|session| app.session_path(session));
    let composition = app.compose_run(&input, file, &mut setup, &given)?;
    if args.run_args.worktree {
        setup.place = composition.task_id().map_or(RunLocation::Fresh, RunLocation::Own);
    }
    let ready = app.prepare(composition, setup)?;
    if args.dry_run { print_dry_run(app, ready) } else { drive(app, &args.run_args, ready) }
}
