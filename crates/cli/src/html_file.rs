//! Writes a page of `callsheet-web` to a file.

use std::path::Path;

use callsheet::error::CommandResult;
use callsheet::output::WrittenOutput;
use callsheet::session::write::{resolve_output, write_out};
use callsheet_core::diag::escape_invisible;

use crate::context::CommandContext;

/// Writes a page to a file that only its owner can read, or to standard output.
pub(crate) fn write_html(app: &CommandContext, page: &str, file: &Path) -> CommandResult {
    let Some(path) = resolve_output(&app.here, Some(file))? else { return app.print.print_page(page) };
    write_out(&app.dir, &path, page.as_bytes())?;
    let written = file.display().to_string();
    app.print.print_output(
        || WrittenOutput { written: vec![written.clone()] },
        || format!("written {}\n", escape_invisible(&written)),
    )
}
