//! Code.
