//! `callsheet schema NAME`: the JSON Schemas of everything that people and programs write for callsheet.

use callsheet_core::agent::Agent;
use callsheet_core::contract::Contract;
use callsheet_core::flow::Flow;
use callsheet_core::recipe::Recipe;
use callsheet_core::secrets::RuleFile;
use callsheet_core::{Request, UnifiedPrompt};
use schemars::schema_for;

use crate::config::ConfigFile;
use crate::failure::Outcome;
use crate::print::Print;

/// Print a JSON Schema
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    name: Name,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Name {
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

pub(crate) fn run(print: &Print, args: &Args) -> Outcome {
    let schema = match args.name {
        Name::Request => schema_for!(Request),
        Name::Recipe => schema_for!(Recipe),
        Name::UnifiedPrompt => schema_for!(UnifiedPrompt),
        Name::Config => schema_for!(ConfigFile),
        Name::Agent => schema_for!(Agent),
        Name::Contract => schema_for!(Contract),
        Name::Flow => schema_for!(Flow),
        Name::Secrets => schema_for!(RuleFile),
    };
    print.value(&schema.into())
}
