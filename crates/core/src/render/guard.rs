//! Guards: separate a supplied text from the structure around it.
//!
//! Tags separate it for a reader that knows them. For a CommonMark reader they separate nothing, so the tags
//! and the text go into a code block whose fence is longer than any run of backticks in the text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use memchr::memchr;

use super::outline::OwnRange;
use super::{PromptWriter, encode};
use crate::prompt::OriginTable;
use crate::prompt::{Block, SuppliedText};

/// The form in which a supplied text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardForm {
    /// As it is.
    Plain,
    /// Between tags.
    Tags,
    /// Between tags, in a code block.
    Code,
    /// One harmless letter in its place, to show the structure of the surrounding text by itself.
    Tame,
}

/// The ranges of a block's texts, relative to the start of the block.
#[derive(Default)]
pub(super) struct WrittenRanges {
    pub(super) own: Vec<OwnRange>,
    /// One range for each supplied text, including its guard.
    pub(super) supplied: Vec<Range<usize>>,
}

/// Writes a block with each supplied text in its form.
pub(super) fn write_block(
    block: &Block,
    forms: &[GuardForm],
    writer: &mut PromptWriter<'_>,
) -> WrittenRanges {
    let begin = writer.text.len();
    let (mut own, mut supplied_at): (Vec<OwnRange>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    let mut key = 0;
    let mut write_own = |range: Range<usize>, writer: &mut PromptWriter<'_>| {
        for piece in &block.pieces[range] {
            let start = writer.text.len();
            writer.write_plain(*piece);
            own.push((start - begin..writer.text.len() - begin, key));
            key += piece.end - piece.start;
        }
    };
    let mut next = 0;
    for (supplied, form) in block.supplied.iter().zip(forms) {
        write_own(next..supplied.pieces.start, writer);
        next = supplied.pieces.end;
        let start = writer.text.len() - begin;
        match form {
            GuardForm::Plain => {
                block.pieces[supplied.pieces.clone()].iter().for_each(|piece| writer.write_plain(*piece));
            }
            GuardForm::Tame => writer.write_engine("x"),
            GuardForm::Tags => write_tags(block, supplied, writer),
            GuardForm::Code => write_code_block(block, supplied, begin, writer),
        }
        supplied_at.push(start..writer.text.len() - begin);
    }
    write_own(next..block.pieces.len(), writer);
    WrittenRanges { own, supplied: supplied_at }
}

fn supplied_text(block: &Block, supplied: &SuppliedText, origins: &OriginTable) -> String {
    block.pieces[supplied.pieces.clone()].iter().map(|piece| piece.text(origins)).collect()
}

/// Returns the text after a supplied text in its block; a line end at the end of the block.
fn text_after<'o>(block: &Block, supplied: &SuppliedText, origins: &'o OriginTable) -> &'o str {
    let mut after = block.pieces[supplied.pieces.end..].iter().map(|piece| piece.text(origins));
    after.find(|text| !text.is_empty()).unwrap_or("\n")
}

/// Returns the name of the tags around a supplied text.
pub(super) fn tag_name(block: &Block, supplied: &SuppliedText, origins: &OriginTable) -> String {
    find_free_tag(&supplied_text(block, supplied, origins), supplied.name(block, origins))
}

/// Writes tags on lines of their own if the text has its lines to itself, else around it in its line.
fn write_tags(block: &Block, supplied: &SuppliedText, writer: &mut PromptWriter<'_>) {
    let origins = writer.origins;
    let before_line_end = text_after(block, supplied, origins).starts_with(['\n', '\r']);
    let own_lines = before_line_end && (writer.text.is_empty() || writer.text.ends_with('\n'));
    write_element(block, supplied, if own_lines { "\n" } else { "" }, writer);
}

fn write_element(block: &Block, supplied: &SuppliedText, line_end: &str, writer: &mut PromptWriter<'_>) {
    let text = supplied_text(block, supplied, writer.origins);
    let tag = find_free_tag(&text, supplied.name(block, writer.origins));
    writer.write_engine(&format!("<{tag}"));
    if let Some(path) = supplied.path {
        writer.write_engine(" path=\"");
        writer.write_attribute(path);
        writer.write_engine("\"");
    }
    writer.write_engine(&format!(">{line_end}"));
    block.pieces[supplied.pieces.clone()].iter().for_each(|piece| writer.write_plain(*piece));
    writer.write_engine(&format!("{}</{tag}>", if text.ends_with('\n') { "" } else { line_end }));
}

/// Writes a code block on lines of its own, after an empty line: inside an HTML block nothing else begins
/// one.
fn write_code_block(block: &Block, supplied: &SuppliedText, begin: usize, writer: &mut PromptWriter<'_>) {
    let origins = writer.origins;
    let text = supplied_text(block, supplied, origins);
    let fence = code_fence(&text);
    let before = &writer.text[begin..];
    let gap = match before {
        "" => "",
        _ if before.ends_with("\n\n") => "",
        _ if before.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    writer.write_engine(&format!("{gap}{fence}\n"));
    if is_enclosed(block, supplied, origins) {
        block.pieces[supplied.pieces.clone()].iter().for_each(|piece| writer.write_plain(*piece));
        writer.write_engine(if text.ends_with('\n') { "" } else { "\n" });
    } else {
        write_element(block, supplied, "\n", writer);
        writer.write_engine("\n");
    }
    let line_end = if text_after(block, supplied, origins).starts_with(['\n', '\r']) { "" } else { "\n" };
    writer.write_engine(&format!("{fence}{line_end}"));
}

/// Checks whether a text is the whole content of an element of the template and does not name that element:
/// it then needs no other tags.
pub(super) fn is_enclosed(block: &Block, supplied: &SuppliedText, origins: &OriginTable) -> bool {
    let own = |at: Option<usize>| {
        let is_supplied = |at: &usize| {
            // A block can have very many supplied texts, in order.
            let near = block.supplied.partition_point(|supplied| supplied.pieces.end <= *at);
            block.supplied.get(near).is_some_and(|supplied| supplied.pieces.contains(at))
        };
        let at = at.filter(|at| !is_supplied(at))?;
        Some(block.pieces.get(at)?.text(origins))
    };
    let enclosing = || {
        let before = own(supplied.pieces.start.checked_sub(1))?.strip_suffix(">\n")?;
        let open = before.rsplit('\n').next()?.strip_prefix('<')?;
        let name = open.split(' ').next()?;
        let closing = own(Some(supplied.pieces.end))?.strip_prefix("\n</")?.strip_prefix(name)?;
        closing.starts_with('>').then_some(name)
    };
    let free = |name: &str| !encode::holds_tag(&supplied_text(block, supplied, origins), name);
    supplied.path.is_none() && !supplied.tagged && enclosing().is_some_and(free)
}

/// Returns a fence of more backticks than any run of them in the text.
pub(super) fn code_fence(text: &str) -> String {
    let (mut longest, mut rest) = (2, text.as_bytes());
    while let Some(at) = memchr(b'`', rest) {
        let run = rest[at..].iter().take_while(|byte| **byte == b'`').count();
        longest = longest.max(run);
        rest = &rest[at + run..];
    }
    "`".repeat(longest + 1)
}

/// Returns `name`, or `name-2` and so on: the first that does not occur in the text as a tag.
pub(super) fn find_free_tag(text: &str, name: &str) -> String {
    if !encode::holds_tag(text, name) {
        return name.to_string();
    }
    let taken = encode::find_tag_numbers(text, name);
    let mut number = 2;
    while taken.contains(&number) {
        number += 1;
    }
    format!("{name}-{number}")
}
