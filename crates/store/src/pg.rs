//! A connection to PostgreSQL on which every wait ends, even if the server is stopped while its sockets stay
//! open.
//!
//! The server has its own limits, which do not help if the server itself hangs, so the client waits for each
//! answer with a deadline too. A connection that missed a deadline is closed, because its late answer would
//! be taken for the next one.
//!
//! A caller that lives in an async runtime cannot wait in its own thread, so the wait has one of its own there.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use callsheet_core::record::Digest;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::db::{DatabaseConnection, DatabaseDriver, DatabaseEngine, WRITERS};
use crate::error::LedgerError;
use crate::query::QueryBuilder;
use crate::row::{SqlParam, SqlRow, SqlValue};
use crate::timeouts::LedgerTimeouts;

/// How long the server may take to notice that a connection is closed.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long a transaction may wait for its own client: other processes wait for one that writes.
const IDLE_WRITER: Duration = Duration::from_secs(60);
const IDLE_READER: Duration = Duration::from_secs(3600);

type PostgresParams<'p> = [&'p (dyn ToSql + Sync)];

pub(crate) struct PostgresDatabase {
    config: Config,
    to_read: bool,
    patience: LedgerTimeouts,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
    /// `None` after a missed deadline.
    link: Option<ServerConnection>,
    in_transaction: bool,
}

/// Open connection.
struct ServerConnection {
    client: Client,
    prepared: BTreeMap<String, Statement>,
    /// Task that sends and receives. It works only during a wait.
    task: JoinHandle<()>,
}

/// Connects. With `to_read`, creates nothing: for users with read access only, and for replicas.
pub(crate) fn open(
    url: &str,
    to_read: bool,
    patience: LedgerTimeouts,
) -> Result<DatabaseConnection, LedgerError> {
    let config = limit_timeouts(url.parse()?, patience);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = Some(runtime.map_err(|error| LedgerError::Failed(error.to_string()))?);
    let mut new = PostgresDatabase { config, to_read, patience, runtime, link: None, in_transaction: false };
    new.ensure_open()?;
    Ok(DatabaseConnection::new(new))
}

impl DatabaseDriver for PostgresDatabase {
    fn engine(&self) -> DatabaseEngine {
        DatabaseEngine::Postgres
    }

    fn name(&self) -> String {
        "this PostgreSQL database".into()
    }

    fn set_in_transaction(&mut self, now: bool) {
        self.in_transaction = now;
    }

    fn execute(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<u64, LedgerError> {
        let params = bind_params(params);
        self.send_request(async |link| {
            let statement = link.prepare(sql).await?;
            link.client.execute(&statement, &params).await
        })
    }

    fn query(&mut self, sql: &'static str, params: &[SqlParam<'_>]) -> Result<Vec<SqlRow>, LedgerError> {
        let rows = self.query_rows(sql, &bind_params(params))?;
        rows.iter().map(|row| Ok(SqlRow(values_from_postgres(row)?.into_iter()))).collect()
    }

    fn query_built(&mut self, query: &QueryBuilder<'_>) -> Result<Vec<SqlRow>, LedgerError> {
        let rows = self.query_rows(query.sql(), &bind_params(query.params()))?;
        rows.iter().map(|row| Ok(SqlRow(values_from_postgres(row)?.into_iter()))).collect()
    }

    fn find_known_blobs(&mut self, digests: &[Digest]) -> Result<BTreeSet<Digest>, LedgerError> {
        // One query for all of them, because each would be a network round trip.
        let all: Vec<&[u8]> = digests.iter().map(|digest| &digest.0[..]).collect();
        let rows = self.query_rows("SELECT sha256 FROM blobs WHERE sha256 = ANY($1)", &[&all])?;
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

    fn execute_batch(&mut self, sql: &str) -> Result<(), LedgerError> {
        self.send_request(async |link| link.client.batch_execute(sql).await)
    }
}

impl PostgresDatabase {
    fn query_rows(&mut self, sql: &str, params: &PostgresParams<'_>) -> Result<Vec<Row>, LedgerError> {
        self.send_request(async |link| {
            let statement = link.prepare(sql).await?;
            link.client.query(&statement, params).await
        })
    }

    /// Sends a request, and waits for the answer as long as a statement may take.
    fn send_request<T: Send>(
        &mut self,
        question: impl AsyncFnOnce(&mut ServerConnection) -> Result<T, tokio_postgres::Error> + Send,
    ) -> Result<T, LedgerError> {
        self.ensure_open()?;
        let (Some(runtime), Some(link)) = (&self.runtime, &mut self.link) else { return Err(closed_error()) };
        let limit = self.patience.statement;
        let answer = wait_for(runtime, limit, async || question(link).await);
        if matches!(answer, Err(LedgerError::NoAnswer(_))) {
            self.disconnect();
        }
        answer
    }

    /// Ensures that there is an open connection. Does not reconnect during a transaction.
    fn ensure_open(&mut self) -> Result<(), LedgerError> {
        if self.link.as_ref().is_some_and(|link| !link.client.is_closed()) {
            return Ok(());
        }
        if self.in_transaction {
            return Err(closed_error());
        }
        self.disconnect();
        let Some(runtime) = &self.runtime else { return Err(closed_error()) };
        let (config, settings) = (&self.config, session_settings(self.to_read, self.patience));
        let limit = self.patience.connect;
        let link = wait_for(runtime, limit, async || {
            let (client, connection) = config.connect(NoTls).await?;
            // The next request reports why the connection ended.
            let task = tokio::spawn(async move { drop(connection.await) });
            client.batch_execute(&settings).await?;
            Ok(ServerConnection { client, prepared: BTreeMap::new(), task })
        })?;
        self.link = Some(link);
        let made = if self.to_read { Ok(()) } else { self.create_schema() };
        if made.is_err() {
            self.disconnect();
        }
        made
    }

    fn create_schema(&mut self) -> Result<(), LedgerError> {
        // A user who may only write to an existing ledger has no right to create a schema.
        let found = self.query("SELECT 1 FROM pg_namespace WHERE nspname = 'callsheet'", &[])?;
        if found.is_empty() {
            // Without the lock, two processes would collide.
            self.execute_batch(&format!(
                "BEGIN; SELECT pg_advisory_xact_lock({WRITERS}); CREATE SCHEMA IF NOT EXISTS callsheet; COMMIT"
            ))?;
        }
        Ok(())
    }

    /// Closes the connection at once, without waiting for pending answers.
    fn disconnect(&mut self) {
        if let Some(link) = self.link.take() {
            link.task.abort();
        }
    }
}

impl ServerConnection {
    async fn prepare(&mut self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(ServerConnection { client, prepared, task }) = self.link.take() {
            drop((client, prepared));
            // The server receives the close, or detects it by itself.
            let _ = wait_outside(|| runtime.block_on(async { timeout(GOODBYE, task).await }));
        }
        // A pending name lookup would delay the shutdown.
        runtime.shutdown_background();
    }
}

fn closed_error() -> LedgerError {
    LedgerError::Failed("PostgreSQL: the connection is closed".into())
}

fn wait_for<T: Send>(
    runtime: &Runtime,
    limit: Duration,
    question: impl AsyncFnOnce() -> Result<T, tokio_postgres::Error> + Send,
) -> Result<T, LedgerError> {
    let answer = wait_outside(|| runtime.block_on(async { timeout(limit, question()).await }))?;
    answer.map_err(|_| LedgerError::NoAnswer(limit))?.map_err(|error| server_error(error, limit))
}

/// Runs `wait` outside every async runtime: in this thread, or in one of its own if this thread belongs to a
/// runtime, which would panic instead of waiting.
fn wait_outside<T: Send>(wait: impl FnOnce() -> T + Send) -> Result<T, LedgerError> {
    if Handle::try_current().is_err() {
        return Ok(wait());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("callsheet-postgres".into()).spawn_scoped(scope, wait);
        let thread = thread.map_err(|error| LedgerError::Failed(format!("a thread: {error}")))?;
        thread.join().map_or_else(|panic| resume_unwind(panic), Ok)
    })
}

/// Converts an error. A server that cancelled a statement at its own limit did not answer in time either.
fn server_error(error: tokio_postgres::Error, limit: Duration) -> LedgerError {
    match error.code() {
        Some(code) if *code == tokio_postgres::error::SqlState::QUERY_CANCELED => {
            LedgerError::NoAnswer(limit)
        }
        _ => error.into(),
    }
}

/// Applies the limits. A URL can shorten them, never lengthen them.
fn limit_timeouts(mut config: Config, patience: LedgerTimeouts) -> Config {
    let within = |asked: Option<&Duration>, most: Duration| asked.map_or(most, |asked| most.min(*asked));
    config.connect_timeout(within(config.get_connect_timeout(), patience.connect));
    config.tcp_user_timeout(within(config.get_tcp_user_timeout(), patience.statement));
    config.keepalives(true).keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
    config
}

/// Returns the settings of every connection.
fn session_settings(to_read: bool, patience: LedgerTimeouts) -> String {
    let own = if to_read { "default_transaction_read_only = on" } else { "synchronous_commit = on" };
    let idle = if to_read { IDLE_READER } else { IDLE_WRITER };
    let milliseconds = |time: Duration| time.as_millis().max(1);
    format!(
        "SET {own}; SET search_path = callsheet; SET statement_timeout = {}; SET lock_timeout = {}; \
         SET idle_in_transaction_session_timeout = {}",
        milliseconds(patience.statement),
        milliseconds(patience.lock),
        milliseconds(idle)
    )
}

/// Returns the database of a URL without user and password: `postgres://HOST:PORT/DATABASE`.
pub fn postgres_location(url: &str) -> Result<String, LedgerError> {
    let config: Config = url.parse()?;
    let mut hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.to_ascii_lowercase(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    // A host address can lead elsewhere than the host name beside it.
    hosts.extend(config.get_hostaddrs().iter().map(ToString::to_string));
    let ports = match config.get_ports() {
        [] => vec!["5432".to_owned()],
        ports => ports.iter().map(ToString::to_string).collect(),
    };
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    Ok(format!("postgres://{}:{}/{database}", hosts.join(","), ports.join(",")))
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
    fn url_timeouts_only_shorten_limits() {
        let patience = LedgerTimeouts::default();
        let url = "postgres://me@localhost/db";
        for (given, connect, statement) in [
            ("", 10, 30),
            ("?connect_timeout=3&tcp_user_timeout=7", 3, 7),
            ("?connect_timeout=100000&tcp_user_timeout=100000&keepalives=0", 10, 30),
        ] {
            let config = limit_timeouts(format!("{url}{given}").parse().unwrap(), patience);
            assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(connect)), "{given}");
            assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(statement)), "{given}");
            assert!(config.get_keepalives(), "{given}");
        }
    }
}
