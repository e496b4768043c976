//! What a flow was started with: in its first record, so that whoever resumes it needs nothing else.

use std::collections::BTreeMap;

use callsheet_core::agent::PermissionLevel;
use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::fact::CheckSpec;
use callsheet_core::flow::{Flow, Phase};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FlowOptions {
    /// The flow's name.
    pub(crate) flow: String,
    /// What it was when it was started: a file that changes later changes nothing.
    pub(crate) definition: Flow,
    /// What its folder is called.
    pub(crate) name: String,
    /// The folder that holds it, where that is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<String>,
    /// Who does every phase: `NAME` or `NAME:MODEL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// The same for single phases.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) agents: BTreeMap<String, String>,
    /// A program that plays every agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) program: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) checks: Vec<CheckSpec>,
    pub(crate) permit: PermissionLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// The project that it belongs to; flows of older versions do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<String>,
    /// Agents work in terminals that a person can attach to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) terminal: bool,
    /// Others may work in the same checkout.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) share: bool,
    /// Agents that can be attached to the server are not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) by_file: bool,
}

impl FlowOptions {
    /// Who was named for a phase, perhaps with a model.
    fn named<'p>(&'p self, phase: &'p Phase) -> Option<(&'p str, Option<&'p str>)> {
        let named = self.agents.get(&phase.name).or(self.agent.as_ref()).or(phase.agent.as_ref())?;
        Some(named.split_once(':').map_or((named, None), |(agent, model)| (agent, Some(model))))
    }

    /// The model that is used in a phase; none is the agent's own.
    pub(crate) fn model(&self, phase: &Phase) -> Option<String> {
        let named = self.named(phase).and_then(|(_, model)| model).map(str::to_owned);
        named.or_else(|| self.model.clone())
    }

    /// Who is asked in a phase.
    pub(crate) fn agent(&self, phase: &Phase) -> Result<String, Diagnostics> {
        let named = self.named(phase).map(|(agent, _)| agent.to_owned());
        let named = named.or_else(|| (!self.program.is_empty()).then(|| "command".to_owned()));
        named.ok_or_else(|| {
            let message = format!("it is not said which agent does `{}`", phase.name);
            let hint = format!(
                "name one with --agent or --agent-for {}=NAME, or give a program after `--`",
                phase.name
            );
            Diagnostic::error(Code::UsageBad, message).hint(hint).into()
        })
    }

    /// The flow's folder, relative to the project.
    pub(crate) fn folder(&self) -> String {
        match &self.home {
            Some(home) => format!("{home}/{}", self.name),
            None => format!(".callsheet/{}/{}", self.definition.folder.name(), self.name),
        }
    }

    /// The same once the flow is done, where folders are moved then.
    pub(crate) fn archive(&self) -> String {
        let folder = self.folder();
        let above = folder.strip_suffix(&self.name).unwrap_or_default();
        format!("{above}archive/{}", self.name)
    }
}
