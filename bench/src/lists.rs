//! Lists over a ledger of many runs: whole commands against a process that only runs the query of the same page, and their growth with
//! the ledger.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use callsheet_core::record::{Event, Exit, Observed, RecordBundle, Run, build_record};
use callsheet_core::render::render;
use callsheet_core::request::Task;
use callsheet_core::{Builtin, EndReason, Request, SourceRecorder, compose};
use callsheet_store::{Ledger, LedgerUrl, new_id, now};
use rusqlite::{Connection, OpenFlags};

use crate::peers::Peers;
use crate::report::{Report, Row, Taken};

/// The pages: a name, the command, and the bare query of the same rows.
const PAGES: [(&str, &[&str], &str); 4] = [
    (
        "log",
        &["log"],
        "SELECT r.*, f.* FROM runs r JOIN run_facts f ON f.seq = r.seq ORDER BY r.seq DESC LIMIT 50",
    ),
    (
        "status",
        &["status"],
        "SELECT r.*, f.* FROM runs r JOIN run_facts f ON f.seq = r.seq
         WHERE f.task_key IS NOT NULL AND f.closed = 0 ORDER BY f.seq DESC LIMIT 20",
    ),
    (
        "show",
        &["show", "last"],
        "SELECT * FROM records WHERE run = (SELECT id FROM runs ORDER BY seq DESC LIMIT 1)",
    ),
    (
        "stats",
        &["stats", "--by", "agent"],
        "SELECT r.agent, f.outcome, COUNT(*), COUNT(DISTINCT f.task_key), SUM(f.duration_ms), SUM(f.all_input_tokens),
         SUM(f.cached_tokens), SUM(f.output_tokens), SUM(f.cost_microusd)
         FROM runs r JOIN run_facts f ON f.seq = r.seq GROUP BY r.agent, f.outcome",
    ),
];

fn prompt(number: usize) -> RecordBundle {
    let request = Request {
        recipe: Some("run".into()),
        agent: Some("claude".into()),
        task: Some(Task {
            id: Some(format!("T-{}", number / 3).as_str().into()),
            description: Some(format!("Do step {number} of the plan.").as_str().into()),
            ..Task::default()
        }),
        ..Request::default()
    };
    let sources = SourceRecorder::new(Builtin);
    let composed = compose(&request, &sources).expect("a prompt");
    let rendered = render(&composed.prompt, composed.prompt.format, None).expect("a text");
    let run = Run::new(new_id().expect("an id"), &now(), &request, &composed.prompt.recipe).expect("a run");
    build_record(run, &request, &sources.finish(), (&composed, &rendered, None), &[]).expect("a record")
}

/// Fills a ledger with finished runs.
pub(crate) fn fill(path: &Path, runs: usize) {
    let mut ledger = Ledger::create(&LedgerUrl::Sqlite(path.into())).expect("a ledger");
    for number in 0..runs {
        let mut kept = prompt(number);
        kept.composed.launch = Some(Default::default());
        ledger.record_prompt(&kept).expect("a record");
        let run = Some(&kept.composed.run.id);
        ledger.append(run, None, &Event::Exit(Exit::new(EndReason::Exited, Some(0)))).expect("a record");
        ledger.append(run, None, &Event::Observed(Observed::default())).expect("a record");
    }
}

/// Runs a query and reads all of its rows: what a command could not do without.
pub(crate) fn page(path: &Path, name: &str) {
    let sql = PAGES.iter().find(|(page, ..)| *page == name).expect("a page").2;
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a ledger");
    let mut statement = db.prepare(sql).expect("a query");
    let width = statement.column_count();
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        for at in 0..width {
            std::hint::black_box(row.get_ref(at).expect("a value"));
        }
    }
}

fn median(mut command: impl FnMut() -> Command, rounds: usize) -> f64 {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let mut command = command();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let start = Instant::now();
            assert!(command.status().expect("a process").success());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

/// Measures the pages over a ledger of `runs` runs and over one with a tenth of them.
pub(crate) fn report(report: &mut Report, peers: &Peers, dir: &Path, runs: usize, rounds: usize) {
    fs::create_dir_all(dir).expect("a folder");
    let (small, large) = (dir.join("small.db"), dir.join("large.db"));
    fill(&small, runs / 10);
    fill(&large, runs);
    let itself = std::env::current_exe().expect("a program");
    for (name, args, _) in PAGES {
        let ours = |ledger: &Path| {
            let mut command = Command::new(&peers.callsheet);
            command.current_dir(dir).arg("--ledger").arg(ledger).arg("--all-projects").args(args);
            command
        };
        let bare = |ledger: &Path| {
            let mut command = Command::new(&itself);
            command.arg("page").arg(ledger).arg(name);
            command
        };
        let taken = median(|| ours(&large), rounds);
        let few = median(|| ours(&small), rounds);
        let query = median(|| bare(&large), rounds);
        let mut row = Row::new(&format!("`{name}` over a ledger of {runs} runs")).at_most(
            "a process that runs the bare SQL query of the same page",
            taken / query,
            10.0,
        );
        // A sum reads every run that it is about.
        if name != "stats" {
            row = row.at_most("the same over a tenth of the runs", taken / few, 1.2);
        }
        let entry =
            |name: &str, nanoseconds| Taken { name: name.into(), nanoseconds, remark: "median".into() };
        report.add(row.contenders([entry("query", query), entry("callsheet", taken)]));
    }
}
