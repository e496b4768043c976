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

/// Read an agent's reply from standard input, and print its verdict or the status of its tasks
///
/// Ignores thoughts, code, quotes and echoes of the prompt. A good marker counts only if it is alone in its
/// paragraph; any other word counts anywhere; an ambiguous reply is never a pass. Exits with 0 on pass,
/// complete and none, else with 1. With --json, prints `verdict`, `outcome`, `tasks`, `text` (without
/// thoughts) and `problems`.
///
/// For a contract with a submission, such as submit_review, reads the file that an agent without the tool
/// wrote into the session. Checks it, reports all mistakes together, and generates the files that other
/// agents read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("what").args(["contract", "phase"]).required(true))]
pub(crate) struct Args {
    /// The contract that the reply answers
    #[arg(long, value_name = "NAME")]
    contract: Option<String>,
    /// The phase of the reply, which is also the name of its contract
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// The agent that replied, for its output format; plain text is always accepted [default: the configured
    /// one]
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// The ids of the agent's tasks, separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    tasks: Vec<String>,
    /// The prompt of the reply: text that the reply repeats from it does not count
    #[arg(long, value_name = "FILE")]
    prompt: Option<String>,
    /// Read a submission, such as review.yaml, from this session directory instead of standard input
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
