//! The context of an agent: every byte that its model gets with a prompt, where it comes from, and what it costs.
//!
//! Nothing is simulated. The installed CLI runs against a server on this machine that keeps its request and ends its turn at
//! once; no model takes part, and no key is needed. The request is then divided into parts.

mod attribute;
mod compare;
mod doctor_probe;
mod instruction_files;
mod json_spans;
mod lanes;
mod probe_folder;
mod probe_run;
mod prompt_arrival;
mod record;
mod report;
mod request_layout;
mod warnings;

use std::path::PathBuf;

use callsheet_core::record::Id;

use crate::compose::Composition;
use crate::error::Result;
use crate::output::ContextOutput;
use crate::project::Project;
use crate::project::duration::HumanDuration;
use crate::run::InterruptFlag;
use crate::run::options::RunOverrides;

pub use compare::compare_contexts;
pub use record::RecordedContext;

use attribute::AttributedRequest;

/// How a probe is made.
#[derive(Clone, Debug, Default)]
pub struct ContextOptions {
    /// The options of the run that the probe stands for.
    pub overrides: RunOverrides,
    /// Whether the CLI runs in the project itself, not in a copy.
    pub here: bool,
    /// Whether the CLI runs with an empty home, without the user's own set-up.
    pub isolated: bool,
    /// How long the CLI may take.
    pub timeout: Option<HumanDuration>,
    /// The length of the part that the prompts of all lanes share, for a delivery in two parts; else the prompt alone
    /// decides.
    pub shared_bytes: Option<usize>,
    /// The worktree of a lane, and the home that all lanes share.
    pub lane: Option<LanePlace>,
    /// Ends the probe.
    pub interrupted: InterruptFlag,
}

/// Where the CLI of a lane works.
#[derive(Clone, Debug)]
pub struct LanePlace {
    /// The worktree.
    pub worktree: PathBuf,
    /// The empty home of an isolated probe.
    pub home: PathBuf,
}

/// A request of a CLI, divided into parts.
#[derive(Debug)]
#[non_exhaustive]
pub struct ContextProbe {
    /// The request by part. Every part has its text, without secrets.
    pub output: ContextOutput,
    body: String,
    attributed: AttributedRequest,
    /// The numbers of the pieces that the API removes before the model reads the request.
    unread: Vec<usize>,
}

impl ContextProbe {
    /// Returns the body of the request, byte for byte.
    pub fn body(&self) -> &str {
        &self.body
    }
}

impl Project {
    /// Runs the installed CLI of a prompt's agent against a probe, and returns its request. The prompt must have been composed
    /// to be [recorded](crate::Purpose::Record). Nothing is recorded.
    ///
    /// ```no_run
    /// use callsheet::context::ContextOptions;
    /// use callsheet::{ComposeInput, Project, Purpose};
    ///
    /// callsheet::guard_if_asked();
    /// let project = Project::open(".")?;
    /// let input = ComposeInput {
    ///     agent: Some("claude".into()),
    ///     task: Some("Fix the login timeout.".into()),
    ///     ..ComposeInput::default()
    /// };
    /// let composition = project.compose(&input, Purpose::Record)?;
    /// let probe = project.probe_context(composition, &ContextOptions::default())?;
    /// for part in &probe.output.parts {
    ///     println!("{:>8} bytes  {} {}", part.bytes, part.kind.name(), part.name);
    /// }
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn probe_context(&self, composition: Composition, options: &ContextOptions) -> Result<ContextProbe> {
        let name = composition.agent_name();
        let probed = probe_run::probe_agent(self, composition, options)?;
        report::build_probe(self, name, probed, options)
    }

    /// Probes the recorded prompt of a run, as it was.
    pub fn probe_run(&self, name: &str, options: &ContextOptions) -> Result<(Id, ContextProbe)> {
        let (run, composition) = self.compose_recorded(name)?;
        Ok((run, self.probe_context(composition, options)?))
    }
}
