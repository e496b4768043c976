//! Renders a prompt with the origin of every line, and the reason for every absent input.

use callsheet::error::Result;
use std::collections::BTreeMap;

use callsheet::compose::Composition;
use callsheet::compose::tokens::{TokenSummary, degradation_line};
use callsheet::diagnostics::diagnostic_json;
use callsheet_core::diag::escape_invisible;
use callsheet_core::library::template::read_version;
use callsheet_core::prompt::{OriginTable, Piece};
use callsheet_core::record::sha256;
use callsheet_core::render::{RenderedRange, RenderedText, TextEncoding};
use callsheet_core::source::origin::{Origin, OriginKind, Trust};
use callsheet_core::{SharedText, SourceId};
use serde_json::{Map, Value, json};

use super::{heading, line_ranges, profile_line};
use crate::print::{OutputPrinter, TextStyle};

/// Returns the text of the prompt without secrets. A mask has the same length in bytes as the text that it covers, so all
/// ranges stay valid.
fn shown_text(composition: &Composition) -> &str {
    composition.masked.as_ref().unwrap_or(&composition.rendered.text)
}

/// Describes a prompt and its origins as JSON.
pub(crate) fn explanation_json(composition: &Composition, summary: &TokenSummary) -> Value {
    let Composition { composed, rendered, diagnostics, .. } = composition;
    let origins = &composed.prompt.origins;
    json!({
        "recipe": composed.prompt.recipe,
        "format": composed.prompt.format,
        "text": shown_text(composition),
        "origins": rendered.spans.iter().map(|span| span_json(span, origins)).collect::<Vec<_>>(),
        "sources": sources_json(origins),
        "profile": composed.profile,
        "absent": composed.omitted,
        "steps": composition.degradations,
        "tokens": summary.to_json(),
        "secrets": composition.gate_report,
        "warnings": diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>(),
    })
}

/// Prints a prompt with its origins. A long page is printed in parts.
pub(crate) fn print_explanation(
    print: &OutputPrinter,
    composition: &Composition,
    summary: &TokenSummary,
) -> Result<()> {
    let (composed, steps) = (&composition.composed, &composition.degradations);
    let mut page = String::new();
    write_lines(print, &composition.rendered, shown_text(composition), &composed.prompt.origins, &mut page)?;
    if !composed.omitted.is_empty() {
        page += &heading(print, "Not in this prompt");
    }
    for absent in &composed.omitted {
        let detail = if absent.detail.is_empty() { String::new() } else { format!(" ({})", absent.detail) };
        let (what, detail) = (escape_invisible(&absent.what), escape_invisible(&detail));
        page += &format!("  {what}: {}{detail}\n", absent.why.words());
    }
    if !steps.is_empty() {
        page += &heading(print, "Steps to fit into the budget");
    }
    steps.iter().for_each(|step| page += &format!("  {}\n", degradation_line(step)));
    if let Some(profile) = &composed.profile {
        page += &heading(print, "Profile");
        page += &format!("  {}\n", escape_invisible(&profile_line(profile)));
    }
    page += &heading(print, "Tokens");
    page += &summary.to_table();
    print.write_data(page.as_bytes())
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
    let (kind, name, source) = match &origin.from {
        OriginKind::Source(id) => ("source", None, Some(id)),
        OriginKind::Value(name) => ("value", Some(name.to_string()), None),
        OriginKind::Request(field) => ("request", Some(field.to_string()), None),
        OriginKind::Document(name) => ("document", Some(name.to_string()), None),
        OriginKind::DocumentName(at) => ("request", Some(format!("documents[{at}].name")), None),
        OriginKind::Default(of) => ("default", Some(of.name.to_string()), Some(&of.source)),
        OriginKind::Derived(of) => ("derived", Some(format!("{}.{}", of.name, of.field)), None),
        OriginKind::Engine => ("engine", None, None),
    };
    put("kind", kind.into());
    if let Some(name) = name {
        put("name", name.into());
    }
    if let Some(source) = source {
        put("source", json!(source));
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
) -> Result<()> {
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
fn flush_page(print: &OutputPrinter, page: &mut String) -> Result<()> {
    if page.len() >= PART {
        print.write_data(page.as_bytes())?;
        page.clear();
    }
    Ok(())
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
