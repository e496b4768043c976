//! The templates that a recipe can choose, and the slots that a value can fill there.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{FuzzOptions, FuzzSubject};
use crate::catalog::{BOTH_NOTATIONS, PathPattern, REQUEST_FIELDS, SourceCatalog, is_agent};
use callsheet_core::diag::Diagnostics;
use callsheet_core::library::format::PromptFormat;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::lookup::Library;
use callsheet_core::library::recipe::{
    self, BlockSpec, FilePolicy, MissingSlotRule, OneOrMore, Part, Recipe, RecipeFile, RequestField,
    SectionPriority, SectionSeparator, SectionSpec,
};
use callsheet_core::library::template::TemplateNotation;
use callsheet_core::source::{SourceId, SourceRoot, Sources};
use callsheet_core::text::SharedText;

/// A recipe with the fields that decide on its templates.
pub(super) struct RecipeVariant {
    pub(super) recipe: RecipeFile,
    /// Agent, phase, role and command.
    pub(super) fields: [Option<String>; 4],
    /// The names of all slots that only a value fills, here or in other templates.
    pub(super) slots: BTreeSet<String>,
    /// Whether only a template is fuzzed.
    pub(super) is_template: bool,
}

const FIELDS: [RequestField; 4] =
    [RequestField::Agent, RequestField::Phase, RequestField::Role, RequestField::Command];

type ChosenFields = BTreeMap<RequestField, String>;

pub(super) fn list_variants(
    sources: &dyn Sources,
    layout: &Layout,
    subject: FuzzSubject<'_>,
    options: &FuzzOptions,
) -> Result<Vec<RecipeVariant>, Diagnostics> {
    let catalog = SourceCatalog::read(sources, layout);
    let slots = slot_names(&catalog);
    let choice = |recipe: RecipeFile, chosen: &ChosenFields, slots: BTreeSet<String>, is_template| {
        RecipeVariant { recipe, fields: FIELDS.map(|field| chosen.get(&field).cloned()), slots, is_template }
    };
    Ok(match subject {
        FuzzSubject::Template(file) => {
            let notations = catalog.reach.notations_or_both(file);
            let recipes = notations.into_iter().filter_map(|notation| single_template_recipe(file, notation));
            recipes.map(|recipe| choice(recipe, &ChosenFields::new(), slots.clone(), true)).collect()
        }
        FuzzSubject::Recipe(name) => {
            let recipe = recipe::find_recipe(&Library::new(sources), name, layout)?;
            let provided = recipe.recipe.derive.keys().map(String::as_str).chain(REQUEST_FIELDS);
            let provided: BTreeSet<&str> = provided.collect();
            let slots: BTreeSet<String> =
                slots.into_iter().filter(|name| !provided.contains(name.as_str())).collect();
            let all = list_chosen_fields(&catalog, &recipe.recipe, options);
            all.iter().map(|chosen| choice(recipe.clone(), chosen, slots.clone(), false)).collect()
        }
    })
}

/// Returns every name of a slot in any template. A value that a prompt does not use does no harm.
fn slot_names(catalog: &SourceCatalog) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in catalog.files.all().chain(&catalog.extensions) {
        for template in BOTH_NOTATIONS.into_iter().filter_map(|notation| file.template(notation)) {
            names.extend(template.slots().into_iter().map(|name| name.slice(&template.text).to_string()));
        }
    }
    // It is a number in the request body, not a text.
    names.remove("max_tokens");
    names
}

/// Returns a recipe of one template.
fn single_template_recipe(file: &str, notation: TemplateNotation) -> Option<RecipeFile> {
    let template = Some(OneOrMore::One(file.into()));
    let section = SectionSpec {
        name: "template".into(),
        part: Part::System,
        heading: None,
        max_bytes: None,
        required: false,
        level: SectionPriority::default(),
        blocks: alloc::vec![BlockSpec { template, ..BlockSpec::default() }],
    };
    let recipe = Recipe {
        description: String::new(),
        format: PromptFormat::Markdown,
        notation,
        files: FilePolicy::default(),
        missing: MissingSlotRule::default(),
        separator: SectionSeparator::default(),
        defaults: BTreeMap::new(),
        derive: BTreeMap::new(),
        section: alloc::vec![section],
    };
    let id = SourceId::new(SourceRoot::Builtin, "recipes/template.toml").ok()?;
    Some(RecipeFile { name: "template".into(), id, text: SharedText::default(), recipe })
}

/// Returns the fields that lead to each template that a path of the recipe matches.
fn list_chosen_fields(catalog: &SourceCatalog, recipe: &Recipe, options: &FuzzOptions) -> Vec<ChosenFields> {
    let wanted = [
        (RequestField::Role, &options.role),
        (RequestField::Phase, &options.phase),
        (RequestField::Command, &options.command),
    ];
    let wanted: ChosenFields =
        wanted.into_iter().filter_map(|(field, name)| Some((field, name.as_ref()?.clone()))).collect();
    let mut all: Vec<ChosenFields> = Vec::new();
    let blocks = || recipe.section.iter().flat_map(|section| &section.blocks);
    let patterns =
        blocks().filter_map(|block| block.template.as_ref()).flat_map(|template| template.as_slice());
    for pattern in patterns.map(|pattern| PathPattern::new(pattern)) {
        for fit in catalog.files.by_path().flat_map(|(path, _)| pattern.match_path(path)) {
            let fields = fit.iter().map(|(hole, name)| match hole.field {
                RequestField::Agent if is_agent(&catalog.agents, name, hole.upper) => {
                    Some((hole.field, name.to_ascii_lowercase()))
                }
                RequestField::Agent => None,
                field => Some((field, name.to_string())),
            });
            let Some(fields) = fields.collect::<Option<ChosenFields>>() else { continue };
            let fits = wanted.iter().all(|(field, name)| fields.get(field).is_none_or(|own| own == name));
            if fits && !all.contains(&fields) {
                all.push(fields);
            }
        }
    }
    let optional =
        |field: &RequestField| blocks().any(|block| [block.when, block.unless].contains(&Some(*field)));
    // A recipe can need two fields at once: the first known value replaces a field that was not chosen.
    let usual: ChosenFields = FIELDS
        .into_iter()
        .filter(|field| !recipe.defaults.contains_key(field) && !optional(field))
        .filter_map(|field| Some((field, all.iter().find_map(|chosen| chosen.get(&field))?.clone())))
        .collect();
    if all.is_empty() {
        all.push(ChosenFields::new());
    }
    for chosen in &mut all {
        for (field, name) in wanted.iter().chain(&usual) {
            chosen.entry(*field).or_insert_with(|| name.clone());
        }
    }
    all
}
