//! `callsheet prefs`: lists, adds, approves and removes the preferences in a role's extension file.

use std::collections::BTreeMap;

use callsheet::error::{CommandResult, FINDING};
use callsheet::output::{ListOutput, PreferenceChangeOutput, PreferenceOutput};
use callsheet_core::diag::escape_invisible;

use crate::context::CommandContext;

/// List, add, approve and remove preferences of roles
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PrefsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PrefsCommand {
    /// Print the preferences of all roles, or of one
    List {
        /// The role, for example coder
        role: Option<String>,
    },
    /// Add a preference, unless the role already has it
    Add(PreferenceArgs),
    /// Store the preferences that agents proposed: all, those for one role, or one of them
    Approve {
        /// The role, for example coder
        role: Option<String>,
        /// The preference, as it was proposed
        #[arg(allow_hyphen_values = true)]
        text: Option<String>,
        /// Approve without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Remove a preference; exits with 1 if the role does not have it
    Remove(PreferenceArgs),
}

#[derive(Debug, clap::Args)]
struct PreferenceArgs {
    /// The role, for example coder
    role: String,
    /// The preference in a sentence
    #[arg(allow_hyphen_values = true)]
    text: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    match &args.command {
        PrefsCommand::List { role } => {
            let all = app.list_preferences(role.as_deref())?;
            app.print.print_output(
                || PreferenceOutput::list(&all).into_iter().collect::<ListOutput<_>>(),
                || preferences_page(&all),
            )
        }
        PrefsCommand::Add(PreferenceArgs { role, text }) => {
            let (added, file) = (app.add_preference(role, text)?, app.preference_file(role));
            app.print.print_status(&match added.is_empty() {
                true => format!("{file} already has it"),
                false => format!("added to {file}"),
            });
            let added = added.into_iter().map(|text| PreferenceOutput { role: role.clone(), text }).collect();
            app.print.print_output(|| PreferenceChangeOutput { added, removed: Vec::new() }, String::new)
        }
        PrefsCommand::Approve { role, text, yes } => {
            let added = app.approve_preferences(role.as_deref(), text.as_deref(), *yes)?;
            if added.is_empty() {
                app.print.print_status("no such preference was proposed");
            }
            app.print.print_output(
                || PreferenceChangeOutput { added: PreferenceOutput::list(&added), removed: Vec::new() },
                || preferences_page(&added),
            )?;
            Ok(if added.is_empty() { FINDING } else { 0 })
        }
        PrefsCommand::Remove(PreferenceArgs { role, text }) => {
            let (removed, file) = (app.remove_preference(role, text)?, app.preference_file(role));
            app.print.print_status(&match &removed {
                Some(_) => format!("removed from {file}"),
                None => format!("{file} has no such preference"),
            });
            let gone = removed.clone().map(|text| PreferenceOutput { role: role.clone(), text });
            app.print.print_output(
                || PreferenceChangeOutput { added: Vec::new(), removed: gone.into_iter().collect() },
                String::new,
            )?;
            Ok(if removed.is_some() { 0 } else { FINDING })
        }
    }
}

fn preferences_page(all: &BTreeMap<String, Vec<String>>) -> String {
    let rows = all.iter().flat_map(|(role, bullets)| bullets.iter().map(move |bullet| (role, bullet)));
    rows.map(|(role, bullet)| format!("{role}: {}\n", escape_invisible(bullet))).collect()
}
