//! Tests the shipped flows from start to end with scripted evidence, and the properties of any sequence of
//! events.
//!
//! `flows/NAME.script` is the script, `flows/NAME.expect` has the events, states and actions; the first word
//! of the name is the flow. `BLESS=1` rewrites the expectations.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/flow_script.rs"]
mod flow_script;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_core::flow::{
    DocumentFilter, DriverPresence, Evidence, Flow, FlowAction, FlowDecision, FlowEvent, FlowSettings,
    FlowState, FlowStatus, Lane, LaneDetails, LaneGroup, LaneGroupState, LaneObservation, LaneStage,
    LaneState, SessionLabels, WaitReason, apply_event, archive_folder, build_request, build_session_state,
    collect_evidence, collect_reviews, draw_graph, find_flow, fold_events, prepare_phase, read_graph,
    writable_globs,
};
use callsheet_core::library::layout::Layout;
use callsheet_core::render::render;
use callsheet_core::reply::Outcome;
use callsheet_core::request::fact::{
    self, CheckResult, CheckSummary, RunFacts, Violation, ViolationDecision, ViolationReason,
};
use callsheet_core::{
    Builtin, EndReason, Library, Listing, ListingEntry, ListingLimits, MemorySources, PromptFormat,
    SharedText, SourceError, SourceId, SourceRoot, Sources, compose,
};
use callsheet_lint::check::check;
use flow_script::{Driver, Moment, Script};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

fn shipped_flow(name: &str) -> Flow {
    find_flow(&Library::new(&Builtin), name, &Layout::default()).unwrap().1
}

/// Returns the event that documents changed while a process drove the flow.
fn documents_changed(changed: BTreeMap<String, Option<String>>) -> FlowEvent {
    FlowEvent::Documents { changed, meanwhile: DriverPresence::Driven }
}

fn flows_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows")
}

/// Returns every script with its name and its flow.
fn read_scripts() -> Vec<(String, Flow, Script)> {
    let files = fs::read_dir(flows_dir()).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "script")).collect();
    scripts.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let flow = shipped_flow(name.split('-').next().unwrap());
        let script = Script::parse(&fs::read_to_string(path).unwrap());
        (name, flow, script)
    };
    scripts.into_iter().map(read).collect()
}

fn run_script(flow: &Flow, script: &Script) -> Vec<Moment> {
    let mut driver = Driver::new(flow, script, FlowState::default());
    let first = driver.start_event();
    driver.run_to_end(first, 0)
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// Renders the state of a flow on one line.
fn render_state(state: &FlowState) -> String {
    let at = serde_json::to_value(&state.at).unwrap()["at"].as_str().unwrap().to_owned();
    let mut line = format!("{at} {} (entry {}, round {})", state.phase, state.entry, state.round());
    for lane in &state.lanes {
        let stage = match &lane.stage {
            LaneStage::Todo => "todo",
            LaneStage::Running { run: None } => "starting",
            LaneStage::Running { .. } => "running",
            LaneStage::Unmerged { .. } => "unmerged",
            LaneStage::Done { .. } => "done",
            LaneStage::Failed { .. } => "failed",
        };
        write!(line, " {}:{stage}", lane.lane.id).unwrap();
    }
    line
}

fn assert_expected(file: &str, found: &str) {
    let path = flows_dir().join(file);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == found, "{file} should be (BLESS=1 writes it anew):\n{found}");
}

#[test]
fn u5_t6_m15_m16_scripted_traces() {
    for (name, flow, script) in read_scripts() {
        let mut trace = String::new();
        for Moment { event, state, actions } in run_script(&flow, &script) {
            writeln!(trace, "> {}\n= {}", to_json(&event), render_state(&state)).unwrap();
            actions.iter().for_each(|action| writeln!(trace, "  {}", to_json(action)).unwrap());
            trace.push('\n');
        }
        assert_expected(&format!("{name}.expect"), &trace);
    }
}

#[test]
fn c8_m8_killed_flow_ends_alike() {
    for (name, flow, script) in read_scripts() {
        let moments = run_script(&flow, &script);
        let end = &moments.last().unwrap().state;
        assert!(end.has_ended(), "{name}");
        for cut in 1..moments.len() {
            let mut events: Vec<FlowEvent> =
                moments[..cut].iter().map(|moment| moment.event.clone()).collect();
            let decided = events.iter().filter(|event| matches!(event, FlowEvent::Decided { .. })).count();
            let state = fold_events(&flow, &events);
            assert_eq!(state, moments[cut - 1].state, "{name} after {cut}");
            let mut driver = Driver::new(&flow, &script, state);
            let rest = driver.run_to_end(FlowEvent::Resumed, decided);
            assert_eq!(&driver.state, end, "{name} after {cut}");
            // No lane ends twice.
            events.extend(rest.into_iter().map(|moment| moment.event));
            let mut ended = BTreeSet::new();
            for event in &events {
                let effect = match event {
                    FlowEvent::Entered { entry, .. } => (*entry, "", "entered"),
                    FlowEvent::LaneEnded { entry, lane, .. } => (*entry, lane.as_str(), "ended"),
                    FlowEvent::Merged { entry, lane, .. } => (*entry, lane.as_str(), "merged"),
                    _ => continue,
                };
                assert!(ended.insert(effect), "{name} after {cut}: {effect:?} a second time");
            }
        }
    }
}

#[test]
fn repeated_or_late_events_are_ignored() {
    for (name, flow, script) in read_scripts() {
        let moments = run_script(&flow, &script);
        for (at, moment) in moments.iter().enumerate() {
            let repeated =
                moments[..=at].iter().filter(|before| !matches!(before.event, FlowEvent::Decided { .. }));
            for before in repeated {
                let (state, actions) = apply_event(&flow, moment.state.clone(), &before.event);
                assert_eq!(state, moment.state, "{name}: {}", to_json(&before.event));
                assert!(
                    matches!(actions[..], [FlowAction::Ignore { .. }]),
                    "{name}: {}",
                    to_json(&before.event)
                );
            }
        }
    }
}

#[test]
fn stopped_flow_waits_for_resume() {
    let (flow, script) =
        (shipped_flow("sdd"), Script::parse(&fs::read_to_string(flows_dir().join("sdd.script")).unwrap()));
    for moment in run_script(&flow, &script).iter().filter(|moment| !moment.state.has_ended()) {
        let (stopped, actions) = apply_event(&flow, moment.state.clone(), &FlowEvent::Stopped);
        assert_eq!(actions, [FlowAction::Stop]);
        let happened = [FlowEvent::Stopped, moment.event.clone()];
        for event in happened.into_iter().filter(|event| !matches!(event, FlowEvent::Decided { .. })) {
            let (state, actions) = apply_event(&flow, stopped.clone(), &event);
            assert_eq!(state, stopped);
            assert!(matches!(actions[..], [FlowAction::Ignore { .. }]));
        }
        let resumed = apply_event(&flow, stopped, &FlowEvent::Resumed);
        assert_eq!(resumed, apply_event(&flow, moment.state.clone(), &FlowEvent::Resumed));
        assert!(!resumed.0.stopped);
    }
}

/// The person sees the failed action, and resuming retries it.
#[test]
fn failed_flow_waits_for_person() {
    for (name, flow, script) in read_scripts() {
        for moment in run_script(&flow, &script).iter().filter(|moment| !moment.state.has_ended()) {
            let why = to_strings(&["the disk is full"]);
            let failed = FlowEvent::Failed { entry: moment.state.entry, why: why.clone() };
            let (waits, actions) = apply_event(&flow, moment.state.clone(), &failed);
            assert!(matches!(actions[..], [FlowAction::Ask { .. }]), "{name}");
            assert!(waits.is_waiting() && waits.wait_reasons()[0] == WaitReason::Failed { says: why });
            let late = [FlowEvent::Refused { entry: waits.entry, why: Vec::new() }, failed];
            for event in late {
                let (state, actions) = apply_event(&flow, waits.clone(), &event);
                assert_eq!(state, waits);
                assert!(matches!(actions[..], [FlowAction::Ignore { .. }]));
            }
            let resumed = apply_event(&flow, waits.clone(), &FlowEvent::Resumed);
            assert_eq!(resumed, apply_event(&flow, moment.state.clone(), &FlowEvent::Resumed), "{name}");
            let approve = FlowEvent::Decided { decision: FlowDecision::Approve };
            let approved = apply_event(&flow, waits.clone(), &approve);
            assert_eq!(approved, apply_event(&flow, moment.state.clone(), &approve), "{name}");
            // Approving a flow that asks nothing resumes it.
            assert!(approved == resumed || matches!(moment.state.at, FlowStatus::Waiting { .. }), "{name}");
            let (stopped, _) = apply_event(&flow, waits, &FlowEvent::Stopped);
            assert_eq!(apply_event(&flow, stopped, &FlowEvent::Resumed), resumed, "{name}");
        }
    }
}

/// Each document with the phases that may change it.
const SDD: [(&str, &[&str]); 10] = [
    ("proposal.md", &["plan"]),
    ("specs/login.md", &["plan", "archive"]),
    ("tasks.md", &["plan"]),
    ("PLAN.md", &["plan"]),
    ("CHALLENGE.md", &["challenge"]),
    ("IMPLEMENTATION.md", &["plan", "implement"]),
    ("REVIEW.md", &["plan", "review"]),
    ("FIXES.yaml", &["plan", "implement"]),
    ("ARCHIVE.md", &["archive"]),
    ("CHANGES.md", &[]),
];
const STAGED: [(&str, &[&str]); 21] = [
    ("requirements.md", &["product_management"]),
    ("context.md", &[]),
    ("01_product_management/done", &["product_management"]),
    ("02_architecting/architecture.md", &["architecting"]),
    ("02_architecting/architecture.yaml", &["architecting"]),
    ("03_research/code-x/request.md", &["product_management", "architecting", "planning"]),
    ("03_research/code-x/summary.md", &["research"]),
    ("03_research/web-y/summary.md", &[]),
    ("04_planning/plan.md", &["planning"]),
    ("04_planning/plan_1.md", &["planning"]),
    ("04_planning/tasks_1.md", &["planning", "implementing"]),
    ("04_planning/tasks_2.md", &["planning"]),
    ("04_planning/execution_plan.yaml", &["planning"]),
    ("05_design/design.md", &["planning", "designing"]),
    ("06_implementation/done_1", &["planning", "implementing"]),
    ("06_implementation/done_2", &["planning"]),
    ("07_review/review_logic.md", &["planning", "reviewing"]),
    ("07_review/review_quality.md", &["planning"]),
    ("07_review/fix_request.md", &["planning"]),
    ("07_review/fixes.yaml", &["planning", "fixing"]),
    ("08_completion/summary.md", &["completing"]),
];

/// Returns the state of a flow in which a lane of `phase` runs, with all of these documents.
fn state_with_running_lane(phase: &str, documents: &[(&str, &[&str])]) -> FlowState {
    let id = match phase {
        "implementing" => "1",
        "reviewing" => "logic",
        "research" => "code-x",
        _ => "all",
    };
    let stage = LaneStage::Running { run: Some("r".into()) };
    FlowState {
        at: FlowStatus::Running,
        phase: phase.into(),
        entry: 3,
        came_from: Some("architecting".into()),
        groups: vec![LaneGroupState { id: "g".into(), end: 1, ..LaneGroupState::default() }],
        lanes: vec![LaneState { lane: lane(id), stage, after: Vec::new(), alone: false }],
        next: 1,
        running: vec![0],
        documents: Some(
            documents
                .iter()
                .map(|(path, _)| (*path).to_owned())
                .chain([archive_folder(3) + "/old.md"])
                .map(|path| (path, "1".into()))
                .collect(),
        ),
        ..FlowState::default()
    }
}

#[test]
fn only_owner_may_change_document() {
    let mut tried = 0;
    for (flow, documents) in [("sdd", &SDD[..]), ("staged", &STAGED)] {
        let flow = shipped_flow(flow);
        let filter = DocumentFilter::new(&flow, 3);
        let aside_now = archive_folder(3) + "/old.md";
        let target: (&str, &[&str]) = match flow.phase("plan") {
            Some(_) => ("specs/renamed.md", &["plan", "archive"]),
            None => ("04_planning/renamed.md", &["planning"]),
        };
        let with_aside: Vec<(&str, &[&str])> =
            documents.iter().copied().chain([(aside_now.as_str(), &[][..])]).collect();
        assert!(with_aside.iter().all(|(path, _)| filter.is_document(path)), "{with_aside:?}");
        for other in ["notes.txt", "state.json", "earlier/002/old.md", "earlier/003-all-1/old.md"] {
            assert!(!filter.is_document(other), "{other}");
        }
        for phase in &flow.phase {
            for (path, owners) in &with_aside {
                let changes: [(&str, Option<&str>); 5] = [
                    ("deleted", None),
                    ("edited", Some("2")),
                    ("added", Some("2")),
                    ("renamed", None),
                    ("a link", Some("link: /etc/passwd")),
                ];
                for (how, what) in changes {
                    tried += 1;
                    let told = format!("{} in {}: {how}", path, phase.name);
                    let mut state = state_with_running_lane(&phase.name, documents);
                    let approved = match how {
                        "added" => state.documents.as_mut().unwrap().remove(*path).and(None),
                        _ => Some("1".to_owned()),
                    };
                    let mut changed = BTreeMap::from([((*path).to_owned(), what.map(String::from))]);
                    let mut is_stray = !owners.contains(&phase.name.as_str());
                    if how == "renamed" {
                        // The new name belongs to the plan's documents.
                        let (name, plan) = target;
                        changed.insert(name.into(), Some("1".into()));
                        is_stray |= !plan.contains(&phase.name.as_str());
                    }
                    let (state, _) = apply_event(&flow, state, &documents_changed(changed));
                    assert_eq!(!state.strayed.is_empty(), is_stray, "{told}");
                    let needs = phase.on[0].needs.iter();
                    let id = state.lanes[0].lane.id.clone();
                    let evidence =
                        needs.map(|need| need.replace("{lane}", &id).replace("**", "a.md")).collect();
                    let (entry, run) = (3, "r".to_owned());
                    let ended = lane_ended(entry, &id, run, evidence, 0);
                    let (ended, _) = apply_event(&flow, state, &ended);
                    let is_why = |why: &WaitReason| matches!(why, WaitReason::Documents { .. });
                    assert_eq!(ended.wait_reasons().iter().any(is_why), is_stray, "{told}");
                    if !is_stray {
                        assert!(
                            ended.entry > 3 || ended.has_ended() || ended.phase == "completing",
                            "{told}"
                        );
                        continue;
                    }
                    assert_eq!(ended.entry, 3, "{told}");
                    // After a person accepts or reverts the change, no document is disputed.
                    let approve = FlowEvent::Decided { decision: FlowDecision::Approve };
                    let (accepted, _) = apply_event(&flow, ended.clone(), &approve);
                    assert!(
                        accepted.strayed.is_empty() && !accepted.wait_reasons().iter().any(is_why),
                        "{told}"
                    );
                    if how != "renamed" {
                        let changed = BTreeMap::from([((*path).to_owned(), approved)]);
                        let (restored, _) = apply_event(&flow, ended, &documents_changed(changed));
                        assert!(restored.strayed.is_empty(), "{told}");
                    }
                }
            }
        }
    }
    assert_eq!(tried, 5 * 11 * 5 + 9 * 22 * 5);
}

/// While a flow waits, is stopped or failed, a person makes the changes; while it enters a phase, the flow
/// makes them, or it asks a person.
#[test]
fn change_is_attributed_by_flow_status() {
    let flow = shipped_flow("sdd");
    let edited = |path: &str| documents_changed(BTreeMap::from([(path.into(), Some("2".into()))]));
    let working = state_with_running_lane("challenge", &SDD);
    let failed = FlowEvent::Failed { entry: 3, why: to_strings(&["x"]) };
    let waiting =
        FlowState { at: FlowStatus::Waiting { why: vec![WaitReason::Decision] }, ..working.clone() };
    let asked = [
        waiting,
        apply_event(&flow, working.clone(), &FlowEvent::Stopped).0,
        apply_event(&flow, working.clone(), &failed).0,
    ];
    for state in asked {
        for (path, _) in SDD {
            let (state, _) = apply_event(&flow, state.clone(), &edited(path));
            assert!(state.strayed.is_empty(), "{path}");
            assert_eq!(state.documents.unwrap()[path], "2");
        }
    }
    // Changes before the stop are still attributed to the agent.
    let (strayed, _) = apply_event(&flow, working.clone(), &edited("tasks.md"));
    let (stopped, _) = apply_event(&flow, strayed, &FlowEvent::Stopped);
    let (resumed, _) = apply_event(&flow, stopped, &FlowEvent::Resumed);
    assert_eq!(resumed.strayed.keys().collect::<Vec<_>>(), ["tasks.md"]);
    let entering =
        FlowState { at: FlowStatus::Entering, lanes: Vec::new(), running: Vec::new(), ..working.clone() };
    let strays = |path: &str| !apply_event(&flow, entering.clone(), &edited(path)).0.strayed.is_empty();
    assert_eq!(["CHALLENGE.md", "CHANGES.md"].map(strays), [false, false]);
    assert_eq!(["tasks.md", "proposal.md", "REVIEW.md"].map(strays), [true, true, true]);
    // The state of an older version has no documents: the first observation is the baseline.
    let unknown = FlowState { documents: None, ..working };
    let (first, _) = apply_event(&flow, unknown, &edited("tasks.md"));
    assert!(first.strayed.is_empty());
    assert!(!apply_event(&flow, first, &edited("proposal.md")).0.strayed.is_empty());
}

/// Changes while no process of a flow runs are a person's. If it is unknown whether one ran, it asks a person, and
/// the flow names no author.
#[test]
fn change_without_driver_is_a_persons() {
    let flow = shipped_flow("sdd");
    let edited = |path: &str, meanwhile| {
        let changed = BTreeMap::from([(path.to_owned(), Some("2".to_owned()))]);
        apply_event(
            &flow,
            state_with_running_lane("challenge", &SDD),
            &FlowEvent::Documents { changed, meanwhile },
        )
        .0
    };
    for (path, owners) in SDD {
        let alone = edited(path, DriverPresence::LeftAlone);
        assert!(alone.strayed.is_empty() && alone.wait_reasons().is_empty(), "{path}");
        assert_eq!(alone.documents.unwrap()[path], "2");
        let cut = edited(path, DriverPresence::Cut);
        let paths = to_strings(&[path]);
        let why = if owners.contains(&"challenge") {
            vec![]
        } else {
            vec![WaitReason::Documents { paths, cut: true }]
        };
        assert_eq!(cut.wait_reasons(), why, "{path}");
    }
    let cut = edited("tasks.md", DriverPresence::Cut);
    let (approved, _) =
        apply_event(&flow, cut.clone(), &FlowEvent::Decided { decision: FlowDecision::Approve });
    assert!(approved.strayed.is_empty() && !approved.cut);
    // A restored document is the approved one.
    let (restored, _) =
        apply_event(&flow, cut, &documents_changed([("tasks.md".to_owned(), Some("1".to_owned()))].into()));
    assert!(restored.strayed.is_empty() && !restored.cut);
    let named =
        to_json(&FlowEvent::Documents { changed: BTreeMap::new(), meanwhile: DriverPresence::Driven });
    assert!(!named.contains("meanwhile"), "{named}");
}

/// A run whose last submission was refused leads to no transition, regardless of its other evidence.
#[test]
fn m9_refused_submission_repeats_phase() {
    let flow = shipped_flow("staged");
    for (phase, lane) in [("product_management", "all"), ("architecting", "all"), ("research", "code-x")] {
        let needs = flow.phase(phase).unwrap().on[0].needs.iter();
        let whole: Evidence = needs.map(|need| need.replace("{lane}", lane)).collect();
        let refused_with = |state: &FlowState, evidence: &Evidence| {
            let mut event = lane_ended(state.entry, lane, "r".into(), evidence.clone(), 0);
            let FlowEvent::LaneEnded { refused, .. } = &mut event else { unreachable!() };
            *refused = to_strings(&["it is wrong"]);
            apply_event(&flow, state.clone(), &event)
        };
        let mut state = state_with_running_lane(phase, &STAGED);
        for times in 1..=2 {
            let (next, actions) = refused_with(&state, &whole);
            assert!(matches!(actions[..], [FlowAction::Enter { .. }]), "{phase}: {actions:?}");
            assert_eq!((&next.phase, next.refusals), (&state.phase, times));
            assert_eq!(next.refused[lane], ["it is wrong"]);
            assert!(next.rerun.contains(lane));
            let entry = next.entry;
            let groups =
                state_with_running_lane(phase, &STAGED).lanes.into_iter().map(|state| state.lane).collect();
            let groups = vec![LaneGroup { id: "g".into(), lanes: groups, ..LaneGroup::default() }];
            let entered = FlowEvent::Entered { entry, groups, again: false, aside: Vec::new() };
            let (next, _) = apply_event(&flow, next, &entered);
            state = apply_event(
                &flow,
                next,
                &FlowEvent::LaneStarted { entry, lane: lane.into(), run: "r".into() },
            )
            .0;
        }
        let (asked, _) = refused_with(&state, &whole);
        let says = to_strings(&["it is wrong"]);
        assert_eq!(asked.wait_reasons(), [WaitReason::Submission { lane: lane.into(), says }]);
        // Evidence that no submission can provide is for a person, and the refusal is kept.
        let mut unclean = whole.clone();
        unclean.remove("clean");
        let (lacking, _) = refused_with(&state_with_running_lane(phase, &STAGED), &unclean);
        assert_eq!(
            lacking.wait_reasons(),
            [WaitReason::Evidence {
                lane: lane.into(),
                lacks: to_strings(&["clean"]),
                to: flow.phase(phase).unwrap().on[0].to.clone()
            }]
        );
        let cleared = FlowEvent::Cleared { entry: 3, lanes: [(lane.to_owned(), whole.clone())].into() };
        let (cleared, _) = apply_event(&flow, lacking, &cleared);
        assert_eq!((&cleared.phase, cleared.refusals), (&state.phase, 1));
    }
}

/// A lane that asks a question runs again, even if its work looks done.
#[test]
fn t5_asking_researcher_runs_again() {
    let flow = shipped_flow("staged");
    let needs = &flow.phase("research").unwrap().on[0].needs;
    let whole: Evidence = needs.iter().map(|need| need.replace("{lane}", "code-x")).collect();
    let mut event = lane_ended(3, "code-x", "r".into(), whole, 0);
    let FlowEvent::LaneEnded { questions, .. } = &mut event else { unreachable!() };
    *questions = to_strings(&["Which one?"]);
    let (asked, _) = apply_event(&flow, state_with_running_lane("research", &STAGED), &event);
    let answer = FlowEvent::Decided { decision: FlowDecision::Changes("That one".into()) };
    let (state, _) = apply_event(&flow, asked, &answer);
    let files = ["03_research/code-x/request.md", "03_research/code-x/done", "03_research/code-x/summary.md"];
    let held = Held::with(&files.map(|path| (path, "")));
    let prepared = prepare_phase(&flow, &state, &Vec::new, &Library::new(&held), &Layout::default()).unwrap();
    assert_eq!(prepared.groups[0].lanes.iter().map(|lane| &lane.id).collect::<Vec<_>>(), ["code-x"]);
}

#[test]
fn graph_marks_current_phase() {
    let flow = shipped_flow("sdd");
    assert_expected("sdd.mermaid", &draw_graph(&read_graph(&flow, None)));
    let script = Script::parse(&fs::read_to_string(flows_dir().join("sdd-asks-a-person.script")).unwrap());
    let moments = run_script(&flow, &script);
    let waits =
        moments.iter().rev().find(|moment| matches!(moment.state.at, FlowStatus::Waiting { .. })).unwrap();
    assert_expected("sdd-waiting.mermaid", &draw_graph(&read_graph(&flow, Some(&waits.state))));
    let flow = shipped_flow("staged");
    let script = Script::parse(&fs::read_to_string(flows_dir().join("staged.script")).unwrap());
    let moments = run_script(&flow, &script);
    let lanes = moments.iter().find(|moment| moment.state.running.len() == 3).unwrap();
    assert_expected("staged-running.mermaid", &draw_graph(&read_graph(&flow, Some(&lanes.state))));
    let end = draw_graph(&read_graph(&flow, Some(&moments.last().unwrap().state)));
    assert_eq!(end.lines().last(), Some("    class done current"));
}

#[test]
fn m4_session_state_follows_events() {
    let flow = shipped_flow("staged");
    let script = Script::parse(&fs::read_to_string(flows_dir().join("staged.script")).unwrap());
    let mut shown = String::new();
    let moments = run_script(&flow, &script);
    let named = |wanted: &str, running: usize| {
        moments.iter().find(|moment| moment.state.phase == wanted && moment.state.running.len() == running)
    };
    let waits = moments.iter().find(|moment| matches!(moment.state.at, FlowStatus::Waiting { .. }));
    let chosen = [named("research", 1), named("implementing", 3), named("fixing", 1), waits, moments.last()];
    for moment in chosen.into_iter().flatten() {
        let session = SessionLabels {
            feature_dir: ".callsheet/sessions/export",
            session_name: "export",
            last_event: "lane_started",
            updated_at: "2026-01-31T12:00:00Z",
        };
        let state = build_session_state(&flow, &moment.state, &session);
        writeln!(shown, "{}", serde_json::to_string_pretty(&state).unwrap()).unwrap();
    }
    assert_expected("staged.state.json", &shown);
}

#[test]
fn m15_reviews_are_merged_by_role() {
    let collected = |files: &[(&str, &str)]| {
        let sources = Held::with(files);
        let times = BTreeMap::from([("reviewing".to_owned(), 2)]);
        let state =
            FlowState { phase: "fixing".into(), at: FlowStatus::Entering, times, ..FlowState::default() };
        let files = collect_reviews(&shipped_flow("staged"), &state, &Library::new(&sources)).unwrap();
        // The next round starts with the reviews of this one.
        let times = BTreeMap::from([("reviewing".to_owned(), 3)]);
        let next = FlowState { phase: "reviewing".into(), times, ..state };
        assert_eq!(collect_reviews(&shipped_flow("staged"), &next, &Library::new(&sources)).unwrap(), files);
        files
    };
    let files = |files: &[(&str, &str)]| Held::with(files).0;
    let reviews = [
        (
            "07_review/review_quality.md",
            "verdict: fail\n\n## Findings\n\n### Finding 1\n\nA name.\n\n### Finding 2\n",
        ),
        ("07_review/review_expert.md", "no verdict at all\n"),
        ("07_review/review_logic.md", "verdict: pass\r\n\n## Summary\n\nFine.\n"),
        ("07_review/review_no name.md", "verdict: pass\n"),
        ("07_review/review.md", "verdict: pass\n\n## logic\n\nOf the round before.\n"),
    ];
    let expert = "## expert\n\n## Findings\n\n### R2.1\n\nno verdict at all\n";
    let logic = "## logic\n\n## Summary\n\nFine.\n";
    let quality = "## quality\n\n## Findings\n\n### R2.2\n\nA name.\n\n### R2.3\n";
    let all = format!("verdict: fail\n\n{expert}\n{logic}\n{quality}");
    let failed = format!("{expert}\n{quality}");
    assert_eq!(
        collected(&reviews),
        files(&[("07_review/review.md", &all), ("07_review/fix_request.md", &failed)])
    );
    let passed = format!("verdict: pass\n\n{logic}");
    assert_eq!(collected(&reviews[2..]), files(&[("07_review/review.md", &passed)]));
    // The only review is used as it is.
    assert_eq!(collected(&reviews[4..]), files(&reviews[4..]));
    let alone = [("07_review/review.md", "verdict: fail\n\n1. A name.\n")];
    let found = "1. R2.1 A name.\n";
    let numbered = format!("verdict: fail\n\n{found}");
    let both = [("07_review/fix_request.md", found), ("07_review/review.md", &numbered)];
    assert_eq!(collected(&alone), files(&both));
    assert_eq!(collected(&both[1..]), files(&both));
    assert_eq!(collected(&[]), files(&[]));
}

/// The flow in the documentation is valid.
#[test]
fn documented_flow_is_valid() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flows.md");
    let page = fs::read_to_string(page).unwrap();
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut sources = MemorySources::with_builtin();
    sources.put(SourceRoot::Project, ".callsheet/flows/own.toml", shown).unwrap();
    let problems = check(&sources, &Layout::default()).problems;
    assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
}

/// The shipped files, and the folder of a flow in memory.
#[derive(Default)]
struct Held(BTreeMap<String, String>);

impl Held {
    fn with(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect())
    }
}

impl Sources for Held {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        match id.root() {
            SourceRoot::Session => Ok(self.0.get(id.path()).map(|text| text.as_str().into())),
            _ => Builtin.text(id),
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        if dir.root() != SourceRoot::Session {
            return Builtin.list(dir, limits);
        }
        let mut entries = BTreeSet::new();
        for path in self.0.keys().filter_map(|path| path.strip_prefix(dir.path())?.strip_prefix('/')) {
            let folders = path.match_indices('/').map(|(at, _)| (path[..at].to_owned(), true));
            entries.extend(folders.chain([(path.to_owned(), false)]).take(limits.depth));
        }
        let entries: Vec<ListingEntry> =
            entries.into_iter().map(|(path, dir)| ListingEntry { path, dir }).collect();
        Ok((!entries.is_empty()).then(|| Listing { entries, ..Listing::default() }))
    }
}

const PLAN: &str = r#"
version: 1
groups:
- group_id: g1
  mode: parallel
  plans:
  - {file: plan_1.md, name: One}
  - {file: plan_2.md, name: Two}
- group_id: g2
  mode: parallel
  plans:
  - {file: plan_3.md, name: Three}
needs_design: true
needs_docs: false
doc_files: []
review_strategy: {severity: high, focus: []}
"#;

const OVERVIEW: &str =
    "## Phase 1\n\nNone.\n\n## Phase 2\n\nOne, Two.\n\n## Phase 3\n\nThree.\n\n## Conflict map\n\nNone.\n";

/// A sub-plan that runs in parallel with others.
const LANE: &str = "## Scope\n\nIt.\n\n## Owned files\n\n- OWNED\n\n## Dependencies\n\nNone.\n\n## Isolation\n\nIt alone owns them.\n";

/// Returns the files of the plan, in which each sub-plan owns one of `owned`.
fn plan_files(owned: [&str; 3]) -> Vec<(String, String)> {
    let mut files = vec![
        ("04_planning/execution_plan.yaml".to_owned(), PLAN.to_owned()),
        ("04_planning/plan.md".to_owned(), OVERVIEW.to_owned()),
    ];
    for (number, owned) in (1..).zip(owned) {
        let text = LANE.replace("OWNED", &owned.replace(' ', "\n- "));
        files.push((format!("04_planning/plan_{number}.md"), text));
        files.push((format!("04_planning/tasks_{number}.md"), "- [ ] It\n".to_owned()));
    }
    files
}

/// Borrows the paths and the texts of files.
fn borrow_files(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
}

fn prepare_groups(
    flow: &str,
    phase: &str,
    single_coder: bool,
    files: &[(&str, &str)],
) -> Result<(Vec<LaneGroup>, bool), String> {
    let settings = FlowSettings { single_coder, ..FlowSettings::default() };
    let state = FlowState { phase: phase.into(), settings, ..FlowState::default() };
    let sources = Held::with(files);
    let prepared =
        prepare_phase(&shipped_flow(flow), &state, &Vec::new, &Library::new(&sources), &Layout::default());
    prepared.map(|prepared| (prepared.groups, prepared.again)).map_err(|failure| failure.to_string())
}

fn lane(id: &str) -> Lane {
    Lane { id: id.into(), ..Lane::default() }
}

/// Returns the end of a lane without refusals, questions or proposals.
fn lane_ended(entry: u32, lane: &str, run: String, evidence: Evidence, cost: u64) -> FlowEvent {
    let (lane, refused, questions, proposed) = (lane.to_owned(), Vec::new(), Vec::new(), Vec::new());
    let details = LaneDetails::default();
    FlowEvent::LaneEnded {
        entry,
        lane,
        run,
        evidence,
        cost,
        cost_estimated: false,
        refused,
        questions,
        proposed,
        details,
    }
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn m12_lanes_follow_documents() {
    let group = |id: &str, parallel, lanes| LaneGroup { id: id.into(), parallel, worktrees: false, lanes };
    let all = vec![group("all", false, vec![lane("all")])];
    assert_eq!(prepare_groups("sdd", "plan", false, &[]), Ok((all, false)));

    let tasks = ("tasks.md", "- [ ] 1.1 One\n- [x] 1.2 Two\n- [ ] 1.1 One again\n");
    let each = vec![group("tasks", false, vec![lane("1.1"), lane("1.2")])];
    assert_eq!(prepare_groups("sdd", "implement", true, &[tasks]), Ok((each, false)));
    let whole = Lane { of: to_strings(&["1.1", "1.2"]), ..lane("all") };
    let again = vec![group("tasks", false, vec![whole])];
    assert_eq!(prepare_groups("sdd", "implement", false, &[tasks, ("REVIEW.md", "x")]), Ok((again, true)));

    let files = plan_files(["src/a.rs docs/**", "src/b.rs", "src/c.rs"]);
    let files = borrow_files(&files);
    let owning = |id, owned: &[&str]| Lane { owned: to_strings(owned), ..lane(id) };
    let first = vec![owning("1", &["src/a.rs", "docs/**"]), owning("2", &["src/b.rs"])];
    let groups = vec![
        LaneGroup { worktrees: true, ..group("g1", true, first) },
        group("g2", true, vec![owning("3", &["src/c.rs"])]),
    ];
    assert_eq!(prepare_groups("staged", "implementing", false, &files), Ok((groups, false)));
    let whole = Lane { of: to_strings(&["1", "2", "3"]), ..lane("all") };
    let single = vec![group("all", false, vec![whole])];
    assert_eq!(prepare_groups("staged", "implementing", true, &files), Ok((single, false)));

    let reviewed = [&files[..], &[("07_review/fix_request.md", "")]].concat();
    let (groups, again) = prepare_groups("staged", "reviewing", false, &reviewed).unwrap();
    let names: Vec<&str> = groups[0].lanes.iter().map(|lane| lane.id.as_str()).collect();
    assert_eq!((names, groups[0].parallel, again), (vec!["logic", "quality", "expert"], true, true));

    let topic = |kind: &str, topic: &str| Lane {
        values: [("type", kind), ("topic", topic)].map(|(name, value)| (name.into(), value.into())).into(),
        ..lane(&format!("{kind}-{topic}"))
    };
    let files = [
        ("03_research/code-done/request.md", ""),
        ("03_research/code-done/done", ""),
        ("03_research/code-done/summary.md", ""),
        ("03_research/code-half/request.md", ""),
        ("03_research/code-half/done", ""),
        ("03_research/other/request.md", ""),
        ("03_research/web-a-b/request.md", ""),
    ];
    let topics = vec![group("topics", true, vec![topic("code", "half"), topic("web", "a-b")])];
    assert_eq!(prepare_groups("staged", "research", false, &files), Ok((topics, false)));
}

#[test]
fn m16_implementing_needs_valid_plan() {
    let refused =
        |flow, phase, files: &[(&str, &str)]| prepare_groups(flow, phase, false, files).unwrap_err();
    assert_eq!(
        refused("staged", "implementing", &[]),
        "error[IncludeNotFound]: file not found: `04_planning/execution_plan.yaml`\n  \
         = looked in session:04_planning/execution_plan.yaml"
    );
    let files = plan_files(["src/**", "src/b.rs", "src/c.rs"]);
    assert_eq!(
        refused("staged", "implementing", &borrow_files(&files)),
        "error[SubmissionBad]: sub-plans 1 and 2 run at once in `g1`, and both may write the same file: \
         `04_planning/plan_1.md:7` is `src/**`, `04_planning/plan_2.md:7` is `src/b.rs`\n  \
         = hint: merge the two sub-plans, or move the shared files into a serial integration step\n\
         error[SubmissionBad]: sub-plans 1 and 3 may write the same file, but no row of the conflict map names both: \
         `04_planning/plan_1.md:7` is `src/**`, `04_planning/plan_3.md:7` is `src/c.rs`\n  \
         = hint: add a row with the file, both sub-plans and one owner"
    );
    assert_eq!(
        refused("sdd", "implement", &[]),
        "error[IncludeNotFound]: file not found: `tasks.md`\n  = looked in session:tasks.md"
    );
    assert_eq!(
        refused("sdd", "implement", &[("tasks.md", "Nothing.")]),
        "error[FlowRefused]: `tasks.md` has no task\n  \
         = hint: a task begins `- [ ] 1.1 …`, or is YAML in a code fence with `id: 1.1`"
    );
    assert_eq!(
        refused("sdd", "implement", &[("tasks.md", "```yaml\nid: ../x\n```\n")]),
        "error[FlowRefused]: `tasks.md` has a task with the invalid id `../x`\n  \
         = hint: an id is a name, or names with dots between them, such as `1.1`"
    );
}

#[test]
fn t6_evidence_follows_observations() {
    let check = |name: &str, result| CheckSummary { name: name.into(), result, output: None };
    let violation =
        Violation { path: "x".into(), reason: ViolationReason::Excluded, decision: Default::default() };
    let of = |phase: &str,
              outcome,
              facts: &RunFacts,
              handed_in: &[(&str, Option<&str>)],
              files: &[(&str, &str)]| {
        let flow = shipped_flow("staged");
        let submissions: Vec<(String, Option<String>)> =
            handed_in.iter().map(|(name, verdict)| ((*name).into(), verdict.map(String::from))).collect();
        let paths = to_strings(&["a.md"]);
        let seen = LaneObservation {
            outcome,
            facts,
            submissions: &submissions,
            files: &paths,
            flow_changed: &BTreeSet::new(),
            is_severe: false,
        };
        let sources = Held::with(files);
        collect_evidence(flow.phase(phase).unwrap(), &seen, &Library::new(&sources), &Layout::default())
    };
    let words = |words: &[&str]| -> Evidence { words.iter().map(ToString::to_string).collect() };
    let good = RunFacts { ended: Some(EndReason::Exited), exit_code: Some(0), ..RunFacts::default() };
    assert_eq!(
        of("fixing", Outcome::None, &good, &[], &[]),
        words(&["checks-or-none", "clean", "exit", "file.a.md"])
    );
    let checks = vec![check("lint", CheckResult::Passed), check("tests", CheckResult::Failed)];
    let red = RunFacts { checks, violations: vec![violation.clone()], exit_code: Some(1), ..good.clone() };
    assert_eq!(
        of("fixing", Outcome::Pass, &red, &[], &[]),
        words(&["check.lint", "file.a.md", "reply.PASS"])
    );
    // Only an accepted violation leaves the worktree clean.
    for (decision, is_clean) in [
        (ViolationDecision::Pending, false),
        (ViolationDecision::Rejected, false),
        (ViolationDecision::Approved, true),
        (ViolationDecision::Mine, true),
    ] {
        let decided =
            RunFacts { violations: vec![Violation { decision, ..violation.clone() }], ..good.clone() };
        let evidence = of("fixing", Outcome::None, &decided, &[], &[]);
        assert_eq!(evidence.contains("clean"), is_clean, "{decision:?}");
    }
    let green = RunFacts { checks: vec![check("tests", CheckResult::Passed)], ..good.clone() };
    let all = ["check.tests", "checks", "checks-or-none", "clean", "exit", "file.a.md"];
    assert_eq!(
        of("fixing", Outcome::NoVerdict, &green, &[], &[]),
        words(&[&all[..], &["reply.no_verdict"]].concat())
    );
    let blind = RunFacts { unseen: to_strings(&["closed"]), ..good.clone() };
    assert_eq!(
        of("fixing", Outcome::None, &blind, &[], &[]),
        words(&["checks-or-none", "exit", "file.a.md"]),
        "what could not be seen is not clean"
    );
    // A pass with a severe finding counts as the verdict that sends the work back.
    let severe = |flow: &str, phase: &str, is_severe| {
        let seen = LaneObservation {
            outcome: Outcome::Pass,
            facts: &good,
            submissions: &[],
            files: &[],
            flow_changed: &BTreeSet::new(),
            is_severe,
        };
        let flow = shipped_flow(flow);
        let found =
            collect_evidence(flow.phase(phase).unwrap(), &seen, &Library::new(&Builtin), &Layout::default());
        found.into_iter().find(|word| word.starts_with("reply.")).unwrap()
    };
    assert_eq!(severe("sdd", "review", false), "reply.PASS");
    assert_eq!(severe("sdd", "review", true), "reply.NEEDS_CHANGES");
    assert_eq!(severe("sdd", "challenge", true), "reply.NEEDS_REVISION");
    let review =
        |verdict| of("reviewing", Outcome::None, &RunFacts::default(), &[("submit_review", verdict)], &[]);
    let rest = ["checks-or-none", "clean", "file.a.md", "submission.submit_review"];
    assert_eq!(review(Some("pass")), words(&[&rest[..], &["reply.PASS"]].concat()));
    assert_eq!(review(Some("fail")), words(&[&rest[..], &["reply.NEEDS_CHANGES"]].concat()));
    assert_eq!(review(None), words(&rest));
    // One verdict other than a pass is enough.
    for verdicts in [["pass", "fail"], ["fail", "pass"], ["pass", ""]] {
        let several = verdicts.map(|verdict| ("submit_review", Some(verdict)));
        let found = of("reviewing", Outcome::None, &RunFacts::default(), &several, &[]);
        assert_eq!(found, words(&[&rest[..], &["reply.NEEDS_CHANGES"]].concat()), "{verdicts:?}");
    }
    // A run counts as clean only if a person approved every violation.
    let decided = |decisions: &[fact::ViolationDecision]| {
        let violation = |(at, decision): (usize, &fact::ViolationDecision)| Violation {
            path: format!("x{at}"),
            reason: ViolationReason::OutsideWrite,
            decision: *decision,
        };
        let violations = decisions.iter().enumerate().map(violation).collect();
        let facts = RunFacts { violations, ..good.clone() };
        of("fixing", Outcome::None, &facts, &[], &[]).contains("clean")
    };
    use fact::ViolationDecision::{Approved, Pending, Rejected};
    assert!(decided(&[Approved]) && decided(&[Approved, Approved]));
    for decisions in [&[Rejected][..], &[Pending], &[Approved, Rejected], &[Pending, Approved]] {
        assert!(!decided(decisions), "{decisions:?}");
    }
    let plan = plan_files(["a", "b", "c"]);
    let files = [&borrow_files(&plan)[..], &[("03_research/web-x/request.md", "")]].concat();
    let planned = of("planning", Outcome::None, &RunFacts::default(), &[], &files);
    assert_eq!(
        planned,
        words(&["checks-or-none", "clean", "file.a.md", "plan", "plan.needs_design", "topics"])
    );
    let bad = [("04_planning/execution_plan.yaml", "groups: []")];
    assert_eq!(
        of("planning", Outcome::None, &RunFacts::default(), &[], &bad),
        words(&["checks-or-none", "clean", "file.a.md"])
    );
}

/// Returns every document that the shipped flows mention, with its own path as its text.
fn all_documents() -> Held {
    let paths = [
        "context.md",
        "requirements.md",
        "proposal.md",
        "specs/deep/b.md",
        "specs/export.md",
        "PLAN.md",
        "CHALLENGE.md",
        "IMPLEMENTATION.md",
        "REVIEW.md",
        "CHANGES.md",
        "02_architecting/architecture.md",
        "03_research/code-store/request.md",
        "04_planning/plan.md",
        "04_planning/plan_1.md",
        "04_planning/tasks_1.md",
        "05_design/design.md",
        "07_review/review.md",
        "07_review/fix_request.md",
        "08_completion/changes.md",
        "08_completion/summary.md",
        // Archived by earlier entries; other phases have rewritten some of the files since.
        "earlier/002/CHALLENGE.md",
        "earlier/002/specs/gone.md",
        "earlier/001/proposal.md",
    ];
    let mut held = Held::with(&[
        ("tasks.md", "- [ ] 1.1 One\n- [ ] 1.2 Two\n"),
        ("state.json", "{\"review_iteration\": 1}"),
    ]);
    held.0.extend(paths.map(|path| (path.to_owned(), format!("This is {path}.\n"))));
    let plan =
        PLAN.split("  - {file: plan_2").next().unwrap().to_owned() + PLAN.split("Three}").nth(1).unwrap();
    held.0.insert("04_planning/execution_plan.yaml".into(), plan);
    held.0.insert("04_planning/plan.md".into(), OVERVIEW.into());
    held.0.insert("04_planning/plan_1.md".into(), LANE.replace("OWNED", "a"));
    held.0.insert("04_planning/tasks_1.md".into(), "- [ ] This is 04_planning/tasks_1.md.\n".into());
    held
}

/// Records the request of each phase, for the first and for a repeated entry, and composes a prompt from it.
#[test]
fn u4_u5_m13_phase_requests_compose() {
    let sources = all_documents();
    let library = Library::new(&sources);
    let mut shown = String::new();
    for name in ["sdd", "staged"] {
        let flow = shipped_flow(name);
        for (phase, again) in flow.phase.iter().flat_map(|phase| [(phase, false), (phase, true)]) {
            if again && phase.again.is_none() {
                continue;
            }
            let state = FlowState {
                phase: phase.name.clone(),
                request: "Export as CSV".into(),
                entry: 2,
                ..FlowState::default()
            };
            let groups =
                prepare_phase(&flow, &state, &Vec::new, &library, &Layout::default()).unwrap().groups;
            let state = FlowState { again, ..state };
            // Phases with one lane for each task, and phases with one lane for all.
            let first = groups[0].lanes[0].clone();
            let one =
                Lane { id: first.of.first().unwrap_or(&first.id).clone(), of: Vec::new(), ..first.clone() };
            let lane = if again && phase.again.as_ref().unwrap().ask.each.is_none() { first } else { one };
            let mut request = build_request(&flow, &state, phase, &lane, &library).unwrap();
            request.agent = Some("claude".into());
            request.session = Some(".callsheet/sessions/export".into());
            let composed = compose(&request, &sources)
                .unwrap_or_else(|failure| panic!("{name} {}: {failure}", phase.name));
            let told: Vec<&str> = composed.diagnostics.iter().map(|diag| diag.code.as_str()).collect();
            let writes = writable_globs(phase, &lane, ".callsheet/sessions/export");
            let stale: Vec<&str> = phase.stale_files().collect();
            writeln!(shown, "{name} {} {}", phase.name, if again { "again" } else { "first" }).unwrap();
            writeln!(shown, "  {}", to_json(&request)).unwrap();
            writeln!(
                shown,
                "  writes {writes:?}, sets aside {stale:?}, then {:?}",
                phase.stale_lane_files(&lane)
            )
            .unwrap();
            writeln!(shown, "  told: {told:?}").unwrap();
        }
    }
    assert_expected("requests.expect", &shown);
}

/// Compares whole prompts of phases that follow a review.
#[test]
fn u5_later_phases_see_findings() {
    let sources = all_documents();
    let library = Library::new(&sources);
    for (name, phase, id) in
        [("sdd", "challenge", "all"), ("staged", "reviewing", "logic"), ("staged", "fixing", "all")]
    {
        let flow = shipped_flow(name);
        let again = flow.phase(phase).unwrap().again.is_some();
        let state = FlowState { request: "Export as CSV".into(), entry: 2, again, ..FlowState::default() };
        let mut request =
            build_request(&flow, &state, flow.phase(phase).unwrap(), &lane(id), &library).unwrap();
        request.agent = Some("codex".into());
        let composed = compose(&request, &sources).unwrap();
        let format = if name == "sdd" { PromptFormat::Xml } else { PromptFormat::Markdown };
        assert_expected(
            &format!("{name}-{phase}.prompt"),
            &render(&composed.prompt, format, None).unwrap().text,
        );
    }
}

const OWNED: [&str; 5] = ["src/a/**", "src/b/**", "src/a/x.rs", "src/**", "docs/**"];
/// Whether two globs of [`OWNED`] can match the same file.
const OVERLAPS: [[bool; 5]; 5] = [
    [true, false, true, true, false],
    [false, true, false, true, false],
    [true, false, true, true, false],
    [true, true, true, true, false],
    [false, false, false, false, true],
];

const WORDS: [&str; 20] = [
    "reply.PASS",
    "reply.NEEDS_REVISION",
    "reply.NEEDS_CHANGES",
    "reply.REJECTED",
    "reply.MAJOR_ISSUES",
    "reply.complete",
    "submission.submit_architecture",
    "submission.submit_review",
    "file.proposal.md",
    "file.specs/a.md",
    "file.tasks.md",
    "file.05_design/design.md",
    "file.08_completion/summary.md",
    "file.01_product_management/done",
    "exit",
    "clean",
    "checks-or-none",
    "plan",
    "plan.needs_design",
    "topics",
];

/// A random next event. An [`Index`] selects among the entries that exist then.
#[derive(Clone, Debug)]
enum Move {
    /// The event that a driver of the flow would produce.
    Next(Next),
    Other(FlowEvent),
    /// The repetition of an earlier event.
    Again(Index),
}

#[derive(Clone, Debug)]
struct Next {
    /// The files that each lane owns, and whether it begins a group.
    lanes: Vec<(Index, bool)>,
    parallel: bool,
    worktrees: bool,
    lane: Index,
    /// The transition whose evidence is given, with one word added or removed.
    on: Index,
    odd: Option<Index>,
    cost: u64,
    conflict: bool,
    decision: FlowDecision,
    /// 1: its submission is refused; 2: it asks a question.
    says: u8,
}

fn moves() -> impl Strategy<Value = Move> {
    let changes = FlowDecision::Changes("more".into());
    let decision = select(vec![
        FlowDecision::Approve,
        FlowDecision::Approve,
        changes.clone(),
        changes,
        FlowDecision::Reject,
    ]);
    let lanes = prop_oneof![
        2 => proptest::collection::vec((any::<Index>(), any::<bool>()), 1),
        1 => proptest::collection::vec((any::<Index>(), proptest::bool::weighted(0.2)), 1..6),
    ];
    let odd = proptest::option::weighted(0.15, any::<Index>());
    let next = (
        (lanes, any::<bool>(), any::<bool>()),
        (any::<Index>(), any::<Index>(), odd),
        (0..30_u64, proptest::bool::weighted(0.2), decision, select(vec![0, 0, 0, 0, 1, 1, 2])),
    );
    prop_oneof![
        12 => next.prop_map(|((lanes, parallel, worktrees), (lane, on, odd), (cost, conflict, decision, says))| {
            Move::Next(Next { lanes, parallel, worktrees, lane, on, odd, cost, conflict, decision, says })
        }),
        1 => select(vec![FlowEvent::Stopped, FlowEvent::Resumed, FlowEvent::Resumed]).prop_map(Move::Other),
        1 => any::<Index>()
            .prop_map(|at| Move::Other(FlowEvent::Refused { entry: at.index(8) as u32, why: Vec::new() })),
        1 => any::<Index>()
            .prop_map(|at| Move::Other(FlowEvent::Failed { entry: at.index(8) as u32, why: Vec::new() })),
        1 => (any::<Index>(), proptest::option::of(Just("2".to_owned()))).prop_map(|(at, what)| {
            let paths = ["tasks.md", "REVIEW.md", "04_planning/plan.md", "06_implementation/done_l0"];
            Move::Other(documents_changed([(paths[at.index(4)].to_owned(), what)].into()))
        }),
        1 => any::<Index>().prop_map(Move::Again),
    ]
}

impl Move {
    fn next_event(&self, flow: &Flow, state: &FlowState, before: &[FlowEvent]) -> Option<FlowEvent> {
        match self {
            Self::Next(next) => next.next_event(flow, state, before.len()),
            Self::Other(event) => Some(event.clone()),
            Self::Again(at) => before.get(at.index(before.len())).cloned(),
        }
    }
}

impl Next {
    fn next_event(&self, flow: &Flow, state: &FlowState, number: usize) -> Option<FlowEvent> {
        let entry = state.entry;
        let running: Vec<(&Lane, Option<&str>)> = state.running_lanes().collect();
        match &state.at {
            _ if state.stopped => Some(FlowEvent::Resumed),
            _ if !state.failed.is_empty() && self.parallel => {
                Some(FlowEvent::Decided { decision: self.decision.clone() })
            }
            _ if !state.failed.is_empty() => Some(FlowEvent::Resumed),
            FlowStatus::Entering => {
                Some(FlowEvent::Entered { entry, groups: self.groups(), again: false, aside: Vec::new() })
            }
            FlowStatus::Waiting { why } => {
                let lacks = why.iter().find_map(|why| match why {
                    WaitReason::Evidence { lane, .. } => Some(lane.clone()),
                    _ => None,
                });
                let Some(lane) = lacks.filter(|_| self.conflict) else {
                    return Some(FlowEvent::Decided { decision: self.decision.clone() });
                };
                let evidence = self.evidence(flow, state, &lane)?;
                Some(FlowEvent::Cleared { entry, lanes: [(lane, evidence)].into() })
            }
            FlowStatus::Running if state.merging && (self.parallel || running.is_empty()) => {
                let lane = state.lanes.get(state.unsettled)?.lane.id.clone();
                let conflicts = if self.conflict { to_strings(&["x"]) } else { Vec::new() };
                Some(FlowEvent::Merged { entry, lane, conflicts })
            }
            FlowStatus::Running => {
                let (lane, run) = running[self.lane.index(running.len())];
                let Some(run) = run else {
                    return Some(FlowEvent::LaneStarted {
                        entry,
                        lane: lane.id.clone(),
                        run: format!("r{number}"),
                    });
                };
                let evidence = self.evidence(flow, state, &lane.id)?;
                let mut event = lane_ended(entry, &lane.id, run.into(), evidence, self.cost);
                if let FlowEvent::LaneEnded { refused, questions, .. } = &mut event {
                    match self.says {
                        1 => refused.push("src/a: it is refused".into()),
                        2 => questions.push("Which one?".into()),
                        _ => {}
                    }
                }
                Some(event)
            }
            FlowStatus::New | FlowStatus::Done | FlowStatus::Rejected => None,
        }
    }

    fn evidence(&self, flow: &Flow, state: &FlowState, lane: &str) -> Option<Evidence> {
        let transitions = &flow.phase(&state.phase)?.on;
        let needs = transitions[self.on.index(transitions.len())].needs.iter();
        let mut evidence: BTreeSet<String> =
            needs.map(|need| need.replace("{lane}", lane).replace("**", "a.md")).collect();
        if let Some(odd) = &self.odd {
            let word = WORDS[odd.index(WORDS.len())].to_owned();
            if !evidence.remove(&word) {
                evidence.insert(word);
            }
        }
        Some(evidence)
    }

    fn groups(&self) -> Vec<LaneGroup> {
        let mut groups: Vec<LaneGroup> = Vec::new();
        for (at, (owned, begins)) in self.lanes.iter().enumerate() {
            if *begins || groups.is_empty() {
                let id = format!("g{}", groups.len());
                groups.push(LaneGroup {
                    id,
                    parallel: self.parallel,
                    worktrees: self.worktrees,
                    lanes: Vec::new(),
                });
            }
            let lane = Lane { owned: to_strings(&[OWNED[owned.index(5)]]), ..lane(&format!("l{at}")) };
            groups.last_mut().unwrap().lanes.push(lane);
        }
        groups
    }
}

/// An independent implementation of the rules: the transition that each lane of an entry allows.
#[derive(Default)]
struct Watch {
    evidence: BTreeMap<(u32, String), BTreeSet<String>>,
    /// The lanes that a person accepted, or that were done in the round before.
    accepted: BTreeMap<(u32, String), Option<usize>>,
    phases: BTreeMap<u32, String>,
    merged: Option<usize>,
}

impl Watch {
    fn allowed_transition(&self, flow: &Flow, state: &FlowState, lane: &str) -> Option<Option<usize>> {
        let key = (state.entry, lane.to_owned());
        if let Some(accepted) = self.accepted.get(&key) {
            return Some(*accepted);
        }
        let evidence = self.evidence.get(&key)?;
        let one_reply = evidence.iter().filter(|word| word.starts_with("reply.")).count() == 1;
        let holds = |need: &String| {
            let need = need.replace("{lane}", lane).replace("**", "a.md");
            evidence.contains(&need) && (one_reply || !need.starts_with("reply."))
        };
        flow.phase(&state.phase).unwrap().on.iter().position(|on| on.needs.iter().all(holds)).map(Some)
    }

    fn observe_event(&mut self, was: &FlowState, event: &FlowEvent) {
        match event {
            // The evidence of a lane that asks, or whose submission was refused, does not count.
            FlowEvent::LaneEnded { entry, lane, run, evidence, questions, refused, .. }
                if questions.is_empty() && refused.is_empty() =>
            {
                let runs = |(own, id): (&Lane, Option<&str>)| own.id == *lane && id == Some(run);
                if !was.stopped && *entry == was.entry && was.running_lanes().any(runs) {
                    self.evidence.insert((*entry, lane.clone()), evidence.clone());
                }
            }
            FlowEvent::Cleared { entry, lanes } => {
                let waits = |id: &String| {
                    let failed = |lane: &LaneState| {
                        lane.lane.id == *id
                            && matches!(&lane.stage, LaneStage::Failed { why: WaitReason::Evidence { .. } })
                    };
                    was.lanes.iter().any(failed) && !was.stopped && was.failed.is_empty()
                };
                for (lane, evidence) in lanes.iter().filter(|(lane, _)| waits(lane) && *entry == was.entry) {
                    self.evidence.insert((*entry, lane.clone()), evidence.clone());
                    self.merged = None;
                }
            }
            FlowEvent::Decided { decision: FlowDecision::Approve } => {
                let failed = was.lanes.iter().filter(|lane| matches!(lane.stage, LaneStage::Failed { .. }));
                if matches!(was.at, FlowStatus::Waiting { .. }) {
                    self.accepted.extend(failed.map(|lane| ((was.entry, lane.lane.id.clone()), None)));
                    self.merged = None;
                }
            }
            _ => {}
        }
    }

    fn check_step(
        &mut self,
        flow: &Flow,
        was: &FlowState,
        event: &FlowEvent,
        now: &FlowState,
        actions: &[FlowAction],
    ) {
        if let [FlowAction::Ignore { .. }] = actions {
            return;
        }
        self.phases.insert(now.entry, now.phase.clone());
        if let FlowEvent::Entered { .. } = event {
            for lane in now.lanes.iter().filter(|lane| matches!(lane.stage, LaneStage::Done { .. })) {
                let same_phase = |entry: &u32| self.phases.get(entry) == Some(&now.phase);
                let mut rounds = (1..now.entry).rev().take_while(same_phase);
                let took = rounds.find_map(|entry| {
                    self.allowed_transition(
                        flow,
                        &FlowState { entry, phase: now.phase.clone(), ..FlowState::default() },
                        &lane.lane.id,
                    )
                });
                let took = took.unwrap_or_else(|| panic!("lane {} is done by nobody", lane.lane.id));
                self.accepted.insert((now.entry, lane.lane.id.clone()), took);
            }
        }
        let is_refused = now.refusals > 0 && now.entry != was.entry;
        if is_refused {
            // The round is repeated, but at most twice.
            assert_eq!((&now.phase, &now.rounds, &now.times), (&was.phase, &was.rounds, &was.times));
            assert!(now.refusals == was.refusals + 1 && now.refusals <= 2 && !now.refused.is_empty());
        }
        let went_on = (now.entry != was.entry || now.at == FlowStatus::Done) && !is_refused;
        if went_on
            && matches!(
                event,
                FlowEvent::LaneEnded { .. } | FlowEvent::Merged { .. } | FlowEvent::Cleared { .. }
            )
        {
            // A group with another transition ends the phase before the next groups begin.
            let (mut start, mut worst) = (0, None);
            for group in &was.groups {
                let took = was.lanes[start..group.end].iter().map(|lane| {
                    let took = self.allowed_transition(flow, was, &lane.lane.id);
                    took.unwrap_or_else(|| panic!("{} advanced: {event:?}", lane.lane.id))
                });
                worst = took.max().unwrap();
                if worst > Some(0) {
                    break;
                }
                start = group.end;
            }
            let phase = flow.phase(&was.phase).unwrap();
            let to = worst.map_or_else(
                || phase.approve.clone().unwrap_or(phase.on[0].to.clone()),
                |on| phase.on[on].to.clone(),
            );
            let reached = if now.at == FlowStatus::Done { "done" } else { now.phase.as_str() };
            let expected = if to == "back" { was.came_from.clone().unwrap() } else { to };
            assert_eq!(reached, expected);
        }
        for action in actions {
            match action {
                FlowAction::Merge { lane, .. } => {
                    let took = self
                        .allowed_transition(flow, now, lane)
                        .unwrap_or_else(|| panic!("{lane} is merged"));
                    let person = took.is_some_and(|on| flow.phase(&now.phase).unwrap().on[on].to == "person");
                    assert!(!person, "{lane} is merged before a person decides");
                    let at = now.lanes.iter().position(|own| own.lane.id == *lane);
                    assert!(
                        self.merged <= at || matches!(event, FlowEvent::Resumed),
                        "{lane} is merged out of order"
                    );
                    self.merged = at;
                }
                FlowAction::Enter { .. } => self.merged = None,
                FlowAction::Run { .. }
                    if !matches!(event, FlowEvent::Resumed | FlowEvent::Decided { .. }) =>
                {
                    assert!(now.max_cost.is_none_or(|max| now.cost < max), "more is spent than may be");
                }
                _ => {}
            }
        }
    }
}

fn check_invariants(flow: &Flow, state: &FlowState) {
    for (name, rounds) in &state.rounds {
        assert!(
            flow.phase(name).unwrap().limit.is_none_or(|limit| *rounds <= limit),
            "{name} has {rounds} rounds"
        );
    }
    assert!(state.running.len() <= state.settings.jobs.max(1) as usize);
    let owned: Vec<usize> = state
        .running_lanes()
        .map(|(lane, _)| OWNED.iter().position(|owned| *owned == lane.owned[0]).unwrap())
        .collect();
    for (at, one) in owned.iter().enumerate() {
        assert!(owned[at + 1..].iter().all(|other| !OVERLAPS[*one][*other]), "{owned:?} run at once");
    }
    if state.at == FlowStatus::Running && !state.stopped {
        assert!(!state.running.is_empty() || state.merging, "nothing goes on and nobody was asked");
    }
    if let FlowStatus::Waiting { why } = &state.at {
        assert!(
            !why.is_empty() && state.running.is_empty() && !state.merging,
            "asked while something goes on"
        );
        assert!(!why.contains(&WaitReason::Cost) || state.max_cost.is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1") { 200_000 } else { 4_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn flow_never_advances_without_evidence(
        name in select(&["sdd", "staged"][..]),
        jobs in 0..4_u32,
        max_cost in proptest::option::of(1..100_u64),
        moves in proptest::collection::vec(moves(), 0..120),
    ) {
        let flow = shipped_flow(name);
        let settings = FlowSettings { jobs, max_cost, ..FlowSettings::default() };
        let mut events = vec![FlowEvent::Started { request: String::new(), settings, more: Value::Null }];
        let mut state = fold_events(&flow, &events);
        let mut watch = Watch::default();
        for next in moves {
            let Some(event) = next.next_event(&flow, &state, &events) else { continue };
            watch.observe_event(&state, &event);
            let (now, actions) = apply_event(&flow, state.clone(), &event);
            if matches!(actions[..], [FlowAction::Ignore { .. }]) {
                prop_assert_eq!(&now, &state);
            }
            watch.check_step(&flow, &state, &event, &now, &actions);
            check_invariants(&flow, &now);
            events.push(event);
            state = now;
        }
        let read: Vec<FlowEvent> = serde_json::from_str(&to_json(&events)).unwrap();
        prop_assert_eq!(&read, &events);
        prop_assert_eq!(&fold_events(&flow, &read), &state);
        prop_assert_eq!(serde_json::from_str::<FlowState>(&to_json(&state)).unwrap(), state);
    }
}

/// Returns the final state if a person repairs everything and approves.
fn repair_and_approve(flow: &Flow, mut state: FlowState) -> FlowState {
    let good = |lane: &Lane, phase: &str| -> BTreeSet<String> {
        let needs = flow.phase(phase).unwrap().on[0].needs.iter();
        let each = needs.flat_map(|need| lane.covers().iter().map(|id| need.replace("{lane}", id)));
        each.map(|need| need.replace("**", "a.md")).collect()
    };
    for number in 0..500 {
        let entry = state.entry;
        let event = match &state.at {
            FlowStatus::Done | FlowStatus::Rejected | FlowStatus::New => break,
            _ if state.is_paused() && !matches!(state.at, FlowStatus::Waiting { .. }) && number % 2 == 0 => {
                FlowEvent::Resumed
            }
            _ if state.is_paused() => FlowEvent::Decided { decision: FlowDecision::Approve },
            FlowStatus::Running if state.merging => {
                let lane = state.lanes[state.unsettled].lane.id.clone();
                FlowEvent::Merged { entry, lane, conflicts: Vec::new() }
            }
            FlowStatus::Running => match state.running_lanes().next().unwrap() {
                (lane, None) => {
                    FlowEvent::LaneStarted { entry, lane: lane.id.clone(), run: format!("w{number}") }
                }
                (lane, Some(run)) => lane_ended(entry, &lane.id, run.into(), good(lane, &state.phase), 1),
            },
            _ => {
                let groups = vec![LaneGroup { lanes: vec![lane("l0")], ..LaneGroup::default() }];
                FlowEvent::Entered { entry, groups, again: false, aside: Vec::new() }
            }
        };
        let (now, actions) = apply_event(flow, state, &event);
        assert!(!matches!(actions[..], [FlowAction::Ignore { .. }]), "{event:?} is ignored: {actions:?}");
        state = now;
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1") { 100_000 } else { 1_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// `decide`, `stop` and `resume` work in every state, and every path that a person takes ends.
    #[test]
    fn person_can_end_any_flow(
        name in select(&["sdd", "staged"][..]),
        jobs in 0..4_u32,
        max_cost in proptest::option::of(1..100_u64),
        moves in proptest::collection::vec(moves(), 0..60),
    ) {
        let flow = shipped_flow(name);
        let settings = FlowSettings { jobs, max_cost, ..FlowSettings::default() };
        let mut events = vec![FlowEvent::Started { request: String::new(), settings, more: Value::Null }];
        let mut state = fold_events(&flow, &events);
        for next in moves {
            let Some(event) = next.next_event(&flow, &state, &events) else { break };
            state = apply_event(&flow, state, &event).0;
            events.push(event);
        }
        if !state.has_ended() {
            let decided = |decision| apply_event(&flow, state.clone(), &FlowEvent::Decided { decision }).0;
            prop_assert_eq!(decided(FlowDecision::Reject).at, FlowStatus::Rejected);
            let changes = decided(FlowDecision::Changes("more".into()));
            prop_assert_eq!(&changes.at, &FlowStatus::Entering);
            let (stopped, _) = apply_event(&flow, state.clone(), &FlowEvent::Stopped);
            prop_assert!(stopped.stopped);
            let (rejected, _) = apply_event(&flow, stopped.clone(), &FlowEvent::Decided { decision: FlowDecision::Reject });
            prop_assert_eq!(rejected.at, FlowStatus::Rejected);
            for from in [state, stopped, changes] {
                prop_assert_eq!(repair_and_approve(&flow, from).at, FlowStatus::Done);
            }
        }
    }
}
