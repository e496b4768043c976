//! Renders a prompt as text, with the origin of every byte.
//!
//! Formats differ in how they keep supplied text from passing for structure: XML and JSON by encoding,
//! Markdown by tags chosen after reading the text. No format changes the content of a text.

pub(crate) mod budget;
mod encode;
mod guard;
mod json;
mod markdown;
mod outline;
mod section_ranges;
mod structure_risk;
mod xml;

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use encode::TextEncoding;
pub use section_ranges::SectionRange;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::format::ModelApi;
use crate::library::format::PromptFormat;
use crate::prompt::OriginTable;
use crate::prompt::{Piece, Prompt, Section};

/// A rendered prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderedText {
    /// The whole text.
    pub text: String,
    /// Ranges that cover the text without a gap.
    pub spans: Vec<RenderedRange>,
    /// Warnings and notes of the rendering.
    pub diagnostics: Vec<Diagnostic>,
    /// Offsets of the starts of sections and the starts and ends of blocks, in the order of writing.
    edges: Vec<usize>,
    order: section_ranges::SectionOrder,
}

/// A byte range of the rendered text, and the range of the origin's text that it represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenderedRange {
    /// The offset of its first byte.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
    /// The piece that it represents; `None` for the engine's own separators, tags and notices.
    pub piece: Option<Piece>,
    /// The encoding of the piece in this range.
    pub encoding: TextEncoding,
}

/// Renders `prompt` in `format`. With `api`, JSON is the body of a request. Refuses a prompt that
/// [`Prompt::check`] refuses.
///
/// ```
/// use callsheet_core::{Builtin, PromptFormat, Request, compose, render::render};
///
/// let request = Request {
///     recipe: Some("unified".into()),
///     phase: Some("plan".into()),
///     instructions: Some("Add a login page.".into()),
///     ..Request::default()
/// };
/// let prompt = compose(&request, &Builtin)?.prompt;
/// let xml = render(&prompt, PromptFormat::Xml, None)?;
/// assert!(xml.text.contains("Add a login page."));
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn render(
    prompt: &Prompt,
    format: PromptFormat,
    api: Option<ModelApi>,
) -> Result<RenderedText, Diagnostics> {
    prompt.check()?;
    let mut writer = PromptWriter::new(prompt);
    writer.write(prompt, format, api)?;
    let PromptWriter { text, spans, diagnostics, edges, .. } = writer;
    Ok(RenderedText {
        text,
        spans,
        diagnostics,
        edges,
        order: section_ranges::SectionOrder::for_format(format, api),
    })
}

/// Renders `prompt` like [`render`] and passes the text to `take` in parts, for a caller that need not hold
/// all of it at once. Returns the warnings. Any error occurs before the first part.
pub fn render_parts(
    prompt: &Prompt,
    format: PromptFormat,
    api: Option<ModelApi>,
    take: &mut dyn FnMut(&str),
) -> Result<Vec<Diagnostic>, Diagnostics> {
    prompt.check()?;
    let mut writer = PromptWriter { take: Some(take), ..PromptWriter::empty(prompt) };
    writer.write(prompt, format, api)?;
    let PromptWriter { text, diagnostics, take, .. } = writer;
    if let Some(take) = take {
        take(&text);
    }
    Ok(diagnostics)
}

/// The size of the parts that are passed on: small enough to stay in the CPU cache, and large enough to be
/// worth a system call.
const PART: usize = 256 << 10;

struct PromptWriter<'p> {
    origins: &'p OriginTable,
    text: String,
    spans: Vec<RenderedRange>,
    diagnostics: Vec<Diagnostic>,
    edges: Vec<usize>,
    /// Receives the text in parts. All offsets are then relative to the current part, and unused.
    take: Option<&'p mut dyn FnMut(&str)>,
}

/// A position of the writer, to rewind to.
struct WriterMark {
    text: usize,
    spans: usize,
    /// The last range at that time: a range of the engine's own grows with the text after it.
    last: Option<RenderedRange>,
}

impl<'p> PromptWriter<'p> {
    fn empty(prompt: &'p Prompt) -> Self {
        Self {
            origins: &prompt.origins,
            text: String::new(),
            spans: Vec::new(),
            diagnostics: Vec::new(),
            edges: Vec::new(),
            take: None,
        }
    }

    /// Creates a writer with capacity for the whole prompt.
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
                Diagnostic::warning(Code::ToolsNotShown, "tools are omitted: only JSON can hold them");
            self.diagnostics.push(warning.hint("use `--format json`"));
        }
        Ok(())
    }

    /// Passes the text on once a block is finished: it is not read again, and more text follows.
    fn flush_part(&mut self) {
        if let Some(take) = self.take.as_mut().filter(|_| self.text.len() >= PART) {
            take(&self.text);
            self.text.clear();
            self.spans.clear();
            self.edges.clear();
        }
    }

    fn push_edge(&mut self) {
        self.edges.push(self.text.len());
    }

    fn take_mark(&self) -> WriterMark {
        WriterMark { text: self.text.len(), spans: self.spans.len(), last: self.spans.last().copied() }
    }

    /// Removes everything that was written since `mark`.
    fn rewind_to(&mut self, mark: WriterMark) {
        self.text.truncate(mark.text);
        self.spans.truncate(mark.spans);
        if let (Some(last), Some(then)) = (self.spans.last_mut(), mark.last) {
            *last = then;
        }
    }

    /// Writes text of the engine's own.
    fn write_engine(&mut self, text: &str) {
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

    /// Writes a piece with `write`, which appends its encoded text.
    fn write_encoded(&mut self, piece: Piece, encoding: TextEncoding, write: impl FnOnce(&str, &mut String)) {
        let origin = &self.origins[piece.origin];
        if piece.start == piece.end {
            return;
        }
        let start = self.text.len();
        write(&origin.text[piece.start..piece.end], &mut self.text);
        let (end, piece) = (self.text.len(), (!origin.is_engine()).then_some(piece));
        self.spans.push(RenderedRange { start, end, piece, encoding });
    }

    fn write_plain(&mut self, piece: Piece) {
        self.write_encoded(piece, TextEncoding::Plain, |text, out| out.push_str(text));
    }

    fn write_attribute(&mut self, piece: Piece) {
        self.write_encoded(piece, TextEncoding::Attr, encode::write_attribute);
    }
}

/// An item of a section's text, in order: its heading, its blocks and the separators between them.
enum SectionItem<'s> {
    /// The start of a section, or the start or end of a block.
    Edge,
    Engine(Cow<'static, str>),
    Piece(Piece),
    Block(&'s crate::prompt::Block),
}

/// Returns sections as one run of items, for formats that put several into one element.
fn section_items<'s>(
    prompt: &'s Prompt,
    sections: impl Iterator<Item = &'s Section>,
) -> Vec<SectionItem<'s>> {
    let mut items = Vec::new();
    for_each_item(prompt, sections, &mut |item| items.push(item));
    items
}

/// Passes the items to `take` one by one, without a list of very many blocks.
fn for_each_item<'s>(
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
            take(SectionItem::Engine("## ".into()));
            take(SectionItem::Piece(heading));
            take(SectionItem::Engine("\n\n".into()));
        }
        for (at, block) in section.blocks.iter().enumerate() {
            if at > 0 {
                take(SectionItem::Engine(prompt.separator.text().into()));
            }
            take(SectionItem::Edge);
            take(SectionItem::Block(block));
            take(SectionItem::Edge);
        }
    }
}

/// Returns items that share an element with other text, with fences if a text in them would pass for
/// structure.
fn fence_items<'s>(
    prompt: &'s Prompt,
    items: Vec<SectionItem<'s>>,
    writer: &mut PromptWriter<'_>,
) -> Vec<SectionItem<'s>> {
    let is_there = markdown::MarkdownStructure::new(prompt, Some(&items)).has_structure();
    if is_there { render_as_markdown(prompt, &items, writer) } else { items }
}

/// Renders items as Markdown and splits the result into text of the engine and pieces of the origins.
fn render_as_markdown<'s>(
    prompt: &Prompt,
    items: &[SectionItem<'_>],
    writer: &mut PromptWriter<'_>,
) -> Vec<SectionItem<'s>> {
    let mut inner = PromptWriter::empty(prompt);
    markdown::write_items(items, &markdown::MarkdownStructure::new(prompt, Some(items)), &mut inner);
    let PromptWriter { text, spans, diagnostics, edges, .. } = inner;
    writer.diagnostics.extend(diagnostics);
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
            // A name in a tag must be encoded twice: its bytes are the engine's spelling of it.
            _ => written.push(SectionItem::Engine(text[from..end].to_string().into())),
        }
    }
    written.extend(edges.map(|_| SectionItem::Edge));
    written
}
