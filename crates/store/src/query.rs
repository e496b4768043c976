//! Builds a query from pieces that are part of the program: values are bound, never written into it.

use crate::row::SqlParam;

/// Query with its parameters.
#[derive(Debug, Default)]
pub(crate) struct QueryBuilder<'p> {
    sql: String,
    params: Vec<SqlParam<'p>>,
}

impl<'p> QueryBuilder<'p> {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self { sql: sql.into(), params: Vec::new() }
    }

    /// Appends a piece of SQL.
    pub(crate) fn push(&mut self, sql: &'static str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends a parameter.
    pub(crate) fn bind(&mut self, param: SqlParam<'p>) -> &mut Self {
        self.params.push(param);
        self.sql.push_str(&format!("${}", self.params.len()));
        self
    }

    /// Appends a condition on a column, if there is a value for it.
    pub(crate) fn and_text(&mut self, condition: &'static str, value: Option<&'p str>) -> &mut Self {
        if let Some(value) = value {
            self.push(condition).bind(SqlParam::Text(value));
        }
        self
    }

    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    pub(crate) fn params(&self) -> &[SqlParam<'p>] {
        &self.params
    }
}
