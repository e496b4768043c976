//! Renders a prompt with the origin of every line, and the reason for every absent input.

use callsheet::error::Result;
use std::collections::BTreeMap;

use callsheet::compose::Composition;
use callsheet::compose::tokens::{TokenSummary, degradation_line};
use callsheet_core::diag::escape_invisible;
use callsheet_core::prompt::{OriginTable, Piece};
use callsheet_core::render::{RenderedText, TextEncoding};
use callsheet_core::source::origin::{Origin, Trust};

use super::{counted, heading, line_ranges, part_heading, profile_line};
use crate::print::{OutputPrinter, TextStyle};

/// Prints a prompt with its origins. A long page is printed in parts.
pub(crate) fn print_explanation(
    print: &OutputPrinter,
    composition: &Composition,
    shared_bytes: Option<usize>,
    summary: Option<&TokenSummary>,
) -> Result<()> {
    let (composed, steps) = (&composition.composed, &composition.degradations);
    let mut page = String::new();
    let text = composition.shown_text();
    write_lines(print, &composition.rendered, text, &composed.prompt.origins, shared_bytes, &mut page)?;
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
    if let Some(summary) = summary {
        page += &heading(print, "Tokens");
        page += &summary.to_table();
    }
    print.write_data(page.as_bytes())
}

/// Writes the prompt line by line, below headings that name the origin of the lines. A line from a single
/// origin has its line number there.
fn write_lines(
    print: &OutputPrinter,
    rendered: &RenderedText,
    text: &str,
    origins: &OriginTable,
    mut shared_bytes: Option<usize>,
    page: &mut String,
) -> Result<()> {
    let mut numbers = LineNumbers::default();
    let mut last: Vec<u32> = Vec::new();
    let mut first_line = true;
    for (start, end) in line_ranges(&rendered.text) {
        if let Some(shared) = shared_bytes.take_if(|shared| *shared < end.max(start + 1)) {
            page.push_str(&part_heading(
                print,
                &format!("--split divides the prompt here, after {}", counted(shared, "byte")),
            ));
        }
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
