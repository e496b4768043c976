//! Finds a run by the name that a person gives it.

use callsheet_core::record::Id;

use crate::error::LedgerError;
use crate::ledger::{Ledger, to_seq};
use crate::list::{RunFilter, RunRow};
use crate::list_older::{count_number, find_older_run};
use crate::migrate::has_facts;
use crate::row::SqlParam;

impl Ledger {
    /// Finds a run by its id, by the beginning of its id, by its short name, by its task, or the `last` one.
    pub fn find(&mut self, name: &str) -> Result<RunRow, LedgerError> {
        self.find_among(name, &RunFilter::default())
    }

    /// Finds a run. The first of these that there is: the whole id; `last` and `last~N`; the short name `r42`; the newest run of the task with
    /// this id; the beginning of an id. Ids are searched in the whole ledger, the rest among the runs that `among` selects.
    pub fn find_among(&mut self, name: &str, among: &RunFilter) -> Result<RunRow, LedgerError> {
        if let Some(id) = Id::parse(&name.to_ascii_lowercase()) {
            return self.find_id(&id)?.ok_or_else(|| LedgerError::NoRun(name.into()));
        }
        if let Some(back) = parse_back(name) {
            let rows = self.runs(&RunFilter { limit: back.saturating_add(1), ..among.clone() })?;
            if let Some(row) = rows.into_iter().nth(back) {
                return Ok(row);
            }
        }
        if let Some(number) = parse_number(name) {
            // An imported run has a number, too.
            let filter = RunFilter { number: Some(number), own: false, limit: 11, ..among.clone() };
            let rows = self.runs(&filter)?;
            if !rows.is_empty() {
                return one_of(name, rows);
            }
        }
        let of_task = RunFilter { task: Some(name.into()), limit: 1, ..among.clone() };
        if let Some(row) = self.runs(&of_task)?.into_iter().next() {
            return Ok(row);
        }
        let rows = self.find_prefix(name)?;
        one_of(name, rows)
    }

    /// Returns the number of a run in its project.
    pub fn number_of(&mut self, run: &Id) -> Result<Option<u64>, LedgerError> {
        if !has_facts(&mut self.db)? {
            let row = find_older_run(&mut self.db, run)?;
            return row.map(|row| count_number(&mut self.db, &row)).transpose();
        }
        let sql = "SELECT f.number FROM runs r JOIN run_facts f ON f.seq = r.seq WHERE r.id = $1";
        let row = self.db.query(sql, &[SqlParam::Text(run.as_str())])?.into_iter().next();
        row.map(|mut row| Ok(to_seq(row.int("run_facts.number")?))).transpose()
    }

    fn find_id(&mut self, id: &Id) -> Result<Option<RunRow>, LedgerError> {
        let Some(row) = find_older_run(&mut self.db, id)? else { return Ok(None) };
        self.find_row(row.seq)
    }

    /// Returns the run with this first record, with its facts.
    fn find_row(&mut self, seq: u64) -> Result<Option<RunRow>, LedgerError> {
        let filter = RunFilter { before: Some(seq.saturating_add(1)), limit: 1, ..RunFilter::default() };
        Ok(self.runs(&filter)?.into_iter().next().filter(|row| row.seq == seq))
    }

    fn find_prefix(&mut self, name: &str) -> Result<Vec<RunRow>, LedgerError> {
        let is_prefix = !name.is_empty() && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        if !is_prefix {
            return Ok(Vec::new());
        }
        let first = name.to_ascii_lowercase();
        let after = format!("{first}~");
        let sql = "SELECT seq FROM runs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 11";
        let mut found = Vec::new();
        for mut row in self.db.query(sql, &[SqlParam::Text(&first), SqlParam::Text(&after)])? {
            found.extend(self.find_row(to_seq(row.int("runs.seq")?))?);
        }
        Ok(found)
    }
}

/// Returns N of `last~N`, and 0 of `last`.
fn parse_back(name: &str) -> Option<usize> {
    if name == "last" { Some(0) } else { parse_digits(name.strip_prefix("last~")?) }
}

/// Returns the number of a short name such as `r42`.
fn parse_number(name: &str) -> Option<u64> {
    parse_digits(name.strip_prefix(['r', 'R'])?)
}

fn parse_digits<T: std::str::FromStr>(digits: &str) -> Option<T> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn one_of(name: &str, mut rows: Vec<RunRow>) -> Result<RunRow, LedgerError> {
    match rows.len() {
        0 => Err(LedgerError::NoRun(name.into())),
        1 => Ok(rows.remove(0)),
        _ => {
            let label = |row: RunRow| match &row.run.project {
                Some(project) => format!("{} {} ({project})", row.name(), row.run.id),
                None => format!("{} {}", row.name(), row.run.id),
            };
            Err(LedgerError::ManyRuns(name.into(), rows.into_iter().map(label).collect()))
        }
    }
}
