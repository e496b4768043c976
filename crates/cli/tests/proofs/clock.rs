//! Clocks that are set to any time: no command fails, times stay in order, and retention removes nothing
//! because of the clock.
//!
//! The clock comes from a library that is loaded before all others and answers in place of the system's
//! clock.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use callsheet_testing::{CommandOutput, run_command};

use crate::project::CanaryProject;

const SOURCE: &str = "
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long told(long long now) {
    const char *text = getenv(\"FAKE_SECONDS\");
    return text ? atoll(text) : now;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    int done = (int)syscall(SYS_clock_gettime, which, at);
    if (done == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec = told(at->tv_sec);
    return done;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
";

struct Clocks {
    project: CanaryProject,
    library: PathBuf,
}

impl Clocks {
    /// Returns `None` if there is no C compiler, or if the system does not load such a library.
    fn new() -> Option<Self> {
        let project = CanaryProject::new();
        let (source, library) = (project.write_beside("clock.c", SOURCE), project.beside("clock.so"));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        let clocks = Self { project, library };
        let is_compiled = compiler.status().is_ok_and(|status| status.success());
        let works = is_compiled && {
            let mut date = Command::new("date");
            date.args(["-u", "+%Y"]).env("LD_PRELOAD", &clocks.library).env("FAKE_SECONDS", "7258118400");
            date.output().is_ok_and(|output| output.stdout == b"2200\n")
        };
        if !works {
            crate::not_tested("clocks that are set wrong: no library can be put before the system's");
        }
        works.then_some(clocks)
    }

    fn run(&self, seconds: Option<i64>, args: &[&str]) -> CommandOutput {
        let mut command = self.project.command();
        command.args(["--ledger", "l.db"]).args(args);
        if let Some(seconds) = seconds {
            command.env("LD_PRELOAD", &self.library).env("FAKE_SECONDS", seconds.to_string());
        }
        let output = run_command(&mut command);
        assert!(!output.err().contains("panicked"), "{args:?} at {seconds:?}: {}", output.err());
        output
    }

    fn run_successfully(&self, seconds: Option<i64>, args: &[&str]) -> String {
        let output = self.run(seconds, args);
        assert_eq!(output.code, Some(0), "{args:?} at {seconds:?}: {}", output.err());
        output.out()
    }

    fn list_runs(&self) -> Vec<serde_json::Value> {
        let listed: serde_json::Value =
            serde_json::from_str(&self.run_successfully(None, &["--json", "log", "--limit", "1000"]))
                .unwrap();
        listed["items"].as_array().unwrap().iter().rev().cloned().collect()
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().try_into().unwrap()
}

const DAY: i64 = 86_400;

/// Clocks in order, from the first to the last.
const CLOCKS: &[i64] = &[
    i64::MIN,
    -(1 << 60),
    -62_167_219_201,
    -62_135_596_800,
    -2_208_988_800,
    -1,
    0,
    1,
    DAY,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    32_503_680_000,
    253_402_300_799,
    253_402_300_800,
    281_474_976_711,
    1 << 60,
    i64::MAX,
];

#[test]
fn commands_survive_any_clock() {
    let Some(clocks) = Clocks::new() else { return };
    clocks.run_successfully(None, &["compose", "-p", "plan", "--record", "now"]);
    for seconds in CLOCKS.iter().copied() {
        let at = Some(seconds);
        clocks.run_successfully(at, &["-q", "compose", "-p", "plan", "--record", "x"]);
        clocks.run_successfully(at, &["-q", "run", "--timeout", "30000000000000h", "x", "--", "true"]);
        for args in [
            &["log"][..],
            &["log", "--since", "1960", "--until", "9999-12-31"],
            &["show", "last"],
            &["status"],
            &["verify", "--all"],
            &["export", "--all"],
            &["recover"],
        ] {
            clocks.run_successfully(at, args);
        }
        let swept = clocks.run(at, &["gc", "--keep-days", "30"]);
        assert_eq!((swept.code, swept.out().as_str()), (Some(0), ""), "at {seconds}");
        assert!(
            swept.err().starts_with("warning[ClockWrong]: the clock says "),
            "at {seconds}: {}",
            swept.err()
        );
    }
    let runs = clocks.list_runs();
    assert_eq!(runs.len(), 1 + 2 * CLOCKS.len());
    let times: Vec<&str> = runs[1..].iter().map(|run| run["started_at"].as_str().unwrap()).collect();
    assert!(times.iter().all(|time| time.len() == "2026-01-31T12:00:00.000000Z".len()), "{times:?}");
    // Microseconds advance while the second stays the same, and may start again.
    assert!(times.windows(2).all(|two| two[0][..19] <= two[1][..19]), "{times:?}");
    assert_eq!((&times[0][..10], &times[times.len() - 1][..10]), ("0000-01-01", "9999-12-31"));
    assert_eq!(clocks.run_successfully(None, &["gc", "--keep-days", "30"]), "");
    assert_eq!(clocks.list_runs().len(), runs.len());
    clocks.run_successfully(None, &["verify", "--all", "--read-data"]);
}

#[test]
fn plausible_clock_controls_retention() {
    let Some(clocks) = Clocks::new() else { return };
    clocks.run_successfully(Some(now() - 40 * DAY), &["-q", "compose", "-p", "plan", "--record", "old"]);
    // A clock that was wrong in between makes no run old, and none young.
    for seconds in [-1, 0, 946_684_800, now() + 4000 * DAY, 1 << 60] {
        clocks.run_successfully(Some(seconds), &["-q", "compose", "-p", "plan", "--record", "odd"]);
    }
    clocks.run_successfully(Some(now() - 2 * DAY), &["-q", "compose", "-p", "plan", "--record", "young"]);
    let removed = |at: i64, days: &str| {
        clocks.run_successfully(Some(at), &["gc", "--keep-days", days, "--dry-run"]).lines().count()
    };
    assert_eq!(removed(now(), "100"), 0);
    assert_eq!(removed(now(), "30"), 1);
    assert_eq!(removed(now(), "1"), 7);
    assert_eq!(removed(now() + 300 * DAY, "100"), 7);
    assert_eq!(removed(now() + 500 * DAY, "100"), 0);
    let swept = clocks.run_successfully(None, &["gc", "--keep-days", "30"]);
    assert_eq!((swept.lines().count(), clocks.list_runs().len()), (1, 6));
}
