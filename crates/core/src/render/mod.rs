//! Rendering: a prompt → text, with the origin of every byte.
//!
//! Formats differ in how they keep supplied text from passing for structure: XML and JSON by encoding,
//! Markdown by tags chosen after reading the text. No format changes what a text says.

mod encode;
mod guard;
mod json;
mod lines;
mod markdown;
mod outline;
mod places;
mod xml;

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use encode::TextEncoding;
pub use places::SectionRange;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::prompt::{OriginTable, Piece, Prompt, PromptFormat, Section};

/// The request body of which API a JSON prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelApi {
    Anthropic,
    Openai,
    Gemini,
}

/// A finished prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedText {
    pub text: String,
    /// Ranges that cover the text without a gap.
    pub spans: Vec<RenderedRange>,
    pub talk: Vec<Diagnostic>,
    /// Where sections begin, and where blocks begin and end, as they were written.
    edges: Vec<usize>,
    order: places::SectionOrder,
}

/// A byte range of the finished text, and the range of the origin's text that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderedRange {
    pub start: usize,
    pub end: usize,
    /// `None`: the engine's own separators, tags and notices.
    pub piece: Option<Piece>,
    pub encoding: TextEncoding,
}

/// Writes `prompt` down in `format`; `api` makes JSON the body of a request.
pub fn render(
    prompt: &Prompt,
    format: PromptFormat,
    api: Option<ModelApi>,
) -> Result<RenderedText, Diagnostics> {
    let mut writer = PromptWriter::new(prompt);
    writer.write(prompt, format, api)?;
    let PromptWriter { text, spans, talk, edges, .. } = writer;
    Ok(RenderedText { text, spans, talk, edges, order: places::SectionOrder::of(format, api) })
}

/// Writes `prompt` down as [`render`] does and hands the text to `take` part by part, for a caller that need not
/// hold all of it at once and gives back a text whose room can be used again. The warnings come back. What fails does
/// so before the first part.
pub fn render_parts(
    prompt: &Prompt,
    format: PromptFormat,
    api: Option<ModelApi>,
    take: &mut dyn FnMut(String) -> String,
) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut writer = PromptWriter { take: Some(take), ..PromptWriter::empty(prompt) };
    writer.write(prompt, format, api)?;
    let PromptWriter { text, talk, take, .. } = writer;
    if let Some(take) = take {
        take(text);
    }
    Ok(talk)
}

/// How much is written before it is handed on: it stays near, and a system call is worth its while.
const PART: usize = 256 << 10;

struct PromptWriter<'p> {
    origins: &'p OriginTable,
    text: String,
    spans: Vec<RenderedRange>,
    talk: Vec<Diagnostic>,
    edges: Vec<usize>,
    /// Who takes the text part by part. All places are then within the part at hand, and nobody asks for them.
    take: Option<&'p mut dyn FnMut(String) -> String>,
}

/// How far a writer had come.
struct WriterMark {
    text: usize,
    spans: usize,
    /// The last range then: one of the engine's own grows with what follows.
    last: Option<RenderedRange>,
}

impl<'p> PromptWriter<'p> {
    fn empty(prompt: &'p Prompt) -> Self {
        Self {
            origins: &prompt.origins,
            text: String::new(),
            spans: Vec::new(),
            talk: Vec::new(),
            edges: Vec::new(),
            take: None,
        }
    }

    /// With room for all of the prompt.
    fn new(prompt: &'p Prompt) -> Self {
        let blocks = prompt.sections.iter().flat_map(|section| &section.blocks);
        let (pieces, bytes) = blocks.fold((0, 0), |(pieces, bytes), block| {
            (pieces + block.pieces.len() + 2, bytes + block.len() + 64)
        });
        Self {
            text: String::with_capacity(bytes + 256),
            spans: Vec::with_capacity(pieces + 2 * prompt.sections.len() + 8),
            ..Self::empty(prompt)
        }
    }

    fn write(
        &mut self,
        prompt: &Prompt,
        format: PromptFormat,
        api: Option<ModelApi>,
    ) -> Result<(), Diagnostics> {
        match format {
            PromptFormat::Markdown => markdown::write(prompt, self),
            PromptFormat::Xml => xml::write(prompt, self)?,
            PromptFormat::Json => json::write(prompt, api, self)?,
        }
        if format != PromptFormat::Json && !prompt.tools.is_empty() {
            let warning =
                Diagnostic::warning(Code::ToolsNotShown, "tools are not shown: only JSON can carry them");
            self.talk.push(warning.hint("use `--format json`"));
        }
        Ok(())
    }

    /// A block is finished: nothing of it is looked at again, and something follows.
    fn flush_part(&mut self) {
        if let Some(take) = self.take.as_mut().filter(|_| self.text.len() >= PART) {
            self.text = take(core::mem::take(&mut self.text));
            self.text.clear();
            self.spans.clear();
            self.edges.clear();
        }
    }

    fn edge(&mut self) {
        self.edges.push(self.text.len());
    }

    fn mark(&self) -> WriterMark {
        WriterMark { text: self.text.len(), spans: self.spans.len(), last: self.spans.last().copied() }
    }

    /// Takes back everything that was written since `mark`.
    fn rewind_to(&mut self, mark: WriterMark) {
        self.text.truncate(mark.text);
        self.spans.truncate(mark.spans);
        if let (Some(last), Some(then)) = (self.spans.last_mut(), mark.last) {
            *last = then;
        }
    }

    /// Writes text of the engine's own.
    fn engine(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let start = self.text.len();
        self.text.push_str(text);
        let end = self.text.len();
        match self.spans.last_mut() {
            Some(last) if last.piece.is_none() => last.end = end,
            _ => self.spans.push(RenderedRange { start, end, piece: None, encoding: TextEncoding::Plain }),
        }
    }

    /// Writes a piece by `write`, which appends its encoded text.
    fn encoded(&mut self, piece: Piece, encoding: TextEncoding, write: impl FnOnce(&str, &mut String)) {
        let origin = &self.origins[piece.origin];
        if piece.start == piece.end {
            return;
        }
        let start = self.text.len();
        write(&origin.text[piece.start..piece.end], &mut self.text);
        let (end, piece) = (self.text.len(), (!origin.is_engine()).then_some(piece));
        self.spans.push(RenderedRange { start, end, piece, encoding });
    }

    fn plain(&mut self, piece: Piece) {
        self.encoded(piece, TextEncoding::Plain, |text, out| out.push_str(text));
    }

    fn attribute(&mut self, piece: Piece) {
        self.encoded(piece, TextEncoding::Attr, encode::attribute);
    }
}

/// What a section's own text consists of, in order: its heading, its blocks and what stands between.
enum SectionItem<'s> {
    /// A section begins here, or a block begins or ends.
    Edge,
    Engine(Cow<'static, str>),
    Piece(Piece),
    Block(&'s crate::prompt::Block),
}

/// Sections as one run of text: for formats that put several into one element.
fn run<'s>(prompt: &'s Prompt, sections: impl Iterator<Item = &'s Section>) -> Vec<SectionItem<'s>> {
    let mut items = Vec::new();
    each_item(prompt, sections, &mut |item| items.push(item));
    items
}

/// The same for those who look at one item after the other: of very many blocks, no list is made.
fn each_item<'s>(
    prompt: &'s Prompt,
    sections: impl Iterator<Item = &'s Section>,
    take: &mut dyn FnMut(SectionItem<'s>),
) {
    for (number, section) in sections.enumerate() {
        if number > 0 {
            take(SectionItem::Engine(prompt.separator.text().into()));
        }
        take(SectionItem::Edge);
        if let Some(heading) = section.heading {
            [
                SectionItem::Engine("## ".into()),
                SectionItem::Piece(heading),
                SectionItem::Engine("\n\n".into()),
            ]
            .into_iter()
            .for_each(&mut *take);
        }
        for (at, block) in section.blocks.iter().enumerate() {
            if at > 0 {
                take(SectionItem::Engine(prompt.separator.text().into()));
            }
            [SectionItem::Edge, SectionItem::Block(block), SectionItem::Edge]
                .into_iter()
                .for_each(&mut *take);
        }
    }
}

/// Items that share an element with other text, with fences where a text in them would pass for structure.
fn fenced<'s>(
    prompt: &'s Prompt,
    items: Vec<SectionItem<'s>>,
    writer: &mut PromptWriter<'_>,
) -> Vec<SectionItem<'s>> {
    let is_there = markdown::MarkdownStructure::of(prompt, Some(&items)).has_structure();
    if is_there { as_markdown(prompt, &items, writer) } else { items }
}

/// Items as Markdown writes them, cut into what is ours and what is of the origins.
fn as_markdown<'s>(
    prompt: &Prompt,
    items: &[SectionItem<'_>],
    writer: &mut PromptWriter<'_>,
) -> Vec<SectionItem<'s>> {
    let mut inner = PromptWriter::empty(prompt);
    markdown::items(items, &markdown::MarkdownStructure::of(prompt, Some(items)), &mut inner);
    let PromptWriter { text, spans, talk, edges, .. } = inner;
    writer.talk.extend(talk);
    let mut edges = edges.into_iter().peekable();
    let mut written = Vec::new();
    for RenderedRange { start, end, piece, encoding } in spans {
        let mut from = start;
        while let Some(edge) = edges.next_if(|edge| *edge < end) {
            if from < edge {
                written.push(SectionItem::Engine(text[from..edge].to_string().into()));
            }
            written.push(SectionItem::Edge);
            from = edge;
        }
        match piece {
            Some(piece)
                if encoding == TextEncoding::Plain || text[start..end] == *piece.text(&prompt.origins) =>
            {
                written.push(SectionItem::Piece(piece));
            }
            // A name in a tag that has to be encoded twice: its bytes are the engine's spelling of it.
            _ => written.push(SectionItem::Engine(text[from..end].to_string().into())),
        }
    }
    written.extend(edges.map(|_| SectionItem::Edge));
    written
}
