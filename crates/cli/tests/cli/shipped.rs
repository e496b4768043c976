//! Reads the files that callsheet ships, to compare prompts with them.

use std::fs;
use std::path::Path;

/// Reads the body of a shipped file: the text below its frontmatter, trimmed.
pub(crate) fn read_shipped_body(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/builtin").join(path);
    let text = fs::read_to_string(file).unwrap();
    match text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) {
        Some((_, body)) => body.trim().to_string(),
        None => text.trim().to_string(),
    }
}
