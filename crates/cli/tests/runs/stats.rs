//! Statistics of runs, by the command.

use callsheet_testing::run_command;
use serde_json::{Value, json};

use crate::project::RunProject;

/// Creates a project with a task that succeeds at its second run, a run with an estimated cost, one without a cost, and a
/// prompt that was only composed.
fn project_with_runs() -> RunProject {
    let project = RunProject::new();
    let claude = |code: i32| {
        format!(
            "#!/bin/sh\ncat >/dev/null\necho more >>src/a.txt\n\
             echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"total_cost_usd\":0.25,\
             \"usage\":{{\"input_tokens\":100,\"cache_read_input_tokens\":300,\"output_tokens\":50}}}}'\nexit {code}\n"
        )
    };
    project.write_program("claude", &claude(1));
    project.run(["-q", "run", "-a", "claude", "--task-id", "T-1", "Fix it."]).expect_code(6);
    project.write_program("claude", &claude(0));
    project.run(["-q", "run", "-a", "claude", "--task-id", "T-1", "Fix it now."]).expect_code(0);
    let codex = "#!/bin/sh\ncat >/dev/null\n\
        echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1000000,\"cached_input_tokens\":0,\"output_tokens\":0}}'\n";
    project.write_program("codex", codex);
    project.run(["-q", "run", "-a", "codex", "--model", "gpt-5", "Look."]).expect_code(0);
    project.write_program("copilot", "#!/bin/sh\ncat >/dev/null\n");
    project.run(["-q", "run", "-a", "copilot", "Look, too."]);
    project.run(["-q", "compose", "--record", "-a", "claude", "-p", "plan", "Only a prompt."]).expect_code(0);
    project
}

fn short(group: &Value) -> Value {
    json!([
        group["run_count"],
        group["outcomes"]["succeeded"],
        group["runs_until_success"],
        group["input_tokens"],
        group["cached_tokens"],
        group["cached_share"],
        group["output_tokens"],
        group["cost_microusd"],
        group["cost_estimated"],
        group["unpriced_run_count"],
    ])
}

#[test]
fn stats_sums_runs_by_agent() {
    let project = project_with_runs();
    let stats = project.run(["--json", "stats", "--by", "agent"]).expect_code(0).json();
    assert_eq!(stats["by"], json!(["agent"]));
    let agents: Vec<&Value> =
        stats["items"].as_array().unwrap().iter().map(|item| &item["key"]["agent"]).collect();
    assert_eq!(agents, [&json!("claude"), &json!("codex"), &json!("copilot")]);
    assert_eq!(short(&stats["items"][0]), json!([2, 1, 2.0, 800, 600, 0.75, 100, 500_000, false, 0]));
    assert_eq!(short(&stats["items"][1]), json!([1, null, null, 1_000_000, 0, 0.0, 0, 1_250_000, true, 0]));
    assert_eq!(short(&stats["items"][2]), json!([1, null, null, null, null, null, null, null, false, 1]));
    assert_eq!(stats["total"]["run_count"], 4);
    assert_eq!(stats["total"]["cost_microusd"], 1_750_000);
    let page = project.run(["stats", "--by", "agent"]).expect_code(0).out();
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines[0].starts_with("AGENT    RUNS  GOOD  FAILED  TRIES"), "{page}");
    assert!(lines[1].starts_with("claude      2     1       1    2.0"), "{page}");
    assert!(lines[2].ends_with("~$1.25"), "{page}");
    assert!(lines[4].starts_with("all         4"), "{page}");
    assert!(
        page.contains("cost of 1 run is estimated from tokens and prices\ncost of 1 run is not known\n"),
        "{page}"
    );
}

#[test]
fn stats_groups_by_several_keys() {
    let project = project_with_runs();
    let stats = project.run(["--json", "stats", "--by", "task,agent"]).expect_code(0).json();
    let first = &stats["items"][stats["items"].as_array().unwrap().len() - 1];
    assert_eq!(first["key"], json!({ "task": "T-1", "agent": "claude" }));
    assert_eq!(short(first), json!([2, 1, 2.0, 800, 600, 0.75, 100, 500_000, false, 0]));
    let stats = project.run(["--json", "stats", "--by", "template"]).expect_code(0).json();
    let template = stats["items"][0]["key"]["template"].as_str().unwrap();
    assert!(template.starts_with("builtin:profiles/generalist.md@"), "{template}");
    assert_eq!(project.run(["stats", "--by", "agents"]).code, Some(2));
}

#[test]
fn stats_selects_by_time() {
    let project = project_with_runs();
    let count = |flags: &[&str]| {
        let stats = project.run([&["--json", "stats"], flags].concat()).expect_code(0).json();
        stats["total"]["run_count"].clone()
    };
    assert_eq!(count(&["--since", "2h"]), 4);
    assert_eq!(count(&["--since", "2999-01-01"]), 0);
    assert_eq!(count(&["--until", "2020"]), 0);
    assert_eq!(project.run(["stats", "--since", "soon"]).code, Some(2));
}

/// Two zones that are 26 hours apart never have the same day.
#[test]
fn stats_days_are_local() {
    let project = project_with_runs();
    let days = |zone: &str| {
        let mut command = project.command();
        let stats = run_command(command.env("TZ", zone).args(["--json", "stats", "--by", "day"]))
            .expect_code(0)
            .json();
        let items = stats["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["key"]["day"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (early, late) = (days("<+14>-14"), days("<-12>12"));
    assert!(early.iter().all(|day| late.iter().all(|other| day > other)), "{early:?} {late:?}");
}
