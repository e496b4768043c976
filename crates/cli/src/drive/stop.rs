//! What ends a run before its agent does: a person here, a person elsewhere, a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::fact::Ended;
use callsheet_run::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::state::Desk;

/// Set when a person ends this process. The second time it ends at once, and the guard ends the agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let set = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let known = flag::register_conditional_shutdown(signal, 130, Arc::clone(&set));
            let known = known.and_then(|_| flag::register(signal, Arc::clone(&set)));
            known.map_err(|error| Diag::error(Code::OutputFailed, format!("signals: {error}")))?;
        }
        Ok(Self(set))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;
const COST: u8 = 3;

/// Ends one run, and remembers why.
#[derive(Debug, Default)]
pub(crate) struct Stopper {
    interrupt: Interrupt,
    stop: Stop,
    /// What a person ends: the checks too, which no limit of the agent ends.
    person: Stop,
    why: AtomicU8,
}

const LOOK: Duration = Duration::from_millis(50);

impl Stopper {
    pub(crate) fn new(interrupt: &Interrupt) -> Self {
        Self { interrupt: interrupt.clone(), ..Self::default() }
    }

    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Ends what is run after the agent.
    pub(crate) fn stop_by_person(&self) -> Stop {
        self.person.clone()
    }

    /// The first reason counts.
    fn because(&self, why: u8) {
        let _ = self.why.compare_exchange(0, why, Ordering::SeqCst, Ordering::SeqCst);
        self.stop.stop();
    }

    fn by_person(&self, why: u8) {
        self.person.stop();
        self.because(why);
    }

    pub(crate) fn cost(&self) {
        self.because(COST);
    }

    /// Whoever drives more than this run ends it.
    pub(crate) fn end(&self) {
        self.by_person(HERE);
    }

    pub(crate) fn is_by_person(&self) -> bool {
        self.person.is_stopped()
    }

    pub(crate) fn why(&self) -> (Ended, Option<String>) {
        match self.why.load(Ordering::SeqCst) {
            HERE => (Ended::Stopped, Some("interrupted".into())),
            ELSEWHERE => (Ended::Stopped, Some("asked for by `callsheet stop`".into())),
            COST => (Ended::Cost, Some("it had cost more than it may".into())),
            _ => (Ended::Stopped, Some("the ledger could not be written".into())),
        }
    }

    /// Does `work`, and looks meanwhile whether somebody wants it to end.
    pub(crate) fn during<T>(&self, desk: &Desk, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    if self.interrupt.is_set() {
                        self.by_person(HERE);
                    } else if desk.is_asked_to_stop() {
                        self.by_person(ELSEWHERE);
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
