//! Tests approved documents: other phases must not change them, and the ledger names a person who does.

use std::fs;
use std::os::unix::fs::symlink;

use callsheet_testing::{CommandOutput, run_command};
use serde_json::{Value, json};

use crate::project::{FlowProject, messages, wait_for_file};

fn run_straying(project: &FlowProject, phase: &str, stray: &str) -> CommandOutput {
    let start = project.start_args("sdd", &[]);
    run_command(project.command_with(&start).env("STRAYS", phase).env("STRAY", stray))
}

#[test]
fn changed_approved_document_makes_flow_wait() {
    let cases = [
        ("challenge", "sed -i /1.2/d tasks.md", "tasks.md"),
        ("challenge", "rm specs/login.md", "specs/login.md"),
        ("challenge", "mv tasks.md todo.md", "tasks.md"),
        ("challenge", "echo x > specs/more.md", "specs/more.md"),
        ("challenge", "rm proposal.md; ln -s /etc/hostname proposal.md", "proposal.md"),
        ("review", "mv specs s; ln -s s specs", "specs/login.md"),
        ("review", "printf '# proposal' > proposal.md", "proposal.md"),
        ("review", "cp -p proposal.md p; ln -f p proposal.md; echo >> p", "proposal.md"),
    ];
    for (phase, stray, path) in cases {
        let project = FlowProject::new("quick.sh");
        assert_eq!(run_straying(&project, phase, stray).code, Some(1), "{stray}");
        let status = project.read_status();
        let reason = format!("`{phase}` changed documents of other phases: {path}");
        assert_eq!((&status["state"], &status["phase"]), (&json!("waiting"), &json!(phase)), "{stray}");
        // A link that leads out of the scope also lacks `clean`, so the reason is the last one.
        assert_eq!(status["waits_for"].as_array().unwrap().last().unwrap()["message"], reason, "{stray}");
        // Resuming is not a decision.
        assert_eq!(project.run(["-q", "flow", "resume"]).code, Some(1), "{stray}");
        assert_eq!(project.read_status()["waits_for"], status["waits_for"], "{stray}");
    }
}

/// Returns the document changes in the ledger: who changed which documents.
fn recorded_changes(project: &FlowProject) -> Vec<(String, Vec<String>)> {
    let events = project.read_events().into_iter().filter(|event| event["event"] == "flow.documents");
    let told = |event: Value| {
        let changed = event["data"]["detail"]["changed"].as_object().unwrap().keys().cloned().collect();
        (event["data"]["by"].as_str().unwrap().to_owned(), changed)
    };
    events.map(told).collect()
}

#[test]
fn person_may_edit_while_flow_waits() {
    let project = FlowProject::new("quick.sh");
    assert_eq!(run_straying(&project, "challenge", "sed -i /1.2/d tasks.md").code, Some(1));
    let folder = project.path().join(".callsheet/changes/add-a-login-to-the-site");
    fs::write(folder.join("tasks.md"), "- [ ] 1.1 The form\n- [ ] 1.2 The session, once more\n").unwrap();
    let done = project.run(["--json", "-q", "flow", "decide", "--yes", "approve"]);
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
    let by_person: Vec<(String, Vec<String>)> =
        recorded_changes(&project).into_iter().filter(|(by, _)| by != "flow").collect();
    assert_eq!(by_person, [("yes".to_owned(), vec!["tasks.md".to_owned()])]);
    let tasks = project
        .read_events()
        .into_iter()
        .filter(|event| event["data"]["phase"] == "implement" && event["event"] == "flow.lane_ended");
    assert_eq!(tasks.count(), 2);
}

/// Starts a change and kills its callsheet while the agent works, and its guard if `with_guards`. Returns
/// after all of its processes have ended.
fn kill_at_work(project: &FlowProject, with_guards: bool) {
    fs::write(project.meet_dir().join("wait"), "").unwrap();
    let start = project.start_args("sdd", &[]);
    let child = project.command_with(&start).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_for_file(&project.meet_dir().join("here"));
    FlowProject::kill(child, with_guards);
    if with_guards {
        project.kill_rest();
    }
    project.wait_for_agents();
}

const FOLDER: &str = ".callsheet/changes/add-a-login-to-the-site";

/// While no process of a flow runs, only a person can change documents, and the flow continues with their
/// changes.
#[test]
fn m8_edits_after_kill_are_used() {
    let project = FlowProject::new("quick.sh");
    kill_at_work(&project, false);
    let folder = project.path().join(FOLDER);
    fs::write(folder.join("proposal.md"), "# Proposal\n\nWith a logout.\n").unwrap();
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    let done = project.run(["--json", "-q", "flow", "resume"]);
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""), "{}", project.read_status()["waits_for"]);
    let by_person: Vec<(String, Vec<String>)> =
        recorded_changes(&project).into_iter().filter(|(by, _)| by != "flow").collect();
    assert_eq!(by_person.len(), 1, "{by_person:?}");
    assert_eq!(by_person[0].1, ["proposal.md"]);
    let asked = project
        .read_events()
        .into_iter()
        .filter(|event| event["data"]["phase"] == "implement" && event["event"] == "flow.lane_ended");
    let asked: Vec<String> =
        asked.map(|event| event["data"]["detail"]["run"].as_str().unwrap().to_owned()).collect();
    assert!(asked.iter().all(|run| project.read_prompt(run).contains("With a logout.")));
}

/// Changes that an interrupted agent made are attributed to it, regardless of the process that notices them
/// first.
#[test]
fn changes_of_killed_agent_are_checked() {
    let project = FlowProject::new("quick.sh");
    let real = project.agent().with_extension("straying");
    fs::rename(project.agent(), &real).unwrap();
    let stray = "if [ -e \"$MEET_AT/wait\" ] && [ \"$CALLSHEET_PHASE\" = implement ]; then \
                 echo more >> \"$CALLSHEET_SESSION/proposal.md\"; fi";
    fs::write(project.agent(), format!("#!/bin/sh\n{stray}\nexec '{}'\n", real.display())).unwrap();
    fs::set_permissions(project.agent(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    kill_at_work(&project, false);
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    assert_eq!(project.run(["--json", "-q", "flow", "resume"]).code, Some(1));
    let reasons = messages(&project.read_status()["waits_for"]).as_array().unwrap().clone();
    let reason = json!("`implement` changed documents of other phases: proposal.md");
    assert!(reasons.contains(&reason), "{reasons:?}");
}

/// If no process saw the end of the agent, the author of a change is unknown: the flow asks a person and
/// names no author.
#[test]
fn unattributed_changes_need_approval() {
    let project = FlowProject::new("quick.sh");
    kill_at_work(&project, true);
    let folder = project.path().join(FOLDER);
    let tasks = fs::read_to_string(folder.join("tasks.md")).unwrap();
    fs::remove_file(folder.join("tasks.md")).unwrap();
    symlink("/etc/hostname", folder.join("tasks.md")).unwrap();
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    let resume = || project.run(["--json", "-q", "flow", "resume"]);
    for _ in 0..2 {
        assert_eq!(resume().code, Some(1));
        let reasons = messages(&project.read_status()["waits_for"]).as_array().unwrap().clone();
        let reason = json!(
            "documents changed while the flow was not running, by a person or by the interrupted agent: tasks.md"
        );
        assert!(reasons.contains(&reason), "{reasons:?}");
        assert!(!reasons.iter().any(|why| why.as_str().unwrap().contains('␊')), "{reasons:?}");
    }
    fs::remove_file(folder.join("tasks.md")).unwrap();
    fs::write(folder.join("tasks.md"), tasks).unwrap();
    let done = resume();
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
    // The command in the message continues the flow.
    let project = FlowProject::new("quick.sh");
    kill_at_work(&project, true);
    fs::write(project.path().join(FOLDER).join("proposal.md"), "# Another\n").unwrap();
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    assert_eq!(project.run(["--json", "-q", "flow", "resume"]).code, Some(1));
    assert_eq!(project.run(["--json", "-q", "flow", "decide", "--yes", "approve"]).code, Some(0));
}

/// Every agent of a session gets a description of the session, and no prompt has an empty element.
#[test]
fn m1_only_flow_writes_session_context() {
    let project = FlowProject::new("staged.sh");
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "1"])).code, Some(1));
    let session = ".callsheet/sessions/add-a-login-to-the-site";
    let context = callsheet_core::flow::render_session_context(session).unwrap();
    let file = project.path().join(session).join("context.md");
    assert_eq!(fs::read_to_string(&file).unwrap(), context);
    let mut seen = Vec::new();
    for event in project.read_events() {
        let Some(run) =
            event["data"]["detail"]["run"].as_str().filter(|_| event["event"] == "flow.lane_started")
        else {
            continue;
        };
        let prompt = project.read_prompt(run);
        let title = prompt.lines().next().unwrap().to_owned();
        assert!(!prompt.contains(">\n\n</") && !prompt.contains(">\n</"), "{title}");
        let shown = prompt.contains(&format!("<file path=\"context.md\">\n{}\n", context.trim_end()));
        seen.push((title, shown));
    }
    seen.dedup();
    let seen: Vec<(&str, bool)> = seen.iter().map(|(title, shown)| (title.as_str(), *shown)).collect();
    let wanted = [
        ("# Architect", true),
        ("# Planner", true),
        ("# Coder", true),
        ("# Review", true),
        ("# Fix", false),
        ("# Review, round 2", false),
        ("# Summary", false),
    ];
    assert_eq!(seen, wanted);
}
