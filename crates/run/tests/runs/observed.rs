//! What a run changed is told from git, whatever the agent does to hide it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use callsheet_core::fact::{Change, Observed, Reason};
use callsheet_core::scope::Scope;
use callsheet_run::{Before, Git, OwnFiles, worktree};

use crate::support::{Repository, agent, git, job, run};

/// What is observed of `work` in a repository, under a scope.
fn observed(repository: &Repository, write: &[&str], exclude: &[&str], work: impl FnOnce()) -> Observed {
    let before = Before::look(&repository.top(), &OwnFiles::default(), &Arc::default()).unwrap();
    work();
    let all = |globs: &[&str]| globs.iter().map(ToString::to_string).collect();
    before.observe(&Scope { write: all(write), exclude: all(exclude) })
}

fn changed(observed: &Observed) -> Vec<(&str, Change)> {
    observed.changed.iter().map(|file| (file.path.as_str(), file.change)).collect()
}

fn violations(observed: &Observed) -> Vec<(&str, Reason)> {
    observed.violations.iter().map(|violation| (violation.path.as_str(), violation.reason)).collect()
}

#[test]
fn nothing_is_nothing() {
    let repository = Repository::new();
    repository.write("dirty.txt", "before");
    repository.write("README.md", "dirty before");
    repository.write("x.log", "ignored before");
    let seen = observed(&repository, &["src/**"], &[], || {});
    assert_eq!((changed(&seen), violations(&seen), &seen.unseen), (vec![], vec![], &vec![]));
    assert_eq!(
        (seen.dirty_before, seen.dirty_after, seen.head_before == seen.head_after),
        (true, true, true)
    );
}

#[test]
fn every_kind_of_change_is_told() {
    let repository = Repository::new();
    for path in ["gone.txt", "moved.txt", "kept.txt"] {
        repository.write(path, &format!("the contents of {path}, long enough to be known again\n"));
    }
    repository.commit();
    repository.write("was.txt", "untracked");
    let top = repository.top();
    let seen = observed(&repository, &["src/**"], &["src/secret/**"], || {
        fs::write(top.join("src/a.rs"), "changed").unwrap();
        fs::write(top.join("src/new.rs"), "new").unwrap();
        fs::create_dir(top.join("src/secret")).unwrap();
        fs::write(top.join("src/secret/key"), "new").unwrap();
        fs::remove_file(top.join("gone.txt")).unwrap();
        git(&top, &["mv", "moved.txt", "src/moved.txt"]);
        fs::set_permissions(top.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(top.join("was.txt"), "changed").unwrap();
        fs::write(top.join("new.log"), "ignored").unwrap();
        fs::write(top.join("strange \n name"), "new").unwrap();
        git(&top, &["add", "src/new.rs"]);
    });
    assert_eq!(
        changed(&seen),
        [
            ("gone.txt", Change::Deleted),
            ("new.log", Change::Ignored),
            ("run.sh", Change::Mode),
            ("src/a.rs", Change::Modified),
            ("src/moved.txt", Change::Renamed),
            ("src/new.rs", Change::Added),
            ("src/secret/key", Change::Untracked),
            ("strange \n name", Change::Untracked),
            ("was.txt", Change::Modified),
        ]
    );
    assert_eq!(seen.changed[4].from.as_deref(), Some("moved.txt"));
    let outside = Reason::OutsideWrite;
    assert_eq!(
        violations(&seen),
        [
            ("gone.txt", outside),
            ("moved.txt", outside),
            ("run.sh", outside),
            ("src/secret/key", Reason::Excluded),
            ("strange \n name", outside),
            ("was.txt", outside),
        ]
    );
}

#[test]
fn what_is_committed_is_changed_as_well() {
    let repository = Repository::new();
    let seen = observed(&repository, &["src/**"], &[], || {
        repository.write("README.md", "changed");
        repository.write("src/a.rs", "changed");
        repository.commit();
    });
    assert_eq!(changed(&seen), [("README.md", Change::Modified), ("src/a.rs", Change::Modified)]);
    assert_eq!(violations(&seen), [("README.md", Reason::OutsideWrite)]);
    assert_eq!((seen.head_before == seen.head_after, seen.dirty_after), (false, false));
}

#[test]
fn dirty_work_that_is_undone_is_a_change() {
    let repository = Repository::new();
    repository.write("README.md", "dirty");
    repository.write("note.txt", "untracked");
    let seen = observed(&repository, &["src/**"], &[], || {
        repository.git(&["checkout", "-q", "README.md"]);
        fs::remove_file(repository.top().join("note.txt")).unwrap();
    });
    assert_eq!(changed(&seen), [("README.md", Change::Modified), ("note.txt", Change::Deleted)]);
    assert_eq!((seen.dirty_before, seen.dirty_after), (true, false));
}

#[test]
fn ignored_files_violate_only_what_is_excluded() {
    let repository = Repository::new();
    let seen = observed(&repository, &["src/**"], &["secrets.log"], || {
        repository.write("target/debug/x", "built");
        repository.write("secrets.log", "leaked");
    });
    assert_eq!(changed(&seen), [("secrets.log", Change::Ignored), ("target/", Change::Ignored)]);
    assert_eq!(violations(&seen), [("secrets.log", Reason::Excluded)]);
}

#[test]
fn writing_through_a_link_is_seen() {
    let repository = Repository::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file"), "before").unwrap();
    symlink(elsewhere.path().join("file"), repository.top().join("old-link")).unwrap();
    repository.commit();
    let top = repository.top();
    let path = |path: &str| top.join(path).display().to_string();
    let outside = elsewhere.path().display().to_string();
    let seen = observed(&repository, &["src/**"], &[], || {
        // To a file of the repository that is out of scope, to a folder outside, and by a link that was there.
        agent(&["link", "../README.md", &path("src/l"), "write", &path("src/l")]);
        agent(&["link", &outside, &path("src/out"), "write", &path("src/out/x")]);
        agent(&["append", &path("old-link")]);
    });
    assert_eq!(
        changed(&seen),
        [("README.md", Change::Modified), ("src/l", Change::Untracked), ("src/out", Change::Untracked)]
    );
    assert_eq!(
        violations(&seen),
        [
            ("README.md", Reason::OutsideWrite),
            ("old-link", Reason::LeadsOutside),
            ("src/out", Reason::LeadsOutside)
        ]
    );
}

#[test]
fn the_repository_itself_is_looked_at_and_never_obeyed() {
    let repository = Repository::new();
    let top = repository.top();
    let trap = top.parent().unwrap().join("trapped");
    let evil = format!("touch {}", trap.display());
    let seen = observed(&repository, &["**"], &[], || {
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
        changed(&seen),
        [
            (".git/config", Change::Repository),
            (".git/hooks/pre-commit", Change::Repository),
            (".git/info/attributes", Change::Repository),
            ("src/a.rs", Change::Modified),
        ]
    );
    assert_eq!(
        violations(&seen),
        [".git/config", ".git/hooks/pre-commit", ".git/info/attributes"]
            .map(|path| (path, Reason::OutsideWrite))
    );
}

#[test]
fn repositories_in_the_repository_hide_nothing() {
    let repository = Repository::new();
    let top = repository.top();
    repository.write("nested/old.txt", "old");
    git(&top.join("nested"), &["init", "-q"]);
    let seen = observed(&repository, &["src/**"], &[], || {
        repository.write("nested/new.txt", "new");
        git(&top.join("src/inner"), &["init", "-q"]);
        repository.write("src/inner/x.txt", "new");
    });
    // What git puts into a new repository depends on its version and templates; all of it is git's.
    let is_gits = |path: &str| path.split('/').any(|part| part == ".git");
    let files: Vec<_> = changed(&seen).into_iter().filter(|(path, _)| !is_gits(path)).collect();
    assert_eq!(files, [("nested/new.txt", Change::Untracked), ("src/inner/x.txt", Change::Untracked)]);
    let violated: Vec<_> = violations(&seen).into_iter().filter(|(path, _)| !is_gits(path)).collect();
    assert_eq!(violated, [("nested/new.txt", Reason::OutsideWrite)]);
    let of_git: Vec<_> =
        changed(&seen).into_iter().filter(|(path, _)| is_gits(path)).map(|(path, _)| path).collect();
    assert!(
        of_git.contains(&"src/inner/.git/config")
            && of_git.iter().all(|path| path.starts_with("src/inner/.git/"))
    );
    let outside: Vec<_> = violations(&seen).into_iter().filter(|(path, _)| is_gits(path)).collect();
    assert_eq!(outside, of_git.iter().map(|path| (*path, Reason::OutsideWrite)).collect::<Vec<_>>());
}

#[test]
fn submodules_are_told() {
    let other = Repository::new();
    let repository = Repository::new();
    let source = other.top().display().to_string();
    repository.git(&["submodule", "add", "-q", &source, "lib"]);
    repository.commit();
    let seen = observed(&repository, &["src/**"], &[], || {
        fs::write(repository.top().join("lib/README.md"), "changed").unwrap();
    });
    assert_eq!(changed(&seen), [("lib", Change::Submodule)]);
    assert_eq!(violations(&seen), [("lib", Reason::OutsideWrite)]);
}

#[test]
fn a_worktree_that_is_gone_is_a_violation() {
    let repository = Repository::new();
    let top = repository.top();
    let seen = observed(&repository, &["**"], &[], || {
        let mut job = job(&["remove-all", top.to_str().unwrap()]);
        job.cwd = top.clone();
        run(&job);
    });
    assert_eq!(changed(&seen), [(".", Change::Deleted)]);
    assert_eq!((violations(&seen), seen.unseen.len()), (vec![(".", Reason::OutsideWrite)], 1));
}

#[test]
fn before_the_first_commit_everything_is_new() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    let before = Before::look(dir.path(), &OwnFiles::default(), &Arc::default()).unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    let seen = before.observe(&Scope::default());
    assert_eq!(
        (changed(&seen), &seen.head_after, seen.dirty_after),
        (vec![("a", Change::Untracked)], &None, true)
    );
}

#[test]
fn a_task_has_one_worktree_and_keeps_its_work() {
    let repository = Repository::new();
    let home = repository.dir.path().join("trees");
    let git = Git::at(&repository.top()).unwrap().unwrap();
    let first = worktree(&git, &home, "T-1").unwrap();
    assert_eq!(
        (first.path.clone(), first.branch.as_str(), first.fresh),
        (home.join("T-1"), "callsheet/T-1", true)
    );
    fs::write(first.path.join("work.txt"), "not committed").unwrap();
    let second = worktree(&git, &home, "T-1").unwrap();
    assert_eq!(
        (second.path.canonicalize().unwrap(), second.fresh),
        (first.path.canonicalize().unwrap(), false)
    );
    assert_eq!(fs::read_to_string(first.path.join("work.txt")).unwrap(), "not committed");
    // Hostile names stay below the folder, and are no flags.
    for task in ["--force", "../../x", "-b", "a b", "x.lock", "@{-1}"] {
        let made = worktree(&git, &home, task).unwrap();
        assert_eq!(made.path.parent(), Some(home.as_path()));
        assert!(
            made.path.join("README.md").exists() && made.branch.starts_with("callsheet/task-"),
            "{made:?}"
        );
    }
    // A folder that somebody removed is made again on the same branch; one that is something else is left alone.
    fs::remove_dir_all(home.join("T-1")).unwrap();
    assert!(worktree(&git, &home, "T-1").unwrap().fresh);
    fs::create_dir_all(home.join("T-2")).unwrap();
    fs::write(home.join("T-2/mine"), "mine").unwrap();
    assert!(worktree(&git, &home, "T-2").is_err());
    assert_eq!(fs::read_to_string(home.join("T-2/mine")).unwrap(), "mine");
    // What is done there is seen there, and hooks that all worktrees share are too.
    let before = Before::look(&first.path, &OwnFiles::default(), &Arc::default()).unwrap();
    fs::write(first.path.join("README.md"), "changed").unwrap();
    repository.write(".git/hooks/post-checkout", "#!/bin/sh\n");
    let seen = before.observe(&Scope { write: vec!["README.md".into()], exclude: Vec::new() });
    assert_eq!(violations(&seen), [(".git/hooks/post-checkout", Reason::OutsideWrite)]);
    assert_eq!(changed(&seen)[1], ("README.md", Change::Modified));
}

#[test]
fn packing_of_repository_changes_nothing() {
    let repository = Repository::new();
    let seen = observed(&repository, &["src/**"], &[], || {
        repository.git(&["gc", "--quiet"]);
        repository.git(&["update-server-info"]);
    });
    assert!(repository.top().join(".git/info/refs").exists());
    assert_eq!((changed(&seen), violations(&seen), &seen.unseen), (vec![], vec![], &vec![]));
}

/// The facts of an old record, which said in a sentence what was not seen, can be read; so can a look that was kept.
#[test]
fn what_was_kept_is_read_again() {
    let old = serde_json::json!({ "unseen": ["`x` holds more than 50000 files"] });
    let old: Observed = serde_json::from_value(old).unwrap();
    assert_eq!(old.unseen, [callsheet_core::fact::Unseen::new(".", "`x` holds more than 50000 files")]);

    let repository = Repository::new();
    repository.write("note.txt", "untracked");
    repository.write("x.log", "ignored");
    symlink("README.md", repository.top().join("link")).unwrap();
    let before = Before::look(&repository.top(), &OwnFiles::default(), &Arc::default()).unwrap();
    let kept = serde_json::to_string(&before).unwrap();
    let before: Before = serde_json::from_str(&kept).unwrap();
    let nothing = before.observe(&Scope::default());
    assert_eq!((changed(&nothing), &nothing.unseen, nothing.dirty_after), (vec![], &vec![], true));
    repository.write("note.txt", "UNTRACKED");
    repository.write("src/a.rs", "fn b() {}\n");
    repository.git(&["update-index", "--assume-unchanged", "src/a.rs"]);
    assert_eq!(
        changed(&before.observe(&Scope::default())),
        [
            (".git/index:assume-unchanged:src/a.rs", Change::Repository),
            ("note.txt", Change::Modified),
            ("src/a.rs", Change::Modified)
        ]
    );
}

/// Whether work is left is asked of the commit that is checked out, by way of no index that an agent has written.
#[test]
fn what_is_dirty_is_not_asked_of_the_index() {
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
        let repository = Repository::new();
        let seen = observed(&repository, &[], &[], || {
            for line in script {
                match line.strip_prefix("! ") {
                    Some(path) => repository.write(path, "changed"),
                    None => drop(repository.git(&line.split(' ').collect::<Vec<_>>())),
                }
            }
        });
        assert_eq!((seen.dirty_before, seen.dirty_after), (false, dirty), "{script:?}");
    }
}

/// What is ignored is asked of the rules from before the run, and an excluded file in an ignored folder is found.
#[test]
fn ignore_rules_are_those_from_before() {
    let repository = Repository::new();
    repository.write("sub/.gitignore", "*.tmp\n!keep.tmp\n");
    repository.write("target/old", "old");
    repository.commit();
    repository.git(&["add", "-f", "target/old"]);
    repository.git(&["commit", "-q", "-m", "tracked in an ignored folder"]);
    let seen = observed(&repository, &["src/**"], &["target/secret/**"], || {
        repository.write(".gitignore", "*\n");
        repository.write("sub/x.tmp", "ignored");
        repository.write("sub/keep.tmp", "not ignored");
        repository.write("hidden.txt", "ignored by the new rule alone");
        repository.write("target/old", "new");
        repository.write("target/debug/x", "built");
        repository.write("target/secret/x", "excluded");
    });
    assert_eq!(
        changed(&seen),
        [
            (".gitignore", Change::Modified),
            ("hidden.txt", Change::Untracked),
            ("sub/keep.tmp", Change::Untracked),
            ("sub/x.tmp", Change::Ignored),
            ("target/", Change::Ignored),
            ("target/old", Change::Modified),
        ]
    );
    let outside = |path| (path, Reason::OutsideWrite);
    assert_eq!(
        violations(&seen),
        [
            outside(".gitignore"),
            outside("hidden.txt"),
            outside("sub/keep.tmp"),
            ("target/", Reason::Excluded),
            outside("target/old"),
        ]
    );
}
