//! `verify --all` verifies everything, regardless of its findings on the way, and ends with the worst.

use std::collections::BTreeSet;

use callsheet_core::ENGINE_VERSION;
use callsheet_core::record::{RecordBundle, list_blobs};
use callsheet_store::{Ledger, LedgerUrl, new_id};
use callsheet_testing::{CommandOutput, run_command};
use serde_json::{Value, json};

use crate::project::CanaryProject;

const LEDGER: &str = "l.db";

fn run(project: &CanaryProject, args: &[&str]) -> CommandOutput {
    let mut command = project.command();
    command.args(["--ledger", LEDGER]).args(args).env("ONE", "first secret value");
    run_command(command.env("TWO", "second secret value"))
}

fn record(project: &CanaryProject, args: &[&str]) -> String {
    let compose = ["--json", "compose", "-r", "layers", "--role", "keeper", "--record", "Wait."];
    let output = run(project, &[&compose, args].concat());
    assert_eq!(output.code, Some(0), "{}", output.err());
    json_of(&output)["run"].as_str().unwrap().to_owned()
}

fn json_of(output: &CommandOutput) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Records the same bundle again, with a change.
fn record_again(ledger: &mut Ledger, run: &str, change: impl FnOnce(&mut RecordBundle)) -> String {
    let run = ledger.find(run).unwrap().run.id;
    let composed = ledger.prompt_record(&run).unwrap();
    let digests = list_blobs(&composed).unwrap();
    let blobs = digests.into_iter().map(|digest| (digest, ledger.blob(digest).unwrap().unwrap())).collect();
    let mut kept = RecordBundle { composed, blobs };
    kept.composed.run.id = new_id().unwrap();
    change(&mut kept);
    ledger.record_prompt(&kept).unwrap();
    kept.composed.run.id.to_string()
}

fn create_project() -> CanaryProject {
    let project = CanaryProject::new();
    project.write(".callsheet/templates/identity/keeper.md", "The word is {{one}}. {{other}}");
    project
}

const ONE: [&str; 2] = ["--set-secret-env", "one=ONE"];
const TWO: [&str; 2] = ["--set-secret-env", "two=TWO"];
const NONE: [&str; 4] = ["--set", "one=x", "--set", "other=y"];

#[test]
fn sealed_prompt_needs_only_its_values() {
    let project = create_project();
    let other = ["--set", "other=y"];
    // The values marked as secret, the values given to verify it, and the values still needed.
    let plain = record(&project, &NONE);
    let unused = record(&project, &[&NONE[..], &TWO].concat());
    let used = record(&project, &[&ONE[..], &other].concat());
    let both = record(&project, &[&ONE[..], &TWO, &other].concat());
    let needs = |run: &str, given: &[&str]| {
        let output = run_json(&project, &[&["verify", run], given].concat());
        (output.0, output.1["sealed"].clone())
    };
    let one = |run: &str| json!([{ "run": run, "values": ["one"] }]);
    assert_eq!(needs(&plain, &[]), (Some(0), json!([])));
    assert_eq!(needs(&unused, &[]), (Some(0), json!([])));
    assert_eq!(needs(&unused, &TWO), (Some(0), json!([])));
    assert_eq!(needs(&used, &[]), (Some(12), one(&used)));
    assert_eq!(needs(&used, &TWO), (Some(12), one(&used)));
    assert_eq!(needs(&used, &ONE), (Some(0), json!([])));
    assert_eq!(needs(&both, &[]), (Some(12), one(&both)));
    assert_eq!(needs(&both, &TWO), (Some(12), one(&both)));
    assert_eq!(needs(&both, &ONE), (Some(0), json!([])));
    // A wrong value is reported, even if the value is not in the prompt.
    assert_eq!(needs(&used, &["--set-secret-env", "one=TWO"]), (Some(1), json!([])));
    assert_eq!(needs(&unused, &["--set-secret-env", "two=ONE"]), (Some(1), json!([])));
    let (code, told) = run_json(&project, &["verify", "--all"]);
    assert_eq!((code, &told["run_count"], &told["same_count"]), (Some(12), &json!(4), &json!(2)));
    assert_eq!(told["sealed"], json!([one(&used)[0], one(&both)[0]]));
    let (code, told) = run_json(&project, &[&["verify", "--all"], &ONE[..]].concat());
    assert_eq!((code, &told["same_count"]), (Some(0), &json!(4)));
    let text = run(&project, &["verify", "--all"]);
    let shown = text.out();
    for run in [&used, &both] {
        let line = format!(
            "error[VerifySecret]: run {run}: the prompt has secret values that are not recorded: one\n"
        );
        assert!(shown.contains(&line), "{shown}");
    }
    let counts = "prompts composed again, the same bytes: 2\nprompts that need a secret value: 2\nrecords in order: 4\n";
    assert!(shown.contains(counts), "{shown}");
    // A changed HMAC is detected, though the prompt contains no secret.
    let mut ledger = Ledger::open(&LedgerUrl::Sqlite(project.path().join(LEDGER))).unwrap();
    let forged = record_again(&mut ledger, &unused, |kept| {
        let sealed = kept.composed.sealed.as_mut().unwrap();
        sealed.text = sealed.text.replace(|_: char| true, "0");
    });
    assert_eq!(needs(&forged, &TWO).0, Some(1));
}

fn run_json(project: &CanaryProject, args: &[&str]) -> (Option<i32>, Value) {
    let output = run(project, &[&["--json"], args].concat());
    (output.code, json_of(&output))
}

/// Kinds of damage in a ledger: each is a case of its own, and all subsets of them are tried.
const KINDS: [&str; 5] = ["damaged", "differs", "sealed", "older", "newer"];

#[test]
fn worst_finding_sets_exit_code() {
    let some = |subset: &u32| crate::is_long() || subset.count_ones() <= 2 || subset.count_ones() == 5;
    for subset in (0..1_u32 << KINDS.len()).filter(some) {
        let kinds: BTreeSet<&str> = KINDS
            .iter()
            .enumerate()
            .filter(|(at, _)| subset & (1 << at) != 0)
            .map(|(_, kind)| *kind)
            .collect();
        let project = create_project();
        let path = project.path().join(LEDGER);
        let first = record(&project, &NONE);
        let mut ledger = Ledger::open(&LedgerUrl::Sqlite(path.clone())).unwrap();
        let mut of = |kind: &str, change: &dyn Fn(&mut RecordBundle)| {
            kinds.contains(kind).then(|| record_again(&mut ledger, &first, |kept| change(kept)))
        };
        of("differs", &|kept| kept.composed.run.phase = Some("review".into()));
        let older = of("older", &|kept| kept.composed.engine = ENGINE_VERSION - 1);
        let newer = of("newer", &|kept| kept.composed.engine = ENGINE_VERSION + 6);
        let sealed =
            kinds.contains("sealed").then(|| record(&project, &[&ONE[..], &["--set", "other=y"]].concat()));
        let last = record(&project, &NONE);
        drop(ledger);
        if kinds.contains("damaged") {
            let raw = rusqlite::Connection::open(&path).unwrap();
            raw.execute_batch("UPDATE runs SET role = 'other' WHERE seq = 1").unwrap();
        }
        let is = |kind| kinds.contains(kind);
        let wanted = match () {
            () if is("damaged") => 8,
            () if is("differs") => 1,
            () if is("sealed") => 12,
            () if is("older") || is("newer") => 11,
            () => 0,
        };
        let (code, told) = run_json(&project, &["verify", "--all", "--read-data"]);
        assert_eq!(code, Some(wanted), "{kinds:?}: {told}");
        let count = kinds.len() - usize::from(is("damaged")) + 2;
        assert_eq!(
            (&told["run_count"], &told["same_count"], &told["record_count"]),
            (&json!(count), &json!(2), &json!(count))
        );
        let engines: Vec<Value> =
            [(older.as_ref(), ENGINE_VERSION - 1), (newer.as_ref(), ENGINE_VERSION + 6)]
                .into_iter()
                .filter_map(|(run, engine)| Some(json!({ "run": run?, "engine": engine })))
                .collect();
        assert_eq!(told["other_engines"], json!(engines));
        let sealed: Vec<Value> = sealed.iter().map(|run| json!({ "run": run, "values": ["one"] })).collect();
        assert_eq!(told["sealed"], json!(sealed));
        assert_eq!(told["problems"].as_array().unwrap().len(), kinds.len(), "{told}");
        let text = run(&project, &["verify", "--all"]);
        assert_eq!(text.code, Some(wanted));
        for (run, age, engine) in
            [(&older, "older", ENGINE_VERSION - 1), (&newer, "newer", ENGINE_VERSION + 6)]
        {
            let Some(run) = run else { continue };
            let line = format!(
                "run {run}: version {engine} of the engine made it, which is {age} than this one ({ENGINE_VERSION})"
            );
            assert!(text.out().contains(&line), "{}", text.out());
            assert_eq!(run_json(&project, &["verify", run]).0, Some(11));
        }
        assert_eq!(run_json(&project, &["verify", &last]).0, Some(0));
    }
}

/// A run of another engine is verified completely, except for composing it again.
#[test]
fn run_of_other_engine_is_verified() {
    let project = create_project();
    let first = record(&project, &NONE);
    let secret = record(&project, &[&ONE[..], &["--set", "other=y"]].concat());
    let unused = record(&project, &[&NONE[..], &TWO].concat());
    let mut ledger = Ledger::open(&LedgerUrl::Sqlite(project.path().join(LEDGER))).unwrap();
    for engine in [0, ENGINE_VERSION + 1, u32::MAX] {
        let other = |kept: &mut RecordBundle| kept.composed.engine = engine;
        let as_it_was = record_again(&mut ledger, &first, other);
        let of_other_form = record_again(&mut ledger, &first, |kept| {
            other(kept);
            kept.composed.request = json!({ "a_form": "that is not known" });
        });
        let other_bytes = record_again(&mut ledger, &first, |kept| {
            other(kept);
            kept.composed.output.bytes += 1;
        });
        let other_version = record_again(&mut ledger, &first, |kept| {
            other(kept);
            kept.composed.output.origins[0].version = "0123456789ab".into();
        });
        let sealed = record_again(&mut ledger, &secret, other);
        let not_in_it = record_again(&mut ledger, &unused, other);
        let code = |run: &str, more: &[&str]| run_json(&project, &[&["verify", run], more].concat()).0;
        assert_eq!((code(&as_it_was, &[]), code(&of_other_form, &[])), (Some(11), Some(11)));
        assert_eq!((code(&other_bytes, &[]), code(&other_version, &[])), (Some(1), Some(1)));
        assert_eq!(
            (code(&sealed, &[]), code(&sealed, &ONE), code(&not_in_it, &[])),
            (Some(12), Some(11), Some(11))
        );
        let (_, told) = run_json(&project, &["verify", &sealed]);
        assert_eq!(told["other_engines"], json!([{ "run": sealed, "engine": engine }]));
        assert_eq!(told["sealed"], json!([{ "run": sealed, "values": ["one"] }]));
    }
}
