//! Tests the output of `log`, `show`, `diff`, `export`, `import` and `gc`.

use callsheet_core::EndReason;
use callsheet_core::record::{Event, Exit, Id, LogStream, Output, RecordedReply, Replied};
use callsheet_store::{Ledger, LedgerUrl};
use callsheet_testing::TestProject;
use serde_json::{Value, json};

use crate::ledger::{create_project, record};

/// Creates a project with two runs; the second one has the changed plan, some output and a pass.
fn record_two_runs() -> (TestProject, String, String) {
    let project = create_project();
    let first = record(&project, "T-1");
    project.write("docs/plan.md", "Plan with more care.\n");
    let second = record(&project, "T-2");
    let mut ledger = Ledger::open(&LedgerUrl::Sqlite(project.ledger())).unwrap();
    let id = Id::parse(&second).unwrap();
    let events = [
        Event::Output(Output {
            stream: LogStream::Stdout,
            line: 1,
            text: "one\n\u{1b}[31mtwo\n".into(),
            cut: false,
        }),
        Event::Output(Output { stream: LogStream::Stdout, line: 3, text: "three\n".into(), cut: true }),
        Event::Exit(Exit::new(EndReason::Exited, Some(0))),
        Event::Replied(Replied { verdict: Some("PASS".into()), reply: RecordedReply::default() }),
    ];
    for event in events {
        ledger.append(Some(&id), None, &event).unwrap();
    }
    (project, first, second)
}

#[test]
fn log_lists_newest_first() {
    let (project, first, second) = record_two_runs();
    let all = project.run(["--json", "log"]).json();
    let head = "RUN  AGE  TASK           AGENT   OUTCOME           CHECKS  FILES  TIME  COST";
    let lines = [
        "r2   0s   T-2 Add login  claude  succeeded (PASS)  -       -      -     -",
        "r1   0s   T-1 Add login  claude  composed only     -       -      -     -",
    ];
    let page = project.run(["log"]).out();
    let age = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert!(cells[1].ends_with('s'), "{line}");
        line.replacen(cells[1], "0s", 1)
    };
    let seen: Vec<String> = page.lines().skip(1).map(age).collect();
    assert_eq!((page.lines().next(), seen), (Some(head), lines.map(str::to_owned).to_vec()));
    assert_eq!(
        all["items"][0],
        json!({
            "run": second, "name": "r2", "seq": 2, "parent": null, "attempt": 1, "task": "T-2", "title": "Add login",
            "flow": null, "agent": "claude", "agent_version": null, "program": null, "model": null, "phase": "plan", "role": null,
            "recipe": "unified", "project": "project", "profile": null, "status": "completed", "outcome": "succeeded",
            "checks_outcome": "none", "checks_passed_count": 0, "checks_count": 0, "changed_count": null,
            "duration_ms": null, "input_tokens": null, "output_tokens": null, "cached_tokens": null,
            "cost_microusd": null, "cost_estimated": false, "started_at": all["items"][0]["started_at"],
            "ended_at": all["items"][0]["ended_at"], "end": "exited", "verdict": "PASS", "imported": false,
        })
    );
    let ids = |args: &[&str]| -> Vec<Value> {
        let found = project.run([&["--json", "log"], args].concat()).json();
        found["items"].as_array().unwrap().iter().map(|run| run["run"].clone()).collect()
    };
    assert_eq!(ids(&["--verdict", "PASS"]), [json!(second)]);
    assert_eq!(ids(&["--task", "T-1", "-a", "claude", "-p", "plan"]), [json!(first)]);
    assert_eq!(ids(&["--limit", "1"]), [json!(second)]);
    assert_eq!(ids(&["--until", "2001"]), Vec::<Value>::new());
    for time in ["2026", "2026-01-31", "2026-01-31T12:00", "2026-01-31T12:00:00.5Z", "9999-12-31"] {
        assert_eq!(project.run(["log", "--since", time]).code, Some(0), "{time}");
    }
    for odd in ["soon", "", "2026----", "2026:01", "2026-01-31T", "2026-01-31T12:00ZZ"] {
        let output = project.run(["log", "--since", odd]);
        let error = format!(
            "error[UsageBad]: invalid time `{odd}`: expected 2h, today, yesterday, 2026-01-31 or 2026-01-31T12:00 (add Z for UTC)\n"
        );
        assert_eq!((output.code, output.err()), (Some(2), error));
    }
}

#[test]
fn show_prints_prompt_origins_and_records() {
    let (project, first, second) = record_two_runs();
    let composed = project.run([
        "compose",
        "-p",
        "plan",
        "-a",
        "claude",
        "--task-id",
        "T-2",
        "-f",
        "docs/plan.md",
        "Add login",
    ]);
    assert_eq!(project.run(["show", "last", "--prompt"]).out(), composed.out());
    let shown = project.run(["--json", "show", &second]).json();
    assert_eq!((&shown["prompt"]["bytes"], &shown["records"]), (&json!(composed.out().len()), &json!(5)));
    assert_eq!(shown["request"]["instructions"], "Add login");
    assert_eq!(shown["sources"]["project:.callsheet/recipes/unified.toml"], Value::Null);
    let origins = project.run(["--json", "show", "last", "--origins"]).json();
    let spans = origins["origins"].as_array().unwrap();
    let plan = spans.iter().find(|span| span["source"] == "project:docs/plan.md").unwrap();
    let range = plan["start"].as_u64().unwrap() as usize..plan["end"].as_u64().unwrap() as usize;
    assert_eq!(&composed.out()[range], "Plan with more care.\n");
    let page = project.run(["show", "last", "--origins"]).out();
    assert_eq!(page.lines().filter(|line| !line.starts_with("──")).count(), composed.out().lines().count());
    let records = project.run(["--json", "show", "last", "--records"]).json();
    let kinds: Vec<&Value> =
        records["items"].as_array().unwrap().iter().map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["composed", "output", "output", "exit", "replied"]);
    // Control characters in an agent's output are escaped before they reach a terminal.
    assert_eq!(project.run(["show", "last", "--stream", "stdout"]).out(), "one\n\\u{1b}[31mtwo\nthree\n");
    assert_eq!(project.run(["show", "last", "--stream", "stdout", "--tail", "1"]).out(), "three\n");
    let lines =
        project.run(["--json", "show", "last", "--stream", "stdout", "--since", "2", "--tail", "1"]).json();
    assert_eq!(
        (
            &lines["items"][0]["line"],
            &lines["items"][0]["text"],
            &lines["total_lines"],
            &lines["has_more"],
            &lines["cut"]
        ),
        (&json!(3), &json!("three"), &json!(3), &json!(true), &json!(true))
    );
    assert_eq!(project.run(["show", "last", "--stream", "meta"]).out(), composed.out() + "\n");
    let none = project.run(["show", "ffff"]);
    assert_eq!(
        (none.code, none.err().as_str()),
        (Some(4), "error[RunNotFound]: no run `ffff`\n  = hint: run `callsheet log` to list runs\n")
    );
    let alike = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    let many = project.run(["show", &first[..alike]]);
    let output = format!(
        "error[RunAmbiguous]: `{}` is the name of several runs, or the beginning of their ids\n  = looked in r1 {first} (project)\n  =           r2 {second} (project)\n",
        &first[..alike]
    );
    assert_eq!((many.code, many.err()), (Some(4), output));
}

#[test]
fn c9_diff_names_cause_of_change() {
    let (project, first, second) = record_two_runs();
    let told = project.run(["diff", &first, &second]);
    assert_eq!(
        (told.code, told.out().as_str()),
        (
            Some(0),
            "context\n  because project:docs/plan.md changed\n- <file path=\"docs/plan.md\">Plan with care.\n\
             + <file path=\"docs/plan.md\">Plan with more care.\n"
        )
    );
    project.write(".callsheet/templates/shared/x.md", "x");
    project.write("docs/more.md", "More.\n");
    let args = [
        "compose",
        "-p",
        "plan",
        "-a",
        "claude",
        "-f",
        "docs/plan.md",
        "-f",
        "docs/more.md",
        "--record",
        "Add login",
    ];
    assert_eq!(project.run(args).code, Some(0));
    let told = project.run(["--json", "diff", &second, "last"]).json();
    let of = |name: &str| {
        told["sections"].as_array().unwrap().iter().find(|section| section["section"] == name).cloned()
    };
    let added = of("context").unwrap()["changes"].as_array().unwrap().last().cloned().unwrap();
    assert_eq!(
        (&added["op"], &added["origin"], &added["reason"]["code"]),
        (&json!("insert"), &json!("project:docs/more.md"), &json!("new"))
    );
    let same = project.run(["diff", &first, &first]);
    assert_eq!((same.code, same.out().as_str(), same.err().as_str()), (Some(0), "", "the same bytes\n"));
}

/// A line whose line end changed is the same line.
#[test]
fn diff_shows_changed_lines_only() {
    let project = TestProject::new();
    let mut runs = Vec::new();
    for text in ["One\nTwo", "One\nTwo\nThree", "One\nTwo\nThree\n"] {
        let output = project.run([
            "-q",
            "--json",
            "compose",
            "--record",
            "-r",
            "layers",
            "--context",
            &format!("note={text}"),
            "Go.",
        ]);
        runs.push(output.expect_code(0).run_id());
    }
    let changes = |from: usize, to: usize| {
        let told = project.run(["diff", &runs[from], &runs[to]]).out();
        told.lines().filter(|line| line.starts_with(['+', '-'])).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(changes(0, 1), ["+ Three"]);
    assert_eq!(changes(1, 0), ["- Three"]);
    assert!(changes(1, 2).iter().all(|line| !line.ends_with("Three")), "{:?}", changes(1, 2));
}

/// A change outside all sections is shown too.
#[test]
fn diff_shows_changed_separators() {
    let project = TestProject::new();
    let recipe = |separator: &str| {
        let head = "description = \"two\"\nformat = \"markdown\"\nmissing = \"error\"\n";
        let one = "[[section]]\nname = \"context\"\npart = \"context\"\nblocks = [{ context = true }]\n";
        let two = "[[section]]\nname = \"task\"\npart = \"instructions\"\nblocks = [{ value = \"instructions\" }]\n";
        format!("{head}separator = \"{separator}\"\n{one}{two}")
    };
    let mut runs = Vec::new();
    for separator in ["blank", "rule"] {
        project.write(".callsheet/recipes/two.toml", recipe(separator));
        let output = project.run(["compose", "--record", "-r", "two", "--context", "note=One.", "Two."]);
        assert_eq!(output.code, Some(0), "{}", output.err());
        runs.push(project.run(["--json", "log"]).json()["items"][0]["run"].as_str().unwrap().to_owned());
    }
    let told = project.run(["diff", &runs[0], &runs[1]]).out();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.first(), Some(&"between the sections"), "{lines:?}");
    let added: Vec<&str> = lines.iter().filter(|line| line.starts_with('+')).copied().collect();
    assert!(added.contains(&"+ ---"), "{lines:?}");
    assert_eq!(project.run(["--json", "diff", &runs[0], &runs[1]]).json()["same"], false);
}

#[test]
fn export_is_verified_and_imported_elsewhere() {
    let (project, first, _) = record_two_runs();
    assert_eq!(project.run(["export", &first, "--out", "one.jsonl"]).code, Some(0));
    assert_eq!(project.run(["export", &first]).out(), project.read("one.jsonl"));
    let elsewhere = TestProject::new();
    elsewhere.write("one.jsonl", project.read("one.jsonl"));
    let proved = elsewhere.run(["--json", "verify", "--file", "one.jsonl"]);
    assert_eq!((proved.code, &proved.json()["run_count"]), (Some(0), &json!(1)));
    assert!(!elsewhere.path().join(".callsheet").exists(), "no ledger is needed");
    let bad = project.read("one.jsonl").replacen("Plan with care", "Plan with cars", 1);
    let (line, text) = (1..).zip(bad.lines()).find(|(_, line)| line.contains("Plan with cars")).unwrap();
    let text: Value = serde_json::from_str(text).unwrap();
    elsewhere.write("bad.jsonl", &bad);
    let refused = elsewhere.run(["verify", "--file", "bad.jsonl"]);
    let why = format!(
        "error[LedgerDamaged]: the ledger is damaged: line {line} of the export: blob {}: its text has another SHA-256\n  \
         = hint: run `callsheet verify --all --read-data` to find all damage\n",
        text["blob"]["sha256"].as_str().unwrap()
    );
    assert_eq!((refused.code, refused.err()), (Some(8), why));
    let taken = elsewhere.run(["import", "one.jsonl"]);
    assert_eq!((taken.code, taken.out().as_str()), (Some(0), "added: runs 1, records 1; already known: 0\n"));
    assert_eq!(
        elsewhere.run(["show", &first, "--prompt"]).out(),
        project.run(["show", &first, "--prompt"]).out()
    );
    let statement = project.run(["export", &first, "--in-toto"]).json();
    let digest = project.run(["--json", "show", &first]).json()["prompt"]["sha256"].clone();
    assert_eq!(
        statement["subject"],
        json!([{ "name": format!("prompt of run {first}"), "digest": { "sha256": digest } }])
    );
    assert_eq!(project.run(["verify", "--file", "none"]).code, Some(4));
}

#[test]
fn gc_lists_removed_runs() {
    let (project, first, second) = record_two_runs();
    let dry = project.run(["gc", "--keep-last", "1", "--dry-run"]);
    let output = (dry.code, dry.out(), dry.err());
    assert_eq!(output, (Some(0), format!("would remove {first}\n"), "would remove runs: 1\n".into()));
    let done = project.run(["--json", "gc", "--keep-last", "1"]).json();
    assert_eq!(
        (&done["runs"], &done["record_count"], &done["blob_count"], &done["seq"]),
        (&json!([first]), &json!(1), &json!(1), &json!(7))
    );
    assert_eq!(project.run(["show", &first]).code, Some(4));
    assert_eq!(project.run(["show", &second, "--prompt"]).code, Some(0));
    assert_eq!(project.run(["verify", "--all", "--read-data"]).code, Some(0));
    assert_eq!(project.run(["gc"]).code, Some(2));
}
