//! Renders rows as a table that fits the terminal.

use callsheet::text_width::{shorten_end, text_width};

use crate::print::{OutputPrinter, TextStyle};

/// Cell of a table: its text, and the style of it.
#[derive(Clone, Debug)]
pub(crate) struct TableCell {
    text: String,
    style: Option<TextStyle>,
}

impl TableCell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        // A tab would move the cells behind it.
        Self { text: text.into().replace('\t', " "), style: None }
    }

    pub(crate) fn styled(text: impl Into<String>, style: TextStyle) -> Self {
        Self { style: Some(style), ..Self::new(text) }
    }
}

/// The fewest columns of the terminal for a column that is shortened.
const LEAST: usize = 12;

/// Renders a table. At a terminal that is too narrow, the column `flexible` is shortened first, then the end of each line.
pub(crate) fn table_page(
    print: &OutputPrinter,
    head: &[&str],
    rows: &[Vec<TableCell>],
    flexible: usize,
) -> String {
    let mut widths: Vec<usize> = head.iter().map(|name| text_width(name)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(text_width(&cell.text));
        }
    }
    let total: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    let most = print.width();
    if let Some(most) = most.filter(|most| total > *most)
        && let Some(width) = widths.get_mut(flexible)
    {
        *width = width.saturating_sub(total - most).max(LEAST.min(*width));
    }
    let heading = head.iter().map(|name| TableCell::styled(*name, TextStyle::Bold)).collect();
    let mut page = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        page += &render_row(print, row, &widths, most);
        page.push('\n');
    }
    page
}

fn render_row(print: &OutputPrinter, row: &[TableCell], widths: &[usize], most: Option<usize>) -> String {
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
    let mut line = String::new();
    let mut left = most.unwrap_or(usize::MAX);
    for (at, (cell, width)) in row.iter().zip(widths).take(last + 1).enumerate() {
        let text = shorten_end(&cell.text, (*width).min(left));
        let count = text_width(&text);
        line += &cell.style.map_or_else(|| text.clone(), |style| print.paint(style, &text).into_owned());
        left = left.saturating_sub(*width + 2);
        if at == last || left == 0 {
            break;
        }
        line += &" ".repeat(width - count + 2);
    }
    line
}
