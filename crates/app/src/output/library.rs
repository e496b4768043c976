//! Templates, and the problems of templates and recipes.

use callsheet_core::SourceId;
use callsheet_lint::catalog::TemplateSummary;
use callsheet_lint::check::LintReport;
use callsheet_lint::fuzz::{FuzzFinding, FuzzReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::compose::tokens::count_tokens;
use crate::diagnostics::{DiagnosticOutput, diagnostic_outputs};
use crate::templates::TemplatePlace;

/// A template.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TemplateOutput {
    /// Its path below `templates/` without the extension, such as `system/BASE-plan`.
    pub path: String,
    /// The data file.
    pub file: String,
    /// The winning file.
    pub source: SourceId,
    /// The files that it hides.
    pub shadowed: Vec<SourceId>,
    /// The name in its frontmatter.
    pub name: Option<String>,
    /// The description in its frontmatter.
    pub description: Option<String>,
    /// The category in its frontmatter.
    pub category: Option<String>,
    /// The version in its frontmatter.
    pub version: Option<String>,
    /// The agent of a system template, in upper case.
    pub agent: Option<String>,
    /// The phase of a system template.
    pub phase: Option<String>,
    /// The slots of its own text, each once.
    pub variables: Vec<String>,
    /// The tokens of its own text.
    pub tokens: usize,
    /// The reason why it cannot be read.
    pub problem: Option<DiagnosticOutput>,
}

impl From<&TemplateSummary> for TemplateOutput {
    fn from(template: &TemplateSummary) -> Self {
        let tokens = count_tokens(&template.words);
        let template = template.clone();
        Self {
            path: template.path,
            file: template.file,
            source: template.source,
            shadowed: template.shadowed,
            name: template.name,
            description: template.description,
            category: template.category,
            version: template.version,
            agent: template.agent,
            phase: template.phase,
            variables: template.variables,
            tokens,
            problem: template.problem.as_ref().map(DiagnosticOutput::from),
        }
    }
}

/// A template with its text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TemplateTextOutput {
    /// The template.
    #[serde(flatten)]
    pub template: TemplateOutput,
    /// Its text.
    pub text: String,
}

/// The places in which a template is searched.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TemplatePlacesOutput {
    /// The place that wins.
    pub winner: Option<SourceId>,
    /// The places in their order.
    pub items: Vec<TemplatePlace>,
}

/// A file that was written.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WrittenOutput {
    /// The files.
    pub written: Vec<String>,
}

/// The difference between the template that wins and the built-in one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TemplateDiffOutput {
    /// The built-in file.
    pub from: String,
    /// The winning file.
    pub to: String,
    /// Whether both have the same text.
    pub same: bool,
    /// The unified diff.
    pub diff: String,
}

/// The problems of templates, recipes and other files.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LintOutput {
    /// The number of files that were checked.
    pub file_count: usize,
    /// The number of errors.
    pub error_count: usize,
    /// The problems.
    pub problems: Vec<DiagnosticOutput>,
}

impl From<&LintReport> for LintOutput {
    fn from(report: &LintReport) -> Self {
        Self {
            file_count: report.files,
            error_count: report.error_count(),
            problems: diagnostic_outputs(&report.problems),
        }
    }
}

/// The promises that hostile values broke.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FuzzOutput {
    /// The template or recipe.
    pub subject: String,
    /// The seed of the random values.
    pub seed: u64,
    /// The number of values that were tried.
    pub tried_count: usize,
    /// The number of errors.
    pub error_count: usize,
    /// The findings.
    pub findings: Vec<FuzzFindingOutput>,
}

/// A promise that a value breaks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FuzzFindingOutput {
    /// The diagnostic.
    #[serde(flatten)]
    pub diagnostic: DiagnosticOutput,
    /// The input that held the value.
    pub input: String,
    /// The value.
    pub value: String,
}

impl FuzzOutput {
    /// Describes the findings with `seed`.
    pub fn new(subject: &str, seed: u64, report: &FuzzReport) -> Self {
        let finding = |finding: &FuzzFinding| FuzzFindingOutput {
            diagnostic: (&finding.diag).into(),
            input: finding.input.clone(),
            value: finding.value.to_string(),
        };
        Self {
            subject: subject.to_owned(),
            seed,
            tried_count: report.tried,
            error_count: report.error_count(),
            findings: report.findings.iter().map(finding).collect(),
        }
    }
}
