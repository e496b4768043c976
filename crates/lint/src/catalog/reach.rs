//! Reach: the templates that a recipe can use, their notation, and the names that fill their slots.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::catalog::catalog_files::{CatalogFile, CatalogFiles, folder_of};
use crate::catalog::path_pattern::PatternMatch;
use crate::catalog::recipes::CatalogRecipe;
use callsheet_core::delivery::BY_FILE;
use callsheet_core::library::lookup::{CONTROLLED, fragment_path, is_phase_name};
use callsheet_core::library::recipe::RequestField;
use callsheet_core::library::template::{Template, TemplateNode, TemplateNotation};

pub(crate) const BOTH_NOTATIONS: [TemplateNotation; 2] =
    [TemplateNotation::Braces, TemplateNotation::Brackets];

#[derive(Debug, Default)]
pub(crate) struct TemplateReach {
    /// The provided names, by template and notation.
    provided: BTreeMap<(String, TemplateNotation), BTreeSet<String>>,
    /// The phases that have a template.
    pub(crate) phases: BTreeSet<String>,
    /// The roles and commands whose templates accept a project's own text, and the slots that it can use.
    pub(crate) extensible: BTreeMap<RequestField, BTreeMap<String, BTreeSet<String>>>,
    /// Templates that no recipe reaches.
    pub(crate) unreached: BTreeSet<String>,
}

/// Checks whether an agent of this name can be requested.
pub(crate) fn is_agent(agents: &BTreeSet<String>, name: &str, upper: bool) -> bool {
    let same = |agent: &str| if upper { agent.eq_ignore_ascii_case(name) } else { agent == name };
    same("base") || agents.iter().any(|agent| same(agent))
}

impl TemplateReach {
    pub(crate) fn new(files: &CatalogFiles, recipes: &[CatalogRecipe], agents: &BTreeSet<String>) -> Self {
        let mut reach = Self::default();
        for recipe in recipes {
            reach.visit_templates(files, recipe, agents);
            reach.visit_wordings(files, recipe);
            // No recipe names it: the pipeline renders it into a session, like the templates of that session.
            if recipe.recipe.notation == TemplateNotation::Brackets {
                reach.visit(files, CONTROLLED, TemplateNotation::Brackets, &recipe.provided_names());
            }
        }
        // No recipe names it: it is sent to an agent whose prompt is delivered by file.
        reach.visit(files, BY_FILE, TemplateNotation::Braces, &["prompt_file".to_string()].into());
        let unreached: Vec<&str> = files
            .by_path()
            .filter(|(path, files)| files.iter().any(CatalogFile::is_template) && !reach.is_reached(path))
            .map(|(path, _)| path)
            .collect();
        let mut misplaced = BTreeSet::new();
        for path in &unreached {
            if reach.visit_like_neighbours(files, recipes, path) {
                misplaced.insert(*path);
            }
        }
        let lost = unreached.iter().filter(|path| misplaced.contains(*path) || !reach.is_reached(path));
        reach.unreached = lost.map(ToString::to_string).collect();
        reach
    }

    /// Returns the names that are provided to the template at `path`, or `None` if it is not read in this
    /// notation.
    pub(crate) fn provided(&self, path: &str, notation: TemplateNotation) -> Option<&BTreeSet<String>> {
        self.provided.get(&(path.to_string(), notation))
    }

    /// Returns the notations in which the template at `path` is read.
    pub(crate) fn notations(&self, path: &str) -> impl Iterator<Item = TemplateNotation> {
        BOTH_NOTATIONS.into_iter().filter(|notation| self.provided(path, *notation).is_some())
    }

    /// Returns the notations in which the template at `path` is read; both if no recipe reaches it.
    pub(crate) fn notations_or_both(&self, path: &str) -> Vec<TemplateNotation> {
        let notations: Vec<TemplateNotation> = self.notations(path).collect();
        if notations.is_empty() { BOTH_NOTATIONS.to_vec() } else { notations }
    }

    pub(crate) fn is_reached(&self, path: &str) -> bool {
        self.notations(path).next().is_some()
    }

    fn visit_templates(&mut self, files: &CatalogFiles, recipe: &CatalogRecipe, agents: &BTreeSet<String>) {
        let provided = recipe.provided_names();
        for pattern in recipe.patterns() {
            for (path, _) in files.by_path() {
                let fits: Vec<PatternMatch<'_>> =
                    pattern.match_path(path).into_iter().filter(|fit| has_known_agent(fit, agents)).collect();
                if fits.is_empty() {
                    continue;
                }
                self.visit(files, path, recipe.recipe.notation, &provided);
                for (hole, value) in fits.iter().flatten() {
                    if hole.field == RequestField::Phase {
                        if is_phase_name(value) {
                            self.phases.insert(value.to_string());
                        }
                    } else if recipe.takes_extensions() {
                        let templates = files
                            .files_at(path)
                            .iter()
                            .filter_map(|file| file.template(recipe.recipe.notation));
                        let names = self.extensible.entry(hole.field).or_default();
                        let known = names.entry(value.to_string()).or_default();
                        known.extend(provided.iter().cloned().chain(templates.flat_map(declared_variables)));
                    }
                }
            }
        }
    }

    fn visit_wordings(&mut self, files: &CatalogFiles, recipe: &CatalogRecipe) {
        for wording in recipe.wordings() {
            let (words, provided) = (wording.template(recipe), wording.provided_names(recipe));
            let named = wording.is_fragment().then_some(wording.words);
            for name in named.into_iter().chain(fragment_names(&words.text, &words.nodes)) {
                self.visit(files, &fragment_path(name), TemplateNotation::Braces, &provided);
            }
        }
    }

    /// Reads an unreached file as its neighbours are read: once it has the right name, the rest of it should
    /// be right as well. Returns `false` if its folder holds no template with a variable name.
    fn visit_like_neighbours(&mut self, files: &CatalogFiles, recipes: &[CatalogRecipe], path: &str) -> bool {
        let mut any = false;
        for recipe in recipes {
            for pattern in recipe.patterns() {
                if pattern.holes().next().is_some() && pattern.folder == folder_of(path) {
                    self.visit(files, path, recipe.recipe.notation, &recipe.provided_names());
                    any = true;
                }
            }
        }
        any
    }

    fn visit(
        &mut self,
        files: &CatalogFiles,
        path: &str,
        notation: TemplateNotation,
        provided: &BTreeSet<String>,
    ) {
        let mut work = alloc::vec![(path.to_string(), provided.clone())];
        while let Some((path, provided)) = work.pop() {
            let key = (path.clone(), notation);
            let first = !self.provided.contains_key(&key);
            let known = self.provided.entry(key).or_default();
            let before = known.len();
            known.extend(provided.iter().cloned());
            if !first && known.len() == before {
                continue;
            }
            for template in files.files_at(&path).iter().filter_map(|file| file.template(notation)) {
                let inside: BTreeSet<String> =
                    provided.iter().cloned().chain(declared_variables(template)).collect();
                let names: BTreeSet<&str> = fragment_names(&template.text, &template.nodes).collect();
                for name in names {
                    work.push((fragment_path(name), inside.clone()));
                }
            }
        }
    }
}

fn has_known_agent(fit: &PatternMatch<'_>, agents: &BTreeSet<String>) -> bool {
    fit.iter().all(|(hole, value)| hole.field != RequestField::Agent || is_agent(agents, value, hole.upper))
}

fn declared_variables(template: &Template) -> impl Iterator<Item = String> {
    template.front.variables.iter().flatten().map(|variable| variable.name.clone())
}

/// Returns the names of the fragments among `nodes`.
pub(crate) fn fragment_names<'t>(text: &'t str, nodes: &[TemplateNode]) -> impl Iterator<Item = &'t str> {
    nodes.iter().filter_map(move |node| match node {
        TemplateNode::Fragment(name) => Some(name.slice(text)),
        _ => None,
    })
}
