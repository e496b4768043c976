//! `callsheet fuzz`: fills a template or a recipe with hostile values and reports the failures.

use std::sync::atomic::{AtomicUsize, Ordering};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, Severity};
use callsheet_core::{candidates, list_names};
use callsheet_lint::catalog::list_templates;
use callsheet_lint::fuzz::{FuzzFinding, FuzzOptions, FuzzReport, FuzzSubject, fuzz};
use serde_json::{Value, json};

use crate::commands::templates::strip_name;
use crate::context::CommandContext;
use callsheet::diagnostics::diagnostic_json;
use callsheet::error::{CommandResult, FINDING, usage_error};

const EXAMPLES: &str = "Examples:
  callsheet fuzz system/BASE-plan
  callsheet fuzz staged --role coder";

/// Fill a template or a recipe with hostile values and report what they break
///
/// Exits with 1 when there are errors.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A template, such as system/BASE-plan, or a recipe, such as run
    #[arg(value_name = "TEMPLATE|RECIPE")]
    name: String,
    /// The same seed tries the same values
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How many values are put together at random, after those that are always tried
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    cases: usize,
    /// Of a recipe: only this role
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Of a recipe: only this phase
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// Of a recipe: only this command
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let report = run_fuzz(app, args)?;
    let is_error = |finding: &&FuzzFinding| finding.diag.severity == Severity::Error;
    let errors = report.findings.iter().filter(is_error).count();
    let exit = if errors > 0 { FINDING } else { 0 };
    if app.print.json {
        app.print.print_value(&json!({
            "name": args.name,
            "seed": args.seed,
            "tried": report.tried,
            "errors": errors,
            "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
        }))?;
        return Ok(exit);
    }
    for finding in &report.findings {
        app.print.print_line(&app.print.render_for_stdout(&finding.diag))?;
    }
    let warnings = report.findings.len() - errors;
    app.print.print_status(&format!("{} values tried: {errors} errors, {warnings} warnings", report.tried));
    Ok(exit)
}

fn finding_json(finding: &FuzzFinding) -> Value {
    let mut object = diagnostic_json(&finding.diag);
    object["input"] = finding.input.as_str().into();
    object["value"] = finding.value.as_str().into();
    object
}

fn run_fuzz(app: &CommandContext, args: &Args) -> Result<FuzzReport, Diagnostics> {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let options = FuzzOptions {
        seed: args.seed,
        cases: args.cases,
        role: args.role.clone(),
        phase: args.phase.clone(),
        command: args.command.clone(),
    };
    let (done, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let line = || format!("{} of {} values", done.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
    let mut watch = |tried, total| {
        done.store(tried, Ordering::Relaxed);
        all.store(total, Ordering::Relaxed);
    };
    let recipes = list_names(&disk, "recipes", &layout);
    if recipes.contains(&args.name) {
        let subject = FuzzSubject::Recipe(&args.name);
        return app.print.run_with_progress(line, || fuzz(&disk, &layout, subject, &options, &mut watch));
    }
    let wanted = strip_name(&args.name);
    let templates = list_templates(&disk, &layout);
    let Some(template) = templates.iter().find(|template| template.path == wanted) else {
        let known = recipes.iter().chain(templates.iter().map(|template| &template.path));
        let message = format!("TemplateNotFound: there is no template or recipe `{wanted}`");
        let places = ["templates", "recipes"].map(|folder| {
            let extension = if folder == "recipes" { "toml" } else { "md" };
            candidates(&format!("{folder}/{wanted}.{extension}"), &layout)
        });
        return Err(Diagnostic::error(Code::TemplateNotFound, message)
            .searched(places.iter().flatten())
            .suggest(wanted, known.map(String::as_str))
            .hint(format!("`callsheet templates list` lists templates; recipes: {}", recipes.join(", ")))
            .into());
    };
    if let Some(problem) = &template.problem {
        return Err(problem.clone().into());
    }
    if args.role.is_some() || args.phase.is_some() || args.command.is_some() {
        return Err(usage_error(format!(
            "`{wanted}` is a template: --role, --phase and --command are for recipes"
        ))
        .into());
    }
    let subject = FuzzSubject::Template(&template.file);
    app.print.run_with_progress(line, || fuzz(&disk, &layout, subject, &options, &mut watch))
}
