//! Tests the documentation: runs every block, checks every link, makes the site, and regenerates every generated
//! page.
//!
//! `BLESS=1 cargo test -p callsheet-cli --test docs` writes the results instead of comparing them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod environment;
mod links;
mod pages;
mod picture;
mod reference;
mod snippets;

use std::fs;
use std::path::Path;

use crate::pages::{read_page, root};

fn collect_sources(folder: &Path, texts: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Every row of the table names an existing test.
#[test]
fn conformance_names_existing_tests() {
    let page = read_page("docs/conformance.md");
    let mut texts = String::new();
    collect_sources(&root().join("crates"), &mut texts);
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| demand |"));
    let (mut count, mut wrong) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[_, verdict, tests] = cells.as_slice() else { panic!("{row}") };
        assert!(verdict == "works" || verdict.starts_with("differs: "), "{row}");
        let mut names = tests.split(", ").map(|name| name.trim_matches('`'));
        if !names.all(|name| texts.contains(&format!("fn {name}("))) {
            wrong.push(row);
        }
        count += 1;
    }
    assert_eq!(wrong, [""; 0]);
    assert!(count >= 86, "{count} rows");
}
