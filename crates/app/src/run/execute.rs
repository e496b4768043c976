//! Executes a planned run: records it, starts and watches the agent, and records the result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::delivery::receipt::{AgentReport, DeliveryReceipt, ReceiptWatcher};
use callsheet_core::diag::Diagnostic;
use callsheet_core::record::{Event, Exit, RunCost, RunSummary};
use callsheet_core::reply::StreamReader;
use callsheet_core::request::fact::EndReason;
use callsheet_run::{
    OutputStream, PerformOptions, PerformOutcome, ProcessEvent, ProcessTrace, SubmissionGate,
    TerminalOptions, TmuxServer, delivered_text, perform, set_guarded_run, transcript_has_prompt,
};
use callsheet_store::Ledger;
use serde_json::Value;

use super::RunReport;
use super::agent_version::AgentVersion;
use super::cost::exceeded_reason;
use super::external::{ExternalAgent, ExternalEnd, ExternalOutput, drive_external};
use super::fault::{FaultEnd, explain_exit, find_fault_end, parked_exit};
use super::finish::{CheckContext, finish};
use super::notes::{NoteRecorder, RedactionRules, RunNote};
use super::prepared::PreparedRun;
use super::progress::RunProgress;
use super::stop::RunStopper;
use super::submissions::recorder_settings;
use super::terminal::{pane_pid, tmux_server_name};
use super::written_files::{remove_written, write_gitignore};
use crate::compose::secrets;
use crate::error::Result;
use crate::notify::EndNotice;
use crate::project::Project;
use crate::project::state::{RunDir, path_error};
use crate::run::changes::copies_dir;
use crate::run::spool::TextSpool;

/// How long an agent in a terminal may take until it accepts a line.
const READY_WITHIN: Duration = Duration::from_secs(60);

impl PreparedRun {
    /// Records the run, starts and watches the agent, and records the result.
    pub fn execute(self, project: &Project, stopper: &RunStopper) -> Result<RunReport> {
        self.report(project, stopper, None)
    }

    /// Records a run whose agent the caller drives, such as an SDK or an HTTP call. The caller must have planned it as
    /// [external](super::RunSetup::external).
    ///
    /// ```no_run
    /// use callsheet::{
    ///     ComposeInput, ExternalEnd, InterruptFlag, Project, Purpose, RunOverrides, RunStopper,
    /// };
    ///
    /// let project = Project::open(".")?;
    /// let input = ComposeInput { task: Some("Fix the login timeout.".into()), ..ComposeInput::default() };
    /// let composition = project.compose(&input, Purpose::Record)?;
    /// let prompt = composition.text().to_owned();
    /// let mut setup = RunOverrides::default().complete(&project)?;
    /// setup.external = true;
    /// let stopper = RunStopper::new(&InterruptFlag::default());
    /// let report = project.prepare(composition, setup)?.execute_external(&project, &stopper, |output| {
    ///     output.print(&call_model(&prompt));
    ///     ExternalEnd::Exited(0)
    /// })?;
    /// println!("reply: {}", report.reply_outcome());
    ///
    /// fn call_model(prompt: &str) -> String {
    ///     todo!("an SDK or an HTTP call that answers {prompt}")
    /// }
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn execute_external(
        self,
        project: &Project,
        stopper: &RunStopper,
        mut agent: impl FnMut(&mut ExternalOutput<'_>) -> ExternalEnd,
    ) -> Result<RunReport> {
        self.report(project, stopper, Some(&mut agent))
    }

    fn report(
        self,
        project: &Project,
        stopper: &RunStopper,
        external: Option<ExternalAgent<'_>>,
    ) -> Result<RunReport> {
        let ledger = project.create_ledger()?;
        project.observer.diagnostics(&self.diagnostics().cloned().collect::<Vec<_>>());
        project.observer.status(&format!("run {}", self.id()));
        let progress = Arc::new(RunProgress::new(self.agent_name()));
        let seen = Arc::clone(&progress);
        let begun = Instant::now();
        let shown = project.observer.show_lines(Box::new(move |width| vec![seen.render_line(width)]));
        let done = self.execute_with(project, ledger, stopper, &progress, external);
        drop(shown);
        let (summary, _) = done?;
        project.notify(&EndNotice::from_run(&summary), begun.elapsed());
        Ok(RunReport { summary, interrupted: stopper.is_stopped_by_person() })
    }

    /// Like [`execute`](Self::execute), with a ledger and a progress of the caller.
    pub(crate) fn execute_with(
        mut self,
        project: &Project,
        mut ledger: Ledger,
        stopper: &RunStopper,
        progress: &Arc<RunProgress>,
        external: Option<ExternalAgent<'_>>,
    ) -> Result<(RunSummary, Ledger)> {
        let run_dir = RunDir::from_run(&self.run.id)?;
        let run_lock = run_dir.try_lock()?;
        run_dir.store_snapshot(&self.before)?;
        if project.config.keep_changes.value {
            let copies = copies_dir(&run_dir);
            self.before.copy_uncommitted(&copies).map_err(|error| path_error(&copies, error))?;
        }
        let id = self.run.id.clone();
        set_guarded_run(id.as_str());
        let trace = ProcessTrace::create(id.as_str(), run_dir.dir())
            .map_err(|error| path_error(run_dir.dir(), error))?;
        self.launch.tracking = Some(trace.method().to_owned());
        if let Err(failure) = self.record(&mut ledger) {
            trace.remove_cgroup_dir();
            run_dir.remove();
            return Err(failure);
        }
        drop(self.held.take());
        let values = self.finished.secret_values();
        let stop = stopper.stop_flag();
        let clean = RedactionRules { rules: secrets::load_rules(project)?, values };
        let notes = NoteRecorder::start(ledger, &id, clean.clone(), stop.clone());
        if self.actions().iter().any(|act| matches!(act, DeliveryAction::Write { .. })) {
            write_gitignore(&self.place)?;
        }
        let delivered = delivered_text(self.actions(), self.prompt());
        let shared = self.shared_part().to_owned();
        let mut watch = ReceiptWatcher::new(&self.agent, &delivered).with_shared(&shared);
        let mut version = AgentVersion::new(&self.agent, self.actions());
        let mut stdout = StreamReader::new(&self.agent.output, &mut TextSpool::factory(run_dir.dir()));
        let with = PerformOptions {
            place: self.place.clone(),
            guard: None,
            limits: self.limits,
            stop,
            terminal: Some(TerminalOptions {
                server: if self.delivery_context.pane.is_some() {
                    TmuxServer::Usual
                } else {
                    TmuxServer::Own(tmux_server_name(&id))
                },
                ready_within: READY_WITHIN,
            }),
            submissions: Some(SubmissionGate {
                run: id.to_string(),
                dir: run_dir.dir().to_owned(),
                session: self.session.clone(),
                role: self.run.role.clone(),
                // Only the guard of a terminal records submissions itself.
                recorder: if self.actions().iter().any(|act| matches!(act, DeliveryAction::Open { .. })) {
                    recorder_settings(project)
                } else {
                    Value::Null
                },
                watched: self.watched.clone(),
            }),
            trace: Some(trace.clone()),
        };
        progress.set_agent(&self.agent, self.launch.worktree.as_ref());
        let begun = Instant::now();
        let mut submitted = Vec::new();
        let mut told = None;
        let most = self.launch.options.max_cost_usd.map(RunCost::from_dollars);
        let mut day_limit = self.day_limit.take();
        let mut last_cost = None;
        version.ask_for_terminal();
        let performed = stopper.run_stoppable(&run_dir, || {
            let mut take = |event| match event {
                ProcessEvent::Started { pid } => {
                    version.ask();
                    notes.send(RunNote::Proven(DeliveryReceipt::Spawned, format!("process {pid}")));
                }
                ProcessEvent::Output { stream, text, goes_on, .. } => {
                    let proven = if stream == OutputStream::Stdout {
                        if let Some(version) = version.read_output(&text, goes_on) {
                            run_dir.store_version(version);
                        }
                        watch.read_output(&text, goes_on)
                    } else {
                        if !goes_on {
                            watch.read_error_line(&text);
                        }
                        Vec::new()
                    };
                    progress.set_event(&text, goes_on, &watch);
                    let fault = watch.fault.clone().map(|fault| (fault, watch.fault_count));
                    let is_new = fault.is_some() && fault != told;
                    told = fault;
                    if is_new {
                        if !project.observer.shows_lines() {
                            progress.render_fault().iter().for_each(|line| project.observer.status(line));
                        }
                        if let Some(end) = find_fault_end(&self.agent, &self.delivery_context.env, &watch) {
                            stopper.stop_for_fault(end);
                        }
                    }
                    for receipt in proven {
                        notes.send(RunNote::Proven(receipt, text.clone()));
                    }
                    notes.send(RunNote::Text { stream, text, goes_on });
                    if let Some(cost) = self.meter.cost(&watch.report).filter(|cost| Some(*cost) != last_cost)
                    {
                        last_cost = Some(cost);
                        let over = exceeded_reason(most, cost);
                        let over_day = || day_limit.as_mut()?.exceeded_reason(project, cost);
                        over.or_else(over_day).into_iter().for_each(|why| stopper.stop_for_cost(why));
                    }
                }
                ProcessEvent::Submitted(accepted) => submitted.push(accepted),
                ProcessEvent::Printed { stream: OutputStream::Stdout, bytes } => stdout.take(&bytes),
                ProcessEvent::Printed { stream: OutputStream::Stderr, .. } => {}
                ProcessEvent::LeftOut { stream, bytes } => notes.send(RunNote::LeftOut { stream, bytes }),
            };
            match external {
                Some(agent) => Ok(drive_external(agent, &mut take)),
                None => perform(self.actions(), self.prompt(), &with, &mut take),
            }
        });
        if let (Some(transcript), Some(session)) = (&self.agent.transcript, watch.report.session.clone())
            && !notes.is_proven(DeliveryReceipt::Echoed)
            && transcript_has_prompt(transcript, &session, &self.delivery_context.env, &mut watch)
        {
            notes.send(RunNote::Proven(
                DeliveryReceipt::Echoed,
                format!("the agent's transcript of session {session}"),
            ));
        }
        let typed = match &performed {
            Ok(PerformOutcome::Typed { pane, enters }) => {
                let pane = pane.to_string();
                let server =
                    if self.delivery_context.pane.is_none() { tmux_server_name(&id) } else { String::new() };
                run_dir.store_pane(&server, &pane)?;
                if let (Some(claim), Some(pid)) = (self.claim.take(), pane_pid(&server, &pane)) {
                    claim.hand_over(pid)?;
                }
                notes.send(RunNote::Proven(
                    DeliveryReceipt::Spawned,
                    format!("pane {pane}; the line was sent with {enters} enter"),
                ));
                true
            }
            _ => false,
        };
        let ran = matches!(performed, Ok(PerformOutcome::Ran(_) | PerformOutcome::Typed { .. }));
        let agent_version = version.finish(ran).map(|text| clean.redactor().redact_text(&text).into_owned());
        let report = watch.report.clone();
        let estimate = self.meter.estimate(&report);
        let mut ledger = notes.finish()?;
        for accepted in submitted {
            ledger.append(Some(&id), None, &Event::SubmissionRecord(accepted))?;
        }
        if !typed {
            let exit = Exit { estimate, agent_version, ..exit_record(performed, stopper, report) };
            let exit = explain_exit(exit, &self.agent, &self.delivery_context.env, &watch);
            remove_written(&self.place, self.actions(), self.prompt(), &id);
            let account = stopper.run_stoppable(&run_dir, || {
                finish(
                    project,
                    &mut ledger,
                    &id,
                    exit,
                    stdout.finish(),
                    self.prompt(),
                    &self.before,
                    &CheckContext { stopper, progress, trace: &trace, begun },
                    &mut clean.redactor(),
                )
            })?;
            if project.is_ledger_within(&[&self.place, &project.dir]) {
                ledger.check_whole()?;
            }
            // If this fails, the next run reads the files again.
            let _ = self.fingerprints.0.save(&self.fingerprints.1);
            drop(run_lock);
            trace.remove_cgroup_dir();
            run_dir.remove();
            return Ok((account, ledger));
        }
        agent_version.iter().for_each(|version| run_dir.store_version(version));
        let account = ledger.run_summary(&id)?;
        Ok((account, ledger))
    }

    pub(super) fn record(&self, ledger: &mut Ledger) -> Result<()> {
        let Some(made) = &self.finished.inputs else { return Ok(()) };
        let diagnostics: Vec<Diagnostic> = self.diagnostics().cloned().collect();
        let mut kept = made.build_record(
            self.run.clone(),
            (&self.finished.composed, &self.finished.rendered),
            &diagnostics,
        )?;
        kept.composed.launch = Some(self.launch.clone());
        ledger.record_prompt(&kept)?;
        Ok(())
    }
}

fn exit_record(
    performed: Result<PerformOutcome, callsheet_run::PerformError>,
    stopper: &RunStopper,
    report: AgentReport,
) -> Exit {
    let none = Exit { report, ..Exit::new(EndReason::Unstarted, None) };
    match performed {
        Ok(PerformOutcome::Ran(exit)) => {
            let (ended, why) = match exit.ended {
                EndReason::Stopped => stopper.stop_reason(),
                ended => (ended, None),
            };
            let duration_ms = u64::try_from(exit.duration.as_millis()).ok();
            let record = Exit { ended, code: exit.code, signal: exit.signal, why, duration_ms, ..none };
            match stopper.fault_end().filter(|_| exit.ended == EndReason::Stopped) {
                Some(FaultEnd::Unauthenticated(why)) => {
                    Exit { ended: EndReason::Unauthenticated, why: Some(why), ..record }
                }
                Some(FaultEnd::Parked(until)) => parked_exit(record, until),
                None => record,
            }
        }
        Ok(PerformOutcome::Typed { .. }) => none,
        Err(_) if stopper.is_stopped_by_person() => {
            let (ended, why) = stopper.stop_reason();
            Exit { ended, why, ..none }
        }
        Err(error) => Exit { why: Some(error.to_string()), ..none },
    }
}
