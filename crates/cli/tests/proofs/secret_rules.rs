//! Secret rules that a project brings: their cost is limited, and if a limit ends a search, the rest of the
//! text counts as a secret.

use std::time::Instant;

use callsheet_core::library::layout::Layout;
use callsheet_core::secrets::SecretRules;
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};

use crate::project::CanaryProject;

fn rule(id: &str, literals: &str, more: &str, pattern: &str) -> String {
    format!(
        "[[rule]]\nid = \"{id}\"\ndescription = \"x\"\nliterals = [{literals}]\n{more}\npattern = '''{pattern}'''\n"
    )
}

fn load(project: &CanaryProject, text: &str) -> Result<SecretRules, String> {
    project.write(".callsheet/secrets/x.toml", text);
    let roots = Roots { user: None, project: Some(project.path().to_owned()), session: None };
    SecretRules::load(&Disk::new(&roots, DEFAULT_MAX_FILE_BYTES), &Layout::default())
        .map_err(|error| error.to_string())
}

/// Patterns that make engines backtrack, that need many states, or that examine the same bytes repeatedly.
const PATTERNS: [&str; 14] = [
    "((((a*)*)*)*)*b",
    "(a+)+b",
    "(a|a)*b",
    "(a|aa)+b",
    "(?:a?){60}a{60}b",
    "(.*)*b",
    "(.*.*)*b",
    "[a ]*b",
    "(?:[a ][a ])*b",
    "a{1,200}b",
    "(a*)+(a*)+(a*)+b",
    "(?s:.)*b",
    "(?:a|a?)+b",
    "((a{0,9}){0,9}){0,2}b",
];

/// Returns texts in which the literal is everywhere, or at the beginning of each word.
fn texts_with_literal(bytes: usize) -> Vec<String> {
    ["a", "aa aaaaaaaaaaaaaaaa "].map(|unit| unit.repeat(bytes / unit.len())).into()
}

#[test]
fn slow_pattern_never_misses_secret() {
    let project = CanaryProject::new();
    let bytes = if crate::is_long() { 3 << 20 } else { 1 << 16 };
    let (mut tried, mut given_up) = (0, 0);
    let begun = Instant::now();
    for (number, pattern) in PATTERNS.iter().enumerate() {
        let ways = ["inside = true\nwindow = 65536", "inside = true\nbefore = 8\nwindow = 4096"];
        for more in &ways[..if crate::is_long() { 2 } else { 1 }] {
            let rules = match load(&project, &rule("r", "\"aa\"", more, pattern)) {
                Ok(rules) => rules,
                // The rule is refused before the first text, which is a limit, too.
                Err(why) => {
                    assert!(why.contains("too large"), "{pattern}: {why}");
                    continue;
                }
            };
            for text in texts_with_literal(bytes) {
                // The text that the rule is written to find is at the end.
                let text = format!("{text} {}b", "a".repeat(if number == 4 { 70 } else { 12 }));
                let hits = rules.scan(&text);
                let end = text.len();
                let found = hits.last().is_some_and(|hit| hit.whole.end == end);
                assert!(found, "{pattern} {more} {:?}: {hits:?}", &text[..30]);
                given_up += usize::from(hits.iter().any(|hit| hit.range.len() > bytes / 4));
                tried += 1;
            }
        }
    }
    assert!(tried > 20, "{tried}");
    crate::print_measurement(&format!(
        "{tried} texts of {bytes} bytes with patterns that are made to take long in {:?}; {given_up} of them were given up",
        begun.elapsed()
    ));
}

#[test]
fn rules_over_limit_are_refused() {
    let project = CanaryProject::new();
    let many: String =
        (0..101).map(|number| rule(&format!("r{number}"), "\"key\"", "", "key[0-9]{9}")).collect();
    for (text, wanted) in [
        (rule("a", "\"aa\"", "window = 1000000", "a+b"), "`a` has a `window` of 1000000; the limit is 65536"),
        (rule("a", "\"aa\"", "before = 5000", "a+b"), "`a` has a `before` of 5000; the limit is 1024"),
        (
            rule("a", "\"aa\"", "", &format!("a{}", "b".repeat(2100))),
            "`a` has a pattern of more than 2048 bytes",
        ),
        (rule("a", "\"aa\"", "", "(?:a{1000}){1000}"), "`a` has an invalid pattern: "),
        (rule("a", "\"aa\"", "before = 8", "[ab]*a[ab]{40}c"), "`a` has an invalid pattern: it is too large"),
        (
            rule("a", "\"aa\"", "lines = { opens = '[ab]*a[ab]{40}c', goes_on = 'x' }", "aab"),
            "it is too large",
        ),
        (many, "the files of this root have 101 rules; the limit is 100"),
    ] {
        let why = load(&project, &text).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    }
    assert!(load(&project, &rule("a", "\"aa\"", "window = 65536", "((((a*)*)*)*)*b")).is_ok());
}

/// Uses the program: a text whose search was given up is refused instead of recorded.
#[test]
fn text_with_slow_search_is_refused() {
    let project = CanaryProject::new();
    project.write(".callsheet/secrets/x.toml", rule("slow", "\"aa\"", "window = 65536", "[a ]*b"));
    let output = project.run(["run", "-q", &"aaaaaaaa ".repeat(12_000), "--", "true"]);
    assert_eq!(output.code, Some(9), "{}", output.err());
    assert!(output.err().contains("slow"), "{}", output.err());
}
