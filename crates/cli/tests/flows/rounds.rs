//! Tests the rounds of a flow: refused submissions and findings go back to the agent, questions and
//! violations to a person.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use callsheet_testing::run_command;
use serde_json::{Value, json};

use crate::project::{FlowProject, messages};

const RESUME: [&str; 4] = ["--json", "-q", "flow", "resume"];
const SESSION: &str = ".callsheet/sessions/add-a-login-to-the-site";
const CHANGE: &str = ".callsheet/changes/add-a-login-to-the-site";

fn decide_args<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["--json", "-q", "flow", "decide", "--yes"], words].concat()
}

/// Returns the ended runs of a phase, in order.
fn ended_runs(project: &FlowProject, phase: &str) -> Vec<String> {
    let ended = project
        .read_events()
        .into_iter()
        .filter(|event| event["data"]["phase"] == phase && event["event"] == "flow.lane_ended");
    ended.map(|event| event["data"]["detail"]["run"].as_str().unwrap().to_owned()).collect()
}

fn waiting_state(project: &FlowProject) -> (Value, Value, Value) {
    let status = project.read_status();
    (status["state"].clone(), status["phase"].clone(), messages(&status["waits_for"]))
}

/// Makes the agent run these lines before all others.
pub(crate) fn run_before_agent(project: &FlowProject, lines: &str) {
    let real = project.agent().with_extension("real");
    fs::rename(project.agent(), &real).unwrap();
    fs::write(project.agent(), format!("#!/bin/sh\n{lines}\nexec '{}'\n", real.display())).unwrap();
    fs::set_permissions(project.agent(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Creates a project whose architect submits an invalid architecture `times` times.
pub(crate) fn create_project_with_bad_architecture(times: u32) -> FlowProject {
    let project = FlowProject::new("staged.sh");
    let numbers: Vec<String> = (1..=times).map(|number| number.to_string()).collect();
    project.run_after_agent(&format!(
        "if [ \"$CALLSHEET_PHASE\" = architecting ]; then for n in {}; do \
         if mkdir \"$MEET_AT/bad$n\" 2> /dev/null; then \
         printf 'components: []\\ndata_models: 3\\n' > \"$CALLSHEET_SESSION/02_architecting/architecture.yaml\"; \
         break; fi; done; fi",
        numbers.join(" ")
    ));
    project
}

const ARCHITECTURE: &str = "02_architecting/architecture.yaml";

/// Returns all errors of the invalid architecture.
fn reasons() -> Vec<String> {
    let missing =
        ["interfaces_and_contracts", "cross_cutting_concerns", "technology_choices", "risks_and_mitigations"];
    let missing = missing.map(|field| format!("{ARCHITECTURE}: `{field}` is missing"));
    let mut all = vec![
        format!("{ARCHITECTURE}: `solution_overview` is missing"),
        format!("{ARCHITECTURE}: `components` has 0 entries; expected at least 1"),
    ];
    all.extend(missing);
    all.insert(3, format!("{ARCHITECTURE}: `data_models` is a number; expected a string; quote it"));
    all
}

#[test]
fn m9_refused_submission_returns_to_agent() {
    let project = create_project_with_bad_architecture(1);
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "3"])).code, Some(1));
    assert_eq!(project.read_status()["phase"], "completing");
    let runs = ended_runs(&project, "architecting");
    assert_eq!(runs.len(), 2);
    let shown = |run: &str| messages(&project.run_json(&["--json", "show", run])["refused"]);
    assert_eq!((shown(&runs[0]), shown(&runs[1])), (json!(reasons()), json!([])));
    let page = project.run(["show", &runs[0]]).out();
    let told: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("refused:  ")).collect();
    assert_eq!(told, reasons());
    let watched = project.read_events().into_iter().find(|event| {
        event["data"]["detail"]["run"] == runs[0].as_str() && event["event"] == "flow.lane_ended"
    });
    assert_eq!(watched.unwrap()["data"]["detail"]["refused"], json!(reasons()));
    let second = project.read_prompt(&runs[1]);
    let listed: String = reasons().iter().map(|reason| format!("- {reason}\n")).collect();
    assert!(second.contains(&listed), "{second}");
    assert!(second.contains("components: []\ndata_models: 3\n"), "{second}");
    assert!(!project.read_prompt(&runs[0]).contains(&listed));
}

#[test]
fn m9_third_refusal_asks_person() {
    let project = create_project_with_bad_architecture(3);
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "3"])).code, Some(1));
    let reason = format!("the submission of `architecting` was refused: {}", reasons().join("; "));
    assert_eq!(waiting_state(&project), (json!("waiting"), json!("architecting"), json!([reason])));
    assert_eq!(ended_runs(&project, "architecting").len(), 3);
    let status = project.read_page();
    assert!(status.contains(&format!("  refused    all: {}\n", reasons()[0])), "{status}");
    assert!(status.contains("  phase      architecting, round 1\n"), "{status}");
    assert_eq!(project.run(decide_args(&["changes", "Look at the form"])).code, Some(1));
    assert_eq!(project.read_status()["phase"], "completing");
    let last = ended_runs(&project, "architecting").pop().unwrap();
    assert!(project.read_prompt(&last).contains("Look at the form"));
}

#[test]
fn m15_fix_round_answers_every_finding() {
    let project = FlowProject::new("staged.sh");
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "3"])).code, Some(1));
    assert_eq!(project.read_status()["phase"], "completing");
    let session = project.path().join(SESSION);
    let fix = project.read_prompt(&ended_runs(&project, "fixing")[0]);
    let finding = "### R1.1\n\nSeverity: high\n\nIt ends too early.\n\nRecommendation:\n\nGo on.";
    assert!(fix.contains(finding), "{fix}");
    let fixes = "findings:\n  - id: R1.1\n    finding: It ends too early.\n    reported: COMPLETED\nchanged_files:\n  - src/fixed.txt\n";
    assert_eq!(fs::read_to_string(session.join("07_review/fixes.yaml")).unwrap(), fixes);
    let second = project.read_prompt(&ended_runs(&project, "reviewing")[1]);
    assert!(second.contains(finding) && second.contains(fixes), "{second}");
    assert!(second.starts_with("# Review, round 2\n"), "{second}");
    // If a fix round does not report on every finding, the flow asks a person.
    let project = FlowProject::new("staged.sh");
    let silent = project.agent().with_extension("silent");
    fs::rename(project.agent(), &silent).unwrap();
    let text = format!("#!/bin/sh\n'{}' | sed s/R1.1/1/\n", silent.display());
    fs::write(project.agent(), text).unwrap();
    fs::set_permissions(project.agent(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "3"])).code, Some(1));
    let reason = "`fixing` cannot continue to `reviewing`: it lacks reply.complete";
    assert_eq!(waiting_state(&project), (json!("waiting"), json!("fixing"), json!([reason])));
}

/// Creates a project whose agent (`quick.sh`) also prints `words` in the first `times` runs of a phase.
fn create_project_saying(phase: &str, times: u32, words: &str) -> FlowProject {
    let project = FlowProject::new("quick.sh");
    let numbers: Vec<String> = (1..=times).map(|number| number.to_string()).collect();
    project.run_after_agent(&format!(
        "if [ \"$CALLSHEET_PHASE\" = {phase} ]; then for n in {}; do \
         if mkdir \"$MEET_AT/said$n\" 2> /dev/null; then printf '\\n{words}\\n'; break; fi; done; fi",
        numbers.join(" ")
    ));
    project
}

#[test]
fn t5_question_always_waits_for_person() {
    let project = create_project_saying("plan", 1, "<question>Which database,\\nand why?</question>");
    assert_eq!(project.run(project.start_args("sdd", &[])).code, Some(1));
    let reason = "`plan` asks: Which database,\nand why?";
    assert_eq!(waiting_state(&project), (json!("waiting"), json!("plan"), json!([reason])));
    assert_eq!(project.read_status()["questions"], json!(["Which database,\nand why?"]));
    // Resuming is not an answer.
    assert_eq!(project.run(RESUME).code, Some(1));
    assert_eq!(project.read_status()["questions"], json!(["Which database,\nand why?"]));
    let done = project.run(decide_args(&["answer", "PostgreSQL, we have it."]));
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
    assert_eq!(
        done.lines_json().last().unwrap()["folder"],
        ".callsheet/changes/archive/add-a-login-to-the-site"
    );
    let changes = project.path().join(".callsheet/changes/archive/add-a-login-to-the-site/CHANGES.md");
    let words = "> Which database,\n> and why?\n\nPostgreSQL, we have it.\n";
    assert_eq!(fs::read_to_string(changes).unwrap(), format!("## plan\n\n{words}"));
    // Only the planner gets the person's answer to the planner.
    let has: BTreeMap<&str, bool> = ["plan", "challenge", "implement", "review", "archive"]
        .map(|phase| {
            (phase, project.read_prompt(ended_runs(&project, phase).last().unwrap()).contains(words))
        })
        .into();
    let expected =
        [("plan", true), ("challenge", false), ("implement", false), ("review", false), ("archive", false)];
    assert_eq!(has, BTreeMap::from(expected));
    assert_eq!(ended_runs(&project, "plan").len(), 2);
}

#[test]
fn t5_asking_phase_gets_answer() {
    for phase in ["challenge", "implement", "review", "archive"] {
        let project = create_project_saying(phase, 1, "<question>Which one?</question>");
        assert_eq!(project.run(project.start_args("sdd", &[])).code, Some(1), "{phase}");
        let (state, at, why) = waiting_state(&project);
        assert_eq!((state, at), (json!("waiting"), json!(phase)));
        assert!(why[0].as_str().unwrap().ends_with(" asks: Which one?"), "{why}");
        let done = project.run(decide_args(&["answer", "The second"]));
        assert_eq!((done.code, done.err().as_str()), (Some(0), ""), "{phase}");
        let prompts: Vec<bool> = ended_runs(&project, phase)
            .iter()
            .map(|run| project.read_prompt(run).contains("> Which one?\n\nThe second\n"))
            .collect();
        assert_eq!((prompts[0], prompts.last()), (false, Some(&true)), "{phase}");
    }
    let project = create_project_saying("plan", 0, "");
    assert_eq!(
        run_command(project.command_with(&project.start_args("sdd", &[])).env("FAILS", "plan")).code,
        Some(1)
    );
    assert_eq!(project.run(["flow", "decide", "--yes", "answer", "Nobody asked"]).code, Some(9));
}

#[test]
fn t3_archive_can_fail() {
    for (status, lacks) in [("FAILED", true), ("COMPLETED", false)] {
        let project = FlowProject::new("quick.sh");
        let start = project.start_args("sdd", &[]);
        let ended = run_command(project.command_with(&start).env("ARCHIVES", status));
        assert_eq!(ended.code, Some(i32::from(lacks)));
        if !lacks {
            let report = project.path().join(".callsheet/changes/archive/add-a-login-to-the-site/ARCHIVE.md");
            let marker = "<task_status id=\"archive\">COMPLETED</task_status>";
            assert_eq!(fs::read_to_string(report).unwrap(), format!("Archived.\n\n{marker}\n"));
            continue;
        }
        let reason = "`archive` cannot continue to the end: it lacks reply.complete";
        assert_eq!(waiting_state(&project), (json!("waiting"), json!("archive"), json!([reason])));
        assert_eq!(project.read_status()["folder"], CHANGE);
    }
}

/// If the project has a changelog, an archive is done only if a run of the flow changed it.
#[test]
fn t3_archive_needs_changelog_entry() {
    let reason = json!(["`archive` cannot continue to the end: it lacks changelog-or-none"]);
    for (name, phase, act, done) in [
        ("CHANGELOG.md", "archive", "true", false),
        ("Changelog", "archive", "true", false),
        ("changelog.rst", "archive", "touch changelog.rst", false),
        ("CHANGELOG.md", "archive", "cp CHANGELOG.md NEWS.md", false),
        ("CHANGELOG.md", "archive", "mkdir -p docs && echo new > docs/CHANGELOG.md", false),
        ("CHANGELOG.md", "archive", "echo new >> CHANGELOG.md", true),
        ("CHANGELOG.md", "archive", "rm CHANGELOG.md", false),
        ("NEWS", "archive", "true", false),
        ("HISTORY.rst", "archive", "echo new > NEWS", false),
        ("Changes.md", "archive", "echo new >> Changes.md", true),
        ("CHANGELOG.md", "implement", "rm -f CHANGELOG.md", false),
        ("CHANGELOG.md", "implement", "echo new >> CHANGELOG.md", true),
        ("docs.md", "archive", "echo new > CHANGELOG.md", true),
        ("changelog-tool.md", "archive", "true", true),
    ] {
        let project = FlowProject::new("quick.sh");
        fs::write(project.path().join(name), "old\n").unwrap();
        run_before_agent(&project, &format!("if [ \"$CALLSHEET_PHASE\" = {phase} ]; then {act}; fi"));
        let ended = project.run(project.start_args("sdd", &[]));
        assert_eq!(ended.code, Some(i32::from(!done)), "{name} {phase} {act}");
        if !done {
            assert_eq!(
                waiting_state(&project),
                (json!("waiting"), json!("archive"), reason.clone()),
                "{name} {act}"
            );
            assert_eq!(project.run(decide_args(&["approve"])).code, Some(0), "{name} {act}");
        }
    }
}

#[test]
fn t6_pass_with_severe_finding_conflicts() {
    let project = FlowProject::new("quick.sh");
    // The agent's own marker follows.
    run_before_agent(
        &project,
        "if [ \"$CALLSHEET_PHASE\" = review ] && mkdir \"$MEET_AT/once\" 2> /dev/null; then \
         printf '## Findings\\n\\n### 1. HIGH No label\\n\\nText.\\n\\n'; fi\n\
         if [ \"$CALLSHEET_PHASE\" = implement ]; then printf '<task_status id=\"R1.1\">COMPLETED</task_status>\\n\\n'; fi",
    );
    let done = project.run(project.start_args("sdd", &[]));
    assert_eq!((done.code, done.err().as_str()), (Some(0), ""));
    let implemented = ended_runs(&project, "implement");
    assert_eq!((implemented.len(), ended_runs(&project, "review").len()), (3, 2));
    assert!(project.read_prompt(&implemented[2]).contains("- [ ] R1.1 HIGH No label"));
}

/// Each finding becomes a task, regardless of the format of the list, and a severe one sends the change back.
#[test]
fn t6_every_listed_finding_becomes_task() {
    let table = "| # | severity | finding |\\n|---|---|---|\\n| 1 | high | no label |\\n| 2 | low | leaks |";
    for (review, tasks) in [
        ("- HIGH: no label\\n- LOW: leaks", ["R1.1 HIGH: no label", "R1.2 LOW: leaks"]),
        (table, ["R1.1 high – no label", "R1.2 low – leaks"]),
        ("### 1. No label\\n\\n**Severity:** high\\n\\n### 2. Leaks", ["R1.1 No label", "R1.2 Leaks"]),
    ] {
        let project = FlowProject::new("quick.sh");
        run_before_agent(
            &project,
            &format!(
                "if [ \"$CALLSHEET_PHASE\" = review ] && mkdir \"$MEET_AT/once\" 2> /dev/null; then \
                 printf '## Findings\\n\\n%b\\n\\n' '{review}'; fi\n\
                 if [ \"$CALLSHEET_TASK\" = R1.1,R1.2 ]; then for id in R1.1 R1.2; do \
                 printf '<task_status id=\"%s\">COMPLETED</task_status>\\n\\n' $id; done; fi"
            ),
        );
        let done = project.run(project.start_args("sdd", &[]));
        assert_eq!((done.code, done.err().as_str()), (Some(0), ""), "{review}");
        let implemented = ended_runs(&project, "implement");
        assert_eq!(implemented.len(), 3, "{review}");
        let prompt = project.read_prompt(&implemented[2]);
        assert!(tasks.iter().all(|task| prompt.contains(&format!("- [ ] {task}\n"))), "{prompt}");
    }
}

/// A researcher and the author of the summary get the answers to their questions, even if their work looks
/// done.
#[test]
fn t5_session_agents_get_their_answers() {
    let project = FlowProject::new("staged.sh");
    run_before_agent(
        &project,
        "topic=$CALLSHEET_SESSION/03_research/code-auth\n\
         if [ \"$CALLSHEET_PHASE\" = architecting ] && [ ! -e \"$topic\" ]; then \
         mkdir -p \"$topic\"; echo 'How?' > \"$topic/request.md\"; exit 0; fi\n\
         if [ \"$CALLSHEET_PHASE\" = research ]; then echo '# So' > \"$topic/summary.md\"; touch \"$topic/done\"; fi\n\
         case \"$CALLSHEET_PHASE\" in research | completing) if mkdir \"$MEET_AT/$CALLSHEET_PHASE\" 2> /dev/null; then \
         echo '<question>Which one?</question>'; fi ;; esac",
    );
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "3"])).code, Some(1));
    let asks = |phase: &str, lane: &str| {
        let why = json!([format!("`{lane}` asks: Which one?")]);
        assert_eq!(waiting_state(&project), (json!("waiting"), json!(phase), why));
        let done = project.run(decide_args(&["answer", "The second"]));
        assert_eq!((done.code, done.err().as_str()), (Some(1), ""), "{phase}");
        let prompts: Vec<bool> = ended_runs(&project, phase)
            .iter()
            .map(|run| project.read_prompt(run).contains("> Which one?\n\nThe second\n"))
            .collect();
        assert_eq!(prompts, [false, true], "{phase}");
    };
    asks("research", "code-auth");
    asks("completing", "completing");
    let decision = json!(["`completing` needs a decision"]);
    assert_eq!(waiting_state(&project), (json!("waiting"), json!("completing"), decision));
}

/// The files that a phase needs exist, but its submission is refused: it runs again, and then the flow asks a
/// person.
#[test]
fn m9_refused_submission_blocks_complete_phase() {
    for (times, ran) in [(1, 2), (3, 3)] {
        let project = FlowProject::new("staged.sh");
        run_before_agent(
            &project,
            &format!(
                "if [ \"$CALLSHEET_PHASE\" = product_management ]; then \
                 mkdir -p \"$CALLSHEET_SESSION/01_product_management\"; \
                 done=\"$CALLSHEET_SESSION/01_product_management/done\"; : > \"$done\"; \
                 for n in $(seq {times}); do if mkdir \"$MEET_AT/bad$n\" 2> /dev/null; then \
                 printf 'preferences: [{{target_role: nobody, bullet: x}}]\\n' > \"$done\"; break; fi; done; exit 0; fi"
            ),
        );
        let start = project.start_args("staged", &["--jobs", "3", "--with", "product_management"]);
        assert_eq!(project.run(&start).code, Some(1));
        assert_eq!(ended_runs(&project, "product_management").len(), ran);
        let (_, phase, why) = waiting_state(&project);
        match times {
            1 => assert_eq!(phase, "completing", "{why}"),
            _ => {
                assert_eq!(phase, "product_management");
                assert!(
                    why[0]
                        .as_str()
                        .unwrap()
                        .starts_with("the submission of `product_management` was refused: 01_"),
                    "{why}"
                );
            }
        }
    }
}

/// Each error in a hand-written plan is reported once.
#[test]
fn m9_plan_overlap_is_reported_once() {
    let project = FlowProject::new("staged.sh");
    let lane = "## Scope\\n\\nX.\\n\\n## Owned files\\n\\n- src/**\\n\\n## Dependencies\\n\\nNone.\\n\\n## Isolation\\n\\nX.\\n";
    run_before_agent(
        &project,
        &format!(
            "if [ \"$CALLSHEET_PHASE\" = planning ]; then mkdir -p \"$CALLSHEET_SESSION/04_planning\"; \
             cd \"$CALLSHEET_SESSION/04_planning\"; cat > execution_plan.yaml <<'END'\n\
             groups:\n- {{group_id: g, mode: parallel, plans: [{{file: plan_1.md, name: A}}, {{file: plan_2.md, name: B}}]}}\n\
             needs_design: false\nneeds_docs: false\ndoc_files: []\nreview_strategy: {{severity: low, focus: []}}\nEND\n\
             printf '## Phase 1\\n\\nX.\\n\\n## Phase 2\\n\\nX.\\n\\n## Phase 3\\n\\nX.\\n\\n## Conflict map\\n\\nNone.\\n' > plan.md\n\
             for n in 1 2; do printf '{lane}' > plan_$n.md; echo '- [ ] X' > tasks_$n.md; done; exit 0; fi"
        ),
    );
    assert_eq!(project.run(project.start_args("staged", &[])).code, Some(1));
    let refused = messages(&project.read_status()["refused"][0]["reasons"]);
    let refused: Vec<&str> = refused.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("sub-plans 1 and 2 run at once in `g`"), "{refused:?}");
}

#[test]
fn every_phase_gets_its_environment() {
    for (agent, flow) in [("sdd.sh", "sdd"), ("staged.sh", "staged")] {
        let project = FlowProject::new(agent);
        project.run_after_agent("env | grep ^CALLSHEET_ | sort > \"$MEET_AT/env.$CALLSHEET_RUN\"");
        project.run(project.start_args(flow, &["--jobs", "3"]));
        let status = project.read_status();
        let mut seen = BTreeSet::new();
        for event in project.read_events().iter().filter(|event| event["event"] == "flow.lane_ended") {
            let (phase, detail) = (event["data"]["phase"].as_str().unwrap(), &event["data"]["detail"]);
            let run = detail["run"].as_str().unwrap();
            let text = fs::read_to_string(project.meet_dir().join(format!("env.{run}"))).unwrap();
            let env: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
            let of = |name: &str| env.get(format!("CALLSHEET_{name}").as_str()).copied().unwrap_or_default();
            assert_eq!((of("PHASE"), of("LANE")), (phase, detail["lane"].as_str().unwrap()), "{text}");
            assert_eq!((of("FLOW"), of("RUN")), (status["flow"].as_str().unwrap(), run), "{text}");
            assert!(!of("ROLE").is_empty() && !of("TASK").is_empty() && !of("SESSION").is_empty(), "{text}");
            seen.insert((phase.to_owned(), of("ROLE").to_owned(), of("TASK").to_owned()));
            let row = project.run_json(&["--json", "show", run]);
            assert_eq!(row["phase"], phase);
        }
        let all = |rows: &[(&str, &str, &str)]| -> BTreeSet<(String, String, String)> {
            rows.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into())).collect()
        };
        let name = "add-a-login-to-the-site";
        let expected = match flow {
            "sdd" => all(&[
                ("plan", "planner", name),
                ("challenge", "reviewer", name),
                ("implement", "coder", "1.1"),
                ("implement", "coder", "1.2"),
                ("implement", "coder", "R1.1"),
                ("review", "reviewer", name),
                ("archive", "writer", "archive"),
            ]),
            _ => all(&[
                ("architecting", "architect", name),
                ("planning", "planner", name),
                ("implementing", "coder", "1"),
                ("implementing", "coder", "2"),
                ("implementing", "coder", "3"),
                ("reviewing", "reviewer", "reviewer"),
                ("fixing", "coder", "R1.1"),
                ("completing", "reviewer", name),
            ]),
        };
        assert_eq!(seen, expected);
        let log =
            project.run_json(&["--json", "log", "--phase", if flow == "sdd" { "review" } else { "fixing" }]);
        assert_eq!(log["items"].as_array().map(Vec::len), Some(if flow == "sdd" { 2 } else { 1 }), "{log}");
    }
}

#[test]
fn approved_violation_lets_flow_continue() {
    let project = FlowProject::new("staged.sh");
    let start = project.start_args("staged", &["--jobs", "3"]);
    assert_eq!(run_command(project.command_with(&start).env("STRAYS", "2")).code, Some(1));
    let clean = (
        json!("waiting"),
        json!("implementing"),
        json!(["`2` cannot continue to `reviewing`: it lacks clean"]),
    );
    assert_eq!(waiting_state(&project), clean);
    assert_eq!(project.run(RESUME).code, Some(1));
    assert_eq!(waiting_state(&project), clean);
    let ended = project
        .read_events()
        .into_iter()
        .find(|event| event["event"] == "flow.lane_ended" && event["data"]["detail"]["lane"] == "2");
    let run = ended.unwrap()["data"]["detail"]["run"].as_str().unwrap().to_owned();
    assert_eq!(project.run(["decide", &run, "stray.txt", "--approve", "--yes"]).code, Some(0));
    assert_eq!(project.run(RESUME).code, Some(1));
    assert_eq!(project.read_status()["phase"], "completing");
    assert_eq!(fs::read_to_string(project.path().join("stray.txt")).unwrap(), "stray\n");
    assert_eq!(fs::read_to_string(project.path().join("src/p2/part.txt")).unwrap(), "part 2\n");
    // A rejection is not an approval.
    let project = FlowProject::new("staged.sh");
    assert_eq!(
        run_command(project.command_with(&project.start_args("staged", &["--jobs", "3"])).env("STRAYS", "2"))
            .code,
        Some(1)
    );
    let run = ended_runs(&project, "implementing")
        .into_iter()
        .find(|run| project.run(["-q", "decide", run, "stray.txt", "--reject", "--yes"]).code == Some(0));
    assert!(run.is_some());
    assert_eq!(project.run(RESUME).code, Some(1));
    assert_eq!(waiting_state(&project), clean);
}

#[test]
fn m6_approved_preferences_are_stored() {
    let project = FlowProject::new("staged.sh");
    project.run_after_agent(
        "if [ \"$CALLSHEET_PHASE\" = architecting ]; then printf 'preferences:\\n- {target_role: coder, bullet: Return errors}\\n\
         - {target_role: planner, bullet: Small steps}\\n' >> \"$CALLSHEET_SESSION/02_architecting/architecture.yaml\"; fi",
    );
    assert_eq!(project.run(project.start_args("staged", &["--jobs", "3"])).code, Some(1));
    let both =
        json!([{ "role": "coder", "text": "Return errors" }, { "role": "planner", "text": "Small steps" }]);
    assert_eq!(project.read_status()["proposed"], both);
    let file = |role: &str| project.path().join(format!(".callsheet/prompts/agents/{role}.md"));
    assert!(!file("coder").exists() && !file("planner").exists());
    let page = project.read_page();
    assert!(page.contains("  proposed   coder: Return errors\n"));
    let mut by_agent = project.command_with(&["prefs", "approve", "--yes"]);
    assert_eq!(run_command(by_agent.env("CALLSHEET_RUN", "x")).code, Some(9));
    let approved = project.run_json(&["--json", "prefs", "approve", "--yes", "coder"]);
    assert_eq!(approved["added"], json!([{ "role": "coder", "text": "Return errors" }]));
    assert_eq!(fs::read_to_string(file("coder")).unwrap(), "## Approved Preferences\n\n- Return errors\n");
    assert_eq!(project.read_status()["proposed"], json!([{ "role": "planner", "text": "Small steps" }]));
    assert_eq!(project.run(["prefs", "approve", "--yes", "coder"]).code, Some(1));
    assert_eq!(project.run(["prefs", "approve", "--yes"]).code, Some(0));
    assert_eq!(project.read_status()["proposed"], json!([]));
}
