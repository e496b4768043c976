//! Prompts, with the origin of every byte and the number of their tokens.

use std::collections::BTreeMap;

use callsheet_core::Degradation;
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::library::format::PromptFormat;
use callsheet_core::library::omission::OmittedInput;
use callsheet_core::library::template::read_version;
use callsheet_core::prompt::OriginTable;
use callsheet_core::record::{Composed, Digest, Id, OriginNote, OriginRange, sha256};
use callsheet_core::render::{RenderedRange, TextEncoding};
use callsheet_core::request::Profile;
use callsheet_core::secrets::{FoundSecret, GateReport, SecretMode};
use callsheet_core::source::origin::{OriginKind, Trust};
use callsheet_core::{SharedText, SourceId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::compose::Composition;
use crate::compose::tokens::TokenSummary;
use crate::diagnostics::{DiagnosticOutput, PlaceOutput, ReasonOutput, diagnostic_outputs};
use crate::prompt_diff::{DiffSide, LineChange, SectionChanges};

/// A composed prompt: the text and the tools are all that a model needs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PromptOutput {
    /// The run that it was recorded as.
    pub run: Option<Id>,
    /// The recipe.
    pub recipe: String,
    /// The format of the text.
    pub format: PromptFormat,
    /// The prompt.
    pub text: String,
    /// The definitions of the tools, as they were given.
    pub tools: Vec<Value>,
    /// The origin of every byte of the text.
    pub origins: Vec<OriginOutput>,
    /// The secrets that were found.
    pub secrets: SecretsOutput,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

impl PromptOutput {
    /// Describes a prompt, which was recorded as `run`.
    pub fn new(composition: &Composition, run: Option<Id>) -> Self {
        let Composition { composed, rendered, diagnostics, gate_report, .. } = composition;
        let prompt = &composed.prompt;
        Self {
            run,
            recipe: prompt.recipe.clone(),
            format: prompt.format,
            text: rendered.text.clone(),
            tools: prompt.tools.clone(),
            origins: rendered.spans.iter().map(|span| OriginOutput::new(span, &prompt.origins)).collect(),
            secrets: gate_report.into(),
            diagnostics: diagnostic_outputs(diagnostics),
        }
    }
}

/// A prompt with the reasons for everything that it holds and lacks. Secrets are masked, byte for byte.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ExplanationOutput {
    /// The recipe.
    pub recipe: String,
    /// The format of the text.
    pub format: PromptFormat,
    /// The prompt.
    pub text: String,
    /// The length of the part that `--split` puts into the agent's system prompt, if it was asked for.
    pub shared_bytes: Option<usize>,
    /// The origin of every byte of the text.
    pub origins: Vec<OriginOutput>,
    /// The files that it was made of.
    pub sources: Vec<SourceOutput>,
    /// The profile of the role.
    pub profile: Option<ProfileOutput>,
    /// The inputs that it lacks.
    pub absent: Vec<AbsentOutput>,
    /// The steps that fitted it into the budget.
    pub steps: Vec<Degradation>,
    /// The tokens, if they were asked for.
    pub tokens: Option<TokenSummary>,
    /// The secrets that were found.
    pub secrets: SecretsOutput,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

impl ExplanationOutput {
    /// Explains a prompt.
    pub fn new(composition: &Composition, tokens: Option<TokenSummary>) -> Self {
        let Composition { composed, rendered, diagnostics, gate_report, .. } = composition;
        let origins = &composed.prompt.origins;
        Self {
            recipe: composed.prompt.recipe.clone(),
            format: composed.prompt.format,
            text: composition.shown_text().to_owned(),
            shared_bytes: None,
            origins: rendered.spans.iter().map(|span| OriginOutput::new(span, origins)).collect(),
            sources: list_sources(origins),
            profile: composed.profile.as_ref().map(ProfileOutput::from),
            absent: composed.omitted.iter().map(AbsentOutput::from).collect(),
            steps: composition.degradations.clone(),
            tokens,
            secrets: gate_report.into(),
            diagnostics: diagnostic_outputs(diagnostics),
        }
    }
}

/// The kind of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OriginWord {
    /// A file.
    Source,
    /// A value.
    Value,
    /// A field of the request.
    Request,
    /// A document.
    Document,
    /// The default of a value.
    Default,
    /// A value that a recipe derives.
    Derived,
    /// callsheet itself.
    Engine,
}

/// The origin of a range of the text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OriginOutput {
    /// The offset of its first byte.
    pub start: usize,
    /// The offset behind its last byte.
    pub end: usize,
    /// The kind of the origin.
    pub kind: OriginWord,
    /// The name of the value, field or document.
    pub name: Option<String>,
    /// The file.
    pub source: Option<String>,
    /// The offset in the origin's own text of the first byte.
    pub source_start: Option<usize>,
    /// The offset in the origin's own text behind the last byte.
    pub source_end: Option<usize>,
    /// The line in the origin's own text, from 1.
    pub line: Option<usize>,
    /// Who wrote it.
    pub trust: Trust,
    /// The beginning of the SHA-256 of the origin's own text.
    pub version: Option<String>,
    /// How the text is written.
    pub encoding: TextEncoding,
}

impl OriginOutput {
    const fn engine(start: usize, end: usize) -> Self {
        Self {
            start,
            end,
            kind: OriginWord::Engine,
            name: None,
            source: None,
            source_start: None,
            source_end: None,
            line: None,
            trust: Trust::Ours,
            version: None,
            encoding: TextEncoding::Plain,
        }
    }

    fn new(span: &RenderedRange, origins: &OriginTable) -> Self {
        let engine = Self { encoding: span.encoding, ..Self::engine(span.start, span.end) };
        let Some(piece) = span.piece else { return engine };
        let origin = &origins[piece.origin];
        let (kind, name, source) = match &origin.from {
            OriginKind::Source(id) => (OriginWord::Source, None, Some(id)),
            OriginKind::Value(name) => (OriginWord::Value, Some(name.to_string()), None),
            OriginKind::Request(field) => (OriginWord::Request, Some(field.to_string()), None),
            OriginKind::Document(name) => (OriginWord::Document, Some(name.to_string()), None),
            OriginKind::DocumentName(at) => {
                (OriginWord::Request, Some(format!("documents[{at}].name")), None)
            }
            OriginKind::Default(of) => (OriginWord::Default, Some(of.name.to_string()), Some(&of.source)),
            OriginKind::Derived(of) => (OriginWord::Derived, Some(format!("{}.{}", of.name, of.field)), None),
            OriginKind::Engine => (OriginWord::Engine, None, None),
        };
        Self {
            kind,
            name,
            source: source.map(ToString::to_string),
            source_start: Some(piece.start),
            source_end: Some(piece.end),
            trust: origin.trust,
            ..engine
        }
    }

    fn from_record(range: &OriginRange, origins: &[OriginNote]) -> Self {
        let engine = Self::engine(range.start, range.end);
        let origin = range.origin.and_then(|number| origins.get(number as usize));
        let Some(origin) = origin else { return engine };
        let (kind, name, source) = match &origin.source {
            Some(source) => (OriginWord::Source, None, Some(source.to_string())),
            None => read_label(origin.label.as_deref().unwrap_or_default()),
        };
        let version = Some(origin.version.clone());
        Self { kind, name, source, line: range.line, trust: origin.trust, version, ..engine }
    }
}

/// Reads the label of a recorded origin that is not a file.
fn read_label(label: &str) -> (OriginWord, Option<String>, Option<String>) {
    if let Some((name, source)) = label.strip_prefix("default of ").and_then(|of| of.split_once(" in ")) {
        return (OriginWord::Default, Some(name.to_owned()), Some(source.to_owned()));
    }
    let (word, name) = label.split_once(' ').unwrap_or((label, ""));
    let kind = match word {
        "value" => OriginWord::Value,
        "request" => OriginWord::Request,
        "document" => OriginWord::Document,
        "derived" => OriginWord::Derived,
        _ => OriginWord::Engine,
    };
    (kind, Some(name.to_owned()).filter(|name| !name.is_empty()), None)
}

/// A file that a prompt was made of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SourceOutput {
    /// The file.
    pub source: SourceId,
    /// The SHA-256 of its text.
    pub sha256: Digest,
    /// The version in its header.
    pub version: Option<String>,
}

/// Lists the source files of the prompt, each with its hash and the version from its header.
fn list_sources(origins: &OriginTable) -> Vec<SourceOutput> {
    let mut seen: BTreeMap<&SourceId, &SharedText> = BTreeMap::new();
    for origin in origins {
        if let OriginKind::Source(id) = &origin.from {
            seen.entry(id).or_insert(&origin.text);
        }
    }
    let entry = |(id, text): (&SourceId, &SharedText)| SourceOutput {
        source: id.clone(),
        sha256: sha256(&[text.as_bytes()]),
        version: read_version(id, text),
    };
    seen.into_iter().map(entry).collect()
}

/// The profile that a prompt was composed for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ProfileOutput {
    /// The name of the role.
    pub name: String,
    /// The version of the profile.
    pub version: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The model that the agent uses.
    pub model: Option<String>,
    /// The most that the agent may do without asking.
    pub permit: Option<PermissionLevel>,
    /// The commands that the agent may run without asking.
    pub allow: Vec<String>,
}

impl From<&Profile> for ProfileOutput {
    fn from(profile: &Profile) -> Self {
        let Profile { name, version, agent, model, permit, allow } = profile.clone();
        Self { name, version, agent, model, permit, allow }
    }
}

/// An input that a prompt lacks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AbsentOutput {
    /// A section, a file or a value.
    pub what: String,
    /// The reason.
    pub reason: ReasonOutput,
    /// More about the reason, such as the file that won.
    pub detail: Option<String>,
}

impl From<&OmittedInput> for AbsentOutput {
    fn from(omitted: &OmittedInput) -> Self {
        Self {
            what: omitted.what.clone(),
            reason: ReasonOutput::new(omitted.why.name(), omitted.why.words()),
            detail: Some(omitted.detail.clone()).filter(|detail| !detail.is_empty()),
        }
    }
}

/// The secrets that were found in a prompt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SecretsOutput {
    /// The treatment of secrets.
    pub mode: SecretMode,
    /// The secrets.
    pub found: Vec<SecretOutput>,
}

/// A secret that was found, without its value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SecretOutput {
    /// The rule that found it.
    pub rule: String,
    /// The place.
    pub place: Option<PlaceOutput>,
    /// Its replacement.
    pub placeholder: Option<String>,
}

impl From<&GateReport> for SecretsOutput {
    fn from(report: &GateReport) -> Self {
        let found = |found: &FoundSecret| SecretOutput {
            rule: found.rule.clone(),
            place: PlaceOutput::parse(&found.place),
            placeholder: found.placeholder.clone(),
        };
        Self { mode: report.mode, found: report.found.iter().map(found).collect() }
    }
}

/// The tokens of a prompt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TokenCountOutput {
    /// The counts.
    #[serde(flatten)]
    pub tokens: TokenSummary,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

/// The prompt of a recorded run, as it was delivered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunPromptOutput {
    /// The run.
    pub run: Id,
    /// The prompt.
    pub text: String,
}

/// The prompt of a recorded run with its origins.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RunOriginsOutput {
    /// The run.
    pub run: Id,
    /// The prompt.
    pub text: String,
    /// The origin of every byte of the text.
    pub origins: Vec<OriginOutput>,
}

impl RunOriginsOutput {
    /// Describes a recorded prompt, whose ranges were located.
    pub fn new(composed: &Composed, text: &str, ranges: &[OriginRange]) -> Self {
        let origin = |range| OriginOutput::from_record(range, &composed.output.origins);
        Self {
            run: composed.run.id.clone(),
            text: text.to_owned(),
            origins: ranges.iter().map(origin).collect(),
        }
    }
}

/// The changes from one recorded prompt to another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PromptDiffOutput {
    /// The run of the first prompt.
    pub from: Id,
    /// The run of the second prompt.
    pub to: Id,
    /// Whether both have the same bytes.
    pub same: bool,
    /// The sections that differ.
    pub sections: Vec<SectionDiffOutput>,
}

/// The changes of a section.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SectionDiffOutput {
    /// The name of the section.
    pub section: String,
    /// The changed lines.
    pub changes: Vec<LineChangeOutput>,
}

/// A line that only one of both prompts has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LineChangeOutput {
    /// Which of both has it.
    pub op: LineChangeWord,
    /// The line.
    pub line: String,
    /// The origin of the line.
    pub origin: Option<String>,
    /// The cause of the change.
    pub reason: ReasonOutput,
}

/// Which of two prompts has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LineChangeWord {
    /// Only the second one.
    Insert,
    /// Only the first one.
    Delete,
}

impl PromptDiffOutput {
    /// Describes the changes between two prompts.
    pub fn new(from: &DiffSide, to: &DiffSide, sections: &[SectionChanges<'_>]) -> Self {
        let change = |change: &LineChange| LineChangeOutput {
            op: if change.insert { LineChangeWord::Insert } else { LineChangeWord::Delete },
            line: change.line.clone(),
            origin: change.origin.clone(),
            reason: ReasonOutput::new(change.cause.name(), change.explain()),
        };
        let section = |(name, changes): &SectionChanges<'_>| SectionDiffOutput {
            section: (*name).to_owned(),
            changes: changes.iter().map(change).collect(),
        };
        Self {
            from: from.composed.run.id.clone(),
            to: to.composed.run.id.clone(),
            same: from.text == to.text,
            sections: sections.iter().map(section).collect(),
        }
    }
}
