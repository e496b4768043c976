//! The beginning of a task's text, by which a person recognizes a run in a list.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::bundle::restore_blobs;
use super::{Composed, Digest};
use crate::text::SharedText;

/// The most characters of a task's text that a list keeps.
pub const MOST_TASK_TEXT: usize = 400;

impl Composed {
    /// Returns the first [`MOST_TASK_TEXT`] characters of the task: the addition to a continued run, else its title and its text. Lines without
    /// visible characters are left out, and so is a text that `blob` does not have.
    pub fn task_text(&self, blob: &mut dyn FnMut(Digest) -> Option<SharedText>) -> String {
        let mut field = |pointer: &str| {
            let mut value = self.request.pointer(pointer)?.clone();
            restore_blobs(&mut value, blob).ok()?;
            match value {
                Value::String(text) => Some(text),
                _ => None,
            }
        };
        let mut texts: Vec<String> = Vec::new();
        texts.extend(field("/human_input"));
        if texts.is_empty() {
            texts.extend(["/task/title", "/task/description", "/instructions"].into_iter().filter_map(field));
        }
        let mut short = String::new();
        let mut left = MOST_TASK_TEXT;
        for line in texts.iter().flat_map(|text| text.lines()).map(str::trim) {
            if line.is_empty() || left == 0 {
                continue;
            }
            if !short.is_empty() {
                short.push('\n');
            }
            // PostgreSQL keeps no NUL.
            short.extend(line.chars().take(left).map(|c| if c == '\0' { '\u{fffd}' } else { c }));
            left = left.saturating_sub(line.chars().count() + 1);
        }
        short
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::ToString as _;

    use serde_json::json;

    use super::*;
    use crate::library::format::PromptFormat;
    use crate::record::{Id, Run, TextAssembly, sha256};

    fn composed(request: Value) -> Composed {
        let id = Id::parse("0192a000-0000-7000-8000-000000000000").unwrap();
        Composed {
            run: Run::restore(id, "run", "2026-01-31T12:00:00.000000Z"),
            engine: 1,
            request,
            snapshot: Default::default(),
            api: None,
            output: TextAssembly {
                sha256: sha256(&[]),
                bytes: 0,
                format: PromptFormat::Markdown,
                origins: Vec::new(),
                parts: Vec::new(),
                sections: Vec::new(),
            },
            warnings: Vec::new(),
            secrets: None,
            sealed: None,
            launch: None,
            made_by: None,
            profile: None,
        }
    }

    #[test]
    fn task_text_is_title_then_description() {
        let long = "word ".repeat(200);
        let digest = sha256(&[long.as_bytes()]);
        let blobs = BTreeMap::from([(digest, SharedText::from(long.as_str()))]);
        let text = |request: Value| composed(request).task_text(&mut |digest| blobs.get(&digest).cloned());
        assert_eq!(text(json!({})), "");
        assert_eq!(text(json!({ "instructions": "\n  Fix it\n\nNow\0" })), "Fix it\nNow\u{fffd}");
        let task = json!({ "title": "Login", "description": "Add a form" });
        assert_eq!(text(json!({ "task": task, "instructions": "more" })), "Login\nAdd a form\nmore");
        assert_eq!(text(json!({ "task": task, "human_input": "again" })), "again");
        let blob = json!({ "$blob": digest.to_string() });
        assert_eq!(text(json!({ "instructions": blob })).chars().count(), MOST_TASK_TEXT);
        assert_eq!(text(json!({ "instructions": { "$blob": sha256(&[b"x"]).to_string() } })), "");
    }
}
