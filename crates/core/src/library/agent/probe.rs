//! The probe of an agent: how its CLI is run against a server of callsheet, and how its requests to the model read.
//!
//! In the texts of this file, `{url}` is the address of the server, `{key}` a key that no provider accepts,
//! `{home}` the home directory of the probe, and `{worktree}` the working directory of the CLI.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::word_enum::word_enum;

/// How the CLI of an agent is run against a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProbeSpec {
    /// Variables that lead the CLI to the server, and switch off telemetry, updates and history.
    pub env: BTreeMap<String, String>,
    /// Arguments after all others, with the same purpose.
    pub args: Vec<String>,
    /// Variables for a probe with an empty home, in addition.
    pub isolated_env: BTreeMap<String, String>,
    /// JSON files in an empty home, by path.
    pub isolated_files: BTreeMap<String, Value>,
    /// Folders in an empty home.
    pub isolated_folders: Vec<String>,
    /// Files that some version reads as instructions, by path relative to a folder of the project; a path may end in
    /// `/*.md`.
    pub instructions: Vec<String>,
    /// The same files of the user, by path relative to the home directory.
    pub home_instructions: Vec<String>,
    /// The beginnings of texts that the API removes before the model reads a request.
    pub unread: Vec<String>,
    /// Whether the probe chooses the model, because the name of a model also chooses the server.
    pub fixes_model: bool,
    /// What a probe with the user's own home needs besides the installed CLI, in words.
    pub login: String,
    /// The texts of a request that the CLI adds, by their beginnings. A later entry goes before an earlier one.
    pub texts: Vec<ContextMarker>,
}

/// A text that the CLI adds to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ContextMarker {
    /// The kind of the text.
    pub kind: ContextKind,
    /// The name of the text.
    pub name: String,
    /// The beginning of the text.
    pub starts: String,
    /// The end of the text; it belongs to the text.
    #[serde(default)]
    pub ends: Option<String>,
    /// The beginning of the next text. Without `ends` and `before`, the text ends with its message.
    #[serde(default)]
    pub before: Option<String>,
}

word_enum! {
    /// The kind of a part of a request to a model.
    ContextKind {
        /// The prompt that callsheet composed.
        Prompt "prompt",
        /// A file with instructions that the CLI loads by itself.
        Instructions "instructions",
        /// The system text of the CLI.
        System "system",
        /// The definition of a tool.
        Tool "tool",
        /// Facts about the machine, the folder and the repository.
        Environment "environment",
        /// The list of skills.
        Skills "skills",
        /// A reminder that the CLI adds to the messages of the user.
        Reminder "reminder",
        /// Everything else that the CLI adds: parameters, message structure, other texts.
        Other "other",
    }
}

/// The values that a probe fills in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeValues {
    /// The address of the server.
    pub url: String,
    /// The key.
    pub key: String,
    /// The home directory.
    pub home: String,
    /// The working directory of the CLI.
    pub worktree: String,
}

impl ProbeValues {
    /// Returns `text` with the values. A value is not searched for further names.
    pub fn fill(&self, text: &str) -> String {
        let names = [
            ("{url}", &self.url),
            ("{key}", &self.key),
            ("{home}", &self.home),
            ("{worktree}", &self.worktree),
        ];
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let known = names.iter().find(|(name, _)| rest.starts_with(name));
            let (name, value) = known.map_or(("{", "{"), |(name, value)| (*name, value.as_str()));
            filled.push_str(value);
            rest = &rest[name.len()..];
        }
        filled.push_str(rest);
        filled
    }

    /// Returns a JSON value whose texts have the values.
    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(map) => {
                let filled = map.iter().map(|(key, value)| (key.clone(), self.fill_value(value)));
                Value::Object(filled.collect())
            }
            other => other.clone(),
        }
    }
}

impl ProbeSpec {
    /// Returns the problems that a schema cannot express, each with a hint.
    pub(super) fn find_problems(&self) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        let outside = |path: &&String| {
            path.starts_with('/') || path.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        let folders = self.isolated_files.keys().chain(&self.isolated_folders);
        let read = self.instructions.iter().chain(&self.home_instructions);
        for path in folders.chain(read).filter(outside) {
            found.push((format!("`probe`: invalid path `{path}`"), "give a path below the folder"));
        }
        for name in self.env.keys().chain(self.isolated_env.keys()) {
            if name.is_empty() || name.contains(['=', '\0']) {
                found.push((format!("`probe`: invalid variable name `{name}`"), "give a name without `=`"));
            }
        }
        for marker in &self.texts {
            if marker.starts.is_empty() {
                let message = format!("`probe.texts`: `{}` has no beginning", marker.name);
                found.push((message, "give `starts`"));
            }
            if matches!(marker.kind, ContextKind::Prompt | ContextKind::Instructions | ContextKind::Tool) {
                let message = format!("`probe.texts`: `{}` cannot be of this kind", marker.name);
                found.push((message, "prompts, instructions and tools are found without a marker"));
            }
        }
        if !self.env.values().chain(&self.args).any(|text| text.contains("{url}")) {
            let hint = "use `{url}` in `env` or `args`";
            found.push(("`probe` does not lead the CLI to the probe".to_string(), hint));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::ProbeValues;

    #[test]
    fn values_fill_names_once() {
        let values = ProbeValues {
            url: "http://x/{key}".into(),
            key: "k".into(),
            home: "/h".into(),
            worktree: "/w".into(),
        };
        assert_eq!(values.fill("{url}/v1 {key} {home}{worktree} {x} {"), "http://x/{key}/v1 k /h/w {x} {");
    }
}
