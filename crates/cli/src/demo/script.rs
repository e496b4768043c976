//! The script of the demo as data: titles, commands, and the parts of the outputs that people see.

use callsheet::Result;
use callsheet_core::diag::{Code, Diagnostic};
use serde::Deserialize;

const SCRIPT: &str = include_str!("../../demo/script.toml");

/// Most characters of a shown line.
const MOST_COLUMNS: usize = 118;

/// Mark in the place of omitted text.
const OMITTED: &str = "…";

/// The texts and commands of the demo, in their order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DemoScript {
    pub(crate) intro: String,
    pub(crate) outro: String,
    #[serde(rename = "step")]
    pub(crate) steps: Vec<DemoStep>,
}

/// One command of the demo.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DemoStep {
    /// The subject of the command; a step without a title belongs to the one before it.
    pub(crate) title: Option<String>,
    pub(crate) command: Vec<String>,
    /// The exit code that the command must have.
    #[serde(default)]
    pub(crate) exit_code: i32,
    /// The parts of the output that are shown; the whole output if there are none.
    #[serde(default)]
    excerpts: Vec<DemoExcerpt>,
}

/// A part of an output: the next line that contains `from`, and the lines after it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DemoExcerpt {
    from: String,
    lines: usize,
}

impl DemoScript {
    pub(crate) fn parse() -> Result<Self> {
        toml::from_str(SCRIPT)
            .map_err(|error| Diagnostic::error(Code::ConfigBad, format!("the demo's script: {error}")).into())
    }
}

impl DemoStep {
    /// Returns the command as a person types it in a shell.
    pub(crate) fn command_line(&self) -> String {
        self.command.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the excerpts of an output, with marks in the place of omitted text.
    pub(crate) fn shorten(&self, output: &str) -> String {
        let lines: Vec<&str> = output.lines().collect();
        let mut shown = String::new();
        let mut at = 0;
        for excerpt in &self.excerpts {
            let Some(skipped) = lines.iter().skip(at).position(|line| line.contains(&excerpt.from)) else {
                continue;
            };
            push_omission(&mut shown, skipped);
            let end = (at + skipped + excerpt.lines).min(lines.len());
            lines.iter().take(end).skip(at + skipped).for_each(|line| push_line(&mut shown, line));
            at = end;
        }
        if self.excerpts.is_empty() {
            lines.iter().for_each(|line| push_line(&mut shown, line));
        } else {
            push_omission(&mut shown, lines.len() - at);
        }
        shown
    }
}

fn push_omission(shown: &mut String, omitted: usize) {
    if omitted > 0 {
        push_line(shown, OMITTED);
    }
}

fn push_line(shown: &mut String, line: &str) {
    shown.push_str("  ");
    if line.chars().count() > MOST_COLUMNS {
        shown.extend(line.chars().take(MOST_COLUMNS - 1));
        shown.push_str(OMITTED);
    } else {
        shown.push_str(line);
    }
    shown.push('\n');
}

/// Quotes a word for a POSIX shell if it needs that.
pub(crate) fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+,=%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(excerpts: &[(&str, usize)]) -> DemoStep {
        let excerpts =
            excerpts.iter().map(|(from, lines)| DemoExcerpt { from: (*from).into(), lines: *lines });
        DemoStep { title: None, command: Vec::new(), exit_code: 0, excerpts: excerpts.collect() }
    }

    #[test]
    fn excerpts_mark_omitted_lines() {
        let output = "a\nb\nc\nd\ne\n";
        assert_eq!(step(&[]).shorten(output), "  a\n  b\n  c\n  d\n  e\n");
        assert_eq!(step(&[("a", 1), ("c", 2)]).shorten(output), "  a\n  …\n  c\n  d\n  …\n");
        assert_eq!(step(&[("e", 9), ("a", 1)]).shorten(output), "  …\n  e\n");
        assert_eq!(step(&[]).shorten(&"ä".repeat(200)), format!("  {}…\n", "ä".repeat(117)));
    }

    #[test]
    fn command_lines_can_be_typed() {
        let command = ["run", "src/**", "whitespace=git diff --check", "Don't `x`", ""].map(String::from);
        let step = DemoStep { command: command.to_vec(), ..step(&[]) };
        assert_eq!(step.command_line(), "run 'src/**' 'whitespace=git diff --check' 'Don'\\''t `x`' ''");
    }

    #[test]
    fn script_begins_with_title() {
        let script = DemoScript::parse().unwrap();
        assert!(script.steps[0].title.is_some());
    }
}
