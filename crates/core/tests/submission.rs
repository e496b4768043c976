//! Tests submissions by cases: one folder for each case in `tests/submission/`.
//!
//! ```text
//! case.toml   tool = "submit_review", and the data in YAML
//! sources/    the files of the session before
//! expect      the files that are written, or all errors
//! ```
//!
//! `BLESS=1 cargo test -p callsheet-core --test submission` rewrites the expectations.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/case_sources.rs"]
mod case_sources;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_core::diag::Diagnostics;
use callsheet_core::library::yaml::read_yaml;
use callsheet_core::submission::{AcceptedSubmission, build_schema, list_tools, submit};
use callsheet_core::{Builtin, MemorySources, SourceId, SourceRoot, Sources};
use case_sources::Folder;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    tool: String,
    data: String,
}

fn case_sources(dir: &Path) -> Folder {
    Folder::new(dir.join("sources"), vec!["contracts/".into(), "templates/agents/".into()])
}

fn submit_data(sources: &dyn Sources, tool: &str, data: &str) -> Result<AcceptedSubmission, Diagnostics> {
    let data = read_yaml("data.yaml", &data.into())?;
    submit(sources, &Default::default(), tool, &data)
}

fn render_outcome(outcome: Result<AcceptedSubmission, Diagnostics>) -> String {
    let AcceptedSubmission { changes, preferences, questions } = match outcome {
        Ok(submitted) => submitted,
        Err(failure) => return format!("{failure}\n"),
    };
    let mut out = String::new();
    for (path, text) in changes.write {
        writeln!(out, "==> {path}\n{text}").unwrap();
    }
    for path in changes.remove {
        writeln!(out, "==> {path} is removed").unwrap();
    }
    for preference in preferences {
        writeln!(out, "==> for {}: {}", preference.role, preference.bullet).unwrap();
    }
    for question in questions {
        writeln!(out, "==> asks: {question}").unwrap();
    }
    out
}

#[test]
fn every_case_matches_its_expectations() {
    let bless = env::var_os("BLESS").is_some();
    let mut wrong = String::new();
    for dir in list_cases() {
        let text = fs::read_to_string(dir.join("case.toml")).unwrap();
        let case: Case = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let actual = render_outcome(submit_data(&case_sources(&dir), &case.tool, &case.data));
        if bless {
            fs::write(dir.join("expect"), &actual).unwrap();
        }
        let expected = fs::read_to_string(dir.join("expect")).unwrap();
        if actual != expected {
            writeln!(wrong, "{} should be\n{expected}\nbut is\n{actual}", dir.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn list_cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/submission");
    let mut folders: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// Returns the session after a submission, as sources for the next one.
fn sources_after(accepted: &AcceptedSubmission) -> MemorySources {
    let mut sources = MemorySources::with_builtin();
    for (path, text) in &accepted.changes.write {
        sources.put(SourceRoot::Session, path, text).unwrap();
    }
    sources
}

/// Written data can be submitted again and gives the same files.
#[test]
fn written_data_can_be_resubmitted() {
    for dir in list_cases() {
        let text = fs::read_to_string(dir.join("case.toml")).unwrap();
        let case: Case = toml::from_str(&text).unwrap();
        let Ok(first) = submit_data(&case_sources(&dir), &case.tool, &case.data) else { continue };
        let all = list_tools(&Builtin, &Default::default(), None).unwrap();
        let (_, contract) = all.iter().find(|(name, _)| *name == case.tool).unwrap();
        let submission = contract.submission.as_ref().unwrap();
        let left_out =
            submission.field.iter().any(|field| !field.kept && field.required == Default::default());
        let written = first.changes.write.iter().find(|(path, _)| path.ends_with(".yaml"));
        let (Some((_, yaml)), false, None) = (written, left_out, &submission.plan) else { continue };
        let again = submit_data(&sources_after(&first), &case.tool, yaml).unwrap();
        if submission.suffix.is_none() {
            assert_eq!(again.changes.write, first.changes.write, "{}", dir.display());
        }
    }
}

#[test]
fn unfilled_slots_are_reported() {
    let id = SourceId::new(SourceRoot::Project, "x.toml").unwrap();
    let (_, shipped) =
        callsheet_core::FILES.iter().find(|(path, _)| path.ends_with("submit_review.toml")).unwrap();
    let wrong = shipped.replace("{{summary}}", "{{summry}}").replace("{{issue}}", "{{> issue}} {{role}}");
    let failure = callsheet_core::read_contract(&id, &wrong.as_str().into()).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "error[ContractBad]: project:x.toml: nothing fills `summry`\n\
         error[ContractBad]: project:x.toml: nothing fills `> issue`\n\
         error[ContractBad]: project:x.toml: nothing fills `role`"
    );
}

#[test]
fn role_sees_only_its_tools() {
    let of = |role| {
        let tools = list_tools(&Builtin, &Default::default(), role).unwrap();
        tools.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(of(Some("reviewer")), ["submit_review"]);
    assert_eq!(
        of(Some("planner")),
        [
            "research_dispatch_code",
            "research_dispatch_web",
            "submit_execution_plan",
            "submit_plan",
            "submit_subplan"
        ]
    );
    assert_eq!(of(Some("designer")), Vec::<String>::new());
    assert_eq!(of(None).len(), 10);
}

#[test]
fn schema_is_closed_and_lists_required() {
    let tools = list_tools(&Builtin, &Default::default(), Some("coder")).unwrap();
    let submission = tools[0].1.submission.as_ref().unwrap();
    assert_eq!(
        build_schema(submission, &[]),
        json!({
            "type": "object",
            "properties": {
                "subplan_index": { "type": "integer", "minimum": 1, "description": "The number of the sub-plan" },
                "questions": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Questions that only the person can answer",
                },
            },
            "required": ["subplan_index"],
            "additionalProperties": false,
        })
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5u64).prop_map(Value::from),
        "[ -~\n\t]{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["pass", "fail", "plan_1.md", "serial", "parallel", "a/**", "..", ""])
            .prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "verdict",
        "summary",
        "findings",
        "issue",
        "recommendation",
        "role",
        "groups",
        "plans",
        "index",
        "subplans",
        "owned_files",
        "mode",
        "name",
        "title",
        "preferences",
        "target_role",
        "bullet",
    ]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(String::from), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any submission results in files inside the contract's folders or in errors.
    #[test]
    fn any_submission_stays_in_its_folders(value in any_value(), at in 0..10usize) {
        let tools = list_tools(&Builtin, &Default::default(), None).unwrap();
        let (name, _) = &tools[at];
        match submit(&Builtin, &Default::default(), name, &value) {
            Ok(submitted) => for path in submitted.changes.write.keys() {
                prop_assert!(path.starts_with('0') && !path.contains(".."), "{}", path);
            },
            Err(Diagnostics(diags)) => prop_assert!(!diags.is_empty()),
        }
    }

    /// YAML preserves any text.
    #[test]
    fn yaml_preserves_any_text(text in "\\PC{0,20}|[ -~\n\r\t:#'\"|>&*!%@`-]{0,30}|(yes|no|~|1|0x1|1e3|null|- a|\\? b)") {
        let data = json!({ "verdict": "pass", "summary": format!("x{text}x"), "commit_message": text });
        let first = submit(&Builtin, &Default::default(), "submit_review", &data).unwrap();
        let yaml = &first.changes.write["07_review/review.yaml"];
        let read = read_yaml("review.yaml", &yaml.as_str().into()).unwrap();
        let again = submit(&Builtin, &Default::default(), "submit_review", &read).unwrap();
        prop_assert_eq!(&again, &first, "{}", yaml);
        prop_assert_eq!(read["summary"].as_str().unwrap(), format!("x{text}x"));
    }
}
