//! `callsheet show`: prints one recorded run.

use callsheet_core::diag::{Diagnostics, escape_invisible};
use callsheet_core::flow;
use callsheet_core::record::{Composed, Id, LogStream, RunSummary, locate_parts, restore_request};
use callsheet_store::{Ledger, RunRow};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::commands::explain::profile_line;
use crate::commands::log::row_json;
use crate::context::CommandContext;
use crate::pages::result_page;
use crate::print::{OutputPrinter, TextStyle};
use callsheet::error::CommandResult;
use callsheet::flow::RecordedFlow;
use callsheet::ledger::ledger_diagnostics;
use callsheet::run::result_json;

/// Show a recorded run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run's id, the beginning of one, last, or last~N for earlier ones
    run: String,
    /// Print the prompt, exactly as it was handed over
    #[arg(long, conflicts_with_all = ["origins", "records", "stream"])]
    prompt: bool,
    /// Print the prompt with the origin of every line
    #[arg(long, conflicts_with_all = ["records", "stream"])]
    origins: bool,
    /// Print the run's records
    #[arg(long, conflicts_with = "stream")]
    records: bool,
    /// Print what the agent printed; the prompt is meta
    #[arg(long, value_name = "STREAM")]
    stream: Option<StreamArg>,
    /// Only the last lines of the stream
    #[arg(long, value_name = "N", requires = "stream")]
    tail: Option<usize>,
    /// Only lines of the stream from this number on
    #[arg(long, value_name = "LINE", requires = "stream", default_value_t = 1)]
    since: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StreamArg {
    Meta,
    Stdout,
    Stderr,
}

impl StreamArg {
    const fn to_stream(self) -> LogStream {
        match self {
            Self::Meta => LogStream::Meta,
            Self::Stdout => LogStream::Stdout,
            Self::Stderr => LogStream::Stderr,
        }
    }
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let mut ledger = app.read_ledger()?;
    let row = app.find_run(&mut ledger, &args.run)?;
    if let Some(stream) = args.stream {
        return print_log(app, &mut ledger, &row, stream.to_stream(), args);
    }
    if args.records {
        return print_records(app, &mut ledger, &row);
    }
    if args.prompt {
        let text = ledger.prompt(&row.run.id).map_err(ledger_diagnostics)?;
        if app.print.json {
            return app.print.print_value(&json!({ "run": row.run.id, "text": text }));
        }
        app.print.write_data(text.as_bytes())?;
        return Ok(0);
    }
    let composed = ledger.prompt_record(&row.run.id).map_err(ledger_diagnostics)?;
    if args.origins {
        return print_origins(app, &mut ledger, &composed);
    }
    print_summary(app, &mut ledger, &row, &composed)
}

fn print_summary(
    app: &CommandContext,
    ledger: &mut Ledger,
    row: &RunRow,
    composed: &Composed,
) -> CommandResult {
    let sources = &composed.snapshot.texts;
    let records = ledger.records_of(&row.run.id).map_err(ledger_diagnostics)?;
    let account = ledger.run_summary(&row.run.id).map_err(ledger_diagnostics)?;
    if app.print.json {
        let request =
            ledger.with_blobs(|blob| restore_request(composed, blob)).map_err(ledger_diagnostics)?;
        let mut object = row_json(row);
        object["host"] = json!(composed.made_by.as_ref().map(|made_by| &made_by.host));
        object["user"] = json!(composed.made_by.as_ref().map(|made_by| &made_by.user));
        object["engine"] = composed.engine.into();
        object["profile"] = json!(composed.profile);
        object["request"] = json!(request);
        object["sources"] = json!(sources);
        object["prompt"] = json!({
            "sha256": composed.output.sha256,
            "bytes": composed.output.bytes,
            "format": composed.output.format,
            "api": composed.api,
        });
        object["warnings"] = json!(composed.warnings);
        object["records"] = records.len().into();
        if account.launch.is_some() {
            object["launch"] = json!(account.launch);
            object["result"] = result_json(&account);
        }
        object["refused"] = json!(find_refusals(ledger, &account)?);
        object["decisions"] = json!(account.decisions());
        return app.print.print_value(&object);
    }
    let print = &*app.print;
    let mut page = String::new();
    let mut field = |name: &str, value: &str| {
        page.push_str(&format!("{:10}{}\n", format!("{name}:"), escape_invisible(value)));
    };
    let run = &row.run;
    field("run", run.id.as_str());
    field("started", &run.started);
    let maybe = [
        ("parent", run.parent.as_ref().map(|id| id.as_str())),
        ("task", run.task.as_deref()),
        ("agent", run.agent.as_deref()),
        ("phase", run.phase.as_deref()),
        ("role", run.role.as_deref()),
        ("recipe", Some(run.recipe.as_str())),
        ("ended", row.ended.as_deref()),
        ("verdict", row.verdict.as_deref()),
        ("project", run.project.as_deref()),
        ("host", composed.made_by.as_ref().map(|made_by| made_by.host.as_str())),
        ("user", composed.made_by.as_ref().map(|made_by| made_by.user.as_str())),
        ("imported", row.imported.then_some("from an export of another ledger")),
    ];
    for (name, value) in maybe {
        if let Some(value) = value {
            field(name, value);
        }
    }
    if let Some(profile) = &composed.profile {
        field("profile", &profile_line(profile));
    }
    field("prompt", &format!("{} bytes, SHA-256 {}", composed.output.bytes, composed.output.sha256));
    field("engine", &composed.engine.to_string());
    field("records", &records.len().to_string());
    for decided in account.decisions() {
        field("decided", &format!("{} {} ({})", decided.decision, decided.what, decided.by.name()));
    }
    for reason in find_refusals(ledger, &account)? {
        field("refused", &reason);
    }
    if account.launch.is_some() {
        page.push_str(&format!("\n{}", result_page(print, &account)));
    }
    page.push_str(&format!("\n{}\n", print.paint(TextStyle::Bold, "Made of")));
    for origin in &composed.output.origins {
        page.push_str(&format!(
            "  {}  {} ({})\n",
            origin.version,
            escape_invisible(&origin.label()),
            origin.trust.name()
        ));
    }
    if !composed.warnings.is_empty() {
        page.push_str(&format!("\n{}\n", print.paint(TextStyle::Bold, "Warnings")));
    }
    for warning in &composed.warnings {
        page.push_str(&format!(
            "  [{}] {}\n",
            escape_invisible(&warning.code),
            escape_invisible(&warning.message)
        ));
    }
    print.write_data(page.as_bytes())?;
    Ok(0)
}

/// Returns the reasons why the run's last submission was refused, as its flow recorded them.
fn find_refusals(ledger: &mut Ledger, account: &RunSummary) -> Result<Vec<String>, Diagnostics> {
    let of_run = account.submitted.last().map(|last| last.refused.clone()).unwrap_or_default();
    let flow = account.launch.as_ref().and_then(|launch| Id::parse(launch.flow.get("flow")?));
    let Some(flow) = flow else { return Ok(of_run) };
    let known = RecordedFlow::read(ledger, &flow)?;
    let of_flow = known.into_iter().flat_map(|known| known.events).find_map(|event| match event {
        flow::FlowEvent::LaneEnded { run, refused, .. } if run == account.run.id.as_str() => Some(refused),
        _ => None,
    });
    Ok(of_flow.unwrap_or(of_run))
}

fn print_records(app: &CommandContext, ledger: &mut Ledger, row: &RunRow) -> CommandResult {
    let records = ledger.records_of(&row.run.id).map_err(ledger_diagnostics)?;
    if app.print.json {
        let records: Result<Vec<Value>, Diagnostics> = records.iter().map(record_json).collect();
        return app.print.print_value(&json!({ "run": row.run.id, "records": records? }));
    }
    let mut page = String::new();
    for record in records {
        page.push_str(&format!(
            "{:>6}  {}  {}\n",
            record.seq,
            escape_invisible(&record.at),
            escape_invisible(&record.kind)
        ));
    }
    app.print.write_data(page.as_bytes())?;
    Ok(0)
}

/// Describes a record as JSON, with its payload in `data`.
pub(crate) fn record_json(record: &callsheet_store::StoredRecord) -> Result<Value, Diagnostics> {
    let wrong = |error: serde_json::Error| {
        ledger_diagnostics(callsheet_store::LedgerError::Damaged(format!("record {}: {error}", record.seq)))
    };
    let data: Option<Value> =
        record.payload.as_deref().map(serde_json::from_str).transpose().map_err(wrong)?;
    Ok(json!({
        "seq": record.seq,
        "at": record.at,
        "kind": record.kind,
        "run": record.run,
        "flow": record.flow,
        "data": data,
        "payload_sha256": record.payload_sha256,
        "chain": record.chain,
    }))
}

fn print_log(
    app: &CommandContext,
    ledger: &mut Ledger,
    row: &RunRow,
    stream: LogStream,
    args: &Args,
) -> CommandResult {
    let log = ledger.log(&row.run.id, stream, args.since, args.tail).map_err(ledger_diagnostics)?;
    if app.print.json {
        let first = log.lines.first().map_or(args.since, |line| line.number);
        let lines: Vec<Value> = log
            .lines
            .iter()
            .map(|line| json!({ "line": line.number, "at": line.at, "stream": stream, "data": line.data }))
            .collect();
        return app.print.print_value(&json!({
            "run": row.run.id,
            "lines": lines,
            "total_lines": log.total,
            "has_more": first > args.since,
            "cut": log.cut,
        }));
    }
    // An agent's output may contain control characters, and stdout may be a terminal.
    let page: String = log.lines.iter().map(|line| format!("{}\n", escape_invisible(&line.data))).collect();
    app.print.write_data(page.as_bytes())?;
    if log.cut {
        app.print.print_status("more was printed than is kept");
    }
    Ok(0)
}

fn print_origins(app: &CommandContext, ledger: &mut Ledger, composed: &Composed) -> CommandResult {
    let (text, placed) =
        ledger.with_blobs(|blob| locate_parts(composed, blob)).map_err(ledger_diagnostics)?;
    let of = |number: u32| composed.output.origins.get(number as usize);
    if app.print.json {
        let origins: Vec<Value> = placed
            .iter()
            .map(|span| {
                let mut object = json!({ "start": span.start, "end": span.end });
                match span.origin.and_then(of) {
                    None => object["label"] = "engine".into(),
                    Some(origin) => {
                        object["label"] = origin.label().into();
                        object["trust"] = json!(origin.trust);
                        object["version"] = origin.version.as_str().into();
                        object["line"] = json!(span.line);
                    }
                }
                object
            })
            .collect();
        return app.print.print_value(&json!({ "run": composed.run.id, "text": text, "origins": origins }));
    }
    let mut page = String::new();
    let mut last = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end_matches('\n').len();
        let first = placed.partition_point(|span| span.end <= start);
        let touching = placed[first..].iter().take_while(|span| span.start < end.max(start + 1));
        let mut from: Vec<u32> = touching.filter_map(|span| span.origin).collect();
        from.dedup();
        if last.as_ref() != Some(&from) {
            page.push_str(&format_heading(&app.print, &from, composed));
            last = Some(from);
        }
        page.push_str(&format!("      │ {}\n", escape_invisible(&text[start..end])));
        start += line.len();
    }
    app.print.write_data(page.as_bytes())?;
    Ok(0)
}

fn format_heading(print: &OutputPrinter, from: &[u32], composed: &Composed) -> String {
    let label = |number: &u32| {
        let origin = composed.output.origins.get(*number as usize)?;
        Some(format!("{} ({}, {})", escape_invisible(&origin.label()), origin.trust.name(), origin.version))
    };
    let labels: Vec<String> = from.iter().filter_map(label).collect();
    let labels = if labels.is_empty() { "engine (ours)".into() } else { labels.join(" + ") };
    format!("── {}\n", print.paint(TextStyle::Cyan, &labels))
}
