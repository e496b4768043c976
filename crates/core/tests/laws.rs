//! What must hold for any text that people, files and agents supply.
//!
//! 20,000 cases of each law; a million with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/hostile.rs"]
mod hostile;
#[path = "support/markdown.rs"]
mod markdown;
#[path = "support/spans.rs"]
mod spans;
#[path = "support/world.rs"]
mod world;

use std::collections::BTreeMap;

use callsheet_core::prompt::{From, Part, Section};
use callsheet_core::render::{Api, Rendered, render};
use callsheet_core::template::{Node, Notation, Template};
use callsheet_core::{
    Composed, DataNotation, Format, Prompt, PromptBuilder, Recorder, Request, Root, Snapshot, SourceId, Text,
    compose, read_request,
};
use hostile::{HOSTILE, text};
use markdown::{Bit as Read, OPAQUE};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use world::{Bit, Kind, OWN, Scenario, World, scenario};

fn config() -> ProptestConfig {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 1_000_000 } else { 20_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const FORMATS: [(Format, Option<Api>); 4] = [
    (Format::Markdown, None),
    (Format::Xml, None),
    (Format::Json, None),
    (Format::Json, Some(Api::Anthropic)),
];

fn composed(scenario: &Scenario) -> Composed {
    compose(&scenario.request(), &scenario.world()).unwrap_or_else(|failure| panic!("{failure}"))
}

/// `None` where the format cannot carry the prompt.
fn rendered(prompt: &Prompt, format: Format, api: Option<Api>) -> Option<Rendered> {
    let mut prompt = prompt.clone();
    prompt.model = Some("m".into());
    render(&prompt, format, api).ok()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn values_come_out_verbatim(scenario in scenario()) {
        let composed = composed(&scenario);
        let prompt = &composed.prompt;
        if matches!(scenario.kind, Kind::Rules | Kind::Headings) {
            let role = prompt.sections.iter().find(|section| section.name == "role");
            let role = role.map_or(String::new(), |role| role.blocks[0].text(&prompt.origins));
            let wanted = filled(&scenario, &scenario.role, true);
            prop_assert_eq!(role, if wanted.trim().is_empty() { String::new() } else { wanted });
        }
        for (format, api) in FORMATS {
            let Some(rendered) = rendered(prompt, format, api) else { continue };
            let mut seen: Vec<(&From, String)> = Vec::new();
            for span in &rendered.spans {
                let Some(piece) = span.piece else { continue };
                let origin = &prompt.origins[piece.origin as usize];
                let read = spans::undo(span.encoding, &rendered.text[span.start..span.end]);
                seen.push((&origin.from, read.unwrap_or_default()));
            }
            for (from, read) in &seen {
                let whole = match from {
                    From::Value(key) => scenario.named_values().find(|(name, _)| name == key).map(|(_, v)| v.to_owned()),
                    From::Request(field) if field == "instructions" => scenario.request().instructions.map(|text| text.to_string()),
                    From::Document(_) | From::Request(_) | From::Derived { .. } => None,
                    From::Source(_) | From::Default { .. } | From::Engine => None,
                };
                if let Some(whole) = whole {
                    prop_assert_eq!(read, &whole);
                }
            }
            // Every text that was supplied is there, once for each time it was asked for.
            let shown = |wanted: &str| seen.iter().filter(|(_, read)| read == wanted).count();
            let slots = slots(&scenario);
            for (name, value) in scenario.named_values().filter(|(_, value)| !value.trim().is_empty()) {
                let asked = slots.iter().filter(|slot| **slot == name).count();
                prop_assert!(shown(value) >= asked, "{name} is not there {asked} times in {format:?}");
            }
            let carried = scenario.context.iter().filter(|(_, text, data)| !data && !text.trim().is_empty()).map(|(_, text, _)| text);
            let carried = carried.chain(scenario.documents.iter().map(|(_, _, content)| content));
            for text in carried.filter(|text| !text.is_empty()) {
                prop_assert!(shown(text) > 0, "{text:?} is not in {format:?}");
            }
        }
    }

    #[test]
    fn nothing_is_parsed_a_second_time(scenario in scenario()) {
        let asked = |scenario: &Scenario| {
            let world = scenario.world();
            compose(&scenario.request(), &world).unwrap_or_else(|failure| panic!("{failure}"));
            world.asked()
        };
        prop_assert_eq!(asked(&scenario), asked(&scenario.tamed()));
    }

    #[test]
    fn an_xml_reader_recovers_the_model(scenario in scenario()) {
        let prompt = composed(&scenario).prompt;
        let misfit = texts(&prompt).any(|text| text.contains(|c| !is_xml(c)));
        let Some(rendered) = rendered(&prompt, Format::Xml, None) else {
            prop_assert!(misfit, "refused without a reason");
            return Ok(());
        };
        prop_assert!(!misfit, "what XML cannot carry was not refused");
        let document = roxmltree::Document::parse(&rendered.text);
        prop_assert!(document.is_ok(), "{:?}\n{}", document.err(), rendered.text);
        let document = document.unwrap();
        let root = document.root_element();
        let mut wanted = vec![("system_prompt".to_owned(), None, joined(&prompt, Part::System))];
        let context: Vec<_> = context(&prompt);
        let has_context = !context.is_empty();
        wanted.extend(context);
        wanted.push(("instructions".to_owned(), None, joined(&prompt, Part::Instructions)));
        let mut read = Vec::new();
        for part in root.children() {
            if part.tag_name().name() == "context" {
                prop_assert!(has_context && part.children().all(|item| item.is_element()));
                read.extend(part.children().map(element));
            } else {
                read.push(element(part));
            }
        }
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn a_json_reader_recovers_the_model(scenario in scenario()) {
        let prompt = composed(&scenario).prompt;
        let text = rendered(&prompt, Format::Json, None).unwrap().text;
        let items = context(&prompt).into_iter().map(|(kind, name, content)| {
            json!({ "type": kind, "name": name.map(|(_, name)| name), "content": content })
        });
        let wanted = json!({
            "system_prompt": joined(&prompt, Part::System),
            "context": items.collect::<Vec<_>>(),
            "instructions": joined(&prompt, Part::Instructions),
        });
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wanted);
    }

    #[test]
    fn a_markdown_reader_recovers_the_model(scenario in scenario()) {
        let prompt = composed(&scenario).prompt;
        let text = rendered(&prompt, Format::Markdown, None).unwrap().text;
        let sections: Vec<&Section> = prompt.sections.iter().collect();
        read_as_model(&scenario, &prompt, &sections, &text)?;
    }

    #[test]
    fn a_reader_of_a_request_body_recovers_the_model(scenario in scenario()) {
        let prompt = composed(&scenario).prompt;
        let Some(body) = rendered(&prompt, Format::Json, Some(Api::Anthropic)) else {
            prop_assert!(prompt.sections.iter().all(|section| section.part == Part::System));
            return Ok(());
        };
        let body: Value = serde_json::from_str(&body.text).unwrap();
        let (system, user) = prompt.sections.iter().partition::<Vec<_>, _>(|section| section.part == Part::System);
        let text = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or_default();
        read_as_model(&scenario, &prompt, &system, text("/system"))?;
        read_as_model(&scenario, &prompt, &user, text("/messages/0/content"))?;
    }

    #[test]
    fn every_byte_has_its_origin(scenario in scenario()) {
        let prompt = composed(&scenario).prompt;
        for (format, api) in FORMATS {
            let Some(rendered) = rendered(&prompt, format, api) else { continue };
            let checked = spans::check(&prompt, &rendered);
            prop_assert!(checked.is_ok(), "{:?} of {format:?}", checked.err());
            if api.is_some() {
                continue;
            }
            for span in rendered.spans.iter().filter(|span| span.piece.is_none()) {
                let text = &rendered.text[span.start..span.end];
                prop_assert!(is_engine(text, &prompt, format), "{text:?} is not the engine's in {format:?}");
            }
        }
    }

    #[test]
    fn a_snapshot_replays(scenario in scenario()) {
        let (request, world) = (scenario.request(), scenario.world());
        let recorder = Recorder::new(&world);
        let first = compose(&request, &recorder).unwrap();
        let snapshot = recorder.finish();
        let stored: Snapshot = serde_json::from_str(&json!(snapshot).to_string()).unwrap();
        prop_assert_eq!(&stored, &snapshot);
        for sources in [&snapshot, &stored] {
            let again = compose(&request, sources).unwrap();
            prop_assert_eq!(&again, &first);
            let format = first.prompt.format;
            prop_assert_eq!(rendered(&again.prompt, format, None), rendered(&first.prompt, format, None));
        }
    }

    #[test]
    fn the_order_of_keys_does_not_matter(scenario in scenario(), seed in any::<u64>()) {
        let request = scenario.request();
        let mut value = json!(request);
        shuffle(&mut value, seed);
        if let Some(values) = value.get_mut("values") {
            shuffle(values, seed.rotate_left(7));
        }
        let text = Text::from(value.to_string());
        let again = read_request("shuffled", &text, DataNotation::Json).unwrap();
        prop_assert_eq!(&again, &request);
        prop_assert_eq!(compose(&again, &scenario.world()).unwrap(), composed(&scenario));
    }

    #[test]
    fn the_order_of_calls_does_not_matter(
        texts in prop::collection::vec(text(), 5),
        order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle(),
    ) {
        let mut world = World::default();
        world.put(Root::User, "templates/identity/guide.md", Text::fixed("For {{a}}, {{b}}.\n"));
        let built = |order: &[usize]| {
            let mut builder = PromptBuilder::new(&world);
            for call in order {
                match call {
                    0 => {
                        let values: BTreeMap<String, Text> =
                            [("a", 0), ("b", 1)].map(|(name, at)| (name.to_owned(), texts[at].as_str().into())).into();
                        builder.set_identity("guide", values);
                    }
                    1 => {
                        builder.set_tools(vec![json!({ "name": texts[2] })]);
                    }
                    2 => {
                        builder.set_missing(callsheet_core::request::MissingPolicy::Empty);
                    }
                    // The blocks of one layer stand in the order of their calls.
                    3 => {
                        builder.add_context("upstream", texts[3].as_str()).add_context("task", texts[4].as_str());
                    }
                    _ => {
                        builder.set_layout(Default::default());
                    }
                }
            }
            (builder.build().unwrap(), builder.build().unwrap())
        };
        let (first, again) = built(&order);
        prop_assert_eq!(&first, &again);
        prop_assert_eq!(first, built(&[0, 1, 2, 3, 4]).0);
    }

    #[test]
    fn a_template_is_its_text_and_its_holes(source in text(), more in text(), brackets in any::<bool>()) {
        let notation = if brackets { Notation::Brackets } else { Notation::Braces };
        let id = SourceId::new(Root::User, "x.md").unwrap();
        let source = source + &more;
        let Ok(template) = Template::parse(id.clone(), source.as_str().into(), notation) else {
            prop_assert!(has_front(&source), "only a header can be wrong");
            return Ok(());
        };
        in_order(&template.nodes, source.len())?;
        in_order(&Template::parse_extension(id, source.as_str().into()).nodes, source.len())?;
        let opener = if brackets { "[[" } else { "{{" };
        if !source.contains(opener) && !has_front(&source) {
            let text: String = template.nodes.iter().map(|node| match node {
                Node::Text(span) => span.of(&source),
                _ => "a hole",
            }).collect();
            let body = source.strip_prefix('\u{feff}').unwrap_or(&source);
            prop_assert_eq!(text, body.trim_start_matches(['\n', '\r']).trim_end().replace("\r\n", "\n"));
        }
    }

    #[test]
    fn a_cap_cuts_at_a_line_end(
        blocks in prop::collection::vec(text(), 0..3),
        documents in prop::collection::vec(text(), 0..3),
        cap in 0..60_usize,
    ) {
        let mut world = World::default();
        let recipe = format!(
            "format = 'markdown'\n[[section]]\nname = 'context'\npart = 'context'\nmax_bytes = {cap}\n\
             blocks = [{{ context = true }}, {{ documents = ['file'] }}]\n"
        );
        world.put(Root::User, "recipes/capped.toml", recipe);
        world.put(Root::User, "templates/shared/cut-notice.md", Text::fixed("left out: {{bytes}}"));
        let context: Vec<Value> = blocks.iter().map(|text| json!({ "name": "x", "text": text })).collect();
        let files: Vec<Value> = documents.iter().map(|text| json!({ "name": "x", "content": text })).collect();
        let request = json!({ "recipe": "capped", "context": context, "documents": files });
        let request: Request = serde_json::from_value(request).unwrap();
        let prompt = compose(&request, &world).unwrap().prompt;
        let read = prompt.sections.first().map_or(&[][..], |section| &section.blocks);
        let read: Vec<String> = read.iter().map(|block| block.text(&prompt.origins)).collect();
        // A blank block is none; a blank document is one.
        let blocks = blocks.iter().filter(|text| !text.trim().is_empty());
        prop_assert_eq!(read, capped(blocks.chain(&documents), cap));
    }
}

/// What is left of `texts` in a section of at most `cap` bytes, and the notice.
fn capped<'t>(texts: impl Iterator<Item = &'t String>, cap: usize) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let (mut room, mut rest) = (cap, 0);
    for text in texts {
        if text.len() <= room {
            room -= text.len();
            kept.push(text.clone());
            continue;
        }
        let mut fitting = 0;
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            if fitting + line.len() > room {
                break;
            }
            fitting += line.len();
        }
        kept.extend((fitting > 0).then(|| text[..fitting].to_owned()));
        rest += text.len() - fitting;
        room = 0;
    }
    if rest > 0 {
        kept.push(format!("left out: {rest}"));
    }
    kept
}

#[test]
fn half_of_the_texts_are_hostile() {
    let mut runner = TestRunner::deterministic();
    let texts: Vec<String> = (0..2000).map(|_| text().new_tree(&mut runner).unwrap().current()).collect();
    let hostile =
        texts.iter().filter(|text| HOSTILE.iter().any(|part| part.len() > 2 && text.contains(part)));
    let share = hostile.count() * 100 / texts.len();
    assert!(share > 50, "only {share} of 100 texts hold something hostile");
}

/// What a template of the scenario says once its holes are filled.
fn filled(scenario: &Scenario, bits: &[Bit], outer: bool) -> String {
    let mut parts: Vec<(bool, String)> = bits
        .iter()
        .map(|bit| match bit {
            Bit::Own(own) => (true, OWN[*own].to_owned()),
            Bit::Slot(slot) => (false, scenario.values[*slot].clone()),
            Bit::Fragment if outer => (false, filled(scenario, &scenario.fragment, false)),
            Bit::Fragment | Bit::Special(_) => (true, String::new()),
        })
        .collect();
    for part in &mut parts {
        if !part.0 {
            break;
        }
        part.1 = part.1.trim_start_matches('\n').to_owned();
        if !part.1.is_empty() {
            break;
        }
    }
    for part in parts.iter_mut().rev() {
        if !part.0 {
            break;
        }
        part.1 = part.1.trim_end().to_owned();
        if !part.1.is_empty() {
            break;
        }
    }
    parts.into_iter().map(|(_, text)| text).collect()
}

/// The slots that the scenario's template asks for, those of its fragment too.
fn slots(scenario: &Scenario) -> Vec<&'static str> {
    let of = |bits: &[Bit]| -> Vec<&'static str> {
        bits.iter()
            .filter_map(|bit| if let Bit::Slot(slot) = bit { Some(world::SLOTS[*slot]) } else { None })
            .collect()
    };
    let mut slots = of(&scenario.role);
    for _ in scenario.role.iter().filter(|bit| matches!(bit, Bit::Fragment)) {
        slots.extend(of(&scenario.fragment));
    }
    slots
}

fn texts(prompt: &Prompt) -> impl Iterator<Item = &str> {
    let blocks = prompt.sections.iter().flat_map(|section| &section.blocks);
    blocks
        .flat_map(|block| block.pieces.iter().copied().chain(block.document.map(|(_, name)| name)))
        .map(|piece| piece.text(&prompt.origins))
}

/// The characters of XML 1.0.
fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// A part of the model as one text.
fn joined(prompt: &Prompt, part: Part) -> String {
    let sections = prompt.sections.iter().filter(|section| section.part == part);
    let texts: Vec<String> = sections.map(|section| body(prompt, section)).collect();
    texts.join(prompt.separator.text())
}

fn body(prompt: &Prompt, section: &Section) -> String {
    let heading =
        section.heading.map_or(String::new(), |heading| format!("## {}\n\n", heading.text(&prompt.origins)));
    let blocks: Vec<String> = section.blocks.iter().map(|block| block.text(&prompt.origins)).collect();
    heading + &blocks.join(prompt.separator.text())
}

type Element = (String, Option<(String, String)>, String);

/// The items of the model's context: what they are, how they are called, what they hold.
fn context(prompt: &Prompt) -> Vec<Element> {
    let mut items = Vec::new();
    for section in prompt.sections.iter().filter(|section| section.part == Part::Context) {
        let artifact = |name: &str, text: String| {
            ("artifact".to_owned(), Some(("name".to_owned(), name.to_owned())), text)
        };
        if section.heading.is_some() {
            items.push(artifact(&section.name, body(prompt, section)));
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

fn element(node: roxmltree::Node<'_, '_>) -> Element {
    let attribute = node.attributes().next().map(|a| (a.name().to_owned(), a.value().to_owned()));
    let text =
        node.children().map(|inside| if inside.is_text() { inside.text().unwrap_or_default() } else { "?" });
    (node.tag_name().name().to_owned(), attribute, text.collect())
}

/// Reads Markdown and compares what it finds with `sections` of the model.
fn read_as_model(
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
        .flat_map(|block| block.supplied.iter().map(|supplied| supplied.name.clone()))
        .collect();
    let read = markdown::bits(text, &names);
    let mut documents = read.iter().filter_map(|bit| match bit {
        Read::Document { kind, name, content } => Some((kind, name, content)),
        _ => None,
    });
    for block in blocks() {
        let Some((kind, name)) = block.document else { continue };
        let wanted = block.text(&prompt.origins);
        let Some((read_kind, read_name, content)) = documents.next() else {
            return Err(TestCaseError::fail(format!("a document is not found in {text:?}")));
        };
        prop_assert_eq!((read_kind.as_str(), read_name.as_str()), (kind.name(), name.text(&prompt.origins)));
        prop_assert!(*content == wanted || content.strip_suffix('\n') == Some(&wanted), "{:?}", content);
    }
    prop_assert!(documents.next().is_none(), "more documents than there are in {text:?}");
    let shown = |block: &callsheet_core::prompt::Block| match block.document {
        Some(_) => OPAQUE.to_string(),
        None => block.text(&prompt.origins),
    };
    match scenario.kind {
        Kind::Rules => {
            let pieces = if text.is_empty() { Vec::new() } else { markdown::pieces(read) };
            prop_assert_eq!(pieces.len(), blocks().count(), "pieces of {:?}", text);
            for (piece, block) in pieces.iter().zip(blocks()) {
                let wanted = shown(block);
                prop_assert!(markdown::same(&markdown::flat(piece), &wanted), "{piece:?} is not {wanted:?}");
                prop_assert!(!markdown::holds_rule(piece), "a rule in {piece:?}");
            }
        }
        Kind::Headings => {
            let mut read = markdown::sections(read).into_iter();
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
                prop_assert!(markdown::same(&markdown::flat(&bits), &body), "{bits:?} is not {body:?}");
            }
            prop_assert!(wanted.next().is_none(), "a section is not found in {text:?}");
        }
        Kind::Free | Kind::Unified => {
            let blocks: Vec<String> = blocks().map(shown).collect();
            let wanted = blocks.join("\n\n");
            prop_assert!(markdown::same(&markdown::flat(&read), &wanted), "{read:?} is not {wanted:?}");
        }
    }
    Ok(())
}

/// Whether a text consists of nothing but separators, tags and notices.
fn is_engine(text: &str, prompt: &Prompt, format: Format) -> bool {
    let fixed: &[&str] = match format {
        Format::Markdown => &[
            "\n",
            "---",
            "## ",
            "<file path=\"",
            "<artifact name=\"",
            "<thought name=\"",
            "\">",
            "Context not provided",
        ],
        Format::Xml => &[
            "\n",
            "---",
            "## ",
            "<prompt>",
            "</prompt>",
            "<system_prompt>",
            "</system_prompt>",
            "<context>",
            "</context>",
            "<instructions>",
            "</instructions>",
            "<file path=\"",
            "</file>",
            "<artifact name=\"",
            "</artifact>",
            "<thought name=\"",
            "</thought>",
            "\">",
            "<![CDATA[",
            "]]>",
            "Context not provided",
        ],
        Format::Json => &[
            "\\n",
            "---",
            "## ",
            "{\"system_prompt\":\"",
            "\",\"context\":[",
            "{\"type\":\"file\",\"name\":\"",
            "{\"type\":\"artifact\",\"name\":\"",
            "{\"type\":\"thought\",\"name\":\"",
            "\",\"content\":\"",
            "\"}",
            "},{",
            "],\"instructions\":\"",
            ",",
            "\"}",
            "Context not provided",
        ],
    };
    let blocks = || prompt.sections.iter().flat_map(|section| &section.blocks);
    let names = blocks()
        .map(|block| block.name.as_str())
        .chain(prompt.sections.iter().map(|section| section.name.as_str()));
    let mut words: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
    match format {
        Format::Markdown => {}
        Format::Xml | Format::Json => words.extend(names.map(|name| format!("{name}\""))),
    }
    let tags = blocks().flat_map(|block| block.supplied.iter().map(|supplied| supplied.name.as_str()));
    let tags: Vec<&str> = tags.chain(["file", "artifact", "thought"]).collect();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(word) =
            words.iter().filter(|word| rest.starts_with(word.as_str())).max_by_key(|word| word.len())
        {
            // A name brings the quote along only to be told from other words.
            let length = if word.len() > 1 && word.ends_with('"') && !fixed.contains(&word.as_str()) {
                word.len() - 1
            } else {
                word.len()
            };
            rest = &rest[length..];
        } else if let Some(after) = tag(rest, &tags).filter(|_| format == Format::Markdown) {
            rest = after;
        } else {
            return false;
        }
    }
    true
}

/// What follows an opening or closing tag with one of these names, numbered or not.
fn tag<'t>(text: &'t str, names: &[&str]) -> Option<&'t str> {
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

/// Puts the keys of a map in another order.
fn shuffle(value: &mut Value, seed: u64) {
    let Value::Object(map) = value else { return };
    let mut entries: Vec<(String, Value)> = std::mem::take(map).into_iter().collect();
    entries.sort_by_key(|(key, _)| {
        key.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    });
    *map = entries.into_iter().collect::<Map<_, _>>();
}

fn has_front(source: &str) -> bool {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    source.lines().next().is_some_and(|line| line.trim_end() == "---")
}

/// Nodes follow one another, inside the source.
fn in_order(nodes: &[Node], end: usize) -> Result<(), TestCaseError> {
    let mut at = 0;
    for node in nodes {
        let span = match node {
            Node::Text(span) | Node::Slot(span) | Node::Fragment(span) => *span,
            Node::Include { path, at, .. } => {
                in_order(path, at.end)?;
                *at
            }
        };
        prop_assert!(at <= span.start && span.start < span.end && span.end <= end, "{nodes:?}");
        at = span.end;
    }
    Ok(())
}
