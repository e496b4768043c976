//! Reports of missing features and programs of a machine.

use std::env;
use std::io::{self, Write as _};

/// Set by `./test` when it has installed everything that can be installed.
pub(crate) const INSTALLED: &str = "CALLSHEET_TEST_INSTALLED";

/// Reports something that could not be tested. Not by `eprintln`: the test runner captures that.
pub fn not_tested(why: &str) {
    drop(io::stderr().write_all(format!("\nNOT TESTED: {why}\n").as_bytes()));
}

/// Reports a program that `./test` installs. After `./test` has installed everything, the test fails.
///
/// # Panics
///
/// If the environment says that everything is installed.
pub fn report_missing(why: &str) {
    assert!(env::var_os(INSTALLED).is_none(), "./test has installed it, and it is missing: {why}");
    not_tested(why);
}
