//! The fuzz targets of `fuzz/`, run on their stored corpus and on mutations of it. `fuzz/run` starts the
//! fuzzer itself.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use callsheet_core::library::template::{Template, TemplateNotation};
use callsheet_core::render::render;
use callsheet_core::source::origin::{Origin, OriginKind, Trust};
use callsheet_core::{Builtin, PromptFormat, Request, SourceId, SourceRoot, compose};
use serde_json::json;

use crate::requests::Dice;
use crate::targets;

const TARGETS: [&str; 4] = ["frontmatter", "template", "xml", "request"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the stored inputs of a target, ordered by name.
fn read_corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(root().join("fuzz/corpus").join(target)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Returns whether the target holds its promises on this input.
fn holds(target: &str, input: &[u8]) -> bool {
    catch_unwind(|| targets::run(target, input)).is_ok()
}

#[test]
fn corpus_holds() {
    for target in TARGETS {
        let corpus = read_corpus(target);
        assert!(corpus.len() >= 8, "{target} has {} inputs", corpus.len());
        for (path, input) in corpus {
            assert!(holds(target, &input), "{}", path.display());
        }
    }
}

/// Words that parsers react to.
const WORDS: [&str; 34] = [
    "{{",
    "}}",
    "{{a}}",
    "{{> ",
    "\\{{",
    "[[",
    "]]",
    "[[placeholder:a]]",
    "[[include:",
    "[[shared:",
    "\\[[",
    "---\n",
    "\n",
    "\r",
    "\r\n",
    ":",
    "- ",
    "\"",
    "'",
    "=",
    "]]>",
    "<![CDATA[",
    "<",
    ">",
    "&",
    "</file>",
    "## ",
    "\n\n---\n\n",
    "\0",
    "\u{feff}",
    "\u{2028}",
    "é",
    "🦀",
    "\u{1e}",
];

/// Returns an input with a few bytes dropped, doubled, changed or inserted, or with a part of another input.
fn mutate(dice: &mut Dice, corpus: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    let mut input = corpus[dice.below(corpus.len())].1.clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(input.len() + 1);
        let end = (at + dice.below(12)).min(input.len());
        match dice.below(6) {
            0 => drop(input.drain(at..end)),
            1 => {
                let copy = input[at..end].to_vec();
                drop(input.splice(at..at, copy));
            }
            2 if at < input.len() => input[at] = dice.next().to_le_bytes()[0],
            3 => {
                let other = &corpus[dice.below(corpus.len())].1;
                let from = dice.below(other.len() + 1);
                let until = (from + dice.below(40)).min(other.len());
                drop(input.splice(at..end, other[from..until].to_vec()));
            }
            _ => drop(input.splice(at..at, dice.pick(&WORDS).bytes())),
        }
    }
    input
}

#[test]
fn mutated_corpus_holds() {
    let number = if crate::is_long() { 300_000 } else { 2_000 };
    for (seed, target) in (1..).zip(TARGETS) {
        let (corpus, mut dice) = (read_corpus(target), Dice::new(seed));
        for at in 0..number {
            let input = mutate(&mut dice, &corpus);
            assert!(holds(target, &input), "{target}, mutation {at}: {:?}", String::from_utf8_lossy(&input));
        }
    }
}

/// Each judge of the targets objects to a result that is slightly wrong, and to no other.
#[test]
fn broken_promise_is_detected() {
    let holds = |judge: &(dyn Fn() + std::panic::RefUnwindSafe)| catch_unwind(judge).is_ok();
    let texts = ["say \"]]>\"", "a<b", "c & d\r", "block"];
    let request: Request = serde_json::from_value(json!({
        "recipe": "unified", "phase": "archive", "instructions": texts[0], "values": { "TASKS": "do" },
        "documents": [{ "name": texts[1], "content": texts[2] }], "context": [{ "name": "block", "text": texts[3] }],
    }))
    .unwrap();
    let prompt = compose(&request, &Builtin).unwrap().prompt;
    let rendered = render(&prompt, PromptFormat::Xml, None).unwrap();

    assert!(holds(&|| targets::reads_back(&rendered.text, texts)));
    let escaped = rendered.text.replace("]]]]><![CDATA[>", "]]>");
    assert!(!holds(&|| targets::reads_back(&escaped, texts)));
    let padded = rendered.text.replace("<instructions>", "<instructions>\n");
    assert!(!holds(&|| targets::reads_back(&padded, texts)));

    assert!(holds(&|| targets::covered(&prompt, &rendered)));
    let mut changed = rendered.clone();
    changed.text = changed.text.replacen(">block<", ">bl0ck<", 1);
    assert_ne!(changed, rendered);
    assert!(!holds(&|| targets::covered(&prompt, &changed)));
    let mut gap = rendered.clone();
    gap.spans.remove(3);
    assert!(!holds(&|| targets::covered(&prompt, &gap)));
    let mut rest = rendered;
    rest.text.push('\n');
    assert!(!holds(&|| targets::covered(&prompt, &rest)));

    assert!(holds(&|| targets::is_visible("a\nb")));
    assert!(!holds(&|| targets::is_visible("a\u{202e}b")) && !holds(&|| targets::is_visible("a\u{1b}b")));

    let text = "{{a}} and {{b}}";
    let template = Template::parse(
        SourceId::new(SourceRoot::Project, "x").unwrap(),
        text.into(),
        TemplateNotation::Braces,
    )
    .unwrap();
    assert!(holds(&|| targets::in_order(&template.nodes, text)));
    let backwards: Vec<_> = template.nodes.iter().rev().cloned().collect();
    assert!(!holds(&|| targets::in_order(&backwards, text)));
    assert!(!holds(&|| targets::in_order(&template.nodes, "{{a}}")));

    let layers: Request =
        serde_json::from_value(json!({ "recipe": "run", "instructions": "x", "values": { "a": "{{b}}" } }))
            .unwrap();
    let mut filled = compose(&layers, &Builtin).unwrap().prompt;
    let origin =
        |text: &str| Origin { from: OriginKind::Value("a".into()), trust: Trust::Person, text: text.into() };
    filled.origins.push(origin("{{b}}"));
    assert!(holds(&|| targets::as_given(&filled, &layers)));
    filled.origins.push(origin("expanded"));
    assert!(!holds(&|| targets::as_given(&filled, &layers)));
}
