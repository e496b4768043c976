//! The catalog: every data file of the search path, and the recipes that reach it.
//!
//! It holds the files of all roots, including those that an override hides. It judges none of them;
//! [`check`](crate::check) does.

mod catalog_files;
mod path_pattern;
mod provided_names;
mod reach;
mod recipes;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Serialize;

pub(crate) use catalog_files::{CatalogFile, CatalogFileKind, CatalogFiles, folder_of, own_name};
pub(crate) use path_pattern::PathPattern;
pub(crate) use provided_names::REQUEST_FIELDS;
pub(crate) use reach::{BOTH_NOTATIONS, TemplateReach, fragment_names, is_agent};
pub(crate) use recipes::{CatalogRecipe, RecipeWording, value_range_in};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::lookup::candidates;
use callsheet_core::library::recipe;
use callsheet_core::source::{SourceError, SourceId, SourceRoot, Sources};

/// The folders of all data files that no recipe needs to name.
pub(crate) const FOLDERS: [&str; 9] =
    ["recipes", "agents", "contracts", "flows", "prices", "profiles", "secrets", "skeletons", "templates"];

/// A template of the search path: the winning file, and the metadata of its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TemplateSummary {
    /// Its path below `templates/` without the extension, such as `system/BASE-plan`; a template elsewhere
    /// has its folder in front: `profiles/generalist`.
    pub path: String,
    /// The data file, as [`candidates`] expects it: `templates/system/BASE-plan.md`.
    pub file: String,
    /// The winning file.
    pub source: SourceId,
    /// The files that it hides, in search order.
    pub shadowed: Vec<SourceId>,
    /// The name in its frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The description in its frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The category in its frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The version in its frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The agent of a system template, in upper case: `BASE`, `CLAUDE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The phase of a system template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The slots of its own text in order of appearance, each once.
    pub variables: Vec<String>,
    /// The part of its own text that an agent sees.
    #[serde(skip)]
    pub words: String,
    /// The reason why it cannot be read; it then has no variables and no metadata.
    #[serde(skip)]
    pub problem: Option<Diagnostic>,
}

/// Returns every template that can be requested, in byte order of the paths.
///
/// ```
/// let templates = callsheet_lint::catalog::list_templates(&callsheet_core::Builtin, &Default::default());
/// assert!(templates.iter().any(|template| template.path == "system/BASE-plan"));
/// ```
pub fn list_templates(sources: &dyn Sources, layout: &Layout) -> Vec<TemplateSummary> {
    let catalog = SourceCatalog::read(sources, layout);
    let shown = |path: &str| path.starts_with("templates/") || catalog.reach.is_reached(path);
    let paths = catalog.files.by_path().filter(|(path, _)| shown(path));
    let mut templates: Vec<TemplateSummary> =
        paths.filter_map(|(_, files)| catalog.summarize_template(files)).collect();
    templates.sort_by(|a, b| a.path.cmp(&b.path));
    templates
}

pub(crate) struct SourceCatalog {
    pub(crate) files: CatalogFiles,
    /// The project's own texts for roles and commands; their paths begin below the folder of extensions.
    pub(crate) extensions: Vec<CatalogFile>,
    pub(crate) recipes: Vec<CatalogRecipe>,
    /// The errors of the recipes that could not be read.
    pub(crate) bad_recipes: Vec<(SourceId, Diagnostic)>,
    pub(crate) agents: BTreeSet<String>,
    pub(crate) reach: TemplateReach,
    layout: Layout,
}

impl SourceCatalog {
    pub(crate) fn read(sources: &dyn Sources, layout: &Layout) -> Self {
        let mut files = CatalogFiles::default();
        for folder in FOLDERS {
            files.add(sources, layout, folder);
        }
        let (recipes, bad_recipes) = read_recipes(&files);
        for pattern in recipes.iter().flat_map(CatalogRecipe::patterns) {
            files.add(sources, layout, pattern.folder);
        }
        let agents: BTreeSet<String> = files.names("agents", ".toml").map(String::from).collect();
        let reach = TemplateReach::new(&files, &recipes, &agents);
        let mut extensions = Vec::new();
        if let Ok(dir) = SourceId::new(SourceRoot::Project, &layout.prompts) {
            catalog_files::collect_files(sources, &dir, "", &mut extensions, &mut files.problems);
            extensions.retain(|file| own_name(&file.path) != "README.md");
        }
        Self { files, extensions, recipes, bad_recipes, agents, reach, layout: layout.clone() }
    }

    /// Returns every place that can hold the data file `path`, in order.
    pub(crate) fn candidate_places(&self, path: &str) -> Vec<SourceId> {
        candidates(path, &self.layout)
    }

    /// Splits a name in `system/` into agent and phase. If there are several ways to split it, prefers an
    /// agent that exists.
    pub(crate) fn agent_and_phase<'n>(&self, stem: &'n str) -> Option<(&'n str, &'n str)> {
        let fits = PathPattern::new("{AGENT}-{phase}").match_path(stem);
        let splits = fits.iter().map(|fit| (fit[0].1, fit[1].1));
        let lower = splits.filter(|(_, phase)| !phase.contains(|c: char| c.is_ascii_uppercase()));
        let splits: Vec<(&str, &str)> = lower.collect();
        let known = splits.iter().rev().find(|(agent, _)| is_agent(&self.agents, agent, true));
        known.or(splits.last()).copied()
    }

    fn summarize_template(&self, files: &[CatalogFile]) -> Option<TemplateSummary> {
        let (winner, hidden) = files.split_first()?;
        let path = winner.path.strip_prefix("templates/").unwrap_or(&winner.path);
        let notations = self.reach.notations_or_both(&winner.path).into_iter();
        let read: Vec<_> = notations.filter_map(|notation| winner.template(notation)).collect();
        let mut variables: Vec<String> = Vec::new();
        for template in &read {
            for name in template.slots() {
                let name = name.slice(&template.text);
                if !variables.iter().any(|known| known == name) {
                    variables.push(name.to_string());
                }
            }
        }
        let words = read.first().map(|template| template.literal_text()).unwrap_or_default();
        let front = read.first().map(|template| template.front.clone()).unwrap_or_default();
        let system =
            path.strip_prefix("system/").and_then(|name| self.agent_and_phase(name.strip_suffix(".md")?));
        let problem = match &winner.text {
            Ok(_) => winner.parse_error().cloned(),
            Err(error) => Some(unreadable_error(&winner.id, error)),
        };
        Some(TemplateSummary {
            path: path.strip_suffix(".md").unwrap_or(path).to_string(),
            file: winner.path.clone(),
            source: winner.id.clone(),
            words,
            shadowed: hidden.iter().map(|file| file.id.clone()).collect(),
            name: front.name,
            description: front.description,
            category: front.category,
            version: front.version,
            agent: system.map(|(agent, _)| agent.to_string()),
            phase: system.map(|(_, phase)| phase.to_string()),
            variables,
            problem,
        })
    }
}

pub(crate) fn unreadable_error(id: &SourceId, error: &SourceError) -> Diagnostic {
    Diagnostic::error(Code::SourceUnreadable, format!("cannot read `{id}`: {error}"))
}

fn read_recipes(files: &CatalogFiles) -> (Vec<CatalogRecipe>, Vec<(SourceId, Diagnostic)>) {
    let (mut recipes, mut bad) = (Vec::new(), Vec::new());
    for file in files.all().filter(|file| file.kind() == CatalogFileKind::Recipe) {
        let Ok(text) = &file.text else { continue };
        if file.stem(".toml").is_none() {
            continue;
        }
        match recipe::read_recipe(&file.id, text) {
            Ok(recipe) => recipes.push(CatalogRecipe { id: file.id.clone(), text: text.clone(), recipe }),
            Err(Diagnostics(problems)) => {
                bad.extend(problems.into_iter().map(|problem| (file.id.clone(), problem)))
            }
        }
    }
    (recipes, bad)
}
