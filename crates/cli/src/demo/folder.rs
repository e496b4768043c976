//! The folder of the demo: a repository, and a home beside it that takes the place of the user's.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use callsheet::Result;
use callsheet::error::usage_error;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::{WritableFolder, new_command};
use tempfile::TempDir;

const AGENT: &str = include_str!("../../demo/agent.toml");

/// The files of the project, which are committed before the demo begins.
const FILES: [(&str, &str); 4] = [
    ("README.md", include_str!("../../demo/project/README.md")),
    ("src/greetings.txt", include_str!("../../demo/project/src/greetings.txt")),
    (".callsheet/flows/document.toml", include_str!("../../demo/project/.callsheet/flows/document.toml")),
    (
        ".callsheet/templates/system/BASE-write.md",
        include_str!("../../demo/project/.callsheet/templates/system/BASE-write.md"),
    ),
];

/// The commands that make the project a repository. It has its own user: the machine may have none.
const REPOSITORY: [&[&str]; 5] = [
    &["git", "init", "-q"],
    &["git", "config", "user.name", "Demo"],
    &["git", "config", "user.email", "demo@example.org"],
    &["git", "add", "-A"],
    &["git", "commit", "-q", "-m", "The project of the demo"],
];

/// Variables of the user that the commands of the demo get.
const PASSED: [&str; 2] = ["PATH", "TMPDIR"];

/// The project of the demo, with everything that its commands write elsewhere: configuration and state.
#[derive(Debug)]
pub(crate) struct DemoFolder {
    path: PathBuf,
    /// Removes the folder in the end. `None` if a person named the folder.
    temporary: Option<TempDir>,
    /// The path of this program.
    program: PathBuf,
}

/// The result of a command of the demo.
#[derive(Debug)]
pub(crate) struct DemoOutput {
    /// `None` if a signal ended the command.
    pub(crate) exit_code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl DemoOutput {
    /// Returns the result that the command printed: its data, else its status.
    pub(crate) fn result(&self) -> &str {
        if self.out.is_empty() { &self.err } else { &self.out }
    }
}

impl DemoFolder {
    /// Creates the project in a folder that is empty or does not exist; without one, in a temporary folder.
    pub(crate) fn create(keep: Option<&Path>) -> Result<Self> {
        let (path, temporary) = match keep {
            Some(path) => (create_empty(path)?, None),
            None => {
                let made = tempfile::Builder::new().prefix("callsheet-demo-").tempdir();
                let made = made.map_err(|error| folder_error(&env::temp_dir(), &error))?;
                (made.path().to_path_buf(), Some(made))
            }
        };
        let path = path.canonicalize().map_err(|error| folder_error(&path, &error))?;
        let program = env::current_exe().map_err(|error| folder_error(Path::new("callsheet"), &error))?;
        let folder = Self { path, temporary, program };
        folder.write_files()?;
        for command in REPOSITORY {
            let output = folder.run(command)?;
            if output.exit_code != Some(0) {
                let message =
                    format!("`{}` failed in the demo: {}", command.join(" "), output.err.trim_end());
                return Err(Diagnostic::error(Code::GitFailed, message).into());
            }
        }
        Ok(folder)
    }

    fn write_files(&self) -> Result<()> {
        let folder = WritableFolder::open(&self.path).map_err(|error| folder_error(&self.path, &error))?;
        for (path, text) in FILES {
            folder.create(&format!("project/{path}"), text.as_bytes())?;
        }
        folder.create("config/callsheet/agents/scripted.toml", self.agent_file()?.as_bytes())?;
        folder.create_folder("home", 0o700)?;
        Ok(())
    }

    /// Returns the file of the scripted agent, which is this program.
    fn agent_file(&self) -> Result<String> {
        let bad = |message: String| Diagnostic::error(Code::AgentBad, format!("the demo's agent: {message}"));
        let mut file: toml_edit::DocumentMut =
            AGENT.parse().map_err(|error: toml_edit::TomlError| bad(error.to_string()))?;
        let program = self.program.to_str().ok_or_else(|| {
            bad(format!("the path of this program is not UTF-8: `{}`", self.program.display()))
        })?;
        file["start"]["program"] = toml_edit::value(program);
        Ok(file.to_string())
    }

    /// Runs a command in the project. `callsheet` is this program.
    pub(crate) fn run(&self, command: &[impl AsRef<str>]) -> Result<DemoOutput> {
        let mut words = command.iter().map(AsRef::as_ref);
        let name = words.next().unwrap_or_default();
        let output = self.command(name).args(words).output();
        let output = output.map_err(|error| {
            Diagnostic::error(Code::ProgramNotFound, format!("cannot start `{name}`: {error}"))
                .hint("the demo needs only git: install it")
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(DemoOutput {
            exit_code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = if name == "callsheet" { new_command(&self.program) } else { new_command(name) };
        command.current_dir(self.project()).stdin(Stdio::null()).env_clear();
        command.envs(PASSED.into_iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.env("HOME", self.path.join("home")).envs(self.variables());
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("NO_COLOR", "1");
        command
    }

    /// Returns the variables that lead to the configuration and the state of the demo.
    pub(crate) fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("XDG_CONFIG_HOME", self.path.join("config")), ("XDG_STATE_HOME", self.path.join("state"))]
    }

    /// Returns the path of the repository.
    pub(crate) fn project(&self) -> PathBuf {
        self.path.join("project")
    }

    /// Leaves the folder in its place, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        self.temporary.map(TempDir::keep);
        self.path
    }
}

/// Creates a folder, or checks that it is empty.
fn create_empty(path: &Path) -> Result<PathBuf> {
    match path.read_dir() {
        Ok(mut entries) => {
            if entries.next().is_some() {
                let message = format!("`{}` is not empty", path.display());
                return Err(usage_error(message).hint("name an empty or a new directory").into());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(path).map_err(|error| folder_error(path, &error))?;
        }
        Err(error) => return Err(folder_error(path, &error).into()),
    }
    Ok(path.to_path_buf())
}

fn folder_error(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error(Code::OutputFailed, format!("`{}`: {error}", path.display()))
}
