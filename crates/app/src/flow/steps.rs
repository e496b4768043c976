//! Resumes, decides and stops a recorded flow.

use std::thread;
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::flow::{FlowAction, FlowDecision};
use callsheet_core::record::Id;
use callsheet_core::request::scope::Scope;
use callsheet_store::Ledger;

use super::find::{already_driven_error, find_own, not_found_error};
use super::{FlowDriver, RecordedFlow};
use crate::compose::secrets;
use crate::error::usage_error;
use crate::project::Project;
use crate::project::person::{refuse_agent, refuse_below_guard};
use crate::project::state::RunDir;
use crate::run::claim::{ClaimRequest, claim_checkout};
use crate::run::{InterruptFlag, is_driven};

/// A flow after it was driven.
#[derive(Debug)]
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

impl Project {
    /// Continues a flow that was stopped or whose process died. With `same_prompt`, interrupted runs get the very same prompt.
    pub fn resume_flow(
        &self,
        flow: Option<&str>,
        same_prompt: bool,
        interrupt: &InterruptFlag,
    ) -> Result<FlowReport, Diagnostics> {
        let mut ledger = self.write_ledger()?;
        let known = find_own(self, &mut ledger, flow)?;
        self.require_trust()?;
        drive(self, ledger, known, interrupt, |driver| driver.resume(same_prompt))
    }
}

impl Project {
    /// Decides what a flow waits for, as a person, and drives it on. `yes` decides without a terminal.
    pub fn decide_flow(
        &self,
        flow: Option<&str>,
        choice: &FlowChoice,
        yes: bool,
        interrupt: &InterruptFlag,
    ) -> Result<FlowReport, Diagnostics> {
        decide(self, flow, choice, yes, interrupt)
    }
}

fn decide(
    app: &Project,
    flow: Option<&str>,
    choice: &FlowChoice,
    yes: bool,
    interrupt: &InterruptFlag,
) -> Result<FlowReport, Diagnostics> {
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    refuse_below_guard()?;
    refuse_agent("an agent cannot decide about what it did")?;
    let decision = match choice {
        FlowChoice::Approve => FlowDecision::Approve,
        FlowChoice::Reject => FlowDecision::Reject,
        FlowChoice::Changes(text) if text.trim().is_empty() => {
            return Err(usage_error("say what has to be changed").into());
        }
        FlowChoice::Answer(text) if text.trim().is_empty() => {
            return Err(usage_error("say what the answer is").into());
        }
        FlowChoice::Changes(text) | FlowChoice::Answer(text) => FlowDecision::Changes(text.clone()),
    };
    let mut ledger = app.write_ledger()?;
    app.refuse_below_ledger_guard(&mut ledger)?;
    let known = find_own(app, &mut ledger, flow)?;
    if known.state.has_ended() {
        let message =
            format!("the flow `{}` has ended: it is {}", known.plan.name, known.state.condition().name());
        return Err(refused(message).into());
    }
    if matches!(choice, FlowChoice::Answer(_)) && known.state.questions().is_empty() {
        let message = format!("the flow `{}` asks nothing", known.plan.name);
        return Err(refused(message).hint("`callsheet flow status` says what it waits for").into());
    }
    let by = app.require_person(yes)?;
    // Rejecting ends the flow and starts no program, so it needs no trust.
    if decision != FlowDecision::Reject {
        app.require_trust()?;
    }
    if let FlowDecision::Changes(text) = &decision {
        secrets::refuse_secrets(app, None, &[("the changes".into(), text)])?;
    }
    drive(app, ledger, known, interrupt, |driver| driver.decide(decision, by))
}

/// Performs the actions from `begin` and their consequences, until the flow ends or needs a person.
pub(super) fn drive(
    app: &Project,
    mut ledger: Ledger,
    known: RecordedFlow,
    interrupt: &InterruptFlag,
    begin: impl FnOnce(&mut FlowDriver<'_>) -> Result<Vec<FlowAction>, Diagnostics>,
) -> Result<FlowReport, Diagnostics> {
    let run_dir = RunDir::from_run(&known.id)?;
    let lock = run_dir.try_lock()?.ok_or_else(|| already_driven_error(&known.plan.name))?;
    // Another process may have driven the flow until just now.
    let known = RecordedFlow::read(&mut ledger, &known.id)?.unwrap_or(known);
    run_dir.clear_stop();
    let id = known.id.clone();
    let scope = Scope::default();
    let flow = Some(id.as_str());
    let share = known.plan.share;
    let claimed = claim_checkout(&ClaimRequest { id: &id, flow, dir: &app.dir, scope: &scope, share })?;
    let mut driver = FlowDriver::new(app, ledger, known, interrupt.clone())?;
    let actions = begin(&mut driver)?;
    let lanes = driver.lanes();
    let shown = app.observer.show_progress(Box::new(move || match lanes.lock() {
        Ok(lanes) => lanes.values().map(|lane| lane.render_line()).collect::<Vec<_>>().join("  |  "),
        Err(_) => String::new(),
    }));
    let driven = driver.drive(actions);
    drop(shown);
    let state = driver.state().clone();
    drop(driver);
    drop(claimed);
    drop(lock);
    if state.has_ended() {
        run_dir.remove();
    }
    driven?;
    let mut ledger = app.read_ledger()?;
    let known = RecordedFlow::read(&mut ledger, &id)?.ok_or_else(not_found_error)?;
    Ok(FlowReport { flow: known, interrupted: interrupt.is_set() })
}

impl Project {
    /// Stops a flow with its running lanes, and returns its id. It can be resumed.
    pub fn stop_flow(&self, flow: Option<&str>) -> Result<Id, Diagnostics> {
        stop(self, flow)
    }
}

fn stop(app: &Project, flow: Option<&str>) -> Result<Id, Diagnostics> {
    let mut ledger = app.write_ledger()?;
    let known = find_own(app, &mut ledger, flow)?;
    let refused = |message: String| Diagnostics::from(Diagnostic::error(Code::RunRefused, message));
    let run_dir = RunDir::from_run(&known.id)?;
    if !is_driven(&known.id) {
        let id = known.id.clone();
        if !known.state.stopped && !known.state.has_ended() {
            let _lock = run_dir.try_lock()?.ok_or_else(|| already_driven_error(&known.plan.name))?;
            let known = RecordedFlow::read(&mut ledger, &id)?.unwrap_or(known);
            FlowDriver::new(app, ledger, known, InterruptFlag::default())?.stop()?;
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
    Err(refused(format!("the flow `{}` was told to stop, and has not yet", known.plan.name)))
}
