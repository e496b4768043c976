//! Tests that a flow can always continue: after any failure it asks a person, who can repair it, decide or
//! stop.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use callsheet_testing::{CommandOutput, run_command};
use serde_json::{Value, json};

use crate::project::{FlowProject, wait_for_file};

const FOLDER: &str = ".callsheet/changes/add-a-login-to-the-site";

/// A failure between two phases, its message, and its repair by a person.
struct Break {
    name: &'static str,
    does: fn(&FlowProject),
    says: &'static str,
    repair: fn(&FlowProject),
}

fn write(project: &FlowProject, path: &str, text: &str) {
    let path = project.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn away_path(project: &FlowProject) -> std::path::PathBuf {
    project.meet_dir().join("away")
}

fn remove_templates(project: &FlowProject) {
    fs::remove_dir_all(project.path().join(".callsheet/templates")).unwrap();
}

fn restore_folder(project: &FlowProject) {
    let folder = project.path().join(FOLDER);
    let _ = fs::remove_file(&folder);
    let _ = fs::remove_dir_all(&folder);
    fs::rename(away_path(project), folder).unwrap();
}

const BREAKS: [Break; 8] = [
    Break {
        name: "a template that cannot be read",
        does: |project| write(project, ".callsheet/templates/system/BASE-plan.md", "---\nname: [\n"),
        says: "BASE-plan.md",
        repair: remove_templates,
    },
    Break {
        name: "a fragment that is missing",
        does: |project| write(project, ".callsheet/templates/system/BASE-plan.md", "{{> nowhere}}\n"),
        says: "nowhere",
        repair: remove_templates,
    },
    Break {
        name: "a recipe that is broken",
        does: |project| write(project, ".callsheet/recipes/unified.toml", "sections = [\n"),
        says: "unified.toml",
        repair: |project| fs::remove_dir_all(project.path().join(".callsheet/recipes")).unwrap(),
    },
    Break {
        name: "a folder that is a file",
        does: |project| {
            fs::rename(project.path().join(FOLDER), away_path(project)).unwrap();
            write(project, FOLDER, "");
        },
        says: "not a folder",
        repair: restore_folder,
    },
    Break {
        name: "a folder that is a link",
        does: |project| {
            fs::rename(project.path().join(FOLDER), away_path(project)).unwrap();
            symlink(away_path(project), project.path().join(FOLDER)).unwrap();
        },
        says: "symbolic link",
        repair: restore_folder,
    },
    Break {
        name: "a folder above that cannot be made",
        does: |project| {
            fs::rename(project.path().join(FOLDER), away_path(project)).unwrap();
            fs::remove_dir_all(project.path().join(".callsheet/changes")).unwrap();
            write(project, ".callsheet/changes", "");
        },
        says: "not a folder",
        repair: |project| {
            fs::remove_file(project.path().join(".callsheet/changes")).unwrap();
            fs::create_dir(project.path().join(".callsheet/changes")).unwrap();
            fs::rename(away_path(project), project.path().join(FOLDER)).unwrap();
        },
    },
    Break {
        name: "an agent that is gone",
        does: |project| fs::rename(project.agent(), away_path(project)).unwrap(),
        says: "cannot start",
        repair: |project| fs::rename(away_path(project), project.agent()).unwrap(),
    },
    Break {
        name: "a file in the place of a document",
        does: |project| {
            let _ = fs::remove_file(project.path().join(FOLDER).join("CHANGES.md"));
            fs::create_dir(project.path().join(FOLDER).join("CHANGES.md")).unwrap();
        },
        says: "CHANGES.md",
        repair: |project| fs::remove_dir(project.path().join(FOLDER).join("CHANGES.md")).unwrap(),
    },
];

fn state(project: &FlowProject) -> Value {
    project.read_status()["state"].clone()
}

#[track_caller]
fn assert_exit(output: &CommandOutput, code: i32, told: &str) {
    assert_eq!((output.code, output.err().as_str()), (Some(code), ""), "{told}");
}

/// Creates a flow that waits in its first phase because the agent failed.
fn flow_waiting_in_plan() -> FlowProject {
    let project = FlowProject::new("quick.sh");
    let start = project.start_args("sdd", &[]);
    assert_exit(&run_command(project.command_with(&start).env("FAILS", "plan")), 1, "start");
    assert_eq!(state(&project), "waiting");
    fs::write(project.meet_dir().join("go"), "").unwrap();
    project
}

#[test]
fn repaired_flow_continues_after_any_failure() {
    for Break { name, does, says, repair } in BREAKS {
        let project = flow_waiting_in_plan();
        does(&project);
        let decided = project.run(["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]);
        assert_exit(&decided, 1, name);
        let waits = |how: &str| {
            let status = project.read_status();
            let reason = status["waits_for"][0]["message"].as_str().unwrap_or_default();
            assert_eq!(status["state"], "waiting", "{name}, {how}: {status}");
            assert!(reason.contains(says), "{name}, {how}: {status}");
        };
        waits("decide");
        assert_exit(&project.run(["--json", "-q", "flow", "resume"]), 1, name);
        waits("resume");
        assert_exit(&project.run(["--json", "-q", "flow", "decide", "--yes", "approve"]), 1, name);
        waits("approve");
        let listed = project.run_json(&["--json", "flow", "list"]);
        assert_eq!(listed["items"][0]["waits_for"], project.read_status()["waits_for"], "{name}");
        // The broken flow can be stopped, and a stopped flow can be stopped again, resumed or rejected.
        for _ in 0..2 {
            assert_exit(&project.run(["--json", "flow", "stop"]), 0, name);
            assert_eq!(state(&project), "stopped", "{name}");
        }
        repair(&project);
        let done = project.run(["--json", "-q", "flow", "resume"]);
        assert_exit(&done, 0, name);
        assert_eq!(done.lines_json().last().unwrap()["state"], "done", "{name}");
        let changes = project.path().join(".callsheet/changes/archive/add-a-login-to-the-site/CHANGES.md");
        assert_eq!(fs::read_to_string(changes).unwrap(), "## plan\n\nOnce more\n", "{name}");
    }
}

#[test]
fn broken_flow_can_be_rejected() {
    for Break { name, does, .. } in BREAKS {
        let project = flow_waiting_in_plan();
        does(&project);
        assert_exit(
            &project.run(["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]),
            1,
            name,
        );
        assert_exit(&project.run(["--json", "-q", "flow", "decide", "--yes", "reject"]), 1, name);
        assert_eq!(state(&project), "rejected", "{name}");
        assert_eq!(project.run(["flow", "decide", "--yes", "approve"]).code, Some(9), "{name}");
    }
}

/// Ending a flow does not need the project's configuration.
#[test]
fn broken_configuration_does_not_block_ending() {
    let project = flow_waiting_in_plan();
    write(&project, ".callsheet/config.toml", "agent = [\n");
    for going_on in [&["flow", "resume"][..], &["flow", "decide", "--yes", "approve"]] {
        assert_eq!(project.run(going_on).code, Some(3), "{going_on:?}");
    }
    let status = project.run(["--json", "flow", "status"]);
    assert_eq!((status.code, &status.json()["items"][0]["state"]), (Some(0), &json!("waiting")));
    let stopped = project.run(["--json", "flow", "stop"]);
    assert_eq!((stopped.code, &stopped.lines_json()[0]["state"]), (Some(0), &json!("stopped")));
    fs::remove_file(project.path().join(".callsheet/config.toml")).unwrap();
    assert_exit(
        &project.run(["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]),
        0,
        "repaired",
    );
    let project = flow_waiting_in_plan();
    write(&project, ".callsheet/config.toml", "agent = [\n");
    let rejected = project.run(["--json", "flow", "decide", "--yes", "reject"]);
    assert_eq!(
        (rejected.code, &rejected.lines_json().last().unwrap()["state"]),
        (Some(1), &json!("rejected"))
    );
}

/// A missing ledger cannot record that a flow waits; after it is restored, the flow continues.
#[test]
fn flow_continues_after_ledger_returns() {
    let project = FlowProject::new("quick.sh");
    fs::write(project.meet_dir().join("wait"), "").unwrap();
    let child = project
        .command_with(&project.start_args("sdd", &[]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    wait_for_file(&project.meet_dir().join("here"));
    let ledger = project.ledger();
    let kept = ledger.parent().unwrap().with_extension("kept");
    fs::rename(ledger.parent().unwrap(), &kept).unwrap();
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    let _ = fs::remove_dir_all(ledger.parent().unwrap());
    fs::rename(&kept, ledger.parent().unwrap()).unwrap();
    let done = project.run(["--json", "-q", "flow", "resume"]);
    assert_exit(&done, 0, "resumed");
    assert_eq!(done.lines_json().last().unwrap()["state"], "done");
}

/// A person removes a task before its lane runs.
#[test]
fn removed_task_makes_flow_wait() {
    for repaired in [true, false] {
        let project = FlowProject::new("quick.sh");
        fs::write(project.meet_dir().join("wait"), "").unwrap();
        let child = project
            .command_with(&project.start_args("sdd", &[]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        wait_for_file(&project.meet_dir().join("here"));
        assert_exit(&project.run(["--json", "flow", "stop"]), 0, "stop");
        child.wait().unwrap();
        let tasks = project.path().join(FOLDER).join("tasks.md");
        let before = fs::read_to_string(&tasks).unwrap();
        fs::write(&tasks, "- [ ] 1.1 The form\n").unwrap();
        fs::remove_file(project.meet_dir().join("wait")).unwrap();
        for _ in 0..2 {
            assert_exit(&project.run(["--json", "-q", "flow", "resume"]), 1, "resume");
            let status = project.read_status();
            assert_eq!((&status["state"], &status["phase"]), (&json!("waiting"), &json!("implement")));
            assert!(status["waits_for"][0]["message"].as_str().unwrap().contains("1.2"), "{status}");
        }
        let on: &[&str] = if repaired {
            fs::write(&tasks, &before).unwrap();
            &["--json", "-q", "flow", "resume"]
        } else {
            &["--json", "-q", "flow", "decide", "--yes", "changes", "Leave 1.2 out"]
        };
        let done = project.run(on);
        assert_exit(&done, 0, "goes on");
        assert_eq!(done.lines_json().last().unwrap()["state"], "done");
    }
}

/// The lanes of a session cannot get worktrees, or cannot be merged.
#[test]
fn blocked_lanes_make_flow_wait() {
    let project = FlowProject::new("staged.sh");
    let lanes = project.home().join(".local/state/callsheet/lanes");
    fs::create_dir_all(lanes.parent().unwrap()).unwrap();
    fs::write(&lanes, "in the way").unwrap();
    assert_exit(&project.run(project.start_args("staged", &["--jobs", "3"])), 1, "start");
    let status = project.read_status();
    assert_eq!((&status["state"], &status["phase"]), (&json!("waiting"), &json!("implementing")));
    assert!(status["waits_for"][0]["message"].as_str().unwrap().contains("lanes"), "{status}");
    fs::remove_file(&lanes).unwrap();
    assert_exit(&project.run(["--json", "-q", "flow", "resume"]), 1, "resume");
    assert_eq!(project.read_status()["phase"], "completing");
}

/// Creates a project in which a person writes a file while the second coder writes the same one in its lane.
pub(crate) fn create_project_with_conflict() -> FlowProject {
    let project = FlowProject::new("staged.sh");
    let folder = project.path().join("src/p2");
    let script = format!(
        "case \"$PWD\" in *lane-*-2) mkdir -p '{0}'; echo mine > '{0}/part.txt' ;; esac",
        folder.display()
    );
    project.run_after_agent(&script);
    project
}

/// A lane and a person changed the same file: the person decides, and keeps all of their changes.
#[test]
fn merge_conflict_asks_person() {
    let project = create_project_with_conflict();
    let part = project.path().join("src/p2/part.txt");
    assert_exit(&project.run(project.start_args("staged", &["--jobs", "3"])), 1, "start");
    let mut status = project.read_status();
    let run = status["waits_for"][0]["run"].take();
    assert!(status["runs"].as_array().unwrap().contains(&run), "{run}");
    assert_eq!(
        (&status["state"], &status["phase"], &status["waits_for"]),
        (
            &json!("waiting"),
            &json!("implementing"),
            &json!([{
                "code": "conflicts", "message": "cannot merge `2`: src/p2/part.txt", "lane": "2", "run": null,
                "to": null, "details": ["src/p2/part.txt"], "lacks": [], "parked_until_at": null,
            }])
        )
    );
    assert_eq!(fs::read_to_string(&part).unwrap(), "mine\n");
    assert!(["1", "3"].iter().all(|lane| project.path().join(format!("src/p{lane}/part.txt")).exists()));
    // The person keeps their own version.
    assert_exit(&project.run(["--json", "-q", "flow", "decide", "--yes", "approve"]), 1, "approve");
    assert_eq!(project.read_status()["phase"], "completing");
    assert_eq!(fs::read_to_string(&part).unwrap(), "mine\n");
}

/// The flow does not follow a link that a lane or the planner leaves in place of a document.
#[test]
fn documents_are_not_read_through_links() {
    for (left, phase) in [("06_implementation/done_2", "implementing"), ("04_planning/plan_1.md", "planning")]
    {
        let project = FlowProject::new("staged.sh");
        let secret = project.meet_dir().join("secret");
        fs::write(&secret, "what only its owner knows\n").unwrap();
        let role = if phase == "planning" { "planner" } else { "coder" };
        let script = format!(
            "if [ \"$CALLSHEET_ROLE\" = {role} ] && [ \"$CALLSHEET_PHASE\" = {phase} ]; then cd \"$CALLSHEET_SESSION\"; \
             if [ {role} = planner ] || [ -e {left} ]; then ln -sf '{}' {left}; fi; fi",
            secret.display()
        );
        project.run_after_agent(&script);
        assert_exit(&project.run(project.start_args("staged", &["--jobs", "3"])), 1, left);
        let status = project.read_status();
        assert_eq!(
            (&status["state"], &status["phase"]),
            (&json!("waiting"), &json!(phase)),
            "{left}: {status}"
        );
        assert_eq!(fs::read_to_string(&secret).unwrap(), "what only its owner knows\n");
        let knows = |text: &str| text.contains("what only its owner knows");
        for run in status["runs"].as_array().unwrap() {
            assert!(!knows(&project.read_prompt(run.as_str().unwrap())), "{left}");
        }
        let session = project.path().join(".callsheet/sessions/add-a-login-to-the-site");
        let mut open = vec![session];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() {
                    assert!(!knows(&fs::read_to_string(entry.path()).unwrap()), "{left}: {:?}", entry.path());
                }
            }
        }
    }
}

/// Without git there are no worktrees, and the lanes share the folder.
#[test]
fn session_without_git_ends_alike() {
    let (with, without) = (FlowProject::new("staged.sh"), FlowProject::without_repository("staged.sh"));
    for project in [&with, &without] {
        assert_exit(&project.run(project.start_args("staged", &["--jobs", "3"])), 1, "start");
    }
    let (with, without) = (with.read_result(), without.read_result());
    assert_eq!((&without.state, &without.phase), (&with.state, &with.phase));
    assert_eq!(without.files, with.files);
}

/// An agent that reports a failure gives no evidence of a good end, regardless of its exit code.
#[test]
fn agent_reporting_failure_has_not_succeeded() {
    for (is_error, lacks) in [(true, true), (false, false)] {
        let project = FlowProject::new("quick.sh");
        let bin = project.meet_dir().join("bin");
        fs::create_dir(&bin).unwrap();
        let result = json!({
            "type": "result", "subtype": "success", "is_error": is_error, "result": "<review>PASS</review>",
            "session_id": "s", "num_turns": 1, "duration_ms": 1, "total_cost_usd": 0.01,
        });
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '2.0.0 (Claude Code)'; exit; fi\n'{}' > /dev/null\n\
             echo '{result}'\n",
            project.agent().display()
        );
        fs::write(bin.join("claude"), script).unwrap();
        fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let start = ["--json", "-q", "flow", "start", "sdd", "Add a login", "--agent", "claude"];
        run_command(project.command_with(&start).env("PATH", path));
        let mut events = project.read_events().into_iter();
        let first =
            events.find(|event| event["event"] == "flow.lane_ended").unwrap()["data"]["detail"].clone();
        let has = |word: &str| first["evidence"].as_array().unwrap().contains(&json!(word));
        assert_eq!(has("exit"), !lacks, "{first}");
        assert!(has("file.tasks.md"), "{first}");
    }
}
