//! Splits a command line into words as a shell does, and refuses a line for which a shell would do more.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::diag::{Code, Diagnostic};

/// Characters that a shell acts on outside quotes. Without a shell they would become arguments, which is
/// never intended.
const OPERATORS: &str = "|&;<>()$`\n";

/// Splits `line` into words at whitespace. Removes quotes and backslashes; expands nothing.
pub fn split_words(line: &str) -> Result<Vec<String>, Diagnostic> {
    let bad = |why: String| {
        let hint = "no shell is started; put what needs one into a script, or call `sh -c` yourself";
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
                        None => return Err(bad("has a quote that is not closed".into())),
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
                            None => return Err(bad("has a quote that is not closed".into())),
                        },
                        Some(c @ ('$' | '`')) => {
                            return Err(bad(format!("has a `{c}` that a shell would act upon")));
                        }
                        Some(c) => word.push(c),
                        None => return Err(bad("has a quote that is not closed".into())),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(bad("ends in a backslash".into())),
            },
            c if OPERATORS.contains(c) => {
                return Err(bad(format!("has a `{}` that a shell would act upon", c.escape_default())));
            }
            '#' if word.is_none() => return Err(bad("has a `#` that a shell would act upon".into())),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match words.first() {
        Some(first) if !first.is_empty() && !line.contains('\0') => Ok(words),
        _ => Err(bad("names no program".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::split_words;

    #[test]
    fn split_words_matches_shell() {
        let cases: [(&str, &[&str]); 7] = [
            ("cargo  test\t--all ", &["cargo", "test", "--all"]),
            (r#"a 'b c' "d e"f\ g"#, &["a", "b c", "d ef g"]),
            (r#"a "" '' \"x"#, &["a", "", "", "\"x"]),
            (r#"a "\$x \n \\" '$x `y` ; |'"#, &["a", "$x \\n \\", "$x `y` ; |"]),
            ("eslint src/*.js", &["eslint", "src/*.js"]),
            ("a b#c", &["a", "b#c"]),
            ("prog -x=--y @z", &["prog", "-x=--y", "@z"]),
        ];
        for (line, expected) in cases {
            assert_eq!(split_words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn lines_needing_shell_are_refused() {
        for line in [
            "a && b", "a | b", "a; b", "a > b", "$HOME/x", "a `b`", "a \"$x\"", "(a)", "a 'b", "a \"b",
            "a\\", "", "  ", "''", "a\nb", "# a", "a\0b",
        ] {
            assert!(split_words(line).is_err(), "{line}");
        }
    }
}
