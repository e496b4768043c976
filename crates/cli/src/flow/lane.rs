//! One lane of a phase: its prompt is composed when it starts, and its evidence is what is found when it has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::fact::Ended;
use callsheet_core::flow::{
    DocumentFilter, Documents, Each, Lane, Phase, Seen, State, document_changes, evidence, may_write,
    present, request,
};
use callsheet_core::record::{Account, Digest, Id, request_of, snapshot_of};
use callsheet_core::reply::Outcome;
use callsheet_core::scope::Scope;
use callsheet_core::submission;
use callsheet_core::{Library, Request, Snapshot, Text, find_agent, find_contract};
use callsheet_run::{DocumentReader, Git, Prints, lane_worktree, merge_lane};
use callsheet_store::{Error, Ledger};

use super::{FlowFolder, Plan, Told};
use crate::app::App;
use crate::commands::compose::{Form, Then, finish_order};
use crate::drive::{
    How, Progress, Ready, Stopper, WorkIn, git_failed, project_in, recover, run_pending_checks,
};
use crate::inputs::Order;
use crate::ledger::failure;
use crate::secrets;
use crate::session::Session;
use crate::state::{failed, name_of, private_folder, state_dir};

/// All that a lane needs, so that it can go on by itself.
pub(super) struct LaneJob {
    pub(super) flow: Id,
    pub(super) plan: Plan,
    /// What its request is made from.
    pub(super) state: State,
    pub(super) phase: Phase,
    pub(super) lane: Lane,
    pub(super) worktree: bool,
    pub(super) folder: FlowFolder,
    /// The documents as the phase found them.
    pub(super) approved: Documents,
    /// Its run before a crash or a stop, if there was one.
    pub(super) before: Option<Id>,
    pub(super) max_cost_usd: Option<f64>,
    pub(super) single_coder: bool,
    /// The phase has no other lane.
    pub(super) alone: bool,
    pub(super) progress: Arc<Progress>,
    pub(super) prints: Arc<Prints>,
}

/// A contract that was handed in, with its verdict.
type Submission = (String, Option<String>);

/// What came of a lane.
struct Done {
    run: Id,
    evidence: BTreeSet<String>,
    cost: u64,
    talk: Vec<Diag>,
}

impl LaneJob {
    pub(super) fn run(self, app: &App<'_>, told: &Sender<Told>, stopper: &Stopper) {
        let lane = self.lane.id.clone();
        let entry = self.state.entry;
        let lane_done = panic::catch_unwind(AssertUnwindSafe(|| self.lane(app, told, stopper)));
        let told_last = match lane_done.unwrap_or_else(|_| Err(broken())) {
            Ok(Done { run, evidence, cost, talk }) => {
                Told::Ended { entry, lane, run: run.to_string(), evidence, cost, talk }
            }
            Err(failure) => Told::Failed { lane, failure },
        };
        // Nobody is left to decide anything when the other side is gone.
        let _ = told.send(told_last);
    }

    fn lane(&self, app: &App<'_>, told: &Sender<Told>, stopper: &Stopper) -> Result<Done, Failure> {
        let mut ledger = app.write_ledger()?;
        let place = if self.worktree { Some(self.worktree(app)?) } else { None };
        if let Some(account) = self.ended_before(app, &mut ledger)? {
            self.announce(told, &account.run.id)?;
            let account = run_pending_checks(app, &mut ledger, account, stopper, &self.progress)?;
            return self.done(app, &account, place.as_ref());
        }
        self.folder.set_aside(&self.phase.stale_of(&self.lane), &self.aside())?;
        let ready = self.ready(app, &mut ledger, place.as_ref())?;
        self.announce(told, ready.id())?;
        let (account, _) = ready.go(app, ledger, stopper, &self.progress)?;
        if let Some(exit) = account.exit.as_ref().filter(|exit| exit.ended == Ended::Unstarted) {
            let why = exit.why.clone().unwrap_or_default();
            let message = format!("`{}` could not be started: {why}", self.lane.id);
            return Err(Diag::error(Code::RunNotStarted, message).into());
        }
        self.done(app, &account, place.as_ref())
    }

    /// Says which run it is, and waits until that is recorded.
    fn announce(&self, told: &Sender<Told>, run: &Id) -> Result<(), Failure> {
        let (go, wait) = mpsc::sync_channel(1);
        let (entry, lane) = (self.state.entry, self.lane.id.clone());
        let is_told = told.send(Told::Ready { entry, lane, run: run.to_string(), go }).is_ok();
        // Without an answer nobody decides any more.
        if is_told && wait.recv() == Ok(true) {
            return Ok(());
        }
        let message = format!("`{}` was not started: documents are not as they were approved", self.lane.id);
        let hint = "`callsheet flow status` names them";
        Err(Diag::error(Code::FlowRefused, message).hint(hint).into())
    }

    /// A folder of its own, so that what the phase set aside stays what it was.
    fn aside(&self) -> String {
        let home = format!("earlier/{:03}-{}", self.state.entry, self.lane.id);
        let free =
            (1..).map(|number| format!("{home}-{number}")).find(|path| !self.folder.path.join(path).exists());
        free.unwrap_or(home)
    }

    /// The run of this lane from before, if the ledger has recorded it itself.
    fn recorded(&self, ledger: &mut Ledger) -> Result<Option<&Id>, Failure> {
        let Some(run) = &self.before else { return Ok(None) };
        match ledger.find(run.as_str()) {
            // It was announced, and not recorded: nothing was started.
            Err(Error::NoRun(_)) => Ok(None),
            found => {
                let is_own = !found.map_err(failure)?.imported;
                Ok(is_own.then_some(run))
            }
        }
    }

    /// The run of this lane that had ended before we were: it is not run again.
    fn ended_before(&self, app: &App<'_>, ledger: &mut Ledger) -> Result<Option<Account>, Failure> {
        let Some(run) = self.recorded(ledger)? else { return Ok(None) };
        recover(app, ledger, run, Ended::Lost, "its callsheet died")?;
        let account = ledger.account(run).map_err(failure)?;
        let by_itself =
            |ended| matches!(ended, Ended::Exited | Ended::Signaled | Ended::Timeout | Ended::Cost);
        let counts = account.is_whole() && account.exit.as_ref().is_some_and(|exit| by_itself(exit.ended));
        Ok(counts.then_some(account))
    }

    /// What a run was asked that did not come to its end: the next one is asked the same, whatever is left of it.
    fn asked_before(&self, ledger: &mut Ledger) -> Result<Option<(Request, Snapshot)>, Failure> {
        let Some(run) = self.recorded(ledger)? else { return Ok(None) };
        let composed = ledger.composed(run).map_err(failure)?;
        let both = |blob: &mut dyn FnMut(Digest) -> Option<Text>| {
            Ok((request_of(&composed, blob)?, snapshot_of(&composed, blob)?))
        };
        ledger.with_blobs(both).map(Some).map_err(failure)
    }

    fn ready(&self, app: &App<'_>, ledger: &mut Ledger, place: Option<&PathBuf>) -> Result<Ready, Failure> {
        let (disk, layout) = (app.disk(Some(self.folder.path.clone())), app.config.layout());
        let library = Library::new(&disk);
        let agent = self.plan.agent(&self.phase)?;
        let (mut request, replay) = match self.asked_before(ledger)? {
            Some((request, snapshot)) => (request, Some(snapshot)),
            None => (request(&self.phase, &self.state, &self.lane, &library)?, None),
        };
        let (_, attached) = find_agent(&library, &agent, &layout)?;
        let by_tool = attached.tools.mcp.is_some() && self.plan.program.is_empty() && !self.plan.by_file;
        request.mcp = by_tool && self.hands_in(&library, &layout)?;
        request.agent = Some(agent);
        request.session = Some(self.folder.relative.clone());
        request.layout = layout;
        let order = Order {
            request,
            session: Some(self.folder.path.clone()),
            texts: BTreeMap::new(),
            listings: BTreeMap::new(),
            replay,
            talk: Vec::new(),
        };
        let mode = secrets::mode(app, None, Then::Record)?;
        let finished = finish_order(app, order, Form { mode, budget: None, api: None }, Then::Record)?;
        let session = match place {
            Some(worktree) => self.folder.copy_to(worktree)?,
            None => self.folder.path.clone(),
        };
        let note = [
            ("flow", self.flow.to_string()),
            ("phase", self.phase.name.clone()),
            ("lane", self.lane.id.clone()),
        ];
        let how = How {
            program: self.plan.program.clone(),
            model: self.plan.model(&self.phase),
            permit: self.plan.permit,
            checks: self.plan.checks.clone(),
            env: app.config.env.value.clone(),
            timeout: self.plan.timeout_ms.map(Duration::from_millis),
            max_cost_usd: self.max_cost_usd.filter(|left| *left > 0.0),
            place: place.map_or(WorkIn::Project, |path| WorkIn::At(path.clone())),
            single_coder: self.single_coder,
            // The server takes things for the flow, wherever the lane works.
            session: Some(if by_tool { self.folder.path.clone() } else { session }),
            scope: Some(Scope {
                write: may_write(&self.phase, &self.lane, &self.folder.relative),
                exclude: app.config.exclude.value.clone(),
            }),
            tasks: self.tasks(),
            own: self.folder.own(),
            prints: Arc::clone(&self.prints),
            flow: note.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..How::default()
        };
        Ready::new(app, finished, how)
    }

    /// The tasks whose status the reply has to tell.
    fn tasks(&self) -> Option<Vec<String>> {
        (self.phase.ask.each == Some(Each::Tasks)).then(|| self.lane.covers().to_vec())
    }

    /// Whether something is handed in here.
    fn hands_in(
        &self,
        library: &Library<'_>,
        layout: &callsheet_core::request::Layout,
    ) -> Result<bool, Failure> {
        let Some(contract) = &self.phase.contract else { return Ok(false) };
        Ok(find_contract(library, contract, layout)?.1.submission.is_some())
    }

    /// What the run leaves, and what that is evidence for.
    fn done(&self, app: &App<'_>, account: &Account, place: Option<&PathBuf>) -> Result<Done, Failure> {
        if let Some(worktree) = place {
            self.folder.take_from(worktree, &self.phase.stale_of(&self.lane))?;
        }
        if let Some(report) = &self.phase.report {
            let text = account.reply().and_then(|reply| reply["text"].as_str()).unwrap_or_default();
            if !text.trim().is_empty() {
                let text = format!("{}\n", text.trim());
                self.folder.write(&BTreeMap::from([(report.clone(), text)]))?;
            }
        }
        let (submissions, mut talk) = self.hand_in(app, account)?;
        let (disk, layout) = (app.disk(Some(self.folder.path.clone())), app.config.layout());
        let library = Library::new(&disk);
        let mut facts = account.facts(0);
        if account.says_it_failed() {
            facts.ended = None;
        }
        let said = account.reply().and_then(|reply| reply["outcome"].as_str());
        let outcome = Outcome::ALL.iter().copied().find(|outcome| Some(outcome.name()) == said);
        let files = present(&self.phase, &self.lane, &library)?;
        let seen = Seen {
            outcome: outcome.unwrap_or(Outcome::None),
            facts: &facts,
            submissions: &submissions,
            files: &files,
        };
        let mut evidence = evidence(&self.phase, &seen, &library, &layout);
        let strayed = place.map(|worktree| self.strayed(worktree)).unwrap_or_default();
        if !strayed.is_empty() {
            evidence.remove("clean");
            let message =
                format!("`{}` changed documents that are not its own: {}", self.lane.id, strayed.join(", "));
            talk.push(Diag::warning(Code::FlowRefused, message));
        }
        let cost = account.exit.as_ref().and_then(|exit| exit.told.cost_usd).unwrap_or(0.0);
        Ok(Done { run: account.run.id.clone(), evidence, cost: (cost.max(0.0) * 1e6).round() as u64, talk })
    }

    /// The documents that the lane changed where it works, and that are not for its phase to change.
    fn strayed(&self, worktree: &Path) -> Vec<String> {
        let filter = DocumentFilter::new(&self.plan.definition, self.state.entry);
        // What was set aside does not travel.
        let travels = |path: &str| filter.is_document(path) && !path.starts_with("earlier/");
        let now = DocumentReader::default().read(&worktree.join(&self.folder.relative), &travels);
        let mut approved = self.approved.clone();
        approved.retain(|path, _| travels(path));
        let changed = document_changes(&approved, &now).into_keys();
        changed.filter(|path| !self.phase.may_change(path)).collect()
    }

    /// What was handed in by tools, and what lies there as files; each with its verdict.
    fn hand_in(&self, app: &App<'_>, account: &Account) -> Result<(Vec<Submission>, Vec<Diag>), Failure> {
        let mut submissions: Vec<Submission> = Vec::new();
        for noted in account.reply().and_then(|reply| reply["submitted"].as_array()).into_iter().flatten() {
            let (tool, verdict) = (noted["tool"].as_str(), noted["verdict"].as_str());
            submissions.extend(tool.map(|tool| (tool.to_owned(), verdict.map(str::to_owned))));
        }
        let mut talk = Vec::new();
        if !submissions.is_empty() {
            return Ok((submissions, talk));
        }
        let session = Session::open(app, Some(&self.folder.path))?;
        let own = (!self.alone).then(|| self.phase.stale_of(&self.lane));
        let is_own = |path: &str| own.as_ref().is_none_or(|own| own.iter().any(|own| own == path));
        let role = account.run.role.as_deref();
        let all = if role.is_some() {
            submission::tools(&session.disk, &session.layout, role)?
        } else {
            Vec::new()
        };
        let library = Library::new(&session.disk);
        let contract = self
            .phase
            .contract
            .as_deref()
            .filter(|_| self.hands_in(&library, &session.layout).unwrap_or(false));
        let mut tools: Vec<&str> = contract.into_iter().collect();
        // Sub-plans come before the order that names them.
        let mut others: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        others.sort_by_key(|name| std::cmp::Reverse(*name));
        tools.extend(others.into_iter().filter(|name| Some(*name) != self.phase.contract.as_deref()));
        for tool in tools {
            match session.hand_in_waiting(tool, &is_own) {
                Ok(verdicts) => {
                    submissions.extend(verdicts.into_iter().map(|verdict| (tool.to_owned(), verdict)))
                }
                Err(Failure(diags)) => talk.extend(diags),
            }
            // A whole plan holds its parts.
            if Some(tool) == self.phase.contract.as_deref() && !submissions.is_empty() {
                break;
            }
        }
        if !submissions.is_empty() {
            talk.clear();
        }
        Ok((submissions, talk))
    }

    fn worktree(&self, app: &App<'_>) -> Result<PathBuf, Failure> {
        let (git, home) = lanes_home(app, &self.folder)?;
        let name = lane_name(self.state.entry, &self.lane.id);
        let made = lane_worktree(&git, &home, &name).map_err(|error| git_failed(&error))?;
        Ok(project_in(app, &git, &made.path))
    }
}

fn broken() -> Failure {
    Diag::error(Code::OutputFailed, "callsheet itself failed; what it printed says where").into()
}

/// Where the worktrees of a flow's lanes are.
fn lanes_home(app: &App<'_>, folder: &FlowFolder) -> Result<(Git, PathBuf), Failure> {
    let none = || Diag::error(Code::GitFailed, "there is no git repository, so there are no worktrees");
    let git = Git::at(&app.project).map_err(|error| git_failed(&error))?.ok_or_else(none)?;
    let home = state_dir()?.join("lanes").join(name_of(&app.project.join(&folder.relative)));
    private_folder(&home)?;
    let home = home.canonicalize().map_err(|error| failed(&home, &error))?;
    Ok((git, home))
}

/// Every round has worktrees of its own: what an earlier one left is not what this one starts from.
fn lane_name(entry: u32, lane: &str) -> String {
    format!("lane-{entry:03}-{lane}")
}

/// Brings what a lane did into the project; answers with what stands in the way.
pub(super) fn merge(
    app: &App<'_>,
    folder: &FlowFolder,
    entry: u32,
    lane: &str,
) -> Result<Vec<String>, Failure> {
    let (git, home) = lanes_home(app, folder)?;
    let name = lane_name(entry, lane);
    let made = lane_worktree(&git, &home, &name).map_err(|error| git_failed(&error))?;
    merge_lane(&git, &home, &name, &made.path).map_err(|error| git_failed(&error))
}
