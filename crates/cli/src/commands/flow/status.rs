//! `callsheet flow status`: prints the flows that have not ended, or one flow.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use callsheet::error::CommandResult;
use callsheet::output::{FlowOutput, FlowStatusOutput, ListOutput, to_line};
use callsheet_core::flow::FlowCondition;

use crate::context::CommandContext;
use crate::html_file::write_html;
use crate::pages::flow_status::{open_flows_page, status_page};

/// Show the flows that have not ended; for one flow, why it waits, its runs, and the next commands
#[derive(Debug, clap::Args)]
pub(crate) struct FlowStatusArgs {
    /// The flow: its name, or the beginning of its id [default: all open flows; with --watch or --html, the newest]
    #[arg(value_name = "FLOW")]
    flow: Option<String>,
    /// Repeat until the flow has ended or waits for a person
    #[arg(long)]
    watch: bool,
    /// Write the flow as one page for a browser to a file that only its owner can read; - writes it to standard output
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    html: Option<PathBuf>,
}

pub(crate) fn run(app: &CommandContext, args: &FlowStatusArgs) -> CommandResult {
    let flow = args.flow.as_deref();
    match &args.html {
        Some(file) => write_html(app, &callsheet_web::flow_file(app, flow)?, file),
        None if flow.is_none() && !args.watch => print_open_flows(app),
        None => print_status(app, flow, args.watch),
    }
}

/// Prints the status of a flow, again and again with `watch` until it does not run any more.
pub(crate) fn print_status(app: &CommandContext, flow: Option<&str>, watch: bool) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let mut last = String::new();
    loop {
        let view = app.flow_view(&mut ledger, flow)?;
        let runs = view.read_runs(&mut ledger)?;
        let output = app.print.json.then(|| FlowStatusOutput::new(app, &view, &runs));
        let page = match &output {
            Some(output) => to_line(output),
            None => status_page(&app.print, app, &view, &runs),
        };
        if page != last {
            match &output {
                Some(output) if watch => drop(app.print.print_stream_line(output)?),
                Some(output) => drop(app.print.print_json(output)?),
                None => drop(app.print.print_page(&page)?),
            }
            last = page;
        }
        if !watch || view.known.state.condition() != FlowCondition::Running {
            return Ok(0);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Prints the flows of the project that have not ended, the newest first.
fn print_open_flows(app: &CommandContext) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let views = app.open_flows(&mut ledger)?;
    if views.is_empty() {
        app.print.print_status("no flow is open; `callsheet flow list` lists those that have ended");
    }
    let output = || views.iter().map(|view| FlowOutput::new(app, view)).collect::<ListOutput<_>>();
    let page = || if views.is_empty() { String::new() } else { open_flows_page(&app.print, &views) };
    app.print.print_output(output, page)
}
