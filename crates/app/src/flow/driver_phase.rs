//! Enters the phases of a driven flow: their lanes, the jobs of the lanes, and the merge of their work.

use std::sync::Arc;

use callsheet_core::Library;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{
    FlowAction, FlowEvent, FlowState, Lane, collect_reviews, needs_changelog, prepare_phase,
};
use callsheet_core::record::DecidedBy;
use callsheet_run::{Git, find_shared_names};

use super::driver::FlowDriver;
use super::lane::LaneJob;
use super::lane_split::SharedPart;
use super::worktrees;
use crate::error::Result;
use crate::run::RunProgress;

impl FlowDriver<'_> {
    /// Determines the lanes of the phase and archives the files of an earlier round.
    pub(super) fn enter_phase(&mut self, entry: u32, keep: bool) -> Result<Vec<FlowAction>> {
        self.folder.create(self.project)?;
        for (phase, words) in &self.changes {
            self.folder.note_changes(&self.plan.definition, phase, words)?;
        }
        let disk = self.project.disk(Some(self.folder.path.clone()));
        let library = Library::new(&disk);
        let layout = self.project.config.layout();
        let mut files = collect_reviews(&self.plan.definition, &self.state, &library)?;
        if let Some(file) =
            self.plan.definition.request.as_ref().filter(|file| !self.folder.path.join(file).exists())
        {
            files.insert(file.clone(), format!("{}\n", self.state.request.trim_end()));
        }
        files.extend(self.folder.context_file()?);
        self.folder.write(&files)?;
        self.check_approved()?;
        // The files just written are not in the earlier listing.
        let disk = self.project.disk(Some(self.folder.path.clone()));
        let library = Library::new(&disk);
        let shared = || find_shared_names(&self.project.dir);
        let prepared = prepare_phase(&self.plan.definition, &self.state, &shared, &library, &layout)?;
        if prepared.groups.iter().all(|group| group.lanes.is_empty()) {
            return Err(Diagnostic::error(Code::FlowRefused, "the phase has no lane").into());
        }
        let phase = self.plan.definition.phase(&self.state.phase);
        let mut stale: Vec<String> = match phase {
            Some(phase) if !keep => phase.stale_files().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        // Refused files are archived together with the reasons.
        let lanes = prepared.groups.iter().flat_map(|group| &group.lanes);
        let refused = lanes.filter(|lane| self.state.refused.contains_key(&lane.id));
        stale.extend(
            phase.iter().flat_map(|phase| refused.clone().flat_map(|lane| phase.stale_lane_files(lane))),
        );
        let aside = self.folder.archive_files(&stale, &callsheet_core::flow::archive_folder(entry))?;
        let mut groups = prepared.groups;
        if !Git::open(&self.project.dir).is_ok_and(|git| git.is_some_and(|git| git.head().is_ok())) {
            // Worktrees need git; lanes that own different files can share one checkout.
            groups.iter_mut().for_each(|group| group.worktrees = false);
        }
        self.check_documents(DecidedBy::Flow)?;
        let actions = self.apply_event(
            FlowEvent::Entered { entry, groups, again: prepared.again, aside },
            DecidedBy::Flow,
        )?;
        self.changes.clear();
        // Prompts mention the round that the state file shows.
        self.write_state(true)?;
        Ok(actions)
    }

    /// Returns the part that the prompts of the current phase share, which the first lane that needs it determines.
    fn shared_part(&mut self, entry: u32) -> Arc<SharedPart> {
        match &self.shared {
            Some((known, shared)) if *known == entry => Arc::clone(shared),
            _ => {
                let lanes = self.state.lanes.iter().map(|lane| lane.lane.clone()).collect();
                let shared = Arc::new(SharedPart::new(lanes));
                self.shared = Some((entry, Arc::clone(&shared)));
                shared
            }
        }
    }

    pub(super) fn lane_job(
        &mut self,
        entry: u32,
        phase: &str,
        lane: Lane,
        worktree: bool,
    ) -> Result<LaneJob> {
        let phase = self.plan.definition.phase(phase).cloned();
        let phase = phase.ok_or_else(|| {
            Diagnostic::error(Code::FlowBad, "the flow no longer has the phase of this lane")
        })?;
        let progress = Arc::new(RunProgress::new(format!("{} {}", phase.name, lane.id)));
        if let Ok(mut lanes) = self.lanes.lock() {
            lanes.insert(lane.id.clone(), Arc::clone(&progress));
        }
        let spent = self.state.cost;
        let left = self.state.max_cost.map(|most| most.saturating_sub(spent) as f64 / 1e6);
        Ok(LaneJob {
            flow: self.id.clone(),
            before: self.lane_runs.get(&(entry, lane.id.clone())).cloned().unwrap_or_default(),
            flow_runs: if needs_changelog(&phase) {
                self.lane_runs.values().flatten().cloned().collect()
            } else {
                Vec::new()
            },
            // Only the inputs of a request: the lanes of a large phase are not copied for each lane.
            state: FlowState {
                request: self.state.request.clone(),
                phase: self.state.phase.clone(),
                times: self.state.times.clone(),
                refused: self.state.refused.clone(),
                again: self.state.again,
                entry,
                ..FlowState::default()
            },
            same_prompt: self.same_prompt,
            plan: self.plan.clone(),
            approved: self.state.documents.clone().filter(|_| worktree).unwrap_or_default(),
            folder: self.folder.clone(),
            max_cost_usd: left,
            single_coder: self.state.settings.single_coder,
            shared: self.shared_part(entry),
            alone: self.state.lanes.len() == 1,
            phase,
            lane,
            worktree,
            progress,
            fingerprints: Arc::clone(&self.fingerprints),
        })
    }

    pub(super) fn merge_lane(&mut self, entry: u32, lane: String) -> Result<Vec<FlowAction>> {
        let conflicts = worktrees::merge_worktree(self.project, &self.id, entry, &lane)?;
        self.apply_event(FlowEvent::Merged { entry, lane, conflicts }, DecidedBy::Flow)
    }
}
