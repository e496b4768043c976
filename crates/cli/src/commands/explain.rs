//! `callsheet explain`: shows the prompt with the origin of every line, and the reason for every absent
//! input.

use callsheet::compose::{Purpose, tokens};
use callsheet::error::CommandResult;
use callsheet::output::ExplanationOutput;
use clap::ArgMatches;

use crate::args::ComposeArgs;
use crate::context::CommandContext;
use crate::pages::explain::print_explanation;

/// Show the origin of each line of a prompt, and the reason for each omitted input
///
/// Takes the same options as compose. With --json, prints `text`, `origins` (byte ranges that cover the text
/// without a gap, each with its source), `sources` (files with version and hash), `absent`, `secrets`,
/// `tokens` and, with --budget, `steps`. Masks secrets byte for byte.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    ask: ComposeArgs,
    /// Mark the place where `run --split` divides the prompt
    #[arg(long)]
    split: bool,
    /// Count the tokens of the prompt per section and in total
    #[arg(long)]
    tokens: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let input = args.ask.to_input(given);
    let (ref app, file) = app.read_request(&input)?;
    let wants_tokens = args.tokens || input.budget.is_some();
    if wants_tokens {
        tokens::preload();
    }
    let mut composition = app.compose_request(&input, file, Purpose::Show)?;
    let shared_bytes = args.split.then(|| composition.shared_bytes());
    let summary = wants_tokens.then(|| composition.count_tokens());
    app.print.print_masked_diagnostics(&composition.diagnostics);
    if app.print.json {
        let mut output = ExplanationOutput::new(&composition, summary);
        output.shared_bytes = shared_bytes;
        return app.print.print_json(&output);
    }
    print_explanation(&app.print, &composition, shared_bytes, summary.as_ref())?;
    Ok(0)
}
