//! `callsheet compose`: builds a prompt and prints it, and runs nothing.

use std::path::PathBuf;

use callsheet_core::diag::{Diagnostic, Diagnostics};
use callsheet_core::library::format::ModelApi;
use callsheet_core::render::{RenderedText, render, render_parts};
use callsheet_core::secrets::{Gate, GateReport, SecretMode};
use callsheet_core::{
    ComposedPrompt, Degradation, FittedPrompt, Request, SourceRecorder, Sources, compose, fit,
};
use callsheet_run::PrefetchedSources;
use clap::ArgMatches;
use serde_json::json;

use crate::app::AppContext;
use crate::args::ComposeArgs;
use crate::failure::CommandResult;
use crate::inputs::{ComposeInput, RequestFile};
use crate::ledger::failure;
use crate::print::diag_json;
use crate::record::PromptInputs;
use crate::secrets;
use crate::tokens::{self, TokenCounter, TokenSummary};
use crate::write::{output_file, write_out};

const EXAMPLES: &str = "Examples:
  callsheet compose -p plan \"Add login\"
  callsheet compose -r run --role coder -f src/login.rs --write 'src/**' \"Fix the timeout\"";

/// Build a prompt and print it
///
/// Prints exactly the bytes that an agent would get, and adds nothing, not even a newline. Nothing runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) ask: ComposeArgs,
    /// Write the prompt to a file instead of standard output, which is -
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print how many tokens the prompt has, by section and in all, instead of the prompt
    #[arg(long, conflicts_with = "out")]
    count: bool,
    /// Record the prompt and everything that it was made of in the ledger; the run's id goes to standard error
    #[arg(long, conflicts_with = "count")]
    record: bool,
}

pub(crate) fn run(app: &AppContext<'_>, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let file = RequestFile::read(app, &args.ask)?;
    let elsewhere = file.elsewhere(app)?;
    let app = elsewhere.as_ref().unwrap_or(app);
    let then = if args.record { Purpose::Record } else { Purpose::Forget };
    let out = output_file(&app.here, args.out.as_deref())?;
    let whole = out.is_some() || args.count || app.print.json || args.ask.budget.is_some() || args.record;
    if !whole && secrets::mode(app, args.ask.secrets.map(|mode| mode.0), then)? == SecretMode::Allow {
        return stream(app, &args.ask, given, file);
    }
    if args.count {
        tokens::prepare();
    }
    let finished = finish(app, &args.ask, given, file, then)?;
    if args.count {
        return count(app, finished);
    }
    let Composition { composed, rendered, talk, passed, made, .. } = finished;
    app.print.print_masked_diagnostics(&talk);
    let run = match made {
        Some(made) => {
            let run = made.run(app, &composed)?;
            let id = run.id.clone();
            let kept = made.kept(run, (&composed, &rendered), &talk)?;
            app.create_ledger()?.compose(&kept).map_err(failure)?;
            Some(id)
        }
        None => None,
    };
    if let Some(run) = &run {
        app.print.say(&format!("run {run}"));
    }
    if let Some(out) = &out {
        write_out(&app.project, out, rendered.text.as_bytes())?;
    }
    if app.print.json {
        let mut object = json!({
            "recipe": composed.prompt.recipe,
            "format": composed.prompt.format,
            "text": rendered.text,
            "secrets": passed,
            "warnings": talk.iter().map(diag_json).collect::<Vec<_>>(),
        });
        if let Some(run) = &run {
            object["run"] = json!(run);
        }
        return app.print.value(&object);
    }
    if out.is_none() {
        app.print.data(rendered.text.as_bytes())?;
    }
    leak_value(composed);
    Ok(0)
}

/// Composes a prompt and writes it to standard output part by part: the whole prompt is never in memory, and
/// the diagnostics follow it. Used only with `--secrets allow`.
fn stream(
    app: &AppContext<'_>,
    ask: &ComposeArgs,
    given: Option<&ArgMatches>,
    file: RequestFile,
) -> CommandResult {
    let ComposeInput { mut request, session, texts, listings, mut talk, .. } =
        ComposeInput::new(app, ask, given, file)?;
    let sources = PrefetchedSources { inner: app.disk(session), texts, listings };
    let masked = |request: &mut Request, failure: Diagnostics| -> Diagnostics {
        if request.secret.is_empty() {
            return failure;
        }
        match secrets::rules(app) {
            Ok(rules) => {
                let gate = Gate::new(&rules, SecretMode::Allow);
                gate.request(request);
                gate.mask_diagnostics(failure)
            }
            Err(failure) => failure,
        }
    };
    let composed = match compose(&request, &sources) {
        Ok(composed) => composed,
        Err(failure) => return Err(masked(&mut request, failure)),
    };
    app.announce("recipe", "recipes", &composed.prompt.recipe);
    app.announce_templates();
    let (mut bytes, mut chars) = (0, 0);
    let rendered = app.print.parts(|write| {
        render_parts(&composed.prompt, composed.prompt.format, ask.api.map(|api| api.0), &mut |part| {
            bytes += part.len();
            chars += composed.agent.max_chars.map_or(0, |_| part.chars().count());
            write(part)
        })
    });
    talk.extend(composed.talk.iter().chain(&rendered?).cloned());
    talk.extend(composed.agent.limit_warnings(bytes, || chars));
    let Diagnostics(talk) = masked(&mut request, Diagnostics(talk));
    app.print.talk(&talk);
    leak_value((request, sources, composed));
    Ok(0)
}

/// Leaks `value`. Freeing 10,000 files would add about 10 % to the run, and the process is about to exit.
fn leak_value<T>(value: T) {
    std::mem::forget(value);
}

fn count(app: &AppContext<'_>, mut finished: Composition) -> CommandResult {
    let summary = finished.summary();
    app.print.print_masked_diagnostics(&finished.talk);
    if app.print.json {
        let mut object = summary.json();
        object["warnings"] = finished.talk.iter().map(diag_json).collect();
        return app.print.value(&object);
    }
    app.print.data(summary.table().as_bytes())?;
    Ok(0)
}

/// A composed prompt in its delivered form, with all its diagnostics.
pub(crate) struct Composition {
    pub(crate) composed: ComposedPrompt,
    pub(crate) rendered: RenderedText,
    pub(crate) talk: Vec<Diagnostic>,
    /// The degradations that fitted it into a budget, in order.
    pub(crate) steps: Vec<Degradation>,
    /// Its number of tokens, if they were counted to fit a budget.
    tokens: Option<usize>,
    /// The secrets that were found, and how each was treated.
    pub(crate) passed: GateReport,
    /// The prompt with its secrets masked, if it has any and is shown.
    pub(crate) masked: Option<String>,
    /// The inputs of the record, if the prompt is recorded.
    pub(crate) made: Option<PromptInputs>,
}

/// The use of a composed prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Forget,
    /// Shown with its secrets masked.
    Show,
    /// Recorded, so every source that is read is kept.
    Record,
}

impl Composition {
    /// Counts the tokens of the prompt by section, and adds a warning if they exceed the model's window.
    /// Takes the sections out of the prompt.
    pub(crate) fn summary(&mut self) -> TokenSummary {
        let prompt = &mut self.composed.prompt;
        let places = self.rendered.places(prompt);
        // Only the ranges of the sections are needed from here on, and very many documents take a lot of
        // memory.
        let sections = std::mem::take(&mut prompt.sections).into_iter().zip(places);
        let sections = sections.map(|(section, placed)| (section.name, placed.section)).collect();
        let summary = TokenSummary::new(&self.composed, &self.rendered, sections);
        if self.tokens.is_none() {
            self.talk.extend(summary.over_window());
        }
        summary
    }
}

pub(crate) fn finish(
    app: &AppContext<'_>,
    ask: &ComposeArgs,
    given: Option<&ArgMatches>,
    file: RequestFile,
    then: Purpose,
) -> Result<Composition, Diagnostics> {
    let order = ComposeInput::new(app, ask, given, file)?;
    let form = ComposeOptions {
        mode: secrets::mode(app, ask.secrets.map(|mode| mode.0), then)?,
        budget: ask.budget,
        api: ask.api.map(|api| api.0),
    };
    compose_input(app, order, form, then)
}

/// Options of a composition that are not part of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComposeOptions {
    pub(crate) mode: SecretMode,
    pub(crate) budget: Option<usize>,
    pub(crate) api: Option<ModelApi>,
}

pub(crate) fn compose_input(
    app: &AppContext<'_>,
    mut order: ComposeInput,
    form: ComposeOptions,
    then: Purpose,
) -> Result<Composition, Diagnostics> {
    let rules = secrets::rules(app)?;
    let gate = Gate::new(&rules, form.mode);
    gate.request(&mut order.request);
    gate.clean(secrets::clean(&rules, &order.texts));
    let disk = app.disk(order.session);
    let inner: &dyn Sources = match &order.replay {
        Some(snapshot) => snapshot,
        None => &disk,
    };
    let disk = gate.sources(PrefetchedSources { inner, texts: order.texts, listings: order.listings });
    // The gate is below the recorder, so the record holds exactly the texts that were composed.
    let recorder = (then == Purpose::Record).then(|| SourceRecorder::new(&disk));
    let sources: &dyn Sources = match &recorder {
        Some(recorder) => recorder,
        None => &disk,
    };
    let RenderedComposition { request, composed, rendered, steps, tokens } =
        render_input(order.request, sources, form, then).map_err(|failure| gate.mask_diagnostics(failure))?;
    app.announce("recipe", "recipes", &composed.prompt.recipe);
    if let Some(phase) = &request.phase {
        app.announce("contract", "contracts", phase);
    }
    app.announce_templates();
    let (passed, found) = gate.judge(&request, &composed.prompt, &rendered)?;
    let mut talk = order.talk;
    talk.extend(composed.talk.iter().chain(&rendered.talk).cloned());
    talk.extend(composed.agent.limit_warnings(rendered.text.len(), || rendered.text.chars().count()));
    talk.extend(tokens.and_then(|tokens| TokenCounter::of(&composed).over_window(tokens)));
    let mut talk: Vec<Diagnostic> = talk.into_iter().map(|diag| gate.mask_diagnostic(diag)).collect();
    talk.extend(found);
    let clean = passed.found.is_empty() && request.secret.is_empty();
    let masked = (!clean && then == Purpose::Show)
        .then(|| gate.mask(&request, &composed.prompt, &rendered).into_owned());
    let snapshot = recorder.map(SourceRecorder::finish).unwrap_or_default();
    let made = (then == Purpose::Record).then(|| PromptInputs {
        request: request.clone(),
        snapshot,
        api: form.api,
        passed: passed.clone(),
    });
    leak_value((request, disk));
    Ok(Composition { composed, rendered, talk, steps, tokens, passed, masked, made })
}

/// A prompt in its final form, the request that produced it, its degradations, and its tokens if they were
/// counted.
struct RenderedComposition {
    request: Request,
    composed: ComposedPrompt,
    rendered: RenderedText,
    steps: Vec<Degradation>,
    tokens: Option<usize>,
}

fn render_input(
    mut request: Request,
    sources: &dyn Sources,
    form: ComposeOptions,
    then: Purpose,
) -> Result<RenderedComposition, Diagnostics> {
    let api = form.api;
    Ok(match form.budget {
        None => {
            let composed = compose(&request, sources)?;
            if then != Purpose::Record {
                // The prompt holds the texts. For very many documents, the rest of the request takes as much
                // memory as the prompt.
                request.documents = Vec::new();
            }
            let rendered = render(&composed.prompt, composed.prompt.format, api)?;
            RenderedComposition { request, composed, rendered, steps: Vec::new(), tokens: None }
        }
        Some(budget) => {
            let mut counter = None;
            let mut count = |composed: &ComposedPrompt, text: &str| {
                counter.get_or_insert_with(|| TokenCounter::of(composed)).count(text)
            };
            let FittedPrompt { request, composed, rendered, steps, tokens, .. } =
                fit(&request, sources, api, budget, &mut count)?;
            RenderedComposition { request, composed, rendered, steps, tokens: Some(tokens) }
        }
    })
}
