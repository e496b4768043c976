//! Tests flows with the real CLIs on the mock model, several of them in one flow.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use callsheet_testing::{Cli, Room, Script, Step, on_loopback};
use serde_json::{Value, json};

/// The CLIs that share a flow here: callsheet gives opencode no MCP server.
const FOUR: [Cli; 4] = [Cli::Claude, Cli::Codex, Cli::Gemini, Cli::Copilot];

/// Returns a step in which the agent writes a file with its own file tool.
fn write_step(project: &Path, file: &str, text: &str) -> Step {
    let path = project.join(file);
    Step::call(&["Write", "write_file"], json!({ "file_path": path, "content": text }))
        .or_call(&["create"], json!({ "path": path, "file_text": text }))
}

/// Returns a command that runs callsheet in a [`Room`], with the settings of all these CLIs.
fn callsheet_command(room: &Room, clis: &[Cli], args: &[&str]) -> Command {
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    let mut path = Vec::new();
    for cli in clis {
        path.push(cli.program().unwrap().parent().unwrap().display().to_string());
        env.extend(room.env(*cli).unwrap());
    }
    path.push(std::env::var("PATH").unwrap());
    env.insert("PATH".into(), path.join(":"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_callsheet"));
    command.current_dir(room.project()).env_clear().envs(env).args(["-C", "."]).args(args);
    command
}

/// Starts a flow in its own repository. Returns the lines that it printed.
fn start_in(room: &Room, clis: &[Cli], words: &[&str], code: i32) -> Vec<Value> {
    create_repository(room);
    let mut command = callsheet_command(room, clis, &["--json", "-q", "flow", "start"]);
    run_lines(command.args(words).args(["--timeout", "3m"]), code)
}

fn create_repository(room: &Room) {
    let project = room.project();
    fs::create_dir(project.join("src")).unwrap();
    fs::write(project.join("src/lib.txt"), "lib\n").unwrap();
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        let mut git = Command::new("git");
        assert!(git.current_dir(&project).args(identity).args(args).status().unwrap().success());
    }
}

/// Runs a command, asserts its exit code, and returns the lines that it printed.
fn run_lines(command: &mut Command, code: i32) -> Vec<Value> {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "{err}\n{}", out.lines().last().unwrap_or_default());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the phase entry, the lane and the verdict of every lane that ended.
fn summarize_lanes(lines: &[Value]) -> Vec<String> {
    let ended = lines.iter().filter(|line| line["event"] == "flow.lane_ended");
    let word = |line: &Value| {
        let words = line["data"]["detail"]["evidence"].as_array().unwrap().iter().filter_map(Value::as_str);
        words
            .filter(|word| word.starts_with("reply.") || word.starts_with("submission."))
            .collect::<Vec<_>>()
            .join(" ")
    };
    ended
        .map(|line| {
            format!(
                "{} {} {}",
                line["data"]["detail"]["entry"],
                line["data"]["detail"]["lane"].as_str().unwrap(),
                word(line)
            )
        })
        .collect()
}

#[test]
fn t6_u5_four_clis_finish_change() {
    on_loopback(&FOUR, || {
        let folder = ".callsheet/changes/login";
        let room = Room::from_project(|project| {
            let plan = |last: &str| {
                [
                    write_step(project, &format!("{folder}/proposal.md"), "# Proposal\n"),
                    write_step(project, &format!("{folder}/specs/login.md"), "# Spec\n"),
                    write_step(project, &format!("{folder}/tasks.md"), "- [ ] 1.1 The form\n"),
                    Step::text(last),
                ]
            };
            // The reply of an earlier round is the marker by which the script recognizes a later one.
            Script::new()
                .on_marker("PLAN-TWO", plan("Whole.\n\n<review>PASS</review>"))
                .on_marker("PLAN-ONE", plan("PLAN-TWO\n\n<review>PASS</review>"))
                .on_marker("CHALLENGE-ONE", [Step::text("It holds.\n\n<review>PASS</review>")])
                .on_marker("- [ ] R1.1", [Step::text("<task_status id=\"R1.1\">COMPLETED</task_status>")])
                .on_marker(
                    "You implement",
                    [
                        write_step(project, "src/login.txt", "form\n"),
                        Step::text("<task_status id=\"1.1\">COMPLETED</task_status>"),
                    ],
                )
                .on_marker("REVIEW-ONE", [Step::text("Fixed.\n\n<review>PASS</review>")])
                .on_marker("You plan", plan("PLAN-ONE\n\n<review>NEEDS_REVISION</review>"))
                .on_marker("You challenge", [Step::text("CHALLENGE-ONE\n\n<review>NEEDS_REVISION</review>")])
                .on_marker("You review", [Step::text("REVIEW-ONE\n\n<review>NEEDS_CHANGES</review>")])
                .on_marker(
                    "You close",
                    [Step::text("Archived.\n\n<task_status id=\"archive\">COMPLETED</task_status>")],
                )
        })
        .unwrap();
        let start = [
            "sdd",
            "Add a login",
            "--id",
            "login",
            "--agent-for",
            "plan=gemini:gemini-2.5-pro",
            "--agent-for",
            "challenge=codex",
            "--agent-for",
            "review=codex",
            "--agent-for",
            "archive=copilot",
            "--agent",
            "claude",
            "--check",
            "form=test -e src/lib.txt",
        ];
        let told = start_in(&room, &FOUR, &start, 0);
        assert_eq!(
            summarize_lanes(&told),
            [
                "1 all reply.NEEDS_REVISION",
                "2 all reply.PASS",
                "3 all reply.NEEDS_REVISION",
                "4 all reply.PASS",
                "5 all reply.PASS",
                "6 1.1 reply.complete",
                "7 all reply.NEEDS_CHANGES",
                "8 all reply.complete",
                "9 all reply.PASS",
                "10 all reply.complete",
            ]
        );
        assert_eq!(fs::read_to_string(room.project().join("src/login.txt")).unwrap(), "form\n");
        // Every prompt reached its model as recorded.
        let output: Vec<String> =
            room.mock.requests().iter().flat_map(callsheet_testing::Request::user_texts).collect();
        for run in told.last().unwrap()["runs"].as_array().unwrap() {
            let prompt = callsheet_command(&room, &FOUR, &["show", run.as_str().unwrap(), "--prompt"])
                .output()
                .unwrap();
            let prompt = String::from_utf8(prompt.stdout).unwrap();
            // Copilot prepends the time and drops the last line end.
            assert!(output.iter().any(|output| output.contains(prompt.trim_end())), "{run}");
        }
    });
}

/// Returns a sub-plan that owns a folder.
fn sub_plan(number: u32) -> Value {
    json!({
        "index": number,
        "title": format!("Part {number}"),
        "scope": format!("Part {number}."),
        "owned_files": [format!("src/p{number}/**")],
        "dependencies": "None.",
        "isolation_rationale": "It owns its folder alone.",
        "implementation_approach": "Tests first.",
        "acceptance_criteria": "It works.",
        "tasks": [format!("Write part {number}")],
    })
}

#[test]
fn m9_m12_m15_four_clis_submit() {
    let clis = FOUR;
    on_loopback(&clis, || {
        let (claude, codex) = (|tool| Cli::Claude.mcp_tool(tool), |tool| Cli::Codex.mcp_tool(tool));
        let copilot = |tool| Cli::Copilot.mcp_tool(tool);
        let room = Room::from_project(|project| {
            let texts = [
                "solution_overview",
                "interfaces_and_contracts",
                "data_models",
                "cross_cutting_concerns",
                "technology_choices",
                "risks_and_mitigations",
            ];
            let mut architecture =
                json!({ "components": [{ "name": "Exporter", "responsibility": "Writes.", "interfaces": ["export()"] }] });
            for text in texts {
                architecture[text] = "About it.".into();
            }
            let plan = json!({
                "plan_overview": "Three parts.",
                "phase_1": "Interfaces.",
                "phase_2": "Three parts.",
                "phase_3": "Integration.",
                "conflict_map": [],
                "groups": [{
                    "group_id": "g1", "mode": "parallel",
                    "plans": [{ "index": 1, "name": "One" }, { "index": 2, "name": "Two" }, { "index": 3, "name": "Three" }],
                }],
                "subplans": [sub_plan(1), sub_plan(2), sub_plan(3)],
                "needs_design": false, "needs_docs": false, "doc_files": [],
                "review_strategy": { "severity": "low", "focus": [] },
            });
            let finding = json!([{ "issue": "It ends too early.", "severity": "high", "recommendation": "Go on." }]);
            let fail = json!({ "verdict": "fail", "summary": "One thing.", "findings": finding });
            let pass = json!({ "verdict": "pass", "summary": "Good." });
            let call = |tool: String, args: Value| [Step::call(&[tool.as_str()], args), Step::text("Handed in.")];
            let shell = |command: &str| Step::call(&["exec_command"], json!({ "cmd": command }));
            let summary = write_step(project, ".callsheet/sessions/export/08_completion/summary.md", "# What was done\n");
            let mut script = Script::new()
                .on_marker("<artifact name=\"REFUSED.md\">", call(claude("submit_architecture"), architecture))
                .on_marker("You design the technical solution", call(claude("submit_architecture"), json!({})))
                .on_marker("You turn the architecture below", call(codex("submit_plan"), plan))
                .on_marker("# Review, round 2", call(copilot("submit_review"), pass))
                .on_marker("# Fix\n", [shell("echo fixed > src/fixed.txt"), Step::text("<task_status id=\"R1.1\">COMPLETED</task_status>")])
                .on_marker("# Summary\n", [summary, Step::text("Written.")])
                .on_marker("# Review\n", call(copilot("submit_review"), fail));
            for number in 1..=3 {
                let write = format!("mkdir -p src/p{number} && echo part > src/p{number}/part.txt");
                let done = Step::call(&[codex("submit_done").as_str()], json!({ "subplan_index": number }));
                script = script.on_marker(&format!("tasks_{number}.md"), [shell(&write), done, Step::text("Done.")]);
            }
            script
        })
        .unwrap();
        let start = [
            "staged",
            "Export the data",
            "--id",
            "export",
            "--agent",
            "claude",
            "--agent-for",
            "planning=codex",
            "--agent-for",
            "implementing=codex",
            "--agent-for",
            "fixing=codex",
            "--agent-for",
            "reviewing=copilot",
            "--agent-for",
            "completing=gemini:gemini-2.5-pro",
            "--jobs",
            "3",
        ];
        let told = start_in(&room, &clis, &start, 1);
        let mut story = summarize_lanes(&told);
        // The three parts end in any order.
        story[3..6].sort();
        assert_eq!(
            story,
            [
                // The refused submission goes back to the agent.
                "1 all ",
                "2 all submission.submit_architecture",
                "3 all submission.submit_plan",
                "4 1 submission.submit_done",
                "4 2 submission.submit_done",
                "4 3 submission.submit_done",
                "5 reviewer reply.NEEDS_CHANGES submission.submit_review",
                "6 all reply.complete",
                "7 reviewer reply.PASS submission.submit_review",
                "8 all ",
            ]
        );
        let done = run_lines(
            &mut callsheet_command(&room, &clis, &["--json", "-q", "flow", "decide", "--yes", "approve"]),
            0,
        );
        assert_eq!(done.last().unwrap()["state"], "done");
        for number in 1..=3 {
            let file = room.project().join(format!("src/p{number}/part.txt"));
            assert_eq!(fs::read_to_string(file).unwrap(), "part\n");
        }
    });
}

/// Stores the answers to the questions that both CLIs ask at their first start.
fn answer_questions(room: &Room) {
    let project = room.project().display().to_string();
    let answers = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "bypassPermissionsModeAccepted": true,
        "projects": { &project: { "hasTrustDialogAccepted": true } },
        "customApiKeyResponses": { "approved": ["test-key"], "rejected": [] },
    });
    fs::write(room.home().join(".claude.json"), answers.to_string()).unwrap();
    let config = room.home().join(".codex/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[projects.\"{project}\"]\ntrust_level = \"trusted\"\n")).unwrap();
}

/// The model starts the scripted agent with the prompt file that the typed line names.
#[test]
fn m7_session_in_terminals_finishes() {
    if !crate::terminals::has_tmux() {
        return;
    }
    let clis = [Cli::Claude, Cli::Codex];
    on_loopback(&clis, || {
        let room = Room::from_project(|project| {
            let agent = project.with_file_name("agent");
            let work = format!("sh '{}' < \".callsheet/runs/$CALLSHEET_RUN/prompt.md\"", agent.display());
            let call = Step::call(&["Bash"], json!({ "command": work, "description": "Work" }))
                .or_call(&["exec_command"], json!({ "cmd": work }));
            let done = Step::text("Done.\n\n<task_status id=\"R1.1\">COMPLETED</task_status>");
            Script::new().on_marker("Read and follow the instructions in", [call, done])
        })
        .unwrap();
        let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/staged.sh");
        fs::copy(agent, room.path().join("agent")).unwrap();
        create_repository(&room);
        let start = [
            "--json",
            "-q",
            "flow",
            "start",
            "staged",
            "Add a login to the site",
            "--terminal",
            "--by-file",
            "--single-coder",
            "--permit",
            "all",
            "--agent",
            "claude",
            "--agent-for",
            "planning=codex",
            "--agent-for",
            "fixing=codex",
        ];
        let mut command = callsheet_command(&room, &clis, &start);
        answer_questions(&room);
        let told = run_lines(command.args(["--timeout", "3m"]), 1);
        let status = told.last().unwrap();
        assert_eq!((&status["state"], &status["phase"]), (&json!("waiting"), &json!("completing")));
        let agents: Vec<String> = status["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| {
                let show = ["--json", "show", run.as_str().unwrap()];
                let shown = callsheet_command(&room, &clis, &show).output().unwrap();
                let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
                let (ended, code) = (&shown["result"]["end"], &shown["result"]["exit_code"]);
                assert_eq!((ended, code), (&json!("exited"), &json!(0)), "{shown}");
                format!("{} {}", shown["phase"].as_str().unwrap(), shown["agent"].as_str().unwrap())
            })
            .collect();
        assert_eq!(
            agents,
            [
                "architecting claude",
                "planning codex",
                "implementing claude",
                "reviewing claude",
                "fixing codex",
                "reviewing claude",
                "completing claude",
            ]
        );
        assert_eq!(fs::read_to_string(room.project().join("src/p3/part.txt")).unwrap(), "part 3\n");
    });
}
