//! Tests core as a library inside another program: shared sources, kept libraries, prompts put together by hand.
//!
//! 3,000 prompts by hand; 100,000 with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/hostile_texts.rs"]
mod hostile_texts;
#[path = "support/markdown.rs"]
#[expect(dead_code, reason = "only its marks are needed here")]
mod markdown;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::thread;

use callsheet_core::diag::Code;
use callsheet_core::library::format::ModelApi;
use callsheet_core::library::recipe::{DocumentKind, Part, SectionPriority, SectionSeparator};
use callsheet_core::prompt::{Block, OriginTable, Piece, Section, SuppliedText};
use callsheet_core::record::{Digest, Id, sha256};
use callsheet_core::render::{render, render_parts};
use callsheet_core::source::origin::{Origin, OriginKind, Trust};
use callsheet_core::{
    BadPath, Builtin, DynLibrary, Library, Listing, ListingEntry, ListingLimits, MemorySources, Prompt,
    PromptFormat, Request, SharedText, SlotValues, SourceError, SourceId, SourceRoot, Sources, UnifiedPrompt,
    compose, find_agent,
};
use hostile_texts::text;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const LIMITS: ListingLimits = ListingLimits { depth: 9, entries: 99, ignored: true };

fn id(text: &str) -> SourceId {
    text.parse().unwrap()
}

fn request(name: &str) -> Request {
    Request {
        recipe: Some("layers".into()),
        role: Some("clerk".into()),
        values: [("name", name)].into(),
        ..Request::default()
    }
}

fn own_sources() -> MemorySources {
    let mut sources = MemorySources::with_builtin();
    sources.put(SourceRoot::User, "templates/identity/clerk.md", "You are {{name}}.").unwrap();
    sources
}

const fn is_shareable<T: Send + Sync + 'static>() {}

const _: () = is_shareable::<Library<Arc<MemorySources>>>();
const _: () = is_shareable::<Library<Arc<dyn Sources + Send + Sync>>>();
const _: () = is_shareable::<Library<Builtin>>();
const _: () = is_shareable::<Request>();
const _: () = is_shareable::<Prompt>();

#[test]
fn threads_share_one_library() {
    let sources: Arc<dyn Sources + Send + Sync> = Arc::new(own_sources());
    let library = Arc::new(Library::new(sources));
    let composed = |name: String| {
        let library = library.clone();
        thread::spawn(move || {
            let request = request(&name);
            let prompt = library.compose(&request, &library.recipe(&request).unwrap()).unwrap().prompt;
            render(&prompt, PromptFormat::Markdown, None).unwrap().text
        })
    };
    let threads: Vec<_> = (0..8).map(|number| composed(format!("clerk {number}"))).collect();
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), format!("You are clerk {number}."));
    }
    // Any library will do for the other functions.
    let any: &DynLibrary<'_> = &*library;
    assert_eq!(find_agent(any, "claude", &Default::default()).unwrap().0, id("builtin:agents/claude.toml"));
}

#[test]
fn pointers_to_sources_are_sources() {
    let own = own_sources();
    let [boxed, shared]: [Box<dyn Sources>; 2] =
        [Box::new(Box::new(own.clone()) as Box<dyn Sources>), Box::new(Arc::new(own.clone()))];
    for sources in [&own as &dyn Sources, &&own, &boxed, &shared] {
        let text = sources.text(&id("user:templates/identity/clerk.md")).unwrap();
        assert_eq!(text.as_deref(), Some("You are {{name}}."));
        assert_eq!(sources.list(&id("user:."), LIMITS), own.list(&id("user:."), LIMITS));
        assert!(compose(&request("x"), sources).is_ok());
    }
}

#[test]
fn memory_sources_list_in_order() {
    let paths = ["b", "a/c/d", "a-b", "a/b", ".hidden/x", "a/.y"];
    let sources: MemorySources = paths.iter().map(|path| (id(&format!("project:{path}")), "")).collect();
    let list = |path: &str, depth, entries, ignored| {
        let dir = id(&format!("project:{path}"));
        sources.list(&dir, ListingLimits { depth, entries, ignored })
    };
    let listing = |entries: &[&str], left_out, not_entered| {
        let entry = |path: &&str| match path.strip_suffix('/') {
            Some(path) => ListingEntry { path: path.into(), dir: true },
            None => ListingEntry { path: (*path).into(), dir: false },
        };
        Ok(Some(Listing { entries: entries.iter().map(entry).collect(), left_out, not_entered }))
    };
    let all = [".hidden/", ".hidden/x", "a/", "a/.y", "a/b", "a/c/", "a/c/d", "a-b", "b"];
    assert_eq!(list(".", 9, 99, true), listing(&all, 0, 0));
    assert_eq!(list(".", 9, 2, true), listing(&all[..2], 7, 0));
    assert_eq!(list(".", 1, 99, false), listing(&["a/", "a-b", "b"], 0, 1));
    assert_eq!(list("a", 1, 99, true), listing(&[".y", "b", "c/"], 0, 1));
    assert_eq!(list("nowhere", 9, 99, true), Ok(None));
    assert_eq!(list("b", 9, 99, true), Err(SourceError::NotAFile("file")));
    assert_eq!(sources.text(&id("project:a")), Err(SourceError::NotAFile("directory")));
    assert_eq!(sources.text(&id("user:b")), Ok(None));
}

#[test]
fn memory_sources_replace_shipped_files() {
    let mut sources = MemorySources::with_builtin();
    let plan = id("builtin:recipes/layers.toml");
    assert_eq!(sources.text(&plan), Builtin.text(&plan));
    assert_eq!(sources.list(&id("builtin:recipes"), LIMITS), Builtin.list(&id("builtin:recipes"), LIMITS));
    assert_eq!(sources.insert(plan.clone(), "own"), None);
    assert_eq!(sources.text(&plan), Ok(Some("own".into())));
    assert_eq!(sources.remove(&plan), Some("own".into()));
    assert_eq!(sources.text(&plan), Builtin.text(&plan));
    assert_eq!(MemorySources::new().text(&plan), Ok(None));
}

#[test]
fn source_ids_are_parsed() {
    for text in ["builtin:a", "user:a/b", "project:.", "session:a:b"] {
        assert_eq!(id(text).to_string(), text);
    }
    let wrong = [("a", BadPath::Root), ("disk:a", BadPath::Root), ("user:", BadPath::Empty)];
    for (text, why) in
        wrong.into_iter().chain([("user:../a", BadPath::Parent), ("user:/a", BadPath::Absolute)])
    {
        assert_eq!(text.parse::<SourceId>(), Err(why), "{text}");
    }
}

#[test]
fn ids_are_keys_of_maps() {
    let run = Id::parse("0190a5b8-1111-7000-8000-000000000001").unwrap();
    let known = HashMap::from([(run.clone(), id("user:a"))]);
    assert_eq!(known.get(&run), Some(&id("user:a")));
    let digests: HashSet<Digest> = [sha256(&[b"a"]), sha256(&[b"a"]), sha256(&[b"b"])].into();
    assert_eq!(digests.len(), 2);
    // A text is found by its characters, however it is stored.
    let texts: HashSet<SharedText> = ["a", "b"].map(SharedText::from).into();
    assert!(texts.contains("a") && !texts.contains("c"));
}

#[test]
fn values_come_from_pairs_and_maps() {
    let wanted = SlotValues::from([("a", "1"), ("b", "2")]);
    let owned = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())];
    let map = BTreeMap::from(owned.clone());
    assert_eq!(SlotValues::from(owned.to_vec()), wanted);
    assert_eq!(map.iter().collect::<SlotValues>(), wanted);
    assert_eq!(SlotValues::from(map), wanted);
    assert_eq!(HashMap::from(owned).into_iter().collect::<SlotValues>(), wanted);
    let mut extended = SlotValues::from([("a", "0")]);
    extended.extend([("b", "2"), ("a", "1")]);
    assert_eq!(extended, wanted);
}

fn config() -> ProptestConfig {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 100_000 } else { 3_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const TEXTS: usize = 4;

/// A piece that mostly fits, by numbers that [`make_piece`] fits to the texts.
type Draft = (bool, u32, usize, usize);

fn draft() -> impl Strategy<Value = Draft> {
    let far = prop_oneof![8 => 0_usize..40, 1 => Just(usize::MAX)];
    let origin = prop_oneof![8 => 0..TEXTS as u32 + 1, 1 => Just(u32::MAX)];
    (prop::bool::weighted(0.985), origin, far.clone(), far)
}

fn make_piece((fits, origin, start, end): Draft, texts: &[(u8, String)]) -> Piece {
    if !fits {
        return Piece { origin, start, end };
    }
    let origin = origin % TEXTS as u32;
    let text = &texts[origin as usize].1;
    let [start, end] = [start, end].map(|at| text.floor_char_boundary(at % (text.len() + 1)));
    Piece { origin, start: start.min(end), end: start.max(end) }
}

type SuppliedDraft = (bool, usize, usize, Option<String>, [bool; 2], Option<Draft>);
type BlockDraft = (String, Option<Draft>, Vec<Draft>, Vec<SuppliedDraft>);

fn supplied() -> impl Strategy<Value = SuppliedDraft> {
    let name = prop_oneof![6 => "[a-z]{1,4}", 1 => text()];
    let path = option::weighted(0.1, draft());
    (prop::bool::weighted(0.97), 0_usize..4, 0_usize..4, option::of(name), any::<[bool; 2]>(), path)
}

fn block() -> impl Strategy<Value = BlockDraft> {
    let name = prop_oneof![4 => "[a-z]{1,4}", 1 => text()];
    (name, option::weighted(0.2, draft()), vec(draft(), 0..4), vec(supplied(), 0..3))
}

fn make_block((name, document, pieces, supplied): BlockDraft, texts: &[(u8, String)]) -> Block {
    let pieces: Vec<Piece> = pieces.into_iter().map(|piece| make_piece(piece, texts)).collect();
    let mut from = 0;
    let supplied = supplied.into_iter().map(|(fits, start, length, name, [line, tagged], path)| {
        let range = match fits {
            true => (from + start).min(pieces.len())..(from + start + length).min(pieces.len()),
            false => start..length,
        };
        from = range.end;
        let path = path.map(|path| make_piece(path, texts));
        SuppliedText { pieces: range, name: name.map(Into::into), line, tagged, path }
    });
    let supplied: Vec<SuppliedText> = supplied.collect();
    Block {
        name: name.into(),
        unit: None,
        level: SectionPriority::default(),
        document: document.map(|name| (DocumentKind::File, make_piece(name, texts))),
        pieces,
        supplied,
    }
}

fn prompt() -> impl Strategy<Value = Prompt> {
    let texts = vec((0_u8..3, text()), TEXTS);
    let section = (text(), 0_usize..3, option::weighted(0.3, draft()), vec(block(), 0..3));
    (texts, vec(section, 0..4), any::<bool>()).prop_map(|(texts, sections, rule)| {
        let mut origins = OriginTable::default();
        for (kind, text) in &texts {
            let from = match kind {
                0 => OriginKind::Engine,
                1 => OriginKind::Value("key".into()),
                _ => OriginKind::Request("field".into()),
            };
            origins.push(Origin { from, trust: Trust::Person, text: text.into() });
        }
        let sections = sections.into_iter().map(|(name, part, heading, blocks)| Section {
            name,
            part: [Part::System, Part::Context, Part::Instructions][part],
            heading: heading.map(|heading| make_piece(heading, &texts)),
            blocks: blocks.into_iter().map(|block| make_block(block, &texts)).collect(),
        });
        Prompt {
            recipe: "own".into(),
            format: PromptFormat::Markdown,
            separator: if rule { SectionSeparator::Rule } else { SectionSeparator::Blank },
            sections: sections.collect(),
            origins,
            tools: Vec::new(),
            model: Some("m".into()),
            api: None,
            max_tokens: None,
            usual_max_tokens: None,
        }
    })
}

const FORMATS: [(PromptFormat, Option<ModelApi>); 6] = [
    (PromptFormat::Markdown, None),
    (PromptFormat::Xml, None),
    (PromptFormat::Json, None),
    (PromptFormat::Json, Some(ModelApi::Anthropic)),
    (PromptFormat::Json, Some(ModelApi::Openai)),
    (PromptFormat::Json, Some(ModelApi::Gemini)),
];

proptest! {
    #![proptest_config(config())]

    /// A prompt whose pieces do not fit is refused with diagnostics; any other one is rendered whole.
    #[test]
    fn prompts_by_hand_never_panic(prompt in prompt()) {
        let fits = prompt.check();
        for block in prompt.sections.iter().flat_map(|section| &section.blocks) {
            let length = block.text(&prompt.origins).len();
            prop_assert!(fits.is_err() || length == block.len());
            let names: Vec<&str> =
                block.supplied.iter().map(|supplied| supplied.name(block, &prompt.origins)).collect();
            prop_assert_eq!(names.len(), block.supplied.len());
        }
        for (format, api) in FORMATS {
            let rendered = render(&prompt, format, api);
            let mut parts = String::new();
            let streamed = render_parts(&prompt, format, api, &mut |part| parts.push_str(part));
            let Ok(rendered) = rendered else {
                let wrong = rendered.unwrap_err();
                prop_assert_eq!(streamed.as_ref(), Err(&wrong));
                prop_assert!(!wrong.to_string().is_empty());
                let only_bad = wrong.0.iter().all(|diag| diag.code == Code::PromptBad);
                prop_assert_eq!(fits.as_ref().err().is_some(), only_bad, "{}", wrong);
                prop_assert_ne!((format, fits.is_ok()), (PromptFormat::Markdown, true), "{}", wrong);
                continue;
            };
            prop_assert!(fits.is_ok() && streamed.is_ok());
            prop_assert_eq!(&rendered.text, &parts);
            prop_assert_eq!(rendered.section_ranges(&prompt).len(), prompt.sections.len());
            match format {
                PromptFormat::Markdown => {}
                PromptFormat::Xml => {
                    let document = roxmltree::Document::parse(&rendered.text);
                    prop_assert!(document.is_ok(), "{:?}\n{}", document, rendered.text);
                }
                PromptFormat::Json => {
                    let json = serde_json::from_str::<serde_json::Value>(&rendered.text);
                    prop_assert!(json.is_ok(), "{:?}\n{}", json, rendered.text);
                }
            }
        }
        prop_assert_eq!(UnifiedPrompt::try_from(&prompt).is_ok(), fits.is_ok());
    }
}

/// Values are read like a map of texts, whatever their lengths, their order and their duplicates.
#[test]
fn values_deserialize_like_map() {
    let long = "x".repeat(64);
    let texts = ["", "a", "ä", "\"\\\n", "\u{1f600}", &long, &long[1..], "not a name"];
    let mut object = String::from("{");
    for (number, key) in texts.iter().chain(texts.iter().rev()).chain(&texts).enumerate() {
        let text = texts[number * 5 % texts.len()];
        let comma = if number > 0 { "," } else { "" };
        object += &format!("{comma}{}:{}", serde_json::json!(key), serde_json::json!(text));
    }
    object.push('}');
    let values: SlotValues = serde_json::from_str(&object).unwrap();
    let map: BTreeMap<SharedText, SharedText> = serde_json::from_str(&object).unwrap();
    assert_eq!(values, map.into_iter().collect());
    let request = Request { values: values.clone(), ..Request::default() };
    assert!(request.validate().unwrap_err().0.len() > 3);
    let owned: SlotValues = serde_json::from_value(serde_json::from_str(&object).unwrap()).unwrap();
    assert_eq!(owned, values);
    for wrong in ["[]", "1", "{\"a\":1}", "{\"a\":null}", "{\"a\":[]}"] {
        let said = |error: serde_json::Error| format!("{error}");
        let other =
            serde_json::from_str::<BTreeMap<SharedText, SharedText>>(wrong).map_err(said).unwrap_err();
        assert_eq!(serde_json::from_str::<SlotValues>(wrong).map_err(said), Err(other));
    }
}
