//! `callsheet compose`: builds a prompt and prints it, and runs nothing.

use std::path::PathBuf;

use callsheet_core::diag::Diagnostics;
use callsheet_core::render::render_parts;
use callsheet_core::secrets::{Gate, SecretMode};
use callsheet_core::{Request, compose};
use callsheet_run::PrefetchedSources;
use clap::ArgMatches;
use serde_json::json;

use crate::app::AppContext;
use crate::args::ComposeArgs;
use crate::composition::{Composition, Purpose, compose_request, leak_value};
use crate::failure::CommandResult;
use crate::inputs::{ComposeInput, RequestFile};
use crate::ledger::ledger_diagnostics;
use crate::print::diagnostic_json;
use crate::secrets;
use crate::tokens::{self};
use crate::write::{resolve_output, write_out};

const EXAMPLES: &str = "Examples:
  callsheet compose -p plan \"Add login\"
  callsheet compose -r run --role coder -f src/login.rs --write 'src/**' \"Fix the timeout\"";

/// Build a prompt and print it
///
/// Prints exactly the bytes that an agent would get, and adds nothing, not even a newline. Nothing runs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) compose_args: ComposeArgs,
    /// Write the prompt to a file instead of standard output, which is -
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print how many tokens the prompt has, by section and in all, instead of the prompt
    #[arg(long, conflicts_with = "out")]
    count: bool,
    /// Record the prompt and everything that it was made of in the ledger; the run's id goes to standard error
    #[arg(long, conflicts_with = "count")]
    record: bool,
}

pub(crate) fn run(app: &AppContext<'_>, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let file = RequestFile::read(app, &args.compose_args)?;
    let elsewhere = file.open_project(app)?;
    let app = elsewhere.as_ref().unwrap_or(app);
    let then = if args.record { Purpose::Record } else { Purpose::Forget };
    let out = resolve_output(&app.here, args.out.as_deref())?;
    let whole =
        out.is_some() || args.count || app.print.json || args.compose_args.budget.is_some() || args.record;
    if !whole
        && secrets::choose_mode(app, args.compose_args.secrets.map(|mode| mode.0), then)? == SecretMode::Allow
    {
        return stream(app, &args.compose_args, given, file);
    }
    if args.count {
        tokens::preload();
    }
    let finished = compose_request(app, &args.compose_args, given, file, then)?;
    if args.count {
        return count(app, finished);
    }
    let Composition { composed, rendered, diagnostics, gate_report: passed, inputs: made, .. } = finished;
    app.print.print_masked_diagnostics(&diagnostics);
    let run = match made {
        Some(made) => {
            let run = made.new_run(app, &composed)?;
            let id = run.id.clone();
            let kept = made.build_record(run, (&composed, &rendered), &diagnostics)?;
            app.create_ledger()?.record_prompt(&kept).map_err(ledger_diagnostics)?;
            Some(id)
        }
        None => None,
    };
    if let Some(run) = &run {
        app.print.print_status(&format!("run {run}"));
    }
    if let Some(out) = &out {
        write_out(&app.project, out, rendered.text.as_bytes())?;
    }
    if app.print.json {
        let mut object = json!({
            "recipe": composed.prompt.recipe,
            "format": composed.prompt.format,
            "text": rendered.text,
            "secrets": passed,
            "warnings": diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
        });
        if let Some(run) = &run {
            object["run"] = json!(run);
        }
        return app.print.print_value(&object);
    }
    if out.is_none() {
        app.print.write_data(rendered.text.as_bytes())?;
    }
    leak_value(composed);
    Ok(0)
}

/// Composes a prompt and writes it to standard output part by part: the whole prompt is never in memory, and
/// the diagnostics follow it. Used only with `--secrets allow`.
fn stream(
    app: &AppContext<'_>,
    ask: &ComposeArgs,
    given: Option<&ArgMatches>,
    file: RequestFile,
) -> CommandResult {
    let ComposeInput { mut request, session, texts, listings, mut diagnostics, .. } =
        ComposeInput::new(app, ask, given, file)?;
    let sources = PrefetchedSources { inner: app.disk(session), texts, listings };
    let masked = |request: &mut Request, failure: Diagnostics| -> Diagnostics {
        if request.secret.is_empty() {
            return failure;
        }
        match secrets::load_rules(app) {
            Ok(rules) => {
                let gate = Gate::new(&rules, SecretMode::Allow);
                gate.scan_request(request);
                gate.mask_diagnostics(failure)
            }
            Err(failure) => failure,
        }
    };
    let composed = match compose(&request, &sources) {
        Ok(composed) => composed,
        Err(failure) => return Err(masked(&mut request, failure)),
    };
    app.announce_override("recipe", "recipes", &composed.prompt.recipe);
    app.announce_templates();
    let (mut bytes, mut chars) = (0, 0);
    let rendered = app.print.write_parts(|write| {
        render_parts(&composed.prompt, composed.prompt.format, ask.api.map(|api| api.0), &mut |part| {
            bytes += part.len();
            chars += composed.agent.max_chars.map_or(0, |_| part.chars().count());
            write(part)
        })
    });
    diagnostics.extend(composed.diagnostics.iter().chain(&rendered?).cloned());
    diagnostics.extend(composed.agent.check_limits(bytes, || chars));
    let Diagnostics(diagnostics) = masked(&mut request, Diagnostics(diagnostics));
    app.print.print_diagnostics(&diagnostics);
    leak_value((request, sources, composed));
    Ok(0)
}

fn count(app: &AppContext<'_>, mut finished: Composition) -> CommandResult {
    let summary = finished.count_tokens();
    app.print.print_masked_diagnostics(&finished.diagnostics);
    if app.print.json {
        let mut object = summary.to_json();
        object["warnings"] = finished.diagnostics.iter().map(diagnostic_json).collect();
        return app.print.print_value(&object);
    }
    app.print.write_data(summary.to_table().as_bytes())?;
    Ok(0)
}
