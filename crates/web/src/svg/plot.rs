//! Draws bars: one row for each group, in parts of different classes.

use askama::Template;

const LABEL: i32 = 150;
const BAR: i32 = 420;
const ROW: i32 = 24;

/// A group of a plot.
#[derive(Clone, Debug)]
pub(crate) struct PlotRow {
    /// The name of the group.
    pub(crate) label: String,
    /// The parts of its bar: the class, the words about it, and the value.
    pub(crate) parts: Vec<(&'static str, String, u64)>,
    /// The value of the whole bar in words.
    pub(crate) words: String,
}

/// The picture of a plot.
#[derive(Debug, Template)]
#[template(path = "plot.svg", escape = "html")]
pub(crate) struct PlotPicture {
    title: String,
    height: i32,
    rows: Vec<DrawnRow>,
}

#[derive(Debug)]
struct DrawnRow {
    y: i32,
    label: String,
    full_label: String,
    words: String,
    end: i32,
    parts: Vec<DrawnPart>,
}

#[derive(Debug)]
struct DrawnPart {
    class: &'static str,
    title: String,
    x: i32,
    width: i32,
}

impl PlotPicture {
    pub(crate) fn new(title: &str, rows: &[PlotRow]) -> Self {
        let sum = |row: &PlotRow| row.parts.iter().map(|(_, _, value)| *value).fold(0, u64::saturating_add);
        let most = rows.iter().map(sum).max().unwrap_or(0).max(1);
        let length = |value: u64| {
            let wide = u128::from(value) * u128::from(BAR.unsigned_abs()) / u128::from(most);
            i32::try_from(wide).unwrap_or(BAR).min(BAR)
        };
        let mut drawn = Vec::new();
        for (row, y) in rows.iter().zip((0..).step_by(ROW as usize)) {
            let (mut before, mut parts) = (0_u64, Vec::new());
            for (class, words, value) in row.parts.iter().filter(|(_, _, value)| *value > 0) {
                let x = length(before);
                before = before.saturating_add(*value);
                let width = (length(before) - x).max(1);
                parts.push(DrawnPart { class, title: words.clone(), x: LABEL + x, width });
            }
            let short: String = row.label.chars().take(20).collect();
            let label = if short.len() < row.label.len() { format!("{short}…") } else { short };
            drawn.push(DrawnRow {
                y,
                label,
                full_label: row.label.clone(),
                words: row.words.clone(),
                end: LABEL + length(before) + 8,
                parts,
            });
        }
        let height = i32::try_from(rows.len()).unwrap_or(i32::MAX / ROW).saturating_mul(ROW);
        Self { title: title.to_owned(), height, rows: drawn }
    }
}
