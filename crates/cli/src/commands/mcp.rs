//! `callsheet mcp`: serves a session's submission tools, templates and artifacts to agents that speak MCP.

use std::path::PathBuf;

use callsheet_core::library::lookup::list_roles;
use callsheet_core::record::Id;
use callsheet_core::submission::list_tools;

use crate::context::CommandContext;
use callsheet::error::{CommandResult, Result, usage_error};
use callsheet::project::state::RunDir;
use callsheet::session::SessionDir;
use callsheet_mcp::{SessionServer, SubmittingRun, serve};

use crate::mcp_install::{McpClient, install};

/// Start an MCP server for a session on standard input and output
///
/// Its tools accept submissions, its prompts are the project's templates, and its resources are the session's files.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(flatten)]
    serve: ServeArgs,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Write submissions to this session directory [default: the project]
    #[arg(long, value_name = "DIR")]
    session: Option<PathBuf>,
    /// Accept submissions only from processes that the agent of this run started, until the run ends
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The state directory of the process that drives the run: some agents start servers without their own environment
    #[arg(long, value_name = "DIR", requires = "run", hide = true)]
    state: Option<PathBuf>,
    /// No person is there to approve preferences: they are only proposed
    #[arg(long, requires = "run", hide = true)]
    proposes: bool,
    /// Offer only the tools of this role
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Print the configuration that connects a client to this server; add --write to write it
    Install {
        #[arg(long, value_name = "CLIENT")]
        client: McpClient,
        /// Write the entry to the client's configuration, and keep everything else in the file
        #[arg(long)]
        write: bool,
        #[command(flatten)]
        serve: ServeArgs,
    },
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    match &args.command {
        None => {
            let mut session = SessionDir::open(app, args.serve.session.as_deref())?;
            session.proposes = args.serve.proposes;
            check_role(&session, args.serve.role.as_deref())?;
            let tools = list_tools(&session.disk, &session.layout, args.serve.role.as_deref())?;
            let agent = app.config.agent.value.clone();
            app.require_evidence_trust()?;
            let secrets =
                callsheet::compose::secrets::choose_mode(app, None, callsheet::compose::Purpose::Print)?;
            let run = args.serve.run.as_deref();
            let run = run.map(|run| build_submitting_run(run, &args.serve)).transpose()?;
            serve(SessionServer { session, tools, agent, secrets, run })
        }
        Some(McpCommand::Install { client, write, serve }) => {
            let session = SessionDir::open(app, serve.session.as_deref())?;
            check_role(&session, serve.role.as_deref())?;
            install(app, *client, &session, serve.role.as_deref(), *write)
        }
    }
}

/// Returns the submitting run for a full run id.
fn build_submitting_run(run: &str, serve: &ServeArgs) -> Result<SubmittingRun> {
    let id = Id::parse(run).ok_or_else(|| usage_error(format!("`{run}` is not a full run id")))?;
    let run_dir = serve
        .state
        .as_ref()
        .map_or_else(|| RunDir::from_run(&id), |state| Ok(RunDir::from_state_dir(state, &id)))?;
    Ok(SubmittingRun { run_dir, id, role: serve.role.clone() })
}

fn check_role(session: &SessionDir, role: Option<&str>) -> Result<()> {
    let Some(role) = role else { return Ok(()) };
    let known = list_roles(&session.disk, &session.layout);
    if known.iter().any(|known| known == role) {
        return Ok(());
    }
    let wrong = usage_error(format!("unknown role `{role}`"));
    let wrong = wrong.suggest(role, known.iter().map(String::as_str));
    Err(wrong.hint(format!("known roles: {}", known.join(", "))).into())
}
