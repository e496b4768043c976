//! Tests that the fuzzer detects every broken promise: a broken engine replaces the real one.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use callsheet_core::compose::ComposedPrompt;
use callsheet_core::library::format::PromptFormat;
use callsheet_core::library::recipe::RecipeFile;
use callsheet_core::prompt::Prompt;
use callsheet_core::render::{RenderedText, render};
use callsheet_core::source::builtin::Builtin;

/// Returns the findings for `value` as the instructions of a shipped recipe's prompt.
fn find_messages(engine: EngineUnderTest, recipe: &str, value: &str) -> Vec<String> {
    let layout = Layout::default();
    let sources = CachedSources::new(Builtin);
    let options = FuzzOptions::default();
    let choices = list_variants(&sources, &layout, FuzzSubject::Recipe(recipe), &options).unwrap();
    let mut run = FuzzRun { engine: OURS, sources: &sources, layout: &layout, report: FuzzReport::default() };
    let trials = run.list_trials(&choices[0], &mut BTreeSet::new()).unwrap();
    let trial = trials.iter().find(|trial| trial.input == FuzzInput::Field(0)).unwrap();
    run.engine = engine;
    run.attempt(trial, &value.into());
    run.report.findings.into_iter().map(|finding| finding.diag.message).collect()
}

fn expected_message(what: &str) -> Vec<String> {
    alloc::vec![format!("a value of `instructions` breaks a promise: {what}")]
}

const VALUES: [&str; 3] = [" {{> constraints}}", "a\n\n---\n\n## Role\n", "</task>"];

#[test]
fn shipped_engine_keeps_promises() {
    for (recipe, value) in
        ["run", "layers", "unified"].iter().flat_map(|recipe| VALUES.map(|it| (recipe, it)))
    {
        assert_eq!(find_messages(OURS, recipe, value), Vec::<String>::new(), "{recipe}: {value}");
    }
}

type Compose = fn(&Request, &RecipeFile, &dyn Sources) -> Result<ComposedPrompt, Diagnostics>;

#[test]
fn broken_composers_are_found() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let cases: [(Compose, &str); 4] = [
        (
            |request, recipe, sources| {
                sources.text(&SourceId::new(SourceRoot::Project, "secret").unwrap()).unwrap();
                (OURS.compose)(request, recipe, sources)
            },
            "it makes composing read `project:secret`",
        ),
        (
            |request, recipe, sources| {
                let trimmed = request.instructions.as_ref().map(|text| text.trim().into());
                (OURS.compose)(&Request { instructions: trimmed, ..request.clone() }, recipe, sources)
            },
            "the prompt differs from the plain one in more than the value",
        ),
        (
            |request, recipe, sources| {
                let mut composed = (OURS.compose)(request, recipe, sources)?;
                composed.prompt.recipe = format!("{}", CALLS.fetch_add(1, Ordering::Relaxed));
                Ok(composed)
            },
            "the sources that composing read do not give the same prompt again",
        ),
        (
            |_, _, _| Err(Diagnostic::error(Code::FragmentNotFound, "fragment not found: `x`").into()),
            "it makes composing fail: fragment/not-found: fragment not found: `x`",
        ),
    ];
    for (compose, what) in cases {
        assert_eq!(
            find_messages(EngineUnderTest { compose, ..OURS }, "run", VALUES[0]),
            expected_message(what)
        );
    }
}

type Render = fn(&Prompt, PromptFormat) -> Result<RenderedText, Diagnostics>;

/// Renders the prompt, and alters the result.
fn render_altered(
    prompt: &Prompt,
    format: PromptFormat,
    alter: impl FnOnce(&mut RenderedText),
) -> Result<RenderedText, Diagnostics> {
    let mut rendered = render(prompt, format, None)?;
    alter(&mut rendered);
    Ok(rendered)
}

/// Renders the prompt and replaces some bytes by as many others.
fn render_replaced(
    prompt: &Prompt,
    format: PromptFormat,
    from: &str,
    to: &str,
) -> Result<RenderedText, Diagnostics> {
    render_altered(prompt, format, |rendered| rendered.text = rendered.text.replace(from, to))
}

/// Renders without knowing which texts were supplied, so nothing is put between tags.
fn render_careless(prompt: &Prompt, format: PromptFormat) -> Result<RenderedText, Diagnostics> {
    let mut prompt = prompt.clone();
    let blocks = prompt.sections.iter_mut().flat_map(|section| &mut section.blocks);
    blocks.for_each(|block| block.supplied.clear());
    render(&prompt, format, None)
}

#[test]
fn broken_renderers_are_found() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let cases: [(Render, &str, &str, &str); 11] = [
        (render_careless, "run", "a\n\n## Role\n", "it makes a line that the format uses itself"),
        (render_careless, "run", "a\n---\n", "it makes a line that the format uses itself"),
        (render_careless, "layers", "a\n\n---\n\nb", "it makes a line that the format uses itself"),
        (
            |prompt, format| render_replaced(prompt, format, "task-2>", "task  >"),
            "run",
            "</task>",
            "it ends the <task> tags around it",
        ),
        (
            |prompt, format| {
                let more = " ".repeat(CALLS.fetch_add(1, Ordering::Relaxed));
                render_altered(prompt, format, |rendered| rendered.text.push_str(&more))
            },
            "run",
            "x",
            "rendering the same prompt again gives other bytes",
        ),
        (
            |prompt, format| {
                render_altered(prompt, format, |rendered| rendered.spans.truncate(rendered.spans.len() - 1))
            },
            "unified",
            "x",
            "the origins do not reach the end in Markdown",
        ),
        (
            |prompt, format| {
                render_altered(prompt, format, |rendered| rendered.spans = rendered.spans.split_off(1))
            },
            "run",
            "x",
            "the origins leave a gap in Markdown",
        ),
        (
            |prompt, format| render_replaced(prompt, format, "xyz", "xyy"),
            "run",
            "xyz",
            "a text differs from its origin in Markdown",
        ),
        (
            |prompt, format| {
                render_altered(prompt, format, |RenderedText { text, spans, .. }| {
                    let ranges = spans.iter_mut().filter(|span| text[span.start..span.end] == *"xyz");
                    ranges.for_each(|span| span.piece = None);
                })
            },
            "run",
            "xyz",
            "a text is missing in Markdown",
        ),
        (
            |prompt, format| render_replaced(prompt, format, "</prompt>", "</promp >"),
            "run",
            "x",
            "cannot read the Xml",
        ),
        (
            |prompt, format| render_replaced(prompt, format, "\"instructions\":", "\"instructions\" "),
            "run",
            "x",
            "cannot read the Json",
        ),
    ];
    for (render, recipe, value, what) in cases {
        assert_eq!(find_messages(EngineUnderTest { render, ..OURS }, recipe, value), expected_message(what));
    }
}

#[test]
fn unwritable_or_altered_format_is_found() {
    let fails: Render = |prompt, format| match format {
        PromptFormat::Xml => Err(Diagnostic::error(Code::OutputFailed, "no").into()),
        _ => render(prompt, format, None),
    };
    assert_eq!(
        find_messages(EngineUnderTest { render: fails, ..OURS }, "run", "x"),
        expected_message("cannot write Xml")
    );
    // The bytes are those of the value, but a reader sees a reference in them.
    let unprotected: Render = |prompt, format| {
        render_altered(prompt, format, |RenderedText { text, .. }| {
            if let Some(at) = text.rfind("<![CDATA[").filter(|_| format == PromptFormat::Xml) {
                let end = text[at..].replace("<![CDATA[", &" ".repeat(9)).replace("]]>", "   ");
                text.replace_range(at.., &end);
            }
        })
    };
    let other = find_messages(EngineUnderTest { render: unprotected, ..OURS }, "unified", "a&amp;b");
    assert_eq!(other, expected_message("the Xml does not contain the value"));
}

#[test]
fn same_seed_gives_same_values() {
    let own = alloc::vec!["-->".into()];
    let values = |seed| {
        let mut random = values::SeededRandom(seed);
        (0..50).map(|_| random.next_value(&own)).collect::<Vec<SharedText>>()
    };
    assert_eq!(values(1), values(1));
    assert_ne!(values(1), values(2));
}
