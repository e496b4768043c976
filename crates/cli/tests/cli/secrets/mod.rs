//! The gate against secrets: what it says and does, what of 500 planted ones is caught, and what is taken for one by
//! mistake.

mod alarms;
mod gate;
mod inputs;
mod planted;
mod recorded;
