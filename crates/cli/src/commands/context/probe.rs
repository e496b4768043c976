//! Probes a prompt, or the same prompt in several lanes.

use callsheet::compose::inputs::RequestFile;
use callsheet::context::{ContextOptions, ContextProbe};
use callsheet::error::{CommandResult, FINDING, Result, usage_error};
use callsheet::output::ContextOutput;
use callsheet::run::InterruptFlag;
use callsheet::run::options::RunOverrides;
use callsheet::{ComposeInput, Purpose};
use callsheet_core::record::Id;
use clap::ArgMatches;

use super::Args;
use crate::context::CommandContext;
use crate::html_file::write_html;
use crate::pages::context::{context_page, lanes_page};

pub(super) fn probe(
    app: &CommandContext,
    args: &Args,
    given: Option<&ArgMatches>,
    interrupted: &InterruptFlag,
) -> CommandResult {
    let mut input = args.ask.to_input(given);
    input.mcp = args.mcp;
    let (ref app, file) = app.read_request(&input)?;
    let options = probe_options(args, interrupted)?;
    if let Some(lanes) = args.lanes {
        let report = app.probe_lanes(&input, file, lanes, args.min_shared, &options)?;
        app.print.print_output(|| report.clone(), || lanes_page(&app.print, &report))?;
        return Ok(if report.passes { 0 } else { FINDING });
    }
    let (run, mut probe) = match &args.run {
        Some(name) => {
            let (run, probe) = app.probe_run(name, &options)?;
            (args.record.then_some(run), probe)
        }
        None => probe_new(app, &input, file, args.record, &options)?,
    };
    if let Some(run) = &run {
        app.record_context(run, &mut probe)?;
        app.print.print_status(&format!("recorded with run {run}"));
    }
    if let Some(file) = &args.html {
        return write_html(app, &callsheet_web::context_file(app, &probe.output)?, file);
    }
    print_context(app, probe.output, args.full)
}

/// Composes and probes a prompt, and records it if it is to be recorded.
fn probe_new(
    app: &CommandContext,
    input: &ComposeInput,
    file: RequestFile,
    record: bool,
    options: &ContextOptions,
) -> Result<(Option<Id>, ContextProbe)> {
    let composition = app.compose_request(input, file, Purpose::Record)?;
    let run = if record { Some(app.record(&composition)?) } else { None };
    Ok((run, app.probe_context(composition, options)?))
}

fn probe_options(args: &Args, interrupted: &InterruptFlag) -> Result<ContextOptions> {
    if args.min_shared.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err(usage_error("`--min-shared` must be a number from 0 to 100").into());
    }
    let overrides = RunOverrides {
        model: args.model.clone(),
        permit: args.permit.map(|permit| permit.0),
        split: args.split.to_choice(),
        ..RunOverrides::default()
    };
    Ok(ContextOptions {
        overrides,
        here: args.here,
        isolated: args.isolated,
        timeout: args.timeout,
        interrupted: interrupted.clone(),
        ..ContextOptions::default()
    })
}

fn print_context(app: &CommandContext, mut output: ContextOutput, full: bool) -> CommandResult {
    if !full {
        output.parts.iter_mut().for_each(|part| part.text = None);
    }
    app.print.print_output(|| output.clone(), || context_page(&app.print, &output))
}
