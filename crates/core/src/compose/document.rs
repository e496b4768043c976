//! Documents: files, artifacts and thoughts as blocks, each in the requested detail.
//!
//! Nothing is left out of a document silently: a notice takes its place.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::compose::Composer;
use crate::compose::outline::outline;
use crate::diag::{Code, Diagnostic, counted, push_diagnostic};
use crate::library::lookup;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::recipe::DocumentKind;
use crate::library::recipe::FilePolicy;
use crate::library::template::Template;
use crate::prompt::{Block, BudgetUnit};
use crate::request::RequestDocument;
use crate::request::detail::DetailLevel;
use crate::request::detail::{NoTextReason, TextlessDocument};
use crate::source::origin::{Origin, OriginKind, Trust};
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;

/// The fragments that mark an omission in a document, each with the slots that are filled.
pub const NOTICES: [(&str, &[&str]); 6] = [
    (OUTLINE, &["left_out", "lines"]),
    (PATH_ONLY, &[]),
    ("left-out-binary", &["bytes"]),
    ("left-out-too-large", &["bytes"]),
    ("left-out-link", &[]),
    ("left-out-unreadable", &[]),
];

const OUTLINE: &str = "outline-notice";
const PATH_ONLY: &str = "path-only";

const fn notice_for(why: NoTextReason) -> &'static str {
    match why {
        NoTextReason::Binary => "left-out-binary",
        NoTextReason::TooLarge => "left-out-too-large",
        NoTextReason::Link => "left-out-link",
        NoTextReason::Unreadable => "left-out-unreadable",
    }
}

/// A document, its label in the prompt, and the detail level that the budget allows it.
#[derive(Clone, Copy)]
struct ShownDocument<'d> {
    document: &'d RequestDocument,
    label: &'d str,
    level: DetailLevel,
}

impl ShownDocument<'_> {
    /// Records that the document is not shown whole. The reason is the budget if the budget degraded it.
    fn omission(self, what: String, why: OmissionReason, detail: String) -> OmittedInput {
        if self.level == DetailLevel::Full {
            return OmittedInput::new(what, why, detail);
        }
        let comma = if detail.is_empty() { "" } else { ", " };
        OmittedInput::new(what, OmissionReason::Budget, format!("{}{comma}{detail}", self.level.words()))
    }
}

/// Returns the name that `explain` shows for a document that is not shown whole.
fn omission_label(document: &RequestDocument, label: &str) -> String {
    match &document.path {
        Some(path) => format!("{}:{path}", SourceRoot::Project.name()),
        None => format!("document {label}"),
    }
}

/// The notices in use. A missing one is searched and reported once.
pub(crate) type NoticeTemplates = BTreeMap<&'static str, Option<Arc<Template>>>;

impl Composer<'_> {
    /// Adds the request's documents of these kinds, in order.
    pub(crate) fn add_documents(&mut self, kinds: &[DocumentKind], blocks: &mut Vec<Block>) {
        let request = self.request;
        self.shown.insert("documents");
        let mut notices = NoticeTemplates::new();
        let mut left_out: BTreeMap<NoTextReason, usize> = BTreeMap::new();
        for (at, document) in request.documents.iter().enumerate() {
            if !kinds.contains(&document.kind) {
                continue;
            }
            let label = document.name.as_ref().or(document.path.as_ref()).map_or("", String::as_str);
            let ranged = document.lines.map(|[first, last]| format!("{label}:{first}-{last}"));
            let label = ranged.as_deref().unwrap_or(label);
            if self.is_path_listed(document) {
                if document.path.is_none() {
                    push_diagnostic(&mut self.diagnostics, Code::DocumentNotShown, || {
                        let why = "the recipe lists documents by path, and this one has no path";
                        Diagnostic::warning(Code::DocumentNotShown, format!("`{label}` is omitted: {why}"))
                    });
                    let what = label.to_string();
                    self.omitted.push(OmittedInput::new(what, OmissionReason::NotShown, ""));
                }
                continue;
            }
            let level = self.document_level(at);
            if level == DetailLevel::Out {
                let (what, detail) = (omission_label(document, label), level.words().to_string());
                self.omitted.push(OmittedInput::new(what, OmissionReason::Budget, detail));
                continue;
            }
            if let Some(TextlessDocument { why, .. }) = document.left_out {
                *left_out.entry(why).or_default() += 1;
            }
            let shown = ShownDocument { document, label, level };
            let Some(mut block) = self.document_block(shown, &mut notices) else { continue };
            let from = OriginKind::DocumentName(u32::try_from(at).unwrap_or(u32::MAX));
            // The origin of the content may already hold the name.
            let text = match block.pieces.first().map(|piece| &self.origins[piece.origin].from) {
                Some(OriginKind::Document(name)) if name.as_str() == label => name.clone(),
                _ => label.into(),
            };
            let name = self.add_origin(Origin { from, trust: trust_of_kind(document.kind), text });
            block.document = Some((document.kind, self.whole_piece(name)));
            block.unit = Some(BudgetUnit::Document(at));
            blocks.push(block);
        }
        if !left_out.is_empty() {
            self.diagnostics.push(without_text_warning(&left_out));
        }
    }

    /// Checks whether the prompt holds the path of a document instead of its text.
    pub(crate) fn is_path_listed(&self, document: &RequestDocument) -> bool {
        let embeds = document.embed && self.agent.supports_prompt_file_inclusion;
        self.recipe.files == FilePolicy::Paths && document.kind != DocumentKind::Thought && !embeds
    }

    fn document_block(&mut self, shown: ShownDocument<'_>, notices: &mut NoticeTemplates) -> Option<Block> {
        let ShownDocument { document, label, level } = shown;
        let level = level.max(document.detail.unwrap_or_default().into());
        if level >= DetailLevel::Path || document.left_out.is_some() {
            return Some(self.path_block(shown, notices));
        }
        let origin = self.find_document_text(document, label)?;
        let mut whole = self.whole_block(SharedText::from_static(document.kind.name()), origin);
        if let Some([first, last]) = document.lines {
            let text = &self.origins[origin].text;
            let Some(range) = find_line_range(text, first, last) else {
                let message = format!("`{label}`: the file has {}", counted(count_lines(text), "line"));
                push_diagnostic(&mut self.errors, Code::RequestBad, || {
                    Diagnostic::error(Code::RequestBad, message)
                });
                return None;
            };
            for piece in &mut whole.pieces {
                (piece.start, piece.end) = (range.start, range.end);
            }
        }
        if level == DetailLevel::Full {
            return Some(whole);
        }
        let path = document.path.as_deref().unwrap_or(label);
        Some(match self.outline_block(&whole, path, notices) {
            None => whole,
            Some((block, left_out)) => {
                self.omitted.push(shown.omission(
                    self.origins[origin].label(),
                    OmissionReason::Outlined,
                    left_out,
                ));
                block
            }
        })
    }

    /// Returns the origin that holds the document's whole text.
    fn find_document_text(&mut self, document: &RequestDocument, label: &str) -> Option<u32> {
        if let Some(content) = &document.content {
            let (from, trust) = (OriginKind::Document(label.into()), trust_of_kind(document.kind));
            return Some(self.add_origin(Origin { from, trust, text: content.clone() }));
        }
        let path = document.path.as_deref().unwrap_or_default();
        let found = SourceId::new(SourceRoot::Project, path)
            .map_err(|why| {
                Diagnostic::error(Code::RequestBad, format!("cannot read the document `{path}`: {why}"))
            })
            .and_then(|id| lookup::read_source(&self.library.sources, &id).map(|text| (id, text)));
        match found {
            Ok((id, Some(text))) => Some(self.source_origin(&id, &text)),
            Ok((id, None)) => {
                push_diagnostic(&mut self.errors, Code::DocumentNotFound, || {
                    let message = format!("document not found: `{path}`");
                    Diagnostic::error(Code::DocumentNotFound, message).searched([id])
                });
                None
            }
            Err(error) => {
                push_diagnostic(&mut self.errors, error.code, || error);
                None
            }
        }
    }

    /// Returns the outline of a block below a notice, and a phrase that says how much is left out. Returns
    /// `None` if the outline is the whole block.
    pub(crate) fn outline_block(
        &mut self,
        block: &Block,
        path: &str,
        notices: &mut NoticeTemplates,
    ) -> Option<(Block, String)> {
        let text = block.text(&self.origins);
        let kept = outline(path, &text);
        let lines = count_lines(&text);
        let left_out = lines - kept.iter().map(|range| count_lines(&text[range.clone()])).sum::<usize>();
        if left_out == 0 {
            return None;
        }
        let numbers = [("left_out", left_out.to_string()), ("lines", lines.to_string())];
        let mut outlined = self.fill_notice(&block.name, OUTLINE, numbers, notices);
        if !kept.is_empty() {
            let line_end = self.engine_piece("\n");
            outlined.pieces.push(line_end);
            block.copy_ranges(&kept, &mut outlined);
        }
        Some((outlined, format!("{left_out} of {lines} lines are left out")))
    }

    fn path_block(&mut self, shown: ShownDocument<'_>, notices: &mut NoticeTemplates) -> Block {
        let document = shown.document;
        let (notice, detail, bytes) = match document.left_out {
            None => (PATH_ONLY, String::new(), 0),
            Some(TextlessDocument { why: why @ (NoTextReason::Binary | NoTextReason::TooLarge), bytes }) => {
                (notice_for(why), format!("{}, {}", why.words(), counted(bytes, "byte")), bytes)
            }
            Some(TextlessDocument { why, bytes }) => (notice_for(why), why.words().to_string(), bytes),
        };
        self.omitted.push(shown.omission(
            omission_label(document, shown.label),
            OmissionReason::PathOnly,
            detail,
        ));
        self.fill_notice(document.kind.name(), notice, [("bytes", bytes.to_string())], notices)
    }

    /// Returns a block that holds a notice, with `numbers` in its slots.
    fn fill_notice<const N: usize>(
        &mut self,
        tag: &str,
        name: &'static str,
        numbers: [(&'static str, String); N],
        notices: &mut NoticeTemplates,
    ) -> Block {
        let mut block = Block { name: tag.into(), ..Block::default() };
        let Some(notice) = notices.entry(name).or_insert_with(|| self.find_wording(name)).clone() else {
            return block;
        };
        let fields = numbers.map(|(field, number)| {
            let from = OriginKind::new_derived(SharedText::from_static(name), SharedText::from_static(field));
            let origin = self.add_origin(Origin { from, trust: Trust::Ours, text: SharedText::from(number) });
            (field, Block { pieces: alloc::vec![self.whole_piece(origin)], ..Block::default() })
        });
        self.fill(&notice, &fields, &mut block);
        block
    }
}

const fn trust_of_kind(kind: DocumentKind) -> Trust {
    match kind {
        DocumentKind::File => Trust::Project,
        DocumentKind::Artifact | DocumentKind::Thought => Trust::Agent,
    }
}

/// Returns the byte range of these lines, counted from 1, or `None` if the text has fewer lines.
fn find_line_range(text: &str, first: usize, last: usize) -> Option<Range<usize>> {
    let mut at = 0;
    let mut start = None;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if number == first {
            start = Some(at);
        }
        at += line.len();
        if number == last {
            return Some(start?..at);
        }
    }
    None
}

fn count_lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
        + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

fn without_text_warning(left_out: &BTreeMap<NoTextReason, usize>) -> Diagnostic {
    let all: usize = left_out.values().sum();
    let documents = if all == 1 { "document is listed by path" } else { "documents are listed by path" };
    let each: Vec<String> = left_out.iter().map(|(why, count)| format!("{count} {}", why.words())).collect();
    let message = format!("{all} {documents} only: {}", each.join(", "));
    Diagnostic::warning(Code::DocumentLeftOut, message)
}
