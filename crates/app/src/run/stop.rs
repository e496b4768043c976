//! Ends a run before its agent does: on an interrupt, on `callsheet stop`, or at a limit.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::request::fact::EndReason;
use callsheet_run::{StopFlag, take_interrupts};

use crate::error::Result;
use crate::project::state::RunDir;
use crate::run::fault::FaultEnd;

/// Flag that is set when a person interrupts this process. A second interrupt ends the process and every git
/// at once, and the guard ends the agent.
#[derive(Clone, Debug, Default)]
pub struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// Sets the flag at the next SIGINT or SIGTERM of this process.
    pub fn listen() -> Result<Self> {
        let failed = |error| Diagnostic::error(Code::OutputFailed, format!("signals: {error}"));
        Ok(Self(take_interrupts().map_err(failed)?))
    }

    /// Checks whether a person interrupted this process.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;
const COST: u8 = 3;
const FAULT: u8 = 4;

/// Ends one run and keeps the reason.
#[derive(Debug, Default)]
pub struct RunStopper {
    interrupt: InterruptFlag,
    stop: StopFlag,
    /// Set if a person ends the run. It also ends the checks, which no limit of the agent ends.
    person: StopFlag,
    why: AtomicU8,
    /// More about the cost limit.
    cost: OnceLock<String>,
    /// Why the model of the agent does not answer.
    fault: Mutex<Option<FaultEnd>>,
}

const LOOK: Duration = Duration::from_millis(50);

impl RunStopper {
    /// Creates a stopper that also ends the run when `interrupt` is set.
    pub fn new(interrupt: &InterruptFlag) -> Self {
        Self { interrupt: interrupt.clone(), ..Self::default() }
    }

    pub(crate) fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// Returns the flag that ends the checks after the agent.
    pub(crate) fn person_stop_flag(&self) -> StopFlag {
        self.person.clone()
    }

    /// Stops the run. Only the first reason is kept.
    fn stop_because(&self, why: u8) {
        let _ = self.why.compare_exchange(0, why, Ordering::SeqCst, Ordering::SeqCst);
        self.stop.stop();
    }

    fn stop_for_person(&self, why: u8) {
        self.person.stop();
        self.stop_because(why);
    }

    pub(crate) fn stop_for_cost(&self, why: String) {
        let _ = self.cost.set(why);
        self.stop_because(COST);
    }

    /// Ends an agent whose model does not answer.
    pub(super) fn stop_for_fault(&self, fault: FaultEnd) {
        if let Ok(mut kept) = self.fault.lock() {
            kept.get_or_insert(fault);
        }
        self.stop_because(FAULT);
    }

    /// Returns why the agent was ended, if its model did not answer.
    pub(super) fn fault_end(&self) -> Option<FaultEnd> {
        let is_fault = self.why.load(Ordering::SeqCst) == FAULT;
        self.fault.lock().ok()?.clone().filter(|_| is_fault)
    }

    /// Ends the run on behalf of a driver of several runs.
    pub(crate) fn stop_by_driver(&self) {
        self.stop_for_person(HERE);
    }

    pub(crate) fn is_stopped_by_person(&self) -> bool {
        self.person.is_stopped()
    }

    pub(crate) fn stop_reason(&self) -> (EndReason, Option<String>) {
        match self.why.load(Ordering::SeqCst) {
            HERE => (EndReason::Stopped, Some("interrupted".into())),
            ELSEWHERE => (EndReason::Stopped, Some("asked for by `callsheet stop`".into())),
            COST => (EndReason::Cost, self.cost.get().cloned()),
            _ => (EndReason::Stopped, Some("cannot write to the ledger".into())),
        }
    }

    /// Runs `work` and meanwhile polls for an interrupt or a stop request.
    pub(crate) fn run_stoppable<T>(&self, run_dir: &RunDir, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    if self.interrupt.is_set() {
                        self.stop_for_person(HERE);
                    } else if run_dir.has_stop_request() {
                        self.stop_for_person(ELSEWHERE);
                    }
                    thread::park_timeout(LOOK);
                }
            });
            let result = work();
            done.store(true, Ordering::SeqCst);
            looking.thread().unpark();
            result
        })
    }
}
