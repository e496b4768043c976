//! `callsheet retry` and `callsheet continue`: a new run with the facts of the last one in its prompt.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::record::{Account, request_of};
use callsheet_core::secrets::needs;
use callsheet_core::{Facts, Request};
use callsheet_store::Ledger;

use crate::app::{App, named_directory};
use crate::args::ModeArg;
use crate::commands::compose::{Finished, Form, Then, finish_order};
use crate::commands::run::{Way, drive};
use crate::drive::{How, Ready, WorkIn};
use crate::failure::{Outcome, usage};
use crate::inputs::Order;
use crate::ledger::failure;
use crate::secrets;
use crate::state::hold_task;
use crate::tasks::{Task, task_of};

/// Run again, with the facts of an earlier run in the prompt
///
/// A new run that points at its parent: the prompt is composed anew from the same request, with what was observed of the
/// parent and how many runs the task has had. Refused while a run of the task is running, and where nothing has changed: the
/// same prompt with the same facts gives the same result.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    again: Again,
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
    again: Again,
    /// What you have to say
    #[arg(value_name = "TEXT")]
    text: String,
    /// A program that gets the prompt on its standard input [default: the one that the earlier run had]
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Again {
    /// A run: its id, the beginning of it, `last`, or `last~N` for earlier ones
    #[arg(value_name = "RUN")]
    run: String,
    /// Another agent than before
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    way: Way,
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

pub(crate) fn retry(app: &App<'_>, args: &RetryArgs) -> Outcome {
    again(app, &args.again, &args.program, None, args.force)
}

pub(crate) fn go_on(app: &App<'_>, args: &ContinueArgs) -> Outcome {
    if args.text.trim().is_empty() {
        return Err(usage("there is nothing to add").hint("`callsheet retry` adds nothing").into());
    }
    again(app, &args.again, &args.program, Some(&args.text), true)
}

fn again(app: &App<'_>, args: &Again, program: &[String], text: Option<&str>, force: bool) -> Outcome {
    let mut ledger = app.write_ledger()?;
    let row = app.find_own(&mut ledger, &args.run)?;
    let held = hold_task(&app.task_key(&row.run)?, &task_of(app, &mut ledger, &row)?.name)?;
    let task = task_of(app, &mut ledger, &row)?;
    let parent = task.run(&row.run.id)?;
    if parent.launch.is_none() {
        let message = format!("run {} was composed and never started", row.run.id);
        return Err(refused(message).hint("`callsheet run` starts one").into());
    }
    if let Some(running) = task.runs.iter().find(|run| !run.is_whole()) {
        let message = format!("run {} of this task is running", running.run.id);
        return Err(refused(message)
            .hint("wait, `callsheet stop` it, or `callsheet recover` if its callsheet died")
            .into());
    }
    let (mut request, facts) = request(app, &mut ledger, args, parent, &task)?;
    let told = request.previous.replace(facts.clone());
    if let Some(text) = text {
        request.human_input = Some(text.into());
    } else {
        request.human_input = None;
    }
    if !force && is_same(&told, &facts) && composes_the_same(app, &mut ledger, args, parent, &request, told)?
    {
        let message =
            format!("nothing has changed since run {}: the same prompt, the same facts", row.run.id);
        return Err(refused(message)
            .hint("`callsheet continue` adds something; --force runs it all the same")
            .into());
    }
    let how = how(app, args, program, parent)?;
    let finished = compose(app, request, args)?;
    let mut ready = Ready::new(app, finished, how)?;
    ready.held = Some(held);
    if args.dry_run { super::run::dry(app, &ready) } else { drive(app, ready) }
}

fn refused(message: impl Into<String>) -> Diag {
    Diag::error(Code::RunRefused, message)
}

/// The parent's request as it was, and the facts that the next prompt tells.
fn request(
    app: &App<'_>,
    ledger: &mut Ledger,
    args: &Again,
    parent: &Account,
    task: &Task,
) -> Result<(Request, Facts), Failure> {
    let composed = ledger.composed(&parent.run.id).map_err(failure)?;
    let mut request = ledger.with_blobs(|blob| request_of(&composed, blob)).map_err(failure)?;
    let given = secrets::given(app, &args.set_secret, &args.set_secret_env)?;
    let missing = needs(&request, &given);
    if !missing.is_empty() {
        let message = format!("the values of {} were delivered and are not kept", missing.join(", "));
        return Err(Diag::error(Code::VerifySecret, message)
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
    Ok((request, if app.config.digest_output.value { facts } else { without_output(facts) }))
}

fn without_output(mut facts: Facts) -> Facts {
    facts.checks.iter_mut().for_each(|check| check.output = None);
    facts
}

/// Whether the attempt was told what it then did again.
fn is_same(told: &Option<Facts>, facts: &Facts) -> bool {
    // What a check prints can differ by its times alone.
    let bare =
        |facts: &Facts| Facts { run: None, attempts: None, reply: None, ..without_output(facts.clone()) };
    told.as_ref().is_some_and(|told| bare(told) == bare(facts))
}

/// Whether the parent's request gives the parent's prompt still: its sources are what they were.
fn composes_the_same(
    app: &App<'_>,
    ledger: &mut Ledger,
    args: &Again,
    parent: &Account,
    request: &Request,
    told: Option<Facts>,
) -> Result<bool, Failure> {
    let before = Request { previous: told, ..request.clone() };
    let finished = compose(app, before, args)?;
    let Some(made) = &finished.made else { return Ok(false) };
    if !made.request.secret.is_empty() {
        // What was delivered is known by its keyed hash alone.
        return Ok(false);
    }
    let was = ledger.prompt(&parent.run.id).map_err(failure)?;
    Ok(finished.rendered.text == was)
}

fn compose(app: &App<'_>, request: Request, args: &Again) -> Result<Finished, Failure> {
    let session = request
        .session
        .as_ref()
        .map(|dir| named_directory(&app.project.join(dir), dir.as_ref()))
        .transpose()?;
    let order = Order {
        request,
        session,
        texts: BTreeMap::new(),
        listings: BTreeMap::new(),
        replay: None,
        talk: Vec::new(),
    };
    let mode = secrets::mode(app, args.secrets.map(|mode| mode.0), Then::Record)?;
    finish_order(app, order, Form { mode, budget: None, api: None }, Then::Record)
}

/// As the parent was started, but for what is said now.
fn how(app: &App<'_>, args: &Again, program: &[String], parent: &Account) -> Result<How, Failure> {
    let launch = parent.launch.clone().unwrap_or_default();
    let mut how = args.way.how(app)?;
    let way = &args.way;
    how.parent = Some(parent.run.id.clone());
    how.dry = args.dry_run;
    how.program = if program.is_empty() && args.agent.is_none() { launch.program } else { program.to_vec() };
    if way.model.is_none() && args.agent.is_none() {
        how.model = launch.model;
    }
    if way.permit.is_none() {
        how.permit = launch.permit;
    }
    // The parent's checks hold; those that are configured or given now come on top.
    let mut checks = launch.checks;
    for check in how.checks {
        checks.retain(|known| known.name != check.name);
        checks.push(check);
    }
    how.checks = checks;
    how.timeout = how.timeout.or(launch.timeout_ms.map(Duration::from_millis));
    how.max_cost_usd = how.max_cost_usd.or(launch.max_cost_usd);
    how.single_coder |= launch.single_coder;
    how.no_scope |= launch.no_scope;
    if launch.own_worktree {
        let dir = PathBuf::from(&launch.worktree);
        how.place = match (&parent.run.task, dir.is_dir()) {
            (_, true) => WorkIn::At(dir),
            (Some(task), false) => WorkIn::Own(task.clone()),
            (None, false) => WorkIn::Fresh,
        };
    } else if way.worktree {
        how.place = parent.run.task.clone().map_or(WorkIn::Fresh, WorkIn::Own);
    }
    Ok(how)
}
