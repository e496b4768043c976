//! `callsheet serve`: serves the page of the ledger to a browser on this machine.

use std::process::Stdio;

use callsheet::InterruptFlag;
use callsheet::error::{CommandResult, Result};
use callsheet::output::ServeOutput;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::{find_program, new_command};
use callsheet_web::{ServeOptions, ServedPage, serve};

use crate::context::CommandContext;

/// Show runs, prompts with their origins, changes and flows in a browser, until interrupted
///
/// Listens on 127.0.0.1 only, and prints an address with a random token. Every browser that opens it gets a cookie; requests
/// without this cookie are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in your browser (by `xdg-open`, or `open` on macOS)
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let options = ServeOptions { port: args.port, interrupt: InterruptFlag::listen()? };
    let project = callsheet::Project::clone(app);
    serve(project, options, |page| announce_page(app, page, args.open))?;
    Ok(0)
}

fn announce_page(app: &CommandContext, page: &ServedPage, open: bool) -> Result<()> {
    let address = page.token_address();
    app.print
        .print_output(|| ServeOutput::new(address.clone(), page.address.port()), || format!("{address}\n"))?;
    if open && let Err(problem) = open_browser(app, &page.code_address()?) {
        app.print.print_diagnostics([&problem]);
    }
    app.print.print_status("press Ctrl-C to end");
    Ok(())
}

/// The programs that open an address in the browser of the user.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Opens an address in the browser of the user. Other users of the machine can see it, so it is void after its first use.
fn open_browser(app: &CommandContext, address: &str) -> Result<(), Diagnostic> {
    let path = std::env::var_os("PATH");
    let found = OPENERS.iter().find_map(|name| find_program(name, path.as_deref(), &app.dir).ok());
    let warn = |message: String| {
        Diagnostic::warning(Code::ProgramNotFound, message)
            .hint("open the printed address in a browser yourself")
    };
    let program = found
        .ok_or_else(|| warn(format!("no program opens a browser: {} not found", OPENERS.join(" and "))))?;
    let mut command = new_command(&program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child =
        command.spawn().map_err(|error| warn(format!("cannot start `{}`: {error}", program.display())))?;
    // The program may stay until its browser ends.
    std::thread::spawn(move || child.wait());
    Ok(())
}
