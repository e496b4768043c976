//! Runs in a tmux terminal: callsheet types one line that names the prompt, once; dialogs are reported and
//! get no keys.

use std::fs;
use std::process::Command;

use callsheet_testing::{Cli, Room, Script, Step, on_loopback, report_missing, run_command, wait_until};
use serde_json::json;

use crate::is_long;
use crate::project::RunProject;

pub(crate) fn has_tmux() -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    if !there {
        report_missing("terminals: tmux is not installed");
    }
    there
}

/// Answers the questions that the CLI would ask at its first start, except `but`.
fn answer_questions(project: &RunProject, room: &Room, cli: Cli, but: &str) {
    let path = project.path().display().to_string();
    match cli {
        Cli::Claude => {
            let mut answers = json!({ "hasCompletedOnboarding": true, "theme": "dark" });
            if but != "trust" {
                answers["projects"][&path] = json!({ "hasTrustDialogAccepted": true });
            }
            if but != "API key" {
                answers["customApiKeyResponses"] = json!({ "approved": ["test-key"], "rejected": [] });
            }
            fs::write(room.home().join(".claude.json"), answers.to_string()).unwrap();
        }
        _ => {
            room.env(cli).unwrap();
            let config = room.home().join(".codex/config.toml");
            let mut text = fs::read_to_string(&config).unwrap();
            if but != "trust" {
                text += &format!("\n[projects.\"{path}\"]\ntrust_level = \"trusted\"\n");
            }
            if but == "new model" {
                text = text.replace("model = \"mock-model\"", "model = \"gpt-5.5\"");
            }
            fs::write(&config, text).unwrap();
        }
    }
}

/// Returns a run command after the questions are answered. `Room::env` rewrites the settings of Codex, so the
/// answers are written after it and stay.
fn command_with_answers(project: &RunProject, room: &Room, cli: Cli, but: &str) -> Command {
    let env = room.env(cli).unwrap();
    answer_questions(project, room, cli, but);
    let path = format!("{}:{}", cli.program().unwrap().parent().unwrap().display(), env["PATH"]);
    let mut command = project.command();
    command.envs(&env).env("PATH", path).args([
        "--json",
        "-q",
        "run",
        "-a",
        cli.name(),
        "--terminal",
        "Do it.",
    ]);
    command
}

/// Returns how often the model got exactly this line as the beginning of a turn.
fn count_turns(room: &Room, line: &str) -> usize {
    let requests = room.mock.requests();
    let begun = requests.iter().filter(|request| request.answer == "step 0");
    begun.filter(|request| request.user_texts().iter().any(|text| text == line)).count()
}

fn assert_delivers_once(cli: Cli) {
    let deliveries = if is_long() { 50 } else { 5 };
    let room = Room::new(Script::new().on_marker("Read and follow", [Step::text("I did.")])).unwrap();
    let project = RunProject::new();
    for number in 0..deliveries {
        let ran = run_command(&mut command_with_answers(&project, &room, cli, "nothing")).expect_code(0);
        let (run, result) = (ran.run_id(), ran.json());
        assert_eq!(
            (&result["status"], &result["end"], &result["receipts"]),
            (&json!("running"), &json!(null), &json!(["spawned"]))
        );
        let file = project.path().join(".callsheet/runs").join(&run).join("prompt.md");
        let line = format!("Read and follow the instructions in {}", file.display());
        wait_until(&format!("{number} arrives"), || count_turns(&room, &line) > 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), project.prompt(&run));
        // The agent continues to work, and is not considered lost.
        let status = project.run(["--json", "status", &run]).expect_code(0).json();
        let task = &status["items"][0];
        assert_eq!((&task["status"], &task["runs"][0]["lost"]), (&json!("running"), &json!(false)));
        assert_eq!(project.run(["recover"]).expect_code(0).out(), format!("run {run}  running\n"));
        assert_eq!(project.run(["--json", "retry", &run]).error(), (Some(9), "run/refused".into()));
        let stopped = project.run(["--json", "stop", &run]).expect_code(0).json();
        assert_eq!((&stopped["status"], &stopped["end"]), (&json!("cancelled"), &json!("stopped")));
        project.assert_all_runs_finished();
        assert!(!file.exists());
    }
    let begun = room.mock.requests().iter().filter(|request| request.answer == "step 0").count();
    assert_eq!(begun, deliveries, "each line was sent once");
}

#[test]
fn m7_claude_gets_every_line_once() {
    if has_tmux() {
        on_loopback(&[Cli::Claude], || assert_delivers_once(Cli::Claude));
    }
}

#[test]
fn m7_codex_gets_every_line_once() {
    if has_tmux() {
        on_loopback(&[Cli::Codex], || assert_delivers_once(Cli::Codex));
    }
}

/// Asserts that the dialog is reported with a remedy, and that nothing was typed into it.
fn assert_reports_dialog(cli: Cli, dialog: &str) {
    let room = Room::new(Script::new().on_marker("Read", [Step::text("I did.")])).unwrap();
    let project = RunProject::new();
    let ran = run_command(&mut command_with_answers(&project, &room, cli, dialog)).expect_code(6);
    let result = ran.json();
    assert_eq!((&result["status"], &result["end"]), (&json!("failed"), &json!("unstarted")));
    let why = result["reason"]["message"].as_str().unwrap();
    assert!(why.contains(dialog), "{dialog}: {why}");
    assert!(room.mock.requests().iter().all(|request| !request.answer.starts_with("step ")));
    let settings = fs::read_to_string(room.home().join(".codex/config.toml")).unwrap_or_default();
    assert!(!settings.contains("gpt-6"), "{settings}");
    project.assert_all_runs_finished();
}

#[test]
fn m7_claude_dialogs_get_no_keys() {
    if has_tmux() {
        on_loopback(&[Cli::Claude], || {
            ["trust", "API key"].iter().for_each(|dialog| assert_reports_dialog(Cli::Claude, dialog))
        });
    }
}

#[test]
fn m7_codex_dialogs_get_no_keys() {
    if has_tmux() {
        on_loopback(&[Cli::Codex], || {
            ["trust", "new model"].iter().for_each(|dialog| assert_reports_dialog(Cli::Codex, dialog))
        });
    }
}

/// Writes a program that looks like an agent and notes every line that it gets.
fn install_fake_copilot(project: &RunProject) {
    let log = project.beside("log");
    let script = format!(
        "#!/bin/sh\nprintf '\\n❯ '\nwhile read -r line; do printf '%s\\n' \"$line\" >> '{}'; printf '\\033[2J\\033[H\\n❯ '; done\n",
        log.display()
    );
    project.write_program("copilot", &script);
}

#[test]
fn m14_single_copilot_coder_is_fleet() {
    if !has_tmux() {
        return;
    }
    for (flags, lines) in [(&["--single-coder"][..], 2), (&[], 1)] {
        let project = RunProject::new();
        install_fake_copilot(&project);
        let mut command = project.command();
        command.args(["--json", "-q", "run", "-a", "copilot", "--terminal", "Do it."]).args(flags);
        let ran = run_command(command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color")).expect_code(0);
        let file = project.path().join(".callsheet/runs").join(ran.run_id()).join("prompt.md");
        let line = format!("Read and follow the instructions in {}\n", file.display());
        let expected = if lines == 2 { format!("/fleet\n{line}") } else { line };
        wait_until("it is typed", || {
            fs::read_to_string(project.beside("log")).is_ok_and(|log| log.len() >= expected.len())
        });
        assert_eq!(fs::read_to_string(project.beside("log")).unwrap(), expected);
        project.run(["stop", "last"]).expect_code(0);
        project.assert_all_runs_finished();
    }
}

/// callsheet is killed while it waits for the terminal: `recover` closes the terminal that it opened.
#[test]
fn abandoned_terminal_is_closed() {
    if !has_tmux() {
        return;
    }
    let project = RunProject::new();
    project.write_program(
        "claude",
        &format!("#!/bin/sh\necho waiting\ntouch '{}'\nsleep 600\n", project.beside("up").display()),
    );
    let mut command = project.command();
    command.args(["--json", "-q", "run", "-a", "claude", "--terminal", "Do it."]);
    let mut running = command.env("TERM", "xterm-256color").spawn().unwrap();
    wait_until("it is there", || project.beside("up").exists());
    running.kill().unwrap();
    running.wait().unwrap();
    let told = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!(told["items"][0]["end"], "lost");
    project.assert_all_runs_finished();
}

/// A person must know the last output of the program.
#[test]
fn ended_program_output_is_reported() {
    if !has_tmux() {
        return;
    }
    let project = RunProject::new();
    project.write_program("claude", "#!/bin/sh\necho 'no licence'\nexit 3\n");
    let mut command = project.command();
    command.args(["--json", "-q", "run", "-a", "claude", "--terminal", "Do it."]);
    let ran = run_command(command.env("TERM", "xterm-256color")).expect_code(6).json();
    assert_eq!(ran["end"], "unstarted");
    assert!(ran["reason"]["message"].as_str().unwrap().contains("no licence"), "{ran}");
    project.assert_all_runs_finished();
}

/// A pane that a person opened remains the person's: a line is typed, and nothing is closed.
#[test]
fn m7_own_pane_is_not_closed() {
    if !has_tmux() {
        return;
    }
    let project = RunProject::new();
    install_fake_copilot(&project);
    let tmux = |args: &[&str]| {
        let mut command = Command::new("tmux");
        command.args(args).env("TMUX_TMPDIR", project.beside("")).env_remove("TMUX").env("LANG", "C.UTF-8");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let program = project.beside("bin/copilot").display().to_string();
    let pane = tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        "200",
        "-y",
        "20",
        "-P",
        "-F",
        "#{pane_id}",
        &program,
    ]);
    let run = |target: &str| {
        // The umask grants everything to others.
        let like = project.command();
        let mut command = Command::new("sh");
        command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(like.get_program()).args(like.get_args());
        command.current_dir(project.path()).env_clear();
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["--json", "-q", "run", "-a", "copilot", "--pane", target, "Do it."]);
        run_command(command.env("LANG", "C.UTF-8"))
    };
    for wrong in ["%99", "-x", "; kill-server", "no-such:pane"] {
        let ran = run_command(
            project
                .command()
                .args(["--json", "-q", "run", "-a", "copilot", "Do it."])
                .arg(format!("--pane={wrong}")),
        );
        assert_eq!((ran.code, &ran.json()["end"]), (Some(6), &json!("unstarted")), "{wrong}");
    }
    let ran = run(pane.trim()).expect_code(0);
    let file = project.path().join(".callsheet/runs").join(ran.run_id()).join("prompt.md");
    let line = format!("Read and follow the instructions in {}\n", file.display());
    wait_until("it is typed", || fs::read_to_string(project.beside("log")).is_ok_and(|log| log == line));
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "the prompt is its owner's");
    // As long as the pane exists, its checkout is claimed.
    let beside = project.run(["--json", "-q", "run", "x", "--", "true"]);
    assert_eq!(beside.error(), (Some(9), "run/refused".into()));
    assert_eq!(project.run(["--json", "stop", "last"]).error(), (Some(9), "run/refused".into()));
    assert_eq!(project.run(["recover"]).expect_code(0).out(), format!("run {}  running\n", ran.run_id()));
    assert_eq!(tmux(&["display-message", "-p", "-t", pane.trim(), "#{pane_dead}"]), "0\n");
    tmux(&["kill-server"]);
    let told = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!(
        (&told["items"][0]["end"], &told["items"][0]["reason"]["message"]),
        (&json!("lost"), &json!("its terminal is closed"))
    );
    project.run(["-q", "run", "x", "--", "true"]).expect_code(0);
    project.assert_all_runs_finished();
}

/// The real Copilot treats the typed command as a command: the model gets the line alone.
#[test]
fn m14_real_copilot_becomes_fleet() {
    if has_tmux() {
        on_loopback(&[Cli::Copilot], || {
            let room = Room::new(Script::new().on_marker("Read and follow", [Step::text("I did.")])).unwrap();
            let project = RunProject::new();
            let env = room.env(Cli::Copilot).unwrap();
            let trusted = json!({ "trusted_folders": [project.path()], "trustedFolders": [project.path()] });
            fs::create_dir_all(room.home().join(".copilot")).unwrap();
            fs::write(room.home().join(".copilot/config.json"), trusted.to_string()).unwrap();
            let path =
                format!("{}:{}", Cli::Copilot.program().unwrap().parent().unwrap().display(), env["PATH"]);
            let mut command = project.command();
            command.envs(&env).env("PATH", path).args(["--json", "-q", "run", "-a", "copilot", "--terminal"]);
            let ran = run_command(command.args(["--single-coder", "Do it."])).expect_code(0);
            let file = project.path().join(".callsheet/runs").join(ran.run_id()).join("prompt.md");
            let line = format!("Read and follow the instructions in {}", file.display());
            let texts = || -> Vec<String> {
                room.mock.requests().iter().flat_map(callsheet_testing::Request::user_texts).collect()
            };
            wait_until("it arrives", || texts().iter().any(|text| text.contains(&line)));
            assert!(texts().iter().all(|text| !text.contains("/fleet")), "{:#?}", texts());
            project.run(["stop", "last"]).expect_code(0);
            project.assert_all_runs_finished();
        });
    }
}
