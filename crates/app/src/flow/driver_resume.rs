//! Resumes, decides and stops a flow that was not driven meanwhile.

use std::collections::BTreeMap;

use callsheet_core::flow::{FlowAction, FlowDecision, FlowEvent, FlowStatus, WaitReason};
use callsheet_core::record::DecidedBy;
use callsheet_store::now;

use super::driver::{FlowDriver, render_failures};
use super::driver_documents::strayed_error;
use super::parked::too_early_error;
use crate::error::Result;
use crate::project::person::refuse_below_guard;

impl FlowDriver<'_> {
    /// Resumes the flow with decisions that may not have been carried out. An interrupted run gets a new
    /// prompt from the current documents, or the very same prompt.
    pub(super) fn resume(&mut self, same_prompt: bool) -> Result<Vec<FlowAction>> {
        self.same_prompt = same_prompt;
        if self.state.has_ended() {
            return Ok(vec![FlowAction::Finish { done: self.state.at == FlowStatus::Done }]);
        }
        if let Some(parked) = self.state.parked.as_ref().filter(|parked| now() < parked.until) {
            return Err(too_early_error(&parked.until));
        }
        // While a flow waits or is left alone, a person may edit its documents.
        match refuse_below_guard() {
            Ok(()) if self.state.is_paused() => self.check_documents(self.project.caller())?,
            Ok(()) => self.record_unattended_changes()?,
            Err(_) => {}
        }
        if !self.state.strayed.is_empty() && !matches!(self.state.at, FlowStatus::Waiting { .. }) {
            let why = render_failures(&strayed_error(&self.id, &self.state));
            return self.apply_event(FlowEvent::Failed { entry: self.state.entry, why }, DecidedBy::Flow);
        }
        let cleared = self.clear_lanes()?;
        if !cleared.is_empty() {
            return Ok(cleared);
        }
        let actions = self.apply_event(FlowEvent::Resumed, self.project.caller())?;
        // A stopped flow is judged after it was resumed.
        let cleared = self.clear_lanes()?;
        Ok(if cleared.is_empty() { actions } else { cleared })
    }

    /// Lets lanes continue whose changes outside their scope have been approved since.
    fn clear_lanes(&mut self) -> Result<Vec<FlowAction>> {
        let entry = self.state.entry;
        let waits = |why: &WaitReason| match why {
            WaitReason::Evidence { lane, lacks, .. } if lacks.iter().any(|word| word == "clean") => {
                Some(lane.clone())
            }
            _ => None,
        };
        if self.state.stopped || !self.state.failed.is_empty() || !self.state.strayed.is_empty() {
            return Ok(Vec::new());
        }
        let waiting: Vec<String> = self.state.wait_reasons().iter().filter_map(waits).collect();
        let mut lanes = BTreeMap::new();
        for id in waiting {
            let key = (entry, id.clone());
            let run = self.lane_runs.get(&key).and_then(|runs| runs.last());
            let lane = self.state.lanes.iter().find(|state| state.lane.id == id);
            let (Some(run), Some(lane), Some(evidence)) = (run, lane, self.evidence.get(&key)) else {
                continue;
            };
            let mut evidence = evidence.clone();
            let worktree = self.state.has_worktrees();
            let (run, lane, phase) = (run.clone(), lane.lane.clone(), self.state.phase.clone());
            let job = self.lane_job(entry, &phase, lane, worktree)?;
            self.remove_lane(&id);
            let account = self.ledger.run_summary(&run)?;
            if job.is_clean(self.project, &account)? {
                evidence.insert("clean".into());
                lanes.insert(id, evidence);
            }
        }
        if lanes.is_empty() {
            Ok(Vec::new())
        } else {
            self.apply_event(FlowEvent::Cleared { entry, lanes }, DecidedBy::Flow)
        }
    }

    /// Continues as a person decided, with the documents as the person left them.
    pub(super) fn decide(&mut self, decision: FlowDecision, by: DecidedBy) -> Result<Vec<FlowAction>> {
        self.check_documents(by)?;
        self.apply_event(FlowEvent::Decided { decision }, by)
    }

    /// Stops a flow without running lanes.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.silent = true;
        if !self.state.is_paused() {
            self.record_unattended_changes()?;
        }
        self.apply_event(FlowEvent::Stopped, self.project.caller()).map(drop)
    }
}
