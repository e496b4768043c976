//! Rules of plans: the numbers of sub-plans, the ownership of files, and the files that several sub-plans
//! touch.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::overlap::OwnedGlob;
use super::{SharedName, find_other_names};
use crate::diag::{Code, Diagnostic, push_diagnostic};

/// Maximum number of owned entries that are compared with each other.
const MOST_OWNED: usize = 2000;

/// Path or glob, and its place.
pub(crate) struct OwnedEntry {
    pub(crate) at: String,
    pub(crate) glob: String,
}

/// Sub-plan with the data that the rules need.
pub(crate) struct ParsedSubplan {
    /// Its name in messages.
    pub(crate) at: String,
    pub(crate) owned: Vec<OwnedEntry>,
    /// Errors that apply if it runs in parallel with others: sections or fields that it lacks.
    pub(crate) lacks: Vec<Diagnostic>,
}

pub(crate) struct ParsedGroup {
    pub(crate) at: String,
    pub(crate) id: String,
    pub(crate) parallel: bool,
    /// References: the place of each, and the number that it gives.
    pub(crate) plans: Vec<(String, u64)>,
}

/// Row of the conflict map.
pub(crate) struct ConflictRow {
    pub(crate) at: String,
    pub(crate) file: String,
    pub(crate) lanes: Vec<u64>,
    pub(crate) owner: u64,
}

/// Documentation files of the plan, and whether any are needed.
#[derive(Default)]
pub(crate) struct DocumentationFiles {
    pub(crate) needed: Option<bool>,
    pub(crate) files: Option<Vec<OwnedEntry>>,
}

/// Parsed plan. Unreadable parts are missing from it; if an `is_…` flag is false, absence allows no
/// conclusions.
#[derive(Default)]
pub(crate) struct ParsedPlan {
    pub(crate) groups: Vec<ParsedGroup>,
    /// Whether every reference of every group was read.
    pub(crate) is_order_known: bool,
    pub(crate) lanes: BTreeMap<u64, ParsedSubplan>,
    /// Whether every sub-plan has its number.
    pub(crate) are_lanes_known: bool,
    /// Whether all owned entries were read.
    pub(crate) is_owned_known: bool,
    /// The conflict map; `None` if it could not be read.
    pub(crate) conflicts: Option<Vec<ConflictRow>>,
    pub(crate) docs: DocumentationFiles,
}

pub(crate) fn push_error(wrong: &mut Vec<Diagnostic>, message: String) {
    push_diagnostic(wrong, Code::SubmissionBad, || Diagnostic::error(Code::SubmissionBad, message));
}

fn push_error_with_hint(wrong: &mut Vec<Diagnostic>, message: String, hint: impl Into<String>) {
    push_diagnostic(wrong, Code::SubmissionBad, || {
        Diagnostic::error(Code::SubmissionBad, message).hint(hint)
    });
}

impl ParsedPlan {
    pub(crate) fn check(&self, shared_names: &dyn Fn() -> Vec<SharedName>, wrong: &mut Vec<Diagnostic>) {
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
                push_error(wrong, format!("`{at}` names sub-plan {number}, which was not submitted"));
            }
            match first.get(number) {
                Some(first) => {
                    push_error(
                        wrong,
                        format!("`{at}` names sub-plan {number}, which `{first}` already names"),
                    );
                }
                None => drop(first.insert(*number, at)),
            }
        }
        let in_no_group = lanes.iter().filter(|(number, _)| !first.contains_key(number));
        for (number, lane) in in_no_group.filter(|_| self.is_order_known) {
            push_error(wrong, format!("`{}` (sub-plan {number}) is in no group", lane.at));
        }
        let last = lanes.keys().max().copied().unwrap_or_default();
        let gaps = (1..=last).filter(|number| !lanes.contains_key(number)).take(20);
        let gaps: Vec<String> = gaps.map(|number| number.to_string()).collect();
        if self.are_lanes_known && !gaps.is_empty() {
            push_error(
                wrong,
                format!("sub-plans must be numbered from 1 without a gap; missing: {}", gaps.join(", ")),
            );
        }
    }

    /// Checks that every owned entry can be owned.
    fn check_owned(&self, wrong: &mut Vec<Diagnostic>) {
        for OwnedEntry { at, glob } in self.lanes.values().flat_map(|lane| &lane.owned) {
            if let Some(why) = OwnedGlob::new(glob).unownable_reason() {
                push_error(wrong, format!("`{at}` is `{glob}`, which no sub-plan can own: {why}"));
            }
        }
    }

    /// Checks that needed documentation files are named and that a sub-plan owns each.
    fn check_docs(&self, wrong: &mut Vec<Diagnostic>) {
        let Some(files) = &self.docs.files else { return };
        match self.docs.needed {
            Some(true) if files.is_empty() => {
                let hint = "name the files that change, each owned by a sub-plan, or set `needs_docs: false`";
                push_error_with_hint(wrong, "`needs_docs` is true, but `doc_files` is empty".into(), hint);
            }
            Some(false) if !files.is_empty() => {
                push_error(wrong, "`needs_docs` is false, but `doc_files` has entries".into());
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

    /// Checks that parallel lanes say why they are isolated, and that they own nothing in common.
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
            push_diagnostic(wrong, Code::SubmissionBad, || lack);
        }
        if group.iter().map(|(_, lane)| lane.owned.len()).sum::<usize>() > MOST_OWNED {
            push_error(wrong, format!("the sub-plans of `{id}` own more than {MOST_OWNED} entries together"));
            return;
        }
        let globs: Vec<Vec<OwnedGlob>> = group.iter().map(|(_, lane)| lane.globs()).collect();
        let also = |lane: &ParsedSubplan| {
            let owned: Vec<String> = lane.owned.iter().map(|owned| owned.glob.clone()).collect();
            find_other_names(&owned, shared_names)
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
                        let hint = "merge the two sub-plans, or move the shared files into a serial integration step";
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
                         file: through a link sub-plan {number} also owns `{name}`, and {}",
                        other.owned[at],
                    );
                    push_error(wrong, message);
                }
            }
        }
    }

    /// Checks that the conflict map names existing sub-plans, gives each file to a sub-plan that owns it, and
    /// lists every shared file.
    fn check_conflicts(&self, wrong: &mut Vec<Diagnostic>) {
        let Some(conflicts) = &self.conflicts else { return };
        if !self.are_lanes_known || !self.is_owned_known {
            return;
        }
        let files: Vec<OwnedGlob> = conflicts.iter().map(|conflict| OwnedGlob::new(&conflict.file)).collect();
        for (ConflictRow { at, file, lanes, owner }, glob) in conflicts.iter().zip(&files) {
            let named: BTreeSet<u64> = lanes.iter().chain([owner]).copied().collect();
            for number in named.iter().filter(|number| !self.lanes.contains_key(number)) {
                push_error(wrong, format!("`{at}` names sub-plan {number}, which was not submitted"));
            }
            let Some(lane) = self.lanes.get(owner) else { continue };
            // A sub-plan without owned files may write any file.
            if !lane.owned.is_empty() && !lane.globs().iter().any(|owned| owned.overlaps(glob)) {
                let message = format!("`{at}` gives `{file}` to sub-plan {owner}, which does not own it");
                push_error(wrong, message);
            }
        }
        if self.lanes.values().map(|lane| lane.owned.len()).sum::<usize>() > MOST_OWNED {
            push_error(wrong, format!("the sub-plans own more than {MOST_OWNED} entries together"));
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
                            "sub-plans {number} and {other_number} may write the same file, but no row of the conflict map names both: {}, {}",
                            lane.owned[i], other.owned[j],
                        );
                        push_error_with_hint(
                            wrong,
                            message,
                            "add a row with the file, both sub-plans and one owner",
                        );
                    }
                }
            }
        }
    }

    /// Checks whether two sub-plans are in one parallel group, in which nothing may be owned twice anyway.
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
