//! Composes a prompt from its input: scans for secrets, fits a budget, renders, and keeps the inputs of a record.

mod input_items;
pub mod input_reader;
pub mod inputs;
pub mod pack;
pub(crate) mod read_first;
pub mod record;
pub mod secrets;
pub mod sources_file;
pub mod tokens;

use std::io::Write;

use callsheet_core::delivery::split::find_shared_end;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::format::ModelApi;
use callsheet_core::prompt::Section;
use callsheet_core::render::{RenderedText, render, render_parts};
use callsheet_core::secrets::{Gate, GateReport, SecretMode};
use callsheet_core::{
    ComposedPrompt, Degradation, FittedPrompt, Request, SourceRecorder, Sources, compose, fit,
};
use callsheet_run::PrefetchedSources;
use record::PromptInputs;
use tokens::{TokenCounter, TokenSummary};

use crate::error::Result;
use crate::project::Project;
use inputs::{ComposeInput, PreparedInput, RequestFile};

/// A composed prompt in its delivered form, with all its diagnostics.
#[derive(Debug)]
#[non_exhaustive]
pub struct Composition {
    /// The prompt as data, with its origins.
    pub composed: ComposedPrompt,
    /// The text that an agent gets, with the origin of every range.
    pub rendered: RenderedText,
    /// Diagnostics without secrets.
    pub diagnostics: Vec<Diagnostic>,
    /// The degradations that fitted it into a budget, in order.
    pub degradations: Vec<Degradation>,
    /// Its number of tokens, if they were counted to fit a budget.
    tokens: Option<usize>,
    /// The secrets that were found, and how each was treated.
    pub gate_report: GateReport,
    /// The prompt with its secrets masked, if it has any and is shown.
    pub masked: Option<String>,
    /// The inputs of the record, if the prompt is recorded.
    pub(crate) inputs: Option<PromptInputs>,
}

/// The use of a composed prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Printed as it is. If secrets are allowed, it is not scanned for them.
    Print,
    /// Shown with its secrets masked.
    Show,
    /// Recorded, so every source that is read is kept.
    Record,
}

impl Composition {
    /// Returns the text of the prompt without secrets. A mask has the same length in bytes as the text that it covers, so all
    /// ranges stay valid.
    pub fn shown_text(&self) -> &str {
        self.masked.as_ref().unwrap_or(&self.rendered.text)
    }

    /// Returns the text that an agent gets.
    pub fn text(&self) -> &str {
        &self.rendered.text
    }

    /// Returns the length of the part that does not depend on the task, which a delivery in two parts puts into the agent's
    /// system prompt.
    pub fn shared_bytes(&self) -> usize {
        find_shared_end(&self.composed.prompt, &self.rendered)
    }

    /// Returns the sections of the prompt.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.composed.prompt.sections.iter()
    }

    /// Returns the name of the agent's file; `base` if the prompt is for no agent.
    pub(crate) fn agent_name(&self) -> String {
        let named = self.inputs.as_ref().and_then(|inputs| inputs.request.agent.clone());
        named.unwrap_or_else(|| "base".to_owned())
    }

    /// Returns the values that the request marks as secret, by key.
    pub(crate) fn secret_values(&self) -> Vec<(String, String)> {
        let Some(inputs) = &self.inputs else { return Vec::new() };
        let request = &inputs.request;
        let value = |key: &String| Some((key.clone(), request.values.get(key)?.to_string()));
        request.secret.iter().filter_map(value).collect()
    }

    /// Returns the id of the task.
    pub fn task_id(&self) -> Option<String> {
        let task = self.inputs.as_ref()?.request.task.as_ref()?;
        task.id.as_ref().map(ToString::to_string)
    }

    /// Counts the tokens of the prompt by section, and adds a warning if they exceed the model's window.
    /// Takes the sections out of the prompt.
    pub fn count_tokens(&mut self) -> TokenSummary {
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

impl Project {
    /// Composes a prompt.
    ///
    /// ```
    /// use callsheet::{ComposeInput, Project, Purpose};
    ///
    /// let dir = tempfile::tempdir().unwrap();
    /// let project = Project::open(dir.path())?;
    /// let input = ComposeInput {
    ///     phase: Some("plan".into()),
    ///     task: Some("Add a login page.".into()),
    ///     ..ComposeInput::default()
    /// };
    /// let composition = project.compose(&input, Purpose::Print)?;
    /// assert!(composition.text().contains("Add a login page."));
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn compose(&self, input: &ComposeInput, purpose: Purpose) -> Result<Composition> {
        let file = RequestFile::read(self, input)?;
        self.compose_request(input, file, purpose)
    }

    /// Composes a prompt and writes its text to `out`: as it goes, if nothing needs the whole text, such as a
    /// scan for secrets or a budget. Passes the diagnostics to `report`: before a whole text, after a text in
    /// parts. Returns the prompt as data.
    pub fn compose_to(
        &self,
        input: &ComposeInput,
        file: RequestFile,
        out: &mut dyn Write,
        report: impl FnOnce(&[Diagnostic]),
    ) -> Result<ComposedPrompt> {
        let (prepared, options) = self.prepare_input(input, file, Purpose::Print)?;
        let mut written = Ok(());
        let mut take = |part: &str| {
            if written.is_ok() {
                written = out.write_all(part.as_bytes());
            }
        };
        let composition = compose_parts(self, prepared, options, Purpose::Print, Some(&mut take))?;
        report(&composition.diagnostics);
        take(composition.text());
        let written = written.and_then(|()| out.flush());
        written.map_err(|error| Diagnostic::error(Code::OutputFailed, error.to_string()))?;
        Ok(composition.composed)
    }

    /// Composes a prompt whose request file was read before.
    pub fn compose_request(
        &self,
        input: &ComposeInput,
        file: RequestFile,
        purpose: Purpose,
    ) -> Result<Composition> {
        let (prepared, options) = self.prepare_input(input, file, purpose)?;
        compose_input(self, prepared, options, purpose)
    }

    pub(crate) fn prepare_input(
        &self,
        input: &ComposeInput,
        file: RequestFile,
        purpose: Purpose,
    ) -> Result<(PreparedInput, ComposeOptions)> {
        let prepared = PreparedInput::new(self, input, file)?;
        let mode = secrets::choose_mode(self, input.secrets, purpose)?;
        Ok((prepared, ComposeOptions { mode, budget: input.budget, api: input.api }))
    }
}

/// Options of a composition that are not part of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComposeOptions {
    pub mode: SecretMode,
    pub budget: Option<usize>,
    pub api: Option<ModelApi>,
}

pub(crate) fn compose_input(
    project: &Project,
    input: PreparedInput,
    options: ComposeOptions,
    purpose: Purpose,
) -> Result<Composition> {
    compose_parts(project, input, options, purpose, None)
}

/// Receives the text of a prompt in parts.
type TakePart<'t> = &'t mut dyn FnMut(&str);

/// Composes a prompt. Passes its text to `take` instead of returning it, if nothing needs the whole text.
fn compose_parts(
    project: &Project,
    mut input: PreparedInput,
    options: ComposeOptions,
    purpose: Purpose,
    take: Option<TakePart<'_>>,
) -> Result<Composition> {
    // Nothing is done about secrets that are allowed and neither declared, reported nor recorded.
    let is_scanned =
        options.mode != SecretMode::Allow || purpose != Purpose::Print || !input.request.secret.is_empty();
    let rules = if is_scanned { Some(secrets::load_rules(project)?) } else { None };
    let gate = rules.as_ref().map(|rules| Gate::new(rules, options.mode));
    if let (Some(gate), Some(rules)) = (&gate, &rules) {
        gate.scan_request(&mut input.request);
        gate.mark_clean(secrets::find_clean_texts(rules, &input.texts));
    }
    let disk = project.disk(input.session);
    let inner: &dyn Sources = match &input.replay {
        Some(snapshot) => snapshot,
        None => &disk,
    };
    let read = PrefetchedSources { inner, texts: input.texts, listings: input.listings };
    let gated = gate.as_ref().map(|gate| gate.wrap_sources(&read));
    let sources: &dyn Sources = match &gated {
        Some(gated) => gated,
        None => &read,
    };
    // The gate is below the recorder, so the record holds exactly the texts that were composed.
    let recorder = (purpose == Purpose::Record).then(|| SourceRecorder::new(sources));
    let sources: &dyn Sources = match &recorder {
        Some(recorder) => recorder,
        None => sources,
    };
    let take = take.filter(|_| gate.is_none() && options.budget.is_none());
    let RenderedComposition { request, composed, rendered, size, steps, tokens } =
        render_input(input.request, sources, options, purpose, take).map_err(|failure| match &gate {
            Some(gate) => failure.map_diagnostics(|diag| gate.mask_diagnostic(diag)),
            None => failure,
        })?;
    project.announce_override("recipe", "recipes", &composed.prompt.recipe);
    if let Some(phase) = &request.phase {
        project.announce_override("contract", "contracts", phase);
    }
    project.announce_templates();
    let (passed, found) = match &gate {
        Some(gate) => gate.judge(&request, &composed.prompt, &rendered)?,
        None => (GateReport { mode: options.mode, ..GateReport::default() }, Vec::new()),
    };
    let mut diagnostics = input.diagnostics;
    diagnostics.extend(composed.diagnostics.iter().chain(&rendered.diagnostics).cloned());
    diagnostics.extend(composed.agent.check_limits(size.0, || size.1));
    diagnostics.extend(tokens.and_then(|tokens| TokenCounter::from_prompt(&composed).window_warning(tokens)));
    let mut diagnostics = match &gate {
        Some(gate) => diagnostics.into_iter().map(|diag| gate.mask_diagnostic(diag)).collect(),
        None => diagnostics,
    };
    diagnostics.extend(found);
    let clean = passed.found.is_empty() && request.secret.is_empty();
    let masked = gate
        .as_ref()
        .filter(|_| !clean && purpose == Purpose::Show)
        .map(|gate| gate.mask(&request, &composed.prompt, &rendered).into_owned());
    let snapshot = recorder.map(SourceRecorder::finish).unwrap_or_default();
    let made = (purpose == Purpose::Record).then(|| PromptInputs {
        request: request.clone(),
        snapshot,
        api: options.api,
        passed: passed.clone(),
    });
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
    /// Bytes and characters of the text; the characters only if the agent limits them.
    size: (usize, usize),
    steps: Vec<Degradation>,
    tokens: Option<usize>,
}

fn render_input(
    mut request: Request,
    sources: &dyn Sources,
    options: ComposeOptions,
    purpose: Purpose,
    take: Option<TakePart<'_>>,
) -> Result<RenderedComposition> {
    let api = options.api;
    let measure = |composed: &ComposedPrompt, text: &str| {
        (text.len(), composed.agent.max_chars.map_or(0, |_| text.chars().count()))
    };
    Ok(match options.budget {
        None => {
            let composed = compose(&request, sources)?;
            if purpose != Purpose::Record {
                // The prompt holds the texts. For very many documents, the rest of the request takes as much
                // memory as the prompt.
                request.documents = Vec::new();
            }
            let format = composed.prompt.format;
            let (rendered, size) = match take {
                None => {
                    let rendered = render(&composed.prompt, format, api)?;
                    let size = measure(&composed, &rendered.text);
                    (rendered, size)
                }
                Some(take) => {
                    let mut size = (0, 0);
                    let mut rendered = RenderedText::default();
                    rendered.diagnostics = render_parts(&composed.prompt, format, api, &mut |part| {
                        let (bytes, chars) = measure(&composed, part);
                        size = (size.0 + bytes, size.1 + chars);
                        take(part);
                    })?;
                    (rendered, size)
                }
            };
            RenderedComposition { request, composed, rendered, size, steps: Vec::new(), tokens: None }
        }
        Some(budget) => {
            let mut counter = None;
            let mut count = |composed: &ComposedPrompt, text: &str| {
                counter.get_or_insert_with(|| TokenCounter::from_prompt(composed)).count(text)
            };
            let FittedPrompt { request, composed, rendered, steps, tokens, .. } =
                fit(&request, sources, api, budget, &mut count)?;
            let size = measure(&composed, &rendered.text);
            RenderedComposition { request, composed, rendered, size, steps, tokens: Some(tokens) }
        }
    })
}
