//! Compares a flow with the shipped flow of the same name: does it need less evidence?

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Flow, Phase, PhaseRequest, PhaseTransition};

impl Flow {
    /// Lists the points in which `self` needs less than `shipped`, in words. The list is empty if it needs at
    /// least as much. A point that cannot be compared counts as less.
    pub fn list_weaknesses(&self, shipped: &Self) -> Vec<String> {
        let mut less = Vec::new();
        let files = |flow: &Self| (flow.folder, flow.request.clone(), flow.changes.clone(), flow.archive);
        if files(self) != files(shipped) {
            less.push("requests or documents have other paths".into());
        }
        let mut from = 0;
        for phase in &shipped.phase {
            match self.phase[from..].iter().position(|own| own.name == phase.name) {
                Some(at) => {
                    less.extend(self.phase[from + at].list_weaknesses(phase).into_iter().map(|why| {
                        let name = &phase.name;
                        format!("phase `{name}`: {why}")
                    }));
                    from += at + 1;
                }
                None => less.push(format!("phase `{}` is missing or has moved", phase.name)),
            }
        }
        let first = |flow: &Self| flow.phase.first().map(|phase| phase.name.clone());
        if first(self) != first(shipped) {
            less.push("another phase comes first".into());
        }
        less
    }
}

impl Phase {
    fn list_weaknesses(&self, shipped: &Self) -> Vec<String> {
        let mut less = Vec::new();
        let mut note = |is_less: bool, why: &str| {
            if is_less {
                less.push(why.into());
            }
        };
        let asked = |ask: &PhaseRequest| (ask.phase.clone(), ask.role.clone(), ask.command.clone(), ask.each);
        let again = |phase: &Self| phase.again.as_ref().map(|again| (again.file.clone(), asked(&again.ask)));
        note(self.contract != shipped.contract, "another contract");
        note(asked(&self.ask) != asked(&shipped.ask), "`ask` asks for another template");
        note(again(self) != again(shipped), "`again` asks for another template");
        note(self.optional && !shipped.optional, "it is optional");
        note(self.limit.unwrap_or(u32::MAX) > shipped.limit.unwrap_or(u32::MAX), "a higher limit");
        note(self.writes != shipped.writes, "other files may be written");
        note(self.findings != shipped.findings, "findings have other files");
        note(self.collect != shipped.collect, "reviews are collected in another way");
        note(self.approval_target() != shipped.approval_target(), "a person's approval leads elsewhere");
        note(self.changes_phase() != shipped.changes_phase(), "a person's changes lead elsewhere");
        let keeps = |own: &[String], all: &[String]| all.iter().all(|path| own.contains(path));
        let is_set_aside = keeps(&self.outputs, &shipped.outputs) && self.report == shipped.report;
        note(!is_set_aside, "outputs of an earlier round are not archived");
        note(!keeps(&self.inputs, &shipped.inputs), "it reads fewer files");
        let more = |own: &[String]| !keeps(&shipped.outputs, own);
        note(more(&self.outputs) || self.owns != shipped.owns, "other documents may be changed");
        for reviewer in &shipped.reviewer {
            let own = self.reviewer.iter().find(|own| own.name == reviewer.name);
            let is_called = own
                .is_some_and(|own| reviewer.severity.iter().all(|severity| own.severity.contains(severity)));
            note(!is_called, &format!("the reviewer `{}` is called less often", reviewer.name));
        }
        let mut from = 0;
        for on in &shipped.on {
            // The order matters: a lane takes the first transition that it has all evidence for.
            match self.on[from..].iter().position(|own| own.is_as_strict_as(on)) {
                Some(at) => from += at + 1,
                None => note(true, &format!("no transition to `{}` needs {}", on.to, on.needs.join(", "))),
            }
        }
        for own in &self.on {
            let known = own.to == "person" || shipped.on.iter().any(|on| own.is_as_strict_as(on));
            note(!known, &format!("{} is enough for `{}`", own.needs.join(", "), own.to));
        }
        less
    }
}

impl PhaseTransition {
    /// Checks whether it leads to the same target and needs all of the other's evidence.
    fn is_as_strict_as(&self, other: &Self) -> bool {
        let has = |word: &str| self.needs.iter().any(|own| own == word);
        let needs = |word: &String| has(word) || (word == "checks-or-none" && has("checks"));
        self.to == other.to && other.needs.iter().all(needs)
    }
}
