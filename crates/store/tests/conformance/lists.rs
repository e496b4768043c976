//! Tests the lists of runs: their filters, their names and their tasks.

use callsheet_core::EndReason;
use callsheet_core::record::{
    Decided, DecidedBy, Event, Exit, Id, LaunchRecord, RecordedReply, Replied, RunOutcome,
};
use callsheet_store::{
    ExportScope, Ledger, LedgerError, ProjectFilter, RetentionPolicy, RunFilter, RunRow, export, import,
    new_id,
};
use serde_json::Value;

use crate::LedgerEngine;
use crate::prompts::record_bundle_after;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> Option<&'t str> {
        texts.get(self.below(texts.len() as u64 + 1) as usize).copied()
    }
}

fn record(
    ledger: &mut Ledger,
    (task, project): (Option<&str>, Option<&str>),
    parent: Option<Id>,
    change: impl FnOnce(&mut callsheet_core::record::Composed),
) -> Id {
    let mut kept = record_bundle_after("T-0", &[], parent);
    kept.composed.run.task = task.map(str::to_owned);
    kept.composed.run.project = project.map(str::to_owned);
    change(&mut kept.composed);
    ledger.record_prompt(&kept).unwrap();
    kept.composed.run.id
}

fn all(ledger: &mut Ledger) -> Vec<RunRow> {
    ledger.runs(&RunFilter { limit: usize::MAX, ..RunFilter::default() }).unwrap()
}

fn names(rows: &[RunRow]) -> Vec<String> {
    rows.iter().map(RunRow::name).collect()
}

const TEXTS: [&str; 4] = ["Fix the LOGIN form", "add Größe to the page", "remove login", ""];

pub(crate) fn filters_select_like_naive_search(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("filters");
    let mut numbers = Numbers(7);
    let flows = [new_id().unwrap(), new_id().unwrap()];
    let mut ids: Vec<Id> = Vec::new();
    for at in 0..80_u64 {
        let (task, project) = (numbers.pick(&["T-1", "T-2", "t-3"]), numbers.pick(&["a", "b"]));
        let parent = numbers.below(4).checked_sub(2).and_then(|_| ids.last().cloned());
        let id = record(&mut ledger, (task, project), parent, |composed| {
            composed.run.agent = numbers.pick(&["claude", "codex"]).map(str::to_owned);
            composed.run.phase = numbers.pick(&["plan", "review"]).map(str::to_owned);
            composed.run.role = numbers.pick(&["coder"]).map(str::to_owned);
            composed.run.started =
                format!("2026-01-{:02}T{:02}:00:00.000000Z", 1 + numbers.below(5), at % 24);
            composed.request["instructions"] = TEXTS[numbers.below(4) as usize].into();
            let mut launch = LaunchRecord::default();
            if let Some(flow) = flows.get(numbers.below(4) as usize) {
                launch.flow.insert("flow".into(), flow.to_string());
            }
            launch.host = ["m1", "m2"][numbers.below(2) as usize].into();
            composed.launch = (numbers.below(3) > 0).then_some(launch);
        });
        if numbers.below(3) > 0 {
            let code = i32::try_from(numbers.below(2)).unwrap();
            let ended =
                [EndReason::Exited, EndReason::Stopped, EndReason::Timeout][numbers.below(3) as usize];
            ledger.append(Some(&id), None, &Event::Exit(Exit::new(ended, Some(code)))).unwrap();
        }
        if numbers.below(4) == 0 {
            let replied = Replied { verdict: Some("PASS".into()), reply: RecordedReply::default() };
            ledger.append(Some(&id), None, &Event::Replied(replied)).unwrap();
        }
        ids.push(id);
    }
    let rows = all(&mut ledger);
    let mut selected = 0;
    for _ in 0..400 {
        let is = |text: Option<&str>| text.map(str::to_owned);
        let one_in = |numbers: &mut Numbers, most: u64| numbers.below(most) == 0;
        let filter = RunFilter {
            project: one_in(&mut numbers, 2)
                .then(|| ProjectFilter { name: "a".into(), unnamed: numbers.below(2) == 0 }),
            own: one_in(&mut numbers, 2),
            agent: is(one_in(&mut numbers, 3).then(|| numbers.pick(&["claude", "codex", "no"])).flatten()),
            phase: is(one_in(&mut numbers, 3).then(|| numbers.pick(&["plan", "review"])).flatten()),
            role: is(one_in(&mut numbers, 6).then_some("coder")),
            task: is(one_in(&mut numbers, 4).then(|| numbers.pick(&["T-1", "T-2"])).flatten()),
            task_key: is(one_in(&mut numbers, 6).then_some("T-1")),
            flow: one_in(&mut numbers, 4).then(|| flows[0].clone()),
            verdict: is(one_in(&mut numbers, 6).then_some("PASS")),
            outcome: one_in(&mut numbers, 4).then(|| RunOutcome::ALL[numbers.below(12) as usize]),
            failed: one_in(&mut numbers, 4),
            machine: is(one_in(&mut numbers, 6).then(|| numbers.pick(&["m1", "m2", "no"])).flatten()),
            number: one_in(&mut numbers, 9).then(|| numbers.below(40)),
            since: one_in(&mut numbers, 4).then(|| format!("2026-01-{:02}", 1 + numbers.below(5))),
            until: one_in(&mut numbers, 4).then(|| format!("2026-01-{:02}T12", 1 + numbers.below(5))),
            grep: is(one_in(&mut numbers, 3)
                .then(|| numbers.pick(&["login", "GRÖSSE", "größe", "t-3"]))
                .flatten()),
            before: one_in(&mut numbers, 5).then(|| 1 + numbers.below(150)),
            limit: 1 + numbers.below(90) as usize,
        };
        let wanted: Vec<u64> =
            rows.iter().filter(|row| filter.is_match(row)).take(filter.limit).map(|row| row.seq).collect();
        let found: Vec<u64> = ledger.runs(&filter).unwrap().iter().map(|row| row.seq).collect();
        assert_eq!(found, wanted, "{filter:?}");
        selected += found.len();
    }
    assert!(selected > 1000, "{selected}");
    let login = RunFilter { grep: Some("LOGIN".into()), limit: 100, ..RunFilter::default() };
    let by_text = ["Fix the LOGIN form", "remove login"];
    let wanted = rows.iter().filter(|row| by_text.contains(&row.facts.as_ref().unwrap().title())).count();
    assert_eq!(ledger.runs(&login).unwrap().len(), wanted);
}

pub(crate) fn numbers_are_given_once(engine: &LedgerEngine) {
    let place = engine.place("numbers");
    let mut ledger = Ledger::create(&place).unwrap();
    // Concurrent writers of two projects, which have equal task ids.
    let writers: Vec<_> = ["a", "b", "a", "b"]
        .into_iter()
        .map(|project| {
            let place = place.clone();
            std::thread::spawn(move || {
                let mut ledger = Ledger::open(&place).unwrap();
                for _ in 0..5 {
                    record(&mut ledger, (Some("T-1"), Some(project)), None, |_| {});
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let of = |ledger: &mut Ledger, name: &str| {
        let project = Some(ProjectFilter { name: name.into(), unnamed: false });
        names(&ledger.runs(&RunFilter { project, limit: 100, ..RunFilter::default() }).unwrap())
    };
    let ten: Vec<String> = (1..=10).rev().map(|number| format!("r{number}")).collect();
    assert_eq!((of(&mut ledger, "a"), of(&mut ledger, "b")), (ten.clone(), ten));
    // A number is not given again after its run is removed.
    let project = ProjectFilter { name: "a".into(), unnamed: false };
    let keep = RetentionPolicy { days: None, last: Some(0) };
    ledger.sweep_project(keep, Some(&project)).unwrap();
    assert_eq!(of(&mut ledger, "a"), Vec::<String>::new());
    record(&mut ledger, (Some("T-1"), Some("a")), None, |_| {});
    assert_eq!(of(&mut ledger, "a"), ["r11"]);
    // An imported run gets the next number; a run without a project gets one that no run has.
    let mut source = engine.ledger("numbers_source");
    record(&mut source, (Some("T-1"), Some("a")), None, |_| {});
    let mut bytes = Vec::new();
    export(&mut source, &ExportScope::All, &mut bytes).unwrap();
    assert!(!String::from_utf8(bytes.clone()).unwrap().contains("\"number\""));
    import(&mut ledger, &mut bytes.as_slice()).unwrap();
    record(&mut ledger, (None, None), None, |_| {});
    record(&mut ledger, (Some("T-1"), Some("b")), None, |_| {});
    assert_eq!(names(&all(&mut ledger))[..4], ["r14", "r13", "r12", "r11"].map(str::to_owned));
    // A ledger of one owner has one sequence, whatever its project is called.
    ledger.number_together();
    record(&mut ledger, (None, Some("renamed")), None, |_| {});
    assert_eq!(names(&all(&mut ledger))[0], "r15");
    let before = all(&mut ledger);
    ledger.reindex().unwrap();
    assert_eq!(all(&mut ledger), before);
    let checked = ledger.verify_all(true).unwrap().problems;
    assert!(checked.iter().all(|problem| !problem.what.contains("facts")), "{checked:?}");
}

pub(crate) fn runs_are_found_by_names(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("names");
    let first = record(&mut ledger, (Some("T-1"), Some("a")), None, |_| {});
    let second = record(&mut ledger, (Some("T-1"), Some("a")), None, |_| {});
    let named_like_run = record(&mut ledger, (Some("r1"), Some("a")), None, |_| {});
    let other = record(&mut ledger, (Some("last"), Some("b")), None, |_| {});
    let project = Some(ProjectFilter { name: "a".into(), unnamed: false });
    let among = RunFilter { project, own: true, ..RunFilter::default() };
    let mut find = |name: &str, among: &RunFilter| ledger.find_among(name, among).map(|row| row.run.id);
    assert_eq!(find("r1", &among), Ok(first.clone()));
    assert_eq!(find("R2", &among), Ok(second.clone()));
    assert_eq!(find("r3", &among), Ok(named_like_run.clone()));
    assert_eq!(find("T-1", &among), Ok(second.clone()));
    assert_eq!(find("last", &among), Ok(named_like_run));
    assert_eq!(find("last~2", &among), Ok(first.clone()));
    assert_eq!(find(first.as_str(), &among), Ok(first.clone()));
    // An id finds a run of any project; a name only one of its own.
    assert_eq!(find(other.as_str(), &among), Ok(other.clone()));
    for name in ["r4", "r0", "r", "last~9", "T-2", "x"] {
        assert_eq!(find(name, &among), Err(LedgerError::NoRun(name.into())), "{name}");
    }
    let labels = vec![format!("r1 {other} (b)"), format!("r1 {first} (a)")];
    assert_eq!(find("r1", &RunFilter::default()), Err(LedgerError::ManyRuns("r1".into(), labels)));
    assert_eq!(find("last", &RunFilter::default()), Ok(other));
}

pub(crate) fn newest_runs_stand_for_tasks(engine: &LedgerEngine) {
    let mut ledger = engine.ledger("task_list");
    let decide = |ledger: &mut Ledger, run: &Id, decision: &str| {
        let decided = Decided {
            by: DecidedBy::Yes,
            what: "T-1".into(),
            decision: decision.into(),
            detail: Value::Null,
        };
        ledger.append(Some(run), None, &Event::Decided(decided)).unwrap();
    };
    let tasks =
        |ledger: &mut Ledger, closed: bool| names(&ledger.newest_of_tasks(None, closed, None, 10).unwrap());
    let first = record(&mut ledger, (Some("T-1"), None), None, |_| {});
    let alone = record(&mut ledger, (None, None), None, |_| {});
    record(&mut ledger, (None, None), Some(alone), |_| {});
    record(&mut ledger, (Some("T-1"), None), None, |composed| {
        let flow = ("flow".to_owned(), new_id().unwrap().to_string());
        composed.launch = Some(LaunchRecord { flow: [flow].into(), ..LaunchRecord::default() });
    });
    // The retry stands for the run without a task, and the run of the flow for nothing.
    assert_eq!(tasks(&mut ledger, false), ["r3", "r1"]);
    decide(&mut ledger, &first, "close");
    assert_eq!(
        (tasks(&mut ledger, false), tasks(&mut ledger, true)),
        (vec!["r3".into()], vec!["r3".into(), "r1".into()])
    );
    decide(&mut ledger, &first, "reopen");
    assert_eq!(tasks(&mut ledger, false), ["r3", "r1"]);
    decide(&mut ledger, &first, "close");
    // A new run opens the task again.
    record(&mut ledger, (Some("T-1"), None), Some(first), |_| {});
    assert_eq!(tasks(&mut ledger, false), ["r5", "r3"]);
    let rows = ledger.newest_of_tasks(None, false, Some(9), 1).unwrap();
    assert_eq!(names(&rows), ["r5"]);
    let attempts: Vec<u64> = all(&mut ledger).iter().map(|row| row.facts.as_ref().unwrap().attempt).collect();
    assert_eq!(attempts, [2, 1, 2, 1, 1]);
}
