//! Finds what the word at the cursor can be: a subcommand, a flag, or the value of an argument.

use callsheet::completion::CompletionKind;
use clap::{Arg, Command};

/// Candidates for a word.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WordCandidates {
    /// Words with their descriptions.
    Known(Vec<(String, String)>),
    /// Values of the project.
    Values(CompletionKind),
    /// Files, which the shell knows.
    Files,
}

/// The word at the cursor.
#[derive(Debug)]
pub(super) struct CompletionTarget {
    pub(super) candidates: WordCandidates,
    /// The beginning of the word that is no part of the candidates, such as `--agent=`.
    pub(super) prefix: String,
    /// The project and the ledger that the words before name.
    pub(super) project: Option<String>,
    pub(super) ledger: Option<String>,
}

/// The words before the cursor, as the parser would read them.
struct WordWalk<'c> {
    command: &'c Command,
    path: Vec<&'c str>,
    /// An option that waits for its value.
    pending: Option<&'c Arg>,
    positionals: usize,
    /// Everything behind `--` is a program.
    escaped: bool,
    project: Option<String>,
    ledger: Option<String>,
}

pub(super) fn find_target(root: &Command, before: &[String], current: &str) -> CompletionTarget {
    let mut walk = WordWalk {
        command: root,
        path: Vec::new(),
        pending: None,
        positionals: 0,
        escaped: false,
        project: None,
        ledger: None,
    };
    before.iter().for_each(|word| walk.read_word(word));
    let (candidates, prefix) = walk.candidates(current);
    CompletionTarget { candidates, prefix, project: walk.project, ledger: walk.ledger }
}

impl<'c> WordWalk<'c> {
    fn read_word(&mut self, word: &str) {
        if let Some(option) = self.pending.take() {
            self.note_value(option, word);
        } else if self.escaped {
        } else if word == "--" {
            self.escaped = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let option = self.find_option(|arg| arg.get_long() == Some(name));
            match (option, value) {
                (Some(option), Some(value)) => self.note_value(option, value),
                (option, _) => self.pending = option.filter(|option| needs_value(option)),
            }
        } else if let Some(shorts) = word.strip_prefix('-').filter(|shorts| !shorts.is_empty()) {
            self.read_shorts(shorts);
        } else if let Some(command) = self.command.find_subcommand(word).filter(|_| self.positionals == 0) {
            self.command = command;
            self.path.push(command.get_name());
        } else {
            self.positionals += 1;
        }
    }

    fn read_shorts(&mut self, shorts: &str) {
        for (at, short) in shorts.char_indices() {
            let Some(option) = self.find_option(|arg| arg.get_short() == Some(short)) else { return };
            if needs_value(option) {
                match &shorts[at + short.len_utf8()..] {
                    "" => self.pending = Some(option),
                    value => self.note_value(option, value),
                }
                return;
            }
        }
    }

    fn find_option(&self, is: impl Fn(&&Arg) -> bool) -> Option<&'c Arg> {
        self.command.get_arguments().find(is)
    }

    fn note_value(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "project" if self.path.is_empty() || option.get_short() == Some('C') => {
                self.project = Some(value.into())
            }
            "ledger" => self.ledger = Some(value.into()),
            _ => {}
        }
    }

    fn candidates(&self, current: &str) -> (WordCandidates, String) {
        let none = String::new;
        if let Some(option) = self.pending {
            return self.values(option, current, none());
        }
        if self.escaped {
            return (WordCandidates::Files, none());
        }
        if let Some((flag, value)) = current.strip_prefix("--").and_then(|flag| flag.split_once('=')) {
            return match self.find_option(|arg| arg.get_long() == Some(flag)) {
                Some(option) => self.values(option, value, format!("--{flag}=")),
                None => (WordCandidates::Known(Vec::new()), none()),
            };
        }
        if current.starts_with('-') {
            return (WordCandidates::Known(self.flags()), none());
        }
        let is_first = self.positionals == 0 && self.command.has_subcommands();
        if is_first {
            let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
            let about = |command: &Command| command.get_about().map(first_line).unwrap_or_default();
            let words = shown.map(|command| (command.get_name().to_owned(), about(command)));
            return (WordCandidates::Known(words.collect()), none());
        }
        let positionals: Vec<&Arg> =
            self.command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
        let last = positionals.last().filter(|arg| takes_many(arg));
        match positionals.get(self.positionals).or(last) {
            Some(positional) => self.values(positional, current, none()),
            None => (WordCandidates::Known(Vec::new()), none()),
        }
    }

    fn flags(&self) -> Vec<(String, String)> {
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let flag = |arg: &Arg| {
            let about = arg.get_help().map(first_line).unwrap_or_default();
            Some((format!("--{}", arg.get_long()?), about))
        };
        shown.filter_map(flag).collect()
    }

    /// Returns the values of an argument. `typed` is the part of the value before the cursor; `prefix` stands before the
    /// value.
    fn values(&self, arg: &Arg, typed: &str, mut prefix: String) -> (WordCandidates, String) {
        if let Some((list, _)) = arg.get_value_delimiter().and_then(|sign| typed.rsplit_once(sign)) {
            prefix += &format!("{list},");
        }
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            let about =
                |value: &clap::builder::PossibleValue| value.get_help().map(first_line).unwrap_or_default();
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            let words = shown.map(|value| (value.get_name().to_owned(), about(value)));
            return (WordCandidates::Known(words.collect()), prefix);
        }
        let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        if name.starts_with("PHASE=NAME") {
            return match typed.split_once('=') {
                Some((phase, _)) => {
                    (WordCandidates::Values(CompletionKind::Agent), format!("{prefix}{phase}="))
                }
                None => (WordCandidates::Values(CompletionKind::Phase), prefix),
            };
        }
        let kind = value_kind(&self.path, arg.get_id().as_str(), name);
        let none = WordCandidates::Known(Vec::new());
        let files = ["PATH", "FILE", "DIR", "GLOB"]
            .iter()
            .any(|word| name.split(['=', '[']).any(|part| part == *word));
        (kind.map_or(if files { WordCandidates::Files } else { none }, WordCandidates::Values), prefix)
    }
}

/// Returns the kind of the values of an argument, by the command, the argument's id and the name of its value.
fn value_kind(path: &[&str], id: &str, name: &str) -> Option<CompletionKind> {
    Some(match (path, id, name) {
        (["flow", "start"], "name", _) => CompletionKind::FlowName,
        (["flow", "graph"], _, _) | (_, "flow", _) | (_, _, "FLOW") => CompletionKind::Flow,
        (["templates", ..], "name", _) => CompletionKind::Template,
        (["diff"], "from" | "to", _) | (_, "run" | "runs", _) | (_, _, "RUN") => CompletionKind::Run,
        (["status"] | ["log"] | ["task", ..] | ["stats"], "task", _) | (_, "task_id", _) => {
            CompletionKind::Task
        }
        (_, "agent", _) => CompletionKind::Agent,
        (_, "role", _) => CompletionKind::Role,
        (_, "phase" | "with", _) => CompletionKind::Phase,
        (_, "recipe", _) => CompletionKind::Recipe,
        (_, "contract", _) => CompletionKind::Contract,
        _ => return None,
    })
}

fn needs_value(option: &Arg) -> bool {
    option.get_action().takes_values() && option.get_num_args().is_none_or(|range| range.min_values() > 0)
}

fn takes_many(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

fn first_line(text: &clap::builder::StyledStr) -> String {
    text.to_string().lines().next().unwrap_or_default().replace('\t', " ")
}
