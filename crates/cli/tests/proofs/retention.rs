//! Retention while runs begin, continue and end: none is lost, and the ledger stays intact.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use callsheet_testing::Postgres;

use crate::project::CanaryProject;

/// Runs `each` programs in each of four threads while `gc` repeatedly removes everything that it may.
fn sweep_beside_runs(ledger: &str, each: usize) {
    let project = CanaryProject::new();
    let (done, sweeps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let removed = thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            let mut removed = 0;
            while !done.load(Ordering::SeqCst) {
                let output = project.run(["--ledger", ledger, "gc", "--keep-last", "0"]);
                // There is no ledger before the first run.
                assert!(output.code == Some(0) || sweeps.load(Ordering::SeqCst) == 0, "{}", output.err());
                if output.code == Some(0) {
                    sweeps.fetch_add(1, Ordering::SeqCst);
                    removed += output.out().lines().filter(|line| line.starts_with("removed ")).count();
                }
            }
            removed
        });
        let runners: Vec<_> = (0..4)
            .map(|number| {
                let project = &project;
                scope.spawn(move || {
                    for time in 0..each {
                        let script = format!("echo {number} {time}");
                        let output = project.run([
                            "--ledger", ledger, "run", "-q", "--share", "x", "--", "sh", "-c", &script,
                        ]);
                        assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{number} {time}");
                    }
                })
            })
            .collect();
        let ended: Vec<_> = runners.into_iter().map(|runner| runner.join()).collect();
        done.store(true, Ordering::SeqCst);
        let removed = sweeper.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
        removed
    });
    let verified = project.run(["--ledger", ledger, "verify", "--all", "--read-data"]);
    assert_eq!(verified.code, Some(0), "{}", verified.out());
    let left = project.run(["--ledger", ledger, "log", "--limit", "1000"]).out().lines().count() - 1;
    assert_eq!(removed + left, 4 * each, "{} sweeps", sweeps.load(Ordering::SeqCst));
    assert!(sweeps.load(Ordering::SeqCst) > 0);
}

#[test]
fn sqlite_retention_loses_no_run() {
    sweep_beside_runs("l.db", if crate::is_long() { 100 } else { 6 });
}

#[test]
fn postgres_retention_loses_no_run() {
    match Postgres::start() {
        Ok(server) => sweep_beside_runs(
            &server.create_database("swept").unwrap(),
            if crate::is_long() { 100 } else { 6 },
        ),
        Err(why) => crate::not_tested(&format!("retention on PostgreSQL: {why}")),
    }
}
