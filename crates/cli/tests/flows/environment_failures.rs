//! Tests flows whose environment fails: git, the disk, the server of the ledger, the folder of the session. A
//! flow can always continue afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use callsheet_testing::{CommandOutput, Postgres, not_tested, run_command};

use crate::project::{FlowProject, wait_for_file};

#[track_caller]
fn assert_waits_for(project: &FlowProject, part: &str) {
    let status = project.read_status();
    let reason = status["waits_for"][0]["message"].as_str().unwrap_or_default();
    assert!(status["state"] == "waiting" && reason.contains(part), "{part}: {status}");
}

#[track_caller]
fn assert_done(output: &CommandOutput) {
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
    assert_eq!(output.lines_json().last().unwrap()["state"], "done");
}

/// Returns a command for which `git` fails while a file `no-git` exists.
fn command_with_failing_git(project: &FlowProject, args: &[&str]) -> Command {
    let bin = project.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let git = bin.join("git");
    let path = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\n[ ! -e '{}' ] || {{ echo 'fatal: no luck' >&2; exit 128; }}\nPATH='{path}' exec git \"$@\"\n",
        project.meet_dir().join("no-git").display()
    );
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = project.command_with(args);
    command.env("PATH", format!("{}:{path}", bin.display()));
    command
}

#[test]
fn failing_git_makes_flow_wait() {
    let project = FlowProject::new("quick.sh");
    let start = project.start_args("sdd", &[]);
    assert_eq!(run_command(command_with_failing_git(&project, &start).env("FAILS", "plan")).code, Some(1));
    fs::write(project.meet_dir().join("go"), "").unwrap();
    fs::write(project.meet_dir().join("no-git"), "").unwrap();
    for words in
        [&["decide", "--yes", "changes", "Once more"][..], &["resume"], &["decide", "--yes", "approve"]]
    {
        let args = [&["--json", "-q", "flow"], words].concat();
        assert_eq!(run_command(&mut command_with_failing_git(&project, &args)).code, Some(1), "{words:?}");
        assert_waits_for(&project, "no luck");
    }
    fs::remove_file(project.meet_dir().join("no-git")).unwrap();
    assert_done(&project.run(["--json", "-q", "flow", "resume"]));
}

#[test]
fn deleted_folder_is_recreated() {
    let project = FlowProject::new("quick.sh");
    let start = project.start_args("sdd", &[]);
    assert_eq!(run_command(project.command_with(&start).env("FAILS", "plan")).code, Some(1));
    fs::write(project.meet_dir().join("go"), "").unwrap();
    fs::remove_dir_all(project.path().join(".callsheet/changes")).unwrap();
    assert_done(&project.run(["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]));
}

#[test]
fn missing_include_makes_flow_wait() {
    let project = FlowProject::new("staged.sh");
    let template = project.path().join(".callsheet/templates/agents/planner.md");
    fs::create_dir_all(template.parent().unwrap()).unwrap();
    fs::write(&template, "[[include:nowhere.md]]\n").unwrap();
    let started = project.run(project.start_args("staged", &[]));
    assert_eq!(started.code, Some(1), "{}", started.err());
    assert_waits_for(&project, "nowhere.md");
    assert_eq!(project.run(["--json", "-q", "flow", "resume"]).code, Some(1));
    assert_waits_for(&project, "nowhere.md");
    fs::remove_file(&template).unwrap();
    project.run(["--json", "-q", "flow", "resume"]);
    assert_waits_for(&project, "`completing` needs a decision");
}

/// Runs in its own mount namespace, in which the folder is a full file system.
#[test]
fn full_disk_makes_flow_wait() {
    let project = FlowProject::new("quick.sh");
    let start = project.start_args("sdd", &[]);
    assert_eq!(run_command(project.command_with(&start).env("FAILS", "plan")).code, Some(1));
    fs::write(project.meet_dir().join("go"), "").unwrap();
    let full = project.path().join(".callsheet/changes");
    let script = "cp -a \"$1\" \"$2\" && mount -t tmpfs -o size=200k full \"$1\" && cp -a \"$2/.\" \"$1\" || exit 99\n\
                  head -c 400k /dev/zero > \"$1/filler\" 2>/dev/null\nshift 2\nexec \"$@\"";
    let like = project.command_with(&["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&full).arg(project.meet_dir().join("copy"));
    command.arg(like.get_program()).args(like.get_args()).current_dir(project.path()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let decided = run_command(command.stdin(Stdio::null()));
    if decided.code == Some(99) || decided.err().contains("unshare: ") {
        return not_tested(&format!("a flow on a full disk: {}", decided.err()));
    }
    assert_eq!((decided.code, decided.err().as_str()), (Some(1), ""));
    assert_waits_for(&project, "No space left on device");
    assert_done(&project.run(["--json", "-q", "flow", "decide", "--yes", "changes", "Once more"]));
}

/// The server locks out the user of the ledger in the middle of a phase.
#[test]
fn flow_resumes_after_database_lockout() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_tested(&format!("a flow whose database user is gone: {why}")),
    };
    let project = FlowProject::new("quick.sh");
    let owner = server.create_database("flows").unwrap();
    let sql = |text: &str| {
        let file = project.meet_dir().join("sql");
        fs::write(&file, text).unwrap();
        server.restore(&owner, &file).unwrap();
    };
    sql(
        "CREATE ROLE worker LOGIN; GRANT ALL ON DATABASE flows TO worker; GRANT ALL ON SCHEMA public TO worker;",
    );
    let url = owner.replace("callsheet@", "worker@");
    let with =
        |args: &[&str]| run_command(&mut project.command_with(&[&["--ledger", url.as_str()], args].concat()));
    fs::write(project.meet_dir().join("wait"), "").unwrap();
    let start = [&["--ledger", url.as_str()], &project.start_args("sdd", &[])[..]].concat();
    let mut child = project.command_with(&start).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_file(&project.meet_dir().join("here"));
    sql(
        "ALTER ROLE worker NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker';",
    );
    fs::remove_file(project.meet_dir().join("wait")).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    for words in [&["status"][..], &["resume"], &["stop"]] {
        let refused = with(&[&["--json", "flow"], words].concat());
        assert_eq!(refused.code, Some(8), "{words:?}: {}", refused.err());
    }
    sql("ALTER ROLE worker LOGIN;");
    assert_done(&with(&["--json", "-q", "flow", "resume"]));
}
