//! Tests the laws that hold for any text that people, files and agents supply.
//!
//! 20,000 cases of each law; a million with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/generated_prompts.rs"]
mod generated_prompts;
#[path = "support/hostile_texts.rs"]
mod hostile_texts;
#[path = "support/markdown.rs"]
mod markdown;
#[path = "support/prompt_model.rs"]
mod prompt_model;
#[path = "support/spans.rs"]
mod spans;

use callsheet_core::library::format::ModelApi;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::MissingPolicy;
use callsheet_core::library::recipe::Part;
use callsheet_core::library::template::{Template, TemplateNode, TemplateNotation};
use callsheet_core::prompt::{Block, Section};
use callsheet_core::render::{RenderedText, render, render_parts};
use callsheet_core::source::origin::OriginKind;
use callsheet_core::{
    Builtin, ComposedPrompt, FileFormat, Prompt, PromptBuilder, PromptFormat, Request, SharedText, Snapshot,
    SourceId, SourceRecorder, SourceRoot, compose, list_names, read_request,
};
use generated_prompts::{Bit, Kind, OWN, RecordingSources, Scenario, scenario};
use hostile_texts::{HOSTILE, text};
use prompt_model::{
    context_items, context_sections, is_engine_text, is_xml, part_text, read_as_model, read_element,
    read_xml_element, texts,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

fn config() -> ProptestConfig {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 1_000_000 } else { 20_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const FORMATS: [(PromptFormat, Option<ModelApi>); 4] = [
    (PromptFormat::Markdown, None),
    (PromptFormat::Xml, None),
    (PromptFormat::Json, None),
    (PromptFormat::Json, Some(ModelApi::Anthropic)),
];

fn compose_scenario(scenario: &Scenario) -> ComposedPrompt {
    compose(&scenario.request(), &scenario.sources()).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Renders a prompt. Returns `None` if the format cannot represent it.
fn try_render(prompt: &Prompt, format: PromptFormat, api: Option<ModelApi>) -> Option<RenderedText> {
    let mut prompt = prompt.clone();
    prompt.model = Some("m".into());
    render(&prompt, format, api).ok()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn values_are_rendered_verbatim(scenario in scenario()) {
        let composed = compose_scenario(&scenario);
        let prompt = &composed.prompt;
        if matches!(scenario.kind, Kind::Rules | Kind::Headings) {
            let role = prompt.sections.iter().find(|section| section.name == "role");
            let role = role.map_or(String::new(), |role| role.blocks[0].text(&prompt.origins));
            let wanted = fill_template(&scenario, &scenario.role, true);
            // An empty slot or fragment also removes the empty lines around it.
            let value = |slot: &str| scenario.named_values().find(|(name, _)| *name == slot).map(|(_, value)| value.trim().is_empty());
            let holds_nothing = list_slots(&scenario).any(|slot| value(slot) != Some(false))
                || fill_template(&scenario, &scenario.fragment, false).trim().is_empty();
            if holds_nothing {
                let words = |text: &str| text.split_whitespace().collect::<String>();
                prop_assert_eq!(words(&role), words(&wanted));
            } else {
                prop_assert_eq!(role, if wanted.trim().is_empty() { String::new() } else { wanted });
            }
        }
        for (format, api) in FORMATS {
            let Some(rendered) = try_render(prompt, format, api) else { continue };
            let pieces = rendered.spans.iter().filter_map(|span| {
                let from = &prompt.origins[span.piece?.origin].from;
                Some((from, spans::decode(span.encoding, &rendered.text[span.start..span.end])?))
            });
            let seen: Vec<(&OriginKind, String)> = pieces.collect();
            for (name, value) in scenario.named_values() {
                let shown = seen.iter().filter(|(from, _)| **from == OriginKind::Value(name.into()));
                prop_assert!(shown.clone().all(|(_, read)| read == value), "{name} is not {value:?} in {format:?}");
                // A blank block is omitted together with its values.
                let asked = list_slots(&scenario).filter(|slot| *slot == name).count();
                let there = !value.trim().is_empty();
                prop_assert!(!there || shown.count() >= asked, "{name} is not {asked} times in {format:?}");
            }
            let blocks = scenario.context.iter().filter(|(_, text, data)| !data && !text.trim().is_empty());
            let carried = blocks.map(|(_, text, _)| text).chain(scenario.documents.iter().map(|(_, _, text)| text));
            for text in carried.chain([&scenario.instructions()]).filter(|text| !text.trim().is_empty()) {
                prop_assert!(seen.iter().any(|(_, read)| read == text), "{text:?} is not in {format:?}");
            }
        }
    }

    #[test]
    fn values_are_not_parsed_again(scenario in scenario()) {
        let asked = |scenario: &Scenario| {
            let sources = scenario.sources();
            compose(&scenario.request(), &sources).unwrap_or_else(|failure| panic!("{failure}"));
            sources.into_requested_ids()
        };
        prop_assert_eq!(asked(&scenario), asked(&scenario.to_tamed()));
    }

    #[test]
    fn xml_reader_recovers_model(scenario in scenario()) {
        let prompt = compose_scenario(&scenario).prompt;
        let misfit = texts(&prompt).any(|text| text.contains(|c| !is_xml(c)));
        let Some(rendered) = try_render(&prompt, PromptFormat::Xml, None) else {
            prop_assert!(misfit, "refused without a reason");
            return Ok(());
        };
        prop_assert!(!misfit, "what XML cannot carry was not refused");
        let document = roxmltree::Document::parse(&rendered.text);
        prop_assert!(document.is_ok(), "{:?}\n{}", document.err(), rendered.text);
        let document = document.unwrap();
        let root = document.root_element();
        let of = |part: Part| prompt.sections.iter().filter(|section| section.part == part).collect::<Vec<_>>();
        let mut wanted = vec![("system_prompt".to_owned(), None, part_text(&prompt, Part::System))];
        let mut sections = vec![of(Part::System)];
        let context: Vec<_> = context_items(&prompt);
        let has_context = !context.is_empty();
        wanted.extend(context);
        sections.extend(context_sections(&prompt));
        wanted.push(("instructions".to_owned(), None, part_text(&prompt, Part::Instructions)));
        sections.push(of(Part::Instructions));
        let mut read = Vec::new();
        for part in root.children() {
            if part.tag_name().name() == "context" {
                prop_assert!(has_context && part.children().all(|item| item.is_element()));
                read.extend(part.children().map(read_xml_element));
            } else {
                read.push(read_xml_element(part));
            }
        }
        prop_assert_eq!(read.len(), wanted.len());
        for ((read, wanted), sections) in read.into_iter().zip(wanted).zip(sections) {
            prop_assert_eq!((read.0, read.1), (wanted.0, wanted.1));
            read_element(&scenario, &prompt, &sections, &wanted.2, &read.2)?;
        }
    }

    /// The end of a CDATA section can be assembled from several adjacent values.
    #[test]
    fn adjacent_values_do_not_close_cdata(
        values in prop::collection::vec(prop::sample::select(vec!["]", "]", "]]", ">", ">", "<", "&", "\r", "x", ""]), 6),
    ) {
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut sources = RecordingSources::default();
        let recipe = "format = 'xml'\n[[section]]\nname = 'role'\npart = 'system'\nblocks = [{ template = 'templates/x.md' }]\n";
        sources.put(SourceRoot::User, "recipes/side.toml", SharedText::from_static(recipe));
        let template: String = names.iter().map(|name| format!("{{{{{name}}}}}")).collect();
        sources.put(SourceRoot::User, "templates/x.md", template + ".");
        let given: Map<String, Value> = names.iter().zip(&values).map(|(name, value)| (name.to_string(), json!(value))).collect();
        let request: Request = serde_json::from_value(json!({ "recipe": "side", "values": given })).unwrap();
        let prompt = compose(&request, &sources).unwrap().prompt;
        let text = render(&prompt, PromptFormat::Xml, None).unwrap().text;
        let document = roxmltree::Document::parse(&text);
        prop_assert!(document.is_ok(), "{:?}\n{text}", document.err());
        let document = document.unwrap();
        let system = document.root_element().first_element_child().unwrap();
        let read: String = system.children().filter_map(|node| node.text()).collect();
        prop_assert_eq!(read, values.concat() + ".");
    }

    #[test]
    fn json_reader_recovers_model(scenario in scenario()) {
        let prompt = compose_scenario(&scenario).prompt;
        let text = try_render(&prompt, PromptFormat::Json, None).unwrap().text;
        let read: Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<&str> = read.as_object().unwrap().keys().map(String::as_str).collect();
        prop_assert_eq!(keys, ["system_prompt", "context", "instructions"]);
        for (key, part) in [("system_prompt", Part::System), ("instructions", Part::Instructions)] {
            let sections: Vec<_> = prompt.sections.iter().filter(|section| section.part == part).collect();
            read_element(&scenario, &prompt, &sections, &part_text(&prompt, part), read[key].as_str().unwrap())?;
        }
        let items = read["context"].as_array().unwrap();
        let wanted = context_items(&prompt);
        prop_assert_eq!(items.len(), wanted.len());
        for ((item, wanted), sections) in items.iter().zip(wanted).zip(context_sections(&prompt)) {
            let content = item["content"].as_str().unwrap();
            read_element(&scenario, &prompt, &sections, &wanted.2, content)?;
            let name = wanted.1.map(|(_, name)| name);
            prop_assert_eq!(item, &json!({ "type": wanted.0, "name": name, "content": content }));
        }
    }

    #[test]
    fn markdown_reader_recovers_model(scenario in scenario()) {
        let prompt = compose_scenario(&scenario).prompt;
        let text = try_render(&prompt, PromptFormat::Markdown, None).unwrap().text;
        let sections: Vec<&Section> = prompt.sections.iter().collect();
        read_as_model(&scenario, &prompt, &sections, &text)?;
    }

    #[test]
    fn request_body_reader_recovers_model(scenario in scenario()) {
        let prompt = compose_scenario(&scenario).prompt;
        let Some(body) = try_render(&prompt, PromptFormat::Json, Some(ModelApi::Anthropic)) else {
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
    fn every_byte_has_an_origin(scenario in scenario()) {
        let prompt = compose_scenario(&scenario).prompt;
        for (format, api) in FORMATS {
            let Some(rendered) = try_render(&prompt, format, api) else { continue };
            let checked = spans::check_spans(&prompt, &rendered);
            prop_assert!(checked.is_ok(), "{:?} of {format:?}", checked.err());
            // If a document shares an element with other text, its name is written as a part of its tag.
            let shares = |section: &&Section| section.heading.is_some() || section.part != Part::Context;
            let mut sharing = prompt.sections.iter().filter(shares).flat_map(|section| &section.blocks);
            let is_named = |block: &Block| {
                block.document.is_some() || block.supplied.iter().any(|supplied| supplied.path.is_some())
            };
            if api.is_some() || (format != PromptFormat::Markdown && sharing.any(is_named)) {
                continue;
            }
            for span in rendered.spans.iter().filter(|span| span.piece.is_none()) {
                let text = &rendered.text[span.start..span.end];
                prop_assert!(is_engine_text(text, &prompt, format), "{text:?} is not the engine's in {format:?}");
            }
        }
    }

    #[test]
    fn snapshot_composes_same_prompt(scenario in scenario()) {
        let (request, sources) = (scenario.request(), scenario.sources());
        let recorder = SourceRecorder::new(&sources);
        let first = compose(&request, &recorder).unwrap();
        let snapshot = recorder.finish();
        let stored: Snapshot = serde_json::from_str(&json!(snapshot).to_string()).unwrap();
        prop_assert_eq!(&stored, &snapshot);
        for sources in [&snapshot, &stored] {
            let again = compose(&request, sources).unwrap();
            prop_assert_eq!(&again, &first);
            let format = first.prompt.format;
            prop_assert_eq!(try_render(&again.prompt, format, None), try_render(&first.prompt, format, None));
        }
    }

    #[test]
    fn key_order_does_not_matter(scenario in scenario(), seed in any::<u64>()) {
        let request = scenario.request();
        let mut value = json!(request);
        shuffle(&mut value, seed);
        if let Some(values) = value.get_mut("values") {
            shuffle(values, seed.rotate_left(7));
        }
        let text = SharedText::from(value.to_string());
        let again = read_request("shuffled", &text, FileFormat::Json).unwrap();
        prop_assert_eq!(&again, &request);
        prop_assert_eq!(compose(&again, &scenario.sources()).unwrap(), compose_scenario(&scenario));
    }

    #[test]
    fn call_order_does_not_matter(
        texts in prop::collection::vec(text(), 5),
        order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle(),
    ) {
        let mut sources = RecordingSources::default();
        sources.put(SourceRoot::User, "templates/identity/guide.md", SharedText::from_static("For {{a}}, {{b}}.\n"));
        let built = |order: &[usize]| {
            let mut builder = PromptBuilder::new(&sources);
            for call in order {
                match call {
                    0 => {
                        let values = [("a", &texts[0]), ("b", &texts[1])].into_iter();
                        let values = values.map(|(name, text)| (name, text.as_str()));
                        builder.set_identity("guide", values.collect());
                    }
                    1 => {
                        builder.set_tools(vec![json!({ "name": texts[2] })]);
                    }
                    2 => {
                        builder.set_missing(MissingPolicy::Empty);
                    }
                    // The blocks of one layer are in the order of their calls.
                    3 => {
                        builder.add_context("upstream", texts[3].as_str()).add_context("task", texts[4].as_str());
                    }
                    _ => {
                        builder.set_layout(Layout::default());
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
    fn template_nodes_cover_its_source(source in text(), more in text(), brackets in any::<bool>()) {
        let notation = if brackets { TemplateNotation::Brackets } else { TemplateNotation::Braces };
        let id = SourceId::new(SourceRoot::User, "x.md").unwrap();
        let source = source + &more;
        let Ok(template) = Template::parse(id.clone(), source.as_str().into(), notation) else {
            prop_assert!(has_frontmatter(&source), "only a header can be wrong");
            return Ok(());
        };
        check_order(&template.nodes, source.len())?;
        check_order(&Template::parse_extension(id, source.as_str().into()).nodes, source.len())?;
        let opener = if brackets { "[[" } else { "{{" };
        if !source.contains(opener) && !has_frontmatter(&source) {
            let text: String = template.nodes.iter().map(|node| match node {
                TemplateNode::Text(span) => span.slice(&source),
                _ => "a hole",
            }).collect();
            let body = source.strip_prefix('\u{feff}').unwrap_or(&source);
            prop_assert_eq!(text, body.trim_start_matches(['\n', '\r']).trim_end().replace("\r\n", "\n"));
        }
    }

    #[test]
    fn capped_section_ends_at_line_end(
        blocks in prop::collection::vec(text(), 0..3),
        documents in prop::collection::vec(text(), 0..3),
        cap in 0..60_usize,
    ) {
        let mut sources = RecordingSources::default();
        let recipe = format!(
            "format = 'markdown'\n[[section]]\nname = 'context'\npart = 'context'\nmax_bytes = {cap}\n\
             blocks = [{{ context = true }}, {{ documents = ['file'] }}]\n"
        );
        sources.put(SourceRoot::User, "recipes/capped.toml", recipe);
        sources.put(SourceRoot::User, "templates/shared/cut-notice.md", SharedText::from_static("left out: {{bytes}}"));
        let context: Vec<Value> = blocks.iter().map(|text| json!({ "name": "x", "text": text })).collect();
        let files: Vec<Value> = documents.iter().map(|text| json!({ "name": "x", "content": text })).collect();
        let request = json!({ "recipe": "capped", "context": context, "documents": files });
        let request: Request = serde_json::from_value(request).unwrap();
        let prompt = compose(&request, &sources).unwrap().prompt;
        let read = prompt.sections.first().map_or(&[][..], |section| &section.blocks);
        let read: Vec<String> = read.iter().map(|block| block.text(&prompt.origins)).collect();
        // A blank block does not count; a blank document does.
        let blocks = blocks.iter().filter(|text| !text.trim().is_empty());
        prop_assert_eq!(read, cap_texts(blocks.chain(&documents), cap));
    }
}

/// Returns the texts that remain in a section of at most `cap` bytes, and the notice.
fn cap_texts<'t>(texts: impl Iterator<Item = &'t String>, cap: usize) -> Vec<String> {
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
fn generated_texts_are_mostly_hostile() {
    let mut runner = TestRunner::deterministic();
    let texts: Vec<String> = (0..2000).map(|_| text().new_tree(&mut runner).unwrap().current()).collect();
    let hostile =
        texts.iter().filter(|text| HOSTILE.iter().any(|part| part.len() > 2 && text.contains(part)));
    let share = hostile.count() * 100 / texts.len();
    assert!(share > 50, "only {share} of 100 texts hold something hostile");
}

/// The concatenated parts are the whole prompt, regardless of the text at their boundaries.
#[test]
fn parts_concatenate_to_whole_prompt() {
    let mut runner = TestRunner::deterministic();
    let mut most_parts = [0; 2];
    for _ in 0..3 {
        let scenario = scenario().new_tree(&mut runner).unwrap().current();
        let mut prompt = compose_scenario(&scenario).prompt;
        let bytes: usize =
            prompt.sections.iter().flat_map(|section| &section.blocks).map(|it| it.len()).sum();
        let sections = std::mem::take(&mut prompt.sections);
        prompt.sections =
            sections.iter().cycle().take(sections.len() * 700_000 / bytes.max(100)).cloned().collect();
        prompt.model = Some("m".into());
        for (format, api) in FORMATS {
            let mut parts: Vec<String> = Vec::new();
            let streamed = render_parts(&prompt, format, api, &mut |part| parts.push(part.to_owned()));
            match render(&prompt, format, api) {
                Ok(rendered) => {
                    assert!(parts.concat() == rendered.text, "{scenario:?}");
                    assert_eq!(streamed.unwrap(), rendered.diagnostics);
                }
                Err(failure) => {
                    assert_eq!(streamed.unwrap_err(), failure);
                    assert_eq!(parts, [""; 0]);
                }
            }
            if let Some(most) = most_parts.get_mut(format as usize) {
                *most = parts.len().max(*most);
            }
        }
    }
    let [markdown, xml] = most_parts;
    assert!(markdown > 2 && xml > 2, "so many parts were handed on: {most_parts:?}");
}

/// C3: the same request for two agents differs only in the reply and in the files that an agent loads by
/// itself.
#[test]
fn c3_agents_get_same_run_prompt() {
    let sections = |agent: &str| {
        let request = json!({
            "recipe": "run", "agent": agent, "instructions": "Go.", "read_first": ["src/lib.rs"],
            "task": { "title": "Login", "write": ["src/**"] }, "human_input": "Go on.",
        });
        let request: Request = serde_json::from_value(request).unwrap();
        let prompt = compose(&request, &Builtin).unwrap().prompt;
        let sections = prompt.sections.iter().filter(|section| section.name != "reply");
        let texts =
            sections.flat_map(|section| section.blocks.iter().map(|block| block.text(&prompt.origins)));
        texts.collect::<Vec<String>>()
    };
    let agents = list_names(&Builtin, "agents", &Layout::default());
    assert!(agents.len() > 1, "{agents:?}");
    for agent in agents {
        assert_eq!(sections(&agent), sections("base"), "{agent}");
    }
}

/// Fills the slots of a template of the scenario.
fn fill_template(scenario: &Scenario, bits: &[Bit], outer: bool) -> String {
    let mut parts: Vec<(bool, String)> = bits
        .iter()
        .map(|bit| match bit {
            Bit::Own(own) => (true, OWN[*own].to_owned()),
            Bit::Slot(slot) => (false, scenario.values[*slot].clone()),
            Bit::Fragment if outer => (false, fill_template(scenario, &scenario.fragment, false)),
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

/// Returns the slots of the scenario's template, including those of its fragment.
fn list_slots(scenario: &Scenario) -> impl Iterator<Item = &'static str> {
    let bits = scenario.role.iter().flat_map(|bit| match bit {
        Bit::Fragment => scenario.fragment.as_slice(),
        other => std::slice::from_ref(other),
    });
    bits.filter_map(
        |bit| if let Bit::Slot(slot) = bit { Some(generated_prompts::SLOTS[*slot]) } else { None },
    )
}

/// Shuffles the keys of a map.
fn shuffle(value: &mut Value, seed: u64) {
    let Value::Object(map) = value else { return };
    let mut entries: Vec<(String, Value)> = std::mem::take(map).into_iter().collect();
    entries.sort_by_key(|(key, _)| {
        key.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    });
    *map = entries.into_iter().collect::<Map<_, _>>();
}

fn has_frontmatter(source: &str) -> bool {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    source.lines().next().is_some_and(|line| line.trim_end() == "---")
}

/// Checks that the nodes are in order and inside the source.
fn check_order(nodes: &[TemplateNode], end: usize) -> Result<(), TestCaseError> {
    let mut at = 0;
    for node in nodes {
        let span = match node {
            TemplateNode::Text(span) | TemplateNode::Slot(span) | TemplateNode::Fragment(span) => *span,
            TemplateNode::Include(include) => {
                check_order(&include.path, include.at.end)?;
                include.at
            }
        };
        prop_assert!(at <= span.start && span.start < span.end && span.end <= end, "{nodes:?}");
        at = span.end;
    }
    Ok(())
}
