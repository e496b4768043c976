//! Tests that the changes of a run are observed, whatever the agent does to hide them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use callsheet_core::record::ContentIds;
use callsheet_core::request::fact::{ChangeKind, UnseenPath, ViolationReason, WorktreeObservation};
use callsheet_core::request::scope::Scope;
use callsheet_run::{Git, OwnFiles, WorktreeSnapshot, ensure_worktree, read_content_ids};
use callsheet_testing::{TestProject, git};

use crate::support::{create_repository, job, run, run_agent};

/// Returns the observation of `work` in a repository, under a scope.
fn observe(
    repository: &TestProject,
    write: &[&str],
    exclude: &[&str],
    work: impl FnOnce(),
) -> WorktreeObservation {
    let before = WorktreeSnapshot::take(repository.path(), &OwnFiles::default(), &Arc::default()).unwrap();
    work();
    let all = |globs: &[&str]| globs.iter().map(ToString::to_string).collect();
    before.diff(&Scope { write: all(write), exclude: all(exclude) }, &[])
}

fn changed_paths(observed: &WorktreeObservation) -> Vec<(&str, ChangeKind)> {
    observed.changed.iter().map(|file| (file.path.as_str(), file.change)).collect()
}

fn violations(observed: &WorktreeObservation) -> Vec<(&str, ViolationReason)> {
    observed.violations.iter().map(|violation| (violation.path.as_str(), violation.reason)).collect()
}

#[test]
fn no_work_is_no_change() {
    let repository = create_repository();
    repository.write("dirty.txt", "before");
    repository.write("README.md", "dirty before");
    repository.write("x.log", "ignored before");
    let seen = observe(&repository, &["src/**"], &[], || {});
    assert_eq!((changed_paths(&seen), violations(&seen), &seen.unseen), (vec![], vec![], &vec![]));
    assert_eq!(
        (seen.dirty_before, seen.dirty_after, seen.head_before == seen.head_after),
        (true, true, true)
    );
}

#[test]
fn overlong_ignore_rules_are_unseen() {
    let repository = create_repository();
    repository.write("src/.gitignore", format!("*.tmp\n#{}\n", "x".repeat(1 << 20)));
    repository.commit();
    let top = repository.path();
    let seen = observe(&repository, &["src/**"], &[], || fs::write(top.join("src/a.tmp"), "x").unwrap());
    let why = "its rules are longer than 1048576 bytes".to_owned();
    assert_eq!(seen.unseen, [UnseenPath { path: "src/.gitignore".into(), why, before: true }]);
    assert_eq!(changed_paths(&seen), [("src/a.tmp", ChangeKind::Untracked)], "no part of the rules counts");
}

#[test]
fn every_kind_of_change_is_observed() {
    let repository = create_repository();
    for path in ["gone.txt", "moved.txt", "kept.txt"] {
        repository.write(path, format!("the contents of {path}, long enough to be known again\n"));
    }
    repository.commit();
    repository.write("was.txt", "untracked");
    let top = repository.path();
    let seen = observe(&repository, &["src/**"], &["src/secret/**"], || {
        fs::write(top.join("src/a.rs"), "changed").unwrap();
        fs::write(top.join("src/new.rs"), "new").unwrap();
        fs::create_dir(top.join("src/secret")).unwrap();
        fs::write(top.join("src/secret/key"), "new").unwrap();
        fs::remove_file(top.join("gone.txt")).unwrap();
        git(top, &["mv", "moved.txt", "src/moved.txt"]);
        fs::set_permissions(top.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(top.join("was.txt"), "changed").unwrap();
        fs::write(top.join("new.log"), "ignored").unwrap();
        fs::write(top.join("strange \n name"), "new").unwrap();
        git(top, &["add", "src/new.rs"]);
    });
    assert_eq!(
        changed_paths(&seen),
        [
            ("gone.txt", ChangeKind::Deleted),
            ("new.log", ChangeKind::Ignored),
            ("run.sh", ChangeKind::Mode),
            ("src/a.rs", ChangeKind::Modified),
            ("src/moved.txt", ChangeKind::Renamed),
            ("src/new.rs", ChangeKind::Added),
            ("src/secret/key", ChangeKind::Untracked),
            ("strange \n name", ChangeKind::Untracked),
            ("was.txt", ChangeKind::Modified),
        ]
    );
    assert_eq!(seen.changed[4].from.as_deref(), Some("moved.txt"));
    let outside = ViolationReason::OutsideWrite;
    assert_eq!(
        violations(&seen),
        [
            ("gone.txt", outside),
            ("moved.txt", outside),
            ("run.sh", outside),
            ("src/secret/key", ViolationReason::Excluded),
            ("strange \n name", outside),
            ("was.txt", outside),
        ]
    );
}

#[test]
fn committed_files_count_as_changed() {
    let repository = create_repository();
    let seen = observe(&repository, &["src/**"], &[], || {
        repository.write("README.md", "changed");
        repository.write("src/a.rs", "changed");
        repository.commit();
    });
    assert_eq!(
        changed_paths(&seen),
        [("README.md", ChangeKind::Modified), ("src/a.rs", ChangeKind::Modified)]
    );
    assert_eq!(violations(&seen), [("README.md", ViolationReason::OutsideWrite)]);
    assert_eq!((seen.head_before == seen.head_after, seen.dirty_after), (false, false));
}

#[test]
fn undone_dirty_work_is_a_change() {
    let repository = create_repository();
    repository.write("README.md", "dirty");
    repository.write("note.txt", "untracked");
    let seen = observe(&repository, &["src/**"], &[], || {
        repository.git(&["checkout", "-q", "README.md"]);
        fs::remove_file(repository.path().join("note.txt")).unwrap();
    });
    assert_eq!(
        changed_paths(&seen),
        [("README.md", ChangeKind::Modified), ("note.txt", ChangeKind::Deleted)]
    );
    assert_eq!((seen.dirty_before, seen.dirty_after), (true, false));
}

#[test]
fn ignored_files_violate_only_exclusions() {
    let repository = create_repository();
    let seen = observe(&repository, &["src/**"], &["secrets.log"], || {
        repository.write("target/debug/x", "built");
        repository.write("secrets.log", "leaked");
    });
    assert_eq!(
        changed_paths(&seen),
        [("secrets.log", ChangeKind::Ignored), ("target/", ChangeKind::Ignored)]
    );
    assert_eq!(violations(&seen), [("secrets.log", ViolationReason::Excluded)]);
}

#[test]
fn write_through_link_is_seen() {
    let repository = create_repository();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file"), "before").unwrap();
    symlink(elsewhere.path().join("file"), repository.path().join("old-link")).unwrap();
    repository.commit();
    let top = repository.path();
    let path = |path: &str| top.join(path).display().to_string();
    let outside = elsewhere.path().display().to_string();
    let seen = observe(&repository, &["src/**"], &[], || {
        // To a file of the repository that is out of scope, to a folder outside, and by an existing link.
        run_agent(&["link", "../README.md", &path("src/l"), "write", &path("src/l")]);
        run_agent(&["link", &outside, &path("src/out"), "write", &path("src/out/x")]);
        run_agent(&["append", &path("old-link")]);
    });
    assert_eq!(
        changed_paths(&seen),
        [
            ("README.md", ChangeKind::Modified),
            ("src/l", ChangeKind::Untracked),
            ("src/out", ChangeKind::Untracked)
        ]
    );
    assert_eq!(
        violations(&seen),
        [
            ("README.md", ViolationReason::OutsideWrite),
            ("old-link", ViolationReason::LeadsOutside),
            ("src/out", ViolationReason::LeadsOutside)
        ]
    );
}

#[test]
fn repository_settings_are_observed_not_obeyed() {
    let repository = create_repository();
    let top = repository.path();
    let trap = top.parent().unwrap().join("trapped");
    let evil = format!("touch {}", trap.display());
    let seen = observe(&repository, &["**"], &[], || {
        repository.write(".git/hooks/pre-commit", "#!/bin/sh\n");
        repository.write(".git/info/attributes", "* filter=evil diff=evil\n");
        for (key, value) in [
            ("filter.evil.clean", evil.as_str()),
            ("filter.evil.process", &evil),
            ("filter.evil.required", "true"),
            ("core.fsmonitor", &evil),
            ("diff.evil.textconv", &evil),
            ("diff.external", &evil),
            ("core.pager", &evil),
        ] {
            repository.git(&["config", key, value]);
        }
        fs::write(top.join("src/a.rs"), "changed").unwrap();
    });
    assert!(!trap.exists(), "something of the repository was executed");
    assert_eq!(
        changed_paths(&seen),
        [
            (".git/config", ChangeKind::Repository),
            (".git/hooks/pre-commit", ChangeKind::Repository),
            (".git/info/attributes", ChangeKind::Repository),
            ("src/a.rs", ChangeKind::Modified),
        ]
    );
    assert_eq!(
        violations(&seen),
        [".git/config", ".git/hooks/pre-commit", ".git/info/attributes"]
            .map(|path| (path, ViolationReason::OutsideWrite))
    );
}

#[test]
fn nested_repositories_hide_nothing() {
    let repository = create_repository();
    let top = repository.path();
    repository.write("nested/old.txt", "old");
    git(&top.join("nested"), &["init", "-q"]);
    let seen = observe(&repository, &["src/**"], &[], || {
        repository.write("nested/new.txt", "new");
        git(top, &["init", "-q", "src/inner"]);
        repository.write("src/inner/x.txt", "new");
    });
    // The contents of a new repository depend on git's version and templates; all of them are git's.
    let is_gits = |path: &str| path.split('/').any(|part| part == ".git");
    let files: Vec<_> = changed_paths(&seen).into_iter().filter(|(path, _)| !is_gits(path)).collect();
    assert_eq!(
        files,
        [("nested/new.txt", ChangeKind::Untracked), ("src/inner/x.txt", ChangeKind::Untracked)]
    );
    let violated: Vec<_> = violations(&seen).into_iter().filter(|(path, _)| !is_gits(path)).collect();
    assert_eq!(violated, [("nested/new.txt", ViolationReason::OutsideWrite)]);
    let of_git: Vec<_> =
        changed_paths(&seen).into_iter().filter(|(path, _)| is_gits(path)).map(|(path, _)| path).collect();
    assert!(
        of_git.contains(&"src/inner/.git/config")
            && of_git.iter().all(|path| path.starts_with("src/inner/.git/"))
    );
    let outside: Vec<_> = violations(&seen).into_iter().filter(|(path, _)| is_gits(path)).collect();
    assert_eq!(outside, of_git.iter().map(|path| (*path, ViolationReason::OutsideWrite)).collect::<Vec<_>>());
}

#[test]
fn submodule_change_is_observed() {
    let other = create_repository();
    let repository = create_repository();
    let source = other.path().display().to_string();
    repository.git(&["submodule", "add", "-q", &source, "lib"]);
    repository.commit();
    let seen = observe(&repository, &["src/**"], &[], || {
        fs::write(repository.path().join("lib/README.md"), "changed").unwrap();
    });
    assert_eq!(changed_paths(&seen), [("lib", ChangeKind::Submodule)]);
    assert_eq!(violations(&seen), [("lib", ViolationReason::OutsideWrite)]);
}

#[test]
fn removed_worktree_is_a_violation() {
    let repository = create_repository();
    let top = repository.path();
    let seen = observe(&repository, &["**"], &[], || {
        let mut job = job(&["remove-all", top.to_str().unwrap()]);
        job.cwd = top.to_owned();
        run(&job);
    });
    assert_eq!(changed_paths(&seen), [(".", ChangeKind::Deleted)]);
    assert_eq!((violations(&seen), seen.unseen.len()), (vec![(".", ViolationReason::OutsideWrite)], 1));
}

#[test]
fn everything_before_first_commit_is_new() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    let before = WorktreeSnapshot::take(dir.path(), &OwnFiles::default(), &Arc::default()).unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    let seen = before.diff(&Scope::default(), &[]);
    assert_eq!(
        (changed_paths(&seen), &seen.head_after, seen.dirty_after),
        (vec![("a", ChangeKind::Untracked)], &None, true)
    );
}

#[test]
fn task_worktree_is_reused() {
    let repository = create_repository();
    let home = repository.beside("trees");
    let git = Git::open(repository.path()).unwrap().unwrap();
    let first = ensure_worktree(&git, &home, "T-1").unwrap();
    assert_eq!(
        (first.path.clone(), first.branch.as_str(), first.fresh),
        (home.join("T-1"), "callsheet/T-1", true)
    );
    fs::write(first.path.join("work.txt"), "not committed").unwrap();
    let second = ensure_worktree(&git, &home, "T-1").unwrap();
    assert_eq!(
        (second.path.canonicalize().unwrap(), second.fresh),
        (first.path.canonicalize().unwrap(), false)
    );
    assert_eq!(fs::read_to_string(first.path.join("work.txt")).unwrap(), "not committed");
    // Hostile names stay below the folder, and are not flags.
    for task in ["--force", "../../x", "-b", "a b", "x.lock", "@{-1}"] {
        let made = ensure_worktree(&git, &home, task).unwrap();
        assert_eq!(made.path.parent(), Some(home.as_path()));
        assert!(
            made.path.join("README.md").exists() && made.branch.starts_with("callsheet/task-"),
            "{made:?}"
        );
    }
    // A removed folder is created again on the same branch; a folder that is something else is left alone.
    fs::remove_dir_all(home.join("T-1")).unwrap();
    assert!(ensure_worktree(&git, &home, "T-1").unwrap().fresh);
    fs::create_dir_all(home.join("T-2")).unwrap();
    fs::write(home.join("T-2/mine"), "mine").unwrap();
    assert!(ensure_worktree(&git, &home, "T-2").is_err());
    assert_eq!(fs::read_to_string(home.join("T-2/mine")).unwrap(), "mine");
    // Changes in the worktree are seen there, and so are hooks that all worktrees share.
    let before = WorktreeSnapshot::take(&first.path, &OwnFiles::default(), &Arc::default()).unwrap();
    fs::write(first.path.join("README.md"), "changed").unwrap();
    repository.write(".git/hooks/post-checkout", "#!/bin/sh\n");
    let seen = before.diff(&Scope { write: vec!["README.md".into()], exclude: Vec::new() }, &[]);
    assert_eq!(violations(&seen), [(".git/hooks/post-checkout", ViolationReason::OutsideWrite)]);
    assert_eq!(changed_paths(&seen)[1], ("README.md", ChangeKind::Modified));
}

#[test]
fn repository_gc_is_no_change() {
    let repository = create_repository();
    let seen = observe(&repository, &["src/**"], &[], || {
        repository.git(&["gc", "--quiet"]);
        repository.git(&["update-server-info"]);
    });
    assert!(repository.path().join(".git/info/refs").exists());
    assert_eq!((changed_paths(&seen), violations(&seen), &seen.unseen), (vec![], vec![], &vec![]));
}

/// Reads an old record, whose unseen paths are a sentence, and a snapshot that was kept.
#[test]
fn old_observation_and_snapshot_are_readable() {
    let old = serde_json::json!({ "unseen": ["`x` holds more than 50000 files"] });
    let old: WorktreeObservation = serde_json::from_value(old).unwrap();
    assert_eq!(
        old.unseen,
        [callsheet_core::request::fact::UnseenPath::new(".", "`x` holds more than 50000 files")]
    );

    let repository = create_repository();
    repository.write("note.txt", "untracked");
    repository.write("x.log", "ignored");
    symlink("README.md", repository.path().join("link")).unwrap();
    let before = WorktreeSnapshot::take(repository.path(), &OwnFiles::default(), &Arc::default()).unwrap();
    let kept = serde_json::to_string(&before).unwrap();
    let before: WorktreeSnapshot = serde_json::from_str(&kept).unwrap();
    let nothing = before.diff(&Scope::default(), &[]);
    assert_eq!((changed_paths(&nothing), &nothing.unseen, nothing.dirty_after), (vec![], &vec![], true));
    repository.write("note.txt", "UNTRACKED");
    repository.write("src/a.rs", "fn b() {}\n");
    repository.git(&["update-index", "--assume-unchanged", "src/a.rs"]);
    assert_eq!(
        changed_paths(&before.diff(&Scope::default(), &[])),
        [
            (".git/index:assume-unchanged:src/a.rs", ChangeKind::Repository),
            ("note.txt", ChangeKind::Modified),
            ("src/a.rs", ChangeKind::Modified)
        ]
    );
}

/// The checked-out commit decides whether work is left, and no index that an agent has written.
#[test]
fn dirty_check_ignores_agents_index() {
    for (script, dirty) in [
        (&[][..], false),
        (&["update-index --assume-unchanged README.md", "! README.md"][..], true),
        (&["update-index --skip-worktree README.md", "! README.md"], true),
        (&["! README.md", "commit -qam x"], false),
        (&["! new.txt", "add -A", "commit -qm x"], false),
        (&["! new.txt", "add -A"], true),
        (&["! new.txt"], true),
        (&["! x.log"], false),
        (&["! README.md", "commit -qam x", "checkout -q HEAD~1 -- README.md"], true),
        (&["rm -q README.md", "commit -qm x"], false),
        (&["rm -q --cached README.md"], false),
        (&["checkout -q --detach"], false),
    ] {
        let repository = create_repository();
        let seen = observe(&repository, &[], &[], || {
            for line in script {
                match line.strip_prefix("! ") {
                    Some(path) => drop(repository.write(path, "changed")),
                    None => drop(repository.git(&line.split(' ').collect::<Vec<_>>())),
                }
            }
        });
        assert_eq!((seen.dirty_before, seen.dirty_after), (false, dirty), "{script:?}");
    }
}

/// The next commit would take these contents, and no file shows them.
#[test]
fn staged_only_contents_are_a_change() {
    let staged = |path: &str| format!(".git/index:staged:{path}");
    let (readme, new, odd) = (staged("README.md"), staged("new.txt"), staged("a\"b"));
    for (script, paths) in [
        (&["! README.md", "add -A", "restore README.md --source=HEAD"][..], vec![&readme]),
        (&["! new.txt", "add -A", "- new.txt"], vec![&new]),
        (&["! a\"b", "add -A", "- a\"b"], vec![&odd]),
        (&["rm -q --cached README.md"], vec![&readme]),
        (&["update-index --chmod=+x README.md"], vec![&readme]),
        // The file shows it, or a commit has it.
        (&["! README.md", "add -A"], vec![]),
        (&["! new.txt", "add -A", "commit -qm x"], vec![]),
        (&["! new.txt", "add -N new.txt"], vec![]),
        (&["rm -q README.md"], vec![]),
        (&["mv README.md moved.md"], vec![]),
        (&["! README.md", "commit -qam x", "reset -q --soft HEAD~1"], vec![]),
        (&["add dirty.txt"], vec![]),
        // The index is as before.
        (
            &[
                "! README.md",
                "commit -qam x",
                "checkout -q HEAD~1 -- README.md",
                "restore README.md --source=HEAD",
            ],
            vec![],
        ),
    ] {
        let repository = create_repository();
        // A person's own contents, staged before, stay theirs.
        repository.write("staged.txt", "one");
        repository.write("dirty.txt", "untracked");
        repository.git(&["add", "staged.txt"]);
        repository.write("staged.txt", "two");
        let seen = observe(&repository, &["src/**"], &[], || {
            for line in script {
                match line.split_at(2) {
                    ("! ", path) => drop(repository.write(path, "changed")),
                    ("- ", path) => fs::remove_file(repository.path().join(path)).unwrap(),
                    _ => drop(repository.git(&line.split(' ').collect::<Vec<_>>())),
                }
            }
        });
        let shown = |path: &&str| path.starts_with(".git/index");
        let found: Vec<&str> = changed_paths(&seen).into_iter().map(|(path, _)| path).filter(shown).collect();
        assert_eq!(found, paths, "{script:?}");
        let outside: Vec<&str> = violations(&seen).into_iter().map(|(path, _)| path).filter(shown).collect();
        assert_eq!((outside, &seen.unseen), (found, &vec![]), "{script:?}");
    }
    // The scope is checked for the file.
    let repository = create_repository();
    let seen = observe(&repository, &["src/**"], &[], || {
        repository.write("src/a.rs", "staged");
        repository.git(&["add", "-A"]);
        repository.write("src/a.rs", "later");
    });
    let both = [(".git/index:staged:src/a.rs", ChangeKind::Repository), ("src/a.rs", ChangeKind::Modified)];
    assert_eq!((changed_paths(&seen), violations(&seen)), (both.to_vec(), vec![]));
    // Many paths are shown as one, and each is judged.
    let seen = observe(&repository, &["src/**"], &[], || {
        (0..101).for_each(|number| drop(repository.write(&format!("n{number}"), "new")));
        repository.git(&["add", "-A"]);
        (0..101).for_each(|number| fs::remove_file(repository.path().join(format!("n{number}"))).unwrap());
    });
    assert_eq!(changed_paths(&seen), [(".git/index:staged", ChangeKind::Repository)]);
    assert_eq!(violations(&seen), [(".git/index:staged", ViolationReason::OutsideWrite)]);
}

/// The rules from before the run decide which files are ignored, and an excluded file in an ignored folder is
/// found.
#[test]
fn ignore_rules_predate_the_run() {
    let repository = create_repository();
    repository.write("sub/.gitignore", "*.tmp\n!keep.tmp\n");
    repository.write("target/old", "old");
    repository.commit();
    repository.git(&["add", "-f", "target/old"]);
    repository.git(&["commit", "-q", "-m", "tracked in an ignored folder"]);
    let seen = observe(&repository, &["src/**"], &["target/secret/**"], || {
        repository.write(".gitignore", "*\n");
        repository.write("sub/x.tmp", "ignored");
        repository.write("sub/keep.tmp", "not ignored");
        repository.write("hidden.txt", "ignored by the new rule alone");
        repository.write("target/old", "new");
        repository.write("target/debug/x", "built");
        repository.write("target/secret/x", "excluded");
    });
    assert_eq!(
        changed_paths(&seen),
        [
            (".gitignore", ChangeKind::Modified),
            ("hidden.txt", ChangeKind::Untracked),
            ("sub/keep.tmp", ChangeKind::Untracked),
            ("sub/x.tmp", ChangeKind::Ignored),
            ("target/", ChangeKind::Ignored),
            ("target/old", ChangeKind::Modified),
        ]
    );
    let outside = |path| (path, ViolationReason::OutsideWrite);
    assert_eq!(
        violations(&seen),
        [
            outside(".gitignore"),
            outside("hidden.txt"),
            outside("sub/keep.tmp"),
            ("target/", ViolationReason::Excluded),
            outside("target/old"),
        ]
    );
}

#[test]
fn content_ids_include_file_modes() {
    let repository = create_repository();
    let top = repository.path();
    let has = |contents: &ContentIds| Git::open(top).unwrap().unwrap().has_contents(None, contents);
    let observe = |work: &dyn Fn()| {
        let seen = observe(&repository, &[], &[], work);
        read_content_ids(top, &seen.changed).unwrap()
    };
    let executable = observe(&|| {
        fs::set_permissions(top.join("src/a.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    });
    assert!(!has(&executable), "nobody committed it: {executable:?}");
    repository.commit();
    assert!(has(&executable));
    // A link and a file can have the same contents.
    repository.write("same", "README.md");
    repository.commit();
    let link = observe(&|| {
        fs::remove_file(top.join("same")).unwrap();
        symlink("README.md", top.join("same")).unwrap();
    });
    assert!(!has(&link), "nobody committed it: {link:?}");
    repository.commit();
    assert!(has(&link));
    // Older records have no modes.
    let id = |value: &String| value.split(' ').nth(1).unwrap().to_owned();
    let older: ContentIds = link.iter().map(|(path, value)| (path.clone(), value.as_ref().map(id))).collect();
    assert!(has(&older));
    // If the file system does not report modes, they mean nothing.
    repository.git(&["config", "core.fileMode", "false"]);
    let content = observe(&|| drop(repository.write("run.sh", "#!/bin/sh\ntrue\n")));
    assert_eq!(content.values().flatten().filter(|value| value.contains(' ')).count(), 0);
    repository.commit();
    assert!(has(&content));
}

#[test]
fn claimed_worktree_branches_are_elsewhere() {
    let repository = create_repository();
    let top = repository.path();
    let outside = tempfile::tempdir().unwrap();
    let other = outside.path().canonicalize().unwrap().join("other");
    let before = WorktreeSnapshot::take(top, &OwnFiles::default(), &Arc::default()).unwrap();
    git(top, &["worktree", "add", "-q", other.to_str().unwrap(), "-b", "callsheet/x"]);
    fs::write(other.join("README.md"), "theirs").unwrap();
    git(&other, &["commit", "-qam", "theirs"]);
    let scope = Scope { write: vec!["src/**".into()], exclude: Vec::new() };
    let claimed = before.diff(&scope, std::slice::from_ref(&other));
    let own = before.diff(&scope, &[]);
    assert_eq!((claimed.commits[0].elsewhere, violations(&claimed)), (true, vec![]));
    assert_eq!(violations(&own), [("README.md", ViolationReason::OutsideWrite)]);
}

#[test]
fn unfinished_worktree_of_others_is_ignored() {
    let repository = create_repository();
    let top = repository.path();
    let outside = tempfile::tempdir().unwrap();
    let other = outside.path().canonicalize().unwrap().join("other");
    git(top, &["worktree", "add", "-q", other.to_str().unwrap(), "-b", "other"]);
    let commondir = top.join(".git/worktrees/other/commondir");
    let write = |text: &str| fs::write(&commondir, text).unwrap();
    let paths = |work: &dyn Fn()| -> Vec<String> {
        let seen = observe(&repository, &["**"], &[], work);
        seen.changed.into_iter().map(|file| file.path).collect()
    };
    let nothing: [&str; 0] = [];
    for half in ["", "../.."] {
        write(half);
        assert_eq!(paths(&|| write("../..\n")), nothing, "{half:?}");
    }
    // An agent hides nothing in a complete worktree by truncating the file.
    assert_eq!(paths(&|| write("../..")), [".git/worktrees/other/commondir"]);
    write("../..\n");
    let remove = || drop(git(top, &["worktree", "remove", "--force", other.to_str().unwrap()]));
    assert_eq!(paths(&remove), nothing);
}
