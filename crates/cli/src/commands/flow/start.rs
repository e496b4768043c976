//! The arguments of `callsheet flow start`.

use callsheet::compose::input_reader::read_input;
use callsheet::error::Result;
use callsheet::flow::start::FlowStart;
use callsheet::project::duration::HumanDuration;

use crate::args::PermitArg;
use crate::context::CommandContext;
use crate::run_args::SplitArgs;

/// Start a flow
#[derive(Debug, clap::Args)]
pub(crate) struct FlowStartArgs {
    /// The flow: sdd, staged, or a file in .callsheet/flows/
    #[arg(value_name = "NAME")]
    name: String,
    /// The change to make; - reads it from standard input
    #[arg(value_name = "REQUEST", required_unless_present = "file")]
    request: Option<String>,
    /// Read the request from a file
    #[arg(long, value_name = "PATH", conflicts_with = "request")]
    file: Option<String>,
    /// The agent for every phase
    #[arg(short, long, value_name = "NAME[:MODEL]")]
    agent: Option<String>,
    /// The agent for one phase
    #[arg(long, value_name = "PHASE=NAME[:MODEL]")]
    agent_for: Vec<String>,
    /// Include an optional phase, such as product_management
    #[arg(long, value_name = "PHASE")]
    with: Vec<String>,
    /// Let one coder implement the whole plan
    #[arg(long)]
    single_coder: bool,
    /// Let the agents run a command without asking, with the permission edit: `pytest -q`, or `pytest *` with any further
    /// arguments
    #[arg(long, value_name = "COMMAND")]
    allow: Vec<String>,
    /// Run CMD in the worktree after each run, as evidence for the flow
    #[arg(long, value_name = "NAME=CMD")]
    check: Vec<String>,
    /// The maximum number of lanes that run at once
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: u32,
    /// The maximum cost in dollars before callsheet asks you, if the agents report their cost
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// The time limit of each run
    #[arg(long, value_name = "TIME")]
    timeout: Option<HumanDuration>,
    /// The permissions of the agents [default: the configured ones; else edit]
    #[arg(long, value_name = "WHAT")]
    permit: Option<PermitArg>,
    /// The model of the agents [default: their own]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Run each agent in a tmux terminal, and print the command that attaches to it
    #[arg(long, conflicts_with = "program")]
    terminal: bool,
    /// Share the checkout with other runs; changes in it are then attributed to none of them
    #[arg(long)]
    share: bool,
    /// Let agents submit by files, even if they support MCP
    #[arg(long)]
    by_file: bool,
    #[command(flatten)]
    split: SplitArgs,
    /// The name of the flow's folder [default: the first words of the request]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// A program that replaces every agent; it gets each prompt on standard input
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

impl FlowStartArgs {
    pub(crate) fn to_start(&self, app: &CommandContext) -> Result<FlowStart> {
        Ok(FlowStart {
            name: self.name.clone(),
            request: self.read_request(app)?,
            agent: self.agent.clone(),
            agent_for: self.agent_for.clone(),
            with: self.with.clone(),
            single_coder: self.single_coder,
            allow: self.allow.clone(),
            checks: self.check.clone(),
            jobs: self.jobs,
            max_cost: self.max_cost,
            timeout: self.timeout,
            permit: self.permit.map(|permit| permit.0),
            model: self.model.clone(),
            terminal: self.terminal,
            share: self.share,
            by_file: self.by_file,
            split: self.split.to_choice(),
            id: self.id.clone(),
            program: self.program.clone(),
        })
    }

    /// Returns the request: the argument, or the text of a file or of standard input.
    fn read_request(&self, app: &CommandContext) -> Result<String> {
        match (&self.request, &self.file) {
            (Some(request), None) if request != "-" => Ok(request.clone()),
            (_, file) => Ok(read_input(app, file.as_deref().unwrap_or("-"))?.to_string()),
        }
    }
}
