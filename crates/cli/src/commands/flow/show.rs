//! Prints flows: the report about one, the list of them, and their graph.

use callsheet::error::{CommandResult, FINDING, INTERRUPTED};
use callsheet::flow::find::find_recorded;
use callsheet::flow::steps::FlowReport;
use callsheet::output::{FlowGraphOutput, FlowOutput, FlowStatusOutput, ListOutput};
use callsheet::session::new_preferences;
use callsheet_core::diag::escape_invisible;
use callsheet_core::flow::{FlowCondition, draw_graph, find_flow, read_graph};
use callsheet_core::{Library, list_names};

use crate::context::CommandContext;
use crate::pages::flow_status::{flows_page, status_page};

/// Prints a flow after it was driven, and the next commands.
pub(crate) fn print_report(app: &CommandContext, report: FlowReport) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let view = app.view_recorded(&mut ledger, report.flow)?;
    let runs = view.read_runs(&mut ledger)?;
    let state = &view.known.state;
    if app.print.json {
        app.print.print_stream_line(&FlowStatusOutput::new(app, &view, &runs))?;
    } else {
        app.print.print_page(&status_page(&app.print, app, &view, &runs))?;
        if !new_preferences(app, &state.proposed).is_empty() {
            app.print.print_status("store the proposed preferences with `callsheet prefs approve`");
        }
    }
    Ok(match state.condition() {
        FlowCondition::Done => 0,
        _ if report.interrupted => INTERRUPTED,
        _ => FINDING,
    })
}

/// Prints the flows of the project, the newest first.
pub(crate) fn list(app: &CommandContext) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let views = app.all_flows(&mut ledger)?;
    let output = || views.iter().map(|view| FlowOutput::new(app, view)).collect::<ListOutput<_>>();
    app.print.print_output(output, || flows_page(&views))
}

/// Prints a flow as a diagram.
pub(crate) fn print_graph(app: &CommandContext, name: Option<&str>) -> CommandResult {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let is_file =
        name.is_some_and(|name| list_names(&disk, "flows", &layout).iter().any(|known| known == name));
    let (definition, flow, graph) = if let Some(name) = name.filter(|_| is_file) {
        (name.to_owned(), None, read_graph(&find_flow(&Library::new(&disk), name, &layout)?.1, None))
    } else {
        let known = find_recorded(app, &mut app.read_ledger()?, name)?;
        let graph = read_graph(&known.plan.definition, Some(&known.state));
        (known.plan.flow, Some(known.id), graph)
    };
    let mermaid = draw_graph(&graph);
    // The check names in a project's flow may contain control characters.
    let shown = || mermaid.lines().map(|line| format!("{}\n", escape_invisible(line))).collect();
    app.print.print_output(|| FlowGraphOutput { definition, flow, graph, mermaid: mermaid.clone() }, shown)
}
