//! `callsheet fuzz`: fills a template or a recipe with hostile values and reports the failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use callsheet_lint::fuzz::{FuzzOptions, FuzzReport, FuzzSubject, fuzz};

use crate::context::CommandContext;
use crate::pages::{count_line, findings_page};
use callsheet::error::{CommandResult, FINDING, Result, usage_error};
use callsheet::output::FuzzOutput;
use callsheet::templates::find_template_or_recipe;

const EXAMPLES: &str = "Examples:
  callsheet fuzz system/BASE-plan
  callsheet fuzz staged --role coder";

/// Fill a template or a recipe with hostile values, and report the ones that break it
///
/// Exits with 1 if there are errors.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A template, such as system/BASE-plan, or a recipe, such as run
    #[arg(value_name = "TEMPLATE|RECIPE")]
    name: String,
    /// The seed of the random values
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The number of random values, tried after the fixed ones
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    cases: usize,
    /// Try only this role of a recipe
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Try only this phase of a recipe
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// Try only this command of a recipe
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let report = run_fuzz(app, args)?;
    let errors = report.error_count();
    app.print.print_output(
        || FuzzOutput::new(&args.name, args.seed, &report),
        || findings_page(&app.print, report.findings.iter().map(|finding| &finding.diag)),
    )?;
    let warnings = report.findings.len() - errors;
    app.print.print_status(&count_line(report.tried, "value", errors, warnings));
    Ok(if errors > 0 { FINDING } else { 0 })
}

fn run_fuzz(app: &CommandContext, args: &Args) -> Result<FuzzReport> {
    let options = FuzzOptions {
        seed: args.seed,
        cases: args.cases,
        role: args.role.clone(),
        phase: args.phase.clone(),
        command: args.command.clone(),
    };
    let template = find_template_or_recipe(app, &args.name)?;
    let subject = match &template {
        None => FuzzSubject::Recipe(&args.name),
        Some(template) if args.role.is_some() || args.phase.is_some() || args.command.is_some() => {
            let path = &template.path;
            let message = format!("`{path}` is a template: --role, --phase and --command are for recipes");
            return Err(usage_error(message).into());
        }
        Some(template) => FuzzSubject::Template(&template.file),
    };
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let shown = Arc::clone(&counts);
    let count = move |at: usize| shown[at].load(Ordering::Relaxed);
    let progress =
        app.observer.show_progress(Box::new(move || format!("{} of {} values", count(0), count(1))));
    let report = fuzz(&app.disk(None), &app.config.layout(), subject, &options, &mut |tried, total| {
        counts[0].store(tried, Ordering::Relaxed);
        counts[1].store(total, Ordering::Relaxed);
    });
    drop(progress);
    Ok(report?)
}
