//! `callsheet templates`: lists, shows, locates, ejects and compares templates.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, escape_invisible};
use callsheet_core::{SharedText, SourceId, SourceRoot, Sources, candidates};
use callsheet_lint::catalog::{TemplateSummary, list_templates};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::context::CommandContext;
use crate::print::TextStyle;
use callsheet::compose::tokens::count_tokens;
use callsheet::error::{CommandResult, FINDING};
use callsheet::session::write::write_new;

/// List, show, find, eject and compare templates
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TemplatesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TemplatesCommand {
    /// List every template with the tokens of its own text and its variables
    List,
    /// Print a template as it is
    Show(TemplateNameArg),
    /// Print every place that is searched, and the winner
    Where(TemplateNameArg),
    /// Copy a template into the project, to be changed there; nothing is overwritten
    Eject(TemplateNameArg),
    /// Compare the template that wins with the built-in one; exits with 1 when they differ
    Diff(TemplateNameArg),
}

#[derive(Debug, clap::Args)]
struct TemplateNameArg {
    /// For example system/BASE-plan, identity/supervisor, profiles/coder
    name: String,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    match &args.command {
        TemplatesCommand::List => list(app),
        TemplatesCommand::Show(TemplateNameArg { name }) => show(app, name),
        TemplatesCommand::Where(TemplateNameArg { name }) => locate(app, name),
        TemplatesCommand::Eject(TemplateNameArg { name }) => eject(app, name),
        TemplatesCommand::Diff(TemplateNameArg { name }) => diff(app, name),
    }
}

fn list(app: &CommandContext) -> CommandResult {
    let all = list_templates(&app.disk(None), &app.config.layout());
    if app.print.json {
        return app.print.print_value(&all.iter().map(template_json).collect());
    }
    let width = all.iter().map(|template| template.path.chars().count()).max().unwrap_or(0);
    for template in &all {
        let root = template.source.root().name();
        let colour =
            if template.source.root() == SourceRoot::Builtin { TextStyle::Dim } else { TextStyle::Green };
        let root = app.print.paint(colour, root).into_owned() + &" ".repeat(8 - root.len());
        let about = match &template.problem {
            Some(problem) => format!("cannot be used: {}", problem.message),
            None => template.variables.join(" "),
        };
        let tokens = count_tokens(&template.words);
        let line = format!(
            "{:width$}  {root} {tokens:>4}  {}",
            escape_invisible(&template.path),
            escape_invisible(&about)
        );
        app.print.print_line(line.trim_end())?;
    }
    Ok(0)
}

/// Describes a template as JSON, with the problem that makes it unusable, if any.
fn template_json(template: &TemplateSummary) -> Value {
    let mut object = json!(template);
    object["tokens"] = count_tokens(&template.words).into();
    if let Some(problem) = &template.problem {
        object["problem"] = problem.message.as_str().into();
    }
    object
}

/// Finds an existing template: its file and the source that wins.
fn find_template(app: &CommandContext, name: &str) -> Result<TemplateSummary, Diagnostics> {
    let mut all = list_templates(&app.disk(None), &app.config.layout());
    let wanted = strip_name(name);
    let position = |path: &str| all.iter().position(|template| template.path == path);
    // A name without a folder is searched in the library's folders, and an agent's phase falls back to BASE.
    let folders = ["identity", "depth", "shared"].into_iter().filter(|_| !wanted.contains('/'));
    let phase = wanted.strip_prefix("system/").and_then(|file| file.split_once('-'));
    let base = phase.map(|(_, phase)| format!("system/BASE-{phase}"));
    let others = folders.map(|folder| format!("{folder}/{wanted}")).chain(base);
    let found = core::iter::once(wanted.to_owned()).chain(others).find_map(|path| position(&path));
    if let Some(at) = found {
        let found = all.swap_remove(at);
        if found.path != wanted {
            app.print.print_note(&format!("no `{wanted}`; `{}` is used", found.path));
        }
        return Ok(found);
    }
    Err(Diagnostic::error(
        Code::TemplateNotFound,
        format!("TemplateNotFound: there is no template `{wanted}`"),
    )
    .searched(candidates(&format!("templates/{wanted}.md"), &app.config.layout()))
    .suggest(wanted, all.iter().map(|template| template.path.as_str()))
    .hint("`callsheet templates list` lists them")
    .into())
}

/// Strips the optional `templates/` prefix and `.md` suffix.
pub(crate) fn strip_name(name: &str) -> &str {
    let name = name.strip_prefix("templates/").unwrap_or(name);
    name.strip_suffix(".md").unwrap_or(name)
}

fn read_text(app: &CommandContext, id: &SourceId) -> Result<Option<SharedText>, Diagnostics> {
    app.disk(None).text(id).map_err(|error| {
        Diagnostic::error(Code::SourceUnreadable, format!("`{id}` cannot be used: {error}")).into()
    })
}

fn show(app: &CommandContext, name: &str) -> CommandResult {
    let template = find_template(app, name)?;
    let text = read_text(app, &template.source)?.unwrap_or_default();
    if app.print.json {
        let mut object = template_json(&template);
        object["text"] = text.as_str().into();
        return app.print.print_value(&object);
    }
    app.print.write_data(text.as_bytes())?;
    Ok(0)
}

/// Prints the search path, also for a name that does not exist: the user can put a file in one of these
/// places.
fn locate(app: &CommandContext, name: &str) -> CommandResult {
    let layout = app.config.layout();
    let known = find_template(app, name);
    // If a phase of an agent falls back to BASE, show the places of its own file.
    let is_own =
        |known: &&TemplateSummary| !strip_name(name).starts_with("system/") || known.path == strip_name(name);
    let file = known.as_ref().ok().filter(is_own).map(|known| known.file.clone());
    let file = file.unwrap_or_else(|| format!("templates/{}.md", strip_name(name)));
    let places = candidates(&file, &layout);
    if places.is_empty() {
        known?;
    }
    let mut winner = None;
    let mut rows = Vec::new();
    for id in places {
        let there = read_text(app, &id).map_or(true, |text| text.is_some());
        let state = match (there, &winner) {
            (false, _) => "not there",
            (true, None) => "wins",
            (true, Some(_)) => "shadowed",
        };
        if there && winner.is_none() {
            winner = Some(id.clone());
        }
        rows.push((id, state));
    }
    if app.print.json {
        let places: Vec<_> = rows.iter().map(|(id, said)| json!({ "source": id, "state": said })).collect();
        app.print.print_value(&json!({ "winner": winner, "places": places }))?;
    } else {
        for (id, said) in rows {
            app.print.print_line(&format!("{said:9}  {}", escape_invisible(&id.to_string())))?;
        }
    }
    Ok(if winner.is_some() { 0 } else { FINDING })
}

fn eject(app: &CommandContext, name: &str) -> CommandResult {
    let template = find_template(app, name)?;
    let layout = app.config.layout();
    let target = candidates(&template.file, &layout).into_iter().find(|id| id.root() == SourceRoot::Project);
    let Some(target) = target else {
        let message = format!("`{}` is controlled by the pipeline and cannot be overridden", template.path);
        return Err(Diagnostic::error(Code::OverrideRefused, message).into());
    };
    let path = app.dir.join(target.path());
    if path.symlink_metadata().is_ok() {
        let message = format!("`{target}` is there already; nothing is overwritten");
        return Err(Diagnostic::error(Code::OverrideRefused, message)
            .hint("look at it with `callsheet templates diff`")
            .into());
    }
    let text = read_text(app, &template.source)?.unwrap_or_default();
    write_new(&app.dir, target.path(), text.as_bytes())?;
    let shown = app.path_from_here(target.path());
    if app.print.json {
        return app.print.print_value(&json!({ "written": shown }));
    }
    app.print.print_line(&format!("wrote {}", escape_invisible(&shown)))?;
    Ok(0)
}

fn diff(app: &CommandContext, name: &str) -> CommandResult {
    let template = find_template(app, name)?;
    let own = read_text(app, &template.source)?.unwrap_or_default();
    let builtin = SourceId::new(SourceRoot::Builtin, &template.file).ok();
    let shipped = match &builtin {
        Some(id) => read_text(app, id)?.unwrap_or_default(),
        None => SharedText::default(),
    };
    let exit = if own == shipped { 0 } else { FINDING };
    let (from, to) = (format!("builtin:{}", template.file), template.source.to_string());
    let diff = TextDiff::from_lines(shipped.as_str(), own.as_str());
    let page = diff.unified_diff().header(&from, &to).to_string();
    if app.print.json {
        app.print.print_value(&json!({ "from": from, "to": to, "same": exit == 0, "diff": page }))?;
        return Ok(exit);
    }
    for line in page.lines() {
        let shown = escape_invisible(line);
        let line = match line.as_bytes().first() {
            Some(b'+') => app.print.paint(TextStyle::Green, &shown),
            Some(b'-') => app.print.paint(TextStyle::Red, &shown),
            _ => shown,
        };
        app.print.print_line(&line)?;
    }
    Ok(exit)
}
