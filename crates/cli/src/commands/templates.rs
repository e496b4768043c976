//! `callsheet templates`: lists, shows, locates, ejects and compares templates.

use callsheet::error::{CommandResult, FINDING};
use callsheet::output::{
    ListOutput, TemplateDiffOutput, TemplateOutput, TemplatePlacesOutput, TemplateTextOutput, WrittenOutput,
};
use callsheet::templates::{
    PlaceState, TemplatePlace, eject_template, find_template, list_places, read_text,
};
use callsheet_core::diag::escape_invisible;
use callsheet_core::{SharedText, SourceId, SourceRoot};
use callsheet_lint::catalog::list_templates;
use similar::TextDiff;

use crate::context::CommandContext;
use crate::pages::templates::{diff_page, templates_page};

/// List, show, find, copy and compare templates
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TemplatesCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TemplatesCommand {
    /// List every template with its number of tokens and its variables
    List,
    /// Print a template, unfilled
    Show(TemplateNameArg),
    /// Print every place where a template is searched, and the file that is used
    Where(TemplateNameArg),
    /// Copy a template into the project, where you can change it; an existing file stays as it is
    Eject(TemplateNameArg),
    /// Compare the template in use with the built-in one; exits with 1 if they differ
    Diff(TemplateNameArg),
}

#[derive(Debug, clap::Args)]
struct TemplateNameArg {
    /// The template, for example system/BASE-plan, identity/supervisor, profiles/coder
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
    app.print.print_output(
        || all.iter().map(TemplateOutput::from).collect::<ListOutput<_>>(),
        || templates_page(&app.print, &all),
    )
}

fn show(app: &CommandContext, name: &str) -> CommandResult {
    let template = find_template(app, name)?;
    let text = read_text(app, &template.source)?.unwrap_or_default();
    let output = || TemplateTextOutput { template: (&template).into(), text: text.to_string() };
    app.print.print_output(output, || text.to_string())
}

fn locate(app: &CommandContext, name: &str) -> CommandResult {
    let places = list_places(app, name)?;
    let winner =
        places.iter().find(|place| place.state == PlaceState::Wins).map(|place| place.source.clone());
    let line = |place: &TemplatePlace| {
        format!("{:8}  {}\n", place.state.words(), escape_invisible(&place.source.to_string()))
    };
    app.print.print_output(
        || TemplatePlacesOutput { winner: winner.clone(), items: places.clone() },
        || places.iter().map(line).collect(),
    )?;
    Ok(if winner.is_some() { 0 } else { FINDING })
}

fn eject(app: &CommandContext, name: &str) -> CommandResult {
    let shown = eject_template(app, name)?;
    let page = format!("wrote {}\n", escape_invisible(&shown));
    app.print.print_output(|| WrittenOutput { written: vec![shown] }, || page)
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
    app.print.print_output(
        || TemplateDiffOutput { from, to, same: exit == 0, diff: page.clone() },
        || diff_page(&app.print, &page),
    )?;
    Ok(exit)
}
