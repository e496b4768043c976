//! Merges the configuration: flags, then `CALLSHEET_*`, then the project's file, then the user's, then
//! defaults.
//!
//! An untrusted project's file can only tighten: if it is looser than the user's file, the user's value
//! applies. Nothing exceeds the user's `[hard]` limits.

use std::collections::BTreeMap;
use std::path::Path;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::flow::FolderKind;
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::library::layout::Layout;
use callsheet_core::record::is_project_name;
use callsheet_core::secrets::{SecretMode, mask_address};
use callsheet_core::{
    FileFormat, ReadErrorCodes, SharedText, SourceError, SourceId, SourceRoot, Sources as _, read_data,
};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots, read_file};
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
    /// What the project is called in its runs. Taken from a project's configuration alone.
    pub project: Option<String>,
    /// The recipe to follow where none is asked for.
    pub recipe: Option<String>,
    /// The agent that reads the prompts.
    pub agent: Option<String>,
    /// The role where none is asked for.
    pub role: Option<String>,
    /// Where runs are recorded: a file, or postgres://… Not taken from a project's configuration.
    pub ledger: Option<String>,
    /// What to do with a secret that is found. A project's file can only say `refuse` or `redact`.
    pub secrets: Option<SecretMode>,
    /// Globs of what agents may write where a task does not say.
    pub write: Option<Vec<String>>,
    /// Globs of what agents must never touch.
    pub exclude: Option<Vec<String>>,
    /// What agents may do without asking: ask, edit or all.
    pub permit: Option<PermissionLevel>,
    /// How long a run may take, such as `30m`.
    pub timeout: Option<HumanDuration>,
    /// How much a run may cost, in dollars.
    pub max_cost: Option<f64>,
    /// What is run in the worktree after an agent, by name.
    pub checks: BTreeMap<String, CheckEntry>,
    /// Variables that are added to an agent's environment.
    pub env: BTreeMap<String, String>,
    /// The largest file that is read, in bytes.
    pub max_file_bytes: Option<u64>,
    /// Whether the next prompt has the last lines that a failed check printed [default: true].
    pub digest_output: Option<bool>,
    /// Where a project that has its own folders keeps things.
    pub layout: LayoutFile,
    /// What nothing goes beyond: no trusted project, no variable, no flag. In the user's own file alone.
    pub hard: HardLimits,
}

/// Limits that nothing goes beyond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HardLimits {
    /// The most that agents may do without asking.
    pub permit: Option<PermissionLevel>,
    /// The longest time that a run may take.
    pub timeout: Option<HumanDuration>,
    /// The most that a run may cost, in dollars.
    pub max_cost: Option<f64>,
    /// The largest file that is read, in bytes.
    pub max_file_bytes: Option<u64>,
    /// Globs of what agents must never touch, whatever else is excluded.
    pub exclude: Vec<String>,
    /// The least that becomes of a secret that is found.
    pub secrets: Option<SecretMode>,
}

/// Returns the stricter of two permissions.
pub(crate) fn stricter_permit(one: PermissionLevel, other: PermissionLevel) -> PermissionLevel {
    let rank = |permit| match permit {
        PermissionLevel::Ask => 0,
        PermissionLevel::Edit => 1,
        PermissionLevel::All => 2,
    };
    if rank(one) <= rank(other) { one } else { other }
}

/// Returns the stricter of two secret modes.
pub(crate) fn stricter_mode(one: SecretMode, other: SecretMode) -> SecretMode {
    let rank = |mode| match mode {
        SecretMode::Refuse => 0,
        SecretMode::Redact => 1,
        SecretMode::Warn => 2,
        SecretMode::Allow => 3,
    };
    if rank(one) <= rank(other) { one } else { other }
}

/// Returns the lower of two limits; `None` means no limit.
pub(crate) fn lower_limit<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// A setting of the project's file that is not applied.
#[derive(Clone, Debug)]
pub struct UnappliedSetting {
    /// The key.
    pub key: &'static str,
    /// The value that the project asks for.
    pub value: serde_json::Value,
    /// The reason why it is not applied.
    pub why: String,
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

/// A setting and its origin.
#[derive(Clone, Debug)]
pub struct ConfigSetting<T> {
    /// The value.
    pub value: T,
    /// The source of the value: a file, `environment` or `default`.
    pub from: String,
}

/// The merged configuration, each value with its source.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name that the project gives itself.
    pub project: Option<String>,
    /// The recipe.
    pub recipe: ConfigSetting<Option<String>>,
    /// The agent.
    pub agent: ConfigSetting<Option<String>>,
    /// The role.
    pub role: ConfigSetting<Option<String>>,
    /// The location of the ledger.
    pub ledger: ConfigSetting<Option<String>>,
    /// The treatment of secrets.
    pub secrets: ConfigSetting<Option<SecretMode>>,
    /// Globs of files that an agent may write.
    pub write: ConfigSetting<Vec<String>>,
    /// Globs of files that no agent may touch.
    pub exclude: ConfigSetting<Vec<String>>,
    /// The permission level.
    pub permit: ConfigSetting<PermissionLevel>,
    /// The time limit of a run.
    pub timeout: ConfigSetting<Option<HumanDuration>>,
    /// The cost limit of a run in dollars.
    pub max_cost: ConfigSetting<Option<f64>>,
    /// Checks by name.
    pub checks: ConfigSetting<BTreeMap<String, CheckEntry>>,
    /// Variables for agents.
    pub env: ConfigSetting<BTreeMap<String, String>>,
    /// The settings of the project's file that only the user can allow.
    pub trust_requests: Vec<TrustRequest>,
    /// The settings of the project's file that are not applied.
    pub unapplied: Vec<UnappliedSetting>,
    /// Limits that nothing exceeds.
    pub hard: HardLimits,
    /// The most bytes of a file.
    pub max_file_bytes: ConfigSetting<u64>,
    /// Whether the output of checks is in the facts of a retry.
    pub digest_output: ConfigSetting<bool>,
    /// Folders of templates.
    pub templates: ConfigSetting<Vec<String>>,
    /// The folder of prompts.
    pub prompts: ConfigSetting<String>,
    /// The file with the context of the project.
    pub project_context: ConfigSetting<String>,
    /// The folder of flows that make changes.
    pub changes: ConfigSetting<String>,
    /// The folder of sessions.
    pub sessions: ConfigSetting<String>,
}

pub(crate) const PROJECT_FILE: &str = ".callsheet/config.toml";
const USER_FILE: &str = "config.toml";

/// Far above the size of any hand-written configuration.
const MAX_BYTES: u64 = 64 * 1024;

impl Config {
    /// Loads and merges the configuration. `trusted` says whether the user has agreed to the project's
    /// requests. Without a project, only the user's settings apply.
    pub fn load(project: Option<&Path>, user: Option<&Path>, trusted: bool) -> Result<Self> {
        // The configuration of a cloned repository may be a link to anywhere, and an error quotes it: like
        // every other file of the project, it is never read from outside of the project.
        let roots = Roots { project: project.map(Path::to_owned), ..Roots::default() };
        let of_project = SourceId::new(SourceRoot::Project, PROJECT_FILE)
            .map_or(Ok(None), |id| Disk::new(&roots, MAX_BYTES).text(&id));
        let of_user = user.map_or(Ok(None), |user| read_file(&user.join(USER_FILE), MAX_BYTES));
        let (of_project, of_user) = (
            parse_file(of_project, &project_file_label())?,
            parse_file(of_user, &format!("user:{USER_FILE}"))?,
        );
        if of_project.as_ref().is_some_and(|file| file.hard != HardLimits::default()) {
            let message = format!("`{}`: `[hard]` is not a project's to say", project_file_label());
            let hint =
                "write it into your own `config.toml`; `callsheet config show` says which settings hold";
            return Err(Diagnostic::error(Code::ConfigBad, message).hint(hint).into());
        }
        let hard = of_user.as_ref().map(|file| file.hard.clone()).unwrap_or_default();
        let mut wished: Vec<TrustRequest> = of_project.iter().flat_map(collect_trust_requests).collect();
        let mut merge = ConfigMerge {
            environment: read_environment()?,
            of_project: of_project.clone().unwrap_or_default(),
            of_user: of_user.clone().unwrap_or_default(),
            trusted,
            wishes: Vec::new(),
            unapplied: Vec::new(),
        };
        let mut secrets = merge.merge_limit(
            "secrets",
            |file| file.secrets,
            Some(SecretMode::Warn),
            stricter_mode,
            |mode| mode.name().into(),
        );
        let mut permit = merge.merge_limit(
            "permit",
            |file| file.permit,
            Some(PermissionLevel::Edit),
            stricter_permit,
            |permit| permit.name().into(),
        );
        let mut timeout = merge.merge_limit(
            "timeout",
            |file| file.timeout,
            None,
            HumanDuration::min,
            |span| span.to_string().into(),
        );
        let mut max_cost =
            merge.merge_limit("max_cost", |file| file.max_cost, None, f64::min, |cost| (*cost).into());
        let usual_bytes = Some(DEFAULT_MAX_FILE_BYTES);
        let mut max_file_bytes = merge.merge_limit(
            "max_file_bytes",
            |file| file.max_file_bytes,
            usual_bytes,
            u64::min,
            |bytes| (*bytes).into(),
        );
        let write = merge.merge_write();
        let mut exclude = merge.merge_exclude();
        let ConfigMerge { environment, wishes: looser, unapplied, .. } = merge;
        wished.extend(looser);
        if secrets.from == "default" {
            secrets.value = None;
        }
        let beyond = format!("user:{USER_FILE} [hard]");
        if secrets.value.is_some() {
            harden(&mut secrets, hard.secrets, stricter_mode, &beyond);
        }
        harden(&mut permit, hard.permit, stricter_permit, &beyond);
        harden(&mut timeout, hard.timeout, HumanDuration::min, &beyond);
        harden(&mut max_cost, hard.max_cost, f64::min, &beyond);
        harden(&mut max_file_bytes, hard.max_file_bytes, u64::min, &beyond);
        add_globs(&mut exclude, &hard.exclude, &beyond);
        let layers: Vec<(String, ConfigFile)> = [
            Some(("environment".into(), environment)),
            of_project.map(|file| (project_file_label(), file)),
            of_user.map(|file| (format!("user:{USER_FILE}"), file)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let usual = Layout::default();
        let of_project = layers.iter().find(|(from, _)| from.starts_with("project:"));
        let project = of_project.and_then(|(_, file)| file.project.clone());
        if project.as_ref().is_some_and(|name| !is_project_name(name)) {
            let message = format!("`project:{PROJECT_FILE}`: `project` has to be a name of one line");
            return Err(Diagnostic::error(Code::ConfigBad, message).into());
        }
        Ok(Self {
            project,
            recipe: first_option(&layers, |file| file.recipe.clone()),
            agent: first_option(&layers, |file| file.agent.clone()),
            role: first_option(&layers, |file| file.role.clone()),
            ledger: first_option(&layers, |file| file.ledger.clone()),
            secrets,
            write,
            exclude,
            permit: permit.with_default(PermissionLevel::Edit),
            timeout,
            max_cost,
            checks: merge_maps(&layers, |file| &file.checks),
            env: merge_maps(&layers, |file| &file.env),
            trust_requests: wished,
            unapplied,
            hard,
            max_file_bytes: max_file_bytes.with_default(DEFAULT_MAX_FILE_BYTES),
            digest_output: first_setting(&layers, |file| file.digest_output, true),
            templates: first_setting(&layers, |file| file.layout.templates.clone(), usual.templates),
            prompts: first_setting(&layers, |file| file.layout.prompts.clone(), usual.prompts),
            project_context: first_setting(
                &layers,
                |file| file.layout.project_context.clone(),
                usual.project_context,
            ),
            changes: first_setting(&layers, |file| file.layout.changes.clone(), ".callsheet/changes".into()),
            sessions: first_setting(
                &layers,
                |file| file.layout.sessions.clone(),
                ".callsheet/sessions".into(),
            ),
        })
    }

    /// Returns the folders and files that the configuration moves elsewhere.
    pub fn layout(&self) -> Layout {
        Layout {
            templates: self.templates.value.clone(),
            prompts: self.prompts.value.clone(),
            project_context: self.project_context.value.clone(),
        }
    }

    /// Returns the parent folder of flows of this kind, relative to the project.
    pub(crate) fn flow_folder(&self, folder: FolderKind) -> &str {
        match folder {
            FolderKind::Changes => &self.changes.value,
            FolderKind::Sessions => &self.sessions.value,
        }
    }

    /// Returns every setting as `(key, value, origin)`.
    pub fn rows(&self) -> Vec<(&'static str, serde_json::Value, &str)> {
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
            ("ledger", self.ledger.value.as_deref().map(mask_address).into(), &self.ledger.from),
            ("secrets", self.secrets.value.map(SecretMode::name).into(), &self.secrets.from),
            ("write", self.write.value.clone().into(), &self.write.from),
            ("exclude", self.exclude.value.clone().into(), &self.exclude.from),
            ("permit", self.permit.value.name().into(), &self.permit.from),
            ("timeout", self.timeout.value.map(|span| span.to_string()).into(), &self.timeout.from),
            ("max_cost", self.max_cost.value.into(), &self.max_cost.from),
            ("checks", checks.into(), &self.checks.from),
            // The values may be secrets.
            ("env", self.env.value.keys().cloned().collect::<Vec<_>>().into(), &self.env.from),
            ("max_file_bytes", self.max_file_bytes.value.into(), &self.max_file_bytes.from),
            ("digest_output", self.digest_output.value.into(), &self.digest_output.from),
            ("layout.templates", self.templates.value.clone().into(), &self.templates.from),
            ("layout.prompts", self.prompts.value.clone().into(), &self.prompts.from),
            ("layout.project_context", self.project_context.value.clone().into(), &self.project_context.from),
            ("layout.changes", self.changes.value.clone().into(), &self.changes.from),
            ("layout.sessions", self.sessions.value.clone().into(), &self.sessions.from),
        ]
    }
}

/// The three sources of a setting, and the trust requests and unapplied settings of their merge.
struct ConfigMerge {
    environment: ConfigFile,
    of_project: ConfigFile,
    of_user: ConfigFile,
    trusted: bool,
    wishes: Vec<TrustRequest>,
    unapplied: Vec<UnappliedSetting>,
}

fn project_file_label() -> String {
    format!("project:{PROJECT_FILE}")
}

impl ConfigMerge {
    /// Merges a setting that is ordered from strict to loose. Without `usual`, an absent value means no
    /// limit.
    fn merge_limit<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        pick: impl Fn(&ConfigFile) -> Option<T>,
        usual: Option<T>,
        stricter: fn(T, T) -> T,
        show: fn(&T) -> serde_json::Value,
    ) -> ConfigSetting<Option<T>> {
        let from_project = |value| ConfigSetting { value: Some(value), from: project_file_label() };
        if let Some(value) = pick(&self.environment) {
            return ConfigSetting { value: Some(value), from: "environment".into() };
        }
        let yours = match pick(&self.of_user) {
            Some(value) => ConfigSetting { value: Some(value), from: format!("user:{USER_FILE}") },
            None => ConfigSetting { value: usual, from: "default".into() },
        };
        match (pick(&self.of_project), yours.value) {
            (None, _) => yours,
            (Some(value), None) => from_project(value),
            (Some(value), Some(own)) if stricter(value, own) == value => from_project(value),
            (Some(value), Some(own)) => {
                let loosens = format!("`{key}` to {}; yours is {}", show(&value), show(&own));
                self.note_loosened(key, show(&value), loosens);
                if self.trusted { from_project(value) } else { yours }
            }
        }
    }

    fn note_loosened(&mut self, key: &'static str, value: serde_json::Value, what: String) {
        let why = format!("it would loosen {what}; `callsheet trust` applies it");
        self.wishes.push(TrustRequest::new_looser(format!("loosen {what}")));
        if !self.trusted {
            self.unapplied.push(UnappliedSetting { key, value, why });
        }
    }

    /// Merges `write`. The project decides if its user has no setting.
    fn merge_write(&mut self) -> ConfigSetting<Vec<String>> {
        let from_user = |value| ConfigSetting { value, from: format!("user:{USER_FILE}") };
        let from_project = |value| ConfigSetting { value, from: project_file_label() };
        match (self.of_project.write.clone(), self.of_user.write.clone()) {
            (None, None) => ConfigSetting { value: Vec::new(), from: "default".into() },
            (None, Some(own)) => from_user(own),
            (Some(write), None) => from_project(write),
            (Some(write), Some(own)) if write == own => from_project(write),
            (Some(write), Some(own)) => {
                let what = format!("`write` to {}; yours is {}", write.join(", "), own.join(", "));
                self.note_loosened("write", write.clone().into(), what);
                if self.trusted { from_project(write) } else { from_user(own) }
            }
        }
    }

    /// Merges `exclude`. The globs of user and project add up, until the project is trusted with its own.
    fn merge_exclude(&mut self) -> ConfigSetting<Vec<String>> {
        let own = self.of_user.exclude.clone();
        let mut setting = match self.of_project.exclude.clone() {
            Some(value) => ConfigSetting { value, from: project_file_label() },
            None => ConfigSetting { value: Vec::new(), from: "default".into() },
        };
        let Some(own) = own else { return setting };
        if self.of_project.exclude.is_some() {
            let dropped: Vec<&str> =
                own.iter().filter(|glob| !setting.value.contains(glob)).map(String::as_str).collect();
            if !dropped.is_empty() {
                let what = format!("`exclude` to this alone, without your {}", dropped.join(", "));
                self.note_loosened("exclude", setting.value.clone().into(), what);
            }
        }
        if !self.trusted || self.of_project.exclude.is_none() {
            add_globs(&mut setting, &own, &format!("user:{USER_FILE}"));
        }
        setting
    }
}

/// Adds the missing globs.
fn add_globs(setting: &mut ConfigSetting<Vec<String>>, globs: &[String], from: &str) {
    let new: Vec<String> = globs.iter().filter(|glob| !setting.value.contains(glob)).cloned().collect();
    if !new.is_empty() || (setting.from == "default" && !globs.is_empty()) {
        let before = setting.from.as_str();
        setting.from = if before == "default" { from.to_owned() } else { format!("{before}, {from}") };
        setting.value.extend(new);
    }
}

/// Replaces a value that exceeds the hard limit with the limit.
fn harden<T: Copy + PartialEq>(
    setting: &mut ConfigSetting<Option<T>>,
    hard: Option<T>,
    stricter: fn(T, T) -> T,
    from: &str,
) {
    let Some(hard) = hard else { return };
    let value = setting.value.map_or(hard, |value| stricter(value, hard));
    if setting.value != Some(value) {
        *setting = ConfigSetting { value: Some(value), from: from.into() };
    }
}

impl<T> ConfigSetting<Option<T>> {
    fn with_default(self, usual: T) -> ConfigSetting<T> {
        ConfigSetting { value: self.value.unwrap_or(usual), from: self.from }
    }
}

fn first_setting<T>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
    usual: T,
) -> ConfigSetting<T> {
    let found =
        layers.iter().find_map(|(from, file)| Some(ConfigSetting { value: pick(file)?, from: from.clone() }));
    found.unwrap_or_else(|| ConfigSetting { value: usual, from: "default".into() })
}

fn first_option<T>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
) -> ConfigSetting<Option<T>> {
    first_setting(layers, |file| pick(file).map(Some), None)
}

/// Merges the maps of all layers; the first layer wins for a name in several.
fn merge_maps<T: Clone>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> &BTreeMap<String, T>,
) -> ConfigSetting<BTreeMap<String, T>> {
    let mut value = BTreeMap::new();
    let mut from = Vec::new();
    for (layer, file) in layers.iter().filter(|(_, file)| !pick(file).is_empty()) {
        from.push(layer.as_str());
        for (name, entry) in pick(file) {
            value.entry(name.clone()).or_insert_with(|| entry.clone());
        }
    }
    let from = if from.is_empty() { "default".into() } else { from.join(", ") };
    ConfigSetting { value, from }
}

fn parse_file(found: Result<Option<SharedText>, SourceError>, shown: &str) -> Result<Option<ConfigFile>> {
    let text = found
        .map_err(|error| Diagnostic::error(Code::ConfigBad, format!("`{shown}` cannot be used: {error}")))?;
    let codes = ReadErrorCodes { bad: Code::ConfigBad, unknown: Code::ConfigBad };
    text.map(|text| {
        let file: ConfigFile = read_data(shown, &text, FileFormat::Toml, codes)?;
        check_confined(&file, shown)?;
        check_limits(&file, shown)?;
        Ok(file)
    })
    .transpose()
}

/// Returns the trust requests of a project's file: everything that it would execute or leak.
fn collect_trust_requests(file: &ConfigFile) -> Vec<TrustRequest> {
    let mut wishes = Vec::new();
    for (name, check) in &file.checks {
        wishes.push(TrustRequest::new(format!("run the check `{name}`: {}", check.command())));
    }
    for (name, value) in &file.env {
        wishes.push(TrustRequest::new(format!("set the variable {name} to `{value}`")));
    }
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
            let message = format!("`{shown}`: `{path}` cannot lie in the project: {why}");
            Some(Diagnostic::error(Code::ConfigBad, message))
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
        ("hard.max_cost", is_bad_cost(&hard.max_cost)),
        ("max_file_bytes", file.max_file_bytes == Some(0)),
        ("hard.max_file_bytes", hard.max_file_bytes == Some(0)),
    ]
    .into_iter()
    .filter(|(_, is_wrong)| *is_wrong)
    .map(|(key, _)| Diagnostic::error(Code::ConfigBad, format!("`{shown}`: `{key}` has to be above 0")))
    .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong).into()) }
}

fn read_environment() -> Result<ConfigFile> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let max_file_bytes = match var("CALLSHEET_MAX_FILE_BYTES") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            Diagnostic::error(Code::ConfigBad, format!("CALLSHEET_MAX_FILE_BYTES is `{text}`, not a number"))
        })?),
    };
    let secrets = match var("CALLSHEET_SECRETS").as_deref() {
        None => None,
        Some("warn") => Some(SecretMode::Warn),
        Some("refuse") => Some(SecretMode::Refuse),
        Some("redact") => Some(SecretMode::Redact),
        Some("allow") => Some(SecretMode::Allow),
        Some(text) => {
            let message = format!("CALLSHEET_SECRETS is `{text}`, not warn, refuse, redact or allow");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::trust::fingerprint;

    /// A project cannot stop every run by an impossible limit: that is an error which names the file.
    #[test]
    fn impossible_limit_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".callsheet")).unwrap();
        for (limit, is_fine) in [
            ("max_cost = 0.0", false),
            ("max_cost = -1.0", false),
            ("max_cost = nan", false),
            ("max_cost = inf", false),
            ("max_file_bytes = 0", false),
            ("timeout = \"0s\"", false),
            ("max_cost = 0.5", true),
        ] {
            std::fs::write(dir.path().join(PROJECT_FILE), limit).unwrap();
            match Config::load(Some(dir.path()), None, false) {
                Ok(_) => assert!(is_fine, "{limit}"),
                Err(failure) => {
                    let message = failure.to_string();
                    assert!(!is_fine && message.contains(PROJECT_FILE), "{limit}: {message}");
                    assert_eq!(failure.exit_code(), 3, "{limit}");
                }
            }
        }
    }

    /// The displayed address hides its password; the user agrees to the whole address.
    #[test]
    fn changed_password_changes_trust_request() {
        let wish = |url: &str| {
            collect_trust_requests(&ConfigFile { ledger: Some(url.into()), ..ConfigFile::default() })
        };
        let [one, two] = ["one", "two"].map(|word| wish(&format!("postgres://me:{word}@host/db")));
        assert_eq!(one[0].shown, two[0].shown);
        assert_ne!(fingerprint(&one), fingerprint(&two));
    }
}
