//! Tests 500 planted secrets on every input channel.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use callsheet_testing::TestProject;
use serde_json::{Value, json};

use super::planted_secrets::{Dice, Planted, plant};

const PLANTED: usize = 500;

/// Writes a text to one input of a prompt. Returns the arguments and the standard input for the prompt.
type Input = fn(&TestProject, &str) -> (Vec<String>, Vec<u8>);

fn to_strings(args: &[&str]) -> Vec<String> {
    args.iter().map(ToString::to_string).collect()
}

fn write_request(project: &TestProject, request: &Value) -> (Vec<String>, Vec<u8>) {
    project.write("request.json", request.to_string());
    (to_strings(&["--request", "request.json"]), Vec::new())
}

const INPUTS: &[(&str, Input)] = &[
    ("the task as an argument", |_, text| (to_strings(&["-r", "run", "--", text]), Vec::new())),
    ("the task on standard input", |_, text| (to_strings(&["-r", "run", "-"]), text.into())),
    ("a value from a file", |project, text| {
        project.write(".callsheet/templates/system/BASE-plan.md", "Plan. {{notes}}");
        project.write("notes.txt", text);
        (to_strings(&["-p", "plan", "--set-file", "notes=notes.txt", "Go."]), Vec::new())
    }),
    ("a value of a request", |project, text| {
        project.write(".callsheet/templates/system/BASE-plan.md", "Plan. {{notes}}");
        write_request(
            project,
            &json!({ "phase": "plan", "instructions": "Go.", "values": { "notes": text } }),
        )
    }),
    ("a block of context", |_, text| {
        (to_strings(&["-r", "layers", "--context", &format!("notes={text}"), "Go."]), Vec::new())
    }),
    ("a block of context from a file", |project, text| {
        project.write("notes.txt", text);
        (to_strings(&["-r", "layers", "--context-file", "notes=notes.txt", "Go."]), Vec::new())
    }),
    ("data of a block of context", |project, text| {
        let context = json!([{ "name": "notes", "data": { "first": text } }]);
        write_request(project, &json!({ "recipe": "layers", "instructions": "Go.", "context": context }))
    }),
    ("a file of the project", |project, text| {
        project.write("src/notes.txt", text);
        (to_strings(&["-p", "plan", "-f", "src/notes.txt", "Go."]), Vec::new())
    }),
    ("a directory of the project", |project, text| {
        project.write("src/notes.txt", text);
        (to_strings(&["-p", "plan", "-f", "src", "Go."]), Vec::new())
    }),
    ("a file outside of the project", |project, text| {
        fs::write(project.path().parent().unwrap().join("notes.txt"), text).unwrap();
        (to_strings(&["-p", "plan", "-f", "../notes.txt", "Go."]), Vec::new())
    }),
    ("a document on standard input", |_, text| (to_strings(&["-p", "plan", "-f", "-", "Go."]), text.into())),
    ("an artifact", |project, text| {
        project.write("notes.txt", text);
        (to_strings(&["-p", "plan", "--artifact", "notes.txt", "Go."]), Vec::new())
    }),
    ("a thought", |_, text| (to_strings(&["-p", "plan", &format!("--thought={text}"), "Go."]), Vec::new())),
    ("a document of a request", |project, text| {
        let documents = json!([{ "name": "notes", "content": text }]);
        write_request(project, &json!({ "phase": "plan", "instructions": "Go.", "documents": documents }))
    }),
    ("a request on standard input", |_, text| {
        let request =
            json!({ "recipe": "run", "task": { "id": "T-1", "title": "Notes", "description": text } });
        (to_strings(&["--request", "-"]), request.to_string().into())
    }),
    ("what a person adds", |project, text| {
        let previous = json!({ "run": "r-1", "ended": "exited", "exit_code": 1 });
        let request =
            json!({ "recipe": "run", "instructions": "Go.", "human_input": text, "previous": previous });
        write_request(project, &request)
    }),
    ("a rule", |project, text| {
        write_request(project, &json!({ "recipe": "layers", "instructions": "Go.", "rules": [text] }))
    }),
    ("a memory", |project, text| {
        let memories = json!([{ "type": "pattern", "content": text }]);
        write_request(project, &json!({ "recipe": "layers", "instructions": "Go.", "memories": memories }))
    }),
    ("a tool", |project, text| {
        project.write("tools.json", json!([{ "name": "look", "description": text }]).to_string());
        (to_strings(&["-p", "plan", "--format", "json", "--tools", "tools.json", "Go."]), Vec::new())
    }),
    ("a template of the project", |project, text| {
        project.write(".callsheet/templates/system/BASE-plan.md", text);
        (to_strings(&["-p", "plan", "Go."]), Vec::new())
    }),
    ("a fragment of the project", |project, text| {
        project.write(".callsheet/templates/system/BASE-plan.md", "Plan. {{> notes}}");
        project.write(".callsheet/templates/shared/notes.md", text);
        (to_strings(&["-p", "plan", "Go."]), Vec::new())
    }),
    ("a profile of the user", |project, text| {
        let home = project.home().join(".config/callsheet/profiles");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("coder.md"), text).unwrap();
        (to_strings(&["-r", "run", "--role", "coder", "Go."]), Vec::new())
    }),
    ("an extension of the project", |project, text| {
        project.write(
            ".callsheet/templates/agents/reader.md",
            "Read this:\n[[placeholder:project_instructions]]",
        );
        project.write(".callsheet/prompts/agents/reader.md", text);
        (to_strings(&["-r", "staged", "--role", "reader", "Go."]), Vec::new())
    }),
    ("an include", |project, text| {
        project.write(".callsheet/templates/agents/reader.md", "Read this:\n[[include:notes.md]]");
        project.write("session/notes.md", text);
        (to_strings(&["-r", "staged", "--role", "reader", "--session", "session", "Go."]), Vec::new())
    }),
    ("the project's context", |project, text| {
        project.write("agentd/project.md", text);
        (to_strings(&["-p", "plan", "Go."]), Vec::new())
    }),
];

/// Joins the secrets into one text. Returns it and the secret that begins on each line.
fn join_secrets(planted: &[Planted]) -> (String, BTreeMap<usize, usize>) {
    let mut text = String::new();
    let mut lines = BTreeMap::new();
    for (at, one) in planted.iter().enumerate() {
        lines.insert(text.matches('\n').count() + 1, at);
        text.push_str(&one.text);
        text.push('\n');
    }
    (text, lines)
}

/// Returns the secrets that a refusal reports.
fn list_found(refusal: &Value, lines: &BTreeMap<usize, usize>) -> Vec<usize> {
    let place = |error: &Value| -> Option<usize> {
        assert_eq!(error["code"], "secret/found", "{error}");
        let line = error["place"]["line"].as_u64().and_then(|line| usize::try_from(line).ok())?;
        Some(*lines.range(..=line).next_back()?.1)
    };
    let mut found: Vec<usize> =
        std::iter::once(refusal).chain(refusal["others"].as_array().unwrap()).filter_map(place).collect();
    found.dedup();
    found
}

#[test]
fn planted_secrets_are_caught_and_masked() {
    let mut dice = Dice(1);
    let all: Vec<Planted> = (0..PLANTED).map(|number| plant(&mut dice, number)).collect();
    let mut missed = Vec::new();
    for (number, (name, input)) in INPUTS.iter().enumerate() {
        let share = PLANTED / INPUTS.len();
        let planted = &all[number * share..(number + 1) * share];
        let (text, lines) = join_secrets(planted);
        let project = TestProject::new();
        let (asked, stdin) = input(&project, &text);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let run = |first: &[&str]| project.run_with(&[first, &asked].concat(), &stdin);

        let refused = run(&["compose", "--json", "--secrets", "refuse"]);
        assert_eq!((refused.code, refused.out().as_str()), (Some(9), ""), "{name}: {}", refused.err());
        let refusal: Value = serde_json::from_str(&refused.err()).unwrap();
        let caught = list_found(&refusal, &lines);
        for (at, one) in planted.iter().enumerate().filter(|(at, _)| !caught.contains(at)) {
            missed.push(format!("{name}: {} ({at})", one.kind));
        }
        let output = [
            refused,
            run(&["compose", "--secrets", "refuse"]),
            run(&["compose", "--secrets", "redact"]),
            run(&["explain"]),
            run(&["explain", "--json"]),
        ];
        assert_eq!(
            output.each_ref().map(|output| output.code),
            [9, 9, 0, 0, 0].map(Some),
            "{name}: {}",
            output[2].err()
        );
        for output in &output {
            for one in caught.iter().map(|at| &planted[*at]) {
                let heard = [&output.out(), &output.err()].iter().any(|heard| heard.contains(&one.secret));
                assert!(!heard, "{name}: a {} is said aloud", one.kind);
            }
        }
    }
    let caught = PLANTED - missed.len();
    writeln!(
        std::io::stderr(),
        "secrets: {caught} of {PLANTED} planted ones caught, on {} ways in",
        INPUTS.len()
    )
    .unwrap();
    assert!(caught * 100 >= PLANTED * 95, "{}", missed.join("\n"));
}
