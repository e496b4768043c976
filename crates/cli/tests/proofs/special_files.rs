//! No file that a command reads or keeps for itself makes it wait or exhausts its memory.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use callsheet_testing::{CommandOutput, Postgres, run_command};

use crate::links::source_lines;
use crate::measure::measure;
use crate::project::CanaryProject;

fn create_fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    drop(fs::remove_file(path));
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Returns the exit code, and the error without its hints.
fn exit_code_and_error(output: &CommandOutput) -> (Option<i32>, String) {
    (output.code, output.err().lines().find(|line| line.starts_with("error")).unwrap_or_default().to_owned())
}

/// Creates a project with a recorded prompt.
fn create_project_with_record() -> CanaryProject {
    let project = CanaryProject::new();
    let done = project.run(["-q", "compose", "-p", "plan", "--record", "Plan."]);
    assert_eq!(done.code, Some(0), "{}", done.err());
    project
}

#[test]
fn arguments_naming_non_files_are_refused() {
    let project = create_project_with_record();
    create_fifo(&project.path().join("pipe"));
    fs::create_dir(project.path().join("folder")).unwrap();
    let compose: &[&str] = &["compose", "-p", "plan", "x"];
    let places = [
        (vec!["import"], ""),
        (vec!["verify", "--file"], ""),
        (vec!["verify", "--all", "--set-secret"], "key="),
        (vec!["read", "-p", "review", "--prompt"], ""),
        ([compose, &["--request"]].concat(), ""),
        ([compose, &["--set-file"]].concat(), "key="),
        ([compose, &["--context-file"]].concat(), "key="),
        ([compose, &["--tools"]].concat(), ""),
        ([compose, &["--set-secret"]].concat(), "key="),
        ([compose, &["-f"]].concat(), ""),
        ([compose, &["--artifact"]].concat(), ""),
        ([compose, &["--out"]].concat(), ""),
        ([compose, &["--record", "--out"]].concat(), ""),
        (vec!["export", "--all", "--out"], ""),
        (vec!["export", "last", "--in-toto", "--out"], ""),
    ];
    for (args, key) in &places {
        for (path, kind) in
            [("pipe", "FIFO"), ("/dev/zero", "device"), ("/dev/tty", "device"), ("folder", "directory")]
        {
            if kind == "directory" && ["-f", "--artifact"].contains(args.last().unwrap()) {
                continue;
            }
            let named = format!("{key}{path}");
            let done = project.run([args.as_slice(), &[named.as_str()]].concat());
            let (code, line) = exit_code_and_error(&done);
            assert_eq!(code, Some(3), "{args:?} {path}: {line}");
            assert!(line.ends_with(&format!(": it is a {kind}, not a regular file")), "{args:?}: {line}");
        }
    }
    // A reader on the pipe changes nothing, and refused input is not recorded.
    let reader = OpenOptions::new().read(true).write(true).open(project.path().join("pipe")).unwrap();
    let done = project.run(["compose", "-p", "plan", "x", "--record", "--out", "pipe"]);
    assert_eq!(done.code, Some(3), "{}", done.err());
    drop(reader);
    let log: serde_json::Value = serde_json::from_str(&project.run(["--json", "log"]).out()).unwrap();
    assert_eq!(log["items"].as_array().unwrap().len(), 1);
}

#[test]
fn non_regular_config_files_are_refused() {
    let place = |project: &CanaryProject, path: &str| match path.strip_prefix("~/") {
        Some(path) => project.beside("home").join(path),
        None => project.path().join(path),
    };
    for (path, args) in [
        ("~/.config/callsheet/config.toml", &["compose", "-p", "plan", "x"][..]),
        (".callsheet/config.toml", &["compose", "-p", "plan", "x"]),
        (".callsheet/recipes/unified.toml", &["compose", "-p", "plan", "x"]),
        (".callsheet/secrets/own.toml", &["compose", "-p", "plan", "--record", "x"]),
        (".gitignore", &["compose", "-p", "plan", "-f", ".", "x"]),
        (".mcp.json", &["mcp", "install", "--client", "claude"]),
        ("~/.codex/config.toml", &["mcp", "install", "--client", "codex"]),
        (".callsheet/prompts/agents/coder.md", &["prefs", "list"]),
    ] {
        let project = CanaryProject::new();
        create_fifo(&place(&project, path));
        let done = project.run(args);
        assert!(done.code.is_some_and(|code| code != 0 && code != 70), "{path}: {done:?}");
        assert!(done.err().contains("FIFO"), "{path}: {}", done.err());
    }
}

fn list_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(list_files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Any file in callsheet's state directory may have become a FIFO: every command still ends, with any exit
/// code.
#[test]
fn fifo_in_state_directory_never_blocks() {
    let names = |project: &CanaryProject| -> Vec<PathBuf> {
        let state = project.beside("home/.local/state/callsheet");
        list_files(&state).into_iter().map(|path| path.strip_prefix(&state).unwrap().to_owned()).collect()
    };
    let agreed = |project: &CanaryProject| {
        project.write(".callsheet/config.toml", "[checks]\nok = \"true\"\n");
        let done = project.run(["-q", "compose", "-p", "plan", "--record", "Plan."]);
        assert_eq!(done.code, Some(0), "{}", done.err());
        drop(project.run(["trust", "--yes"]));
    };
    let count = {
        let project = CanaryProject::new();
        agreed(&project);
        names(&project).len()
    };
    assert!(count >= 5, "only {count} files");
    let mut tried = 0;
    for at in 0..count {
        let project = CanaryProject::new();
        agreed(&project);
        let path = project.beside("home/.local/state/callsheet").join(&names(&project)[at]);
        create_fifo(&path);
        for args in [
            &["log"][..],
            &["verify", "--all"],
            &["-q", "compose", "-p", "plan", "--record", "Again."],
            &["trust"],
        ] {
            let done = project.run(args);
            assert!(done.code.is_some(), "{}: {args:?}", path.display());
            tried += 1;
        }
    }
    crate::print_measurement(&format!("state directory: {tried} commands beside a FIFO ended"));
}

#[test]
fn non_regular_ledger_is_refused() {
    let project = CanaryProject::new();
    create_fifo(&project.path().join("pipe.db"));
    for args in [
        &["log"][..],
        &["verify", "--all"],
        &["compose", "-p", "plan", "--record", "x"],
        &["export", "--all"],
    ] {
        for place in ["pipe.db", "/dev/zero"] {
            let done = run_command(project.command().args(["--ledger", place]).args(args));
            let (code, line) = exit_code_and_error(&done);
            assert_eq!(code, Some(8), "{args:?} {place}: {line}");
            assert!(line.ends_with("is not a regular file"), "{line}");
        }
    }
}

/// Tests the built program with a server that is stopped while it is in use.
#[test]
fn stopped_server_does_not_block_commands() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return crate::not_tested(&format!("a server that is stopped: {why}")),
    };
    let project = CanaryProject::new();
    let url = server.create_database("stopped").unwrap();
    let run = |args: &[&str]| {
        let mut command = project.command();
        command.env("CALLSHEET_LEDGER", &url).env("CALLSHEET_LEDGER_TIMEOUT", "1s");
        run_command(command.args(args))
    };
    assert_eq!(run(&["-q", "compose", "-p", "plan", "--record", "x"]).code, Some(0));
    let paused = server.pause().unwrap();
    for args in [
        &["log"][..],
        &["show", "last"],
        &["verify", "--all"],
        &["export", "--all"],
        &["status"],
        &["gc", "--keep-last", "1"],
        &["compose", "-p", "plan", "--record", "x"],
        &["run", "x", "--", "true"],
        &["import", "-"],
        &["flow", "list"],
    ] {
        let done = run(args);
        let (code, line) = exit_code_and_error(&done);
        assert_eq!(code, Some(8), "{args:?}: {}", done.err());
        assert_eq!(line, "error[LedgerNoAnswer]: the ledger's server did not answer within 1s", "{args:?}");
        assert!(done.err().contains("= hint: "), "{}", done.err());
    }
    drop(paused);
    assert_eq!(run(&["log"]).code, Some(0));
    let mut bad = project.command();
    bad.env("CALLSHEET_LEDGER", &url).env("CALLSHEET_LEDGER_TIMEOUT", "soon");
    let bad = run_command(bad.args(["log"]));
    assert_eq!(
        (bad.code, bad.err().contains("CALLSHEET_LEDGER_TIMEOUT: invalid duration `soon`")),
        (Some(3), true)
    );
}

/// More than any of these commands needs, far less than the size of the input.
const MOST_MEMORY: u64 = 256 << 20;

#[test]
fn large_inputs_use_bounded_memory() {
    let project = CanaryProject::new();
    let text = "\u{1}".repeat(15 << 20);
    project.write("large.txt", &text);
    let measure = |args: &[&str]| {
        let mut command = project.command();
        command.args(args);
        let took = measure(&command);
        assert!(took.peak < MOST_MEMORY, "{args:?}: {} bytes", took.peak);
        crate::print_measurement(&format!("{}: {} MiB", args[..2].join(" "), took.peak >> 20));
        took
    };
    let record = [
        "-q",
        "compose",
        "-r",
        "layers",
        "--record",
        "--secrets",
        "allow",
        "--context-file",
        "a=large.txt",
        "x",
    ];
    assert_eq!(measure(&record).code, Some(0));
    assert_eq!(measure(&["export", "--all", "--out", "all.jsonl"]).code, Some(0));
    let size = project.path().join("all.jsonl").metadata().unwrap().len();
    assert!(size > 90 << 20, "{size}");
    assert_eq!(measure(&["verify", "--file", "all.jsonl"]).code, Some(0));
    assert_eq!(measure(&["--ledger", "other.db", "import", "all.jsonl"]).code, Some(0));
    // A file with one endless line, with and without a valid first line.
    let first =
        fs::read_to_string(project.path().join("all.jsonl")).unwrap().lines().next().unwrap().to_owned();
    for (name, begin) in [("zeroes", String::new()), ("spaces", format!("{first}\n"))] {
        let file = fs::File::create(project.path().join(name)).unwrap();
        std::io::Write::write_all(&mut &file, begin.as_bytes()).unwrap();
        if name == "spaces" {
            std::io::Write::write_all(&mut &file, &vec![b' '; 80 << 20]).unwrap();
        }
        // A hole takes no disk space.
        file.set_len(2 << 30).unwrap();
        for args in [&["verify", "--file", name][..], &["--ledger", "third.db", "import", name]] {
            assert_eq!(measure(args).code, Some(8), "{name}");
        }
    }
}

/// Functions that open or read a file by its path. Everything else uses `run/src/disk/read.rs`, which waits for
/// nothing, and `run/src/disk/lock.rs`.
const OPENERS: [&str; 6] =
    ["File::open", "fs::read(", "fs::read_to_string(", "OpenOptions::new", "File::options", "fs::copy("];

const ALLOWED: [(&str, &str, &str); 17] = [
    ("run/src/process/host.rs", "/proc/sys/kernel/hostname", "the kernel's"),
    ("app/src/random.rs", "/dev/urandom", "random bytes"),
    ("run/src/process/ancestry.rs", "/proc/", "the kernel's"),
    ("run/src/process/peer.rs", "/proc/", "the kernel's"),
    ("run/src/disk/lock.rs", "OpenOptions::new()", "the opener itself"),
    ("run/src/disk/documents.rs", "custom_flags(", "a document, opened without waiting"),
    (
        "run/src/worktree/fingerprint.rs",
        "File::open(path)",
        "a worktree's file whose kind was looked at before",
    ),
    ("run/src/disk/read.rs", "OpenOptions::new()", "the opener itself"),
    ("run/src/disk/read.rs", "File::open_ambient_with", "the opener itself"),
    ("run/src/process/trace.rs", "/proc/", "the kernel's"),
    ("run/src/process/trace.rs", "cgroup.join(PROCS)", "the kernel's"),
    ("run/src/process/trace.rs", "OpenOptions::new()", "the folder of a run in the user's state directory"),
    ("run/src/process/host.rs", "/etc/passwd", "the system's list of users"),
    ("store/src/private_file.rs", "create_new(true)", "a file that was not there"),
    ("store/src/private_file.rs", "custom_flags(", "a ledger's log, opened without waiting"),
    ("store/src/database_file.rs", "create_new(true)", "a file that was not there"),
    ("store/src/database_file.rs", "custom_flags(flags)", "a ledger's file, opened without waiting"),
];

#[test]
fn files_are_opened_in_one_place() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut others = Vec::new();
    for (file, line) in source_lines(crates, &["app", "cli", "mcp", "run", "store", "web"]) {
        let is_call = OPENERS.iter().any(|opener| line.contains(opener));
        let is_code = !line.trim().starts_with("//") && !line.trim().starts_with("use ");
        let allowed = ALLOWED.iter().any(|(name, part, _)| *name == file && line.contains(part));
        if is_call && is_code && !allowed {
            others.push(format!("{file}: {}", line.trim()));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}

/// A file replaces another one only after its bytes are on the disk.
#[test]
fn bytes_are_synced_before_rename() {
    let project = CanaryProject::new();
    let log = project.beside("calls");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-e", "trace=fsync,rename,renameat,renameat2", "-o"]).arg(&log);
    traced.arg(env!("CARGO_BIN_EXE_callsheet")).args(["compose", "-p", "plan", "x", "--out", "out.md"]);
    traced.current_dir(project.path()).env("HOME", project.beside("home"));
    match traced.output() {
        Ok(done) if done.status.success() => {}
        Ok(done) => {
            return crate::not_tested(&format!("fsync: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Err(error) => return crate::not_tested(&format!("fsync: strace: {error}")),
    }
    let calls = fs::read_to_string(log).unwrap();
    let calls: Vec<&str> =
        calls.lines().filter(|line| line.contains("sync(") || line.contains("rename")).collect();
    let renamed = calls.iter().position(|line| line.contains("\"out.md\"")).unwrap();
    assert!(calls[..renamed].iter().any(|line| line.contains("fsync(")), "{calls:#?}");
    assert_eq!(calls[..renamed].iter().filter(|line| line.contains("rename")).count(), 0, "{calls:#?}");
}
