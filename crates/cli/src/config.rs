//! Configuration: flags, then `CALLSHEET_*`, then the project's file, then the user's, then defaults.

use std::path::Path;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::request::Layout;
use callsheet_core::secrets::Mode;
use callsheet_core::{Codes, DataNotation, Root, SourceError, SourceId, Sources as _, Text, read};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots, read_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The contents of `.callsheet/config.toml` and of the user's `config.toml`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Config")]
pub(crate) struct ConfigFile {
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

/// A setting and where it was set.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) from: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) recipe: Setting<Option<String>>,
    pub(crate) agent: Setting<Option<String>>,
    pub(crate) role: Setting<Option<String>>,
    pub(crate) ledger: Setting<Option<String>>,
    pub(crate) secrets: Setting<Option<Mode>>,
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
                    as_strict_as_can_be(&file, &shown)?;
                }
                layers.push((shown, file));
            }
        }
        let usual = Layout::default();
        Ok(Self {
            recipe: first_option(&layers, |file| file.recipe.clone()),
            agent: first_option(&layers, |file| file.agent.clone()),
            role: first_option(&layers, |file| file.role.clone()),
            ledger: first_option(&layers, |file| file.ledger.clone()),
            secrets: first_option(&layers, |file| file.secrets),
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
        vec![
            ("recipe", self.recipe.value.clone().into(), &self.recipe.from),
            ("agent", self.agent.value.clone().into(), &self.agent.from),
            ("role", self.role.value.clone().into(), &self.role.from),
            ("ledger", self.ledger.value.as_deref().map(without_password).into(), &self.ledger.from),
            ("secrets", self.secrets.value.map(Mode::name).into(), &self.secrets.from),
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

/// A cloned repository's configuration must not let secrets through that its user would have been asked about.
fn as_strict_as_can_be(file: &ConfigFile, shown: &str) -> Result<(), Failure> {
    let Some(mode @ (Mode::Warn | Mode::Allow)) = file.secrets else { return Ok(()) };
    let message = format!("`{shown}`: a project cannot say by itself `secrets = \"{}\"`", mode.name());
    let hint = "say it with `--secrets`, with CALLSHEET_SECRETS or in your own configuration; a project can ask for `refuse` or \
                `redact`";
    Err(Diag::error(Code::TrustRequired, message).hint(hint).into())
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
        layout: LayoutFile { project_context: var("CALLSHEET_PROJECT_CONTEXT"), ..LayoutFile::default() },
    };
    confined(&file, "environment")?;
    Ok(file)
}
