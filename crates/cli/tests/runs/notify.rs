//! The program that runs when a run ends.

use std::fs;

use callsheet_testing::run_command;

use crate::project::{RunProject, fake_agent};

fn write_notify(project: &RunProject) -> String {
    let script = project.write_beside(
        "note.sh",
        format!(
            "printf '%s|%s|%s|%s|%s|%s\\n' \"$CALLSHEET_RUN\" \"$CALLSHEET_FLOW\" \"$CALLSHEET_OUTCOME\" \"$CALLSHEET_NAME\" \"$CALLSHEET_LEDGER\" \"$1\" >> '{}'\n",
            project.beside("told").display()
        ),
    );
    script.display().to_string()
}

#[test]
fn notification_has_outcome_without_password() {
    let project = RunProject::new();
    let script = write_notify(&project);
    let ledger = project.beside("own.db").display().to_string();
    let mut command =
        project.agent_command(&["--task-id", "T-1", "--notify", &format!("sh {script} 'a b'")], &["read"]);
    let ran =
        run_command(command.env("CALLSHEET_LEDGER", &ledger).env("CALLSHEET_FLOW", "other")).expect_code(0);
    let told = fs::read_to_string(project.beside("told")).unwrap();
    assert_eq!(told, format!("{}||nothing_changed|T-1||a b\n", ran.run_id()));
    project.assert_no_process_left();
}

#[test]
fn failing_notification_is_only_warning() {
    let project = RunProject::new();
    for (command, why) in [
        ("false", "exit code 1"),
        ("sh -c 'echo no luck >&2; exit 3'", "exit code 3: no luck"),
        ("no-such-program", "no-such-program"),
    ] {
        let ran =
            project.run(["run", "--notify", command, "Do it.", "--", fake_agent(), "read"]).expect_code(0);
        assert!(ran.err().contains("warning[NotifyFailed]") && ran.err().contains(why), "{}", ran.err());
    }
    let wrong = project.run(["--json", "run", "--notify", "a | b", "Do it.", "--", fake_agent(), "read"]);
    assert_eq!(wrong.error(), (Some(2), "usage/bad".into()));
    assert_eq!(project.run(["--json", "log"]).expect_code(0).json()["items"].as_array().unwrap().len(), 3);
}

#[test]
fn notification_of_project_needs_trust() {
    let project = RunProject::new();
    let script = write_notify(&project);
    project.write(".callsheet/config.toml", format!("notify = [\"sh\", \"{script}\", \"project\"]\n"));
    project.commit();
    let run = || {
        project
            .run(["--json", "-q", "run", "--write", "**", "Do it.", "--", fake_agent(), "read"])
            .expect_code(0)
    };
    run();
    assert!(!project.beside("told").exists());
    project.write_beside(
        "home/.config/callsheet/config.toml",
        format!("notify = [\"sh\", \"{script}\", \"user\"]\n"),
    );
    run();
    project.run(["trust", "--yes"]).expect_code(0);
    run();
    let told = fs::read_to_string(project.beside("told")).unwrap();
    let last: Vec<&str> = told.lines().filter_map(|line| line.rsplit('|').next()).collect();
    assert_eq!(last, ["user", "project"]);
}
