//! `callsheet schema NAME`: prints the JSON Schema of an input or output.

use std::sync::LazyLock;

use callsheet::error::CommandResult;
use callsheet::output::{DocumentSchema, INPUTS, OUTPUTS};
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::print::OutputPrinter;

/// Print the JSON Schema of an input or output
///
/// The first key of every object that a command prints with --json names its schema: `callsheet/run-result/1` is
/// `callsheet schema run-result`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of an input or output
    name: SchemaName,
}

/// A schema, chosen by its name.
#[derive(Clone, Copy, Debug)]
struct SchemaName(&'static DocumentSchema);

static NAMES: LazyLock<Vec<SchemaName>> =
    LazyLock::new(|| INPUTS.iter().chain(OUTPUTS).map(SchemaName).collect());

impl ValueEnum for SchemaName {
    fn value_variants<'a>() -> &'a [Self] {
        &NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.about))
    }
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    print.print_value(&args.name.0.schema())
}
