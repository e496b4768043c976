//! Tests every code block of every page: each is run, compiled or read, or says why not.
//!
//! | block | runner |
//! |---|---|
//! | `console` | each `$ command` is executed, and its output compared |
//! | `sh` | executed; below `<!-- not run: REASON -->` it is not |
//! | `mermaid` | the output of the command in the comment above it: `<!-- $ COMMAND -->` |
//! | `toml`, `json`, `md` | the file of the comment above it, `<!-- file: PATH -->`, read by the program |
//! | `yaml` | the same, or the frontmatter of a template: `<!-- frontmatter -->` |
//! | `rust` | a documentation test: `include_str!` in a `lib.rs` |
//! | `sql` | written by a test |
//! | `text` | only on the pages of [`TEXTS`] |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use callsheet_testing::TestProject;
use tempfile::TempDir;

use crate::pages::{CodeBlock, code_blocks, compare_page, list_pages, read_page, root, tracked_files};

/// The pages with blocks that are not code, and their contents.
const TEXTS: [(&str, &str); 3] = [
    ("ARCHITECTURE.md", "a drawing"),
    ("docs/audit.md", "a formula"),
    ("docs/cli.md", "help pages, which a test writes"),
];

/// The pages whose `sql` blocks a test writes.
const SCHEMAS: [&str; 1] = ["docs/audit.md"];

/// The runner of a block.
#[derive(Debug, PartialEq)]
enum BlockRunner {
    Console,
    Diagram,
    Shell,
    /// A block that says why it is not run.
    NotRun,
    /// A file of a project or of its user, relative to the project or to `~`.
    File(String),
    Frontmatter,
    Rust,
    Generated,
}

/// Returns the runner of a block, or the reason why it has none.
fn find_runner(block: &CodeBlock) -> Result<BlockRunner, String> {
    let is_of = |pages: &[&str]| pages.contains(&block.page.as_str());
    match block.language.as_str() {
        "console" => Ok(BlockRunner::Console),
        "mermaid" if block.comment_after("$ ").is_some() => Ok(BlockRunner::Diagram),
        "mermaid" => Err("the comment above a diagram is the command that prints it".to_owned()),
        "sh" => match block.comment_after("not run:") {
            Some("") => Err("the comment gives no reason".to_owned()),
            Some(_) => Ok(BlockRunner::NotRun),
            None => Ok(BlockRunner::Shell),
        },
        "yaml" if block.comment.as_deref() == Some("frontmatter") => Ok(BlockRunner::Frontmatter),
        "toml" | "json" | "yaml" | "md" => match block.comment_after("file:") {
            Some(path) => Ok(BlockRunner::File(path.to_owned())),
            None => Err("the comment above a file is its path".to_owned()),
        },
        "rust" if doctested_pages().contains(&block.page) => Ok(BlockRunner::Rust),
        "rust" => Err("no `lib.rs` includes the page as a documentation test".to_owned()),
        "sql" if is_of(&SCHEMAS) => Ok(BlockRunner::Generated),
        "text" if is_of(&TEXTS.map(|(page, _)| page)) => Ok(BlockRunner::Generated),
        // The suite `context` compares them with the requests of the CLIs.
        "text" if is_of(&["docs/context.md"]) => Ok(BlockRunner::Generated),
        other => Err(format!("no test runs blocks of `{other}` on this page")),
    }
}

/// Returns the pages that a crate includes as documentation tests.
fn doctested_pages() -> Vec<String> {
    let libraries = tracked_files().into_iter().filter(|path| path.ends_with("/src/lib.rs"));
    let mut pages = Vec::new();
    for library in libraries {
        let text = fs::read_to_string(root().join(&library)).unwrap();
        let Some((_, rest)) = text.split_once("#[cfg(doctest)]") else { continue };
        let names = rest.split("include_str!(\"").skip(1).filter_map(|rest| rest.split_once('"'));
        pages.extend(names.map(|(name, _)| {
            let mut path = PathBuf::from(&library);
            path.pop();
            for part in name.split('/') {
                match part {
                    ".." => assert!(path.pop(), "{name}"),
                    part => path.push(part),
                }
            }
            path.display().to_string()
        }));
    }
    pages
}

fn all_blocks() -> Vec<CodeBlock> {
    list_pages().iter().flat_map(|page| code_blocks(page, &read_page(page))).collect()
}

#[test]
fn every_block_has_a_runner() {
    let blocks = all_blocks();
    let wrong: Vec<String> = blocks
        .iter()
        .filter_map(|block| Some(format!("{}:{}: {}", block.page, block.line, find_runner(block).err()?)))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert!(blocks.len() > 100, "{} blocks", blocks.len());
}

#[test]
fn block_without_runner_is_found() {
    let text = "```\nx\n```\n\n    indented\n\n```python\nx\n```\n\n1. a\n\n   <!-- file: a.toml -->\n   ```toml\n   b = 1\n   ```\n\n\
                <!-- not run: -->\n```sh\nx\n```\n\n```rust\nx\n```\n\n```sql\nx\n```\n\n```text\nx\n```\n\n```mermaid\nx\n```\n";
    let found: Vec<(usize, bool)> =
        code_blocks("x.md", text).iter().map(|block| (block.line, find_runner(block).is_ok())).collect();
    let lines = [1, 5, 7, 14, 19, 23, 27, 31, 35];
    assert_eq!(found, lines.map(|line| (line, line == 14)));
}

/// A folder for the commands of a page, beside a copy of the examples.
fn page_folder() -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    // A fixed name keeps the random name of the temporary directory out of the pages.
    let dir = temp.path().join("shop");
    fs::create_dir(&dir).unwrap();
    let examples = Command::new("cp").arg("-R").arg(root().join("examples")).arg(temp.path()).status();
    assert!(examples.unwrap().success());
    (temp, dir)
}

/// Runs every `$ command` of a page's console blocks, in one fresh directory per page, and puts the output of
/// each below it: standard output and standard error as a terminal would show them. Returns the page and the
/// number of blocks that were run.
fn run_page(text: &str, dir: &Path) -> (String, usize) {
    let (mut out, mut count) = (String::new(), 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if let Some(command) = line.strip_prefix("<!-- $ ").and_then(|rest| rest.strip_suffix(" -->")) {
            // The block below the comment is the diagram that the command prints.
            assert_eq!(lines.next(), Some("```mermaid"), "{command}");
            lines.by_ref().find(|line| *line == "```").unwrap();
            out.push_str(&format!("```mermaid\n{}```\n", run(command, dir)));
            count += 1;
            continue;
        }
        let Some(fence) = line.strip_suffix("console").filter(|fence| fence.starts_with("```")) else {
            continue;
        };
        let before = out.len();
        while let Some(line) = lines.next() {
            if line == fence {
                assert!(out.len() > before, "a console block has no command: {text}");
                out.push_str(&format!("{fence}\n"));
                break;
            }
            let Some(mut command) = line.strip_prefix("$ ").map(str::to_string) else { continue };
            while command.ends_with('\\') || heredoc_is_open(&command) {
                command.push('\n');
                command.push_str(lines.next().unwrap());
            }
            out.push_str(&format!("$ {command}\n{}", run(&command, dir)));
        }
        count += 1;
    }
    (out, count)
}

fn heredoc_is_open(command: &str) -> bool {
    let Some((_, rest)) = command.split_once("<<'") else { return false };
    let Some((mark, body)) = rest.split_once('\'') else { return false };
    !body.lines().any(|line| line == mark)
}

fn shell(script: &str, dir: &Path, programs: Option<&Path>) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_callsheet")).parent().unwrap();
    let programs = programs.map(|programs| format!("{}:", programs.display())).unwrap_or_default();
    let path = format!("{programs}{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .current_dir(dir)
        .env_clear()
        .envs([("PATH", path.as_str()), ("HOME", dir.to_str().unwrap()), ("LC_ALL", "C.UTF-8")])
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
        .env("XDG_STATE_HOME", dir.with_file_name("state"));
    command
}

fn run(command: &str, dir: &Path) -> String {
    let output = shell(&format!("exec 2>&1\n{command}"), dir, None).output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[test]
fn console_blocks_match_real_output() {
    for page in list_pages() {
        let text = read_page(&page);
        let blocks = code_blocks(&page, &text);
        let runners = blocks.iter().filter_map(|block| find_runner(block).ok());
        let wanted =
            runners.filter(|runner| matches!(runner, BlockRunner::Console | BlockRunner::Diagram)).count();
        let (_temp, dir) = page_folder();
        let (found, count) = run_page(&text, &dir);
        assert_eq!(count, wanted, "{page}: a block that is indented is not run");
        // Another test may write a part of the page meanwhile.
        if found != text {
            compare_page(&page, &found);
        }
    }
}

/// Shell blocks show no output, so that they only have to succeed. An agent that they start is a program that
/// reads its input.
#[test]
fn shell_blocks_succeed() {
    let mut count = 0;
    for block in all_blocks().iter().filter(|block| find_runner(block) == Ok(BlockRunner::Shell)) {
        let (temp, dir) = page_folder();
        let programs = TestProject::new_in(temp.path());
        let agent = programs.write_program("claude", "#!/bin/sh\n[ -n \"$(cat)\" ]\n");
        let script = format!("set -euo pipefail\n{}", block.text);
        let output = shell(&script, &dir, agent.parent()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}:{}: {said}", block.page, block.line);
        count += 1;
    }
    assert!(count > 0);
}

/// The words that no file of callsheet takes.
const GARBAGE: &str = "\nno_such_key_of_callsheet = [\n";

/// Writes a file into a new project, and returns whether the command that reads it succeeds, and its output.
fn read_file(path: &str, text: &str) -> (bool, String) {
    let project = TestProject::new();
    let args: &[&str] = match path.strip_prefix("~/") {
        Some(below) => {
            let file = project.home().join(below);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            assert_eq!(below, ".config/callsheet/config.toml", "no command reads this file of a user");
            &["config", "show"]
        }
        None => {
            project.write(path, text);
            match Path::new(path).extension().and_then(|extension| extension.to_str()) {
                _ if path == ".callsheet/config.toml" => &["config", "show"],
                Some("toml" | "md") if path.starts_with(".callsheet/") => &["check"],
                Some("toml" | "json" | "yaml") => &["compose", "--request", path],
                _ => panic!("no command reads {path}"),
            }
        }
    };
    let output = project.run(args);
    (output.code == Some(0), format!("{}{}", output.out(), output.err()))
}

#[test]
fn file_blocks_are_read_by_program() {
    let mut count = 0;
    for block in all_blocks() {
        let (path, whole) = match find_runner(&block) {
            Ok(BlockRunner::File(path)) => (path, block.text.clone()),
            Ok(BlockRunner::Frontmatter) => (
                ".callsheet/templates/identity/page.md".to_owned(),
                format!("---\n{}---\nText.\n", block.text),
            ),
            _ => continue,
        };
        let (is_good, said) = read_file(&path, &whole);
        assert!(is_good, "{}:{}: {said}", block.page, block.line);
        // The program has read the block: with garbage in it, it fails.
        let bad = match block.language.as_str() {
            "yaml" | "md" => whole.replacen("---\n", &format!("---{GARBAGE}"), 1),
            _ => format!("{whole}{GARBAGE}"),
        };
        let (is_good, said) = read_file(&path, &bad);
        assert!(!is_good, "{}:{}: {said}", block.page, block.line);
        count += 1;
    }
    assert!(count > 0);
}
