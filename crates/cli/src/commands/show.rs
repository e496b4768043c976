//! `callsheet show`: prints one recorded run.

use std::path::PathBuf;

use callsheet::error::{CommandResult, Result};
use callsheet::flow::run_view::RunView;
use callsheet::output::{
    ListOutput, RecordOutput, RunLogOutput, RunOriginsOutput, RunOutput, RunPromptOutput,
};
use callsheet::run::changes::diff_files;
use callsheet_core::record::{OUTPUT_BYTES, locate_parts, restore_request};

use crate::args::StreamArg;
use crate::context::CommandContext;
use crate::html_file::write_html;
use crate::pages::counted;
use crate::pages::patch::print_patch;
use crate::pages::show::{log_page, origins_page, records_page, run_page};

/// Show a recorded run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run: `r42`, `last`, `last~1`, a task's id for its newest run, or the beginning of the run's id
    run: String,
    /// Print the prompt, byte for byte as it was delivered
    #[arg(long, conflicts_with_all = ["origins", "records", "stream"])]
    prompt: bool,
    /// Print the prompt with the origin of every line
    #[arg(long, conflicts_with_all = ["records", "stream"])]
    origins: bool,
    /// Print the run's records
    #[arg(long, conflicts_with = "stream")]
    records: bool,
    /// Print the changes of all files, or of the file PATH, as a patch for `git apply`
    #[arg(long, value_name = "PATH", num_args = 0..=1, conflicts_with_all = ["prompt", "origins", "records", "stream"])]
    diff: Option<Option<String>>,
    /// Write the run as one page for a browser, with its prompt, changes, log and reply, to a file that only its owner can read;
    /// - writes it to standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "origins", "records", "stream", "diff"])]
    html: Option<PathBuf>,
    /// Show the whole reply and the whole output of failed checks, instead of their last lines
    #[arg(long)]
    full: bool,
    /// Print the output of the agent; `meta` is the prompt
    #[arg(long, value_name = "STREAM")]
    stream: Option<StreamArg>,
    /// Print only the last N lines of the stream
    #[arg(long, value_name = "N", requires = "stream")]
    tail: Option<usize>,
    /// Print the lines of the stream from this number on
    #[arg(long, value_name = "LINE", requires = "stream", default_value_t = 1)]
    since: u64,
}

/// Says how much of a stream the ledger does not have, and where it is missing.
fn unrecorded_line(bytes: usize, lines: usize) -> String {
    let bytes = (bytes > 0).then(|| format!("{}, at the lines `bytes left out`", counted(bytes, "byte")));
    let ends = (lines > 0)
        .then(|| format!("the ends of {} over {} KiB", counted(lines, "line"), OUTPUT_BYTES >> 10));
    let parts: Vec<String> = bytes.into_iter().chain(ends).collect();
    format!("not recorded: {}", parts.join("; "))
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    if let Some(file) = &args.html {
        return write_html(app, &callsheet_web::run_file(app, &args.run)?, file);
    }
    let mut ledger = app.read_ledger()?;
    let row = app.find_run(&mut ledger, &args.run)?;
    let (print, id) = (&app.print, &row.run.id);
    if let Some(stream) = args.stream.map(StreamArg::to_stream) {
        let log = ledger.log(id, stream, args.since, args.tail)?;
        print.print_output(|| RunLogOutput::new(id, stream, &log, args.since), || log_page(&log))?;
        if log.cut {
            print.print_status(&unrecorded_line(log.left_out as usize, log.cut_lines as usize));
        }
        return Ok(0);
    }
    if let Some(path) = &args.diff {
        let mut changes = app.run_changes(&mut ledger, id.as_str())?;
        changes.keep_only(path.as_slice())?;
        return print_patch(app, id, None, &diff_files(&changes.kept));
    }
    if args.records {
        let records = ledger.records_of(id)?;
        if print.json {
            let items = records.iter().map(RecordOutput::new);
            return print.print_json(&items.collect::<Result<ListOutput<_>>>()?);
        }
        return print.print_page(&records_page(&records));
    }
    if args.prompt {
        let text = ledger.prompt(id)?;
        let output = || RunPromptOutput { run: id.clone(), text: text.clone() };
        return print.print_output(output, || text.clone());
    }
    if args.origins {
        let composed = ledger.prompt_record(id)?;
        let (text, placed) = ledger.with_blobs(|blob| locate_parts(&composed, blob))?;
        return print.print_output(
            || RunOriginsOutput::new(&composed, &text, &placed),
            || origins_page(print, &composed, &text, &placed),
        );
    }
    let view = RunView::read(&mut ledger, row)?;
    if print.json {
        let request = ledger.with_blobs(|blob| restore_request(&view.composed, blob))?;
        return print.print_json(&RunOutput::new(&view, request));
    }
    let details = app.result_details(&view.summary)?;
    print.print_page(&run_page(print, &view, &details, args.full))
}
