//! `callsheet retry` and `callsheet continue`: start a new run with the facts of an earlier one in its
//! prompt.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::{RunSummary, restore_request};
use callsheet_core::secrets::find_missing_values;
use callsheet_core::{Request, RunFacts};
use callsheet_store::Ledger;

use crate::app::{AppContext, resolve_directory};
use crate::args::ModeArg;
use crate::commands::run::{RunArgs, drive};
use crate::composition::{ComposeOptions, Composition, Purpose, compose_input};
use crate::drive::{PreparedRun, RunLocation, RunOptions};
use crate::failure::{CommandResult, usage_error};
use crate::inputs::ComposeInput;
use crate::ledger::ledger_diagnostics;
use crate::secrets;
use crate::state::lock_task;
use crate::tasks::{TaskRuns, find_task};

/// Run again, with the facts of an earlier run in the prompt
///
/// A new run that points at its parent: the prompt is composed anew from the same request, with what was observed of the
/// parent and how many runs the task has had. Refused while a run of the task is running, and where nothing has changed: the
/// same prompt with the same facts gives the same result.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    again: RerunArgs,
    /// Even if the prompt and the facts are those of the attempt that failed
    #[arg(long)]
    force: bool,
    /// A program that gets the prompt on its standard input [default: the one that the earlier run had]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Run again with something to add, which is in the prompt
#[derive(Debug, clap::Args)]
pub(crate) struct ContinueArgs {
    #[command(flatten)]
    again: RerunArgs,
    /// What you have to say
    #[arg(value_name = "TEXT")]
    text: String,
    /// A program that gets the prompt on its standard input [default: the one that the earlier run had]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct RerunArgs {
    /// A run: its id, the beginning of it, `last`, or `last~N` for earlier ones
    #[arg(value_name = "RUN")]
    run: String,
    /// Another agent than before
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    run_args: RunArgs,
    /// A value that was marked as secret, read from a file; it is not kept, so it has to be given again
    #[arg(long, value_name = "KEY=PATH")]
    set_secret: Vec<String>,
    /// The same, read from the environment variable NAME
    #[arg(long, value_name = "KEY=NAME")]
    set_secret_env: Vec<String>,
    /// What to do with a secret that is found [default: the configured one; else refuse]
    #[arg(long, value_name = "MODE")]
    secrets: Option<ModeArg>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn retry(app: &AppContext<'_>, args: &RetryArgs) -> CommandResult {
    rerun(app, &args.again, &args.program, None, args.force)
}

pub(crate) fn continue_run(app: &AppContext<'_>, args: &ContinueArgs) -> CommandResult {
    if args.text.trim().is_empty() {
        return Err(usage_error("there is nothing to add").hint("`callsheet retry` adds nothing").into());
    }
    rerun(app, &args.again, &args.program, Some(&args.text), true)
}

fn rerun(
    app: &AppContext<'_>,
    args: &RerunArgs,
    program: &[String],
    text: Option<&str>,
    force: bool,
) -> CommandResult {
    let mut ledger = app.write_ledger()?;
    let row = app.find_own_run(&mut ledger, &args.run)?;
    let held = lock_task(&app.task_key(&row.run)?, &find_task(app, &mut ledger, &row)?.name)?;
    let task = find_task(app, &mut ledger, &row)?;
    let parent = task.find_run(&row.run.id)?;
    if parent.launch.is_none() {
        let message = format!("run {} was composed and never started", row.run.id);
        return Err(refused_error(message).hint("`callsheet run` starts one").into());
    }
    if let Some(running) = task.runs.iter().find(|run| !run.is_complete()) {
        let message = format!("run {} of this task is running", running.run.id);
        return Err(refused_error(message)
            .hint("wait, `callsheet stop` it, or `callsheet recover` if its callsheet died")
            .into());
    }
    let (mut request, facts) = restore_parent_request(app, &mut ledger, args, parent, &task)?;
    let known_facts = request.previous.replace(facts.clone());
    if let Some(text) = text {
        request.human_input = Some(text.into());
    } else {
        request.human_input = None;
    }
    if !force
        && has_same_facts(&known_facts, &facts)
        && is_prompt_unchanged(app, &mut ledger, args, parent, &request, known_facts)?
    {
        let message =
            format!("nothing has changed since run {}: the same prompt, the same facts", row.run.id);
        return Err(refused_error(message)
            .hint("`callsheet continue` adds something; --force runs it all the same")
            .into());
    }
    let how = merge_options(app, args, program, parent)?;
    let finished = compose_rerun(app, request, args)?;
    let mut ready = PreparedRun::new(app, finished, how)?;
    ready.held = Some(held);
    if args.dry_run { super::run::print_dry_run(app, &ready) } else { drive(app, ready) }
}

fn refused_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::RunRefused, message)
}

/// Returns the parent's request as it was, and the facts for the next prompt.
fn restore_parent_request(
    app: &AppContext<'_>,
    ledger: &mut Ledger,
    args: &RerunArgs,
    parent: &RunSummary,
    task: &TaskRuns,
) -> Result<(Request, RunFacts), Diagnostics> {
    let composed = ledger.prompt_record(&parent.run.id).map_err(ledger_diagnostics)?;
    let mut request =
        ledger.with_blobs(|blob| restore_request(&composed, blob)).map_err(ledger_diagnostics)?;
    let given = secrets::read_secret_values(app, &args.set_secret, &args.set_secret_env)?;
    let missing = find_missing_values(&request, &given);
    if !missing.is_empty() {
        let message = format!("the values of {} were delivered and are not kept", missing.join(", "));
        return Err(Diagnostic::error(Code::VerifySecret, message)
            .hint("give them with --set-secret or --set-secret-env")
            .into());
    }
    for key in request.secret.clone() {
        request.values.insert(key.as_str().into(), given.get(&key).cloned().unwrap_or_default());
    }
    if let Some(agent) = &args.agent {
        let (name, version) = agent.split_once('@').map_or((agent.as_str(), None), |(a, b)| (a, Some(b)));
        request.agent = Some(name.to_owned());
        request.agent_version = version.map(str::to_owned);
    }
    let attempts = task.runs.iter().filter(|run| run.launch.is_some()).count();
    let facts = parent.facts(attempts);
    Ok((request, if app.config.digest_output.value { facts } else { strip_output(facts) }))
}

fn strip_output(mut facts: RunFacts) -> RunFacts {
    facts.checks.iter_mut().for_each(|check| check.output = None);
    facts
}

/// Checks whether the parent's prompt already contained the facts that the parent then produced again.
fn has_same_facts(told: &Option<RunFacts>, facts: &RunFacts) -> bool {
    // A check's output can differ in nothing but its times.
    let bare =
        |facts: &RunFacts| RunFacts { run: None, attempts: None, reply: None, ..strip_output(facts.clone()) };
    told.as_ref().is_some_and(|told| bare(told) == bare(facts))
}

/// Checks whether the parent's request still composes the parent's prompt, that is, whether its sources are
/// unchanged.
fn is_prompt_unchanged(
    app: &AppContext<'_>,
    ledger: &mut Ledger,
    args: &RerunArgs,
    parent: &RunSummary,
    request: &Request,
    told: Option<RunFacts>,
) -> Result<bool, Diagnostics> {
    let before = Request { previous: told, ..request.clone() };
    let finished = compose_rerun(app, before, args)?;
    let Some(made) = &finished.inputs else { return Ok(false) };
    if !made.request.secret.is_empty() {
        // The ledger has only the HMAC of a delivered secret value, so the prompts cannot be compared.
        return Ok(false);
    }
    let was = ledger.prompt(&parent.run.id).map_err(ledger_diagnostics)?;
    Ok(finished.rendered.text == was)
}

fn compose_rerun(
    app: &AppContext<'_>,
    request: Request,
    args: &RerunArgs,
) -> Result<Composition, Diagnostics> {
    let session = request
        .session
        .as_ref()
        .map(|dir| resolve_directory(&app.project.join(dir), dir.as_ref()))
        .transpose()?;
    let order = ComposeInput {
        request,
        session,
        texts: BTreeMap::new(),
        listings: BTreeMap::new(),
        replay: None,
        diagnostics: Vec::new(),
    };
    let mode = secrets::choose_mode(app, args.secrets.map(|mode| mode.0), Purpose::Record)?;
    compose_input(app, order, ComposeOptions { mode, budget: None, api: None }, Purpose::Record)
}

/// Returns the parent's run options, overridden by the options given now.
fn merge_options(
    app: &AppContext<'_>,
    args: &RerunArgs,
    program: &[String],
    parent: &RunSummary,
) -> Result<RunOptions, Diagnostics> {
    let launch = parent.launch.clone().unwrap_or_default();
    let mut options = args.run_args.to_options(app)?;
    let way = &args.run_args;
    options.parent = Some(parent.run.id.clone());
    options.dry = args.dry_run;
    options.program = if program.is_empty() && args.agent.is_none() {
        launch.program
    } else {
        app.resolve_typed_program(program)
    };
    if way.model.is_none() && args.agent.is_none() {
        options.model = launch.model;
    }
    if way.permit.is_none() {
        options.permit = launch.permit;
    }
    // The parent's checks stay; checks that are configured or given now are added, or replace those of the
    // same name.
    let mut checks = launch.checks;
    for check in options.checks {
        checks.retain(|known| known.name != check.name);
        checks.push(check);
    }
    options.checks = checks;
    options.timeout = options.timeout.or(launch.timeout_ms.map(Duration::from_millis));
    options.max_cost_usd = options.max_cost_usd.or(launch.max_cost_usd);
    options.single_coder |= launch.single_coder;
    options.no_scope |= launch.no_scope;
    if launch.own_worktree {
        let dir = PathBuf::from(&launch.worktree);
        options.place = match (&parent.run.task, dir.is_dir()) {
            (_, true) => RunLocation::At(dir),
            (Some(task), false) => RunLocation::Own(task.clone()),
            (None, false) => RunLocation::Fresh,
        };
    } else if way.worktree {
        options.place = parent.run.task.clone().map_or(RunLocation::Fresh, RunLocation::Own);
    }
    Ok(options)
}
