//! The table that goes into `docs/performance.md`.

use std::fmt::Write as _;

#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// One line of work: how far ahead of the best peer, how near the limit, and whether that is what was aimed for.
pub(crate) struct Row {
    work: String,
    ahead: String,
    near: String,
    absolute: String,
    reached: bool,
}

impl Row {
    pub(crate) fn new(work: &str) -> Self {
        let dash = || "–".to_string();
        Self { work: work.into(), ahead: dash(), near: dash(), absolute: String::new(), reached: true }
    }

    /// `ratio` times as fast as `peer`; at least `goal` is wanted.
    pub(crate) fn ahead(mut self, peer: &str, ratio: f64, goal: f64) -> Self {
        let more = format!("{ratio:.1}x faster than {peer} (goal {goal}x)");
        self.ahead = if self.ahead == "–" { more } else { format!("{}; {more}", self.ahead) };
        self.reached &= ratio >= goal;
        self
    }

    /// `ratio` times the cost of `limit`; at most `goal` is wanted.
    pub(crate) fn near(mut self, limit: &str, ratio: f64, goal: f64) -> Self {
        let more = format!("{ratio:.2}x {limit} (goal {goal}x)");
        self.near = if self.near == "–" { more } else { format!("{}; {more}", self.near) };
        self.reached &= ratio <= goal;
        self
    }

    pub(crate) fn exponent(mut self, exponent: f64, goal: f64) -> Self {
        self.near = format!("exponent {exponent:.2} (goal {goal})");
        self.reached &= exponent <= goal;
        self
    }

    pub(crate) fn absolute(mut self, nanoseconds: f64) -> Self {
        self.absolute = match nanoseconds {
            n if n < 1e3 => format!("{n:.0} ns"),
            n if n < 1e6 => format!("{:.1} µs", n / 1e3),
            n if n < 1e9 => format!("{:.1} ms", n / 1e6),
            n => format!("{:.2} s", n / 1e9),
        };
        self
    }
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        let mark = if row.reached { "reached" } else { "MISSED" };
        eprintln!("{mark:8} {}: {} | {} {}", row.work, row.ahead, row.near, row.absolute);
        self.rows.push(row);
    }

    pub(crate) fn note(&mut self, note: &str) {
        eprintln!("         {note}");
        self.notes.push(note.into());
    }

    pub(crate) fn table(&self) -> String {
        let mut out = String::from("| work | ahead of | near the limit | takes | |\n|---|---|---|--:|---|\n");
        for row in &self.rows {
            let mark = if row.reached { "reached" } else { "**missed**" };
            let _ = writeln!(out, "| {} | {} | {} | {} | {mark} |", row.work, row.ahead, row.near, row.absolute);
        }
        out
    }

    pub(crate) fn notes(&self) -> String {
        self.notes.iter().map(|note| format!("- {note}\n")).collect()
    }
}
