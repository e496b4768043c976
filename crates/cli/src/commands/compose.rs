//! `callsheet compose`: builds a prompt and prints it, and runs nothing.

use std::mem;
use std::path::PathBuf;

use callsheet::compose::{Composition, Purpose, tokens};
use callsheet::diagnostics::diagnostic_outputs;
use callsheet::error::CommandResult;
use callsheet::output::{PromptOutput, TokenCountOutput};
use callsheet::session::write::{resolve_output, write_out};
use callsheet_core::diag::Diagnostic;
use clap::ArgMatches;

use crate::args::ComposeArgs;
use crate::context::CommandContext;

const EXAMPLES: &str = "Examples:
  callsheet compose -p plan \"Add login\"
  callsheet compose -r run --role coder -f src/login.rs --write 'src/**' \"Fix the timeout\"";

/// Compose a prompt and print it
///
/// Prints exactly the bytes that the agent would get, without an added newline. Starts no agent.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) compose_args: ComposeArgs,
    /// Write the prompt to a file; - is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the number of tokens per section and in total, instead of the prompt
    #[arg(long, conflicts_with = "out")]
    count: bool,
    /// Read templates, recipes and other sources from a JSON file (`callsheet schema sources`) instead of the
    /// project's and your own files; - reads standard input
    #[arg(long, value_name = "FILE")]
    sources: Option<String>,
    /// Record the prompt and its sources in the ledger; print the run's id to standard error
    #[arg(long, conflicts_with = "count")]
    record: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let input = args.compose_args.to_input(given);
    let (mut app, file) = app.read_request(&input)?;
    if let Some(path) = &args.sources {
        app = app.with_sources(path)?;
    }
    let app = &app;
    let out = resolve_output(&app.here, args.out.as_deref())?;
    if !args.record && out.is_none() && !args.count && !app.print.json && input.budget.is_none() {
        let report = |diagnostics: &[Diagnostic]| app.print.print_masked_diagnostics(diagnostics);
        let prompt = app.compose_to(&input, file, &mut app.print.stdout_writer(), report)?;
        // Freeing 10,000 files would add about 10 % to the run, and the process is about to exit.
        mem::forget(prompt);
        return Ok(0);
    }
    let purpose = if args.record { Purpose::Record } else { Purpose::Show };
    if args.count {
        tokens::preload();
    }
    let composition = app.compose_request(&input, file, purpose)?;
    if args.count {
        return count(app, composition);
    }
    app.print.print_masked_diagnostics(&composition.diagnostics);
    let run = if args.record { Some(app.record(&composition)?) } else { None };
    if let Some(run) = &run {
        app.print.print_status(&format!("run {run}"));
    }
    if let Some(out) = &out {
        write_out(&app.dir, out, composition.rendered.text.as_bytes())?;
    }
    if app.print.json {
        return app.print.print_json(&PromptOutput::new(&composition, run));
    }
    if out.is_none() {
        app.print.print_page(&composition.rendered.text)?;
    }
    Ok(0)
}

fn count(app: &CommandContext, mut composition: Composition) -> CommandResult {
    let tokens = composition.count_tokens();
    app.print.print_masked_diagnostics(&composition.diagnostics);
    let table = tokens.to_table();
    let diagnostics = || diagnostic_outputs(&composition.diagnostics);
    app.print.print_output(|| TokenCountOutput { tokens, diagnostics: diagnostics() }, || table)
}
