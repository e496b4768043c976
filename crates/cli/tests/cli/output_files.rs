//! Tests files on disk: they are complete, have the expected mode, and are written nowhere else.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use callsheet_testing::{CommandOutput, TestProject, run_command};

const PROMPT: &str = "<prompt><system_prompt>base</system_prompt><instructions>Go.</instructions></prompt>";

fn create_project() -> TestProject {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-x.md", "base");
    project
}

fn compose_to(project: &TestProject, out: &str) -> CommandOutput {
    project.run(["compose", "-p", "x", "Go.", "--out", out])
}

fn no_output() -> CommandOutput {
    CommandOutput::new(0, "", "")
}

fn mode(path: impl AsRef<Path>) -> u32 {
    path.as_ref().metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn dash_is_standard_output() {
    let project = create_project();
    assert_eq!(compose_to(&project, "-"), CommandOutput::new(0, PROMPT, ""));
    assert!(!project.path().join("-").exists());
}

#[test]
fn dev_stdout_is_appended_to() {
    let project = create_project();
    let bin = env!("CARGO_BIN_EXE_callsheet");
    let script = format!("(echo before; {bin} compose -p x Go. --out /dev/stdout; echo after) > all");
    assert!(
        Command::new("bash").args(["-c", &script]).current_dir(project.path()).status().unwrap().success()
    );
    assert_eq!(project.read("all"), format!("before\n{PROMPT}after\n"));
}

#[test]
fn symlink_and_mode_are_kept() {
    let project = create_project();
    let file = project.write("deep/prompt.xml", "old");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    for (link, target) in [("link", "deep/prompt.xml"), ("dangling", "deep/new.xml")] {
        symlink(target, project.path().join(link)).unwrap();
        assert_eq!(compose_to(&project, link), no_output());
        assert_eq!(project.path().join(link).read_link().unwrap(), Path::new(target));
        assert_eq!(project.read(target), PROMPT);
    }
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn new_files_follow_umask() {
    let project = create_project();
    let bin = env!("CARGO_BIN_EXE_callsheet");
    let script = format!("umask 027; {bin} init; {bin} templates eject identity/supervisor");
    assert!(
        Command::new("bash").args(["-c", &script]).current_dir(project.path()).status().unwrap().success()
    );
    for path in [".callsheet/config.toml", ".callsheet/templates/identity/supervisor.md"] {
        assert_eq!(mode(project.path().join(path)), 0o640, "{path}");
    }
}

/// Applies inside and outside the project: the group and others never get access, and the owner gets no more
/// than the umask allows.
#[test]
fn new_prompts_are_private() {
    let project = create_project();
    let bin = env!("CARGO_BIN_EXE_callsheet");
    for (umask, wanted) in [("000", 0o600), ("022", 0o600), ("077", 0o600), ("0177", 0o600), ("0277", 0o400)]
    {
        let outside = project.path().parent().unwrap().join(format!("out-{umask}.xml"));
        for out in [project.path().join(format!("in-{umask}.xml")), outside] {
            let script = format!("umask {umask}; {bin} compose -p x Go. --out {}", out.display());
            let done =
                Command::new("bash").args(["-c", &script]).current_dir(project.path()).status().unwrap();
            assert!(done.success(), "{script}");
            assert_eq!(mode(&out), wanted, "{script}");
        }
    }
}

#[test]
fn symlink_outside_project_is_not_written() {
    let project = TestProject::new();
    let outside = project.path().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let refused = |code: i32, err: String| CommandOutput::new(code, "", err);
    symlink(&outside, project.path().join(".callsheet")).unwrap();
    let config = "cannot read `project:.callsheet/config.toml`: it leads outside its root";
    assert_eq!(project.run(["init"]), refused(3, format!("error[ConfigBad]: {config}\n")));
    fs::remove_file(project.path().join(".callsheet")).unwrap();
    fs::create_dir(project.path().join(".callsheet")).unwrap();
    symlink(&outside, project.path().join(".callsheet/templates")).unwrap();
    let path = ".callsheet/templates/identity";
    assert_eq!(
        project.run(["templates", "eject", "identity/supervisor"]),
        refused(
            70,
            format!(
                "error[OutputFailed]: cannot write `{path}`: a part of it is a symbolic link or not a folder\n"
            )
        )
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn config_symlink_outside_project_is_refused() {
    let project = TestProject::new();
    let outside = project.path().parent().unwrap().join("secret");
    fs::write(&outside, "password: hunter2").unwrap();
    fs::create_dir(project.path().join(".callsheet")).unwrap();
    symlink(&outside, project.path().join(".callsheet/config.toml")).unwrap();
    let err = "error[ConfigBad]: cannot read `project:.callsheet/config.toml`: it leads outside its root\n";
    assert_eq!(project.run(["check"]), CommandOutput::new(3, "", err));
}

#[test]
fn printed_paths_are_relative() {
    let project = TestProject::new();
    fs::create_dir_all(project.path().join(".git")).unwrap();
    fs::create_dir_all(project.path().join("src/deep")).unwrap();
    let run = |args: &[&str]| {
        let mut command = project.command();
        run_command(command.current_dir(project.path().join("src/deep")).args(args)).out()
    };
    let output = "wrote ../../.callsheet/README.md\nwrote ../../.callsheet/config.toml\nadded the ledger to ../../.gitignore\n";
    assert_eq!(run(&["init"]), output);
    assert_eq!(
        run(&["templates", "eject", "identity/supervisor"]),
        "wrote ../../.callsheet/templates/identity/supervisor.md\n"
    );
}

/// A person who writes `..` means the folder above, unless a link of the project is on the way.
#[test]
fn output_above_project_is_written() {
    let project = create_project();
    assert_eq!(compose_to(&project, "../above.xml"), no_output());
    assert_eq!(fs::read_to_string(project.beside("above.xml")).unwrap(), PROMPT);
    project.write("deep/file", "");
    assert_eq!(compose_to(&project, "deep/../../again.xml"), no_output());
    assert_eq!(fs::read_to_string(project.beside("again.xml")).unwrap(), PROMPT);
    fs::create_dir_all(project.beside("other/folder")).unwrap();
    symlink(project.beside("other/folder"), project.path().join("link")).unwrap();
    for out in ["link/x.xml", "link/../x.xml"] {
        let refused = compose_to(&project, out);
        assert!(refused.err().contains("it leads out of the project"), "{out}: {}", refused.err());
    }
    assert!(!project.beside("other/folder/x.xml").exists() && !project.beside("other/x.xml").exists());
}

#[test]
fn output_is_private_under_any_umask() {
    let project = create_project();
    for (umask, out) in [("000", "in.xml"), ("000", "../beside.xml"), ("022", "other.xml")] {
        let bin = env!("CARGO_BIN_EXE_callsheet");
        let script = format!("umask {umask}; exec {bin} compose -p x Go. --out {out}");
        let done = Command::new("sh").args(["-c", &script]).current_dir(project.path()).status().unwrap();
        assert!(done.success(), "{umask} {out}");
        assert_eq!(mode(project.path().join(out)), 0o600, "{umask} {out}");
    }
}
