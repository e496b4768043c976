//! Tests the token counts of the shipped prompts in an empty project against the counts before their rewrite.
//!
//! `BLESS=1` writes the last column of the table in `docs/prompts.md`; the column before it never changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_testing::TestProject;

const SESSION: &str = ".callsheet/sessions/s";

/// The smallest session: one sub-plan, one finding, one change.
const FILES: [(&str, &str); 8] = [
    ("requirements.md", "Add a login.\n"),
    ("02_architecting/architecture.md", "One component: `src/login.py`.\n"),
    (
        "04_planning/plan.md",
        "# Plan\n\n## Phase 1\n\nNothing to do: there is one sub-plan.\n\n## Phase 2\n\nSub-plan 1.\n\n## Phase 3\n\n\
         Nothing to do.\n\n## Conflict map\n\n| file | lanes | owner |\n|---|---|---|\n",
    ),
    (
        "04_planning/plan_1.md",
        "# Login\n\n## Scope\n\nThe login.\n\n## Owned files\n\n- `src/login.py`\n\n## Dependencies\n\nNone.\n",
    ),
    ("04_planning/tasks_1.md", "- [ ] Add the login; `make test` passes\n"),
    (
        "04_planning/execution_plan.yaml",
        "version: 1\ngroups:\n  - {group_id: g1, mode: serial, plans: [{file: plan_1.md, name: Login}]}\n\
         needs_design: false\nneeds_docs: false\ndoc_files: []\nreview_strategy: {severity: low, focus: []}\n",
    ),
    ("07_review/review.md", "verdict: fail\n\n## Findings\n\n### Finding 1\n\nNo test.\n"),
    ("08_completion/changes.md", "Rename it.\n"),
];

/// Returns every shipped prompt: its name and its request.
fn prompts() -> Vec<(String, String)> {
    let mut prompts = Vec::new();
    for role in ["supervisor", "task-agent", "hook-executor"] {
        let request = format!("recipe = 'layers'\nrole = '{role}'\ninstructions = 'Add a login.'");
        prompts.push((format!("layers/{role}"), request));
    }
    for (depth, rules) in
        ["plan-structure-guide", "controlled-splitting", "execution-focus"].into_iter().enumerate()
    {
        let request = format!(
            "recipe = 'layers'\nrole = 'task-agent'\ninstructions = 'Add a login.'\ntask = {{ depth = {depth} }}"
        );
        prompts.push((format!("layers/{rules}"), request));
    }
    for role in ["coder", "generalist", "planner", "reviewer", "writer"] {
        let request = format!("recipe = 'run'\nrole = '{role}'\ninstructions = 'Add a login.'");
        prompts.push((format!("run/{role}"), request));
    }
    let phases = ["plan", "challenge", "implement", "review", "archive"].map(|phase| (phase, "base"));
    for (phase, agent) in phases.into_iter().chain([("challenge", "codex"), ("implement", "claude")]) {
        let name = if agent == "base" { phase.to_owned() } else { format!("{phase}-{agent}") };
        let request = format!(
            "recipe = 'unified'\nphase = '{phase}'\nagent = '{agent}'\nsession = '.callsheet/changes/c'\n\
             instructions = 'Add a login.'"
        );
        prompts.push((format!("unified/{name}"), request));
    }
    for (mcp, end) in [(false, ""), (true, "-tools")] {
        let mut add = |name: &str, what: &str, values: &str| {
            let request = format!(
                "recipe = 'staged'\n{what}\nsession = '{SESSION}'\nmcp = {mcp}\nvalues = {{ {values} }}"
            );
            prompts.push((format!("staged/{name}{end}"), request));
        };
        for role in ["architect", "planner", "product-manager", "designer", "reviewer"] {
            add(role, &format!("role = '{role}'"), "");
        }
        add("coder", "role = 'coder'", "plan = '1'");
        add("coder-whole", "role = 'coder'", "");
        for role in ["code-researcher", "web-researcher"] {
            add(role, &format!("role = '{role}'"), "topic = 'login'");
        }
        for command in ["review", "review-followup", "fix", "summary", "change"] {
            add(command, &format!("command = '{command}'"), "");
        }
    }
    prompts
}

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/prompts.md")
}

#[test]
fn shipped_prompts_do_not_grow() {
    let project = TestProject::new();
    for (path, text) in FILES {
        project.write(&format!("{SESSION}/{path}"), text);
    }
    let context = callsheet_core::flow::render_session_context(SESSION).unwrap();
    project.write(&format!("{SESSION}/context.md"), context);
    project.write(".callsheet/changes/c/.keep", "");
    let text = fs::read_to_string(page_path()).unwrap();
    let (above, table) = text.split_once("| prompt | before | now |\n|---|--:|--:|\n").unwrap();
    let rows = table.lines().map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), cells[2].parse().unwrap())
    });
    let before: BTreeMap<String, usize> = rows.collect();
    let mut found = format!("{above}| prompt | before | now |\n|---|--:|--:|\n");
    let (mut others, mut others_before) = (0, 0);
    let mut too_long = Vec::new();
    let prompts = prompts();
    for (name, request) in &prompts {
        let request = project.write(".callsheet/request.toml", request);
        let output = project.run(["-q", "compose", "--request", request.to_str().unwrap()]);
        assert_eq!(output.code, Some(0), "{name}: {}", output.err());
        let (before, now) = (before[name], bpe_openai::o200k_base().count(output.out().as_str()));
        found += &format!("| `{name}` | {before} | {now} |\n");
        let may_grow =
            ["planner", "change"].contains(&name.trim_start_matches("staged/").trim_end_matches("-tools"));
        if may_grow && name.starts_with("staged/") {
            if now * 100 > before * 130 {
                too_long.push(format!("{name}: {before} → {now}"));
            }
            continue;
        }
        (others, others_before) = (others + now, others_before + before);
        if now * 100 > before * 110 {
            too_long.push(format!("{name}: {before} → {now}"));
        }
    }
    if env::var_os("BLESS").is_some() {
        fs::write(page_path(), &found).unwrap();
    }
    assert_eq!(too_long, Vec::<String>::new());
    assert!(others < others_before, "{others_before} → {others}");
    assert_eq!(before.len(), prompts.len());
    assert_eq!(fs::read_to_string(page_path()).unwrap(), found, "read the difference, then run with BLESS=1");
}
