//! How an agent gets access to its model, for the message after a refused key or login.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// How an agent gets access to its model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SignIn {
    /// The environment variables that can hold a key, the usual one first.
    pub variables: Vec<String>,
    /// What a person can do, as an instruction: `start claude once and log in`.
    pub todo: Option<String>,
}

impl SignIn {
    /// Says what is missing or was refused, and what to do. `is_set` checks whether a variable is set.
    pub fn missing(&self, is_set: &dyn Fn(&str) -> bool) -> String {
        let mut parts: Vec<String> = Vec::new();
        match (self.variables.iter().find(|name| is_set(name)), self.variables.as_slice()) {
            (Some(name), _) => parts.push(format!("the key in {name} was refused")),
            (None, [name]) => parts.push(format!("{name} is not set")),
            (None, [_, ..]) => parts.push(format!("none of {} is set", self.variables.join(", "))),
            (None, []) => {}
        }
        parts.extend(self.todo.clone());
        if parts.is_empty() {
            "its key or its login is missing or was refused".to_string()
        } else {
            parts.join("; ")
        }
    }
}
