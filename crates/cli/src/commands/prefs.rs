//! `callsheet prefs`: lists, adds, approves and removes the preferences in a role's extension file.

use std::collections::BTreeMap;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, escape_invisible};
use callsheet_core::library::lookup::list_roles;
use callsheet_core::library::preferences::{self, Preference};
use callsheet_core::{SourceId, SourceRoot, Sources as _};
use serde_json::json;

use crate::context::CommandContext;
use callsheet::error::{CommandResult, FINDING};
use callsheet::flow::find::find_proposed;
use callsheet::project::person::refuse_below_guard;
use callsheet::session::{add_preferences, open_folder, write_error};

/// List, add and remove the preferences that roles keep in mind
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PrefsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PrefsCommand {
    /// Print every preference, or those of a role
    List {
        /// For example coder
        role: Option<String>,
    },
    /// Add a preference, unless the role has it already
    Add(PreferenceArgs),
    /// Store what agents of flows proposed: all of it, that for a role, or one preference
    Approve {
        /// For example coder
        role: Option<String>,
        /// The preference, as it was proposed
        #[arg(allow_hyphen_values = true)]
        text: Option<String>,
        /// Approve without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Remove a preference; exits with 1 when the role has none that says so
    Remove(PreferenceArgs),
}

#[derive(Debug, clap::Args)]
struct PreferenceArgs {
    /// For example coder
    role: String,
    /// The preference in a sentence
    #[arg(allow_hyphen_values = true)]
    text: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    match &args.command {
        PrefsCommand::List { role } => list(app, role.as_deref()),
        PrefsCommand::Add(named) => add(app, named),
        PrefsCommand::Approve { role, text, yes } => approve(app, role.as_deref(), text.as_deref(), *yes),
        PrefsCommand::Remove(named) => remove(app, named),
    }
}

fn list(app: &CommandContext, only: Option<&str>) -> CommandResult {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let mut known = list_roles(&disk, &layout);
    if let Some(only) = only {
        check_preference(app, only, "x")?;
        known.retain(|role| role == only);
    }
    let mut all = BTreeMap::new();
    for role in known {
        let Ok(id) = SourceId::new(SourceRoot::Project, &preferences::extension_path(&layout, &role)) else {
            continue;
        };
        let text = disk.text(&id).map_err(|error| {
            Diagnostic::error(Code::SourceUnreadable, format!("`{id}` cannot be used: {error}"))
        })?;
        let bullets = text.as_deref().map(preferences::list_bullets).unwrap_or_default();
        if !bullets.is_empty() {
            all.insert(role, bullets.into_iter().map(String::from).collect::<Vec<_>>());
        }
    }
    if app.print.json {
        return app.print.print_value(&json!(all));
    }
    for (role, bullets) in &all {
        for bullet in bullets {
            app.print.print_line(&format!("{role}: {}", escape_invisible(bullet)))?;
        }
    }
    Ok(0)
}

fn add(app: &CommandContext, named: &PreferenceArgs) -> CommandResult {
    refuse_below_guard()?;
    let preference = check_preference(app, &named.role, &named.text)?;
    let (layout, limit) = (app.config.layout(), app.config.max_file_bytes.value);
    let added = add_preferences(&app.dir, &layout, limit, &[preference])?;
    let file = app.path_from_here(&preferences::extension_path(&layout, &named.role));
    let new = added.values().any(|new| !new.is_empty());
    app.print.print_status(&if new { format!("added to {file}") } else { format!("{file} says so already") });
    if app.print.json {
        return app.print.print_value(&json!({ "added": added[&named.role] }));
    }
    Ok(0)
}

fn approve(app: &CommandContext, role: Option<&str>, text: Option<&str>, yes: bool) -> CommandResult {
    refuse_below_guard()?;
    if let Some(role) = role {
        check_preference(app, role, "x")?;
    }
    if std::env::var_os("CALLSHEET_RUN").is_some_and(|run| !run.is_empty()) {
        return Err(Diagnostic::error(Code::RunRefused, "an agent cannot approve what it proposed").into());
    }
    let mut ledger = app.write_ledger()?;
    app.refuse_below_ledger_guard(&mut ledger)?;
    let mut proposed = find_proposed(app, &mut ledger)?;
    proposed.retain(|preference| {
        role.is_none_or(|role| preference.role == role) && text.is_none_or(|text| preference.bullet == text)
    });
    if proposed.is_empty() {
        app.print.print_status("nothing of that kind is proposed");
        if app.print.json {
            app.print.print_value(&json!({ "added": {} }))?;
        }
        return Ok(FINDING);
    }
    app.require_person(yes)?;
    let (layout, limit) = (app.config.layout(), app.config.max_file_bytes.value);
    let added = add_preferences(&app.dir, &layout, limit, &proposed)?;
    if app.print.json {
        return app.print.print_value(&json!({ "added": added }));
    }
    for (role, bullets) in &added {
        for bullet in bullets {
            app.print.print_line(&format!("{role}: {}", escape_invisible(bullet)))?;
        }
    }
    Ok(0)
}

fn remove(app: &CommandContext, named: &PreferenceArgs) -> CommandResult {
    refuse_below_guard()?;
    check_preference(app, &named.role, &named.text)?;
    let path = preferences::extension_path(&app.config.layout(), &named.role);
    let removed = open_folder(&app.dir)?.update(&path, app.config.max_file_bytes.value, |text| {
        match preferences::remove_bullet(text, &named.text) {
            Some((text, bullet)) => (text, Some(bullet)),
            None => (text.to_owned(), None),
        }
    });
    let removed = removed.map_err(|error| write_error(&error))?;
    let file = app.path_from_here(&path);
    app.print.print_status(&if removed.is_some() {
        format!("removed from {file}")
    } else {
        format!("{file} has no such preference")
    });
    if app.print.json {
        app.print.print_value(&json!({ "removed": removed }))?;
    }
    Ok(if removed.is_some() { 0 } else { FINDING })
}

/// Returns the preference if it has no problems.
fn check_preference(app: &CommandContext, role: &str, text: &str) -> Result<Preference, Diagnostics> {
    let preference = Preference { role: role.to_owned(), bullet: text.to_owned() };
    let problems = preference.find_problems(&list_roles(&app.disk(None), &app.config.layout()));
    if problems.is_empty() { Ok(preference) } else { Err(Diagnostics(problems)) }
}
