//! `callsheet context diff`: compares two probes by part.

use callsheet::context::{ContextOptions, compare_contexts};
use callsheet::error::{CommandResult, FINDING, Result, usage_error};
use callsheet::output::ContextOutput;
use callsheet::run::InterruptFlag;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::read_file;

use crate::context::CommandContext;
use crate::pages::context::diff_page;

#[derive(Debug, clap::Args)]
pub(super) struct DiffArgs {
    /// The first probe: a run with a recorded probe, `last` for the newest one, or a file that `context --json` printed
    #[arg(value_name = "PROBE")]
    before: String,
    /// The second probe [default: the prompt of the first one, probed now]
    #[arg(value_name = "PROBE")]
    after: Option<String>,
    /// Start the CLI with an empty home for the new probe [default: as in the first one]
    #[arg(long)]
    isolated: bool,
    /// Print the changed lines of every part
    #[arg(long)]
    full: bool,
}

pub(super) fn compare(app: &CommandContext, args: &DiffArgs, interrupted: &InterruptFlag) -> CommandResult {
    let before = read_probe(app, &args.before)?;
    let after = match &args.after {
        Some(after) => read_probe(app, after)?,
        None => {
            let run = before.run.clone().ok_or_else(|| {
                usage_error("the first probe is not recorded, so it cannot be repeated; give a second one")
            })?;
            let isolated = args.isolated || before.isolated;
            let options =
                ContextOptions { isolated, interrupted: interrupted.clone(), ..ContextOptions::default() };
            app.probe_run(run.as_str(), &options)?.1.output
        }
    };
    let mut diff = compare_contexts(&before, &after);
    if !args.full && !app.print.json {
        diff.parts.iter_mut().for_each(|part| part.lines.truncate(MOST_LINES));
    }
    app.print.print_output(|| diff.clone(), || diff_page(&app.print, &diff))?;
    Ok(if diff.parts.is_empty() { 0 } else { FINDING })
}

/// The most changed lines of a part without `--full`.
const MOST_LINES: usize = 6;

/// The largest file of a probe.
const MOST_FILE: u64 = 256 << 20;

/// Reads a probe from a file, or from the record of a run.
fn read_probe(app: &CommandContext, name: &str) -> Result<ContextOutput> {
    let path = app.here.join(name);
    if !path.is_file() {
        return Ok(app.read_context(name)?.output);
    }
    let bad = |why: String| {
        Diagnostic::error(Code::InputUnreadable, format!("`{name}` is not a probe: {why}"))
            .hint("make one with `callsheet context --json --full … > FILE`")
    };
    let text = read_file(&path, MOST_FILE).map_err(|error| bad(error.to_string()))?.unwrap_or_default();
    Ok(serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?)
}
