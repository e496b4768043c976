//! `callsheet doctor`: checks that everything `run` needs is installed, and suggests fixes.

use std::os::unix::fs::PermissionsExt as _;

use callsheet_core::SourceRoot;
use callsheet_core::diag::{Code, Diagnostics, escape_invisible};
use callsheet_core::secrets::{mask_address, mask_address_in};
use callsheet_run::find_own_program;
use callsheet_store::{Ledger, LedgerUrl};
use serde_json::{Value, json};

use crate::context::CommandContext;
use crate::print::TextStyle;
use callsheet::error::{CommandResult, FINDING};
use callsheet::ledger::ledger_diagnostics;
use callsheet::run::installed_agents;

/// The state of one checked item.
struct DoctorFinding {
    name: String,
    state: DoctorState,
    detail: String,
    /// The suggested fix; empty if none is needed.
    todo: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DoctorState {
    Good,
    /// Missing, but only some features need it.
    Absent,
    /// Missing or broken, and runs need it.
    Bad,
}

impl DoctorState {
    const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Absent => "absent",
            Self::Bad => "bad",
        }
    }
}

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let found = app.print.run_with_progress(|| "looking".into(), || collect_findings(app))?;
    let exit = if found.iter().any(|finding| finding.state == DoctorState::Bad) { FINDING } else { 0 };
    if app.print.json {
        app.print.print_value(&found.iter().map(finding_json).collect())?;
        return Ok(exit);
    }
    for finding in &found {
        let paint = match finding.state {
            DoctorState::Good => TextStyle::Green,
            DoctorState::Absent => TextStyle::Dim,
            DoctorState::Bad => TextStyle::Red,
        };
        let state = app.print.paint(paint, finding.state.name());
        // Colour codes have no width, so the padding is computed from the plain name.
        let pad = " ".repeat(8 - finding.state.name().len());
        app.print.print_line(&format!(
            "{state}{pad}{:10}  {}",
            escape_invisible(&finding.name),
            escape_invisible(&finding.detail)
        ))?;
        if !finding.todo.is_empty() {
            app.print.print_line(&format!("{:20}{}", "", escape_invisible(&finding.todo)))?;
        }
    }
    Ok(exit)
}

fn finding_json(finding: &DoctorFinding) -> Value {
    let DoctorFinding { name, state, detail, todo } = finding;
    json!({ "name": name, "state": state.name(), "detail": detail, "todo": todo })
}

fn collect_findings(app: &CommandContext) -> Result<Vec<DoctorFinding>, Diagnostics> {
    let mut found = vec![
        check_program(
            "git",
            "--version",
            DoctorState::Bad,
            "install git: what a run changed is read from it",
        ),
        check_program("tmux", "-V", DoctorState::Absent, "install tmux to have agents work in a terminal"),
        check_folder(app),
        check_sqlite(),
        check_ledger(app),
        check_mcp(app),
    ];
    found.extend(check_state_dir());
    let wanted = app.config.agent.value.as_deref();
    for agent in installed_agents::list_agents(app)? {
        let Some(program) = agent.agent.start.as_ref().and_then(|start| start.program.as_ref()) else {
            continue;
        };
        let is_wanted = wanted == Some(agent.name.as_str());
        let of_project = agent.source.root() == SourceRoot::Project;
        let finding =
            |state, detail, todo: String| DoctorFinding { name: agent.name.clone(), state, detail, todo };
        found.push(match (&agent.path, &agent.version) {
            (Some(path), Some(version)) => {
                finding(DoctorState::Good, format!("{version} ({})", path.display()), String::new())
            }
            (Some(path), None) if of_project => {
                let todo = "it is not asked for its version: the project says how";
                finding(DoctorState::Good, path.display().to_string(), todo.into())
            }
            (Some(path), None) => {
                let state = if is_wanted { DoctorState::Bad } else { DoctorState::Absent };
                let detail = format!("{} does not tell its version", path.display());
                finding(state, detail, format!("start `{program}` by hand and see what it says"))
            }
            (None, _) if is_wanted => {
                let todo =
                    format!("install {}, or name another agent in the configuration", agent.agent.name);
                finding(
                    DoctorState::Bad,
                    format!("`{program}` is not installed, and is the configured agent"),
                    todo,
                )
            }
            (None, _) => finding(DoctorState::Absent, format!("`{program}` is not installed"), String::new()),
        });
    }
    Ok(found)
}

fn check_program(name: &str, flag: &str, otherwise: DoctorState, todo: &str) -> DoctorFinding {
    let version = installed_agents::find_program(name)
        .and_then(|path| installed_agents::read_version(&path, &[flag.to_owned()]));
    let (state, detail, todo) = match version {
        Some(version) => (DoctorState::Good, version, String::new()),
        None => (otherwise, format!("`{name}` is not installed"), todo.to_owned()),
    };
    DoctorFinding { name: name.into(), state, detail, todo }
}

/// Checks who can write `.callsheet`: other users with write access could change prompts and the commands of
/// checks.
fn check_folder(app: &CommandContext) -> DoctorFinding {
    let shown = app.path_from_here(".callsheet");
    let finding =
        |state, detail, todo: &str| DoctorFinding { name: "folder".into(), state, detail, todo: todo.into() };
    match app.dir.join(".callsheet").metadata() {
        Err(_) => finding(DoctorState::Absent, format!("there is no {shown}"), "`callsheet init` makes it"),
        Ok(meta) if meta.permissions().mode() & 0o022 != 0 => finding(
            DoctorState::Bad,
            format!("others can write {shown}"),
            "take that from them: chmod go-w .callsheet",
        ),
        Ok(_) => finding(DoctorState::Good, format!("{shown} is written by its owner alone"), ""),
    }
}

/// Reports the state directory if it is on a temporary file system.
fn check_state_dir() -> Option<DoctorFinding> {
    let dir = callsheet::project::state::state_dir().ok()?;
    let kind = callsheet_run::find_temporary_file_system(&dir)?;
    Some(DoctorFinding {
        name: "state".into(),
        state: DoctorState::Absent,
        detail: format!(
            "{} is on {kind}: ledgers in it do not outlive a restart or its container",
            dir.display()
        ),
        todo: "put it on a disk: set XDG_STATE_HOME, or name a place with --ledger".into(),
    })
}

/// Tries out SQLite, the database of ledgers, in the directory for temporary files.
fn check_sqlite() -> DoctorFinding {
    let tried = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|dir| {
        let ledger = Ledger::create(&LedgerUrl::Sqlite(dir.path().join("ledger.db")));
        ledger.and_then(|mut ledger| ledger.head()).map_err(|error| error.to_string())
    });
    let version = callsheet_store::sqlite_version();
    let (state, detail, todo) = match tried {
        Ok(_) => (DoctorState::Good, format!("{version}, a ledger can be made and read"), ""),
        Err(why) => {
            (DoctorState::Bad, format!("{version}: {why}"), "see whether TMPDIR can be written and has room")
        }
    };
    DoctorFinding { name: "sqlite".into(), state, detail, todo: todo.into() }
}

/// Opens the ledger that runs are recorded in, reads its head, and checks that it is writable.
fn check_ledger(app: &CommandContext) -> DoctorFinding {
    let shown = match app.ledger_url() {
        Ok(Some(LedgerUrl::Sqlite(path))) => format!("SQLite, {}: ", path.display()),
        Ok(Some(LedgerUrl::Postgres(address))) => format!("PostgreSQL, {}: ", mask_address(&address)),
        Ok(Some(LedgerUrl::Memory) | None) | Err(_) => String::new(),
    };
    let tried = app.write_ledger().and_then(|mut ledger| {
        let head = ledger.head().map_err(ledger_diagnostics)?;
        ledger.check_write().map_err(ledger_diagnostics)?;
        Ok(head.seq)
    });
    let (state, detail, todo) = match tried {
        Ok(records) => {
            (DoctorState::Good, format!("{records} records, can be read and written"), String::new())
        }
        Err(Diagnostics(diags)) if diags.iter().all(|diag| diag.code == Code::LedgerNotThere) => {
            (DoctorState::Absent, "not made yet".into(), "the first `callsheet run` makes it".into())
        }
        Err(Diagnostics(diags)) => {
            let diag = diags.into_iter().next();
            let usual =
                || "check the ledger's address and permissions, or name another one with --ledger".into();
            let todo = diag.as_ref().and_then(|diag| diag.hints.first().cloned()).unwrap_or_else(usual);
            (DoctorState::Bad, diag.map(|diag| diag.message).unwrap_or_default(), todo)
        }
    };
    DoctorFinding {
        name: "ledger".into(),
        state,
        detail: mask_addresses(app, &format!("{shown}{detail}")),
        todo,
    }
}

/// Masks the passwords of the known ledger addresses.
fn mask_addresses(app: &CommandContext, text: &str) -> String {
    let addresses = app.ledger.iter().chain(&app.config.ledger.value);
    addresses.fold(text.to_owned(), |text, address| mask_address_in(&text, address))
}

/// Starts callsheet's own MCP server as an agent would, and checks that it answers.
fn check_mcp(app: &CommandContext) -> DoctorFinding {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "doctor", "version": "1" } },
    });
    let own = find_own_program().ok().and_then(|own| own.to_str().map(str::to_owned));
    let argv = own.map(|own| vec![own, "--project".into(), app.dir.display().to_string(), "mcp".into()]);
    let answer = argv.and_then(|argv| installed_agents::run_program(argv, &format!("{hello}\n")));
    let server = answer.and_then(|(_, lines)| {
        let answer: Value = serde_json::from_str(lines.first()?).ok()?;
        Some(answer.pointer("/result/serverInfo/name")?.as_str()?.to_owned())
    });
    let (state, detail, todo) = match server {
        Some(name) => (DoctorState::Good, format!("`{name}` answers"), ""),
        None => (DoctorState::Bad, "our own server does not answer".into(), "see what `callsheet mcp` says"),
    };
    DoctorFinding { name: "mcp".into(), state, detail, todo: todo.into() }
}
