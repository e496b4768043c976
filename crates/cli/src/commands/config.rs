//! `callsheet config show`: prints every setting and its origin.

use callsheet::output::{ConfigOutput, ListOutput};
use callsheet_core::diag::escape_invisible;

use crate::context::CommandContext;
use callsheet::error::CommandResult;

/// Show the configuration
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Print every setting and its source
    Show,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let ConfigCommand::Show = args.command;
    if app.print.json {
        return app.print.print_json(&ConfigOutput::list(app).into_iter().collect::<ListOutput<_>>());
    }
    let mut page = String::new();
    for (key, value, from) in app.config.rows() {
        let value = if value.is_null() { "(not set)".into() } else { value.to_string() };
        page += &format!("{key} = {}  # {from}\n", escape_invisible(&value));
        for it in app.config.unapplied.iter().filter(|it| it.key == key) {
            let (value, why) = (it.value.to_string(), escape_invisible(&it.why));
            let value = escape_invisible(&value);
            page += &format!("# not applied: the project's {key} = {value}: {why}\n");
        }
    }
    app.print.print_page(&page)
}
