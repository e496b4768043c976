//! Merges the configuration: flags, then `CALLSHEET_*`, then the project's file, then the user's, then
//! defaults.
//!
//! An untrusted project's file can only tighten: if it is looser than the user's file, the user's value
//! applies. Nothing exceeds the user's `[hard]` limits.

use std::collections::BTreeMap;
use std::path::Path;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::FolderKind;
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::library::layout::Layout;
use callsheet_core::record::is_project_name;
use callsheet_core::secrets::{SecretMode, mask_address};
use callsheet_core::{SourceId, SourceRoot, Sources as _};
use callsheet_run::{DEFAULT_MAX_FILE_BYTES, Disk, Roots, read_file};

use super::config_file::{
    CheckEntry, ConfigFile, HardLimits, collect_trust_requests, parse_file, read_environment,
};
use super::config_merge::{
    ConfigMerge, PROJECT_FILE, USER_FILE, add_globs, first_option, first_setting, harden, merge_maps,
    project_file_label, stricter_mode,
};
use crate::error::Result;
use crate::project::duration::HumanDuration;
use crate::project::trust::TrustRequest;

/// A setting of the project's file that is not applied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnappliedSetting {
    /// The key.
    pub key: &'static str,
    /// The value that the project asks for.
    pub value: serde_json::Value,
    /// The reason why it is not applied.
    pub why: String,
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
    /// Commands that agents may run without asking.
    pub allow: ConfigSetting<Vec<String>>,
    /// Whether agents may run the commands of the checks.
    pub allow_checks: ConfigSetting<bool>,
    /// The time limit of a run.
    pub timeout: ConfigSetting<Option<HumanDuration>>,
    /// The cost limit of a run in dollars.
    pub max_cost: ConfigSetting<Option<f64>>,
    /// The cost limit of a day in dollars.
    pub max_cost_per_day: ConfigSetting<Option<f64>>,
    /// The cost limit of a flow in dollars.
    pub max_cost_per_flow: ConfigSetting<Option<f64>>,
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
    /// Whether the contents of changed files are kept.
    pub keep_changes: ConfigSetting<bool>,
    /// Whether prompts are delivered in two parts; else the agent's file decides.
    pub split: ConfigSetting<Option<bool>>,
    /// Whether the bell rings when a run ends or a flow waits.
    pub bell: ConfigSetting<bool>,
    /// The program that runs when a run ends or a flow waits, with its arguments; empty for none.
    pub notify: ConfigSetting<Vec<String>>,
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
            let message =
                format!("`{}`: only the user's configuration can set `[hard]`", project_file_label());
            let hint = "move it to your own `config.toml`; run `callsheet config show` to see the effective settings";
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
            PermissionLevel::min,
            |permit| permit.name().into(),
        );
        let mut timeout = merge.merge_limit(
            "timeout",
            |file| file.timeout,
            None,
            HumanDuration::min,
            |span| span.to_string().into(),
        );
        let show_cost = |cost: &f64| (*cost).into();
        let mut max_cost = merge.merge_limit("max_cost", |file| file.max_cost, None, f64::min, show_cost);
        let mut max_cost_per_day =
            merge.merge_limit("max_cost_per_day", |file| file.max_cost_per_day, None, f64::min, show_cost);
        let mut max_cost_per_flow =
            merge.merge_limit("max_cost_per_flow", |file| file.max_cost_per_flow, None, f64::min, show_cost);
        let usual_bytes = Some(DEFAULT_MAX_FILE_BYTES);
        let mut max_file_bytes = merge.merge_limit(
            "max_file_bytes",
            |file| file.max_file_bytes,
            usual_bytes,
            u64::min,
            |bytes| (*bytes).into(),
        );
        let keep_changes = merge.merge_limit(
            "keep_changes",
            |file| file.keep_changes,
            Some(true),
            |one, other| one || other,
            |keep| (*keep).into(),
        );
        let allow_checks = merge.merge_limit(
            "allow_checks",
            |file| file.allow_checks,
            Some(true),
            |one, other| one && other,
            |allow| (*allow).into(),
        );
        let split = merge.merge_limit(
            "split",
            |file| file.split,
            None,
            |one, other| one && other,
            |split| (*split).into(),
        );
        let allow = merge.merge_allow();
        let write = merge.merge_write();
        let mut exclude = merge.merge_exclude();
        let notify = merge.merge_notify();
        let ConfigMerge { environment, wishes: looser, unapplied, .. } = merge;
        wished.extend(looser);
        if secrets.from == "default" {
            secrets.value = None;
        }
        let beyond = format!("user:{USER_FILE} [hard]");
        if secrets.value.is_some() {
            harden(&mut secrets, hard.secrets, stricter_mode, &beyond);
        }
        harden(&mut permit, hard.permit, PermissionLevel::min, &beyond);
        harden(&mut timeout, hard.timeout, HumanDuration::min, &beyond);
        harden(&mut max_cost, hard.max_cost, f64::min, &beyond);
        harden(&mut max_cost_per_day, hard.max_cost_per_day, f64::min, &beyond);
        harden(&mut max_cost_per_flow, hard.max_cost_per_flow, f64::min, &beyond);
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
            let message = format!("`project:{PROJECT_FILE}`: `project` must be a name on one line");
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
            allow,
            allow_checks: allow_checks.with_default(true),
            timeout,
            max_cost,
            max_cost_per_day,
            max_cost_per_flow,
            checks: merge_maps(&layers, |file| &file.checks),
            env: merge_maps(&layers, |file| &file.env),
            trust_requests: wished,
            unapplied,
            hard,
            max_file_bytes: max_file_bytes.with_default(DEFAULT_MAX_FILE_BYTES),
            digest_output: first_setting(&layers, |file| file.digest_output, true),
            keep_changes: keep_changes.with_default(true),
            split,
            bell: first_setting(&layers, |file| file.bell, true),
            notify,
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
            ("allow", self.allow.value.clone().into(), &self.allow.from),
            ("allow_checks", self.allow_checks.value.into(), &self.allow_checks.from),
            ("timeout", self.timeout.value.map(|span| span.to_string()).into(), &self.timeout.from),
            ("max_cost", self.max_cost.value.into(), &self.max_cost.from),
            ("max_cost_per_day", self.max_cost_per_day.value.into(), &self.max_cost_per_day.from),
            ("max_cost_per_flow", self.max_cost_per_flow.value.into(), &self.max_cost_per_flow.from),
            ("checks", checks.into(), &self.checks.from),
            // The values may be secrets.
            ("env", self.env.value.keys().cloned().collect::<Vec<_>>().into(), &self.env.from),
            ("max_file_bytes", self.max_file_bytes.value.into(), &self.max_file_bytes.from),
            ("digest_output", self.digest_output.value.into(), &self.digest_output.from),
            ("keep_changes", self.keep_changes.value.into(), &self.keep_changes.from),
            ("split", self.split.value.into(), &self.split.from),
            ("bell", self.bell.value.into(), &self.bell.from),
            ("notify", self.notify.value.clone().into(), &self.notify.from),
            ("layout.templates", self.templates.value.clone().into(), &self.templates.from),
            ("layout.prompts", self.prompts.value.clone().into(), &self.prompts.from),
            ("layout.project_context", self.project_context.value.clone().into(), &self.project_context.from),
            ("layout.changes", self.changes.value.clone().into(), &self.changes.from),
            ("layout.sessions", self.sessions.value.clone().into(), &self.sessions.from),
        ]
    }
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
            ("max_cost_per_day = 0.0", false),
            ("max_cost_per_flow = -1.0", false),
            ("max_cost_per_day = 0.5", true),
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
