//! Tests the gate against secrets: its messages and modes, its hits among 500 planted secrets, its false
//! alarms, and the contents of the ledger.

mod false_alarms;
mod gate;
mod inputs;
mod planted_secrets;
mod recorded_secrets;
