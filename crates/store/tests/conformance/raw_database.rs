//! Raw access to the database behind a ledger, for tampering.

use callsheet_store::LedgerUrl;
use postgres::{Client, NoTls, SimpleQueryMessage};
use rusqlite::Connection;
use rusqlite::types::Value;

pub(crate) enum Raw {
    Sqlite(Connection),
    Postgres(Client),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    Int,
    Text,
    Bytes,
}

/// Table with its key and its columns.
type Table = (&'static str, &'static str, &'static [(&'static str, Type)]);

pub(crate) const TABLES: &[Table] = &[
    ("migrations", "number", &[("number", Type::Int), ("name", Type::Text), ("sha256", Type::Text)]),
    (
        "blobs",
        "sha256",
        &[("sha256", Type::Bytes), ("size", Type::Int), ("zstd", Type::Bytes), ("packed", Type::Int)],
    ),
    (
        "runs",
        "seq",
        &[
            ("seq", Type::Int),
            ("id", Type::Text),
            ("parent", Type::Text),
            ("task", Type::Text),
            ("agent", Type::Text),
            ("phase", Type::Text),
            ("role", Type::Text),
            ("recipe", Type::Text),
            ("started", Type::Text),
            ("ended", Type::Text),
            ("verdict", Type::Text),
            ("project", Type::Text),
            ("imported", Type::Int),
        ],
    ),
    (
        "run_facts",
        "seq",
        &[
            ("seq", Type::Int),
            ("project", Type::Text),
            ("task_key", Type::Text),
            ("attempt", Type::Int),
            ("flow", Type::Text),
            ("task_text", Type::Text),
            ("template", Type::Text),
            ("template_version", Type::Text),
            ("profile", Type::Text),
            ("model", Type::Text),
            ("program", Type::Text),
            ("host", Type::Text),
            ("status", Type::Text),
            ("outcome", Type::Text),
            ("failed", Type::Int),
            ("closed", Type::Int),
            ("checks", Type::Text),
            ("checks_passed", Type::Int),
            ("checks_total", Type::Int),
            ("changed_files", Type::Int),
            ("ended_at", Type::Text),
            ("duration_ms", Type::Int),
            ("input_tokens", Type::Int),
            ("output_tokens", Type::Int),
            ("cached_tokens", Type::Int),
            ("cost_microusd", Type::Int),
            ("all_input_tokens", Type::Int),
            ("cost_estimated", Type::Int),
        ],
    ),
    (
        "records",
        "seq",
        &[
            ("seq", Type::Int),
            ("run", Type::Text),
            ("flow", Type::Text),
            ("kind", Type::Text),
            ("at", Type::Text),
            ("payload", Type::Bytes),
            ("packed", Type::Int),
            ("payload_sha256", Type::Bytes),
            ("chain", Type::Bytes),
        ],
    ),
    ("head", "one", &[("one", Type::Int), ("seq", Type::Int), ("chain", Type::Bytes)]),
];

impl Raw {
    pub(crate) fn open(place: &LedgerUrl) -> Self {
        match place {
            LedgerUrl::Sqlite(path) => Self::Sqlite(Connection::open(path).unwrap()),
            LedgerUrl::Postgres(url) => {
                let mut client = Client::connect(url, NoTls).unwrap();
                client.batch_execute("SET search_path = callsheet").unwrap();
                Self::Postgres(client)
            }
            LedgerUrl::Memory => unreachable!("nobody tampers with memory"),
        }
    }

    /// Runs a statement. Returns whether the database accepted it.
    pub(crate) fn run(&mut self, sql: &str) -> bool {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).is_ok(),
            Self::Postgres(client) => client.batch_execute(sql).is_ok(),
        }
    }

    /// Returns a column of a table, in the order of the key.
    pub(crate) fn column(&mut self, table: &str, key: &str, (column, ty): (&str, Type)) -> Vec<Cell> {
        let sql = format!("SELECT {column} FROM {table} ORDER BY {key}");
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare(&sql).unwrap();
                let cell = |value| match value {
                    Value::Null => Cell::Null,
                    Value::Integer(number) => Cell::Int(number),
                    Value::Text(text) => Cell::Text(text),
                    Value::Blob(bytes) => Cell::Bytes(bytes),
                    Value::Real(_) => unreachable!("no column has such numbers"),
                };
                let rows = statement.query_map([], |row| row.get(0).map(cell)).unwrap();
                rows.map(Result::unwrap).collect()
            }
            Self::Postgres(client) => {
                let rows = client.simple_query(&sql).unwrap().into_iter();
                let rows = rows.filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                    _ => None,
                });
                rows.map(|text| match (text, ty) {
                    (None, _) => Cell::Null,
                    (Some(text), Type::Int) => Cell::Int(text.parse().unwrap()),
                    (Some(text), Type::Text) => Cell::Text(text),
                    (Some(text), Type::Bytes) => Cell::Bytes(unhex(text.strip_prefix("\\x").unwrap())),
                })
                .collect()
            }
        }
    }

    pub(crate) fn set(&mut self, (table, key): (&str, &str), at: &Cell, column: &str, to: &Cell) -> bool {
        let sql =
            format!("UPDATE {table} SET {column} = {} WHERE {key} = {}", self.literal(to), self.literal(at));
        self.run(&sql)
    }

    pub(crate) fn literal(&self, cell: &Cell) -> String {
        match (cell, self) {
            (Cell::Null, _) => "NULL".into(),
            (Cell::Int(number), _) => number.to_string(),
            (Cell::Text(text), _) => format!("'{}'", text.replace('\'', "''")),
            (Cell::Bytes(bytes), Self::Sqlite(_)) => format!("X'{}'", hex(bytes)),
            (Cell::Bytes(bytes), Self::Postgres(_)) => format!("'\\x{}'::bytea", hex(bytes)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
