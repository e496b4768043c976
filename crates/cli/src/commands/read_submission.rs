//! Submissions of agents without the tools: the YAML files that they wrote into the session.

use std::path::Path;

use serde_json::Value;

use crate::app::App;
use crate::failure::Outcome;
use crate::session::{Done, Session};

/// Reads what waits in the session for `contract`, and writes what comes of it. Fails with every mistake at once.
pub(crate) fn read_submission(app: &App<'_>, contract: &str, session: Option<&Path>) -> Outcome {
    let all = Session::open(app, session)?.hand_in_files(contract)?;
    if app.print.json {
        return app.print.value(&all.iter().map(Done::to_json).collect::<Vec<Value>>().into());
    }
    for done in all {
        report(app, &done)?;
    }
    Ok(0)
}

/// A line for each file, with what happened to it.
fn report(app: &App<'_>, done: &Done) -> Outcome {
    for path in &done.written {
        app.print.line(&format!("written {path}"))?;
    }
    for path in &done.removed {
        app.print.line(&format!("removed {path}"))?;
    }
    for (role, bullets) in &done.preferences {
        for bullet in bullets {
            app.print.line(&format!("remembered for {role}: {bullet}"))?;
        }
    }
    Ok(0)
}
