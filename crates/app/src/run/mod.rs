//! Drives a run: from a composed prompt to the last record of its result.
//!
//! Everything is known and in the ledger before a process starts ([`PreparedRun`]). Events are recorded as
//! they happen ([`notes`]), and callsheet itself observes the result ([`mod@finish`]).

pub mod checks;
pub mod claim;
pub mod decide;
pub mod doctor;
pub mod end;
pub mod external;
pub mod finish;
pub mod installed_agents;
pub mod notes;
pub mod options;
pub mod preflight;
pub mod progress;
pub mod read_reply;
pub mod rerun;
pub mod result;
pub mod spool;
pub mod stop;
pub mod tasks;
pub mod terminal;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use callsheet_core::delivery::receipt::{AgentReport, DeliveryReceipt, ReceiptWatcher};
use callsheet_core::delivery::{
    Delivery, DeliveryAction, DeliveryContext, McpServerCommand, by_file_line, plan_delivery,
};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::agent::{Agent, DeliveryMethod};
use callsheet_core::record::{Event, Exit, Id, LaunchRecord, Run, RunOptions, RunSummary, SubmissionRecord};
use callsheet_core::reply::StreamReader;
use callsheet_core::request::fact::EndReason;
use callsheet_core::request::scope::Scope;
use callsheet_core::secrets::{mask_address_in, mask_addresses};
use callsheet_core::{Library, find_agent};
use callsheet_run::{
    FingerprintCache, Git, OutputStream, OwnFiles, PerformOptions, PerformOutcome, ProcessEvent,
    ProcessLimits, ProcessTrace, SubmissionError, SubmissionGate, TerminalOptions, TmuxServer,
    WorktreeSnapshot, WritableFolder, delivered_text, ensure_worktree, existing_at_paths, find_own_program,
    find_worktree_path, host_name, perform, set_guarded_run, transcript_has_prompt,
};
use callsheet_store::{Ledger, LedgerUrl};
use serde_json::{Value, json};

use crate::compose::Composition;
use crate::compose::secrets;
use crate::error::{Error, INTERRUPTED, Result};
use crate::project::config::HardLimits;
use crate::project::state::{RunDir, create_private_folder, directory_key, path_error, state_dir};
use crate::project::{Project, ProjectOptions};
use crate::run::claim::{CheckoutClaim, ClaimRequest, claim_checkout};
use crate::run::spool::TextSpool;
use crate::session::open_folder;

pub use finish::complete;
pub(crate) use finish::recover;
pub(crate) use finish::{run_pending_checks, terminal_summary};
use options::apply_limits;
pub use options::{RunLocation, RunSetup};
pub(crate) use preflight::{missing_agent_program, missing_check_programs};
pub(crate) use progress::RunProgress;
pub use result::{exit_code, result_json};
pub use stop::{InterruptFlag, RunStopper};
pub use terminal::is_driven;
pub(crate) use terminal::is_pane_alive;
pub(crate) use terminal::{TerminalState, TerminalWatch};

use external::{ExternalAgent, drive_external};
pub use external::{ExternalEnd, ExternalOutput};
use finish::{CheckContext, finish};
use notes::{NoteRecorder, RedactionRules, RunNote};
use preflight::{check_programs, path_warnings};
use terminal::pane_pid;

/// Returns `scope` with the globs that the hard limits always exclude.
fn restrict_scope(mut scope: Scope, hard: &HardLimits) -> Scope {
    let new = hard.exclude.iter().filter(|glob| !scope.exclude.contains(glob)).cloned();
    let new: Vec<String> = new.collect();
    scope.exclude.extend(new);
    scope
}

/// Returns the name of the tmux server of a run whose pane callsheet opens.
fn tmux_server_name(run: &Id) -> String {
    format!("callsheet-{run}")
}

/// Returns the folder of the files written for a run's agent.
fn run_folder(worktree: &Path, run: &Id) -> PathBuf {
    worktree.join(".callsheet/runs").join(run.as_str())
}

/// How long an agent in a terminal may take until it accepts a line.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A run that has ended, or whose agent continues in a terminal.
#[derive(Debug)]
pub struct RunReport {
    /// Everything that is recorded about the run.
    pub summary: RunSummary,
    /// Whether a person interrupted it.
    pub interrupted: bool,
}

impl RunReport {
    /// Returns the id of the run.
    pub fn id(&self) -> &Id {
        &self.summary.run.id
    }

    /// Returns the outcome of the agent's reply as one word; `none` without a reply.
    pub fn reply_outcome(&self) -> &str {
        self.summary.reply().map(|reply| reply.outcome).unwrap_or_default().name()
    }

    /// Returns the exit code of a command that ends with this run.
    pub fn exit_code(&self) -> u8 {
        if self.interrupted { INTERRUPTED } else { exit_code(&self.summary) }
    }
}

/// Fully planned run that is not started yet.
#[derive(Debug)]
pub struct PreparedRun {
    finished: Composition,
    run: Run,
    agent: Agent,
    delivery: Delivery,
    delivery_context: DeliveryContext,
    /// The record of the start.
    pub launch: LaunchRecord,
    before: WorktreeSnapshot,
    fingerprints: (Arc<FingerprintCache>, PathBuf),
    /// Directory in which the agent works. Files for it are written below.
    place: PathBuf,
    limits: ProcessLimits,
    /// Session that the agent submits to.
    session: Option<PathBuf>,
    /// Documents of the flow that the run belongs to.
    watched: Option<PathBuf>,
    /// Lock that is held until the run is recorded.
    pub held: Option<File>,
    /// Claim of the checkout; `None` in a dry run.
    claim: Option<CheckoutClaim>,
}

impl Project {
    /// Plans the run of a composed prompt. Nothing is started or recorded.
    pub fn prepare(&self, composition: Composition, setup: impl Into<RunSetup>) -> Result<PreparedRun> {
        PreparedRun::new(self, composition, setup.into())
    }
}

impl PreparedRun {
    fn new(project: &Project, finished: Composition, mut setup: RunSetup) -> Result<Self> {
        project.require_trust()?;
        apply_limits(&mut setup.options, &project.config.hard);
        secrets::refuse_secrets(
            project,
            Some(finished.gate_report.mode),
            &secrets::program_words(&setup.options.program, &setup.options.checks),
        )?;
        let made = finished
            .inputs
            .as_ref()
            .ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "nothing was made to be recorded"))?;
        let request = &made.request;
        let mut run = made.new_run(project, &finished.composed)?;
        run.parent.clone_from(&setup.parent);
        let (disk, layout) = (project.disk(None), project.config.layout());
        let library = Library::new(&disk);
        let name = match (setup.options.program.is_empty(), request.agent.as_deref()) {
            (false, _) => "command",
            (true, Some(name)) if name != "base" => name,
            (true, _) if setup.external => "command",
            (true, _) => return Err(no_agent_error().into()),
        };
        let (_, agent) = find_agent(&library, name, &layout)?;
        if let RunLocation::Fresh = setup.place {
            setup.place = RunLocation::Own(format!("run-{}", run.id));
        }
        let (dir, own_worktree) = resolve_location(project, &setup.place, setup.dry)?;
        let folder = run_folder(&dir, &run.id);
        let prompt = &finished.rendered.text;
        let (shown, folder_shown) = (path_to_utf8(&dir)?, path_to_utf8(&folder)?);
        let context = DeliveryContext {
            by: setup.options.by,
            by_file: by_file_line(&library, &layout, &format!("{folder_shown}/prompt.md"))?,
            folder: folder_shown,
            worktree: shown,
            command: setup.options.program.clone(),
            model: setup.options.model.clone(),
            session: Some(run.id.to_string()),
            mcp: if request.mcp { Some(mcp_server_command(project, &setup, &run)?) } else { None },
            scope: restrict_scope(
                setup.scope.clone().unwrap_or_else(|| finished.composed.scope.clone()),
                &project.config.hard,
            ),
            permit: setup.options.permit,
            env: build_environment(
                &setup,
                &run,
                request.session.as_deref().map(|session| project.dir.join(session)),
            ),
            at_paths: existing_at_paths(prompt, &dir),
            pane: setup.pane.clone(),
            single_coder: setup.options.single_coder,
            ..DeliveryContext::default()
        };
        let mut delivery = if setup.external {
            // The caller delivers the prompt.
            Delivery { by: DeliveryMethod::Stdin, acts: Vec::new(), diagnostics: Vec::new() }
        } else {
            plan_delivery(&agent, prompt, &context)?
        };
        // A dry run does not create the worktree, which would contain the project's files.
        let looked_at = if dir.is_dir() { &dir } else { &project.dir };
        check_programs(&delivery.acts, &setup.options.checks, looked_at)?;
        if setup.scope.is_none() {
            let warnings = path_warnings(&context.scope, &request.read_first, looked_at).into_iter();
            delivery.diagnostics.extend(warnings.filter(|warning| !finished.diagnostics.contains(warning)));
        }
        let claim = if setup.dry {
            None
        } else {
            let flow = setup.flow.get("flow").map(String::as_str);
            let (scope, share) = (&context.scope, setup.options.share);
            Some(claim_checkout(&ClaimRequest { id: &run.id, flow, dir: &dir, scope, share })?)
        };
        let mut own = own_files(project, &dir, &delivery.acts, prompt)?;
        own.paths.extend(setup.own.iter().cloned());
        let kept = fingerprints_file(&dir)?;
        setup.fingerprints.load(&kept);
        // A dry run does not create the worktree.
        let looked = if setup.dry && !dir.exists() { &project.dir } else { &dir };
        let before = WorktreeSnapshot::take(looked, &own, &setup.fingerprints)?;
        let unchecked = before
            .size_limit_reason()
            .filter(|_| context.scope != Scope::default() && !setup.options.no_scope);
        if let Some(why) = unchecked {
            return Err(unobservable_error(&dir, why).into());
        }
        let named = || request.values.get("tasks").map(|tasks| split_list(tasks)).unwrap_or_default();
        let tasks = setup.tasks.clone().unwrap_or_else(named);
        let deadline = setup.options.timeout_ms.map(Duration::from_millis);
        let launch = LaunchRecord {
            options: RunOptions { by: (!setup.external).then_some(delivery.by), ..setup.options },
            host: host_name(),
            worktree: context.worktree.clone(),
            own_worktree,
            session: context.session.clone(),
            scope: context.scope.clone(),
            env: setup.env.into_keys().collect(),
            tasks,
            head: before.head().map(str::to_owned),
            dirty: before.is_dirty(),
            tracking: None,
            flow: setup.flow,
        };
        let limits = ProcessLimits { deadline, ..ProcessLimits::default() };
        let session = setup.session.map(|session| session.canonicalize().unwrap_or(session));
        let held = None;
        let place = dir;
        let prints = (setup.fingerprints, kept);
        Ok(Self {
            finished,
            run,
            agent,
            delivery,
            delivery_context: context,
            launch,
            before,
            fingerprints: prints,
            place,
            limits,
            session,
            watched: setup.watched,
            held,
            claim,
        })
    }

    /// Returns the name of the agent or of the program that replaces it.
    pub(crate) fn agent_name(&self) -> &str {
        match self.launch.options.program.first() {
            Some(program) => program,
            None => &self.agent.name,
        }
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &Id {
        &self.run.id
    }

    /// Returns the diagnostics of the prompt and of its delivery.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.finished.diagnostics.iter().chain(&self.delivery.diagnostics)
    }

    /// Returns the actions that deliver the prompt.
    pub fn actions(&self) -> &[DeliveryAction] {
        &self.delivery.acts
    }

    /// Returns the prompt.
    pub fn prompt(&self) -> &str {
        &self.finished.rendered.text
    }

    /// Returns the directory that the agent works in.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the directory of the agent's session, if it has one.
    pub fn session(&self) -> Option<&Path> {
        self.session.as_deref()
    }

    /// Records the run, starts and watches the agent, and records the result.
    pub fn execute(self, project: &Project, stopper: &RunStopper) -> Result<RunReport> {
        self.report(project, stopper, None)
    }

    /// Records a run whose agent the caller drives, such as an SDK or an HTTP call. The caller must have planned it as
    /// [external](RunSetup::external).
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
        let shown = project.observer.show_progress(Box::new(move || seen.render_line()));
        let done = self.execute_with(project, ledger, stopper, &progress, external);
        drop(shown);
        let (summary, _) = done?;
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
        let values = self.finished.inputs.as_ref().map(|made| {
            let value = |key: &String| Some((key.clone(), made.request.values.get(key)?.to_string()));
            made.request.secret.iter().filter_map(value).collect::<Vec<_>>()
        });
        let stop = stopper.stop_flag();
        let clean =
            RedactionRules { rules: secrets::load_rules(project)?, values: values.unwrap_or_default() };
        let notes = NoteRecorder::start(ledger, &id, clean.clone(), stop.clone());
        if self.actions().iter().any(|act| matches!(act, DeliveryAction::Write { .. })) {
            write_gitignore(&self.place)?;
        }
        let delivered = delivered_text(self.actions(), self.prompt());
        let mut watch = ReceiptWatcher::new(&self.agent, &delivered);
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
        let begun = Instant::now();
        let mut submitted = Vec::new();
        let most = self.launch.options.max_cost_usd;
        let performed = stopper.run_stoppable(&run_dir, || {
            let mut take = |event| match event {
                ProcessEvent::Started { pid } => {
                    notes.send(RunNote::Proven(DeliveryReceipt::Spawned, format!("process {pid}")));
                }
                ProcessEvent::Output { stream, text, goes_on, .. } => {
                    let proven = if stream == OutputStream::Stdout {
                        watch.read_output(&text, goes_on)
                    } else {
                        Vec::new()
                    };
                    progress.set_event(&text, &watch.report);
                    for receipt in proven {
                        notes.send(RunNote::Proven(receipt, text.clone()));
                    }
                    notes.send(RunNote::Text { stream, text, goes_on });
                    if most.is_some_and(|most| watch.report.cost_usd.is_some_and(|cost| cost > most)) {
                        stopper.stop_for_cost();
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
        let report = watch.report.clone();
        let mut ledger = notes.finish()?;
        for accepted in submitted {
            ledger.append(Some(&id), None, &Event::SubmissionRecord(accepted))?;
        }
        if !typed {
            let exit = exit_record(performed, stopper, report);
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
        let account = ledger.run_summary(&id)?;
        Ok((account, ledger))
    }

    fn record(&self, ledger: &mut Ledger) -> Result<()> {
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

/// Returns the ledger settings with which the guard of a terminal records a submission. They travel over a
/// socket, because they can contain a password.
fn recorder_settings(project: &Project) -> Value {
    let named = project.ledger.clone();
    let configured =
        project.config.ledger.value.clone().filter(|_| project.config.ledger.from == "environment");
    let (here, project) = (project.here.display().to_string(), project.dir.display().to_string());
    json!({ "here": here, "project": project, "ledger": named.or(configured) })
}

/// Records a submission that the guard of a terminal accepted.
pub fn record_submission(gate: &SubmissionGate, accepted: &SubmissionRecord) -> Result<(), SubmissionError> {
    let text = |name: &str| gate.recorder[name].as_str().map(str::to_owned);
    let record = || {
        let project = Project::open_with(ProjectOptions {
            here: Some(PathBuf::from(text("here").unwrap_or_default())),
            dir: Some(PathBuf::from(text("project").unwrap_or_default())),
            ledger: text("ledger"),
            all_projects: true,
            ..ProjectOptions::default()
        })?;
        let id = Id::parse(&gate.run)
            .ok_or_else(|| Diagnostic::error(Code::RunNotFound, format!("`{}` is not a run", gate.run)))?;
        let event = Event::SubmissionRecord(accepted.clone());
        project.write_ledger()?.append(Some(&id), None, &event)?;
        Ok(())
    };
    // The agent reads the error, so it must not contain a password.
    record().map_err(|failure: Error| {
        let masked = mask_addresses(&failure.to_string());
        SubmissionError::Refused(mask_address_in(&masked, &text("ledger").unwrap_or_default()))
    })
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
            Exit { ended, code: exit.code, signal: exit.signal, why, duration_ms, ..none }
        }
        Ok(PerformOutcome::Typed { .. }) => none,
        Err(_) if stopper.is_stopped_by_person() => {
            let (ended, why) = stopper.stop_reason();
            Exit { ended, why, ..none }
        }
        Err(error) => Exit { why: Some(error.to_string()), ..none },
    }
}

fn no_agent_error() -> Diagnostic {
    Diagnostic::error(Code::UsageBad, "it is not said which agent is to be started")
        .hint("name one with --agent, or give a program after `--`; `callsheet agents` lists them")
}

fn path_to_utf8(path: &Path) -> Result<String> {
    let shown = path.to_str().map(str::to_owned);
    let odd = || Diagnostic::error(Code::DeliverRefused, format!("`{}` is not UTF-8", path.display()));
    shown.ok_or_else(|| odd().into())
}

pub(crate) fn split_list(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Returns the folder in which the agent works, and whether it is a separate worktree.
fn resolve_location(project: &Project, place: &RunLocation, dry: bool) -> Result<(PathBuf, bool)> {
    match place {
        RunLocation::Project | RunLocation::Fresh => Ok((project.dir.clone(), false)),
        RunLocation::At(dir) => Ok((dir.clone(), true)),
        RunLocation::Own(task) => {
            let git = Git::open(&project.dir)?.ok_or_else(|| {
                let message =
                    format!("`{}` is in no git repository, so there are no worktrees", project.dir.display());
                Diagnostic::error(Code::GitFailed, message).hint("run `git init`, or leave out --worktree")
            })?;
            let name = project.dir.file_name().unwrap_or_default().to_string_lossy();
            let home = state_dir()?.join("worktrees").join(format!("{name}-{}", directory_key(&project.dir)));
            let made = if dry {
                find_worktree_path(&git, &home, task)
            } else {
                create_private_folder(&home)?;
                let home = home.canonicalize().map_err(|error| path_error(&home, error))?;
                ensure_worktree(&git, &home, task).map(|made| made.path)
            };
            let made = made?;
            Ok((project_in(project, &git, &made), true))
        }
    }
}

/// Returns the project inside a worktree of its repository. The project may be a subfolder of the repository.
pub(crate) fn project_in(project: &Project, git: &Git, worktree: &Path) -> PathBuf {
    let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
    let below = project.dir.canonicalize().ok().and_then(|dir| Some(dir.strip_prefix(top).ok()?.to_owned()));
    worktree.join(below.unwrap_or_default())
}

/// Returns the files that callsheet itself writes while an agent works. Every other change counts as the
/// agent's.
fn own_files(project: &Project, dir: &Path, acts: &[DeliveryAction], prompt: &str) -> Result<OwnFiles> {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut own = OwnFiles::default();
    let below = canonical(dir);
    own.written.push((below.join(RULES), RULES_TEXT.to_vec()));
    for (path, text) in written_files(acts, prompt) {
        let path = Path::new(path);
        own.written.push((below.join(path.strip_prefix(dir).unwrap_or(path)), text.into_bytes()));
    }
    own.paths.push(canonical(&state_dir()?).join(""));
    if let Some(LedgerUrl::Sqlite(path)) = project.ledger_url()? {
        let folder = path.parent().map(canonical).unwrap_or_default();
        path.file_name().into_iter().for_each(|name| own.add_database(&folder.join(name)));
    }
    Ok(own)
}

/// Returns the files that are written for an agent.
fn written_files<'a>(acts: &'a [DeliveryAction], prompt: &'a str) -> impl Iterator<Item = (&'a str, String)> {
    acts.iter().filter_map(move |act| match act {
        DeliveryAction::Write { path, text } => Some((path.as_str(), text.to_text(prompt))),
        _ => None,
    })
}

/// Returns the file that stores the fingerprints of a worktree.
fn fingerprints_file(dir: &Path) -> Result<PathBuf> {
    Ok(state_dir()?.join("prints").join(directory_key(dir)))
}

fn unobservable_error(dir: &Path, why: &str) -> Diagnostic {
    let message = format!(
        "`{}` is in no git repository, and {why}: what a run changes there cannot be compared with its scope",
        dir.display()
    );
    Diagnostic::error(Code::RunRefused, message)
        .hint("run `git init`, or add --no-scope to run without that check")
}

const RULES: &str = ".callsheet/runs/.gitignore";
const RULES_TEXT: &[u8] = b"*\n";

/// Keeps the files written for an agent out of its commits, even if it adds everything.
fn write_gitignore(place: &Path) -> Result<()> {
    Ok(open_folder(place)?.write(RULES, RULES_TEXT, 0o600)?)
}

/// Removes the files written for the agent, which are in the ledger too. Files that the agent changed or
/// added stay visible.
fn remove_written(place: &Path, acts: &[DeliveryAction], prompt: &str, run: &Id) {
    let Ok(folder) = WritableFolder::open(place) else { return };
    for (path, text) in written_files(acts, prompt) {
        let Some(path) = Path::new(path).strip_prefix(place).ok().and_then(Path::to_str) else { continue };
        if folder.read(path, text.len() as u64).is_ok_and(|found| found.as_ref() == Some(&text)) {
            // A file that cannot be removed does no harm.
            let _ = folder.remove(path);
        }
    }
    let _ = folder.remove_empty(&format!(".callsheet/runs/{run}"));
}

/// Removes the files written for a run's agent, which are in the ledger too. A file that cannot be removed
/// does no harm.
fn remove_files(place: &Path, run: &Id) {
    let _ = WritableFolder::open(place).map(|folder| folder.remove_tree(&format!(".callsheet/runs/{run}")));
}

fn build_environment(setup: &RunSetup, run: &Run, session: Option<PathBuf>) -> BTreeMap<String, String> {
    let mut env = setup.env.clone();
    let session = setup.session.clone().or(session).and_then(|session| session.to_str().map(str::to_owned));
    let of_flow = |key: &str| setup.flow.get(key).cloned();
    let own = [
        ("CALLSHEET_RUN", Some(run.id.to_string())),
        ("CALLSHEET_PHASE", of_flow("phase").or_else(|| run.phase.clone())),
        ("CALLSHEET_ROLE", run.role.clone().or_else(|| of_flow("role"))),
        ("CALLSHEET_LANE", of_flow("lane")),
        ("CALLSHEET_FLOW", of_flow("flow")),
        ("CALLSHEET_TASK", of_flow("task").or_else(|| run.task.clone())),
        ("CALLSHEET_SESSION", session),
    ];
    for (name, value) in own {
        // An unset value must not be inherited from the surrounding environment.
        env.insert(name.into(), value.unwrap_or_default());
    }
    env
}

/// Returns the command of the MCP server for this run only.
fn mcp_server_command(project: &Project, setup: &RunSetup, run: &Run) -> Result<McpServerCommand> {
    let program =
        find_own_program().map_err(|error| Diagnostic::error(Code::RunNotStarted, error.to_string()))?;
    let mut args: Vec<String> =
        vec!["-C".into(), path_to_utf8(&project.dir)?, "mcp".into(), "--run".into(), run.id.to_string()];
    args.extend(["--state".into(), path_to_utf8(&state_dir()?)?]);
    if let Some(session) = &setup.session {
        args.extend(["--session".into(), path_to_utf8(session)?]);
    }
    if let Some(role) = &run.role {
        args.extend(["--role".into(), role.clone()]);
    }
    if setup.proposes {
        args.push("--proposes".into());
    }
    Ok(McpServerCommand { command: path_to_utf8(&program)?, args })
}
