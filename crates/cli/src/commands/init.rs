//! `callsheet init`: writes `.callsheet/` with a commented configuration. Never overwrites.

use callsheet_core::FILES;
use callsheet_core::diag::Diagnostics;
use serde_json::json;

use crate::context::CommandContext;
use callsheet::error::CommandResult;
use callsheet::session::open_folder;
use callsheet::session::write::write_new;

/// Pattern that keeps the ledger and SQLite's files beside it out of the repository.
const IGNORE: &str = "/.callsheet/ledger.db*";

/// Adds the ledger to the project's `.gitignore`, and returns whether it was missing. Leaves a `.gitignore`
/// that is not a regular file unchanged, because it may lead elsewhere.
fn ignore_ledger(app: &CommandContext) -> Result<bool, Diagnostics> {
    let found = app.dir.join(".gitignore").symlink_metadata();
    if found.is_ok_and(|found| !found.is_file()) {
        return Ok(false);
    }
    let add = |text: &str| {
        if text.lines().any(|line| line.trim() == IGNORE) {
            return (text.to_owned(), false);
        }
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        (format!("{text}{end}{IGNORE}\n"), true)
    };
    Ok(open_folder(&app.dir)?.update(".gitignore", app.config.max_file_bytes.value, add)?)
}

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let mut written = Vec::new();
    let mut kept = Vec::new();
    for (path, text) in FILES {
        let Some(path) = path.strip_prefix("init/") else { continue };
        let path = format!(".callsheet/{path}");
        let shown = app.path_from_here(&path);
        if app.dir.join(&path).symlink_metadata().is_ok() {
            kept.push(shown);
            continue;
        }
        write_new(&app.dir, &path, text.as_bytes())?;
        written.push(shown);
    }
    let ignored = ignore_ledger(app)?;
    app.print.print_output(
        || json!({ "written": written, "kept": kept, "ignored": ignored }),
        || {
            let wrote = written.iter().map(|path| format!("wrote {path}\n"));
            let kept = kept.iter().map(|path| format!("kept {path}, which was there\n"));
            let file = ignored.then(|| app.path_from_here(".gitignore"));
            let added = file.map(|file| format!("added the ledger to {file}\n"));
            wrote.chain(kept).chain(added).collect()
        },
    )?;
    app.print.print_status("Next: callsheet compose -p plan \"Add login\"");
    Ok(0)
}
