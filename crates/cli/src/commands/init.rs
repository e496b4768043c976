//! `callsheet init`: writes `.callsheet/` with a commented configuration. Never overwrites.

use callsheet::error::CommandResult;
use callsheet::init::InitReport;
use serde_json::json;

use crate::context::CommandContext;

pub(crate) fn run(app: &CommandContext) -> CommandResult {
    let InitReport { written, kept, ignored } = app.init()?;
    let shown =
        |paths: Vec<String>| -> Vec<String> { paths.iter().map(|path| app.path_from_here(path)).collect() };
    let (written, kept) = (shown(written), shown(kept));
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
