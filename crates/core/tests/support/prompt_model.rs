//! Compares a rendered prompt with its model: the texts that readers must find, and those that they must not
//! find.

use callsheet_core::library::recipe::Part;
use callsheet_core::library::recipe::SectionSeparator;
use callsheet_core::prompt::{Block, Section};
use callsheet_core::{Prompt, PromptFormat};
use proptest::prelude::*;

use crate::generated_prompts::{Kind, Scenario};
use crate::markdown::{self, Bit as Read, OPAQUE};

pub(crate) fn texts(prompt: &Prompt) -> impl Iterator<Item = &str> {
    let blocks = prompt.sections.iter().flat_map(|section| &section.blocks);
    blocks
        .flat_map(|block| block.pieces.iter().copied().chain(block.document.map(|(_, name)| name)))
        .map(|piece| piece.text(&prompt.origins))
}

/// Checks whether a character is valid in XML 1.0.
pub(crate) fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Returns a part of the model as one text.
pub(crate) fn part_text(prompt: &Prompt, part: Part) -> String {
    let sections = prompt.sections.iter().filter(|section| section.part == part);
    let texts: Vec<String> = sections.map(|section| section_text(prompt, section)).collect();
    texts.join(prompt.separator.text())
}

fn section_text(prompt: &Prompt, section: &Section) -> String {
    let heading =
        section.heading.map_or(String::new(), |heading| format!("## {}\n\n", heading.text(&prompt.origins)));
    let blocks: Vec<String> = section.blocks.iter().map(|block| block.text(&prompt.origins)).collect();
    heading + &blocks.join(prompt.separator.text())
}

pub(crate) type Element = (String, Option<(String, String)>, String);

/// Returns the items of the model's context: their kinds, names and texts.
pub(crate) fn context_items(prompt: &Prompt) -> Vec<Element> {
    let mut items = Vec::new();
    for section in prompt.sections.iter().filter(|section| section.part == Part::Context) {
        let artifact = |name: &str, text: String| {
            ("artifact".to_owned(), Some(("name".to_owned(), name.to_owned())), text)
        };
        if section.heading.is_some() {
            items.push(artifact(&section.name, section_text(prompt, section)));
            continue;
        }
        for block in &section.blocks {
            let text = block.text(&prompt.origins);
            items.push(match block.document {
                Some((kind, name)) => {
                    let name = name.text(&prompt.origins).to_owned();
                    (kind.name().to_owned(), Some((kind.attribute().to_owned(), name)), text)
                }
                None => artifact(&block.name, text),
            });
        }
    }
    items
}

/// Returns for each item of [`context`] the section that it represents; nothing for a single block.
pub(crate) fn context_sections(prompt: &Prompt) -> Vec<Vec<&Section>> {
    let mut items = Vec::new();
    for section in prompt.sections.iter().filter(|section| section.part == Part::Context) {
        if section.heading.is_some() {
            items.push(vec![section]);
        } else {
            items.extend(section.blocks.iter().map(|_| Vec::new()));
        }
    }
    items
}

/// Checks the text of an element that contains these sections or a single block. A text alone in its element
/// is unchanged; texts that share an element can be distinguished.
pub(crate) fn read_element(
    scenario: &Scenario,
    prompt: &Prompt,
    sections: &[&Section],
    wanted: &str,
    text: &str,
) -> Result<(), TestCaseError> {
    let headed = prompt.sections.iter().any(|section| section.heading.is_some());
    if sections.is_empty() || (text == wanted && !headed && prompt.separator == SectionSeparator::Blank) {
        prop_assert_eq!(text, wanted);
        return Ok(());
    }
    read_as_model(scenario, prompt, sections, text)
}

pub(crate) fn read_xml_element(node: roxmltree::Node<'_, '_>) -> Element {
    let attribute = node.attributes().next().map(|a| (a.name().to_owned(), a.value().to_owned()));
    let text =
        node.children().map(|inside| if inside.is_text() { inside.text().unwrap_or_default() } else { "?" });
    let text: String = text.collect();
    let is_crlf = node.attribute("eol") == Some("crlf");
    let text = if is_crlf { text.replace('\n', "\r\n") } else { text };
    (node.tag_name().name().to_owned(), attribute, text)
}

/// Returns the kind, the name and the text of each element of a block: the whole block, or its project files.
fn elements<'p>(prompt: &'p Prompt, block: &'p Block) -> Vec<(&'static str, &'p str, String)> {
    let origins = &prompt.origins;
    if let Some((kind, name)) = block.document {
        return vec![(kind.name(), name.text(origins), block.text(origins))];
    }
    let files = block.supplied.iter().filter_map(|supplied| {
        let pieces = &block.pieces[supplied.pieces.clone()];
        let text = pieces.iter().map(|piece| piece.text(origins)).collect();
        Some(("file", supplied.path?.text(origins), text))
    });
    files.collect()
}

/// Returns a block with a mark in place of each file that has its own element.
fn block_with_opaque_files(prompt: &Prompt, block: &Block) -> String {
    let text = |range: std::ops::Range<usize>| -> String {
        block.pieces[range].iter().map(|piece| piece.text(&prompt.origins)).collect()
    };
    let mut shown = String::new();
    let mut next = 0;
    for supplied in block.supplied.iter().filter(|supplied| supplied.path.is_some()) {
        shown += &text(next..supplied.pieces.start);
        shown.push(OPAQUE);
        next = supplied.pieces.end;
    }
    shown + &text(next..block.pieces.len())
}

/// Reads Markdown and compares the result with `sections` of the model.
pub(crate) fn read_as_model(
    scenario: &Scenario,
    prompt: &Prompt,
    sections: &[&Section],
    text: &str,
) -> Result<(), TestCaseError> {
    let blocks = || sections.iter().flat_map(|section| &section.blocks);
    let names: Vec<String> = prompt
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .flat_map(|block| {
            block.supplied.iter().map(|supplied| supplied.name(block, &prompt.origins).to_string())
        })
        .collect();
    let read = markdown::split_tags(text, &names);
    let mut documents = read.iter().filter_map(|bit| match bit {
        Read::Document { kind, name, content } => Some((kind, name, content)),
        _ => None,
    });
    for (kind, name, wanted) in blocks().flat_map(|block| elements(prompt, block)) {
        let Some((read_kind, read_name, content)) = documents.next() else {
            return Err(TestCaseError::fail(format!("a document is not found in {text:?}")));
        };
        prop_assert_eq!((read_kind.as_str(), read_name.as_str()), (kind, name));
        prop_assert!(*content == wanted || content.strip_suffix('\n') == Some(&wanted), "{:?}", content);
    }
    prop_assert!(documents.next().is_none(), "more documents than there are in {text:?}");
    let shown = |block: &Block| match block.document {
        Some(_) => OPAQUE.to_string(),
        None => block_with_opaque_files(prompt, block),
    };
    match scenario.kind {
        Kind::Rules => {
            let pieces = if text.is_empty() { Vec::new() } else { markdown::split_pieces(read) };
            prop_assert_eq!(pieces.len(), blocks().count(), "pieces of {:?}", text);
            for (piece, block) in pieces.iter().zip(blocks()) {
                let wanted = shown(block);
                prop_assert!(
                    markdown::matches_model(&markdown::join_bits(piece), &wanted),
                    "{piece:?} is not {wanted:?}"
                );
                prop_assert!(!markdown::has_rule(piece), "a rule in {piece:?}");
            }
        }
        Kind::Headings => {
            let mut read = markdown::split_sections(read).into_iter();
            prop_assert_eq!(read.next(), Some((None, Vec::new())), "before the first heading of {:?}", text);
            let mut wanted = sections.iter().peekable();
            for (heading, bits) in read {
                let Some(section) = wanted.next() else {
                    return Err(TestCaseError::fail(format!("{heading:?} is no section in {text:?}")));
                };
                prop_assert_eq!(
                    heading.as_deref(),
                    section.heading.map(|heading| heading.text(&prompt.origins))
                );
                let blocks: Vec<String> = section.blocks.iter().map(shown).collect();
                let end = if wanted.peek().is_some() { "\n\n" } else { "" };
                let body = format!("\n{}{end}", blocks.join("\n\n"));
                prop_assert!(
                    markdown::matches_model(&markdown::join_bits(&bits), &body),
                    "{bits:?} is not {body:?}"
                );
            }
            prop_assert!(wanted.next().is_none(), "a section is not found in {text:?}");
        }
        Kind::Free | Kind::Unified => {
            let blocks: Vec<String> = blocks().map(shown).collect();
            let wanted = blocks.join("\n\n");
            prop_assert!(
                markdown::matches_model(&markdown::join_bits(&read), &wanted),
                "{read:?} is not {wanted:?}"
            );
        }
    }
    Ok(())
}

/// Checks whether a text consists only of separators, tags and notices.
pub(crate) fn is_engine_text(text: &str, prompt: &Prompt, format: PromptFormat) -> bool {
    let fixed = match format {
        PromptFormat::Markdown => "\n|`|---|## |Context not provided|\">",
        PromptFormat::Xml => concat!(
            "\n|`|---|## |Context not provided|<prompt>|</prompt>|<system_prompt>|</system_prompt>|<context>|",
            "</context>|<instructions>|</instructions>|<file path=\"|</file>|<artifact name=\"|</artifact>|",
            "<thought name=\"|</thought>|\">|\" eol=\"crlf\">|<![CDATA[|]]>",
        ),
        PromptFormat::Json => concat!(
            "\\n|`|---|## |Context not provided|{\"system_prompt\":\"|\",\"context\":[|{\"type\":\"file\",\"name\":\"|",
            "{\"type\":\"artifact\",\"name\":\"|{\"type\":\"thought\",\"name\":\"|\",\"content\":\"|\"}|,|",
            "],\"instructions\":\"",
        ),
    };
    let fixed: Vec<&str> = fixed.split('|').collect();
    let blocks = || prompt.sections.iter().flat_map(|section| &section.blocks);
    let names = blocks()
        .map(|block| block.name.as_str())
        .chain(prompt.sections.iter().map(|section| section.name.as_str()));
    let names: Vec<&str> = names.filter(|_| format != PromptFormat::Markdown).collect();
    let tags = blocks()
        .flat_map(|block| block.supplied.iter().map(|supplied| supplied.name(block, &prompt.origins)));
    let tags: Vec<&str> = tags.chain(["file", "artifact", "thought"]).collect();
    let mut rest = text;
    while !rest.is_empty() {
        let word = fixed.iter().filter_map(|word| rest.strip_prefix(word)).min_by_key(|rest| rest.len());
        // A name ends at its closing quote.
        let name =
            || names.iter().find_map(|name| rest.strip_prefix(name).filter(|rest| rest.starts_with('"')));
        match word.or_else(|| strip_tag(rest, &tags)).or_else(name) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

/// Returns the text after an opening or closing tag with one of these names, numbered or not.
fn strip_tag<'t>(text: &'t str, names: &[&str]) -> Option<&'t str> {
    let inside = text.strip_prefix('<')?;
    let inside = inside.strip_prefix('/').unwrap_or(inside);
    names.iter().find_map(|name| {
        let rest = inside.strip_prefix(name)?;
        let rest = rest
            .strip_prefix('-')
            .map_or(rest, |number| number.trim_start_matches(|c: char| c.is_ascii_digit()));
        let attribute = [" path=\"", " name=\""].iter().find_map(|attribute| rest.strip_prefix(attribute));
        attribute.or_else(|| rest.strip_prefix('>'))
    })
}
