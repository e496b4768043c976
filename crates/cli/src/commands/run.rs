//! `callsheet run`: composes, records and delivers a prompt, watches the agent, and records the result.

use std::path::PathBuf;
use std::sync::Arc;

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::diag::{Diagnostics, escape_invisible};
use callsheet_core::library::agent::DeliveryMethod;
use callsheet_core::request::fact::CheckSpec;
use callsheet_core::{is_name, split_words};
use clap::ArgMatches;
use serde_json::json;

use crate::app::AppContext;
use crate::args::{ComposeArgs, PermitArg};
use crate::composition::{Purpose, compose_request};
use crate::drive::{
    InterruptFlag, PreparedRun, RunLocation, RunOptions, RunProgress, RunStopper, exit_code, result_json,
    result_page,
};
use crate::duration::HumanDuration;
use crate::failure::{CommandResult, INTERRUPTED, usage_error};
use crate::inputs::RequestFile;
use crate::print::diagnostic_json;

const EXAMPLES: &str = "Examples:
  callsheet run -a claude --write 'src/**' --check tests='cargo test' \"Fix the timeout\"
  callsheet run -a codex -p review --worktree --task-id T-12 \"Review the change\"
  callsheet run \"Say hello\" -- ./my-agent --fast";

/// Hand a prompt to an agent, watch it, and record what came of it
///
/// The prompt and everything that it was made of is in the ledger before the agent starts. What the agent says of its work is
/// kept beside what is observed: how it ended, which files changed, what of that its scope did not allow, and what the checks
/// say. Exits with the first that applies: 130 interrupted, 10 trust required, 9 refused, 8 ledger, 7 too long or too
/// expensive, 6 the agent failed, 5 outside of its scope, 1 a check failed or the verdict is not pass, 0.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    ask: ComposeArgs,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// A program that gets the prompt on its standard input, in the place of an agent
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// How an agent is started. Shared by all commands that start one.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunArgs {
    /// A command that is run in the worktree afterwards, without a shell: it passes if it exits with 0
    #[arg(long, value_name = "NAME=CMD")]
    pub(crate) check: Vec<String>,
    /// How long the agent and its checks may take together, such as 90s, 30m or 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<HumanDuration>,
    /// How much it may cost, in dollars, where the agent tells it
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// What it may do without asking [default: the configured one; else edit]
    #[arg(long, value_name = "WHAT")]
    pub(crate) permit: Option<PermitArg>,
    /// The model that it uses [default: its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Work in a worktree and branch of its own: of the task, made once, or of the run if there is no task. Nothing in it is
    /// ever deleted
    #[arg(long)]
    pub(crate) worktree: bool,
    /// Work in the checkout although another run works there; then a change by one of both cannot be told from the other's
    #[arg(long)]
    pub(crate) share: bool,
    /// Run without git in a folder of more than 20,000 files or 1 GiB, where the scope cannot be checked; it is recorded
    #[arg(long)]
    pub(crate) no_scope: bool,
    /// Start it in a terminal of tmux and type the line that names the prompt; it works on by itself
    #[arg(long)]
    pub(crate) terminal: bool,
    /// A pane of tmux in which it runs already
    #[arg(long, value_name = "PANE", conflicts_with = "terminal")]
    pub(crate) pane: Option<String>,
    /// One agent does the whole plan
    #[arg(long)]
    pub(crate) single_coder: bool,
    /// Attach the agent to the server to which it hands things in
    #[arg(long)]
    pub(crate) mcp: bool,
}

impl RunArgs {
    /// Converts the flags to run options; the configuration fills the gaps.
    pub(crate) fn to_options(&self, app: &AppContext<'_>) -> Result<RunOptions, Diagnostics> {
        let config = &app.config;
        app.warn_unapplied();
        if self.max_cost.or(config.max_cost.value).is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
            return Err(usage_error("--max-cost has to be above 0").into());
        }
        Ok(RunOptions {
            by: (self.terminal || self.pane.is_some()).then_some(DeliveryMethod::Terminal),
            model: self.model.clone(),
            permit: self.permit.map_or(config.permit.value, |permit| permit.0),
            checks: merge_checks(app, &self.check)?,
            env: config.env.value.clone(),
            timeout: self.timeout.or(config.timeout.value).map(|span| span.0),
            max_cost_usd: self.max_cost.or(config.max_cost.value),
            pane: self.pane.clone(),
            share: self.share,
            single_coder: self.single_coder,
            no_scope: self.no_scope,
            ..RunOptions::default()
        })
    }
}

/// Returns the configured checks and the given ones; a given check replaces a configured one of the same
/// name.
pub(crate) fn merge_checks(app: &AppContext<'_>, given: &[String]) -> Result<Vec<CheckSpec>, Diagnostics> {
    let mut wrong = Vec::new();
    let mut all: Vec<CheckSpec> = Vec::new();
    let configured = app.config.checks.value.iter();
    let configured =
        configured.map(|(name, check)| (name.as_str(), check.command(), check.timeout(), &app.project));
    let mut pairs: Vec<(&str, &str, Option<HumanDuration>, &PathBuf)> = configured.collect();
    for item in given {
        match item.split_once('=') {
            Some((name, command)) => pairs.push((name, command, None, &app.here)),
            None => wrong.push(usage_error(format!("--check takes NAME=CMD, not `{item}`"))),
        }
    }
    for (name, command, timeout, here) in pairs {
        match split_words(command) {
            _ if !is_name(name) => wrong.push(usage_error(format!("`{name}` cannot be the name of a check"))),
            Ok(argv) if argv.is_empty() => {
                wrong.push(usage_error(format!("the check `{name}` has no command")))
            }
            Ok(argv) => {
                all.retain(|known| known.name != name);
                let argv = app.resolve_typed_check(here, argv);
                all.push(CheckSpec {
                    name: name.into(),
                    argv,
                    timeout_ms: timeout.map(HumanDuration::millis),
                });
            }
            Err(diag) => wrong.push(diag),
        }
    }
    if wrong.is_empty() { Ok(all) } else { Err(Diagnostics(wrong)) }
}

pub(crate) fn run(app: &AppContext<'_>, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let file = RequestFile::read(app, &args.ask)?;
    let elsewhere = file.open_project(app)?;
    let app = elsewhere.as_ref().unwrap_or(app);
    let mut ask = args.ask.clone();
    if !args.program.is_empty() && ask.agent.is_none() {
        ask.agent = Some("command".into());
    }
    let mut options = args.run_args.to_options(app)?;
    options.program = app.resolve_typed_program(&args.program);
    options.dry = args.dry_run;
    options.session = ask.session.as_ref().map(|session| app.session_path(session));
    let file = if args.run_args.mcp { file.with_mcp() } else { file };
    let finished = compose_request(app, &ask, given, file, Purpose::Record)?;
    if let Some(profile) = &finished.composed.profile {
        options.model = options.model.or_else(|| profile.model.clone());
        // A profile may ask for less than the configured permission, not for more.
        let bound = profile.permit.filter(|_| args.run_args.permit.is_none());
        options.permit = bound.map_or(options.permit, |bound| bound.min(options.permit));
    }
    if args.run_args.worktree {
        let task = finished.inputs.as_ref().and_then(|made| made.request.task.as_ref()?.id.as_ref());
        options.place = task.map_or(RunLocation::Fresh, |task| RunLocation::Own(task.to_string()));
    }
    let ready = PreparedRun::new(app, finished, options)?;
    if args.dry_run { print_dry_run(app, &ready) } else { drive(app, ready) }
}

/// Executes a prepared run and prints its result.
pub(crate) fn drive(app: &AppContext<'_>, ready: PreparedRun) -> CommandResult {
    let stopper = RunStopper::new(&InterruptFlag::listen()?);
    let ledger = app.create_ledger()?;
    app.print.print_diagnostics(ready.diagnostics());
    app.print.print_status(&format!("run {}", ready.id()));
    let progress = Arc::new(RunProgress::new(ready.agent_name()));
    let went = app
        .print
        .run_with_progress(|| progress.render_line(), || ready.execute(app, ledger, &stopper, &progress));
    let (account, _) = went?;
    if app.print.json {
        app.print.print_value(&result_json(&account))?;
    } else {
        app.print.write_data(result_page(app.print, &account).as_bytes())?;
    }
    Ok(if stopper.is_stopped_by_person() { INTERRUPTED } else { exit_code(&account) })
}

pub(crate) fn print_dry_run(app: &AppContext<'_>, ready: &PreparedRun) -> CommandResult {
    app.print.print_diagnostics(ready.diagnostics());
    if app.print.json {
        let warnings: Vec<_> = ready.diagnostics().map(diagnostic_json).collect();
        return app.print.print_value(&json!({
            "acts": ready.actions(), "prompt": ready.prompt(), "launch": ready.launch, "warnings": warnings,
        }));
    }
    let mut page = String::new();
    for act in ready.actions() {
        let words =
            |argv: &[String]| argv.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ");
        page += &match act {
            DeliveryAction::Write { path, .. } => format!("write {}\n", escape_invisible(path)),
            DeliveryAction::Spawn { argv, cwd, .. } => {
                format!("start {} in {}\n", words(argv), escape_invisible(cwd))
            }
            DeliveryAction::Open { argv, cwd, .. } => {
                format!("start in a terminal {} in {}\n", words(argv), escape_invisible(cwd))
            }
            DeliveryAction::Await { .. } => "wait until it takes a line\n".into(),
            DeliveryAction::Type { line, .. } => format!("type {}\n", escape_invisible(line)),
        };
    }
    for check in &ready.launch.checks {
        page += &format!("check {}: {:?}\n", escape_invisible(&check.name), check.argv);
    }
    app.print.write_data(page.as_bytes())?;
    Ok(0)
}
