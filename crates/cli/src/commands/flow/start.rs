//! The arguments of `callsheet flow start`.

use callsheet::flow::start::FlowStart;
use callsheet::project::duration::HumanDuration;

use crate::args::PermitArg;

/// Start a flow
#[derive(Debug, clap::Args)]
pub(crate) struct FlowStartArgs {
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

impl FlowStartArgs {
    pub(crate) fn to_start(&self) -> FlowStart {
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
