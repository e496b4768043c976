//! `callsheet prefs`: lists, adds, approves and removes the preferences in a role's extension file.

use std::collections::BTreeMap;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, visible};
use callsheet_core::library::lookup::role_names;
use callsheet_core::library::preferences::{self, Preference};
use callsheet_core::{SourceId, SourceRoot, Sources as _};
use serde_json::json;

use crate::app::AppContext;
use crate::commands::flow::proposed;
use crate::failure::{CommandResult, FINDING};
use crate::session::{failed, open, remember};

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

pub(crate) fn run(app: &AppContext<'_>, args: &Args) -> CommandResult {
    match &args.command {
        PrefsCommand::List { role } => list(app, role.as_deref()),
        PrefsCommand::Add(named) => add(app, named),
        PrefsCommand::Approve { role, text, yes } => approve(app, role.as_deref(), text.as_deref(), *yes),
        PrefsCommand::Remove(named) => remove(app, named),
    }
}

fn list(app: &AppContext<'_>, only: Option<&str>) -> CommandResult {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let mut known = role_names(&disk, &layout);
    if let Some(only) = only {
        check(app, only, "x")?;
        known.retain(|role| role == only);
    }
    let mut all = BTreeMap::new();
    for role in known {
        let Ok(id) = SourceId::new(SourceRoot::Project, &preferences::file(&layout, &role)) else { continue };
        let text = disk.text(&id).map_err(|error| {
            Diagnostic::error(Code::SourceUnreadable, format!("`{id}` cannot be used: {error}"))
        })?;
        let bullets = text.as_deref().map(preferences::list).unwrap_or_default();
        if !bullets.is_empty() {
            all.insert(role, bullets.into_iter().map(String::from).collect::<Vec<_>>());
        }
    }
    if app.print.json {
        return app.print.value(&json!(all));
    }
    for (role, bullets) in &all {
        for bullet in bullets {
            app.print.line(&format!("{role}: {}", visible(bullet)))?;
        }
    }
    Ok(0)
}

fn add(app: &AppContext<'_>, named: &PreferenceArgs) -> CommandResult {
    app.refuse_below_guard()?;
    let preference = check(app, &named.role, &named.text)?;
    let (layout, limit) = (app.config.layout(), app.config.max_file_bytes.value);
    let added = remember(&app.project, &layout, limit, &[preference])?;
    let file = app.shown_here(&preferences::file(&layout, &named.role));
    let new = added.values().any(|new| !new.is_empty());
    app.print.say(&if new { format!("added to {file}") } else { format!("{file} says so already") });
    if app.print.json {
        return app.print.value(&json!({ "added": added[&named.role] }));
    }
    Ok(0)
}

fn approve(app: &AppContext<'_>, role: Option<&str>, text: Option<&str>, yes: bool) -> CommandResult {
    app.refuse_below_guard()?;
    if let Some(role) = role {
        check(app, role, "x")?;
    }
    if std::env::var_os("CALLSHEET_RUN").is_some_and(|run| !run.is_empty()) {
        return Err(Diagnostic::error(Code::RunRefused, "an agent cannot approve what it proposed").into());
    }
    let mut ledger = app.write_ledger()?;
    app.refuse_below_guards_of(&mut ledger)?;
    let mut proposed = proposed(app, &mut ledger)?;
    proposed.retain(|preference| {
        role.is_none_or(|role| preference.role == role) && text.is_none_or(|text| preference.bullet == text)
    });
    if proposed.is_empty() {
        app.print.say("nothing of that kind is proposed");
        if app.print.json {
            app.print.value(&json!({ "added": {} }))?;
        }
        return Ok(FINDING);
    }
    app.person(yes)?;
    let (layout, limit) = (app.config.layout(), app.config.max_file_bytes.value);
    let added = remember(&app.project, &layout, limit, &proposed)?;
    if app.print.json {
        return app.print.value(&json!({ "added": added }));
    }
    for (role, bullets) in &added {
        for bullet in bullets {
            app.print.line(&format!("{role}: {}", visible(bullet)))?;
        }
    }
    Ok(0)
}

fn remove(app: &AppContext<'_>, named: &PreferenceArgs) -> CommandResult {
    app.refuse_below_guard()?;
    check(app, &named.role, &named.text)?;
    let path = preferences::file(&app.config.layout(), &named.role);
    let removed =
        open(&app.project)?.update(&path, app.config.max_file_bytes.value, |text| match preferences::remove(
            text,
            &named.text,
        ) {
            Some((text, bullet)) => (text, Some(bullet)),
            None => (text.to_owned(), None),
        });
    let removed = removed.map_err(|error| failed(&error))?;
    let file = app.shown_here(&path);
    app.print.say(&if removed.is_some() {
        format!("removed from {file}")
    } else {
        format!("{file} has no such preference")
    });
    if app.print.json {
        app.print.value(&json!({ "removed": removed }))?;
    }
    Ok(if removed.is_some() { 0 } else { FINDING })
}

/// Returns the preference if it has no problems.
fn check(app: &AppContext<'_>, role: &str, text: &str) -> Result<Preference, Diagnostics> {
    let preference = Preference { role: role.to_owned(), bullet: text.to_owned() };
    let problems = preference.problems(&role_names(&app.disk(None), &app.config.layout()));
    if problems.is_empty() { Ok(preference) } else { Err(Diagnostics(problems)) }
}
