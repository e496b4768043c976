//! The request of an agent's CLI around a prompt, from a probe: a bar of the whole, and its parts.

use askama::Template;
use callsheet::Project;
use callsheet::error::Result;
use callsheet::output::{ContextOutput, ContextPartOutput};
use callsheet::run::cost::dollars;
use callsheet_core::diag::counted;
use callsheet_core::library::agent::ContextKind;
use callsheet_core::record::Id;
use callsheet_store::Ledger;

use super::layout::PageLayout;
use crate::shown_text::ShownText;
use crate::svg::plot::{PlotPicture, PlotRow};

/// The most lines of a part on a page; the middle of a longer one is left out.
const MOST_LINES: usize = 400;

/// The most bytes of all texts on a page.
const MOST_BYTES: usize = 1 << 20;

/// A probe of a prompt.
#[derive(Debug)]
pub(crate) struct ContextPane {
    /// The CLI, its version and the model.
    pub(crate) title: ShownText,
    /// The size and the price.
    pub(crate) size: String,
    /// The picture of the whole.
    pub(crate) picture: String,
    /// The beginning that the provider can cache.
    pub(crate) cache: String,
    /// The parts in order.
    pub(crate) parts: Vec<ShownPart>,
    /// The warnings.
    pub(crate) warnings: Vec<ShownText>,
}

/// A part of the request.
#[derive(Debug)]
pub(crate) struct ShownPart {
    pub(crate) kind: &'static str,
    pub(crate) name: ShownText,
    pub(crate) bytes: usize,
    pub(crate) tokens: usize,
    pub(crate) share: String,
    pub(crate) price: String,
    pub(crate) is_cacheable: bool,
    /// The lines of the text. The prompt has its own pane.
    pub(crate) lines: Vec<ShownText>,
    /// The number of lines that are left out.
    pub(crate) left_out: usize,
}

/// A page with one probe.
#[derive(Debug, Template)]
#[template(path = "context.html")]
pub(crate) struct ContextPage {
    layout: PageLayout,
    context: ContextPane,
}

impl ContextPage {
    pub(crate) fn new(project: &Project, context: &ContextOutput) -> Result<Self> {
        let context = ContextPane::new(context, true)?;
        Ok(Self { layout: PageLayout::one_file(project), context })
    }
}

/// Returns the class of a kind in the picture.
const fn class(kind: ContextKind) -> &'static str {
    match kind {
        ContextKind::Prompt => "part-prompt",
        ContextKind::Instructions => "part-instructions",
        ContextKind::System => "part-system",
        ContextKind::Tool => "part-tool",
        ContextKind::Environment => "part-environment",
        ContextKind::Skills => "part-skills",
        ContextKind::Reminder => "part-reminder",
        ContextKind::Other => "part-other",
    }
}

impl ContextPane {
    /// Returns the newest recorded probe of a run.
    pub(crate) fn read(project: &Project, ledger: &mut Ledger, run: &Id) -> Result<Option<Self>> {
        project.find_context(ledger, run)?.map(|recorded| Self::new(&recorded.output, false)).transpose()
    }

    fn new(context: &ContextOutput, with_prompt: bool) -> Result<Self> {
        let version = context.version.as_deref().unwrap_or("version unknown");
        let model = context.model.as_deref().unwrap_or("model unknown");
        let price = context.price.as_ref().map_or_else(String::new, |price| {
            let (full, cached) = (dollars(price.uncached_microusd), dollars(price.cached_microusd));
            format!(", {full}, {cached} if cached (prices of {})", price.as_of)
        });
        let percent = context.cache.bytes as f64 * 100.0 / context.bytes.max(1) as f64;
        let marked = if context.cache.is_marked { "marked by the CLI" } else { "at most, if sent before" };
        let mut left = MOST_BYTES;
        let parts = context.parts.iter().map(|part| ShownPart::new(part, with_prompt, &mut left)).collect();
        Ok(Self {
            title: format!("{} ({version}), {model}", context.agent).into(),
            size: format!("{}, {}{price}", counted(context.bytes, "byte"), counted(context.tokens, "token")),
            picture: draw(context)?,
            cache: format!("{} bytes cacheable ({percent:.1} %), {marked}", context.cache.bytes),
            parts,
            warnings: context.diagnostics.iter().map(|found| ShownText::from(&found.message)).collect(),
        })
    }
}

impl ShownPart {
    fn new(part: &ContextPartOutput, with_prompt: bool, left: &mut usize) -> Self {
        let server = part.server.as_ref().map(|server| format!(" (MCP server {server})")).unwrap_or_default();
        let is_shown = with_prompt || part.kind != ContextKind::Prompt;
        let text = part.text.as_deref().filter(|_| is_shown).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        let mut lines = Vec::new();
        for line in all.iter().take(MOST_LINES) {
            if line.len() > *left {
                break;
            }
            *left -= line.len();
            lines.push(ShownText::from_line(line));
        }
        Self {
            kind: part.kind.name(),
            name: format!("{}{server}", part.name).into(),
            bytes: part.bytes,
            tokens: part.tokens,
            share: format!("{:.1} %", part.share_percent),
            price: part.price_microusd.map(dollars).unwrap_or_default(),
            is_cacheable: part.is_cacheable,
            left_out: all.len() - lines.len(),
            lines,
        }
    }
}

/// Draws the whole request as one bar, and a bar for each kind.
fn draw(context: &ContextOutput) -> Result<String> {
    let part = |kind: ContextKind, name: &str, bytes: usize| {
        (class(kind), format!("{} {name}: {}", kind.name(), counted(bytes, "byte")), bytes as u64)
    };
    let whole = PlotRow {
        label: "whole request".to_owned(),
        parts: context.parts.iter().map(|shown| part(shown.kind, &shown.name, shown.bytes)).collect(),
        words: counted(context.bytes, "byte"),
    };
    let mut rows = vec![whole];
    for kind in ContextKind::ALL {
        let of_kind = || context.parts.iter().filter(|shown| shown.kind == *kind);
        let bytes: usize = of_kind().map(|shown| shown.bytes).sum();
        if bytes > 0 {
            let percent = bytes as f64 * 100.0 / context.bytes.max(1) as f64;
            rows.push(PlotRow {
                label: kind.name().to_owned(),
                parts: vec![part(*kind, "", bytes)],
                words: format!("{bytes} ({percent:.1} %)"),
            });
        }
    }
    let picture =
        PlotPicture::new("The parts of the request, in the order in which the model reads them", &rows);
    crate::one_file::render(&picture)
}
