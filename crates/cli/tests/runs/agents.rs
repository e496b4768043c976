//! The real CLIs through `callsheet run`, on the mock model: the model gets the recorded prompt, the result
//! reports their actions, and the next prompt has exactly the facts.

use std::process::Command;

use callsheet_testing::{Cli, CommandOutput, Room, Script, Step, on_loopback, run_with_input};
use serde_json::{Value, json};

use crate::project::RunProject;

fn run_callsheet(project: &RunProject, room: &Room, cli: Cli, args: &[&str], input: &str) -> CommandOutput {
    run_with_input(cli_command(project, room, cli).args(["--json", "-q"]).args(args), input.as_bytes())
}

/// Returns a callsheet command that finds the CLI, set up for the mock model.
pub(crate) fn cli_command(project: &RunProject, room: &Room, cli: Cli) -> Command {
    let mut command: Command = project.command();
    let env = room.env(cli).unwrap();
    let program = cli.program().unwrap();
    let path = format!("{}:{}", program.parent().unwrap().display(), env["PATH"]);
    command.envs(&env).env("PATH", path);
    command
}

/// Returns whether the CLI inserts the contents of files that a prompt names with an `@`. Claude Code and
/// Gemini do.
fn expands_file_names(cli: Cli) -> bool {
    matches!(cli, Cli::Claude | Cli::Gemini)
}

pub(crate) fn run_args<'a>(cli: Cli, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["run", "-a", cli.name(), "--timeout", "150s"];
    if cli == Cli::Gemini {
        args.extend(["--model", "gemini-2.5-pro"]);
    }
    args.extend(more);
    args.push("-");
    args
}

/// Returns whether the model got this text, in the form in which the agent passes it on.
fn has_received(room: &Room, cli: Cli, text: &str) -> bool {
    let is = |output: &String| match cli {
        Cli::Copilot => {
            output.split_once("</current_datetime>\n\n").is_some_and(|(_, output)| output == text.trim_end())
        }
        _ => output == text,
    };
    room.mock.requests().iter().flat_map(callsheet_testing::Request::user_texts).any(|output| is(&output))
}

const ODD: &str = "  \"quotes\" 'and' $HOME `date` \\n %s {{x}} <b>&amp;</b>\n\né 漢字 🙂\n/help me\n!ls -y @nothere.md\nend \n";

fn assert_prompts_arrive(cli: Cli) {
    let room = Room::new(Script::new().on_marker("MARK", [Step::text("I did.")])).unwrap();
    let project = RunProject::in_private_dir();
    for size in [2_000, 1_000_000] {
        let mut text = format!("MARK {size}\n{ODD}");
        let line = "0123456789 abcdef\n";
        text.push_str(&line.repeat((size - text.len()) / line.len()));
        text.push_str(&"x".repeat(size - text.len()));
        let ran = run_callsheet(&project, &room, cli, &run_args(cli, &[]), &text).expect_code(0);
        let prompt = project.prompt(&ran.run_id());
        assert!(prompt.contains(&text) && prompt.len() > size, "{size}");
        assert!(has_received(&room, cli, &prompt), "{size}");
        let receipts = ran.json()["receipts"].clone();
        assert_eq!(receipts[0], "spawned");
        assert!(receipts.as_array().unwrap().contains(&json!("accepted")), "{receipts}");
        // Gemini ends without waiting until all of its output is read, so a long echo can be lost.
        // opencode repeats no prompt.
        if cli != Cli::Opencode && (size < 60_000 || cli != Cli::Gemini) {
            assert!(receipts.as_array().unwrap().contains(&json!("echoed")), "{receipts}");
        }
        assert!(!receipts.as_array().unwrap().contains(&json!("acting")), "{receipts}");
    }
    project.assert_all_runs_finished();
}

/// A file that the prompt names remains a name: if the agent would insert its contents, the prompt is
/// delivered by a file that equals the recorded prompt, byte for byte.
fn assert_files_not_inserted(cli: Cli) {
    let copy = json!({ "command": "cp .callsheet/runs/*/prompt.md copied.md", "description": "copy" });
    let steps = [Step::call(&["Bash", "run_shell_command"], copy), Step::text("I did.")];
    let script = Script::new().on_marker("Read and follow", steps).on_marker("MARK", [Step::text("I did.")]);
    let room = Room::new(script).unwrap();
    let project = RunProject::in_private_dir();
    let text = "MARK: look at @README.md, then\n/help\n";
    let ran = run_callsheet(&project, &room, cli, &run_args(cli, &["--permit", "all"]), text).expect_code(0);
    let prompt = project.prompt(&ran.run_id());
    assert!(prompt.contains(text));
    if expands_file_names(cli) {
        let line = format!(
            "Read and follow the instructions in {}/.callsheet/runs/{}/prompt.md\n",
            project.path().display(),
            ran.run_id()
        );
        let told: Vec<_> = room
            .mock
            .requests()
            .iter()
            .map(|request| (request.answer.clone(), request.user_texts()))
            .collect();
        assert!(has_received(&room, cli, &line), "{line}: {told:#?}");
        assert_eq!(std::fs::read_to_string(project.path().join("copied.md")).unwrap(), prompt);
    } else {
        assert!(has_received(&room, cli, &prompt));
    }
    let bodies = room.mock.requests();
    assert!(bodies.iter().all(|request| !request.body.to_string().contains("what the readme says")));
    // The files for the agent are removed with it.
    assert!(!project.path().join(".callsheet/runs").join(ran.run_id()).exists());
    project.assert_all_runs_finished();
}

/// Returns the whole result with the values that differ in every run masked.
fn mask_result(output: &CommandOutput, project: &RunProject) -> Value {
    let mut result = output.json();
    for key in ["run", "parent", "duration_ms", "head_before", "head_after", "prompt_sha256", "usage"] {
        assert!(key == "parent" || !result[key].is_null(), "{key}");
        result[key] = json!("…");
    }
    for check in result["checks"].as_array_mut().unwrap() {
        check["duration_ms"] = json!("…");
    }
    assert_eq!(result["worktree"], project.path().display().to_string());
    result["worktree"] = json!("…");
    result
}

fn find_digest(prompt: &str) -> &str {
    let start = prompt.find("## Retry/Continue Digest\n").unwrap();
    let end = prompt[start + 3..].find("\n## ").map_or(prompt.len(), |end| start + 3 + end);
    prompt[start..end].trim_end()
}

/// Returns a step in which the model writes a file, by the tool that the CLI has.
pub(crate) fn write_step(project: &std::path::Path, file: &str) -> Step {
    let path = project.join(file);
    Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": "x" }))
        .or_call(&["create"], json!({ "path": path, "file_text": "x" }))
        .or_call(&["write"], json!({ "filePath": path, "content": "x" }))
        .or_call(&["exec_command"], json!({ "cmd": format!("echo x > {file}") }))
}

fn assert_facts_reach_prompt(cli: Cli) {
    let project = RunProject::in_private_dir();
    let steps = [
        write_step(project.path(), "src/in.txt"),
        write_step(project.path(), "out.txt"),
        Step::text("It is all done.\n\n<review>PASS</review>"),
    ];
    let script = Script::new()
        .on_marker("Say more.", [Step::text("I said more.")])
        .on_marker("Runs of this task so far", [Step::text("I looked.\n\n<review>PASS</review>")])
        .on_marker("MARK", steps);
    let room = Room::new(script).unwrap();
    let flags = [
        "-r",
        "run",
        "-p",
        "review",
        "--task-id",
        "T-1",
        "--write",
        "src/**",
        "--check",
        "good=true",
        "--check",
        "bad=false",
    ];
    let ran = run_callsheet(&project, &room, cli, &run_args(cli, &flags), "MARK").expect_code(5);
    let check = |name: &str, word: &str, result: &str, code: i32| {
        json!({
            "name": name, "argv": [word], "result": result, "end": "exited", "exit_code": code, "duration_ms": "…",
            "output": "",
        })
    };
    let mut result = mask_result(&ran, &project);
    let reply = result["reply"].take();
    let receipts = result["receipts"].take();
    let next = result["next"].take();
    let run = ran.json()["name"].as_str().unwrap().to_owned();
    let commands: Vec<&str> =
        next.as_array().unwrap().iter().map(|step| step["command"].as_str().unwrap()).collect();
    for command in ["decide RUN out.txt --approve", "revert RUN out.txt", "show RUN --diff", "retry RUN"] {
        assert!(commands.contains(&&*format!("callsheet {}", command.replace("RUN", &run))), "{commands:?}");
    }
    let echoed = (cli != Cli::Opencode).then_some("echoed");
    for receipt in ["spawned", "accepted", "acting"].into_iter().chain(echoed) {
        assert!(receipts.as_array().unwrap().contains(&json!(receipt)), "{receipts}");
    }
    assert_eq!(
        result,
        json!({
            "schema": "callsheet/run-result/1", "run": "…", "name": "r1", "parent": "…", "task": "T-1", "outcome": "out_of_scope", "status": "completed", "end": "exited", "parked_until_at": null, "reason": null, "exit_code": 0,
            "signal": null, "duration_ms": "…", "usage": "…", "checks_outcome": "failed",
            "checks": [check("good", "true", "passed", 0), check("bad", "false", "failed", 1)],
            "changed": [
                { "path": "out.txt", "change": "untracked", "from": null },
                { "path": "src/in.txt", "change": "untracked", "from": null },
            ],
            "violations": [{ "path": "out.txt", "reason": "outside_write", "decision": "pending" }],
            "attribution": "checkout", "shared_with": [], "uncertain": [], "tracking": ran.json()["tracking"],
            "unseen": [], "commits": [], "elsewhere": [], "no_scope": false, "head_before": "…", "head_after": "…", "reply": null, "receipts": null, "worktree": "…",
            "scope": { "write": ["src/**"], "exclude": [] }, "prompt_sha256": "…", "next": null,
        })
    );
    assert_eq!(
        (&reply["verdict"], &reply["outcome"], &reply["problems"]),
        (&json!("PASS"), &json!("pass"), &json!([]))
    );
    assert_eq!(
        project.run(["status", "T-1"]).expect_code(0).out().lines().next(),
        Some("T-1  needs_review  (scope_violation_pending, checks_failed, uncommitted)")
    );

    let retry = run_callsheet(&project, &room, cli, &["retry", &ran.run_id()], "").expect_code(1);
    let prompt = project.prompt(&retry.run_id());
    assert_eq!(
        find_digest(&prompt),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {}\n- It ended on its own.\n- Exit code: 0\n- Runs of this task so far: \
             1\n\nChecks:\n\n- `good`: passed\n- `bad`: failed\n\nChanges outside the scope:\n\n- 1 in all\n- `out.txt`: outside \
             the write scope, approval pending\n\nFiles changed by that run. What nobody has reverted since is still in the worktree:\n\n- `out.txt`\n- `src/in.txt`",
            ran.run_id()
        )
    );
    assert!(has_received(&room, cli, &prompt));

    project.run(["-q", "decide", "--yes", &ran.run_id(), "out.txt", "--approve"]).expect_code(0);
    let go_on =
        run_callsheet(&project, &room, cli, &["continue", &retry.run_id(), "Say more."], "").expect_code(1);
    let prompt = project.prompt(&go_on.run_id());
    assert_eq!(
        find_digest(&prompt),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {}\n- It ended on its own.\n- Exit code: 0\n- Runs of this task so far: \
             2\n\nChecks:\n\n- `good`: passed\n- `bad`: failed",
            retry.run_id()
        )
    );
    assert!(
        prompt.contains("## Human Input\n\nSay more.\n") && has_received(&room, cli, &prompt),
        "{prompt}"
    );
    project.assert_all_runs_finished();
}

/// Defines the same tests for each CLI, so that they run in parallel.
macro_rules! for_each_cli {
    ($($name:ident: $cli:ident,)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn c6_model_gets_recorded_prompt() {
                on_loopback(&[Cli::$cli], || assert_prompts_arrive(Cli::$cli));
            }

            #[test]
            fn u4_agent_inserts_no_named_files() {
                on_loopback(&[Cli::$cli], || assert_files_not_inserted(Cli::$cli));
            }

            #[test]
            fn c5_c8_next_prompt_states_facts() {
                on_loopback(&[Cli::$cli], || assert_facts_reach_prompt(Cli::$cli));
            }
        }
    )*};
}

for_each_cli! {
    claude: Claude,
    codex: Codex,
    gemini: Gemini,
    copilot: Copilot,
    opencode: Opencode,
}
