//! Costs: reported, estimated from tokens and a price, and limited.

use callsheet_testing::CommandOutput;
use serde_json::{Value, json};

use crate::project::RunProject;

const CODEX: &str = "#!/bin/sh\ncat >/dev/null\n\
    echo '{\"type\":\"thread.started\",\"thread_id\":\"t\"}'\n\
    echo '{\"type\":\"turn.started\"}'\n\
    echo '{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"agent_message\",\"text\":\"Done.\"}}'\n\
    echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1000000,\"cached_input_tokens\":400000,\"output_tokens\":20000}}'\n";

fn codex(end: &str) -> RunProject {
    let project = RunProject::new();
    project.write_program("codex", &format!("{CODEX}{end}\n"));
    project
}

fn run(project: &RunProject, flags: &[&str]) -> CommandOutput {
    project.run(["--json", "-q", "run", "Do it."].iter().chain(flags).copied())
}

fn cost(usage: &Value) -> Value {
    json!([
        usage["cost_microusd"],
        usage["cost_estimated"],
        usage["estimate"]["model"],
        usage["estimate"]["as_of"]
    ])
}

/// 600,000 new tokens at $1.25, 400,000 cached ones at $0.125 and 20,000 of output at $10 for a million.
#[test]
fn cost_is_estimated_from_price() {
    let project = codex("exit 0");
    let usage = run(&project, &["-a", "codex", "--model", "gpt-5"]).expect_code(0).json()["usage"].clone();
    assert_eq!(cost(&usage), json!([1_000_000, true, "gpt-5", "2025-09"]));
    assert_eq!(usage["all_input_tokens"], 1_000_000);
    let page = project.run(["show", "last"]).expect_code(0).out();
    assert!(page.contains("about $1.00"), "{page}");
    let usage = project.run(["--json", "-q", "run", "-a", "codex", "--model", "gpt-5.9", "Again."]);
    assert_eq!(cost(&usage.expect_code(0).json()["usage"]), json!([null, false, null, null]));
}

#[test]
fn own_price_replaces_shipped_price() {
    let project = codex("exit 0");
    let price = "[[price]]\nmodels = [\"gpt-5*\"]\nas_of = \"2026-11\"\ninput = 2_000_000\noutput = 0\n";
    project.write_beside("home/.config/callsheet/prices/mine.toml", price);
    let usage = run(&project, &["-a", "codex", "--model", "gpt-5.9"]).expect_code(0).json()["usage"].clone();
    assert_eq!(cost(&usage), json!([2_000_000, true, "gpt-5.9", "2026-11"]));
    assert_eq!(usage["estimate"]["source"], "user:prices/mine.toml");
}

/// A cloned repository must not be able to make a cost limit loose.
#[test]
fn project_price_needs_trust() {
    let project = codex("exit 0");
    let price = "[[price]]\nmodels = [\"gpt-5\"]\nas_of = \"2026-11\"\ninput = 0\noutput = 0\n";
    project.write(".callsheet/prices/cheap.toml", price);
    let usage = |task| {
        project.run(["--json", "-q", "run", "-a", "codex", "--model", "gpt-5", task]).expect_code(0).json()["usage"].clone()
    };
    assert_eq!(cost(&usage("One.")), json!([1_000_000, true, "gpt-5", "2025-09"]));
    let asks = project.run(["trust", "--yes"]).expect_code(0);
    assert!(
        format!("{}{}", asks.out(), asks.err())
            .contains("estimate costs by the prices in `project:.callsheet/prices/cheap.toml`"),
        "{asks:?}"
    );
    assert_eq!(cost(&usage("Two.")), json!([0, true, "gpt-5", "2026-11"]));
}

/// The limit is refused before anything starts, and nothing is recorded.
#[test]
fn unknown_cost_refuses_limit() {
    let project = codex("exit 0");
    for program in ["copilot", "claude"] {
        project.write_program(program, "#!/bin/sh\ntouch started\n");
    }
    let limit = ["--max-cost", "1"];
    for (flags, why) in [
        (
            &["-a", "codex", "--model", "gpt-9"][..],
            "Codex reports no cost, and no price of the model `gpt-9` is known",
        ),
        (&["-a", "copilot"], "Copilot CLI reports neither cost nor tokens"),
        (&["-a", "claude", "--terminal"], "Claude Code reports no cost in a terminal"),
    ] {
        let output = run(&project, &[flags, &limit].concat());
        assert_eq!(output.code, Some(2), "{flags:?} {output:?}");
        let message = format!("`--max-cost` cannot be checked: {why}");
        assert!(output.err().contains(&message), "{flags:?}: {}", output.err());
        assert!(output.err().contains("cost/unknown"), "{}", output.err());
    }
    assert!(!project.path().join("started").exists());
    assert_eq!(project.run(["--json", "log"]).code, Some(4));
}

/// A configured limit must not prevent every run of an agent that reports nothing.
#[test]
fn unknown_cost_warns_about_configured_limit() {
    let project = RunProject::new();
    project.write_program("copilot", "#!/bin/sh\ncat >/dev/null\n");
    project.write_beside("home/.config/callsheet/config.toml", "max_cost = 1.0\n");
    let output = project.run(["run", "-a", "copilot", "--dry-run", "Do it."]).expect_code(0);
    let warning = "warning[CostUnknown]: the configured cost limit cannot be checked: Copilot CLI reports neither cost nor tokens";
    assert!(output.err().contains(warning), "{}", output.err());
}

#[test]
fn estimated_cost_ends_agent() {
    let project = codex("sleep 60");
    let output = run(&project, &["-a", "codex", "--model", "gpt-5", "--max-cost", "0.5"]);
    let result = output.json();
    assert_eq!((output.code, &result["outcome"]), (Some(7), &json!("over_cost")));
    assert_eq!(result["reason"]["message"], "over the cost limit of $0.50 (spent about $1.00)");
}

/// opencode reports every step for itself, and Gemini counts thoughts only in the total.
#[test]
fn counts_follow_agent_data() {
    let project = RunProject::new();
    let step = "echo '{\"type\":\"step_finish\",\"sessionID\":\"s\",\"part\":{\"reason\":\"REASON\",\"tokens\":{\"total\":150,\"input\":100,\"output\":20,\"cache\":{\"read\":25,\"write\":5}},\"cost\":0.25}}'\n";
    let opencode = ["tool-calls", "stop"].map(|reason| step.replace("REASON", reason)).concat();
    project.write_program("opencode", &format!("#!/bin/sh\ncat >/dev/null\n{opencode}"));
    let stats = "{\"total_tokens\":1500,\"input_tokens\":1000,\"output_tokens\":100,\"cached\":600}";
    let gemini = format!(
        "echo '{{\"type\":\"init\",\"session_id\":\"s\",\"model\":\"gemini-2.5-pro\"}}'\n\
         echo '{{\"type\":\"result\",\"status\":\"success\",\"stats\":{stats}}}'\n"
    );
    project.write_program("gemini", &format!("#!/bin/sh\ncat >/dev/null\n{gemini}"));
    let usage = |agent| {
        let usage = project.run(["--json", "-q", "run", "-a", agent, agent]).json()["usage"].clone();
        json!([
            usage["input_tokens"],
            usage["all_input_tokens"],
            usage["cached_tokens"],
            usage["output_tokens"],
            usage["thought_tokens"],
            usage["cost_microusd"],
            usage["cost_estimated"],
        ])
    };
    assert_eq!(usage("opencode"), json!([200, 260, 50, 40, null, 500_000, false]));
    // 400 new tokens at $1.25, 600 cached ones at $0.31, 500 of output at $10 for a million.
    assert_eq!(usage("gemini"), json!([1000, 1000, 600, 100, 400, 5686, true]));
}

#[test]
fn flow_refuses_uncheckable_cost_limit() {
    let project = RunProject::new();
    for program in ["copilot", "codex"] {
        project.write_program(program, "#!/bin/sh\ntouch started\n");
    }
    let start = ["flow", "start", "sdd", "Add login.", "--max-cost", "5", "-a"];
    let output = project.run(start.iter().chain(&["copilot"]).copied());
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.err().contains("Copilot CLI reports neither cost nor tokens"), "{}", output.err());
    assert!(!project.path().join("started").exists());
}

/// The runs of a day count together: those before refuse a run, and those that run now end it.
#[test]
fn day_limit_ends_and_refuses_runs() {
    let project = codex("exit 0");
    project.write_beside("home/.config/callsheet/config.toml", "max_cost_per_day = 1.5\n");
    let go = |task: &str| project.run(["--json", "-q", "run", "-a", "codex", "--model", "gpt-5", task]);
    assert_eq!(go("One.").code, Some(0));
    project.write_program("codex", &format!("{CODEX}sleep 60\n"));
    let output = go("Two.");
    assert_eq!((output.code, &output.json()["outcome"]), (Some(7), &json!("over_cost")));
    let why = "over the cost limit of the day, $1.50 (spent about $2.00 today)";
    assert_eq!(output.json()["reason"]["message"], why);
    let message = "the cost limit was reached: the runs of today cost about $2.00 of $1.50";
    let output = go("Three.");
    assert_eq!(output.error(), (Some(7), "cost/limit".to_owned()), "{output:?}");
    assert!(output.err().contains(message), "{}", output.err());
    assert_eq!(project.run(["--json", "log"]).json()["items"].as_array().unwrap().len(), 2);
    // A flow waits with the reason, and can be resumed tomorrow.
    let output = project.run(["-q", "flow", "start", "sdd", "-a", "codex:gpt-5", "Add login."]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let status = project.run(["flow", "status", "add-login"]).out();
    assert!(status.contains(message), "{status}");
}

/// A project's file only tightens the limits before trust.
#[test]
fn day_limit_of_project_only_tightens() {
    let project = codex("exit 0");
    let shown = |user: &str, own: &str| {
        project.write_beside("home/.config/callsheet/config.toml", user);
        project.write(".callsheet/config.toml", own);
        let all = project.run(["--json", "config", "show"]).settings();
        json!([all["max_cost_per_day"]["value"], all["max_cost_per_flow"]["value"]])
    };
    let both = |cost: &str| format!("max_cost_per_day = {cost}\nmax_cost_per_flow = {cost}\n");
    assert_eq!(shown(&both("2.0"), &both("1.0")), json!([1.0, 1.0]));
    assert_eq!(shown(&both("2.0"), &both("3.0")), json!([2.0, 2.0]));
    assert_eq!(shown(&format!("[hard]\n{}", both("0.5")), &both("3.0")), json!([0.5, 0.5]));
}
