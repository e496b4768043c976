//! Renders the request of an agent's CLI, the difference of two, and the shared beginning of several.

use callsheet::output::{
    ContextDiffOutput, ContextLanesOutput, ContextOutput, ContextPartOutput, ContextPriceOutput,
    ContextSideOutput, LaneWayOutput, PartChangeOutput,
};
use callsheet::run::cost::dollars;
use callsheet_core::diag::escape_invisible;
use callsheet_core::library::agent::ContextKind;

use super::{counted, heading};
use crate::print::{OutputPrinter, TextStyle};

/// The widest bar.
const MOST_BAR: usize = 78;

/// The most origins of the prompt that are shown.
const MOST_ORIGINS: usize = 12;

/// Returns the character of a kind in the bar.
const fn glyph(kind: ContextKind) -> char {
    match kind {
        ContextKind::Prompt => '█',
        ContextKind::Instructions => '▓',
        ContextKind::System => '▒',
        ContextKind::Tool => '░',
        ContextKind::Environment => '=',
        ContextKind::Skills => '+',
        ContextKind::Reminder => '-',
        ContextKind::Other => '·',
    }
}

/// Renders a request: one line, a bar, a table of its parts, and warnings.
pub(crate) fn context_page(print: &OutputPrinter, context: &ContextOutput) -> String {
    let mut page = title_line(context);
    page += &bar(print, &context.parts);
    page += &heading(print, "parts, in the order in which the model reads them");
    page += &parts_table(print, &context.parts);
    page += &origins_table(print, &context.parts);
    page += &format!("\n{}\n", cache_line(context));
    if !context.side_requests.is_empty() {
        let bytes: usize = context.side_requests.iter().map(|request| request.bytes).sum();
        let count = counted(context.side_requests.len(), "other request");
        page += &format!("{count} with {}\n", counted(bytes, "byte"));
    }
    page += &format!("tokens: {}\n", escape_invisible(&context.token_method));
    for diagnostic in &context.diagnostics {
        page += &format!("{}: {}\n", diagnostic.severity.name(), escape_invisible(&diagnostic.message));
        for hint in &diagnostic.hints {
            page += &format!("  hint: {}\n", escape_invisible(hint));
        }
    }
    for part in context.parts.iter().filter(|part| part.text.is_some()) {
        page += &heading(print, &format!("{}: {}", part.kind.name(), part_name(part)));
        page += &escape_lines(part.text.as_deref().unwrap_or_default());
    }
    page
}

/// Returns a text whose lines have no control characters.
fn escape_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escape_invisible(line))).collect()
}

fn title_line(context: &ContextOutput) -> String {
    let version = context.version.as_deref().unwrap_or("version unknown");
    let model = context.model.as_deref().unwrap_or("model unknown");
    let home = if context.isolated { ", empty home" } else { "" };
    let price = context.price.as_ref().map_or_else(|| format!("no price of {model} is known"), price_words);
    let title = format!(
        "{} ({version}{home}), {model}: {} bytes, {} tokens, {price}\n",
        context.agent, context.bytes, context.tokens
    );
    escape_invisible(&title[..title.len() - 1]).into_owned() + "\n"
}

fn price_words(price: &ContextPriceOutput) -> String {
    format!(
        "{}, {} if cached (prices of {})",
        dollars(price.uncached_microusd),
        dollars(price.cached_microusd),
        price.as_of
    )
}

/// Renders the shares of the kinds as a bar, in the order in which the model reads them, and its legend.
fn bar(print: &OutputPrinter, parts: &[ContextPartOutput]) -> String {
    let width = print.width().unwrap_or(MOST_BAR).min(MOST_BAR);
    let total: usize = parts.iter().map(|part| part.bytes).sum::<usize>().max(1);
    let (mut line, mut sum, mut drawn) = (String::new(), 0, 0);
    for part in parts {
        sum += part.bytes;
        let end = sum * width / total;
        line.extend(std::iter::repeat_n(glyph(part.kind), end.saturating_sub(drawn)));
        drawn = end.max(drawn);
    }
    let mut legend = Vec::new();
    for kind in ContextKind::ALL {
        let bytes: usize = parts.iter().filter(|part| part.kind == *kind).map(|part| part.bytes).sum();
        if bytes > 0 {
            let percent = bytes as f64 * 100.0 / total as f64;
            legend.push(format!("{} {} {percent:.1} %", glyph(*kind), kind.name()));
        }
    }
    format!("{line}\n{}\n", print.paint(TextStyle::Dim, &legend.join("  ")))
}

fn part_name(part: &ContextPartOutput) -> String {
    let server = part.server.as_ref().map(|server| format!(" (MCP server {server})")).unwrap_or_default();
    escape_invisible(&format!("{}{server}", part.name)).into_owned()
}

fn parts_table(print: &OutputPrinter, parts: &[ContextPartOutput]) -> String {
    let price = |microusd: Option<u64>| microusd.map_or_else(|| "-".to_owned(), dollars);
    let row = |cells: [&str; 7]| {
        let [bytes, tokens, share, price, cached, kind, name] = cells;
        format!("{bytes:>8}  {tokens:>7}  {share:>6}  {price:>8}  {cached:>8}  {kind:<12}  {name}")
    };
    let head = row(["BYTES", "TOKENS", "SHARE", "PRICE", "CACHED", "KIND", "PART"]);
    let mut page = format!("{}\n", print.paint(TextStyle::Bold, &head));
    for part in parts {
        let mark = if part.is_cacheable { "" } else { " (not cacheable)" };
        let line = row([
            &part.bytes.to_string(),
            &part.tokens.to_string(),
            &format!("{:.1}%", part.share_percent),
            &price(part.price_microusd),
            &price(part.cached_price_microusd),
            part.kind.name(),
            &format!("{}{mark}", part_name(part)),
        ]);
        page += &format!("{line}\n");
    }
    page
}

/// Renders where the bytes of the prompt come from.
fn origins_table(print: &OutputPrinter, parts: &[ContextPartOutput]) -> String {
    let origins: Vec<_> = parts.iter().flat_map(|part| &part.origins).collect();
    if origins.is_empty() {
        return String::new();
    }
    let mut page = heading(print, "origins of the prompt");
    for origin in origins.iter().take(MOST_ORIGINS) {
        page +=
            &format!("{:>8}  {} ({})\n", origin.bytes, escape_invisible(&origin.origin), origin.trust.name());
    }
    if origins.len() > MOST_ORIGINS {
        page += &format!("{:>8}  {}\n", "", counted(origins.len() - MOST_ORIGINS, "more origin"));
    }
    page
}

fn cache_line(context: &ContextOutput) -> String {
    let cache = &context.cache;
    let percent = cache.bytes as f64 * 100.0 / context.bytes.max(1) as f64;
    let last = context.parts.iter().rfind(|part| part.is_cacheable).map(part_name).unwrap_or_default();
    if cache.is_marked {
        format!(
            "cacheable: {} bytes ({percent:.1} %), up to the end of {last}, as the CLI marks it",
            cache.bytes
        )
    } else {
        format!(
            "cacheable: any beginning that an earlier request had, at most {} bytes ({percent:.1} %)",
            cache.bytes
        )
    }
}

/// Renders the difference of two requests.
pub(crate) fn diff_page(print: &OutputPrinter, diff: &ContextDiffOutput) -> String {
    let side = |side: &ContextSideOutput| {
        let version = side.version.as_deref().unwrap_or("version unknown");
        let model = side.model.as_deref().unwrap_or("model unknown");
        let text =
            format!("{} ({version}), {model}: {} bytes, {} tokens", side.agent, side.bytes, side.tokens);
        escape_invisible(&text).into_owned()
    };
    let mut page = format!("- {}\n+ {}\n", side(&diff.before), side(&diff.after));
    for part in &diff.parts {
        page += &change_line(print, part);
        for line in &part.lines {
            let mark = if line.is_added { '+' } else { '-' };
            page += &format!("    {mark} {}\n", escape_invisible(&line.line));
        }
    }
    if diff.parts.is_empty() {
        page += "no part differs\n";
    }
    page + &format!("{} equal\n", counted(diff.equal_count, "part"))
}

fn change_line(print: &OutputPrinter, part: &PartChangeOutput) -> String {
    let server = part.server.as_ref().map(|server| format!(" (MCP server {server})")).unwrap_or_default();
    let name = format!("{} {}{server}", part.kind.name(), part.name);
    let name = escape_invisible(&name);
    let text = match (part.bytes_before, part.bytes_after) {
        (Some(before), Some(after)) => {
            let tokens = (part.tokens_before.unwrap_or_default(), part.tokens_after.unwrap_or_default());
            format!("~ {name}: {before} → {after} bytes, {} → {} tokens", tokens.0, tokens.1)
        }
        (Some(before), None) => format!("- {name}: {before} bytes"),
        (None, after) => format!("+ {name}: {} bytes", after.unwrap_or_default()),
    };
    format!("{}\n", print.paint(TextStyle::Bold, &text))
}

/// Renders the beginning that the requests of lanes share.
pub(crate) fn lanes_page(print: &OutputPrinter, report: &ContextLanesOutput) -> String {
    let version = report.version.as_deref().unwrap_or("version unknown");
    let model = report.model.as_deref().unwrap_or("model unknown");
    let title = format!("{} ({version}), {model}: {}", report.agent, counted(report.lane_count, "lane"));
    let mut page = format!("{}\n", escape_invisible(&title));
    for way in &report.ways {
        page += &way_lines(print, way);
    }
    if let Some(least) = report.min_shared_percent {
        let word = if report.passes { "reached" } else { "not reached" };
        page += &format!("minimum of {least} %: {word}\n");
    }
    page
}

fn way_lines(print: &OutputPrinter, way: &LaneWayOutput) -> String {
    let name = if way.split { "with --split" } else { "one text" };
    let mut page = heading(print, name);
    page += &format!(
        "shared beginning: {} of {} bytes ({:.1} %), {} of {} tokens\n",
        way.shared_bytes, way.bytes, way.shared_percent, way.shared_tokens, way.tokens
    );
    match &way.ended_by {
        None => page += "the requests are equal\n",
        Some(end) => {
            let origin = end.origin.as_ref().map(|origin| format!(" from {origin}")).unwrap_or_default();
            let name = format!("{} {}{origin}: `{}`", end.kind.name(), end.name, end.excerpt);
            page += &format!("ended by: {}\n", escape_invisible(&name));
        }
    }
    if let Some(price) = &way.price {
        page += &format!("all lanes: {}\n", price_words(price));
    }
    page
}
