//! Driving a run: from a finished prompt to the last record of what came of it.
//!
//! Everything is known and in the ledger before something is started ([`Ready`]); what happens then is recorded while it
//! happens ([`notes`]), and what is found afterwards is found by us ([`finish`]).

mod finish;
mod notes;
mod preflight;
mod progress;
mod result;
mod stop;
mod terminal;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use callsheet_core::agent::{Agent, By, Permit};
use callsheet_core::deliver::{Act, Delivery, Handover, Mcp, by_file_line, deliver};
use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::fact::{CheckSpec, Ended};
use callsheet_core::receipt::{Receipt, Told, Watch};
use callsheet_core::record::{Account, Exit, Id, Launch, Run, SubmissionRecord};
use callsheet_core::reply::StreamReader;
use callsheet_core::scope::Scope;
use callsheet_core::secrets::{mask_address_in, mask_addresses};
use callsheet_core::{Library, find_agent};
use callsheet_run::{
    Before, Event, Folder, Git, JudgedSubmission, Limits, OwnFiles, Performed, Performing, Prints,
    ProcessTrace, Server, Stream, SubmissionGate, found_at_paths, guard_run, own_program, perform, told_by,
    transcript_has_prompt, worktree, worktree_place,
};
use callsheet_store::{Ledger, Place};
use serde_json::{Value, json};

use crate::app::App;
use crate::claim::{Claim, ClaimRequest, claim};
use crate::commands::compose::Finished;
use crate::config::{HardLimits, lower, stricter_permit};
use crate::ledger::failure;
use crate::print::Print;
use crate::secrets;
use crate::session::{failed as unwritten, open};
use crate::spool::TextSpool;
use crate::state::{Desk, failed, name_of, private_folder, state_dir};

pub(crate) use finish::{account_of_terminal, complete, recover, run_pending_checks};
pub(crate) use preflight::{need_agent, need_checks};
pub(crate) use progress::Progress;
pub(crate) use result::{code_of, result_json, result_page};
pub(crate) use stop::{Interrupt, Stopper};
pub(crate) use terminal::{TerminalState, TerminalWatch, close_pane, is_driven, pane_lives};

use finish::{Checking, finish};
use notes::{Clean, Note, Notes};
use preflight::{need_programs, warn_of_paths};
use terminal::pane_process;

/// How a prompt is to be handed over: what a person, an earlier run or a flow asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    pub(crate) by: Option<By>,
    /// A program in the place of the agent's own, with its arguments.
    pub(crate) program: Vec<String>,
    pub(crate) model: Option<String>,
    pub(crate) permit: Permit,
    pub(crate) checks: Vec<CheckSpec>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_cost_usd: Option<f64>,
    pub(crate) place: WorkIn,
    /// Other runs may work in the same checkout.
    pub(crate) share: bool,
    /// It is only told what would be done.
    pub(crate) dry: bool,
    /// A pane of tmux that is there already.
    pub(crate) pane: Option<String>,
    pub(crate) single_coder: bool,
    /// The session in which the agent hands things in, where it is attached to the server.
    pub(crate) session: Option<PathBuf>,
    /// What may be written, instead of what the request says.
    pub(crate) scope: Option<Scope>,
    /// It may run where the scope cannot be checked.
    pub(crate) no_scope: bool,
    /// The tasks whose status the reply has to tell, instead of those that a value names.
    pub(crate) tasks: Option<Vec<String>>,
    /// What others of us write meanwhile.
    pub(crate) own: Vec<PathBuf>,
    /// What is known of files that runs before this one looked at.
    pub(crate) prints: Arc<Prints>,
    pub(crate) parent: Option<Id>,
    pub(crate) flow: BTreeMap<String, String>,
    /// Preferences that the agent hands in are only proposed.
    pub(crate) proposes: bool,
}

impl How {
    /// Nothing goes beyond the user's hard limits, whoever asks for it.
    fn keep_within(&mut self, hard: &HardLimits) {
        self.permit = hard.permit.map_or(self.permit, |permit| stricter_permit(self.permit, permit));
        self.timeout = lower(self.timeout, hard.timeout.map(|span| span.0));
        self.max_cost_usd = lower(self.max_cost_usd, hard.max_cost);
    }
}

/// The same scope without what is excluded whatever else is.
fn within(mut scope: Scope, hard: &HardLimits) -> Scope {
    let new = hard.exclude.iter().filter(|glob| !scope.exclude.contains(glob)).cloned();
    let new: Vec<String> = new.collect();
    scope.exclude.extend(new);
    scope
}

/// Where an agent works.
#[derive(Clone, Debug, Default)]
pub(crate) enum WorkIn {
    #[default]
    Project,
    /// A worktree of this task's own.
    Own(String),
    /// A worktree of the run's own, named by its id.
    Fresh,
    /// The worktree of an earlier run.
    At(PathBuf),
}

/// The name of the tmux server of a run whose pane we open.
fn server_of(run: &Id) -> String {
    format!("callsheet-{run}")
}

/// Where files for the agent of a run are written.
fn folder_of(worktree: &Path, run: &Id) -> PathBuf {
    worktree.join(".callsheet/runs").join(run.as_str())
}

/// How long an agent in a terminal may take until it takes a line.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A run that is known in all its parts, and not started.
pub(crate) struct Ready {
    finished: Finished,
    run: Run,
    agent: Agent,
    delivery: Delivery,
    handover: Handover,
    pub(crate) launch: Launch,
    before: Before,
    prints: (Arc<Prints>, PathBuf),
    /// Where the agent works. Files for it are written below.
    place: PathBuf,
    limits: Limits,
    /// The session that the agent submits to.
    session: Option<PathBuf>,
    /// What is held until the run is recorded.
    pub(crate) held: Option<File>,
    /// The checkout, unless nothing is to be started.
    claim: Option<Claim>,
}

impl Ready {
    pub(crate) fn new(app: &App<'_>, finished: Finished, mut how: How) -> Result<Self, Failure> {
        app.need_trust()?;
        how.keep_within(&app.config.hard);
        secrets::refuse_in(app, Some(finished.passed.mode), &secrets::words_of(&how.program, &how.checks))?;
        let made = finished
            .made
            .as_ref()
            .ok_or_else(|| Diag::error(Code::LedgerFailed, "nothing was made to be recorded"))?;
        let request = &made.request;
        let mut run = made.run(app, &finished.composed)?;
        run.parent.clone_from(&how.parent);
        let (disk, layout) = (app.disk(None), app.config.layout());
        let library = Library::new(&disk);
        let name = match (how.program.is_empty(), request.agent.as_deref()) {
            (false, _) => "command",
            (true, Some(name)) if name != "base" => name,
            (true, _) => return Err(no_agent().into()),
        };
        let (_, agent) = find_agent(&library, name, &layout)?;
        if let WorkIn::Fresh = how.place {
            how.place = WorkIn::Own(format!("run-{}", run.id));
        }
        let (dir, own_worktree) = work_in(app, &how.place, how.dry)?;
        let folder = folder_of(&dir, &run.id);
        let prompt = &finished.rendered.text;
        let (shown, folder_shown) = (utf8(&dir)?, utf8(&folder)?);
        let handover = Handover {
            by: how.by,
            by_file: by_file_line(&library, &layout, &format!("{folder_shown}/prompt.md"))?,
            folder: folder_shown,
            worktree: shown,
            command: how.program.clone(),
            model: how.model.clone(),
            session: Some(run.id.to_string()),
            mcp: if request.mcp { Some(server(app, &how, &run)?) } else { None },
            scope: within(
                how.scope.clone().unwrap_or_else(|| finished.composed.scope.clone()),
                &app.config.hard,
            ),
            permit: how.permit,
            env: environment(&how, &run, request.session.as_deref().map(|session| app.project.join(session))),
            at_paths: found_at_paths(prompt, &dir),
            pane: how.pane.clone(),
            single_coder: how.single_coder,
            ..Handover::default()
        };
        let mut delivery = deliver(&agent, prompt, &handover)?;
        // A worktree that a dry run does not make has the project's files.
        let looked_at = if dir.is_dir() { &dir } else { &app.project };
        need_programs(&delivery.acts, &how.checks, looked_at)?;
        if how.scope.is_none() {
            let warnings = warn_of_paths(&handover.scope, &request.read_first, looked_at).into_iter();
            delivery.talk.extend(warnings.filter(|warning| !finished.talk.contains(warning)));
        }
        let claim = if how.dry {
            None
        } else {
            let flow = how.flow.get("flow").map(String::as_str);
            let (scope, share) = (&handover.scope, how.share);
            Some(claim(&ClaimRequest { id: &run.id, flow, dir: &dir, scope, share })?)
        };
        let mut own = own_files(app, &dir, &delivery.acts, prompt)?;
        own.paths.extend(how.own.iter().cloned());
        let kept = kept_prints(&dir)?;
        how.prints.load(&kept);
        // A dry run makes no worktree.
        let looked = if how.dry && !dir.exists() { &app.project } else { &dir };
        let before = Before::look(looked, &own, &how.prints).map_err(|error| git_failed(&error))?;
        let unchecked = before.too_large().filter(|_| handover.scope != Scope::default() && !how.no_scope);
        if let Some(why) = unchecked {
            return Err(cannot_check(&dir, why).into());
        }
        let named = || request.values.get("tasks").map(|tasks| split(tasks)).unwrap_or_default();
        let tasks = how.tasks.clone().unwrap_or_else(named);
        let launch = Launch {
            host: host(),
            worktree: handover.worktree.clone(),
            own_worktree,
            by: Some(delivery.by),
            program: how.program,
            model: how.model,
            session: handover.session.clone(),
            permit: how.permit,
            scope: handover.scope.clone(),
            no_scope: how.no_scope,
            checks: how.checks,
            env: how.env.keys().cloned().collect(),
            timeout_ms: how.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            max_cost_usd: how.max_cost_usd,
            single_coder: how.single_coder,
            tasks,
            head: before.head().map(str::to_owned),
            dirty: before.is_dirty(),
            share: how.share,
            tracking: None,
            flow: how.flow,
        };
        let limits = Limits { deadline: how.timeout, ..Limits::default() };
        let session = how.session.map(|session| session.canonicalize().unwrap_or(session));
        let held = None;
        let place = dir;
        let prints = (how.prints, kept);
        Ok(Self {
            finished,
            run,
            agent,
            delivery,
            handover,
            launch,
            before,
            prints,
            place,
            limits,
            session,
            held,
            claim,
        })
    }

    /// What the agent is called.
    pub(crate) fn who(&self) -> &str {
        match self.launch.program.first() {
            Some(program) => program,
            None => &self.agent.name,
        }
    }

    pub(crate) fn id(&self) -> &Id {
        &self.run.id
    }

    /// Whoever may want to know what a delivery does otherwise than usual.
    pub(crate) fn talk(&self) -> impl Iterator<Item = &Diag> {
        self.finished.talk.iter().chain(&self.delivery.talk)
    }

    pub(crate) fn acts(&self) -> &[Act] {
        &self.delivery.acts
    }

    pub(crate) fn prompt(&self) -> &str {
        &self.finished.rendered.text
    }

    /// Records, starts, watches, and records again. `progress` is told what there is to see.
    pub(crate) fn go(
        mut self,
        app: &App<'_>,
        mut ledger: Ledger,
        stopper: &Stopper,
        progress: &Arc<Progress>,
    ) -> Result<(Account, Ledger), Failure> {
        let desk = Desk::of(&self.run.id)?;
        let seat = desk.sit()?;
        desk.keep_before(&self.before)?;
        let id = self.run.id.clone();
        guard_run(id.as_str());
        let trace =
            ProcessTrace::create(id.as_str(), desk.dir()).map_err(|error| failed(desk.dir(), &error))?;
        self.launch.tracking = Some(trace.method().to_owned());
        if let Err(failure) = self.record(&mut ledger) {
            trace.remove();
            desk.clear();
            return Err(failure);
        }
        drop(self.held.take());
        let values = self.finished.made.as_ref().map(|made| {
            let value = |key: &String| Some((key.clone(), made.request.values.get(key)?.to_string()));
            made.request.secret.iter().filter_map(value).collect::<Vec<_>>()
        });
        let stop = stopper.stop();
        let clean = Clean { rules: secrets::rules(app)?, values: values.unwrap_or_default() };
        let notes = Notes::start(ledger, &id, clean.clone(), stop.clone());
        if self.acts().iter().any(|act| matches!(act, Act::Write { .. })) {
            keep_out_of_git(&self.place)?;
        }
        let told = told_by(self.acts(), self.prompt());
        let mut watch = Watch::new(&self.agent, &told);
        let mut stdout = StreamReader::new(self.agent.output.format, &mut TextSpool::maker(desk.dir()));
        let with = Performing {
            place: self.place.clone(),
            guard: own_program().map_err(|error| Diag::error(Code::RunNotStarted, error.to_string()))?,
            limits: self.limits,
            stop,
            server: if self.handover.pane.is_some() { Server::Usual } else { Server::Own(server_of(&id)) },
            ready_within: READY_WITHIN,
            submissions: Some(SubmissionGate {
                run: id.to_string(),
                dir: desk.dir().to_owned(),
                session: self.session.clone(),
                role: self.run.role.clone(),
                // Only the guard of a terminal records by itself.
                recorder: if self.acts().iter().any(|act| matches!(act, Act::Open { .. })) {
                    recorder(app)
                } else {
                    Value::Null
                },
            }),
            trace: Some(trace.clone()),
        };
        let begun = Instant::now();
        let mut submitted = Vec::new();
        let most = self.launch.max_cost_usd;
        let performed = stopper.during(&desk, || {
            perform(self.acts(), self.prompt(), &with, &mut |event| match event {
                Event::Started { pid } => {
                    notes.send(Note::Proven(Receipt::Spawned, format!("process {pid}")));
                }
                Event::Output { stream, text, goes_on, .. } => {
                    let proven =
                        if stream == Stream::Stdout { watch.output(&text, goes_on) } else { Vec::new() };
                    progress.saw(&text, &watch.told);
                    for receipt in proven {
                        notes.send(Note::Proven(receipt, text.clone()));
                    }
                    notes.send(Note::Text { stream, text, goes_on });
                    if most.is_some_and(|most| watch.told.cost_usd.is_some_and(|cost| cost > most)) {
                        stopper.cost();
                    }
                }
                Event::Submitted(accepted) => submitted.push(accepted),
                Event::Printed { stream: Stream::Stdout, bytes } => stdout.take(&bytes),
                Event::Printed { stream: Stream::Stderr, .. } => {}
                Event::LeftOut { stream, bytes } => notes.send(Note::LeftOut { stream, bytes }),
            })
        });
        if let (Some(transcript), Some(session)) = (&self.agent.transcript, watch.told.session.clone())
            && !notes.is_proven(Receipt::Echoed)
            && transcript_has_prompt(transcript, &session, &self.handover.env, &mut watch)
        {
            notes.send(Note::Proven(Receipt::Echoed, format!("the agent's transcript of session {session}")));
        }
        let typed = match &performed {
            Ok(Performed::Typed { pane, enters }) => {
                let pane = pane.to_string();
                let server = if self.handover.pane.is_none() { server_of(&id) } else { String::new() };
                desk.keep_pane(&server, &pane)?;
                if let (Some(claim), Some(pid)) = (self.claim.take(), pane_process(&server, &pane)) {
                    claim.hand_over(pid)?;
                }
                notes.send(Note::Proven(
                    Receipt::Spawned,
                    format!("pane {pane}; the line was sent with {enters} enter"),
                ));
                true
            }
            _ => false,
        };
        let told = watch.told.clone();
        let mut ledger = notes.finish()?;
        for accepted in submitted {
            ledger.append(Some(&id), None, &submission_event(accepted)).map_err(failure)?;
        }
        if !typed {
            let exit = exit(performed, stopper, told);
            remove_written(&self.place, self.acts(), self.prompt(), &id);
            let account = stopper.during(&desk, || {
                finish(
                    app,
                    &mut ledger,
                    &id,
                    exit,
                    stdout.finish(),
                    self.prompt(),
                    &self.before,
                    &Checking { stopper, progress, trace: &trace, begun },
                    &mut clean.redactor(),
                )
            })?;
            // Without it, the next run reads the files again.
            let _ = self.prints.0.keep(&self.prints.1);
            drop(seat);
            trace.remove();
            desk.clear();
            return Ok((account, ledger));
        }
        let account = ledger.account(&id).map_err(failure)?;
        Ok((account, ledger))
    }

    fn record(&self, ledger: &mut Ledger) -> Result<(), Failure> {
        let Some(made) = &self.finished.made else { return Ok(()) };
        let talk: Vec<Diag> = self.talk().cloned().collect();
        let mut kept =
            made.kept(self.run.clone(), (&self.finished.composed, &self.finished.rendered), &talk)?;
        kept.composed.launch = Some(self.launch.clone());
        ledger.compose(&kept).map(drop).map_err(failure)
    }
}

fn submission_event(accepted: JudgedSubmission) -> callsheet_core::record::Event {
    let JudgedSubmission { tool, sha256, verdict, done, refused } = accepted;
    callsheet_core::record::Event::SubmissionRecord(SubmissionRecord { tool, sha256, verdict, done, refused })
}

/// What the guard of a terminal needs to record a submission. The guard gets it over a socket: it can hold a password.
fn recorder(app: &App<'_>) -> Value {
    let named = app.ledger.clone();
    let configured = app.config.ledger.value.clone().filter(|_| app.config.ledger.from == "environment");
    let (here, project) = (app.here.display().to_string(), app.project.display().to_string());
    json!({ "here": here, "project": project, "ledger": named.or(configured) })
}

/// Records a submission that the guard of a terminal accepted.
pub(crate) fn record_submission(gate: &SubmissionGate, accepted: &JudgedSubmission) -> Result<(), String> {
    let text = |name: &str| gate.recorder[name].as_str().map(str::to_owned);
    let print = Print::plain();
    let record = || {
        let app = App::at(&print, text("here"), text("project"), text("ledger"))?;
        let id = Id::parse(&gate.run)
            .ok_or_else(|| Diag::error(Code::RunNotFound, format!("`{}` is not a run", gate.run)))?;
        let event = submission_event(accepted.clone());
        app.write_ledger()?.append(Some(&id), None, &event).map(drop).map_err(failure)
    };
    // The agent reads the error.
    record().map_err(|failure: Failure| {
        mask_address_in(&mask_addresses(&failure.to_string()), &text("ledger").unwrap_or_default())
    })
}

fn exit(performed: Result<Performed, callsheet_run::PerformError>, stopper: &Stopper, told: Told) -> Exit {
    let none = Exit { told, ..Exit::of(Ended::Unstarted, None) };
    match performed {
        Ok(Performed::Ran(exit)) => {
            let (ended, why) = match exit.ended {
                Ended::Stopped => stopper.why(),
                ended => (ended, None),
            };
            let duration_ms = u64::try_from(exit.duration.as_millis()).ok();
            Exit { ended, code: exit.code, signal: exit.signal, why, duration_ms, ..none }
        }
        Ok(Performed::Typed { .. }) => none,
        Err(_) if stopper.is_by_person() => {
            let (ended, why) = stopper.why();
            Exit { ended, why, ..none }
        }
        Err(error) => Exit { why: Some(error.to_string()), ..none },
    }
}

fn no_agent() -> Diag {
    Diag::error(Code::UsageBad, "it is not said which agent is to be started")
        .hint("name one with --agent, or give a program after `--`; `callsheet agents` lists them")
}

pub(crate) fn git_failed(error: &callsheet_run::GitError) -> Failure {
    Diag::error(Code::GitFailed, error.to_string()).into()
}

fn utf8(path: &Path) -> Result<String, Failure> {
    let shown = path.to_str().map(str::to_owned);
    let odd = || Diag::error(Code::DeliverRefused, format!("`{}` is not UTF-8", path.display()));
    shown.ok_or_else(|| odd().into())
}

pub(crate) fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// The folder in which the agent works, and whether it is a worktree of its own.
fn work_in(app: &App<'_>, place: &WorkIn, dry: bool) -> Result<(PathBuf, bool), Failure> {
    match place {
        WorkIn::Project | WorkIn::Fresh => Ok((app.project.clone(), false)),
        WorkIn::At(dir) => Ok((dir.clone(), true)),
        WorkIn::Own(task) => {
            let git = Git::at(&app.project).map_err(|error| git_failed(&error))?.ok_or_else(|| {
                let message =
                    format!("`{}` is in no git repository, so there are no worktrees", app.project.display());
                Diag::error(Code::GitFailed, message).hint("run `git init`, or leave out --worktree")
            })?;
            let project =
                app.project.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let home = state_dir()?.join("worktrees").join(format!("{project}-{}", name_of(&app.project)));
            let made = if dry {
                worktree_place(&git, &home, task)
            } else {
                private_folder(&home)?;
                let home = home.canonicalize().map_err(|error| failed(&home, &error))?;
                worktree(&git, &home, task).map(|made| made.path)
            };
            let made = made.map_err(|error| git_failed(&error))?;
            Ok((project_in(app, &git, &made), true))
        }
    }
}

/// The project in a worktree of its repository: it may be a folder there.
pub(crate) fn project_in(app: &App<'_>, git: &Git, worktree: &Path) -> PathBuf {
    let top = git.top().canonicalize().unwrap_or_else(|_| git.top().to_owned());
    let below = app.project.canonicalize().ok().and_then(|dir| Some(dir.strip_prefix(top).ok()?.to_owned()));
    worktree.join(below.unwrap_or_default())
}

/// What we write ourselves while an agent works: nothing of it is the agent's doing. Whatever else is there is.
fn own_files(app: &App<'_>, dir: &Path, acts: &[Act], prompt: &str) -> Result<OwnFiles, Failure> {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut own = OwnFiles::default();
    let below = canonical(dir);
    own.written.push((below.join(RULES), RULES_TEXT.to_vec()));
    for (path, text) in written(acts, prompt) {
        let path = Path::new(path);
        own.written.push((below.join(path.strip_prefix(dir).unwrap_or(path)), text.into_bytes()));
    }
    own.paths.push(canonical(&state_dir()?).join(""));
    if let Some(Place::Sqlite(path)) = app.place()? {
        let folder = path.parent().map(canonical).unwrap_or_default();
        path.file_name().into_iter().for_each(|name| own.add_database(&folder.join(name)));
    }
    Ok(own)
}

/// The files that are written for an agent.
fn written<'a>(acts: &'a [Act], prompt: &'a str) -> impl Iterator<Item = (&'a str, String)> {
    acts.iter().filter_map(move |act| match act {
        Act::Write { path, text } => Some((path.as_str(), text.of(prompt))),
        _ => None,
    })
}

/// Where it is kept what is known of the files of a worktree.
fn kept_prints(dir: &Path) -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("prints").join(name_of(dir)))
}

fn cannot_check(dir: &Path, why: &str) -> Diag {
    let message = format!(
        "`{}` is in no git repository, and {why}: what a run changes there cannot be compared with its scope",
        dir.display()
    );
    Diag::error(Code::RunRefused, message).hint("run `git init`, or add --no-scope to run without that check")
}

const RULES: &str = ".callsheet/runs/.gitignore";
const RULES_TEXT: &[u8] = b"*\n";

/// An agent that adds everything to a commit does not add what we wrote for it.
fn keep_out_of_git(place: &Path) -> Result<(), Failure> {
    let written = open(place)?.write(RULES, RULES_TEXT, 0o600);
    written.map_err(|error| unwritten(&error))
}

/// What was written for the agent is in the ledger too. What the agent has changed or added stays, to be seen.
fn remove_written(place: &Path, acts: &[Act], prompt: &str, run: &Id) {
    let Ok(folder) = Folder::open(place) else { return };
    for (path, text) in written(acts, prompt) {
        let Some(path) = Path::new(path).strip_prefix(place).ok().and_then(Path::to_str) else { continue };
        if folder.read(path, text.len() as u64).is_ok_and(|found| found.as_ref() == Some(&text)) {
            // What cannot be removed does no harm.
            let _ = folder.remove(path);
        }
    }
    let _ = folder.remove_empty(&format!(".callsheet/runs/{run}"));
}

/// What was written for the agent of a run is in the ledger too. What cannot be removed does no harm.
fn remove_files(place: &Path, run: &Id) {
    let _ = Folder::open(place).map(|folder| folder.remove_tree(&format!(".callsheet/runs/{run}")));
}

fn environment(how: &How, run: &Run, session: Option<PathBuf>) -> BTreeMap<String, String> {
    let mut env = how.env.clone();
    let session = how.session.clone().or(session).and_then(|session| session.to_str().map(str::to_owned));
    let of_flow = |key: &str| how.flow.get(key).cloned();
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
        // What is not said must not be what somebody around us said.
        env.insert(name.into(), value.unwrap_or_default());
    }
    env
}

/// Our server, for this run alone.
fn server(app: &App<'_>, how: &How, run: &Run) -> Result<Mcp, Failure> {
    let program = own_program().map_err(|error| Diag::error(Code::RunNotStarted, error.to_string()))?;
    let mut args: Vec<String> =
        vec!["-C".into(), utf8(&app.project)?, "mcp".into(), "--run".into(), run.id.to_string()];
    args.extend(["--state".into(), utf8(&state_dir()?)?]);
    if let Some(session) = &how.session {
        args.extend(["--session".into(), utf8(session)?]);
    }
    if let Some(role) = &run.role {
        args.extend(["--role".into(), role.clone()]);
    }
    if how.proposes {
        args.push("--proposes".into());
    }
    Ok(Mcp { command: utf8(&program)?, args })
}
