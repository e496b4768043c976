//! Counts tokens: exactly if the vocabulary is published, else by an estimate that names its method.
//!
//! A vocabulary takes tens of milliseconds to load, so it is loaded when the first text is counted.

mod parts;

use std::ops::Range;
use std::sync::LazyLock;
use std::thread;

use callsheet_core::diag::{Diagnostic, escape_invisible};
use callsheet_core::library::agent::{Agent, TokenEncoding, TokenizerSpec};
use callsheet_core::render::RenderedText;
use callsheet_core::{ComposedPrompt, Degradation};
use schemars::JsonSchema;
use serde::Serialize;
use tiktoken::CoreBpe;

use self::parts::CountedParts;

static CL100K_BASE: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::cl100k_base);
static O200K_BASE: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::o200k_base);

/// Starts to load the vocabulary of most models in the background.
pub fn preload() {
    // If no thread can be spawned, the vocabulary is loaded on first use.
    let _ = thread::Builder::new().spawn(|| LazyLock::force(&O200K_BASE));
}

/// Token counter for one agent and model.
#[derive(Clone, Debug)]
pub(crate) struct TokenCounter(TokenizerSpec);

/// Counts the tokens of a text by the default vocabulary.
pub fn count_tokens(text: &str) -> usize {
    TokenCounter(TokenizerSpec::default()).count(text)
}

impl TokenCounter {
    /// Returns the counter for the agent and model of the prompt.
    pub(crate) fn from_prompt(composed: &ComposedPrompt) -> Self {
        Self::for_model(&composed.agent, composed.prompt.model.as_deref())
    }

    /// Returns the counter for a model of an agent.
    pub(crate) fn for_model(agent: &Agent, model: Option<&str>) -> Self {
        let known = agent.tokenizer_for(model);
        Self(known.cloned().unwrap_or_else(|| TokenizerSpec {
            percent: Some(100),
            method: "o200k_base, because the model is unknown".into(),
            ..TokenizerSpec::default()
        }))
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.scale_tokens(CountedParts::new(text, &|part| self.count_exactly(part)).total())
    }

    /// Counts tokens by the vocabulary alone, without the scaling of an estimate.
    fn count_exactly(&self, text: &str) -> usize {
        let vocabulary = match self.0.encoding {
            TokenEncoding::Cl100kBase => &CL100K_BASE,
            TokenEncoding::O200kBase => &O200K_BASE,
        };
        // `<|endoftext|>` and the like count as plain text: agents do not let text in a prompt end it.
        vocabulary.count(text)
    }

    /// Returns `exact`, or how tokens are estimated.
    pub(crate) fn method(&self) -> &str {
        if self.0.method.is_empty() { "exact" } else { &self.0.method }
    }

    /// Returns a warning if `tokens` exceeds the model's context window.
    pub(crate) fn window_warning(&self, tokens: usize) -> Option<Diagnostic> {
        self.0.check_window(tokens)
    }
}

/// The tokens of a finished prompt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TokenSummary {
    /// The vocabulary.
    pub encoding: TokenEncoding,
    /// `exact`, or how the number was estimated.
    pub method: String,
    /// Whether the numbers are estimates.
    pub estimated: bool,
    /// The model.
    pub model: Option<String>,
    /// The tokens of the whole prompt.
    pub total: usize,
    /// The bytes of the whole prompt.
    pub bytes: usize,
    /// The characters of the whole prompt.
    pub characters: usize,
    /// The sections in the order of the recipe. Counts do not add up across cuts, and text between sections belongs to none
    /// of them, so their sum is near the total but not equal to it.
    pub sections: Vec<SectionTokens>,
    /// The tokens that the model takes.
    pub context_window: Option<usize>,
    /// The limits of the agent.
    pub limits: PromptLimits,
    #[serde(skip)]
    counter: TokenCounter,
}

/// The tokens of a section.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SectionTokens {
    /// The name of the section.
    pub section: String,
    /// Its tokens.
    pub tokens: usize,
    /// Its bytes.
    pub bytes: usize,
}

/// The limits of an agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PromptLimits {
    /// The most bytes of a prompt.
    pub max_bytes: Option<usize>,
    /// The most characters of a prompt.
    pub max_chars: Option<usize>,
}

impl TokenSummary {
    /// Counts the tokens of a prompt; `sections` holds the name and the range of each section.
    pub fn new(
        composed: &ComposedPrompt,
        rendered: &RenderedText,
        sections: Vec<(String, Range<usize>)>,
    ) -> Self {
        let counter = TokenCounter::from_prompt(composed);
        let exactly = |text: &str| counter.count_exactly(text);
        let counted = CountedParts::new(&rendered.text, &exactly);
        let tokens = counter.0.scale_tokens(counted.total());
        let share = |section: String, range: Range<usize>| SectionTokens {
            section,
            bytes: range.len(),
            tokens: counter.0.scale_tokens(counted.count_within(&rendered.text, range, &exactly)),
        };
        let method = counter.method().to_owned();
        Self {
            encoding: counter.0.encoding,
            method,
            estimated: counter.0.is_estimate(),
            model: composed.prompt.model.clone(),
            total: tokens,
            bytes: rendered.text.len(),
            characters: rendered.text.chars().count(),
            sections: sections.into_iter().map(|(name, range)| share(name, range)).collect(),
            context_window: counter.0.context_window,
            limits: PromptLimits { max_bytes: composed.agent.max_bytes, max_chars: composed.agent.max_chars },
            counter,
        }
    }

    /// Returns a warning if the prompt exceeds the model's context window.
    pub(crate) fn window_warning(&self) -> Option<Diagnostic> {
        self.counter.window_warning(self.total)
    }

    /// Formats the summary as a table for people.
    pub fn to_table(&self) -> String {
        let row = |tokens: usize, bytes: usize, name: &str| format!("{tokens:>9} {bytes:>9}  {name}\n");
        let mut table = format!("{:>9} {:>9}\n", "tokens", "bytes");
        for SectionTokens { section, tokens, bytes } in &self.sections {
            table.push_str(&row(*tokens, *bytes, section));
        }
        table.push_str(&row(self.total, self.bytes, "total"));
        let model =
            self.model.as_ref().map(|model| format!(" for {}", escape_invisible(model))).unwrap_or_default();
        table.push_str(&if self.estimated {
            format!("estimated{model}: {}\n", escape_invisible(&self.method))
        } else {
            format!("exact{model}: {}\n", self.encoding.name())
        });
        if let Some(window) = self.context_window {
            table.push_str(&format!("the model accepts {window} tokens\n"));
        }
        table
    }
}

/// Formats a degradation as a line for people.
pub fn degradation_line(step: &Degradation) -> String {
    format!(
        "{} ({}, {}): {} → {}, {} → {} tokens",
        escape_invisible(&step.what),
        step.section,
        step.level.name(),
        step.from.name(),
        step.to.name(),
        step.before,
        step.after,
    )
}

#[cfg(test)]
mod tests;
