//! The contents of changed files: kept, shown, taken back and applied elsewhere.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use callsheet_testing::{CommandOutput, callsheet_program, run_command};

use crate::project::RunProject;

/// A shell script as an agent, without a scope.
fn run_script(project: &RunProject, script: &str) -> CommandOutput {
    let mut command = project.command();
    command.args(["--json", "-q", "run", "--no-scope", "Do it.", "--", "sh", "-c", script]);
    run_command(&mut command)
}

const SCRIPT: &str = "printf 'one\\r\\n2\\nthree' > src/a.txt; rm gone.txt; mv moved.txt 'new name.txt'; chmod +x draft.txt; \
     echo more >> draft.txt; ln -s src/a.txt link; mkdir -p d/e; echo new > d/e/f; printf 'x\\0y' > binary";

/// A repository with committed, edited and untracked files.
fn prepare() -> RunProject {
    let project = RunProject::new();
    project.write("src/a.txt", "one\ntwo\nthree\n");
    project.write("gone.txt", "old\n");
    project.write("moved.txt", "first\nsecond\n");
    project.commit();
    // The commit has neither of these contents.
    project.write("gone.txt", "edited\n");
    project.write("draft.txt", "draft\n");
    project
}

#[test]
fn changes_are_shown_as_patch() {
    let project = prepare();
    let run = run_script(&project, SCRIPT).expect_code(0).run_id();
    let patch = project.run(["show", &run, "--diff"]).out();
    assert_eq!(
        patch,
        "diff --git a/binary b/binary\nnew file mode 100644\n# not shown: it is not UTF-8 text\n\
         diff --git a/d/e/f b/d/e/f\nnew file mode 100644\n--- /dev/null\n+++ b/d/e/f\n@@ -0,0 +1 @@\n+new\n\
         diff --git a/draft.txt b/draft.txt\nold mode 100644\nnew mode 100755\n--- a/draft.txt\n+++ b/draft.txt\n@@ -1 +1,2 @@\n \
         draft\n+more\n\
         diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-edited\n\
         diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+src/a.txt\n\\ No newline at end of \
         file\n\
         diff --git a/moved.txt b/new name.txt\nsimilarity index 100%\nrename from moved.txt\nrename to new name.txt\n\
         diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n-one\n-two\n-three\n+one\r\n+2\n\
         +three\n\\ No newline at end of file\n"
    );
    let one = project.run(["show", &run, "--diff", "gone.txt"]).out();
    assert!(patch.contains(&one) && one.starts_with("diff --git a/gone.txt b/gone.txt\n"), "{one}");
    let unknown = project.run(["show", &run, "--diff", "gone.tx"]);
    assert_eq!(unknown.code, Some(9));
    assert!(unknown.err().contains("did you mean `gone.txt`?"), "{}", unknown.err());
    let json = project.run(["--json", "show", &run, "--diff"]).json();
    let counts: Vec<String> = json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            format!("{} {} {}", file["path"].as_str().unwrap(), file["added_count"], file["removed_count"])
        })
        .collect();
    assert_eq!(
        counts,
        [
            "binary null null",
            "d/e/f 1 0",
            "draft.txt 1 0",
            "gone.txt 0 1",
            "link 1 0",
            "new name.txt 0 0",
            "src/a.txt 3 3"
        ]
    );
    // Git applies the patch of the files that are kept.
    fs::remove_file(project.path().join("binary")).unwrap();
    let patches: Vec<&str> =
        json["items"].as_array().unwrap().iter().filter_map(|file| file["patch"].as_str()).collect();
    fs::write(project.beside("patch"), patches.concat()).unwrap();
    let patch = project.beside("patch");
    let patch = patch.to_str().unwrap();
    project.git(&["apply", "--reverse", patch]);
    assert_eq!(project.read("src/a.txt"), "one\ntwo\nthree\n");
    assert_eq!(project.read("gone.txt"), "edited\n");
    project.git(&["apply", patch]);
    assert_eq!(project.read("src/a.txt"), "one\r\n2\nthree");
}

#[test]
fn changes_are_reverted_and_applied() {
    let project = prepare();
    let run =
        run_script(&project, &SCRIPT.replace("printf 'x\\0y' > binary", "true")).expect_code(0).run_id();
    project.run(["revert", &run]).expect_code(0);
    assert_eq!(project.read("src/a.txt"), "one\ntwo\nthree\n");
    assert_eq!(project.read("gone.txt"), "edited\n");
    assert_eq!(project.read("moved.txt"), "first\nsecond\n");
    assert_eq!(project.read("draft.txt"), "draft\n");
    assert_eq!(fs::metadata(project.path().join("draft.txt")).unwrap().permissions().mode() & 0o111, 0);
    for path in ["new name.txt", "link", "d"] {
        assert!(project.path().join(path).symlink_metadata().is_err(), "{path}");
    }
    // What is right already is left alone.
    let again = project.run(["--json", "revert", &run]).json();
    assert!(again["items"].as_array().unwrap().iter().all(|file| file["written"] == false), "{again}");
    project.run(["apply", &run]).expect_code(0);
    assert_eq!(project.read("d/e/f"), "new\n");
    assert_eq!(fs::read_link(project.path().join("link")).unwrap().to_str(), Some("src/a.txt"));
    assert_ne!(fs::metadata(project.path().join("draft.txt")).unwrap().permissions().mode() & 0o100, 0);
    let status = project.git(&["status", "--short"]);
    // The next run sees what these commands wrote as the state before it.
    let next = run_script(&project, "true").expect_code(0).json();
    assert_eq!(next["outcome"], "nothing_changed");
    assert_eq!(project.git(&["status", "--short"]), status);
}

#[test]
fn edited_file_is_not_reverted() {
    let project = prepare();
    let run =
        run_script(&project, "echo x > src/a.txt; echo y > gone.txt; rm draft.txt").expect_code(0).run_id();
    project.write("src/a.txt", "edited since\n");
    project.write("draft.txt", "again\n");
    let refused = project.run(["revert", &run]);
    assert_eq!(refused.code, Some(9));
    let said = refused.err();
    assert!(said.contains("`src/a.txt` was edited after the run"), "{said}");
    assert!(said.contains("`draft.txt` exists again after the run"), "{said}");
    assert!(
        said.contains(&format!(
            "nothing was written; run `callsheet revert {run} -- gone.txt` for the others"
        )),
        "{said}"
    );
    assert_eq!(project.read("gone.txt"), "y\n");
    project.run(["revert", &run, "gone.txt"]).expect_code(0);
    assert_eq!(project.read("gone.txt"), "edited\n");
    assert_eq!(project.read("src/a.txt"), "edited since\n");
    // A link in the way is never followed.
    fs::remove_file(project.path().join("src/a.txt")).unwrap();
    fs::write(project.beside("outside"), "x\n").unwrap();
    symlink(project.beside("outside"), project.path().join("src/a.txt")).unwrap();
    assert_eq!(project.run(["revert", &run, "src/a.txt"]).code, Some(9));
    assert_eq!(fs::read_to_string(project.beside("outside")).unwrap(), "x\n");
}

/// The contents outlive the worktree, and another checkout can take them.
#[test]
fn changes_outlive_worktree() {
    let project = prepare();
    project.git(&["stash", "--quiet", "--include-untracked"]);
    let mut command = project.command();
    command.args([
        "--json",
        "-q",
        "run",
        "--worktree",
        "--no-scope",
        "--task-id",
        "T-1",
        "Do it.",
        "--",
        "sh",
        "-c",
    ]);
    let ran = run_command(command.arg("echo four >> src/a.txt; echo new > new.txt")).expect_code(0);
    let (run, worktree) = (ran.run_id(), ran.json()["worktree"].as_str().unwrap().to_owned());
    project.git(&["worktree", "remove", "--force", &worktree]);
    let patch = project.run(["show", &run, "--diff"]).out();
    assert!(patch.contains("+four\n") && patch.contains("+new\n"), "{patch}");
    // The project has none of the changes yet, and takes them back later.
    project.run(["revert", &run]).expect_code(0);
    for _ in 0..2 {
        assert_eq!(project.read("src/a.txt"), "one\ntwo\nthree\n");
        project.run(["apply", &run]).expect_code(0);
        assert_eq!(project.read("src/a.txt"), "one\ntwo\nthree\nfour\n");
        project.run(["revert", &run]).expect_code(0);
        assert!(!project.path().join("new.txt").exists());
    }
    project.run(["apply", &run]).expect_code(0);
    assert_eq!(project.read("src/a.txt"), "one\ntwo\nthree\nfour\n");
    assert_eq!(project.read("new.txt"), "new\n");
    // Another attempt is compared with this one.
    let second = run_script(&project, "echo five >> src/a.txt").expect_code(0).run_id();
    let between = project.run(["diff", &run, &second, "--code"]).out();
    assert!(between.contains("+five\n") && !between.contains("+four\n"), "{between}");
}

/// Files with secrets, large files and binary files are kept by their digests alone, and the commands say so.
#[test]
fn unkept_contents_are_named() {
    let project = prepare();
    let secret = concat!("ghp_", "Tz5Xw8Qn3Lk9Vb7Rm2Pd6Hs4Gj1Fc0Ya8Ue5");
    // The secret is not whole in the command line, which is recorded.
    let (first, rest) = secret.split_at(4);
    let script = format!(
        "echo {first}''{rest} > token.txt; head -c 1100000 /dev/zero | tr '\\0' x > large.txt; printf '\\377' > b"
    );
    let run = run_script(&project, &script).expect_code(0).run_id();
    let json = project.run(["--json", "show", &run, "--diff"]).json();
    let reasons: Vec<&str> = json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["reason"]["code"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["binary", "large", "secret"]);
    let exported = project.run(["export", "--all"]).out();
    assert!(!exported.contains(secret) && exported.contains("\"changed\""));
    // A new file can be removed without its contents, but not made again.
    project.run(["revert", &run]).expect_code(0);
    let refused = project.run(["apply", &run]);
    assert_eq!(refused.code, Some(9));
    for reason in ["it is not UTF-8 text", "it is larger than 1 MiB", "it contains a secret"] {
        assert!(refused.err().contains(reason), "{}", refused.err());
    }
    project.write(".callsheet/config.toml", "keep_changes = false\n");
    project.run(["trust", "--yes"]).expect_code(0);
    let run = run_script(&project, "echo kept not > src/a.txt").expect_code(0).run_id();
    let none = project.run(["show", &run, "--diff"]);
    assert_eq!(none.code, Some(9));
    assert!(none.err().contains("the contents of its changed files were not kept"), "{}", none.err());
}

/// An export carries the contents, and an import brings them back.
#[test]
fn contents_are_exported_and_verified() {
    let project = prepare();
    let run = run_script(&project, SCRIPT).expect_code(0).run_id();
    let patch = project.run(["show", &run, "--diff"]).out();
    for scope in [vec!["export", "--all"], vec!["export", &run]] {
        let exported = project.run(&scope).out();
        let other = RunProject::new();
        other.write("export.jsonl", &exported);
        other.run(["import", "export.jsonl"]).expect_code(0);
        assert_eq!(other.run(["--all-projects", "show", &run, "--diff"]).out(), patch, "{scope:?}");
        other.run(["--all-projects", "verify", "--all"]).expect_code(0);
    }
}

/// While a run works in the checkout, nothing else is written there.
#[test]
fn working_run_prevents_revert() {
    let project = prepare();
    let run = run_script(&project, "echo x > src/a.txt").expect_code(0).run_id();
    let script = format!("'{}' -C . revert {run} 2> said; exit 0", callsheet_program().display());
    run_script(&project, &script).expect_code(0);
    assert!(project.read("said").contains("is working in"), "{}", project.read("said"));
    assert_eq!(project.read("src/a.txt"), "x\n");
}
