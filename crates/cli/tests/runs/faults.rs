//! Agents, checks and repositories that fail: the result of the run is reported truthfully, and is in the
//! ledger to its end.

use std::fs;

use callsheet_testing::{CommandOutput, run_command, run_with_input, wait_for_end, wait_until};
use serde_json::{Value, json};

use crate::project::{RunProject, fake_agent, summarize};

/// Returns the run in one line, after the checks that hold in every case: it is recorded to its end, nothing
/// is left of it, and its task is not done.
fn assert_recorded(project: &RunProject, output: &CommandOutput) -> String {
    let line = summarize(output);
    project.assert_all_runs_finished();
    let status = project.run(["--json", "status"]).expect_code(0).json();
    assert_ne!(status["items"][0]["status"], "done", "{line}");
    line
}

/// Runs each case in a repository of its own: flags, words for the agent, and the expected result.
fn assert_each(cases: &[(&[&str], &[&str], &str)]) {
    for (flags, words, expected) in cases {
        let project = RunProject::new();
        let output = project.run_agent(flags, words);
        assert_eq!(assert_recorded(&project, &output), *expected, "{words:?}");
    }
}

/// Runs the program with a text of a million bytes to read.
fn run_with_long_input(program: &[&str]) -> String {
    let project = RunProject::new();
    let mut command = project.program_command(&[], program);
    let output = run_with_input(&mut command, "0123456789abcde\n".repeat(62_500).as_bytes());
    assert_recorded(&project, &output)
}

const SPAWNED: &str = " | receipts spawned";

#[test]
fn exits_are_reported_truthfully() {
    assert_each(&[
        (&[], &[], "0 completed: exited 0 | receipts spawned"),
        (&[], &["read", "exit", "3"], "6 failed: exited 3 | receipts spawned"),
        (&[], &["say", "<review>PASS</review>", "exit", "1"], "6 failed: exited 1 | receipts spawned"),
        (&[], &["kill-self"], "6 failed: signaled by 9 | receipts spawned"),
        (&[], &["abort"], "6 failed: signaled by 6 | receipts spawned"),
        (&[], &["hang-up"], "6 failed: signaled by 1 | receipts spawned"),
        (&[], &["sleep", "300", "kill-guard", "sleep", "60000"], "6 failed: lost | receipts spawned"),
        (&[], &["exit", "255"], "6 failed: exited 255 | receipts spawned"),
    ]);
}

#[test]
fn doubtful_verdict_does_not_pass() {
    assert_each(&[
        (&["-p", "review"], &["read"], "1 completed: exited 0 | receipts spawned | reply no_verdict"),
        (
            &["-p", "review"],
            &["say", "<review>PASS</review>", "exit", "1"],
            "6 failed: exited 1 | receipts spawned | reply pass",
        ),
        (
            &["-p", "review"],
            &["say", "<review>PASS</review>"],
            "0 completed: exited 0 | receipts spawned | reply pass",
        ),
        (
            &["-p", "review"],
            &["say", "<review>NEEDS_CHANGES</review>"],
            "1 completed: exited 0 | receipts spawned | reply needs_changes",
        ),
        (
            &["-p", "review"],
            &["say", "I cannot say <review>PASS</review>"],
            "1 completed: exited 0 | receipts spawned | reply no_verdict",
        ),
        // The prompt, repeated, holds no verdict of its own.
        (&["-p", "review"], &["cat"], "1 completed: exited 0 | receipts spawned | reply no_verdict"),
    ]);
}

#[test]
fn timeout_ends_hanging_agents() {
    assert_each(&[
        (&["--timeout", "1s"], &["sleep", "60000"], "7 failed: timeout by 15 | receipts spawned"),
        (
            &["--timeout", "1s"],
            &["say", "{\"type\":\"result\"}", "sleep", "60000"],
            "7 failed: timeout by 15 | receipts spawned",
        ),
        (
            &["--timeout", "1s"],
            &["ignore-term", "sleep", "60000"],
            "7 failed: timeout by 9 | receipts spawned",
        ),
        (
            &["--timeout", "2s"],
            &["child", "sleep 60000", "sleep", "60000"],
            "7 failed: timeout by 15 | receipts spawned",
        ),
        (
            &["--timeout", "2s"],
            &[
                "child-setsid",
                "ignore-term child-setsid+ignore-term+sleep+60000 sleep 60000",
                "sleep",
                "60000",
            ],
            "7 failed: timeout by 15 | receipts spawned",
        ),
        // The agent ended by itself; the processes that it leaves behind end with it.
        (&[], &["child", "sleep 60000", "exit", "0"], "0 completed: exited 0 | receipts spawned"),
        (
            &[],
            &["child-setsid", "ignore-term sleep 60000", "exit", "0"],
            "0 completed: exited 0 | receipts spawned",
        ),
    ]);
}

#[test]
fn unread_stdin_does_not_block_run() {
    let agent = fake_agent();
    assert_eq!(run_with_long_input(&[agent, "say", "x"]), format!("0 completed: exited 0{SPAWNED}"));
    let closes = ["sh", "-c", "exec 0<&-; sleep 0.3; echo closed"];
    assert_eq!(run_with_long_input(&closes), format!("0 completed: exited 0{SPAWNED}"));
    let reads_some = ["sh", "-c", "dd bs=1 count=10 2>/dev/null; exec 0<&-; sleep 0.3"];
    assert_eq!(run_with_long_input(&reads_some), format!("0 completed: exited 0{SPAWNED}"));
}

#[test]
fn any_output_is_kept_or_counted() {
    let stream = |project: &RunProject, stream: &str| {
        project.run(["--json", "show", "last", "--stream", stream]).expect_code(0).json()["items"].take()
    };
    // If a line is too long for a record, its beginning is kept.
    let project = RunProject::new();
    let output = project.run_agent(&[], &["line-of", "100000000", "say", "the end"]);
    assert_eq!(assert_recorded(&project, &output), format!("0 completed: exited 0{SPAWNED}"));
    let reply = output.json()["reply"].clone();
    assert_eq!((&reply["text_cut"], reply["text"].as_str().unwrap().len()), (&Value::Bool(true), 1 << 20));
    assert_eq!(reply["problems"][0]["code"], "too_long");
    let lines = stream(&project, "stdout");
    let texts: Vec<&str> =
        lines.as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts.last(), Some(&"the end"));
    let left_out: Vec<&&str> = texts.iter().filter(|text| text.ends_with(" bytes left out]")).collect();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert!(texts.iter().all(|text| text.len() <= 64 * 1024));

    let project = RunProject::new();
    let output = project.run_agent(&[], &["bytes", "97,255,98,10,27,91,50,74,0,10", "say", "é"]);
    assert_eq!(assert_recorded(&project, &output), format!("0 completed: exited 0{SPAWNED}"));
    let lines = stream(&project, "stdout");
    let texts: Vec<&str> =
        lines.as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a\u{fffd}b", "\u{1b}[2J\0", "é"]);

    let project = RunProject::new();
    let output = project.run_agent(&[], &["talk-lines", "200000", "exit", "1"]);
    assert_eq!(assert_recorded(&project, &output), format!("6 failed: exited 1{SPAWNED}"));
    assert_eq!(stream(&project, "stderr").as_array().unwrap().len(), 200_000);
}

#[test]
fn endless_output_is_capped() {
    let project = RunProject::new();
    let output = project.run_agent(&["--timeout", "3s"], &["for-ever"]);
    assert_eq!(assert_recorded(&project, &output), "7 failed: timeout by 15 | receipts spawned");
}

#[test]
fn unstartable_program_reports_reason() {
    // A program that the system cannot start: nothing shows that before.
    let project = RunProject::new();
    project.write_program("odd", "\u{7f}ELF, and nothing more");
    let output = run_with_input(&mut project.program_command(&["--check", "c=true"], &["odd"]), b"Do it.");
    assert_eq!(assert_recorded(&project, &output), "6 failed: unstarted | checks c:pending");
    let cwd = project.path().display();
    assert_eq!(
        output.json()["reason"]["message"],
        format!("cannot start `odd` in `{cwd}`: Exec format error (os error 8)").as_str()
    );
}

#[test]
fn agent_reporting_failure_has_failed() {
    let result = |is_error: bool, text: &str| {
        format!(
            "#!/bin/sh\ncat >/dev/null\necho '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}}'\n\
             echo '{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":{is_error},\"result\":\"{text}\",\
             \"total_cost_usd\":0.5}}'\n{}",
            if text == "hangs" { "sleep 60\n" } else { "exit 0\n" }
        )
    };
    for (is_error, text, flags, expected) in [
        (true, "API error", &[][..], "6 completed: exited 0 | receipts spawned,accepted"),
        (false, "Done.", &[], "0 completed: exited 0 | receipts spawned,accepted"),
        (false, "hangs", &["--timeout", "2s"], "7 failed: timeout by 15 | receipts spawned,accepted"),
        (false, "hangs", &["--max-cost", "0.4"], "7 failed: cost by 15 | receipts spawned,accepted"),
    ] {
        let project = RunProject::new();
        project.write_program("claude", &result(is_error, text));
        let mut command = project.command();
        command.args(["--json", "-q", "run", "-a", "claude", "Do it."]).args(flags);
        let output = run_command(&mut command);
        assert_eq!(assert_recorded(&project, &output), expected, "{text}");
        assert_eq!(output.json()["usage"]["cost_microusd"], 500_000);
    }
}

#[test]
fn changes_are_observed_not_claimed() {
    let secret = RunProject::without_repository();
    secret.write("secret.txt", "outside");
    let outside = secret.path().display().to_string();
    let write = &["--write", "src/**"][..];
    assert_each(&[
        (
            write,
            &["write", "src/new.txt", "say", "I changed nothing."],
            "0 completed: exited 0 | changed src/new.txt:untracked | receipts spawned",
        ),
        (
            write,
            &["write", "out.txt"],
            "5 completed: exited 0 | changed out.txt:untracked | violations out.txt:outside_write | receipts spawned",
        ),
        (
            &["--write", "**", "--exclude", "src/**"],
            &["append", "src/a.txt"],
            "5 completed: exited 0 | changed src/a.txt:modified | violations src/a.txt:excluded | receipts spawned",
        ),
        (
            write,
            &["remove", "README.md", "exit", "1"],
            "6 failed: exited 1 | changed README.md:deleted | violations README.md:outside_write | receipts spawned",
        ),
        (
            write,
            &["link", &outside, "src/away", "write", "src/away/secret.txt"],
            "5 completed: exited 0 | changed src/away:untracked | violations src/away:leads_outside | receipts spawned",
        ),
        (
            write,
            &["write", ".git/hooks/pre-commit"],
            "5 completed: exited 0 | changed .git/hooks/pre-commit:repository | violations .git/hooks/pre-commit:outside_write \
             | receipts spawned",
        ),
    ]);
}

#[test]
fn removed_worktree_is_reported_as_change() {
    let project = RunProject::new();
    let task = ["--worktree", "--task-id", "T-1", "--check", "c=true"];
    let first = project.run_agent(&task, &["cwd"]).expect_code(0);
    let worktree = first.json()["worktree"].as_str().unwrap().to_owned();
    let output = project.run_agent(&task, &["remove-all", &worktree]);
    assert_eq!(
        assert_recorded(&project, &output),
        "5 completed: exited 0 | checks c:pending | changed .:deleted | violations .:outside_write | receipts spawned"
    );
    assert_eq!(output.json()["unseen"].as_array().unwrap().len(), 1);
}

#[test]
fn removed_repository_is_reported() {
    let project = RunProject::new();
    let output = project.run_agent(&[], &["remove-all", ".git"]);
    let line = assert_recorded(&project, &output);
    assert_eq!(
        line,
        "5 completed: exited 0 | changed .git:repository | violations .git:outside_write | receipts spawned"
    );
    assert!(!output.json()["unseen"].as_array().unwrap().is_empty());
}

#[test]
fn checks_report_their_own_result() {
    let agent = fake_agent();
    let of = |words: &str| format!("c={agent} {words}");
    let secret = "ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    for (check, flags, expected, printed) in [
        (of("say fine"), &[][..], "0 completed: exited 0 | checks c:passed", "fine\n"),
        (of("say no exit 2"), &[], "1 completed: exited 0 | checks c:failed", "no\n"),
        (of("kill-self"), &[], "1 completed: exited 0 | checks c:failed", ""),
        (of("sleep 60000"), &["--timeout", "2s"], "7 completed: exited 0 | checks c:pending", ""),
        // No shell: text that would be two commands is only words.
        (
            "c=echo 'a; touch x && $(id)' \"b c\"".into(),
            &[],
            "0 completed: exited 0 | checks c:passed",
            "a; touch x && $(id) b c\n",
        ),
        (
            "c=cat key.txt".into(),
            &[],
            "0 completed: exited 0 | checks c:passed",
            "key: [secret:github-token:1]\n",
        ),
    ] {
        let project = RunProject::new();
        project.write("key.txt", format!("key: {secret}\n"));
        project.commit();
        let flags: Vec<&str> = ["--check", &check].iter().chain(flags).copied().collect();
        let output = project.run_agent(&flags, &["exit", "0"]);
        assert_eq!(assert_recorded(&project, &output), format!("{expected} | receipts spawned"), "{check}");
        let result = output.json();
        assert_eq!(result["checks"][0]["output"], printed, "{check}");
    }
}

/// The time limit of a run covers its checks: a check that it cuts off is pending, and never passed.
#[test]
fn run_timeout_covers_checks() {
    let agent = fake_agent();
    let project = RunProject::new();
    // The agent takes all of the time, so no check runs.
    let check = format!("c={agent} write checked.txt");
    let late = project.run_agent(&["--timeout", "1s", "--check", &check], &["sleep", "60000"]);
    assert_eq!(
        assert_recorded(&project, &late),
        "7 failed: timeout by 15 | checks c:pending | receipts spawned"
    );
    let checked = &late.json()["checks"][0];
    assert_eq!(
        (&checked["output"], &checked["end"]),
        (&"not run: the run timed out".into(), &"timeout".into())
    );
    assert!(!project.path().join("checked.txt").exists());
    // Each check gets the remaining time: the first one takes all of it.
    let slow = format!("a={agent} sleep 60000");
    let both = ["--timeout", "3s", "--check", &slow, "--check", &check];
    let cut = project.run_agent(&both, &["exit", "0"]);
    assert_eq!(
        assert_recorded(&project, &cut),
        "7 completed: exited 0 | checks a:pending,c:pending | receipts spawned"
    );
    assert!(!project.path().join("checked.txt").exists());
    // A check's own time limit ends before that of the run.
    project.write(
        ".callsheet/config.toml",
        format!("[checks]\nd = {{ command = \"{agent} sleep 60000\", timeout = \"1s\" }}\n"),
    );
    project.run(["trust", "--yes"]).expect_code(0);
    let own = project.run_agent(&["--timeout", "60s"], &["exit", "0"]);
    assert_eq!(own.json()["checks"][0]["end"], "timeout");
    assert_eq!(own.code, Some(7));
    assert!(own.json()["checks"][0]["duration_ms"].as_u64().unwrap() < 30_000);
}

#[test]
fn unusual_repositories_are_observed() {
    // Without a repository the files are still compared.
    let project = RunProject::without_repository();
    let output = project.run_agent(&["--write", "src/**"], &["write", "out.txt"]);
    assert_eq!(
        assert_recorded(&project, &output),
        "5 completed: exited 0 | changed out.txt:added | violations out.txt:outside_write | receipts spawned"
    );
    assert_eq!(project.show("last")["result"]["head_before"], Value::Null);
    // A repository without a commit.
    let project = RunProject::without_repository();
    project.git(&["init", "-q"]);
    project.write("was.txt", "there");
    let output = project.run_agent(&["--write", "src/**"], &["write", "out.txt"]);
    assert_eq!(
        assert_recorded(&project, &output),
        "5 completed: exited 0 | changed out.txt:untracked | violations out.txt:outside_write | receipts spawned"
    );
    // Work of another author that existed before.
    let project = RunProject::new();
    project.write("README.md", "mine");
    project.write("draft.txt", "mine");
    let output = project.run_agent(&["--write", "src/**"], &["append", "draft.txt"]);
    assert_eq!(
        assert_recorded(&project, &output),
        "5 completed: exited 0 | changed draft.txt:modified | violations draft.txt:outside_write | receipts spawned"
    );
    // A project that is a folder of a repository: its scope refers to that folder.
    let project = RunProject::new();
    project.write("part/.callsheet/config.toml", "");
    project.write("part/src/b.txt", "b");
    project.commit();
    let mut command =
        project.agent_command(&["--write", "src/**"], &["append", "src/b.txt", "append", "../src/a.txt"]);
    let output = run_with_input(command.current_dir(project.path().join("part")), b"Do it.");
    assert_eq!(
        summarize(&output),
        "5 completed: exited 0 | changed ../src/a.txt:modified,src/b.txt:modified | violations ../src/a.txt:outside_write \
         | receipts spawned"
    );
}

#[test]
fn output_is_recorded_without_secrets() {
    let project = RunProject::new();
    let secret = "ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    fs::write(project.beside("value"), "not-like-a-key-at-all").unwrap();
    let value = format!("deploy={}", project.beside("value").display());
    project.write("key.txt", format!("the key is {secret}\n"));
    project.write("other.txt", "it says not-like-a-key-at-all, and {\"json\":\"not-like-a-key-at-all\"}\n");
    let mut command =
        project.program_command(&["--set-secret", &value], &["sh", "-c", "cat key.txt; cat other.txt >&2"]);
    let ran = run_with_input(&mut command, b"Do it.");
    assert_eq!(assert_recorded(&project, &ran), format!("0 completed: exited 0{SPAWNED}"));
    // The whole ledger, as text.
    let all = project.run(["export", "--all"]).expect_code(0).out();
    assert_eq!(
        ["cat key.txt", secret, "not-like-a-key"].map(|text| all.contains(text)),
        [true, false, false]
    );
    let shown = |stream: &str| project.run(["show", "last", "--stream", stream]).expect_code(0).out();
    assert_eq!(shown("stdout"), "the key is [secret:github-token:1]\n");
    assert_eq!(shown("stderr"), "it says [secret:value:deploy], and {\"json\":\"[secret:value:deploy]\"}\n");
}

/// The line that proves a receipt is recorded too, and an agent may repeat anything in it.
#[test]
fn evidence_is_recorded_without_secrets() {
    let project = RunProject::new();
    let secret = "not-like-a-key-at-all";
    fs::write(project.beside("value"), secret).unwrap();
    let value = format!("deploy={}", project.beside("value").display());
    let event = json!({ "type": "system", "subtype": "init", "session_id": "s", "cwd": secret });
    project.write_program("claude", &format!("#!/bin/sh\ncat > /dev/null\necho '{event}'\n"));
    let ran = project.run(["--json", "-q", "run", "-a", "claude", "--set-secret", &value, "Do it."]);
    assert_eq!(ran.json()["receipts"], json!(["spawned", "accepted"]), "{ran:?}");
    let all = project.run(["export", "--all"]).expect_code(0).out();
    assert_eq!([all.contains("[secret:value:deploy]"), all.contains(secret)], [true, false]);
}

/// A command is recorded unchanged, so a command with a secret in it is not started.
#[test]
fn commands_with_secrets_are_refused() {
    let secret = "ghp_Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5";
    let project = RunProject::new();
    let check = format!("c=echo {secret}");
    let runs =
        |flags: &[&str], words: &[&str]| project.run_agent(&[flags, &["--write", "**"]].concat(), words);
    for ran in [runs(&[], &["say", secret]), runs(&["--check", &check], &["read"])] {
        assert_eq!(ran.error(), (Some(9), "secret/found".into()), "{ran:?}");
        assert!(!ran.err().contains(secret));
    }
    for words in [["Do it.", "--", fake_agent(), secret], [secret, "--", fake_agent(), "read"]] {
        let flow = project.run([&["--json", "-q", "flow", "start", "sdd"], &words[..]].concat());
        assert_eq!(flow.error(), (Some(9), "secret/found".into()));
    }
    assert!(!project.ledger().exists());
    let allowed = runs(&["--secrets", "allow"], &["say", "it is", "say-part", secret]);
    assert_eq!(assert_recorded(&project, &allowed), format!("0 completed: exited 0{SPAWNED}"));
}

/// An agent must not work without a record: it is ended, and the run is recovered when the ledger works
/// again.
#[test]
fn broken_ledger_ends_agent() {
    // A file that may not grow beyond a megabyte simulates a full disk.
    let project = RunProject::new();
    let mut words =
        vec!["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_callsheet")];
    words.extend(["-C", ".", "--json", "-q", "run", "Do it.", "--", "sh", "-c"]);
    // The output is not compressible; otherwise it would fit.
    words.push("while :; do head -c 200000 /dev/urandom | base64; done");
    let mut shell = std::process::Command::new("sh");
    let like = project.command();
    shell.args(&words).current_dir(project.path()).env_clear();
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let broken = run_command(&mut shell);
    assert_eq!(broken.error().0, Some(8), "{broken:?}");
    project.assert_no_process_left();
    let recovered = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!(recovered["items"][0]["end"], "lost");
    project.assert_all_runs_finished();
}

#[test]
fn locked_ledger_ends_agent() {
    let project = RunProject::new();
    let go = project.beside("go").display().to_string();
    let running = project.start_agent(&[], &["say", "one", "wait-for", &go, "say", "two", "sleep", "60000"]);
    let path = project.ledger();
    wait_until("it runs", || {
        path.exists() && project.run(["show", "last", "--stream", "stdout"]).out() == "one\n"
    });
    let holder = rusqlite::Connection::open(&path).unwrap();
    holder.execute_batch("begin immediate").unwrap();
    fs::write(&go, "").unwrap();
    let broken = wait_for_end(running);
    assert_eq!(broken.error(), (Some(8), "ledger/locked".into()));
    holder.execute_batch("rollback").unwrap();
    project.assert_no_process_left();
    let recovered = project.run(["--json", "recover"]).expect_code(0).json();
    assert_eq!(recovered["items"][0]["end"], "lost");
    project.assert_all_runs_finished();
}

/// The only way to be done: in scope, committed, merged, and every check passed.
#[test]
fn c5_facts_decide_done() {
    let project = RunProject::new();
    let commit = "echo more >> src/a.txt; git -c user.name=T -c user.email=t@t commit -qam work";
    let flags = ["--task-id", "T-1", "--write", "src/**", "--check", "c=true"];
    run_with_input(&mut project.program_command(&flags, &["sh", "-c", commit]), b"Do it.").expect_code(0);
    project.assert_all_runs_finished();
    assert_eq!(project.run(["status"]).expect_code(0).out(), "no open tasks\n");
    let done = project.run(["--json", "status", "--all"]).expect_code(0).json();
    assert_eq!((&done["items"][0]["task"], &done["items"][0]["status"]), (&json!("T-1"), &json!("done")));
    // Without a check nothing proves it.
    let flags = ["--task-id", "T-2", "--write", "src/**"];
    run_with_input(&mut project.program_command(&flags, &["sh", "-c", commit]), b"Do it.").expect_code(0);
    assert_eq!(
        project.run(["status", "T-2"]).expect_code(0).out().lines().next(),
        Some("T-2  needs_review  (unchecked)")
    );
}
