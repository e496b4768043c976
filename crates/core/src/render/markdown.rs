//! Markdown: sections in order, with fences only around a text that would pass for structure or hide it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::guard::{self, GuardForm};
use super::outline::outline;
use super::structure_risk::{self, OwnStructure, REACH, StructureRisk};
use super::{PromptWriter, SectionItem, TextEncoding, encode, for_each_item};
use crate::diag::{Code, Diagnostic, push_diagnostic};
use crate::library::recipe::DocumentKind;
use crate::library::recipe::SectionSeparator;
use crate::prompt::OriginTable;
use crate::prompt::{Block, Piece, Prompt, SuppliedText};
use crate::text::name::is_name_byte;

pub(super) fn write(prompt: &Prompt, writer: &mut PromptWriter<'_>) {
    let structure = MarkdownStructure::new(prompt, None);
    for_each_item(prompt, prompt.sections.iter(), &mut |item| write_item(&item, &structure, writer));
}

/// Writes items as Markdown, for other formats that carry Markdown inside.
pub(super) fn write_items(
    items: &[SectionItem<'_>],
    structure: &MarkdownStructure<'_>,
    writer: &mut PromptWriter<'_>,
) {
    items.iter().for_each(|item| write_item(item, structure, writer));
}

fn write_item(item: &SectionItem<'_>, structure: &MarkdownStructure<'_>, writer: &mut PromptWriter<'_>) {
    match item {
        SectionItem::Edge => writer.push_edge(),
        SectionItem::Engine(text) => writer.write_engine(text),
        SectionItem::Piece(piece) => writer.write_plain(*piece),
        SectionItem::Block(block) => {
            match block.document {
                Some((kind, name)) => write_document(block, kind, name, structure, writer),
                None => write_block(block, structure, writer),
            }
            writer.flush_part();
        }
    }
}

fn write_block(block: &Block, structure: &MarkdownStructure<'_>, writer: &mut PromptWriter<'_>) {
    // Most texts need no fence. So write the block first, check it only if a text in it is not calm, and
    // rewind and write it again only if a text would pass for structure.
    let mark = writer.take_mark();
    let mut supplied = block.supplied.iter().peekable();
    let mut calm = true;
    for (at, piece) in block.pieces.iter().enumerate() {
        while supplied.next_if(|supplied| supplied.pieces.end <= at).is_some() {}
        let own = supplied.peek().is_none_or(|supplied| at < supplied.pieces.start);
        writer.write_encoded(*piece, TextEncoding::Plain, |text, out| {
            if own || !calm {
                return out.push_str(text);
            }
            calm = structure_risk::begins_calmly(text);
            // A part that was just written is still in the CPU cache, so a long text is read from memory
            // once.
            for part in encode::split_blocks(text) {
                out.push_str(part);
                calm = calm && structure_risk::is_quiet(part);
            }
        });
    }
    let origins = writer.origins;
    let always = |supplied: &SuppliedText| {
        supplied.is_tagged() || supplied.line && leaves_line(block, supplied, origins)
    };
    if block.supplied.is_empty() || calm && !block.supplied.iter().any(always) {
        return;
    }
    let written = &writer.text[mark.text..];
    let reasons = fence_reasons(block, written, structure, origins);
    if reasons.iter().any(Option::is_some) {
        let whole = written.to_string();
        writer.rewind_to(mark);
        write_fenced(block, &whole, &reasons, structure, writer);
    }
}

/// The reason for a guard around a supplied text.
enum FenceReason {
    /// It is always between tags.
    Always,
    /// It belongs in one line and does not stay there. `in_doubt`: it also has a line that could hide the
    /// text after it.
    LeavesLine { in_doubt: bool },
    /// It has a line or a tag that the format itself uses.
    Used(Range<usize>),
    /// It has such a line, between tags of the template.
    Inside(Range<usize>),
    /// It has a line that could hide the text after it.
    Doubt(Range<usize>),
}

/// Checks whether a text that belongs in one line, in a list or a code span, would leave it.
fn leaves_line(block: &Block, supplied: &SuppliedText, origins: &OriginTable) -> bool {
    let texts = block.pieces[supplied.pieces.clone()].iter().map(|piece| piece.text(origins));
    texts
        .into_iter()
        .any(|text| memchr(b'`', text.as_bytes()).is_some() || structure_risk::has_line_end(text))
}

/// Returns for each supplied text of a block, whose text is `whole`, the reason to guard it.
fn fence_reasons(
    block: &Block,
    whole: &str,
    structure: &MarkdownStructure<'_>,
    origins: &OriginTable,
) -> Vec<Option<FenceReason>> {
    let (mut next, mut at, mut last_tagged) = (0, 0, None);
    let mut length = |pieces: &[Piece]| {
        at += pieces.iter().map(|piece| piece.end - piece.start).sum::<usize>();
        at
    };
    let reasons = block.supplied.iter().map(|supplied| {
        let start = length(&block.pieces[next..supplied.pieces.start]);
        let end = length(&block.pieces[supplied.pieces.clone()]);
        next = supplied.pieces.end;
        let danger = || structure_risk::find_risk(whole, &(start..end), last_tagged, structure);
        let tag = || (start < end).then(|| structure.find_own_tag(whole, &(start..end))).flatten();
        let reason = if supplied.line && leaves_line(block, supplied, origins) {
            Some(FenceReason::LeavesLine { in_doubt: danger().is_some() })
        } else {
            match (danger(), tag()) {
                // Readers of those tags know where the text ends.
                (Some(StructureRisk::Line(line)), None) if guard::is_enclosed(block, supplied, origins) => {
                    Some(FenceReason::Inside(line))
                }
                (Some(StructureRisk::Line(line)), _) => Some(FenceReason::Used(line)),
                (_, Some(tag)) => Some(FenceReason::Used(tag)),
                (Some(StructureRisk::Doubt(line)), None) => Some(FenceReason::Doubt(line)),
                (None, None) => supplied.is_tagged().then_some(FenceReason::Always),
            }
        };
        if reason.is_some() {
            last_tagged = Some(end);
        }
        reason
    });
    reasons.collect()
}

/// The most texts of one block that are judged one by one.
const MOST_JUDGED: usize = 16;

/// Returns the least form of each text in which a CommonMark reader sees the structure of the block's own
/// text and no other. The flag is `false` if no form achieves this.
fn choose_forms(
    block: &Block,
    reasons: &[Option<FenceReason>],
    structure: &MarkdownStructure<'_>,
) -> (Vec<GuardForm>, bool) {
    let least = |(reason, supplied): (&Option<FenceReason>, &SuppliedText)| match reason {
        Some(FenceReason::Doubt(_) | FenceReason::Inside(_)) if !supplied.is_tagged() => GuardForm::Plain,
        // Parsers disagree about the lines of a list item after the first.
        Some(FenceReason::LeavesLine { in_doubt: true }) => GuardForm::Code,
        Some(_) => GuardForm::Tags,
        None => GuardForm::Plain,
    };
    let mut forms: Vec<GuardForm> = reasons.iter().zip(&block.supplied).map(least).collect();
    let draft = |forms: &[GuardForm]| {
        let mut writer = PromptWriter::empty(structure.prompt);
        let written = guard::write_block(block, forms, &mut writer);
        (writer.text, written)
    };
    let tame = alloc::vec![GuardForm::Tame; forms.len()];
    let wanted = if block.is_supplied() {
        Some(Vec::new())
    } else {
        let (text, written) = draft(&tame);
        outline(&text, &written.own, structure)
    };
    let Some(wanted) = wanted else {
        // The structure of the template itself is unknown: fence every text in doubt.
        let in_doubt = forms.iter_mut().zip(reasons).filter(|(_, reason)| reason.is_some());
        in_doubt.for_each(|(form, _)| *form = GuardForm::Code);
        return (forms, true);
    };
    let holds = |forms: &[GuardForm]| {
        let (text, written) = draft(forms);
        // A guard ends the line of its text, so the text after it begins a line.
        let calm = |(at, range): (usize, &Range<usize>)| {
            forms[at] != GuardForm::Plain
                || matches!(reasons[at], Some(FenceReason::Inside(_)))
                || !matches!(
                    structure_risk::find_risk(&text, range, None, structure),
                    Some(StructureRisk::Line(_))
                )
        };
        outline(&text, &written.own, structure).as_ref() == Some(&wanted)
            && written.supplied.iter().enumerate().all(calm)
    };
    if holds(&forms) {
        return (forms, true);
    }
    let suspects: Vec<usize> = (0..forms.len()).filter(|at| reasons[*at].is_some()).collect();
    // Fence only the texts that are in doubt by themselves.
    if suspects.len() > 1 && suspects.len() <= MOST_JUDGED {
        for at in &suspects {
            let mut alone = forms.clone();
            alone[at + 1..].fill(GuardForm::Tame);
            if !holds(&alone) {
                forms[*at] = GuardForm::Code;
            }
        }
        if holds(&forms) {
            return (forms, true);
        }
    }
    for at in suspects {
        forms[at] = GuardForm::Code;
    }
    if block.len() > super::outline::LONGEST || holds(&forms) {
        return (forms, true);
    }
    // A text that is not in doubt by itself passes for structure together with its neighbours.
    for form in [GuardForm::Tags, GuardForm::Code] {
        let weaker = forms.iter_mut().zip(&block.supplied);
        let weaker = weaker.filter(|(old, supplied)| {
            **old != GuardForm::Code
                && block.pieces[supplied.pieces.clone()].iter().any(|piece| piece.start < piece.end)
        });
        weaker.for_each(|(old, _)| *old = form);
        if holds(&forms) {
            return (forms, true);
        }
    }
    (forms, false)
}

/// Writes a block, whose text is `whole`, with a fence around every supplied text that needs one.
fn write_fenced(
    block: &Block,
    whole: &str,
    reasons: &[Option<FenceReason>],
    structure: &MarkdownStructure<'_>,
    writer: &mut PromptWriter<'_>,
) {
    let (forms, held) = choose_forms(block, reasons, structure);
    guard::write_block(block, &forms, writer);
    let origins = writer.origins;
    let mut at = 0;
    let mut next = 0;
    for ((supplied, form), reason) in block.supplied.iter().zip(&forms).zip(reasons) {
        let length = |pieces: &[Piece]| pieces.iter().map(|piece| piece.end - piece.start).sum::<usize>();
        let start = at + length(&block.pieces[next..supplied.pieces.start]);
        let pieces = &block.pieces[supplied.pieces.clone()];
        at = start + length(pieces);
        next = supplied.pieces.end;
        // Tags that are always there need no explanation.
        if matches!(form, GuardForm::Plain | GuardForm::Tame)
            || *form == GuardForm::Tags && supplied.is_tagged()
        {
            continue;
        }
        let name = supplied.name(block, origins);
        push_diagnostic(&mut writer.diagnostics, Code::TextFenced, || {
            let shown = |line: &Range<usize>| {
                let shown = &whole[line.clone()];
                shown[..shown.floor_char_boundary(LONGEST_SHOWN)].to_string()
            };
            let why = match reason {
                Some(FenceReason::Used(line) | FenceReason::Inside(line)) => {
                    format!("it contains `{}`, which the format uses", shown(line))
                }
                Some(FenceReason::Doubt(line)) => {
                    format!("its line `{}` could imitate or hide structure", shown(line))
                }
                Some(FenceReason::LeavesLine { .. }) => {
                    "it has several lines, and its slot is inside a line".to_string()
                }
                Some(FenceReason::Always) | None => {
                    "together with the text beside it, it could imitate structure".to_string()
                }
            };
            let place = match form {
                GuardForm::Code if guard::is_enclosed(block, supplied, origins) => {
                    "into a code block".to_string()
                }
                GuardForm::Code => {
                    format!("between <{}> tags in a code block", guard::tag_name(block, supplied, origins))
                }
                _ => format!("between <{}> tags", guard::tag_name(block, supplied, origins)),
            };
            let even_there = if held { "" } else { ", and it could do so even there" };
            let message = format!("the text of `{name}` was put {place}: {why}{even_there}");
            let line = match reason {
                Some(FenceReason::Used(line) | FenceReason::Inside(line) | FenceReason::Doubt(line)) => {
                    line.clone()
                }
                _ => start..at,
            };
            let line = line.start.max(start) - start..line.end.min(at).max(start) - start;
            let origin = pieces.first().and_then(|piece| origins.get(piece.origin));
            // Between tags that are there anyway, headings in the text are expected.
            let expected = match reason {
                Some(FenceReason::Inside(_)) => held,
                Some(FenceReason::Used(_)) => held && supplied.is_tagged(),
                _ => false,
            };
            let make = if expected { Diagnostic::note } else { Diagnostic::warning };
            let warning = make(Code::TextFenced, message);
            match (pieces, origin) {
                ([one], Some(origin)) => {
                    warning.at(origin.label(), &origin.text, one.start + line.start..one.start + line.end)
                }
                _ => warning,
            }
        });
    }
}

fn write_document(
    block: &Block,
    kind: DocumentKind,
    name: Piece,
    structure: &MarkdownStructure<'_>,
    writer: &mut PromptWriter<'_>,
) {
    let assembled;
    let text = match block.pieces.as_slice() {
        [one] => one.text(writer.origins),
        _ => {
            assembled = block.text(writer.origins);
            &assembled
        }
    };
    let tag = guard::find_free_tag(text, kind.name());
    let element = |writer: &mut PromptWriter<'_>| {
        writer.write_engine(&format!("<{tag} {}=\"", kind.attribute()));
        writer.write_attribute(name);
        writer.write_engine("\">\n");
        block.pieces.iter().for_each(|piece| writer.write_plain(*piece));
        let line_end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        writer.write_engine(&format!("{line_end}</{tag}>"));
    };
    let label = || name.text(writer.origins);
    let warning = |message: String| Diagnostic::warning(Code::TextFenced, message);
    let hides = structure_risk::find_risk(text, &(0..text.len()), None, structure).filter(|_| {
        let mut draft = PromptWriter::empty(structure.prompt);
        element(&mut draft);
        outline(&draft.text, &[], structure).is_none_or(|marks| !marks.is_empty())
    });
    if let Some(StructureRisk::Line(line) | StructureRisk::Doubt(line)) = hides {
        let shown = &text[line];
        let shown = &shown[..shown.floor_char_boundary(LONGEST_SHOWN)];
        let message = format!(
            "`{}` was put into a code block: its line `{shown}` could imitate or hide structure",
            label()
        );
        push_diagnostic(&mut writer.diagnostics, Code::TextFenced, || warning(message));
        let fence = guard::code_fence(text);
        writer.write_engine(&format!("{fence}\n"));
        element(writer);
        writer.write_engine(&format!("\n{fence}"));
        return;
    }
    if tag != kind.name() {
        let message = format!("`{}` was put between <{tag}> tags: it contains <{}>", label(), kind.name());
        push_diagnostic(&mut writer.diagnostics, Code::TextFenced, || warning(message));
    }
    element(writer);
}

/// The structure of this prompt's own Markdown.
pub(super) struct MarkdownStructure<'p> {
    prompt: &'p Prompt,
    /// The items that share an element; `None` for the whole prompt.
    items: Option<&'p [SectionItem<'p>]>,
    rule: bool,
    /// Computed at the first heading.
    deepest: OnceCell<u8>,
    /// Names that tags around supplied text can have; collected at the first `<`.
    tags: OnceCell<BTreeSet<&'p str>>,
}

impl OwnStructure for MarkdownStructure<'_> {
    fn has_rules(&self) -> bool {
        self.rule
    }

    fn deepest_level(&self) -> u8 {
        *self.deepest.get_or_init(|| {
            let sections = &self.prompt.sections;
            let headed = sections.iter().any(|section| section.heading.is_some());
            let own = |block: &Block| {
                let texts = block.own_pieces().map(|piece| {
                    let text = &self.prompt.origins[piece.origin].text;
                    structure_risk::deepest_heading(text, &(piece.start..piece.end))
                });
                texts.max().unwrap_or(0)
            };
            let own = match self.items {
                Some(items) => plain_blocks(items).map(own).max(),
                None => sections.iter().flat_map(|section| &section.blocks).map(own).max(),
            };
            own.unwrap_or(0).max(if headed { 2 } else { 0 })
        })
    }
}

/// Returns the blocks among the items that are not documents.
fn plain_blocks<'i>(items: &'i [SectionItem<'_>]) -> impl Iterator<Item = &'i Block> {
    items.iter().filter_map(|item| match item {
        SectionItem::Block(block) if block.document.is_none() => Some(*block),
        _ => None,
    })
}

impl<'p> MarkdownStructure<'p> {
    pub(super) fn new(prompt: &'p Prompt, items: Option<&'p [SectionItem<'p>]>) -> Self {
        let rule = prompt.separator == SectionSeparator::Rule;
        Self { prompt, items, rule, deepest: OnceCell::new(), tags: OnceCell::new() }
    }

    /// Checks whether the items have structure of their own that a text in them could imitate or hide:
    /// headings, rules, rows, or tags that a template puts around supplied text.
    pub(super) fn has_structure(&self) -> bool {
        let tagged = |block: &Block| {
            block.own_pieces().any(|piece| {
                let text = piece.text(&self.prompt.origins);
                let tag = |at: usize| self.own_tag_name(text[at + 1..].trim_start_matches('/'));
                memchr_iter(b'<', text.as_bytes()).any(|at| tag(at).is_some())
            })
        };
        let rows =
            |block: &Block| block.supplied.iter().any(|supplied| supplied.line || supplied.is_tagged());
        let mut blocks = plain_blocks(self.items.unwrap_or_default());
        self.rule || blocks.any(|block| rows(block) || tagged(block)) || self.deepest_level() > 0
    }

    /// Returns the name of the tag that begins with `inside`, the text after `<` or `</`. Accepts numbered
    /// names too.
    fn own_tag_name<'t>(&self, inside: &'t str) -> Option<&'t str> {
        let length = inside.bytes().take_while(|byte| is_name_byte(*byte)).count();
        let (name, rest) = inside.split_at(length);
        if !rest.is_empty() && !rest.starts_with(['>', ' ', '\t', '\n', '\r', '/']) {
            return None;
        }
        let tags = self.tags.get_or_init(|| {
            let blocks = self.prompt.sections.iter().flat_map(|section| &section.blocks);
            let origins = &self.prompt.origins;
            let supplied =
                blocks.flat_map(|block| block.supplied.iter().map(|supplied| supplied.name(block, origins)));
            supplied.chain(["file", "artifact", "thought"]).collect()
        });
        let first = name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('-').unwrap_or(name);
        (tags.contains(name) || tags.contains(first)).then_some(name)
    }

    /// Returns the first tag of the prompt's own that overlaps `supplied`, a part of `whole`.
    fn find_own_tag(&self, whole: &str, supplied: &Range<usize>) -> Option<Range<usize>> {
        // A tag that ends in the text may begin before it, but not before the last `<` there.
        let bytes = whole.as_bytes();
        let near = supplied.start.saturating_sub(REACH);
        let before = memrchr(b'<', &bytes[near..supplied.start]);
        let mut from = before.map_or(supplied.start, |at| near + at);
        while let Some(found) = memchr(b'<', &bytes[from..supplied.end]) {
            let start = from + found;
            from = start + 1;
            let inside = whole[from..].trim_start_matches('/');
            let Some(tag) = self.own_tag_name(inside) else { continue };
            if whole.len() - inside.len() + tag.len() <= supplied.start {
                continue;
            }
            let end = whole[start..].find(['>', '\n']).map_or(whole.len(), |end| start + end + 1);
            return Some(start..whole[..end].trim_end().len().max(from));
        }
        None
    }
}

/// The most bytes of a suspicious line that a warning repeats.
const LONGEST_SHOWN: usize = 120;
