//! `callsheet read`: reads an agent's reply from standard input and reports its outcome.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Read as _};
use std::path::PathBuf;

use callsheet_core::diag::{Diagnostics, escape_invisible};
use callsheet_core::library::agent::OutputFormat;
use callsheet_core::reply::{Reply, ReplyContext, ReplyProblem, StreamReader, StreamText, read_text};
use callsheet_core::{Library, SharedText, SourceError, find_agent, find_contract};
use callsheet_run::read_file;
use clap::ArgGroup;

use crate::commands::read_submission::read_submission;
use crate::context::CommandContext;
use crate::print::{OutputPrinter, TextStyle};
use callsheet::compose::inputs::{not_found_error, unreadable_error};
use callsheet::error::{CommandResult, FINDING, usage_error};
use callsheet::run::spool::TextSpool;

const EXAMPLES: &str = "Examples:
  claude -p < prompt.md | callsheet read -p review --prompt prompt.md
  codex exec --json - < prompt.md | callsheet read -p implement --agent codex --tasks 1.1,1.2 --json";

/// Well above any prompt.
const MOST_PROMPT: u64 = 512 << 20;
/// Well above the output of any agent in one run; endless input is refused here.
const MOST_BYTES: u64 = 4 << 30;

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
    let name = args.contract.as_ref().or(args.phase.as_ref()).map_or("", String::as_str);
    let layout = app.config.layout();
    let disk = app.disk(None);
    let library = Library::new(&disk);
    let (_, contract) = find_contract(&library, name, &layout)?;
    app.announce_override("contract", "contracts", name);
    app.require_evidence_trust()?;
    if contract.submission.is_some() {
        return read_submission(app, name, args.session.as_deref());
    }
    let agent = args.agent.as_ref().or(app.config.agent.value.as_ref()).filter(|agent| *agent != "base");
    let format = match agent {
        Some(agent) => find_agent(&library, agent, &layout)?.1.output.format,
        None => OutputFormat::Text,
    };
    let tasks: Vec<String> = args.tasks.iter().map(|id| id.trim().to_owned()).collect();
    if let Some(id) =
        tasks.iter().find(|id| id.is_empty() || tasks.iter().filter(|other| other == id).count() > 1)
    {
        let wrong = if id.is_empty() { "an id is empty".into() } else { format!("`{id}` is named twice") };
        return Err(usage_error(format!("--tasks: {wrong}"))
            .hint("ids have commas between: --tasks 1.1,1.2")
            .into());
    }
    let prompt = args.prompt.as_ref().map(|file| read_prompt(app, file)).transpose()?;
    let StreamText { text, doubts } = read_stdin(&app.print, format)?;
    let asked = ReplyContext { contract: &contract, tasks: &tasks, prompt: prompt.as_deref() };
    let reply = read_text(&asked, StreamText { text: Cow::Owned(text), doubts });
    if app.print.json {
        app.print.print_long_value(&reply)?;
    } else {
        app.print.write_data(reply_page(&app.print, &reply).as_bytes())?;
    }
    Ok(if reply.outcome.is_good() { 0 } else { FINDING })
}

fn read_prompt(app: &CommandContext, file: &str) -> Result<SharedText, Diagnostics> {
    if file == "-" {
        let message = "standard input is read for the reply; it cannot be read for --prompt too";
        return Err(usage_error(message).into());
    }
    let path = app.here.join(file);
    match read_file(&path, MOST_PROMPT) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(not_found_error(file, &path)),
        Err(error) => Err(unreadable_error(file, &error)),
    }
}

/// Reads the agent's output from standard input and returns its text.
fn read_stdin(print: &OutputPrinter, format: OutputFormat) -> Result<StreamText<Vec<u8>>, Diagnostics> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        print.print_status("the reply is read from standard input");
    }
    let mut reader = StreamReader::new(format, &mut TextSpool::factory(&std::env::temp_dir()));
    let (mut stdin, mut buffer, mut size) = (stdin.lock(), vec![0; 64 << 10], 0);
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => return Ok(reader.finish()),
            Ok(read) => {
                size += read as u64;
                reader.take(&buffer[..read]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(unreadable_error("standard input", &SourceError::Unreadable(error.to_string())));
            }
        }
        if size > MOST_BYTES {
            return Err(unreadable_error(
                "standard input",
                &SourceError::TooLarge { size, limit: MOST_BYTES },
            ));
        }
    }
}

fn reply_page(print: &OutputPrinter, reply: &Reply<'_>) -> String {
    let paint = if reply.outcome.is_good() { TextStyle::Green } else { TextStyle::Red };
    let mut page = format!("{}\n", print.paint(paint, reply.outcome.name()));
    for (id, status) in &reply.tasks {
        page += &format!("  {}: {}\n", escape_invisible(id), status.name());
    }
    for ReplyProblem { code, message, place, more } in &reply.problems {
        let place = place.map(|place| format!(" at {}:{}", place.line, place.column)).unwrap_or_default();
        let code = format!("problem[{}]", code.as_str());
        page += &format!("{}{place}: {}\n", print.paint(TextStyle::Yellow, &code), escape_invisible(message));
        if *more > 0 {
            page += &format!("  = and {more} more of this kind\n");
        }
    }
    page
}
