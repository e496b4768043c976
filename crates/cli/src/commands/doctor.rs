//! `callsheet doctor`: whether what runs need is there, and what to do about what is not.

use std::os::unix::fs::PermissionsExt as _;

use callsheet_core::Root;
use callsheet_core::diag::visible;
use callsheet_run::own_program;
use callsheet_store::{Ledger, Place};
use serde_json::{Value, json};

use crate::app::App;
use crate::failure::{FINDING, Outcome};
use crate::installed;
use crate::print::Paint;

/// How one thing is.
struct Finding {
    name: String,
    state: State,
    detail: String,
    /// What to do about it.
    todo: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// It is not there, and is not needed for everything.
    Absent,
    /// It is not there or not right, and runs need it.
    Bad,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Absent => "absent",
            Self::Bad => "bad",
        }
    }
}

pub(crate) fn run(app: &App<'_>) -> Outcome {
    let found = app.print.while_waiting(|| "looking".into(), || findings(app))?;
    let exit = if found.iter().any(|finding| finding.state == State::Bad) { FINDING } else { 0 };
    if app.print.json {
        app.print.value(&found.iter().map(row).collect())?;
        return Ok(exit);
    }
    for finding in &found {
        let paint = match finding.state {
            State::Good => Paint::Green,
            State::Absent => Paint::Dim,
            State::Bad => Paint::Red,
        };
        let state = app.print.paint(paint, finding.state.name());
        // Colours have no width.
        let pad = " ".repeat(8 - finding.state.name().len());
        app.print.line(&format!(
            "{state}{pad}{:10}  {}",
            visible(&finding.name),
            visible(&finding.detail)
        ))?;
        if !finding.todo.is_empty() {
            app.print.line(&format!("{:20}{}", "", visible(&finding.todo)))?;
        }
    }
    Ok(exit)
}

fn row(finding: &Finding) -> Value {
    let Finding { name, state, detail, todo } = finding;
    json!({ "name": name, "state": state.name(), "detail": detail, "todo": todo })
}

fn findings(app: &App<'_>) -> Result<Vec<Finding>, callsheet_core::diag::Failure> {
    let mut found = vec![
        program("git", "--version", State::Bad, "install git: what a run changed is read from it"),
        program("tmux", "-V", State::Absent, "install tmux to have agents work in a terminal"),
        folder(app),
        sqlite(),
        mcp(app),
    ];
    found.extend(state());
    let wanted = app.config.agent.value.as_deref();
    for agent in installed::agents(app)? {
        let Some(program) = agent.agent.start.as_ref().and_then(|start| start.program.as_ref()) else {
            continue;
        };
        let is_wanted = wanted == Some(agent.name.as_str());
        let of_project = agent.source.root() == Root::Project;
        let finding = |state, detail, todo: String| Finding { name: agent.name.clone(), state, detail, todo };
        found.push(match (&agent.path, &agent.version) {
            (Some(path), Some(version)) => {
                finding(State::Good, format!("{version} ({})", path.display()), String::new())
            }
            (Some(path), None) if of_project => {
                let todo = "it is not asked for its version: the project says how";
                finding(State::Good, path.display().to_string(), todo.into())
            }
            (Some(path), None) => {
                let state = if is_wanted { State::Bad } else { State::Absent };
                let detail = format!("{} does not tell its version", path.display());
                finding(state, detail, format!("start `{program}` by hand and see what it says"))
            }
            (None, _) if is_wanted => {
                let todo =
                    format!("install {}, or name another agent in the configuration", agent.agent.name);
                finding(
                    State::Bad,
                    format!("`{program}` is not installed, and is the configured agent"),
                    todo,
                )
            }
            (None, _) => finding(State::Absent, format!("`{program}` is not installed"), String::new()),
        });
    }
    Ok(found)
}

fn program(name: &str, flag: &str, otherwise: State, todo: &str) -> Finding {
    let version = installed::program(name).and_then(|path| installed::version(&path, &[flag.to_owned()]));
    let (state, detail, todo) = match version {
        Some(version) => (State::Good, version, String::new()),
        None => (otherwise, format!("`{name}` is not installed"), todo.to_owned()),
    };
    Finding { name: name.into(), state, detail, todo }
}

/// Others who can write there can say what our prompts say, and what our checks run.
fn folder(app: &App<'_>) -> Finding {
    let shown = app.shown_here(".callsheet");
    let finding =
        |state, detail, todo: &str| Finding { name: "folder".into(), state, detail, todo: todo.into() };
    match app.project.join(".callsheet").metadata() {
        Err(_) => finding(State::Absent, format!("there is no {shown}"), "`callsheet init` makes it"),
        Ok(meta) if meta.permissions().mode() & 0o022 != 0 => finding(
            State::Bad,
            format!("others can write {shown}"),
            "take that from them: chmod go-w .callsheet",
        ),
        Ok(_) => finding(State::Good, format!("{shown} is written by its owner alone"), ""),
    }
}

/// The state directory, if its file system does not stay.
fn state() -> Option<Finding> {
    let dir = crate::state::state_dir().ok()?;
    let kind = callsheet_run::short_lived(&dir)?;
    Some(Finding {
        name: "state".into(),
        state: State::Absent,
        detail: format!(
            "{} is on {kind}: ledgers in it do not outlive a restart or its container",
            dir.display()
        ),
        todo: "put it on a disk: set XDG_STATE_HOME, or name a place with --ledger".into(),
    })
}

/// The database that ledgers are kept in, tried out where temporary files are.
fn sqlite() -> Finding {
    let tried = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|dir| {
        let ledger = Ledger::create(&Place::Sqlite(dir.path().join("ledger.db")));
        ledger.and_then(|mut ledger| ledger.head()).map_err(|error| error.to_string())
    });
    let version = callsheet_store::sqlite_version();
    let (state, detail, todo) = match tried {
        Ok(_) => (State::Good, format!("{version}, a ledger can be made and read"), ""),
        Err(why) => {
            (State::Bad, format!("{version}: {why}"), "see whether TMPDIR can be written and has room")
        }
    };
    Finding { name: "sqlite".into(), state, detail, todo: todo.into() }
}

/// Our own server, as an agent would start it.
fn mcp(app: &App<'_>) -> Finding {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "doctor", "version": "1" } },
    });
    let own = own_program().ok().and_then(|own| own.to_str().map(str::to_owned));
    let argv = own.map(|own| vec![own, "--project".into(), app.project.display().to_string(), "mcp".into()]);
    let answer = argv.and_then(|argv| installed::ask(argv, &format!("{hello}\n")));
    let server = answer.and_then(|(_, lines)| {
        let answer: Value = serde_json::from_str(lines.first()?).ok()?;
        Some(answer.pointer("/result/serverInfo/name")?.as_str()?.to_owned())
    });
    let (state, detail, todo) = match server {
        Some(name) => (State::Good, format!("`{name}` answers"), ""),
        None => (State::Bad, "our own server does not answer".into(), "see what `callsheet mcp` says"),
    };
    Finding { name: "mcp".into(), state, detail, todo: todo.into() }
}
