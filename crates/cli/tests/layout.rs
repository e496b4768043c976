//! Tests the layout of the sources: commands are short and independent, and the library does not print.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a file of a command.
const MOST_LINES: usize = 120;

/// Returns the paths and texts of all Rust files below a folder of `crates`.
fn read_sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    assert_ne!(found, [], "{folder}");
    found
}

/// Returns the lines of a Rust or TOML file that are no comments, with their numbers.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.starts_with("//") && !line.starts_with("# "))
}

/// Returns the problem of a file that is too long for a command.
fn find_long_file(path: &Path, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines > MOST_LINES { vec![format!("{}: {lines} lines", path.display())] } else { Vec::new() }
}

/// Returns the lines that use a command from outside of its own file or folder.
fn find_command_uses(path: &Path, text: &str) -> Vec<String> {
    let name = |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_owned();
    if ["main.rs", "args.rs"].iter().any(|entry| name(Some(path)) == *entry) {
        return Vec::new();
    }
    // Beside the root of a command are the other commands.
    let place = if name(Some(path)) == "mod.rs" { path.parent() } else { Some(path) };
    let is_root = name(place.and_then(Path::parent)) == "commands";
    let is_use = |line: &str| {
        line.contains("crate::commands") || line.contains(if is_root { "super::" } else { "super::super::" })
    };
    let lines = code_lines(text).filter(|(_, line)| is_use(line));
    lines.map(|(number, line)| format!("{}:{number}: {line}", path.display())).collect()
}

/// Returns the lines that print, end the process or know the command line.
fn find_output(path: &Path, text: &str) -> Vec<String> {
    let forbidden = ["clap", "print!", "println!", "stdout()", "stderr()", "process::exit"];
    // Whether a person is at the terminal can be asked without printing.
    let is_output = |line: &str| {
        let line = line.replace("stderr().is_terminal()", "").replace("stdout().is_terminal()", "");
        forbidden.iter().any(|word| line.contains(word))
    };
    let lines = code_lines(text).filter(|(_, line)| is_output(line));
    lines.map(|(number, line)| format!("{}:{number}: {line}", path.display())).collect()
}

fn collect(sources: &[(PathBuf, String)], find: fn(&Path, &str) -> Vec<String>) -> Vec<String> {
    sources.iter().flat_map(|(path, text)| find(path, text)).collect()
}

#[test]
fn command_files_are_short() {
    assert_eq!(collect(&read_sources("cli/src/commands"), find_long_file), [""; 0]);
    let (fits, long) = ("\n".repeat(MOST_LINES), "\n".repeat(MOST_LINES + 1));
    assert_eq!(find_long_file(Path::new("a.rs"), &fits), [""; 0]);
    assert_eq!(find_long_file(Path::new("a.rs"), &long), ["a.rs: 121 lines"]);
}

#[test]
fn commands_are_not_imported() {
    assert_eq!(collect(&read_sources("cli/src"), find_command_uses), [""; 0]);
    let text = "// crate::commands\nuse super::adopt;\nuse crate::commands::log::row_json;\n";
    for (path, wanted) in [
        ("src/args.rs", vec![]),
        ("src/pages.rs", vec![3]),
        ("src/commands/show.rs", vec![2, 3]),
        ("src/commands/ledger/mod.rs", vec![2, 3]),
        ("src/commands/ledger/path.rs", vec![3]),
    ] {
        let lines: Vec<&str> = text.lines().collect();
        let wanted: Vec<_> = wanted.into_iter().map(|at| format!("{path}:{at}: {}", lines[at - 1])).collect();
        assert_eq!(find_command_uses(Path::new(path), text), wanted);
    }
}

#[test]
fn library_does_not_print_or_exit() {
    let mut sources = read_sources("app/src");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    sources.push((manifest, text));
    assert_eq!(collect(&sources, find_output), [""; 0]);
    let fine = "// println!\nstd::io::stdin().lock();\nstd::io::stderr().is_terminal();\n";
    assert_eq!(find_output(Path::new("a.rs"), fine), [""; 0]);
    for planted in [
        "use clap::Parser;",
        "clap.workspace = true",
        "print!(\"x\");",
        "eprintln!(\"x\");",
        "println!(\"x\");",
        "std::io::stdout().write_all(b\"x\");",
        "let mut out = stderr().lock();",
        "std::process::exit(1);",
    ] {
        assert_eq!(find_output(Path::new("a.rs"), planted), [format!("a.rs:1: {planted}")]);
    }
}
