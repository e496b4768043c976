//! Documents for programs: the output of every command, typed, and the JSON Schemas of all inputs and outputs.
//!
//! An output is an object whose first key is `schema`, such as `callsheet/run-result/1`. Lists are in `items`. A missing value
//! is `null`. Times are RFC 3339 and their keys end in `at`; durations are in milliseconds, costs in millionths of a dollar.

mod changes;
mod context;
mod flow;
mod ledger;
mod library;
mod project;
mod prompt;
mod reply;
mod run;
mod run_launch;
mod run_log;
mod run_result;
mod stats;
mod task;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::Flow;
use callsheet_core::library::agent::Agent;
use callsheet_core::library::contract::Contract;
use callsheet_core::library::prices::PriceFile;
use callsheet_core::library::recipe::Recipe;
use callsheet_core::secrets::RuleFile;
use callsheet_core::{Request, UnifiedPrompt};
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde_json::{Value, json};

use crate::compose::sources_file::SourcesFile;
use crate::diagnostics::DiagnosticOutput;
use crate::error::Error;
use crate::events::EventOutput;
use crate::project::config_file::ConfigFile;

pub use changes::{ChangesOutput, RestoreOutput};
pub use context::{
    ArrivalOutput, ByteRangeOutput, CacheOutput, ContextDiffOutput, ContextLanesOutput, ContextOutput,
    ContextPartOutput, ContextPriceOutput, ContextSideOutput, LaneEndOutput, LaneWayOutput, PartChangeOutput,
    PartLineOutput, PromptShareOutput, SideRequestOutput,
};
pub use flow::{
    FlowGraphOutput, FlowOutput, FlowRunOutput, FlowStatusOutput, LackOutput, WaitReasonOutput, WaitWord,
};
pub use ledger::{
    AdoptionOutput, ForgottenOutput, HeadOutput, ImportOutput, LedgerOutput, SweepOutput, VerificationOutput,
};
pub use library::{
    FuzzOutput, LintOutput, TemplateDiffOutput, TemplateOutput, TemplatePlacesOutput, TemplateTextOutput,
    WrittenOutput,
};
pub use project::{
    AgentOutput, ConfigOutput, DemoReportOutput, DemoStepOutput, DoctorOutput, InitOutput, McpInstallOutput,
    PreferenceChangeOutput, PreferenceOutput, ServeOutput, TrustOutput,
};
pub use prompt::{
    ExplanationOutput, OriginOutput, PromptDiffOutput, PromptOutput, RunOriginsOutput, RunPromptOutput,
    TokenCountOutput,
};
pub use reply::{ReplyOutput, SubmissionOutput};
pub use run::{DecisionOutput, RunItemOutput, RunOutput};
pub use run_launch::RunPlanOutput;
pub use run_log::{LogLineOutput, RecordOutput, RunLogOutput};
pub use run_result::{RecoveryOutput, RunResultOutput};
pub use stats::{StatsGroupOutput, StatsOutput, cached_share, runs_until_success};
pub use task::{TaskDecisionOutput, TaskOutput};

/// An object that a command prints with `--json`.
pub trait DocumentOutput: Serialize + JsonSchema {
    /// The name of its schema, as `callsheet schema` takes it.
    const NAME: &'static str;
}

/// A list of outputs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListOutput<T> {
    /// The items.
    pub items: Vec<T>,
}

impl<T> FromIterator<T> for ListOutput<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self { items: items.into_iter().collect() }
    }
}

/// The diagnostics of a command that failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ErrorOutput {
    /// The first diagnostic.
    #[serde(flatten)]
    pub first: DiagnosticOutput,
    /// The other diagnostics.
    pub others: Vec<DiagnosticOutput>,
    /// The exit code of the process.
    pub exit_code: u8,
}

impl From<&Error> for ErrorOutput {
    fn from(error: &Error) -> Self {
        let mut all = error.diagnostics().iter().map(DiagnosticOutput::from);
        let nothing = || {
            DiagnosticOutput::from(&Diagnostic::error(
                Code::OutputFailed,
                "the command failed without a message",
            ))
        };
        Self {
            first: all.next().unwrap_or_else(nothing),
            others: all.collect(),
            exit_code: error.exit_code(),
        }
    }
}

/// An output as it is printed: with the name of its schema.
#[derive(Serialize)]
struct Document<'o, T> {
    schema: String,
    #[serde(flatten)]
    output: &'o T,
}

/// Returns an output as it is printed, with the name of its schema first.
pub fn to_document<T: DocumentOutput>(output: &T) -> impl Serialize + '_ {
    Document { schema: schema_id(T::NAME), output }
}

/// Returns the name by which documents refer to a schema.
pub fn schema_id(name: &str) -> String {
    format!("callsheet/{name}/1")
}

/// Returns an output as one line of JSON.
pub fn to_line<T: DocumentOutput>(output: &T) -> String {
    // Maps with text keys are all that an output holds.
    serde_json::to_string(&to_document(output)).unwrap_or_default()
}

/// Returns an output as JSON.
pub fn to_json<T: DocumentOutput>(output: &T) -> Value {
    // Maps with text keys are all that an output holds.
    serde_json::to_value(to_document(output)).unwrap_or_default()
}

/// The schema of an input or output.
#[derive(Clone, Copy, Debug)]
pub struct DocumentSchema {
    /// The name, as `callsheet schema` takes it.
    pub name: &'static str,
    /// Where the document is read or printed.
    pub about: &'static str,
    make: fn() -> Schema,
}

impl DocumentSchema {
    /// Returns the JSON Schema.
    pub fn schema(&self) -> Schema {
        let mut schema = (self.make)();
        schema.insert("$id".into(), schema_id(self.name).into());
        schema
    }

    /// Finds the schema of an input or output.
    pub fn find(name: &str) -> Option<&'static Self> {
        INPUTS.iter().chain(OUTPUTS).find(|known| known.name == name)
    }
}

macro_rules! inputs {
    ($($type:ty, $name:literal, $about:literal;)*) => {
        /// Every input.
        pub const INPUTS: &[DocumentSchema] = &[
            $(DocumentSchema { name: $name, about: $about, make: || schema_for!($type) },)*
        ];
    };
}

inputs! {
    Agent, "agent", "`agents/NAME.toml`";
    ConfigFile, "config", "`config.toml`";
    Contract, "contract", "`contracts/NAME.toml`";
    Flow, "flow", "`flows/NAME.toml`";
    PriceFile, "prices", "`prices/NAME.toml`";
    Recipe, "recipe", "`recipes/NAME.toml`";
    Request, "request", "`--request`";
    RuleFile, "secrets", "`secrets/NAME.toml`";
    SourcesFile, "sources", "`compose --sources`";
    UnifiedPrompt, "unified-prompt", "`render`; `--format json` prints it";
}

macro_rules! outputs {
    ($($type:ty, $name:literal, $about:literal;)*) => {
        $(impl DocumentOutput for $type {
            const NAME: &'static str = $name;
        })*

        /// Every output, in order of the names.
        pub const OUTPUTS: &[DocumentSchema] = &[
            $(DocumentSchema { name: $name, about: $about, make: output_schema::<$type> },)*
        ];
    };
}

outputs! {
    AdoptionOutput, "adoption", "`ledger adopt`";
    ListOutput<AgentOutput>, "agent-list", "`agents`";
    ChangesOutput, "changes", "`show --diff`, `diff --code`";
    ListOutput<ConfigOutput>, "config-list", "`config show`";
    ContextOutput, "context", "`context`";
    ContextDiffOutput, "context-diff", "`context diff`";
    ContextLanesOutput, "context-lanes", "`context --lanes`";
    DecisionOutput, "decision", "`decide`";
    DemoReportOutput, "demo", "`demo`";
    ListOutput<DoctorOutput>, "doctor", "`doctor`";
    ErrorOutput, "error", "every command that fails, on standard error";
    EventOutput, "event", "a line of `watch`, `run --events`, `flow start`, `flow resume` and `flow decide`";
    ExplanationOutput, "explanation", "`explain`";
    FlowGraphOutput, "flow-graph", "`flow graph`";
    ListOutput<FlowOutput>, "flow-list", "`flow list`, and `flow status` without a flow";
    FlowStatusOutput, "flow-status", "`flow status FLOW` and `flow stop`, and the last line of the commands that drive a flow";
    ForgottenOutput, "forgotten-ledger", "`ledger forget`";
    FuzzOutput, "fuzz-report", "`fuzz`";
    ImportOutput, "import", "`import`";
    InitOutput, "init", "`init`";
    LedgerOutput, "ledger", "`ledger path`";
    ListOutput<LedgerOutput>, "ledger-list", "`ledger list`";
    LintOutput, "lint-report", "`check`";
    McpInstallOutput, "mcp-install", "`mcp install`";
    PreferenceChangeOutput, "preference-change", "`prefs add`, `prefs approve` and `prefs remove`";
    ListOutput<PreferenceOutput>, "preference-list", "`prefs list`";
    PromptOutput, "prompt", "`compose`";
    PromptDiffOutput, "prompt-diff", "`diff`";
    ListOutput<RecordOutput>, "record-list", "`show --records`";
    RecoveryOutput, "recovery", "`recover`";
    ReplyOutput<'_>, "reply", "`read`";
    RestoreOutput, "restore", "`revert` and `apply`";
    RunOutput, "run", "`show`";
    ListOutput<RunItemOutput>, "run-list", "`log`";
    RunLogOutput, "run-log", "`show --stream`";
    RunOriginsOutput, "run-origins", "`show --origins`";
    RunPlanOutput, "run-plan", "`run`, `retry` and `continue` with `--dry-run`";
    RunPromptOutput, "run-prompt", "`show --prompt`";
    RunResultOutput, "run-result", "`run`, `retry`, `continue` and `stop`";
    ServeOutput, "served-page", "`serve`, once it listens";
    StatsOutput, "stats", "`stats`";
    SubmissionOutput, "submission", "the tools of `mcp`";
    ListOutput<SubmissionOutput>, "submission-list", "`read` of a contract with a submission";
    SweepOutput, "sweep", "`gc`";
    TaskDecisionOutput, "task-decision", "`task close` and `task reopen`";
    ListOutput<TaskOutput>, "task-list", "`status`";
    TemplateTextOutput, "template", "`templates show`";
    TemplateDiffOutput, "template-diff", "`templates diff`";
    ListOutput<TemplateOutput>, "template-list", "`templates list`";
    TemplatePlacesOutput, "template-places", "`templates where`";
    TokenCountOutput, "token-count", "`compose --count`";
    TrustOutput, "trust", "`trust`";
    VerificationOutput, "verification", "`verify`";
    WrittenOutput, "written-file", "`templates eject`, `show --html` and `flow status --html`";
}

fn output_schema<T: DocumentOutput>() -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(properties) = properties {
        let id = json!({ "type": "string", "const": schema_id(T::NAME) });
        properties.shift_insert(0, "schema".into(), id);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.insert(0, "schema".into());
    }
    close_objects(&mut schema);
    schema
}

/// Forbids further properties in every object whose properties are listed.
fn close_objects(schema: &mut Schema) {
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    let is_open =
        is_object && schema.get("properties").is_some() && schema.get("additionalProperties").is_none();
    if is_open {
        schema.insert("additionalProperties".into(), false.into());
    }
    transform_subschemas(&mut close_objects, schema);
}
