//! `callsheet config show`: every setting and where it was set.

use serde_json::{Map, Value, json};

use crate::app::App;
use crate::failure::Outcome;

/// Show the configuration
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print every setting with where it was set
    Show,
}

pub(crate) fn run(app: &App<'_>, args: &Args) -> Outcome {
    let Command::Show = args.command;
    let rows = app.config.rows();
    if app.print.json {
        let map: Map<String, Value> = rows
            .into_iter()
            .map(|(key, value, from)| (key.to_string(), json!({ "value": value, "from": from })))
            .collect();
        return app.print.value(&map.into());
    }
    for (key, value, from) in rows {
        let value = if value.is_null() { "(not set)".into() } else { value.to_string() };
        app.print.line(&format!("{key} = {}  # {from}", callsheet_core::diag::visible(&value)))?;
    }
    Ok(0)
}
