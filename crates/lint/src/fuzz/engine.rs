//! The promises of callsheet itself, for any template and any value.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::Value;

use callsheet_core::compose::ComposedPrompt;
use callsheet_core::diag::{Code, Diagnostics};
use callsheet_core::library::format::PromptFormat;
use callsheet_core::library::lookup::Library;
use callsheet_core::library::recipe::{RecipeFile, SectionSeparator};
use callsheet_core::prompt::{Block, Piece, Prompt};
use callsheet_core::render::{RenderedText, render};
use callsheet_core::request::Request;
use callsheet_core::source::{Snapshot, SourceId, SourceRecorder, SourceRoot, Sources};
use callsheet_core::text::name::is_name_byte;

/// The functions under test: compose and render. Tests replace them with broken ones.
#[derive(Clone, Copy)]
pub(super) struct EngineUnderTest {
    pub(super) compose: fn(&Request, &RecipeFile, &dyn Sources) -> Result<ComposedPrompt, Diagnostics>,
    pub(super) render: fn(&Prompt, PromptFormat) -> Result<RenderedText, Diagnostics>,
}

pub(super) const OURS: EngineUnderTest = EngineUnderTest {
    compose: |request, recipe, sources| Library::new(sources).compose(request, recipe),
    render: |prompt, format| render(prompt, format, None),
};

/// A prompt, its Markdown, and the sources that were read for it.
pub(super) struct ComposedCase {
    pub(super) composed: ComposedPrompt,
    pub(super) markdown: RenderedText,
    asked: BTreeSet<SourceId>,
    listed: BTreeSet<SourceId>,
}

/// The prompt that a case is compared with: the same one with a plain text in place of the value.
pub(super) struct ControlCase<'c> {
    pub(super) made: &'c ComposedCase,
    pub(super) plain: &'c str,
    /// The indexes of the texts, among those of all blocks, that hold the plain text.
    pub(super) spots: &'c [usize],
}

/// The reason why a case has no result.
pub(super) enum CaseFailure {
    /// The prompt cannot be composed. Of a case with a value: for a reason that is valid for values.
    Refused(Diagnostics),
    /// A promise is broken.
    Broken(String),
}

impl From<Diagnostics> for CaseFailure {
    fn from(refused: Diagnostics) -> Self {
        Self::Refused(refused)
    }
}

impl EngineUnderTest {
    /// Composes and renders as Markdown, and composes again from the recorded sources.
    pub(super) fn make(
        &self,
        request: &Request,
        recipe: &RecipeFile,
        sources: &dyn Sources,
    ) -> Result<ComposedCase, CaseFailure> {
        let recorder = SourceRecorder::new(sources);
        let composed = (self.compose)(request, recipe, &recorder);
        let snapshot: Snapshot = recorder.finish();
        let composed = composed?;
        let markdown = (self.render)(&composed.prompt, PromptFormat::Markdown)?;
        let again = (self.compose)(request, recipe, &snapshot);
        if again.as_ref() != Ok(&composed) {
            let what = "the sources that composing read do not give the same prompt again";
            return Err(CaseFailure::Broken(what.into()));
        }
        let asked = snapshot.texts.into_keys().collect();
        let listed = snapshot.lists.into_iter().map(|(dir, ..)| dir).collect();
        Ok(ComposedCase { composed, markdown, asked, listed })
    }

    /// Makes the prompt with `value` in it and compares it with `control`.
    pub(super) fn judge(
        &self,
        request: &Request,
        recipe: &RecipeFile,
        sources: &dyn Sources,
        control: &ControlCase<'_>,
        value: &str,
    ) -> Result<ComposedCase, CaseFailure> {
        let made = self.make(request, recipe, sources).map_err(|failure| match failure {
            CaseFailure::Refused(Diagnostics(diags)) if !diags.iter().all(|diag| can_refuse(diag.code)) => {
                let first =
                    diags.first().map_or_else(String::new, |diag| format!("{}: {}", diag.code, diag.message));
                CaseFailure::Broken(format!("it makes composing fail: {first}"))
            }
            failure => failure,
        })?;
        let broken = check_sources(control, &made)
            .or_else(|| check_model(control, &made, value))
            .or_else(|| check_structure(control, &made, value))
            .or_else(|| self.check_formats(&made, value));
        broken.map_or(Ok(made), |broken| Err(CaseFailure::Broken(broken)))
    }

    fn check_formats(&self, made: &ComposedCase, value: &str) -> Option<String> {
        let prompt = &made.composed.prompt;
        let carried = prompt
            .sections
            .iter()
            .flat_map(|section| &section.blocks)
            .any(|block| block.pieces.iter().any(|piece| piece.text(&prompt.origins) == value));
        let gives_back = |text: &str| !carried || text.contains(value);
        for format in [PromptFormat::Markdown, PromptFormat::Xml, PromptFormat::Json] {
            let name = format!("{format:?}");
            let rendered = match (self.render)(prompt, format) {
                Ok(rendered) => rendered,
                Err(failure) if failure.0.iter().all(|diag| diag.code == Code::XmlCharacter) => continue,
                Err(_) => return Some(format!("cannot write {name}")),
            };
            if format == PromptFormat::Markdown && rendered != made.markdown {
                return Some("rendering the same prompt again gives other bytes".into());
            }
            if let Some(wrong) = check_spans(prompt, &rendered, format) {
                return Some(format!("{wrong} in {name}"));
            }
            let read = match format {
                PromptFormat::Markdown => continue,
                PromptFormat::Xml => xml_text(&rendered.text),
                PromptFormat::Json => {
                    serde_json::from_str(&rendered.text).ok().map(|value: Value| json_text(&value))
                }
            };
            match read {
                None => return Some(format!("cannot read the {name}")),
                Some(read) if !gives_back(&read) => {
                    return Some(format!("the {name} does not contain the value"));
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// Checks whether a value by itself can cause this error.
fn can_refuse(code: Code) -> bool {
    [
        Code::IncludeBadPath,
        Code::RequestBad,
        Code::RequestIncomplete,
        Code::PromptTooLarge,
        Code::SourceUnreadable,
        Code::DepthBad,
        // A sub-plan with invalid content.
        Code::SubmissionBad,
    ]
    .contains(&code)
}

/// Reports files that a plain value does not read. A slot in an include path may well name another file.
fn check_sources(control: &ControlCase<'_>, made: &ComposedCase) -> Option<String> {
    let names_files = control.made.asked.iter().any(|id| id.path().contains(control.plain));
    let notice = |id: &SourceId| made.is_cut() && id.path().ends_with("/cut-notice.md");
    let free = |id: &SourceId| notice(id) || (names_files && id.root() == SourceRoot::Session);
    let texts =
        |made: &ComposedCase| made.asked.iter().filter(|id| !free(id)).cloned().collect::<BTreeSet<_>>();
    let (now, then) = (texts(made), texts(control.made));
    let other = now.difference(&then).chain(made.listed.difference(&control.made.listed)).next()?;
    Some(format!("it makes composing read `{other}`"))
}

/// Checks that the prompt equals the plain one except for the value, byte for byte.
fn check_model(control: &ControlCase<'_>, made: &ComposedCase, value: &str) -> Option<String> {
    if value.trim().is_empty() || made.is_cut() {
        return None;
    }
    let wanted = flatten_texts(&control.made.composed.prompt)
        .into_iter()
        .map(|text| text.replace(control.plain, value));
    (!wanted.eq(flatten_texts(&made.composed.prompt)))
        .then(|| "the prompt differs from the plain one in more than the value".into())
}

fn flatten_texts(prompt: &Prompt) -> Vec<String> {
    let mut all = Vec::new();
    for section in &prompt.sections {
        all.push(section.name.clone());
        for block in &section.blocks {
            let name = block.document.map(|(_, name)| name);
            let pieces = section.heading.iter().chain(&name).chain(&block.pieces);
            all.extend(pieces.map(|piece| piece.text(&prompt.origins).to_string()));
        }
    }
    all
}

/// Checks that the ranges cover the text, that each decodes to its origin's bytes, and that every piece of
/// every block has one, in order.
fn check_spans(prompt: &Prompt, rendered: &RenderedText, format: PromptFormat) -> Option<&'static str> {
    let mut at = 0;
    for span in &rendered.spans {
        if span.start != at || span.end < at {
            return Some("the origins leave a gap");
        }
        at = span.end;
        let Some(piece) = span.piece else { continue };
        let written = rendered.text.get(span.start..span.end)?;
        if span.encoding.decode(written).as_deref() != Some(piece.text(&prompt.origins)) {
            return Some("a text differs from its origin");
        }
    }
    if at != rendered.text.len() {
        return Some("the origins do not reach the end");
    }
    let mut sections: Vec<_> = prompt.sections.iter().collect();
    if format != PromptFormat::Markdown {
        sections.sort_by_key(|section| section.part);
    }
    let blocks = sections.iter().flat_map(|section| &section.blocks);
    let mut written = rendered.spans.iter().filter_map(|span| span.piece);
    let mut pieces = blocks.flat_map(|block| spanned_pieces(prompt, block));
    (!pieces.all(|piece| written.any(|found| found == piece))).then_some("a text is missing")
}

/// Returns the pieces of a block that have a range in the rendered text.
fn spanned_pieces<'p>(prompt: &'p Prompt, block: &'p Block) -> impl Iterator<Item = Piece> + 'p {
    block.pieces.iter().copied().filter(|piece| has_span(prompt, piece))
}

pub(super) fn has_span(prompt: &Prompt, piece: &Piece) -> bool {
    piece.start < piece.end && !prompt.origins[piece.origin].is_engine()
}

/// The range of a text in the Markdown, and the innermost tag that callsheet put around it.
pub(super) struct TaggedRange {
    range: Range<usize>,
    pub(super) tag: Option<String>,
}

impl ComposedCase {
    /// Returns the ranges of the texts of all blocks, in order.
    pub(super) fn text_ranges(&self) -> Vec<TaggedRange> {
        let (prompt, rendered) = (&self.composed.prompt, &self.markdown);
        let blocks = prompt.sections.iter().flat_map(|section| &section.blocks);
        let mut wanted = blocks.flat_map(|block| spanned_pieces(prompt, block)).peekable();
        let mut tags: Vec<&str> = Vec::new();
        let mut stands = Vec::new();
        for span in &rendered.spans {
            match span.piece {
                None => track_tags(&rendered.text[span.start..span.end], &mut tags),
                Some(piece) if wanted.next_if_eq(&piece).is_some() => {
                    let tag = tags.last().map(ToString::to_string);
                    stands.push(TaggedRange { range: span.start..span.end, tag });
                }
                Some(_) => {}
            }
        }
        stands
    }

    fn is_cut(&self) -> bool {
        self.composed.diagnostics.iter().any(|diag| diag.code == Code::SectionCut)
    }
}

/// Tracks the tags that `text` opens and closes.
fn track_tags<'t>(text: &'t str, tags: &mut Vec<&'t str>) {
    for inside in text.split('<').skip(1) {
        let name = inside.trim_start_matches('/');
        let name = &name[..name.bytes().take_while(|byte| is_name_byte(*byte)).count()];
        if !inside.starts_with('/') {
            tags.push(name);
        } else if tags.last() == Some(&name) {
            tags.pop();
        }
    }
}

/// Reports a value without tags that adds lines of the prompt's own structure, or a value that ends the tags
/// around it.
fn check_structure(control: &ControlCase<'_>, made: &ComposedCase, value: &str) -> Option<String> {
    let (then, now) = (control.made.text_ranges(), made.text_ranges());
    if then.len() != now.len() {
        return None;
    }
    let prompt = &made.composed.prompt;
    for at in control.spots {
        let (then, now) = (&then[*at], &now[*at]);
        if let Some(tag) = &now.tag {
            if value.contains(&format!("</{tag}>")) {
                return Some(format!("it ends the <{tag}> tags around it"));
            }
            continue;
        }
        let lines = |made: &ComposedCase, stand: &TaggedRange| {
            count_own_lines(prompt, &made.markdown.text, &stand.range)
        };
        if lines(made, now) > lines(control.made, then) {
            return Some("it makes a line that the format uses itself".into());
        }
    }
    None
}

/// Counts the lines overlapping `range` that are headings or rules of the prompt.
fn count_own_lines(prompt: &Prompt, text: &str, range: &Range<usize>) -> usize {
    let headings = prompt.sections.iter().any(|section| section.heading.is_some());
    let rule = prompt.separator == SectionSeparator::Rule;
    let unix = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");
    let before = unix(&text[..range.start]);
    let end = before.len() + unix(&text[range.clone()]).len();
    let whole = unix(text);
    let lines: Vec<&str> = whole.split('\n').collect();
    let mut start = 0;
    let mut count = 0;
    for (at, line) in lines.iter().enumerate() {
        let from = start;
        start += line.len() + 1;
        if start <= before.len() || from >= end {
            continue;
        }
        let inside = line.trim_start_matches(' ');
        let marks = inside.bytes().take_while(|byte| inside.as_bytes().first() == Some(byte)).count();
        let indent = line.len() - inside.len();
        if indent > 3 || from + indent + marks <= before.len() {
            continue;
        }
        let blank =
            |at: Option<usize>| at.and_then(|at| lines.get(at)).is_none_or(|line| line.trim().is_empty());
        let above = blank(at.checked_sub(1));
        let line = inside.trim_end();
        let heading =
            line.starts_with('#') && marks <= 2 && !inside[marks..].starts_with(|c| c != ' ' && c != '\t');
        let underline = !above && marks == line.len() && line.starts_with(['-', '=']);
        let is_rule = line == "---" && above && blank(Some(at + 1));
        count += usize::from((headings && (heading || underline)) || (rule && is_rule));
    }
    count
}

fn xml_text(text: &str) -> Option<String> {
    let document = roxmltree::Document::parse(text).ok()?;
    let mut all = String::new();
    for node in document.descendants() {
        let named = node.attributes().filter(|attribute| attribute.name() != "eol");
        named.for_each(|attribute| all.push_str(attribute.value()));
        let text = node.text().filter(|_| node.is_text()).unwrap_or_default();
        match node.parent().and_then(|parent| parent.attribute("eol")) {
            Some("crlf") => all.push_str(&text.replace('\n', "\r\n")),
            _ => all.push_str(text),
        }
    }
    Some(all)
}

fn json_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(json_text).collect(),
        Value::Object(entries) => entries.values().map(json_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}
