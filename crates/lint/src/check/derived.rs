//! Finds derived values that contain themselves: through their wordings, the fragments in these, or a
//! project's own text.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::{CatalogRecipe, SourceCatalog, fragment_names};
use crate::check::LintProblems;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::lookup::fragment_path;
use callsheet_core::library::recipe::DerivedValue;
use callsheet_core::library::template::{Template, TemplateNotation, TextRange};
use callsheet_core::source::SourceId;
use callsheet_core::text::SharedText;

/// A slot that names a derived value.
struct DerivedReference {
    name: String,
    id: SourceId,
    text: SharedText,
    span: TextRange,
}

pub(super) fn check_cycles(catalog: &SourceCatalog, recipe: &CatalogRecipe, problems: &mut LintProblems) {
    let mut rings = CycleSearch { uses: find_references(catalog, recipe), done: BTreeSet::new(), problems };
    for name in recipe.recipe.derive.keys() {
        rings.follow(name, &mut Vec::new());
    }
}

struct CycleSearch<'p> {
    /// The derived values that the text of each one uses in turn.
    uses: BTreeMap<String, Vec<DerivedReference>>,
    done: BTreeSet<String>,
    problems: &'p mut LintProblems,
}

impl CycleSearch<'_> {
    fn follow(&mut self, name: &str, open: &mut Vec<String>) {
        if !self.done.insert(name.into()) {
            return;
        }
        open.push(name.into());
        for used in self.uses.remove(name).unwrap_or_default() {
            let Some(at) = open.iter().position(|open| *open == used.name) else {
                self.follow(&used.name, open);
                continue;
            };
            let name = &used.name;
            let chain = [&open[at..], core::slice::from_ref(name)].concat().join(" → ");
            let error = Diagnostic::error(
                Code::FragmentCycle,
                format!("the text of `{name}` contains `{name}` itself"),
            )
            .at(&used.id, &used.text, used.span.start..used.span.end)
            .hint(chain);
            self.problems.add(&used.id, error);
        }
        open.pop();
    }
}

fn find_references(
    catalog: &SourceCatalog,
    recipe: &CatalogRecipe,
) -> BTreeMap<String, Vec<DerivedReference>> {
    let derived = &recipe.recipe.derive;
    let mut uses: BTreeMap<String, Vec<DerivedReference>> = BTreeMap::new();
    let mut add = |inside: &str, template: &Template, fields: &BTreeSet<String>| {
        let slots = template.slots().into_iter().map(|span| (span.slice(&template.text), span));
        let named = slots.filter(|(name, _)| derived.contains_key(*name) && !fields.contains(*name));
        let found = named.map(|(name, span)| DerivedReference {
            name: name.into(),
            id: template.id.clone(),
            text: template.text.clone(),
            span,
        });
        uses.entry(inside.into()).or_default().extend(found);
    };
    for wording in recipe.wordings() {
        let words = wording.template(recipe);
        add(wording.derived, &words, &wording.fields);
        let named = wording.is_fragment().then_some(wording.words);
        let first = named.into_iter().chain(fragment_names(&words.text, &words.nodes)).map(fragment_path);
        let mut work: Vec<String> = first.collect();
        let mut seen = BTreeSet::new();
        while let Some(path) = work.pop() {
            let template =
                catalog.files.winner(&path).and_then(|file| file.template(TemplateNotation::Braces));
            if let Some(template) = template.filter(|_| seen.insert(path)) {
                add(wording.derived, template, &wording.fields);
                work.extend(fragment_names(&template.text, &template.nodes).map(fragment_path));
            }
        }
    }
    for (name, _) in derived.iter().filter(|(_, derive)| derive.from == DerivedValue::Extension) {
        for file in &catalog.extensions {
            let Ok(text) = &file.text else { continue };
            add(name, &Template::parse_extension(file.id.clone(), text.clone()), &BTreeSet::new());
        }
    }
    uses
}
