//! The prompt: sections → blocks → pieces, each piece with its origin.
//!
//! A piece is a byte range of an origin's text. Nothing in a prompt has a text of its own, so every byte has
//! an origin. [`render`](crate::render) writes a prompt as Markdown, XML or JSON.

mod check;
mod origin_table;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::Value;

use crate::library::format::{ModelApi, PromptFormat};
use crate::library::recipe::DocumentKind;
use crate::library::recipe::Part;
use crate::library::recipe::{SectionPriority, SectionSeparator};
use crate::source::origin::OriginKind;
use crate::text::SharedText;
pub use origin_table::OriginTable;

/// A byte range of one origin's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index into [`Prompt::origins`].
    pub origin: u32,
    /// The first byte in the origin's text.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Piece {
    /// Returns the text of the piece; an empty one if it does not fit its origin.
    pub fn text(self, origins: &OriginTable) -> &str {
        self.get(origins).unwrap_or_default()
    }

    /// Returns the text of the piece; `None` if it does not fit its origin.
    pub fn get(self, origins: &OriginTable) -> Option<&str> {
        origins.get(self.origin)?.text.get(self.start..self.end)
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A run of pieces that are supplied, not the prompt's own text. They must not pass for structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppliedText {
    /// The first piece and the one after the last.
    pub pieces: Range<usize>,
    /// The name of its tags, if it needs tags; `None` means the key of its value.
    pub name: Option<SharedText>,
    /// Whether it is part of one line, in a list or a code span: a line end or a backtick in it would change
    /// the meaning of the text after it.
    pub line: bool,
    /// Whether it is put between tags, regardless of its contents, if it shares an element with other text.
    pub tagged: bool,
    /// The path, if it is a file of the project: it is put into a `<file path="…">` element.
    pub path: Option<Piece>,
}

impl SuppliedText {
    /// Returns whether it is put between tags regardless of its contents.
    pub const fn is_tagged(&self) -> bool {
        self.tagged || self.path.is_some()
    }

    /// Returns its name in `block`.
    pub fn name<'s>(&'s self, block: &Block, origins: &'s OriginTable) -> &'s str {
        let value = || match &origins.get(block.pieces.get(self.pieces.start)?.origin)?.from {
            OriginKind::Value(key) => Some(key),
            _ => None,
        };
        self.name.as_ref().or_else(value).map_or("value", SharedText::as_str)
    }
}

/// A part of a section: a template, a value, a document or a context block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The name of the block.
    pub name: SharedText,
    /// The unit that is degraded if the prompt exceeds its budget; `None` if the block is not degraded by
    /// itself.
    pub unit: Option<BudgetUnit>,
    /// The fate of the block if the prompt exceeds its budget.
    pub level: SectionPriority,
    /// If the block is a document: its kind, and the piece with its name.
    pub document: Option<(DocumentKind, Piece)>,
    /// The text of the block.
    pub pieces: Vec<Piece>,
    /// The supplied runs of pieces, in order.
    pub supplied: Vec<SuppliedText>,
}

impl Block {
    /// Returns the length of the text in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).fold(0, usize::saturating_add)
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether all of it is supplied.
    pub(crate) fn is_supplied(&self) -> bool {
        self.own_pieces().next().is_none()
    }

    /// Returns the pieces that are the prompt's own text, not supplied.
    pub(crate) fn own_pieces(&self) -> impl Iterator<Item = &Piece> {
        let ends = core::iter::once(0).chain(self.supplied.iter().map(|supplied| supplied.pieces.end));
        let starts = self.supplied.iter().map(|supplied| supplied.pieces.start);
        let ranges = ends.zip(starts.chain([self.pieces.len()])).map(|(end, start)| end..start);
        ranges.flat_map(|range| &self.pieces[range])
    }

    /// Returns the text.
    pub fn text(&self, origins: &OriginTable) -> String {
        let texts = || self.pieces.iter().map(|piece| piece.text(origins));
        let mut whole = String::with_capacity(texts().map(str::len).sum());
        texts().for_each(|text| whole.push_str(text));
        whole
    }

    /// Truncates the text to its first `keep` bytes.
    pub(crate) fn truncate(&mut self, keep: usize) {
        let mut room = keep;
        for piece in &mut self.pieces {
            piece.end = piece.start + (piece.end - piece.start).min(room);
            room -= piece.end - piece.start;
        }
        let left = self.pieces.iter().rposition(|piece| piece.start < piece.end).map_or(0, |at| at + 1);
        self.pieces.truncate(left);
        self.supplied.retain_mut(|supplied| {
            supplied.pieces.end = supplied.pieces.end.min(left);
            supplied.pieces.start < supplied.pieces.end
        });
    }

    /// Appends the bytes of this block's text that are in `ranges`, which must be in order, to `to`.
    pub(crate) fn copy_ranges(&self, ranges: &[Range<usize>], to: &mut Self) {
        let mut at = 0;
        let mut ranges = ranges.iter().peekable();
        // The index in `to` of the first copy of each piece.
        let mut copies = Vec::with_capacity(self.pieces.len() + 1);
        for piece in &self.pieces {
            copies.push(to.pieces.len());
            let end = at + piece.end - piece.start;
            while let Some(range) = ranges.peek().filter(|range| range.start < end) {
                let (from, until) = (range.start.max(at), range.end.min(end));
                let (start, last) = (piece.start + from - at, piece.start + until - at);
                to.pieces.push(Piece { origin: piece.origin, start, end: last });
                if range.end > end {
                    break;
                }
                ranges.next();
            }
            at = end;
        }
        copies.push(to.pieces.len());
        for supplied in &self.supplied {
            let pieces = copies[supplied.pieces.start]..copies[supplied.pieces.end];
            if !pieces.is_empty() {
                to.supplied.push(SuppliedText { pieces, ..supplied.clone() });
            }
        }
    }
}

/// A unit that the budget degrades as a whole, and that one block represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUnit {
    /// A template or a value of the section.
    Own,
    /// The request's document at this index.
    Document(usize),
    /// The request's context block at this index.
    Context(usize),
}

/// A named piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name of the section.
    pub name: String,
    /// The part of the prompt that it belongs to.
    pub part: Part,
    /// The heading in Markdown, if it has one.
    pub heading: Option<Piece>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

/// The model of a prompt: sections → blocks → pieces, each piece with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The name of the recipe.
    pub recipe: String,
    /// The format that the request or the recipe asks for.
    pub format: PromptFormat,
    /// The separator between sections in Markdown.
    pub separator: SectionSeparator,
    /// The origins that the pieces point into.
    pub origins: OriginTable,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// The definitions of tools. They never become text.
    pub tools: Vec<Value>,
    /// The model that a request body names.
    pub model: Option<String>,
    /// The API of the model, if it is known: the agent's, unless a value names another model.
    pub api: Option<ModelApi>,
    /// The most tokens of an answer, if a value sets them.
    pub max_tokens: Option<u32>,
    /// The most tokens of an answer for an API that demands a number, if no value sets them.
    pub usual_max_tokens: Option<u32>,
}

impl Prompt {
    /// Iterates over the blocks of a part, each with its section.
    pub fn blocks(&self, part: Part) -> impl Iterator<Item = (&Section, &Block)> {
        self.sections
            .iter()
            .filter(move |section| section.part == part)
            .flat_map(|section| section.blocks.iter().map(move |block| (section, block)))
    }
}
