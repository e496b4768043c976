//! An agent whose model does not answer: a refused key ends it, a quota with a known end parks the run, and everything else
//! is only shown. The agents are scripts that print recorded events.

use callsheet_testing::{CommandOutput, wait_until};
use serde_json::{Value, json};

use crate::project::RunProject;

pub(crate) const INIT: &str =
    r#"{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111"}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done."}"#;

/// Returns the event of Claude about an attempt.
pub(crate) fn retry(status: Option<u64>, attempt: u64, delay_ms: u64) -> String {
    json!({
        "type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 10,
        "retry_delay_ms": delay_ms, "error_status": status, "error": "unknown",
    })
    .to_string()
}

/// Writes a program `claude` that prints these lines and then runs `then`.
pub(crate) fn write_claude(project: &RunProject, lines: &[String], then: &str) {
    let events = project.write_beside("events.jsonl", lines.join("\n") + "\n");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit\ncat > /dev/null\ncat '{}'\n{then}\n",
        events.display()
    );
    project.write_program("claude", &script);
}

fn run_claude(project: &RunProject, lines: &[String], then: &str) -> CommandOutput {
    write_claude(project, lines, then);
    project.run(["--json", "-q", "run", "-a", "claude", "--write", "**", "Do it."])
}

fn outcome(output: &CommandOutput) -> (Option<i32>, Value, Value, Value) {
    let result = output.json();
    (output.code, result["outcome"].clone(), result["end"].clone(), result["reason"]["message"].clone())
}

#[test]
fn third_refused_key_ends_agent() {
    let project = RunProject::new();
    let refused = |count: u64| {
        let mut lines = vec![INIT.to_owned()];
        lines.extend((1..=count).map(|attempt| retry(Some(401), attempt, 500)));
        lines
    };
    let ran = run_claude(&project, &refused(3), "exec sleep 600");
    let why = "401 authentication failed 3 times: none of ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN, \
               ANTHROPIC_AUTH_TOKEN is set; set ANTHROPIC_API_KEY, or start claude once and log in";
    assert_eq!(outcome(&ran), (Some(6), json!("agent_failed"), json!("unauthenticated"), json!(why)));
    // Two refusals and an answer are a working key, and refusals for different reasons are counted by themselves.
    let mut lines = refused(2);
    lines
        .push(r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Hi."}]}}"#.into());
    lines.extend([retry(Some(401), 1, 500), retry(Some(529), 2, 500), retry(Some(401), 3, 500)]);
    lines.push(DONE.into());
    let ran = run_claude(&project, &lines, "");
    assert_eq!(outcome(&ran), (Some(0), json!("nothing_changed"), json!("exited"), json!(null)));
    // An agent that gives up by itself has the same reason.
    let ran = run_claude(&project, &refused(1), "exit 1");
    assert_eq!(outcome(&ran).1, json!("agent_failed"));
    assert_eq!(outcome(&ran).3.as_str().map(|why| &why[..26]), Some("401 authentication failed:"));
    project.assert_all_runs_finished();
}

#[test]
fn known_end_of_quota_parks_run() {
    let project = RunProject::new();
    let until = 4_102_444_800_u64;
    let limit = json!({
        "type": "assistant", "message": { "id": "m", "model": "<synthetic>", "content": [] }, "error": "rate_limit",
        "api_error_status": 429, "api_error_params": { "rate_limit_info": { "resetsAt": until } },
    });
    let ran = run_claude(&project, &[INIT.into(), limit.to_string()], "exit 1");
    let parked = |ran: &CommandOutput| (ran.code, outcome(ran).1, outcome(ran).2);
    assert_eq!(parked(&ran), (Some(6), json!("parked"), json!("parked")));
    assert_eq!(ran.json()["parked_until_at"], "2100-01-01T00:00:00.000000Z");
    let status = project.run(["--json", "show", &ran.run_id()]).expect_code(0).json();
    assert_eq!(
        status["result"]["parked_until_at"]
            .as_str()
            .or(status["parked_until_at"].as_str())
            .map(|at| &at[..4]),
        Some("2100")
    );
    // An agent that would wait for an hour is ended; one that waits for a minute is not.
    let ran = run_claude(&project, &[INIT.into(), retry(Some(429), 1, 3_600_000)], "exec sleep 600");
    assert_eq!(parked(&ran), (Some(6), json!("parked"), json!("parked")));
    let ran = run_claude(&project, &[INIT.into(), retry(Some(429), 1, 60_000), DONE.into()], "");
    assert_eq!(parked(&ran), (Some(0), json!("nothing_changed"), json!("exited")));
    project.assert_all_runs_finished();
}

#[test]
fn overloads_are_only_shown() {
    let project = RunProject::new();
    let mut lines = vec![INIT.to_owned()];
    lines.extend((1..=10).map(|attempt| retry(Some(529), attempt, 500)));
    lines.extend((1..=2).map(|attempt| retry(None, attempt, 500)));
    lines.push(DONE.into());
    write_claude(&project, &lines, "");
    let ran = project.run(["run", "-a", "claude", "--write", "**", "Do it."]).expect_code(0);
    let told: Vec<String> =
        ran.err().lines().filter(|line| line.contains("retrying")).map(str::to_owned).collect();
    assert_eq!(told.len(), 12, "{told:?}");
    assert_eq!(told[2], "claude: retrying: 529 overloaded, attempt 3");
    assert_eq!(told[11], "claude: retrying: connection lost, attempt 2");
    assert!(!ran.err().contains('\u{1b}'), "{}", ran.err());
}

#[test]
fn timeout_bounds_lost_connections() {
    let project = RunProject::new();
    write_claude(&project, &[INIT.into(), retry(None, 1, 500)], "exec sleep 600");
    let ran =
        project.run(["--json", "-q", "run", "-a", "claude", "--write", "**", "--timeout", "2s", "Do it."]);
    assert_eq!((ran.code, ran.json()["outcome"].clone()), (Some(7), json!("timed_out")));
    wait_until("all processes end", || project.list_processes().is_empty());
}
