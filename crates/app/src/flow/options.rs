//! Start options of a flow. Its first record contains them, so that resuming needs nothing else.

use std::collections::BTreeMap;

use crate::error::Result;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{Flow, Phase};
use callsheet_core::record::RunOptions;
use serde::{Deserialize, Serialize};

/// The start options of a flow, as its first record contains them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowOptions {
    /// Name of the flow.
    pub flow: String,
    /// Definition at the start: later changes of its file have no effect.
    pub definition: Flow,
    /// Name of its folder.
    pub name: String,
    /// Parent folder, if it is not the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Agent of every phase: `NAME` or `NAME:MODEL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Agents of single phases.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, String>,
    /// The options of every run.
    #[serde(flatten)]
    pub run: RunOptions,
    /// Project of the flow. Flows of older versions do not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Agents work in terminals that a person can attach to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Agents submit files, even if they could use the MCP server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_file: bool,
}

impl FlowOptions {
    /// Returns the agent named for a phase, and its model if one is given.
    fn named_agent<'p>(&'p self, phase: &'p Phase) -> Option<(&'p str, Option<&'p str>)> {
        let named = self.agents.get(&phase.name).or(self.agent.as_ref()).or(phase.agent.as_ref())?;
        Some(named.split_once(':').map_or((named, None), |(agent, model)| (agent, Some(model))))
    }

    /// Returns the model of a phase. `None` means the agent's default.
    pub fn model(&self, phase: &Phase) -> Option<String> {
        let named = self.named_agent(phase).and_then(|(_, model)| model).map(str::to_owned);
        named.or_else(|| self.run.model.clone())
    }

    /// Returns the agent of a phase.
    pub fn agent(&self, phase: &Phase) -> Result<String> {
        let named = self.named_agent(phase).map(|(agent, _)| agent.to_owned());
        let named = named.or_else(|| (!self.run.program.is_empty()).then(|| "command".to_owned()));
        named.ok_or_else(|| {
            let message = format!("no agent specified for `{}`", phase.name);
            let hint =
                format!("add `--agent NAME` or `--agent-for {}=NAME`, or a program after `--`", phase.name);
            Diagnostic::error(Code::UsageBad, message).hint(hint).into()
        })
    }

    /// Returns the flow's folder, relative to the project.
    pub fn folder(&self) -> String {
        match &self.home {
            Some(home) => format!("{home}/{}", self.name),
            None => format!(".callsheet/{}/{}", self.definition.folder.name(), self.name),
        }
    }

    /// Returns the folder after the flow has finished, if finished folders are archived.
    pub(crate) fn archive_folder(&self) -> String {
        let folder = self.folder();
        let above = folder.strip_suffix(&self.name).unwrap_or_default();
        format!("{above}archive/{}", self.name)
    }
}
