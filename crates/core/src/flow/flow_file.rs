//! Reads flow files and checks that they are consistent in themselves.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Flow, LaneSource, Phase, PhaseRequest, TransitionTarget};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::DynLibrary;
use crate::library::read_toml::{self, FileFormat, ReadErrorCodes, check_length};
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;
use crate::text::name::{NAME_HINT, is_name};

const NEEDS: &str = "evidence is `reply.WORD`, `submission.CONTRACT`, `file.PATH`, `check.NAME`, `checks`, \
                     `checks-or-none`, `changelog-or-none`, `exit`, `clean`, `plan`, `plan.needs_design` or `topics`";

/// Parses a flow and checks it. Returns all errors together.
pub fn read_flow(id: &SourceId, text: &SharedText) -> Result<Flow, Diagnostics> {
    check_length(id, text, Code::FlowBad)?;
    let codes = ReadErrorCodes { bad: Code::FlowBad, unknown: Code::FlowBad };
    let flow: Flow = read_toml::read_data(&id.to_string(), text, FileFormat::Toml, codes)?;
    let mut problems = FlowProblems { id, problems: Vec::new() };
    problems.check_flow(&flow);
    if problems.problems.is_empty() { Ok(flow) } else { Err(Diagnostics(problems.problems)) }
}

/// Finds and reads the flow `name`. Returns it with its source id.
pub fn find_flow(
    library: &DynLibrary<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Flow), Diagnostics> {
    let (id, text) = read_toml::find_file(library, "flows", name, layout, Code::FlowNotFound)?;
    let flow = read_flow(&id, &text)?;
    Ok((id, flow))
}

/// Subject of a word of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceNeed<'n> {
    /// The reply, such as its verdict.
    Reply(&'n str),
    /// The submission.
    Submission(&'n str),
    /// A file of the flow.
    File(&'n str),
    /// The result of a check.
    Check(&'n str),
    /// Facts of every run, and properties of the documents.
    Other,
}

/// Parses a word of evidence. Returns `None` if nothing could ever be evidence for it.
pub fn parse_need(word: &str) -> Option<EvidenceNeed<'_>> {
    match word.split_once('.') {
        Some(("reply", word)) if is_name(word) => Some(EvidenceNeed::Reply(word)),
        Some(("submission", name)) if is_name(name) => Some(EvidenceNeed::Submission(name)),
        Some(("file", path)) if is_path(path) => Some(EvidenceNeed::File(path)),
        Some(("check", name)) if !name.trim().is_empty() => Some(EvidenceNeed::Check(name)),
        _ => {
            let known = [
                "checks",
                "checks-or-none",
                "changelog-or-none",
                "exit",
                "clean",
                "plan",
                "plan.needs_design",
                "topics",
            ];
            known.contains(&word).then_some(EvidenceNeed::Other)
        }
    }
}

/// Checks whether the path stays inside the flow's folder.
fn is_path(path: &str) -> bool {
    SourceId::new(SourceRoot::Session, path).is_ok_and(|id| id.path() == path && path != ".")
}

struct FlowProblems<'i> {
    id: &'i SourceId,
    problems: Vec<Diagnostic>,
}

impl FlowProblems<'_> {
    fn push_error(&mut self, message: impl core::fmt::Display, hint: &str) {
        self.problems.push(Diagnostic::error(Code::FlowBad, format!("{}: {message}", self.id)).hint(hint));
    }

    fn check_flow(&mut self, flow: &Flow) {
        if flow.phase.is_empty() {
            self.push_error("the flow has no phase", "add a `[[phase]]`");
        }
        self.check_path("changes", &flow.changes);
        flow.request.iter().for_each(|file| self.check_path("request", file));
        let mut names = BTreeSet::new();
        for phase in &flow.phase {
            let name = &phase.name;
            if !is_name(name) || TransitionTarget::RESERVED.contains(&name.as_str()) {
                let hint = format!("{NAME_HINT}; {} are taken", TransitionTarget::RESERVED.join(", "));
                self.push_error(format_args!("invalid phase name `{name}`"), &hint);
            }
            if !names.insert(name.as_str()) {
                self.push_error(format_args!("duplicate phase `{name}`"), "names must be unique");
            }
        }
        flow.phase.iter().for_each(|phase| self.check_phase(phase, &names));
    }

    fn check_phase(&mut self, phase: &Phase, names: &BTreeSet<&str>) {
        let name = &phase.name;
        for (what, given) in [("recipe", Some(&phase.recipe)), ("contract", phase.contract.as_ref())] {
            if let Some(given) = given.filter(|given| !is_name(given)) {
                self.push_error(format_args!("invalid {what} `{given}` of `{name}`"), NAME_HINT);
            }
        }
        self.check_request(phase, &phase.ask);
        if let Some(again) = &phase.again {
            self.check_request(phase, &again.ask);
            self.check_path(name, &again.file);
            if again.ask.each.is_some_and(|each| phase.ask.each != Some(each)) {
                let message = format_args!("`again` of `{name}` has other lanes than its `ask`");
                self.push_error(message, "give `again` the same `each` as `ask`, or none for a single lane");
            }
        }
        let answers = phase.findings.iter().flat_map(|findings| [&findings.file, &findings.fixes]);
        answers.for_each(|path| self.check_path(name, path));
        if let Some(role) = phase.role.as_ref().filter(|role| !is_name(role)) {
            self.push_error(format_args!("invalid role `{role}` of `{name}`"), NAME_HINT);
        }
        let collected =
            phase.collect.iter().flat_map(|collect| [&collect.from, &collect.all, &collect.failed]);
        let again = phase.again.iter().filter_map(|again| again.inputs.as_ref()).flatten();
        let written = phase.outputs.iter().chain(&phase.report).chain(&phase.owns);
        let paths = phase.inputs.iter().chain(again).chain(written).chain(collected);
        paths.for_each(|path| self.check_path(name, path));
        if phase.limit == Some(0) {
            self.push_error(format_args!("`{name}` can never be entered"), "set `limit` to 1 or more");
        }
        let has_reviewers = phase.ask.each == Some(LaneSource::Reviewers);
        if has_reviewers == phase.reviewer.is_empty() {
            let message =
                format_args!("`{name}` has only one of `each = \"reviewers\"` and `[[phase.reviewer]]`");
            self.push_error(message, "give both or neither");
        }
        for reviewer in phase.reviewer.iter().filter(|reviewer| !is_name(&reviewer.name)) {
            self.push_error(format_args!("invalid reviewer name `{}`", reviewer.name), NAME_HINT);
        }
        self.check_transitions(phase, names);
    }

    fn check_transitions(&mut self, phase: &Phase, names: &BTreeSet<&str>) {
        let name = &phase.name;
        if phase.on.is_empty() {
            self.push_error(format_args!("`{name}` has no transition"), "add a `[[phase.on]]`");
        } else if phase.approval_target() == TransitionTarget::Person {
            let message = format_args!("`{name}` has no transition for a person's approval");
            self.push_error(message, "set `approve` to a phase or to `done`");
        }
        let targets = phase.on.iter().map(|on| &on.to).chain(&phase.approve);
        for to in targets
            .filter(|to| !names.contains(to.as_str()) && !TransitionTarget::RESERVED.contains(&to.as_str()))
        {
            self.push_unknown_phase(name, to, names, &TransitionTarget::RESERVED);
        }
        if let Some(to) = phase.changes.as_ref().filter(|to| !names.contains(to.as_str())) {
            self.push_unknown_phase(name, to, names, &[]);
        }
        for on in &phase.on {
            for word in on.needs.iter().filter(|word| parse_need(word).is_none()) {
                self.push_error(format_args!("unknown evidence `{word}` in `needs` of `{name}`"), NEEDS);
            }
            // Checks and scopes also pass if nothing was done: neither shows that a phase did its work.
            let shows = |word: &String| {
                !matches!(word.as_str(), "clean" | "checks-or-none" | "checks" | "changelog-or-none")
            };
            if !on.needs.iter().any(shows) {
                let message = format_args!("`{name}` goes to `{}` without evidence of its own", on.to);
                self.push_error(message, "add evidence to `needs` that the phase did its work");
            }
        }
    }

    fn push_unknown_phase(&mut self, name: &str, to: &str, names: &BTreeSet<&str>, besides: &[&str]) {
        let message = format!("{}: `{name}` leads to the unknown phase `{to}`", self.id);
        let known = names.iter().chain(besides).copied();
        let all: Vec<&str> = known.clone().collect();
        let error = Diagnostic::error(Code::FlowBad, message).suggest(to, known);
        self.problems.push(error.hint(format!("known targets: {}", all.join(", "))));
    }

    fn check_request(&mut self, phase: &Phase, ask: &PhaseRequest) {
        let name = &phase.name;
        let given = [&ask.phase, &ask.role, &ask.command];
        if given.iter().filter(|given| given.is_some()).count() != 1 {
            let message = format_args!("`{name}` must ask for exactly one template");
            self.push_error(message, "give `ask` one of `phase`, `role` and `command`");
        }
        let is_fine = |word: &str| is_name(&word.replace("{type}", "x"));
        for word in given.into_iter().flatten().filter(|word| !is_fine(word)) {
            self.push_error(format_args!("`{name}` asks for the invalid name `{word}`"), NAME_HINT);
        }
        for key in ask.values.keys().filter(|key| !is_name(key)) {
            self.push_error(format_args!("invalid value key `{key}` of `{name}`"), NAME_HINT);
        }
        let mut known = alloc::vec!["request"];
        known.extend(phase.findings.iter().map(|_| "findings"));
        match ask.each {
            None => {}
            Some(LaneSource::Reviewers) => known.extend(["lane", "says"]),
            Some(LaneSource::Topics) => known.extend(["lane", "type", "topic"]),
            Some(_) => known.push("lane"),
        }
        let texts = ask.values.values().chain(&ask.instructions).map(String::as_str);
        for hole in texts.chain(ask.role.as_deref()).flat_map(find_slots).filter(|hole| !known.contains(hole))
        {
            let known: Vec<String> = known.iter().map(|hole| format!("`{{{hole}}}`")).collect();
            let hint = format!("known holes: {}", known.join(", "));
            self.push_error(format_args!("unknown hole `{{{hole}}}` in `ask` of `{name}`"), &hint);
        }
    }

    fn check_path(&mut self, name: &str, path: &str) {
        if !is_path(path) {
            let message = format_args!("`{name}`: `{path}` is not a path inside the flow's folder");
            self.push_error(message, "paths are relative to that folder");
        }
    }
}

/// Returns the names between braces.
fn find_slots(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).map(|rest| rest.split_once('}').map_or(rest, |(name, _)| name))
}
