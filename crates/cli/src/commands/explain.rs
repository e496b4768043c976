//! `callsheet explain`: shows the prompt with the origin of every line, and the reason for every absent
//! input.

use callsheet::compose::Purpose;
use callsheet::error::CommandResult;
use clap::ArgMatches;

use crate::args::ComposeArgs;
use crate::context::CommandContext;
use crate::pages::explain::{explanation_json, print_explanation};

/// Show where each line of a prompt comes from, and why what is absent is absent
///
/// Takes the same options as compose. With --json: `text`, `origins` (byte ranges that cover the text
/// without a gap, each with its source), `sources` (files with version and hash), `absent`, `tokens`, `secrets`
/// and, with --budget, `steps`. Secrets are masked, byte for byte.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    ask: ComposeArgs,
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let input = args.ask.to_input(given);
    let (ref app, file) = app.read_request(&input)?;
    let mut composition = app.compose_request(&input, file, Purpose::Show)?;
    let summary = composition.count_tokens();
    app.print.print_masked_diagnostics(&composition.diagnostics);
    if app.print.json {
        return app.print.print_value(&explanation_json(&composition, &summary));
    }
    print_explanation(&app.print, &composition, &summary)?;
    Ok(0)
}
