//! Timeouts of a ledger.

use std::time::Duration;

/// Time limits of a connection. None of them can exceed its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerTimeouts {
    /// To reach a server, until it accepts statements.
    pub(crate) connect: Duration,
    /// For the answer to one statement.
    pub(crate) statement: Duration,
    /// For another writer.
    pub(crate) lock: Duration,
}

impl Default for LedgerTimeouts {
    fn default() -> Self {
        let [connect, statement, lock] = [10, 30, 20].map(Duration::from_secs);
        Self { connect, statement, lock }
    }
}

impl LedgerTimeouts {
    /// Returns the default limits, none of them longer than `most`.
    pub fn at_most(most: Duration) -> Self {
        let Self { connect, statement, lock } = Self::default();
        Self { connect: connect.min(most), statement: statement.min(most), lock: lock.min(most) }
    }
}
