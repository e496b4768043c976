//! `callsheet render`: writes a prompt that is given as data in another format.

use callsheet::compose::input_reader::read_input;
use callsheet::error::CommandResult;
use callsheet_core::library::format::PromptFormat;
use callsheet_core::render::render;
use callsheet_core::{Prompt, UnifiedPrompt};

use crate::args::{ApiArg, FormatArg};
use crate::context::CommandContext;

const EXAMPLES: &str = "Examples:
  callsheet compose -p plan --format json \"Add login\" | callsheet render - --format xml
  callsheet render prompt.json --api anthropic --model claude-opus-4-6";

/// Convert a prompt from JSON to XML, Markdown or the body of a request to a model
///
/// Reads the output of `compose --format json` (`callsheet schema unified-prompt`). Adds no newline.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The prompt as JSON; - reads standard input
    file: String,
    /// The format of the output
    #[arg(long, value_name = "FORMAT", required_unless_present = "api")]
    format: Option<FormatArg>,
    /// Print the body of a request to this API
    #[arg(long, value_name = "API", conflicts_with = "format")]
    api: Option<ApiArg>,
    /// The model of the request
    #[arg(long, value_name = "NAME", requires = "api")]
    model: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let unified = UnifiedPrompt::from_json(&read_input(app, &args.file)?)?;
    let mut prompt = Prompt::from(&unified);
    prompt.model.clone_from(&args.model);
    let format = args.format.map_or(PromptFormat::Json, |format| format.0);
    let rendered = render(&prompt, format, args.api.map(|api| api.0))?;
    app.print.print_diagnostics(&rendered.diagnostics);
    app.print.print_page(&rendered.text)
}
