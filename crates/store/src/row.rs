//! Parameters and result values of SQL statements.

use callsheet_core::record::Digest;

use crate::error::LedgerError;

/// Parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SqlParam<'p> {
    Null,
    Int(i64),
    Text(&'p str),
    Bytes(&'p [u8]),
}

impl<'p> SqlParam<'p> {
    pub(crate) fn text_or_null(text: Option<&'p str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// Value of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SqlValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// Of a type that no column has.
    Other,
}

/// Row that is read from left to right. A value of the wrong type is damage, and the error names its column.
#[derive(Debug)]
pub(crate) struct SqlRow(pub(crate) std::vec::IntoIter<SqlValue>);

impl SqlRow {
    /// Returns whether all values are read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }

    pub(crate) fn int(&mut self, column: &str) -> Result<i64, LedgerError> {
        match self.0.next() {
            Some(SqlValue::Int(number)) => Ok(number),
            _ => Err(LedgerError::damaged(format!("{column} is not a number"))),
        }
    }

    pub(crate) fn maybe_int(&mut self, column: &str) -> Result<Option<i64>, LedgerError> {
        match self.0.next() {
            Some(SqlValue::Null) => Ok(None),
            Some(SqlValue::Int(number)) => Ok(Some(number)),
            _ => Err(LedgerError::damaged(format!("{column} is not a number"))),
        }
    }

    pub(crate) fn text(&mut self, column: &str) -> Result<String, LedgerError> {
        self.maybe_text(column)?.ok_or_else(|| LedgerError::damaged(format!("{column} is not a text")))
    }

    pub(crate) fn maybe_text(&mut self, column: &str) -> Result<Option<String>, LedgerError> {
        match self.0.next() {
            Some(SqlValue::Null) => Ok(None),
            Some(SqlValue::Text(text)) => Ok(Some(text)),
            _ => Err(LedgerError::damaged(format!("{column} is not a text"))),
        }
    }

    pub(crate) fn bytes(&mut self, column: &str) -> Result<Vec<u8>, LedgerError> {
        self.maybe_bytes(column)?.ok_or_else(|| LedgerError::damaged(format!("{column} is missing")))
    }

    pub(crate) fn maybe_bytes(&mut self, column: &str) -> Result<Option<Vec<u8>>, LedgerError> {
        match self.0.next() {
            Some(SqlValue::Null) => Ok(None),
            Some(SqlValue::Bytes(bytes)) => Ok(Some(bytes)),
            _ => Err(LedgerError::damaged(format!("{column} is not a byte string"))),
        }
    }

    pub(crate) fn digest(&mut self, column: &str) -> Result<Digest, LedgerError> {
        let bytes = self.bytes(column)?;
        bytes.try_into().map(Digest).map_err(|_| LedgerError::damaged(format!("{column} is not a SHA-256")))
    }
}
