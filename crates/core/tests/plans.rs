//! Tests the gate before implementation: a coder's prompt is composed only if the whole plan is valid,
//! regardless of its author.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use callsheet_core::library::layout::Layout;
use callsheet_core::library::yaml::read_yaml;
use callsheet_core::submission::submit;
use callsheet_core::{
    Builtin, Listing, ListingEntry, ListingLimits, Request, SharedText, SourceError, SourceId, SourceRoot,
    Sources, compose,
};

const ORDER: &str = "\
groups:
- {group_id: lanes, mode: parallel, plans: [{file: plan_1.md, name: One}, {file: plan_2.md, name: Two}]}
- {group_id: last, mode: serial, plans: [{file: plan_3.md, name: Three}]}
needs_design: false
needs_docs: true
doc_files: [docs/a.md]
review_strategy: {severity: low, focus: []}
";

const OVERVIEW: &str = "\
# Plan

## Phase 1: contracts

Nothing to define.

## Phase 2

One and Two.

## Phase 3 (integration)

Three.

## Conflict map

| file | lanes | owner |
|------|:-----:|-------|
| `src/lib.rs` | 1, 3 | 3 |

## Deferred refactors

- Split the parser: it is short as yet
";

const ONE: &str = "\
# One

## Scope

This.

## Owned files

- src/one/**
- `src/lib.rs`

## Dependencies

None.

## Isolation

It alone owns them.
";

/// A session in memory, with the shipped files below it.
#[derive(Clone)]
struct Session(BTreeMap<String, String>);

impl Session {
    /// Returns a session with a valid, hand-written plan.
    fn hand_written() -> Self {
        let two = ONE.replace("src/one/**", "src/two/**").replace("- `src/lib.rs`\n", "");
        let files = [
            ("execution_plan.yaml", ORDER.to_owned()),
            ("plan.md", OVERVIEW.to_owned()),
            ("plan_1.md", ONE.to_owned()),
            ("plan_2.md", two),
            ("plan_3.md", "# Three\n\n## Owned files\n\n* src/lib.rs\n* docs/\n".to_owned()),
            ("tasks_1.md", "- [ ] Do one\n".to_owned()),
            ("tasks_2.md", "- [ ] Do two\n".to_owned()),
            ("tasks_3.md", "- [ ] Do three\n".to_owned()),
        ];
        Self(files.into_iter().map(|(path, text)| (format!("04_planning/{path}"), text)).collect())
    }

    fn with(mut self, file: &str, from: &str, to: &str) -> Self {
        let text = self.0.get_mut(&format!("04_planning/{file}")).unwrap();
        assert!(text.contains(from), "{from}");
        *text = text.replace(from, to);
        self
    }

    fn without(mut self, file: &str) -> Self {
        self.0.remove(&format!("04_planning/{file}")).unwrap();
        self
    }

    /// Returns the errors that prevent a coder's prompt, for sub-plan 1 and for the whole plan.
    fn list_errors(&self) -> String {
        let ask = |plan: Option<&str>| {
            let values = plan.map(|plan| ("plan", plan));
            let request = Request {
                recipe: Some("staged".into()),
                role: Some("coder".into()),
                values: values.into_iter().collect(),
                ..Request::default()
            };
            compose(&request, self).map(drop).map_err(|failure| failure.to_string()).err().unwrap_or_default()
        };
        let one = ask(Some("1"));
        assert_eq!(one, ask(None));
        one
    }

    fn submit_data(&mut self, tool: &str, data: &str) -> Result<(), String> {
        let data = read_yaml("data", &data.into()).unwrap();
        let submitted =
            submit(&*self, &Layout::default(), tool, &data).map_err(|failure| failure.to_string())?;
        submitted.changes.remove.iter().for_each(|path| drop(self.0.remove(path)));
        self.0.extend(submitted.changes.write);
        Ok(())
    }
}

impl Sources for Session {
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
        let below = self.0.keys().filter_map(|path| path.strip_prefix(dir.path())?.strip_prefix('/'));
        let entries = below.map(|path| ListingEntry { path: path.to_owned(), dir: false }).collect();
        Ok(Some(Listing { entries, ..Listing::default() }))
    }
}

#[test]
fn m16_valid_hand_written_plan_passes() {
    assert_eq!(Session::hand_written().list_errors(), "");
    let crlf = Session(
        Session::hand_written()
            .0
            .into_iter()
            .map(|(path, text)| (path, text.replace('\n', "\r\n")))
            .collect(),
    );
    assert_eq!(crlf.list_errors(), "");
}

/// Every error is refused with its line, and nothing else is refused.
#[test]
fn m16_plan_errors_have_line_numbers() {
    let good = Session::hand_written;
    let bad = |what: &str| format!("error[SubmissionBad]: {what}");
    let at = |what: &str, file: &str, line: usize, column: usize, shown: &str, marked: &str| {
        let pad = " ".repeat(line.to_string().len());
        let before = " ".repeat(shown.find(marked).unwrap());
        format!(
            "{}\n{pad} ┌─ 04_planning/{file}:{line}:{column}\n{line} │ {shown}\n{pad} │ {before}{}",
            bad(what),
            "^".repeat(marked.chars().count())
        )
    };
    let runs = "sub-plan 1 runs in the parallel group `lanes`";
    let no_bullet = "the line is not a bullet; expected one path or glob per bullet";
    let one_path = "expected one path or glob and nothing else; put one with spaces in backticks";
    let cases = [
        (
            good().without("tasks_2.md").without("plan.md"),
            "error[IncludeNotFound]: file not found: `04_planning/tasks_2.md`\n  = looked in session:04_planning/tasks_2.md\n\
             error[IncludeNotFound]: file not found: `04_planning/plan.md`\n  = looked in session:04_planning/plan.md"
                .to_owned(),
        ),
        (
            good().without("plan_2.md"),
            "error[IncludeNotFound]: file not found: `04_planning/plan_2.md`\n  = looked in session:04_planning/plan_2.md"
                .to_owned(),
        ),
        (
            good().with("execution_plan.yaml", "- {group_id: last, mode: serial, plans: [{file: plan_3.md, name: Three}]}\n", ""),
            bad("`04_planning/plan_3.md` (sub-plan 3) is in no group"),
        ),
        (
            good().with("execution_plan.yaml", "mode: serial", "mode: later"),
            bad("04_planning/execution_plan.yaml: `groups[2].mode` is `later`, not one of serial, parallel"),
        ),
        (
            good().with("execution_plan.yaml", "doc_files: [docs/a.md]", "doc_files: []"),
            format!(
                "{}\n  = hint: name the files that change, each owned by a sub-plan, or set `needs_docs: false`",
                bad("04_planning/execution_plan.yaml: `needs_docs` is true, but `doc_files` is empty")
            ),
        ),
        (
            good().with("execution_plan.yaml", "needs_docs: true", "needs_docs: false"),
            bad("04_planning/execution_plan.yaml: `needs_docs` is false, but `doc_files` has entries"),
        ),
        (
            good().with("execution_plan.yaml", "docs/a.md", "README.md"),
            format!(
                "{}\n  = hint: add it to the `owned_files` of the sub-plan that writes it",
                bad("04_planning/execution_plan.yaml: `doc_files[1]` is `README.md`, which no sub-plan owns")
            ),
        ),
        (
            good().with("plan_1.md", "## Isolation\n\nIt alone owns them.\n", ""),
            bad(&format!("`04_planning/plan_1.md` has no section `## Isolation`: {runs}")),
        ),
        (
            good().with("plan_1.md", "## Scope", "### Scope"),
            at(
                &format!("the heading has 3 signs; expected `## Scope`: {runs}"),
                "plan_1.md",
                3,
                1,
                "### Scope",
                "### Scope",
            ),
        ),
        (
            good().with("plan_1.md", "None.\n", "```\n## Isolation\n\nAlone.\n```\n").with("plan_1.md", "## Isolation\n\nIt alone", "It alone"),
            bad(&format!("`04_planning/plan_1.md` has no section `## Isolation`: {runs}")),
        ),
        (
            good().with("plan_1.md", "## Isolation", "<!--\n## Isolation\n-->"),
            bad(&format!("`04_planning/plan_1.md` has no section `## Isolation`: {runs}")),
        ),
        (
            good().with("plan_1.md", "None.", " "),
            at(&format!("section `## Dependencies` is empty: {runs}"), "plan_1.md", 12, 1, "## Dependencies", "## Dependencies"),
        ),
        (
            good().with("plan_1.md", "## Isolation", "## Scope\n\nMore.\n\n## Isolation"),
            at(&format!("duplicate section `## Scope`: {runs}"), "plan_1.md", 16, 1, "## Scope", "## Scope"),
        ),
        (
            good().with("plan_1.md", "- src/one/**", "src/one/**"),
            at(no_bullet, "plan_1.md", 9, 1, "src/one/**", "src/one/**"),
        ),
        (
            good().with("plan_1.md", "- src/one/**", "- src/one/** (new)"),
            at(one_path, "plan_1.md", 9, 1, "- src/one/** (new)", "- src/one/** (new)"),
        ),
        (
            good().with("plan_3.md", "docs/", "../docs/a.md"),
            at(
                "this is `../docs/a.md`, which is not a path inside the project: it contains `..`",
                "plan_3.md",
                6,
                1,
                "* ../docs/a.md",
                "* ../docs/a.md",
            ),
        ),
        (
            good().with("plan_2.md", "src/two/**", "src/**"),
            "error[SubmissionBad]: sub-plans 1 and 2 run at once in `lanes`, and both may write the same file: \
             `04_planning/plan_1.md:9` is `src/one/**`, `04_planning/plan_2.md:9` is `src/**`\n  \
             = hint: merge the two sub-plans, or move the shared files into a serial integration step\n\
             error[SubmissionBad]: sub-plans 1 and 2 run at once in `lanes`, and both may write the same file: \
             `04_planning/plan_1.md:10` is `src/lib.rs`, `04_planning/plan_2.md:9` is `src/**`\n  \
             = hint: merge the two sub-plans, or move the shared files into a serial integration step\n\
             error[SubmissionBad]: sub-plans 2 and 3 may write the same file, but no row of the conflict map names both: \
             `04_planning/plan_2.md:9` is `src/**`, `04_planning/plan_3.md:5` is `src/lib.rs`\n  \
             = hint: add a row with the file, both sub-plans and one owner"
                .to_owned(),
        ),
        (
            good().with("plan.md", "| `src/lib.rs` | 1, 3 | 3 |\n", ""),
            "error[SubmissionBad]: sub-plans 1 and 3 may write the same file, but no row of the conflict map names both: \
             `04_planning/plan_1.md:10` is `src/lib.rs`, `04_planning/plan_3.md:5` is `src/lib.rs`\n  \
             = hint: add a row with the file, both sub-plans and one owner"
                .to_owned(),
        ),
        (
            good().with("plan.md", "| 1, 3 | 3 |", "| 1, 3, 9 | 2 |"),
            format!(
                "{}\n{}",
                bad("`04_planning/plan.md:19` names sub-plan 9, which was not submitted"),
                bad("`04_planning/plan.md:19` gives `src/lib.rs` to sub-plan 2, which does not own it")
            ),
        ),
        (
            good().with("plan.md", "file | lanes | owner", "file | owner"),
            at("the columns of the conflict map are `file | lanes | owner`", "plan.md", 17, 1, "| file | owner |", "| file | owner |"),
        ),
        (
            good().with("plan.md", "| 1, 3 |", "| both |"),
            at("`both` is not the number of a sub-plan", "plan.md", 19, 1, "| `src/lib.rs` | both | 3 |", "| `src/lib.rs` | both | 3 |"),
        ),
        (
            good().with("plan.md", "## Phase 2\n\nOne and Two.\n", ""),
            bad("`04_planning/plan.md` has no section `## Phase 2`"),
        ),
        (
            good().with("plan.md", "## Conflict map", "## Conflicts"),
            bad("`04_planning/plan.md` has no section `## Conflict map`"),
        ),
        (
            good().with("plan.md", ": it is short as yet", ""),
            at(
                "the deferred refactor has no rationale; expected `- REFACTOR: RATIONALE`",
                "plan.md",
                23,
                1,
                "- Split the parser",
                "- Split the parser",
            ),
        ),
        (
            good().with("plan.md", "- Split the parser: it is short as yet", "The parser waits."),
            at(
                "the deferred refactor has no rationale; expected `- REFACTOR: RATIONALE`",
                "plan.md",
                23,
                1,
                "The parser waits.",
                "The parser waits.",
            ),
        ),
        (
            good().with("plan.md", "| 3 |\n", "| 3 |\n\n- src/lib.rs: 1\n"),
            at("the conflict map must be a table with the columns `file | lanes | owner`", "plan.md", 21, 1, "- src/lib.rs: 1", "- src/lib.rs: 1"),
        ),
        (
            good().with("tasks_2.md", "- [ ] Do two", "# Tasks\n\nDo two"),
            at("the checklist has no task; expected at least one `- [ ] TASK`", "tasks_2.md", 1, 1, "# Tasks", "# Tasks"),
        ),
        (
            good().with("tasks_2.md", "- [ ] Do two", "```\n- [ ] Do two\n```"),
            at("the checklist has no task; expected at least one `- [ ] TASK`", "tasks_2.md", 1, 1, "```", "```"),
        ),
        (
            good().with("execution_plan.yaml", "groups:\n", "groups:\n\t- x\n").with("plan.md", "## Phase 2\n\nOne and Two.\n", ""),
            "YAML".to_owned(),
        ),
    ];
    for (session, expected) in cases {
        let refused = session.list_errors();
        if expected == "YAML" {
            // An unreadable file does not hide other errors.
            let first = "error[SubmissionBad]: cannot read the file: ";
            let last = bad("`04_planning/plan.md` has no section `## Phase 2`");
            assert!(refused.starts_with(first) && refused.ends_with(&last), "{refused}");
            continue;
        }
        assert_eq!(refused, expected);
    }
    for (file, from, to) in [
        ("plan.md", "- Split the parser: it is short as yet", "None."),
        ("plan.md", "- Split the parser: it is short as yet", "- Split the parser: it is short\n  as yet"),
        ("plan.md", "- Split the parser", "These wait:\n\n- Split the parser"),
        ("tasks_1.md", "- [ ]", "Tasks\n\n  * [x]"),
    ] {
        assert_eq!(good().with(file, from, to).list_errors(), "", "{to}");
    }
}

/// A coder gets no prompt for a sub-plan that is not in the execution plan.
#[test]
fn m16_unplanned_sub_plan_is_refused() {
    let request = Request {
        recipe: Some("staged".into()),
        role: Some("coder".into()),
        values: [("plan", "4")].into(),
        ..Request::default()
    };
    assert_eq!(
        compose(&request, &Session::hand_written()).unwrap_err().to_string(),
        "error[RequestBad]: the execution plan has no sub-plan 4\n  = hint: its sub-plans: 1, 2, 3"
    );
}

/// The execution plan alone is a valid submission if the Markdown files exist, and the written file can be
/// submitted again.
#[test]
fn m16_written_plan_can_be_resubmitted() {
    let mut session = Session::hand_written();
    session.submit_data("submit_execution_plan", ORDER).unwrap();
    assert_eq!(session.list_errors(), "");
    let again = session.0["04_planning/execution_plan.yaml"].clone();
    let before = session.0.clone();
    session.submit_data("submit_execution_plan", &again).unwrap();
    assert_eq!(session.0, before);
    let mut alone = Session(BTreeMap::new());
    assert_eq!(
        alone.submit_data("submit_execution_plan", ORDER).unwrap_err(),
        "error[SubmissionBad]: the session has no overview `04_planning/plan.md`\n  \
         = hint: write it, or submit it as `plan_overview`, `phase_1`, `phase_2`, `phase_3`\n\
         error[SubmissionBad]: `groups[1].plans[1].file` names sub-plan 1, which was not submitted\n\
         error[SubmissionBad]: `groups[1].plans[2].file` names sub-plan 2, which was not submitted\n\
         error[SubmissionBad]: `groups[2].plans[1].file` names sub-plan 3, which was not submitted\n\
         error[SubmissionBad]: `doc_files[1]` is `docs/a.md`, which no sub-plan owns\n  \
         = hint: add it to the `owned_files` of the sub-plan that writes it"
    );
}
