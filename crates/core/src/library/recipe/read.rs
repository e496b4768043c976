//! Finds and reads recipes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{BlockSpec, OneOrMore, Recipe, RowWording, SectionPriority};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::DynLibrary;
use crate::library::read_toml::{FileFormat, ReadErrorCodes, check_length, find_file, read_data};
use crate::library::template::{Template, find_literal};
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;
use crate::text::name::{NAME_HINT, is_name};

/// Reads a recipe and checks it. The file must contain every wording without escapes.
pub fn read_recipe(id: &SourceId, text: &SharedText) -> Result<Recipe, Diagnostics> {
    check_length(id, text, Code::RecipeBad)?;
    let codes = ReadErrorCodes { bad: Code::RecipeBad, unknown: Code::RecipeBad };
    let recipe: Recipe = read_data(&id.to_string(), text, FileFormat::Toml, codes)?;
    let mut wrong = Vec::new();
    let mut bad = |message: String, hint: &str| {
        wrong.push(Diagnostic::error(Code::RecipeBad, format!("{id}: {message}")).hint(hint));
    };
    if recipe.section.is_empty() {
        bad("the recipe has no section".to_string(), "add a `[[section]]`");
    }
    for (field, value) in recipe.defaults.iter().filter(|(_, value)| !is_name(value)) {
        let field = format!("{field:?}").to_lowercase();
        bad(format!("invalid default `{value}` of `{field}`"), NAME_HINT);
    }
    for (name, spec) in &recipe.derive {
        if !is_name(name) {
            bad(format!("invalid name `{name}` of a derived value"), NAME_HINT);
        }
        let each = match &spec.each {
            None => Vec::new(),
            Some(RowWording::All(one)) => alloc::vec![one],
            Some(RowWording::Kinds(kinds)) => kinds.values().collect(),
        };
        for wording in each.into_iter().chain(&spec.wrap) {
            if Template::parse_words(id, text, wording).is_none() {
                bad(
                    format!("the wording `{wording}` needs escapes"),
                    "write it in single quotes, or as a fragment",
                );
            }
        }
    }
    for section in &recipe.section {
        if !is_name(&section.name) {
            bad(format!("invalid section name `{}`", section.name), NAME_HINT);
        }
        if section.heading.as_ref().is_some_and(|heading| find_literal(text, heading).is_none()) {
            bad(format!("the heading of `{}` needs escapes", section.name), "write it in single quotes");
        }
        let gives_way = |block: &BlockSpec| block.level.unwrap_or(section.level) != SectionPriority::Must;
        if section.required && section.blocks.iter().any(gives_way) {
            bad(
                format!(
                    "the required section `{}` has a `level`, which would let the budget remove it",
                    section.name
                ),
                "remove `required` or `level`",
            );
        }
        for (at, block) in section.blocks.iter().enumerate() {
            let sources = [
                block.template.is_some(),
                block.value.is_some(),
                block.documents.is_some(),
                block.context.is_some(),
            ];
            for path in block.template.iter().flat_map(OneOrMore::as_slice) {
                if let Err(why) = SourceId::new(SourceRoot::Builtin, path) {
                    bad(
                        format!("invalid template path `{path}`: {why}"),
                        "give a path inside the roots, for example `templates/identity/{role}.md`",
                    );
                }
            }
            if sources.iter().filter(|given| **given).count() != 1 {
                bad(
                    format!("section `{}`, block {}: expected exactly one source", section.name, at + 1),
                    "give one of `template`, `value`, `documents`, `context`",
                );
            }
        }
    }
    if wrong.is_empty() { Ok(recipe) } else { Err(Diagnostics(wrong)) }
}

/// A recipe and the file that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeFile {
    /// The name of the recipe.
    pub name: String,
    /// The id of the file.
    pub id: SourceId,
    /// The text of the file.
    pub text: SharedText,
    /// The recipe.
    pub recipe: Recipe,
}

/// Finds and reads the recipe `name`.
pub fn find_recipe(library: &DynLibrary<'_>, name: &str, layout: &Layout) -> Result<RecipeFile, Diagnostics> {
    let (id, text) = find_file(library, "recipes", name, layout, Code::RecipeNotFound)?;
    let recipe = read_recipe(&id, &text)?;
    Ok(RecipeFile { name: name.into(), id, text, recipe })
}
