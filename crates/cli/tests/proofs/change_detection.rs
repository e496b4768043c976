//! The changes of a run, regardless of the agent's attempts to hide them: every way to change a file under
//! every trick that misleads git, places that cannot be read, commits in other places, and folders without
//! git.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_testing::{CommandOutput, run_command};
use serde_json::Value;

use crate::project::{CanaryProject, run_in_parallel};

fn git(project: &CanaryProject, dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env_clear()
        .env("HOME", project.beside("home"))
        .env("PATH", std::env::var("PATH").unwrap());
    let output = command.args(["-c", "protocol.file.allow=always"]).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every way to change a file. `$F` is the file, which holds `good\n`; `$D` is its folder.
const WAYS: [(&str, &str); 14] = [
    ("as long, with the old time", r#"touch -r "$F" k; printf 'evil\n' > "$F"; touch -r k "$F"; rm k"#),
    ("another file under the name", r#"printf 'evil\n' > k; touch -r "$F" k; mv k "$F""#),
    ("in place", r#"printf evil | dd of="$F" conv=notrunc status=none"#),
    ("by a hard link", r#"ln "$F" h; printf 'evil\n' > h; rm h"#),
    ("longer", r#"echo more >> "$F""#),
    ("empty", r#": > "$F""#),
    ("gone", r#"rm "$F""#),
    ("executable", r#"chmod 755 "$F""#),
    ("a link to what it held", r#"mv "$F" "$D/x"; ln -s x "$F""#),
    ("a folder", r#"rm "$F"; mkdir "$F"; echo evil > "$F/x""#),
    ("a FIFO", r#"rm "$F"; mkfifo "$F""#),
    ("another name", r#"mv "$F" "$D/MOVED""#),
    ("another case", r#"mv "$F" "$D/FILE.TXT""#),
    ("a file beside it", r#"echo new > "$D/new.txt""#),
];

/// Every trick: its name, the script before the files are changed, and the script after.
const TRICKS: [(&str, &str, &str); 46] = [
    ("none", "", ""),
    ("assume-unchanged", "git ls-files -z | git update-index --assume-unchanged -z --stdin", ""),
    ("skip-worktree", "git ls-files -z | git update-index --skip-worktree -z --stdin", ""),
    (
        "fsmonitor-valid",
        "git config core.fsmonitor true; git ls-files -z | git update-index --fsmonitor-valid -z --stdin",
        "",
    ),
    ("split index", "git update-index --split-index", "git add -A ."),
    ("added", "", "git add -A ."),
    ("intent to add", "", "git add -N ."),
    ("nothing tracked", "", "git rm -rq --cached ."),
    ("the commit's contents in the index", "", "git ls-tree -r HEAD | git update-index --index-info"),
    ("no index", "", "rm .git/index"),
    ("garbage for an index", "", "echo garbage > .git/index"),
    ("half an index", "", "head -c 200 .git/index > i; mv i .git/index"),
    ("a FIFO for the index", "", "rm .git/index; mkfifo .git/index"),
    ("a folder for the index", "", "rm .git/index; mkdir .git/index"),
    ("an endless index", "", "ln -sf /dev/zero .git/index"),
    ("a FIFO for HEAD", "", "rm .git/HEAD; mkfifo .git/HEAD"),
    ("a FIFO for the settings", "", "rm .git/config; mkfifo .git/config"),
    (
        "a FIFO that the settings include",
        "",
        "mkfifo .git/x.cfg; printf '[include]\\npath=x.cfg\\n' >> .git/config",
    ),
    (
        "a FIFO that the user's settings include",
        "",
        "mkfifo ~/x.cfg; printf '[includeIf \"gitdir:/\"] path = \"~/x.cfg\"\\n' >> ~/.gitconfig",
    ),
    (
        "a FIFO that an included file includes",
        "",
        "mkfifo ~/y.cfg; git config include.path ../../x.cfg; echo '[INCLUDE]PATH=home/y.cfg' > ../x.cfg",
    ),
    ("a FIFO for a branch", "", "rm .git/refs/heads/main; mkfifo .git/refs/heads/main"),
    ("a FIFO for packed references", "", "mkfifo .git/packed-refs"),
    ("a FIFO for ignore rules", "", "rm .gitignore; mkfifo .gitignore"),
    ("a FIFO for attributes", "", "mkfifo .gitattributes"),
    ("a FIFO for submodules", "", "rm -f .gitmodules; mkfifo .gitmodules"),
    (
        "FIFOs for the repository's rules",
        "",
        "rm -f .git/info/*; mkfifo .git/info/exclude .git/info/attributes",
    ),
    ("a FIFO for the user's settings", "", "rm ~/.gitconfig; mkfifo ~/.gitconfig"),
    (
        "FIFOs for the user's rules",
        "",
        "mkdir -p ~/.config/git; mkfifo ~/.config/git/ignore ~/.config/git/attributes",
    ),
    ("ignore rules", "", "echo '*' > .gitignore"),
    ("ignore rules of the repository", "", "echo '*' > .git/info/exclude"),
    ("a file of ignore rules", "", "echo '*' > ../all; git config core.excludesFile ../all"),
    ("the user's file of ignore rules", "", "echo '*' > ~/all; git config --global core.excludesFile ~/all"),
    ("the user's ignore rules", "", "mkdir -p ~/.config/git; echo '*' > ~/.config/git/ignore"),
    (
        "a filter that gives the old contents",
        "echo '* filter=x -diff' > .git/info/attributes; git config filter.x.clean 'git show HEAD:%f'",
        "",
    ),
    (
        "a filter of the user",
        "echo '* filter=x' > .gitattributes; git config --global filter.x.clean 'git show HEAD:%f'",
        "git add -A .",
    ),
    (
        "a replaced commit",
        "",
        "git add -A .; git replace $(git rev-parse HEAD) $(git commit-tree $(git write-tree) -m x)",
    ),
    (
        "replaced contents",
        "",
        "for o in $(git ls-tree -r HEAD t | cut -c13-52 | sort -u); do git replace -f $o $(echo evil | git hash-object -w --stdin); done",
    ),
    ("a graft", "", "git rev-parse HEAD > .git/info/grafts"),
    (
        "a sparse checkout",
        "",
        "git config core.sparseCheckout true; echo /src/ > .git/info/sparse-checkout; git add -A .",
    ),
    ("another worktree", "", "git config core.worktree \"$HOME\""),
    ("a bare repository", "", "git config core.bare true"),
    (
        "weak looks",
        "",
        "git config core.trustctime false; git config core.checkStat minimal; git config core.fileMode false; git config core.symlinks false",
    ),
    ("another repository", "", "mv .git ../real; git clone -q --no-checkout ../real x; mv x/.git .git"),
    ("a file for the repository", "", "mv .git ../real; echo 'gitdir: ../real' > .git"),
    ("no repository", "", "rm -rf .git"),
    ("a commit of everything", "", "git add -A .; git commit -qm x; git pack-refs --all; git gc -q"),
];

/// Creates a repository that has, for each way, a tracked file (`t/N`), an untracked one (`u/N`), one in a
/// submodule (`lib/N`) and one in a repository that is not a submodule (`nested/N`).
fn scene() -> CanaryProject {
    let project = CanaryProject::new();
    project.write_beside(
        "home/.gitconfig",
        "[user]\n\tname = T\n\temail = t@t\n[init]\n\tdefaultBranch = main\n",
    );
    let library = project.beside("library");
    fs::create_dir(&library).unwrap();
    for number in 0..WAYS.len() {
        project.write(&format!("t/{number}/file.txt"), "good\n");
        project.write(&format!("nested/{number}/file.txt"), "good\n");
        project.write_beside(&format!("library/{number}/file.txt"), "good\n");
    }
    project.write("src/a.txt", "a\n");
    project.write(".gitignore", "build/\n*.log\nu/*/hidden.txt\n");
    for dir in [&library, &project.path().join("nested")] {
        git(&project, dir, &["init", "-q"]);
        git(&project, dir, &["add", "-A", "."]);
        git(&project, dir, &["commit", "-qm", "first"]);
    }
    git(&project, project.path(), &["init", "-q"]);
    git(&project, project.path(), &["add", "src", "t", ".gitignore"]);
    git(&project, project.path(), &["submodule", "--quiet", "add", &library.display().to_string(), "lib"]);
    git(&project, project.path(), &["commit", "-qm", "first"]);
    for number in 0..WAYS.len() {
        project.write(&format!("u/{number}/file.txt"), "good\n");
    }
    project
}

fn run_agent(project: &CanaryProject, flags: &[&str], script: &str) -> CommandOutput {
    let mut command = project.command();
    command.args(["run", "--json", "-q"]).args(flags);
    run_command(command.args(["x", "--", "sh", "-c", script]))
}

fn parse_result(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.out())
        .unwrap_or_else(|error| unreachable!("{error}: {} {}", output.out(), output.err()))
}

/// Returns the paths in a list of the result.
fn paths(result: &Value, list: &str) -> BTreeSet<String> {
    let items = result[list].as_array().unwrap().iter();
    items
        .flat_map(|item| [&item["path"], &item["from"]].map(|path| path.as_str().map(str::to_owned)))
        .flatten()
        .collect()
}

/// Returns whether a changed file below this folder is reported.
fn is_reported(all: &BTreeSet<String>, folder: &str) -> bool {
    all.iter().any(|path| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
}

#[test]
fn tricks_do_not_hide_changes() {
    let counts = run_in_parallel(&TRICKS, |tricks| {
        let mut tried = 0;
        for (name, before, after) in tricks {
            let project = scene();
            let mut script = format!("exec 2>/dev/null; {before}\n");
            for folder in ["t", "u", "lib", "nested"] {
                for (number, (_, way)) in WAYS.iter().enumerate() {
                    script += &format!("D={folder}/{number}; F=$D/file.txt; {way}\n");
                }
            }
            script += &format!("{after}\nexit 0");
            let output = run_agent(&project, &["--write", "src/**"], &script);
            assert_eq!(output.code, Some(5), "{name}: {}", output.err());
            assert!(output.took < Duration::from_secs(55), "{name}: a git waited: {:?}", output.took);
            let result = parse_result(&output);
            let (changed, violations) = (paths(&result, "changed"), paths(&result, "violations"));
            for (number, (way, _)) in WAYS.iter().enumerate() {
                for folder in ["t", "u", "nested"] {
                    let folder = format!("{folder}/{number}");
                    assert!(is_reported(&changed, &folder), "{name}, {way}, {folder}: {changed:?}");
                    assert!(is_reported(&violations, &folder), "{name}, {way}, {folder}: {violations:?}");
                    tried += 1;
                }
            }
            assert!(changed.contains("lib") && violations.contains("lib"), "{name}: {changed:?}");
        }
        tried
    });
    let tried: usize = counts.into_iter().sum();
    crate::print_measurement(&format!("{tried} hidden changes, all told"));
}

/// A submodule or another repository that was dirty or at another commit before the run, and changes again
/// (each way alone).
#[test]
fn dirty_repository_change_is_detected() {
    let inside = [
        "echo y > DIR/evil.txt",
        "echo z >> DIR/0/file.txt",
        "rm DIR/new.txt",
        "printf 'NEW\\n' > DIR/new.txt",
        "cd DIR && echo more > 1/file.txt && git commit -qam evil",
        "cd DIR && git commit -qm evil --allow-empty",
        "cd DIR && git checkout -q HEAD~1",
        "cd DIR && git update-index --assume-unchanged 2/file.txt && echo evil > 2/file.txt",
        "cd DIR && git rm -q --cached 3/file.txt && echo '*' >> .git/info/exclude; echo evil > 3/file.txt",
    ];
    let mut cases = Vec::new();
    for dir in ["lib", "nested"] {
        cases.extend(inside.iter().map(|script| (dir, script.replace("DIR", dir))));
    }
    run_in_parallel(&cases, |cases| {
        let project = scene();
        for dir in ["lib", "nested"] {
            let path = project.path().join(dir);
            fs::write(path.join("5/file.txt"), "moved\n").unwrap();
            git(&project, &path, &["commit", "-qam", "second"]);
        }
        for (dir, script) in cases {
            for dir in ["lib", "nested"] {
                fs::write(project.path().join(dir).join("new.txt"), "new\n").unwrap();
            }
            let output = run_agent(&project, &["--write", "src/**"], script);
            let changed = paths(&parse_result(&output), "changed");
            assert_eq!(output.code, Some(5), "{script}: {changed:?}");
            assert!(
                changed.iter().any(|path| path == dir || path.starts_with(&format!("{dir}/"))),
                "{script}: {changed:?}"
            );
            // A run that does nothing reports nothing.
            let again = run_agent(&project, &["--write", "src/**"], "true");
            assert_eq!(
                (again.code, paths(&parse_result(&again), "changed")),
                (Some(0), BTreeSet::new()),
                "{script}"
            );
        }
    });
}

/// Changes to the repository of a submodule are detected too, even if its files are unchanged: in a
/// submodule, one nested in it, one that is not checked out, and in repositories that are not submodules and
/// have their folder elsewhere.
#[test]
fn submodule_repository_changes_are_detected() {
    let outside = "echo evil > 0/file.txt";
    // Scripts of agents. The result must report a commit, or a change of the repository itself.
    let commits = [
        format!("{outside}; git commit -qam x; git branch evil; git reset -q --hard HEAD~1"),
        format!("{outside}; git commit -qam x; git tag evil; git reset -q --hard HEAD~1"),
        format!("{outside}; git commit -qam x; git tag -a -m t evil; git reset -q --hard HEAD~1"),
        format!("{outside}; git stash -q"),
        format!("{outside}; git commit -qam x; git update-ref refs/evil/x HEAD; git reset -q --hard HEAD~1"),
        format!(
            "git checkout -q --detach; {outside}; git commit -qam x; git checkout -q -b evil; git pack-refs --all; git checkout -q -; git checkout -q main"
        ),
    ];
    let of_repository = [
        ("git replace HEAD $(git commit-tree HEAD^{tree} -m x)", "refs/replace/"),
        ("git update-index --skip-worktree 0/file.txt", "index:skip-worktree:0/file.txt"),
        ("git update-index --assume-unchanged 0/file.txt", "index:assume-unchanged:0/file.txt"),
        (
            "echo evil > 0/file.txt; git add -A; git restore --source=HEAD 0/file.txt",
            "index:staged:0/file.txt",
        ),
        ("git rm -q --cached 0/file.txt", "index:staged:0/file.txt"),
        ("git config core.hooksPath ../x", "config"),
        ("echo evil > \"$(git rev-parse --git-path hooks/pre-commit)\"", "hooks/pre-commit"),
    ];
    // The place of the change, and the folder of that repository.
    let places = [
        ("lib", ".git/modules/lib"),
        ("lib/inner", ".git/modules/lib/modules/inner"),
        ("apart", "apart/.git"),
        ("linked", "linked/.git"),
        ("other", "other/.git"),
    ];
    let mut cases: Vec<(&str, String, Option<String>)> = Vec::new();
    for (place, folder) in places {
        cases.extend(commits.iter().map(|script| (place, script.clone(), None)));
        cases.extend(
            of_repository
                .iter()
                .map(|(script, told)| (place, (*script).to_owned(), Some(format!("{folder}/{told}")))),
        );
    }
    run_in_parallel(&cases, |cases| {
        for (place, script, wanted) in cases {
            let project = scene();
            let library = project.beside("library").display().to_string();
            git(&project, &project.path().join("lib"), &["submodule", "--quiet", "add", &library, "inner"]);
            git(&project, &project.path().join("lib"), &["commit", "-qm", "inner"]);
            let apart = project.beside("apart-folder").display().to_string();
            git(&project, project.path(), &["clone", "-q", "--separate-git-dir", &apart, &library, "apart"]);
            git(&project, project.path(), &["clone", "-q", &library, "linked"]);
            let folder = project.beside("linked-folder");
            fs::rename(project.path().join("linked/.git"), &folder).unwrap();
            project.link(&folder, "linked/.git");
            let other = project.path().join("other").display().to_string();
            git(&project, &project.beside("library"), &["worktree", "add", "-q", &other, "-b", "other"]);
            git(&project, &project.beside("library"), &["branch", "-q", "unused"]);
            git(&project, project.path(), &["add", "lib"]);
            git(&project, project.path(), &["commit", "-qm", "second"]);
            let script = format!("exec 2>/dev/null; cd {place}; {script}; exit 0");
            let output = run_agent(&project, &["--write", "src/**"], &script);
            let told = parse_result(&output);
            assert_eq!(output.code, Some(5), "{place}: {script}: {told}");
            let violations = paths(&told, "violations");
            match wanted {
                Some(wanted) => assert!(
                    [&paths(&told, "changed"), &violations]
                        .iter()
                        .all(|all| all.iter().any(|path| path.starts_with(wanted))),
                    "{place}: {script}: {told}"
                ),
                None => {
                    let path = format!("{place}/0/file.txt");
                    let new = |moved: &Value| moved["new"].as_u64().unwrap() > 0;
                    assert!(told["commits"].as_array().unwrap().iter().any(new), "{place}: {script}: {told}");
                    assert!(violations.contains(&path), "{place}: {script}: {told}");
                }
            }
            let again = run_agent(&project, &["--write", "src/**"], "true");
            assert_eq!(
                (again.code, paths(&parse_result(&again), "changed")),
                (Some(0), BTreeSet::new()),
                "{place}: {script}"
            );
        }
    });
    // Changes that the scope allows are allowed there, and fetched commits are not attributed to the run.
    let project = scene();
    let output =
        run_agent(&project, &["--write", "lib"], "cd lib; echo better > 0/file.txt; git commit -qam x");
    assert_eq!(output.code, Some(0), "{}", output.out());
    fs::write(project.beside("library/new.txt"), "theirs\n").unwrap();
    git(&project, &project.beside("library"), &["add", "new.txt"]);
    git(&project, &project.beside("library"), &["commit", "-qm", "theirs"]);
    let output = run_agent(
        &project,
        &["--write", "src/**"],
        "cd lib; git fetch -q origin; git branch --no-track theirs origin/main",
    );
    assert_eq!(output.code, Some(0), "{}", output.out());
}

/// Scripts of agents, and the paths that the result must name: as a change (and a violation), or as unseen.
#[test]
fn changes_in_any_place_are_detected() {
    let deep =
        r#"perl -e '$n = "n" x 200; for (1..30) { mkdir $n; chdir $n } open F, ">", "x"; print F "evil"'"#;
    let deeper = r#"perl -e 'for (1..1200) { mkdir "d"; chdir "d" } open F, ">", "x"; print F "evil"'"#;
    let cases: [(&str, &[&str]); 21] = [
        ("echo x > .callsheet/runs/evil.sh", &[".callsheet/runs/evil.sh"]),
        (
            "mkdir -p .callsheet/runs/$CALLSHEET_RUN; echo x > .callsheet/runs/$CALLSHEET_RUN/evil",
            &[".callsheet/runs/"],
        ),
        ("echo 'x' > .callsheet/runs/.gitignore", &[".callsheet/runs/.gitignore"]),
        (
            "echo x > ledger.db.sh; echo x > ledger.db-wal.sh; echo x > ledger.dbx",
            &["ledger.db-wal.sh", "ledger.db.sh", "ledger.dbx"],
        ),
        (
            "mkdir -p nested/.git/objects/x; echo x > nested/.git/objects/x/evil",
            &["nested/.git/objects/x/evil"],
        ),
        ("mkdir -p src/objects; echo x > other.txt", &["other.txt"]),
        (deep, &["nnnnnnnn"]),
        (deeper, &["d/d/"]),
        ("printf x > \"$(printf 'bad\\377name')\"", &["bad\\xffname"]),
        ("printf x > 'new\nline'", &["new\nline"]),
        ("mkfifo pipe", &["pipe"]),
        (
            "echo '*' > .git/hooks/pre-commit; git config core.hooksPath hooks",
            &[".git/config", ".git/hooks/pre-commit"],
        ),
        ("git update-index --assume-unchanged t/0/file.txt", &[".git/index:assume-unchanged:t/0/file.txt"]),
        ("git update-index --skip-worktree t/0/file.txt", &[".git/index:skip-worktree:t/0/file.txt"]),
        (
            "echo evil > t/0/file.txt; git add -A; git restore --source=HEAD t/0/file.txt",
            &[".git/index:staged:t/0/file.txt"],
        ),
        ("echo evil > evil; git add evil; rm evil", &[".git/index:staged:evil"]),
        ("git rm -q --cached t/0/file.txt", &[".git/index:staged:t/0/file.txt"]),
        (
            "git update-index --cacheinfo 160000,$(git -C lib commit-tree HEAD^{tree} -m x),lib",
            &[".git/index:staged:lib"],
        ),
        ("git config --global core.hooksPath ~/x", &["~/.gitconfig"]),
        ("git replace HEAD $(git commit-tree HEAD^{tree} -m x)", &[".git/refs/replace/"]),
        ("echo ../../x/objects > .git/objects/info/alternates", &[".git/objects/info/alternates"]),
    ];
    run_in_parallel(&cases, |cases| {
        for (script, wanted) in cases {
            let project = scene();
            let ledger = project.path().join("ledger.db").display().to_string();
            // The second run has files of the first one.
            run_agent(&project, &["--ledger", &ledger], "true");
            let output = run_agent(
                &project,
                &["--ledger", &ledger, "--write", "src/**"],
                &format!("mkdir -p .callsheet/runs; {script}"),
            );
            let result = parse_result(&output);
            assert_eq!(output.code, Some(5), "{script}: {result}");
            let (changed, unseen) = (paths(&result, "changed"), paths(&result, "unseen"));
            let violations = paths(&result, "violations");
            for wanted in *wanted {
                let is_named = |all: &BTreeSet<String>| all.iter().any(|path| path.starts_with(wanted));
                assert!(
                    is_named(&changed) && is_named(&violations) || is_named(&unseen),
                    "{script}: {wanted}: {result}"
                );
            }
            // The standard library keeps every folder open on its way down.
            Command::new("rm").args(["-rf", "d"]).current_dir(project.path()).status().unwrap();
        }
    });
}

/// Files and folders that settings name are checked like the settings themselves. Each case has a script that
/// runs before, the script of the agent, and the path that must be reported.
#[test]
fn files_named_by_settings_are_checked() {
    let cases = [
        (
            "mkdir ../hooks; git config core.hooksPath ../hooks",
            "echo x > ../hooks/pre-commit",
            "/hooks/pre-commit",
        ),
        ("mkdir ~/h; git config --global core.hooksPath '~/h'", "echo x > ~/h/pre-push", "~/h/pre-push"),
        ("git config --global core.hooksPath ~/h", "mkdir ~/h; echo x > ~/h/pre-push", "~/h/pre-push"),
        ("git config core.hooksPath build", "mkdir -p build; echo x > build/pre-commit", "build/pre-commit"),
        ("git config include.path x.cfg", "echo '[a] b = c' > .git/x.cfg", ".git/x.cfg"),
        ("git config --global include.path more.cfg", "echo '[a] b = c' > ~/more.cfg", "~/more.cfg"),
        (
            "git config --global includeIf.gitdir:/nowhere/.path '~/more.cfg'; : > ~/more.cfg",
            "echo '[a] b = c' > ~/more.cfg",
            "~/more.cfg",
        ),
        (
            "git config --global include.path a.cfg; echo '[include] path = d/b.cfg' > ~/a.cfg",
            "mkdir ~/d; echo '[a] b = c' > ~/d/b.cfg",
            "~/d/b.cfg",
        ),
        ("git config --global core.excludesFile '~/rules'", "echo '*.o' > ~/rules", "~/rules"),
        ("git config core.attributesFile ../attributes", "echo '* -text' > ../attributes", "/attributes"),
        (
            "git config extensions.worktreeConfig true; git worktree add -q ../w -b w; git -C ../w config --worktree a.b c",
            "git -C ../w config --worktree core.hooksPath x",
            ".git/worktrees/w/config.worktree",
        ),
        (
            "mv ~/.gitconfig ~/dotfile; ln -s dotfile ~/.gitconfig",
            "echo '[a] b = c' >> ~/dotfile",
            "~/.gitconfig",
        ),
        (
            "mkdir -p ~/t/hooks; git config --global init.templateDir '~/t'",
            "echo x > ~/t/hooks/post-checkout",
            "~/t/hooks/post-checkout",
        ),
    ];
    let shell = |project: &CanaryProject, script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-ec", script])
            .current_dir(project.path())
            .env_clear()
            .env("HOME", project.beside("home"));
        assert!(command.env("PATH", std::env::var("PATH").unwrap()).status().unwrap().success(), "{script}");
    };
    run_in_parallel(&cases, |cases| {
        for (before, script, wanted) in cases {
            let project = scene();
            shell(&project, before);
            // Regardless of the scope: except for a file of the worktree, no run may write there.
            let flags: &[&str] =
                if wanted.starts_with("build") { &["--write", "src/**"] } else { &["--write", "**"] };
            let output = run_agent(&project, flags, script);
            let told = parse_result(&output);
            assert_eq!(output.code, Some(5), "{before}: {script}: {told}");
            for list in ["changed", "violations"] {
                let named = paths(&told, list).iter().any(|path| path == wanted || path.ends_with(wanted));
                assert!(named, "{before}: {script}: {told}");
            }
            let again = run_agent(&project, flags, "true");
            assert_eq!(
                (again.code, paths(&parse_result(&again), "changed")),
                (Some(0), BTreeSet::new()),
                "{before}"
            );
        }
    });
    // Hooks among the project's files are files; an additional worktree is not a change of the other ones.
    let project = scene();
    shell(&project, "git config core.hooksPath src/hooks");
    let script = "mkdir src/hooks; echo x > src/hooks/pre-commit; git worktree add -q ../more -b more";
    let output = run_agent(&project, &["--write", "src/**"], script);
    assert_eq!(
        (output.code, paths(&parse_result(&output), "changed")),
        (Some(0), ["src/hooks/pre-commit".to_owned()].into())
    );
}

/// The scope of a project below the top of a repository ends at the project, unless a glob itself leads out.
#[test]
fn wildcards_stay_inside_project() {
    let project = scene();
    fs::create_dir(project.path().join("src/.callsheet")).unwrap();
    for (glob, code) in
        [("**", 5), ("*", 5), ("./**", 5), ("**/*.txt", 5), (".*/**", 5), ("../t/**", 0), ("../*/**", 0)]
    {
        let mut command = project.command();
        command.args(["-C", "src", "run", "--json", "-q", "--write", glob]);
        let output = run_command(command.args(["x", "--", "sh", "-c", "echo $$ > ../t/0/file.txt"]));
        assert_eq!(output.code, Some(code), "{glob}: {}", output.out());
        let told = parse_result(&output);
        assert_eq!(paths(&told, "changed"), ["../t/0/file.txt".to_owned()].into(), "{glob}");
        assert_eq!(paths(&told, "violations").len(), usize::from(code == 5), "{glob}: {told}");
    }
}

/// A git that blocks ends with the callsheet that started it, and a signal does not wait for it.
#[test]
fn blocked_git_ends_with_caller() {
    // The command, and the number of signals that it gets.
    for (args, signals) in
        [(&["log"][..], 1), (&["run", "x", "--", "true"], 1), (&["run", "x", "--", "true"], 2)]
    {
        let project = scene();
        let fake = project.write_beside("bin/git", "#!/bin/sh\nsleep 600\n: end\n");
        assert!(Command::new("chmod").arg("755").arg(&fake).status().unwrap().success());
        let mut command = project.command();
        command
            .env("PATH", format!("{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap()));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mark = fake.display().to_string();
        let waits = || {
            let all = fs::read_dir("/proc").unwrap().flatten();
            let mut lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
            lines.any(|line| String::from_utf8_lossy(&line).contains(&mark))
        };
        let begun = Instant::now();
        while !waits() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{args:?}: no git was started");
            thread::sleep(Duration::from_millis(20));
        }
        let begun = Instant::now();
        for _ in 0..signals {
            assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
            thread::sleep(Duration::from_millis(300));
        }
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(30) {
                child.kill().unwrap();
                unreachable!("{args:?}: it waits for git");
            }
            thread::sleep(Duration::from_millis(20));
        }
        while waits() {
            assert!(begun.elapsed() < Duration::from_secs(40), "{args:?}: git was left behind");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A folder that its owner has closed, for a user who is not root.
#[test]
fn unreadable_folder_is_unseen() {
    let project = scene();
    let nobody =
        Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups", "true"]).status();
    if !nobody.is_ok_and(|status| status.success()) {
        crate::not_tested("closed folders (they need root and setpriv)");
        return;
    }
    let chown = Command::new("chown").args(["-R", "65534:65534"]).arg(project.beside("")).status().unwrap();
    assert!(chown.success());
    // A file that this process wrote could still be open for writing in a child of another test.
    let program = project.beside("callsheet");
    let mut install = Command::new("install");
    install.args(["-m", "755", env!("CARGO_BIN_EXE_callsheet")]).arg(&program);
    assert!(install.status().unwrap().success());
    let run = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.current_dir(project.path()).env_clear().env("HOME", project.beside("home"));
        command.env("PATH", std::env::var("PATH").unwrap());
        run_command(command.args(["run", "--json", "-q", "--write", "src/**", "x", "--", "sh", "-c", script]))
    };
    for (script, path) in [
        ("mkdir src/closed; echo evil > src/closed/x; chmod 000 src/closed", "src/closed"),
        ("chmod 000 t/0", "t/0"),
        ("chmod 444 t/1", "t/1"),
        ("chmod 000 .git/hooks", ".git/hooks"),
    ] {
        let first = run(script);
        let told = parse_result(&first);
        assert_eq!(first.code, Some(5), "{script}: {told}");
        let unseen = paths(&told, "unseen");
        assert!(unseen.iter().any(|unseen| unseen.starts_with(path)), "{script}: {told}");
        assert!(!paths(&told, "changed").contains("t/0/file.txt"), "what is unseen is not gone: {told}");
        // The state existed before the next run.
        let second = run("true");
        let told = parse_result(&second);
        assert_eq!(second.code, Some(0), "{script}: {told}");
        assert!(told["unseen"].as_array().unwrap().iter().all(|unseen| unseen["before"] == true), "{told}");
    }
    assert!(Command::new("chmod").args(["-R", "u+rwx"]).arg(project.beside("")).status().unwrap().success());
}

/// The contents of commits count, in whatever place they are; fetched commits do not.
#[test]
fn commits_on_any_reference_count() {
    let outside = "echo evil > other.txt; git add other.txt";
    // Scripts of agents, whether the result is a violation of `src/**`, and the reference that has a new
    // commit.
    let cases: [(String, bool, &str); 20] = [
        (
            format!("{outside}; git commit -qm x; git rm -q --cached other.txt; rm other.txt"),
            true,
            "refs/heads/main",
        ),
        (
            format!("{outside}; git commit -qm x; git checkout -q HEAD~1 -- .; rm -f other.txt"),
            true,
            "refs/heads/main",
        ),
        (
            "echo evil > t/0/file.txt; git commit -qam x; git checkout -q HEAD~1 -- t".into(),
            true,
            "refs/heads/main",
        ),
        (
            format!("{outside}; git commit -qm x; git revert -n HEAD; git commit -qm back"),
            true,
            "refs/heads/main",
        ),
        (
            format!("git checkout -qb evil; {outside}; git commit -qm x; git checkout -q main"),
            true,
            "refs/heads/evil",
        ),
        (
            format!("{outside}; git commit -qm x; git tag evil; git reset -q --hard HEAD~1"),
            true,
            "refs/tags/evil",
        ),
        (
            format!("{outside}; git commit -qm x; git tag -a -m t evil; git reset -q --hard HEAD~1"),
            true,
            "refs/tags/evil",
        ),
        (format!("{outside}; git stash -q"), true, "refs/stash"),
        (
            format!(
                "git checkout -q --detach; {outside}; git commit -qm x; git rm -q other.txt; git commit -qm y"
            ),
            true,
            "HEAD",
        ),
        (
            format!(
                "{outside}; git commit -qm x; git update-ref refs/evil/x HEAD; git reset -q --hard HEAD~1"
            ),
            true,
            "refs/evil/x",
        ),
        // A worktree that the agent creates is its own, whatever the name of the branch.
        (
            format!("git worktree add -q ../w -b evil; cd ../w; {outside}; git commit -qm x"),
            true,
            "refs/heads/evil",
        ),
        (
            format!("git worktree add -q ../w -b callsheet/evil; cd ../w; {outside}; git commit -qm x"),
            true,
            "refs/heads/callsheet/evil",
        ),
        (
            format!(
                "git worktree add -q ../w -b callsheet/run-x; cd ../w; {outside}; git commit -qm x; cd -; git worktree remove --force ../w"
            ),
            true,
            "refs/heads/callsheet/run-x",
        ),
        (
            format!("PROGRAM run -q --worktree --task-id evil x -- sh -c '{outside}; git commit -qm x'"),
            true,
            "refs/heads/callsheet/evil",
        ),
        ("echo good > src/a.txt; git commit -qam x".into(), false, "refs/heads/main"),
        (
            "git checkout -qb mine; echo good > src/a.txt; git commit -qam x; git checkout -q main".into(),
            false,
            "refs/heads/mine",
        ),
        ("git fetch -q origin; git branch --no-track theirs origin/main".into(), false, ""),
        // The remote has a tag that is not on any branch.
        ("git fetch -q --tags origin".into(), false, ""),
        (
            format!(
                "{outside}; git commit -qm x; git tag evil; git reset -q --hard HEAD~1; git fetch -q . tag evil"
            ),
            true,
            "refs/tags/evil",
        ),
        (
            format!(
                "git clone -q . ../c; cd ../c; {outside}; git commit -qm x; git tag evil; cd -; git fetch -q ../c tag evil"
            ),
            true,
            "refs/tags/evil",
        ),
    ];
    run_in_parallel(&cases, |cases| {
        for (script, is_violation, reference) in cases {
            let project = scene();
            // A remote with new commits exists.
            let remote = project.beside("remote");
            git(
                &project,
                &project.beside(""),
                &["clone", "-q", &project.path().display().to_string(), "remote"],
            );
            fs::write(remote.join("theirs.txt"), "theirs\n").unwrap();
            git(&project, &remote, &["add", "theirs.txt"]);
            git(&project, &remote, &["commit", "-qm", "theirs"]);
            git(&project, &remote, &["checkout", "-q", "--detach"]);
            git(&project, &remote, &["commit", "-qm", "alone", "--allow-empty"]);
            fs::write(remote.join("tagged.txt"), "theirs\n").unwrap();
            git(&project, &remote, &["add", "tagged.txt"]);
            git(&project, &remote, &["commit", "-qm", "tagged"]);
            git(&project, &remote, &["tag", "v1"]);
            git(&project, &remote, &["checkout", "-q", "main"]);
            git(&project, project.path(), &["remote", "add", "origin", &remote.display().to_string()]);
            let script = script.replace("PROGRAM", env!("CARGO_BIN_EXE_callsheet"));
            let output = run_agent(&project, &["--write", "src/**"], &script);
            let told = parse_result(&output);
            assert_eq!(output.code, Some(if *is_violation { 5 } else { 0 }), "{script}: {told}");
            let commits = told["commits"].as_array().unwrap();
            let new = |moved: &&Value| moved["new"].as_u64().unwrap() > 0;
            let names: Vec<&str> =
                commits.iter().filter(new).map(|moved| moved["ref"].as_str().unwrap()).collect();
            assert_eq!(names.contains(reference), !reference.is_empty(), "{script}: {told}");
            let violations = paths(&told, "violations");
            let evil = violations.contains("other.txt") || violations.contains("t/0/file.txt");
            assert_eq!(evil, *is_violation, "{script}: {told}");
        }
    });
}

/// In a worktree of its own, a run is not blamed for changes in the main checkout; they are noted.
#[test]
fn main_checkout_changes_are_elsewhere() {
    let project = scene();
    let main = project.path().display().to_string();
    let script = format!(
        "echo good > src/a.txt; git commit -qam mine; cd '{main}'; echo evil > t/0/file.txt; echo new > new.txt; git commit -qam theirs"
    );
    let output = run_agent(&project, &["--worktree", "--task-id", "W", "--write", "src/**"], &script);
    let told = parse_result(&output);
    assert_eq!(output.code, Some(0), "{told}");
    assert_eq!(paths(&told, "changed"), ["src/a.txt".to_owned()].into());
    assert_eq!(paths(&told, "elsewhere"), ["new.txt".to_owned(), "t/0/file.txt".to_owned()].into());
    let moved: Vec<(&str, bool, u64)> = told["commits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|moved| {
            (moved["ref"].as_str().unwrap(), moved["elsewhere"] == true, moved["new"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(moved, [("refs/heads/callsheet/W", false, 1), ("refs/heads/main", true, 1)]);
    let page = project.run(["show", "last"]).out();
    assert!(page.contains("new.txt (untracked, in the main checkout)"), "{page}");
}

/// The branch of the main checkout is the run's own once its worktree has it.
#[test]
fn own_branch_is_not_elsewhere() {
    let project = scene();
    let script =
        "git checkout -q --ignore-other-worktrees main; echo evil > t/0/file.txt; git commit -qam mine";
    let output = run_agent(&project, &["--worktree", "--task-id", "W", "--write", "src/**"], script);
    let result = parse_result(&output);
    assert_eq!(output.code, Some(5), "{result}");
    let moved = result["commits"].as_array().unwrap();
    let moved: Vec<_> = moved.iter().map(|moved| (&moved["ref"], moved["elsewhere"] == true)).collect();
    assert_eq!(moved, [(&"refs/heads/main".into(), false)], "{result}");
}

/// Variables that point to another repository have no effect.
#[test]
fn foreign_git_environment_is_ignored() {
    let (project, other) = (scene(), scene());
    let mut command = project.command();
    command.env("GIT_DIR", other.path().join(".git")).env("GIT_WORK_TREE", other.path());
    command
        .env("GIT_INDEX_FILE", other.path().join(".git/index"))
        .env("GIT_OBJECT_DIRECTORY", other.path().join(".git/objects"));
    command.args(["run", "--json", "-q", "x", "--", "sh", "-c", "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY; echo b > src/a.txt; git commit -qam work; echo new > new.txt"]);
    let output = run_command(&mut command);
    let told = parse_result(&output);
    assert_eq!(
        told["changed"],
        serde_json::json!([
            { "path": "new.txt", "change": "untracked", "from": null },
            { "path": "src/a.txt", "change": "modified", "from": null },
        ]),
    );
    let head = |at: &str| git(&project, project.path(), &["rev-parse", at]).trim().to_owned();
    assert_eq!(
        (told["head_before"].clone(), told["head_after"].clone()),
        (head("HEAD~1").into(), head("HEAD").into())
    );
}

/// Without git every file is compared. If there are too many, a scope cannot be checked, and the run is
/// refused.
#[test]
fn scope_is_checked_without_git() {
    let project = CanaryProject::new();
    project.write("src/a.txt", "a\n");
    project.write("other.txt", "other\n");
    for (script, code, changed) in [
        ("echo b > src/a.txt; echo c > src/new.txt", 0, vec!["src/a.txt", "src/new.txt"]),
        (
            "touch -r other.txt t; printf 'OTHER\\n' > other.txt; touch -r t other.txt; rm t",
            5,
            vec!["other.txt"],
        ),
        ("echo x > outside.txt", 5, vec!["outside.txt"]),
        ("rm outside.txt", 5, vec!["outside.txt"]),
        ("touch other.txt", 0, vec![]),
        ("git init -q; echo '*' > .gitignore", 5, vec![".gitignore"]),
    ] {
        let output = run_agent(&project, &["--write", "src/**"], script);
        let told = parse_result(&output);
        assert_eq!(output.code, Some(code), "{script}: {told}");
        let found = paths(&told, "changed");
        assert!(
            changed.iter().all(|path| found.contains(*path)) && found.is_empty() == changed.is_empty(),
            "{script}: {told}"
        );
    }
    fs::remove_dir_all(project.path().join(".git")).unwrap();
    // A hole of more than 1 GiB takes no disk space.
    let huge = fs::File::create(project.path().join("huge")).unwrap();
    huge.set_len((1 << 30) + 1).unwrap();
    let refused = run_agent(&project, &["--write", "src/**"], "true");
    assert_eq!(refused.code, Some(9), "{}", refused.err());
    assert!(refused.err().contains("--no-scope"), "{}", refused.err());
    let excluded = run_agent(&project, &["--exclude", "other.txt"], "true");
    assert_eq!(excluded.code, Some(9), "{}", excluded.err());
    let open = run_agent(&project, &[], "true");
    assert_eq!((open.code, parse_result(&open)["unseen"][0]["before"].clone()), (Some(0), Value::Bool(true)));
    let forced = run_agent(&project, &["--write", "src/**", "--no-scope"], "true");
    assert_eq!((forced.code, parse_result(&forced)["no_scope"].clone()), (Some(0), Value::Bool(true)));
    fs::remove_file(project.path().join("huge")).unwrap();
    for number in 0..20_000 {
        fs::write(project.path().join(format!("src/{number}")), "").unwrap();
    }
    assert_eq!(run_agent(&project, &["--write", "src/**"], "true").code, Some(9));
    // If the files become too many during a run, the rest is unseen.
    for number in 0..100 {
        fs::remove_file(project.path().join(format!("src/{number}"))).unwrap();
    }
    let grown = run_agent(&project, &["--write", "src/**"], "for i in $(seq 200); do : > src/new$i; done");
    assert_eq!((grown.code, paths(&parse_result(&grown), "unseen")), (Some(5), [".".to_owned()].into()));
}
