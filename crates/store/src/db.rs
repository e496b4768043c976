//! Databases: with `pg`, the only file that names a driver.
//!
//! Both engines take the same statements, with `$1`, `$2` … in order of their first appearance. This module
//! hides their differences.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::record::Digest;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::database_file::{DatabaseFile, ReadMethod, choose_method, find_file};
use crate::error::LedgerError;
use crate::migrate::SchemaMigration;
use crate::pg::{PostgresDatabase, WRITERS};
use crate::private_file::make_private;
use crate::row::{SqlParam, SqlRow, SqlValue};
use crate::timeouts::LedgerTimeouts;

/// Database engine of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseEngine {
    /// SQLite, in a file or in memory.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

/// Open database.
pub(crate) enum DatabaseConnection {
    Sqlite(Connection, Option<Box<DatabaseFile>>),
    Postgres(Box<PostgresDatabase>),
}

impl fmt::Debug for DatabaseConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A URL may contain a password.
        write!(f, "{:?}", self.engine())
    }
}

/// Older versions can lose written data when a write-ahead log is reset.
const OLDEST_SQLITE: i32 = 3_051_003;

pub(crate) fn check_version(version: i32) -> Result<(), LedgerError> {
    if version >= OLDEST_SQLITE {
        return Ok(());
    }
    let spelled = |n: i32| format!("{}.{}.{}", n / 1_000_000, n / 1000 % 1000, n % 1000);
    let (found, oldest) = (spelled(version), spelled(OLDEST_SQLITE));
    Err(LedgerError::Failed(format!(
        "SQLite {found} can corrupt a write-ahead log; {oldest} or newer is needed"
    )))
}

/// Returns the version of the built-in SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

impl DatabaseConnection {
    pub(crate) fn open_memory() -> Result<Self, LedgerError> {
        check_version(rusqlite::version_number())?;
        Ok(Self::Sqlite(Connection::open_in_memory()?, None))
    }

    /// Opens a database in an unnamed file, so that its contents need not fit into memory.
    pub(crate) fn open_temporary() -> Result<Self, LedgerError> {
        check_version(rusqlite::version_number())?;
        Ok(Self::Sqlite(Connection::open("")?, None))
    }

    /// Opens a file, and creates it if `create` is set. Only its owner can read it, whatever the umask is.
    pub(crate) fn open_sqlite(
        path: &Path,
        create: bool,
        patience: LedgerTimeouts,
    ) -> Result<Self, LedgerError> {
        check_version(rusqlite::version_number())?;
        let path = make_private(path, create)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(patience.lock)?;
        let mut db = Self::Sqlite(connection, None);
        // Records and packed texts take one to three KB each: with smaller pages, a quarter would stay empty.
        db.execute_batch("PRAGMA page_size = 8192")?;
        // A database from a cloned repository must not run its own code.
        db.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = FULL",
        )?;
        // A change of the mode does not itself wait for other connections.
        let start = Instant::now();
        loop {
            match db.execute_batch("PRAGMA journal_mode = WAL") {
                Err(LedgerError::Locked) if start.elapsed() < patience.lock => {
                    thread::sleep(Duration::from_millis(5))
                }
                done => break done?,
            }
        }
        Ok(db)
    }

    /// Opens a file to read it. Writes nothing: neither the file, nor its mode, nor any file beside it. The only
    /// exceptions are the files that SQLite needs to read beside a writer: it creates them if it can, and removes
    /// them again.
    pub(crate) fn open_sqlite_to_read(path: &Path, patience: LedgerTimeouts) -> Result<Self, LedgerError> {
        check_version(rusqlite::version_number())?;
        let mut found = find_file(path)?;
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let (read_only, read_write) = (OpenFlags::SQLITE_OPEN_READ_ONLY, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let connection = match choose_method(&mut found)? {
            ReadMethod::Beside => Connection::open_with_flags(&found.path, flags | read_write)?,
            ReadMethod::Frozen(uri) => {
                Connection::open_with_flags(uri, flags | read_only | OpenFlags::SQLITE_OPEN_URI)?
            }
            ReadMethod::Copied(copy) => Connection::open_with_flags(copy, flags | read_write)?,
        };
        connection.busy_timeout(patience.lock)?;
        let mut db = Self::Sqlite(connection, Some(Box::new(found)));
        db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON")?;
        // There may be no place on the disk for sorting.
        db.execute_batch("PRAGMA temp_store = MEMORY")?;
        Ok(db)
    }

    /// Opens a file that is open already a second time, to see its current contents. Writes nothing.
    pub(crate) fn reopen_sqlite(path: &Path, patience: Duration) -> Result<Self, LedgerError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(patience)?;
        let mut db = Self::Sqlite(connection, None);
        db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON")?;
        Ok(db)
    }

    pub(crate) fn open_postgres(url: &str, patience: LedgerTimeouts) -> Result<Self, LedgerError> {
        Ok(Self::Postgres(Box::new(PostgresDatabase::connect(url, false, patience)?)))
    }

    /// Connects without creating anything: for users with read access only, and for replicas.
    pub(crate) fn open_postgres_to_read(url: &str, patience: LedgerTimeouts) -> Result<Self, LedgerError> {
        Ok(Self::Postgres(Box::new(PostgresDatabase::connect(url, true, patience)?)))
    }

    /// Returns the location's name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sqlite(_, Some(found)) => found.path.display().to_string(),
            Self::Sqlite(..) => "this file".into(),
            Self::Postgres(_) => "this PostgreSQL database".into(),
        }
    }

    pub(crate) fn engine(&self) -> DatabaseEngine {
        match self {
            Self::Sqlite(..) => DatabaseEngine::Sqlite,
            Self::Postgres(_) => DatabaseEngine::Postgres,
        }
    }

    pub(crate) fn execute(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<u64, LedgerError> {
        match self {
            Self::Sqlite(connection, _) => {
                let mut statement = connection.prepare_cached(sql)?;
                Ok(statement.execute(rusqlite::params_from_iter(params))? as u64)
            }
            Self::Postgres(postgres) => postgres.execute(sql, &bind_params(params)),
        }
    }

    pub(crate) fn query(
        &mut self,
        sql: &'static str,
        params: &[SqlParam<'_>],
    ) -> Result<Vec<SqlRow>, LedgerError> {
        match self {
            Self::Sqlite(connection, file) => {
                let mut statement = connection.prepare_cached(sql)?;
                let width = statement.column_count();
                let mut rows = statement.query(rusqlite::params_from_iter(params))?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let values: Result<Vec<SqlValue>, _> =
                        (0..width).map(|at| row.get_ref(at).map(value_from_sqlite)).collect();
                    found.push(SqlRow(values?.into_iter()));
                }
                match file {
                    Some(file) if file.has_changed() => Err(LedgerError::Locked),
                    _ => Ok(found),
                }
            }
            Self::Postgres(postgres) => {
                let rows = postgres.query(sql, &bind_params(params))?;
                rows.iter().map(|row| Ok(SqlRow(values_from_postgres(row)?.into_iter()))).collect()
            }
        }
    }

    /// Runs statements that have neither parameters nor results.
    pub(crate) fn execute_batch(&mut self, sql: &str) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(connection, _) => Ok(connection.execute_batch(sql)?),
            Self::Postgres(postgres) => postgres.execute_batch(sql),
        }
    }

    /// Runs `work` as a whole or not at all, under the write lock.
    pub(crate) fn with_write_lock<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.begin_transaction("BEGIN IMMEDIATE", "BEGIN")?;
        let done = match self {
            Self::Sqlite(..) => Ok(()),
            // Held until the end of the transaction, so that numbers are in the order of the commits.
            Self::Postgres(_) => self.execute_batch(&format!("SELECT pg_advisory_xact_lock({WRITERS})")),
        };
        let done = done.and_then(|()| work(self));
        self.end_transaction(done)
    }

    /// Starts a snapshot: until [`Self::end`], reads do not see concurrent writes.
    pub(crate) fn begin_snapshot(&mut self) -> Result<(), LedgerError> {
        self.begin_transaction("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    }

    fn begin_transaction(&mut self, sqlite: &'static str, postgres: &str) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(..) => self.execute(sqlite, &[]).map(drop)?,
            Self::Postgres(_) => self.execute_batch(postgres)?,
        }
        self.set_in_transaction(true);
        Ok(())
    }

    /// Commits a transaction, or rolls it back if it failed.
    pub(crate) fn end_transaction<T>(&mut self, done: Result<T, LedgerError>) -> Result<T, LedgerError> {
        let done = done.and_then(|value| {
            match self {
                Self::Sqlite(..) => self.execute("COMMIT", &[]).map(drop)?,
                Self::Postgres(_) => self.execute_batch("COMMIT")?,
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

    fn set_in_transaction(&mut self, now: bool) {
        if let Self::Postgres(postgres) = self {
            postgres.set_in_transaction(now);
        }
    }

    pub(crate) fn has_schema(&mut self) -> Result<bool, LedgerError> {
        let sql = match self {
            Self::Sqlite(..) => "SELECT 1 FROM sqlite_schema LIMIT 1",
            Self::Postgres(_) => {
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
        let mut model = Self::open_memory()?;
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

    /// Returns those of these blobs that the database has.
    pub(crate) fn find_known_blobs(&mut self, digests: &[Digest]) -> Result<BTreeSet<Digest>, LedgerError> {
        match self {
            Self::Sqlite(connection, _) => {
                // One transaction for all of them, because each query would lock and unlock the file.
                // Dropping it ends it.
                let _look =
                    connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
                let mut statement = connection.prepare_cached("SELECT 1 FROM blobs WHERE sha256 = $1")?;
                let mut known = BTreeSet::new();
                for digest in digests {
                    if statement.exists([&digest.0[..]])? {
                        known.insert(*digest);
                    }
                }
                Ok(known)
            }
            // One query for all of them, because each would be a network round trip.
            Self::Postgres(postgres) => {
                let all: Vec<&[u8]> = digests.iter().map(|digest| &digest.0[..]).collect();
                let rows = postgres.query("SELECT sha256 FROM blobs WHERE sha256 = ANY($1)", &[&all])?;
                rows.iter()
                    .map(|row| {
                        let bytes: Vec<u8> = row.try_get(0)?;
                        bytes
                            .try_into()
                            .map(Digest)
                            .map_err(|_| LedgerError::damaged("blobs.sha256 is not a SHA-256"))
                    })
                    .collect()
            }
        }
    }

    /// Returns the faults that the database itself finds in its pages and indices.
    pub(crate) fn integrity_check(&mut self) -> Result<Vec<String>, LedgerError> {
        if self.engine() == DatabaseEngine::Postgres {
            return Ok(Vec::new());
        }
        let rows = self.query("PRAGMA integrity_check", &[])?;
        let lines: Result<Vec<String>, LedgerError> =
            rows.into_iter().map(|mut row| row.text("integrity_check")).collect();
        Ok(lines?.into_iter().filter(|line| line != "ok").collect())
    }

    /// Checks the pages without the order of the indices, which takes much longer.
    pub(crate) fn quick_check(&mut self) -> Result<Vec<String>, LedgerError> {
        let rows = self.query("PRAGMA quick_check(1)", &[])?;
        let lines: Result<Vec<String>, LedgerError> =
            rows.into_iter().map(|mut row| row.text("quick_check")).collect();
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

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => Self::Failed("the disk is full; nothing was written".into()),
            _ => Self::Failed(format!("SQLite: {error}")),
        }
    }
}

impl From<tokio_postgres::Error> for LedgerError {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::SqlState;
        match error.code() {
            Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => Self::Locked,
            Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
                Self::Damaged(error.to_string())
            }
            _ => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                Self::Failed(format!("PostgreSQL: {error}{cause}"))
            }
        }
    }
}

impl rusqlite::ToSql for SqlParam<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ToSql for SqlParam<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(ty)
    }

    to_sql_checked!();
}

fn bind_params<'p>(params: &'p [SqlParam<'p>]) -> Vec<&'p (dyn ToSql + Sync)> {
    params.iter().map(|param| param as &(dyn ToSql + Sync)).collect()
}

fn value_from_sqlite(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Text(text) => String::from_utf8(text.to_vec()).map_or(SqlValue::Other, SqlValue::Text),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => SqlValue::Other,
    }
}

fn values_from_postgres(row: &tokio_postgres::Row) -> Result<Vec<SqlValue>, LedgerError> {
    let value = |at: usize| -> Result<SqlValue, LedgerError> {
        let ty = row.columns()[at].type_();
        Ok(if *ty == Type::INT8 {
            row.try_get::<_, Option<i64>>(at)?.map_or(SqlValue::Null, SqlValue::Int)
        } else if *ty == Type::TEXT {
            row.try_get::<_, Option<String>>(at)?.map_or(SqlValue::Null, SqlValue::Text)
        } else if *ty == Type::BYTEA {
            row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(SqlValue::Null, SqlValue::Bytes)
        } else {
            SqlValue::Other
        })
    };
    (0..row.len()).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_connections_use_safe_settings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let DatabaseConnection::Sqlite(connection, _) =
            DatabaseConnection::open_sqlite(&path, true, LedgerTimeouts::default()).unwrap()
        else {
            panic!("another engine")
        };
        let of = |connection: &Connection, name: &str| {
            connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(of(&connection, "synchronous"), 2);
        assert_eq!((of(&connection, "trusted_schema"), of(&connection, "cell_size_check")), (0, 1));
        assert_eq!(of(&connection, "busy_timeout"), 20_000);
        let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(mode, "wal");
        let DatabaseConnection::Sqlite(connection, _) =
            DatabaseConnection::open_sqlite_to_read(&path, LedgerTimeouts::default()).unwrap()
        else {
            panic!("another engine")
        };
        assert_eq!((of(&connection, "trusted_schema"), of(&connection, "cell_size_check")), (0, 1));
        assert_eq!((of(&connection, "query_only"), of(&connection, "busy_timeout")), (1, 20_000));
    }

    #[test]
    fn old_sqlite_version_is_refused() {
        let refused = LedgerError::Failed(
            "SQLite 3.51.2 can corrupt a write-ahead log; 3.51.3 or newer is needed".into(),
        );
        assert_eq!(check_version(3_051_002), Err(refused));
        assert_eq!(check_version(3_051_003), Ok(()));
        assert_eq!(check_version(rusqlite::version_number()), Ok(()));
    }
}
