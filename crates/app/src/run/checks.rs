//! Checks that a caller or the configuration names.

use std::path::PathBuf;

use callsheet_core::diag::Diagnostics;
use callsheet_core::request::fact::CheckSpec;
use callsheet_core::{is_name, split_words};

use crate::error::{Result, usage_error};
use crate::project::Project;
use crate::project::duration::HumanDuration;

/// Returns the configured checks and the given ones; a given check replaces a configured one of the same
/// name.
pub(crate) fn merge_checks(project: &Project, given: &[String]) -> Result<Vec<CheckSpec>> {
    let mut wrong = Vec::new();
    let mut all: Vec<CheckSpec> = Vec::new();
    let configured = project.config.checks.value.iter();
    let configured =
        configured.map(|(name, check)| (name.as_str(), check.command(), check.timeout(), &project.dir));
    let mut pairs: Vec<(&str, &str, Option<HumanDuration>, &PathBuf)> = configured.collect();
    for item in given {
        match item.split_once('=') {
            Some((name, command)) => pairs.push((name, command, None, &project.here)),
            None => wrong
                .push(usage_error(format!("invalid value `{item}` for `--check`: expected NAME=COMMAND"))),
        }
    }
    for (name, command, timeout, here) in pairs {
        match split_words(command) {
            _ if !is_name(name) => wrong.push(usage_error(format!("invalid check name `{name}`"))),
            Ok(argv) if argv.is_empty() => {
                wrong.push(usage_error(format!("the check `{name}` has no command")))
            }
            Ok(argv) => {
                all.retain(|known| known.name != name);
                let argv = project.resolve_typed_check(here, argv);
                all.push(CheckSpec {
                    name: name.into(),
                    argv,
                    timeout_ms: timeout.map(HumanDuration::millis),
                });
            }
            Err(diag) => wrong.push(diag),
        }
    }
    if wrong.is_empty() { Ok(all) } else { Err(Diagnostics(wrong).into()) }
}
