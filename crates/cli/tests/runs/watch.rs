//! `watch` in another process: every event of several concurrent runs, in order, none missing.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use callsheet_testing::{run_command, run_with_input, wait_for_end};
use serde_json::{Value, json};

use crate::project::RunProject;

/// A running watcher and the lines that it prints.
struct Watcher {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watcher {
    fn new(project: &RunProject, flags: &[&str]) -> Self {
        let mut command = project.command();
        command.args(["--json", "watch"]).args(flags);
        Self::from_command(command)
    }

    fn from_command(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns everything up to the `events`-th event of the record `seq`.
    fn read_up_to(mut self, seq: u64, events: usize) -> Vec<Value> {
        let mut told: Vec<Value> = Vec::new();
        let last = |told: &[Value]| told.iter().filter(|event| event["seq"] == seq).count();
        while last(&told) < events {
            told.push(serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap());
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        told
    }
}

fn last_record(project: &RunProject) -> u64 {
    let ledger = rusqlite::Connection::open(project.ledger()).unwrap();
    let head: i64 = ledger.query_row("select max(seq) from records", [], |row| row.get(0)).unwrap();
    u64::try_from(head).unwrap()
}

/// Returns the events of one run as names, each with its details.
fn event_names(told: &[Value], run: &str) -> Vec<String> {
    let of_run = told.iter().filter(|event| event["run"] == run);
    of_run
        .map(|event| {
            let data = &event["data"];
            let detail = ["stage", "receipt", "text", "status", "result", "name", "path", "decision"]
                .iter()
                .filter_map(|key| data[key].as_str())
                .collect::<Vec<_>>()
                .join(" ");
            format!("{} {detail}", event["event"].as_str().unwrap()).trim_end().to_owned()
        })
        .collect()
}

#[test]
fn c7_watch_prints_events_in_order() {
    let project = RunProject::new();
    // The watcher starts before the ledger exists.
    let watcher = Watcher::new(&project, &[]);
    let flags = ["--write", "src/**", "--check", "c=true", "--share"];
    let runs: Vec<Child> = (0..4)
        .map(|number| {
            let line = format!("line of {number}");
            project.start_agent(
                &flags,
                &["say", &line, "sleep", "300", "say", "and another", "write", "out.txt"],
            )
        })
        .collect();
    let runs: Vec<String> = runs.into_iter().map(|run| wait_for_end(run).run_id()).collect();
    project.run(["-q", "decide", "--yes", &runs[0], "out.txt", "--reject"]);
    let last = last_record(&project);
    let told = watcher.read_up_to(last, 1);
    let mut numbers: Vec<u64> = told.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted());
    numbers.dedup();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "none is missing");
    for (number, run) in runs.iter().enumerate() {
        let names = event_names(&told, run);
        let (head, rest) = names.split_at(3);
        assert_eq!(
            head,
            ["run.started composed", "run.status_changed running", "run.started delivered spawned"]
        );
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        assert_eq!(
            rest[..4],
            [
                &*format!("run.output line of {number}"),
                "run.output and another",
                "run.status_changed completed",
                "record.replied"
            ]
        );
        assert_eq!(rest[4..6], ["record.changed", "check.status_changed passed c"]);
        assert!(rest.contains(&"run.finished"), "{rest:?}");
    }
    // A later watcher gets the same events from the beginning.
    assert_eq!(Watcher::new(&project, &["--since", "0"]).read_up_to(last, 1), told);
}

#[test]
fn c7_violation_and_decision_are_reported() {
    let project = RunProject::new();
    let run = project
        .run_agent(&["--write", "src/**", "--check", "c=false"], &["line-of", "70000", "write", "out.txt"])
        .expect_code(5)
        .run_id();
    project.run(["-q", "decide", "--yes", &run, "out.txt", "--approve"]).expect_code(0);
    let told = Watcher::new(&project, &["--since", "0"]).read_up_to(last_record(&project), 1);
    let of = |name: &str| -> Vec<&Value> {
        told.iter().filter(|event| event["event"] == name).map(|event| &event["data"]).collect()
    };
    assert_eq!(
        of("scope_violation.created"),
        [&json!({ "path": "out.txt", "reason": "outside_write", "decision": "pending" })]
    );
    assert_eq!(
        of("scope_violation.decided"),
        [&json!({ "path": "out.txt", "reason": null, "decision": "approved" })]
    );
    assert_eq!(
        of("run.finished"),
        [&json!({ "changed": [{ "path": "out.txt", "change": "untracked", "from": null }] })]
    );
    assert_eq!(of("run.output").iter().map(|data| data["cut"].clone()).collect::<Vec<_>>(), [json!(true)]);
    assert_eq!(of("check.status_changed")[0]["result"], "failed");
}

/// A follower that was interrupted between two events of one record continues with the second one.
#[test]
fn watch_continues_behind_any_event() {
    let project = RunProject::new();
    let flags = ["--write", "src/**", "--check", "c=false", "--check", "d=true"];
    project.run_agent(&flags, &["say", "one", "write", "out.txt", "write", "more.txt"]).expect_code(5);
    let last = last_record(&project);
    let events =
        |since: &str, count: usize| Watcher::new(&project, &["--since", since]).read_up_to(last, count);
    let all = Watcher::new(&project, &["--since", "0"]).read_up_to(last, 5);
    assert_eq!(all.last().unwrap()["event"], "run.finished");
    let of_last = |events: &[Value]| events.iter().filter(|event| event["seq"] == last).count();
    for (at, event) in all.iter().enumerate().filter(|(at, _)| at + 1 < all.len()) {
        let rest = &all[at + 1..];
        let since = format!("{}.{}", event["seq"], event["index"]);
        assert_eq!(events(&since, of_last(rest)), rest, "{since}");
    }
    for wrong in ["x", "1.", ".1", "1.x", "-1", "1.2.3"] {
        assert_eq!(project.run(["watch", "--since", wrong]).code, Some(2), "{wrong}");
    }
}

/// The stream of a run and `watch` print the same lines.
#[test]
fn run_streams_its_events() {
    let project = RunProject::new();
    let script = ["say", "one", "sleep", "300", "say", "two", "write", "out.txt"];
    let ran = project.run_agent(&["--events", "--write", "src/**", "--check", "c=true"], &script);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let mut lines = ran.lines_json();
    let result = lines.pop().unwrap();
    assert_eq!(result["schema"], "callsheet/run-result/1");
    assert!(lines.iter().all(|event| event["run"] == result["run"]), "{lines:?}");
    let last = last_record(&project);
    let watched = Watcher::new(&project, &["--since", "0"]).read_up_to(last, 3);
    assert_eq!(lines, watched);
    let refused = project.run(["run", "--events", "Go.", "--", "true"]);
    assert_eq!((refused.code, refused.out().as_str()), (Some(2), ""));
}

/// The same on a ledger that machines share: a run, a crash, the result of `recover`, and every event of both
/// runs.
#[test]
fn c7_postgres_watch_prints_same_events() {
    let server = match callsheet_testing::Postgres::start() {
        Ok(server) => server,
        Err(why) => return callsheet_testing::report_missing(&format!("runs on PostgreSQL: {why}")),
    };
    let project = RunProject::new();
    let url = server.create_database("runs").unwrap();
    let on = |mut command: Command| {
        command.env("CALLSHEET_LEDGER", &url);
        command
    };
    let run = |args: &[&str]| {
        let mut command = on(project.command());
        run_command(command.args(["--json", "-q"]).args(args))
    };
    let flags = ["--write", "src/**", "--check", "c=true"];
    let first = run_with_input(
        &mut on(project.agent_command(&flags, &["say", "one", "write", "out.txt"])),
        b"Do it.",
    )
    .expect_code(5)
    .run_id();
    let crashed = run_with_input(
        &mut on(project.agent_command(&flags, &["say", "two", "sleep", "400", "kill-ours", "sleep", "60000"])),
        b"Do it.",
    );
    assert_eq!(crashed.code, None);
    project.assert_no_process_left();
    let told = run(&["recover"]).expect_code(0).json();
    assert_eq!((told["items"].as_array().unwrap().len(), &told["items"][0]["end"]), (1, &json!("lost")));
    assert_eq!(
        run(&["recover"]).expect_code(0).json(),
        json!({ "schema": "callsheet/recovery/1", "items": [], "running": [] })
    );
    run(&["verify", "--all", "--read-data"]).expect_code(0);
    let second = told["items"][0]["run"].as_str().unwrap();
    let records =
        |id: &str| run(&["show", id, "--records"]).expect_code(0).json()["items"].as_array().unwrap().len();
    let last = u64::try_from(records(&first) + records(second)).unwrap();
    let mut command = on(project.command());
    command.args(["--json", "watch", "--since", "0"]);
    let told = Watcher::from_command(command).read_up_to(last, 2);
    let mut numbers: Vec<u64> = told.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    numbers.dedup();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    assert_eq!(
        event_names(&told, second),
        [
            "run.started composed",
            "run.status_changed running",
            "run.started delivered spawned",
            "run.output two",
            "run.status_changed failed",
            "record.replied",
            "check.status_changed pending c",
            "run.finished",
        ]
    );
    assert!(!project.ledger().exists());
}
