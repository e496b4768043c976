//! Starts, resumes, decides and stops a flow.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{FlowAction, FlowDecision, FlowEvent};
use callsheet_core::record::{DecidedBy, Id};
use callsheet_core::request::scope::Scope;
use callsheet_store::Ledger;

use super::driver::FlowDriver;
use super::find::{already_driven_error, find_own, not_found_error, read_all};
use super::start::{FlowStart, prepare_start};
use super::{RecordedFlow, report_leftovers};
use crate::compose::secrets;
use crate::error::{Error, Result, usage_error};
use crate::notify::EndNotice;
use crate::project::Project;
use crate::project::person::{refuse_agent, refuse_below_guard};
use crate::project::state::RunDir;
use crate::run::claim::{CheckoutClaim, ClaimRequest, claim_checkout};
use crate::run::{InterruptFlag, is_driven};

/// A flow after it was driven.
#[derive(Debug)]
#[non_exhaustive]
pub struct FlowReport {
    /// The flow as it is recorded now.
    pub flow: RecordedFlow,
    /// Whether a person interrupted it.
    pub interrupted: bool,
}

/// A person's choice for a flow that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowChoice {
    /// Accept the work as it is.
    Approve,
    /// End the flow.
    Reject,
    /// Request these changes.
    Changes(String),
    /// Answer the questions of an agent.
    Answer(String),
}

/// The first step of a caller that drives a flow. Without a name, the flow is the newest one.
#[derive(Clone, Copy, Debug)]
pub enum FlowBegin<'b> {
    /// Start a new flow.
    Start(&'b FlowStart),
    /// Continue a flow that was stopped or whose process died.
    Resume {
        /// The flow.
        flow: Option<&'b str>,
        /// Whether interrupted runs get the very same prompt.
        same_prompt: bool,
    },
    /// Decide what a flow waits for, as a person.
    Decide {
        /// The flow.
        flow: Option<&'b str>,
        /// The decision.
        choice: &'b FlowChoice,
        /// Whether to decide without a terminal.
        yes: bool,
    },
}

impl Project {
    /// Starts a flow and drives it until it ends or needs a person.
    ///
    /// ```no_run
    /// use callsheet::{FlowStart, InterruptFlag, Project};
    ///
    /// callsheet::guard_if_asked();
    /// let project = Project::open(".")?;
    /// let start = FlowStart {
    ///     name: "sdd".into(),
    ///     request: "Add a login page.".into(),
    ///     ..FlowStart::default()
    /// };
    /// let flow = project.start_flow(&start, &InterruptFlag::default())?.flow;
    /// println!("{} in `{}`", flow.state.condition().name(), flow.state.phase);
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn start_flow(&self, start: &FlowStart, interrupt: &InterruptFlag) -> Result<FlowReport> {
        drive(self, FlowBegin::Start(start), interrupt)
    }

    /// Continues a flow that was stopped or whose process died. With `same_prompt`, interrupted runs get the very same prompt.
    pub fn resume_flow(
        &self,
        flow: Option<&str>,
        same_prompt: bool,
        interrupt: &InterruptFlag,
    ) -> Result<FlowReport> {
        drive(self, FlowBegin::Resume { flow, same_prompt }, interrupt)
    }

    /// Decides what a flow waits for, as a person, and drives it on. `yes` decides without a terminal.
    pub fn decide_flow(
        &self,
        flow: Option<&str>,
        choice: &FlowChoice,
        yes: bool,
        interrupt: &InterruptFlag,
    ) -> Result<FlowReport> {
        drive(self, FlowBegin::Decide { flow, choice, yes }, interrupt)
    }

    /// Stops a flow with its running lanes, and returns its id. It can be resumed.
    pub fn stop_flow(&self, flow: Option<&str>) -> Result<Id> {
        stop(self, flow)
    }
}

/// A flow that this process drives. No other process can, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenFlow<'p> {
    pub(super) driver: FlowDriver<'p>,
    pub(super) id: Id,
    run_dir: RunDir,
    _claim: CheckoutClaim,
    _lock: File,
}

impl<'p> OpenFlow<'p> {
    /// Opens a flow, records its first step, and returns the actions that result from it.
    pub(super) fn begin(
        project: &'p Project,
        begin: FlowBegin<'_>,
        starts_agents: bool,
        interrupt: &InterruptFlag,
    ) -> Result<(Self, Vec<FlowAction>)> {
        let (ledger, known, step) = match begin {
            FlowBegin::Start(start) => {
                let (known, started) = prepare_start(project, start, starts_agents)?;
                project.observer.status(&format!("flow {} in {}", known.id, known.plan.folder()));
                let mut ledger = project.create_ledger()?;
                let open =
                    read_all(project, &mut ledger)?.into_iter().filter(|known| !known.state.has_ended());
                let open: Vec<String> = open.map(|known| known.id.to_string()).collect();
                if let Err(failure) = report_leftovers(project, &open) {
                    project.observer.note(&failure.to_string());
                }
                (ledger, known, FirstStep::Start(started))
            }
            FlowBegin::Resume { flow, same_prompt } => {
                let mut ledger = project.write_ledger()?;
                let known = find_own(project, &mut ledger, flow)?;
                project.require_trust()?;
                (ledger, known, FirstStep::Resume { same_prompt })
            }
            FlowBegin::Decide { flow, choice, yes } => prepare_decision(project, flow, choice, yes)?,
        };
        let mut open = Self::open(project, ledger, known, interrupt)?;
        let actions = match step {
            FirstStep::Start(started) => open.driver.apply_event(started, project.caller()),
            FirstStep::Resume { same_prompt } => open.driver.resume(same_prompt),
            FirstStep::Decide(decision, by) => open.driver.decide(decision, by),
        };
        Ok((open, actions?))
    }

    fn open(
        project: &'p Project,
        mut ledger: Ledger,
        known: RecordedFlow,
        interrupt: &InterruptFlag,
    ) -> Result<Self> {
        let run_dir = RunDir::from_run(&known.id)?;
        let lock = run_dir.try_lock()?.ok_or_else(|| already_driven_error(&known.plan.name))?;
        // Another process may have driven the flow until just now.
        let known = RecordedFlow::read(&mut ledger, &known.id)?.unwrap_or(known);
        run_dir.clear_stop();
        let (id, scope) = (known.id.clone(), Scope::default());
        let flow = Some(id.as_str());
        let share = known.plan.run.share;
        let claim = claim_checkout(&ClaimRequest {
            id: &id,
            flow,
            dir: &project.dir,
            scope: &scope,
            share: Some(share),
        })?;
        let driver = FlowDriver::new(project, ledger, known, interrupt.clone())?;
        Ok(Self { driver, id, run_dir, _claim: claim, _lock: lock })
    }

    /// Lets other processes drive the flow.
    pub(super) fn close(self) {
        let has_ended = self.driver.state().has_ended();
        let Self { driver, run_dir, _claim, _lock, .. } = self;
        drop((driver, _claim, _lock));
        if has_ended {
            run_dir.remove();
        }
    }
}

/// The first step, after everything that can refuse it was checked.
enum FirstStep {
    Start(FlowEvent),
    Resume { same_prompt: bool },
    Decide(FlowDecision, DecidedBy),
}

fn prepare_decision(
    project: &Project,
    flow: Option<&str>,
    choice: &FlowChoice,
    yes: bool,
) -> Result<(Ledger, RecordedFlow, FirstStep)> {
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    refuse_below_guard()?;
    refuse_agent("an agent cannot decide about its own work")?;
    let decision = match choice {
        FlowChoice::Approve => FlowDecision::Approve,
        FlowChoice::Reject => FlowDecision::Reject,
        FlowChoice::Changes(text) if text.trim().is_empty() => {
            return Err(usage_error("describe the changes").into());
        }
        FlowChoice::Answer(text) if text.trim().is_empty() => {
            return Err(usage_error("give the answer").into());
        }
        FlowChoice::Changes(text) | FlowChoice::Answer(text) => FlowDecision::Changes(text.clone()),
    };
    let mut ledger = project.write_ledger()?;
    project.refuse_below_ledger_guard(&mut ledger)?;
    let known = find_own(project, &mut ledger, flow)?;
    if known.state.has_ended() {
        let message = format!("the flow `{}` has ended: {}", known.plan.name, known.state.condition().name());
        return Err(refused(message).into());
    }
    if matches!(choice, FlowChoice::Answer(_)) && known.state.questions().is_empty() {
        let message = format!("the flow `{}` has no open question", known.plan.name);
        let hint = format!("run `callsheet flow status {}` to see its state", known.id);
        return Err(refused(message).hint(hint).into());
    }
    let by = project.require_person(yes)?;
    // Rejecting ends the flow and starts no program, so it needs no trust.
    if decision != FlowDecision::Reject {
        project.require_trust()?;
    }
    if let FlowDecision::Changes(text) = &decision {
        secrets::refuse_secrets(project, None, &[("the changes".into(), text)])?;
    }
    Ok((ledger, known, FirstStep::Decide(decision, by)))
}

/// Performs the actions of a flow and their consequences, until it ends or needs a person.
fn drive(project: &Project, begin: FlowBegin<'_>, interrupt: &InterruptFlag) -> Result<FlowReport> {
    let (mut open, actions) = OpenFlow::begin(project, begin, true, interrupt)?;
    let lanes = open.driver.lanes();
    let begun = Instant::now();
    let shown = project.observer.show_lines(Box::new(move |width| match lanes.lock() {
        Ok(lanes) => lanes.values().map(|lane| lane.render_line(width)).collect(),
        Err(_) => Vec::new(),
    }));
    let driven = open.driver.drive(actions);
    drop(shown);
    let id = open.id.clone();
    open.close();
    driven?;
    let flow = read_flow(project, &id)?;
    project.notify(&EndNotice::from_flow(&flow), begun.elapsed());
    Ok(FlowReport { flow, interrupted: interrupt.is_set() })
}

/// Reads a flow from the ledger.
pub(super) fn read_flow(project: &Project, id: &Id) -> Result<RecordedFlow> {
    RecordedFlow::read(&mut project.read_ledger()?, id)?.ok_or_else(|| not_found_error(Some(id.as_str())))
}

fn stop(project: &Project, flow: Option<&str>) -> Result<Id> {
    let mut ledger = project.write_ledger()?;
    let known = find_own(project, &mut ledger, flow)?;
    let refused = |message: String| Error::from(Diagnostic::error(Code::RunRefused, message));
    let run_dir = RunDir::from_run(&known.id)?;
    if !is_driven(&known.id) {
        let id = known.id.clone();
        if !known.state.stopped && !known.state.has_ended() {
            let _lock = run_dir.try_lock()?.ok_or_else(|| already_driven_error(&known.plan.name))?;
            let known = RecordedFlow::read(&mut ledger, &id)?.unwrap_or(known);
            FlowDriver::new(project, ledger, known, InterruptFlag::default())?.stop()?;
        }
        return Ok(id);
    }
    run_dir.request_stop()?;
    for _ in 0..600 {
        if !is_driven(&known.id) {
            return Ok(known.id);
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(refused(format!("the flow `{}` is stopping", known.plan.name)))
}
