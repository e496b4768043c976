//! The table that goes into `docs/performance.md`: what was aimed for, what was measured, whether it is reached.

use std::fmt::Write as _;
use std::path::Path;

/// Between these two lines the page is written by the bench.
const BEGIN: &str = "<!-- measured: written by bench/run -->";
const END: &str = "<!-- end of measured -->";

#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One kind of work, with everything that it is held against.
pub(crate) struct Row {
    work: String,
    goals: Vec<Goal>,
    /// Everybody who did it, us among them.
    contenders: Vec<Taken>,
}

pub(crate) struct Taken {
    pub(crate) name: String,
    pub(crate) nanoseconds: f64,
    /// What else is to be said of it.
    pub(crate) remark: String,
}

struct Goal {
    against: String,
    wanted: Wanted,
    /// `None` if there was nothing to measure against.
    measured: Option<f64>,
}

enum Wanted {
    /// So many times as fast as the other.
    Faster(f64),
    /// So many times the other's time or room, at most.
    AtMost(f64),
    Exponent(f64),
}

impl Goal {
    fn wanted(&self) -> String {
        match self.wanted {
            Wanted::Faster(goal) => format!("at least {goal}× faster"),
            Wanted::AtMost(goal) => format!("at most {goal}×"),
            Wanted::Exponent(goal) => format!("at most {goal}"),
        }
    }

    fn measured(&self) -> String {
        match (self.measured, &self.wanted) {
            (None, _) => "not measured".into(),
            (Some(ratio), Wanted::Exponent(_)) => format!("{ratio:.2}"),
            (Some(ratio), _) if ratio >= 10.0 => format!("{ratio:.0}×"),
            (Some(ratio), _) => format!("{ratio:.2}×"),
        }
    }

    fn verdict(&self) -> &'static str {
        let reached = |measured| match self.wanted {
            Wanted::Faster(goal) => measured >= goal,
            Wanted::AtMost(goal) | Wanted::Exponent(goal) => measured <= goal,
        };
        match self.measured.map(reached) {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        }
    }
}

impl Row {
    pub(crate) fn new(work: &str) -> Self {
        Self { work: work.into(), goals: Vec::new(), contenders: Vec::new() }
    }

    /// `ratio` times as fast as `peer`; at least `goal` is wanted.
    pub(crate) fn faster(self, peer: &str, ratio: Option<f64>, goal: f64) -> Self {
        self.goal(peer, ratio, Wanted::Faster(goal))
    }

    /// `ratio` times the cost of `limit`; at most `goal` is wanted.
    pub(crate) fn at_most(self, limit: &str, ratio: f64, goal: f64) -> Self {
        self.goal(limit, Some(ratio), Wanted::AtMost(goal))
    }

    pub(crate) fn exponent(self, against: &str, exponent: f64, goal: f64) -> Self {
        self.goal(against, Some(exponent), Wanted::Exponent(goal))
    }

    fn goal(mut self, against: &str, measured: Option<f64>, wanted: Wanted) -> Self {
        self.goals.push(Goal { against: against.into(), wanted, measured });
        self
    }

    pub(crate) fn contenders(mut self, contenders: impl IntoIterator<Item = Taken>) -> Self {
        self.contenders.extend(contenders);
        self
    }
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        for goal in &row.goals {
            let (wanted, measured, verdict) = (goal.wanted(), goal.measured(), goal.verdict());
            eprintln!("{verdict:6} {} | {}: {measured}, goal {wanted}", row.work, goal.against);
        }
        for taken in &row.contenders {
            eprintln!("       {} {} {}", taken.name, duration(taken.nanoseconds), taken.remark);
        }
        self.rows.push(row);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    pub(crate) fn text(&self, machine: &str) -> String {
        let mut out =
            format!("{machine}\n\n| work | against | goal | measured | reached |\n|---|---|--:|--:|---|\n");
        for row in &self.rows {
            for (at, goal) in row.goals.iter().enumerate() {
                let work = if at == 0 { &row.work } else { "" };
                let (against, wanted, measured) = (&goal.against, goal.wanted(), goal.measured());
                let _ = writeln!(out, "| {work} | {against} | {wanted} | {measured} | {} |", goal.verdict());
            }
        }
        out.push_str("\nEverybody who took part, the fastest time of each:\n\n");
        out.push_str("| work | who | takes | |\n|---|---|--:|---|\n");
        for row in &self.rows {
            for (at, Taken { name, nanoseconds, remark }) in row.contenders.iter().enumerate() {
                let work = if at == 0 { &row.work } else { "" };
                let _ = writeln!(out, "| {work} | {name} | {} | {remark} |", duration(*nanoseconds));
            }
        }
        out
    }

    /// Puts the text into the page.
    pub(crate) fn write(&self, machine: &str, page: &Path) -> Result<(), String> {
        let old = std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
        let parts = old.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
        let (head, tail) =
            parts.ok_or_else(|| format!("{} has no lines `{BEGIN}` and `{END}`", page.display()))?;
        let new = format!("{head}{BEGIN}\n\n{}\n{END}{tail}", self.text(machine));
        std::fs::write(page, new).map_err(|error| format!("{}: {error}", page.display()))
    }
}

fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}
