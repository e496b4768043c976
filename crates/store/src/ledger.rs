//! The ledger: opens it, checks its files and appends to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callsheet_core::record::{ChainLink, Composed, Digest, Event, Id, RecordBundle, sha256};
use callsheet_core::{SharedText, SlotValues};

use crate::clock::now;
use crate::db::{DatabaseConnection, DatabaseEngine};
use crate::error::LedgerError;
use crate::facts_table::index_facts;
use crate::migrate::{check_readable, has_projects, migrate};
use crate::private_file::{WatchedFile, make_private};
use crate::read::records_of;
use crate::row::SqlParam;
use crate::timeouts::LedgerTimeouts;
use crate::{pg, sqlite};

/// Location of a ledger.
#[derive(Clone, PartialEq, Eq)]
pub enum LedgerUrl {
    /// A file.
    Sqlite(PathBuf),
    /// A URL; it may contain a password, so it is never shown.
    Postgres(String),
    /// In memory; lost when it is closed.
    Memory,
}

impl std::fmt::Debug for LedgerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(_) => f.write_str("PostgreSQL"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// Purpose for which a ledger is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Records are only read.
    Read,
    /// Records are appended.
    Write,
    /// Records are appended, and a missing ledger is created.
    Create,
}

/// Number and link of the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the record.
    pub seq: u64,
    /// Link of the record in the chain.
    pub chain: Digest,
}

/// Open ledger.
pub struct Ledger {
    pub(crate) db: DatabaseConnection,
    zip: zstd::bulk::Compressor<'static>,
    /// Secret values that records do not hold, for verification.
    pub(crate) given: SlotValues,
    /// Files of the ledger, and the id that they held; `None` on PostgreSQL.
    watched: Option<(WatchedFile, Option<Id>)>,
    /// The files have changed: nothing is written any more, not even at the close.
    lost: bool,
    /// Head that the chain must contain: the last one that was kept or appended.
    last: Option<Head>,
    keeper: Option<HeadKeeper>,
}

/// Receives the head after each append.
type HeadKeeper = Box<dyn FnMut(Head) + Send>;

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ledger({:?})", self.db)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Closing would write the log into a file that is not the ledger any more, by an index that may be
        // gone.
        if self.lost
            && let Ok(none) = sqlite::open_memory()
        {
            std::mem::forget(std::mem::replace(&mut self.db, none));
        }
    }
}

/// Record that is about to be appended.
pub(crate) struct RecordDraft<'d> {
    pub(crate) run: Option<&'d Id>,
    pub(crate) flow: Option<&'d Id>,
    pub(crate) kind: &'d str,
    pub(crate) at: &'d str,
    /// Payload and its digest. If retention removed the payload, only the digest is left.
    pub(crate) payload: Option<&'d str>,
    pub(crate) sha256: Digest,
}

/// How long a check of the files waits for other processes.
const SHORT_LOOK: Duration = Duration::from_millis(200);

/// The next levels take a third longer for two percent, and those above many times as long.
const LEVEL: i32 = 1;

/// Most bytes of a text or payload that is written.
pub(crate) const MOST_TEXT: usize = 256 << 20;

/// Most bytes of a text or payload that is read; earlier versions wrote longer ones.
pub(crate) const MOST_READ: u64 = 1 << 30;

impl Head {
    /// The head of an empty ledger.
    pub(crate) const NONE: Self = Self { seq: 0, chain: Digest::ZERO };
}

impl Ledger {
    /// Opens a ledger, or creates it if there is none.
    ///
    /// ```
    /// use callsheet_store::{Ledger, LedgerUrl};
    ///
    /// let mut ledger = Ledger::create(&LedgerUrl::Memory)?;
    /// assert!(ledger.is_empty()?);
    /// assert_eq!(ledger.head()?.seq, 0);
    /// # Ok::<(), callsheet_store::LedgerError>(())
    /// ```
    pub fn create(place: &LedgerUrl) -> Result<Self, LedgerError> {
        Self::connect(place, OpenMode::Create, LedgerTimeouts::default())
    }

    /// Opens an existing ledger.
    pub fn open(place: &LedgerUrl) -> Result<Self, LedgerError> {
        Self::connect(place, OpenMode::Write, LedgerTimeouts::default())
    }

    /// Opens an existing ledger to read it. Changes nothing in it or beside it, so it may be on read-only
    /// storage and have the schema of an older version.
    pub fn read(place: &LedgerUrl) -> Result<Self, LedgerError> {
        Self::connect(place, OpenMode::Read, LedgerTimeouts::default())
    }

    /// Opens a ledger with the given mode and timeouts.
    pub fn connect(place: &LedgerUrl, mode: OpenMode, patience: LedgerTimeouts) -> Result<Self, LedgerError> {
        let mut db = match place {
            LedgerUrl::Sqlite(path) if mode == OpenMode::Read => sqlite::open_to_read(path, patience)?,
            LedgerUrl::Sqlite(path) => sqlite::open(path, mode == OpenMode::Create, patience)?,
            LedgerUrl::Postgres(url) => pg::open(url, mode == OpenMode::Read, patience)?,
            LedgerUrl::Memory => sqlite::open_memory()?,
        };
        if mode == OpenMode::Read {
            check_readable(&mut db)?;
            return Self::from_connection(db);
        }
        let ledger = Self::new(db)?;
        match place {
            LedgerUrl::Sqlite(path) => ledger.watch_file(path),
            LedgerUrl::Postgres(_) | LedgerUrl::Memory => Ok(ledger),
        }
    }

    /// Creates a temporary ledger that takes little memory and is removed when it is dropped.
    pub(crate) fn open_temporary() -> Result<Self, LedgerError> {
        Self::new(sqlite::open_temporary()?)
    }

    fn new(mut db: DatabaseConnection) -> Result<Self, LedgerError> {
        migrate(&mut db)?;
        Self::from_connection(db)
    }

    fn from_connection(db: DatabaseConnection) -> Result<Self, LedgerError> {
        let zip = zstd::bulk::Compressor::new(LEVEL)
            .map_err(|error| LedgerError::Failed(format!("zstd: {error}")))?;
        Ok(Self {
            db,
            zip,
            given: SlotValues::default(),
            watched: None,
            lost: false,
            last: None,
            keeper: None,
        })
    }

    fn watch_file(mut self, path: &Path) -> Result<Self, LedgerError> {
        self.watched = Some((WatchedFile::new(path)?, self.id()?));
        Ok(self)
    }

    /// Returns the ledger's own id; `None` if its schema is older than ids.
    pub fn id(&mut self) -> Result<Option<Id>, LedgerError> {
        read_id(&mut self.db)
    }

    /// Writes a whole copy of an SQLite ledger into a new file that only its owner can read. Closes the
    /// ledger.
    pub fn copy_into(mut self, path: &Path) -> Result<(), LedgerError> {
        self.db.copy_into(path)?;
        make_private(path, false).map(drop)
    }

    /// Refuses later appends unless the chain contains `head`.
    pub fn expect_head(&mut self, head: Head) {
        self.last = Some(head);
    }

    /// Calls `keeper` with the new head after each append.
    pub fn keep_heads(&mut self, keeper: impl FnMut(Head) + Send + 'static) {
        self.keeper = Some(Box::new(keeper));
    }

    /// Fails if the ledger's files are no longer those that were opened, or no longer hold this ledger with
    /// all appended records. An open database does not notice by itself: it continues with the pages that it
    /// has in memory.
    pub fn check_files(&mut self) -> Result<(), LedgerError> {
        match self.check_with(LedgerTimeouts::at_most(SHORT_LOOK), |_| Ok(())) {
            // An append waits for other writers, and reports it.
            Err(LedgerError::Locked) => Ok(()),
            seen => seen,
        }
    }

    /// Checks every page and every link too, which takes as long as reading the file.
    pub fn check_whole(&mut self) -> Result<(), LedgerError> {
        self.check_with(LedgerTimeouts::default(), check_pages)
    }

    fn check_with(
        &mut self,
        patience: LedgerTimeouts,
        more: impl FnOnce(&mut DatabaseConnection) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let Some((watched, id)) = &mut self.watched else { return Ok(()) };
        let last = self.last.as_ref();
        let look = |path: &Path| {
            let mut db = sqlite::reopen(path, patience)?;
            // Concurrent appends must not be seen in part.
            db.begin_snapshot()?;
            if read_id(&mut db)? != *id {
                return Err(LedgerError::damaged("it is another ledger"));
            }
            read_head(&mut db)?;
            check_follows(&mut db, last)?;
            more(&mut db)
        };
        let changed = |error: LedgerError, path: &Path| {
            let why = match error {
                LedgerError::Locked => return LedgerError::Locked,
                LedgerError::Damaged(what) => what,
                error => error.to_string(),
            };
            LedgerError::damaged(format!("`{}` was changed during use: {why}", path.display()))
        };
        let seen = watched
            .check()
            .and_then(|()| look(watched.real_path()).map_err(|error| changed(error, watched.real_path())));
        self.lost |= matches!(seen, Err(LedgerError::Damaged(_)));
        seen
    }

    fn set_head(&mut self, head: Head) {
        self.last = Some(head);
        if let Some(keeper) = &mut self.keeper {
            keeper(head);
        }
    }

    /// Supplies the values that were marked as secret, so that prompts with them can be verified.
    #[must_use]
    pub fn with_secrets(mut self, given: SlotValues) -> Self {
        self.given = given;
        self
    }

    /// Numbers the runs of all projects in one sequence from now on: for a ledger of one owner, whose project can be renamed.
    pub fn number_together(&mut self) {
        self.db.numbers_together = true;
    }

    /// Returns the database engine.
    pub fn engine(&self) -> DatabaseEngine {
        self.db.engine()
    }

    /// Stores a prompt: its texts, its run and its record, all of them or none. Returns the record's number.
    /// Refuses a prompt without its texts.
    pub fn record_prompt(&mut self, kept: &RecordBundle) -> Result<u64, LedgerError> {
        let event = Event::Composed(kept.composed.clone());
        self.record_with_texts(&kept.composed.run.id, &event, &kept.blobs)
    }

    /// Stores an event of a run with the texts that it refers to, all of them or none. Returns the record's number. Refuses an
    /// event without its texts.
    pub fn record_with_texts(
        &mut self,
        run: &Id,
        event: &Event,
        texts: &BTreeMap<Digest, SharedText>,
    ) -> Result<u64, LedgerError> {
        let needed = event.texts().map_err(|lost| LedgerError::Failed(lost.to_string()))?;
        let others: Vec<Digest> = needed.into_iter().filter(|digest| !texts.contains_key(digest)).collect();
        let known = if others.is_empty() { BTreeSet::new() } else { self.db.find_known_blobs(&others)? };
        if let Some(missing) = others.iter().find(|digest| !known.contains(digest)) {
            let kind = event.kind();
            return Err(LedgerError::Failed(format!(
                "the record `{kind}` needs blob {missing}, which was not given"
            )));
        }
        self.put_record(Some(run), None, event, texts)
    }

    /// Appends an event of a run or a flow. Returns the record's number. An event that needs texts is
    /// refused: [`Self::record_with_texts`] stores both.
    pub fn append(&mut self, run: Option<&Id>, flow: Option<&Id>, event: &Event) -> Result<u64, LedgerError> {
        if matches!(event, Event::Composed(_) | Event::ChangedContents(_) | Event::ContextRecord(_)) {
            let kind = event.kind();
            return Err(LedgerError::Failed(format!("a record `{kind}` is recorded with its texts")));
        }
        self.put_record(run, flow, event, &BTreeMap::new())
    }

    fn put_record(
        &mut self,
        run: Option<&Id>,
        flow: Option<&Id>,
        event: &Event,
        blobs: &BTreeMap<Digest, SharedText>,
    ) -> Result<u64, LedgerError> {
        let payload = event.payload().map_err(|why| LedgerError::Failed(why.to_string()))?;
        let zipped = self.compress_unknown(blobs)?;
        self.check_files()?;
        let Self { db, zip, last, .. } = self;
        let head = db.with_write_lock(|db| {
            check_follows(db, last.as_ref())?;
            if let Some(run) = run.filter(|_| !matches!(event, Event::Composed(_))) {
                check_run_exists(db, run)?;
            }
            put_blobs(db, zip, blobs, zipped)?;
            // Inside the transaction, so that times are in the order of the numbers.
            let at = now();
            append_event(db, zip, (run, flow), event, &payload, &at)
        })?;
        self.set_head(head);
        Ok(head.seq)
    }

    /// Compresses the blobs that are missing, before the transaction makes other processes wait.
    pub(crate) fn compress_unknown(
        &mut self,
        blobs: &BTreeMap<Digest, SharedText>,
    ) -> Result<BTreeMap<Digest, Vec<u8>>, LedgerError> {
        let digests: Vec<Digest> = blobs.keys().copied().collect();
        let known =
            if digests.is_empty() { Default::default() } else { self.db.find_known_blobs(&digests)? };
        let unknown = blobs.iter().filter(|(digest, _)| !known.contains(digest));
        unknown.map(|(digest, text)| Ok((*digest, compress_text(&mut self.zip, text.as_bytes())?))).collect()
    }

    /// Runs `work` in one transaction.
    pub(crate) fn with_write_lock<T>(
        &mut self,
        work: impl FnOnce(&mut DatabaseConnection, &mut zstd::bulk::Compressor<'static>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.check_files()?;
        let Self { db, zip, last, .. } = self;
        let (done, head) = db.with_write_lock(|db| {
            check_follows(db, last.as_ref())?;
            Ok((work(db, zip)?, read_head(db)?))
        })?;
        self.set_head(head);
        Ok(done)
    }

    /// Reads from a snapshot, without the concurrent writes of other processes.
    pub(crate) fn read_snapshot<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        self.db.begin_snapshot()?;
        let done = read(self);
        self.db.end_transaction(done)
    }

    /// Returns the head of the chain.
    pub fn head(&mut self) -> Result<Head, LedgerError> {
        read_head(&mut self.db)
    }

    /// Returns whether nothing was ever recorded. The head alone does not prove it: a file can hold records
    /// that its head hides.
    pub fn is_empty(&mut self) -> Result<bool, LedgerError> {
        let found = self.db.query("SELECT seq FROM records UNION ALL SELECT seq FROM runs LIMIT 1", &[])?;
        Ok(found.is_empty() && self.head()? == Head::NONE)
    }

    /// Checks that a record could be written now, without writing one.
    pub fn check_write(&mut self) -> Result<(), LedgerError> {
        let undone = || LedgerError::Failed("undone".into());
        let tried: Result<(), LedgerError> = self.with_write_lock(|db, zip| {
            let sha256 = sha256(&[]);
            let draft =
                RecordDraft { run: None, flow: None, kind: "removed", at: &now(), payload: None, sha256 };
            append_record(db, zip, &draft)?;
            Err(undone())
        });
        match tried {
            Err(error) if error == undone() => Ok(()),
            other => other,
        }
    }

    /// Returns a text by its digest, or `None` if it is missing. A text that does not match its digest is
    /// damage.
    pub fn blob(&mut self, digest: Digest) -> Result<Option<SharedText>, LedgerError> {
        read_blob(&mut self.db, digest)
    }

    /// Returns the prompt record of a run.
    pub fn prompt_record(&mut self, run: &Id) -> Result<Composed, LedgerError> {
        let record = records_of(&mut self.db, run, Some("composed"))?.into_iter().next();
        let record =
            record.ok_or_else(|| LedgerError::damaged(format!("run {run} has no record of its prompt")))?;
        match record.event()? {
            Some(Event::Composed(composed)) => Ok(composed),
            _ => Err(LedgerError::damaged(format!("record {}: its payload is gone", record.seq))),
        }
    }
}

/// Returns a text by its digest, or `None` if it is missing.
pub(crate) fn read_blob(
    db: &mut DatabaseConnection,
    digest: Digest,
) -> Result<Option<SharedText>, LedgerError> {
    let sql = "SELECT size, zstd, packed FROM blobs WHERE sha256 = $1";
    let Some(mut row) = db.query(sql, &[SqlParam::Bytes(&digest.0)])?.into_iter().next() else {
        return Ok(None);
    };
    let place = format!("blob {digest}");
    let wrong = |why: &str| LedgerError::damaged(format!("{place}: {why}"));
    let size = row.int(&format!("{place}: size"))?;
    let (bytes, packed) = (row.bytes(&format!("{place}: zstd"))?, row.int(&format!("{place}: packed"))?);
    let size = u64::try_from(size).ok().filter(|size| *size <= MOST_READ);
    let size = size.ok_or_else(|| wrong("its size is invalid"))?;
    let text = decompress_text(&place, &bytes, packed, size)?;
    if text.len() as u64 != size {
        return Err(wrong("it has another size"));
    }
    if sha256(&[text.as_bytes()]) != digest {
        return Err(wrong("its text has another SHA-256"));
    }
    Ok(Some(text.into()))
}

fn read_id(db: &mut DatabaseConnection) -> Result<Option<Id>, LedgerError> {
    if !has_projects(db)? {
        return Ok(None);
    }
    let row = db.query("SELECT id FROM identity", &[])?.into_iter().next();
    let text = row.ok_or_else(|| LedgerError::damaged("its id is gone"))?.text("identity.id")?;
    Id::parse(&text).map(Some).ok_or_else(|| LedgerError::damaged("identity.id is not an id"))
}

pub(crate) fn read_head(db: &mut DatabaseConnection) -> Result<Head, LedgerError> {
    let rows = db.query("SELECT seq, chain FROM head", &[])?;
    let mut row = rows.into_iter().next().ok_or_else(|| LedgerError::damaged("its head is gone"))?;
    Ok(Head { seq: to_seq(row.int("head.seq")?), chain: row.digest("head.chain")? })
}

/// Refuses to append to a run that retention has removed.
fn check_run_exists(db: &mut DatabaseConnection, run: &Id) -> Result<(), LedgerError> {
    let found = db.query("SELECT seq FROM runs WHERE id = $1", &[SqlParam::Text(run.as_str())])?;
    if found.is_empty() { Err(LedgerError::NoRun(run.to_string())) } else { Ok(()) }
}

/// Checks that the chain contains an earlier head. A ledger that was rolled back or rewritten does not.
fn check_follows(db: &mut DatabaseConnection, last: Option<&Head>) -> Result<(), LedgerError> {
    let Some(last) = last.filter(|last| last.seq > 0) else { return Ok(()) };
    let head = read_head(db)?;
    let found = if head.seq == last.seq { Some(head.chain) } else { read_link(db, last.seq)? };
    if head.seq >= last.seq && found == Some(last.chain) {
        return Ok(());
    }
    Err(LedgerError::damaged(format!("its records no longer lead to the known record {}", last.seq)))
}

/// Checks that the whole database can be read, and that its records follow each other up to its head.
fn check_pages(db: &mut DatabaseConnection) -> Result<(), LedgerError> {
    if let Some(line) = db.quick_check()?.first() {
        return Err(LedgerError::damaged(line.as_str()));
    }
    let head = read_head(db)?;
    let mut last = Head::NONE;
    while last.seq < head.seq {
        let sql = "SELECT seq, run, flow, kind, at, payload_sha256, chain FROM records WHERE seq > $1 ORDER BY seq LIMIT 1000";
        let rows = db.query(sql, &[SqlParam::Int(last.seq as i64)])?;
        let before = last.seq;
        for mut row in rows {
            let seq = to_seq(row.int("records.seq")?);
            let (run, flow) = (row.maybe_text("records.run")?, row.maybe_text("records.flow")?);
            let (kind, at) = (row.text("records.kind")?, row.text("records.at")?);
            let payload = row.digest("records.payload_sha256")?;
            let chain = row.digest("records.chain")?;
            let link =
                ChainLink { seq, run: run.as_deref(), flow: flow.as_deref(), kind: &kind, at: &at, payload };
            if seq != last.seq + 1 || link.link_after(&last.chain) != chain {
                return Err(LedgerError::damaged(format!("record {} was changed", last.seq + 1)));
            }
            last = Head { seq, chain };
        }
        if last.seq == before {
            break;
        }
    }
    if last == head { Ok(()) } else { Err(LedgerError::damaged(format!("record {} is gone", last.seq + 1))) }
}

/// Returns the link of a record; `None` if there is no such record.
fn read_link(db: &mut DatabaseConnection, seq: u64) -> Result<Option<Digest>, LedgerError> {
    let rows = db.query("SELECT chain FROM records WHERE seq = $1", &[SqlParam::Int(seq as i64)])?;
    rows.into_iter().next().map(|mut row| row.digest(&format!("records.chain of {seq}"))).transpose()
}

/// Returns the link that precedes a record.
pub(crate) fn read_link_before(db: &mut DatabaseConnection, seq: u64) -> Result<Option<Digest>, LedgerError> {
    if seq <= 1 { Ok(Some(Digest::ZERO)) } else { read_link(db, seq - 1) }
}

/// Converts a number, which is never negative unless it was tampered with. A tampered one follows no other.
pub(crate) fn to_seq(number: i64) -> u64 {
    number.unsigned_abs()
}

/// Compresses a text. Refuses one that is too long to be exported again.
pub(crate) fn compress_text(
    zip: &mut zstd::bulk::Compressor<'static>,
    bytes: &[u8],
) -> Result<Vec<u8>, LedgerError> {
    if bytes.len() > MOST_TEXT {
        let size = bytes.len();
        return Err(LedgerError::Failed(format!("a text has {size} bytes; the limit is {MOST_TEXT}")));
    }
    zip.compress(bytes).map_err(|error| LedgerError::Failed(format!("zstd: {error}")))
}

/// Returns the first bytes of the SHA-256 of packed bytes as a number. It detects a changed byte even if
/// unpacking would not.
pub(crate) fn packed_checksum(bytes: &[u8]) -> i64 {
    let Digest([a, b, c, d, e, f, g, h, ..]) = sha256(&[bytes]);
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Unpacks at most `most` bytes, and one more to detect a longer text. An error names `place`.
pub(crate) fn decompress_text(
    place: &str,
    bytes: &[u8],
    check: i64,
    most: u64,
) -> Result<String, LedgerError> {
    let damaged = |why: String| LedgerError::damaged(format!("{place}: {why}"));
    if packed_checksum(bytes) != check {
        return Err(damaged("its packed bytes have another SHA-256".into()));
    }
    let mut text = Vec::new();
    let unzip = zstd::stream::read::Decoder::new(bytes);
    let unpacked = unzip.and_then(|unzip| unzip.take(most + 1).read_to_end(&mut text));
    unpacked.map_err(|error| damaged(format!("cannot unpack it: {error}")))?;
    String::from_utf8(text).map_err(|_| damaged("it is not UTF-8".into()))
}

/// Stores the blobs that are missing. `ready` may lack one that retention removed meanwhile, and contain one
/// that another writer stored first.
pub(crate) fn put_blobs(
    db: &mut DatabaseConnection,
    zip: &mut zstd::bulk::Compressor<'static>,
    blobs: &BTreeMap<Digest, SharedText>,
    mut ready: BTreeMap<Digest, Vec<u8>>,
) -> Result<(), LedgerError> {
    if blobs.is_empty() {
        return Ok(());
    }
    let others: Vec<Digest> = blobs.keys().copied().filter(|digest| !ready.contains_key(digest)).collect();
    let known = db.find_known_blobs(&others)?;
    for (digest, text) in blobs.iter().filter(|(digest, _)| !known.contains(digest)) {
        let bytes = match ready.remove(digest) {
            Some(bytes) => bytes,
            None => compress_text(zip, text.as_bytes())?,
        };
        let (size, packed) = (SqlParam::Int(text.len() as i64), SqlParam::Int(packed_checksum(&bytes)));
        let row = [SqlParam::Bytes(&digest.0), size, SqlParam::Bytes(&bytes), packed];
        db.execute(
            "INSERT INTO blobs (sha256, size, zstd, packed) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            &row,
        )?;
    }
    Ok(())
}

/// Appends a record, and moves the head.
pub(crate) fn append_record(
    db: &mut DatabaseConnection,
    zip: &mut zstd::bulk::Compressor<'static>,
    draft: &RecordDraft<'_>,
) -> Result<Head, LedgerError> {
    let head = read_head(db)?;
    let seq = head.seq + 1;
    let (run, flow) = (draft.run.map(Id::as_str), draft.flow.map(Id::as_str));
    let link = ChainLink { seq, run, flow, kind: draft.kind, at: draft.at, payload: draft.sha256 };
    let chain = link.link_after(&head.chain);
    let payload = draft.payload.map(|payload| compress_text(zip, payload.as_bytes())).transpose()?;
    let row = [
        SqlParam::Int(seq as i64),
        SqlParam::text_or_null(run),
        SqlParam::text_or_null(flow),
        SqlParam::Text(draft.kind),
        SqlParam::Text(draft.at),
        payload.as_deref().map_or(SqlParam::Null, SqlParam::Bytes),
        payload.as_deref().map_or(SqlParam::Null, |payload| SqlParam::Int(packed_checksum(payload))),
        SqlParam::Bytes(&draft.sha256.0),
        SqlParam::Bytes(&chain.0),
    ];
    db.execute(
        "INSERT INTO records (seq, run, flow, kind, at, payload, packed, payload_sha256, chain)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &row,
    )?;
    db.execute(
        "UPDATE head SET seq = $1, chain = $2",
        &[SqlParam::Int(seq as i64), SqlParam::Bytes(&chain.0)],
    )?;
    Ok(Head { seq, chain })
}

/// Appends an event of a run or a flow with its payload, and updates the list of runs.
pub(crate) fn append_event(
    db: &mut DatabaseConnection,
    zip: &mut zstd::bulk::Compressor<'static>,
    (run, flow): (Option<&Id>, Option<&Id>),
    event: &Event,
    payload: &str,
    at: &str,
) -> Result<Head, LedgerError> {
    let sha256 = sha256(&[payload.as_bytes()]);
    let draft = RecordDraft { run, flow, kind: event.kind(), at, payload: Some(payload), sha256 };
    let head = append_record(db, zip, &draft)?;
    index_record(db, head.seq, run, event)?;
    Ok(head)
}

/// Updates the list of runs for a record, and the facts of its run.
pub(crate) fn index_record(
    db: &mut DatabaseConnection,
    seq: u64,
    run: Option<&Id>,
    event: &Event,
) -> Result<(), LedgerError> {
    let Some(run) = run else { return Ok(()) };
    index_run(db, seq, run, event)?;
    index_facts(db, seq, run, event)
}

fn index_run(db: &mut DatabaseConnection, seq: u64, run: &Id, event: &Event) -> Result<(), LedgerError> {
    let set = |db: &mut DatabaseConnection, sql, value: &str| {
        db.execute(sql, &[SqlParam::Text(value), SqlParam::Text(run.as_str())]).map(drop)
    };
    match event {
        Event::Composed(Composed { run, .. }) => {
            let row = [
                SqlParam::Int(seq as i64),
                SqlParam::Text(run.id.as_str()),
                SqlParam::text_or_null(run.parent.as_ref().map(Id::as_str)),
                SqlParam::text_or_null(run.task.as_deref()),
                SqlParam::text_or_null(run.agent.as_deref()),
                SqlParam::text_or_null(run.phase.as_deref()),
                SqlParam::text_or_null(run.role.as_deref()),
                SqlParam::Text(&run.recipe),
                SqlParam::Text(&run.started),
                SqlParam::text_or_null(run.project.as_deref()),
            ];
            db.execute(
                "INSERT INTO runs (seq, id, parent, task, agent, phase, role, recipe, started, project)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &row,
            )
            .map(drop)
        }
        Event::Exit(exit) => set(db, "UPDATE runs SET ended = $1 WHERE id = $2", exit.ended.name()),
        Event::Replied(replied) => match &replied.verdict {
            Some(verdict) => set(db, "UPDATE runs SET verdict = $1 WHERE id = $2", verdict),
            None => Ok(()),
        },
        Event::Imported(_) => {
            let run = [SqlParam::Text(run.as_str())];
            db.execute("UPDATE runs SET imported = 1 WHERE id = $1", &run).map(drop)
        }
        _ => Ok(()),
    }
}
