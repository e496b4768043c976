//! `callsheet init`: write `.callsheet/` with an explained configuration. Never overwrites.

use std::fs;

use callsheet_core::FILES;
use callsheet_core::diag::{Code, Diag, Failure};
use serde_json::json;

use crate::app::App;
use crate::failure::Outcome;
use crate::write::{write_new, write_out};

/// What keeps the ledger, and what SQLite puts beside it, out of the repository.
const IGNORE: &str = "/.callsheet/ledger.db*";

/// Whether the ledger had to be added to the project's `.gitignore`. One that leads elsewhere is left alone.
fn ignore_ledger(app: &App<'_>) -> Result<bool, Failure> {
    let path = app.project.join(".gitignore");
    let Ok(found) = path.symlink_metadata() else {
        write_new(&app.project, ".gitignore", format!("{IGNORE}\n").as_bytes())?;
        return Ok(true);
    };
    if !found.is_file() {
        return Ok(false);
    }
    let unreadable = |error: std::io::Error| {
        Diag::error(Code::InputUnreadable, format!("`.gitignore` cannot be used: {error}"))
    };
    let mut text = fs::read(&path).map_err(unreadable)?;
    if text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == IGNORE.as_bytes()) {
        return Ok(false);
    }
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(format!("{IGNORE}\n").as_bytes());
    write_out(&path, &text)?;
    Ok(true)
}

pub(crate) fn run(app: &App<'_>) -> Outcome {
    let mut written = Vec::new();
    let mut kept = Vec::new();
    for (path, text) in FILES {
        let Some(path) = path.strip_prefix("init/") else { continue };
        let path = format!(".callsheet/{path}");
        let shown = app.shown_here(&path);
        if app.project.join(&path).symlink_metadata().is_ok() {
            kept.push(shown);
            continue;
        }
        write_new(&app.project, &path, text.as_bytes())?;
        written.push(shown);
    }
    let ignored = ignore_ledger(app)?;
    if app.print.json {
        return app.print.value(&json!({ "written": written, "kept": kept, "ignored": ignored }));
    }
    for path in &written {
        app.print.line(&format!("wrote {path}"))?;
    }
    for path in &kept {
        app.print.line(&format!("kept {path}, which was there"))?;
    }
    if ignored {
        app.print.line(&format!("added the ledger to {}", app.shown_here(".gitignore")))?;
    }
    app.print.say("Next: callsheet compose -p plan \"Add login\"");
    Ok(0)
}
