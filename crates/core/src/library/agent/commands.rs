//! The control of an agent over the commands that it runs, and the rules that allow single commands.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::library::allowed_command::AllowedCommand;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The way in which an agent controls the commands that it runs with the permission `edit`.
    CommandControl {
        /// It runs the commands that a rule allows, and denies or asks for all others.
        Rules "rules",
        /// It runs every command, in a sandbox.
        Sandbox "sandbox",
        /// It runs every command.
        Open "open",
    }
}

word_enum! {
    /// The form of the words in a rule.
    #[derive(Default)]
    RuleForm {
        /// The words as they are.
        #[default]
        Words "words",
        /// A regular expression.
        Regex "regex",
    }
}

/// How commands are allowed to an agent. Its rules are put into arguments and files by the hole `commands`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandRules {
    /// The control of the agent over its commands.
    pub control: CommandControl,
    /// The rule for a command without further arguments; `{words}` is replaced by its words.
    #[serde(default)]
    pub exact: Option<String>,
    /// The rule for a command with any further arguments.
    #[serde(default)]
    pub more: Option<String>,
    /// The form of the words in a rule.
    #[serde(default)]
    pub form: RuleForm,
    /// The most words that the agent compares; without it, all.
    #[serde(default)]
    pub most_words: Option<usize>,
    /// Programs whose subcommand the agent compares too: one word more.
    #[serde(default)]
    pub subcommands: Vec<String>,
    /// Characters that mean something else in a rule.
    #[serde(default)]
    pub refused: String,
    /// The conditions under which every command runs, in words.
    #[serde(default)]
    pub note: Option<String>,
}

/// The place of the words in a rule.
pub(super) const WORDS: &str = "{words}";

impl CommandRules {
    /// Returns the rule that allows exactly this command, or the reason why the agent has none.
    pub fn compile(&self, command: &AllowedCommand) -> Result<String, String> {
        let rule = match (command.has_more(), &self.exact, &self.more) {
            (false, Some(exact), _) => exact,
            (true, _, Some(more)) => more,
            (false, None, _) => {
                return Err(format!("it can only be allowed with any arguments: `{command} *`"));
            }
            (true, _, None) => return Err("it can only be allowed without further arguments".to_string()),
        };
        let words = command.words();
        if let Some(most) = self.most_words.map(|most| most + usize::from(self.compares_subcommand(words)))
            && words.len() > most
        {
            let short = words[..most].join(" ");
            return Err(format!("the agent compares only `{short}`; `{short} *` would allow more"));
        }
        let line = command.line();
        if let Some(c) = line.chars().find(|c| self.refused.contains(*c)) {
            return Err(format!("`{c}` means something else in its rules"));
        }
        let words = match self.form {
            RuleForm::Words => line,
            RuleForm::Regex => escape_regex(&line),
        };
        Ok(rule.replacen(WORDS, &words, 1))
    }

    fn compares_subcommand(&self, words: &[String]) -> bool {
        let [program, next, ..] = words else { return false };
        self.subcommands.contains(program) && next.starts_with(|c: char| c.is_ascii_alphanumeric())
    }

    /// Returns the problems of the rules that a schema cannot express.
    pub(super) fn find_problems(&self, has_hole: bool) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        let rules: Vec<&String> = self.exact.iter().chain(&self.more).collect();
        if (self.control == CommandControl::Rules) != (!rules.is_empty() && has_hole) {
            found.push((
                "`commands`: the rules do not fit the control".to_string(),
                "with `rules`, give `exact` or `more` and use `{ hole = \"commands\" }`; otherwise neither",
            ));
        }
        for rule in rules.into_iter().filter(|rule| rule.matches(WORDS).count() != 1) {
            found.push((
                format!("`commands`: the rule `{rule}` has no place for the words"),
                "write `{words}` once",
            ));
        }
        found
    }
}

/// Escapes the plain words of a command for a regular expression.
fn escape_regex(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for c in line.chars() {
        if matches!(c, '.' | '+') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
