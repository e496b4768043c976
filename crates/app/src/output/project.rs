//! A project: its files, settings, agents, preferences and trust.

use std::collections::BTreeMap;
use std::path::Path;

use callsheet_core::SourceId;
use callsheet_core::library::agent::DeliveryMethod;
use callsheet_core::library::preferences::Preference;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::diagnostics::ReasonOutput;
use crate::init::InitReport;
use crate::project::Project;
use crate::project::trust::TrustRequest;
use crate::run::doctor::{DoctorFinding, DoctorState};
use crate::run::installed_agents::InstalledAgent;

/// The result of `init`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct InitOutput {
    /// The files that were written.
    pub written: Vec<String>,
    /// The files that existed already.
    pub kept: Vec<String>,
    /// Whether the ledger was added to `.gitignore`.
    pub ignored: bool,
    /// The proposed checks.
    pub checks: Vec<ProposedCheckOutput>,
}

/// A check that fits the project.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ProposedCheckOutput {
    /// The name.
    pub name: String,
    /// The command.
    pub command: String,
    /// The file that suggests it.
    pub file: String,
}

impl InitOutput {
    /// Describes the result, with paths relative to the caller's directory.
    pub fn new(project: &Project, report: &InitReport) -> Self {
        let paths = |paths: &[String]| paths.iter().map(|path| project.path_from_here(path)).collect();
        let checks = report.checks.iter().map(|check| ProposedCheckOutput {
            name: check.name.clone(),
            command: check.command.clone(),
            file: check.file.to_string(),
        });
        Self {
            written: paths(&report.written),
            kept: paths(&report.kept),
            ignored: report.ignored,
            checks: checks.collect(),
        }
    }
}

/// A setting.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ConfigOutput {
    /// The key, such as `layout.templates`.
    pub key: String,
    /// The value that counts.
    pub value: Value,
    /// Where it was set.
    pub from: String,
    /// The value of the project's file that is not applied.
    pub not_applied: Option<UnappliedOutput>,
}

/// A value of the project's file that is not applied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UnappliedOutput {
    /// The value.
    pub value: Value,
    /// Why it is not applied.
    pub reason: ReasonOutput,
}

impl ConfigOutput {
    /// Lists the settings of a project.
    pub fn list(project: &Project) -> Vec<Self> {
        let unapplied = |key: &str| {
            let found = project.config.unapplied.iter().find(|setting| setting.key == key)?;
            let reason = ReasonOutput::new("not_applied", &found.why);
            Some(UnappliedOutput { value: found.value.clone(), reason })
        };
        let rows = project.config.rows().into_iter();
        rows.map(|(key, value, from)| Self {
            key: key.to_owned(),
            value,
            from: from.to_owned(),
            not_applied: unapplied(key),
        })
        .collect()
    }
}

/// An agent that callsheet knows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AgentOutput {
    /// The agent, as `-a` takes it.
    pub agent: String,
    /// The name for people.
    pub name: String,
    /// The file that describes it.
    pub source: SourceId,
    /// The program that it is started by.
    pub program: Option<String>,
    /// The path of the program; `null` if it is not installed.
    pub path: Option<String>,
    /// The version that the program reports.
    pub version: Option<String>,
    /// How it gets a prompt.
    pub prompt_by: Vec<DeliveryMethod>,
}

impl From<&InstalledAgent> for AgentOutput {
    fn from(found: &InstalledAgent) -> Self {
        Self {
            agent: found.name.clone(),
            name: found.agent.name.clone(),
            source: found.source.clone(),
            program: found.agent.start.as_ref().and_then(|start| start.program.clone()),
            path: found.path.as_ref().map(|path| path.display().to_string()),
            version: found.version.clone(),
            prompt_by: found.agent.prompt.by.clone(),
        }
    }
}

/// Something that runs need.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DoctorOutput {
    /// The examined thing.
    pub name: String,
    /// Whether runs can use it.
    pub state: DoctorState,
    /// The finding.
    pub detail: String,
    /// The remedies.
    pub hints: Vec<String>,
}

impl From<&DoctorFinding> for DoctorOutput {
    fn from(finding: &DoctorFinding) -> Self {
        let DoctorFinding { name, state, detail, todo } = finding.clone();
        Self { name, state, detail, hints: Some(todo).filter(|todo| !todo.is_empty()).into_iter().collect() }
    }
}

/// A preference of a role.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PreferenceOutput {
    /// The role.
    pub role: String,
    /// The preference in a sentence.
    pub text: String,
}

impl From<Preference> for PreferenceOutput {
    fn from(Preference { role, bullet }: Preference) -> Self {
        Self { role, text: bullet }
    }
}

impl PreferenceOutput {
    /// Lists preferences, which are given by role.
    pub fn list(by_role: &BTreeMap<String, Vec<String>>) -> Vec<Self> {
        let of_role = |(role, texts): (&String, &Vec<String>)| {
            let role = role.clone();
            texts.clone().into_iter().map(move |text| Self { role: role.clone(), text })
        };
        by_role.iter().flat_map(of_role).collect()
    }
}

/// The preferences that were added and removed.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PreferenceChangeOutput {
    /// Preferences that are new.
    pub added: Vec<PreferenceOutput>,
    /// Preferences that are gone.
    pub removed: Vec<PreferenceOutput>,
}

/// Whether a project's files are trusted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TrustOutput {
    /// Whether everything that they ask for is trusted.
    pub trusted: bool,
    /// Their requests.
    pub asks_for: Vec<String>,
}

impl TrustOutput {
    /// Describes the requests of a project's files.
    pub fn new(requests: &[TrustRequest], trusted: bool) -> Self {
        Self {
            trusted: trusted || requests.is_empty(),
            asks_for: requests.iter().map(|request| request.shown.clone()).collect(),
        }
    }
}

/// The change that attaches a client to the MCP server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct McpInstallOutput {
    /// The client's settings file.
    pub file: String,
    /// The change as a unified diff; empty if nothing is to be changed.
    pub diff: String,
    /// Whether the file was written.
    pub written: bool,
}

/// The result of the demo.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DemoReportOutput {
    /// The steps.
    pub items: Vec<DemoStepOutput>,
    /// The directory, if it was kept.
    pub directory: Option<String>,
}

impl DemoReportOutput {
    /// Describes the steps of the demo, which was kept in `directory`.
    pub fn new(items: Vec<DemoStepOutput>, directory: Option<&Path>) -> Self {
        Self { items, directory: directory.map(|path| path.display().to_string()) }
    }
}

/// A step of the demo.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DemoStepOutput {
    /// Its title.
    pub title: String,
    /// The command.
    pub command: String,
    /// The exit code of the command.
    pub exit_code: Option<i32>,
    /// The output of the command.
    pub output: String,
}

/// A page that is served.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ServeOutput {
    /// The address for a browser, with the token of the session.
    pub address: String,
    /// The port.
    pub port: u16,
}

impl ServeOutput {
    /// Describes a page that is served at an address.
    pub fn new(address: String, port: u16) -> Self {
        Self { address, port }
    }
}
