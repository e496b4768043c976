//! Test fixture: a project in its own directory, and the real binary that runs in it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct World {
    _dir: tempfile::TempDir,
    pub(crate) project: PathBuf,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        Self { _dir: dir, project }
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project.join(path)).unwrap()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callsheet"));
        command.current_dir(&self.project).env_clear();
        command.env("HOME", self.home()).env("PATH", std::env::var("PATH").unwrap());
        command
    }

    /// Returns the path of the project's ledger.
    pub(crate) fn ledger(&self) -> PathBuf {
        PathBuf::from(self.run(["-q", "ledger", "path"]).out.trim_end())
    }

    /// Returns the path of a file that SQLite creates beside the ledger.
    pub(crate) fn sidecar_path(&self, end: &str) -> PathBuf {
        let mut path = self.ledger().into_os_string();
        path.push(end);
        PathBuf::from(path)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.project.parent().unwrap().join("home")
    }

    pub(crate) fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Said {
        run_command(self.command().args(args), b"")
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &[u8]) -> Said {
        run_command(self.command().args(args), stdin)
    }
}

pub(crate) fn run_command(command: &mut Command, stdin: &[u8]) -> Said {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may exit before it reads all of its input.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Reads the body of a shipped file: the text below its frontmatter, trimmed.
pub(crate) fn read_shipped_body(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/builtin").join(path);
    let text = fs::read_to_string(file).unwrap();
    match text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) {
        Some((_, body)) => body.trim().to_string(),
        None => text.trim().to_string(),
    }
}
