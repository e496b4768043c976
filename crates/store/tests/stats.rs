//! The sums of `stats` equal a naive computation over the rows of random ledgers, on both engines.
//!
//! 12 ledgers of 40 runs; 400 with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::EndReason;
use callsheet_core::record::{
    CostEstimate, Event, Exit, Id, LaunchRecord, RecordBundle, Run, RunOutcome, build_record,
};
use callsheet_core::render::render;
use callsheet_core::request::Task;
use callsheet_core::{MemorySources, Request, SourceRecorder, compose};
use callsheet_store::{
    Ledger, LedgerUrl, ProjectFilter, RunFilter, RunRow, SpentCost, StatsKey, StatsRow, new_id,
};
use callsheet_testing::{Postgres, report_missing};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// A run and its end.
#[derive(Clone, Debug)]
struct Draft {
    task: Option<&'static str>,
    agent: Option<&'static str>,
    project: Option<&'static str>,
    started: &'static str,
    is_launched: bool,
    in_flow: bool,
    is_retry: bool,
    end: Option<(EndReason, i32)>,
    tokens: Option<(u64, u64, u64)>,
    reported: Option<f64>,
    estimated: Option<u64>,
    duration_ms: Option<u64>,
}

fn draft() -> impl Strategy<Value = Draft> {
    let end = option::weighted(
        0.9,
        (select(vec![EndReason::Exited, EndReason::Exited, EndReason::Timeout, EndReason::Lost]), 0..2_i32),
    );
    let times = vec![
        "2026-01-31T23:59:59.999999Z",
        "2026-02-01T00:00:00.000000Z",
        "2026-03-29T12:00:00.000000Z",
        "2025-07-01T04:30:00.000000Z",
    ];
    let number = || option::of(select(vec![0, 1, 999, 1_000_000, u64::MAX]));
    let who = (
        option::of(select(vec!["T-1", "T-2", "T '3'"])),
        option::of(select(vec!["claude", "codex"])),
        option::of(select(vec!["shop", "other"])),
        select(times),
    );
    let how = (any::<bool>(), prop::bool::weighted(0.2), any::<bool>(), end);
    let spent = (
        option::of((0..1_000_u64, 0..500_u64, 0..100_u64)),
        option::of(select(vec![0.0, 0.5, 1e300])),
        number(),
        number(),
    );
    (who, how, spent).prop_map(
        |(
            (task, agent, project, started),
            (is_launched, in_flow, is_retry, end),
            (tokens, reported, estimated, duration_ms),
        )| Draft {
            task,
            agent,
            project,
            started,
            is_launched,
            in_flow,
            is_retry,
            end,
            tokens,
            reported,
            estimated,
            duration_ms,
        },
    )
}

fn build(draft: &Draft, last: Option<&Id>) -> RecordBundle {
    let request = Request {
        recipe: Some("run".into()),
        instructions: Some("Go.".into()),
        task: draft.task.map(|id| Task { id: Some(id.into()), ..Task::default() }),
        agent: draft.agent.map(Into::into),
        role: Some("coder".into()),
        ..Request::default()
    };
    let recorder = SourceRecorder::new(MemorySources::with_builtin());
    let composed = compose(&request, &recorder).unwrap();
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    let run = Run::new(new_id().unwrap(), draft.started, &request, &composed.prompt.recipe).unwrap();
    let run = run.with_parent(last.filter(|_| draft.is_retry).cloned());
    let run = match draft.project {
        Some(project) => run.with_project(project).unwrap(),
        None => run,
    };
    let made = (&composed, &rendered, None);
    let mut kept = build_record(run, &request, &recorder.finish(), made, &[]).unwrap();
    let flow = draft.in_flow.then(|| ("flow".to_owned(), "00000000-0000-7000-8000-000000000001".to_owned()));
    let launch = LaunchRecord { flow: flow.into_iter().collect(), ..LaunchRecord::default() };
    kept.composed.launch = draft.is_launched.then_some(launch);
    kept
}

fn exit(draft: &Draft) -> Option<Exit> {
    let (ended, code) = draft.end.filter(|_| draft.is_launched)?;
    let mut exit = Exit::new(ended, Some(code));
    exit.duration_ms = draft.duration_ms;
    exit.report.cost_usd = draft.reported;
    if let Some((input, cached, output)) = draft.tokens {
        exit.report.input_tokens = Some(input);
        exit.report.cached_tokens = Some(cached);
        exit.report.all_input_tokens = Some(input + cached);
        exit.report.output_tokens = Some(output);
    }
    let estimate = |cost_microusd| CostEstimate {
        cost_microusd,
        model: "m".into(),
        as_of: "2026-01".into(),
        source: "builtin:prices/x.toml".into(),
    };
    exit.estimate = draft.estimated.map(estimate);
    Some(exit)
}

/// The limit of a number that is added up.
const MOST: u64 = 1_000_000_000_000_000;

fn key(row: &RunRow, key: StatsKey) -> Option<String> {
    let facts = row.facts.as_ref().unwrap();
    match key {
        StatsKey::Agent => row.run.agent.clone(),
        StatsKey::Phase => row.run.phase.clone(),
        StatsKey::Role => row.run.role.clone(),
        StatsKey::Task => row.run.task.clone().or_else(|| facts.task_key.clone()),
        // The tests run in UTC; the command's tests have other zones.
        StatsKey::Day => Some(row.run.started[..10].to_owned()),
        StatsKey::Template => {
            Some(format!("{}@{}", facts.template.clone()?, facts.template_version.clone()?))
        }
    }
}

fn naive(rows: &[RunRow], keys: &[StatsKey]) -> BTreeMap<Vec<Option<String>>, StatsRow> {
    let mut groups: BTreeMap<Vec<Option<String>>, Vec<&RunRow>> = BTreeMap::new();
    let is_run = |row: &&RunRow| row.facts.as_ref().unwrap().outcome != RunOutcome::Composed;
    for row in rows.iter().filter(is_run) {
        groups.entry(keys.iter().map(|name| key(row, *name)).collect()).or_default().push(row);
    }
    groups.into_iter().map(|(keys, rows)| (keys.clone(), sum(keys, &rows))).collect()
}

fn sum(keys: Vec<Option<String>>, rows: &[&RunRow]) -> StatsRow {
    let mut sums = StatsRow { keys, runs: rows.len() as u64, ..StatsRow::default() };
    let add = |to: &mut Option<u64>, number: Option<u64>| {
        *to = number.map(|number| to.unwrap_or(0) + number.min(MOST)).or(*to);
    };
    for outcome in RunOutcome::ALL {
        let count = rows.iter().filter(|row| row.facts.as_ref().unwrap().outcome == *outcome).count();
        if count > 0 {
            sums.outcomes.push((*outcome, count as u64));
        }
    }
    let mut tasks = BTreeMap::<_, Vec<(u64, bool)>>::new();
    for row in rows {
        let facts = row.facts.as_ref().unwrap();
        add(&mut sums.duration_ms, facts.duration_ms);
        add(&mut sums.input_tokens, facts.all_input_tokens);
        add(&mut sums.cached_tokens, facts.cached_tokens);
        add(&mut sums.output_tokens, facts.output_tokens);
        add(&mut sums.cost_microusd, facts.cost_microusd);
        sums.estimated_runs += u64::from(facts.cost_estimated);
        sums.unpriced_runs +=
            u64::from(facts.cost_microusd.is_none() && facts.outcome != RunOutcome::Running);
        if let Some(task) = &facts.task_key {
            let runs = tasks.entry((row.run.project.clone(), task.clone())).or_default();
            runs.push((row.seq, facts.outcome == RunOutcome::Succeeded));
        }
    }
    for mut runs in tasks.into_values() {
        runs.sort_unstable();
        if let Some(first) = runs.iter().position(|(_, good)| *good) {
            sums.succeeded_tasks += 1;
            sums.runs_until_success += first as u64 + 1;
        }
    }
    sums
}

fn prove(mut open: impl FnMut(usize) -> Ledger) {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    for case in 0..if long { 400 } else { 12 } {
        let mut ledger = open(case);
        let mut last = None;
        for _ in 0..40 {
            let draft = draft().new_tree(&mut runner).unwrap().current();
            let kept = build(&draft, last.as_ref());
            ledger.record_prompt(&kept).unwrap();
            let id = kept.composed.run.id.clone();
            if let Some(exit) = exit(&draft) {
                ledger.append(Some(&id), None, &Event::Exit(exit)).unwrap();
            }
            last = Some(id);
        }
        compare(&mut ledger);
    }
}

fn compare(ledger: &mut Ledger) {
    let shop = ProjectFilter { name: "shop".into(), unnamed: true };
    let time = |time: &str| Some(time.to_owned());
    for (project, since, until) in [
        (None, None, None),
        (Some(shop.clone()), None, None),
        (None, time("2026-02-01"), None),
        (Some(shop), time("2026-01"), time("2026-02-01T00:00:00.000000Z")),
    ] {
        let filter = RunFilter { project, since, until, limit: usize::MAX, ..RunFilter::default() };
        let rows = ledger.runs(&filter).unwrap();
        for keys in [
            &[][..],
            &[StatsKey::Agent],
            &[StatsKey::Task],
            &[StatsKey::Day, StatsKey::Agent],
            &[StatsKey::Template, StatsKey::Role, StatsKey::Phase],
            StatsKey::ALL,
        ] {
            let mut found = ledger.stats(&filter, keys).unwrap();
            assert_eq!(found.iter().map(|row| &row.keys).collect::<BTreeSet<_>>().len(), found.len());
            // The title is no sum.
            found.iter_mut().for_each(|row| row.title = None);
            let found: BTreeMap<_, _> = found.into_iter().map(|row| (row.keys.clone(), row)).collect();
            assert_eq!(found, naive(&rows, keys), "{keys:?} {filter:?}");
        }
        if let (Some(since), None) = (&filter.since, &filter.until) {
            let total = naive(&rows, &[]).remove(&Vec::new()).unwrap_or_default();
            let spent = SpentCost {
                microusd: total.cost_microusd.unwrap_or(0),
                estimated_runs: total.estimated_runs,
                unpriced_runs: total.unpriced_runs,
            };
            assert_eq!(ledger.spent_since(None, since).unwrap(), spent);
        }
    }
}

#[test]
fn sums_equal_naive_sums_sqlite() {
    prove(|_| Ledger::create(&LedgerUrl::Memory).unwrap());
}

#[test]
fn sums_equal_naive_sums_postgres() {
    match Postgres::start() {
        Ok(server) => prove(|case| {
            let database = server.create_database(&format!("stats{case}")).unwrap();
            Ledger::create(&LedgerUrl::Postgres(database)).unwrap()
        }),
        Err(why) => report_missing(&format!("statistics on PostgreSQL: {why}")),
    }
}
