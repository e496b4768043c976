//! Commands that an agent may run without asking.
//!
//! Parses and compares them; the agent's file decides how they become rules of the agent.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::diag::{Code, Diagnostic};
use crate::library::command_words::split_words;

/// The words of a command, and whether more arguments may follow: `pytest -q`, or `pytest *`.
///
/// The words are plain: no shell and no agent reads them as anything but words, so that a rule which contains them allows
/// exactly this command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedCommand {
    words: Vec<String>,
    more: bool,
}

/// The most words of a command.
const MOST_WORDS: usize = 32;
/// The most characters of a command.
const MOST_CHARS: usize = 500;

/// Words with which a shell begins something else than a command.
const KEYWORDS: &[&str] = &[
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while",
];

impl AllowedCommand {
    /// Parses a command line that may end in ` *`.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let line = text.trim();
        let start = line.strip_suffix('*').filter(|start| start.ends_with([' ', '\t']));
        let hint =
            "give a program and its arguments, such as `pytest -q`; a final ` *` allows more arguments";
        let refused = |message: String| Diagnostic::error(Code::UsageBad, message).hint(hint);
        let bad = |why: &str| refused(format!("cannot allow the command `{text}`: {why}"));
        let words = split_words(start.unwrap_or(line));
        let words = words.map_err(|diag| refused(format!("cannot allow it: {}", diag.message)))?;
        find_problem(&words).map_or(Ok(()), |why| Err(bad(&why)))?;
        Ok(Self { words, more: start.is_some() })
    }

    /// Returns the command with these words. Returns `None` if one of them is not plain.
    pub fn from_words(words: &[String], more: bool) -> Option<Self> {
        find_problem(words).is_none().then(|| Self { words: words.to_vec(), more })
    }

    /// Returns the words.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns whether more arguments may follow.
    pub const fn has_more(&self) -> bool {
        self.more
    }

    /// Returns the words with a space between them.
    pub fn line(&self) -> String {
        self.words.join(" ")
    }

    /// Checks whether every command that `other` allows is allowed by this one too.
    pub fn covers(&self, other: &Self) -> bool {
        if self.more { other.words.starts_with(&self.words) } else { self == other }
    }

    /// Checks whether a command with these words is allowed.
    pub fn allows(&self, words: &[String]) -> bool {
        if self.more { words.starts_with(&self.words) } else { words == self.words }
    }
}

impl fmt::Display for AllowedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.line(), if self.more { " *" } else { "" })
    }
}

/// Returns why these words are not those of a command that can be allowed.
fn find_problem(words: &[String]) -> Option<String> {
    let Some(program) = words.first() else { return Some("it names no program".to_string()) };
    if let Some(word) = words.iter().find(|word| !is_plain(word)) {
        return Some(format!("`{word}` contains more than letters, digits and {PUNCTUATION}"));
    }
    let begins = |c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '_');
    if !program.starts_with(begins) || program.contains('=') || KEYWORDS.contains(&program.as_str()) {
        return Some(format!("`{program}` is not a program"));
    }
    let chars: usize = words.iter().map(|word| word.chars().count() + 1).sum();
    (words.len() > MOST_WORDS || chars > MOST_CHARS).then(|| "it is too long".to_string())
}

/// Punctuation that neither shells nor rules of agents act on.
const PUNCTUATION: &str = "_./@%+=,:-";

fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || PUNCTUATION.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_words_and_more() {
        for (text, words, more) in [
            ("pytest *", &["pytest"][..], true),
            ("pytest -q", &["pytest", "-q"], false),
            (" npm  run\ttest:unit * ", &["npm", "run", "test:unit"], true),
            ("./gradlew test", &["./gradlew", "test"], false),
            ("'cargo' \"test\" *", &["cargo", "test"], true),
        ] {
            let command = AllowedCommand::parse(text).unwrap();
            assert_eq!(
                (command.words(), command.has_more()),
                (&words.iter().map(|w| w.to_string()).collect::<Vec<_>>()[..], more),
                "{text}"
            );
            assert_eq!(AllowedCommand::parse(&command.to_string()).unwrap(), command, "{text}");
        }
    }

    #[test]
    fn odd_commands_are_refused() {
        for text in [
            "",
            " ",
            "*",
            " *",
            "''",
            "'' *",
            "a|b",
            "a;b",
            "a&&b",
            "a & b",
            "a > b",
            "a < b",
            "$(a)",
            "`a`",
            "$A",
            "a\nb",
            "a * b",
            "a* *",
            "a ** *",
            "a '*'",
            "a \\* *",
            "a\\ *",
            "a )",
            "a) *",
            "a (b",
            "a 'b c'",
            "a \"b\"\"'\"",
            "a '\"'",
            "a {b,c}",
            "a [b]",
            "a ?",
            "~/a",
            "a ~b",
            "a !b",
            "a # b",
            "#a",
            "a \\\\",
            "-a",
            "A=1 b",
            "if",
            "while a",
            "a\u{0}b",
            "a 'b\nc'",
            "a \u{202e}b",
            "a:* *",
            "a :*",
            "%1",
            "= a",
            "=",
            "a 'unclosed",
        ] {
            assert!(AllowedCommand::parse(text).is_err(), "{text:?}");
        }
        let long = "a ".repeat(MOST_WORDS + 1);
        assert!(AllowedCommand::parse(&long).is_err());
    }

    #[test]
    fn wider_command_covers_narrower_one() {
        let parse = |text: &str| AllowedCommand::parse(text).unwrap();
        for (one, other, is_covered) in [
            ("a *", "a", true),
            ("a *", "a b", true),
            ("a *", "a b *", true),
            ("a *", "a *", true),
            ("a", "a", true),
            ("a b *", "a *", false),
            ("a", "a *", false),
            ("a", "a b", false),
            ("a *", "ab", false),
            ("a b", "a b c", false),
        ] {
            assert_eq!(parse(one).covers(&parse(other)), is_covered, "{one} covers {other}");
        }
    }
}
