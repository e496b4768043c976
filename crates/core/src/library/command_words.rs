//! Splits a command line into words as a shell does, and refuses a line for which a shell would do more.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::diag::{Code, Diagnostic};

/// Characters that a shell acts on outside quotes. Without a shell they would become arguments, which is
/// never intended.
const OPERATORS: &str = "|&;<>()$`\n";

/// Splits `line` into words at whitespace. Removes quotes and backslashes; expands nothing.
///
/// ```
/// let words = callsheet_core::split_words("claude --model 'opus 4'");
/// assert_eq!(words, Ok(vec!["claude".into(), "--model".into(), "opus 4".into()]));
/// ```
pub fn split_words(line: &str) -> Result<Vec<String>, Diagnostic> {
    let bad = |why: String| {
        let hint = "callsheet starts no shell: use a script or `sh -c`";
        Diagnostic::error(Code::UsageBad, format!("the command `{line}` {why}")).hint(hint)
    };
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(bad("has an unclosed quote".into())),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err(bad("has an unclosed quote".into())),
                        },
                        Some(c @ ('$' | '`')) => {
                            return Err(bad(format!("contains `{c}`, which needs a shell")));
                        }
                        Some(c) => word.push(c),
                        None => return Err(bad("has an unclosed quote".into())),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(bad("ends in a backslash".into())),
            },
            c if OPERATORS.contains(c) => {
                return Err(bad(format!("contains `{}`, which needs a shell", c.escape_default())));
            }
            '#' if word.is_none() => return Err(bad("contains `#`, which needs a shell".into())),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match words.first() {
        Some(first) if !first.is_empty() && !line.contains('\0') => Ok(words),
        _ => Err(bad("names no program".into())),
    }
}
