//! Ledgers from elsewhere start nothing, and a ledger that is lost, replaced or rolled back is detected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use callsheet_testing::{CommandOutput, run_command};
use serde_json::Value;

use crate::project::CanaryProject;

/// A file that a program of a hostile ledger leaves when it is started.
const STARTED: &str = "STARTED";

fn git_in(dir: &Path, home: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(dir).env("HOME", home).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
    let output = git.args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl CanaryProject {
    /// Creates a project that is a repository with one commit.
    fn repository() -> Self {
        let project = Self::new();
        project.write("a.txt", "a\n");
        project.git(&["init", "-q"]);
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", "first"]);
        project
    }

    fn git(&self, args: &[&str]) {
        git_in(self.path(), &self.beside("home"), args);
    }

    /// Runs the command in a directory next to the project, as its user.
    fn run_in(&self, dir: &Path, args: &[&str]) -> CommandOutput {
        run_command(self.command().current_dir(dir).args(args))
    }

    fn run_json(&self, dir: &Path, args: &[&str]) -> Value {
        let output = self.run_in(dir, &[&["--json"], args].concat());
        assert!(!output.stdout.is_empty(), "{args:?}: {}", output.err());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn ledger_path(&self) -> PathBuf {
        self.ledger_path_in(self.path())
    }

    fn ledger_path_in(&self, dir: &Path) -> PathBuf {
        PathBuf::from(self.run_json(dir, &["ledger", "path"])["place"].as_str().unwrap())
    }

    /// Returns the number of runs that `log` lists.
    fn count_runs(&self, dir: &Path, more: &[&str]) -> usize {
        self.run_json(dir, &[more, &["log"]].concat())["items"].as_array().unwrap().len()
    }

    /// Creates a ledger that starts a program in whichever way a command continues it.
    fn create_hostile_ledger(&self, file: &Path) {
        let (file, started) = (file.display().to_string(), self.beside(STARTED).display().to_string());
        let program = format!("touch {started}; exit 1");
        let run = ["-q", "--ledger", &file, "run", "--task-id", "T-1", "x", "--", "sh", "-c", &program];
        assert_eq!(self.run(run).code, Some(6));
        let check = format!("c=touch {started}");
        let run = ["-q", "--ledger", &file, "run", "--check", &check, "x", "--", "true"];
        assert_eq!(self.run(run).code, Some(0));
        let flow = ["-q", "--ledger", &file, "flow", "start", "sdd", "Add", "--", "sh", "-c", &program];
        assert_eq!(self.run(flow).code, Some(1));
        // The recipient of the ledger is another user with a state of their own.
        fs::remove_dir_all(self.beside("home")).unwrap();
        fs::create_dir(self.beside("home")).unwrap();
        fs::remove_file(self.beside(STARTED)).unwrap();
        let _ = fs::remove_dir_all(self.path().join(".callsheet/changes"));
    }

    fn has_started(&self) -> bool {
        self.beside(STARTED).exists()
    }
}

/// All commands that continue from a ledger or append to it.
const ACTS: &[&[&str]] = &[
    &["retry", "last", "--force"],
    &["retry", "last~1", "--force"],
    &["retry", "last", "--force", "--dry-run"],
    &["retry", "last", "--force", "-a", "claude"],
    &["continue", "last", "more"],
    &["flow", "resume"],
    &["flow", "decide", "approve"],
    &["flow", "decide", "reject"],
    &["flow", "decide", "changes", "more"],
    &["flow", "stop"],
    &["flow", "start", "sdd", "Add", "--", "true"],
    &["decide", "last", "a.txt", "--approve"],
    &["recover"],
    &["recover", "last"],
    &["stop", "last"],
    &["gc", "--keep-last", "0"],
    &["run", "x", "--", "true"],
    &["compose", "--record", "x"],
];

/// Commands that only read.
const READS: &[&[&str]] = &[
    &["log"],
    &["status"],
    &["show", "last"],
    &["show", "last", "--prompt"],
    &["diff", "last~1", "last"],
    &["verify", "--all"],
    &["export", "--all"],
    &["flow", "list"],
    &["flow", "status"],
    &["gc", "--keep-last", "0", "--dry-run"],
];

/// Returns the arguments with a ledger that is named explicitly.
fn with_ledger<'a>(ledger: &[&'a str], args: &[&'a str]) -> Vec<&'a str> {
    [&["-q"], ledger, args].concat()
}

#[test]
fn foreign_ledger_starts_nothing_before_adoption() {
    // The place of the ledger, the flags that name it, and whether git tracks it.
    let cases: &[(&str, &[&str], bool)] = &[
        (".callsheet/ledger.db", &[], true),
        (".callsheet/ledger.db", &[], false),
        (".callsheet/ledger.db", &["--ledger", ".callsheet/ledger.db"], true),
        (".callsheet/ledger.db", &["--ledger", ".callsheet/ledger.db"], false),
        ("data/x.db", &["--ledger", "sqlite:data/x.db"], true),
        ("data/x.db", &["--ledger", "data/../data/x.db"], false),
        ("../x.db", &["--ledger", "../x.db"], false),
    ];
    let mut tried = 0;
    for (file, ledger, tracked) in cases {
        let project = CanaryProject::repository();
        let path = project.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        project.create_hostile_ledger(&path);
        if *tracked {
            project.git(&["add", "-f", file]);
            project.git(&["commit", "-q", "-m", "x"]);
        }
        let starts_anew =
            |act: &[&str]| ["run", "compose"].contains(&act[0]) || act.starts_with(&["flow", "start"]);
        for act in ACTS {
            // A project without a ledger of its own can get one, beside the file that is not opened.
            if *tracked && ledger.is_empty() && starts_anew(act) {
                continue;
            }
            let output = project.run(with_ledger(ledger, act));
            assert_eq!(output.code, Some(10), "{file} {ledger:?} {act:?}: {}", output.err());
            assert!(!project.has_started(), "{file} {ledger:?} {act:?}");
            tried += 1;
        }
        for read in READS {
            let output = project.run(with_ledger(ledger, read));
            let expected = if *tracked { Some(10) } else { Some(0) };
            assert_eq!(output.code, expected, "{file} {ledger:?} {read:?}: {}", output.err());
            tried += 1;
        }
        let adopt = |more: &[&str]| project.run(with_ledger(ledger, &[&["ledger", "adopt"], more].concat()));
        let shown = adopt(&[]);
        assert_eq!(shown.code, Some(10), "{}", shown.err());
        if *tracked {
            continue;
        }
        let page = shown.out();
        assert!(page.contains("runs      ") && page.contains("flows     1\n"), "{page}");
        assert!(
            page.contains(&format!("starts    sh -c touch {}", project.beside(STARTED).display())),
            "{page}"
        );
        assert_eq!(adopt(&["--yes", "01a1e229-4e4c-75ef-8317-abb696d4e943"]).code, Some(2));
        let id = page.lines().find_map(|line| line.strip_prefix("id        ")).unwrap().to_owned();
        // An agent of another ledger's run does not adopt it.
        let adopting =
            format!("{} -q {} ledger adopt --yes {id}", env!("CARGO_BIN_EXE_callsheet"), ledger.join(" "));
        let by_agent = ["-q", "--ledger", "../agents.db", "run", "x", "--", "sh", "-c", &adopting];
        assert_eq!(project.run(by_agent).code, Some(6));
        assert_eq!(project.run(with_ledger(ledger, &["retry", "last~1", "--force"])).code, Some(10));
        assert_eq!(adopt(&["--yes", &id]).code, Some(0));
        project.run(with_ledger(ledger, &["retry", "last~1", "--force"]));
        assert!(project.has_started(), "it is known now");
        // A copy of it elsewhere has the same id, and is foreign.
        let known = if ledger.is_empty() { project.ledger_path() } else { path };
        fs::copy(known, project.beside("copy.db")).unwrap();
        assert_eq!(project.run(["-q", "--ledger", "../copy.db", "retry", "last", "--force"]).code, Some(10));
    }
    assert!(tried > 150, "{tried}");
}

/// A ledger without records is as good as a new one. Its own claim does not prove that it has none.
#[test]
fn ledger_claiming_emptiness_is_foreign() {
    let pretences = [
        "UPDATE head SET seq = 0",
        "UPDATE head SET seq = 0, chain = zeroblob(32)",
        "UPDATE head SET seq = 0, chain = zeroblob(32); UPDATE records SET seq = -seq; UPDATE runs SET seq = -seq",
        "UPDATE head SET seq = 0, chain = zeroblob(32); DELETE FROM records WHERE kind <> 'composed'",
        "UPDATE head SET seq = 0, chain = zeroblob(32); UPDATE records SET seq = seq + 1000000; UPDATE runs SET seq = seq + 1000000",
        "UPDATE head SET seq = 0, chain = zeroblob(32); DELETE FROM runs",
        "UPDATE head SET seq = 0, chain = zeroblob(32); DELETE FROM records",
    ];
    for pretence in pretences {
        for (file, ledger) in [(".callsheet/ledger.db", &[][..]), ("../x.db", &["--ledger", "../x.db"])] {
            let project = CanaryProject::repository();
            let path = project.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            project.create_hostile_ledger(&path);
            rusqlite::Connection::open(&path).unwrap().execute_batch(pretence).unwrap();
            for act in ACTS {
                let output = project.run(with_ledger(ledger, act));
                assert!(!project.has_started(), "{pretence} {file} {act:?}");
                assert!(matches!(output.code, Some(8 | 10)), "{pretence} {file} {act:?}: {}", output.err());
            }
        }
    }
}

/// A foreign ledger is read to its end, regardless of the parents that its runs claim.
#[test]
fn cyclic_run_parents_are_read() {
    for cycle in [
        "UPDATE runs SET parent = id, task = NULL",
        "UPDATE runs SET task = NULL, parent = (SELECT id FROM runs AS other WHERE other.seq <> runs.seq ORDER BY seq DESC LIMIT 1)",
    ] {
        let project = CanaryProject::repository();
        project.create_hostile_ledger(&project.beside("x.db"));
        rusqlite::Connection::open(project.beside("x.db")).unwrap().execute_batch(cycle).unwrap();
        for read in READS.iter().chain(&[&["status", "last"][..], &["--all-projects", "status"]]) {
            let output = project.run(with_ledger(&["--ledger", "../x.db"], read));
            assert!(
                matches!(output.code, Some(0 | 8)),
                "{cycle} {read:?}: {:?} {}",
                output.code,
                output.err()
            );
        }
    }
}

#[test]
fn same_task_id_is_per_project() {
    let project = CanaryProject::repository();
    let other = project.beside("other");
    fs::create_dir(&other).unwrap();
    let run = ["-q", "--ledger", "../both.db", "run", "--task-id", "T-1", "x", "--", "true"];
    assert_eq!(project.run(run).code, Some(0));
    assert_eq!(project.run_in(&other, &run).code, Some(0));
    let tasks = |all: &[&str]| {
        let status =
            project.run_json(project.path(), &[&["--ledger", "../both.db"], all, &["status"]].concat());
        let tasks = status["items"].as_array().unwrap();
        tasks.iter().map(|task| task["runs"].as_array().unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!((tasks(&[]), tasks(&["--all-projects"])), (vec![1], vec![1, 1]));
}

#[test]
fn replaced_known_ledger_is_detected() {
    type Change = fn(&CanaryProject, &Path, &Path);
    let changes: &[(&str, Change)] = &[
        ("removed", |_, ledger, _| fs::remove_file(ledger).unwrap()),
        ("emptied", |_, ledger, _| fs::write(ledger, "").unwrap()),
        ("half of it", |_, ledger, _| {
            let bytes = fs::read(ledger).unwrap();
            fs::write(ledger, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("rolled back in place", |project, ledger, _| {
            fs::write(ledger, fs::read(project.beside("older.db")).unwrap()).unwrap();
        }),
        ("another one in place", |_, ledger, other| fs::write(ledger, fs::read(other).unwrap()).unwrap()),
        ("another one moved there", |_, ledger, other| fs::rename(other, ledger).unwrap()),
        ("another one with its id", |project, ledger, other| {
            let id: String = rusqlite::Connection::open(project.beside("older.db"))
                .unwrap()
                .query_row("SELECT id FROM identity", [], |row| row.get(0))
                .unwrap();
            let db = rusqlite::Connection::open(other).unwrap();
            db.execute("UPDATE identity SET id = ?1", [id]).unwrap();
            drop(db);
            fs::write(ledger, fs::read(other).unwrap()).unwrap();
        }),
        ("the last record taken out", |_, ledger, _| {
            let db = rusqlite::Connection::open(ledger).unwrap();
            db.execute_batch(
                "DELETE FROM runs WHERE seq = (SELECT MAX(seq) FROM records);
                 DELETE FROM records WHERE seq = (SELECT MAX(seq) FROM records);
                 UPDATE head SET seq = (SELECT MAX(seq) FROM records), chain = (SELECT chain FROM records ORDER BY seq DESC LIMIT 1)",
            )
            .unwrap();
        }),
        ("all records taken out", |_, ledger, _| {
            let db = rusqlite::Connection::open(ledger).unwrap();
            db.execute_batch(
                "DELETE FROM runs; DELETE FROM records; UPDATE head SET seq = 0, chain = zeroblob(32)",
            )
            .unwrap();
        }),
    ];
    for (name, change) in changes {
        let project = CanaryProject::repository();
        let ledger = project.ledger_path();
        for text in ["one", "two", "three"] {
            assert_eq!(project.run(["-q", "compose", "--record", text]).code, Some(0));
            if text == "two" {
                fs::copy(&ledger, project.beside("older.db")).unwrap();
            }
        }
        assert_eq!(project.run(["verify", "--all"]).code, Some(0));
        let other = project.beside("other.db");
        for _ in 0..5 {
            project.run(["-q", "--ledger", other.to_str().unwrap(), "compose", "--record", "evil"]);
        }
        change(&project, &ledger, &other);
        let verified = project.run(["verify", "--all"]);
        assert_eq!(verified.code, Some(8), "{name}: {}{}", verified.out(), verified.err());
        for act in [
            &["-q", "compose", "--record", "four"][..],
            &["-q", "run", "x", "--", "true"],
            &["-q", "retry", "last"],
        ] {
            let output = project.run(act);
            assert_eq!(output.code, Some(8), "{name} {act:?}: {}", output.err());
        }
        // No new ledger took its place, and none does before a person wants it.
        assert_eq!(project.run(["verify", "--all"]).code, Some(8), "{name}");
        assert_eq!(project.run(["ledger", "forget"]).code, Some(10));
        let id = project.run_json(project.path(), &["ledger", "list"])["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|known| known["place"] == ledger.display().to_string())
            .unwrap()["ledger"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(project.run(["-q", "ledger", "forget", "--yes", &id]).code, Some(0), "{name}");
        let _ = fs::remove_file(&ledger);
        assert_eq!(project.run(["-q", "compose", "--record", "four"]).code, Some(0), "{name}");
        assert_eq!(project.run(["verify", "--all"]).code, Some(0), "{name}");
    }
}

#[test]
fn file_replacing_known_ledger_is_foreign() {
    let project = CanaryProject::repository();
    let ledger = project.ledger_path();
    assert_eq!(project.run(["-q", "run", "x", "--", "true"]).code, Some(0));
    // The same records, and one more that starts a program.
    let copy = project.beside("copy.db");
    fs::copy(&ledger, &copy).unwrap();
    let program = format!("touch {}; exit 1", project.beside(STARTED).display());
    let copied = copy.to_str().unwrap();
    let id = project.run_json(project.path(), &["ledger", "list"])["items"][0]["ledger"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(project.run(["-q", "--ledger", copied, "ledger", "adopt", "--yes", &id]).code, Some(0));
    project.run(["-q", "--ledger", copied, "run", "x", "--", "sh", "-c", &program]);
    fs::remove_file(project.beside(STARTED)).unwrap();
    fs::rename(&copy, &ledger).unwrap();
    for act in ACTS {
        let output = project.run(with_ledger(&[], act));
        assert_eq!(output.code, Some(10), "{act:?}: {}", output.err());
        assert!(!project.has_started(), "{act:?}");
    }
}

#[test]
fn ledger_survives_agent_changes_to_project() {
    let agents = [
        "git clean -fdxq",
        "git -c user.name=t -c user.email=t@t stash -u -q",
        "rm -rf .callsheet",
        "echo b > b; git add -Af; git -c user.name=t -c user.email=t@t commit -qm w",
        "rm -f .git/callsheet-id",
        "echo 01a1e229-4e4c-75ef-8317-abb696d4e943 > .git/callsheet-id",
        "printf x > .git/callsheet-id",
        "rm .git/callsheet-id; ln -s /dev/zero .git/callsheet-id",
        "rm .git/callsheet-id; mkdir .git/callsheet-id",
        "cp ../other/.git/callsheet-id .git/callsheet-id",
        "rm -rf .git",
        "rm -rf .git; git init -q",
        "rm -rf .git; cp -r ../other/.git .git",
        "rm -rf .git; mv ../other/.git .git",
        "rm -rf .git; mv ../other/.git ../taken; ln -s ../taken .git",
        "rm -rf .git; mv ../other/.git ../taken; echo gitdir: ../taken > .git",
        "rm -rf .git; ln -s ../other/.git .git",
        "rm -rf .git; echo gitdir: ../other/.git > .git",
        "git config core.worktree ../other",
    ];
    for agent in agents {
        let project = CanaryProject::repository();
        let other = project.beside("other");
        fs::create_dir(&other).unwrap();
        git_in(&other, &project.beside("home"), &["init", "-q"]);
        assert_eq!(project.run_in(&other, &["-q", "run", "x", "--", "true"]).code, Some(0));
        let others = project.ledger_path_in(&other);
        assert_eq!(project.run(["-q", "run", "first", "--", "true"]).code, Some(0));
        let ledger = project.ledger_path();
        project.run(["-q", "run", "--write", "**", "x", "--", "sh", "-c", agent]);
        assert_eq!(project.ledger_path(), ledger, "{agent}");
        assert_ne!(others, ledger);
        assert_eq!(
            (project.count_runs(project.path(), &[]), project.count_runs(&other, &[])),
            (2, 1),
            "{agent}"
        );
        let verified = project.run(["verify", "--all"]);
        assert_eq!(verified.code, Some(0), "{agent}: {}", verified.out());
        // No part of the ledger went into the repository.
        assert!(!project.path().join(".callsheet/ledger.db").exists(), "{agent}");
        assert_eq!(project.ledger_path_in(&other), others, "{agent}");
    }
}

#[test]
fn changed_project_id_is_reported_once() {
    let project = CanaryProject::repository();
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(0));
    let id = fs::read_to_string(project.path().join(".git/callsheet-id")).unwrap();
    fs::remove_file(project.path().join(".git/callsheet-id")).unwrap();
    let told = project.run(["log"]);
    let expected = "warning[LedgerProject]: the id of this project was removed in its git directory\n  \
                    = hint: the ledger stays the same; run `callsheet ledger path` to see it\n";
    assert_eq!((told.code, told.err().as_str()), (Some(0), expected));
    assert_eq!(fs::read_to_string(project.path().join(".git/callsheet-id")).unwrap(), id);
    assert_eq!(project.run(["log"]).err(), "");
}

#[test]
fn checkout_identity_selects_its_ledger() {
    let project = CanaryProject::repository();
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(0));
    let ledger = project.ledger_path();
    project.git(&["worktree", "add", "-q", "../tree"]);
    assert_eq!(project.ledger_path_in(&project.beside("tree")), ledger);
    let copy = project.beside("copied");
    assert!(Command::new("cp").arg("-r").arg(project.path()).arg(&copy).status().unwrap().success());
    let own = project.ledger_path_in(&copy);
    assert_ne!(own, ledger);
    assert_eq!((project.ledger_path_in(&copy), project.ledger_path()), (own.clone(), ledger.clone()));
    // The project moves, and another one takes its place.
    let moved = project.beside("moved");
    fs::rename(project.path(), &moved).unwrap();
    assert_eq!(project.ledger_path_in(&moved), ledger);
    fs::rename(&copy, project.path()).unwrap();
    assert_eq!(project.ledger_path(), own);
    assert_eq!(project.ledger_path_in(&moved), ledger);
    assert_eq!((project.count_runs(&moved, &[]), project.ledger_path_in(&moved)), (1, ledger));
    // Without git the path counts; creating a repository later changes nothing.
    let plain = project.beside("plain");
    fs::create_dir(&plain).unwrap();
    let lost = project.run_in(&plain, &["log"]);
    assert_eq!(lost.code, Some(4));
    assert!(lost.err().contains("`callsheet ledger list`"), "who moved it is told: {}", lost.err());
    let before = project.ledger_path_in(&plain);
    git_in(&plain, &project.beside("home"), &["init", "-q"]);
    assert_eq!(project.ledger_path_in(&plain), before);
    // A folder of a repository that is a project of its own has its own ledger.
    fs::create_dir_all(moved.join("sub/.callsheet")).unwrap();
    let sub = project.ledger_path_in(&moved.join("sub"));
    assert_ne!(sub, project.ledger_path_in(&moved));
    // A directory that pretends to be a worktree of an existing project.
    let liar = project.beside("liar");
    fs::create_dir(&liar).unwrap();
    fs::write(liar.join(".git"), format!("gitdir: {}\n", moved.join(".git").display())).unwrap();
    assert_ne!(project.ledger_path_in(&liar), project.ledger_path_in(&moved));
}

#[test]
fn ledger_in_project_is_watched() {
    let agents = [
        "git clean -fdxq",
        "git -c user.name=t -c user.email=t@t stash -u -q",
        "rm inside.db",
        "mv inside.db away.db",
        "cp inside.db b; mv b inside.db",
        ": > inside.db",
        "rm inside.db-wal",
        "rm inside.db*; touch inside.db",
        "ln -sf /dev/null inside.db",
        "rm inside.db; mkdir inside.db",
        "truncate -s 100 inside.db",
        "head -c 4096 inside.db > ../part; cat ../part > inside.db",
        "dd if=/dev/urandom of=inside.db conv=notrunc bs=1k count=64",
        "dd if=/dev/zero of=inside.db conv=notrunc bs=1k count=64",
        "cat ../other.db > inside.db",
        ": > inside.db-wal",
        "rm inside.db-shm",
    ];
    for agent in agents {
        let project = CanaryProject::repository();
        project.write_beside("home/.config/callsheet/config.toml", "ledger = \"inside.db\"\n");
        assert_eq!(project.run(["-q", "run", "x", "--", "true"]).code, Some(0));
        assert_eq!(project.run(["-q", "--ledger", "../other.db", "run", "x", "--", "true"]).code, Some(0));
        let mark = project.beside("went-on");
        let script = format!("{agent}; echo said; sleep 30; touch {}", mark.display());
        let ended = project.run(["--json", "-q", "run", "x", "--", "sh", "-c", &script]);
        assert_eq!(ended.code, Some(8), "{agent}: {}", ended.err());
        assert!(ended.err().contains("ledger/damaged"), "{agent}: {}", ended.err());
        assert!(!mark.exists(), "{agent}: the agent was ended");
    }
    // Also for agents that print nothing more, or end at once.
    for agent in ["rm led/l.db", "truncate -s 100 led/l.db", ": > led/l.db-wal", "rm -r led"] {
        for more in ["; sleep 40; touch ../went-on", ""] {
            let project = CanaryProject::repository();
            fs::create_dir(project.path().join("led")).unwrap();
            let run = |program: &str| {
                let args = ["-q", "run", "--write", "**", "x", "--", "sh", "-c", program];
                run_command(project.command().env("CALLSHEET_LEDGER", "led/l.db").args(args))
            };
            assert_eq!(run("true").code, Some(0));
            let ended = run(&format!("{agent}{more}"));
            assert_eq!(ended.code, Some(8), "{agent}{more}: {}", ended.err());
            assert!(ended.err().contains("error[LedgerDamaged]"), "{agent}{more}: {}", ended.err());
            assert!(ended.took < Duration::from_secs(35), "{agent}{more}: {:?}", ended.took);
            assert!(!project.beside("went-on").exists(), "{agent}{more}: the agent was ended");
        }
    }
}

/// A change in the middle of a file is detected when the run is over; unchanged data is not a loss.
#[test]
fn ledger_in_project_is_fully_verified() {
    let project = CanaryProject::repository();
    project.write_beside("home/.config/callsheet/config.toml", "ledger = \"inside.db\"\n");
    for _ in 0..8 {
        assert_eq!(project.run(["-q", "run", "x", "--", "true"]).code, Some(0));
    }
    assert_eq!(project.run(["-q", "run", "x", "--", "sh", "-c", "cat inside.db > /dev/null"]).code, Some(0));
    let size = project.path().join("inside.db").metadata().unwrap().len();
    let pages = size / 8192;
    let whole = fs::read(project.path().join("inside.db")).unwrap();
    // Whichever page is overwritten: the run ends with 8, or none of the ledger's data is lost.
    let mut found = 0;
    for page in 0..pages {
        let script = format!("dd if=/dev/zero of=inside.db conv=notrunc bs=8192 seek={page} count=1");
        let ended = project.run(["-q", "run", "x", "--", "sh", "-c", &script]);
        if ended.code == Some(8) {
            found += 1;
        } else {
            let verified = project.run(["verify", "--all", "--read-data"]);
            let what = format!("page {page} of {pages}: {:?} {}", ended.code, verified.out());
            assert_eq!((ended.code, verified.code), (Some(0), Some(0)), "{what}");
        }
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(project.path().join(format!("inside.db{end}")));
        }
        fs::write(project.path().join("inside.db"), &whole).unwrap();
        let id = project.run_json(project.path(), &["ledger", "list"])["items"][0]["ledger"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(project.run(["-q", "ledger", "adopt", "--yes", &id]).code, Some(0));
    }
    assert!(found > pages / 3, "{found} of {pages}");
}

/// The head is kept with the entry of a ledger: without it, nothing shows that the ledger was rolled back.
#[test]
fn missing_kept_head_is_damage() {
    let project = CanaryProject::repository();
    let ledger = project.ledger_path();
    assert_eq!(project.run(["-q", "compose", "--record", "one"]).code, Some(0));
    let older = fs::read(&ledger).unwrap();
    assert_eq!(project.run(["-q", "compose", "--record", "two"]).code, Some(0));
    let ledgers = project.beside("home/.local/state/callsheet/ledgers");
    let folder = fs::read_dir(ledgers).unwrap().next().unwrap().unwrap().path();
    for (name, head) in [("removed", None), ("empty", Some("")), ("no head", Some("x:y\n"))] {
        fs::write(&ledger, &older).unwrap();
        fs::remove_file(folder.join("head")).unwrap();
        if let Some(head) = head {
            fs::write(folder.join("head"), head).unwrap();
        }
        let verified = project.run(["verify", "--all"]);
        assert_eq!(verified.code, Some(8), "{name}: {}", verified.out());
        assert!(
            verified.out().contains("the state directory lost the ledger's last known head"),
            "{}",
            verified.out()
        );
        assert_eq!(project.run(["verify", "last"]).code, Some(8), "{name}");
        let log = project.run(["log"]);
        assert_eq!(log.code, Some(0), "{name}: {}", log.err());
        assert!(log.err().contains("warning[LedgerDamaged]"), "{}", log.err());
        assert_eq!(project.run(["-q", "compose", "--record", "three"]).code, Some(8), "{name}");
        assert_eq!(project.run(["-q", "run", "x", "--", "true"]).code, Some(8), "{name}");
        // A person who wants it in this state says so.
        let id = project.run_json(project.path(), &["ledger", "list"])["items"][0]["ledger"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(project.run(["-q", "ledger", "adopt", "--yes", &id]).code, Some(0), "{name}");
        assert_eq!(project.run(["verify", "--all"]).code, Some(0), "{name}");
        assert_eq!(project.run(["-q", "compose", "--record", "three"]).code, Some(0), "{name}");
    }
}

#[test]
fn projects_sharing_ledger_see_own_runs() {
    let project = CanaryProject::repository();
    let shared = project.beside("shared.db");
    project
        .write_beside("home/.config/callsheet/config.toml", format!("ledger = \"{}\"\n", shared.display()));
    assert_projects_share_ledger(&project, false);
}

#[test]
fn projects_sharing_server_see_own_runs() {
    let server = match callsheet_testing::Postgres::start() {
        Ok(server) => server,
        Err(why) => return callsheet_testing::not_tested(&format!("projects on PostgreSQL: {why}")),
    };
    let project = CanaryProject::repository();
    let url = server.create_database("shared").unwrap();
    project.write_beside("home/.config/callsheet/config.toml", format!("ledger = \"{url}\"\n"));
    assert_projects_share_ledger(&project, true);
    // Another machine does not know this ledger.
    project.write_beside("else/.config/callsheet/config.toml", format!("ledger = \"{url}\"\n"));
    let elsewhere =
        |args: &[&str]| run_command(project.command().env("HOME", project.beside("else")).args(args));
    assert_eq!(elsewhere(&["-q", "compose", "--record", "x"]).code, Some(10));
    assert_eq!(elsewhere(&["log"]).code, Some(0));
    let id = project.run_json(project.path(), &["ledger", "list"])["items"][0]["ledger"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(elsewhere(&["-q", "ledger", "adopt", "--yes", &id]).code, Some(0));
    assert_eq!(elsewhere(&["-q", "compose", "--record", "x"]).code, Some(0));
    // Records that the other machine appended are not damage here; a server restored from a backup is.
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(0));
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    client
        .batch_execute(
            "SET search_path = callsheet; DELETE FROM run_facts WHERE seq = (SELECT MAX(seq) FROM records);
             DELETE FROM runs WHERE seq = (SELECT MAX(seq) FROM records);
             DELETE FROM records WHERE seq = (SELECT MAX(seq) FROM records);
             UPDATE head SET seq = (SELECT MAX(seq) FROM records),
                             chain = (SELECT chain FROM records ORDER BY seq DESC LIMIT 1)",
        )
        .unwrap();
    assert_eq!(project.run(["verify", "--all"]).code, Some(8));
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(8));
    assert_eq!(elsewhere(&["verify", "--all"]).code, Some(0), "it kept an older head");
    assert_eq!(project.run(["-q", "ledger", "adopt", "--yes", &id]).code, Some(0));
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(0));
}

/// Uses one ledger for two projects with tasks of the same name, and the same flow.
fn assert_projects_share_ledger(project: &CanaryProject, is_server: bool) {
    let other = project.beside("other");
    fs::create_dir(&other).unwrap();
    git_in(&other, &project.beside("home"), &["init", "-q"]);
    git_in(
        &other,
        &project.beside("home"),
        &["remote", "add", "origin", "https://me:hunter2@example.org/team/shop.git"],
    );
    let started = project.beside(STARTED).display().to_string();
    let evil = format!("touch {started}; exit 1");
    assert_eq!(project.run(["-q", "run", "--task-id", "T-1", "x", "--", "sh", "-c", "exit 1"]).code, Some(6));
    let theirs =
        project.run_in(&other, &["--json", "-q", "run", "--task-id", "T-1", "x", "--", "sh", "-c", &evil]);
    assert_eq!(theirs.code, Some(6));
    let theirs: Value = serde_json::from_slice(&theirs.stdout).unwrap();
    let theirs = theirs["run"].as_str().unwrap().to_owned();
    project.run_in(&other, &["-q", "flow", "start", "sdd", "Add", "--id", "add", "--", "sh", "-c", &evil]);
    fs::remove_file(project.beside(STARTED)).unwrap();
    let shown = project.run_json(project.path(), &["show", &theirs]);
    assert_eq!(shown["project"], "example.org/team/shop");
    assert!(shown["host"].is_string() && shown["user"].is_string());
    assert_eq!(project.count_runs(project.path(), &[]), 1);
    assert!(project.count_runs(project.path(), &["--all-projects"]) > 1);
    assert_eq!(project.run_json(project.path(), &["show", "last"])["project"], "project");
    let status = project.run_json(project.path(), &["status", "T-1"]);
    assert_eq!(status["items"][0]["runs"].as_array().unwrap().len(), 1);
    assert_eq!(project.run_json(project.path(), &["flow", "list"])["items"], serde_json::json!([]));
    for (act, code) in [
        (&["retry", "last", "--force"][..], 6),
        (&["retry", &theirs, "--force"], 9),
        (&["continue", &theirs, "more"], 9),
        (&["decide", &theirs, "a.txt", "--approve"], 9),
        (&["stop", &theirs], 9),
        (&["recover", &theirs], 9),
        (&["flow", "resume"], 4),
        (&["flow", "resume", "add"], 4),
        (&["flow", "decide", "approve"], 4),
        (&["recover"], 0),
        (&["gc", "--keep-last", "0"], 0),
    ] {
        let output = project.run(with_ledger(&[], act));
        assert_eq!(output.code, Some(code), "{act:?}: {}", output.err());
        assert!(!project.has_started(), "{act:?}");
    }
    assert_eq!(project.count_runs(project.path(), &[]), 0, "retention took its own runs");
    assert!(project.count_runs(&other, &[]) > 1);
    let secrets = project.run(["export", "--all"]).out();
    assert!(!secrets.contains("hunter2"), "a password of `origin` is in no record");
    assert_eq!(project.run(["-q", "retry", &theirs, "--force", "--all-projects"]).code, Some(6));
    assert!(project.has_started());
    // Runs of versions that did not record a project.
    if !is_server {
        let db = rusqlite::Connection::open(project.beside("shared.db")).unwrap();
        db.execute_batch(
            "UPDATE runs SET project = NULL; DROP TABLE run_facts; DROP TABLE run_numbers;
             DROP INDEX runs_by_task; DROP INDEX runs_by_agent; DROP INDEX runs_by_phase; DROP INDEX runs_by_started;
             DELETE FROM migrations WHERE number > 2",
        )
        .unwrap();
        drop(db);
        assert!(project.count_runs(project.path(), &[]) > 1);
    }
}

#[test]
fn imported_runs_start_nothing() {
    let project = CanaryProject::repository();
    let evil = project.beside("evil.db");
    project.create_hostile_ledger(&evil);
    let file = evil.display().to_string();
    let list = project.run_json(project.path(), &["--ledger", &file, "log"]);
    let runs: Vec<String> =
        list["items"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect();
    let flows = project.run_json(project.path(), &["--ledger", &file, "flow", "list"]);
    let flow = flows["items"][0]["flow"].as_str().unwrap().to_owned();
    assert_eq!(project.run(["--ledger", &file, "export", "--all", "--out", "all"]).code, Some(0));
    assert_eq!(project.run(["--ledger", &file, "export", &runs[0], "--out", "one"]).code, Some(0));
    let acts = |name: &str| {
        let mut acts: Vec<Vec<String>> = Vec::new();
        for run in &runs {
            let words = |args: &[&str]| args.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            acts.push(words(&["retry", run, "--force"]));
            acts.push(words(&["retry", run, "--force", "--all-projects"]));
            acts.push(words(&["continue", run, "more"]));
            acts.push(words(&["decide", run, "a.txt", "--approve"]));
            acts.push(words(&["recover", run]));
        }
        for args in [["resume", &flow].to_vec(), ["decide", "approve", "--flow", &flow].to_vec()] {
            acts.push([vec!["flow"], args].concat().into_iter().map(str::to_owned).collect());
        }
        for act in acts {
            let args: Vec<&str> = act.iter().map(String::as_str).collect();
            let output = project.run(with_ledger(&[], &args));
            assert!(
                matches!(output.code, Some(10 | 4)),
                "{name} {args:?}: {:?} {}",
                output.code,
                output.err()
            );
            assert!(!project.has_started(), "{name} {args:?}");
        }
    };
    // Into an empty ledger: all of it is foreign.
    let whole = project.run(["import", "all"]);
    assert!(whole.out().contains("with the same chain"), "{}", whole.out());
    acts("whole");
    assert_eq!(project.run(["-q", "run", "x", "--", "true"]).code, Some(10));
    assert_eq!(project.run(["verify", "--all"]).code, Some(0));
    // Beside runs of its own.
    fs::remove_dir_all(project.beside("home")).unwrap();
    fs::create_dir(project.beside("home")).unwrap();
    assert_eq!(project.run(["-q", "run", "--task-id", "T-1", "x", "--", "false"]).code, Some(6));
    assert_eq!(project.run(["-q", "import", "one"]).code, Some(0));
    assert_eq!(project.run(["-q", "import", "all"]).code, Some(0));
    acts("beside");
    assert_eq!(project.run(["verify", "--all"]).code, Some(0));
    // The last run, the task and the flow are the ledger's own.
    assert_eq!(
        project.run_json(project.path(), &["status", "T-1"])["items"][0]["runs"].as_array().unwrap().len(),
        1
    );
    assert_eq!(project.run(["-q", "retry", "last", "--force"]).code, Some(6));
    assert_eq!(project.run(["-q", "flow", "resume"]).code, Some(4));
    assert!(!project.has_started());
}

#[test]
fn earlier_ledger_is_copied_and_archived() {
    let project = CanaryProject::repository();
    let old = project.path().join(".callsheet/ledger.db");
    for text in ["one", "two"] {
        project.run(["-q", "--ledger", ".callsheet/ledger.db", "compose", "--record", text]);
    }
    fs::remove_dir_all(project.beside("home")).unwrap();
    let log = project.run(["log"]);
    let new = project.ledger_path();
    let expected = format!(
        "the ledger was copied from {} to {}; the old file is {}.moved now; run `callsheet ledger adopt` to use it\n",
        old.display(),
        new.display(),
        old.display()
    );
    assert_eq!((log.code, log.err()), (Some(0), expected));
    assert_eq!(log.out().lines().count(), 3);
    assert!(!old.exists() && project.path().join(".callsheet/ledger.db.moved").exists());
    assert_eq!(project.run(["log"]).err(), "");
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(10));
    let id = project.run(["-q", "ledger", "adopt"]).out();
    let id = id.lines().find_map(|line| line.strip_prefix("id        ")).unwrap().to_owned();
    assert_eq!(project.run(["-q", "ledger", "adopt", "--yes", &id]).code, Some(0));
    assert_eq!(project.run(["-q", "compose", "--record", "x"]).code, Some(0));
    assert_eq!(project.count_runs(project.path(), &[]), 3);
    assert_eq!(project.run(["verify", "--all"]).code, Some(0));
}

#[test]
fn unwritable_home_suggests_other_place() {
    let project = CanaryProject::repository();
    let run = |args: &[&str], home: Option<&str>| {
        let mut command = project.command();
        match home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        run_command(command.args(args))
    };
    // A run needs the state directory besides the ledger, and the error says why.
    let acts: [&[&str]; 6] = [
        &["-q", "compose", "--record", "x"],
        &["-q", "run", "x", "--", "true"],
        &["-q", "flow", "start", "sdd", "Add", "--", "true"],
        &["-q", "--ledger", "other.db", "run", "x", "--", "true"],
        &["-q", "run", "--worktree", "x", "--", "true"],
        &["ledger", "path"],
    ];
    for home in [Some("/proc/none"), None] {
        for act in acts {
            let output = run(act, home);
            let err = output.err();
            assert_eq!(output.code, Some(8), "{act:?} {home:?}: {err}");
            assert!(
                err.contains("error[LedgerFailed]: cannot use the state directory"),
                "{act:?} {home:?}: {err}"
            );
            assert!(err.contains("--ledger") && err.contains("XDG_STATE_HOME"), "{act:?} {home:?}: {err}");
            assert!(err.contains("`stop` and `recover` read"), "{act:?} {home:?}: {err}");
        }
        let _ = fs::remove_file(project.path().join("named.db"));
        let named = run(&["-q", "--ledger", "named.db", "compose", "--record", "x"], home);
        assert_eq!(named.code, Some(0), "{}", named.err());
    }
}

#[test]
fn earlier_runs_have_names() {
    let project = CanaryProject::repository();
    for text in ["one", "two", "three"] {
        project.run(["-q", "compose", "--record", text]);
    }
    let prompt = |run: &str| project.run(["show", run, "--prompt"]).out();
    for (run, text) in [("last", "three"), ("last~0", "three"), ("last~1", "two"), ("last~2", "one")] {
        assert!(prompt(run).contains(text), "{run}");
    }
    for run in [
        "last~3",
        "last~",
        "last~-1",
        "last~+1",
        "last~x",
        "last~99999999999999999999",
        "last~18446744073709551615",
    ] {
        assert_eq!(project.run(["show", run]).code, Some(4), "{run}");
    }
}

#[test]
fn short_lived_state_directory_is_reported() {
    let project = CanaryProject::repository();
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return crate::not_tested("a state directory in memory: there is no /dev/shm");
    };
    let run = |args: &[&str]| run_command(project.command().env("XDG_STATE_HOME", memory.path()).args(args));
    let warning = "warning[LedgerShortLived]: ";
    let first = run(&["compose", "--record", "x"]);
    assert_eq!(first.code, Some(0));
    assert!(first.err().contains(warning) && first.err().contains("tmpfs"), "{}", first.err());
    assert!(!run(&["compose", "--record", "x"]).err().contains(warning), "it is told once");
    assert!(run(&["ledger", "path"]).err().contains(warning));
    assert!(run(&["doctor"]).out().contains("tmpfs"));
    assert!(!project.run(["compose", "--record", "x"]).err().contains("tmpfs"));
}
