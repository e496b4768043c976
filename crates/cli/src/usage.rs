//! Reports an invalid command line in the requested output format.

use std::ffi::OsStr;
use std::process::ExitCode;

use callsheet_core::diag::{Diagnostic, escape_invisible};
use clap::error::ErrorKind;

use crate::print::OutputPrinter;
use callsheet::error::{USAGE, usage_error};

/// Prints the parser's error and returns the exit code. Help and versions are data and stay unchanged.
pub(crate) fn report_usage_error(error: &clap::Error) -> ExitCode {
    // Without matches, only the raw arguments show the requested format.
    let words = std::env::args_os().skip(1).take_while(|word| word != OsStr::new("--"));
    if !error.use_stderr() {
        error.exit();
    }
    if words.into_iter().any(|word| word == OsStr::new("--json")) {
        return ExitCode::from(OutputPrinter::json().print_failure(&to_diagnostic(error).into()));
    }
    // The page repeats the typed arguments, which can contain terminal escapes. Only its line ends are the
    // parser's own.
    let page = error.render().to_string();
    OutputPrinter::plain().print_lines(page.trim_end().lines().map(escape_invisible));
    ExitCode::from(USAGE)
}

/// Says that `--json` behind `--` is an argument of the started program.
pub(crate) fn hint_at_program_flag(print: &OutputPrinter) {
    let mut words = std::env::args_os().skip_while(|word| word != OsStr::new("--")).skip(1);
    if !print.json && words.any(|word| word == OsStr::new("--json")) {
        print.print_status("`--json` after `--` is for the program; callsheet's own goes before `--`");
    }
}

/// Splits the parser's page: the error comes first, then tips and the usage.
fn to_diagnostic(error: &clap::Error) -> Diagnostic {
    let bare = [ErrorKind::MissingSubcommand, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    if bare.contains(&error.kind()) {
        return usage_error("no command given").hint("run `callsheet --help` to list commands");
    }
    let page = error.render().to_string();
    let mut parts = page.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = parts.next().unwrap_or_default();
    let wrong = usage_error(first.strip_prefix("error: ").unwrap_or(&first));
    let parts = parts.filter(|part| !part.starts_with("For more information"));
    parts.fold(wrong, |wrong, part| wrong.hint(part.strip_prefix("tip: ").unwrap_or(&part)))
}
