//! Tests that this version opens, lists, shows and verifies the ledgers of earlier versions, which
//! `tests/ledgers/make` created.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use callsheet_testing::{Postgres, TestProject, report_missing};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

fn ledger_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledgers/1").join(name)
}

/// Renders the runs and flows of a ledger without their ids and times.
fn render_ledger(project: &TestProject, ledger: &str) -> String {
    let ask = |args: &[&str]| {
        let output = project.run([&["--ledger", ledger, "--all-projects"], args].concat());
        assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{args:?}");
        output
    };
    let mut shown = String::new();
    for run in ask(&["--json", "log", "--limit", "1000"]).json()["items"].as_array().unwrap().iter().rev() {
        let id = run["run"].as_str().unwrap();
        let columns =
            ["recipe", "agent", "phase", "task", "end", "verdict"].map(|key| text_or_dash(&run[key]));
        let prompt = ask(&["show", id, "--prompt"]).out();
        let run = ask(&["--json", "show", id]).json();
        assert!(ask(&["show", id]).out().contains(id));
        let digest: String =
            Sha256::digest(&prompt).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let records = &run["records"];
        writeln!(shown, "{} prompt={digest} records={records}", columns.join(" ")).unwrap();
    }
    for flow in ask(&["--json", "flow", "list"]).json()["items"].as_array().unwrap() {
        let columns =
            ["definition", "folder", "request", "state", "phase"].map(|key| text_or_dash(&flow[key]));
        let runs = flow["runs"].as_array().unwrap().len();
        writeln!(shown, "flow {} runs={runs}", columns.join(" ")).unwrap();
    }
    shown
}

fn text_or_dash(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// Asserts that runs have names in the order of their records, which find them, and that the list shows them.
fn assert_named(project: &TestProject, ledger: &str) {
    let ask =
        |args: &[&str]| project.run([&["--ledger", ledger, "--all-projects"], args].concat()).expect_code(0);
    let log = ask(&["--json", "log", "--all"]).json();
    let runs = log["items"].as_array().unwrap();
    let names: Vec<String> = (1..=runs.len()).rev().map(|number| format!("r{number}")).collect();
    assert_eq!(runs.iter().map(|run| text_or_dash(&run["name"])).collect::<Vec<_>>(), names);
    let page = ask(&["log", "--all"]).out();
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(page.lines().skip(1).map(first).collect::<Vec<_>>(), names);
    let shown = |name: &str| ask(&["--json", "show", name]).json()["run"].clone();
    for (run, name) in runs.iter().zip(&names) {
        assert_eq!(shown(name), run["run"], "{name}");
    }
    assert_eq!((shown("last"), shown("last~1")), (runs[0]["run"].clone(), runs[1]["run"].clone()));
}

/// Asserts that everything verifies, except prompts that need a secret value or an older engine.
fn assert_verified(project: &TestProject, ledger: &str) {
    let output = project.run(["--ledger", ledger, "--json", "verify", "--all", "--read-data"]);
    assert_eq!(output.code, Some(12), "{}", output.out());
    let problems = output.json()["problems"].clone();
    for problem in problems.as_array().unwrap() {
        let code = problem["code"].as_str().unwrap();
        assert!(["verify/secret", "verify/engine"].contains(&code), "{problem}");
    }
}

/// Asserts that a ledger shows all of its runs and flows as they were recorded.
fn assert_readable(project: &TestProject, ledger: &str, expected: &str) {
    let shown = render_ledger(project, ledger);
    if std::env::var_os("BLESS").is_some() {
        fs::write(ledger_path(expected), &shown).unwrap();
    }
    assert_eq!(shown, fs::read_to_string(ledger_path(expected)).unwrap());
    assert_named(project, ledger);
    assert_verified(project, ledger);
}

#[test]
fn first_sqlite_ledger_stays_readable() {
    let project = TestProject::new();
    let ledger = project.write("old.db", fs::read(ledger_path("ledger.db")).unwrap());
    assert_readable(&project, ledger.to_str().unwrap(), "sqlite.txt");
    // It is foreign here: a command that is refused does not bring it up to date either.
    for args in [&["recover"][..], &["task", "close", "r1"], &["decide", "r1", "x", "--approve", "--yes"]] {
        let refused = project.run([&["--ledger", "old.db", "--json"], args].concat());
        assert_eq!(refused.error(), (Some(10), "ledger/foreign".into()), "{args:?}");
    }
    assert!(fs::read(ledger).unwrap() == fs::read(ledger_path("ledger.db")).unwrap());
}

#[test]
fn first_postgres_ledger_stays_readable() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return report_missing(&format!("an old ledger on PostgreSQL: {why}")),
    };
    let ledger = server.create_database("old").unwrap();
    server.restore(&ledger, &ledger_path("postgres.sql")).unwrap();
    assert_readable(&TestProject::new(), &ledger, "postgres.txt");
}

#[test]
fn first_export_stays_importable() {
    let project = TestProject::new();
    let imported =
        project.run(["--ledger", "new.db", "import", ledger_path("export.jsonl").to_str().unwrap()]);
    assert_eq!((imported.code, imported.err().as_str()), (Some(0), ""));
    assert_readable(&project, "new.db", "sqlite.txt");
}
