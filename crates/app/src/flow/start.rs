//! Checks the options of a new flow.

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::flow::{FlowEvent, FlowSettings, Phase, find_flow};
use callsheet_core::library::agent::{Agent, DeliveryMethod, PermissionLevel};
use callsheet_core::record::RunOptions;
use callsheet_core::{Library, resolve_agent_name};
use callsheet_store::new_id;

use super::{FlowOptions, RecordedFlow, choose_name};
use crate::compose::secrets;
use crate::error::{Error, Result, usage_error};
use crate::project::Project;
use crate::project::config_merge::lower_limit;
use crate::project::duration::HumanDuration;
use crate::run::allowed::parse_commands;
use crate::run::checks::merge_checks;
use crate::run::cost::{CostLimitKind, CostMeter, check_cost_limit};
use crate::run::result::micro_dollars;
use crate::run::{missing_agent_program, missing_check_programs};

/// How to start a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStart {
    /// The name of the flow, such as `sdd`.
    pub name: String,
    /// The task in words.
    pub request: String,
    /// The agent of every phase, as `NAME` or `NAME:MODEL`.
    pub agent: Option<String>,
    /// Agents of single phases, as `PHASE=NAME` or `PHASE=NAME:MODEL`.
    pub agent_for: Vec<String>,
    /// Optional phases that are wanted.
    pub with: Vec<String>,
    /// Whether one coder does the whole plan.
    pub single_coder: bool,
    /// Commands that the agents may run without asking, besides the configured ones.
    pub allow: Vec<String>,
    /// Checks as `NAME=CMD`, besides the configured ones.
    pub checks: Vec<String>,
    /// The most lanes that run at once; at least one.
    pub jobs: u32,
    /// The cost in dollars after which a person is asked.
    pub max_cost: Option<f64>,
    /// The time limit of each run.
    pub timeout: Option<HumanDuration>,
    /// The permission level; else the configured one.
    pub permit: Option<PermissionLevel>,
    /// The model; else that of the agents.
    pub model: Option<String>,
    /// Whether agents work in terminals.
    pub terminal: bool,
    /// Whether other runs may work in the same checkout.
    pub share: bool,
    /// Whether agents submit files even if they could use the MCP server.
    pub by_file: bool,
    /// Whether prompts are delivered in two parts; else the configuration or the agents' files decide.
    pub split: Option<bool>,
    /// The name of the flow's folder; else the first words of the request.
    pub id: Option<String>,
    /// A program with its arguments that replaces every agent.
    pub program: Vec<String>,
}

/// Checks the options of a new flow, and returns the flow with its first event. Nothing is recorded yet.
pub(super) fn prepare_start(
    project: &Project,
    args: &FlowStart,
    starts_agents: bool,
) -> Result<(RecordedFlow, FlowEvent)> {
    if args.request.trim().is_empty() {
        return Err(usage_error("the request is empty").into());
    }
    project.require_trust()?;
    let (disk, layout) = (project.disk(None), project.config.layout());
    let library = Library::new(&disk);
    let (_, definition) = find_flow(&library, &args.name, &layout)?;
    project.warn_unapplied();
    project.announce_override("flow", "flows", &args.name);
    let phases: BTreeSet<&str> = definition.phase.iter().map(|phase| phase.name.as_str()).collect();
    let known = |name: &str| {
        let wrong = || usage_error(format!("the flow `{}` has no phase `{name}`", args.name));
        let all: Vec<&str> = phases.iter().copied().collect();
        let error =
            || wrong().suggest(name, all.iter().copied()).hint(format!("its phases: {}", all.join(", ")));
        if phases.contains(name) { Ok(()) } else { Err(Error::from(error())) }
    };
    let folded = |named: &str| {
        let (agent, model) =
            named.split_once(':').map_or((named, None), |(agent, model)| (agent, Some(model)));
        let agent = resolve_agent_name(&library, agent.to_owned(), &layout);
        model.map_or(agent.clone(), |model| format!("{agent}:{model}"))
    };
    let mut agents = BTreeMap::new();
    for item in &args.agent_for {
        let (phase, agent) = item.split_once('=').ok_or_else(|| {
            usage_error(format!("invalid value `{item}` for `--agent-for`: expected PHASE=NAME"))
        })?;
        known(phase)?;
        agents.insert(phase.to_owned(), folded(agent));
    }
    args.with.iter().try_for_each(|phase| known(phase))?;
    if args.max_cost.is_some_and(|cost| !cost.is_finite() || cost <= 0.0) {
        return Err(usage_error("`--max-cost` must be greater than 0").into());
    }
    let home = project.config.flow_folder(definition.folder).trim_end_matches('/').to_owned();
    let folder = project.dir.join(&home);
    let is_taken = |name: &str| folder.join(name).exists() || folder.join("archive").join(name).exists();
    let name = match &args.id {
        Some(id) if !callsheet_core::is_name(id) || id == "archive" => {
            return Err(usage_error(format!("`{id}` is not a valid folder name")).into());
        }
        Some(id) if is_taken(id) => {
            let message = format!("a flow named `{id}` already exists");
            return Err(Diagnostic::error(Code::RunRefused, message)
                .hint(format!("continue it with `callsheet flow resume {id}`"))
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
            .or_else(|| project.config.agent.value.clone().filter(|_| args.program.is_empty())),
        agents,
        run: RunOptions {
            program: project.resolve_typed_program(&args.program),
            allow: parse_commands(&args.allow)?.iter().map(ToString::to_string).collect(),
            checks: merge_checks(project, &args.checks)?,
            permit: args.permit.unwrap_or(project.config.permit.value),
            model: args.model.clone(),
            timeout_ms: args.timeout.or(project.config.timeout.value).map(HumanDuration::millis),
            share: args.share,
            split: args.split.or(project.config.split.value),
            ..RunOptions::default()
        },
        project: Some(project.project_name()?),
        terminal: args.terminal,
        by_file: args.by_file,
    };
    let mut texts = secrets::program_words(&plan.run);
    texts.push(("the request".into(), &args.request));
    secrets::refuse_secrets(project, None, &texts)?;
    // Report all missing programs before anything starts.
    let wanted =
        plan.definition.phase.iter().filter(|phase| !phase.optional || args.with.contains(&phase.name));
    let mut programs: BTreeSet<String> = plan.run.program.first().cloned().into_iter().collect();
    let mut can_split = false;
    for phase in wanted {
        let agent = plan.agent(phase)?;
        let (_, agent) = callsheet_core::find_agent(&library, &agent, &layout)?;
        check_phase_cost(project, args, &plan, phase, &agent)?;
        can_split |= agent.can_split() && !plan.terminal;
        if plan.run.program.is_empty() {
            programs.extend(agent.start.and_then(|start| start.program));
        }
    }
    if args.split == Some(true) && !can_split {
        return Err(Diagnostic::error(
            Code::DeliverRefused,
            "no agent of the flow can add a text to its system prompt",
        )
        .hint("remove `--split`, or use one that can: of the shipped agents, claude and codex")
        .into());
    }
    if plan.terminal {
        programs.insert("tmux".into());
    }
    if !starts_agents {
        programs.clear();
    }
    let mut missing: Vec<Diagnostic> =
        programs.iter().filter_map(|name| missing_agent_program(name, &project.dir)).collect();
    missing.extend(missing_check_programs(&plan.run.checks, &project.dir));
    if !missing.is_empty() {
        return Err(Diagnostics(missing).into());
    }
    let config = &project.config;
    let max_cost = args.max_cost.or(config.max_cost_per_flow.value).or(config.max_cost.value);
    let max_cost = lower_limit(max_cost, config.hard.max_cost_per_flow).map(micro_dollars);
    let settings = FlowSettings {
        jobs: args.jobs.max(1),
        with: args.with.iter().cloned().collect(),
        single_coder: args.single_coder,
        max_cost,
    };
    let id = new_id().ok_or_else(|| Diagnostic::error(Code::LedgerFailed, "cannot generate an id"))?;
    let more = serde_json::to_value(&plan)
        .map_err(|error| Diagnostic::error(Code::OutputFailed, error.to_string()))?;
    let started = FlowEvent::Started { request: args.request.clone(), settings, more };
    Ok((RecordedFlow::new(id, plan), started))
}

/// Refuses a cost limit that cannot be checked for the agent of a phase. A configured one is reported when the lane runs.
fn check_phase_cost(
    project: &Project,
    args: &FlowStart,
    plan: &FlowOptions,
    phase: &Phase,
    agent: &Agent,
) -> Result<()> {
    let options = RunOptions { model: plan.model(phase), ..plan.run.clone() };
    let by = if plan.terminal { DeliveryMethod::Terminal } else { DeliveryMethod::Stdin };
    let meter = CostMeter::new(project, agent, &options)?;
    check_cost_limit(&meter, agent, by, args.max_cost.map(|_| CostLimitKind::Given)).map(drop)
}
