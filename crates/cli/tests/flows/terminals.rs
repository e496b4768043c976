//! Tests flows in terminals: each agent gets one line in a pane that a person can attach to.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use callsheet_testing::{report_missing, run_command, wait_until};
use serde_json::json;

use crate::project::{FlowProject, wait_for_file};
use crate::rounds::run_before_agent;

pub(crate) fn has_tmux() -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    if !there {
        report_missing("terminals: tmux is not installed");
    }
    there
}

/// Installs a program that looks like Claude Code or Copilot. It logs each line that it gets and starts the
/// scripted agent. In the phase `architecting` it keeps running, in others it exits. Returns the `PATH`.
fn install_fake_cli(project: &FlowProject, name: &str, version: &str, ready: &str, composer: &str) -> String {
    let bin = project.meet_dir().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; exit; fi\nprintf '{ready}\\n'\n\
         while printf '{composer} '; IFS= read -r line; do\n\
         printf '%s\\n' \"$line\" >> \"$MEET_AT/lines.$CALLSHEET_PHASE\"\nprintf '\\033[2J\\033[H\\n'\n\
         case \"$line\" in Read*) ;; *) printf '{ready}\\n'; continue ;; esac\n\
         '{}' < \"${{line#Read and follow the instructions in }}\" || exit 3\n\
         [ \"$CALLSHEET_PHASE\" = architecting ] || {{ sleep 1; exit 0; }}\nprintf '\\n{ready}\\n'\ndone\n",
        project.agent().display()
    );
    fs::write(bin.join(name), script).unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn m7_session_finishes_in_terminals() {
    if !has_tmux() {
        return;
    }
    let project = FlowProject::new("staged.sh");
    let path = install_fake_cli(&project, "claude", "2.0.0 (Claude Code)", "? for shortcuts", "❯");
    let start = [
        "flow",
        "start",
        "staged",
        "Add a login to the site",
        "--terminal",
        "--agent",
        "claude",
        "--by-file",
    ];
    let mut command = project.command_with(&start);
    let output = run_command(command.args(["--check", "lib=test -e src/lib.txt"]).env("PATH", &path));
    let told = output.err();
    let status = project.read_status();
    assert_eq!(output.code, Some(1), "{told}\n{status}");
    assert_eq!(
        (&status["state"], &status["phase"]),
        (&json!("waiting"), &json!("completing")),
        "{told}\n{status}"
    );
    let runs = status["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 9);
    for run in runs.iter().map(|run| run.as_str().unwrap()) {
        assert!(told.contains(&format!("`tmux -L callsheet-{run} attach`")), "{told}");
        let shown = project.run_json(&["--json", "show", run]);
        let result = &shown["result"];
        assert_eq!((&result["end"], &result["exit_code"]), (&json!("exited"), &json!(0)), "{shown}");
        assert_eq!(result["checks_outcome"], "passed", "{shown}");
        let phase = shown["phase"].as_str().unwrap();
        let lines = fs::read_to_string(project.meet_dir().join(format!("lines.{phase}"))).unwrap();
        let line = format!("/.callsheet/runs/{run}/prompt.md");
        let sent: Vec<&str> = lines.lines().filter(|sent| sent.ends_with(&line)).collect();
        assert!(
            matches!(sent[..], [sent] if sent.starts_with("Read and follow the instructions in /")),
            "{lines}"
        );
    }
    project.wait_for_agents();
}

#[test]
fn m14_single_copilot_coder_uses_fleet() {
    if !has_tmux() {
        return;
    }
    let project = FlowProject::new("staged.sh");
    let (ready, composer) = read_copilot_screen();
    let path = install_fake_cli(&project, "copilot", "1.0.0", &ready, &composer);
    let start =
        ["--json", "-q", "flow", "start", "staged", "Add a login to the site", "--terminal", "--by-file"];
    let mut command = project.command_with(&start);
    let ended = run_command(command.args(["--agent", "copilot", "--single-coder"]).env("PATH", &path));
    assert_eq!(
        (ended.code, project.read_status()["phase"].as_str()),
        (Some(1), Some("completing")),
        "{}",
        ended.err()
    );
    let lines = |phase: &str| fs::read_to_string(project.meet_dir().join(format!("lines.{phase}"))).unwrap();
    assert_eq!(lines("implementing").lines().next(), Some("/fleet"));
    assert!(["architecting", "planning", "reviewing"].iter().all(|phase| !lines(phase).contains("/fleet")));
    project.wait_for_agents();
}

/// Reads the texts of Copilot's screen from its shipped file.
fn read_copilot_screen() -> (String, String) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/builtin/agents/copilot.toml");
    let agent: toml::Table = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let terminal = &agent["terminal"];
    let ready = terminal["ready"][0].as_str().unwrap().to_owned();
    (ready, terminal["composer"].as_str().unwrap_or(">").to_owned())
}

/// The agent's markers are read from the screen, and no prompt is sent twice.
#[test]
fn m8_terminal_agent_survives_killed_callsheet() {
    if !has_tmux() {
        return;
    }
    let project = FlowProject::new("quick.sh");
    let path = install_fake_cli(&project, "claude", "2.0.0 (Claude Code)", "? for shortcuts", "❯");
    fs::write(project.meet_dir().join("wait"), "").unwrap();
    let start = ["-q", "flow", "start", "sdd", "Add a login to the site", "--terminal", "--agent", "claude"];
    let begun = project.command_with(&start).env("PATH", &path).stdout(Stdio::null()).spawn().unwrap();
    wait_for_file(&project.meet_dir().join("here"));
    // The ledger does not know the pane before callsheet has seen that the line was sent.
    std::thread::sleep(std::time::Duration::from_secs(2));
    FlowProject::kill(begun, false);
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    let done = run_command(project.command_with(&["--json", "-q", "flow", "resume"]).env("PATH", &path));
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""), "{}", project.read_status());
    let status = project.read_status();
    assert_eq!((&status["state"], status["runs"].as_array().map(Vec::len)), (&json!("done"), Some(6)));
    project.assert_nothing_is_paid_twice();
    project.wait_for_agents();
    // tmux itself leaves the socket of a server that has ended.
    let folder = std::env::var("TMUX_TMPDIR").unwrap_or_else(|_| "/tmp".into());
    let user = std::os::unix::fs::MetadataExt::uid(&fs::metadata(project.path()).unwrap());
    for run in status["runs"].as_array().unwrap().iter().map(|run| run.as_str().unwrap()) {
        let socket = format!("{folder}/tmux-{user}/callsheet-{run}");
        assert!(fs::symlink_metadata(&socket).is_err(), "{socket}");
    }
}

/// An attached person answers a question on the screen; if none is attached, the flow waits.
#[test]
fn t5_terminal_question_is_answered_there() {
    if !has_tmux() {
        return;
    }
    for is_attended in [false, true] {
        let project = FlowProject::new("quick.sh");
        let path = install_fake_cli(&project, "claude", "2.0.0 (Claude Code)", "? for shortcuts", "❯");
        run_before_agent(
            &project,
            "if [ \"$CALLSHEET_PHASE\" = plan ] && mkdir \"$MEET_AT/once\" 2> /dev/null; then\n\
             printf '<question>Which provider?</question>\\n\\n'\n\
             echo \"$CALLSHEET_RUN\" > \"$MEET_AT/asked.new\" && mv \"$MEET_AT/asked.new\" \"$MEET_AT/asked\"\n\
             read -r answer < /dev/tty && echo \"$answer\" > \"$MEET_AT/answer\"\nfi",
        );
        let start = ["flow", "start", "sdd", "Add a login to the site", "--terminal", "--agent", "claude"];
        let mut command = project.command_with(&start);
        let mut begun =
            command.env("PATH", &path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the agent asks", || {
            assert!(begun.try_wait().unwrap().is_none());
            project.meet_dir().join("asked").exists()
        });
        let run = fs::read_to_string(project.meet_dir().join("asked")).unwrap().trim().to_owned();
        let server = format!("callsheet-{run}");
        let person = is_attended.then(|| {
            let mut tmux = Command::new("tmux");
            let tmux = tmux.args(["-L", &server, "-C", "attach"]).stdin(Stdio::piped());
            tmux.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        });
        if let Some(mut person) = person {
            // Longer than the time without screen changes after which a run counts as ended.
            std::thread::sleep(std::time::Duration::from_secs(9));
            assert!(begun.try_wait().unwrap().is_none());
            person.stdin.as_mut().unwrap().write_all(b"send-keys OAuth Enter\n").unwrap();
            let output = begun.wait_with_output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{told}");
            let asks = format!("`all` asks: Which provider?: `tmux -L {server} attach`\n");
            assert!(told.contains(&asks), "{told}");
            assert_eq!(fs::read_to_string(project.meet_dir().join("answer")).unwrap(), "OAuth\n");
            let status = project.read_status();
            assert_eq!((&status["state"], &status["decisions"]), (&json!("done"), &json!([])), "{status}");
            person.kill().unwrap();
            person.wait().unwrap();
        } else {
            assert_eq!(begun.wait().unwrap().code(), Some(1));
            let status = project.read_status();
            let found = (&status["state"], &status["phase"], &status["questions"]);
            let wanted = (&json!("waiting"), &json!("plan"), &json!(["Which provider?"]));
            assert_eq!(found, wanted, "{status}");
        }
        project.wait_for_agents();
    }
}
