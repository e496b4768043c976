//! `callsheet schema NAME`: prints the JSON Schema of an input or output.

use callsheet::error::CommandResult;
use callsheet::output::{DocumentSchema, INPUTS, OUTPUTS};
use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::print::OutputPrinter;

/// Print the JSON Schema of an input or output
///
/// The first key of every object that a command prints with --json names its schema: `callsheet/run-result/1` is
/// `callsheet schema run-result`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of an input or output
    #[arg(value_parser = PossibleValuesParser::new(schema_names()))]
    name: String,
}

fn schema_names() -> Vec<PossibleValue> {
    let value = |known: &DocumentSchema| PossibleValue::new(known.name).help(known.about);
    INPUTS.iter().chain(OUTPUTS).map(value).collect()
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    let schema = DocumentSchema::find(&args.name).map(DocumentSchema::schema);
    print.print_value(&schema)
}
