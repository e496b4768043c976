//! Every contract, whatever it says: what the prompt asks for is what the tool takes and what the reader reads.

#![expect(clippy::unwrap_used, reason = "tests")]

use callsheet_core::agent::OutputFormat;
use callsheet_core::contract::{Contract, Field, Kind, Required, Submission};
use callsheet_core::render::render;
use callsheet_core::reply::{Asked, Outcome, Reply, Status, read};
use callsheet_core::request::Layout;
use callsheet_core::submission::{read_yaml, roles, schema};
use callsheet_core::{
    Builtin, FILES, Format, Library, Limits, Listing, Request, Root, SourceError, SourceId, Sources, Text,
    compose, find_agent, find_contract,
};
use serde_json::Value;

const AGENTS: [&str; 6] = ["base", "claude", "codex", "gemini", "copilot", "opencode"];

fn contracts() -> Vec<(String, Contract)> {
    let library = Library::new(&Builtin);
    let names = FILES.iter().filter_map(|(path, _)| path.strip_prefix("contracts/")?.strip_suffix(".toml"));
    names
        .map(|name| (name.to_owned(), find_contract(&library, name, &Layout::default()).unwrap().1))
        .collect()
}

/// The shipped files, and a recipe that shows one contract as the staged ones are shown.
struct Showing {
    recipe: Text,
}

impl Showing {
    fn of(name: &str) -> Self {
        let (_, staged) = FILES.iter().find(|(path, _)| *path == "recipes/staged.toml").unwrap();
        let (_, wording) = staged.split_once("[derive.handoff_review.each]").unwrap();
        let (wording, _) = wording.split_once("\n\n").unwrap();
        let recipe = format!(
            "format = \"markdown\"\n\n[[section]]\nname = \"reply\"\npart = \"instructions\"\n\
             blocks = [{{ value = \"handoff\" }}]\n\n[derive.handoff]\nfrom = \"contract\"\ncontract = [\"{name}\"]\n\n\
             [derive.handoff.each]{wording}\n"
        );
        Self { recipe: recipe.into() }
    }

    fn prompt(&self, agent: &str, mcp: bool) -> String {
        let request =
            Request { recipe: Some("own".into()), agent: Some(agent.into()), mcp, ..Request::default() };
        text(&request, self, Format::Markdown)
    }
}

impl Sources for Showing {
    fn text(&self, id: &SourceId) -> Result<Option<Text>, SourceError> {
        if id.root() == Root::Project && id.path() == ".callsheet/recipes/own.toml" {
            return Ok(Some(self.recipe.clone()));
        }
        Builtin.text(id)
    }

    fn list(&self, dir: &SourceId, limits: Limits) -> Result<Option<Listing>, SourceError> {
        Builtin.list(dir, limits)
    }
}

fn text(request: &Request, sources: &dyn Sources, format: Format) -> String {
    render(&compose(request, sources).unwrap().prompt, format, None).unwrap().text
}

/// The paths of fields that have to be there, as an instruction spells them.
fn required(above: &str, fields: &[Field], paths: &mut Vec<String>) {
    for field in fields.iter().filter(|field| field.required != Required::Always(false)) {
        let path = format!("{above}{}", field.name);
        let each = if field.kind == Kind::Items { "[]." } else { "." };
        required(&format!("{path}{each}"), &field.field, paths);
        paths.push(path);
    }
}

/// What an instruction shows between the tags of its example.
fn example(prompt: &str) -> &str {
    let (_, rest) = prompt.split_once("<example>\n").unwrap();
    rest.split_once("\n</example>").unwrap().0
}

fn submissions() -> Vec<(String, Submission)> {
    contracts().into_iter().filter_map(|(name, contract)| Some((name, contract.submission?))).collect()
}

#[test]
fn m9_an_instruction_names_the_tool_and_every_field_that_is_required() {
    let submissions = submissions();
    assert_eq!(submissions.len(), 10);
    for (name, submission) in submissions {
        let showing = Showing::of(&name);
        let mut paths = Vec::new();
        required("", &submission.field, &mut paths);
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
            let tool = pattern.replace("{server}", "callsheet").replace("{tool}", &name);
            for mcp in [true, false] {
                let prompt = showing.prompt(agent, mcp);
                let lines: Vec<&str> = prompt.lines().collect();
                let by_file = submission.file.as_ref().filter(|_| !mcp);
                let heading = format!("### `{}`", by_file.unwrap_or(&tool));
                assert_eq!(lines[0], heading, "{name} for {agent}");
                for path in &paths {
                    let row = format!("- `{path}` (");
                    let rows = lines.iter().filter(|line| line.starts_with(&row)).count();
                    assert_eq!(rows, 1, "{name} for {agent}: {path}");
                }
            }
        }
    }
}

#[test]
fn m9_the_schema_takes_the_example_that_the_instruction_shows() {
    let roles = roles(&Builtin, &Layout::default());
    for (name, submission) in submissions() {
        let schema = schema(&submission, &roles);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let showing = Showing::of(&name);
        let by_tool: Value = serde_json::from_str(example(&showing.prompt("claude", true))).unwrap();
        let by_file = showing.prompt("claude", false);
        let by_file = match submission.file {
            Some(_) => read_yaml("example", &example(&by_file).into()).unwrap(),
            None => serde_json::from_str(example(&by_file)).unwrap(),
        };
        assert_eq!(by_tool, by_file, "{name}");
        let wrong: Vec<String> = validator.iter_errors(&by_tool).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{name}");
        // Shown able to refuse: whatever is left out, whatever is added.
        let mut more = by_tool.clone();
        more["extra"] = Value::Null;
        assert!(!validator.is_valid(&more), "{name}");
        for field in submission.field.iter().filter(|field| field.required == Required::Always(true)) {
            let mut less = by_tool.clone();
            less.as_object_mut().unwrap().remove(&field.name).unwrap();
            assert!(!validator.is_valid(&less), "{name} without {}", field.name);
        }
    }
}

fn phase_prompts(phase: &str) -> Vec<String> {
    let mut prompts = Vec::new();
    for agent in AGENTS {
        for format in [Format::Xml, Format::Markdown, Format::Json] {
            let request = Request {
                recipe: Some("unified".into()),
                agent: Some(agent.into()),
                phase: Some(phase.into()),
                instructions: Some("Add login".into()),
                ..Request::default()
            };
            prompts.push(text(&request, &Builtin, format));
        }
    }
    prompts
}

fn reply<'o>(contract: &Contract, tasks: &[String], prompt: Option<&str>, output: &'o str) -> Reply<'o> {
    read(&Asked { contract, tasks, prompt }, output.as_bytes(), OutputFormat::Text)
}

#[test]
fn t5_t6_what_a_phase_asks_for_is_read_and_the_prompt_itself_is_no_reply() {
    let phases: Vec<_> =
        contracts().into_iter().filter(|(_, contract)| contract.submission.is_none()).collect();
    // What a run and a fix round are asked is no phase of `unified`.
    let phases: Vec<_> =
        phases.into_iter().filter(|(name, _)| !["run", "fix"].contains(&name.as_str())).collect();
    let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["archive", "challenge", "implement", "plan", "review"]);
    let tasks = ["1.1".to_owned(), "2.3".to_owned()];
    for (phase, contract) in &phases {
        let asked: &[String] = if contract.task_status.is_empty() { &[] } else { &tasks };
        for prompt in phase_prompts(phase) {
            for choice in &contract.verdict {
                let said = format!("I looked at everything.\n\n<review>{}</review>\n", choice.name);
                let read = reply(contract, asked, Some(&prompt), &said);
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
                let read = reply(contract, asked, Some(&prompt), &said);
                let completed = read.tasks.values().all(|status| *status == Status::Completed);
                assert_eq!(read.tasks.keys().collect::<Vec<_>>(), tasks.iter().collect::<Vec<_>>());
                assert_eq!(read.outcome == Outcome::Complete, completed);
                assert_eq!(completed, choice.name == "COMPLETED");
            }
            // The prompt itself, as a reply.
            let own = reply(contract, asked, Some(&prompt), &prompt);
            assert_eq!((own.verdict, own.tasks.len()), (None, 0));
            let nothing = match (contract.verdict.is_empty(), contract.task_status.is_empty()) {
                (false, _) => Outcome::NoVerdict,
                (true, false) => Outcome::Incomplete,
                (true, true) => Outcome::None,
            };
            assert_eq!(own.outcome, nothing, "{phase}: {:?}", own.problems);
            // The same without a prompt to recognise it by: a word in it that is not good counts.
            let unrecognised = reply(contract, asked, None, &prompt).outcome;
            assert!(!matches!(unrecognised, Outcome::Pass | Outcome::Complete), "{phase}: {unrecognised:?}");
        }
    }
}

#[test]
fn t5_the_legal_verdicts_are_those_of_the_phases() {
    let legal: Vec<(String, Vec<String>)> = contracts()
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
