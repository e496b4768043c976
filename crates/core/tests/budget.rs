//! Tests the properties of every prompt that was fitted to a budget, for any content and any token counter.
//!
//! 3,000 cases; 100,000 with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "support/hostile_texts.rs"]
mod hostile_texts;
#[path = "support/markdown.rs"]
#[expect(dead_code, reason = "only its marks are needed here")]
mod markdown;
#[path = "support/spans.rs"]
mod spans;

use callsheet_core::diag::Code;
use callsheet_core::library::format::ModelApi;
use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::library::recipe::SectionPriority;
use callsheet_core::prompt::{Block, Prompt};
use callsheet_core::render::{RenderedText, render};
use callsheet_core::request::{ContextBlock, RequestDocument};
use callsheet_core::{
    ComposedPrompt, DetailLevel, DocumentDetail, FittedPrompt, MemorySources, PromptFormat, Request,
    SharedText, SourceId, SourceRecorder, SourceRoot, compose, fit,
};
use hostile_texts::{HOSTILE, text};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn config() -> ProptestConfig {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 100_000 } else { 3_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Clone, Debug)]
struct Case {
    levels: [SectionPriority; 4],
    /// The kind, whether the document is a file of the project, the requested detail, and the text.
    documents: Vec<(DocumentKind, bool, Option<DocumentDetail>, String)>,
    context: Vec<String>,
    rules: Vec<String>,
    format: (PromptFormat, Option<ModelApi>),
    counting: Counting,
    /// The share of the optional tokens that fits into the budget, in thousandths.
    room: usize,
}

const FORMATS: [(PromptFormat, Option<ModelApi>); 4] = [
    (PromptFormat::Markdown, None),
    (PromptFormat::Xml, None),
    (PromptFormat::Json, None),
    (PromptFormat::Json, Some(ModelApi::Openai)),
];

#[derive(Clone, Copy, Debug)]
enum Counting {
    Bytes,
    /// Counts runs of letters, of whitespace and of other characters. Like real tokens, the counts of two
    /// parts do not add up to the count of the whole.
    Runs,
    /// Makes longer texts cheaper per byte, so that every estimate is wrong.
    Roots,
}

impl Counting {
    fn count(self, text: &str) -> usize {
        match self {
            Self::Bytes => text.len(),
            Self::Runs => {
                let kind = |c: char| (c.is_alphanumeric(), c.is_whitespace());
                let kinds: Vec<_> = text.chars().map(kind).collect();
                kinds.chunk_by(|a, b| a == b).count()
            }
            Self::Roots => text.len().isqrt() * 8,
        }
    }
}

/// Generates lines that have an outline, mixed with hostile ones.
fn body() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        select(vec![
            "# One\n",
            "## Two\n",
            "fn a() {\n",
            "    let b = 1;\n",
            "        deep(b);\n",
            "}\n",
            "\n",
            "Words, and more words.\n"
        ])
        .prop_map(String::from),
        select(HOSTILE).prop_map(|hostile| format!("{hostile}\n")),
        text(),
    ];
    vec(line, 0..12).prop_map(|lines| lines.concat())
}

fn case() -> impl Strategy<Value = Case> {
    let level = || select(vec![SectionPriority::Must, SectionPriority::Should, SectionPriority::May]);
    let kind = select(vec![DocumentKind::File, DocumentKind::Artifact, DocumentKind::Thought]);
    let detail = option::weighted(
        0.2,
        select(vec![DocumentDetail::Full, DocumentDetail::Outline, DocumentDetail::Path]),
    );
    let counting = select(vec![Counting::Bytes, Counting::Runs, Counting::Roots]);
    (
        [level(), level(), level(), level()],
        vec((kind, any::<bool>(), detail, body()), 0..7),
        vec(body(), 0..3),
        vec(text(), 0..3),
        select(FORMATS.to_vec()),
        counting,
        0..1100_usize,
    )
        .prop_map(|(levels, documents, context, rules, format, counting, room)| Case {
            levels,
            documents,
            context,
            rules,
            format,
            counting,
            room,
        })
}

impl Case {
    fn files(&self) -> MemorySources {
        let [files, rest, context, rules] = self.levels.map(SectionPriority::name);
        let recipe = format!(
            r#"
format = "markdown"

[[section]]
name = "role"
part = "system"
blocks = [{{ template = "templates/identity/{{role}}.md" }}]

[[section]]
name = "rules"
part = "system"
level = "{rules}"
max_bytes = 200
blocks = [{{ value = "rules" }}]

[[section]]
name = "context"
part = "context"
heading = 'Context'
level = "{files}"
blocks = [{{ documents = ["file"] }}, {{ context = true, level = "{context}" }}]

[[section]]
name = "task"
part = "instructions"
required = true
blocks = [{{ value = "instructions" }}]

[[section]]
name = "more"
part = "context"
level = "{rest}"
blocks = [{{ documents = ["artifact", "thought"] }}]

[derive.rules]
from = "rules"

[derive.context_data]
from = "context-data"
"#
        );
        let file = |path: &str, text: &str| {
            (SourceId::new(SourceRoot::Project, path).unwrap(), SharedText::from(text))
        };
        let mut files = vec![
            file(".callsheet/recipes/levels.toml", &recipe),
            file(".callsheet/templates/identity/coder.md", "You write code.\n"),
        ];
        for (at, (.., text)) in self.documents.iter().enumerate() {
            files.push(file(&path(at), text));
        }
        let mut sources = MemorySources::with_builtin();
        sources.extend(files);
        sources
    }

    fn request(&self) -> Request {
        let documents = self.documents.iter().enumerate().map(|(at, (kind, is_file, detail, text))| {
            let path = is_file.then(|| path(at));
            let content = (!is_file).then(|| text.as_str().into());
            let name = (!is_file).then(|| unique_path(at));
            RequestDocument {
                kind: *kind,
                name,
                path,
                content,
                detail: *detail,
                ..RequestDocument::default()
            }
        });
        let context = self.context.iter().enumerate().map(|(at, text)| ContextBlock {
            name: format!("block-{at}"),
            text: Some(text.as_str().into()),
            data: None,
        });
        Request {
            recipe: Some("levels".into()),
            role: Some("coder".into()),
            instructions: Some("Do it.".into()),
            values: [("model", "m")].into(),
            documents: documents.collect(),
            context: context.collect(),
            rules: self.rules.iter().map(|rule| rule.as_str().into()).collect(),
            format: Some(self.format.0),
            ..Request::default()
        }
    }

    fn fit(
        &self,
        files: &MemorySources,
        budget: usize,
    ) -> Result<FittedPrompt, callsheet_core::diag::Diagnostics> {
        let mut count = |_: &ComposedPrompt, text: &str| self.counting.count(text);
        fit(&self.request(), files, self.format.1, budget, &mut count)
    }
}

/// Returns a unique path; every second one is a Markdown file.
fn path(at: usize) -> String {
    format!("src/{at}.{}", if at.is_multiple_of(2) { "md" } else { "rs" })
}

fn unique_path(at: usize) -> String {
    format!("given-{at}.md")
}

/// Composes and renders a request. Returns `None` if the format cannot represent the prompt.
fn compose_and_render(
    case: &Case,
    files: &MemorySources,
    request: &Request,
) -> Option<(ComposedPrompt, RenderedText)> {
    let composed = compose(request, files).unwrap_or_else(|failure| panic!("{failure}"));
    let rendered = render(&composed.prompt, case.format.0, case.format.1).ok()?;
    Some((composed, rendered))
}

/// Returns a request that omits every block that may be omitted, by the keys of its degradations.
fn request_without_optional_blocks(case: &Case, whole: &Prompt) -> Request {
    let mut request = case.request();
    for section in &whole.sections {
        for block in section.blocks.iter().filter(|block| block.level != SectionPriority::Must) {
            let key = match block.unit {
                None => continue,
                Some(callsheet_core::prompt::BudgetUnit::Own) => format!("{}.{}", section.name, block.name),
                Some(callsheet_core::prompt::BudgetUnit::Document(at)) => format!("documents[{at}]"),
                Some(callsheet_core::prompt::BudgetUnit::Context(at)) => format!("context[{at}]"),
            };
            request.steps.insert(key, DetailLevel::Out);
        }
    }
    request
}

fn must_blocks(prompt: &Prompt) -> Vec<(&str, String)> {
    let blocks = prompt.sections.iter().flat_map(|section| section.blocks.iter().map(move |b| (section, b)));
    let kept = blocks.filter(|(_, block)| block.level == SectionPriority::Must);
    kept.map(|(section, block)| (section.name.as_str(), block.text(&prompt.origins))).collect()
}

/// Returns the name of a block in a degradation.
fn block_label(prompt: &Prompt, section: &str, block: &Block) -> String {
    match block.document {
        Some((_, name)) => name.text(&prompt.origins).to_owned(),
        None if block.name.starts_with("block-") => format!("context block {}", block.name),
        None => format!("block {section}.{}", block.name),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fitted_prompt_is_within_budget(case in case()) {
        let files = case.files();
        let Some((whole, all)) = compose_and_render(&case, &files, &case.request()) else { return Ok(()) };
        let Some((_, least)) = compose_and_render(&case, &files, &request_without_optional_blocks(&case, &whole.prompt)) else { return Ok(()) };
        let (most, least) = (case.counting.count(&all.text), case.counting.count(&least.text));
        let budget = (least + most.saturating_sub(least) * case.room / 1000).saturating_sub(case.room % 3);
        let fitted = match case.fit(&files, budget) {
            Ok(fitted) => fitted,
            Err(failure) => {
                let codes: Vec<Code> = failure.0.iter().map(|diag| diag.code).collect();
                prop_assert_eq!(codes, [Code::BudgetMusts]);
                prop_assert!(least > budget && most > budget, "{} fit into {}", least, budget);
                return Ok(());
            }
        };
        prop_assert_eq!(fitted.tokens, case.counting.count(&fitted.rendered.text));
        prop_assert!(fitted.tokens <= budget, "{} tokens are more than {}", fitted.tokens, budget);
        prop_assert_eq!(fitted.steps.is_empty(), most <= budget);
        prop_assert_eq!(must_blocks(&fitted.composed.prompt), must_blocks(&whole.prompt), "a must has changed");
        spans::check_spans(&fitted.composed.prompt, &fitted.rendered).map_err(TestCaseError::fail)?;
        // Fitting again gives the same result, and so does composing the fitted request.
        prop_assert_eq!(&case.fit(&files, budget).unwrap(), &fitted);
        let recorder = SourceRecorder::new(&files);
        compose(&fitted.request, &recorder).unwrap();
        let replayed = compose(&fitted.request, &recorder.finish()).unwrap();
        prop_assert_eq!(replayed.prompt, fitted.composed.prompt);
        prop_assert_eq!(replayed.omitted, fitted.composed.omitted);
    }

    #[test]
    fn degradations_follow_level_and_size(case in case()) {
        let files = case.files();
        let Some((whole, all)) = compose_and_render(&case, &files, &case.request()) else { return Ok(()) };
        let Ok(fitted) = case.fit(&files, case.counting.count(&all.text) * case.room / 1000) else { return Ok(()) };
        let places = all.section_ranges(&whole.prompt);
        // Section, name, level and tokens, in the order of the prompt.
        let mut standing = Vec::new();
        for (section, place) in whole.prompt.sections.iter().zip(places) {
            for (block, range) in section.blocks.iter().zip(place.blocks) {
                let name = block_label(&whole.prompt, &section.name, block);
                let tokens = case.counting.count(&all.text[range]);
                standing.push((section.name.clone(), name, block, DetailLevel::Full, tokens));
            }
        }
        for step in &fitted.steps {
            let can_step = |(_, _, block, rung, _): &&(String, String, &Block, DetailLevel, usize)| {
                block.unit.is_some() && block.level != SectionPriority::Must && *rung != DetailLevel::Out
            };
            let level = standing.iter().filter(can_step).map(|(_, _, block, ..)| block.level).max();
            let same = standing.iter().filter(can_step).filter(|(_, _, block, ..)| Some(block.level) == level);
            let largest = same.clone().map(|(.., tokens)| *tokens).max();
            let next = same.clone().find(|(.., tokens)| Some(*tokens) == largest).unwrap();
            prop_assert_eq!((&next.0, &next.1), (&step.section, &step.what));
            prop_assert_eq!((level, largest), (Some(step.level), Some(step.before)));
            prop_assert!(step.to > step.from);
            prop_assert!(step.after < step.before || step.to == DetailLevel::Out);
            let name = (next.0.clone(), next.1.clone());
            let stepped = standing.iter_mut().find(|(section, what, ..)| (section, what) == (&name.0, &name.1));
            let stepped = stepped.unwrap();
            (stepped.3, stepped.4) = (step.to, step.after);
        }
    }

    #[test]
    fn ranges_contain_their_blocks(case in case()) {
        let files = case.files();
        let Some((composed, rendered)) = compose_and_render(&case, &files, &case.request()) else { return Ok(()) };
        let prompt = &composed.prompt;
        let mut taken = Vec::new();
        for (section, place) in prompt.sections.iter().zip(rendered.section_ranges(prompt)) {
            prop_assert_eq!(section.blocks.len(), place.blocks.len());
            prop_assert_eq!(place.blocks.last().map(|last| last.end), Some(place.section.end));
            prop_assert!(place.blocks[0].start >= place.section.start);
            for (block, range) in section.blocks.iter().zip(place.blocks) {
                let inside = rendered.spans.iter().filter(|span| range.start <= span.start && span.end <= range.end);
                let name = block.document.map(|(_, name)| name);
                let read = inside.filter(|span| span.piece.is_some() && span.piece != name).map(|span| {
                    spans::decode(span.encoding, &rendered.text[span.start..span.end]).unwrap()
                });
                let own = block.pieces.iter().filter(|piece| !prompt.origins[piece.origin].is_engine());
                let own: String = own.map(|piece| piece.text(&prompt.origins)).collect();
                prop_assert_eq!(read.collect::<String>(), own);
                taken.push(range);
            }
        }
        taken.sort_by_key(|range| (range.start, range.end));
        prop_assert!(taken.windows(2).all(|two| two[0].end <= two[1].start), "{:?}", taken);
    }
}
