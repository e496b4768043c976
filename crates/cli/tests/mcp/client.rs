//! The official TypeScript SDK as a client of the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use callsheet_testing::{McpServer, check_recorded_sessions, npm_package, report_missing};
use serde_json::Value;

const SDK: (&str, &str) = ("@modelcontextprotocol/sdk", "1.32.2");

fn fixture_path(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp").join(file)
}

/// Returns every file below the session, as one text.
fn read_session(dir: &Path) -> String {
    let mut paths = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { paths.push(path) }
        }
    }
    paths.sort();
    let show = |path: &std::path::PathBuf| {
        format!("==> {}\n{}\n", path.strip_prefix(dir).unwrap().display(), fs::read_to_string(path).unwrap())
    };
    paths.iter().map(show).collect()
}

#[test]
fn official_client_gets_answers_and_errors() {
    let sdk = match npm_package(SDK.0, SDK.1) {
        Ok(home) => home,
        Err(why) => return report_missing(&format!("{} {}: {why}", SDK.0, SDK.1)),
    };
    let project = tempfile::tempdir().unwrap();
    let dir = project.path().join("session");
    fs::create_dir(&dir).unwrap();
    let callsheet = env!("CARGO_BIN_EXE_callsheet");
    let recorded = tempfile::tempdir().unwrap();
    let server = McpServer { command: callsheet.to_owned(), args: Vec::new(), env: Vec::new() };
    let server = server.recorded_in(recorded.path());
    let mut client = Command::new("node");
    client.arg(fixture_path("client.mjs")).args([&sdk, project.path()]).arg(server.command).args(server.args);
    client.env_clear().env("PATH", env::var("PATH").unwrap()).env("HOME", project.path().join("home"));
    let output = client.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answers = check_recorded_sessions(recorded.path()).unwrap();
    let mut kinds = BTreeMap::new();
    for answer in &answers {
        *kinds.entry((answer.revision, answer.kind.as_str())).or_insert(0) += 1;
    }
    let expected = [
        ("CallToolResult", 15),
        ("Error", 6),
        ("GetPromptResult", 1),
        ("InitializeResult", 2),
        ("ListPromptsResult", 1),
        ("ListResourcesResult", 1),
        ("ListToolsResult", 2),
        ("ReadResourceResult", 1),
    ];
    assert_eq!(kinds, expected.map(|(kind, count)| (("2025-11-25", kind), count)).into());

    // The text of a prompt is that of `compose`, and the catalog owns the list of templates.
    let compose = |arguments: &[&str]| {
        let mut command = Command::new(callsheet);
        command.current_dir(project.path()).env("HOME", project.path().join("home")).args(arguments);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let prompt = said["prompt"]["messages"][0]["content"]["text"].take();
    assert_eq!(prompt, compose(&["compose", "-q", "-r", "run", "--role", "coder", "Do {{it}}"]));
    let prompts = said["prompts"].take();
    let list = compose(&["templates", "list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let folders = ["agents/", "commands/", "identity/", "profiles/", "system/"];
    let is_prompt = |name: &&str| folders.iter().any(|folder| name.starts_with(folder));
    assert_eq!(prompts, Value::from(names.into_iter().filter(is_prompt).collect::<Vec<_>>()));

    let text = serde_json::to_string_pretty(&said).unwrap() + "\n";
    assert_matches_file("expect.json", &text);
    assert_matches_file("expect.session", &read_session(&dir));
    let preferences = project.path().join(".callsheet/prompts/agents/coder.md");
    let remembered = "## Approved Preferences\n\n- **Always** return errors\n";
    assert_eq!(fs::read_to_string(preferences).unwrap(), remembered);
}

/// Compares a text with the expected file. `BLESS=1` rewrites the file.
fn assert_matches_file(file: &str, actual: &str) {
    let path = fixture_path(file);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, actual).unwrap();
    }
    assert_eq!(actual, fs::read_to_string(&path).unwrap(), "{file}");
}
