//! Drives flows with scripted evidence: the lanes of each entry, the end of each lane, the decisions of the
//! person.
//!
//! ```text
//! start jobs=3 with=PHASE single max=MILLIONTHS
//! enter PHASE [again]
//! group ID serial|parallel [worktrees]
//! LANE [GLOB…]: EVIDENCE… [cost=N] [conflict=PATH] [refused=WORD] [question=WORD] [proposed=ROLE:WORD]
//! whole ID…: EVIDENCE…
//! refuse WORDS
//! decide approve|reject|changes WORDS
//! ```

use std::collections::{BTreeMap, VecDeque};

use callsheet_core::flow::{
    Flow, FlowAction, FlowDecision, FlowEvent, FlowSettings, FlowState, Lane, LaneDetails, LaneGroup,
    apply_event,
};
use callsheet_core::library::preferences::Preference;
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    start: FlowSettings,
    entries: Vec<Entry>,
    decisions: Vec<FlowDecision>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    phase: String,
    again: bool,
    groups: Vec<LaneGroup>,
    refused: Option<String>,
    ends: BTreeMap<String, End>,
}

#[derive(Clone, Debug, Default)]
struct End {
    evidence: Vec<String>,
    cost: u64,
    conflicts: Vec<String>,
    refused: Vec<String>,
    questions: Vec<String>,
    proposed: Vec<Preference>,
}

impl Script {
    pub(crate) fn parse(text: &str) -> Self {
        let mut script = Self::default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "start" => script.start = parse_settings(rest),
                "enter" => {
                    let phase = rest.trim_end_matches(" again");
                    let again = phase.len() < rest.len();
                    script.entries.push(Entry { phase: phase.into(), again, ..Entry::default() });
                }
                "decide" => script.decisions.push(match rest.split_once(' ') {
                    Some(("changes", words)) => FlowDecision::Changes(words.into()),
                    _ if rest == "approve" => FlowDecision::Approve,
                    _ => FlowDecision::Reject,
                }),
                "refuse" => script.entries.last_mut().unwrap().refused = Some(rest.into()),
                "group" => {
                    let words: Vec<&str> = rest.split(' ').collect();
                    script.entries.last_mut().unwrap().groups.push(LaneGroup {
                        id: words[0].into(),
                        parallel: words[1] == "parallel",
                        worktrees: words.contains(&"worktrees"),
                        lanes: Vec::new(),
                    });
                }
                _ => script.entries.last_mut().unwrap().parse_lane(line),
            }
        }
        script
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize - 1]
    }
}

impl Entry {
    fn parse_lane(&mut self, line: &str) {
        let (lane, evidence) = line.split_once(':').unwrap();
        let mut words = lane.split(' ').map(String::from);
        let id = words.next().unwrap();
        let (id, of, owned) = match id.as_str() {
            "whole" => ("all".to_owned(), words.collect(), Vec::new()),
            _ => (id, Vec::new(), words.collect()),
        };
        let mut end = End::default();
        for word in evidence.split_whitespace() {
            match word.split_once('=') {
                Some(("cost", cost)) => end.cost = cost.parse().unwrap(),
                Some(("refused", reason)) => end.refused.push(reason.into()),
                Some(("question", question)) => end.questions.push(question.into()),
                Some(("proposed", preference)) => {
                    let (role, bullet) = preference.split_once(':').unwrap();
                    end.proposed.push(Preference { role: role.into(), bullet: bullet.into() });
                }
                Some((_, path)) => end.conflicts.push(path.into()),
                None => end.evidence.push(word.into()),
            }
        }
        if self.groups.is_empty() {
            self.groups.push(LaneGroup { id: "all".into(), ..LaneGroup::default() });
        }
        self.ends.insert(id.clone(), end);
        let lane = Lane { id, of, owned, ..Lane::default() };
        self.groups.last_mut().unwrap().lanes.push(lane);
    }
}

fn parse_settings(words: &str) -> FlowSettings {
    let mut settings = FlowSettings { jobs: 1, ..FlowSettings::default() };
    for word in words.split(' ') {
        match word.split_once('=').unwrap_or((word, "")) {
            ("jobs", jobs) => settings.jobs = jobs.parse().unwrap(),
            ("with", phase) => drop(settings.with.insert(phase.into())),
            ("max", cost) => settings.max_cost = Some(cost.parse().unwrap()),
            ("single", _) => settings.single_coder = true,
            (other, _) => panic!("{other}"),
        }
    }
    settings
}

/// An event, the state after it, and the resulting actions.
pub(crate) struct Moment {
    pub(crate) event: FlowEvent,
    pub(crate) state: FlowState,
    pub(crate) actions: Vec<FlowAction>,
}

/// Carries out the actions one by one. Of concurrent lanes, the last one ends first.
pub(crate) struct Driver<'d> {
    flow: &'d Flow,
    script: &'d Script,
    pub(crate) state: FlowState,
    todo: VecDeque<FlowAction>,
    open: Vec<FlowEvent>,
    runs: u32,
}

impl<'d> Driver<'d> {
    pub(crate) fn new(flow: &'d Flow, script: &'d Script, state: FlowState) -> Self {
        Self { flow, script, state, todo: VecDeque::new(), open: Vec::new(), runs: 0 }
    }

    pub(crate) fn start_event(&self) -> FlowEvent {
        let settings = self.script.start.clone();
        FlowEvent::Started { request: "Export as CSV".into(), settings, more: Value::Null }
    }

    pub(crate) fn apply_event(&mut self, event: FlowEvent) -> Moment {
        let (state, actions) = apply_event(self.flow, std::mem::take(&mut self.state), &event);
        self.state = state;
        self.todo.extend(actions.iter().cloned());
        Moment { event, state: self.state.clone(), actions }
    }

    /// Returns the next event, or `None` if nothing is left to do. `decided` counts the decisions so far.
    pub(crate) fn next_event(&mut self, decided: usize) -> Option<FlowEvent> {
        loop {
            let Some(action) = self.todo.pop_front() else { return self.open.pop() };
            match action {
                FlowAction::Enter { entry, phase, .. } => {
                    let script = self.script.entry(entry);
                    assert_eq!(script.phase, phase, "entry {entry}");
                    return Some(match &script.refused {
                        Some(why) => FlowEvent::Refused { entry, why: vec![why.clone()] },
                        None => FlowEvent::Entered {
                            entry,
                            groups: script.groups.clone(),
                            again: script.again,
                            aside: Vec::new(),
                        },
                    });
                }
                FlowAction::Run { entry, lane, .. } => {
                    self.runs += 1;
                    let run = format!("run-{entry}-{}-{}", lane.id, self.runs);
                    let end = &self.script.entry(entry).ends[&lane.id];
                    assert_ne!(end.evidence, ["never"], "lane {} of entry {entry} runs", lane.id);
                    self.open.push(FlowEvent::LaneEnded {
                        entry,
                        lane: lane.id.clone(),
                        run: run.clone(),
                        evidence: end.evidence.iter().cloned().collect(),
                        cost: end.cost,
                        cost_estimated: false,
                        refused: end.refused.clone(),
                        questions: end.questions.clone(),
                        proposed: end.proposed.clone(),
                        details: LaneDetails::default(),
                    });
                    return Some(FlowEvent::LaneStarted { entry, lane: lane.id, run });
                }
                FlowAction::Merge { entry, lane } => {
                    let conflicts = self.script.entry(entry).ends[&lane].conflicts.clone();
                    return Some(FlowEvent::Merged { entry, lane, conflicts });
                }
                FlowAction::Ask { .. } => {
                    return Some(FlowEvent::Decided { decision: self.script.decisions[decided].clone() });
                }
                FlowAction::Write { .. } | FlowAction::Finish { .. } | FlowAction::Stop => {}
                FlowAction::Ignore { why } => panic!("{why}"),
            }
        }
    }

    /// Runs the flow to its end. Returns all moments.
    pub(crate) fn run_to_end(&mut self, first: FlowEvent, mut decided: usize) -> Vec<Moment> {
        let mut moments = vec![self.apply_event(first)];
        while let Some(event) = self.next_event(decided) {
            decided += usize::from(matches!(event, FlowEvent::Decided { .. }));
            moments.push(self.apply_event(event));
        }
        moments
    }
}
