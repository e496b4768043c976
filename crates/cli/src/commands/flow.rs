//! `callsheet flow`: drives a whole change, phase by phase.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, escape_invisible};
use callsheet_core::flow::{FlowAction, FlowDecision, FlowEvent, FlowSettings, draw_graph, find_flow};
use callsheet_core::library::preferences::Preference;
use callsheet_core::request::scope::Scope;
use callsheet_core::{Library, list_names, resolve_agent_name};
use callsheet_store::{Ledger, ProjectFilter, new_id};
use serde_json::json;

use crate::app::AppContext;
use crate::args::PermitArg;
use crate::claim::{ClaimRequest, claim_checkout};
use crate::commands::run::merge_checks;
use crate::drive::{InterruptFlag, is_driven, missing_agent_program, missing_check_programs};
use crate::duration::HumanDuration;
use crate::failure::{CommandResult, FINDING, INTERRUPTED, usage_error};
use crate::flow::{
    FlowDriver, FlowOptions, RecordedFlow, choose_name, report_leftovers, state_word, status_json,
    status_page,
};
use crate::ledger::{imported_error, ledger_diagnostics, other_project_error};
use crate::secrets;
use crate::session::new_preferences;
use crate::state::RunDir;

/// Drive a whole change, phase by phase, with the agents that you name
///
/// Which phase follows which is a data file: `sdd` (plan, challenge, implement, review, archive) and `staged` (architect, planner,
/// coders, reviewers, summary) ship with callsheet. A phase is left on a verdict and on facts, never on a claim alone; where
/// evidence is missing, a person is asked. Everything that was decided is in the ledger, so that a flow can be resumed after
/// whatever happened.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: FlowCommand,
}

impl Args {
    /// Checks whether the command works without a valid configuration: it ends a flow, or only shows flows.
    pub(crate) const fn is_config_optional(&self) -> bool {
        let rejects = matches!(&self.command, FlowCommand::Decide { decision: DecisionArg::Reject, .. });
        rejects
            || matches!(&self.command, FlowCommand::Status { .. } | FlowCommand::Stop(_) | FlowCommand::List)
    }
}

#[derive(Debug, clap::Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a command line is read once")]
enum FlowCommand {
    Start(FlowStartArgs),
    /// Show where flows stand: phase, what runs, round, cost, what is waited for
    Status {
        #[command(flatten)]
        which: FlowNameArg,
        /// Show it again and again until the flow has ended or waits for a person
        #[arg(long)]
        watch: bool,
    },
    /// Go on with a flow that was stopped, or whose callsheet died
    Resume {
        #[command(flatten)]
        which: FlowNameArg,
        /// Ask runs that were cut the very same once more, whatever has changed since
        #[arg(long)]
        same_prompt: bool,
    },
    /// Decide what a flow waits for: approve the work as it is, reject it, say what has to be changed, or answer a question
    Decide {
        #[arg(value_name = "DECISION")]
        decision: DecisionArg,
        /// What has to be changed, or the answer
        #[arg(value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        which: FlowNameOption,
        /// Decide without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Stop a flow and what runs in it; it can be resumed
    Stop(FlowNameArg),
    /// List the flows of this ledger, the newest first
    List,
    /// Print a flow as a Mermaid diagram; of one that was started, with where it is
    Graph {
        /// A flow by its name, or one that was started [default: the newest]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
}

/// Start a flow
#[derive(Debug, clap::Args)]
struct FlowStartArgs {
    /// sdd, staged, or a file in .callsheet/flows/
    #[arg(value_name = "NAME")]
    name: String,
    /// What is to be done, in words
    #[arg(value_name = "REQUEST")]
    request: String,
    /// Who does every phase
    #[arg(short, long, value_name = "NAME[:MODEL]")]
    agent: Option<String>,
    /// Who does one phase
    #[arg(long, value_name = "PHASE=NAME[:MODEL]")]
    agent_for: Vec<String>,
    /// An optional phase that is wanted, such as product_management
    #[arg(long, value_name = "PHASE")]
    with: Vec<String>,
    /// One coder carries out the whole plan
    #[arg(long)]
    single_coder: bool,
    /// A command that is run in the worktree after each run: evidence for the flow
    #[arg(long, value_name = "NAME=CMD")]
    check: Vec<String>,
    /// How many lanes run at once
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: u32,
    /// What may be spent before you are asked, in dollars, where agents tell it
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// How long each run may take
    #[arg(long, value_name = "TIME")]
    timeout: Option<HumanDuration>,
    /// What agents may do without asking [default: the configured one; else edit]
    #[arg(long, value_name = "WHAT")]
    permit: Option<PermitArg>,
    /// The model that agents use [default: their own]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Run each agent in a terminal of tmux; the command to attach to it is printed
    #[arg(long, conflicts_with = "program")]
    terminal: bool,
    /// Let others work in the same checkout: then no change there can be attributed to one of them
    #[arg(long)]
    share: bool,
    /// Agents hand things in by files, also those that could use the server
    #[arg(long)]
    by_file: bool,
    /// What its folder is called [default: the first words of the request]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// A program that plays every agent: it gets each prompt on its standard input
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct FlowNameArg {
    /// A flow: the name of its folder, or the beginning of its id [default: the newest that has not ended]
    #[arg(value_name = "FLOW")]
    flow: Option<String>,
}

#[derive(Debug, clap::Args)]
struct FlowNameOption {
    /// A flow: the name of its folder, or the beginning of its id [default: the newest that has not ended]
    #[arg(long, value_name = "FLOW")]
    flow: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DecisionArg {
    Approve,
    Reject,
    Changes,
    Answer,
}

pub(crate) fn run(app: &AppContext<'_>, args: &Args) -> CommandResult {
    match &args.command {
        FlowCommand::Start(start) => start_flow(app, start),
        FlowCommand::Status { which, watch } => print_status(app, which.flow.as_deref(), *watch),
        FlowCommand::Resume { which, same_prompt } => resume(app, which.flow.as_deref(), *same_prompt),
        FlowCommand::Decide { decision, text, which, yes } => {
            decide(app, *decision, text.as_deref(), which.flow.as_deref(), *yes)
        }
        FlowCommand::Stop(which) => stop(app, which.flow.as_deref()),
        FlowCommand::List => list(app),
        FlowCommand::Graph { name } => print_graph(app, name.as_deref()),
    }
}

fn start_flow(app: &AppContext<'_>, args: &FlowStartArgs) -> CommandResult {
    if args.request.trim().is_empty() {
        return Err(usage_error("there is nothing to be done in the request").into());
    }
    app.require_trust()?;
    let (disk, layout) = (app.disk(None), app.config.layout());
    let library = Library::new(&disk);
    let (_, definition) = find_flow(&library, &args.name, &layout)?;
    app.warn_unapplied();
    app.announce_override("flow", "flows", &args.name);
    let phases: BTreeSet<&str> = definition.phase.iter().map(|phase| phase.name.as_str()).collect();
    let known = |name: &str| {
        let wrong = || usage_error(format!("the flow `{}` has no phase `{name}`", args.name));
        let all: Vec<&str> = phases.iter().copied().collect();
        let told =
            || wrong().suggest(name, all.iter().copied()).hint(format!("its phases: {}", all.join(", ")));
        if phases.contains(name) { Ok(()) } else { Err(Diagnostics::from(told())) }
    };
    let folded = |named: &str| {
        let (agent, model) =
            named.split_once(':').map_or((named, None), |(agent, model)| (agent, Some(model)));
        let agent = resolve_agent_name(&library, agent.to_owned(), &layout);
        model.map_or(agent.clone(), |model| format!("{agent}:{model}"))
    };
    let mut agents = BTreeMap::new();
    for item in &args.agent_for {
        let (phase, agent) = item
            .split_once('=')
            .ok_or_else(|| usage_error(format!("--agent-for takes PHASE=NAME, not `{item}`")))?;
        known(phase)?;
        agents.insert(phase.to_owned(), folded(agent));
    }
    args.with.iter().try_for_each(|phase| known(phase))?;
    if args.max_cost.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
        return Err(usage_error("--max-cost has to be above 0").into());
    }
    let home = app.config.flow_folder(definition.folder).trim_end_matches('/').to_owned();
    let folder = app.project.join(&home);
    let is_taken = |name: &str| folder.join(name).exists() || folder.join("archive").join(name).exists();
    let name = match &args.id {
        Some(id) if !callsheet_core::is_name(id) || id == "archive" => {
            return Err(usage_error(format!("`{id}` cannot be the name of a folder")).into());
        }
        Some(id) if is_taken(id) => {
            let message = format!("there is a flow `{id}` already");
            return Err(Diagnostic::error(Code::RunRefused, message)
                .hint("`callsheet flow resume` goes on with one")
                .into());
        }
        Some(id) => id.clone(),
        None => choose_name(&args.request, is_taken),
    };
    let plan = FlowOptions {
        flow: args.name.clone(),
        home: Some(home).filter(|home| *home != format!(".callsheet/{}", definition.folder.name())),
        definition,
        name,
        agent: args
            .agent
            .as_deref()
            .map(folded)
            .or_else(|| app.config.agent.value.clone().filter(|_| args.program.is_empty())),
        agents,
        program: app.resolve_typed_program(&args.program),
        checks: merge_checks(app, &args.check)?,
        permit: args.permit.map_or(app.config.permit.value, |permit| permit.0),
        model: args.model.clone(),
        timeout_ms: args.timeout.or(app.config.timeout.value).map(HumanDuration::millis),
        project: Some(app.project_name()?),
        terminal: args.terminal,
        share: args.share,
        by_file: args.by_file,
    };
    let mut texts = secrets::program_words(&plan.program, &plan.checks);
    texts.push(("the request".into(), &args.request));
    secrets::refuse_secrets(app, None, &texts)?;
    // Report all missing programs before anything starts.
    let wanted =
        plan.definition.phase.iter().filter(|phase| !phase.optional || args.with.contains(&phase.name));
    let mut programs: BTreeSet<String> = plan.program.first().cloned().into_iter().collect();
    for phase in wanted {
        let agent = plan.agent(phase)?;
        let (_, agent) = callsheet_core::find_agent(&library, &agent, &layout)?;
        if plan.program.is_empty() {
            programs.extend(agent.start.and_then(|start| start.program));
        }
    }
    if plan.terminal {
        programs.insert("tmux".into());
    }
    let mut missing: Vec<Diagnostic> =
        programs.iter().filter_map(|name| missing_agent_program(name, &app.project)).collect();
    missing.extend(missing_check_programs(&plan.checks, &app.project));
    if !missing.is_empty() {
        return Err(Diagnostics(missing));
    }
    let max_cost = args.max_cost.or(app.config.max_cost.value).map(|cost| (cost * 1e6).round() as u64);
    let settings = FlowSettings {
        jobs: args.jobs.max(1),
        with: args.with.iter().cloned().collect(),
        single_coder: args.single_coder,
        max_cost,
    };
    let id = new_id().ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "an id could not be made"))?;
    let more = serde_json::to_value(&plan)
        .map_err(|error| Diagnostic::error(Code::OutputFailed, error.to_string()))?;
    let started = FlowEvent::Started { request: args.request.clone(), settings, more };
    let known = RecordedFlow::new(id, plan);
    app.print.print_status(&format!("flow {} in {}", known.id, known.plan.folder()));
    let mut ledger = app.create_ledger()?;
    let open = read_all(app, &mut ledger)?.into_iter().filter(|known| !known.state.has_ended());
    if let Err(failure) = report_leftovers(app, &open.map(|known| known.id.to_string()).collect::<Vec<_>>()) {
        app.print.print_note(&failure.to_string());
    }
    drive(app, ledger, known, |driver| driver.apply_event(started, app.caller()))
}

fn resume(app: &AppContext<'_>, flow: Option<&str>, same_prompt: bool) -> CommandResult {
    let mut ledger = app.write_ledger()?;
    let known = find_own(app, &mut ledger, flow)?;
    app.require_trust()?;
    drive(app, ledger, known, |driver| driver.resume(same_prompt))
}

fn decide(
    app: &AppContext<'_>,
    verdict: DecisionArg,
    text: Option<&str>,
    flow: Option<&str>,
    yes: bool,
) -> CommandResult {
    let refused = |message: String| Diagnostic::error(Code::RunRefused, message);
    app.refuse_below_guard()?;
    if std::env::var_os("CALLSHEET_RUN").is_some_and(|run| !run.is_empty()) {
        return Err(refused("an agent cannot decide about what it did".into()).into());
    }
    let decision = match (verdict, text.filter(|text| !text.trim().is_empty())) {
        (DecisionArg::Approve, _) => FlowDecision::Approve,
        (DecisionArg::Reject, _) => FlowDecision::Reject,
        (DecisionArg::Changes | DecisionArg::Answer, Some(text)) => FlowDecision::Changes(text.to_owned()),
        (DecisionArg::Changes, None) => return Err(usage_error("say what has to be changed").into()),
        (DecisionArg::Answer, None) => return Err(usage_error("say what the answer is").into()),
    };
    let mut ledger = app.write_ledger()?;
    app.refuse_below_ledger_guard(&mut ledger)?;
    let known = find_own(app, &mut ledger, flow)?;
    if known.state.has_ended() {
        let message = format!("the flow `{}` has ended: it is {}", known.plan.name, state_word(&known.state));
        return Err(refused(message).into());
    }
    if verdict == DecisionArg::Answer && known.state.questions().is_empty() {
        let message = format!("the flow `{}` asks nothing", known.plan.name);
        return Err(refused(message).hint("`callsheet flow status` says what it waits for").into());
    }
    let by = app.require_person(yes)?;
    // Rejecting ends the flow and starts no program, so it needs no trust.
    if decision != FlowDecision::Reject {
        app.require_trust()?;
    }
    if let FlowDecision::Changes(text) = &decision {
        secrets::refuse_secrets(app, None, &[("the changes".into(), text)])?;
    }
    drive(app, ledger, known, |driver| driver.decide(decision, by))
}

/// Performs the actions from `begin` and their consequences, until the flow ends or needs a person.
fn drive(
    app: &AppContext<'_>,
    mut ledger: Ledger,
    known: RecordedFlow,
    begin: impl FnOnce(&mut FlowDriver<'_>) -> Result<Vec<FlowAction>, Diagnostics>,
) -> CommandResult {
    let run_dir = RunDir::from_run(&known.id)?;
    let lock = run_dir.try_lock()?.ok_or_else(|| already_driven_error(&known.plan.name))?;
    // Another process may have driven the flow until just now.
    let known = RecordedFlow::read(&mut ledger, &known.id)?.unwrap_or(known);
    run_dir.clear_stop();
    let id = known.id.clone();
    let scope = Scope::default();
    let flow = Some(id.as_str());
    let share = known.plan.share;
    let claimed = claim_checkout(&ClaimRequest { id: &id, flow, dir: &app.project, scope: &scope, share })?;
    let interrupt = InterruptFlag::listen()?;
    let mut driver = FlowDriver::new(app, ledger, known, interrupt.clone())?;
    let actions = begin(&mut driver)?;
    let lanes = driver.lanes();
    let line = || match lanes.lock() {
        Ok(lanes) => lanes.values().map(|lane| lane.render_line()).collect::<Vec<_>>().join("  |  "),
        Err(_) => String::new(),
    };
    let driven = app.print.run_with_progress(line, || driver.drive(actions));
    let state = driver.state().clone();
    drop(driver);
    drop(claimed);
    drop(lock);
    if state.has_ended() {
        run_dir.remove();
    }
    driven?;
    let mut ledger = app.read_ledger()?;
    let known = RecordedFlow::read(&mut ledger, &id)?.ok_or_else(not_found_error)?;
    if app.print.json {
        app.print.print_stream_value(&status_json(app, &known, false))?;
    } else {
        app.print.write_data(status_page(app, &known, true).as_bytes())?;
        match state_word(&known.state) {
            "waiting" if !known.state.questions().is_empty() => {
                app.print.print_status("answer with `callsheet flow decide answer \"…\"`");
            }
            "waiting" => {
                app.print.print_status("decide with `callsheet flow decide approve|reject|changes \"…\"`")
            }
            _ => {}
        }
        if !new_preferences(app, &known.state.proposed).is_empty() {
            app.print.print_status("`callsheet prefs approve` stores what was proposed");
        }
    }
    Ok(match state_word(&state) {
        "done" => 0,
        _ if interrupt.is_set() => INTERRUPTED,
        _ => FINDING,
    })
}

fn already_driven_error(name: &str) -> Diagnostics {
    let error =
        Diagnostic::error(Code::RunRefused, format!("the flow `{name}` is driven by another process"));
    error.hint("`callsheet flow stop` stops it").into()
}

fn not_found_error() -> Diagnostics {
    Diagnostic::error(Code::TaskNotFound, "there is no such flow")
        .hint("`callsheet flow list` lists them")
        .into()
}

/// Returns the preferences that agents of this project's flows proposed and that are not stored yet.
pub(crate) fn find_proposed(
    app: &AppContext<'_>,
    ledger: &mut Ledger,
) -> Result<Vec<Preference>, Diagnostics> {
    let project = app.project_filter(ledger)?;
    let flows = read_all(app, ledger)?
        .into_iter()
        .filter(|known| !known.imported && is_in_project(known, project.as_ref()));
    let mut proposed: Vec<Preference> = Vec::new();
    for preference in flows.flat_map(|known| known.state.proposed) {
        if !proposed.contains(&preference) {
            proposed.push(preference);
        }
    }
    Ok(new_preferences(app, &proposed))
}

/// Returns every flow of the ledger, oldest first.
fn read_all(app: &AppContext<'_>, ledger: &mut Ledger) -> Result<Vec<RecordedFlow>, Diagnostics> {
    let ids = ledger.flows().map_err(ledger_diagnostics)?;
    let mut all = Vec::new();
    for id in ids {
        match RecordedFlow::read(ledger, &id) {
            Ok(known) => all.extend(known),
            // An unreadable flow must not hide the others.
            Err(Diagnostics(diags)) => app.print.print_diagnostics(&diags),
        }
    }
    Ok(all)
}

/// Checks whether a flow belongs to the selected project.
fn is_in_project(known: &RecordedFlow, project: Option<&ProjectFilter>) -> bool {
    let own = known.plan.project.as_ref();
    project.is_none_or(|project| own.map_or(project.unnamed, |own| *own == project.name))
}

/// Finds the flow for a command that continues it: it must belong to this project and must not be imported.
fn find_own(
    app: &AppContext<'_>,
    ledger: &mut Ledger,
    name: Option<&str>,
) -> Result<RecordedFlow, Diagnostics> {
    let known = find_recorded(app, ledger, name)?;
    let what = format!("the flow `{}`", known.plan.name);
    if known.imported {
        return Err(imported_error(&what));
    }
    match app.project_filter(ledger)? {
        Some(project) if !is_in_project(&known, Some(&project)) => {
            Err(other_project_error(&what, known.plan.project.as_deref(), &project.name))
        }
        _ => Ok(known),
    }
}

/// Finds the named flow, by its folder within this project or by its id among all flows. Without a name,
/// finds the newest open flow, or else the newest.
fn find_recorded(
    app: &AppContext<'_>,
    ledger: &mut Ledger,
    name: Option<&str>,
) -> Result<RecordedFlow, Diagnostics> {
    let project = app.project_filter(ledger)?;
    let mut flows = read_all(app, ledger)?;
    let Some(name) = name else {
        flows.retain(|known| !known.imported && is_in_project(known, project.as_ref()));
        let open = flows.iter().rposition(|known| !known.state.has_ended());
        let newest = open.or_else(|| flows.len().checked_sub(1));
        return newest.map(|at| flows.swap_remove(at)).ok_or_else(not_found_error);
    };
    let mut fits: Vec<RecordedFlow> = flows
        .into_iter()
        .filter(|known| {
            let named = known.plan.name == name && is_in_project(known, project.as_ref());
            named || known.id.as_str().starts_with(name)
        })
        .collect();
    match fits.len() {
        0 => Err(not_found_error()),
        1 => Ok(fits.remove(0)),
        _ => {
            let ids = fits.iter().map(|known| known.id.to_string());
            Err(Diagnostic::error(Code::RunAmbiguous, format!("several flows are called `{name}`"))
                .searched(ids)
                .into())
        }
    }
}

fn print_status(app: &AppContext<'_>, flow: Option<&str>, watch: bool) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let mut last = String::new();
    loop {
        let known = find_recorded(app, &mut ledger, flow)?;
        let driven = is_driven(&known.id);
        let page = match app.print.json {
            true => format!("{}\n", status_json(app, &known, driven)),
            false => status_page(app, &known, driven),
        };
        if page != last {
            if app.print.json {
                app.print.print_stream_value(&status_json(app, &known, driven))?;
            } else {
                app.print.write_data(page.as_bytes())?;
            }
            last = page;
        }
        if !watch || state_word(&known.state) != "running" {
            return Ok(0);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn stop(app: &AppContext<'_>, flow: Option<&str>) -> CommandResult {
    let mut ledger = app.write_ledger()?;
    let known = find_own(app, &mut ledger, flow)?;
    let refused = |message: String| Diagnostics::from(Diagnostic::error(Code::RunRefused, message));
    let run_dir = RunDir::from_run(&known.id)?;
    if !is_driven(&known.id) {
        let id = known.id.clone();
        if !known.state.stopped && !known.state.has_ended() {
            let _seat = run_dir.try_lock()?.ok_or_else(|| already_driven_error(&known.plan.name))?;
            let known = RecordedFlow::read(&mut ledger, &id)?.unwrap_or(known);
            FlowDriver::new(app, ledger, known, InterruptFlag::default())?.stop()?;
        }
        return print_status(app, Some(id.as_str()), false);
    }
    run_dir.request_stop()?;
    for _ in 0..600 {
        if !is_driven(&known.id) {
            return print_status(app, Some(known.id.as_str()), false);
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(refused(format!("the flow `{}` was told to stop, and has not yet", known.plan.name)))
}

fn list(app: &AppContext<'_>) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let project = app.project_filter(&ledger)?;
    let mut flows = read_all(app, &mut ledger)?;
    flows.retain(|known| is_in_project(known, project.as_ref()));
    flows.reverse();
    if app.print.json {
        let all: Vec<_> = flows.iter().map(|known| status_json(app, known, is_driven(&known.id))).collect();
        return app.print.print_value(&json!({ "flows": all }));
    }
    let page: String = flows
        .iter()
        .map(|known| {
            let started = known.times.0.get(..19).unwrap_or_default();
            let (name, flow) = (&known.plan.name, &known.plan.flow);
            format!(
                "{started}  {flow:<8} {:<10} {:<20} {name}\n",
                state_word(&known.state),
                known.state.phase
            )
        })
        .collect();
    app.print.write_data(page.as_bytes())?;
    Ok(0)
}

fn print_graph(app: &AppContext<'_>, name: Option<&str>) -> CommandResult {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let is_file =
        name.is_some_and(|name| list_names(&disk, "flows", &layout).iter().any(|known| known == name));
    let text = if let Some(name) = name.filter(|_| is_file) {
        draw_graph(&find_flow(&Library::new(&disk), name, &layout)?.1, None)
    } else {
        let known = find_recorded(app, &mut app.read_ledger()?, name)?;
        draw_graph(&known.plan.definition, Some(&known.state))
    };
    // The check names in a project's flow may contain control characters.
    let shown: String = text.lines().map(|line| format!("{}\n", escape_invisible(line))).collect();
    app.print.write_data(shown.as_bytes())?;
    Ok(0)
}
