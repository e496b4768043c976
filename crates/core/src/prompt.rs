//! The prompt: sections → blocks → pieces, each piece with its origin.
//!
//! A piece is a byte range of an origin's text. Nothing in a prompt has a text of its own, so where a
//! byte comes from can always be told. How it is written down is [`render`](crate::render)'s business.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::origin::{DefaultOrigin, DerivedOrigin, Origin, OriginKind, OriginTable, Trust};
use crate::recipe::{SectionPriority, SectionSeparator};
use crate::render::ModelApi;
use crate::request::DocumentKind;
use crate::text::SharedText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptFormat {
    Markdown,
    Xml,
    Json,
}

/// Where a section belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    System,
    Context,
    Instructions,
}

/// A byte range of one origin's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index into [`Prompt::origins`].
    pub origin: u32,
    pub start: usize,
    pub end: usize,
}

impl Piece {
    pub fn text(self, origins: &OriginTable) -> &str {
        &origins[self.origin].text[self.start..self.end]
    }
}

/// A run of pieces that somebody supplied, and which must not pass for structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppliedText {
    /// The first piece and the one after the last.
    pub pieces: Range<usize>,
    /// What it is called if it has to stand between tags; `None`: as the value that it is.
    pub name: Option<SharedText>,
    /// It has its place in one line, in a list or a code span: a line end or a backtick in it would make
    /// something else of what follows.
    pub line: bool,
    /// It stands between tags whatever it says, wherever it shares an element with other text.
    pub tagged: bool,
    /// It is a file of the project: it stands in a `<file path="…">` element with this path.
    pub path: Option<Piece>,
}

impl SuppliedText {
    /// Whether it stands between tags whatever it says.
    pub const fn is_tagged(&self) -> bool {
        self.tagged || self.path.is_some()
    }

    /// What it is called in `block`.
    pub fn name<'s>(&'s self, block: &Block, origins: &'s OriginTable) -> &'s str {
        let value = || match &origins[block.pieces.get(self.pieces.start)?.origin].from {
            OriginKind::Value(key) => Some(key),
            _ => None,
        };
        self.name.as_ref().or_else(value).map_or("value", SharedText::as_str)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub name: SharedText,
    /// What steps down when there is not room for all; `None` where that is no business of the block's own.
    pub unit: Option<BudgetUnit>,
    pub level: SectionPriority,
    /// Set where the block is a document: its kind and the piece that names it.
    pub document: Option<(DocumentKind, Piece)>,
    pub pieces: Vec<Piece>,
    pub supplied: Vec<SuppliedText>,
}

impl Block {
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing in it is the prompt's own text.
    pub(crate) fn is_supplied(&self) -> bool {
        self.own().next().is_none()
    }

    /// The pieces that are the prompt's own text, not supplied.
    pub(crate) fn own(&self) -> impl Iterator<Item = &Piece> {
        let ends = core::iter::once(0).chain(self.supplied.iter().map(|supplied| supplied.pieces.end));
        let starts = self.supplied.iter().map(|supplied| supplied.pieces.start);
        let ranges = ends.zip(starts.chain([self.pieces.len()])).map(|(end, start)| end..start);
        ranges.flat_map(|range| &self.pieces[range])
    }

    pub fn text(&self, origins: &OriginTable) -> String {
        let mut text = String::with_capacity(self.len());
        for piece in &self.pieces {
            text.push_str(piece.text(origins));
        }
        text
    }

    /// Leaves the first `keep` bytes of its text.
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

    /// Appends those bytes of this block's text that lie in `ranges`, which are in order, to `to`.
    pub(crate) fn copy_ranges(&self, ranges: &[Range<usize>], to: &mut Self) {
        let mut at = 0;
        let mut ranges = ranges.iter().peekable();
        // Where the copies of each piece begin.
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

/// What a block is the whole of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUnit {
    /// A template or a value of the section.
    Own,
    /// The request's document at this place.
    Document(usize),
    /// The request's context block at this place.
    Context(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    pub part: Part,
    pub heading: Option<Piece>,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub recipe: String,
    /// The format that the request or the recipe asks for.
    pub format: PromptFormat,
    pub separator: SectionSeparator,
    pub origins: OriginTable,
    pub sections: Vec<Section>,
    pub tools: Vec<Value>,
    /// What a request body names as its model.
    pub model: Option<String>,
    /// The API that the model answers, where it is known: the agent's, unless a value names another model.
    pub api: Option<ModelApi>,
    /// The most tokens that an answer may have, where a value says it.
    pub max_tokens: Option<u32>,
    /// The same for an API that demands it, where no value says it.
    pub usual_max_tokens: Option<u32>,
}

impl Prompt {
    pub fn blocks(&self, part: Part) -> impl Iterator<Item = (&Section, &Block)> {
        self.sections
            .iter()
            .filter(move |section| section.part == part)
            .flat_map(|section| section.blocks.iter().map(move |block| (section, block)))
    }
}

/// Something that is not in a prompt, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OmittedInput {
    /// A section, a file, a value.
    pub what: String,
    pub why: OmissionReason,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionReason {
    /// Nothing was given for it.
    Empty,
    /// An optional file is not there.
    NotThere,
    /// An override won.
    Shadowed,
    /// The agent reads it without our help.
    LoadedByAgent,
    /// A cap or a limit left it out.
    Cut,
    /// Only its outline was asked for.
    Outlined,
    /// Only its path was asked for, or there is no text to show.
    PathOnly,
    /// There was not room for it, or for all of it.
    Budget,
    /// This recipe or format does not show such a thing.
    NotShown,
}

impl OmissionReason {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Empty => "nothing was given for it",
            Self::NotThere => "the optional file is not there",
            Self::Shadowed => "an override won",
            Self::LoadedByAgent => "the agent loads it by itself",
            Self::Cut => "a limit left it out",
            Self::Outlined => "only its outline is shown",
            Self::PathOnly => "only its path is shown",
            Self::Budget => "it does not fit into the budget",
            Self::NotShown => "this recipe or format does not show it",
        }
    }
}
