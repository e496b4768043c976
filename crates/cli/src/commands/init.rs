//! `callsheet init`: write `.callsheet/` with an explained configuration. Never overwrites.

use callsheet_core::FILES;
use serde_json::json;

use crate::app::App;
use crate::failure::Outcome;
use crate::write::write_new;

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
