//! A prompt in two parts: the real CLIs on the mock model, and the refusals.

use std::fs;

use callsheet_testing::{Cli, CommandOutput, Request, Room, Script, Step, on_loopback, run_with_input};
use serde_json::{Value, json};

use crate::agents::{cli_command, run_args};
use crate::project::{RunProject, fake_agent};

/// Creates a repository whose prompts begin with about 40 KB that do not depend on the task.
fn create_project(role: &str) -> RunProject {
    let project = RunProject::in_private_dir();
    project.write(".callsheet/templates/identity/odd.md", role);
    let lines =
        (0..700).map(|number| format!("{number}. The module {number} owns the table {}.\n", number * 7919));
    project.write(".callsheet/memory/profile.md", lines.collect::<String>());
    project.write("notes.md", "what the notes say\n");
    project.write("CLAUDE.md", "# Rules\n\nUse tabs.\n");
    project.write("AGENTS.md", "# Rules\n\nUse tabs.\n");
    project.git(&["add", "-A"]);
    project.git(&["commit", "-q", "-m", "rules"]);
    project
}

fn run_layers(project: &RunProject, room: &Room, cli: Cli, more: &[&str], task: &str) -> CommandOutput {
    let more = [&["-r", "layers", "--role", "odd"], more].concat();
    let mut command = cli_command(project, room, cli);
    run_with_input(command.args(["--json", "-q"]).args(run_args(cli, &more)), task.as_bytes()).expect_code(0)
}

/// Returns the requests of turns, without those for titles and counts.
fn turn_requests(room: &Room) -> Vec<Request> {
    room.mock.requests().into_iter().filter(|request| request.answer.starts_with("step")).collect()
}

/// Collects the texts of a value, in order. Ids of messages are not read by the model.
fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(map) => {
            let read = map.iter().filter(|(key, _)| key.as_str() != "id" && key.as_str() != "cache_control");
            read.for_each(|(_, value)| collect_texts(value, texts));
        }
        _ => {}
    }
}

/// Returns the texts of a request in the order in which the model reads them. The API takes the block with the version of
/// Claude Code out of a request before it reads it, so this block ends no prefix.
fn reading_order(request: &Request) -> Vec<String> {
    let mut texts = Vec::new();
    for key in ["tools", "system", "instructions", "messages", "input"] {
        collect_texts(&request.body[key], &mut texts);
    }
    texts.retain(|text| !text.starts_with("x-anthropic-billing-header:"));
    texts
}

/// Returns the share of a request, in percent, that both requests begin with.
fn shared_percent(one: &Request, other: &Request) -> f64 {
    let [one, other] = [one, other].map(|request| reading_order(request).concat());
    let common = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    common as f64 * 100.0 / one.len().max(other.len()) as f64
}

/// Returns the shared part and the own part of a run, as recorded.
fn recorded_parts(project: &RunProject, run: &str) -> (String, String) {
    let prompt = project.prompt(run);
    let launch = project.run(["--json", "show", run]).json()["launch"].clone();
    let parts = launch["parts"].as_array().unwrap();
    let place = |part: &Value, key: &str| usize::try_from(part[key].as_u64().unwrap()).unwrap();
    let [shared, own] =
        [&parts[0], &parts[1]].map(|part| prompt[place(part, "start")..place(part, "end")].to_owned());
    assert_eq!((parts.len(), &parts[0]["part"], &parts[1]["part"]), (2, &json!("shared"), &json!("own")));
    assert_eq!(shared.clone() + &own, prompt);
    (shared, own)
}

/// Asserts that the model got both parts as they are, each once, the shared one first.
fn assert_parts_arrived(request: &Request, shared: &str, own: &str) {
    let texts = reading_order(request);
    let whole = texts.concat();
    assert_eq!((whole.matches(shared).count(), whole.matches(own).count()), (1, 1));
    let place = |part: &str| texts.iter().position(|text| text.contains(part)).unwrap();
    assert!(place(shared) < place(own));
    assert_eq!(texts[place(own)], own);
    // Claude Code has it at the end of its system prompt, Codex in a message of its own.
    assert!(texts[place(shared)].ends_with(shared));
}

#[expect(clippy::print_stderr, reason = "the measured shares")]
fn assert_prefix_is_shared(cli: Cli, least: f64) {
    let room = Room::new(Script::new().on_marker("MARK", [Step::text("I did.")])).unwrap();
    let project = create_project("You work on {{project_name}}.\n");
    let tasks = [("one", "MARK: make the form wider.\n"), ("another", "MARK: explain the second table.\n")];
    let mut runs = Vec::new();
    for more in [&[][..], &["--split"]] {
        for (id, task) in tasks {
            let place = [more, &["--set", "project_name=Shop", "--worktree", "--task-id", id]].concat();
            runs.push(run_layers(&project, &room, cli, &place, task));
        }
    }
    let requests = turn_requests(&room);
    let [first, second, third, fourth] = &requests[..] else { panic!("{} requests", requests.len()) };
    let (before, after) = (shared_percent(first, second), shared_percent(third, fourth));
    eprintln!(
        "{} {}: {before:.1} % of two requests are shared, with --split {after:.1} %",
        cli.name(),
        cli.version()
    );
    assert!(after >= least && before < least - 25.0, "{before} → {after}");
    let parts = [&runs[2], &runs[3]].map(|ran| recorded_parts(&project, &ran.run_id()));
    assert_eq!(parts[0].0, parts[1].0);
    assert!(parts[0].0.contains("The module 699 owns") && parts[0].1.contains("make the form wider"));
    for (request, (shared, own)) in [third, fourth].into_iter().zip(&parts) {
        assert_parts_arrived(request, shared, own);
    }
    for ran in &runs {
        assert!(ran.json()["receipts"].as_array().unwrap().contains(&json!("echoed")), "{ran:?}");
        project.run(["verify", &ran.run_id()]).expect_code(0);
    }
    let run = runs[3].run_id();
    let by = if cli == Cli::Claude { "file" } else { "argument" };
    let (shared, own) = (parts[1].0.len(), parts[1].1.len());
    let words = [format!("{shared} bytes in the system prompt by {by}"), format!("{own} bytes by stdin")];
    let page = project.run(["show", &run]).out();
    assert!(page.contains(&format!("delivered:{}, then {}\n", words[0], words[1])), "{page}");
    let origins = project.run(["show", &run, "--origins"]).out();
    let places = words.map(|words| origins.find(&format!("══ {words}\n")).unwrap());
    assert!(places[0] == 0 && places[0] < places[1]);
    // The file for the agent is removed with it.
    assert!(!project.path().join(".callsheet/runs").exists());
    // A retry is delivered as the run before it.
    let mut retry = cli_command(&project, &room, cli);
    let again = run_with_input(retry.args(["--json", "-q", "retry", &run, "--force"]), b"").expect_code(0);
    assert_eq!(recorded_parts(&project, &again.run_id()).0, parts[1].0);
    project.assert_all_runs_finished();
}

#[test]
fn split_prefix_is_shared_by_claude() {
    on_loopback(&[Cli::Claude], || assert_prefix_is_shared(Cli::Claude, 80.0));
}

#[test]
fn split_prefix_is_shared_by_codex() {
    on_loopback(&[Cli::Codex], || assert_prefix_is_shared(Cli::Codex, 95.0));
}

const HOSTILE: &str = "--help -x @notes.md /help \"quoted\" 'and' ${HOME} $(date) `date` \\n %s \u{7f} é 漢字\n/init\n@notes.md\n";

/// The shared part is a text, whatever it looks like: no flag, no command, no file.
#[test]
fn hostile_shared_part_arrives_unchanged() {
    let clis = [Cli::Claude, Cli::Codex];
    on_loopback(&clis, || {
        for cli in clis {
            let room = Room::new(Script::new().on_marker("MARK", [Step::text("I did.")])).unwrap();
            let project = create_project(HOSTILE);
            let ran = run_layers(&project, &room, cli, &["--split"], "MARK\n");
            let (shared, own) = recorded_parts(&project, &ran.run_id());
            assert!(shared.starts_with(HOSTILE), "{shared}");
            let requests = turn_requests(&room);
            assert_eq!(requests.len(), 1);
            assert_parts_arrived(&requests[0], &shared, &own);
            let body = requests[0].body.to_string();
            assert!(!body.contains("what the notes say"), "{body}");
        }
    });
}

#[test]
fn agents_without_parts_are_refused() {
    let project = create_project("You work.\n");
    let refused = |args: &[&str]| {
        let output =
            project.run([&["--json", "run", "-r", "layers", "--role", "odd", "Do it."], args].concat());
        assert_eq!(output.error(), (Some(2), "deliver/refused".to_owned()), "{output:?}");
        output.error_json()["message"].as_str().unwrap().to_owned()
    };
    for (agent, name) in [("gemini", "Gemini CLI"), ("copilot", "Copilot CLI"), ("opencode", "opencode")] {
        let why = format!("the prompt cannot be split: {name} has no way to add a text to its system prompt");
        assert_eq!(refused(&["-a", agent, "--split"]), why);
    }
    let why = "the prompt cannot be split: in a terminal, the agent gets all of it in a file";
    assert_eq!(refused(&["-a", "claude", "--split", "--terminal"]), why);
    let program = ["--split", "--", fake_agent()];
    let why = "the prompt cannot be split: A command has no way to add a text to its system prompt";
    assert_eq!(refused(&program), why);
    // Arguments are visible to other users.
    project.write(".callsheet/memory/profile.md", "The key is ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5.\n");
    let why = "the shared part of the prompt has a secret, and the agent would take it as an argument";
    assert_eq!(refused(&["-a", "codex", "--split", "--secrets", "allow"]), why);
}

/// Without a flag, an agent that cannot take parts gets the prompt as one, and the run says so.
#[test]
fn configured_split_falls_back_to_one() {
    let project = create_project("You work.\n");
    fs::create_dir_all(project.beside("home/.config/callsheet")).unwrap();
    fs::write(project.beside("home/.config/callsheet/config.toml"), "split = true\n").unwrap();
    let ran = project.run_agent(&["-r", "layers", "--role", "odd"], &["say", "done"]).expect_code(0);
    let shown = project.run(["--json", "show", &ran.run_id()]).json();
    assert_eq!((&shown["launch"]["split"], &shown["launch"]["parts"]), (&json!(true), &json!([])));
    let plan = project.run_agent(&["-r", "layers", "--role", "odd", "--dry-run"], &["say", "done"]).json();
    let warnings = plan["diagnostics"].as_array().unwrap();
    let note = "the prompt is delivered as one: A command has no way to add a text to its system prompt";
    assert!(warnings.iter().any(|warning| warning["message"] == note), "{warnings:?}");
    let ran =
        project.run_agent(&["-r", "layers", "--role", "odd", "--no-split"], &["say", "done"]).expect_code(0);
    let shown = project.run(["--json", "show", &ran.run_id()]).json();
    assert_eq!(shown["launch"]["split"], json!(false));
}

#[test]
fn dry_run_and_explain_show_parts() {
    let project = create_project("You work.\n");
    let args = ["--json", "explain", "--split", "-a", "claude", "-r", "layers", "--role", "odd", "Do it."];
    let explained = project.run(args).expect_code(0).json();
    let shared = usize::try_from(explained["shared_bytes"].as_u64().unwrap()).unwrap();
    let text = explained["text"].as_str().unwrap();
    assert!(text[..shared].ends_with("\n\n---\n\n") && &text[shared..] == "Do it.", "{text}");
    let page = project.run(&args[1..]).expect_code(0).out();
    let line = format!(
        "══ --split divides the prompt here, after {shared} bytes\n── request instructions (person)\n"
    );
    assert!(page.contains(&line), "{page}");
}
