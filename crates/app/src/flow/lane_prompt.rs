//! Composes the prompt of a lane and plans its run.

use std::path::PathBuf;
use std::sync::Arc;

use callsheet_core::flow::{Lane, LaneSource, build_request, writable_globs};
use callsheet_core::library::agent::DeliveryMethod;
use callsheet_core::record::{Digest, RunOptions, restore_request, restore_snapshot};
use callsheet_core::request::scope::Scope;
use callsheet_core::{Library, Request, SharedText, Snapshot, find_agent, find_contract};
use callsheet_store::Ledger;

use super::lane::LaneJob;
use crate::compose::inputs::PreparedInput;
use crate::compose::{ComposeOptions, Composition, Purpose, compose_input, secrets};
use crate::error::Result;
use crate::project::Project;
use crate::run::{PreparedRun, RunLocation, RunSetup};

impl LaneJob {
    /// Returns an unused folder, so that files archived by the phase are not overwritten.
    fn archive_folder(&self) -> String {
        let home = format!("earlier/{:03}-{}", self.state.entry, self.lane.id);
        let free =
            (1..).map(|number| format!("{home}-{number}")).find(|path| !self.folder.path.join(path).exists());
        free.unwrap_or(home)
    }

    /// Restores the request of an interrupted run, if the next run must get the same prompt.
    fn previous_request(&self, ledger: &mut Ledger) -> Result<Option<(Request, Snapshot)>> {
        let Some(run) = self.recorded_run(ledger)?.filter(|_| self.same_prompt) else { return Ok(None) };
        let composed = ledger.prompt_record(run)?;
        let both = |blob: &mut dyn FnMut(Digest) -> Option<SharedText>| {
            Ok((restore_request(&composed, blob)?, restore_snapshot(&composed, blob)?))
        };
        Ok(Some(ledger.with_blobs(both)?))
    }

    /// Composes the prompt of a lane of this phase, again from a request and its sources if they are given. Returns whether the
    /// agent submits by a tool, too.
    pub(super) fn compose_lane(
        &self,
        project: &Project,
        lane: &Lane,
        previous: Option<(Request, Snapshot)>,
        external: bool,
    ) -> Result<(Composition, bool)> {
        let (disk, layout) = (project.disk(Some(self.folder.path.clone())), project.config.layout());
        let library = Library::new(&disk);
        let agent = self.plan.agent(&self.phase)?;
        let (mut request, replay) = match previous {
            Some((request, snapshot)) => (request, Some(snapshot)),
            None => {
                let flow = &self.plan.definition;
                (build_request(flow, &self.state, &self.phase, lane, &library)?, None)
            }
        };
        let (_, attached) = find_agent(&library, &agent, &layout)?;
        let by_tool = attached.tools.mcp.is_some() && self.plan.run.program.is_empty() && !self.plan.by_file;
        request.mcp = by_tool && self.has_submissions(&library, &layout)?;
        request.agent = Some(agent);
        request.session = Some(self.folder.relative.clone());
        request.layout = layout;
        if replay.is_none() {
            let profile = library.profile(&request)?;
            let setup = RunSetup { external, ..RunSetup::from(self.run_options()) };
            setup.name_allowed(project, &mut request, profile.as_ref())?;
        }
        let session = Some(self.folder.path.clone());
        let input = PreparedInput { session, replay, ..PreparedInput::from_request(request) };
        let mode = secrets::choose_mode(project, None, Purpose::Record)?;
        let options = ComposeOptions { mode, budget: None, api: None };
        Ok((compose_input(project, input, options, Purpose::Record)?, by_tool))
    }

    pub(super) fn prepare_run(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        place: Option<&PathBuf>,
        external: bool,
    ) -> Result<PreparedRun> {
        self.folder.archive_files(&self.phase.stale_lane_files(&self.lane), &self.archive_folder())?;
        let previous = self.previous_request(ledger)?;
        let (finished, by_tool) = self.compose_lane(project, &self.lane, previous, external)?;
        let options = self.run_options();
        let is_split = !external && options.split.unwrap_or(finished.composed.agent.prompt.split);
        let shared_bytes = if is_split { self.shared_bytes(project, &finished) } else { None };
        let session = match place {
            Some(worktree) => self.folder.copy_to(worktree)?,
            None => self.folder.path.clone(),
        };
        let task = match self.lane.covers() {
            [all] if *all == self.lane.id && self.phase.ask.each.is_none() => self.plan.name.clone(),
            ids => ids.join(","),
        };
        let note = [
            ("flow", Some(self.flow.to_string())),
            ("phase", Some(self.phase.name.clone())),
            ("lane", Some(self.lane.id.clone())),
            ("contract", self.phase.contract.clone()),
            ("role", self.phase.role.clone()),
            ("task", Some(task)),
        ];
        let setup = RunSetup {
            options,
            env: project.config.env.value.clone(),
            place: place.map_or(RunLocation::Project, |path| RunLocation::At(path.clone())),
            // The server accepts submissions for the flow, wherever the lane works.
            session: Some(if by_tool { self.folder.path.clone() } else { session }),
            watched: Some(self.folder.path.clone()),
            scope: Some(Scope {
                write: writable_globs(&self.phase, &self.lane, &self.folder.relative),
                exclude: project.config.exclude.value.clone(),
            }),
            tasks: self.tasks(),
            own: self.folder.own_paths(),
            fingerprints: Arc::clone(&self.fingerprints),
            parent: self.recorded_run(ledger)?.cloned(),
            // In a terminal a person can approve preferences.
            proposes: !self.plan.terminal,
            flow: note.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
            external,
            shared_bytes,
            ..RunSetup::default()
        };
        project.prepare(finished, setup)
    }

    /// Returns the options of the lane's run.
    fn run_options(&self) -> RunOptions {
        RunOptions {
            model: self.plan.model(&self.phase),
            max_cost_usd: self.max_cost_usd.filter(|left| *left > 0.0),
            by: self.plan.terminal.then_some(DeliveryMethod::Terminal),
            single_coder: self.single_coder && self.phase.ask.each == Some(LaneSource::Plans),
            // The claim of the flow counts for its lanes.
            share: false,
            ..self.plan.run.clone()
        }
    }

    /// Returns the tasks whose status the reply must report.
    pub(super) fn tasks(&self) -> Option<Vec<String>> {
        match self.phase.ask.each {
            Some(LaneSource::Tasks) => Some(self.lane.covers().to_vec()),
            None if !self.lane.of.is_empty() => Some(self.lane.of.clone()),
            _ => None,
        }
    }

    /// Returns whether the phase expects a submission.
    pub(super) fn has_submissions(
        &self,
        library: &callsheet_core::DynLibrary<'_>,
        layout: &callsheet_core::library::layout::Layout,
    ) -> Result<bool> {
        let Some(contract) = &self.phase.contract else { return Ok(false) };
        Ok(find_contract(library, contract, layout)?.1.submission.is_some())
    }
}
