//! Whole processes: how long they take from start to end, and the most memory that they had at once.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program that takes part.
pub(crate) struct Program {
    pub(crate) name: String,
    words: Vec<OsString>,
    dir: PathBuf,
    /// Destination of standard output; `None` discards it.
    out: Option<PathBuf>,
    /// In how many rounds it takes part, at most.
    rounds: usize,
}

/// What a run has cost.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) nanoseconds: f64,
    /// The most bytes that were in memory at once.
    pub(crate) peak: f64,
}

impl Program {
    pub(crate) fn new(name: &str, program: impl AsRef<Path>, dir: &Path) -> Self {
        let words = vec![program.as_ref().into()];
        Self { name: name.into(), words, dir: dir.into(), out: None, rounds: usize::MAX }
    }

    pub(crate) fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    pub(crate) fn args<'w>(self, words: impl IntoIterator<Item = &'w str>) -> Self {
        words.into_iter().fold(self, Self::arg)
    }

    pub(crate) fn out(mut self, file: &Path) -> Self {
        self.out = Some(file.into());
        self
    }

    pub(crate) fn rounds(mut self, most: usize) -> Self {
        self.rounds = most;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(&self.dir);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        // The user's own configuration must not affect a contender.
        command.env("XDG_CONFIG_HOME", &self.dir);
        command
    }

    /// Everything that it writes to standard output.
    pub(crate) fn output(&self) -> String {
        let output = self.command().output().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[expect(clippy::zombie_processes, reason = "wait4 waits for it, and says what it has cost")]
    fn run(&self) -> Cost {
        let mut command = self.command();
        command.stdout(match &self.out {
            Some(out) => {
                // The second contender must not pay for freeing the output of the first.
                let _ = std::fs::remove_file(out);
                File::create(out).unwrap_or_else(|error| panic!("{}: {error}", out.display())).into()
            }
            None => Stdio::null(),
        });
        let start = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut status = 0;
        // SAFETY: all zeroes is a valid `rusage`, and both pointers are to places of our own.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let id = libc::pid_t::try_from(child.id()).expect("a process id");
        let waited = unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) };
        let nanoseconds = start.elapsed().as_nanos() as f64;
        assert_eq!((waited, status), (id, 0), "{} failed: {:?}", self.name, self.words);
        // Linux counts in units of 1024 bytes.
        Cost { nanoseconds, peak: usage.ru_maxrss as f64 * 1024.0 }
    }
}

/// The least that each program has cost, from interleaved rounds.
pub(crate) fn race(programs: &[Program], rounds: usize) -> Vec<Cost> {
    let mut best = vec![Cost { nanoseconds: f64::INFINITY, peak: f64::INFINITY }; programs.len()];
    for round in 0..rounds {
        for (best, program) in best.iter_mut().zip(programs) {
            if round < program.rounds {
                let cost = program.run();
                best.nanoseconds = best.nanoseconds.min(cost.nanoseconds);
                best.peak = best.peak.min(cost.peak);
            }
        }
    }
    best
}
