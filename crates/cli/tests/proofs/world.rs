//! A project in a directory of its own, with a secret outside of it, and the real binary that runs in it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// A text in every file outside the project. It must not appear anywhere else.
pub(crate) const CANARY: &str = "CANARY-c0ffee-outside";

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) project: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Said {
    /// `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    pub(crate) took: Duration,
}

impl Said {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }

    /// Returns whether either stream shows text from outside the project.
    pub(crate) fn has_leak(&self) -> bool {
        self.out().contains(CANARY) || self.err().contains(CANARY)
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    pub(crate) fn new_in(parent: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("proof").tempdir_in(parent).unwrap();
        let project = dir.path().canonicalize().unwrap().join("project");
        let world = Self { dir, project };
        for name in ["project", "home", "outside/dir"] {
            fs::create_dir_all(world.at(name)).unwrap();
        }
        for name in ["canary", "canary.md", "canary.toml", "dir/canary.md"] {
            world.put(&format!("outside/{name}"), CANARY);
        }
        world
    }

    /// Returns a path next to the project.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.put(&format!("project/{path}"), bytes)
    }

    /// Creates a link inside the project.
    pub(crate) fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callsheet"));
        command.current_dir(&self.project).env_clear();
        command.env("HOME", self.at("home")).env("PATH", std::env::var("PATH").unwrap());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        run_to_end(self.command().args(args))
    }
}

/// No command may wait for anything: one that takes longer than this hangs. Far above the needs of a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs the command to its end, or fails if it does not end.
pub(crate) fn run_to_end(command: &mut Command) -> Said {
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = read_in_thread(child.stdout.take().unwrap());
    let err = read_in_thread(child.stderr.take().unwrap());
    let mut wait_for = |stream: Receiver<Vec<u8>>| match stream.recv_timeout(PATIENCE) {
        Ok(bytes) => bytes,
        Err(_) => {
            child.kill().unwrap();
            child.wait().unwrap();
            unreachable!("{command:?} hangs")
        }
    };
    let (out, err) = (wait_for(out), wait_for(err));
    let code = child.wait().unwrap().code();
    Said { code, out, err, took: start.elapsed() }
}

/// Reads a stream in a thread and sends all its bytes when it ends.
fn read_in_thread(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        // The receiver is gone if the program was killed.
        let _ = send.send(bytes);
    });
    receive
}

/// Does `work` for every item, on as many threads as there are processors, and returns the result of each
/// thread.
pub(crate) fn run_in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let share = items.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let running: Vec<_> = items.chunks(share).map(|part| scope.spawn(|| work(part))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
