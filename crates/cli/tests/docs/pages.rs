//! The pages of the repository: their files, their fenced blocks, and the comparison with what a test makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Returns the folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the files that git tracks or would add, relative to the repository.
pub(crate) fn tracked_files() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success());
    let listed = String::from_utf8(output.stdout).unwrap();
    listed.lines().filter(|path| root().join(path).exists()).map(str::to_owned).collect()
}

/// Returns the pages for people: every Markdown file but the data of the program, of tests and of examples.
pub(crate) fn list_pages() -> Vec<String> {
    let is_data =
        |path: &str| path.starts_with("examples/") || path.contains("/builtin/") || path.contains("/tests/");
    let mut pages = tracked_files();
    pages.retain(|path| path.ends_with(".md") && !is_data(path));
    pages.sort();
    assert!(pages.iter().any(|page| page == "README.md") && pages.len() > 40, "{pages:?}");
    pages
}

pub(crate) fn read_page(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Compares a page with the text that was made, or writes the text with `BLESS=1`.
pub(crate) fn compare_page(page: &str, found: &str) {
    let path = root().join(page);
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, found).unwrap();
        return;
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, found, "{page} is out of date: run with BLESS=1 and read the difference");
}

/// Returns the parser of every page: CommonMark with tables, as GitHub and mdBook read it.
pub(crate) fn parse_page(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS)
}

/// A code block of a page.
#[derive(Debug)]
pub(crate) struct CodeBlock {
    pub(crate) page: String,
    pub(crate) line: usize,
    /// The first word behind the fence; empty for a block without one, and for an indented block.
    pub(crate) language: String,
    pub(crate) text: String,
    /// The comment on the line above the block, which says how the block is run.
    pub(crate) comment: Option<String>,
}

impl CodeBlock {
    /// Returns the rest of the comment above the block, if it begins with `key`.
    pub(crate) fn comment_after(&self, key: &str) -> Option<&str> {
        self.comment.as_deref()?.strip_prefix(key).map(str::trim)
    }
}

/// Returns the code blocks of a page.
pub(crate) fn code_blocks(page: &str, text: &str) -> Vec<CodeBlock> {
    let mut blocks: Vec<CodeBlock> = Vec::new();
    let mut is_open = false;
    for (event, range) in parse_page(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let before = &text[..range.start];
                let above = before.trim_end_matches(' ').lines().last().unwrap_or_default().trim();
                let comment = above.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                let info = match &kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                let language = info.split([' ', ',']).next().unwrap_or_default().to_owned();
                let line = before.matches('\n').count() + 1;
                let comment = comment.map(str::to_owned);
                blocks.push(CodeBlock {
                    page: page.to_owned(),
                    line,
                    language,
                    text: String::new(),
                    comment,
                });
                is_open = true;
            }
            Event::End(TagEnd::CodeBlock) => is_open = false,
            Event::Text(piece) if is_open => blocks.last_mut().unwrap().text.push_str(&piece),
            _ => {}
        }
    }
    blocks
}
