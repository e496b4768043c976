//! Looking: what it costs to know what a run changed, against `git status` in the same worktree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::peers::Peers;
use crate::report::{Report, Row, Taken};

/// Files in one folder.
const IN_FOLDER: usize = 100;

/// How many files a worktree has in which looking costs nothing.
const FEW: usize = 1;

pub(crate) fn report(report: &mut Report, peers: &Peers, work: &Path, most: usize, rounds: usize) {
    let few = Worktree::new(work.join("few"), FEW);
    for files in [most / 100, most / 10, most] {
        let worktree = Worktree::new(work.join(files.to_string()), files);
        // The first run reads every file; git's first look writes its index.
        worktree.run(peers);
        worktree.status();
        let (mut status, mut run, mut empty) = (f64::MAX, f64::MAX, f64::MAX);
        for _ in 0..rounds {
            status = status.min(worktree.status());
            run = run.min(worktree.run(peers));
            empty = empty.min(few.run(peers));
        }
        // A run looks twice.
        let look = (run - empty).max(0.0) / 2.0;
        let taken = |name: &str, nanoseconds: f64, remark: &str| Taken {
            name: name.into(),
            nanoseconds,
            remark: remark.into(),
        };
        let row = Row::new(&format!("a look at a worktree of {files} files, warm"));
        let row = if files == most { row.at_most("`git status`", look / status, 2.0) } else { row };
        report.add(row.contenders([
            taken("`git status`", status, ""),
            taken("callsheet", look, "before or after a run"),
            taken("`callsheet run x -- true`", run, "all of it"),
        ]));
    }
}

struct Worktree(PathBuf);

impl Worktree {
    fn new(dir: PathBuf, files: usize) -> Self {
        for number in 0..files {
            let folder = dir.join(format!("project/src/{:04}", number / IN_FOLDER));
            if number % IN_FOLDER == 0 {
                fs::create_dir_all(&folder).expect("a folder");
            }
            fs::write(folder.join(format!("{number}.txt")), format!("file {number}\n")).expect("a file");
        }
        let worktree = Self(dir);
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            let done = worktree.git().args(args).status();
            assert!(done.is_ok_and(|done| done.success()), "git {args:?}");
        }
        worktree
    }

    fn git(&self) -> Command {
        let mut command = Command::new("git");
        command.current_dir(self.0.join("project")).env("HOME", &self.0).stdout(Stdio::null());
        // Git would pack the objects in the background meanwhile.
        command.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]);
        command
    }

    fn status(&self) -> f64 {
        time(self.git().arg("status"))
    }

    fn run(&self, peers: &Peers) -> f64 {
        let mut command = Command::new(&peers.callsheet);
        command
            .current_dir(self.0.join("project"))
            .env("HOME", &self.0)
            .env("XDG_STATE_HOME", self.0.join("state"));
        time(command.args(["-q", "run", "x", "--", "true"]).stdout(Stdio::null()))
    }
}

/// Nanoseconds until a program has ended well.
fn time(command: &mut Command) -> f64 {
    let start = Instant::now();
    let done = command.status();
    let time = start.elapsed();
    assert!(done.is_ok_and(|done| done.success()), "{command:?}");
    time.as_nanos() as f64
}
