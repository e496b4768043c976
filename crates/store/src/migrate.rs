//! Migrations of the tables. They are embedded, checked by their digests, and only go forward.

use callsheet_core::record::sha256;

use crate::clock::new_id;
use crate::db::{DatabaseConnection, DatabaseEngine};
use crate::error::LedgerError;
use crate::facts_table::{fill_facts, has_old_facts};
use crate::row::SqlParam;

/// Step of the schema. Its number is its position in the list, from 1.
#[derive(Debug)]
#[non_exhaustive]
pub struct SchemaMigration {
    /// Name of the migration.
    pub name: &'static str,
    /// Statements of the migration.
    pub sql: &'static str,
}

const SQLITE: &[SchemaMigration] = &[
    SchemaMigration { name: "ledger", sql: include_str!("../migrations/sqlite/0001_ledger.sql") },
    SchemaMigration { name: "projects", sql: include_str!("../migrations/sqlite/0002_projects.sql") },
    SchemaMigration { name: "facts", sql: include_str!("../migrations/sqlite/0003_facts.sql") },
];
const POSTGRES: &[SchemaMigration] = &[
    SchemaMigration { name: "ledger", sql: include_str!("../migrations/postgres/0001_ledger.sql") },
    SchemaMigration { name: "projects", sql: include_str!("../migrations/postgres/0002_projects.sql") },
    SchemaMigration { name: "facts", sql: include_str!("../migrations/postgres/0003_facts.sql") },
];

/// First schema in which a ledger has an id and its runs have a project.
const PROJECTS: i64 = 2;

/// First schema with a table of facts.
const FACTS: i64 = 3;

/// Returns the migrations of an engine, in order.
pub const fn migrations(engine: DatabaseEngine) -> &'static [SchemaMigration] {
    match engine {
        DatabaseEngine::Sqlite => SQLITE,
        DatabaseEngine::Postgres => POSTGRES,
    }
}

/// Brings the schema up to date. Fails if a newer version or another program wrote it.
pub(crate) fn migrate(db: &mut DatabaseConnection) -> Result<(), LedgerError> {
    let known = migrations(db.engine());
    let applied =
        |db: &mut DatabaseConnection| if db.has_schema()? { read_applied(db) } else { Ok(Vec::new()) };
    let first = applied(db)?;
    check_applied(&first, known)?;
    if first.len() < known.len() {
        db.with_write_lock(|db| {
            // Another process may have been faster.
            let done = applied(db)?;
            check_applied(&done, known)?;
            for (at, migration) in known.iter().enumerate().skip(done.len()) {
                db.execute_batch(migration.sql)?;
                let digest = sha256(&[migration.sql.as_bytes()]).to_string();
                let row = [
                    SqlParam::Int(at as i64 + 1),
                    SqlParam::Text(migration.name),
                    SqlParam::Text(digest.as_str()),
                ];
                db.execute("INSERT INTO migrations (number, name, sha256) VALUES ($1, $2, $3)", &row)?;
            }
            if done.is_empty() {
                let row = [SqlParam::Bytes(&[0; 32])];
                db.execute("INSERT INTO head (one, seq, chain) VALUES (1, 0, $1)", &row)?;
            }
            if (done.len() as i64) < PROJECTS {
                let id = new_id().ok_or_else(|| LedgerError::Failed("cannot generate an id".into()))?;
                db.execute("INSERT INTO identity (one, id) VALUES (1, $1)", &[SqlParam::Text(id.as_str())])?;
            }
            if (done.len() as i64) < FACTS { fill_facts(db) } else { Ok(()) }
        })?;
    }
    db.check_schema(known)?;
    if has_old_facts(db)? {
        db.with_write_lock(fill_facts)?;
    }
    Ok(())
}

/// Checks that a ledger opened for reading has our schema, of this version or an older one.
pub(crate) fn check_readable(db: &mut DatabaseConnection) -> Result<(), LedgerError> {
    let known = migrations(db.engine());
    let done = if db.has_schema()? { read_applied(db)? } else { Vec::new() };
    if done.is_empty() {
        return Err(LedgerError::NotThere(db.name()));
    }
    check_applied(&done, known)?;
    db.check_schema(&known[..done.len()])
}

/// Returns whether runs have a project: a ledger opened for reading may have the schema of an older version.
pub(crate) fn has_projects(db: &mut DatabaseConnection) -> Result<bool, LedgerError> {
    has_migration(db, PROJECTS)
}

/// Returns whether there is a table of facts.
pub(crate) fn has_facts(db: &mut DatabaseConnection) -> Result<bool, LedgerError> {
    has_migration(db, FACTS)
}

fn has_migration(db: &mut DatabaseConnection, number: i64) -> Result<bool, LedgerError> {
    Ok(!db.query("SELECT number FROM migrations WHERE number = $1", &[SqlParam::Int(number)])?.is_empty())
}

type AppliedMigration = (i64, String, String);

fn read_applied(db: &mut DatabaseConnection) -> Result<Vec<AppliedMigration>, LedgerError> {
    let rows = db.query("SELECT number, name, sha256 FROM migrations ORDER BY number", &[])?;
    rows.into_iter()
        .map(|mut row| {
            Ok((row.int("migrations.number")?, row.text("migrations.name")?, row.text("migrations.sha256")?))
        })
        .collect()
}

fn check_applied(applied: &[AppliedMigration], known: &[SchemaMigration]) -> Result<(), LedgerError> {
    let newest = applied.last().map_or(0, |(number, ..)| *number);
    if newest > known.len() as i64 {
        return Err(LedgerError::Newer { found: newest, known: known.len() as i64 });
    }
    for (at, (number, name, sha)) in applied.iter().enumerate() {
        let migration = &known[at];
        let same = sha256(&[migration.sql.as_bytes()]).to_string() == *sha && migration.name == name;
        if *number != at as i64 + 1 || !same {
            return Err(LedgerError::damaged(format!(
                "migration {number} (`{name}`) is not the one that was applied"
            )));
        }
    }
    Ok(())
}
