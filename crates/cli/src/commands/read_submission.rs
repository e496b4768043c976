//! Reads submissions of agents without the tools from the YAML files that they wrote into the session.

use std::path::Path;

use serde_json::Value;

use crate::context::CommandContext;
use callsheet::error::CommandResult;
use callsheet::session::{SessionDir, SubmissionResult};

/// Reads the pending submissions for `contract` from the session and writes the resulting files. Fails with
/// every mistake at once.
pub(crate) fn read_submission(app: &CommandContext, contract: &str, session: Option<&Path>) -> CommandResult {
    let all = SessionDir::open(app, session)?.submit_files(contract)?;
    if app.print.json {
        return app
            .print
            .print_value(&all.iter().map(SubmissionResult::to_json).collect::<Vec<Value>>().into());
    }
    for done in all {
        report(app, &done)?;
    }
    Ok(0)
}

/// Prints a line for each file that was written or removed, and for each preference that was remembered.
fn report(app: &CommandContext, done: &SubmissionResult) -> CommandResult {
    for path in &done.written {
        app.print.print_line(&format!("written {path}"))?;
    }
    for path in &done.removed {
        app.print.print_line(&format!("removed {path}"))?;
    }
    for (role, bullets) in &done.preferences {
        for bullet in bullets {
            app.print.print_line(&format!("remembered for {role}: {bullet}"))?;
        }
    }
    Ok(0)
}
