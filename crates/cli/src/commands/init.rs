//! `callsheet init`: write `.callsheet/` with an explained configuration. Never overwrites.

use std::fs;

use callsheet_core::FILES;
use callsheet_core::diag::{Code, Diag};
use serde_json::json;

use crate::app::App;
use crate::commands::compose::write_file;
use crate::failure::Outcome;

pub(crate) fn run(app: &App<'_>) -> Outcome {
    let folder = app.project.join(".callsheet");
    let mut written = Vec::new();
    let mut kept = Vec::new();
    for (path, text) in FILES {
        let Some(path) = path.strip_prefix("init/") else { continue };
        let target = folder.join(path);
        let shown = format!(".callsheet/{path}");
        if target.symlink_metadata().is_ok() {
            kept.push(shown);
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| {
                Diag::error(Code::OutputFailed, format!("`{}` could not be made: {error}", parent.display()))
            })?;
        }
        write_file(&target, text.as_bytes())?;
        written.push(shown);
    }
    if app.print.json {
        return app.print.value(&json!({ "written": written, "kept": kept }));
    }
    for path in &written {
        app.print.line(&format!("wrote {path}"))?;
    }
    for path in &kept {
        app.print.line(&format!("kept {path}, which was there"))?;
    }
    app.print.say("Next: callsheet compose -p plan \"Add login\"");
    Ok(0)
}
