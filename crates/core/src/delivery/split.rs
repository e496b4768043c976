//! Divides a prompt into a shared part, which prompts for other tasks begin with too, and its own part.
//!
//! A division is an offset into the text, so origins and records keep describing the whole. [`plan_delivery`]
//! delivers the parts.
//!
//! [`plan_delivery`]: super::plan_delivery

use crate::library::format::PromptFormat;
use crate::library::recipe::Part;
use crate::prompt::Prompt;
use crate::render::{RenderedRange, RenderedText};
use crate::source::SourceRoot;
use crate::source::origin::OriginKind;

/// Returns the length of the part that does not belong to the task: the sections of the system part that come
/// first, up to the first text that the request or the session supplies.
pub fn find_shared_end(prompt: &Prompt, rendered: &RenderedText) -> usize {
    let mut end = rendered.text.len();
    for (section, range) in prompt.sections.iter().zip(rendered.section_ranges(prompt)) {
        if section.part != Part::System {
            end = end.min(range.section.start);
        }
    }
    let belongs_to_task = |span: &&RenderedRange| {
        let origin = span.piece.and_then(|piece| prompt.origins.get(piece.origin));
        origin.is_some_and(|origin| match &origin.from {
            OriginKind::Source(id) => id.root() == SourceRoot::Session,
            OriginKind::Request(_) | OriginKind::Document(_) | OriginKind::DocumentName(_) => true,
            // Everything in front of the first byte that differs is shared, wherever the parts meet.
            OriginKind::Value(_) | OriginKind::Default(_) | OriginKind::Derived(_) | OriginKind::Engine => {
                false
            }
        })
    };
    let first = rendered.spans.iter().find(belongs_to_task).map_or(end, |span| span.start);
    find_boundary(prompt, rendered, end.min(first))
}

/// Returns the number of bytes that all `texts` begin with; 0 if there are none.
pub fn common_length<'t>(texts: impl IntoIterator<Item = &'t str>) -> usize {
    let mut texts = texts.into_iter();
    let Some(first) = texts.next() else { return 0 };
    let same = |text: &str| first.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    first.floor_char_boundary(texts.map(same).min().unwrap_or(first.len()))
}

/// Returns the last place up to `end` where the prompt can be divided: the start of a section or of a block, a heading of a
/// template, or a value that begins a paragraph of a template. JSON is not divided.
pub fn find_boundary(prompt: &Prompt, rendered: &RenderedText, end: usize) -> usize {
    if prompt.format == PromptFormat::Json {
        return 0;
    }
    let ranges = rendered.section_ranges(prompt);
    let starts = ranges.iter().flat_map(|range| {
        core::iter::once(range.section.start).chain(range.blocks.iter().map(|block| block.start))
    });
    let last = starts.filter(|start| *start <= end).max().unwrap_or(0);
    let inner = find_inner_boundary(rendered, last, end);
    inner.unwrap_or_else(|| skip_open_tags(rendered, last))
}

/// Returns the place before the tags of the engine that end at `end`.
fn skip_open_tags(rendered: &RenderedText, mut end: usize) -> usize {
    let engine = rendered.spans.iter().rfind(|span| span.start < end).filter(|span| span.piece.is_none());
    let Some(start) = engine.map(|span| span.start) else { return end };
    loop {
        let before = &rendered.text[start..end];
        let before = before.strip_suffix("<![CDATA[").unwrap_or(before);
        let tag = before.rfind('<').filter(|tag| before.ends_with('>') && !before[*tag..].starts_with("</"));
        match tag {
            Some(tag) => end = start + tag,
            None => return end,
        }
    }
}

/// Returns the last place between `start`, where a block begins, and `end` at which the block's template has a heading, or at
/// which a paragraph begins after the template's text that is another text.
fn find_inner_boundary(rendered: &RenderedText, start: usize, end: usize) -> Option<usize> {
    let text = rendered.text.as_str();
    let mut marks = OpenMarks::default();
    let mut template = None;
    let mut code_lines = 0;
    let mut is_after_template = false;
    let mut found = None;
    for span in rendered.spans.iter().filter(|span| span.end > start).take_while(|span| span.start <= end) {
        let is_outside = marks == OpenMarks::default() && code_lines % 2 == 0;
        if is_after_template && is_outside && text[..span.start].ends_with("\n\n") {
            found = Some(span.start);
        }
        let Some(piece) = span.piece else {
            marks.read(&text[span.start.max(start)..span.end]);
            is_after_template = false;
            continue;
        };
        is_after_template = *template.get_or_insert(piece.origin) == piece.origin;
        if !is_after_template {
            continue;
        }
        let mut at = span.start;
        for line in text[span.start..span.end].split_inclusive('\n') {
            let is_heading = line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
            if is_heading && code_lines % 2 == 0 && start < at && at <= end && text[..at].ends_with("\n\n") {
                found = Some(at);
            }
            code_lines += usize::from(line.starts_with("```"));
            at += line.len();
        }
    }
    found
}

/// The tags and the code block that the engine has opened around a supplied text.
#[derive(Default, PartialEq)]
struct OpenMarks {
    tags: usize,
    code: bool,
}

impl OpenMarks {
    /// Reads the next text of the engine.
    fn read(&mut self, text: &str) {
        let closing = text.matches("</").count();
        let opening = text.matches('<').count() - closing - text.matches("<![").count();
        self.tags = (self.tags + opening).saturating_sub(closing);
        self.code ^= text.lines().filter(|line| line.starts_with("```")).count() % 2 == 1;
    }
}
