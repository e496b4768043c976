//! Ends an agent whose model does not answer: a refused key, or a quota that is available again at a known time.

use std::collections::BTreeMap;

use callsheet_core::delivery::receipt::ReceiptWatcher;
use callsheet_core::library::agent::{Agent, AgentFault, FaultKind};
use callsheet_core::record::Exit;
use callsheet_core::request::fact::EndReason;
use callsheet_store::{time_from_unix, unix_now};

use crate::local_time::LocalClock;

/// Why callsheet ends an agent whose model does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultEnd {
    /// The key or the login was refused, and this is missing.
    Unauthenticated(String),
    /// The quota is available again at this time, in UTC.
    Parked(String),
}

/// The identical refusals of a key after which another attempt does not help.
const MOST_REFUSALS: u32 = 3;

/// The shortest delay until a quota is available for which a run is parked, in seconds. The agent itself waits for a shorter
/// one.
const LEAST_PARKED: u64 = 120;

/// Returns the reason to end an agent that is still running.
pub(super) fn find_fault_end(
    agent: &Agent,
    env: &BTreeMap<String, String>,
    watch: &ReceiptWatcher<'_>,
) -> Option<FaultEnd> {
    let fault = watch.fault.as_ref()?;
    match fault.kind {
        FaultKind::Authentication if watch.fault_count >= MOST_REFUSALS => {
            Some(FaultEnd::Unauthenticated(missing_words(agent, env, fault, watch.fault_count)))
        }
        FaultKind::Quota => {
            let until = quota_end(fault)?;
            let is_far = until >= unix_now().saturating_add(LEAST_PARKED);
            is_far.then(|| FaultEnd::Parked(time_from_unix(until)))
        }
        _ => None,
    }
}

/// Completes the record of an agent that gave up by itself because its model did not answer.
pub(super) fn explain_exit(
    exit: Exit,
    agent: &Agent,
    env: &BTreeMap<String, String>,
    watch: &ReceiptWatcher<'_>,
) -> Exit {
    let Some(fault) =
        watch.fault.as_ref().filter(|_| exit.ended == EndReason::Exited && exit.code != Some(0))
    else {
        return exit;
    };
    match fault.kind {
        FaultKind::Authentication => {
            Exit { why: Some(missing_words(agent, env, fault, watch.fault_count)), ..exit }
        }
        FaultKind::Quota => match quota_end(fault).filter(|until| *until > unix_now()).map(time_from_unix) {
            Some(until) => parked_exit(exit, until),
            None => Exit { why: Some(fault.words()), ..exit },
        },
        FaultKind::Overloaded | FaultKind::Connection => Exit { why: Some(fault.words()), ..exit },
    }
}

/// Returns the record of a run that is parked until a time.
pub(super) fn parked_exit(exit: Exit, until: String) -> Exit {
    let shown = LocalClock::read().clock_time(&until);
    let why = Some(format!("the quota is used up until {shown}"));
    Exit { ended: EndReason::Parked, why, parked_until: Some(until), ..exit }
}

/// Returns when a quota is available again, in seconds since 1970.
fn quota_end(fault: &AgentFault) -> Option<u64> {
    let by_delay = || fault.delay_ms.map(|delay| unix_now().saturating_add(delay.div_ceil(1000)));
    fault.until_s.or_else(|| LocalClock::read().next_moment(fault.until_clock.as_deref()?)).or_else(by_delay)
}

fn missing_words(agent: &Agent, env: &BTreeMap<String, String>, fault: &AgentFault, count: u32) -> String {
    let of_run = |name: &str| env.get(name).cloned().or_else(|| std::env::var(name).ok());
    let is_set = |name: &str| of_run(name).is_some_and(|value| !value.is_empty());
    let status = fault.status.map(|status| format!("{status} ")).unwrap_or_default();
    let times = if count > 1 { format!(" {count} times") } else { String::new() };
    format!("{status}{}{times}: {}", fault.kind.words(), agent.sign_in.missing(&is_set))
}
