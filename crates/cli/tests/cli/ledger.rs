//! Tests the ledger through the command line: recorded prompts verify, and only the owner can read them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use callsheet_core::record::{RecordBundle, list_blobs};
use callsheet_store::{Ledger, LedgerUrl, new_id};
use callsheet_testing::{CommandOutput, Postgres, TestProject, report_missing, run_command};
use rusqlite::Connection;
use serde_json::{Value, json};

/// Path of a project's ledger in earlier versions.
const OLD: &str = ".callsheet/ledger.db";

/// Records a prompt of `task` with the file `docs/plan.md`. Returns the run's id.
pub(crate) fn record(project: &TestProject, task: &str) -> String {
    let done = project.run([
        "--json",
        "compose",
        "-p",
        "plan",
        "-a",
        "claude",
        "--task-id",
        task,
        "-f",
        "docs/plan.md",
        "--record",
        "Add login",
    ]);
    assert_eq!(done.code, Some(0), "{}", done.err());
    done.json()["run"].as_str().unwrap().to_owned()
}

pub(crate) fn create_project() -> TestProject {
    let project = TestProject::new();
    project.write("docs/plan.md", "Plan with care.\n");
    project
}

fn case_count(few: usize, many: usize) -> usize {
    if std::env::var_os("CALLSHEET_LONG").is_some() { many } else { few }
}

#[test]
fn c1_recorded_prompts_verify_elsewhere() {
    let project = create_project();
    let count = case_count(300, 1000);
    let phases = ["plan", "challenge", "implement", "review", "archive"];
    let mut prompts = Vec::new();
    for number in 0..count {
        project.write(
            "docs/plan.md",
            format!("Plan {number}: größer, ışık, ἀρχή\r\n{}", "x]]>\n".repeat(number % 7)),
        );
        project.write(&format!("src/part-{}.rs", number % 40), format!("fn f{number}() {{}}\n"));
        let phase = phases[number % phases.len()];
        let recipe = ["unified", "run"][number % 2];
        let args = [
            "compose",
            "-r",
            recipe,
            "-p",
            phase,
            "-a",
            "claude",
            "-f",
            "docs/plan.md",
            "-f",
            "src",
            "--record",
            "Do it",
        ];
        let done = project.run(args);
        assert_eq!(done.code, Some(0), "{}", done.err());
        let run = done.err().lines().find_map(|line| line.strip_prefix("run ")).unwrap().to_owned();
        prompts.push((run, done.out()));
    }
    // The other directory has the ledger and no file of the project.
    let elsewhere = TestProject::new();
    fs::copy(project.ledger(), elsewhere.path().join("copy.db")).unwrap();
    drop(project);
    let run = |args: &[&str]| {
        let mut command = elsewhere.command();
        command
            .args(["--ledger", "copy.db"])
            .args(args)
            .env("LC_ALL", "tr_TR.UTF-8")
            .env("TZ", "Asia/Kathmandu");
        run_command(&mut command)
    };
    let verified = run(&["--json", "verify", "--all", "--read-data"]);
    assert_eq!(verified.code, Some(0), "{}", verified.out());
    let verified = verified.json();
    assert_eq!(
        (&verified["run_count"], &verified["record_count"], &verified["problems"]),
        (&json!(count), &json!(count), &json!([]))
    );
    for (run_id, text) in prompts.iter().step_by(29) {
        assert_eq!(run(&["show", run_id, "--prompt"]).out(), *text);
    }
}

#[test]
fn compose_without_record_writes_nothing() {
    let project = create_project();
    assert_eq!(project.run(["compose", "-p", "plan", "x"]).code, Some(0));
    assert!(!project.path().join(".callsheet").exists());
    let nothing = project.run(["log"]);
    let expected = "error[LedgerNotThere]: this project has no ledger yet\n  = hint: `callsheet run` or `callsheet compose --record` creates one\n";
    assert_eq!((nothing.code, nothing.err().as_str()), (Some(4), expected));
    assert_eq!(fs::read_dir(project.home()).unwrap().count(), 0);
}

#[test]
fn ledger_is_private_under_any_umask() {
    for umask in ["000", "022", "077", "0777"] {
        let project = create_project();
        let program = env!("CARGO_BIN_EXE_callsheet");
        let in_shell = |line: &str| {
            let mut command = Command::new("bash");
            command.args(["-c", &format!("umask {umask}; {line}")]).current_dir(project.path());
            command.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("PROGRAM", program);
            command.env("HOME", project.home());
            command
        };
        // A permanent reader keeps the files beside the database in place.
        let mut watch = in_shell("exec \"$PROGRAM\" watch --since 0").stdout(Stdio::piped()).spawn().unwrap();
        let recorded = run_command(&mut in_shell("\"$PROGRAM\" -q compose -p plan --record x > /dev/null"));
        assert_eq!((recorded.code, recorded.err().as_str()), (Some(0), ""));
        let mut line = String::new();
        BufReader::new(watch.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (file, state) = (project.ledger(), project.home().join(".local/state/callsheet"));
        let folder = file.parent().unwrap();
        let modes =
            [&state, folder, &file, &project.sidecar_path("-wal"), &project.sidecar_path("-shm")].map(mode);
        watch.kill().unwrap();
        watch.wait().unwrap();
        assert_eq!(modes, [0o700, 0o700, 0o600, 0o600, 0o600], "umask {umask}");
        let exported = run_command(&mut in_shell("\"$PROGRAM\" export --all --out e"));
        assert_eq!((exported.code, mode(&project.path().join("e"))), (Some(0), 0o600), "{}", exported.err());
    }
}

#[test]
fn symlinked_ledger_is_refused() {
    let project = create_project();
    let outside = project.path().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(project.path().join(".callsheet")).unwrap();
    symlink(outside.join("x.db"), project.path().join(OLD)).unwrap();
    let refused = project.run(["--ledger", OLD, "compose", "-p", "plan", "--record", "x"]);
    assert_eq!((refused.code, refused.out().as_str()), (Some(8), ""));
    fs::remove_dir_all(project.path().join(".callsheet")).unwrap();
    symlink(&outside, project.path().join(".callsheet")).unwrap();
    let refused = project.run(["-q", "compose", "-p", "plan", "--record", "x"]);
    let expected =
        "error[ConfigBad]: cannot read `project:.callsheet/config.toml`: it leads outside its root\n";
    assert_eq!((refused.code, refused.out().as_str(), refused.err().as_str()), (Some(3), "", expected));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn ledger_from_project_needs_trust() {
    let project = create_project();
    project.write(".callsheet/config.toml", "ledger = \"postgres://evil.example/x\"\n");
    let refused = project.run(["-q", "compose", "-p", "plan", "--record", "x"]);
    assert_eq!(
        (refused.code, refused.out().as_str(), refused.err().as_str()),
        (
            Some(10),
            "",
            "error[TrustRequired]: this project's files need your trust to: record runs in \
             postgres://evil.example/x\n  = hint: review them, then run `callsheet trust`\n"
        )
    );
    let record = ["-q", "compose", "-p", "plan", "--record", "x"];
    let by_flag = project.run([&["--ledger", "flag.db"][..], &record].concat());
    let by_env = run_command(project.command().args(record).env("CALLSHEET_LEDGER", "sqlite:env.db"));
    fs::remove_file(project.path().join(".callsheet/config.toml")).unwrap();
    let config = project.home().join(".config/callsheet");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "ledger = \"user.db\"\n").unwrap();
    let by_user = project.run(record);
    for (done, file) in [(by_flag, "flag.db"), (by_env, "env.db"), (by_user, "user.db")] {
        assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
        assert!(project.path().join(file).is_file(), "{file}");
    }
    let odd = project.run(["--ledger", "mysql://root:secret@x/y", "log"]);
    assert_eq!(
        (odd.code, odd.err().as_str()),
        (
            Some(2),
            "error[UsageBad]: unsupported ledger URL scheme `mysql`\n  = hint: a ledger is a file, or postgres://USER@HOST/DATABASE\n"
        )
    );
    fs::write(config.join("config.toml"), "ledger = \"postgres://me:secret@host/db\"\n").unwrap();
    let shown = project.run(["config", "show"]).out();
    assert_eq!(
        shown.lines().find(|line| line.starts_with("ledger")).unwrap(),
        "ledger = \"postgres://me:…@host/db\"  # user:config.toml"
    );
}

/// Records the last run once more, with its record and texts changed by `change`.
fn record_changed(ledger: &mut Ledger, change: impl FnOnce(&mut RecordBundle)) -> String {
    let run = ledger.find("last").unwrap().run.id;
    let composed = ledger.prompt_record(&run).unwrap();
    let digests = list_blobs(&composed).unwrap();
    let blobs = digests.into_iter().map(|digest| (digest, ledger.blob(digest).unwrap().unwrap())).collect();
    let mut kept = RecordBundle { composed, blobs };
    kept.composed.run.id = new_id().unwrap();
    change(&mut kept);
    ledger.record_prompt(&kept).unwrap();
    kept.composed.run.id.to_string()
}

#[test]
fn verify_exit_code_names_problem() {
    let project = create_project();
    let good = record(&project, "T-1");
    let place = LedgerUrl::Sqlite(project.ledger());
    let mut ledger = Ledger::open(&place).unwrap();
    let head = ledger.head().unwrap();
    let told = project.run(["verify", &good]);
    let expected =
        format!("prompts composed again, the same bytes: 1\nrecords in order: 1\nhead 1:{}\n", head.chain);
    assert_eq!((told.code, told.out()), (Some(0), expected));
    let other = record_changed(&mut ledger, |kept| kept.composed.engine = 70_000);
    let told = project.run(["verify", &other]);
    let expected = format!(
        "error[VerifyEngine]: run {other}: version 70000 of the engine made it, which is newer than this one ({}): its \
         texts and its SHA-256 are right, but it was not composed again; the version of callsheet that made it can compose it again\n\
         prompts composed again, the same bytes: 0\nprompts that were composed by another engine version: 1\n\
         records in order: 1\nhead 2:{}\n",
        callsheet_core::ENGINE_VERSION,
        ledger.head().unwrap().chain
    );
    assert_eq!((told.code, told.out()), (Some(11), expected));
    let differs = record_changed(&mut ledger, |kept| {
        kept.composed.engine = callsheet_core::ENGINE_VERSION;
        kept.composed.run.phase = Some("review".into());
    });
    let told = project.run(["verify", &differs]);
    let expected = format!(
        "error[VerifyMismatch]: run {differs}: run phase: it differs from the request\n\
         prompts composed again, the same bytes: 0\nrecords in order: 1\nhead 3:{}\n",
        ledger.head().unwrap().chain
    );
    assert_eq!((told.code, told.out()), (Some(1), expected));
    let head_of = |head: &callsheet_store::Head| format!("{}:{}", head.seq, head.chain);
    assert_eq!(project.run(["verify", "--head", &head_of(&head)]).code, Some(0));
    let now = ledger.head().unwrap();
    let raw = Connection::open(project.ledger()).unwrap();
    raw.execute_batch("DELETE FROM records WHERE seq = 3; DELETE FROM runs WHERE seq = 3; UPDATE head SET seq = 2, chain = (SELECT chain FROM records WHERE seq = 2)").unwrap();
    let told = project.run(["verify", "--head", &head_of(&now)]);
    let expected = format!(
        "error[LedgerDamaged]: head {}: the ledger no longer leads to this head\nprompts composed again, the same bytes: 0\n",
        head_of(&now)
    );
    assert_eq!((told.code, told.out()), (Some(8), expected));
    raw.execute_batch("UPDATE blobs SET zstd = zstd || X'00'").unwrap();
    let told = project.run(["--json", "verify", "--all"]).json();
    assert_eq!(told["problems"][0]["code"], "ledger/damaged");
    assert_eq!(project.run(["verify", "--all"]).code, Some(8));
    let bad = project.run(["verify", "--head", "x"]);
    assert_eq!((bad.code, bad.err().as_str()), (Some(2), "error[UsageBad]: `x` is not SEQ:CHAIN\n"));
    assert_eq!(project.run(["verify"]).code, Some(2));
}

/// Returns the lines of a `watch` that runs during `work` and until it has printed `count` records.
fn read_watch_lines(project: &TestProject, ledger: &[&str], count: usize, work: impl FnOnce()) -> Vec<Value> {
    let mut command = project.command();
    command
        .args(ledger)
        .args(["--json", "watch", "--since", "0"])
        .stdout(Stdio::piped())
        .stdin(Stdio::null());
    let mut watch = command.spawn().unwrap();
    work();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().take(count);
    let lines = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    watch.kill().unwrap();
    watch.wait().unwrap();
    lines
}

fn check_eight_writers(project: &TestProject, ledger: &[&str]) {
    const EACH: usize = 6;
    let lines = read_watch_lines(project, ledger, 8 * EACH, || {
        thread::scope(|scope| {
            for writer in 0..8 {
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let task = format!("T-{writer}");
                        let args = ["-q", "compose", "-p", "plan", "--task-id", &task, "--record", "x"];
                        let done = project.run([ledger, &args].concat());
                        assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
                    }
                });
            }
        });
    });
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=8 * EACH as u64).collect::<Vec<_>>());
    assert!(lines.iter().all(|line| line["event"] == "record.composed"));
    let verified = project.run([ledger, &["--json", "verify", "--all"]].concat());
    assert_eq!((verified.code, &verified.json()["record_count"]), (Some(0), &json!(8 * EACH)));
    // The last head is kept, regardless of the process that appended it.
    let known = project.run(["--json", "ledger", "list"]).json();
    let heads: Vec<&Value> = known["items"].as_array().unwrap().iter().map(|known| &known["head"]).collect();
    assert!(heads.contains(&&verified.json()["head"]), "{heads:?}");
}

#[test]
fn c7_watch_prints_records_in_order() {
    let project = create_project();
    check_eight_writers(&project, &[]);
    // The watch ends if its reader closes the pipe.
    let mut watch =
        project.command().args(["--json", "watch", "--since", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 10];
    watch.stdout.take().unwrap().read_exact(&mut some).unwrap();
    record(&project, "T-1");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

#[test]
fn ledger_moves_to_postgres() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return report_missing(&format!("the command line on PostgreSQL: {why}")),
    };
    let project = create_project();
    let ids = ["T-1", "T-2"].map(|task| record(&project, task));
    let prompt =
        |ledger: &[&str], run: &str| project.run([ledger, &["show", run, "--prompt"]].concat()).out();
    let url = server.create_database("moved").unwrap();
    let there = ["--ledger", url.as_str()];
    assert_eq!(project.run(["export", "--all", "--out", "all.jsonl"]).code, Some(0));
    let imported = project.run([&there[..], &["import", "all.jsonl"]].concat());
    assert_eq!(
        (imported.code, imported.out().as_str()),
        (Some(0), "added: runs 2, records 2, with the same chain; already known: 0\n")
    );
    for id in &ids {
        assert_eq!(prompt(&there, id), prompt(&[], id));
    }
    assert_eq!(
        project.run([&there[..], &["verify", "--all", "--read-data"]].concat()).out(),
        project.run(["verify", "--all", "--read-data"]).out()
    );
    let url = server.create_database("writers").unwrap();
    check_eight_writers(&project, &["--ledger", &url]);
    drop(server);
    let gone = project.run([&there[..], &["log"]].concat());
    assert_eq!(gone.code, Some(8), "{}", gone.err());
    assert!(gone.err().starts_with("error[LedgerFailed]: PostgreSQL: "), "{}", gone.err());
}

#[test]
fn killed_recorder_leaves_valid_ledger() {
    let project = create_project();
    record(&project, "T-1");
    let mut told = 0;
    for time in 0..case_count(40, 200) as u64 {
        let mut command = project.command();
        command.args(["compose", "-p", "plan", "--record", "x"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        thread::sleep(std::time::Duration::from_micros(time * 7919 % 60_000));
        child.kill().unwrap();
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        child.wait().unwrap();
        if let Some(run) = output.lines().find_map(|line| line.strip_prefix("run ")) {
            told += 1;
            assert_eq!(project.run(["-q", "verify", run]).code, Some(0), "{run} is lost");
        }
    }
    let verified: CommandOutput = project.run(["--json", "verify", "--all", "--read-data"]);
    assert_eq!(verified.code, Some(0), "{}", verified.out());
    assert!(verified.json()["run_count"].as_u64().unwrap() > told);
    assert!(project.ledger().is_file());
}
