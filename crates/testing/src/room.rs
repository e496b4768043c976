//! The environment of a CLI during a test.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::cli::{Cli, Launch};
use crate::documents::is_callsheet;
use crate::mcp_session::check_recorded_sessions;
use crate::process::{self, Ran};
use crate::script::Script;
use crate::server::Mock;

/// A home, a project and a mock for one test. Runs in one room share sessions, as on a user's machine.
#[derive(Debug)]
pub struct Room {
    dir: TempDir,
    /// The mock that the CLIs of this room use.
    pub mock: Mock,
}

impl Room {
    /// Creates a room with a mock that serves `script`.
    pub fn new(script: Script) -> io::Result<Self> {
        Self::from_project(|_project| script)
    }

    /// Creates a room whose script needs the path of the project, for tools that take absolute paths.
    pub fn from_project(script: impl FnOnce(&Path) -> Script) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("callsheet-room-").tempdir()?;
        for name in ["home", "project", "tmp"] {
            fs::create_dir(dir.path().join(name))?;
        }
        let mock =
            Mock::start(script(&dir.path().join("project")), Some(&dir.path().join("requests.jsonl")))?;
        Ok(Self { dir, mock })
    }

    /// Returns the directory of the room.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the home directory of the CLIs.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Returns the working directory of the CLIs; empty at first.
    pub fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// Configures a CLI for this room and returns its whole environment.
    pub fn env(&self, cli: Cli) -> io::Result<BTreeMap<String, String>> {
        self.env_at(cli, &self.mock.url())
    }

    /// Returns the environment of a CLI whose model is at another address.
    pub fn env_at(&self, cli: Cli, url: &str) -> io::Result<BTreeMap<String, String>> {
        let mut env = BTreeMap::new();
        let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
        set("PATH", env::var("PATH").unwrap_or_default());
        set("HOME", self.home().display().to_string());
        set("TMPDIR", self.path().join("tmp").display().to_string());
        set("LANG", "C.UTF-8".to_owned());
        set("TZ", "UTC".to_owned());
        set("TERM", "xterm-256color".to_owned());
        set("NO_COLOR", "1".to_owned());
        for (name, value) in cli.configure(&self.home(), url)? {
            set(name, value);
        }
        Ok(env)
    }

    /// Starts an installed CLI in the project and waits until it exits. Fails if an answer of callsheet's MCP server
    /// does not fit its revision.
    pub fn run(&self, cli: Cli, launch: &Launch<'_>) -> io::Result<Ran> {
        self.run_at(cli, launch, &self.mock.url())
    }

    /// Does the same with a model at another address.
    pub fn run_at(&self, cli: Cli, launch: &Launch<'_>, url: &str) -> io::Result<Ran> {
        let version = launch.version.unwrap_or(cli.version());
        let program = cli.program_of(version).map_err(io::Error::other)?;
        let mut env = self.env_at(cli, url)?;
        env.extend(launch.env.iter().cloned());
        env.retain(|_, value| !value.is_empty());
        let recorded = tempfile::tempdir_in(self.path())?;
        let mut launch = launch.clone();
        launch.mcp = launch.mcp.map(|server| {
            if is_callsheet(server.command.as_ref()) { server.recorded_in(recorded.path()) } else { server }
        });
        let (args, input) = cli.build_arguments(&launch, &self.home())?;
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(env).current_dir(self.project());
        let before = self.mock.requests().len();
        let mut ran = process::run_in_group(&mut command, input, launch.deadline)?;
        ran.requests = self.mock.requests().split_off(before);
        ran.answers = check_recorded_sessions(recorded.path())?;
        Ok(ran)
    }
}
