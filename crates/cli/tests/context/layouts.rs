//! Ten layouts of instruction files, with each CLI: every byte is attributed, and the loaded files are those of the agent's
//! file.

use std::fs;
use std::path::Path;

use callsheet_core::library::layout::Layout;
use callsheet_core::{Builtin, Library, find_agent};
use callsheet_testing::{Cli, on_loopback};
use serde_json::Value;

use crate::project::{ProbeProject, assert_covered, codes_of, names_of, parts_of};

const AGENTS: &str = "# Agents\n\nUse tabs in every file of this project.\n";
const CLAUDE: &str = "# Claude\n\nRun the tests before you stop.\n";
const GEMINI: &str = "# Gemini\n\nAnswer in short sentences only.\n";
const COPILOT: &str = "# Copilot\n\nName functions with verbs.\n";

/// A layout: its name, its files, and the files that a symbolic link leads to.
type FileLayout = (&'static str, Vec<(&'static str, String)>);

fn layouts() -> Vec<FileLayout> {
    let long: String = (0..2000).map(|line| format!("Rule {line}: keep every function short.\n")).collect();
    let file = |path: &'static str, text: &str| (path, text.to_owned());
    vec![
        ("none", vec![]),
        ("agents", vec![file("AGENTS.md", AGENTS)]),
        ("claude", vec![file("CLAUDE.md", CLAUDE)]),
        ("both", vec![file("AGENTS.md", AGENTS), file("CLAUDE.md", CLAUDE)]),
        (
            "imports",
            vec![
                file("CLAUDE.md", "# Claude\n\nRead the file @docs/extra.md first.\n"),
                file("docs/extra.md", "The build takes ten minutes.\n"),
            ],
        ),
        (
            "nested",
            vec![file("AGENTS.md", AGENTS), file("sub/AGENTS.md", "# Nested\n\nRules of the folder sub.\n")],
        ),
        ("gemini", vec![file("GEMINI.md", GEMINI)]),
        ("copilot", vec![file(".github/copilot-instructions.md", COPILOT)]),
        ("long", vec![("AGENTS.md", long)]),
        ("symlink", vec![file("CLAUDE.md", CLAUDE), file("AGENTS.md", "-> CLAUDE.md")]),
    ]
}

/// Returns every combination of the instruction files of all CLIs.
fn combinations() -> Vec<FileLayout> {
    let files = [
        ("AGENTS.md", AGENTS),
        ("AGENTS.override.md", "# Override\n\nUse blanks in every file of this project.\n"),
        ("CLAUDE.md", CLAUDE),
        ("CLAUDE.local.md", "# Local\n\nThe database of this machine is empty.\n"),
        ("GEMINI.md", GEMINI),
        (".github/copilot-instructions.md", COPILOT),
    ];
    let layout = |chosen: usize| {
        let own = files.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
        ("combination", own.map(|(_, (path, text))| (*path, (*text).to_owned())).collect())
    };
    (0..1 << files.len()).map(layout).collect()
}

fn create(layout: &FileLayout) -> ProbeProject {
    let plain: Vec<(&str, &str)> = layout
        .1
        .iter()
        .filter(|(_, text)| !text.starts_with("-> "))
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    let project = ProbeProject::new(&plain);
    for (path, text) in &layout.1 {
        if let Some(target) = text.strip_prefix("-> ") {
            std::os::unix::fs::symlink(target, project.path().join(path)).unwrap();
        }
    }
    project
}

/// Returns the files of the project's root that the agent's file says are loaded. A link has the text of its target, so
/// one of both stands for it.
fn expected_files(cli: Cli, version: &str, layout: &FileLayout) -> Vec<String> {
    let library = Library::new(&Builtin);
    let (_, agent) = find_agent(&library, cli.name(), &Layout::default()).unwrap();
    let is_there = |path: &str| layout.1.iter().any(|(known, _)| *known == path);
    let loads = |path: &str| agent.loads.iter().any(|entry| entry.loads(path, &is_there, Some(version)));
    let mut files: Vec<String> =
        layout.1.iter().map(|(path, _)| (*path).to_owned()).filter(|path| loads(path)).collect();
    files.sort();
    files
}

/// Returns the instruction files of a request, without those that others import.
fn loaded_files(context: &Value) -> Vec<String> {
    names_of(context, "instructions").into_iter().filter(|name| name != "docs/extra.md").collect()
}

fn check_layouts(cli: Cli) {
    let more = if std::env::var_os("CALLSHEET_LONG").is_some() { combinations() } else { Vec::new() };
    for layout in layouts().into_iter().chain(more) {
        let project = create(&layout);
        let before = list_files(project.path());
        let context = project.probe(cli, &["--full", "Fix the login timeout"]).expect_code(0).json();
        let files: Vec<&str> = layout.1.iter().map(|(path, _)| *path).collect();
        let name = format!("{} {}: {}", cli.name(), layout.0, files.join(", "));
        assert_covered(&context);
        let (mut loaded, mut expected) =
            (loaded_files(&context), expected_files(cli, cli.version(), &layout));
        if layout.0 == "symlink" {
            loaded = vec![format!("{} of the same text", loaded.len().min(1))];
            expected = vec![format!("{} of the same text", expected.len().min(1))];
        }
        assert_eq!(loaded, expected, "{name}");
        let prompts = parts_of(&context, "prompt");
        assert_eq!(prompts.len(), 1, "{name}");
        let composed = project.run(["-q", "compose", "-a", cli.name(), "Fix the login timeout"]).out();
        assert_eq!(prompts[0]["text"].as_str().unwrap().trim_end(), composed.trim_end(), "{name}");
        assert!(!parts_of(&context, "tool").is_empty() && !parts_of(&context, "system").is_empty(), "{name}");
        assert_eq!(
            codes_of(&context).contains(&"context/cut"),
            cli == Cli::Codex && layout.0 == "long",
            "{name}"
        );
        assert_eq!(codes_of(&context).contains(&"context/prompt"), cli == Cli::Copilot, "{name}");
        assert!(!codes_of(&context).contains(&"context/changed"), "{name}");
        assert_eq!(list_files(project.path()), before, "{name}");
    }
}

/// Returns the files of a folder with their contents.
fn list_files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files.extend(list_files(&entry.path()));
        } else {
            files.push((entry.path().display().to_string(), fs::read(entry.path()).unwrap()));
        }
    }
    files.sort();
    files
}

macro_rules! for_each_cli {
    ($($name:ident $cli:ident,)*) => {$(
        #[test]
        fn $name() {
            on_loopback(&[Cli::$cli], || check_layouts(Cli::$cli));
        }
    )*};
}

for_each_cli! {
    claude_loads_files_of_data Claude,
    codex_loads_files_of_data Codex,
    gemini_loads_files_of_data Gemini,
    copilot_loads_files_of_data Copilot,
    opencode_loads_files_of_data Opencode,
}
