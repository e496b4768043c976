//! `callsheet log`: lists the recorded runs, newest first.

use callsheet_core::diag::escape_invisible;
use callsheet_store::{RunFilter, RunRow};
use serde_json::{Value, json};

use crate::context::CommandContext;
use crate::print::TextStyle;
use callsheet::error::{CommandResult, usage_error};
use callsheet::ledger::ledger_diagnostics;

/// List recorded runs, the newest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only runs of this agent
    #[arg(short, long, value_name = "NAME")]
    agent: Option<String>,
    /// Only runs of this phase
    #[arg(short, long, value_name = "NAME")]
    phase: Option<String>,
    /// Only runs of this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only runs with this verdict, such as PASS
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// Only runs from then on, such as 2026-01-31 or 2026-01-31T12:00 (UTC)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs up to then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The most runs that are listed
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    for time in args.since.iter().chain(&args.until) {
        let digits = time.bytes().take(4).all(|byte| byte.is_ascii_digit());
        if time.len() < 4
            || !digits
            || !time.bytes().all(|byte| byte.is_ascii_digit() || b"-:T.Z".contains(&byte))
        {
            return Err(usage_error(format!("`{time}` is not a time such as 2026-01-31T12:00")).into());
        }
    }
    let mut ledger = app.read_ledger()?;
    let filter = RunFilter {
        project: app.project_filter(&ledger)?,
        own: false,
        agent: args.agent.clone(),
        phase: args.phase.clone(),
        task: args.task.clone(),
        verdict: args.verdict.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
        limit: args.limit,
    };
    let rows = ledger.runs(&filter).map_err(ledger_diagnostics)?;
    if app.print.json {
        let mut runs = Vec::new();
        for row in &rows {
            let mut object = row_json(row);
            // The sources of a run that an older version recorded may be gone.
            object["profile"] =
                json!(ledger.prompt_record(&row.run.id).ok().and_then(|composed| composed.profile));
            runs.push(object);
        }
        return app.print.print_value(&json!({ "runs": runs }));
    }
    let head = ["RUN", "STARTED", "AGENT", "PHASE", "TASK", "RECIPE", "ENDED", "VERDICT"].map(str::to_owned);
    let mut table: Vec<[String; 8]> = vec![head];
    table.extend(rows.iter().map(row_cells));
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut page = String::new();
    for (at, row) in table.iter().enumerate() {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        let line =
            if at == 0 { app.print.paint(TextStyle::Bold, line.trim_end()) } else { line.trim_end().into() };
        page.push_str(&format!("{line}\n"));
    }
    app.print.write_data(page.as_bytes())?;
    Ok(0)
}

fn row_cells(row: &RunRow) -> [String; 8] {
    // Microseconds are noise in a list.
    let started = row.run.started.get(..19).unwrap_or(&row.run.started);
    let text = |text: Option<&str>| escape_invisible(text.unwrap_or("-")).into_owned();
    [
        row.run.id.to_string(),
        escape_invisible(started).into_owned(),
        text(row.run.agent.as_deref()),
        text(row.run.phase.as_deref()),
        text(row.run.task.as_deref()),
        text(Some(&row.run.recipe)),
        text(row.ended.as_deref()),
        text(row.verdict.as_deref()),
    ]
}

/// Describes a run as JSON: its task, agent, phase and role, its end, and its verdict.
pub(crate) fn row_json(row: &RunRow) -> Value {
    let mut object = json!({ "id": row.run.id, "seq": row.seq });
    let run = json!(row.run);
    for key in ["parent", "task", "agent", "phase", "role", "recipe", "started", "project"] {
        object[key] = run[key].clone();
    }
    object["ended"] = json!(row.ended);
    object["verdict"] = json!(row.verdict);
    if row.imported {
        object["imported"] = json!(true);
    }
    object
}
