//! Tests golden cases: folders with a request, sources, and the exact expected results.
//!
//! ```text
//! golden/<case>/case.toml        settings of the harness, and `[request]`
//!               request.toml     instead of `[request]`: read like a person's request (or request.json)
//!               prompt.json      instead of a request: a unified prompt as data
//!               sources/<root>/  the files of the four roots
//!               expect.md|xml|json, expect.origins, expect.talk, expect.absent, expect.steps, expect.shared
//!               expect.errors    instead of all of these
//! ```
//!
//! `BLESS=1 cargo test -p callsheet-core --test golden` rewrites the expectations; review the diff then.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "support/case_sources.rs"]
mod case_sources;
#[path = "support/spans.rs"]
mod spans;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use callsheet_core::delivery::split::{find_boundary, find_shared_end};
use callsheet_core::delivery::{Delivery, DeliveryAction, DeliveryContext, DeliveryText, plan_delivery};
use callsheet_core::diag::{Code, Diagnostic, Diagnostics, Severity, escape_invisible};
use callsheet_core::library::format::ModelApi;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::omission::OmittedInput;
use callsheet_core::render::{RenderedText, render};
use callsheet_core::source::origin::OriginKind;
use callsheet_core::{
    Builtin, ComposedPrompt, Degradation, FileFormat, FittedPrompt, Library, Prompt, PromptFormat, Request,
    SourceRecorder, SourceRoot, UnifiedPrompt, compose, find_agent, fit, read_request,
};
use case_sources::Folder;
use serde::Deserialize;

/// The codes that only the command line reports. Its own tests cover them.
const COMMAND_LINE: &[Code] = &[
    Code::LedgerForeign,
    Code::LedgerProject,
    Code::LedgerShortLived,
    Code::LedgerTracked,
    Code::PreferenceBad,
    Code::PromptOverWindow,
    Code::PromptOverLimit,
    Code::ConfigBad,
    Code::AllowUnsupported,
    Code::ContextFailed,
    Code::ContextPrompt,
    Code::ContextPaidTwice,
    Code::ContextCut,
    Code::ContextRepeated,
    Code::ContextChanged,
    Code::NotifyFailed,
    Code::DeliverOtherwise,
    Code::DeliverRefused,
    Code::DeliverWhole,
    Code::DetailUnused,
    Code::FlowNotFound,
    Code::FlowRefused,
    Code::FuzzDangling,
    Code::FuzzEngine,
    Code::ClockWrong,
    Code::CostLimit,
    Code::CostUnknown,
    Code::FuzzEscapes,
    Code::InputLeftOut,
    Code::InputNotFound,
    Code::InputOutside,
    Code::InputUnreadable,
    Code::LedgerDamaged,
    Code::LedgerFailed,
    Code::LedgerForeign,
    Code::LedgerLocked,
    Code::LedgerNewer,
    Code::LedgerNoAnswer,
    Code::LedgerNotThere,
    Code::LedgerProject,
    Code::LedgerShortLived,
    Code::LedgerTracked,
    Code::RunRefused,
    Code::RunNotStarted,
    Code::ProgramNotFound,
    Code::ScopeNowhere,
    Code::TaskNotFound,
    Code::ViolationNotFound,
    Code::GitFailed,
    Code::OutputFailed,
    Code::PersonRequired,
    Code::PersonBelowGuard,
    Code::RunAmbiguous,
    Code::RunNotFound,
    Code::SecretFound,
    Code::UsageBad,
    Code::VerifyEngine,
    Code::VerifyMismatch,
    Code::VerifySecret,
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    request: Option<toml::Table>,
    /// Overrides the format of the request or the recipe.
    format: Option<PromptFormat>,
    api: Option<ModelApi>,
    /// Whether notes are shown too.
    #[serde(default)]
    verbose: bool,
    /// The maximum number of tokens; here four bytes are one token.
    budget: Option<usize>,
    /// Whether the case expects the part that does not depend on its task.
    #[serde(default)]
    divide: bool,
    /// The path prefixes of the shipped files that the case sees besides the recipes.
    #[serde(default)]
    shipped: Vec<String>,
    /// Files whose names a package cannot hold: the path that the case sees, and the stored path.
    #[serde(default)]
    stored: BTreeMap<String, String>,
}

/// Maps file names to exact contents.
type Expectations = BTreeMap<String, String>;

#[test]
fn every_case_matches_its_expectations() {
    let bless = env::var_os("BLESS").is_some();
    let mut wrong = String::new();
    for dir in list_cases("golden") {
        let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
        let actual = run_case(&dir);
        if bless {
            write_expectations(&dir, &actual);
        }
        for complaint in find_differences(&dir, &actual) {
            writeln!(wrong, "{name}: {complaint}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_diagnostic_code_has_case() {
    let golden = collect_codes("golden", |file| matches!(file, "expect.errors" | "expect.talk"));
    let check = collect_codes("../../lint/tests/check", |file| file.starts_with("expect."));
    let shown: BTreeSet<&str> = golden.iter().chain(&check).map(String::as_str).collect();
    let wanted: BTreeSet<&str> =
        Code::ALL.iter().filter(|code| !COMMAND_LINE.contains(code)).map(|code| code.name()).collect();
    assert_eq!(shown, wanted, "left: the codes that cases show; right: the codes that there are");
}

/// Runs a case and returns its actual results, as the files that it should expect.
fn run_case(dir: &Path) -> Expectations {
    let text = fs::read_to_string(dir.join("case.toml")).expect("a case has a case.toml");
    let case: Case = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let sources =
        Folder { stored: case.stored.clone(), ..Folder::new(dir.join("sources"), case.shipped.clone()) };
    let mut files = Expectations::new();
    let done = compose_case(dir, &case, &sources).and_then(|made| {
        let format = case.format.unwrap_or(made.prompt.format);
        let rendered = render(&made.prompt, format, case.api)?;
        Ok((format, made, rendered))
    });
    let (format, mut made, rendered) = match done {
        Ok(done) => done,
        Err(Diagnostics(diags)) => {
            files.insert("expect.errors".into(), render_diagnostics(&diags));
            return files;
        }
    };
    spans::check_spans(&made.prompt, &rendered).unwrap_or_else(|gap| panic!("{}: {gap}", dir.display()));
    made.prompt.format = format;
    let shared = check_parts(&made.prompt, &rendered);
    if case.divide {
        files.insert("expect.shared".into(), rendered.text[..shared].to_owned());
    }
    let extension = match format {
        PromptFormat::Markdown => "md",
        PromptFormat::Xml => "xml",
        PromptFormat::Json => "json",
    };
    let shown = |diag: &&Diagnostic| case.verbose || diag.severity > Severity::Note;
    let talk: Vec<Diagnostic> =
        made.talk.iter().chain(&rendered.diagnostics).filter(shown).cloned().collect();
    files.insert("expect.origins".into(), render_origins(&made.prompt, &rendered));
    files.insert(format!("expect.{extension}"), rendered.text);
    files.insert("expect.talk".into(), render_diagnostics(&talk));
    files.insert("expect.absent".into(), render_omissions(&made.absent));
    files.insert("expect.steps".into(), made.steps.iter().map(render_degradation).collect());
    files.retain(|_, text| !text.is_empty());
    files
}

/// Divides a prompt at every possible place, asserts that its parts are delivered as they are, and returns the length of its
/// shared part.
fn check_parts(prompt: &Prompt, rendered: &RenderedText) -> usize {
    let text = rendered.text.as_str();
    let shared = find_shared_end(prompt, rendered);
    let mut places: BTreeSet<usize> = [shared].into();
    for end in rendered.spans.iter().flat_map(|span| [span.start, span.end]) {
        let place = find_boundary(prompt, rendered, end);
        assert!(place <= end, "{place} is after {end}");
        places.insert(place);
    }
    let sections = prompt.sections.iter().map(|section| section.name.as_str());
    let agents = ["claude", "codex"].map(|name| {
        let found = find_agent(&Library::new(&Builtin), name, &Layout::default());
        found.unwrap().1
    });
    for place in places {
        let how = DeliveryContext {
            worktree: "/w".into(),
            folder: "/f".into(),
            by_file: "Read it".into(),
            split: Some(place),
            ..DeliveryContext::default()
        };
        let deliveries = agents.iter().filter_map(|agent| plan_delivery(agent, text, &how).ok());
        for delivery in deliveries {
            let parts = delivered_parts(&delivery, text);
            assert_eq!(parts.concat(), text, "{:?} at {place}", sections.clone().collect::<Vec<_>>());
            assert_eq!(parts.len(), delivery.parts.len().max(1));
        }
    }
    shared
}

/// Returns the parts of a prompt as an agent would get them.
fn delivered_parts(delivery: &Delivery, prompt: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for act in &delivery.acts {
        match act {
            DeliveryAction::Write { text, .. } => parts.push(text.to_text(prompt)),
            DeliveryAction::Spawn { argv, stdin, .. } => {
                let set = argv.iter().find(|word| word.starts_with("developer_instructions="));
                let set = set.map(|set| toml::from_str::<toml::Table>(set).unwrap());
                parts.extend(set.map(|set| set["developer_instructions"].as_str().unwrap().to_owned()));
                match stdin {
                    DeliveryText::Text(_) => {}
                    DeliveryText::Prompt { before } | DeliveryText::Part { before, .. } => {
                        parts.push(stdin.to_text(prompt)[before.len()..].to_owned());
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }
    parts
}

/// The parts of a composition that a case expects.
struct Made {
    prompt: Prompt,
    talk: Vec<Diagnostic>,
    absent: Vec<OmittedInput>,
    /// The degradations that the budget required.
    steps: Vec<Degradation>,
}

fn compose_case(dir: &Path, case: &Case, sources: &Folder) -> Result<Made, Diagnostics> {
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let request = match (&case.request, read("request.toml"), read("request.json"), read("prompt.json")) {
        (Some(request), None, None, None) => {
            request.clone().try_into().unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        }
        (None, Some(toml), None, None) => read_request("request.toml", &toml.into(), FileFormat::Toml)?,
        (None, None, Some(json), None) => read_request("request.json", &json.into(), FileFormat::Json)?,
        (None, None, None, Some(json)) => {
            let prompt = Prompt::from(&UnifiedPrompt::from_json(&json)?);
            return Ok(Made { prompt, talk: Vec::new(), absent: Vec::new(), steps: Vec::new() });
        }
        _ => panic!("{} needs one request", dir.display()),
    };
    let recorder = SourceRecorder::new(sources);
    if let Some(budget) = case.budget {
        return fit_case(&request, &recorder, case.api, budget);
    }
    let composed = compose(&request, &recorder)?;
    // The snapshot of the read sources is enough to compose the same prompt again.
    assert_eq!(compose(&request, &recorder.finish()).as_ref(), Ok(&composed));
    Ok(Made {
        prompt: composed.prompt,
        talk: composed.diagnostics,
        absent: composed.omitted,
        steps: Vec::new(),
    })
}

fn fit_case(
    request: &Request,
    sources: &SourceRecorder<&Folder>,
    api: Option<ModelApi>,
    budget: usize,
) -> Result<Made, Diagnostics> {
    let mut count = |_: &ComposedPrompt, text: &str| text.len().div_ceil(4);
    let FittedPrompt { request, composed, tokens, steps, .. } =
        fit(request, sources, api, budget, &mut count)?;
    assert!(tokens <= budget, "{tokens} tokens are more than {budget}");
    // The fitted request is complete: composing it gives the same prompt without counting.
    let mut again = compose(&request, sources)?;
    again.diagnostics.extend(composed.diagnostics.last().filter(|_| !steps.is_empty()).cloned());
    assert_eq!(again, composed);
    Ok(Made { prompt: composed.prompt, talk: composed.diagnostics, absent: composed.omitted, steps })
}

fn render_diagnostics(diags: &[Diagnostic]) -> String {
    diags.iter().map(|diag| format!("{diag}\n")).collect()
}

fn render_origins(prompt: &Prompt, rendered: &RenderedText) -> String {
    let line = |span: &callsheet_core::render::RenderedRange| {
        let encoding = format!("{:?}", span.encoding).to_lowercase();
        match span.piece {
            None => format!("{}..{} engine {encoding}\n", span.start, span.end),
            Some(piece) => {
                let origin = &prompt.origins[piece.origin];
                let (label, trust) = (origin.label(), origin.trust.name());
                let label = escape_invisible(&label);
                let range = match &origin.from {
                    // Ranges in a shipped file change with every edit of its other lines.
                    OriginKind::Source(id) if id.root() == SourceRoot::Builtin => {
                        excerpt(piece.text(&prompt.origins))
                    }
                    _ => format!("{}..{}", piece.start, piece.end),
                };
                format!("{}..{} {label} [{range}] {trust} {encoding}\n", span.start, span.end)
            }
        }
    };
    rendered.spans.iter().map(line).collect()
}

fn excerpt(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{more}")
}

fn render_omissions(absent: &[OmittedInput]) -> String {
    let line = |absent: &OmittedInput| {
        let detail = if absent.detail.is_empty() { String::new() } else { format!(" ({})", absent.detail) };
        format!("{}: {}{detail}\n", absent.what, absent.why.words())
    };
    absent.iter().map(line).collect()
}

fn render_degradation(step: &Degradation) -> String {
    let Degradation { what, section, level, from, to, before, after } = step;
    let (level, from, to) = (level.name(), from.name(), to.name());
    format!("{what} ({section}, {level}): {from} → {to}, {before} → {after}\n")
}

fn write_expectations(dir: &Path, actual: &Expectations) {
    for file in list_files(dir).into_iter().filter(|file| file.starts_with("expect.")) {
        fs::remove_file(dir.join(file)).unwrap();
    }
    for (file, text) in actual {
        fs::write(dir.join(file), text).unwrap();
    }
}

fn find_differences(dir: &Path, actual: &Expectations) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut expected = Expectations::new();
    for file in list_files(dir) {
        match file.as_str() {
            "case.toml" | "request.toml" | "request.json" | "prompt.json" | "sources" => {}
            "expect.md" | "expect.xml" | "expect.json" | "expect.origins" | "expect.talk"
            | "expect.absent" | "expect.steps" | "expect.shared" | "expect.errors" => {
                expected.insert(file.clone(), fs::read_to_string(dir.join(&file)).unwrap());
            }
            _ => complaints.push(format!("nobody knows the file `{file}`")),
        }
    }
    let names: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
    for name in names {
        match (expected.get(name), actual.get(name)) {
            (Some(expected), Some(actual)) if expected == actual => {}
            (Some(expected), Some(actual)) => {
                complaints.push(format!("{name} should be\n{expected}\nbut is\n{actual}"));
            }
            (Some(_), None) => {
                complaints.push(format!("{name} is expected, but there is nothing of that kind"))
            }
            (None, Some(actual)) => complaints.push(format!("{name} is not expected:\n{actual}")),
            (None, None) => {}
        }
    }
    complaints
}

/// Returns the codes of all diagnostics in the expectations of `tests/<kind>/*/`.
fn collect_codes(kind: &str, wanted: fn(&str) -> bool) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for dir in list_cases(kind) {
        for file in list_files(&dir).into_iter().filter(|file| wanted(file)) {
            let text = fs::read_to_string(dir.join(file)).unwrap();
            for line in text.lines() {
                let said = ["error[", "warning[", "note["].iter().find_map(|start| line.strip_prefix(start));
                codes.extend(said.and_then(|rest| rest.split_once("]:")).map(|(code, _)| code.to_owned()));
            }
        }
    }
    codes
}

/// Returns the case folders of one kind, in order.
fn list_cases(kind: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(kind);
    list_files(&root).into_iter().map(|name| root.join(name)).filter(|path| path.is_dir()).collect()
}

fn list_files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
