//! Diagnostics for people and programs, without the secrets that they may quote.

use callsheet_core::diag::{Diagnostic, Severity};
use callsheet_core::record::RecordedWarning;
use callsheet_core::secrets::SecretRules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

thread_local! {
    /// Rules for diagnostics of commands that have not loaded any. They are parsed at the first use.
    static SHIPPED: Option<SecretRules> = SecretRules::load_shipped().ok();
}

/// Returns the diagnostic without secrets, whatever text it quotes.
pub fn mask_diagnostic(diag: &Diagnostic) -> Diagnostic {
    SHIPPED.with(|rules| match rules {
        Some(rules) => rules.mask_diagnostic(diag.clone()),
        None => diag.clone(),
    })
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlaceOutput {
    /// The name of the text: a source, a file, a field of the request.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl PlaceOutput {
    /// Reads a place that is written as `file:line:column`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, ':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { file: parts.next()?.to_owned(), line, column })
    }
}

/// A diagnostic, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DiagnosticOutput {
    /// The stable code, such as `template/not-found`.
    pub code: String,
    /// Its severity.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// The place that it is about.
    pub place: Option<PlaceOutput>,
    /// Every place that was searched.
    pub looked_in: Vec<String>,
    /// The remedies.
    pub hints: Vec<String>,
    /// The number of further problems of this kind, which are not listed.
    pub more: usize,
}

impl From<&Diagnostic> for DiagnosticOutput {
    fn from(diag: &Diagnostic) -> Self {
        let diag = mask_diagnostic(diag);
        let place = diag.place.as_ref().map(|place| {
            let (line, column) = place.line_column();
            PlaceOutput { file: place.name.to_string(), line, column }
        });
        Self {
            code: diag.code.as_str().to_owned(),
            severity: diag.severity,
            message: diag.message,
            place,
            looked_in: diag.looked,
            hints: diag.hints.iter().map(ToString::to_string).collect(),
            more: diag.more,
        }
    }
}

impl From<&RecordedWarning> for DiagnosticOutput {
    fn from(warning: &RecordedWarning) -> Self {
        Self {
            code: warning.code.clone(),
            severity: Severity::Warning,
            message: warning.message.clone(),
            place: None,
            looked_in: Vec::new(),
            hints: Vec::new(),
            more: 0,
        }
    }
}

/// Converts diagnostics for programs.
pub fn diagnostic_outputs<'d>(diags: impl IntoIterator<Item = &'d Diagnostic>) -> Vec<DiagnosticOutput> {
    diags.into_iter().map(DiagnosticOutput::from).collect()
}

/// A reason: a stable code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReasonOutput {
    /// The stable code.
    pub code: String,
    /// The sentence.
    pub message: String,
}

impl ReasonOutput {
    /// Creates a reason.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// Joins the lines of a text into one.
pub fn join_lines(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
