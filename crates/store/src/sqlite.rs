//! SQLite: opens its files with safe settings. With `pg`, the only file that names a driver.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::record::Digest;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::database_file::{DatabaseFile, ReadMethod, choose_method, find_file};
use crate::db::{DatabaseConnection, DatabaseDriver, DatabaseEngine};
use crate::error::LedgerError;
use crate::private_file::make_private;
use crate::query::QueryBuilder;
use crate::row::{SqlParam, SqlRow, SqlValue};
use crate::timeouts::LedgerTimeouts;

/// Open SQLite database.
pub(crate) struct SqliteDatabase {
    connection: Connection,
    /// The file, if it is only read.
    file: Option<Box<DatabaseFile>>,
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

pub(crate) fn open_memory() -> Result<DatabaseConnection, LedgerError> {
    open_unnamed(":memory:")
}

/// Opens a database in an unnamed file, so that its contents need not fit into memory.
pub(crate) fn open_temporary() -> Result<DatabaseConnection, LedgerError> {
    open_unnamed("")
}

fn open_unnamed(name: &str) -> Result<DatabaseConnection, LedgerError> {
    check_version(rusqlite::version_number())?;
    Ok(DatabaseConnection::new(SqliteDatabase { connection: Connection::open(name)?, file: None }))
}

/// Flags of every connection to a file: no mutex, and no link is followed.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX.union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// Settings of a connection that only reads: the database can neither run its own code nor be changed.
const READ_ONLY: &str = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON";

/// Opens a file, and creates it if `create` is set. Only its owner can read it, whatever the umask is.
pub(crate) fn open(
    path: &Path,
    create: bool,
    patience: LedgerTimeouts,
) -> Result<DatabaseConnection, LedgerError> {
    check_version(rusqlite::version_number())?;
    let path = make_private(path, create)?;
    let connection = Connection::open_with_flags(&path, FLAGS | OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(patience.lock)?;
    let mut db = SqliteDatabase { connection, file: None };
    // Records and packed texts take one to three KB each: with smaller pages, a quarter would stay empty.
    db.execute_batch("PRAGMA page_size = 8192")?;
    // A database from a cloned repository must not run its own code.
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = FULL")?;
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
    Ok(DatabaseConnection::new(db))
}

/// Opens a file to read it. Writes nothing: neither the file, nor its mode, nor any file beside it. The only
/// exceptions are the files that SQLite needs to read beside a writer: it creates them if it can, and removes
/// them again.
pub(crate) fn open_to_read(path: &Path, patience: LedgerTimeouts) -> Result<DatabaseConnection, LedgerError> {
    check_version(rusqlite::version_number())?;
    let mut found = find_file(path)?;
    let (read_only, read_write) = (OpenFlags::SQLITE_OPEN_READ_ONLY, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = match choose_method(&mut found)? {
        ReadMethod::Beside => Connection::open_with_flags(&found.path, FLAGS | read_write)?,
        ReadMethod::Frozen(uri) => {
            Connection::open_with_flags(uri, FLAGS | read_only | OpenFlags::SQLITE_OPEN_URI)?
        }
        ReadMethod::Copied(copy) => Connection::open_with_flags(copy, FLAGS | read_write)?,
    };
    connection.busy_timeout(patience.lock)?;
    let mut db = SqliteDatabase { connection, file: Some(Box::new(found)) };
    db.execute_batch(READ_ONLY)?;
    // There may be no place on the disk for sorting.
    db.execute_batch("PRAGMA temp_store = MEMORY")?;
    Ok(DatabaseConnection::new(db))
}

/// Opens a file that is open already a second time, to see its current contents. Writes nothing.
pub(crate) fn reopen(path: &Path, patience: LedgerTimeouts) -> Result<DatabaseConnection, LedgerError> {
    let connection = Connection::open_with_flags(path, FLAGS | OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(patience.lock)?;
    let mut db = SqliteDatabase { connection, file: None };
    db.execute_batch(READ_ONLY)?;
    Ok(DatabaseConnection::new(db))
}

impl DatabaseDriver for SqliteDatabase {
    fn engine(&self) -> DatabaseEngine {
        DatabaseEngine::Sqlite
    }

    fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "this file".into(), |found| found.path.display().to_string())
    }

    fn execute(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<u64, LedgerError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.execute(rusqlite::params_from_iter(params))? as u64)
    }

    fn query(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<Vec<SqlRow>, LedgerError> {
        self.query_rows(sql, params)
    }

    fn query_built(&mut self, query: &QueryBuilder<'_>) -> Result<Vec<SqlRow>, LedgerError> {
        self.query_rows(query.sql(), query.params())
    }

    fn execute_batch(&mut self, sql: &str) -> Result<(), LedgerError> {
        Ok(self.connection.execute_batch(sql)?)
    }

    fn find_known_blobs(&mut self, digests: &[Digest]) -> Result<BTreeSet<Digest>, LedgerError> {
        let connection = &self.connection;
        // One transaction for all of them, because each query would lock and unlock the file. Dropping it ends
        // it.
        let _look = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
        let mut statement = connection.prepare_cached("SELECT 1 FROM blobs WHERE sha256 = $1")?;
        let mut known = BTreeSet::new();
        for digest in digests {
            if statement.exists([&digest.0[..]])? {
                known.insert(*digest);
            }
        }
        Ok(known)
    }
}

impl SqliteDatabase {
    fn query_rows(&mut self, sql: &str, params: &[SqlParam<'_>]) -> Result<Vec<SqlRow>, LedgerError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let values: Result<Vec<SqlValue>, _> =
                (0..width).map(|at| row.get_ref(at).map(value_from_sqlite)).collect();
            found.push(SqlRow(values?.into_iter()));
        }
        match &mut self.file {
            Some(file) if file.has_changed() => Err(LedgerError::Locked),
            _ => Ok(found),
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

fn value_from_sqlite(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Text(text) => String::from_utf8(text.to_vec()).map_or(SqlValue::Other, SqlValue::Text),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => SqlValue::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_connections_use_safe_settings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let read = |db: &mut DatabaseConnection, sql| db.query(sql, &[]).unwrap().remove(0).int(sql).unwrap();
        let safe = |db: &mut DatabaseConnection| {
            let [trusted, checked, timeout] =
                ["PRAGMA trusted_schema", "PRAGMA cell_size_check", "PRAGMA busy_timeout"]
                    .map(|sql| read(db, sql));
            assert_eq!((trusted, checked, timeout), (0, 1, 20_000));
        };
        let mut db = open(&path, true, LedgerTimeouts::default()).unwrap();
        safe(&mut db);
        assert_eq!(read(&mut db, "PRAGMA synchronous"), 2);
        let mode = db.query("PRAGMA journal_mode", &[]).unwrap().remove(0).text("mode").unwrap();
        assert_eq!(mode, "wal");
        let mut db = open_to_read(&path, LedgerTimeouts::default()).unwrap();
        safe(&mut db);
        assert_eq!(db.name(), path.canonicalize().unwrap().display().to_string());
        assert_eq!(read(&mut db, "PRAGMA query_only"), 1);
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
