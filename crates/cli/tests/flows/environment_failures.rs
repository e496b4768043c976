//! Tests flows whose environment fails: git, the disk, the server of the ledger, the folder of the session. A
//! flow can always continue afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use callsheet_testing::{Postgres, not_tested};

use crate::world::{Said, World, run_command};

#[track_caller]
fn assert_waits_for(world: &World, part: &str) {
    let status = world.read_status();
    let reason = status["waits_for"][0].as_str().unwrap_or_default();
    assert!(status["state"] == "waiting" && reason.contains(part), "{part}: {status}");
}

#[track_caller]
fn assert_done(said: &Said) {
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert_eq!(said.lines.last().unwrap()["state"], "done");
}

/// Returns a command for which `git` fails while a file `no-git` exists.
fn command_with_failing_git(world: &World, args: &[&str]) -> Command {
    let bin = world.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let git = bin.join("git");
    let path = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\n[ ! -e '{}' ] || {{ echo 'fatal: no luck' >&2; exit 128; }}\nPATH='{path}' exec git \"$@\"\n",
        world.meet_dir().join("no-git").display()
    );
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = world.command(args);
    command.env("PATH", format!("{}:{path}", bin.display()));
    command
}

#[test]
fn failing_git_makes_flow_wait() {
    let world = World::new("quick.sh");
    let start = world.start_args("sdd", &[]);
    assert_eq!(run_command(command_with_failing_git(&world, &start).env("FAILS", "plan")).code, Some(1));
    fs::write(world.meet_dir().join("go"), "").unwrap();
    fs::write(world.meet_dir().join("no-git"), "").unwrap();
    for words in
        [&["decide", "--yes", "changes", "Once more"][..], &["resume"], &["decide", "--yes", "approve"]]
    {
        let args = [&["--json", "-q", "flow"], words].concat();
        assert_eq!(run_command(&mut command_with_failing_git(&world, &args)).code, Some(1), "{words:?}");
        assert_waits_for(&world, "no luck");
    }
    fs::remove_file(world.meet_dir().join("no-git")).unwrap();
    assert_done(&world.run(&["--json", "-q", "flow", "resume"]));
}

#[test]
fn deleted_folder_is_recreated() {
    let world = World::new("quick.sh");
    let start = world.start_args("sdd", &[]);
    assert_eq!(run_command(world.command(&start).env("FAILS", "plan")).code, Some(1));
    fs::write(world.meet_dir().join("go"), "").unwrap();
    fs::remove_dir_all(world.project().join(".callsheet/changes")).unwrap();
    assert_done(&world.run(&["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]));
}

#[test]
fn missing_include_makes_flow_wait() {
    let world = World::new("staged.sh");
    let template = world.project().join(".callsheet/templates/agents/planner.md");
    fs::create_dir_all(template.parent().unwrap()).unwrap();
    fs::write(&template, "[[include:nowhere.md]]\n").unwrap();
    let started = world.run(&world.start_args("staged", &[]));
    assert_eq!(started.code, Some(1), "{}", started.err);
    assert_waits_for(&world, "nowhere.md");
    assert_eq!(world.run(&["--json", "-q", "flow", "resume"]).code, Some(1));
    assert_waits_for(&world, "nowhere.md");
    fs::remove_file(&template).unwrap();
    world.run(&["--json", "-q", "flow", "resume"]);
    assert_waits_for(&world, "`completing` is for a person to decide");
}

/// Runs in its own mount namespace, in which the folder is a full file system.
#[test]
fn full_disk_makes_flow_wait() {
    let world = World::new("quick.sh");
    let start = world.start_args("sdd", &[]);
    assert_eq!(run_command(world.command(&start).env("FAILS", "plan")).code, Some(1));
    fs::write(world.meet_dir().join("go"), "").unwrap();
    let full = world.project().join(".callsheet/changes");
    let script = "cp -a \"$1\" \"$2\" && mount -t tmpfs -o size=200k full \"$1\" && cp -a \"$2/.\" \"$1\" || exit 99\n\
                  head -c 400k /dev/zero > \"$1/filler\" 2>/dev/null\nshift 2\nexec \"$@\"";
    let like = world.command(&["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&full).arg(world.meet_dir().join("copy"));
    command.arg(like.get_program()).args(like.get_args()).current_dir(world.project()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let decided = run_command(command.stdin(Stdio::null()));
    if decided.code == Some(99) || decided.err.contains("unshare: ") {
        return not_tested(&format!("a flow on a full disk: {}", decided.err));
    }
    assert_eq!((decided.code, decided.err.as_str()), (Some(1), ""));
    assert_waits_for(&world, "No space left on device");
    assert_done(&world.run(&["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]));
}

fn wait_for(path: &Path) {
    let begun = std::time::Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "no {}", path.display());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The server locks out the user of the ledger in the middle of a phase.
#[test]
fn flow_resumes_after_database_lockout() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_tested(&format!("a flow whose database user is gone: {why}")),
    };
    let world = World::new("quick.sh");
    let owner = server.create_database("flows").unwrap();
    let sql = |text: &str| {
        let file = world.meet_dir().join("sql");
        fs::write(&file, text).unwrap();
        server.restore(&owner, &file).unwrap();
    };
    sql(
        "CREATE ROLE worker LOGIN; GRANT ALL ON DATABASE flows TO worker; GRANT ALL ON SCHEMA public TO worker;",
    );
    let url = owner.replace("callsheet@", "worker@");
    let with = |args: &[&str]| run_command(&mut world.command(&[&["--ledger", url.as_str()], args].concat()));
    fs::write(world.meet_dir().join("wait"), "").unwrap();
    let start = [&["--ledger", url.as_str()], &world.start_args("sdd", &[])[..]].concat();
    let mut child = world.command(&start).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&world.meet_dir().join("here"));
    sql(
        "ALTER ROLE worker NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker';",
    );
    fs::remove_file(world.meet_dir().join("wait")).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    for words in [&["status"][..], &["resume"], &["stop"]] {
        let refused = with(&[&["--json", "flow"], words].concat());
        assert_eq!(refused.code, Some(8), "{words:?}: {}", refused.err);
    }
    sql("ALTER ROLE worker LOGIN;");
    assert_done(&with(&["--json", "-q", "flow", "resume"]));
}
