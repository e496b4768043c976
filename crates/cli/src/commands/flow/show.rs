//! Prints flows: their status, the list of them, and their graph.

use std::thread;
use std::time::Duration;

use callsheet::error::{CommandResult, FINDING, INTERRUPTED};
use callsheet::flow::RecordedFlow;
use callsheet::flow::find::{find_recorded, is_in_project, read_all};
use callsheet::flow::steps::FlowReport;
use callsheet::output::{FlowGraphOutput, FlowOutput, ListOutput, to_line};
use callsheet::run::is_driven;
use callsheet::session::new_preferences;
use callsheet_core::diag::escape_invisible;
use callsheet_core::flow::{FlowCondition, draw_graph, find_flow};
use callsheet_core::{Library, list_names};

use crate::context::CommandContext;
use crate::pages::flow_status::{flow_line, status_page};

/// Prints a flow after it was driven, and the next command.
pub(crate) fn print_report(app: &CommandContext, report: &FlowReport) -> CommandResult {
    let known = &report.flow;
    if app.print.json {
        app.print.print_stream_line(&FlowOutput::new(app, known, false))?;
    } else {
        app.print.print_page(&status_page(&app.print, app, known, true))?;
        match known.state.condition() {
            FlowCondition::Waiting if !known.state.questions().is_empty() => {
                app.print.print_status("answer with `callsheet flow decide answer \"…\"`");
            }
            FlowCondition::Waiting if known.state.parked.is_some() => {
                app.print.print_status("continue with `callsheet flow resume` then, or at once with `callsheet flow decide approve`");
            }
            FlowCondition::Waiting => {
                app.print.print_status("decide with `callsheet flow decide approve|reject|changes \"…\"`")
            }
            _ => {}
        }
        if !new_preferences(app, &known.state.proposed).is_empty() {
            app.print.print_status("store the proposed preferences with `callsheet prefs approve`");
        }
    }
    Ok(match known.state.condition() {
        FlowCondition::Done => 0,
        _ if report.interrupted => INTERRUPTED,
        _ => FINDING,
    })
}

/// Prints the status of a flow, again and again with `watch` until it does not run any more.
pub(crate) fn print_status(app: &CommandContext, flow: Option<&str>, watch: bool) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let mut last = String::new();
    loop {
        let known = find_recorded(app, &mut ledger, flow)?;
        let driven = is_driven(&known.id);
        let output = app.print.json.then(|| FlowOutput::new(app, &known, driven));
        let page = match &output {
            Some(output) => to_line(output),
            None => status_page(&app.print, app, &known, driven),
        };
        if page != last {
            match &output {
                Some(output) if watch => drop(app.print.print_stream_line(output)?),
                Some(output) => drop(app.print.print_json(output)?),
                None => drop(app.print.print_page(&page)?),
            }
            last = page;
        }
        if !watch || known.state.condition() != FlowCondition::Running {
            return Ok(0);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Prints the flows of the project, the newest first.
pub(crate) fn list(app: &CommandContext) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let project = app.project_filter(&ledger)?;
    let mut flows = read_all(app, &mut ledger)?;
    flows.retain(|known| is_in_project(known, project.as_ref()));
    flows.reverse();
    let output = |known: &RecordedFlow| FlowOutput::new(app, known, is_driven(&known.id));
    app.print.print_output(
        || flows.iter().map(output).collect::<ListOutput<_>>(),
        || flows.iter().map(flow_line).collect(),
    )
}

/// Prints a flow as a diagram.
pub(crate) fn print_graph(app: &CommandContext, name: Option<&str>) -> CommandResult {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let is_file =
        name.is_some_and(|name| list_names(&disk, "flows", &layout).iter().any(|known| known == name));
    let (definition, flow, mermaid) = if let Some(name) = name.filter(|_| is_file) {
        (name.to_owned(), None, draw_graph(&find_flow(&Library::new(&disk), name, &layout)?.1, None))
    } else {
        let known = find_recorded(app, &mut app.read_ledger()?, name)?;
        let mermaid = draw_graph(&known.plan.definition, Some(&known.state));
        (known.plan.flow, Some(known.id), mermaid)
    };
    // The check names in a project's flow may contain control characters.
    let shown = || mermaid.lines().map(|line| format!("{}\n", escape_invisible(line))).collect();
    app.print.print_output(|| FlowGraphOutput { definition, flow, mermaid: mermaid.clone() }, shown)
}
