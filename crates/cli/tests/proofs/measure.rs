//! Measures the memory and processor time of a program.
//!
//! The system reports usage of children that have ended, and counts the memory of a process that forks to its
//! child. The test therefore starts itself again as a small process with one child only.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;
use serde_json::{Value, json};

const ORDER: &str = "CALLSHEET_MEASURE";

#[derive(Debug)]
pub(crate) struct Measured {
    /// `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    /// The peak of its memory, in bytes.
    pub(crate) peak: u64,
    /// Processor time. Unlike wall-clock time it does not count other processes.
    pub(crate) time: Duration,
    pub(crate) err: String,
    pub(crate) out_bytes: u64,
}

/// Seconds of processor time: a program that takes more is considered endless, and is killed.
pub(crate) const ENDLESS: u64 = 60;
/// More than any limit here, less than an amount that would hurt the machine.
const MOST: u64 = 4 << 30;

/// Runs `command` with empty standard input.
pub(crate) fn measure(command: &Command) -> Measured {
    measure_within(command, ENDLESS)
}

/// Runs `command` and kills it after `seconds` of processor time.
pub(crate) fn measure_within(command: &Command, seconds: u64) -> Measured {
    let dir = tempfile::tempdir().unwrap();
    let text = |word: &std::ffi::OsStr| word.to_str().unwrap().to_owned();
    let order = json!({
        "seconds": seconds,
        "program": text(command.get_program()),
        "args": command.get_args().map(text).collect::<Vec<_>>(),
        "dir": command.get_current_dir(),
        "env": command.get_envs().filter_map(|(key, value)| Some((text(key), text(value?)))).collect::<Vec<_>>(),
        "out": dir.path().join("out"),
        "err": dir.path().join("err"),
        "report": dir.path().join("report"),
    });
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "measure::process_with_one_child", "--ignored", "--nocapture", "--quiet"])
        .env(ORDER, order.to_string())
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let report: Value = serde_json::from_slice(&read("report")).unwrap();
    Measured {
        code: report["code"].as_i64().map(|code| i32::try_from(code).unwrap()),
        peak: report["peak"].as_u64().unwrap(),
        time: Duration::from_micros(report["micros"].as_u64().unwrap()),
        err: String::from_utf8_lossy(&read("err")).into_owned(),
        out_bytes: dir.path().join("out").metadata().unwrap().len(),
    }
}

#[test]
#[ignore = "a process of other tests"]
fn process_with_one_child() {
    let order = std::env::var(ORDER).unwrap();
    let order: Value = serde_json::from_str(&order).unwrap();
    let word = |key: &str| order[key].as_str().unwrap();
    let words = |value: &Value| value.as_str().unwrap().to_owned();
    let file = |key: &str| File::create(Path::new(word(key))).unwrap();
    setrlimit(Resource::RLIMIT_CPU, order["seconds"].as_u64().unwrap(), RLIM_INFINITY).unwrap();
    setrlimit(Resource::RLIMIT_AS, MOST, RLIM_INFINITY).unwrap();
    let status = Command::new(word("program"))
        .args(order["args"].as_array().unwrap().iter().map(words))
        .current_dir(word("dir"))
        .env_clear()
        .envs(order["env"].as_array().unwrap().iter().map(|pair| (words(&pair[0]), words(&pair[1]))))
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("err"))
        .status()
        .unwrap();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    let report = json!({
        "code": status.code(),
        "peak": usage.max_rss() * unit,
        "micros": (usage.user_time() + usage.system_time()).num_microseconds(),
    });
    std::fs::write(word("report"), report.to_string()).unwrap();
}

/// The measurement distinguishes a large program from a small one, and a slow one from a fast one.
#[test]
fn measurement_reflects_memory_and_time() {
    let shell = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir("/").env("PATH", std::env::var("PATH").unwrap());
        measure(&command)
    };
    let small = shell("exit 3");
    assert_eq!((small.code, small.out_bytes), (Some(3), 0));
    assert!(small.peak < 32 << 20, "{small:?}");
    let large = shell("x=$(head -c 40000000 /dev/zero | tr '\\0' x); echo -n \"${#x}\"; echo said >&2");
    assert_eq!((large.code, large.out_bytes, large.err.as_str()), (Some(0), 8, "said\n"));
    assert!(large.peak > 40_000_000 && large.time > small.time, "{large:?} against {small:?}");
    assert_eq!(shell("kill -9 $$").code, None);
}
