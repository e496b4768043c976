//! Attaches a client: shows the entry for its configuration as a diff, and writes it on demand.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::read_file;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use similar::TextDiff;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::context::CommandContext;
use callsheet::error::{CommandResult, Error, Result};
use callsheet::output::McpInstallOutput;
use callsheet::paths::relative_path;
use callsheet::project::state;
use callsheet::session::write::write_out;
use callsheet::session::{SessionDir, open_folder};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// .mcp.json in the project
    Claude,
    /// config.toml in $CODEX_HOME, else ~/.codex
    Codex,
    /// .gemini/settings.json in the project
    Gemini,
    /// mcp-config.json in $COPILOT_HOME, else ~/.copilot
    Copilot,
}

/// Name of the server in the configuration; agents see it in the names of its tools.
const NAME: &str = "callsheet";

pub(crate) fn install(
    app: &CommandContext,
    client: McpClient,
    session: &SessionDir,
    role: Option<&str>,
    write: bool,
) -> CommandResult {
    let (file, shown) = client.config_file(app)?;
    // A file of a repository may be a link to anywhere, so it is read and written only inside the project.
    let of_project = file.strip_prefix(&app.dir).ok().and_then(Path::to_str);
    let of_project = of_project.filter(|_| client.is_of_project());
    let limit = app.config.max_file_bytes.value;
    let old = match of_project {
        Some(path) => {
            open_folder(&app.dir)?.read(path, limit).map_err(|error| bad_file_error(&shown, &error))?
        }
        None => read_file(&file, limit)
            .map_err(|error| bad_file_error(&shown, &error))?
            .map(|text| text.to_string()),
    };
    let old = old.unwrap_or_default();
    let new = client
        .with_entry(&old, &server_arguments(client, session, role))
        .map_err(|why| bad_file_error(&shown, &why))?;
    let diff = TextDiff::from_lines(&old, &new);
    let diff =
        if old == new { String::new() } else { diff.unified_diff().header(&shown, &shown).to_string() };
    let written = write && old != new;
    match of_project.filter(|_| written) {
        Some(path) => {
            let changed = open_folder(&app.dir)?.update(path, limit, |now| match now == old {
                true => (new.clone(), true),
                false => (now.to_owned(), false),
            });
            if !changed? {
                return Err(bad_file_error(&shown, &"it was changed in the meantime"));
            }
        }
        None if written => {
            if let Some(folder) = file.parent() {
                let made = fs::create_dir_all(folder);
                made.map_err(|error| state::path_error(folder, error))?;
            }
            write_out(&app.dir, &file, new.as_bytes())?;
        }
        None => {}
    }
    if app.print.json {
        return app.print.print_json(&McpInstallOutput { file: shown, diff, written });
    }
    app.print.print_page(&diff)?;
    app.print.print_status(&match (old == new, written) {
        (true, _) => format!("{shown} already has it"),
        (false, true) => format!("written to {shown}"),
        (false, false) => format!("nothing was written; add `--write` to write this to {shown}"),
    });
    Ok(0)
}

fn bad_file_error(file: &str, why: &dyn std::fmt::Display) -> Error {
    let message = format!("cannot update `{file}`: {why}");
    Diagnostic::error(Code::ConfigBad, message).hint("the file was not changed").into()
}

/// Returns the arguments that start the server. A file in the user's home names the project; a file in the
/// project need not.
fn server_arguments(client: McpClient, session: &SessionDir, role: Option<&str>) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let way = if client.is_of_project() {
        relative_path(&session.project, &session.dir)
    } else {
        arguments.extend(["--project".into(), session.project.display().to_string()]);
        session.dir.display().to_string()
    };
    arguments.extend(["mcp".into(), "--session".into(), way]);
    arguments.extend(role.into_iter().flat_map(|role| ["--role".to_owned(), role.to_owned()]));
    arguments
}

impl McpClient {
    fn is_of_project(self) -> bool {
        matches!(self, Self::Claude | Self::Gemini)
    }

    /// Returns the path of the client's configuration, and its form for display.
    fn config_file(self, app: &CommandContext) -> Result<(PathBuf, String)> {
        let of_project = |file: &str| Ok((app.dir.join(file), app.path_from_here(file)));
        let of_user = |variable: &str, folder: &str, file: &str| {
            let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let home = set(variable).or_else(|| Some(set("HOME")?.join(folder)));
            let home = home.ok_or_else(|| {
                Diagnostic::error(Code::ConfigBad, format!("{variable} and HOME are not set"))
            })?;
            let file = home.join(file);
            let shown = file.display().to_string();
            Ok((file, shown))
        };
        match self {
            Self::Claude => of_project(".mcp.json"),
            Self::Gemini => of_project(".gemini/settings.json"),
            Self::Codex => of_user("CODEX_HOME", ".codex", "config.toml"),
            Self::Copilot => of_user("COPILOT_HOME", ".copilot", "mcp-config.json"),
        }
    }

    /// Returns the text of the file with the entry added and everything else unchanged.
    fn with_entry(self, old: &str, arguments: &[String]) -> Result<String, String> {
        if self == Self::Codex {
            return with_toml_entry(old, arguments);
        }
        let mut entry = Map::new();
        if self == Self::Copilot {
            entry.insert("type".into(), "local".into());
        }
        entry.insert("command".into(), NAME.into());
        entry.insert("args".into(), json!(arguments));
        match self {
            Self::Copilot => drop(entry.insert("tools".into(), json!(["*"]))),
            // Without this key, every call waits for a person.
            Self::Gemini => drop(entry.insert("trust".into(), true.into())),
            Self::Claude | Self::Codex => {}
        }
        let mut all: Value = if old.trim().is_empty() {
            json!({})
        } else {
            serde_json::from_str(old).map_err(|error| error.to_string())?
        };
        let whole = all.as_object_mut().ok_or("expected a JSON object")?;
        let servers = whole.entry("mcpServers").or_insert_with(|| json!({}));
        let servers = servers.as_object_mut().ok_or("`mcpServers` is not a JSON object")?;
        servers.insert(NAME.into(), entry.into());
        serde_json::to_string_pretty(&all).map(|text| text + "\n").map_err(|error| error.to_string())
    }
}

fn with_toml_entry(old: &str, arguments: &[String]) -> Result<String, String> {
    let mut all: DocumentMut =
        old.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let servers = all.entry("mcp_servers").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or("`mcp_servers` is not a table")?;
    let mut entry = Table::new();
    entry.insert("command", value(NAME));
    entry.insert("args", value(arguments.iter().collect::<Array>()));
    // Without this key, every call is refused if no person can be asked.
    entry.insert("default_tools_approval_mode", value("approve"));
    servers.insert(NAME, Item::Table(entry));
    Ok(all.to_string())
}
