//! Names, comments, messages, help texts, data files, scripts and docs of the workspace follow docs/STYLE.md.
//!
//! The figures are in CONTRIBUTING.md; `BLESS=1` rewrites them.

#![expect(clippy::unwrap_used, reason = "tests")]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use sources::{SourceFile, crate_names, crate_sources, files_below, top};

/// Phrases that are not in comments, test names, messages, help texts, data files for people, scripts or docs.
const BANNED: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "anybody",
    "politely",
    "is told",
    "are told",
    "looked whether",
    "what there is",
    "those who",
    "makes no sense",
    "comes to",
    "small letters",
    "handed in",
    "hand in",
    "hands in",
    "hand it in",
    "stray",
    "strays",
    "strayed",
    "wish",
    "wishes",
    "an account of",
    "it cannot be used",
    "is believed",
    "not believed",
    "becomes of",
    "keep in mind",
    "in one go",
    "go on",
    "goes on",
    "worth nothing",
    "nothing is known",
    "is not there",
    "what is to be",
    "what holds",
    "where things stand",
];

/// Pages that a test generates from messages and help texts. Their blocks are prose too.
const GENERATED: [&str; 2] = ["cli.md", "errors.md"];

/// Keys of the shipped TOML files whose texts people read. All other texts are prompts or patterns.
const SHOWN_KEYS: [&str; 5] = ["name", "description", "method", "note", "todo"];

/// Folders of shipped TOML files in which `description` is a text for agents.
const FOR_AGENTS: &str = "contracts";

/// The beginnings of words after which "what" begins a clause that takes the place of a noun.
const AFTER_WHAT: [&str; 32] = [
    "is", "was", "it", "they", "there", "comes", "came", "a", "the", "an", "of", "has", "can", "cannot",
    "needs", "happens", "happened", "stands", "goes", "becomes", "became", "follows", "we", "somebody",
    "others", "does", "did", "makes", "would", "could", "may", "must",
];

/// The most words of a test's name.
const MOST_TEST_WORDS: usize = 6;

/// A struct, enum or trait: its name, and whether other modules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypeName {
    name: String,
    is_public: bool,
}

fn find_type_names(source: &str) -> Vec<TypeName> {
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

/// Returns the names that are defined more than once, each with its count.
fn find_repeated(names: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.as_str()).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > 1);
    counts
}

/// Returns the types that the glossary names: words in backticks.
fn glossary_types(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// Ends a paragraph in a text that [`find_banned`] reads.
const PARAGRAPH: &str = "\n\n";

/// Returns the comments of a Rust file as one text, a paragraph for each block of comments.
fn comments(source: &str) -> String {
    let lines = source.lines().map(|line| line.trim_start().strip_prefix("//").unwrap_or_default());
    join_paragraphs(lines.map(|line| line.trim_start_matches(['/', '!'])))
}

/// Returns the comments of a script or a TOML file as one text.
fn hash_comments(source: &str) -> String {
    join_paragraphs(source.lines().map(|line| line.split_once('#').map_or("", |(_, comment)| comment)))
}

/// Joins lines to paragraphs. An empty line ends a paragraph.
fn join_paragraphs<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    lines.flat_map(|line| [line, if line.trim().is_empty() { PARAGRAPH } else { " " }]).collect()
}

/// Returns the texts of a shipped TOML file that people read, one per line of the file.
fn shown_texts(file: &str) -> Vec<&str> {
    let value = |line: &'_ str, key: &str| line.find(&format!("{key} = \""));
    let texts = file.lines().filter_map(|line| {
        let keys = SHOWN_KEYS.iter().filter_map(|key| value(line, key));
        keys.min().map(|at| &line[at..])
    });
    texts.collect()
}

/// Returns the string literals of a Rust file that consist of words, without its inline tests.
fn messages(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\'', '/', 'r']) {
        let (before, here) = rest.split_at(at);
        let is_new_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let hashes = here.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
        let quoted = hashes.filter(|_| is_new_word).and_then(|hashes| here[hashes + 1..].strip_prefix('"'));
        if here.starts_with("//") {
            rest = here.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let (Some(raw), Some(hashes)) = (quoted, hashes) {
            let end = format!("\"{}", "#".repeat(hashes));
            let (text, after) = raw.split_once(end.as_str()).unwrap();
            found.push(text.to_owned());
            rest = after;
        } else if let Some(text) = here.strip_prefix('"') {
            let mut is_escaped = false;
            let end = text.find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            let (text, after) = text.split_at(end.unwrap());
            found.push(text.replace("\\n", " ").replace("\\\n", " "));
            rest = &after[1..];
        } else {
            // A character, a lifetime, a division or a letter.
            let quotes = ["'\"'", "'\\\"'", "'\\''", "'/'"];
            let skipped =
                quotes.iter().find(|quote| here.starts_with(**quote)).map_or(1, |quote| quote.len());
            rest = &here[skipped..];
        }
    }
    found.retain(|text| words(text).len() > 1);
    found
}

/// Returns the prose of a Markdown page as one text, without fenced blocks: those quote outputs, prompts and data
/// files. Each row of a table is a paragraph.
fn prose(page: &str) -> String {
    let mut is_fenced = false;
    let mut text = String::new();
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        let is_break = is_fence || is_fenced || line.trim().is_empty() || line.starts_with(['|', '#']);
        text.push_str(if is_break { PARAGRAPH } else { " " });
        text.push_str(if is_fenced || is_fence { "" } else { line });
    }
    text
}

/// Returns a page as one text, with the text of its blocks.
fn unfenced(page: &str) -> String {
    page.replace("```", " ").replace("\n|", "\n\n|")
}

/// Returns the words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns a text without the code between backticks. A backtick without its pair affects its paragraph only.
fn strip_code(text: &str) -> String {
    let plain = |paragraph: &str| paragraph.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    text.split(PARAGRAPH).map(plain).collect::<Vec<_>>().join(PARAGRAPH)
}

/// Returns the banned phrases in a text, except in code between backticks. A phrase is within one paragraph.
fn find_banned(text: &str) -> BTreeSet<&'static str> {
    let is_in = |paragraph: &str| {
        let text = format!(" {} ", words(paragraph).join(" "));
        BANNED.iter().copied().filter(move |phrase| text.contains(&format!(" {phrase} ")))
    };
    strip_code(text).split(PARAGRAPH).flat_map(is_in).collect()
}

/// Counts of habits in a text.
#[derive(Debug, Default, PartialEq, Eq)]
struct HabitCounts {
    words: usize,
    /// "what …" in the place of a noun.
    what: usize,
    /// `nobody` and its kin.
    nobody: usize,
    /// `tell` in all its forms.
    tell: usize,
}

impl HabitCounts {
    fn add(&mut self, text: &str) {
        let words = words(text);
        let is_one_of = |word: &str, known: &[&str]| known.contains(&word);
        let is_clause = |next: &str| AFTER_WHAT.iter().any(|start| next.starts_with(start));
        self.words += words.len();
        self.what += words.windows(2).filter(|pair| pair[0] == "what" && is_clause(&pair[1])).count();
        self.nobody += words
            .iter()
            .filter(|word| is_one_of(word, &["nobody", "somebody", "whoever", "anybody"]))
            .count();
        self.tell += words.iter().filter(|word| is_one_of(word, &["tell", "tells", "told"])).count();
    }

    /// Returns a count per 10,000 words, rounded up.
    fn rate(&self, count: usize) -> usize {
        (count * 10_000).div_ceil(self.words.max(1))
    }
}

/// Returns the names of the test functions of a file.
fn find_test_names(source: &str) -> Vec<&str> {
    let mut is_test = false;
    let mut names = Vec::new();
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
            names.extend(rest.split('(').next());
            is_test = false;
        }
    }
    names
}

fn workspace_sources() -> Vec<SourceFile> {
    crate_names().iter().flat_map(|name| crate_sources(name)).collect()
}

/// Returns every Rust file of the repository, tests included.
fn rust_files() -> Vec<PathBuf> {
    let folders = ["crates", "bench/src", "fuzz", "examples"].map(|name| top().join(name));
    let files = folders.iter().flat_map(|folder| files_below(folder, "rs"));
    // These files are inputs of tests, or built.
    let skipped = ["ladders", "target"];
    files
        .filter(|path| !path.components().any(|part| skipped.iter().any(|name| part.as_os_str() == *name)))
        .collect()
}

#[test]
fn public_type_names_are_unique() {
    let all: Vec<TypeName> =
        workspace_sources().iter().flat_map(|file| find_type_names(&file.text)).collect();
    let public: Vec<String> =
        all.iter().filter(|found| found.is_public).map(|found| found.name.clone()).collect();
    assert_eq!(find_repeated(&public), BTreeMap::new());
}

#[test]
fn one_word_types_are_in_glossary() {
    let text = fs::read_to_string(top().join("docs/glossary.md")).unwrap();
    let known = glossary_types(&text);
    let mut unknown = BTreeSet::new();
    for file in workspace_sources() {
        let names = find_type_names(&file.text).into_iter();
        let names = names.filter(|found| found.is_public && is_one_word(&found.name));
        let names = names.filter(|found| !known.contains(found.name.as_str()));
        unknown.extend(names.map(|found| (file.below_src.clone(), found.name)));
    }
    assert_eq!(unknown, BTreeSet::new());
}

#[test]
fn test_names_are_short() {
    let mut long = Vec::new();
    let mut count = 0;
    for path in rust_files() {
        let text = fs::read_to_string(&path).unwrap();
        for name in find_test_names(&text) {
            count += 1;
            if name.split('_').count() > MOST_TEST_WORDS || !find_banned(&name.replace('_', " ")).is_empty() {
                long.push(name.to_owned());
            }
        }
    }
    assert_eq!(long, Vec::<String>::new());
    assert!(count > 900, "{count}");
}

/// Returns the Markdown pages that people read.
fn pages() -> Vec<PathBuf> {
    let own = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let own = own.map(|name| top().join(name)).into_iter();
    own.chain(crate_names().iter().map(|name| top().join("crates").join(name).join("README.md")))
        .filter(|path| path.exists())
        .chain(files_below(&top().join("docs"), "md"))
        .collect()
}

#[test]
fn banned_phrases_are_absent() {
    let mut found = Vec::new();
    for path in rust_files() {
        let text = comments(&fs::read_to_string(&path).unwrap());
        found.extend(find_banned(&text).into_iter().map(|phrase| (path.clone(), phrase)));
    }
    let is_generated = |path: &PathBuf| GENERATED.iter().any(|name| path.ends_with(name));
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let text = if is_generated(&path) { unfenced(&page) } else { prose(&page) };
        found.extend(find_banned(&text).into_iter().map(|phrase| (path.clone(), phrase)));
    }
    assert_eq!(found, []);
}

#[test]
fn messages_have_no_banned_phrases() {
    let mut found = Vec::new();
    let mut count = 0;
    for file in workspace_sources().iter().filter(|file| !file.below_src.ends_with("tests.rs")) {
        for message in messages(&file.text) {
            count += 1;
            found.extend(find_banned(&message).into_iter().map(|phrase| (phrase, message.clone())));
        }
    }
    assert_eq!(found, []);
    assert!(count > 1500, "{count}");
}

#[test]
fn written_files_have_no_banned_phrases() {
    let mut count = 0;
    for folder in ["core/builtin/init", "cli/demo", "web/templates", "web/assets"] {
        for ending in ["md", "toml", "txt", "html", "js", "css"] {
            for path in files_below(&top().join("crates").join(folder), ending) {
                count += 1;
                assert_eq!(
                    find_banned(&fs::read_to_string(&path).unwrap()),
                    BTreeSet::new(),
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert!(count > 4, "{count}");
}

#[test]
fn shipped_data_has_no_banned_phrases() {
    let mut count = 0;
    let mut found = Vec::new();
    for path in files_below(&top().join("crates/core/builtin"), "toml") {
        let text = fs::read_to_string(&path).unwrap();
        let is_for_agents = path.components().any(|part| part.as_os_str() == FOR_AGENTS);
        let shown = if is_for_agents { Vec::new() } else { shown_texts(&text) };
        count += shown.len();
        let texts = shown.into_iter().map(str::to_owned).chain([hash_comments(&text)]);
        found.extend(texts.flat_map(|text| find_banned(&text)).map(|phrase| (path.clone(), phrase)));
    }
    assert_eq!(found, []);
    assert!(count > 100, "{count}");
}

#[test]
fn scripts_have_no_banned_phrases() {
    let folder = fs::read_dir(top().join(".ci")).unwrap().map(|entry| entry.unwrap().path());
    let others =
        ["test", "bench/run", "fuzz/run", ".cargo/config.toml", "Cargo.toml", "deny.toml", "book.toml"];
    let packages = crate_names().into_iter().map(|name| top().join("crates").join(name).join("Cargo.toml"));
    let mut found = Vec::new();
    for path in folder.chain(others.map(|name| top().join(name))).chain(packages) {
        let text = fs::read_to_string(&path).unwrap();
        // The planted bugs quote code.
        let is_data = path.ends_with("mutants.toml");
        let text = if is_data { hash_comments(&text) } else { text.replace('\n', PARAGRAPH) };
        found.extend(find_banned(&text).into_iter().map(|phrase| (path.clone(), phrase)));
    }
    assert_eq!(found, []);
}

#[test]
fn figures_are_below_limits() {
    let sources = workspace_sources();
    let names: Vec<String> =
        sources.iter().flat_map(|file| find_type_names(&file.text)).map(|found| found.name).collect();
    let repeated: usize = find_repeated(&names).values().sum();
    let one_word = names.iter().filter(|name| is_one_word(name)).count();
    let mut habits = HabitCounts::default();
    sources.iter().for_each(|file| habits.add(&comments(&file.text)));
    let mut said = HabitCounts::default();
    let own = sources.iter().filter(|file| !file.below_src.ends_with("tests.rs"));
    own.flat_map(|file| messages(&file.text)).for_each(|message| said.add(&message));
    let mut written = HabitCounts::default();
    pages().iter().for_each(|path| written.add(&strip_code(&prose(&fs::read_to_string(path).unwrap()))));
    let percent = |count: usize| (count * 100).div_ceil(names.len());
    let rows = [
        ("type names defined more than once, percent", percent(repeated), 3),
        ("type names that are one word, percent", percent(one_word), 40),
        ("\"what …\" in the place of a noun, per 10,000 words of comments", habits.rate(habits.what), 10),
        ("the same in messages and help texts", said.rate(said.what), 5),
        ("the same in the prose of docs", written.rate(written.what), 10),
        ("`nobody`, `somebody`, `whoever`, `anybody`, per 10,000 words", habits.rate(habits.nobody), 3),
        ("`tell`, `tells`, `told`, per 10,000 words", habits.rate(habits.tell), 5),
    ];
    let mut table = String::from("| measure | now | below |\n|---|--:|--:|\n");
    for (name, now, limit) in rows {
        writeln!(table, "| {name} | {now} | {limit} |").unwrap();
        assert!(now < limit, "{name}: {now}");
    }
    let path = top().join("CONTRIBUTING.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, _) = page.split_once("<!-- figures -->\n").unwrap();
    let wanted = format!("{before}<!-- figures -->\n\n{table}");
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
}

#[test]
fn planted_names_are_found() {
    let source =
        "pub struct Planted;\npub(crate) enum Planted {}\nstruct TwoWords<T>(T);\npub struct Args {}\n";
    let found = find_type_names(source);
    let name = |name: &str, is_public| TypeName { name: name.to_owned(), is_public };
    assert_eq!(found, [name("Planted", true), name("Planted", true), name("TwoWords", false)]);
    let names: Vec<String> = found.into_iter().map(|found| found.name).collect();
    assert_eq!(find_repeated(&names), BTreeMap::from([("Planted", 2)]));
    assert_eq!((is_one_word("Planted"), is_one_word("TwoWords")), (true, false));
    assert!(!glossary_types("| **Request** | `Request` | text |\n").contains("Planted"));
    let tests = "    #[test]\n    #[ignore]\n    fn a_b_c() {}\nfn no_test() {}\n";
    assert_eq!(find_test_names(tests), ["a_b_c"]);
}

#[test]
fn planted_phrases_are_found() {
    let source = "//! It is\n//! told.\nlet x = \"nobody\"; // fine\n    /// Whoever `somebody` asks.\n";
    assert_eq!(find_banned(&comments(source)), ["is told", "whoever"].into());
    let page = "What was said.\n```text\nnobody\n```\n| `x` | whoever |\n\nIt `comes to` an end, is\ntold.\n";
    assert_eq!(find_banned(&prose(page)), ["is told", "whoever"].into());
    assert_eq!(find_banned(&unfenced(page)), ["is told", "nobody", "whoever"].into());
    let mut habits = HabitCounts::default();
    habits.add(&strip_code(&prose(page)));
    assert_eq!(habits, HabitCounts { words: 9, what: 1, nobody: 1, tell: 1 });
    assert_eq!(habits.rate(1), 1112);
    let odd = "// One ` is odd.\n\nlet x = 1;\n// It is told.\n";
    assert_eq!(find_banned(&comments(odd)), ["is told"].into());
    let data = "# Nobody reads\nname = \"x\"\n  { todo = \"somebody\" }\npattern = 'strays'\n";
    assert_eq!(find_banned(&hash_comments(data)), ["nobody"].into());
    assert_eq!(shown_texts(data), ["name = \"x\"", "todo = \"somebody\" }"]);
}

#[test]
fn planted_messages_are_found() {
    let source = r##"
//! A comment says "one two".
let quote = ('"', '\'', b'"', "one", 'a');
error("`{path}` was handed \
       in by \"others\"");
hint(r#"it "cannot" be used"#);
let var = for_each("nothing is\nknown");
#[cfg(test)]
mod tests {
    const PLANTED: &str = "whoever reads this";
}
"##;
    let found = messages(source);
    assert_eq!(found.len(), 3, "{found:?}");
    let banned: Vec<BTreeSet<&str>> = found.iter().map(|message| find_banned(message)).collect();
    assert_eq!(banned, [["handed in"].into(), ["it cannot be used"].into(), ["nothing is known"].into()]);
}
