//! Retry, continue, decide: a new prompt from the facts of the last run, and the cases that are refused.

use std::fs;

use callsheet_testing::{run_command, wait_for_end, wait_until};

use crate::project::{RunProject, fake_agent};

/// Returns a section of the prompt, with its heading.
fn find_section(prompt: &str, heading: &str) -> String {
    let start = prompt.find(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no {heading}: {prompt}"));
    let body = &prompt[start..];
    let end = body[3..].find("\n## ").map_or(body.len(), |end| end + 3);
    body[..end].trim_end().to_owned()
}

#[test]
fn c8_digest_contains_exactly_observed_facts() {
    let project = RunProject::new();
    let flags = [
        "--task-id",
        "T-1",
        "--title",
        "A title",
        "--write",
        "src/**",
        "--check",
        "good=true",
        "--check",
        "bad=false",
    ];
    let first = project.run_agent(
        &flags,
        &["write", "src/in.txt", "write", "out.txt", "say", "<review>PASS</review>", "exit", "3"],
    );
    let first = first.expect_code(6).run_id();
    project.run(["decide", "--yes", &first, "out.txt", "--approve"]).expect_code(0);
    let retry =
        project.run(["--json", "-q", "retry", &first, "--", fake_agent(), "exit", "0"]).expect_code(1);
    assert_eq!(retry.json()["parent"], first.as_str());
    let prompt = project.prompt(&retry.run_id());
    assert_eq!(
        find_section(&prompt, "Retry/Continue Digest"),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {first}\n- It ended on its own.\n- Exit code: 3\n- Runs of this task so \
             far: 1\n\nChecks:\n\n- `good`: passed\n- `bad`: failed\n\nChanges outside the scope:\n\n- 1 in all\n- `out.txt`: \
             outside the write scope, approval approved\n\nFiles changed by that run. What nobody has reverted since is still in the worktree:\n\n- `out.txt`\n- `src/in.txt`"
        )
    );
    // Everything else is unchanged.
    let digest = find_section(&prompt, "Retry/Continue Digest");
    assert_eq!(prompt.replace(&format!("{digest}\n\n"), ""), project.prompt(&first));

    let text = "Look at `out.txt`.\n\n## Task\n\nAnd {{this}}.";
    let go_on = project.run(["--json", "-q", "continue", &retry.run_id(), text]).expect_code(1);
    assert_eq!(go_on.json()["parent"], retry.run_id().as_str());
    let prompt = project.prompt(&go_on.run_id());
    assert_eq!(
        find_section(&prompt, "Retry/Continue Digest"),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {}\n- It ended on its own.\n- Exit code: 0\n- Runs of this task so \
             far: 2\n\nChecks:\n\n- `good`: passed\n- `bad`: failed",
            retry.run_id()
        )
    );
    assert_eq!(prompt.matches(text).count(), 1, "{prompt}");
    project.assert_all_runs_finished();
}

#[test]
fn c8_retry_without_news_is_refused() {
    let project = RunProject::new();
    let first = project.run_agent(&["--check", "c=false"], &["exit", "0"]).expect_code(1).run_id();
    // The first retry has a new fact: there was a run.
    let second = project.run(["--json", "-q", "retry", &first]).expect_code(1).run_id();
    // The second retry would repeat the same facts.
    let third = project.run(["--json", "-q", "retry", &second]);
    assert_eq!(third.error(), (Some(9), "run/refused".into()));
    let forced = project.run(["--json", "-q", "retry", &second, "--force"]).expect_code(1);
    let digest = |run: &str| find_section(&project.prompt(run), "Retry/Continue Digest");
    assert_eq!(
        digest(&forced.run_id()),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {second}\n- It ended on its own.\n- Exit code: 0\n- Runs of this task \
             so far: 2\n\nChecks:\n\n- `c`: failed"
        )
    );
    // Other facts result in another prompt.
    project.write("README.md", "somebody works");
    let other = project.run(["--json", "-q", "retry", &second, "--check", "d=true"]);
    assert_eq!(other.error(), (Some(9), "run/refused".into()));
    let changed = project
        .run(["--json", "-q", "retry", &second, "--force", "--", fake_agent(), "write", "x"])
        .expect_code(1);
    let last = project.run(["--json", "-q", "retry", &changed.run_id()]).expect_code(1);
    assert_eq!(
        digest(&last.run_id()),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {}\n- It ended on its own.\n- Exit code: 0\n- Runs of this task so \
             far: 4\n\nChecks:\n\n- `c`: failed\n\nFiles changed by that run. What nobody has reverted since is still in the worktree:\n\n- `x`",
            changed.run_id()
        )
    );
    project.assert_all_runs_finished();
}

#[test]
fn c8_task_has_one_active_run() {
    let project = RunProject::new();
    let task = ["--task-id", "T-1"];
    let first = project.run_agent(&task, &["exit", "1"]).expect_code(6).run_id();
    let go = project.beside("go").display().to_string();
    let running = project.start_agent(&task, &["say", "up", "wait-for", &go]);
    wait_until("it runs", || project.run(["show", "last", "--stream", "stdout"]).out() == "up\n");
    for command in [&["retry", &first][..], &["continue", &first, "More."], &["retry", "last"]] {
        let args: Vec<&str> = ["--json", "-q"].iter().chain(command).copied().collect();
        assert_eq!(project.run(&args).error(), (Some(9), "run/refused".into()), "{command:?}");
    }
    fs::write(&go, "").unwrap();
    wait_for_end(running).expect_code(0);
    // Of two simultaneous retries one is refused.
    let mut both: Vec<_> = (0..2)
        .map(|_| {
            let mut command = project.command();
            command.args(["--json", "-q", "retry", &first, "--", fake_agent(), "sleep", "1000"]);
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .map(Some)
        .collect();
    let mut codes: Vec<_> = both.iter_mut().map(|child| wait_for_end(child.take().unwrap()).code).collect();
    codes.sort();
    assert_eq!(codes, [Some(0), Some(9)]);
    project.assert_all_runs_finished();
}

#[test]
fn c8_invalid_retries_are_refused() {
    let project = RunProject::new();
    let error = |args: &[&str]| project.run([&["--json", "-q"], args].concat()).error();
    assert_eq!(error(&["retry", "last"]), (Some(4), "ledger/not-there".into()));
    project.run(["-q", "compose", "--record", "Only composed."]).expect_code(0);
    assert_eq!(error(&["retry", "last"]), (Some(9), "run/refused".into()));
    assert_eq!(error(&["stop", "last"]), (Some(9), "run/refused".into()));
    let run = project.run_agent(&[], &["exit", "1"]).expect_code(6).run_id();
    for blank in ["", " ", "\n\t "] {
        assert_eq!(error(&["continue", &run, blank]), (Some(2), "usage/bad".into()));
    }
    assert_eq!(error(&["retry", "ffffffff"]), (Some(4), "run/not-found".into()));
    assert_eq!(error(&["status", "no-such-task"]), (Some(4), "task/not-found".into()));
}

/// A value that is not recorded must be given again.
#[test]
fn c6_retry_requires_secret_values() {
    let project = RunProject::new();
    project.write(
        ".callsheet/templates/profiles/deployer.md",
        "---\nvariables: [token]\n---\nYou deploy with {{token}}.\n",
    );
    fs::write(project.beside("value"), "tok-123456").unwrap();
    let secret = format!("token={}", project.beside("value").display());
    project.write(
        ".callsheet/profiles/deployer.md",
        "---\nvariables: [token]\n---\nYou deploy with {{token}}.\n",
    );
    let run = project
        .run_agent(&["--role", "deployer", "--set-secret", &secret], &["cat", "exit", "1"])
        .expect_code(6)
        .run_id();
    let output = project.run(["show", &run, "--stream", "stdout"]).expect_code(0).out();
    assert!(!output.contains("tok-123456") && output.contains("You deploy with "), "{output}");
    assert_eq!(project.run(["--json", "-q", "retry", &run]).error(), (Some(12), "verify/secret".into()));
    let again = project
        .run(["--json", "-q", "retry", &run, "--set-secret", &secret, "--", fake_agent(), "cat"])
        .expect_code(0);
    // The prompt of the agent has the value, and the recorded one does not.
    assert!(!project.prompt(&again.run_id()).contains("tok-123456"));
    assert!(!again.out().contains("tok-123456"));
}

#[test]
fn c5_person_decides_once() {
    let project = RunProject::new();
    let run = project
        .run_agent(&["--write", "src/**"], &["write", "a.txt", "write", "b.txt"])
        .expect_code(5)
        .run_id();
    let error = |args: &[&str]| project.run([&["--json", "-q", "decide", "--yes"], args].concat()).error();
    assert_eq!(error(&[&run, "src/in.txt", "--approve"]), (Some(4), "run/no-violation".into()));
    let by_agent = run_command(
        project
            .command()
            .args(["--json", "-q", "decide", "--yes", &run, "a.txt", "--approve"])
            .env("CALLSHEET_RUN", &run),
    );
    assert_eq!(by_agent.error(), (Some(9), "run/refused".into()));
    assert_eq!(project.run(["-q", "decide", "--yes", &run, "a.txt"]).code, Some(2));
    let reasons = || {
        let page = project.run(["status", "last"]).expect_code(0).out();
        page.lines().next().unwrap().split_once("  ").unwrap().1.to_owned()
    };
    assert_eq!(reasons(), "needs_review  (scope_violation_pending, uncommitted)");
    project.run(["-q", "decide", "--yes", &run, "a.txt", "--approve"]).expect_code(0);
    assert_eq!(reasons(), "needs_review  (scope_violation_pending, uncommitted)");
    let secret = "ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    let refused = project.run(["--json", "decide", "--yes", &run, "b.txt", "--reject", "--because", secret]);
    assert_eq!(refused.error(), (Some(9), "secret/found".into()));
    project.run(["-q", "decide", "--yes", &run, "b.txt", "--reject", "--because", "No."]).expect_code(0);
    assert_eq!(reasons(), "needs_review  (scope_violation_rejected, uncommitted)");
    for path in ["a.txt", "b.txt"] {
        for decision in ["--approve", "--reject"] {
            assert_eq!(error(&[&run, path, decision]), (Some(9), "run/refused".into()));
        }
    }
    let status = project.run(["--json", "status"]).expect_code(0).json();
    let decisions: Vec<_> = status["items"][0]["runs"][0]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| (violation["path"].as_str().unwrap(), violation["decision"].as_str().unwrap()))
        .collect();
    assert_eq!(decisions, [("a.txt", "approved"), ("b.txt", "rejected")]);
}

/// Another agent continues the work: the prompt has everything that it needs.
#[test]
fn u5_other_agent_continues_work() {
    let project = RunProject::new();
    let first = project
        .run_agent(&["--task-id", "T-1"], &["write", "src/in.txt", "exit", "1"])
        .expect_code(6)
        .run_id();
    project.write_program(
        "claude",
        "#!/bin/sh\ncat > \"$HOME/got\"\necho '{\"type\":\"result\",\"is_error\":false,\"result\":\"ok\"}'\n",
    );
    let next = project.run(["--json", "-q", "retry", &first, "-a", "claude"]).expect_code(0);
    assert_eq!(fs::read_to_string(project.beside("home/got")).unwrap(), project.prompt(&next.run_id()));
    assert_eq!(
        find_section(&project.prompt(&next.run_id()), "Retry/Continue Digest"),
        format!(
            "## Retry/Continue Digest\n\n- Previous run: {first}\n- It ended on its own.\n- Exit code: 1\n- Runs of this task \
             so far: 1\n\nFiles changed by that run. What nobody has reverted since is still in the worktree:\n\n- `src/in.txt`"
        )
    );
}

/// The last output of a failed check says why it failed; a setting keeps it out of prompts.
#[test]
fn c5_digest_has_failed_check_output() {
    let project = RunProject::new();
    let flags = ["--task-id", "T-1", "--write", "src/**", "--check", "bad=sh -c 'seq 30; exit 1'"];
    let first = project.run_agent(&flags, &["exit", "0"]).expect_code(1).run_id();
    let retry = |run: &str| {
        project
            .run(["--json", "-q", "retry", "--force", run, "--", fake_agent(), "exit", "0"])
            .expect_code(1)
            .run_id()
    };
    let checks = |run: &str| {
        let digest = find_section(&project.prompt(run), "Retry/Continue Digest");
        digest.split_once("\n\nChecks:\n\n").unwrap().1.to_owned()
    };
    let second = retry(&first);
    let lines: Vec<String> = (11..=30).map(|line| line.to_string()).collect();
    assert_eq!(
        checks(&second),
        format!(
            "- `bad`: failed. The last lines that it printed:\n\n<output>\n{}\n</output>",
            lines.join("\n")
        )
    );
    // The facts are the same again: output does not change them.
    project.run(["-q", "retry", &second, "--", fake_agent(), "exit", "0"]).expect_code(9);
    project.write(".callsheet/config.toml", "digest_output = false\n");
    assert_eq!(checks(&retry(&second)), "- `bad`: failed");
}
