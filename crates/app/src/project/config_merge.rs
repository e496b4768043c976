//! Merges a setting of the environment, the project and the user. An untrusted project only tightens.

use std::collections::BTreeMap;

use callsheet_core::secrets::SecretMode;

use super::config::{ConfigSetting, UnappliedSetting};
use super::config_file::ConfigFile;
use crate::project::trust::TrustRequest;

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

pub(crate) const PROJECT_FILE: &str = ".callsheet/config.toml";

pub(super) const USER_FILE: &str = "config.toml";

/// The three sources of a setting, and the trust requests and unapplied settings of their merge.
pub(super) struct ConfigMerge {
    pub(super) environment: ConfigFile,
    pub(super) of_project: ConfigFile,
    pub(super) of_user: ConfigFile,
    pub(super) trusted: bool,
    pub(super) wishes: Vec<TrustRequest>,
    pub(super) unapplied: Vec<UnappliedSetting>,
}

pub(super) fn project_file_label() -> String {
    format!("project:{PROJECT_FILE}")
}

impl ConfigMerge {
    /// Merges a setting that is ordered from strict to loose. Without `usual`, an absent value means no
    /// limit.
    pub(super) fn merge_limit<T: Copy + PartialEq>(
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
        let why = format!("it would loosen {what}; apply it with `callsheet trust`");
        self.wishes.push(TrustRequest::new_looser(format!("loosen {what}")));
        if !self.trusted {
            self.unapplied.push(UnappliedSetting { key, value, why });
        }
    }

    /// Merges `write`. The project decides if its user has no setting.
    pub(super) fn merge_write(&mut self) -> ConfigSetting<Vec<String>> {
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

    /// Merges `allow`. The commands of the project count, besides the user's own, once the user trusts the project.
    pub(super) fn merge_allow(&mut self) -> ConfigSetting<Vec<String>> {
        let own = self.of_user.allow.clone();
        let mut setting = match &own {
            Some(own) => ConfigSetting { value: own.clone(), from: format!("user:{USER_FILE}") },
            None => ConfigSetting { value: Vec::new(), from: "default".into() },
        };
        let wanted = self.of_project.allow.clone().unwrap_or_default();
        let new: Vec<String> = wanted.iter().filter(|text| !setting.value.contains(text)).cloned().collect();
        if !new.is_empty() {
            let what = format!("`allow`: agents may also run {}", new.join(", "));
            self.note_loosened("allow", wanted.into(), what);
            if self.trusted {
                add_globs(&mut setting, &new, &project_file_label());
            }
        }
        setting
    }

    /// Merges `notify`, which is a program: that of an untrusted project is not applied.
    pub(super) fn merge_notify(&mut self) -> ConfigSetting<Vec<String>> {
        let yours = match self.of_user.notify.clone() {
            Some(value) => ConfigSetting { value, from: format!("user:{USER_FILE}") },
            None => ConfigSetting { value: Vec::new(), from: "default".into() },
        };
        match self.of_project.notify.clone() {
            Some(value) if self.trusted || value.is_empty() => {
                ConfigSetting { value, from: project_file_label() }
            }
            Some(value) => {
                let why = "it is a program; apply it with `callsheet trust`".to_owned();
                self.unapplied.push(UnappliedSetting { key: "notify", value: value.into(), why });
                yours
            }
            None => yours,
        }
    }

    /// Merges `exclude`. The globs of user and project add up, until the project is trusted with its own.
    pub(super) fn merge_exclude(&mut self) -> ConfigSetting<Vec<String>> {
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
                let what = format!("`exclude`: without your {}", dropped.join(", "));
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
pub(super) fn add_globs(setting: &mut ConfigSetting<Vec<String>>, globs: &[String], from: &str) {
    let new: Vec<String> = globs.iter().filter(|glob| !setting.value.contains(glob)).cloned().collect();
    if !new.is_empty() || (setting.from == "default" && !globs.is_empty()) {
        let before = setting.from.as_str();
        setting.from = if before == "default" { from.to_owned() } else { format!("{before}, {from}") };
        setting.value.extend(new);
    }
}

/// Replaces a value that exceeds the hard limit with the limit.
pub(super) fn harden<T: Copy + PartialEq>(
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
    pub(super) fn with_default(self, usual: T) -> ConfigSetting<T> {
        ConfigSetting { value: self.value.unwrap_or(usual), from: self.from }
    }
}

pub(super) fn first_setting<T>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
    usual: T,
) -> ConfigSetting<T> {
    let found =
        layers.iter().find_map(|(from, file)| Some(ConfigSetting { value: pick(file)?, from: from.clone() }));
    found.unwrap_or_else(|| ConfigSetting { value: usual, from: "default".into() })
}

pub(super) fn first_option<T>(
    layers: &[(String, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
) -> ConfigSetting<Option<T>> {
    first_setting(layers, |file| pick(file).map(Some), None)
}

/// Merges the maps of all layers; the first layer wins for a name in several.
pub(super) fn merge_maps<T: Clone>(
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
