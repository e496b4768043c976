//! Compares the installed CLIs with their agents' files: which instruction files they load, how a prompt arrives, and whether
//! they offer the tools of an MCP server.

use std::collections::BTreeSet;

use callsheet_core::library::agent::{Agent, ContextKind, LoadEntry};
use callsheet_run::WritableFolder;

use super::ContextOptions;
use super::probe_folder::ProbeFolder;
use crate::compose::Purpose;
use crate::compose::inputs::ComposeInput;
use crate::error::Result;
use crate::output::ContextOutput;
use crate::project::state::{create_private_folder, path_error};
use crate::project::{Project, ProjectOptions};
use crate::run::doctor::{DoctorFinding, DoctorState};
use crate::run::installed_agents::{InstalledAgent, list_agents};

/// The instruction files of each project that a CLI is probed in: all of them, and `AGENTS.md` alone.
const LAYOUTS: [&[&str]; 2] = [
    &[
        "AGENTS.md",
        "AGENTS.override.md",
        "CLAUDE.md",
        "CLAUDE.local.md",
        "GEMINI.md",
        ".github/copilot-instructions.md",
    ],
    &["AGENTS.md"],
];

/// The number of the folders of projects that CLIs are examined in.
const EXAMINED: usize = 2;

impl Project {
    /// Probes every installed agent with an empty home, in projects of its own, and compares its CLI with its file.
    pub fn examine_contexts(&self) -> Result<Vec<DoctorFinding>> {
        let installed = list_agents(self)?.into_iter().filter(|agent| agent.path.is_some());
        let probed = installed.filter(|agent| agent.agent.probe.is_some());
        Ok(probed.map(|agent| examine_agent(self, &agent)).collect())
    }
}

fn examine_agent(project: &Project, installed: &InstalledAgent) -> DoctorFinding {
    let name = format!("{} request", installed.name);
    let finding = |state, detail: String, todo: String| DoctorFinding { name, state, detail, todo };
    let (mut loaded, mut unlike, mut tools) = (BTreeSet::new(), Vec::new(), 0);
    let mut arrival = String::new();
    for layout in LAYOUTS {
        let output = match probe_layout(project, installed, layout) {
            Ok(output) => output,
            Err(error) => {
                let diagnostic = error.diagnostics().first();
                let detail = diagnostic.map(|diagnostic| diagnostic.message.clone()).unwrap_or_default();
                let todo = diagnostic.and_then(|diagnostic| diagnostic.hints.first()).cloned();
                return finding(DoctorState::Absent, detail, todo.unwrap_or_default());
            }
        };
        let found = loaded_files(&output);
        unlike.extend(compare_loads(installed, layout, &found));
        loaded.extend(found);
        tools += output.parts.iter().filter(|part| part.server.as_deref() == Some("callsheet")).count();
        arrival = arrival_words(&output);
        unlike.extend(compare_arrival(&installed.agent, &output));
    }
    let files: Vec<String> = loaded.into_iter().collect();
    let files = if files.is_empty() { "no instruction file".to_owned() } else { files.join(", ") };
    let offered = if tools > 0 { "offers MCP tools" } else { "offers no MCP tools at first" };
    let detail = format!("loads {files}; {arrival}; {offered}");
    if unlike.is_empty() {
        return finding(DoctorState::Good, detail, String::new());
    }
    unlike.dedup();
    let todo = format!(
        "the agent's file says otherwise: {}; correct `agents/{}.toml`",
        unlike.join("; "),
        installed.name
    );
    finding(DoctorState::Bad, detail, todo)
}

/// Probes an agent in a project with these instruction files, each with a text of its own.
fn probe_layout(project: &Project, installed: &InstalledAgent, layout: &[&str]) -> Result<ContextOutput> {
    let folder = ProbeFolder::create(&project.dir, EXAMINED)?;
    let dir = folder.path().join("examined");
    create_private_folder(&dir)?;
    let written = WritableFolder::open(&dir).map_err(|error| path_error(&dir, error))?;
    for file in layout {
        let text = format!("# {file}\n\nThe contents of the file {file} of this probe.\n");
        written.write(file, text.as_bytes(), 0o600)?;
    }
    let other = Project::open_with(ProjectOptions {
        here: Some(dir.clone()),
        dir: Some(dir),
        ledger: None,
        observer: std::sync::Arc::clone(&project.observer),
        ..ProjectOptions::default()
    })?;
    let input = ComposeInput {
        agent: Some(installed.name.clone()),
        task: Some("probe".to_owned()),
        recipe: Some("run".to_owned()),
        mcp: true,
        ..ComposeInput::default()
    };
    let composition = other.compose(&input, Purpose::Record)?;
    let options = ContextOptions { isolated: true, ..ContextOptions::default() };
    Ok(other.probe_context(composition, &options)?.output)
}

/// Returns the instruction files that a request has.
fn loaded_files(output: &ContextOutput) -> BTreeSet<String> {
    let files = output.parts.iter().filter(|part| part.kind == ContextKind::Instructions);
    files.map(|part| part.name.clone()).collect()
}

/// Returns the differences between the files that were loaded and those of the agent's file.
fn compare_loads(installed: &InstalledAgent, layout: &[&str], loaded: &BTreeSet<String>) -> Vec<String> {
    let version = installed.version.as_deref();
    let is_there = |path: &str| layout.contains(&path);
    let mut unlike = Vec::new();
    for file in layout {
        let loads = |entry: &LoadEntry| entry.loads(file, &is_there, version);
        let expected = installed.agent.loads.iter().any(loads);
        match (expected, loaded.contains(*file)) {
            (true, false) => unlike.push(format!("it loads `{file}`")),
            (false, true) => unlike.push(format!("it does not load `{file}`")),
            _ => {}
        }
    }
    unlike
}

fn arrival_words(output: &ContextOutput) -> String {
    let arrival = &output.arrival;
    match arrival {
        _ if arrival.is_exact => "a prompt arrives byte for byte".to_owned(),
        _ if arrival.is_changed => "a prompt arrives changed".to_owned(),
        _ => format!(
            "a prompt arrives with {} bytes before it, and {} bytes of its end missing",
            arrival.bytes_before, arrival.missing_end
        ),
    }
}

/// Returns the differences between the arrival of the prompt and that of the agent's file.
fn compare_arrival(agent: &Agent, output: &ContextOutput) -> Vec<String> {
    let arrival = &output.arrival;
    let mut unlike = Vec::new();
    if agent.prompt.adds_before != (arrival.bytes_before > 0) {
        unlike.push(format!("`prompt.adds_before` is {}", agent.prompt.adds_before));
    }
    if !agent.prompt.trims_end && arrival.missing_end > 0 {
        unlike.push("`prompt.trims_end` is false".to_owned());
    }
    unlike
}
