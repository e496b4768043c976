//! Writes data as TOML: a key for each entry, and everything below it inline.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

/// Returns a table as the text of a TOML file. Leaves out null, which TOML does not have.
pub(super) fn to_toml(value: &Value) -> String {
    let entries = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    entries.map(|(key, value)| format!("{} = {}\n", quote(key), inline_value(value))).collect()
}

fn inline_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter(|item| !item.is_null()).map(inline_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries = map.iter().filter(|(_, value)| !value.is_null());
            let entries: Vec<String> =
                entries.map(|(key, value)| format!("{} = {}", quote(key), inline_value(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// A string of JSON is one of TOML, which in addition refuses the character DEL.
fn quote(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
