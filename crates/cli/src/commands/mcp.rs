//! `callsheet mcp`: the submission tools, templates and artifacts of a session for agents that speak MCP.

use std::path::PathBuf;

use callsheet_core::diag::Failure;
use callsheet_core::record::Id;
use callsheet_core::submission::{roles, tools};

use crate::app::App;
use crate::failure::{Outcome, usage};
use crate::mcp::{Client, Handing, Server, change, serve};
use crate::session::Session;
use crate::state::Desk;

/// Serve a session by the Model Context Protocol on standard input and output
///
/// Tools hand in what contracts ask for, prompts are the project's templates, resources are the session's files.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(flatten)]
    serve: Serve,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Where things are handed in [default: the project]
    #[arg(long, value_name = "DIR")]
    session: Option<PathBuf>,
    /// The run that submits: its guard must agree, and agrees only with processes below its agent until it ends
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The state directory of whoever drives the run: some agents start servers without their own environment
    #[arg(long, value_name = "DIR", requires = "run", hide = true)]
    state: Option<PathBuf>,
    /// Nobody is there to approve preferences: they are only proposed
    #[arg(long, requires = "run", hide = true)]
    proposes: bool,
    /// Only the tools that this role may use
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the change that attaches a client to this server; nothing is written without --write
    Install {
        #[arg(long, value_name = "CLIENT")]
        client: Client,
        /// Write it; everything else in the file stays
        #[arg(long)]
        write: bool,
        #[command(flatten)]
        serve: Serve,
    },
}

pub(crate) fn run(app: &App<'_>, args: &Args) -> Outcome {
    match &args.command {
        None => {
            let mut session = Session::open(app, args.serve.session.as_deref())?;
            session.proposes = args.serve.proposes;
            check_role(&session, args.serve.role.as_deref())?;
            let tools = tools(&session.disk, &session.layout, args.serve.role.as_deref())?;
            let agent = app.config.agent.value.clone();
            app.need_evidence()?;
            let secrets = crate::secrets::mode(app, None, crate::commands::compose::Then::Forget)?;
            let run = args.serve.run.as_deref();
            let run = run.map(|run| handing_in(run, &args.serve)).transpose()?;
            serve(Server { session, tools, agent, secrets, run })
        }
        Some(Command::Install { client, write, serve }) => {
            let session = Session::open(app, serve.session.as_deref())?;
            check_role(&session, serve.role.as_deref())?;
            change(app, *client, &session, serve.role.as_deref(), *write)
        }
    }
}

/// The run that hands things in, by its whole id.
fn handing_in(run: &str, serve: &Serve) -> Result<Handing, Failure> {
    let id = Id::parse(run).ok_or_else(|| usage(format!("`{run}` is not the whole id of a run")))?;
    let desk = serve.state.as_ref().map_or_else(|| Desk::of(&id), |state| Ok(Desk::below(state, &id)))?;
    Ok(Handing { desk, id, role: serve.role.clone() })
}

fn check_role(session: &Session, role: Option<&str>) -> Result<(), Failure> {
    let Some(role) = role else { return Ok(()) };
    let known = roles(&session.disk, &session.layout);
    if known.iter().any(|known| known == role) {
        return Ok(());
    }
    let wrong = usage(format!("there is no role `{role}`"));
    let wrong = wrong.suggest(role, known.iter().map(String::as_str));
    Err(wrong.hint(format!("roles that exist: {}", known.join(", "))).into())
}
