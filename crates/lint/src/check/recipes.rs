//! Recipes: checks that the files and values they name exist.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::{CatalogRecipe, PathPattern, REQUEST_FIELDS, RecipeWording, SourceCatalog, is_agent};
use crate::check::{LintProblems, find_missing_paths, missing_template_error, slots, text};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::recipe::{BlockSpec, DeriveSpec, RequestField, RowWording};
use callsheet_core::library::template::TextRange;

pub(super) fn check(catalog: &SourceCatalog, recipe: &CatalogRecipe, problems: &mut LintProblems) {
    let mut check = RecipeCheck { catalog, recipe, problems };
    check.check_default_agent();
    for (keys, block) in recipe.blocks() {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        check.check_templates(&keys, block);
        check.check_value(&keys, block);
    }
    for (name, derive) in &recipe.recipe.derive {
        check.check_row_kinds(name, derive);
    }
    for wording in recipe.wordings() {
        check.check_wording(&wording);
    }
}

struct RecipeCheck<'c> {
    catalog: &'c SourceCatalog,
    recipe: &'c CatalogRecipe,
    problems: &'c mut LintProblems,
}

impl RecipeCheck<'_> {
    fn add(&mut self, problem: Diagnostic, at: TextRange) {
        let recipe = self.recipe;
        self.problems.add(&recipe.id, problem.at(&recipe.id, &recipe.text, at.start..at.end));
    }

    fn check_default_agent(&mut self) {
        let Some(agent) = self.recipe.recipe.defaults.get(&RequestField::Agent) else { return };
        if !is_agent(&self.catalog.agents, agent, false) {
            let path = format!("agents/{agent}.toml");
            let error = Diagnostic::error(Code::AgentNotFound, format!("unknown agent `{agent}`"))
                .searched(self.catalog.candidate_places(&path))
                .suggest(agent, self.catalog.agents.iter().map(String::as_str));
            self.add(error, self.recipe.value_range(&["defaults", "agent"]));
        }
    }

    /// Checks that a block's template exists: some file for its holes, and the one that the defaults select.
    fn check_templates(&mut self, keys: &[&str], block: &BlockSpec) {
        let Some(template) = &block.template else { return };
        let spot = self.recipe.value_range(&[keys, &["template"]].concat());
        let files = &self.catalog.files;
        let exists = |path: &String| {
            let pattern = PathPattern::new(path);
            files.by_path().any(|(path, _)| !pattern.match_path(path).is_empty())
        };
        if !template.as_slice().iter().any(exists) {
            let written: Vec<String> = template.as_slice().iter().map(|path| format!("`{path}`")).collect();
            let message = format!("no {}", written.join(" or "));
            self.add(missing_template_error(self.catalog, message, template.as_slice()), spot);
            return;
        }
        let defaults = &self.recipe.recipe.defaults;
        let given = |field: RequestField| defaults.get(&field).map(String::as_str);
        if let Some(usual) = find_missing_paths(self.catalog, block, given) {
            let message = format!("no `{}`, which the defaults need", usual.join("` or `"));
            self.add(missing_template_error(self.catalog, message, &usual), spot);
        }
    }

    fn check_value(&mut self, keys: &[&str], block: &BlockSpec) {
        let Some(value) = &block.value else { return };
        let derived = &self.recipe.recipe.derive;
        if !derived.contains_key(value) && !REQUEST_FIELDS.contains(&value.as_str()) {
            let known = derived.keys().map(String::as_str).chain(REQUEST_FIELDS);
            let message = format!("`{value}` is neither a field of the request nor a derived value");
            let error = Diagnostic::error(Code::RecipeBad, message).suggest(value, known);
            self.add(error, self.recipe.value_range(&[keys, &["value"]].concat()));
        }
    }

    fn check_row_kinds(&mut self, name: &str, derive: &DeriveSpec) {
        let Some(RowWording::Kinds(each)) = &derive.each else { return };
        let known: Vec<&str> = derive.from.row_kinds().iter().map(|(kind, _)| *kind).collect();
        for kind in each.keys().filter(|kind| !known.contains(&kind.as_str())) {
            let error =
                Diagnostic::error(Code::RecipeBad, format!("`{name}` has no rows of the kind `{kind}`"))
                    .suggest(kind, known.iter().copied())
                    .hint(format!("kinds that it has: {}", known.join(", ")));
            self.add(error, self.recipe.key_range(&["derive", name, "each", kind]));
        }
    }

    fn check_wording(&mut self, wording: &RecipeWording<'_>) {
        if wording.is_fragment() {
            if let Some(error) = slots::missing_fragment_error(self.catalog, wording.words) {
                self.add(error, wording.span);
            }
            return;
        }
        let words = wording.template(self.recipe);
        text::check_markers_in(&words.id, &words.text, wording.span.start..wording.span.end, self.problems);
        let remedy =
            "the text of a row can use the fields of the row, the fields of the request, and derived values";
        slots::check_unknown_slots(&words, &wording.provided_names(self.recipe), remedy, self.problems);
        slots::check_fragments(self.catalog, &words, self.problems);
    }
}
