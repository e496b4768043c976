//! `callsheet explain`: shows the prompt with the origin of every line, and the reason for every absent
//! input.

use std::collections::BTreeMap;

use callsheet_core::diag::{Diagnostics, escape_invisible};
use callsheet_core::library::agent::PermissionLevel;
use callsheet_core::library::template::read_version;
use callsheet_core::prompt::{OriginTable, Piece};
use callsheet_core::record::sha256;
use callsheet_core::render::{RenderedRange, RenderedText, TextEncoding};
use callsheet_core::request::Profile;
use callsheet_core::source::origin::{Origin, OriginKind, Trust};
use callsheet_core::{SharedText, SourceId};
use clap::ArgMatches;
use serde_json::{Map, Value, json};

use crate::args::ComposeArgs;
use crate::context::CommandContext;
use crate::print::{OutputPrinter, TextStyle};
use callsheet::compose::inputs::RequestFile;
use callsheet::compose::tokens::degradation_line;
use callsheet::compose::{Composition, Purpose};
use callsheet::diagnostics::diagnostic_json;
use callsheet::error::CommandResult;

/// Show where each line of a prompt comes from, and why what is absent is absent
///
/// Takes the same options as compose. With --json: `text`, `origins` (byte ranges that cover the text
/// without a gap, each with its source), `sources` (files with version and hash), `absent`, `tokens`, `secrets`
/// and, with --budget, `steps`. Secrets are masked, byte for byte.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    ask: ComposeArgs,
}

pub(crate) fn run(app: &CommandContext, args: &Args, given: Option<&ArgMatches>) -> CommandResult {
    let input = args.ask.to_input(given);
    let file = RequestFile::read(app, &input)?;
    let app = &app.for_request(&file)?;
    let mut finished = app.compose_request(&input, file, Purpose::Show)?;
    let summary = finished.count_tokens();
    let Composition {
        composed, rendered, diagnostics, degradations: steps, gate_report: passed, masked, ..
    } = finished;
    // A mask has the same length in bytes as the text that it covers, so all ranges stay valid.
    let text = masked.as_ref().unwrap_or(&rendered.text);
    app.print.print_masked_diagnostics(&diagnostics);
    if app.print.json {
        let origins = &composed.prompt.origins;
        return app.print.print_value(&json!({
            "recipe": composed.prompt.recipe,
            "format": composed.prompt.format,
            "text": text,
            "origins": rendered.spans.iter().map(|span| span_json(span, origins)).collect::<Vec<_>>(),
            "sources": sources_json(origins),
            "profile": composed.profile,
            "absent": composed.omitted,
            "steps": steps,
            "tokens": summary.to_json(),
            "secrets": passed,
            "warnings": diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
        }));
    }
    let origins = &composed.prompt.origins;
    let mut page = String::new();
    write_lines(&app.print, &rendered, text, origins, &mut page)?;
    if !composed.omitted.is_empty() {
        page.push_str(&format!("\n{}\n", app.print.paint(TextStyle::Bold, "Not in this prompt")));
    }
    for absent in &composed.omitted {
        let detail = if absent.detail.is_empty() { String::new() } else { format!(" ({})", absent.detail) };
        page.push_str(&format!(
            "  {}: {}{}\n",
            escape_invisible(&absent.what),
            absent.why.words(),
            escape_invisible(&detail)
        ));
    }
    if !steps.is_empty() {
        page.push_str(&format!("\n{}\n", app.print.paint(TextStyle::Bold, "Steps to fit into the budget")));
    }
    for step in &steps {
        page.push_str(&format!("  {}\n", degradation_line(step)));
    }
    if let Some(profile) = &composed.profile {
        page.push_str(&format!("\n{}\n", app.print.paint(TextStyle::Bold, "Profile")));
        page.push_str(&format!("  {}\n", escape_invisible(&profile_line(profile))));
    }
    page.push_str(&format!("\n{}\n{}", app.print.paint(TextStyle::Bold, "Tokens"), summary.to_table()));
    app.print.write_data(page.as_bytes())?;
    Ok(0)
}

/// Formats a profile as one line: its name, version and bindings.
pub(crate) fn profile_line(profile: &Profile) -> String {
    let bound = [
        ("version", profile.version.as_deref()),
        ("agent", profile.agent.as_deref()),
        ("model", profile.model.as_deref()),
        ("permit", profile.permit.map(PermissionLevel::name)),
    ];
    let bound = bound.into_iter().filter_map(|(name, value)| Some(format!(", {name} {}", value?)));
    bound.fold(profile.name.clone(), |line, part| line + &part)
}

/// Lists the source files of the prompt, each with its hash and the version from its header.
fn sources_json(origins: &OriginTable) -> Vec<Value> {
    let mut seen = BTreeMap::new();
    for origin in origins {
        if let OriginKind::Source(id) = &origin.from {
            seen.entry(id).or_insert(&origin.text);
        }
    }
    let entry = |(id, text): (&SourceId, &SharedText)| {
        let mut entry = json!({ "source": id, "sha256": sha256(&[text.as_bytes()]) });
        if let Some(version) = read_version(id, text) {
            entry["version"] = version.into();
        }
        entry
    };
    seen.into_iter().map(entry).collect()
}

fn span_json(span: &RenderedRange, origins: &OriginTable) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.into(), value);
    put("start", span.start.into());
    put("end", span.end.into());
    put("encoding", json!(span.encoding));
    let Some(piece) = span.piece else {
        put("kind", "engine".into());
        put("trust", json!(Trust::Ours));
        return object.into();
    };
    let origin = &origins[piece.origin];
    match &origin.from {
        OriginKind::Source(id) => {
            put("kind", "source".into());
            put("source", json!(id));
        }
        OriginKind::Value(name) => {
            put("kind", "value".into());
            put("name", name.as_str().into());
        }
        OriginKind::Request(field) => {
            put("kind", "request".into());
            put("name", field.as_str().into());
        }
        OriginKind::Document(name) => {
            put("kind", "document".into());
            put("name", name.as_str().into());
        }
        OriginKind::DocumentName(at) => {
            put("kind", "request".into());
            put("name", format!("documents[{at}].name").into());
        }
        OriginKind::Default(of) => {
            put("kind", "default".into());
            put("name", of.name.as_str().into());
            put("source", json!(of.source));
        }
        OriginKind::Derived(of) => {
            put("kind", "derived".into());
            put("name", format!("{}.{}", of.name, of.field).into());
        }
        OriginKind::Engine => {
            put("kind", "engine".into());
        }
    }
    put("source_start", piece.start.into());
    put("source_end", piece.end.into());
    put("trust", json!(origin.trust));
    object.into()
}

/// Writes the prompt line by line, below headings that name the origin of the lines. A line from a single
/// origin has its line number there.
fn write_lines(
    print: &OutputPrinter,
    rendered: &RenderedText,
    text: &str,
    origins: &OriginTable,
    page: &mut String,
) -> Result<(), Diagnostics> {
    let mut numbers = LineNumbers::default();
    let mut last: Vec<u32> = Vec::new();
    let mut first_line = true;
    for (start, end) in line_ranges(&rendered.text) {
        let mut first = None;
        let mut from: Vec<u32> = Vec::new();
        for piece in line_pieces(rendered, start, end) {
            first.get_or_insert(piece);
            if from.last() != Some(&piece.origin) {
                from.push(piece.origin);
            }
        }
        if first_line || from != last {
            page.push_str("── ");
            for (at, origin) in from.iter().enumerate() {
                page.push_str(if at > 0 { " + " } else { "" });
                page.push_str(&format_label(print, &origins[*origin]));
                flush_page(print, page)?;
            }
            page.push_str(if from.is_empty() { "engine (ours)\n" } else { "\n" });
            last = from;
        }
        first_line = false;
        let number = match first {
            Some(first) if last.len() == 1 => {
                numbers.line_number(first.origin, origins, first.start).to_string()
            }
            _ => String::new(),
        };
        page.push_str(&format!("{number:>5} │ "));
        let mut rest = &text[start..end];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(PART));
            page.push_str(&escape_invisible(part));
            flush_page(print, page)?;
            rest = after;
        }
        page.push('\n');
        flush_page(print, page)?;
    }
    Ok(())
}

/// Number of page bytes that are printed at once.
const PART: usize = 256 << 10;

/// Prints and clears the page once it has grown long.
fn flush_page(print: &OutputPrinter, page: &mut String) -> Result<(), Diagnostics> {
    if page.len() >= PART {
        print.write_data(page.as_bytes())?;
        page.clear();
    }
    Ok(())
}

fn line_ranges(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let from = start;
        start += line.len();
        (from, from + line.trim_end_matches('\n').len())
    })
}

/// Returns the pieces in a line, each from its first byte in this line. The engine's own bytes have no piece:
/// the engine is the origin of a line without pieces. For an empty line, the piece of its line end counts.
fn line_pieces(rendered: &RenderedText, start: usize, end: usize) -> impl Iterator<Item = Piece> {
    let first = rendered.spans.partition_point(|span| span.end <= start);
    let touching = rendered.spans[first..].iter().take_while(move |span| span.start < end.max(start + 1));
    touching.filter_map(move |span| {
        let mut piece = span.piece?;
        if span.encoding == TextEncoding::Plain {
            piece.start += start.saturating_sub(span.start);
        } else if span.start < start {
            let before = span.encoding.decode(&rendered.text[span.start..start])?;
            piece.start += before.len();
        }
        Some(piece)
    })
}

fn format_label(print: &OutputPrinter, origin: &Origin) -> String {
    let colour = match origin.trust {
        Trust::Ours => TextStyle::Dim,
        Trust::Project => TextStyle::Green,
        Trust::Person => TextStyle::Cyan,
        Trust::Agent => TextStyle::Yellow,
    };
    let text = format!("{} ({})", escape_invisible(&origin.label()), origin.trust.name());
    print.paint(colour, &text).into_owned()
}

/// Offsets of the line ends of each origin, computed once.
#[derive(Default)]
struct LineNumbers(BTreeMap<u32, Vec<usize>>);

impl LineNumbers {
    fn line_number(&mut self, origin: u32, origins: &OriginTable, at: usize) -> usize {
        let ends = self
            .0
            .entry(origin)
            .or_insert_with(|| origins[origin].text.match_indices('\n').map(|(at, _)| at).collect());
        ends.partition_point(|end| *end < at) + 1
    }
}
