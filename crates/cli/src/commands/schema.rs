//! `callsheet schema NAME`: prints the JSON Schema of a file that people or programs write for callsheet.

use callsheet_core::flow::Flow;
use callsheet_core::library::agent::Agent;
use callsheet_core::library::contract::Contract;
use callsheet_core::library::recipe::Recipe;
use callsheet_core::secrets::RuleFile;
use callsheet_core::{Request, UnifiedPrompt};
use schemars::schema_for;

use crate::print::OutputPrinter;
use callsheet::error::CommandResult;
use callsheet::project::config_file::ConfigFile;

/// Print a JSON Schema
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    name: SchemaName,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SchemaName {
    /// What --request reads
    Request,
    /// recipes/NAME.toml
    Recipe,
    /// What --format json prints
    UnifiedPrompt,
    /// config.toml
    Config,
    /// agents/NAME.toml
    Agent,
    /// contracts/NAME.toml
    Contract,
    /// flows/NAME.toml
    Flow,
    /// secrets/NAME.toml
    Secrets,
}

pub(crate) fn run(print: &OutputPrinter, args: &Args) -> CommandResult {
    let schema = match args.name {
        SchemaName::Request => schema_for!(Request),
        SchemaName::Recipe => schema_for!(Recipe),
        SchemaName::UnifiedPrompt => schema_for!(UnifiedPrompt),
        SchemaName::Config => schema_for!(ConfigFile),
        SchemaName::Agent => schema_for!(Agent),
        SchemaName::Contract => schema_for!(Contract),
        SchemaName::Flow => schema_for!(Flow),
        SchemaName::Secrets => schema_for!(RuleFile),
    };
    print.print_value(&schema.into())
}
