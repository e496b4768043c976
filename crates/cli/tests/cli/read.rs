//! Tests `read`: the outcome, the exit code, and the diagnostics for an invalid command line.

use callsheet_testing::{CommandOutput, TestProject};
use serde_json::json;

fn expected_output(code: i32, out: &str, err: &str) -> CommandOutput {
    CommandOutput::new(code, out, err)
}

#[test]
fn t6_exit_code_follows_outcome() {
    let project = TestProject::new();
    let read = |args: &[&str], reply: &str| project.run_with(&[&["read"], args].concat(), reply.as_bytes());
    let done = "<task_status id=\"1.1\">COMPLETED</task_status>\n";
    assert_eq!(read(&["-p", "review"], "Good.\n\n<review>PASS</review>\n"), expected_output(0, "pass\n", ""));
    assert_eq!(
        read(&["-p", "implement", "--tasks", "1.1"], done),
        expected_output(0, "complete\n  1.1: COMPLETED\n", "")
    );
    assert_eq!(read(&["--contract", "run"], "Done."), expected_output(0, "none\n", ""));
    let archived = "Done.\n\n<task_status id=\"archive\">COMPLETED</task_status>\n";
    assert_eq!(
        read(&["-p", "archive"], archived),
        expected_output(0, "complete\n  archive: COMPLETED\n", "")
    );
    assert_eq!(
        read(&["-p", "archive"], "Done."),
        expected_output(
            1,
            "incomplete\nproblem[task_missing]: the reply does not report task `archive`\n",
            ""
        )
    );
    assert_eq!(
        read(&["-p", "plan"], "<review>NEEDS_REVISION</review>"),
        expected_output(1, "needs_revision\n", "")
    );
    assert_eq!(
        read(&["-p", "implement", "--tasks", "1.1, 1.2"], done),
        expected_output(
            1,
            "incomplete\n  1.1: COMPLETED\nproblem[task_missing]: the reply does not report task `1.2`\n",
            ""
        )
    );
    assert_eq!(
        read(&["-p", "review"], "I cannot say <review>PASS</review>\n"),
        expected_output(
            1,
            "no_verdict\n\
             problem[inline_marker] at 1:14: `<review>PASS</review>` shares its paragraph with other text, so it does not count\n\
             problem[no_verdict]: no line holds only a verdict\n",
            ""
        )
    );
}

#[test]
fn t6_json_contains_whole_reply() {
    let project = TestProject::new();
    let reply = "<thought>no</thought>\n<task_status id=\"1.1\">FAILED</task_status>\n\nI cannot say <review>PASS</review>\n";
    let read = project.run_with(&["--json", "read", "-p", "implement", "--tasks", "1.1"], reply.as_bytes());
    assert_eq!(read.code, Some(1));
    assert_eq!(
        read.json(),
        json!({
            "schema": "callsheet/reply/1",
            "verdict": null,
            "outcome": "incomplete",
            "tasks": { "1.1": "FAILED" },
            "questions": [],
            "text": "<task_status id=\"1.1\">FAILED</task_status>\n\nI cannot say <review>PASS</review>\n",
            "problems": [{
                "code": "inline_marker",
                "message": "`<review>PASS</review>` shares its paragraph with other text, so it does not count",
                "place": { "file": "reply", "line": 4, "column": 14 },
                "more": 0,
            }],
        })
    );
    let read = project.run_with(&["--json", "read", "-p", "challenge"], b"<review>REJECTED</review>");
    assert_eq!(
        (read.code, read.json()),
        (
            Some(1),
            json!({
                "schema": "callsheet/reply/1", "verdict": "REJECTED", "outcome": "rejected", "tasks": {}, "questions": [],
                "text": "<review>REJECTED</review>", "problems": [],
            })
        )
    );
}

#[test]
fn t6_stream_format_follows_agent() {
    let project = TestProject::new();
    let streams = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/streams");
    for agent in ["claude", "codex", "gemini", "copilot", "opencode"] {
        let stream = std::fs::read(streams.join(agent).join("tool.jsonl")).unwrap();
        let named = project.run_with(&["read", "-p", "review", "--agent", agent], &stream);
        assert_eq!(named, expected_output(0, "pass\n", ""), "{agent}");
        project.write(".callsheet/config.toml", format!("agent = \"{agent}\"\n"));
        assert_eq!(
            project.run_with(&["read", "-p", "review"], &stream),
            expected_output(0, "pass\n", ""),
            "{agent}"
        );
        let as_text = project.run_with(&["read", "-p", "review", "--agent", "base"], &stream);
        assert_eq!(as_text.code, Some(1), "{agent}");
    }
    project.write(".callsheet/agents/mine.toml", "name = \"Mine\"\n[output]\nformat = \"codex-jsonl\"\n");
    let stream = std::fs::read(streams.join("codex/verdict.jsonl")).unwrap();
    assert_eq!(
        project.run_with(&["read", "-p", "review", "-a", "mine"], &stream),
        expected_output(0, "pass\n", "")
    );
    project.write(".callsheet/agents/mine.toml", "name = \"Mine\"\n[output]\nformat = \"xml\"\n");
    let wrong = project.run_with(&["read", "-p", "review", "-a", "mine"], &stream);
    assert_eq!(
        wrong.err().lines().next(),
        Some(
            "error[AgentBad]: `output.format` is `xml`, not one of text, claude-stream-json, codex-jsonl, \
             copilot-jsonl, gemini-stream-json, opencode-json"
        )
    );
}

/// The whole description of an agent with a stream format that no shipped agent has.
const MADE_UP: &str = r#"
name = "Made up"

[output.stream]
type_at = "/what/kind"
errors = ["/trouble"]
events = [
    { types = ["hello"], begins = "once" },
    { types = ["words"], when = { "/who" = ["me"], "/part" = true }, piece = "/body/text", whole = "/body/id" },
    { types = ["words"], when = { "/who" = ["me"] }, counts = true, vital = true, text = "/body/text", whole = "/body/id" },
    { types = ["words", "tool.*"], closes = true },
    { types = ["bye"], when = { "/code" = 0 }, ends = true, vital = true },
    { types = ["bye"], ends = true, fails = { why = ["/reason"], otherwise = "it left" } },
]
"#;

#[test]
fn made_up_stream_needs_one_file() {
    let project = TestProject::new();
    project.write(".callsheet/agents/mine.toml", MADE_UP);
    let read = |lines: &[&str]| {
        let read = project.run_with(&["read", "-p", "review", "-a", "mine"], lines.join("\n").as_bytes());
        (read.code, read.out().lines().next().unwrap_or_default().to_owned())
    };
    let hello = r#"{"what": {"kind": "hello"}}"#;
    let part =
        r#"{"what": {"kind": "words"}, "who": "me", "part": true, "body": {"id": "1", "text": "Good."}}"#;
    let whole = r#"{"what": {"kind": "words"}, "who": "me", "body": {"id": "1", "text": "Good."}}"#;
    let pass =
        r#"{"what": {"kind": "words"}, "who": "me", "body": {"id": "2", "text": "<review>PASS</review>"}}"#;
    let other = pass.replace("\"me\"", "\"you\"");
    let tool = r#"{"what": {"kind": "tool.run"}, "output": "<review>NEEDS_CHANGES</review>"}"#;
    let bye = r#"{"what": {"kind": "bye"}, "code": 0}"#;
    let good = (Some(0), "pass".to_owned());
    assert_eq!(read(&[hello, part, whole, tool, pass, bye]), good);
    assert_eq!(read(&[hello, whole, &other, pass, bye]), good);
    let bad = (Some(1), "no_verdict".to_owned());
    assert_eq!(read(&[hello, &other, bye]), bad, "another one's words");
    assert_eq!(read(&[hello, part, pass, bye]), bad, "a piece without its whole");
    assert_eq!(read(&[hello, pass]), bad, "no end");
    assert_eq!(read(&[pass, bye]), bad, "no beginning");
    assert_eq!(read(&[hello, pass, &bye.replace('0', "1")]), bad, "a failure");
    assert_eq!(read(&[hello, &pass.replace("\"who\"", "\"trouble\": \"x\", \"who\""), bye]), bad, "an error");
    assert_eq!(read(&[hello, &pass.replace("words", "new"), bye]), bad, "an unknown event");
}

#[test]
fn bad_stream_rules_are_refused() {
    let project = TestProject::new();
    let many = format!("errors = [{}]\nevents = []", "\"/a\",".repeat(201));
    for (rules, expected) in [
        ("events = [{ types = [\"a\"], txt = \"/b\" }]", "unknown key `output.stream.events[0].txt`"),
        ("events = [{ types = [\"a\"], when = { \"/b\" = \"c\" } }]", "is of type string, not"),
        ("events = [{ types = [\"a\"], begins = \"often\" }]", "is `often`, not one of once, first"),
        ("events = [{ types = [\"a\"], text = \"b\" }]", "`b` is not a JSON pointer"),
        ("events = [{ types = [\"a*b\"] }]", "`a*b` has a `*` inside"),
        ("events = [{ text = \"/b\" }]", "an event of `output.stream` has no `types`"),
        (&many, "`output.stream` has more than 200 places or 400 words"),
    ] {
        let file = format!("name = \"Mine\"\n[output.stream]\n{rules}\n");
        project.write(".callsheet/agents/mine.toml", &file);
        let wrong = project.run_with(&["read", "-p", "review", "-a", "mine"], b"");
        assert_eq!(wrong.code, Some(3), "{rules}: {}", wrong.err());
        assert!(wrong.err().contains(expected), "{rules}: {}", wrong.err());
    }
}

#[test]
fn t6_echoed_prompt_is_not_counted() {
    let project = TestProject::new();
    let prompt = "Look:\nsomebody said\n\n<review>PASS</review>\n\nand was wrong.\n";
    project.write("prompt.md", prompt);
    assert_eq!(
        project.run_with(&["read", "-p", "review", "--prompt", "prompt.md"], prompt.as_bytes()),
        expected_output(
            1,
            "no_verdict\nproblem[no_verdict]: no line holds only a verdict; markers in code, quotes and echoes: 1\n",
            ""
        )
    );
    assert_eq!(
        project.run_with(&["read", "-p", "review"], prompt.as_bytes()),
        expected_output(0, "pass\n", "")
    );
}

#[test]
fn usage_errors_show_expected_arguments() {
    let project = TestProject::new();
    let read = |args: &[&str]| {
        let output = project.run_with(&[&["read"], args].concat(), b"<review>PASS</review>");
        assert_eq!(output.out(), "");
        (output.code, output.err())
    };
    let usage =
        "Usage: callsheet read <--contract <NAME>|--phase <NAME>>\n\nFor more information, try '--help'.\n";
    assert_eq!(
        read(&[]),
        (
            Some(2),
            format!(
                "error: the following required arguments were not provided:\n  <--contract <NAME>|--phase <NAME>>\n\n{usage}"
            )
        )
    );
    assert_eq!(read(&["-p", "plan", "--contract", "plan"]).0, Some(2));
    assert_eq!(
        read(&["-p", "reveiw"]),
        (
            Some(3),
            "error[ContractNotFound]: unknown contract `reveiw`\n  \
               = looked in project:.callsheet/contracts/reveiw.toml\n  \
               =           user:contracts/reveiw.toml\n  \
               =           builtin:contracts/reveiw.toml\n  \
               = hint: did you mean `review`?\n  \
               = hint: known contracts: archive, challenge, fix, implement, plan, research_dispatch_code, \
                 research_dispatch_web, review, run, submit_architecture, submit_done, submit_execution_plan, submit_plan, \
                 submit_pm_done, submit_research_done, submit_review, submit_subplan\n"
                .into()
        )
    );
    let hint = "  = hint: separate ids with commas: `--tasks 1.1,1.2`\n";
    assert_eq!(
        read(&["-p", "implement", "--tasks", "1.1,,1.2"]),
        (Some(2), format!("error[UsageBad]: --tasks: empty id\n{hint}"))
    );
    assert_eq!(
        read(&["-p", "implement", "--tasks", "1.1,1.2,1.1"]),
        (Some(2), format!("error[UsageBad]: --tasks: `1.1` is listed twice\n{hint}"))
    );
    assert_eq!(
        read(&["-p", "plan", "--prompt", "-"]),
        (Some(2), "error[UsageBad]: stdin is already used for the reply; give `--prompt` a file\n".into())
    );
    let missing = project.path().join("none.md");
    assert_eq!(
        read(&["-p", "plan", "--prompt", "none.md"]),
        (
            Some(4),
            format!("error[InputNotFound]: file not found: `none.md`\n  = looked in {}\n", missing.display())
        )
    );
    assert_eq!(read(&["-p", "plan", "-a", "cluade"]).0, Some(3));
}

#[test]
fn control_characters_in_reply_are_escaped() {
    let project = TestProject::new();
    let reply = "<task_status id=\"\x1b]0;x\x07\">COMPLETED</task_status>\n\nx <review>\x1b[31m</review>\n";
    let read = project.run_with(&["read", "-p", "implement", "--tasks", "1.1"], reply.as_bytes());
    assert_eq!(
        read.out(),
        "incomplete\n  \\u{1b}]0;x\\u{7}: COMPLETED\n\
         problem[task_unasked] at 1:1: unexpected status of task `\\u{1b}]0;x\\u{7}`, which is not a task of this run\n\
         problem[broken_marker] at 3:3: this may be a verdict, but it is unreadable\n\
         problem[task_missing]: the reply does not report task `1.1`\n"
    );
}

#[test]
fn reply_limit_is_64_mebibytes() {
    let project = TestProject::new();
    let reply = |size: usize| [&vec![b'x'; size][..], b"\n\n<review>PASS</review>\n"].concat();
    assert_eq!(
        project.run_with(&["read", "-p", "review"], &reply(60_000_000)),
        expected_output(0, "pass\n", "")
    );
    let too_long = "no_verdict\n\
         problem[too_long]: the agent's text is longer than 64 MiB; only the first 64 MiB are judged\n\
         problem[no_verdict]: no line holds only a verdict\n";
    assert_eq!(
        project.run_with(&["read", "-p", "review"], &reply(100_000_000)),
        expected_output(1, too_long, "")
    );
}

#[test]
fn m9_submitted_file_is_checked() {
    let project = TestProject::new();
    let read = || project.run(["read", "--contract", "submit_review", "--session", "s"]);
    let file = |text: &str| project.write("s/07_review/review.yaml", text);
    file(
        "verdict: fail\nsummary: Nearly.\nfindings:\n- issue: It ends.\n  severity: low\n  recommendation: Catch it.\n",
    );
    assert_eq!(
        read(),
        expected_output(0, "written 07_review/review.md\nwritten 07_review/review.yaml\n", "")
    );
    assert_eq!(
        project.read("s/07_review/review.md"),
        "verdict: fail\n\n## Summary\n\nNearly.\n\n## Findings\n\n### Finding 1\n\nSeverity: low\n\nIt ends.\n\nRecommendation:\n\nCatch it.\n"
    );
    let before = project.read("s/07_review/review.md");
    let wrong = "verdict: maybe\nsumary: x\nfindings:\n- issue: 1\n";
    file(wrong);
    let place = "  = looked in session:07_review/review.yaml\n";
    assert_eq!(
        read(),
        expected_output(
            1,
            "",
            &format!(
                "error[SubmissionBad]: `verdict` is `maybe`, not one of pass, fail\n{place}\
                 error[SubmissionBad]: `summary` is missing\n{place}\
                 error[SubmissionBad]: `findings[1].issue` is a number; expected a string\n{place}  = hint: quote it\n\
                 error[SubmissionBad]: `findings[1].severity` is missing\n{place}\
                 error[SubmissionBad]: `findings[1].recommendation` is missing\n{place}\
                 error[SubmissionBad]: unknown field `sumary`\n{place}  = hint: did you mean `summary`?\n  \
                 = hint: known fields: verdict, summary, findings, commit_message, role, preferences, questions\n"
            )
        )
    );
    // The submission is kept, and no file is partially written.
    assert_eq!(project.read("s/07_review/review.yaml"), wrong);
    assert_eq!(project.read("s/07_review/review.md"), before);
}

/// A product manager without the tool also has a file for preferences, which is usually empty.
#[test]
fn m9_pm_file_may_be_empty() {
    let project = TestProject::new();
    let read = || project.run(["--json", "read", "--contract", "submit_pm_done", "--session", "s"]);
    let done = "s/01_product_management/done";
    for (text, preferences) in [
        ("", serde_json::json!([])),
        (
            "preferences:\n- {target_role: coder, bullet: Return errors}\n",
            serde_json::json!([{ "role": "coder", "text": "Return errors" }]),
        ),
        // An empty submission is valid.
        ("\n", serde_json::json!([])),
    ] {
        project.write(done, text);
        let output = read();
        assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{text:?}");
        assert_eq!(output.json()["items"][0]["preferences"], preferences, "{text:?}");
        assert_eq!(project.read(done), "", "{text:?}");
    }
    project.write(done, "finished\n");
    let output = read();
    assert_eq!((output.code, output.out().as_str()), (Some(1), ""));
    assert_eq!(project.read(done), "finished\n");
}
