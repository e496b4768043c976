//! Collects the result of a lane: its reports, submissions, changes and evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use callsheet_core::Library;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{
    DocumentFilter, FindingFiles, FindingNumbering, FlowEvent, LaneDetails, LaneObservation,
    collect_evidence, diff_documents, find_outputs, find_plan_errors, find_stale_changelog, format_fixes,
    has_severe,
};
use callsheet_core::library::preferences::Preference;
use callsheet_core::record::{Id, RunCost, RunSummary};
use callsheet_core::reply::Outcome as Reply;
use callsheet_core::submission;
use callsheet_run::DocumentReader;

use super::lane::{LaneJob, is_recorded};
use crate::error::Result;
use crate::project::Project;
use crate::session::{FileSubmissions, SessionDir, SubmissionResult, refusal_reasons};

/// Submissions of a run.
#[derive(Default)]
pub(super) struct RunSubmissions {
    /// Accepted contracts, each with its verdict.
    pub(super) accepted: Vec<(String, Option<String>)>,
    /// Reasons why the last submission was refused.
    pub(super) refused: Vec<String>,
    pub(super) questions: Vec<String>,
    pub(super) proposed: Vec<Preference>,
}

impl RunSubmissions {
    fn add(&mut self, tool: &str, verdict: Option<String>, done: SubmissionResult) {
        self.accepted.push((tool.to_owned(), verdict));
        self.questions.extend(done.questions);
        self.proposed.extend(done.proposed);
    }
}

/// Result of a lane.
pub(super) struct LaneOutcome {
    pub(super) run: Id,
    pub(super) evidence: BTreeSet<String>,
    pub(super) cost: RunCost,
    pub(super) submissions: RunSubmissions,
    pub(super) details: LaneDetails,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl LaneOutcome {
    /// Returns the event of the lane's end, and the diagnostics about it.
    pub(super) fn into_event(self, entry: u32, lane: String) -> (FlowEvent, Vec<Diagnostic>) {
        let Self { run, evidence, cost, submissions, details, diagnostics } = self;
        let RunSubmissions { refused, questions, proposed, .. } = submissions;
        let RunCost { microusd: cost, is_estimate: cost_estimated } = cost;
        let event = FlowEvent::LaneEnded {
            entry,
            lane,
            run: run.to_string(),
            evidence,
            cost,
            cost_estimated,
            refused,
            questions,
            proposed,
            details,
        };
        (event, diagnostics)
    }
}

/// Returns the cost of a run, which is nothing if it is not known.
pub(super) fn run_cost(account: &RunSummary) -> RunCost {
    account.exit.as_ref().and_then(|exit| exit.cost()).unwrap_or_default()
}

impl LaneJob {
    /// Collects the results of the run and derives its evidence.
    pub(super) fn collect_outcome(
        &self,
        project: &Project,
        account: &RunSummary,
        place: Option<&PathBuf>,
    ) -> Result<LaneOutcome> {
        if let Some(worktree) = place {
            self.folder.take_from(worktree, &self.phase.stale_lane_files(&self.lane))?;
        }
        let outcome = account.reply().map(|reply| reply.outcome).unwrap_or_default();
        let is_severe = self.write_report(account, outcome)?;
        self.write_fixes(project, account)?;
        let mut submissions = self.collect_submissions(project, account)?;
        submissions.questions.extend(account.reply().into_iter().flat_map(|reply| reply.questions.clone()));
        let mut diagnostics = Vec::new();
        let (disk, layout) = (project.disk(Some(self.folder.path.clone())), project.config.layout());
        let library = Library::new(&disk);
        let mut facts = account.facts(0);
        if account.has_reported_failure() {
            facts.ended = None;
        }
        let files = find_outputs(&self.phase, &self.lane, &library)?;
        let flow_changed = self.changed_paths(project, account, &self.flow_runs)?;
        let seen = LaneObservation {
            outcome,
            facts: &facts,
            submissions: &submissions.accepted,
            files: &files,
            flow_changed: &flow_changed,
            is_severe,
        };
        let mut evidence = collect_evidence(&self.phase, &seen, &library, &layout);
        let refused_plan = find_plan_errors(&self.phase, &library, &layout);
        submissions.refused.extend(refusal_reasons(&refused_plan, None));
        let mut seen = BTreeSet::new();
        submissions.refused.retain(|reason| seen.insert(reason.clone()));
        let strayed = place.map(|worktree| self.strayed_documents(worktree)).unwrap_or_default();
        if !strayed.is_empty() {
            evidence.remove("clean");
            let message =
                format!("`{}` changed documents of other phases: {}", self.lane.id, strayed.join(", "));
            diagnostics.push(Diagnostic::warning(Code::FlowRefused, message));
        }
        let cost = run_cost(account);
        let changelog = find_stale_changelog(&self.phase, &flow_changed, &library);
        let details = LaneDetails { changelog, strayed };
        Ok(LaneOutcome { run: account.run.id.clone(), evidence, cost, submissions, details, diagnostics })
    }

    /// Writes the reply to the phase's report file. Returns whether it contains a finding that prevents a
    /// pass.
    fn write_report(&self, account: &RunSummary, outcome: Reply) -> Result<bool> {
        let Some(report) = &self.phase.report else { return Ok(false) };
        let text = account.reply().map(|reply| reply.text.as_str()).unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(false);
        }
        let mut text = format!("{}\n", text.trim());
        let holds_findings = self.plan.definition.holds_findings(report);
        let is_severe = has_severe(&text);
        if holds_findings {
            let asks_for_changes = match outcome {
                Reply::Pass => is_severe,
                outcome => matches!(outcome, Reply::NeedsChanges | Reply::MajorIssues),
            };
            text = FindingNumbering::new(self.state.round()).number(&text, asks_for_changes);
        }
        self.folder.write(&BTreeMap::from([(report.clone(), text)]))?;
        Ok(is_severe)
    }

    /// Writes the reported status of each finding and the changes since the lane began. An interrupted run
    /// may have made them.
    fn write_fixes(&self, project: &Project, account: &RunSummary) -> Result<()> {
        let Some(FindingFiles { file, fixes }) = &self.phase.findings else { return Ok(()) };
        if self.phase.phase_request(self.state.again).each.is_some() || self.lane.of.is_empty() {
            return Ok(());
        }
        let text = self.folder.read(file)?;
        let reported = |id: &str| account.reply()?.tasks.get(id).map(|status| status.name());
        let changed = self.changed_paths(project, account, &self.before)?;
        let own = format!("{}/", self.folder.relative);
        let changed = changed.into_iter().filter(|path| !path.starts_with(&own)).collect();
        let fixes_text = format_fixes(&text, &self.lane.of, &reported, changed);
        self.folder.write(&BTreeMap::from([(fixes.clone(), fixes_text)]))
    }

    /// Returns the paths changed by this run and by the runs in `before`.
    fn changed_paths(
        &self,
        project: &Project,
        account: &RunSummary,
        before: &[Id],
    ) -> Result<BTreeSet<String>> {
        let mut changed: BTreeSet<String> = account.facts(0).changed.into_iter().collect();
        let before: Vec<&Id> = before.iter().filter(|run| **run != account.run.id).collect();
        if before.is_empty() {
            return Ok(changed);
        }
        let mut ledger = project.read_ledger()?;
        for run in before {
            if is_recorded(&mut ledger, run)? {
                changed.extend(ledger.run_summary(run)?.facts(0).changed);
            }
        }
        Ok(changed)
    }

    /// Returns whether none of the run's changes waits for a person's approval.
    pub(super) fn is_clean(&self, project: &Project, account: &RunSummary) -> Result<bool> {
        let facts = account.facts(0);
        let accepted = facts.violations.iter().all(|violation| violation.decision.is_accepted());
        if !accepted || !facts.unseen.is_empty() {
            return Ok(false);
        }
        let place = self.worktree_path(project)?;
        Ok(place.is_none_or(|worktree| self.strayed_documents(&worktree).is_empty()))
    }

    /// Returns the documents that the lane changed in its worktree and that its phase must not change.
    fn strayed_documents(&self, worktree: &Path) -> Vec<String> {
        let filter = DocumentFilter::new(&self.plan.definition, self.state.entry);
        // Archived documents are not copied to worktrees.
        let travels = |path: &str| filter.is_document(path) && !path.starts_with("earlier/");
        let now = DocumentReader::default().read(&worktree.join(&self.folder.relative), &travels);
        let mut approved = self.approved.clone();
        approved.retain(|path, _| travels(path));
        let changed = diff_documents(&approved, &now).into_keys();
        changed.filter(|path| !self.phase.can_change(path)).collect()
    }

    /// Collects the submissions made with tools, or else the files waiting in the session, each with its
    /// verdict.
    fn collect_submissions(&self, project: &Project, account: &RunSummary) -> Result<RunSubmissions> {
        let mut submissions = RunSubmissions::default();
        for record in account.reply().into_iter().flat_map(|reply| &reply.submitted) {
            submissions.refused.clone_from(&record.refused);
            if record.refused.is_empty() {
                let verdict = record.verdict.as_str().map(str::to_owned);
                let done: SubmissionResult = serde_json::from_value(record.done.clone())
                    .map_err(|error| Diagnostic::error(Code::LedgerDamaged, error.to_string()))?;
                submissions.add(&record.tool, verdict, done);
            }
        }
        if !submissions.accepted.is_empty() || !submissions.refused.is_empty() {
            return Ok(submissions);
        }
        let mut session = SessionDir::open(project, Some(&self.folder.path))?;
        session.proposes = !self.plan.terminal;
        let own = (!self.alone).then(|| self.phase.stale_lane_files(&self.lane));
        let is_own = |path: &str| own.as_ref().is_none_or(|own| own.iter().any(|own| own == path));
        let role = account.run.role.as_deref();
        let all = if role.is_some() {
            submission::list_tools(&session.disk, &session.layout, role)?
        } else {
            Vec::new()
        };
        let library = Library::new(&session.disk);
        let contract = self
            .phase
            .contract
            .as_deref()
            .filter(|_| self.has_submissions(&library, &session.layout).unwrap_or(false));
        let mut tools: Vec<&str> = contract.into_iter().collect();
        // Sub-plans come before the order that names them.
        let mut others: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        others.sort_by_key(|name| std::cmp::Reverse(*name));
        tools.extend(others.into_iter().filter(|name| Some(*name) != self.phase.contract.as_deref()));
        for tool in tools {
            match session.submit_waiting_files(tool, &is_own) {
                Ok(FileSubmissions { accepted, refused }) => {
                    accepted.into_iter().for_each(|(verdict, done)| submissions.add(tool, verdict, done));
                    submissions.refused.extend(refused);
                }
                Err(failure) => submissions.refused.extend(refusal_reasons(failure.diagnostics(), None)),
            }
            // A whole plan contains its parts.
            if Some(tool) == self.phase.contract.as_deref() && !submissions.accepted.is_empty() {
                break;
            }
        }
        Ok(submissions)
    }
}
