//! Recipes with the positions of their values, so that a diagnostic can point at them.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::de::{DeTable, DeValue};

use crate::catalog::path_pattern::PathPattern;
use crate::catalog::provided_names::{REQUEST_FIELDS, wrap_fields};
use callsheet_core::compose::document::NOTICES;
use callsheet_core::library::frontmatter::TemplateFrontmatter;
use callsheet_core::library::recipe::{BlockSpec, DerivedValue, Recipe, RowWording};
use callsheet_core::library::template::{Template, TemplateNotation, TextRange, parse_braces};
use callsheet_core::source::SourceId;
use callsheet_core::text::SharedText;
use callsheet_core::text::name::is_name_byte;

/// The wording that the engine itself uses for every section with a cap.
const CUT_NOTICE: &str = "cut-notice";

#[derive(Debug)]
pub(crate) struct CatalogRecipe {
    pub(crate) id: SourceId,
    pub(crate) text: SharedText,
    pub(crate) recipe: Recipe,
}

/// The name of a fragment, or words of the recipe itself.
pub(crate) struct RecipeWording<'r> {
    pub(crate) words: &'r str,
    /// The range of the words in the recipe, without quotes.
    pub(crate) span: TextRange,
    /// The derived value that it renders; empty for a wording of the engine.
    pub(crate) derived: &'r str,
    /// The fields of the row or rows.
    pub(crate) fields: BTreeSet<String>,
}

impl RecipeWording<'_> {
    pub(crate) fn is_fragment(&self) -> bool {
        !self.words.is_empty() && self.words.bytes().all(|byte| is_name_byte(byte) || byte == b'/')
    }

    /// Returns the words as a template at their place in the recipe; a fragment's name has no holes.
    pub(crate) fn template(&self, recipe: &CatalogRecipe) -> Template {
        let nodes = if self.is_fragment() { Vec::new() } else { parse_braces(&recipe.text, self.span) };
        Template {
            clauses: Vec::new(),
            id: recipe.id.clone(),
            text: recipe.text.clone(),
            front: TemplateFrontmatter::default(),
            notation: TemplateNotation::Braces,
            nodes,
        }
    }

    /// Returns the names that its slots can use.
    pub(crate) fn provided_names(&self, recipe: &CatalogRecipe) -> BTreeSet<String> {
        recipe.provided_names().into_iter().chain(self.fields.iter().cloned()).collect()
    }
}

impl CatalogRecipe {
    /// Returns the names that every template of the recipe can use.
    pub(crate) fn provided_names(&self) -> BTreeSet<String> {
        let derived = self.recipe.derive.keys().cloned();
        REQUEST_FIELDS.iter().map(ToString::to_string).chain(derived).collect()
    }

    /// Returns every block with the keys that lead to it.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = ([String; 4], &BlockSpec)> {
        self.recipe.section.iter().enumerate().flat_map(|(at, section)| {
            section.blocks.iter().enumerate().map(move |(block_at, block)| {
                (["section".into(), at.to_string(), "blocks".into(), block_at.to_string()], block)
            })
        })
    }

    /// Returns the paths of its templates, with holes.
    pub(crate) fn template_paths(&self) -> impl Iterator<Item = &str> {
        let blocks = self.recipe.section.iter().flat_map(|section| &section.blocks);
        blocks
            .filter_map(|block| block.template.as_ref())
            .flat_map(|template| template.as_slice())
            .map(String::as_str)
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = PathPattern<'_>> {
        self.template_paths().map(PathPattern::new)
    }

    /// Checks whether the recipe puts a project's own text for a role or command into a template.
    pub(crate) fn takes_extensions(&self) -> bool {
        self.recipe.derive.values().any(|derive| derive.from == DerivedValue::Extension)
    }

    /// Returns the range of the value at `keys`, without quotes if it is a text.
    pub(crate) fn value_range(&self, keys: &[&str]) -> TextRange {
        value_range_in(&self.text, keys)
    }

    /// Returns the range of the last of `keys` itself.
    pub(crate) fn key_range(&self, keys: &[&str]) -> TextRange {
        let table = DeValue::Table(parse_table(&self.text));
        let Some((last, above)) = keys.split_last() else { return TextRange { start: 0, end: 0 } };
        let holder = above.iter().try_fold(&table, |value, key| Some(value.get(*key)?.get_ref()));
        let entries = holder.and_then(DeValue::as_table).into_iter().flat_map(DeTable::iter);
        let key = entries.map(|(key, _)| key).find(|key| key.get_ref() == last);
        key.map_or(TextRange { start: 0, end: 0 }, |key| TextRange {
            start: key.span().start,
            end: key.span().end,
        })
    }

    pub(crate) fn wordings(&self) -> Vec<RecipeWording<'_>> {
        let table = DeValue::Table(parse_table(&self.text));
        let spot = |keys: &[&str]| locate_value(&table, &self.text, keys);
        let mut wordings = Vec::new();
        let mut add = |words, span, derived, fields: &[&str]| {
            let fields = fields.iter().map(ToString::to_string).collect();
            wordings.push(RecipeWording { words, span, derived, fields });
        };
        for (name, derive) in &self.recipe.derive {
            let kinds = derive.from.row_kinds();
            let every: Vec<&str> = kinds.iter().flat_map(|(_, fields)| fields.iter().copied()).collect();
            match &derive.each {
                None => {}
                Some(RowWording::All(words)) => add(words, spot(&["derive", name, "each"]), name, &every),
                Some(RowWording::Kinds(each)) => {
                    for (kind, words) in each {
                        let known = kinds.iter().find(|(known, _)| known == kind);
                        let fields = known.map_or(every.as_slice(), |(_, fields)| fields);
                        add(words, spot(&["derive", name, "each", kind]), name, fields);
                    }
                }
            }
            if let Some(words) = &derive.wrap {
                add(words, spot(&["derive", name, "wrap"]), name, wrap_fields(derive.from));
            }
        }
        if let Some(at) = self.recipe.section.iter().position(|section| section.max_bytes.is_some()) {
            add(CUT_NOTICE, spot(&["section", &at.to_string(), "max_bytes"]), "", &["bytes"]);
        }
        let documents = self.blocks().find(|(_, block)| block.documents.is_some());
        if let Some((keys, _)) = documents {
            let keys: Vec<&str> = keys.iter().map(String::as_str).chain(["documents"]).collect();
            let at = spot(&keys);
            NOTICES.iter().for_each(|(notice, fields)| add(notice, at, "", fields));
        }
        wordings
    }
}

/// Returns the range of the value at `keys` in a file that was read before, without quotes if it is a text.
pub(crate) fn value_range_in(text: &str, keys: &[&str]) -> TextRange {
    locate_value(&DeValue::Table(parse_table(text)), text, keys)
}

/// Parses the recipe for positions. It was read before, so this cannot fail; an empty table only loses
/// positions.
fn parse_table(text: &str) -> DeTable<'_> {
    DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default()
}

fn locate_value(table: &DeValue<'_>, text: &str, keys: &[&str]) -> TextRange {
    let mut value = table;
    let mut range = 0..0;
    for key in keys {
        let next = key.parse::<usize>().ok().and_then(|at| value.get(at)).or_else(|| value.get(*key));
        let Some(next) = next else { break };
        (value, range) = (next.get_ref(), next.span());
    }
    let Some(words) = value.as_str() else { return TextRange { start: range.start, end: range.end } };
    let written = text.get(range.clone()).unwrap_or_default();
    let with_carriage_returns = words.replace('\n', "\r\n");
    for words in [words, &with_carriage_returns] {
        if let Some(at) = written.find(words) {
            return TextRange { start: range.start + at, end: range.start + at + words.len() };
        }
    }
    TextRange { start: range.start, end: range.end }
}
