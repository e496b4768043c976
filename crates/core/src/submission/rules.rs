//! The rules of plans: which sub-plans there are, who owns what, and what more than one of them touches.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::overlap::OwnedGlob;
use super::{SharedName, other_names};
use crate::diag::{Code, Diagnostic, tell};

/// More owned entries are not compared with each other.
const MOST_OWNED: usize = 2000;

/// A path or glob, and where it is written.
pub(super) struct OwnedEntry {
    pub(super) at: String,
    pub(super) glob: String,
}

/// A sub-plan as far as the rules look at it.
pub(super) struct ParsedSubplan {
    /// What it is called in a message.
    pub(super) at: String,
    pub(super) owned: Vec<OwnedEntry>,
    /// What it has to say where it runs beside others, and does not.
    pub(super) lacks: Vec<Diagnostic>,
}

pub(super) struct ParsedGroup {
    pub(super) at: String,
    pub(super) id: String,
    pub(super) parallel: bool,
    /// Where each reference is, and the number it gives.
    pub(super) plans: Vec<(String, u64)>,
}

/// A row of the conflict map.
pub(super) struct ConflictRow {
    pub(super) at: String,
    pub(super) file: String,
    pub(super) lanes: Vec<u64>,
    pub(super) owner: u64,
}

/// The files that have to be documented, and whether any have.
#[derive(Default)]
pub(super) struct DocumentationFiles {
    pub(super) needed: Option<bool>,
    pub(super) files: Option<Vec<OwnedEntry>>,
}

/// A plan. What could not be read of it is not there, and `is_…` tells that nothing may be concluded from that.
#[derive(Default)]
pub(super) struct ParsedPlan {
    pub(super) groups: Vec<ParsedGroup>,
    /// Every reference of every group was read.
    pub(super) is_order_known: bool,
    pub(super) lanes: BTreeMap<u64, ParsedSubplan>,
    /// Every sub-plan has its number.
    pub(super) are_lanes_known: bool,
    /// Everything that is owned was read.
    pub(super) is_owned_known: bool,
    /// `None` where it could not be read.
    pub(super) conflicts: Option<Vec<ConflictRow>>,
    pub(super) docs: DocumentationFiles,
}

pub(super) fn bad(wrong: &mut Vec<Diagnostic>, message: String) {
    tell(wrong, Code::SubmissionBad, || Diagnostic::error(Code::SubmissionBad, message));
}

fn push_error_with_hint(wrong: &mut Vec<Diagnostic>, message: String, hint: impl Into<String>) {
    tell(wrong, Code::SubmissionBad, || Diagnostic::error(Code::SubmissionBad, message).hint(hint));
}

impl ParsedPlan {
    pub(super) fn check(&self, shared_names: &dyn Fn() -> Vec<SharedName>, wrong: &mut Vec<Diagnostic>) {
        self.check_numbers(wrong);
        let parallel: Vec<&ParsedGroup> = self.groups.iter().filter(|group| group.parallel).collect();
        let shared_names = if parallel.is_empty() { Vec::new() } else { shared_names() };
        parallel.into_iter().for_each(|group| self.check_isolation(group, &shared_names, wrong));
        self.check_owned(wrong);
        self.check_docs(wrong);
        self.check_conflicts(wrong);
    }

    fn check_numbers(&self, wrong: &mut Vec<Diagnostic>) {
        let lanes = &self.lanes;
        let mut first: BTreeMap<u64, &str> = BTreeMap::new();
        for (at, number) in self.groups.iter().flat_map(|group| &group.plans) {
            if self.are_lanes_known && !lanes.contains_key(number) {
                bad(wrong, format!("`{at}` names sub-plan {number}, which was not handed in"));
            }
            match first.get(number) {
                Some(first) => {
                    bad(wrong, format!("`{at}` names sub-plan {number}, which `{first}` names already"));
                }
                None => drop(first.insert(*number, at)),
            }
        }
        let in_no_group = lanes.iter().filter(|(number, _)| !first.contains_key(number));
        for (number, lane) in in_no_group.filter(|_| self.is_order_known) {
            bad(wrong, format!("`{}` (sub-plan {number}) is in no group", lane.at));
        }
        let last = lanes.keys().max().copied().unwrap_or_default();
        let gaps = (1..=last).filter(|number| !lanes.contains_key(number)).take(20);
        let gaps: Vec<String> = gaps.map(|number| number.to_string()).collect();
        if self.are_lanes_known && !gaps.is_empty() {
            bad(
                wrong,
                format!("sub-plans are numbered from 1 without a gap: there is no {}", gaps.join(", ")),
            );
        }
    }

    /// What is owned can be owned.
    fn check_owned(&self, wrong: &mut Vec<Diagnostic>) {
        for OwnedEntry { at, glob } in self.lanes.values().flat_map(|lane| &lane.owned) {
            if let Some(why) = OwnedGlob::new(glob).unownable_reason() {
                bad(wrong, format!("`{at}` is `{glob}`, which no sub-plan can own: {why}"));
            }
        }
    }

    /// What has to be documented is named, and somebody owns it.
    fn check_docs(&self, wrong: &mut Vec<Diagnostic>) {
        let Some(files) = &self.docs.files else { return };
        match self.docs.needed {
            Some(true) if files.is_empty() => {
                let hint = "name the files that change, each owned by a sub-plan, or say `needs_docs: false`";
                push_error_with_hint(wrong, "`needs_docs` is true, and `doc_files` is empty".into(), hint);
            }
            Some(false) if !files.is_empty() => {
                bad(wrong, "`needs_docs` is false, and `doc_files` has entries".into());
            }
            _ => {}
        }
        if !self.are_lanes_known || !self.is_owned_known {
            return;
        }
        let owned = self.lanes.values().flat_map(|lane| &lane.owned);
        let owned: Vec<OwnedGlob> = owned.map(|owned| OwnedGlob::new(&owned.glob)).collect();
        for OwnedEntry { at, glob } in files {
            if !owned.iter().any(|owned| owned.owns(glob)) {
                let hint = "add it to the `owned_files` of the sub-plan that writes it";
                push_error_with_hint(wrong, format!("`{at}` is `{glob}`, which no sub-plan owns"), hint);
            }
        }
    }

    /// Lanes that run at once say why they can, and own nothing in common.
    fn check_isolation(&self, group: &ParsedGroup, shared_names: &[SharedName], wrong: &mut Vec<Diagnostic>) {
        let id = &group.id;
        let numbers: BTreeSet<u64> = group.plans.iter().map(|plan| plan.1).collect();
        let group: Vec<(u64, &ParsedSubplan)> =
            numbers.into_iter().filter_map(|number| Some((number, self.lanes.get(&number)?))).collect();
        for (number, lack) in
            group.iter().flat_map(|(number, lane)| lane.lacks.iter().map(move |it| (number, it)))
        {
            let mut lack = lack.clone();
            lack.message += &format!(": sub-plan {number} runs in the parallel group `{id}`");
            tell(wrong, Code::SubmissionBad, || lack);
        }
        if group.iter().map(|(_, lane)| lane.owned.len()).sum::<usize>() > MOST_OWNED {
            bad(wrong, format!("the sub-plans of `{id}` own more than {MOST_OWNED} entries together"));
            return;
        }
        let globs: Vec<Vec<OwnedGlob>> = group.iter().map(|(_, lane)| lane.globs()).collect();
        let also = |lane: &ParsedSubplan| {
            let owned: Vec<String> = lane.owned.iter().map(|owned| owned.glob.clone()).collect();
            other_names(&owned, shared_names)
        };
        let also: Vec<Vec<String>> = group.iter().map(|(_, lane)| also(lane)).collect();
        for (left, (number, lane)) in group.iter().enumerate() {
            for (right, (other_number, other)) in group.iter().enumerate().skip(left + 1) {
                for (i, glob) in globs[left].iter().enumerate() {
                    for (j, _) in globs[right].iter().enumerate().filter(|(_, other)| glob.overlaps(other)) {
                        let message = format!(
                            "sub-plans {number} and {other_number} run at once in `{id}`, and both may write the \
                             same file: {}, {}",
                            lane.owned[i], other.owned[j],
                        );
                        let hint =
                            "merge the two sub-plans, or move what both touch into a serial integration step";
                        push_error_with_hint(wrong, message, hint);
                    }
                }
                let others: Vec<OwnedGlob> = also[left].iter().map(|glob| OwnedGlob::new(glob)).collect();
                let shared = also[left].iter().zip(&others).find_map(|(name, glob)| {
                    let at = globs[right].iter().position(|other| glob.overlaps(other))?;
                    Some((name, at))
                });
                if let Some((name, at)) = shared {
                    let message = format!(
                        "sub-plans {number} and {other_number} run at once in `{id}`, and both may write the same \
                         file: by a link sub-plan {number} owns `{name}` too, and {}",
                        other.owned[at],
                    );
                    bad(wrong, message);
                }
            }
        }
    }

    /// The conflict map speaks of sub-plans that there are, gives each file to one that owns it, and leaves no file out.
    fn check_conflicts(&self, wrong: &mut Vec<Diagnostic>) {
        let Some(conflicts) = &self.conflicts else { return };
        if !self.are_lanes_known || !self.is_owned_known {
            return;
        }
        let files: Vec<OwnedGlob> = conflicts.iter().map(|conflict| OwnedGlob::new(&conflict.file)).collect();
        for (ConflictRow { at, file, lanes, owner }, glob) in conflicts.iter().zip(&files) {
            let named: BTreeSet<u64> = lanes.iter().chain([owner]).copied().collect();
            for number in named.iter().filter(|number| !self.lanes.contains_key(number)) {
                bad(wrong, format!("`{at}` names sub-plan {number}, which was not handed in"));
            }
            let Some(lane) = self.lanes.get(owner) else { continue };
            // Who says nothing of files may write any.
            if !lane.owned.is_empty() && !lane.globs().iter().any(|owned| owned.overlaps(glob)) {
                let message =
                    format!("`{at}` gives `{file}` to sub-plan {owner}, and its owned files do not have it");
                bad(wrong, message);
            }
        }
        if self.lanes.values().map(|lane| lane.owned.len()).sum::<usize>() > MOST_OWNED {
            bad(wrong, format!("the sub-plans own more than {MOST_OWNED} entries together"));
            return;
        }
        let lanes: Vec<(u64, &ParsedSubplan, Vec<OwnedGlob>)> =
            self.lanes.iter().map(|(number, lane)| (*number, lane, lane.globs())).collect();
        for (left, (number, lane, globs)) in lanes.iter().enumerate() {
            for (other_number, other, other_globs) in lanes.iter().skip(left + 1) {
                if self.is_parallel_pair(*number, *other_number) {
                    continue;
                }
                let is_named = |a: &OwnedGlob, b: &OwnedGlob| {
                    conflicts.iter().zip(&files).any(|(conflict, file)| {
                        let has = |number| conflict.owner == number || conflict.lanes.contains(&number);
                        has(*number) && has(*other_number) && file.overlaps(a) && file.overlaps(b)
                    })
                };
                for (i, a) in globs.iter().enumerate() {
                    let met = other_globs.iter().enumerate().filter(|(_, b)| a.overlaps(b));
                    for (j, _) in met.filter(|(_, b)| !is_named(a, b)) {
                        let message = format!(
                            "sub-plans {number} and {other_number} may write the same file, and the conflict map \
                             does not name it with both: {}, {}",
                            lane.owned[i], other.owned[j],
                        );
                        push_error_with_hint(
                            wrong,
                            message,
                            "give it a row with both sub-plans and its one owner",
                        );
                    }
                }
            }
        }
    }

    /// Whether two sub-plans are in one parallel group, where nothing may be owned twice anyway.
    fn is_parallel_pair(&self, one: u64, other: u64) -> bool {
        let has = |group: &ParsedGroup, number| group.plans.iter().any(|plan| plan.1 == number);
        self.groups.iter().any(|group| group.parallel && has(group, one) && has(group, other))
    }
}

impl ParsedSubplan {
    fn globs(&self) -> Vec<OwnedGlob> {
        self.owned.iter().map(|owned| OwnedGlob::new(&owned.glob)).collect()
    }
}

impl core::fmt::Display for OwnedEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}` is `{}`", self.at, self.glob)
    }
}
