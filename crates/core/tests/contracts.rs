//! Tests every contract: the prompt asks for exactly the data that the tool accepts and the reader reads.

#![expect(clippy::unwrap_used, reason = "tests")]

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::library::contract::Status;
use callsheet_core::library::contract::{Contract, FieldRequirement};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::lookup::list_roles;
use callsheet_core::library::yaml::read_yaml;
use callsheet_core::render::render;
use callsheet_core::reply::{Outcome, Reply, ReplyContext, read};
use callsheet_core::submission::{build_schema, submit};
use callsheet_core::{
    Builtin, FILES, Library, MemorySources, PromptFormat, Request, SourceRoot, Sources, compose, find_agent,
    find_contract,
};
use serde_json::Value;

const AGENTS: [&str; 6] = ["base", "claude", "codex", "gemini", "copilot", "opencode"];

fn list_contracts() -> Vec<(String, Contract)> {
    let library = Library::new(&Builtin);
    let names = FILES.iter().filter_map(|(path, _)| path.strip_prefix("contracts/")?.strip_suffix(".toml"));
    names
        .map(|name| (name.to_owned(), find_contract(&library, name, &Layout::default()).unwrap().1))
        .collect()
}

/// The shipped files, and a recipe that shows one handoff fragment as the recipe `staged` does.
struct Showing(MemorySources);

impl Showing {
    fn from_fragment(fragment: &str) -> Self {
        let (_, staged) = FILES.iter().find(|(path, _)| *path == "recipes/staged.toml").unwrap();
        let derive = &staged[staged.find("[derive.").unwrap()..];
        let recipe = format!(
            "format = \"markdown\"\nnotation = \"brackets\"\n\n[[section]]\nname = \"reply\"\npart = \"instructions\"\n\
             blocks = [{{ template = \"templates/shared/{fragment}.md\" }}]\n\n{derive}"
        );
        let mut sources = MemorySources::with_builtin();
        sources.put(SourceRoot::Project, ".callsheet/recipes/own.toml", recipe).unwrap();
        Self(sources)
    }

    fn compose_prompt(&self, agent: &str, mcp: bool, reviewer: Option<&str>) -> String {
        let mut request =
            Request { recipe: Some("own".into()), agent: Some(agent.into()), mcp, ..Request::default() };
        if let Some(reviewer) = reviewer {
            request.values.insert("review_role".into(), reviewer.into());
        }
        compose_text(&request, &self.0, PromptFormat::Markdown)
    }
}

fn compose_text(request: &Request, sources: &dyn Sources, format: PromptFormat) -> String {
    render(&compose(request, sources).unwrap().prompt, format, None).unwrap().text
}

/// Returns the text between the example tags of an instruction.
fn example_text(prompt: &str) -> &str {
    let (_, rest) = prompt.split_once("<example>\n").unwrap();
    rest.split_once("\n</example>").unwrap().0
}

/// The handoff fragments, each with its contract and with the file for an agent without the tool.
const HANDOFFS: [(&str, &str, &str); 3] = [
    ("handoff-contract-architecture", "submit_architecture", "02_architecting/architecture.yaml"),
    ("handoff-contract-plan", "submit_plan", "04_planning/plan.yaml"),
    ("handoff-contract-review", "submit_review", "07_review/review.yaml"),
];

#[test]
fn m9_handoff_names_tool_before_file() {
    for (fragment, contract, file) in HANDOFFS {
        let showing = Showing::from_fragment(fragment);
        for agent in AGENTS {
            let pattern = match agent {
                "base" => "{tool}".to_owned(),
                _ => find_agent(&Library::new(&Builtin), agent, &Layout::default())
                    .unwrap()
                    .1
                    .tools
                    .mcp
                    .unwrap(),
            };
            let tool = pattern.replace("{server}", "callsheet").replace("{tool}", contract);
            let lead = format!(
                "Call `{tool}` with the fields of this example. If you do not have that tool, write the same fields as \
                 YAML to `{file}` in the session:\n\n<example>\n"
            );
            let prompt = showing.compose_prompt(agent, true, None);
            assert_eq!(prompt[..lead.len()], lead, "{fragment} for {agent}");
            assert_eq!(showing.compose_prompt(agent, false, None), prompt, "{fragment} for {agent}");
        }
    }
}

#[test]
fn m9_handoff_example_is_accepted() {
    let roles = list_roles(&Builtin, &Layout::default());
    for (fragment, contract, _) in HANDOFFS {
        let prompt = Showing::from_fragment(fragment).compose_prompt("claude", true, None);
        let example = example_text(&prompt);
        assert!(example.lines().count() <= 20, "{fragment}:\n{example}");
        let data = read_yaml("example", &example.into()).unwrap();
        submit(&Builtin, &Layout::default(), contract, &data).unwrap();
        let library = Library::new(&Builtin);
        let (_, Contract { submission: Some(submission), .. }) =
            find_contract(&library, contract, &Layout::default()).unwrap()
        else {
            panic!("{contract} is handed in");
        };
        let validator = jsonschema::validator_for(&build_schema(&submission, &roles)).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&data).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{contract}");
        // The schema refuses an additional field and a missing required field.
        let mut more = data.clone();
        more["extra"] = Value::Null;
        assert!(!validator.is_valid(&more), "{contract}");
        for field in submission.field.iter().filter(|field| field.required == FieldRequirement::Always(true))
        {
            let mut less = data.clone();
            less.as_object_mut().unwrap().remove(&field.name).unwrap();
            assert!(!validator.is_valid(&less), "{contract} without {}", field.name);
        }
    }
}

/// The example that a planner copies satisfies all rules for plans.
#[test]
fn m16_example_plan_satisfies_rules() {
    let prompt = Showing::from_fragment("handoff-contract-plan").compose_prompt("base", false, None);
    let plan = read_yaml("example", &example_text(&prompt).into()).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let parallel = list(&plan["groups"]).into_iter().filter(|group| group["mode"] == "parallel");
    let lanes: Vec<Value> =
        parallel.flat_map(|group| list(&group["plans"])).map(|plan| plan["index"].clone()).collect();
    assert!(lanes.len() >= 2, "{plan:#}");
    let subplans = list(&plan["subplans"]);
    for subplan in &subplans {
        assert_eq!(
            lanes.contains(&subplan["index"]),
            subplan["isolation_rationale"].is_string(),
            "{subplan:#}"
        );
        let tasks = list(&subplan["tasks"]);
        assert!(tasks.last().and_then(Value::as_str).unwrap().contains("Run `"), "{subplan:#}");
    }
    for file in list(&plan["doc_files"]) {
        let file = file.as_str().unwrap();
        let tells =
            |subplan: &Value| list(&subplan["tasks"]).iter().any(|task| task.to_string().contains(file));
        assert_eq!(subplans.iter().filter(|subplan| tells(subplan)).count(), 1, "{file}");
    }
    assert!(!list(&plan["doc_files"]).is_empty());
}

#[test]
fn m9_each_reviewer_gets_own_file() {
    let showing = Showing::from_fragment("handoff-contract-review");
    let alone = showing.compose_prompt("base", true, None);
    // A reviewer with the name of the role is the only one.
    assert_eq!(showing.compose_prompt("base", true, Some("reviewer")), alone);
    // A name that could be a path is ignored.
    assert_eq!(showing.compose_prompt("base", true, Some("../logic")), alone);
    let expected = alone.replace("`07_review/review.yaml`", "`07_review/review_logic.yaml`").replace(
        "</example>\n\n",
        "</example>\n\nSet `role` to `logic`: you are one of several reviewers.\n\n",
    );
    assert_ne!(expected, alone);
    assert_eq!(showing.compose_prompt("base", true, Some("logic")), expected);
}

fn compose_phase_prompts(phase: &str) -> Vec<String> {
    let mut prompts = Vec::new();
    for agent in AGENTS {
        for format in [PromptFormat::Xml, PromptFormat::Markdown, PromptFormat::Json] {
            let request = Request {
                recipe: Some("unified".into()),
                agent: Some(agent.into()),
                phase: Some(phase.into()),
                instructions: Some("Add login".into()),
                ..Request::default()
            };
            prompts.push(compose_text(&request, &Builtin, format));
        }
    }
    prompts
}

fn read_reply<'o>(contract: &Contract, tasks: &[String], prompt: Option<&str>, output: &'o str) -> Reply<'o> {
    read(&ReplyContext { contract, tasks, prompt }, output.as_bytes(), &OutputSpec::default())
}

#[test]
fn t5_t6_echoed_prompt_is_ignored() {
    let phases: Vec<_> =
        list_contracts().into_iter().filter(|(_, contract)| contract.submission.is_none()).collect();
    // `run` and `fix` are not phases of `unified`.
    let phases: Vec<_> =
        phases.into_iter().filter(|(name, _)| !["run", "fix"].contains(&name.as_str())).collect();
    let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["archive", "challenge", "implement", "plan", "review"]);
    let listed = ["1.1".to_owned(), "2.3".to_owned()];
    for (phase, contract) in &phases {
        let tasks: &[String] = if contract.tasks.is_empty() { &listed } else { &contract.tasks };
        let asked: &[String] = if contract.task_status.is_empty() { &[] } else { tasks };
        for prompt in compose_phase_prompts(phase) {
            for choice in &contract.verdict {
                let said = format!("I looked at everything.\n\n<review>{}</review>\n", choice.name);
                let read = read_reply(contract, asked, Some(&prompt), &said);
                assert_eq!(read.verdict.unwrap().name(), choice.name);
                assert_eq!(read.outcome.name(), choice.name.to_lowercase());
                assert_eq!(read.problems.len(), 0, "{:?}", read.problems);
            }
            for choice in &contract.task_status {
                let lines: Vec<String> = tasks
                    .iter()
                    .map(|task| format!("<task_status id=\"{task}\">{}</task_status>", choice.name))
                    .collect();
                let said = lines.join("\n");
                let read = read_reply(contract, asked, Some(&prompt), &said);
                let completed = read.tasks.values().all(|status| *status == Status::Completed);
                assert_eq!(read.tasks.keys().collect::<Vec<_>>(), tasks.iter().collect::<Vec<_>>());
                assert_eq!(read.outcome == Outcome::Complete, completed);
                assert_eq!(completed, choice.name == "COMPLETED");
            }
            // Read the prompt itself as a reply.
            let own = read_reply(contract, asked, Some(&prompt), &prompt);
            assert_eq!((own.verdict, own.tasks.len()), (None, 0));
            let nothing = match (contract.verdict.is_empty(), contract.task_status.is_empty()) {
                (false, _) => Outcome::NoVerdict,
                (true, false) => Outcome::Incomplete,
                (true, true) => Outcome::None,
            };
            assert_eq!(own.outcome, nothing, "{phase}: {:?}", own.problems);
            // Without the prompt the reader cannot recognize the echo, but the outcome must still not be
            // good.
            let unrecognised = read_reply(contract, asked, None, &prompt).outcome;
            assert!(!matches!(unrecognised, Outcome::Pass | Outcome::Complete), "{phase}: {unrecognised:?}");
        }
    }
}

#[test]
fn t5_legal_verdicts_per_phase() {
    let legal: Vec<(String, Vec<String>)> = list_contracts()
        .into_iter()
        .filter(|(_, contract)| !contract.verdict.is_empty())
        .map(|(name, contract)| (name, contract.verdict.into_iter().map(|choice| choice.name).collect()))
        .collect();
    let of = |phase: &str, verdicts: &[&str]| {
        (phase.to_owned(), verdicts.iter().map(ToString::to_string).collect())
    };
    assert_eq!(
        legal,
        [
            of("challenge", &["PASS", "NEEDS_REVISION", "REJECTED"]),
            of("plan", &["PASS", "NEEDS_REVISION"]),
            of("review", &["PASS", "NEEDS_CHANGES", "MAJOR_ISSUES"]),
        ]
    );
}

/// The markers in the prompts, as an agent would copy them.
const SHOWN: [&str; 4] = [
    "<review>VERDICT</review>",
    "<task_status id=\"ID\">STATUS</task_status>",
    "<task_status id=\"archive\">STATUS</task_status>",
    "<question>QUESTION</question>",
];

#[test]
fn t5_copied_example_markers_are_ignored() {
    let mut seen = [false; SHOWN.len()];
    for (phase, contract) in
        list_contracts().into_iter().filter(|(_, contract)| contract.submission.is_none())
    {
        if phase == "run" || phase == "fix" {
            continue;
        }
        let prompts = compose_phase_prompts(&phase);
        let shown = |prompt: &String, marker: &str| {
            prompt.contains(&format!("`{marker}`"))
                || prompt.contains(&format!("`{}`", marker.replace('"', "\\\"")))
        };
        for prompt in &prompts {
            let verdict = !contract.verdict.is_empty();
            let expected = [verdict, phase == "implement", phase == "archive", true];
            for (nth, marker) in SHOWN.into_iter().enumerate() {
                assert_eq!(shown(prompt, marker), expected[nth], "{phase}: {marker}");
                seen[nth] |= expected[nth];
            }
        }
        let nothing = if contract.verdict.is_empty() { Outcome::Incomplete } else { Outcome::NoVerdict };
        for marker in SHOWN {
            for copy in [marker.to_owned(), format!("I end with {marker} below."), format!("- {marker}\n")] {
                let read = read_reply(&contract, &[], None, &copy);
                assert_eq!(
                    (read.verdict, read.tasks.len(), read.outcome),
                    (None, 0, nothing),
                    "{phase}: {copy}"
                );
            }
        }
    }
    assert_eq!(seen, [true; SHOWN.len()]);
}

#[test]
fn t5_default_task_ids() {
    for (phase, contract) in
        list_contracts().into_iter().filter(|(_, contract)| !contract.task_status.is_empty())
    {
        let (right, wrong) = if phase == "archive" { ("archive", "1") } else { ("1", "archive") };
        let said = |id: &str, status: &str| {
            read_reply(&contract, &[], None, &format!("<task_status id=\"{id}\">{status}</task_status>\n"))
                .outcome
        };
        assert_eq!(said(right, "COMPLETED"), Outcome::Complete, "{phase}");
        assert_eq!(said(right, "FAILED"), Outcome::Incomplete, "{phase}");
        assert_eq!(said(wrong, "COMPLETED"), Outcome::Incomplete, "{phase}");
    }
}
