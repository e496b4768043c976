//! Tests that names and phrases of the workspace follow docs/STYLE.md.
//!
//! These tests print the figures of CONTRIBUTING.md.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The crate for tests has a vocabulary of its own.
const UNCOUNTED: [&str; 2] = ["mock", "testing"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn measured(what: &str) {
    std::io::stderr().write_all(format!("MEASURED: {what}\n").as_bytes()).unwrap();
}

fn files_below(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files_below(&path, ending, found);
        } else if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
}

/// Returns the source files of all crates that are counted.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(top().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        if !UNCOUNTED.iter().any(|name| dir.ends_with(name)) {
            files_below(&dir.join("src"), "rs", &mut files);
        }
    }
    let read = |path: PathBuf| {
        let shown = path.strip_prefix(top()).unwrap().display().to_string();
        (shown, fs::read_to_string(&path).unwrap())
    };
    files.into_iter().map(read).collect()
}

/// A struct, enum or trait: its name, and whether other modules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypeName {
    name: String,
    is_public: bool,
}

fn type_names(source: &str) -> Vec<TypeName> {
    let mut found = Vec::new();
    for line in source.lines() {
        let line = line.trim_start();
        let (is_public, rest) = match line.strip_prefix("pub") {
            Some(rest) => match rest.strip_prefix('(') {
                Some(inner) => (true, inner.split_once(") ").map_or("", |(_, rest)| rest)),
                None => (true, rest.trim_start()),
            },
            None => (false, line),
        };
        let name = ["struct ", "enum ", "trait "].iter().find_map(|keyword| rest.strip_prefix(keyword));
        let name =
            name.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""));
        if let Some(name) = name.filter(|name| name.starts_with(char::is_uppercase) && *name != "Args") {
            found.push(TypeName { name: name.to_owned(), is_public });
        }
    }
    found
}

fn is_one_word(name: &str) -> bool {
    let chars: Vec<char> = name.chars().collect();
    !chars.windows(2).any(|pair| !pair[0].is_uppercase() && pair[1].is_uppercase())
}

/// Returns names that are defined more than once, each with its count.
fn repeated(names: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.as_str()).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > 1);
    counts
}

/// Returns the types that the glossary names: words in backticks.
fn glossary(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn public_type_names_are_unique() {
    let all: Vec<TypeName> = sources().iter().flat_map(|(_, text)| type_names(text)).collect();
    let public: Vec<String> =
        all.iter().filter(|found| found.is_public).map(|found| found.name.clone()).collect();
    assert_eq!(repeated(&public), BTreeMap::new());
    let names: Vec<String> = all.into_iter().map(|found| found.name).collect();
    let count: usize = repeated(&names).values().sum();
    measured(&format!("{count} of {} type names are repeated", names.len()));
    assert!(count * 100 < names.len() * 3, "{:?}", repeated(&names));
}

#[test]
fn one_word_type_names_are_in_glossary() {
    let text = fs::read_to_string(top().join("docs/glossary.md")).unwrap();
    let known = glossary(&text);
    let all: Vec<TypeName> = sources().iter().flat_map(|(_, text)| type_names(text)).collect();
    let one_word: Vec<&TypeName> = all.iter().filter(|found| is_one_word(&found.name)).collect();
    let unknown: BTreeSet<&str> = one_word
        .iter()
        .filter(|found| found.is_public && !known.contains(found.name.as_str()))
        .map(|found| found.name.as_str())
        .collect();
    assert_eq!(unknown, BTreeSet::new());
    measured(&format!("{} of {} type names are one word", one_word.len(), all.len()));
    assert!(one_word.len() * 100 < all.len() * 40);
}

#[test]
fn planted_names_are_found() {
    let source =
        "pub struct Planted;\npub(crate) enum Planted {}\nstruct TwoWords<T>(T);\npub struct Args {}\n";
    let found = type_names(source);
    let name = |name: &str, is_public| TypeName { name: name.to_owned(), is_public };
    assert_eq!(found, [name("Planted", true), name("Planted", true), name("TwoWords", false)]);
    let names: Vec<String> = found.into_iter().map(|found| found.name).collect();
    assert_eq!(repeated(&names), BTreeMap::from([("Planted", 2)]));
    assert_eq!((is_one_word("Planted"), is_one_word("TwoWords")), (true, false));
    assert!(!glossary("| **Request** | `Request` | text |\n").contains("Planted"));
}
