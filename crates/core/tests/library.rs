//! Tests the shipped library on the example project: every prompt that a person can request, byte for byte.
//!
//! `library/<case>.md|xml` is the expected prompt; `BLESS=1 cargo test -p callsheet-core --test library`
//! rewrites it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/case_sources.rs"]
mod case_sources;
#[path = "support/plan.rs"]
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use callsheet_core::flow::{CONTEXT, render_session_context};
use callsheet_core::library::layout::Layout;
use callsheet_core::render::{RenderedText, render};
use callsheet_core::source::origin::OriginKind;
use callsheet_core::{
    Builtin, ComposedPrompt, ListingLimits, MemorySources, Request, SourceId, SourceRoot, Sources, compose,
};
use callsheet_lint::check::check;
use case_sources::Folder;
use tempfile::TempDir;

const AGENTS: [&str; 6] = ["base", "claude", "codex", "copilot", "gemini", "opencode"];
const SESSION: &str = ".callsheet/sessions/json-export";
const CHANGE: &str = ".callsheet/changes/json-export";

/// Files that agents write, on request of the library or beside it: they need not exist yet.
const WRITTEN: &[&str] = &[
    "tasks.md",
    "IMPLEMENTATION.md",
    "REVIEW.md",
    "FIXES.yaml",
    "REFUSED.md",
    "ARCHIVE.md",
    "CHANGELOG.md",
    // Files that the example of a plan names.
    "07_review/fixes.yaml",
    "changes.md",
    "03_research/code-history/done",
    "03_research/web-history/",
    "03_research/web-history/done",
    "summary.md",
    "detail.md",
    "04_planning/tasks.md",
    "plan.md",
    "execution_plan.yaml",
    "05_design/design.md",
    "08_completion/summary.md",
    "07_review/fixes.yaml",
    "ARCHIVE.md",
    "FIXES.yaml",
    "REFUSED.md",
];

/// The example project, with `session` as the session's root.
struct Example {
    dir: TempDir,
}

impl Example {
    fn new(session: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = root().join("examples/tally");
        symlink(&project, dir.path().join("project")).unwrap();
        symlink(project.join(session), dir.path().join("session")).unwrap();
        Self { dir }
    }

    fn sources(&self) -> Folder {
        Folder::new(self.dir.path(), vec![String::new()])
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn parse_request(toml: &str) -> Request {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{toml}: {error}"))
}

struct Case {
    name: String,
    request: Request,
    session: &'static str,
    /// Other agents that get the same prompt.
    same: Vec<&'static str>,
}

fn case(name: &str, session: &'static str, toml: &str) -> Case {
    Case { name: name.into(), request: parse_request(toml), session, same: Vec::new() }
}

/// Returns one case for everything that has its own template.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for phase in shipped_names("templates/system")
        .into_iter()
        .filter_map(|name| Some(name.strip_prefix("BASE-")?.to_owned()))
    {
        let own = |agent: &&str| {
            let id = format!("templates/system/{}-{phase}.md", agent.to_uppercase());
            Builtin.text(&SourceId::new(SourceRoot::Builtin, &id).unwrap()).unwrap().is_some()
        };
        let tasks = if phase == "implement" { "values = { tasks = '1.1, 3.1' }" } else { "" };
        let toml = |agent: &str| {
            format!(
                "recipe = 'unified'\nagent = '{agent}'\nphase = '{phase}'\nsession = '{CHANGE}'\n\
                 instructions = 'Totals as JSON.'\n{tasks}"
            )
        };
        let mut base = case(&format!("T8-{phase}"), CHANGE, &toml("base"));
        base.same = AGENTS.into_iter().filter(|agent| *agent != "base" && !own(agent)).collect();
        cases.push(base);
        for agent in AGENTS.iter().filter(|agent| **agent != "base" && own(agent)) {
            cases.push(case(&format!("T8-{phase}-{agent}"), CHANGE, &toml(agent)));
        }
    }
    for role in shipped_names("templates/agents") {
        let values = match role.as_str() {
            "coder" => "values = { plan = '2' }",
            "code-researcher" | "web-researcher" => "values = { topic = 'history' }",
            _ => "",
        };
        let toml =
            format!("recipe = 'staged'\nagent = 'claude'\nrole = '{role}'\nsession = '{SESSION}'\n{values}");
        cases.push(case(&format!("M13-{role}"), SESSION, &toml));
        cases.push(case(&format!("M9-{role}-by-tools"), SESSION, &format!("mcp = true\n{toml}")));
    }
    for agent in ["claude", "copilot"] {
        let toml = format!(
            "recipe = 'staged'\nagent = '{agent}'\nrole = 'coder'\nsession = '{SESSION}'\nmcp = true"
        );
        cases.push(case(&format!("M14-whole-plan-{agent}"), SESSION, &toml));
    }
    for command in shipped_names("templates/commands") {
        let toml =
            format!("recipe = 'staged'\nagent = 'gemini'\ncommand = '{command}'\nsession = '{SESSION}'");
        cases.push(case(&format!("M15-{command}"), SESSION, &toml));
    }
    for identity in shipped_names("templates/identity") {
        let values = "values = { project_name = 'tally', workspace = '.', task_name = 'JSON', hook_name = 'nightly', \
                      trigger = 'a push', project = 'tally' }";
        let toml =
            format!("recipe = 'layers'\nrole = '{identity}'\ninstructions = 'Totals as JSON.'\n{values}");
        cases.push(case(&format!("B2-{identity}"), SESSION, &toml));
    }
    for (name, depth) in [("plan-structure-guide", 0), ("controlled-splitting", 1), ("execution-focus", 2)] {
        let toml = format!(
            "recipe = 'layers'\nrole = 'task-agent'\ninstructions = 'Totals as JSON.'\ntask = {{ depth = {depth} }}"
        );
        cases.push(case(&format!("B9-{name}"), SESSION, &toml));
    }
    for profile in shipped_names("profiles").into_iter().chain(["maintainer".into()]) {
        let toml = format!(
            "recipe = 'run'\nagent = 'codex'\nrole = '{profile}'\ninstructions = 'Totals as JSON.'\n\
             read_first = ['README.md', 'tally/']\n\
             task = {{ id = 'T-7', title = 'JSON', criteria = ['the tests pass'], write = ['tally/**'] }}"
        );
        cases.push(case(&format!("C4-{profile}"), SESSION, &toml));
    }
    cases
}

/// Returns the names of the shipped files in a folder.
fn shipped_names(folder: &str) -> Vec<String> {
    let limits = ListingLimits { depth: 1, entries: usize::MAX, ignored: true };
    let listing =
        Builtin.list(&SourceId::new(SourceRoot::Builtin, folder).unwrap(), limits).unwrap().unwrap();
    let files = listing.entries.into_iter().filter(|entry| !entry.dir);
    files.map(|entry| entry.path.strip_suffix(".md").unwrap().to_owned()).collect()
}

fn compose_case(case: &Case, request: &Request) -> (ComposedPrompt, RenderedText) {
    let example = Example::new(case.session);
    let composed =
        compose(request, &example.sources()).unwrap_or_else(|failure| panic!("{}: {failure:?}", case.name));
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    (composed, rendered)
}

#[test]
fn shipped_prompts_match_expected_bytes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library");
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = String::new();
    let mut expected = BTreeSet::new();
    for case in cases() {
        let (composed, rendered) = compose_case(&case, &case.request);
        let extension =
            if composed.prompt.format == callsheet_core::PromptFormat::Xml { "xml" } else { "md" };
        let file = format!("{}.{extension}", case.name);
        if bless {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(&file), &rendered.text).unwrap();
        }
        if fs::read_to_string(dir.join(&file)).ok().as_ref() != Some(&rendered.text) {
            writeln!(wrong, "{file} is not what comes out (BLESS=1 writes it anew)").unwrap();
        }
        for agent in &case.same {
            let request = Request { agent: Some((*agent).into()), ..case.request.clone() };
            if self::compose_case(&case, &request).1.text != rendered.text {
                writeln!(wrong, "{agent} does not get the bytes of {file}").unwrap();
            }
        }
        expected.insert(file);
    }
    let there: BTreeSet<String> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, expected, "left: the files; right: the cases");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Returns the words between backticks that look like a path in the worktree or the session.
fn find_paths(text: &str) -> BTreeSet<&str> {
    let words = text.split('`').enumerate().filter(|(nth, _)| nth % 2 == 1).map(|(_, words)| words);
    let plain = |words: &&str| words.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
    let known = [".md", ".yaml", ".json", ".toml"];
    words
        .filter(plain)
        .filter(|words| words.contains('/') || known.iter().any(|ending| words.ends_with(ending)))
        .collect()
}

#[test]
fn prompts_refer_only_to_known_files() {
    let mut wrong = BTreeMap::new();
    let mut unused: BTreeSet<&str> = WRITTEN.iter().copied().collect();
    for case in cases() {
        let (composed, rendered) = compose_case(&case, &case.request);
        // Only shipped texts are checked, not the contents of the project's files.
        let mut ours = rendered.text.clone();
        for span in rendered.spans.iter().rev() {
            let Some(piece) = span.piece else { continue };
            if matches!(&composed.prompt.origins[piece.origin].from, OriginKind::Source(id) if id.root() != SourceRoot::Builtin)
            {
                ours.replace_range(span.start..span.end, "");
            }
        }
        let project = root().join("examples/tally");
        for path in find_paths(&ours) {
            let there = project.join(path).exists() || project.join(case.session).join(path).exists();
            let is_source = rendered.text.contains(&format!("path=\"{path}\""));
            if !there && !is_source && !unused.remove(path) && !WRITTEN.contains(&path) {
                wrong.entry(path.to_owned()).or_insert_with(Vec::new).push(case.name.clone());
            }
        }
    }
    assert_eq!(wrong, BTreeMap::new());
    assert_eq!(unused, BTreeSet::new(), "these are in the list for nothing");
}

#[test]
fn example_session_context_is_current() {
    let file = root().join("examples/tally").join(SESSION).join(CONTEXT);
    let context = render_session_context(SESSION).unwrap();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &context).unwrap();
    }
    assert_eq!(fs::read_to_string(file).unwrap(), context);
    let template =
        Builtin.text(&SourceId::new(SourceRoot::Builtin, "templates/context.md").unwrap()).unwrap().unwrap();
    let body = template.splitn(3, "---\n").nth(2).unwrap().trim_start_matches('\n');
    assert_eq!(context, body.replace("[[placeholder:feature_dir]]", SESSION));
}

/// Returns the elements without content.
fn find_empty_elements(text: &str) -> Vec<&str> {
    let openings = text.match_indices("\n<").filter_map(|(at, _)| {
        let (tag, rest) = text[at + 1..].split_once(">\n")?;
        rest.trim_start().starts_with("</").then_some(tag)
    });
    openings.filter(|tag| !tag.contains('\n') && !tag.starts_with("</")).collect()
}

/// Composes every role and command with only the required files in the session.
#[test]
fn m3_missing_files_leave_no_gap() {
    assert_eq!(find_empty_elements("a\n<file path=\"x\">\n\n</file>\n"), ["<file path=\"x\""]);
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    for (path, text) in [
        ("requirements.md", "Add a login.\n"),
        ("02_architecting/architecture.md", "One component.\n"),
        ("04_planning/execution_plan.yaml", plan::ORDER),
        ("04_planning/plan.md", plan::OVERVIEW),
        ("04_planning/plan_1.md", "# Login\n"),
        ("04_planning/tasks_1.md", "- [ ] Add it\n"),
        ("07_review/review.md", "verdict: fail\n\nNo test.\n"),
        ("08_completion/changes.md", "Rename it.\n"),
        // An empty file counts as missing.
        ("context.md", "\n"),
    ] {
        fs::create_dir_all(session.join(path).parent().unwrap()).unwrap();
        fs::write(session.join(path), text).unwrap();
    }
    let sources = Folder::new(dir.path(), vec![String::new()]);
    let roles = shipped_names("templates/agents").into_iter().map(|name| ("role", name));
    let commands = shipped_names("templates/commands").into_iter().map(|name| ("command", name));
    for (what, name) in roles.chain(commands) {
        for values in ["plan = '1', topic = 'login'", "plan = '1', topic = 'login', review_role = 'logic'"] {
            let request =
                parse_request(&format!("recipe = 'staged'\n{what} = '{name}'\nvalues = {{ {values} }}"));
            let composed =
                compose(&request, &sources).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
            let text = render(&composed.prompt, callsheet_core::PromptFormat::Markdown, None).unwrap().text;
            assert_eq!(find_empty_elements(&text), Vec::<&str>::new(), "{name}:\n{text}");
            assert!(!text.contains("\n\n\n"), "{name} has a gap:\n{text}");
            assert_eq!(text.trim_end(), text, "{name}");
        }
    }
}

fn check_changed(path: &str, change: impl Fn(&str) -> String) -> String {
    let shipped = Builtin.text(&SourceId::new(SourceRoot::Builtin, path).unwrap()).unwrap().unwrap();
    let text = change(&shipped);
    assert_ne!(text, *shipped, "{path}");
    let mut sources = MemorySources::with_builtin();
    sources.put(SourceRoot::Project, &format!(".callsheet/{path}"), text).unwrap();
    let problems = check(&sources, &Layout::default()).problems;
    problems.iter().map(|problem| format!("{}: {}\n", problem.code.as_str(), problem.message)).collect()
}

#[test]
fn check_reports_changed_library_files() {
    let (plan, variant) = ("templates/system/BASE-plan.md", "templates/system/CODEX-challenge.md");
    let without = |part: &'static str| {
        move |text: &str| {
            let lines = text.split_inclusive('\n').filter(|line| !line.contains(part));
            lines.collect::<String>()
        }
    };
    let replaced = |from: &'static str, to: &'static str| move |text: &str| text.replacen(from, to, 1);
    let cases = [
        (
            check_changed(plan, replaced("## Workflow\n", "")),
            "system/part: `project:.callsheet/templates/system/BASE-plan.md`: the part `## Workflow` is missing\n",
        ),
        (
            check_changed(plan, |text| {
                let (before, after) = text.split_once("# Identity\n").unwrap();
                format!("{before}# Identity\n\n{}", &after[after.find("## Core").unwrap()..])
            }),
            "system/part: the part `# Identity` is empty\n",
        ),
        (
            check_changed(variant, without("unit: gaps")),
            "template/unit: `project:.callsheet/templates/system/CODEX-challenge.md` lacks clauses of `builtin:templates/system/BASE-challenge.md`: `gaps`\n",
        ),
        (
            check_changed(variant, |text| {
                let end = text.find(" <!-- unit: severity").unwrap();
                let start = text[..end].rfind("\n- ").unwrap() + 3;
                format!("{}{}", &text[..start], &text[end + 1..])
            }),
            "template/unit: the clause `severity` is empty\n",
        ),
        (
            check_changed(variant, replaced("that is a HIGH finding.", "that is a finding.")),
            "template/unit: the clause `whole-plan` differs from `builtin:templates/system/BASE-challenge.md`\n",
        ),
        (
            check_changed(variant, replaced("## Context\n", "## Context\n\nMore. <!-- unit: more -->\n")),
            "template/unit: the clause `more` is extra: `builtin:templates/system/BASE-challenge.md` does not have it\n",
        ),
        (
            check_changed(
                "templates/agents/coder.md",
                replaced("shared:coder-discipline", "shared:coder-disciplin"),
            ),
            "fragment/not-found: fragment not found: `coder-disciplin`\n",
        ),
        (
            check_changed(
                "templates/agents/coder.md",
                replaced("Take one task", "Call `submit_task` and take one task"),
            ),
            "tool/unknown: unknown tool `submit_task`\n",
        ),
        (
            check_changed(plan, replaced("# Identity\n", "# Identity\n\n{{AUDIENCE}}\n")),
            "slot/unknown: slot `AUDIENCE` is neither declared nor filled\n",
        ),
        (
            check_changed(plan, replaced("# Identity\n", "# Identity\n\n<review>PASS</review>\n")),
            "marker/alone: a complete `<review>` marker is alone on its line\n",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    assert_eq!(check(&Builtin, &Layout::default()).problems, Vec::new());
}

/// Returns the research part of a coder's prompt: the text between its heading and the next part.
fn compose_research(topics: &[(&str, &[&str])]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    fs::create_dir_all(session.join("04_planning")).unwrap();
    fs::write(session.join("04_planning/plan_1.md"), "A plan\n").unwrap();
    fs::write(session.join("04_planning/plan.md"), plan::OVERVIEW).unwrap();
    fs::write(session.join("04_planning/execution_plan.yaml"), plan::ORDER).unwrap();
    fs::write(session.join("04_planning/tasks_1.md"), "- [ ] A task\n").unwrap();
    for (topic, files) in topics {
        fs::create_dir_all(session.join("03_research").join(topic)).unwrap();
        for file in *files {
            fs::write(session.join("03_research").join(topic).join(file), "x").unwrap();
        }
    }
    let sources = Folder::new(dir.path(), vec![String::new()]);
    let request = parse_request("recipe = 'staged'\nrole = 'coder'\nvalues = { plan = '1' }");
    let prompt =
        render(&compose(&request, &sources).unwrap().prompt, callsheet_core::PromptFormat::Markdown, None);
    let text = prompt.unwrap().text;
    let from = text.find("## Input\n\n").unwrap() + "## Input\n\n".len();
    let to = text.find("Your work is this one sub-plan").unwrap();
    text[from..to].to_owned()
}

#[test]
fn m10_only_finished_topics_are_listed() {
    let head = "Finished research, relative to the session. Read what concerns your work, the primary files first:\n\n";
    let all = ["done", "summary.md", "detail.md"];
    for bits in 0..8_usize {
        let files: Vec<&str> = (0..3).filter(|bit| bits >> bit & 1 == 1).map(|bit| all[bit]).collect();
        let rows = match bits & 0b11 {
            0b11 if bits == 0b111 => {
                "- `03_research/code-x/summary.md` (primary)\n- `03_research/code-x/detail.md` (additional detail)\n\n"
            }
            0b11 => "- `03_research/code-x/summary.md` (primary)\n\n",
            _ => "",
        };
        let expected = if rows.is_empty() { String::new() } else { format!("{head}{rows}") };
        assert_eq!(compose_research(&[("code-x", &files)]), expected, "{files:?}");
    }
    let both: &[&str] = &["done", "summary.md"];
    let topics = [
        ("web-b", both),
        ("code-a", both),
        ("code-B", both),
        ("code-é", both),
        ("web-open", &["summary.md"]),
    ];
    let row = |topic: &str| format!("- `03_research/{topic}/summary.md` (primary)\n");
    let rows: String = ["code-B", "code-a", "code-é", "web-b"].map(row).concat();
    assert_eq!(compose_research(&topics), format!("{head}{rows}\n"));
    assert_eq!(compose_research(&[]), "");
}

#[test]
fn c5_digest_excludes_agent_claims() {
    let boast = "Flawlessly triumphant: impeccable craftsmanship, dazzling elegance, bulletproof resilience, \
                 stupendous velocity, immaculate coverage, legendary robustness, peerless ingenuity, sublime \
                 documentation, heroic refactoring, magnificent astonishment, undeniably victorious";
    let words: BTreeSet<&str> = boast.split([' ', ':', ',']).filter(|word| !word.is_empty()).collect();
    assert!(words.len() >= 20, "{}", words.len());
    let request = parse_request(&format!(
        "recipe = 'run'\nrole = 'coder'\ninstructions = 'Totals as JSON.'\n\
         task = {{ id = 'T-7', write = ['tally/**'] }}\n\
         [previous]\nrun = '0198'\nended = 'exited'\nexit_code = 1\nattempts = 2\nchanged = ['tally/export.py']\n\
         checks = [{{ name = 'tests', result = 'failed' }}]\n\
         violations = [{{ path = 'README.md', reason = 'outside_write' }}]\n\
         reply = {{ outcome = 'pass', verdict = 'PASS', text = '{boast}', problems = ['{boast}'] }}"
    ));
    let example = Example::new(SESSION);
    let composed = compose(&request, &example.sources()).unwrap();
    let text = render(&composed.prompt, callsheet_core::PromptFormat::Markdown, None).unwrap().text;
    let said: Vec<&&str> = words.iter().filter(|word| text.contains(**word)).collect();
    assert_eq!(said, Vec::<&&str>::new());
    let digest =
        &text[text.find("## Retry/Continue Digest").unwrap()..text.find("## Output Format").unwrap()];
    assert_eq!(
        digest,
        "## Retry/Continue Digest\n\n- Previous run: 0198\n- It ended on its own.\n- Exit code: 1\n\
         - Runs of this task so far: 2\n\nChecks:\n\n- `tests`: failed\n\nChanges outside the scope:\n\n\
         - 1 in all\n- `README.md`: outside the write scope, approval pending\n\nFiles changed by that run. \
         What nobody has reverted since is still in the worktree:\n\n\
         - `tally/export.py`\n\n"
    );
}
