//! XML: verbatim to an agent's eye, well-formed for a parser. No padding inside elements.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memchr;

use super::{PromptWriter, SectionItem, encode, fence_items, section_items};
use crate::diag::{Code, Diagnostic, Diagnostics, push_diagnostic};
use crate::library::recipe::Part;
use crate::prompt::OriginTable;
use crate::prompt::{Block, Piece, Prompt};
use crate::render::TextEncoding;

pub(super) fn write(prompt: &Prompt, writer: &mut PromptWriter<'_>) -> Result<(), Diagnostics> {
    refuse_misfits(prompt)?;
    let part = |part: Part| {
        section_items(prompt, prompt.sections.iter().filter(move |section| section.part == part))
    };
    writer.write_engine("<prompt><system_prompt>");
    let system = fence_items(prompt, part(Part::System), writer);
    write_body(writer, &system);
    writer.write_engine("</system_prompt>");
    if prompt.blocks(Part::Context).next().is_some() {
        writer.write_engine("<context>");
        write_context(prompt, writer);
        writer.write_engine("</context>");
    }
    writer.write_engine("<instructions>");
    let instructions = fence_items(prompt, part(Part::Instructions), writer);
    write_body(writer, &instructions);
    writer.write_engine("</instructions></prompt>");
    Ok(())
}

/// Reports every document and text with a character that XML 1.0 cannot carry.
fn refuse_misfits(prompt: &Prompt) -> Result<(), Diagnostics> {
    let blocks = prompt.sections.iter().flat_map(|section| &section.blocks);
    let named = |block: &Block| block.document.map(|(_, name)| name);
    let paths =
        |block: &Block| block.supplied.iter().filter_map(|supplied| supplied.path).collect::<Vec<_>>();
    let pieces =
        blocks.flat_map(|block| block.pieces.iter().copied().chain(named(block)).chain(paths(block)));
    let pieces = pieces.chain(prompt.sections.iter().filter_map(|section| section.heading));
    let mut wrong: Vec<Diagnostic> = Vec::new();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    for piece in pieces {
        let Some((at, c)) = encode::find_xml_misfit(piece.text(&prompt.origins)) else { continue };
        if !seen.insert(piece.origin) {
            continue;
        }
        let origin = &prompt.origins[piece.origin];
        let offset = piece.start + at;
        let message =
            format!("{}: XML cannot represent U+{:04X} at offset {offset}", origin.label(), c as u32);
        push_diagnostic(&mut wrong, Code::XmlCharacter, || {
            Diagnostic::error(Code::XmlCharacter, message)
                .at(origin.label(), &origin.text, offset..offset + c.len_utf8())
                .hint("omit the file, or add `--format json`")
        });
    }
    for name in context_names(prompt) {
        let Some((_, c)) = encode::find_xml_misfit(name) else { continue };
        push_diagnostic(&mut wrong, Code::XmlCharacter, || {
            let message = format!("the name `{name}`: XML cannot represent U+{:04X}", c as u32);
            Diagnostic::error(Code::XmlCharacter, message).hint("render as JSON")
        });
    }
    if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong)) }
}

/// Iterates over the names of sections and blocks that become attributes.
fn context_names(prompt: &Prompt) -> impl Iterator<Item = &str> {
    let sections = prompt.sections.iter().filter(|section| section.part == Part::Context);
    sections.flat_map(|section| {
        let blocks = section.blocks.iter().map(|block| block.name.as_str());
        core::iter::once(section.name.as_str()).chain(blocks)
    })
}

fn write_context(prompt: &Prompt, writer: &mut PromptWriter<'_>) {
    for section in prompt.sections.iter().filter(|section| section.part == Part::Context) {
        // A section with a heading is one thing to the reader, whatever it consists of.
        if section.heading.is_some() {
            writer.write_engine(&format!("<artifact name=\"{}\">", escape_name(&section.name)));
            let items = fence_items(prompt, section_items(prompt, core::iter::once(section)), writer);
            write_body(writer, &items);
            writer.write_engine("</artifact>");
            continue;
        }
        writer.push_edge();
        for block in &section.blocks {
            writer.push_edge();
            let tag = match block.document {
                Some((kind, name)) => {
                    writer.write_engine(&format!("<{} {}=\"", kind.name(), kind.attribute()));
                    writer.write_attribute(name);
                    writer.write_engine("\"");
                    kind.name()
                }
                None => {
                    writer.write_engine(&format!("<artifact name=\"{}\"", escape_name(&block.name)));
                    "artifact"
                }
            };
            if is_crlf(block, writer.origins) {
                writer.write_engine(" eol=\"crlf\">");
                write_crlf_body(writer, block);
            } else {
                writer.write_engine(">");
                write_body(writer, &[SectionItem::Block(block)]);
            }
            writer.write_engine(&format!("</{tag}>"));
            writer.push_edge();
            writer.flush_part();
        }
    }
}

/// Checks whether every line end is CR LF, in each piece of the text.
fn is_crlf(block: &Block, origins: &OriginTable) -> bool {
    let mut pieces = block.pieces.iter().map(|piece| piece.text(origins)).filter(|text| !text.is_empty());
    let is_calm = |text: &str| !text.contains(['\r', '\n']) || encode::is_crlf(text);
    pieces.clone().any(encode::is_crlf) && pieces.all(is_calm)
}

/// Writes the content of an element whose attribute states its line ends: line feeds, which a parser does not
/// change.
fn write_crlf_body(writer: &mut PromptWriter<'_>, block: &Block) {
    let origins = writer.origins;
    let mut brackets = 0;
    let needs_cdata =
        block.pieces.iter().any(|piece| encode::needs_cdata(piece.text(origins), &mut brackets));
    let mut brackets = 0;
    writer.write_engine(if needs_cdata { "<![CDATA[" } else { "" });
    for piece in &block.pieces {
        writer.write_encoded(*piece, TextEncoding::Crlf, |text, out| {
            encode::write_crlf(text, &mut brackets, out)
        });
    }
    writer.write_engine(if needs_cdata { "]]>" } else { "" });
}

fn escape_name(name: &str) -> String {
    let mut out = String::new();
    encode::write_attribute(name, &mut out);
    out
}

/// Writes the content of an element: unchanged if that is well-formed, else as CDATA.
fn write_body(writer: &mut PromptWriter<'_>, items: &[SectionItem<'_>]) {
    let origins = writer.origins;
    let mut brackets = 0;
    let needs_cdata = fragments(items).any(|text| match text {
        XmlFragment::Edge => false,
        XmlFragment::Engine(text) => encode::needs_cdata(text, &mut brackets),
        XmlFragment::Piece(piece) => encode::needs_cdata(piece.text(origins), &mut brackets),
    });
    let mut brackets = 0;
    let mut encode = |text: &str, out: &mut String| match needs_cdata {
        true => encode::write_cdata(text, &mut brackets, out),
        false => encode::write_carriage_returns(text, out),
    };
    writer.write_engine(if needs_cdata { "<![CDATA[" } else { "" });
    for fragment in fragments(items) {
        match fragment {
            XmlFragment::Edge => writer.push_edge(),
            // A notice of a recipe can hold anything.
            XmlFragment::Engine(text) => {
                let mut out = String::with_capacity(text.len());
                encode(text, &mut out);
                writer.write_engine(&out);
            }
            XmlFragment::Piece(piece) => {
                let encoding = if needs_cdata {
                    TextEncoding::Cdata
                } else if memchr(b'\r', piece.text(origins).as_bytes()).is_some() {
                    TextEncoding::Attr
                } else {
                    TextEncoding::Plain
                };
                writer.write_encoded(piece, encoding, &mut encode);
            }
        }
    }
    writer.write_engine(if needs_cdata { "]]>" } else { "" });
}

enum XmlFragment<'i> {
    Edge,
    Engine(&'i str),
    Piece(Piece),
}

fn fragments<'i>(items: &'i [SectionItem<'_>]) -> impl Iterator<Item = XmlFragment<'i>> {
    items.iter().flat_map(|item| {
        let (one, block) = match item {
            SectionItem::Edge => (Some(XmlFragment::Edge), None),
            SectionItem::Engine(text) => (Some(XmlFragment::Engine(text)), None),
            SectionItem::Piece(piece) => (Some(XmlFragment::Piece(*piece)), None),
            SectionItem::Block(block) => (None, Some(block)),
        };
        let pieces =
            block.into_iter().flat_map(|block| block.pieces.iter().map(|piece| XmlFragment::Piece(*piece)));
        one.into_iter().chain(pieces)
    })
}
