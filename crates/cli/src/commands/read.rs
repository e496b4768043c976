//! `callsheet read`: reads an agent's reply from standard input and reports its outcome.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use callsheet::error::{CommandResult, FINDING};
use callsheet::output::{ListOutput, ReplyOutput, SubmissionOutput};
use callsheet::run::read_reply::ReplyQuestion;
use callsheet::session::SessionDir;
use clap::ArgGroup;

use crate::context::CommandContext;
use crate::pages::reply::{reply_page, submission_page};

const EXAMPLES: &str = "Examples:
  claude -p < prompt.md | callsheet read -p review --prompt prompt.md
  codex exec --json - < prompt.md | callsheet read -p implement --agent codex --tasks 1.1,1.2 --json";

/// Read an agent's reply from standard input: its verdict, or how its tasks ended
///
/// Thoughts, code, quotes and echoes of the prompt do not count, a good marker counts only as all that its paragraph holds,
/// another word counts in any place, and an ambiguous reply is never a pass. Exits with 0 on pass, complete and none, else
/// with 1. With --json: `verdict`, `outcome`, `tasks`, `text` (without thoughts) and `problems`.
///
/// A contract with a submission (submit_review and so on) is read from the file that an agent without the tool wrote into
/// the session: callsheet checks it, reports all mistakes at once, and generates the files that others read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("what").args(["contract", "phase"]).required(true))]
pub(crate) struct Args {
    /// The contract that the reply answers
    #[arg(long, value_name = "NAME")]
    contract: Option<String>,
    /// The phase that the reply belongs to: the contract of that name
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// The agent that replied: its file defines its output format; plain text is always read [default: the configured one]
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// The tasks that were asked for, with commas between
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    tasks: Vec<String>,
    /// The prompt that was given: parts of it that the reply repeats do not count
    #[arg(long, value_name = "FILE")]
    prompt: Option<String>,
    /// Where the files lie that a submission is read from, such as review.yaml; nothing is read from standard input then
    #[arg(long, value_name = "DIR")]
    session: Option<PathBuf>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let contract = args.contract.as_ref().or(args.phase.as_ref()).cloned().unwrap_or_default();
    let (agent, tasks, prompt) = (args.agent.clone(), args.tasks.clone(), args.prompt.clone());
    let question = ReplyQuestion { contract, agent, tasks, prompt };
    let Some(reader) = app.open_reply(&question)? else {
        let all = SessionDir::open(app, args.session.as_deref())?.submit_files(&question.contract)?;
        return app.print.print_output(
            || all.iter().map(SubmissionOutput::from).collect::<ListOutput<_>>(),
            || all.iter().map(submission_page).collect(),
        );
    };
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        app.print.print_status("reading the reply from stdin");
    }
    let reply = reader.read(&mut stdin.lock())?;
    if app.print.json {
        app.print.print_json(&ReplyOutput::from(&reply))?;
    } else {
        app.print.print_page(&reply_page(&app.print, &reply))?;
    }
    Ok(if reply.outcome.is_good() { 0 } else { FINDING })
}
