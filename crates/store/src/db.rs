//! Databases: hides the differences between the two engines.
//!
//! Both take the same statements, with `$1`, `$2` … in order of their first appearance. `sqlite` and `pg` are the
//! only files that name a driver; `missing_engine` takes the place of one that is not built in.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use callsheet_core::record::Digest;

use crate::error::LedgerError;
use crate::migrate::SchemaMigration;
use crate::query::QueryBuilder;
use crate::row::{SqlParam, SqlRow};
use crate::sqlite;

/// Advisory lock of all writers to a ledger on PostgreSQL; the number has no meaning.
pub(crate) const WRITERS: u32 = 7_161_947;

/// Database engine of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseEngine {
    /// SQLite, in a file or in memory.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// Open database of one engine.
pub(crate) trait DatabaseDriver: Send {
    fn engine(&self) -> DatabaseEngine;

    /// Returns the location's name for messages.
    fn name(&self) -> String;

    fn execute(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<u64, LedgerError>;

    fn query(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<Vec<SqlRow>, LedgerError>;

    /// Runs a query that was built.
    fn query_built(&mut self, query: &QueryBuilder<'_>) -> Result<Vec<SqlRow>, LedgerError>;

    /// Runs statements that have neither parameters nor results.
    fn execute_batch(&mut self, sql: &str) -> Result<(), LedgerError>;

    /// Returns those of these blobs that the database has.
    fn find_known_blobs(&mut self, digests: &[Digest]) -> Result<BTreeSet<Digest>, LedgerError>;

    /// Takes note that a transaction begins or ends.
    fn set_in_transaction(&mut self, _now: bool) {}
}

/// Open database.
pub(crate) struct DatabaseConnection {
    driver: Box<dyn DatabaseDriver>,
    /// Whether the runs of all projects share one sequence of numbers: the ledger has one owner.
    pub(crate) numbers_together: bool,
}

impl fmt::Debug for DatabaseConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A URL may contain a password.
        write!(f, "{:?}", self.engine())
    }
}

impl Deref for DatabaseConnection {
    type Target = dyn DatabaseDriver;

    fn deref(&self) -> &Self::Target {
        &*self.driver
    }
}

impl DerefMut for DatabaseConnection {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.driver
    }
}

impl DatabaseConnection {
    pub(crate) fn new(driver: impl DatabaseDriver + 'static) -> Self {
        Self { driver: Box::new(driver), numbers_together: false }
    }

    /// Runs `work` as a whole or not at all, under the write lock.
    pub(crate) fn with_write_lock<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.begin_transaction("BEGIN IMMEDIATE", "BEGIN")?;
        let done = match self.engine() {
            DatabaseEngine::Sqlite => Ok(()),
            // Held until the end of the transaction, so that numbers are in the order of the commits.
            DatabaseEngine::Postgres => {
                self.execute_batch(&format!("SELECT pg_advisory_xact_lock({WRITERS})"))
            }
        };
        let done = done.and_then(|()| work(self));
        self.end_transaction(done)
    }

    /// Starts a snapshot: until [`Self::end`], reads do not see concurrent writes.
    pub(crate) fn begin_snapshot(&mut self) -> Result<(), LedgerError> {
        self.begin_transaction("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    }

    fn begin_transaction(&mut self, sqlite: &'static str, postgres: &str) -> Result<(), LedgerError> {
        match self.engine() {
            DatabaseEngine::Sqlite => self.execute(sqlite, &[]).map(drop)?,
            DatabaseEngine::Postgres => self.execute_batch(postgres)?,
        }
        self.set_in_transaction(true);
        Ok(())
    }

    /// Commits a transaction, or rolls it back if it failed.
    pub(crate) fn end_transaction<T>(&mut self, done: Result<T, LedgerError>) -> Result<T, LedgerError> {
        let done = done.and_then(|value| {
            match self.engine() {
                DatabaseEngine::Sqlite => self.execute("COMMIT", &[]).map(drop)?,
                DatabaseEngine::Postgres => self.execute_batch("COMMIT")?,
            }
            Ok(value)
        });
        if done.is_err() {
            // The transaction and the connection may be gone already; then nothing was written.
            let _ = self.execute_batch("ROLLBACK");
        }
        self.set_in_transaction(false);
        done
    }

    pub(crate) fn has_schema(&mut self) -> Result<bool, LedgerError> {
        let sql = match self.engine() {
            DatabaseEngine::Sqlite => "SELECT 1 FROM sqlite_schema LIMIT 1",
            DatabaseEngine::Postgres => {
                "SELECT 1::bigint FROM information_schema.tables WHERE table_schema = current_schema() LIMIT 1"
            }
        };
        Ok(!self.query(sql, &[])?.is_empty())
    }

    /// Checks that the schema is exactly ours: a trigger or a view in a file from another source would run
    /// when we write.
    pub(crate) fn check_schema(&mut self, known: &[SchemaMigration]) -> Result<(), LedgerError> {
        if self.engine() == DatabaseEngine::Postgres {
            return Ok(());
        }
        // A migration can change a statement of an earlier one, so the same migrations define the expected
        // schema.
        let mut model = sqlite::open_memory()?;
        known.iter().try_for_each(|migration| model.execute_batch(migration.sql))?;
        let mut wanted: BTreeSet<String> = model.schema()?.into_iter().filter_map(|(_, sql)| sql).collect();
        for (name, sql) in self.schema()? {
            if !sql.is_some_and(|sql| wanted.remove(&sql)) {
                return Err(LedgerError::damaged(format!("`{name}` in its schema is not callsheet's")));
            }
        }
        match wanted.first() {
            Some(missing) => Err(LedgerError::damaged(format!(
                "its schema lacks `{}`",
                missing.lines().next().unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }

    /// Returns the objects of an SQLite schema: the name of each, and the statement that creates it.
    fn schema(&mut self) -> Result<Vec<(String, Option<String>)>, LedgerError> {
        let rows = self.query("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'", &[])?;
        rows.into_iter()
            .map(|mut row| Ok((row.text("sqlite_schema.name")?, row.maybe_text("sqlite_schema.sql")?)))
            .collect()
    }

    /// Returns the faults that the database itself finds in its pages and indices.
    pub(crate) fn integrity_check(&mut self) -> Result<Vec<String>, LedgerError> {
        if self.engine() == DatabaseEngine::Postgres {
            return Ok(Vec::new());
        }
        self.find_faults("PRAGMA integrity_check")
    }

    /// Checks the pages without the order of the indices, which takes much longer.
    pub(crate) fn quick_check(&mut self) -> Result<Vec<String>, LedgerError> {
        self.find_faults("PRAGMA quick_check(1)")
    }

    fn find_faults(&mut self, sql: &'static str) -> Result<Vec<String>, LedgerError> {
        let rows = self.query(sql, &[])?;
        let lines: Result<Vec<String>, LedgerError> = rows.into_iter().map(|mut row| row.text(sql)).collect();
        Ok(lines?.into_iter().filter(|line| line != "ok").collect())
    }

    /// Writes a whole copy into a new file.
    pub(crate) fn copy_into(&mut self, path: &Path) -> Result<(), LedgerError> {
        let odd = || LedgerError::Failed(format!("`{}` is not UTF-8", path.display()));
        let path = path.to_str().ok_or_else(odd)?;
        // SQLite treats the copy as a change of a read-only connection.
        self.execute_batch("PRAGMA query_only = OFF")?;
        self.execute_batch(&format!("VACUUM INTO '{}'", path.replace('\'', "''")))
    }

    /// Returns the space of removed content to the file system.
    pub(crate) fn shrink(&mut self) -> Result<(), LedgerError> {
        match self.engine() {
            DatabaseEngine::Sqlite => self.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"),
            // One by one: several statements at once would form a transaction, and `VACUUM` cannot run in
            // one.
            DatabaseEngine::Postgres => {
                self.execute_batch("VACUUM blobs").and_then(|()| self.execute_batch("VACUUM records"))
            }
        }
    }
}
