//! The state machine: a state and an event result in the next state and in actions.
//!
//! An event that is impossible in this state, or that happened before, is ignored and reported as ignored: no
//! event does harm. The cost of an event is proportional to its changes, so a flow takes time in proportion
//! to its lanes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;

use super::dependencies::{LaneDependencies, find_dependencies};
use super::documents;
use super::evidence::Evidence;
use super::judge::{can_submit_again, judge_lane, transition_target};
use super::{
    Flow, FlowAction, FlowDecision, FlowEvent, FlowState, FlowStatus, Lane, LaneGroup, LaneGroupState,
    LaneStage, LaneState, ParkedLanes, Phase,
};
use super::{TransitionTarget, WaitReason};
use crate::library::preferences::Preference;

/// Maximum number of consecutive entries that a refused submission causes.
const MOST_REFUSALS: u32 = 2;

/// Applies one event. If the only action is `Ignore`, the state is unchanged.
pub fn apply_event(flow: &Flow, state: FlowState, event: &FlowEvent) -> (FlowState, Vec<FlowAction>) {
    let mut machine = FlowMachine { flow, state, actions: Vec::new() };
    if let Err(why) = machine.handle_event(event) {
        machine.actions = alloc::vec![FlowAction::Ignore { why }];
    }
    (machine.state, machine.actions)
}

/// Returns the state after all these events.
pub fn fold_events<'e>(flow: &Flow, events: impl IntoIterator<Item = &'e FlowEvent>) -> FlowState {
    events.into_iter().fold(FlowState::default(), |state, event| apply_event(flow, state, event).0)
}

/// Result of applying an event: an error says why it is ignored.
type EventResult = Result<(), String>;

struct FlowMachine<'f> {
    flow: &'f Flow,
    state: FlowState,
    actions: Vec<FlowAction>,
}

impl<'f> FlowMachine<'f> {
    fn handle_event(&mut self, event: &FlowEvent) -> EventResult {
        match (&self.state.at, event) {
            (FlowStatus::New, FlowEvent::Started { .. }) => {}
            (FlowStatus::New, _) => return Err("the flow has not started".into()),
            (_, FlowEvent::Started { .. }) => return Err("the flow has already started".into()),
            (FlowStatus::Done | FlowStatus::Rejected, _) => return Err("the flow has ended".into()),
            (_, FlowEvent::Resumed | FlowEvent::Decided { .. } | FlowEvent::Documents { .. }) => {}
            _ if self.state.stopped => return Err("the flow is stopped".into()),
            (_, FlowEvent::Stopped) => {}
            _ if !self.state.failed.is_empty() || self.state.parked.is_some() => {
                return Err("the flow waits for a person".into());
            }
            _ => {}
        }
        match event {
            FlowEvent::Started { request, settings, .. } => {
                let first = self.flow.phase.first().ok_or("the flow has no phase")?;
                self.state.request.clone_from(request);
                self.state.max_cost = settings.max_cost;
                self.state.settings = settings.clone();
                self.go_to(TransitionTarget::Phase(&first.name));
                Ok(())
            }
            FlowEvent::Entered { entry, groups, again, .. } => self.handle_entered(*entry, groups, *again),
            FlowEvent::Refused { entry, why } => {
                self.ensure_entering(*entry)?;
                self.wait_for_person(alloc::vec![WaitReason::Refused { says: why.clone() }]);
                Ok(())
            }
            FlowEvent::LaneStarted { entry, lane, run } => {
                let (_, at) = self.find_running(*entry, lane, None)?;
                self.state.lanes[at].stage = LaneStage::Running { run: Some(run.clone()) };
                Ok(())
            }
            FlowEvent::LaneEnded {
                entry,
                lane,
                run,
                evidence,
                cost,
                cost_estimated,
                refused,
                questions,
                proposed,
                ..
            } => {
                let (place, at) = self.find_running(*entry, lane, Some(run))?;
                let phase = self.current_phase()?;
                if !refused.is_empty() {
                    self.state.unheard.insert(lane.clone(), refused.clone());
                }
                let stage = match questions.is_empty() {
                    true => {
                        let worktrees = self.state.has_worktrees();
                        self.judge_with_refusal(phase, &self.state.lanes[at].lane, evidence, worktrees)
                    }
                    false => {
                        let why = WaitReason::Question { lane: lane.clone(), asks: questions.clone() };
                        LaneStage::Failed { why }
                    }
                };
                let is_new = |preference: &&Preference| !self.state.proposed.contains(preference);
                let new: Vec<Preference> = proposed.iter().filter(is_new).cloned().collect();
                self.state.proposed.extend(new);
                self.state.running.remove(place);
                self.add_cost(*cost, *cost_estimated);
                self.state.lanes[at].stage = stage;
                self.settle(phase);
                Ok(())
            }
            FlowEvent::Cleared { entry, lanes } => self.handle_cleared(*entry, lanes),
            FlowEvent::Merged { entry, lane, conflicts } => self.handle_merged(*entry, lane, conflicts),
            FlowEvent::Documents { changed, meanwhile } => {
                documents::apply_changes(self.flow, &mut self.state, changed, *meanwhile);
                Ok(())
            }
            FlowEvent::Failed { entry, why } => {
                self.ensure_current(*entry)?;
                self.state.failed.clone_from(why);
                if why.is_empty() {
                    self.state.failed.push("the reason is unknown".into());
                }
                self.actions.push(FlowAction::Ask {
                    phase: self.state.phase.clone(),
                    why: self.state.wait_reasons(),
                });
                Ok(())
            }
            FlowEvent::Parked { entry, lanes, until, cost, cost_estimated } => {
                self.ensure_current(*entry)?;
                self.add_cost(*cost, *cost_estimated);
                self.state.parked = Some(ParkedLanes { lanes: lanes.clone(), until: until.clone() });
                self.actions.push(FlowAction::Ask {
                    phase: self.state.phase.clone(),
                    why: self.state.wait_reasons(),
                });
                Ok(())
            }
            FlowEvent::Decided { decision } => self.handle_decided(decision),
            FlowEvent::Stopped => {
                self.state.stopped = true;
                self.actions.push(FlowAction::Stop);
                Ok(())
            }
            FlowEvent::Resumed => self.handle_resumed(),
        }
    }

    fn current_phase(&self) -> Result<&'f Phase, String> {
        let name = &self.state.phase;
        self.flow.phase(name).ok_or_else(|| format!("the flow no longer has the phase `{name}`"))
    }

    fn ensure_entering(&self, entry: u32) -> EventResult {
        self.ensure_current(entry)?;
        if self.state.at != FlowStatus::Entering {
            return Err(format!("`{}` was already entered", self.state.phase));
        }
        Ok(())
    }

    fn ensure_current(&self, entry: u32) -> EventResult {
        if entry == self.state.entry {
            return Ok(());
        }
        Err(format!("entry {entry} is not the current entry {}", self.state.entry))
    }

    /// Returns the running lane with this id and run: its index among the running lanes, and among all lanes.
    fn find_running(&self, entry: u32, lane: &str, run: Option<&str>) -> Result<(usize, usize), String> {
        self.ensure_current(entry)?;
        let is_it = |at: &usize| {
            let state = &self.state.lanes[*at];
            state.lane.id == lane
                && matches!(&state.stage, LaneStage::Running { run: own } if own.as_deref() == run)
        };
        let found = self.state.running.iter().position(is_it);
        found.map(|place| (place, self.state.running[place])).ok_or_else(|| match run {
            Some(run) => format!("lane `{lane}` does not wait for run `{run}`"),
            None => format!("lane `{lane}` is not about to start"),
        })
    }

    fn handle_entered(&mut self, entry: u32, groups: &[LaneGroup], again: bool) -> EventResult {
        self.ensure_entering(entry)?;
        let phase = self.current_phase()?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = groups.iter().flat_map(|group| &group.lanes).find(|lane| !seen.insert(&lane.id))
        {
            return Err(format!("duplicate lane `{}`", twice.id));
        }
        if seen.is_empty() {
            let says = alloc::vec!["the phase has no lane".to_string()];
            self.wait_for_person(alloc::vec![WaitReason::Refused { says }]);
            return Ok(());
        }
        let kept = mem::take(&mut self.state.kept);
        self.state.again = again;
        for group in groups.iter().filter(|group| !group.lanes.is_empty()) {
            let start = self.state.lanes.len();
            let waits = if group.parallel { find_dependencies(&group.lanes) } else { Vec::new() };
            let mut waits = waits.into_iter();
            for lane in &group.lanes {
                let stage = kept.get(&lane.id).map_or(LaneStage::Todo, |on| LaneStage::Done { on: *on });
                let LaneDependencies { after, alone } = waits.next().unwrap_or_default();
                let after = after.into_iter().map(|place| start + place).collect();
                self.state.lanes.push(LaneState { lane: lane.clone(), stage, after, alone });
            }
            self.state.groups.push(LaneGroupState {
                id: group.id.clone(),
                parallel: group.parallel,
                worktrees: group.worktrees,
                end: self.state.lanes.len(),
            });
        }
        self.state.at = FlowStatus::Running;
        self.settle(phase);
        Ok(())
    }

    fn handle_merged(&mut self, entry: u32, lane: &str, conflicts: &[String]) -> EventResult {
        self.ensure_current(entry)?;
        let phase = self.current_phase()?;
        let state = self.state.lanes.get_mut(self.state.unsettled);
        let waits = state.filter(|state| self.state.merging && state.lane.id == lane);
        let Some(LaneState { stage, .. }) = waits else {
            return Err(format!("lane `{lane}` is not being merged"));
        };
        let LaneStage::Unmerged { on } = *stage else {
            return Err(format!("lane `{lane}` is not being merged"));
        };
        *stage = match conflicts {
            [] => LaneStage::Done { on },
            paths => LaneStage::Failed {
                why: WaitReason::Conflicts { lane: lane.to_string(), paths: paths.to_vec() },
            },
        };
        self.state.merging = false;
        self.settle(phase);
        Ok(())
    }

    /// Judges a lane. A lane whose last submission was refused does not proceed, unless it lacks evidence that
    /// no submission provides.
    fn judge_with_refusal(
        &self,
        phase: &Phase,
        lane: &Lane,
        evidence: &Evidence,
        worktrees: bool,
    ) -> LaneStage {
        let judged = judge_lane(phase, lane, evidence, worktrees);
        let is_lacking = matches!(&judged, LaneStage::Failed { why: WaitReason::Evidence { .. } });
        match self.state.unheard.get(&lane.id) {
            Some(says) if !is_lacking || can_submit_again(phase, lane, evidence) => LaneStage::Failed {
                why: WaitReason::Submission { lane: lane.id.clone(), says: says.clone() },
            },
            _ => judged,
        }
    }

    /// Judges lanes again with the evidence that a person approved. A lane that lacks nothing else continues.
    fn handle_cleared(&mut self, entry: u32, lanes: &BTreeMap<String, Evidence>) -> EventResult {
        self.ensure_current(entry)?;
        let phase = self.current_phase()?;
        let (start, end, worktrees) = self.current_group();
        let is_waiting = matches!(self.state.at, FlowStatus::Waiting { .. });
        let mut is_any = false;
        for at in start..end {
            let LaneState { lane, stage, .. } = &self.state.lanes[at];
            let waits = is_waiting && matches!(stage, LaneStage::Failed { why: WaitReason::Evidence { .. } });
            if let Some(evidence) = lanes.get(&lane.id).filter(|_| waits) {
                let stage = self.judge_with_refusal(phase, lane, evidence, worktrees);
                self.state.lanes[at].stage = stage;
                is_any = true;
            }
        }
        if !is_any {
            return Err("no such lane waits for evidence".into());
        }
        self.state.unsettled = start;
        self.state.at = FlowStatus::Running;
        self.settle(phase);
        Ok(())
    }

    /// Applies a person's decision, which is possible at any time. Rejecting ends the flow, changes lead to
    /// the phase that makes them, and approving resumes the flow if it did not wait for a decision.
    fn handle_decided(&mut self, decision: &FlowDecision) -> EventResult {
        if *decision == FlowDecision::Reject {
            self.clear_wait();
            self.state.running.clear();
            self.state.merging = false;
            self.state.at = FlowStatus::Rejected;
            self.actions.push(FlowAction::Finish { done: false });
            return Ok(());
        }
        let phase = self.current_phase()?;
        self.clear_wait();
        let why = match &self.state.at {
            FlowStatus::Waiting { why } => why.clone(),
            _ if *decision == FlowDecision::Approve => return self.handle_resumed(),
            _ => Vec::new(),
        };
        match decision {
            FlowDecision::Changes(changes) => {
                let questions = self.state.questions();
                // The answer goes to the phase that asked.
                let to = if questions.is_empty() { phase.changes_phase() } else { phase.name.as_str() };
                let changes = quote_questions(&questions, changes);
                self.actions.push(FlowAction::Write { phase: to.to_string(), changes });
                self.raise_cost(&why);
                let is_same = to == phase.name;
                let kept = if is_same { self.finished_lanes(phase) } else { BTreeMap::new() };
                let lanes = self.state.lanes.iter().map(|state| &state.lane.id).filter(|_| is_same);
                let rerun = lanes.filter(|id| !kept.contains_key(*id)).cloned().collect();
                self.state.rounds.clear();
                self.go_to(TransitionTarget::Phase(to));
                self.keep_lanes(kept);
                self.state.rerun = rerun;
            }
            _ => self.approve(phase, &why),
        }
        Ok(())
    }

    /// Clears the reasons to wait: the person has seen them and the flow's folder.
    fn clear_wait(&mut self) {
        self.state.stopped = false;
        self.state.failed.clear();
        self.state.parked = None;
        self.state.strayed.clear();
        self.state.cut = false;
    }

    fn approve(&mut self, phase: &'f Phase, why: &[WaitReason]) {
        self.raise_cost(why);
        if why.iter().any(|why| matches!(why, WaitReason::Refused { .. })) {
            let (kept, rerun) = (mem::take(&mut self.state.kept), mem::take(&mut self.state.rerun));
            self.state.rounds.remove(&phase.name);
            self.go_to(TransitionTarget::Phase(&phase.name));
            self.keep_lanes(kept);
            self.state.rerun = rerun;
            return;
        }
        let (start, end, worktrees) = self.current_group();
        let mut accepted = false;
        for state in &mut self.state.lanes[start..end] {
            let LaneStage::Failed { why } = &state.stage else { continue };
            let by_hand = !worktrees || matches!(why, WaitReason::Conflicts { .. });
            state.stage =
                if by_hand { LaneStage::Done { on: None } } else { LaneStage::Unmerged { on: None } };
            accepted = true;
        }
        let goes_on = |why: &WaitReason| matches!(why, WaitReason::Cost | WaitReason::Documents { .. });
        if accepted || (!why.is_empty() && why.iter().all(goes_on)) {
            if accepted {
                self.state.rounds = BTreeMap::from([(phase.name.clone(), 1)]);
            }
            self.state.unsettled = start;
            self.state.at = FlowStatus::Running;
            self.settle(phase);
            return;
        }
        self.state.rounds.clear();
        self.go_to(phase.approval_target());
    }

    fn add_cost(&mut self, cost: u64, is_estimate: bool) {
        self.state.cost = self.state.cost.saturating_add(cost);
        self.state.cost_estimated |= is_estimate;
    }

    /// Raises the cost limit: a person who lets the flow continue lets it spend the same amount again.
    fn raise_cost(&mut self, why: &[WaitReason]) {
        if let Some(more) = self.state.settings.max_cost.filter(|_| why.contains(&WaitReason::Cost)) {
            self.state.max_cost = Some(self.state.cost.saturating_add(more));
        }
    }

    /// Returns the lanes that need not run again after other lanes stopped the phase.
    fn finished_lanes(&self, phase: &Phase) -> BTreeMap<String, Option<usize>> {
        if self.state.lanes.is_empty() {
            return self.state.kept.clone();
        }
        let is_done = |stage: &LaneStage| matches!(stage, LaneStage::Done { .. });
        if self.state.lanes.iter().all(|state| is_done(&state.stage)) {
            return BTreeMap::new();
        }
        let done = self.state.lanes.iter().filter_map(|state| match state.stage {
            LaneStage::Done { on }
                if on.is_none_or(|on| transition_target(phase, on) != TransitionTarget::Person) =>
            {
                Some((state.lane.id.clone(), on))
            }
            _ => None,
        });
        done.collect()
    }

    /// Keeps these lanes as done in the phase that is being entered.
    fn keep_lanes(&mut self, kept: BTreeMap<String, Option<usize>>) {
        if let Some(FlowAction::Enter { keep, .. }) = self.actions.last_mut() {
            *keep = !kept.is_empty();
            self.state.kept = kept;
        }
    }

    fn handle_resumed(&mut self) -> EventResult {
        let phase = self.current_phase()?;
        self.state.stopped = false;
        self.state.failed.clear();
        self.state.parked = None;
        match &self.state.at {
            FlowStatus::Entering => self.ask_to_enter(!self.state.kept.is_empty()),
            FlowStatus::Waiting { why } => {
                let (phase, why) = (self.state.phase.clone(), why.clone());
                self.actions.push(FlowAction::Ask { phase, why });
            }
            _ => {
                for at in self.state.running.clone() {
                    self.run_lane(at);
                }
                if self.state.merging {
                    self.ask_to_merge();
                }
                self.settle(phase);
            }
        }
        Ok(())
    }

    fn wait_for_person(&mut self, why: Vec<WaitReason>) {
        self.actions.push(FlowAction::Ask { phase: self.state.phase.clone(), why: why.clone() });
        self.state.at = FlowStatus::Waiting { why };
    }

    fn go_to(&mut self, target: TransitionTarget<'_>) {
        let mut target = target;
        let came_from = self.state.came_from.clone();
        // An excluded optional phase leads to the next phase; no phase is skipped twice.
        for _ in 0..=self.flow.phase.len() {
            let name = match target {
                TransitionTarget::Done => {
                    self.state.at = FlowStatus::Done;
                    self.actions.push(FlowAction::Finish { done: true });
                    return;
                }
                TransitionTarget::Person => return self.wait_for_person(alloc::vec![WaitReason::Decision]),
                TransitionTarget::Back => came_from.as_deref().unwrap_or_default(),
                TransitionTarget::Phase(name) => name,
            };
            let Some(phase) = self.flow.phase(name) else { break };
            if phase.optional && !self.state.settings.with.contains(name) {
                target = phase.approval_target();
                continue;
            }
            return self.enter_phase(phase);
        }
        let says = alloc::vec!["the flow has no next phase".to_string()];
        self.wait_for_person(alloc::vec![WaitReason::Refused { says }]);
    }

    fn enter_phase(&mut self, phase: &Phase) {
        let state = &mut self.state;
        let round = state.rounds.get(&phase.name).copied().unwrap_or_default();
        if phase.limit.is_some_and(|limit| round >= limit) {
            return self.wait_for_person(alloc::vec![WaitReason::Limit { phase: phase.name.clone() }]);
        }
        state.rounds.insert(phase.name.clone(), round + 1);
        *state.times.entry(phase.name.clone()).or_default() += 1;
        self.begin_entry(phase);
    }

    /// Enters the phase once more, so that lanes correct their submissions.
    fn submit_again(&mut self, phase: &Phase, refused: BTreeMap<String, Vec<String>>) {
        let kept = self.finished_lanes(phase);
        let refusals = self.state.refusals + 1;
        self.begin_entry(phase);
        self.state.rerun = refused.keys().cloned().collect();
        (self.state.refused, self.state.refusals) = (refused, refusals);
        self.keep_lanes(kept);
    }

    fn begin_entry(&mut self, phase: &Phase) {
        let state = &mut self.state;
        if let Some(left) = state.summarize_phase(self.flow) {
            state.left.insert(state.phase.clone(), left);
        }
        let before = mem::replace(&mut state.phase, phase.name.clone());
        if phase.has_back_transition() && before != phase.name {
            state.came_from = Some(before);
        }
        state.entry = state.entry.saturating_add(1);
        state.refused.clear();
        state.refusals = 0;
        state.unheard.clear();
        state.rerun.clear();
        state.at = FlowStatus::Entering;
        state.groups.clear();
        state.lanes.clear();
        state.running.clear();
        state.kept.clear();
        (state.group, state.next, state.unsettled, state.merging) = (0, 0, 0, false);
        self.ask_to_enter(false);
    }

    fn ask_to_enter(&mut self, keep: bool) {
        let (entry, round) = (self.state.entry, self.state.round());
        self.actions.push(FlowAction::Enter { entry, phase: self.state.phase.clone(), round, keep });
    }

    fn ask_to_merge(&mut self) {
        if let Some(state) = self.state.lanes.get(self.state.unsettled) {
            self.actions.push(FlowAction::Merge { entry: self.state.entry, lane: state.lane.id.clone() });
        }
    }

    fn run_lane(&mut self, at: usize) {
        let worktree = self.state.has_worktrees();
        let state = &mut self.state.lanes[at];
        state.stage = LaneStage::Running { run: None };
        let (entry, phase) = (self.state.entry, self.state.phase.clone());
        self.actions.push(FlowAction::Run { entry, phase, lane: state.lane.clone(), worktree });
    }

    /// Returns the range of the current group's lanes, and whether they have worktrees.
    fn current_group(&self) -> (usize, usize, bool) {
        let groups = &self.state.groups;
        let start = self.state.group.checked_sub(1).and_then(|before| groups.get(before));
        let group = groups.get(self.state.group);
        let start = start.map_or(0, |group| group.end);
        group.map_or((start, start, false), |group| (start, group.end, group.worktrees))
    }

    fn is_over_cost(&self) -> bool {
        self.state.max_cost.is_some_and(|max| self.state.cost >= max)
    }

    /// Merges and starts lanes and moves to the next group or phase, as far as possible now.
    fn settle(&mut self, phase: &Phase) {
        loop {
            let (start, end, _) = self.current_group();
            self.merge_next(end);
            self.start_lanes(start, end);
            if !self.state.running.is_empty() || self.state.merging {
                return;
            }
            // A lane that was started and ended at once is settled too.
            self.merge_next(end);
            if self.state.merging {
                return;
            }
            let lanes = &self.state.lanes[start..end];
            let failed = lanes.iter().filter_map(|state| match &state.stage {
                LaneStage::Failed { why } => Some(why.clone()),
                _ => None,
            });
            let mut why: Vec<WaitReason> = failed.collect();
            if self.state.next < end && self.is_over_cost() {
                why.push(WaitReason::Cost);
            }
            why.extend(self.state.stray_reason());
            if let Some(refused) = self.find_refused(&why) {
                return self.submit_again(phase, refused);
            }
            if !why.is_empty() {
                return self.wait_for_person(why);
            }
            let taken = lanes.iter().map(|state| match state.stage {
                LaneStage::Done { on } => on,
                _ => None,
            });
            let worst = taken.max().flatten();
            let is_last = self.state.group + 1 >= self.state.groups.len();
            if is_last || worst.is_some_and(|on| on > 0) {
                return self
                    .go_to(worst.map_or_else(|| phase.approval_target(), |on| transition_target(phase, on)));
            }
            self.state.group += 1;
        }
    }

    /// Returns the refused submissions if nothing else stops the phase and it was not refused too often.
    fn find_refused(&self, why: &[WaitReason]) -> Option<BTreeMap<String, Vec<String>>> {
        if why.is_empty() || self.state.refusals >= MOST_REFUSALS {
            return None;
        }
        let refused = why.iter().map(|why| match why {
            WaitReason::Submission { lane, says } => Some((lane.clone(), says.clone())),
            _ => None,
        });
        refused.collect()
    }

    /// Skips settled lanes. Merges the first lane that is not settled, if it waits to be merged.
    fn merge_next(&mut self, end: usize) {
        while self.state.unsettled < end && !self.state.merging {
            match self.state.lanes[self.state.unsettled].stage {
                LaneStage::Done { .. } | LaneStage::Failed { .. } => self.state.unsettled += 1,
                LaneStage::Unmerged { .. } => {
                    self.state.merging = true;
                    self.ask_to_merge();
                }
                LaneStage::Todo | LaneStage::Running { .. } => return,
            }
        }
    }

    /// Starts lanes in plan order. If the next lane must wait, so must the lanes behind it.
    fn start_lanes(&mut self, start: usize, end: usize) {
        let parallel = self.state.groups.get(self.state.group).is_some_and(|group| group.parallel);
        let most = if parallel { self.state.settings.jobs.max(1) as usize } else { 1 };
        while self.state.running.len() < most && self.state.next < end {
            let at = self.state.next;
            if self.state.lanes[at].stage != LaneStage::Todo {
                self.state.next += 1;
                continue;
            }
            let before = at.checked_sub(1).filter(|before| *before >= start);
            let stopped = before.is_some_and(|before| {
                !parallel && matches!(self.state.lanes[before].stage, LaneStage::Failed { .. })
            });
            let strayed = !self.state.strayed.is_empty();
            if stopped || strayed || self.is_over_cost() || self.is_blocked(at) {
                return;
            }
            self.state.running.push(at);
            self.state.next += 1;
            self.run_lane(at);
        }
    }

    /// Checks whether a lane that owns the same files is running or not merged yet.
    fn is_blocked(&self, at: usize) -> bool {
        let LaneState { after, alone, .. } = &self.state.lanes[at];
        let is_busy = |at: &usize| {
            matches!(self.state.lanes[*at].stage, LaneStage::Running { .. } | LaneStage::Unmerged { .. })
        };
        (*alone && (self.state.unsettled..at).any(|at| is_busy(&at))) || after.iter().any(is_busy)
    }
}

/// Formats a person's words below the questions that they answer.
fn quote_questions(questions: &[&str], words: &str) -> String {
    let lines = questions.iter().flat_map(|question| question.trim().lines().chain([""]));
    let quoted: Vec<String> = lines.map(|line| format!("> {line}").trim_end().to_string()).collect();
    match quoted.split_last() {
        Some((_, quoted)) => format!("{}\n\n{}", quoted.join("\n"), words.trim()),
        None => words.to_string(),
    }
}
