//! Composes a prompt from its input: scans for secrets, fits a budget, renders, and keeps the inputs of a record.

use callsheet_core::diag::{Diagnostic, Diagnostics};
use callsheet_core::library::format::ModelApi;
use callsheet_core::render::{RenderedText, render};
use callsheet_core::secrets::{Gate, GateReport, SecretMode};
use callsheet_core::{
    ComposedPrompt, Degradation, FittedPrompt, Request, SourceRecorder, Sources, compose, fit,
};
use callsheet_run::PrefetchedSources;
use clap::ArgMatches;

use crate::app::AppContext;
use crate::args::ComposeArgs;
use crate::inputs::{ComposeInput, RequestFile};
use crate::record::PromptInputs;
use crate::secrets;
use crate::tokens::{TokenCounter, TokenSummary};

/// A composed prompt in its delivered form, with all its diagnostics.
pub(crate) struct Composition {
    pub(crate) composed: ComposedPrompt,
    pub(crate) rendered: RenderedText,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The degradations that fitted it into a budget, in order.
    pub(crate) degradations: Vec<Degradation>,
    /// Its number of tokens, if they were counted to fit a budget.
    tokens: Option<usize>,
    /// The secrets that were found, and how each was treated.
    pub(crate) gate_report: GateReport,
    /// The prompt with its secrets masked, if it has any and is shown.
    pub(crate) masked: Option<String>,
    /// The inputs of the record, if the prompt is recorded.
    pub(crate) inputs: Option<PromptInputs>,
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
    pub(crate) fn count_tokens(&mut self) -> TokenSummary {
        let prompt = &mut self.composed.prompt;
        let places = self.rendered.section_ranges(prompt);
        // Only the ranges of the sections are needed from here on, and very many documents take a lot of
        // memory.
        let sections = std::mem::take(&mut prompt.sections).into_iter().zip(places);
        let sections = sections.map(|(section, placed)| (section.name, placed.section)).collect();
        let summary = TokenSummary::new(&self.composed, &self.rendered, sections);
        if self.tokens.is_none() {
            self.diagnostics.extend(summary.window_warning());
        }
        summary
    }
}

pub(crate) fn compose_request(
    app: &AppContext<'_>,
    ask: &ComposeArgs,
    given: Option<&ArgMatches>,
    file: RequestFile,
    then: Purpose,
) -> Result<Composition, Diagnostics> {
    let order = ComposeInput::new(app, ask, given, file)?;
    let form = ComposeOptions {
        mode: secrets::choose_mode(app, ask.secrets.map(|mode| mode.0), then)?,
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
    mut input: ComposeInput,
    options: ComposeOptions,
    purpose: Purpose,
) -> Result<Composition, Diagnostics> {
    let rules = secrets::load_rules(app)?;
    let gate = Gate::new(&rules, options.mode);
    gate.scan_request(&mut input.request);
    gate.mark_clean(secrets::find_clean_texts(&rules, &input.texts));
    let disk = app.disk(input.session);
    let inner: &dyn Sources = match &input.replay {
        Some(snapshot) => snapshot,
        None => &disk,
    };
    let disk = gate.wrap_sources(PrefetchedSources { inner, texts: input.texts, listings: input.listings });
    // The gate is below the recorder, so the record holds exactly the texts that were composed.
    let recorder = (purpose == Purpose::Record).then(|| SourceRecorder::new(&disk));
    let sources: &dyn Sources = match &recorder {
        Some(recorder) => recorder,
        None => &disk,
    };
    let RenderedComposition { request, composed, rendered, steps, tokens } =
        render_input(input.request, sources, options, purpose)
            .map_err(|failure| gate.mask_diagnostics(failure))?;
    app.announce_override("recipe", "recipes", &composed.prompt.recipe);
    if let Some(phase) = &request.phase {
        app.announce_override("contract", "contracts", phase);
    }
    app.announce_templates();
    let (passed, found) = gate.judge(&request, &composed.prompt, &rendered)?;
    let mut diagnostics = input.diagnostics;
    diagnostics.extend(composed.diagnostics.iter().chain(&rendered.diagnostics).cloned());
    diagnostics.extend(composed.agent.check_limits(rendered.text.len(), || rendered.text.chars().count()));
    diagnostics.extend(tokens.and_then(|tokens| TokenCounter::from_prompt(&composed).window_warning(tokens)));
    let mut diagnostics: Vec<Diagnostic> =
        diagnostics.into_iter().map(|diag| gate.mask_diagnostic(diag)).collect();
    diagnostics.extend(found);
    let clean = passed.found.is_empty() && request.secret.is_empty();
    let masked = (!clean && purpose == Purpose::Show)
        .then(|| gate.mask(&request, &composed.prompt, &rendered).into_owned());
    let snapshot = recorder.map(SourceRecorder::finish).unwrap_or_default();
    let made = (purpose == Purpose::Record).then(|| PromptInputs {
        request: request.clone(),
        snapshot,
        api: options.api,
        passed: passed.clone(),
    });
    leak_value((request, disk));
    Ok(Composition {
        composed,
        rendered,
        diagnostics,
        degradations: steps,
        tokens,
        gate_report: passed,
        masked,
        inputs: made,
    })
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
    options: ComposeOptions,
    purpose: Purpose,
) -> Result<RenderedComposition, Diagnostics> {
    let api = options.api;
    Ok(match options.budget {
        None => {
            let composed = compose(&request, sources)?;
            if purpose != Purpose::Record {
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
                counter.get_or_insert_with(|| TokenCounter::from_prompt(composed)).count(text)
            };
            let FittedPrompt { request, composed, rendered, steps, tokens, .. } =
                fit(&request, sources, api, budget, &mut count)?;
            RenderedComposition { request, composed, rendered, steps, tokens: Some(tokens) }
        }
    })
}

/// Leaks `value`. Freeing 10,000 files would add about 10 % to the run, and the process is about to exit.
pub(crate) fn leak_value<T>(value: T) {
    std::mem::forget(value);
}
