//! The form of a configuration file, and of the settings in the environment.

use std::collections::BTreeMap;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::secrets::{SecretMode, mask_address};
use callsheet_core::{AllowedCommand, FileFormat, ReadErrorCodes, SharedText, SourceError, read_data};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::project::duration::HumanDuration;
use crate::project::trust::TrustRequest;

/// The contents of `.callsheet/config.toml` and of the user's `config.toml`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Config")]
pub struct ConfigFile {
    /// The project's name in its runs. Only the project's own configuration can set it.
    pub project: Option<String>,
    /// The default recipe.
    pub recipe: Option<String>,
    /// The default agent.
    pub agent: Option<String>,
    /// The default role.
    pub role: Option<String>,
    /// The ledger: a file, or postgres://…
    pub ledger: Option<String>,
    /// The treatment of a secret in a prompt.
    pub secrets: Option<SecretMode>,
    /// Globs of the files that agents may write, if a task names none.
    pub write: Option<Vec<String>>,
    /// Globs of the files that agents must not change.
    pub exclude: Option<Vec<String>>,
    /// The permissions of agents: ask, edit or all.
    pub permit: Option<PermissionLevel>,
    /// The commands that agents may run without asking: `pytest -q`, or `pytest *` with any further arguments. In a project's
    /// file they need your trust.
    pub allow: Option<Vec<String>>,
    /// Whether agents may run the commands of the checks, with any further arguments [default: true].
    pub allow_checks: Option<bool>,
    /// The time limit of a run, such as `30m`.
    pub timeout: Option<HumanDuration>,
    /// The cost limit of a run, in dollars.
    pub max_cost: Option<f64>,
    /// The cost limit of all runs of the project on one day, in dollars; the day is the local one.
    pub max_cost_per_day: Option<f64>,
    /// The cost limit of a flow, in dollars, unless `flow start --max-cost` gives one [default: `max_cost`].
    pub max_cost_per_flow: Option<f64>,
    /// The commands that run in the worktree after each run, by name.
    pub checks: BTreeMap<String, CheckEntry>,
    /// Variables for the agent's environment.
    pub env: BTreeMap<String, String>,
    /// The size limit of a file, in bytes.
    pub max_file_bytes: Option<u64>,
    /// Whether the prompt of a retry contains the last lines that a failed check printed.
    pub digest_output: Option<bool>,
    /// Whether the ledger keeps the contents of changed files, so that changes can be shown, reverted and applied later
    /// [default: true]. `false` in a project's file needs your trust.
    pub keep_changes: Option<bool>,
    /// Whether prompts are delivered in two parts, of which the shared one is in the agent's system prompt [default: the agent's
    /// file decides]. `true` in a project's file needs your trust.
    pub split: Option<bool>,
    /// Whether the bell of the terminal rings when a run of some seconds ends or a flow waits [default: true].
    pub bell: Option<bool>,
    /// The program and its arguments that run when a run ends or a flow waits. A project's own needs your trust.
    pub notify: Option<Vec<String>>,
    /// Where a project that has its own folders keeps things.
    pub layout: LayoutFile,
    /// What nothing goes beyond: no trusted project, no variable, no flag. In the user's own file alone.
    pub hard: HardLimits,
}

/// Limits that nothing goes beyond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HardLimits {
    /// The highest permissions of agents.
    pub permit: Option<PermissionLevel>,
    /// The only commands that agents may be allowed to run.
    pub allow: Option<Vec<String>>,
    /// The highest time limit of a run.
    pub timeout: Option<HumanDuration>,
    /// The highest cost limit of a run, in dollars.
    pub max_cost: Option<f64>,
    /// The highest cost limit of a day, in dollars.
    pub max_cost_per_day: Option<f64>,
    /// The highest cost limit of a flow, in dollars.
    pub max_cost_per_flow: Option<f64>,
    /// The size limit of a file, in bytes.
    pub max_file_bytes: Option<u64>,
    /// Globs of the files that agents must not change, in addition to `exclude`.
    pub exclude: Vec<String>,
    /// The least strict treatment of a secret.
    pub secrets: Option<SecretMode>,
}

/// Folders and files of the project that are elsewhere than usual, relative to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayoutFile {
    /// Template folders, the first wins.
    pub templates: Option<Vec<String>>,
    /// The folder of extensions, with `agents/` and `commands/` below it.
    pub prompts: Option<String>,
    /// The file behind `PROJECT_CONTEXT`.
    pub project_context: Option<String>,
    /// The folder of changes, with one folder for each.
    pub changes: Option<String>,
    /// The folder of sessions, with one folder for each.
    pub sessions: Option<String>,
}

/// A check: a command that is split into words as a shell would, and run without one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CheckEntry {
    /// A command line.
    Command(String),
    /// A command line with a time limit.
    Full(FullCheck),
}

/// A check with a time limit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullCheck {
    command: String,
    /// How long it may take, such as `10m`.
    timeout: Option<HumanDuration>,
}

impl CheckEntry {
    /// Returns the command line.
    pub fn command(&self) -> &str {
        match self {
            Self::Command(command) | Self::Full(FullCheck { command, .. }) => command,
        }
    }

    /// Returns the time limit.
    pub fn timeout(&self) -> Option<HumanDuration> {
        match self {
            Self::Command(_) => None,
            Self::Full(check) => check.timeout,
        }
    }
}

pub(super) fn parse_file(
    found: Result<Option<SharedText>, SourceError>,
    shown: &str,
) -> Result<Option<ConfigFile>> {
    let text = found
        .map_err(|error| Diagnostic::error(Code::ConfigBad, format!("cannot read `{shown}`: {error}")))?;
    let codes = ReadErrorCodes { bad: Code::ConfigBad, unknown: Code::ConfigBad };
    text.map(|text| {
        let file: ConfigFile = read_data(shown, &text, FileFormat::Toml, codes)?;
        check_confined(&file, shown)?;
        check_limits(&file, shown)?;
        check_commands(&file, shown)?;
        Ok(file)
    })
    .transpose()
}

/// Returns the trust requests of a project's file: everything that it would execute or leak.
pub(super) fn collect_trust_requests(file: &ConfigFile) -> Vec<TrustRequest> {
    let mut wishes = Vec::new();
    for (name, check) in &file.checks {
        wishes.push(TrustRequest::new(format!("run the check `{name}`: {}", check.command())));
    }
    for (name, value) in &file.env {
        wishes.push(TrustRequest::new(format!("set the variable {name} to `{value}`")));
    }
    wishes.extend(file.notify.as_ref().filter(|words| !words.is_empty()).map(|words| TrustRequest {
        blocks: false,
        ..TrustRequest::new(format!("run the program {words:?} when a run ends or a flow waits"))
    }));
    wishes.extend(file.ledger.as_ref().map(|url| TrustRequest {
        shown: format!("record runs in {}", mask_address(url)),
        whole: format!("ledger {url}"),
        blocks: true,
    }));
    wishes
}

/// Refuses paths that leave the project: the configuration of a cloned repository must not point out of it.
fn check_confined(file: &ConfigFile, shown: &str) -> Result<()> {
    let layout = &file.layout;
    let folders = [&layout.changes, &layout.sessions].into_iter().flatten();
    let paths = layout.templates.iter().flatten().chain(&layout.prompts).chain(&layout.project_context);
    let paths = paths.chain(folders);
    let wrong: Vec<Diagnostic> = paths
        .filter_map(|path| {
            let why = callsheet_core::SourceId::new(callsheet_core::SourceRoot::Project, path).err()?;
            let message = format!("`{shown}`: invalid project path `{path}`: {why}");
            Some(Diagnostic::error(Code::ConfigBad, message))
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong).into()) }
}

/// Refuses commands that no agent can be allowed exactly.
fn check_commands(file: &ConfigFile, shown: &str) -> Result<()> {
    let commands = file.allow.iter().chain(&file.hard.allow).flatten();
    let wrong: Vec<Diagnostic> = commands
        .filter_map(|text| AllowedCommand::parse(text).err())
        .map(|diag| Diagnostic {
            code: Code::ConfigBad,
            message: format!("`{shown}`: {}", diag.message),
            ..diag
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong).into()) }
}

/// Refuses limits that no run can keep: they are mistakes, not a way to stop all runs.
fn check_limits(file: &ConfigFile, shown: &str) -> Result<()> {
    let hard = &file.hard;
    let is_bad_cost = |cost: &Option<f64>| cost.is_some_and(|cost| !cost.is_finite() || cost <= 0.0);
    let wrong: Vec<Diagnostic> = [
        ("max_cost", is_bad_cost(&file.max_cost)),
        ("max_cost_per_day", is_bad_cost(&file.max_cost_per_day)),
        ("max_cost_per_flow", is_bad_cost(&file.max_cost_per_flow)),
        ("hard.max_cost", is_bad_cost(&hard.max_cost)),
        ("hard.max_cost_per_day", is_bad_cost(&hard.max_cost_per_day)),
        ("hard.max_cost_per_flow", is_bad_cost(&hard.max_cost_per_flow)),
        ("max_file_bytes", file.max_file_bytes == Some(0)),
        ("hard.max_file_bytes", hard.max_file_bytes == Some(0)),
    ]
    .into_iter()
    .filter(|(_, is_wrong)| *is_wrong)
    .map(|(key, _)| Diagnostic::error(Code::ConfigBad, format!("`{shown}`: `{key}` must be greater than 0")))
    .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong).into()) }
}

pub(super) fn read_environment() -> Result<ConfigFile> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let max_file_bytes = match var("CALLSHEET_MAX_FILE_BYTES") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Diagnostic::error(
                Code::ConfigBad,
                format!("invalid CALLSHEET_MAX_FILE_BYTES `{text}`: expected a number"),
            )
        })?),
    };
    let secrets = match var("CALLSHEET_SECRETS").as_deref() {
        None => None,
        Some("warn") => Some(SecretMode::Warn),
        Some("refuse") => Some(SecretMode::Refuse),
        Some("redact") => Some(SecretMode::Redact),
        Some("allow") => Some(SecretMode::Allow),
        Some(text) => {
            let message =
                format!("invalid CALLSHEET_SECRETS `{text}`: expected warn, refuse, redact or allow");
            return Err(Diagnostic::error(Code::ConfigBad, message).into());
        }
    };
    let file = ConfigFile {
        secrets,
        recipe: var("CALLSHEET_RECIPE"),
        agent: var("CALLSHEET_AGENT"),
        role: var("CALLSHEET_ROLE"),
        ledger: var("CALLSHEET_LEDGER"),
        max_file_bytes,
        timeout: var("CALLSHEET_TIMEOUT")
            .map(|text| text.parse())
            .transpose()
            .map_err(|why: String| Diagnostic::error(Code::ConfigBad, format!("CALLSHEET_TIMEOUT: {why}")))?,
        ..ConfigFile::default()
    };
    let file = ConfigFile {
        layout: LayoutFile { project_context: var("CALLSHEET_PROJECT_CONTEXT"), ..LayoutFile::default() },
        ..file
    };
    check_confined(&file, "environment")?;
    check_limits(&file, "environment")?;
    Ok(file)
}
