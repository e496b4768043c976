//! Tests the documentation: runs every `console` block and regenerates every generated page.
//!
//! `BLESS=1 cargo test -p callsheet-cli --test docs` writes the results instead of comparing them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn compare_page(path: &Path, found: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, found).unwrap();
        return;
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, found, "{} is out of date: run with BLESS=1 and read the difference", path.display());
}

fn list_pages() -> Vec<PathBuf> {
    let mut pages =
        vec![root().join("README.md"), root().join("CONTRIBUTING.md"), root().join("ARCHITECTURE.md")];
    for folder in ["docs", "docs/migrate"] {
        pages.extend(fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

/// Runs every `$ command` of a page's console blocks, in one fresh directory per page, and puts the output of
/// each below it: standard output and standard error as a terminal would show them.
fn run_page(text: &str, dir: &Path) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if let Some(command) = line.strip_prefix("<!-- $ ").and_then(|rest| rest.strip_suffix(" -->")) {
            // The block below the comment is the diagram that the command prints.
            assert_eq!(lines.next(), Some("```mermaid"), "{command}");
            lines.by_ref().find(|line| *line == "```").unwrap();
            out.push_str(&format!("```mermaid\n{}```\n", run(command, dir)));
            continue;
        }
        let Some(fence) = line.strip_suffix("console").filter(|fence| fence.starts_with("```")) else {
            continue;
        };
        while let Some(line) = lines.next() {
            if line == fence {
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
    }
    out
}

fn heredoc_is_open(command: &str) -> bool {
    let Some((_, rest)) = command.split_once("<<'") else { return false };
    let Some((mark, body)) = rest.split_once('\'') else { return false };
    !body.lines().any(|line| line == mark)
}

fn run(command: &str, dir: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_callsheet")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(dir)
        .env_clear()
        .envs([("PATH", path.as_str()), ("HOME", dir.to_str().unwrap()), ("LC_ALL", "C.UTF-8")])
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
        .env("XDG_STATE_HOME", dir.with_file_name("state"))
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[test]
fn console_blocks_match_real_output() {
    for page in list_pages() {
        let text = fs::read_to_string(&page).unwrap();
        let temp = tempfile::tempdir().unwrap();
        // A fixed name keeps the random name of the temporary directory out of the pages.
        let dir = temp.path().join("shop");
        fs::create_dir(&dir).unwrap();
        let examples = Command::new("cp").arg("-R").arg(root().join("examples")).arg(temp.path()).status();
        assert!(examples.unwrap().success());
        compare_page(&page, &run_page(&text, &dir));
    }
}

#[test]
fn template_list_is_generated() {
    let page = root().join("docs/templates.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, _) = text.split_once("\n## The shipped ones\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_callsheet"))
        .args(["templates", "list", "--json"])
        .current_dir(tempfile::tempdir().unwrap().path())
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut table =
        String::from("\n## The shipped ones\n\n| template | is | tokens | variables |\n|---|---|--:|---|\n");
    for template in list.as_array().unwrap() {
        let variables = template["variables"].as_array().unwrap().iter();
        let variables: Vec<String> = variables.map(|name| format!("`{}`", name.as_str().unwrap())).collect();
        let text = |key: &str| template[key].as_str().unwrap_or_else(|| panic!("{template} has no {key}"));
        table.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            text("path"),
            text("description"),
            template["tokens"],
            variables.join(" ")
        ));
        assert_eq!(template["source"], format!("builtin:{}", text("file")));
        for key in ["name", "category"] {
            assert!(!text(key).is_empty());
        }
    }
    compare_page(&page, &format!("{before}{table}"));
}

#[test]
fn command_line_reference_is_generated() {
    let mut page = String::from(
        "# The command line\n\nThis page is what `--help` prints, for every command; a test keeps it so. Exit codes are in\n\
         [errors.md](errors.md).\n",
    );
    let help = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_callsheet")).args(args).arg("--help").output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let mut commands: Vec<Vec<&str>> = vec![vec![]];
    let top = [
        "init",
        "compose",
        "explain",
        "ledger",
        "log",
        "show",
        "diff",
        "verify",
        "export",
        "import",
        "watch",
        "gc",
        "read",
        "check",
        "fuzz",
        "templates",
        "prefs",
        "mcp",
        "agents",
        "doctor",
        "config",
        "schema",
        "completions",
        "man",
    ];
    commands.extend(top.iter().map(|name| vec![*name]));
    for name in ["list", "show", "where", "eject", "diff"] {
        commands.push(vec!["templates", name]);
    }
    for name in ["list", "add", "remove"] {
        commands.push(vec!["prefs", name]);
    }
    for name in ["path", "list", "adopt", "forget"] {
        commands.push(vec!["ledger", name]);
    }
    commands.push(vec!["mcp", "install"]);
    commands.push(vec!["config", "show"]);
    commands.sort();
    for command in &commands {
        let title = ["callsheet"].iter().chain(command).copied().collect::<Vec<_>>().join(" ");
        page.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", help(command).trim_end()));
    }
    let listed = help(&[]);
    for name in top {
        assert!(listed.lines().any(|line| line.trim_start().starts_with(name)), "{name} is not in the help");
    }
    compare_page(&root().join("docs/cli.md"), &page);
}

#[test]
fn diagnostics_list_is_generated() {
    let mut page = String::from(
        "# Errors and exit codes\n\n\
         Every diagnostic has a stable code, a place, every place that was looked in, and a hint. With `--json` an\n\
         error is one object on standard error: `code`, `message`, `places`, `hint`, and in `all` every error of the\n\
         same run in the same form.\n\n\
         | exit code | meaning |\n|--:|---|\n",
    );
    let exits = [
        (0, "done"),
        (
            1,
            "a negative finding: `check` or `fuzz` found errors, `templates diff` a difference, `templates where` no file, \
             `read` nothing good, `doctor` something missing, `prefs remove` no such preference, `verify` a prompt that differs; \
             or what was handed in is not good",
        ),
        (2, "usage: the command line or the request makes no sense"),
        (3, "a template, recipe, include or configuration is wrong"),
        (4, "a file, directory, ledger or run that was named is not there"),
        (8, "the ledger is locked, damaged, or cannot be read or written"),
        (9, "refused: a secret was found, or a person must decide"),
        (10, "something that a cloned repository or a foreign ledger asks for needs a person's trust"),
        (11, "`verify`: a prompt was made by another version of the engine"),
        (12, "`verify`: a value that is marked as secret is needed"),
        (70, "our own fault, or the output could not be written"),
    ];
    for (code, meaning) in exits {
        page.push_str(&format!("| {code} | {meaning} |\n"));
    }
    page.push_str("\n| code | meaning |\n|---|---|\n");
    for code in callsheet_core::diag::Code::ALL {
        page.push_str(&format!("| `{code}` | {} |\n", code.meaning()));
    }
    compare_page(&root().join("docs/errors.md"), &page);
}

/// The schema of the ledger is public: the page shows the exact statements that create it.
#[test]
fn ledger_schema_matches_migrations() {
    use callsheet_core::record::Event;
    use callsheet_store::{DatabaseEngine, migrations};

    const BEGIN: &str = "<!-- schema: written by a test -->\n";
    const END: &str = "<!-- end of schema -->";
    let page = root().join("docs/audit.md");
    let text = fs::read_to_string(&page).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let mut schema = String::from("\n| kind of record | what it says |\n|---|---|\n");
    for (kind, meaning) in Event::KINDS {
        schema.push_str(&format!("| `{kind}` | {meaning} |\n"));
    }
    for (name, engine) in [
        ("SQLite", DatabaseEngine::Sqlite),
        ("PostgreSQL, in the schema `callsheet`", DatabaseEngine::Postgres),
    ] {
        schema.push_str(&format!("\n{name}:\n\n```sql\n"));
        migrations(engine).iter().for_each(|migration| schema.push_str(migration.sql));
        schema.push_str("```\n");
    }
    compare_page(&page, &format!("{head}{BEGIN}{schema}\n{END}{tail}"));
}

#[test]
fn page_links_are_valid() {
    let mut broken = Vec::new();
    for page in list_pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
        {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !page.parent().unwrap().join(file).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

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
    let page = fs::read_to_string(root().join("docs/conformance.md")).unwrap();
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
