//! Configuration: flags, then `CALLSHEET_*`, then the project's file, then the user's, then defaults.

use std::collections::BTreeMap;
use std::path::Path;

use callsheet_core::agent::Permit;
use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::is_project_name;
use callsheet_core::request::Layout;
use callsheet_core::secrets::Mode;
use callsheet_core::{Codes, DataNotation, Root, SourceError, SourceId, Sources as _, Text, read};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots, read_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::span::Span;
use crate::trust::Wish;

/// The contents of `.callsheet/config.toml` and of the user's `config.toml`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Config")]
pub(crate) struct ConfigFile {
    /// What the project is called in its runs. Taken from a project's configuration alone.
    pub(crate) project: Option<String>,
    /// The recipe to follow where none is asked for.
    pub(crate) recipe: Option<String>,
    /// The agent that reads the prompts.
    pub(crate) agent: Option<String>,
    /// The role where none is asked for.
    pub(crate) role: Option<String>,
    /// Where runs are recorded: a file, or postgres://… Not taken from a project's configuration.
    pub(crate) ledger: Option<String>,
    /// What to do with a secret that is found. A project's file can only say `refuse` or `redact`.
    pub(crate) secrets: Option<Mode>,
    /// Globs of what agents may write where a task does not say.
    pub(crate) write: Option<Vec<String>>,
    /// Globs of what agents must never touch.
    pub(crate) exclude: Option<Vec<String>>,
    /// What agents may do without asking: ask, edit or all.
    pub(crate) permit: Option<Permit>,
    /// How long a run may take, such as `30m`.
    pub(crate) timeout: Option<Span>,
    /// How much a run may cost, in dollars.
    pub(crate) max_cost: Option<f64>,
    /// What is run in the worktree after an agent, by name.
    pub(crate) checks: BTreeMap<String, CheckEntry>,
    /// Variables that are added to an agent's environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The largest file that is read, in bytes.
    pub(crate) max_file_bytes: Option<u64>,
    /// Where a project that has its own folders keeps things.
    pub(crate) layout: LayoutFile,
}

/// Folders and files of the project that are elsewhere than usual, relative to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LayoutFile {
    /// Template folders, the first wins.
    pub(crate) templates: Option<Vec<String>>,
    /// The folder of extensions, with `agents/` and `commands/` below it.
    pub(crate) prompts: Option<String>,
    /// The file behind `PROJECT_CONTEXT`.
    pub(crate) project_context: Option<String>,
}

/// A check: a command that is split into words as a shell would, and run without one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum CheckEntry {
    Command(String),
    Full(FullCheck),
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FullCheck {
    command: String,
    /// How long it may take, such as `10m`.
    timeout: Option<Span>,
}

impl CheckEntry {
    pub(crate) fn command(&self) -> &str {
        match self {
            Self::Command(command) | Self::Full(FullCheck { command, .. }) => command,
        }
    }

    pub(crate) fn timeout(&self) -> Option<Span> {
        match self {
            Self::Command(_) => None,
            Self::Full(check) => check.timeout,
        }
    }
}

/// A setting and where it was set.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) from: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What the project calls itself.
    pub(crate) project: Option<String>,
    pub(crate) recipe: Setting<Option<String>>,
    pub(crate) agent: Setting<Option<String>>,
    pub(crate) role: Setting<Option<String>>,
    pub(crate) ledger: Setting<Option<String>>,
    pub(crate) secrets: Setting<Option<Mode>>,
    pub(crate) write: Setting<Vec<String>>,
    pub(crate) exclude: Setting<Vec<String>>,
    pub(crate) permit: Setting<Permit>,
    pub(crate) timeout: Setting<Option<Span>>,
    pub(crate) max_cost: Setting<Option<f64>>,
    pub(crate) checks: Setting<BTreeMap<String, CheckEntry>>,
    pub(crate) env: Setting<BTreeMap<String, String>>,
    /// What the project's file asks for and only its user can allow.
    pub(crate) wishes: Vec<Wish>,
    pub(crate) max_file_bytes: Setting<u64>,
    pub(crate) templates: Setting<Vec<String>>,
    pub(crate) prompts: Setting<String>,
    pub(crate) project_context: Setting<String>,
}

pub(crate) const PROJECT_FILE: &str = ".callsheet/config.toml";
const USER_FILE: &str = "config.toml";

/// Far above any configuration that a person writes.
const MAX_BYTES: u64 = 64 * 1024;

impl Config {
    pub(crate) fn load(project: &Path, user: Option<&Path>) -> Result<Self, Failure> {
        let mut wished = Vec::new();
        let mut layers: Vec<(String, ConfigFile)> = vec![("environment".into(), environment()?)];
        // A cloned repository's configuration may be a link to anywhere, and an error shows what it says: it
        // is read like every other file of the project, never out of it.
        let roots = Roots { project: Some(project.to_owned()), ..Roots::default() };
        let of_project = SourceId::new(Root::Project, PROJECT_FILE)
            .map_or(Ok(None), |id| Disk::new(&roots, MAX_BYTES).text(&id));
        let of_user = user.map_or(Ok(None), |user| read_file(&user.join(USER_FILE), MAX_BYTES));
        let files = [(format!("project:{PROJECT_FILE}"), of_project), (format!("user:{USER_FILE}"), of_user)];
        for (shown, found) in files {
            if let Some(file) = load(found, &shown)? {
                if shown.starts_with("project:") {
                    wished.extend(wishes(&file));
                }
                layers.push((shown, file));
            }
        }
        let usual = Layout::default();
        let of_project = layers.iter().find(|(from, _)| from.starts_with("project:"));
        let project = of_project.and_then(|(_, file)| file.project.clone());
        if project.as_ref().is_some_and(|name| !is_project_name(name)) {
            let message = format!("`project:{PROJECT_FILE}`: `project` has to be a name of one line");
            return Err(Diag::error(Code::ConfigBad, message).into());
        }
        Ok(Self {
            project,
            recipe: first_option(&layers, |file| file.recipe.clone()),
            agent: first_option(&layers, |file| file.agent.clone()),
            role: first_option(&layers, |file| file.role.clone()),
            ledger: first_option(&layers, |file| file.ledger.clone()),
            secrets: first_option(&layers, |file| file.secrets),
            write: first(&layers, |file| file.write.clone(), Vec::new()),
            exclude: first(&layers, |file| file.exclude.clone(), Vec::new()),
            permit: first(&layers, |file| file.permit, Permit::Edit),
            timeout: first_option(&layers, |file| file.timeout),
            max_cost: first_option(&layers, |file| file.max_cost),
            checks: merged(&layers, |file| &file.checks),
            env: merged(&layers, |file| &file.env),
            wishes: wished,
            max_file_bytes: first(&layers, |file| file.max_file_bytes, DEFAULT_MAX_FILE_BYTES),
            templates: first(&layers, |file| file.layout.templates.clone(), usual.templates),
            prompts: first(&layers, |file| file.layout.prompts.clone(), usual.prompts),
            project_context: first(
                &layers,
                |file| file.layout.project_context.clone(),
                usual.project_context,
            ),
        })
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout {
            templates: self.templates.value.clone(),
            prompts: self.prompts.value.clone(),
            project_context: self.project_context.value.clone(),
        }
    }

    /// Every setting as `(key, value, where it was set)`.
    pub(crate) fn rows(&self) -> Vec<(&'static str, serde_json::Value, &str)> {
        let checks: serde_json::Map<String, serde_json::Value> =
            self.checks.value.iter().map(|(name, check)| (name.clone(), check.command().into())).collect();
        vec![
            (
                "project",
                self.project.clone().into(),
                if self.project.is_some() { "project:.callsheet/config.toml" } else { "default" },
            ),
            ("recipe", self.recipe.value.clone().into(), &self.recipe.from),
            ("agent", self.agent.value.clone().into(), &self.agent.from),
            ("role", self.role.value.clone().into(), &self.role.from),
            ("ledger", self.ledger.value.as_deref().map(without_password).into(), &self.ledger.from),
            ("secrets", self.secrets.value.map(Mode::name).into(), &self.secrets.from),
            ("write", self.write.value.clone().into(), &self.write.from),
            ("exclude", self.exclude.value.clone().into(), &self.exclude.from),
            ("permit", self.permit.value.name().into(), &self.permit.from),
            ("timeout", self.timeout.value.map(|span| span.to_string()).into(), &self.timeout.from),
            ("max_cost", self.max_cost.value.into(), &self.max_cost.from),
            ("checks", checks.into(), &self.checks.from),
            // Their values may be secrets.
            ("env", self.env.value.keys().cloned().collect::<Vec<_>>().into(), &self.env.from),
            ("max_file_bytes", self.max_file_bytes.value.into(), &self.max_file_bytes.from),
            ("layout.templates", self.templates.value.clone().into(), &self.templates.from),
            ("layout.prompts", self.prompts.value.clone().into(), &self.prompts.from),
            ("layout.project_context", self.project_context.value.clone().into(), &self.project_context.from),
        ]
    }
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let hidden = || {
        let (scheme, rest) = url.split_once("://")?;
        let (user, host) = rest.rsplit_once('@')?;
        let (user, _) = user.split_once(':')?;
        Some(format!("{scheme}://{user}:…@{host}"))
    };
    hidden().unwrap_or_else(|| url.into())
}

fn first<T>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
    usual: T,
) -> Setting<T> {
    let found =
        layers.iter().find_map(|(from, file)| Some(Setting { value: pick(file)?, from: from.clone() }));
    found.unwrap_or_else(|| Setting { value: usual, from: "default".into() })
}

fn first_option<T>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
) -> Setting<Option<T>> {
    first(layers, |file| pick(file).map(Some), None)
}

/// Maps of all layers as one; for a name that several have, the first counts.
fn merged<T: Clone>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> &BTreeMap<String, T>,
) -> Setting<BTreeMap<String, T>> {
    let mut value = BTreeMap::new();
    let mut from = Vec::new();
    for (layer, file) in layers.iter().filter(|(_, file)| !pick(file).is_empty()) {
        from.push(layer.as_str());
        for (name, entry) in pick(file) {
            value.entry(name.clone()).or_insert_with(|| entry.clone());
        }
    }
    let from = if from.is_empty() { "default".into() } else { from.join(", ") };
    Setting { value, from }
}

fn load(found: Result<Option<Text>, SourceError>, shown: &str) -> Result<Option<ConfigFile>, Failure> {
    let text =
        found.map_err(|error| Diag::error(Code::ConfigBad, format!("`{shown}` cannot be used: {error}")))?;
    let codes = Codes { bad: Code::ConfigBad, unknown: Code::ConfigBad };
    text.map(|text| {
        let file: ConfigFile = read(shown, &text, DataNotation::Toml, codes)?;
        confined(&file, shown)?;
        Ok(file)
    })
    .transpose()
}

/// What a project's file would execute or leak.
fn wishes(file: &ConfigFile) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for (name, check) in &file.checks {
        wishes.push(Wish::new(format!("run the check `{name}`: {}", check.command())));
    }
    for (name, value) in &file.env {
        wishes.push(Wish::new(format!("set the variable {name} to `{value}`")));
    }
    wishes.extend(file.ledger.as_ref().map(|url| Wish {
        shown: format!("record runs in {}", without_password(url)),
        whole: format!("ledger {url}"),
    }));
    if let Some(mode @ (Mode::Warn | Mode::Allow)) = file.secrets {
        wishes.push(Wish::new(format!("let secrets into prompts: `secrets = \"{}\"`", mode.name())));
    }
    if file.permit == Some(Permit::All) {
        wishes.push(Wish::new("let agents do everything without asking: `permit = \"all\"`"));
    }
    wishes
}

/// A cloned repository's configuration must not point out of the repository.
fn confined(file: &ConfigFile, shown: &str) -> Result<(), Failure> {
    let layout = &file.layout;
    let paths = layout.templates.iter().flatten().chain(&layout.prompts).chain(&layout.project_context);
    let wrong: Vec<Diag> = paths
        .filter_map(|path| {
            let why = callsheet_core::SourceId::new(callsheet_core::Root::Project, path).err()?;
            let message = format!("`{shown}`: `{path}` cannot lie in the project: {why}");
            Some(Diag::error(Code::ConfigBad, message))
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure(wrong)) }
}

fn environment() -> Result<ConfigFile, Failure> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let max_file_bytes = match var("CALLSHEET_MAX_FILE_BYTES") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Diag::error(Code::ConfigBad, format!("CALLSHEET_MAX_FILE_BYTES is `{text}`, not a number"))
        })?),
    };
    let secrets = match var("CALLSHEET_SECRETS").as_deref() {
        None => None,
        Some("warn") => Some(Mode::Warn),
        Some("refuse") => Some(Mode::Refuse),
        Some("redact") => Some(Mode::Redact),
        Some("allow") => Some(Mode::Allow),
        Some(text) => {
            let message = format!("CALLSHEET_SECRETS is `{text}`, not warn, refuse, redact or allow");
            return Err(Diag::error(Code::ConfigBad, message).into());
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
            .map_err(|why: String| Diag::error(Code::ConfigBad, format!("CALLSHEET_TIMEOUT: {why}")))?,
        ..ConfigFile::default()
    };
    let file = ConfigFile {
        layout: LayoutFile { project_context: var("CALLSHEET_PROJECT_CONTEXT"), ..LayoutFile::default() },
        ..file
    };
    confined(&file, "environment")?;
    Ok(file)
}
