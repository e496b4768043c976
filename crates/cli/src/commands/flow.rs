//! `callsheet flow`: drives a whole change, phase by phase.

use std::thread;
use std::time::Duration;

use callsheet::error::{CommandResult, FINDING, INTERRUPTED};
use callsheet::flow::find::{find_recorded, is_in_project, read_all};
use callsheet::flow::start::FlowStart;
use callsheet::flow::steps::{FlowChoice, FlowReport};
use callsheet::flow::{state_word, status_json};
use callsheet::project::duration::HumanDuration;
use callsheet::run::{InterruptFlag, is_driven};
use callsheet::session::new_preferences;
use callsheet_core::diag::escape_invisible;
use callsheet_core::flow::{draw_graph, find_flow};
use callsheet_core::{Library, list_names};
use serde_json::json;

use crate::args::PermitArg;
use crate::context::CommandContext;
use crate::pages::status_page;

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

impl FlowStartArgs {
    fn to_start(&self) -> FlowStart {
        FlowStart {
            name: self.name.clone(),
            request: self.request.clone(),
            agent: self.agent.clone(),
            agent_for: self.agent_for.clone(),
            with: self.with.clone(),
            single_coder: self.single_coder,
            checks: self.check.clone(),
            jobs: self.jobs,
            max_cost: self.max_cost,
            timeout: self.timeout,
            permit: self.permit.map(|permit| permit.0),
            model: self.model.clone(),
            terminal: self.terminal,
            share: self.share,
            by_file: self.by_file,
            id: self.id.clone(),
            program: self.program.clone(),
        }
    }
}

impl DecisionArg {
    fn to_choice(self, text: Option<&str>) -> FlowChoice {
        let text = text.unwrap_or_default().to_owned();
        match self {
            Self::Approve => FlowChoice::Approve,
            Self::Reject => FlowChoice::Reject,
            Self::Changes => FlowChoice::Changes(text),
            Self::Answer => FlowChoice::Answer(text),
        }
    }
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let interrupt = InterruptFlag::listen;
    match &args.command {
        FlowCommand::Start(start) => print_report(app, &app.start_flow(&start.to_start(), &interrupt()?)?),
        FlowCommand::Status { which, watch } => print_status(app, which.flow.as_deref(), *watch),
        FlowCommand::Resume { which, same_prompt } => {
            print_report(app, &app.resume_flow(which.flow.as_deref(), *same_prompt, &interrupt()?)?)
        }
        FlowCommand::Decide { decision, text, which, yes } => {
            let choice = decision.to_choice(text.as_deref());
            print_report(app, &app.decide_flow(which.flow.as_deref(), &choice, *yes, &interrupt()?)?)
        }
        FlowCommand::Stop(which) => {
            let stopped = app.stop_flow(which.flow.as_deref())?;
            print_status(app, Some(stopped.as_str()), false)
        }
        FlowCommand::List => list(app),
        FlowCommand::Graph { name } => print_graph(app, name.as_deref()),
    }
}

/// Prints a flow after it was driven, and the next command.
fn print_report(app: &CommandContext, report: &FlowReport) -> CommandResult {
    let known = &report.flow;
    if app.print.json {
        app.print.print_stream_value(&status_json(app, known, false))?;
    } else {
        app.print.write_data(status_page(&app.print, app, known, true).as_bytes())?;
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
    Ok(match state_word(&known.state) {
        "done" => 0,
        _ if report.interrupted => INTERRUPTED,
        _ => FINDING,
    })
}

fn print_status(app: &CommandContext, flow: Option<&str>, watch: bool) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let mut last = String::new();
    loop {
        let known = find_recorded(app, &mut ledger, flow)?;
        let driven = is_driven(&known.id);
        let page = match app.print.json {
            true => format!("{}\n", status_json(app, &known, driven)),
            false => status_page(&app.print, app, &known, driven),
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

fn list(app: &CommandContext) -> CommandResult {
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

fn print_graph(app: &CommandContext, name: Option<&str>) -> CommandResult {
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
