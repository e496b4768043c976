//! Completes a command line for a shell: `callsheet __complete SHELL INDEX WORD…`.
//!
//! One line for each candidate: the word, a tab, and a few words about it; or `:files`, for which the shell completes file
//! names. Whatever fails prints nothing.

mod walk;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use callsheet::project::{Project, ProjectOptions};
use clap::CommandFactory as _;

use crate::args::CliArgs;
use crate::print::OutputPrinter;
use walk::{CompletionTarget, WordCandidates, find_target};

/// The script for a shell; the others are made by clap, and complete no values of the project.
pub(crate) fn script(shell: clap_complete::Shell) -> Option<&'static str> {
    match shell {
        clap_complete::Shell::Bash => Some(include_str!("callsheet.bash")),
        clap_complete::Shell::Zsh => Some(include_str!("callsheet.zsh")),
        clap_complete::Shell::Fish => Some(include_str!("callsheet.fish")),
        _ => None,
    }
}

/// The longest time that a person waits: a ledger may be on a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Completes and exits, if this process was started to do that.
pub(crate) fn act_if_asked() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != "__complete" {
        return None;
    }
    let (send, receive) = mpsc::channel();
    let words: Vec<OsString> = words.collect();
    thread::spawn(move || {
        // If the receiver is gone, no caller waits any more.
        let _ = send.send(answer(&words));
    });
    if let Ok(Some(text)) = receive.recv_timeout(PATIENCE) {
        // The shell may be gone.
        let _ = OutputPrinter::plain().write_data(text.as_bytes());
    }
    Some(ExitCode::SUCCESS)
}

fn answer(words: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let [shell, index, typed @ ..] = &words[..] else { return None };
    let (before, current) = split_words(*shell == "bash", index.parse().ok()?, typed)?;
    let mut command = CliArgs::command();
    command.build();
    let CompletionTarget { candidates, prefix, project, ledger } = find_target(&command, &before, &current);
    let values = match candidates {
        WordCandidates::Files => return Some(":files\n".into()),
        WordCandidates::Known(values) => values,
        WordCandidates::Values(kind) => {
            let options = ProjectOptions {
                dir: project.map(Into::into),
                ledger,
                config_optional: true,
                ..ProjectOptions::default()
            };
            let project = Project::open_with(options).ok()?;
            let start = current.get(prefix.len()..).unwrap_or_default();
            let values = project.completion_values(kind, start).ok()?.into_iter();
            values.map(|value| (value.value, value.about)).collect()
        }
    };
    // bash replaces only the text behind the last of these signs.
    let broken = if *shell == "bash" { current.rfind(['=', ':']).map_or(0, |at| at + 1) } else { 0 };
    let fits = |(value, about): (String, String)| {
        let word = format!("{prefix}{value}");
        word.starts_with(&current).then(|| format!("{}\t{about}\n", word.get(broken..).unwrap_or_default()))
    };
    Some(values.into_iter().filter_map(fits).collect())
}

/// Splits the words of a command line into those before the cursor and the one at the cursor. bash makes words of their own
/// of `=` and `:`, which are put together again.
fn split_words(joins: bool, index: usize, typed: &[&str]) -> Option<(Vec<String>, String)> {
    let mut words: Vec<String> = Vec::new();
    let mut glued = false;
    for word in typed.get(..=index).unwrap_or(typed).iter().skip(1) {
        let is_sign = joins && (*word == "=" || *word == ":");
        match words.last_mut().filter(|_| is_sign || glued) {
            Some(last) => last.push_str(word),
            None => words.push((*word).to_owned()),
        }
        glued = is_sign;
    }
    if typed.len() <= index {
        words.push(String::new());
    }
    let current = words.pop()?;
    Some((words, current))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_bash_are_joined() {
        let split = |joins, typed: &[&str]| {
            split_words(joins, typed.len() - 1, typed)
                .map(|(before, current)| (before.join(" "), current))
                .unwrap()
        };
        let at = |before: &str, current: &str| (before.to_owned(), current.to_owned());
        assert_eq!(split(true, &["c", "run", "--agent", "=", "cl"]), at("run", "--agent=cl"));
        assert_eq!(split(true, &["c", "run", "--agent", "="]), at("run", "--agent="));
        assert_eq!(
            split(true, &["c", "run", "--agent-for", "plan", "=", "a", ":", "b"]),
            at("run --agent-for", "plan=a:b")
        );
        assert_eq!(split(false, &["c", "x", "=", "y"]), at("x =", "y"));
        assert_eq!(split(true, &["c", ""]), at("", ""));
    }
}
