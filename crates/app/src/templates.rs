//! Finds templates by the names that people type.

use crate::error::Result;
use crate::paths::shell_word;
use crate::project::Project;
use crate::session::write::write_new;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::{SharedText, SourceId, SourceRoot, Sources, candidates, list_names};
pub use callsheet_lint::catalog::TemplateSummary;
use callsheet_lint::catalog::list_templates;
use schemars::JsonSchema;
use serde::Serialize;

/// A place in which a template is searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TemplatePlace {
    /// The place.
    pub source: SourceId,
    /// Whether it has the template.
    pub state: PlaceState,
}

/// Whether a place has a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlaceState {
    /// It does not.
    NotThere,
    /// It does, and wins.
    Wins,
    /// It does, and an earlier place wins.
    Shadowed,
}

impl PlaceState {
    /// Returns the state in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotThere => "no file",
            Self::Wins => "wins",
            Self::Shadowed => "shadowed",
        }
    }
}

/// Lists every template that can be requested.
pub fn list_all_templates(project: &Project) -> Vec<TemplateSummary> {
    list_templates(&project.disk(None), &project.config.layout())
}

/// Finds an existing template: its file and the source that wins.
pub fn find_template(project: &Project, name: &str) -> Result<TemplateSummary> {
    let mut all = list_templates(&project.disk(None), &project.config.layout());
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
            project.observer.note(&format!("no `{wanted}`; using `{}`", found.path));
        }
        return Ok(found);
    }
    Err(Diagnostic::error(Code::TemplateNotFound, format!("no template `{wanted}`"))
        .searched(candidates(&format!("templates/{wanted}.md"), &project.config.layout()))
        .suggest(wanted, all.iter().map(|template| template.path.as_str()))
        .hint("run `callsheet templates list` to list templates")
        .into())
}

/// Strips the optional `templates/` prefix and `.md` suffix.
fn strip_name(name: &str) -> &str {
    let name = name.strip_prefix("templates/").unwrap_or(name);
    name.strip_suffix(".md").unwrap_or(name)
}

/// Reads the text of a source; `None` if it does not exist.
pub fn read_text(project: &Project, id: &SourceId) -> Result<Option<SharedText>> {
    project.disk(None).text(id).map_err(|error| {
        Diagnostic::error(Code::SourceUnreadable, format!("cannot read `{id}`: {error}")).into()
    })
}

/// Returns every place where a template is searched, with its state, also for a name that does not exist: the user can put a
/// file in one of these places.
pub fn list_places(project: &Project, name: &str) -> Result<Vec<TemplatePlace>> {
    let known = find_template(project, name);
    // If a phase of an agent falls back to BASE, show the places of its own file.
    let is_own =
        |known: &&TemplateSummary| !strip_name(name).starts_with("system/") || known.path == strip_name(name);
    let file = known.as_ref().ok().filter(is_own).map(|known| known.file.clone());
    let file = file.unwrap_or_else(|| format!("templates/{}.md", strip_name(name)));
    let places = candidates(&file, &project.config.layout());
    if places.is_empty() {
        known?;
    }
    let mut has_winner = false;
    let mut rows = Vec::new();
    for id in places {
        let there = read_text(project, &id).map_or(true, |text| text.is_some());
        let state = match (there, has_winner) {
            (false, _) => PlaceState::NotThere,
            (true, false) => PlaceState::Wins,
            (true, true) => PlaceState::Shadowed,
        };
        has_winner |= there;
        rows.push(TemplatePlace { source: id, state });
    }
    Ok(rows)
}

/// Copies a template into the project. Returns its new path, relative to the caller's directory.
pub fn eject_template(project: &Project, name: &str) -> Result<String> {
    let template = find_template(project, name)?;
    let mut places = candidates(&template.file, &project.config.layout()).into_iter();
    let Some(target) = places.find(|id| id.root() == SourceRoot::Project) else {
        let message = format!("`{}` cannot be overridden", template.path);
        return Err(Diagnostic::error(Code::OverrideRefused, message).into());
    };
    let path = project.dir.join(target.path());
    if path.symlink_metadata().is_ok() {
        let message = format!("`{target}` already exists; it was not overwritten");
        return Err(Diagnostic::error(Code::OverrideRefused, message)
            .hint(format!("look at it with `callsheet templates diff {}`", shell_word(&template.path)))
            .into());
    }
    let text = read_text(project, &template.source)?.unwrap_or_default();
    write_new(&project.dir, target.path(), text.as_bytes())?;
    Ok(project.path_from_here(target.path()))
}

/// Finds a template by its exact name; `None` if the name is that of a recipe.
pub fn find_template_or_recipe(project: &Project, name: &str) -> Result<Option<TemplateSummary>> {
    let (disk, layout) = (project.disk(None), project.config.layout());
    let recipes = list_names(&disk, "recipes", &layout);
    if recipes.iter().any(|recipe| recipe == name) {
        return Ok(None);
    }
    let wanted = strip_name(name);
    let mut all = list_templates(&disk, &layout);
    if let Some(at) = all.iter().position(|template| template.path == wanted) {
        let template = all.swap_remove(at);
        return template.problem.clone().map_or(Ok(Some(template)), |problem| Err(problem.into()));
    }
    let known = recipes.iter().chain(all.iter().map(|template| &template.path));
    let message = format!("no template or recipe `{wanted}`");
    let places = [format!("templates/{wanted}.md"), format!("recipes/{wanted}.toml")];
    Err(Diagnostic::error(Code::TemplateNotFound, message)
        .searched(places.iter().flat_map(|place| candidates(place, &layout)))
        .suggest(wanted, known.map(String::as_str))
        .hint(format!("run `callsheet templates list` to list templates; recipes: {}", recipes.join(", ")))
        .into())
}
