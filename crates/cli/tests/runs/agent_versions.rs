//! The version of an agent, recorded with its run: by its events, else by its program, else unknown.

use serde_json::{Value, json};

use crate::model_faults::{INIT, write_claude};
use crate::project::RunProject;
use crate::terminals::has_tmux;

/// Returns the version in the list of runs, and the version of the run alone.
fn versions(project: &RunProject) -> (Value, Value) {
    let listed = project.run(["--json", "log"]).expect_code(0).json()["items"][0]["agent_version"].clone();
    let shown = project.run(["--json", "show", "last"]).expect_code(0).json()["agent_version"].clone();
    (listed, shown)
}

fn shown_agent(project: &RunProject) -> String {
    let page = project.run(["show", "last"]).expect_code(0).out();
    page.lines().find(|line| line.starts_with("agent:")).unwrap().to_owned()
}

#[test]
fn version_of_events_is_recorded() {
    let project = RunProject::new();
    let init = INIT.replace('}', ",\"claude_code_version\":\"9.8.7\"}");
    let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done."}"#;
    write_claude(&project, &[init, done.into()], "");
    project.run(["-q", "run", "-a", "claude", "--write", "**", "Do it."]).expect_code(0);
    assert_eq!(versions(&project), (json!("9.8.7"), json!("9.8.7")));
    assert_eq!(shown_agent(&project), "agent:    claude (9.8.7)");
}

/// The program is asked once, beside the agent and with its variables.
#[test]
fn version_of_program_is_recorded() {
    let project = RunProject::new();
    let calls = project.beside("calls");
    let script = format!(
        "#!/bin/sh\necho \"$1 $CALLSHEET_RUN\" >> '{0}'\n\
         [ \"$1\" = --version ] && {{ echo; echo 'codex-cli 9.8.7 '; echo more; exit; }}\n\
         cat > /dev/null; until [ \"$(wc -l < '{0}')\" = 2 ]; do sleep 0.05; done\n",
        calls.display()
    );
    project.write_program("codex", &script);
    project.run(["-q", "run", "-a", "codex", "Do it."]);
    assert_eq!(versions(&project), (json!("codex-cli 9.8.7"), json!("codex-cli 9.8.7")));
    assert_eq!(shown_agent(&project), "agent:    codex (codex-cli 9.8.7)");
    let calls = std::fs::read_to_string(calls).unwrap();
    let mut lines: Vec<&str> = calls.lines().collect();
    lines.sort_unstable();
    let run = project.run(["--json", "show", "last"]).json()["run"].as_str().unwrap().to_owned();
    assert_eq!(lines, [format!("--version {run}"), format!("exec {run}")]);
}

/// A program that does not answer, or that answers something else, delays no agent and leaves the version unknown.
#[test]
fn missing_version_is_unknown() {
    let project = RunProject::new();
    for answer in ["exec sleep 600", "exit 1", "head -c 1000000 /dev/zero; exit", "echo hello; exit"] {
        let script =
            format!("#!/bin/sh\n[ \"$1\" = --version ] && {{ {answer}; }}\ncat > /dev/null; echo hello\n");
        project.write_program("codex", &script);
        project.run(["-q", "run", "-a", "codex", "Do it."]);
        assert_eq!(versions(&project), (Value::Null, Value::Null), "{answer}");
        assert_eq!(shown_agent(&project), "agent:    codex (version unknown)");
        project.assert_all_runs_finished();
    }
    project.run(["-q", "run", "Do it.", "--", "true"]).expect_code(0);
    assert_eq!(versions(&project), (Value::Null, Value::Null));
}

/// The run ends in another process than the one that asked.
#[test]
fn version_in_terminal_is_recorded() {
    if !has_tmux() {
        return;
    }
    let project = RunProject::new();
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && { echo 9.8.7; exit; }\nprintf '\\n❯ '\n\
        while read -r line; do printf '\\033[2J\\033[H\\n❯ '; done\n";
    project.write_program("copilot", script);
    let mut command = project.command();
    command.args(["--json", "-q", "run", "-a", "copilot", "--terminal", "Do it."]);
    let run = callsheet_testing::run_command(command.env("TERM", "xterm-256color")).expect_code(0).run_id();
    project.run(["stop", &run]).expect_code(0);
    assert_eq!(versions(&project), (json!("9.8.7"), json!("9.8.7")));
}
