//! Checks that everything a run needs is installed, and suggests fixes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use callsheet_core::SourceRoot;
use callsheet_core::diag::{Code, counted};
use callsheet_core::secrets::{mask_address, mask_address_in};
use callsheet_run::{find_own_program, find_temporary_file_system};
use callsheet_store::{Ledger, LedgerUrl};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::installed_agents::{
    InstalledAgent, VersionQuery, find_program, list_agents, read_version, run_program,
};
use crate::error::Result;
use crate::project::Project;
use crate::project::state::state_dir;

/// The state of one checked item.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorFinding {
    /// The item.
    pub name: String,
    /// Whether runs can use it.
    pub state: DoctorState,
    /// What was found.
    pub detail: String,
    /// The suggested fix; empty if none is needed.
    pub todo: String,
}

/// Whether runs can use an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoctorState {
    /// It works.
    Good,
    /// Missing, but only some features need it.
    Absent,
    /// Missing or broken, and runs need it.
    Bad,
}

use DoctorState::{Absent, Bad, Good};

impl DoctorState {
    /// Returns the state as a word.
    pub const fn name(self) -> &'static str {
        match self {
            Good => "good",
            Absent => "absent",
            Bad => "bad",
        }
    }
}

impl DoctorFinding {
    fn new(name: &str, state: DoctorState, detail: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { name: name.into(), state, detail: detail.into(), todo: todo.into() }
    }
}

impl Project {
    /// Checks programs, folders, the ledger and the agents of this machine.
    pub fn examine(&self) -> Result<Vec<DoctorFinding>> {
        let progress = self.observer.show_progress(Box::new(|| "looking".into()));
        let mut found = vec![
            check_program(
                "git",
                "--version",
                Bad,
                "install git; callsheet reads the changes of a run from it",
            ),
            check_program("tmux", "-V", Absent, "install tmux to run agents in a terminal"),
            check_folder(self),
            check_sqlite(),
            check_ledger(self),
            check_mcp(self),
        ];
        found.extend(check_state_dir());
        found.extend(list_agents(self)?.iter().filter_map(|agent| check_agent(self, agent)));
        drop(progress);
        Ok(found)
    }
}

fn check_agent(project: &Project, agent: &InstalledAgent) -> Option<DoctorFinding> {
    let program = agent.agent.start.as_ref()?.program.as_ref()?;
    let is_wanted = project.config.agent.value.as_ref() == Some(&agent.name);
    let finding = |state, detail, todo: String| DoctorFinding::new(&agent.name, state, detail, todo);
    let missing = if is_wanted { Bad } else { Absent };
    Some(match (&agent.path, &agent.version) {
        (Some(path), Some(version)) => finding(Good, format!("{version} ({})", path.display()), "".into()),
        (Some(path), None) if agent.source.root() == SourceRoot::Project => {
            let todo = "version unknown: the project defines its command, and is not trusted";
            finding(Good, path.display().to_string(), todo.into())
        }
        (Some(path), None) => {
            let detail = format!("{} does not report its version", path.display());
            finding(missing, detail, format!("run `{program}` by hand to see why"))
        }
        (None, _) if is_wanted => {
            let todo = format!("install {}, or name another agent in the configuration", agent.agent.name);
            finding(missing, format!("`{program}` is not installed, and is the configured agent"), todo)
        }
        (None, _) => finding(missing, format!("`{program}` is not installed"), "".into()),
    })
}

fn check_program(name: &str, flag: &str, otherwise: DoctorState, todo: &str) -> DoctorFinding {
    let version = |path: PathBuf| read_version(&VersionQuery::new(&path, &[flag.to_owned()]));
    match find_program(name).and_then(version) {
        Some(version) => DoctorFinding::new(name, Good, version, ""),
        None => DoctorFinding::new(name, otherwise, format!("`{name}` is not installed"), todo),
    }
}

/// Checks who can write `.callsheet`: other users with write access could change prompts and the commands of
/// checks.
fn check_folder(project: &Project) -> DoctorFinding {
    let shown = project.path_from_here(".callsheet");
    let (state, detail, todo) = match project.dir.join(".callsheet").metadata() {
        Err(_) => (Absent, format!("no folder {shown}"), "run `callsheet init` to create it"),
        Ok(meta) if meta.permissions().mode() & 0o022 != 0 => {
            (Bad, format!("other users can write to {shown}"), "run `chmod go-w .callsheet`")
        }
        Ok(_) => (Good, format!("only its owner can write to {shown}"), ""),
    };
    DoctorFinding::new("folder", state, detail, todo)
}

/// Reports the state directory if it is on a temporary file system.
fn check_state_dir() -> Option<DoctorFinding> {
    let dir = state_dir().ok()?;
    let kind = find_temporary_file_system(&dir)?;
    let detail =
        format!("{} is on {kind}; ledgers there are lost on restart or with the container", dir.display());
    let todo = "set XDG_STATE_HOME to a directory on disk, or add `--ledger FILE`";
    Some(DoctorFinding::new("state", Absent, detail, todo))
}

/// Tries out SQLite, the database of ledgers, in the directory for temporary files.
fn check_sqlite() -> DoctorFinding {
    let tried = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|dir| {
        let ledger = Ledger::create(&LedgerUrl::Sqlite(dir.path().join("ledger.db")));
        ledger.and_then(|mut ledger| ledger.head()).map_err(|error| error.to_string())
    });
    let version = callsheet_store::sqlite_version();
    let (state, detail, todo) = match tried {
        Ok(_) => (Good, format!("{version}, can create and read a ledger"), ""),
        Err(why) => (Bad, format!("{version}: {why}"), "check that TMPDIR is writable and has free space"),
    };
    DoctorFinding::new("sqlite", state, detail, todo)
}

/// Opens the ledger that runs are recorded in, reads its head, and checks that it is writable.
fn check_ledger(project: &Project) -> DoctorFinding {
    let shown = match project.ledger_url() {
        Ok(Some(LedgerUrl::Sqlite(path))) => format!("SQLite, {}: ", path.display()),
        Ok(Some(LedgerUrl::Postgres(address))) => format!("PostgreSQL, {}: ", mask_address(&address)),
        Ok(Some(LedgerUrl::Memory) | None) | Err(_) => String::new(),
    };
    let tried = project.write_ledger().and_then(|mut ledger| {
        let head = ledger.head()?;
        ledger.check_write()?;
        Ok(head.seq)
    });
    let (state, detail, todo) = match tried {
        Ok(records) => {
            (Good, format!("{}, can be read and written", counted(records, "record")), String::new())
        }
        Err(error) if error.is_only(Code::LedgerNotThere) => {
            (Absent, "not created yet".into(), "the first `callsheet run` creates it".into())
        }
        Err(error) => {
            let diag = error.diagnostics().first();
            let usual =
                || "check the ledger's address and permissions, or name another one with `--ledger`".into();
            let todo = diag.and_then(|diag| diag.hints.first().cloned()).unwrap_or_else(usual);
            (Bad, diag.map(|diag| diag.message.clone()).unwrap_or_default(), todo)
        }
    };
    // The passwords of the known ledger addresses must not be shown.
    let addresses = project.ledger.iter().chain(&project.config.ledger.value);
    let detail = addresses.fold(format!("{shown}{detail}"), |text, address| mask_address_in(&text, address));
    DoctorFinding::new("ledger", state, detail, todo)
}

/// Starts callsheet's own MCP server as an agent would, and checks that it answers.
fn check_mcp(project: &Project) -> DoctorFinding {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "doctor", "version": "1" } },
    });
    let own = find_own_program().ok().and_then(|own| own.to_str().map(str::to_owned));
    let argv = own.map(|own| vec![own, "--project".into(), project.dir.display().to_string(), "mcp".into()]);
    let answer = argv.and_then(|argv| run_program(argv, &format!("{hello}\n")));
    let server = answer.and_then(|(_, lines)| {
        let answer: Value = serde_json::from_str(lines.first()?).ok()?;
        Some(answer.pointer("/result/serverInfo/name")?.as_str()?.to_owned())
    });
    match server {
        Some(name) => DoctorFinding::new("mcp", Good, format!("`{name}` answers"), ""),
        None => {
            DoctorFinding::new("mcp", Bad, "the MCP server does not answer", "run `callsheet mcp` to see why")
        }
    }
}
