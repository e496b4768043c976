//! The ledger: opening it, and appending to it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use callsheet_core::record::{Composed, Digest, Event, Id, Kept, Link, sha256};
use callsheet_core::{Text, Values};

use crate::clock::now;
use crate::db::{Db, Engine};
use crate::error::Error;
use crate::migrate::{check_readable, has_projects, migrate};
use crate::patience::Patience;
use crate::private::{WatchedFile, private_file};
use crate::read::records_of;
use crate::row::Param;

/// Where a ledger is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file.
    Sqlite(PathBuf),
    /// A URL; it may hold a password, so it is never shown.
    Postgres(String),
    /// Gone when it is closed.
    Memory,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(_) => f.write_str("PostgreSQL"),
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// What a ledger is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    Read,
    /// Records are appended.
    Write,
    /// The same, and it is made if there is none.
    Create,
}

/// The last number that was given, and the link that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub chain: Digest,
}

/// An open ledger.
pub struct Ledger {
    pub(crate) db: Db,
    zip: zstd::bulk::Compressor<'static>,
    /// Values that records do not hold, for verifying.
    pub(crate) given: Values,
    /// The files that it lies in; none of PostgreSQL.
    watched: Option<WatchedFile>,
    /// A head that the chain must contain: the last one that was kept or appended.
    last: Option<Head>,
    keeper: Option<HeadKeeper>,
}

/// Takes the head after each append.
type HeadKeeper = Box<dyn FnMut(Head) + Send>;

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ledger({:?})", self.db)
    }
}

/// A record that is about to be appended.
pub(crate) struct Draft<'d> {
    pub(crate) run: Option<&'d Id>,
    pub(crate) flow: Option<&'d Id>,
    pub(crate) kind: &'d str,
    pub(crate) at: &'d str,
    /// The payload and its digest; of one that retention took, the digest is left.
    pub(crate) payload: Option<&'d str>,
    pub(crate) sha256: Digest,
}

/// The next levels take a third longer for two percent, and those above many times as long.
const LEVEL: i32 = 1;

/// The most bytes of a text or a payload that is written.
pub(crate) const MOST_TEXT: usize = 256 << 20;

/// The most bytes of one that is read; earlier versions wrote longer ones.
pub(crate) const MOST_READ: u64 = 1 << 30;

impl Ledger {
    /// Opens a ledger, or makes one where there is none.
    pub fn create(place: &Place) -> Result<Self, Error> {
        Self::connect(place, OpenMode::Create, Patience::default())
    }

    /// Opens a ledger that is there.
    pub fn open(place: &Place) -> Result<Self, Error> {
        Self::connect(place, OpenMode::Write, Patience::default())
    }

    /// Opens a ledger that is there to read it. Nothing is changed, neither in it nor beside it, so it may lie where nothing
    /// can be written, and have the schema of an older version.
    pub fn read(place: &Place) -> Result<Self, Error> {
        Self::connect(place, OpenMode::Read, Patience::default())
    }

    pub fn connect(place: &Place, mode: OpenMode, patience: Patience) -> Result<Self, Error> {
        let mut db = match (place, mode) {
            (Place::Sqlite(path), OpenMode::Read) => Db::sqlite_to_read(path, patience)?,
            (Place::Sqlite(path), _) => {
                return Self::new(Db::sqlite(path, mode == OpenMode::Create, patience)?)?.watch(path);
            }
            (Place::Postgres(url), OpenMode::Read) => Db::postgres_to_read(url, patience)?,
            (Place::Postgres(url), _) => return Self::new(Db::postgres(url, patience)?),
            (Place::Memory, OpenMode::Read) => Db::memory()?,
            (Place::Memory, _) => return Self::new(Db::memory()?),
        };
        check_readable(&mut db)?;
        Self::around(db)
    }

    /// A ledger of its own that takes little memory, and is gone when it is dropped.
    pub(crate) fn temporary() -> Result<Self, Error> {
        Self::new(Db::temporary()?)
    }

    fn new(mut db: Db) -> Result<Self, Error> {
        migrate(&mut db)?;
        Self::around(db)
    }

    fn around(db: Db) -> Result<Self, Error> {
        let zip =
            zstd::bulk::Compressor::new(LEVEL).map_err(|error| Error::Failed(format!("zstd: {error}")))?;
        Ok(Self { db, zip, given: Values::default(), watched: None, last: None, keeper: None })
    }

    fn watch(self, path: &Path) -> Result<Self, Error> {
        Ok(Self { watched: Some(WatchedFile::new(path)?), ..self })
    }

    /// The ledger's own id; `None` if its schema is older than ids.
    pub fn id(&mut self) -> Result<Option<Id>, Error> {
        if !has_projects(&mut self.db)? {
            return Ok(None);
        }
        let row = self.db.query("SELECT id FROM identity", &[])?.into_iter().next();
        let text = row.ok_or_else(|| Error::damaged("its id is gone"))?.text("identity.id")?;
        Id::parse(&text).map(Some).ok_or_else(|| Error::damaged("identity.id is not an id"))
    }

    /// Writes a whole copy of a ledger on SQLite into a file that is not there yet; only its owner can read it. Closes the
    /// ledger.
    pub fn copy_into(mut self, path: &Path) -> Result<(), Error> {
        self.db.copy_into(path)?;
        private_file(path, false).map(drop)
    }

    /// Nothing is appended unless the chain contains `head`.
    pub fn expect_head(&mut self, head: Head) {
        self.last = Some(head);
    }

    /// Calls `keeper` with the new head after each append.
    pub fn keep_heads(&mut self, keeper: impl FnMut(Head) + Send + 'static) {
        self.keeper = Some(Box::new(keeper));
    }

    /// Fails if the ledger's files are no longer where they were when it was opened.
    pub fn check_files(&mut self) -> Result<(), Error> {
        self.watched.as_mut().map_or(Ok(()), WatchedFile::check)
    }

    fn appended(&mut self, head: Head) {
        self.last = Some(head);
        if let Some(keeper) = &mut self.keeper {
            keeper(head);
        }
    }

    /// Gives the values that were marked as secret, so that prompts with them can be verified.
    #[must_use]
    pub fn with_secrets(self, given: Values) -> Self {
        Self { given, ..self }
    }

    pub fn engine(&self) -> Engine {
        self.db.engine()
    }

    /// Keeps a prompt: its texts, its run and its record, all of them or none. Answers with the record's number.
    pub fn compose(&mut self, kept: &Kept) -> Result<u64, Error> {
        let event = Event::Composed(kept.composed.clone());
        self.put(Some(&kept.composed.run.id), None, &event, &kept.blobs)
    }

    /// Appends what happened in a run or a flow. Answers with the record's number.
    pub fn append(&mut self, run: Option<&Id>, flow: Option<&Id>, event: &Event) -> Result<u64, Error> {
        self.put(run, flow, event, &BTreeMap::new())
    }

    fn put(
        &mut self,
        run: Option<&Id>,
        flow: Option<&Id>,
        event: &Event,
        blobs: &BTreeMap<Digest, Text>,
    ) -> Result<u64, Error> {
        let payload = event.payload().map_err(Error::Failed)?;
        let sha256 = sha256(&[payload.as_bytes()]);
        let zipped = self.zip_unknown(blobs)?;
        self.check_files()?;
        let Self { db, zip, last, .. } = self;
        let head = db.alone(|db| {
            follows(db, last.as_ref())?;
            if let Some(run) = run.filter(|_| !matches!(event, Event::Composed(_))) {
                has_run(db, run)?;
            }
            put_blobs(db, zip, blobs, zipped)?;
            // Inside of the transaction, so that times are in the order of the numbers.
            let at = now();
            let draft = Draft { run, flow, kind: event.kind(), at: &at, payload: Some(&payload), sha256 };
            let head = append(db, zip, &draft)?;
            index(db, head.seq, run, event)?;
            Ok(head)
        })?;
        self.appended(head);
        Ok(head.seq)
    }

    /// Compresses what is not there yet, before anybody has to wait for us.
    pub(crate) fn zip_unknown(
        &mut self,
        blobs: &BTreeMap<Digest, Text>,
    ) -> Result<BTreeMap<Digest, Vec<u8>>, Error> {
        let digests: Vec<Digest> = blobs.keys().copied().collect();
        let known = if digests.is_empty() { Default::default() } else { self.db.known_blobs(&digests)? };
        let unknown = blobs.iter().filter(|(digest, _)| !known.contains(digest));
        unknown.map(|(digest, text)| Ok((*digest, zipped(&mut self.zip, text.as_bytes())?))).collect()
    }

    /// Does `work` in one transaction.
    pub(crate) fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut Db, &mut zstd::bulk::Compressor<'static>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_files()?;
        let Self { db, zip, last, .. } = self;
        let (done, head) = db.alone(|db| {
            follows(db, last.as_ref())?;
            Ok((work(db, zip)?, head(db)?))
        })?;
        self.appended(head);
        Ok(done)
    }

    /// Reads while others write, as if they did not.
    pub(crate) fn still<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.db.hold_still()?;
        let done = read(self);
        self.db.end(done)
    }

    pub fn head(&mut self) -> Result<Head, Error> {
        head(&mut self.db)
    }

    /// Whether nothing was ever recorded in it. Its head alone does not say so: a file can hold records that its head hides.
    pub fn is_empty(&mut self) -> Result<bool, Error> {
        let found = self.db.query("SELECT seq FROM records UNION ALL SELECT seq FROM runs LIMIT 1", &[])?;
        Ok(found.is_empty() && self.head()? == Head { seq: 0, chain: Digest::ZERO })
    }

    /// Checks that a record could be written now; nothing is.
    pub fn check_write(&mut self) -> Result<(), Error> {
        let undone = || Error::Failed("undone".into());
        let tried: Result<(), Error> = self.alone(|db, zip| {
            let sha256 = sha256(&[]);
            let draft = Draft { run: None, flow: None, kind: "removed", at: &now(), payload: None, sha256 };
            append(db, zip, &draft)?;
            Err(undone())
        });
        match tried {
            Err(error) if error == undone() => Ok(()),
            other => other,
        }
    }

    /// A text by its digest, or nothing where there is none. One that is not what its digest says is damage.
    pub fn blob(&mut self, digest: Digest) -> Result<Option<Text>, Error> {
        blob(&mut self.db, digest)
    }

    /// The prompt of a run.
    pub fn composed(&mut self, run: &Id) -> Result<Composed, Error> {
        let record = records_of(&mut self.db, run, Some("composed"))?.into_iter().next();
        let record =
            record.ok_or_else(|| Error::damaged(format!("run {run} has no record of its prompt")))?;
        match record.event()? {
            Some(Event::Composed(composed)) => Ok(composed),
            _ => Err(Error::damaged(format!("record {}: its payload is gone", record.seq))),
        }
    }
}

pub(crate) fn blob(db: &mut Db, digest: Digest) -> Result<Option<Text>, Error> {
    let sql = "SELECT size, zstd, packed FROM blobs WHERE sha256 = $1";
    let Some(mut row) = db.query(sql, &[Param::Bytes(&digest.0)])?.into_iter().next() else {
        return Ok(None);
    };
    let place = format!("blob {digest}");
    let wrong = |why: String| Error::damaged(format!("{place}: {why}"));
    let size = row.int(&format!("{place}: size"))?;
    let (bytes, packed) = (row.bytes(&format!("{place}: zstd"))?, row.int(&format!("{place}: packed"))?);
    let size = u64::try_from(size).ok().filter(|size| *size <= MOST_READ);
    let size = size.ok_or_else(|| wrong("its size is no size".into()))?;
    let text = unzip(&bytes, packed, size).map_err(wrong)?;
    if text.len() as u64 != size {
        return Err(wrong("it has another size".into()));
    }
    if sha256(&[text.as_bytes()]) != digest {
        return Err(wrong("its text has another SHA-256".into()));
    }
    Ok(Some(text.into()))
}

pub(crate) fn head(db: &mut Db) -> Result<Head, Error> {
    let rows = db.query("SELECT seq, chain FROM head", &[])?;
    let mut row = rows.into_iter().next().ok_or_else(|| Error::damaged("its head is gone"))?;
    Ok(Head { seq: number(row.int("head.seq")?), chain: row.digest("head.chain")? })
}

/// Nothing is appended to a run that retention has removed.
fn has_run(db: &mut Db, run: &Id) -> Result<(), Error> {
    let found = db.query("SELECT seq FROM runs WHERE id = $1", &[Param::Text(run.as_str())])?;
    if found.is_empty() { Err(Error::NoRun(run.to_string())) } else { Ok(()) }
}

/// Whether the chain contains a head of before: one that was rolled back or written anew does not.
fn follows(db: &mut Db, last: Option<&Head>) -> Result<(), Error> {
    let Some(last) = last.filter(|last| last.seq > 0) else { return Ok(()) };
    let head = head(db)?;
    let found = if head.seq == last.seq { Some(head.chain) } else { link(db, last.seq)? };
    if head.seq >= last.seq && found == Some(last.chain) {
        return Ok(());
    }
    Err(Error::damaged(format!("its records do not lead to record {} any more, which was kept", last.seq)))
}

/// The link of a record; `None` if there is no such record.
pub(crate) fn link(db: &mut Db, seq: u64) -> Result<Option<Digest>, Error> {
    let rows = db.query("SELECT chain FROM records WHERE seq = $1", &[Param::Int(seq as i64)])?;
    rows.into_iter().next().map(|mut row| row.digest(&format!("records.chain of {seq}"))).transpose()
}

/// Numbers come from us and are never negative; one that was tampered with is none that follows another.
pub(crate) fn number(number: i64) -> u64 {
    number.unsigned_abs()
}

/// A text that is too long to be written again by an export is not kept in the first place.
pub(crate) fn zipped(zip: &mut zstd::bulk::Compressor<'static>, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    if bytes.len() > MOST_TEXT {
        let size = bytes.len();
        return Err(Error::Failed(format!("a text of {size} bytes is not kept; {MOST_TEXT} is the most")));
    }
    zip.compress(bytes).map_err(|error| Error::Failed(format!("zstd: {error}")))
}

/// The first bytes of the SHA-256 of packed bytes, as a number. A changed byte is found even where unpacking would not
/// notice it.
pub(crate) fn packed(bytes: &[u8]) -> i64 {
    let Digest([a, b, c, d, e, f, g, h, ..]) = sha256(&[bytes]);
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// No more than `most` bytes are unpacked, and one more to tell that there are more.
pub(crate) fn unzip(bytes: &[u8], check: i64, most: u64) -> Result<String, String> {
    if packed(bytes) != check {
        return Err("its packed bytes have another SHA-256".into());
    }
    let mut text = Vec::new();
    let unzip = zstd::stream::read::Decoder::new(bytes);
    let unpacked = unzip.and_then(|unzip| unzip.take(most + 1).read_to_end(&mut text));
    unpacked.map_err(|error| format!("it cannot be unpacked: {error}"))?;
    String::from_utf8(text).map_err(|_| "it is not UTF-8".into())
}

/// Blobs that are not there yet. `ready` may lack one that retention took in the meantime, and hold one that another
/// writer was faster with.
pub(crate) fn put_blobs(
    db: &mut Db,
    zip: &mut zstd::bulk::Compressor<'static>,
    blobs: &BTreeMap<Digest, Text>,
    mut ready: BTreeMap<Digest, Vec<u8>>,
) -> Result<(), Error> {
    if blobs.is_empty() {
        return Ok(());
    }
    let others: Vec<Digest> = blobs.keys().copied().filter(|digest| !ready.contains_key(digest)).collect();
    let known = db.known_blobs(&others)?;
    for (digest, text) in blobs.iter().filter(|(digest, _)| !known.contains(digest)) {
        let bytes = match ready.remove(digest) {
            Some(bytes) => bytes,
            None => zipped(zip, text.as_bytes())?,
        };
        let (size, packed) = (Param::Int(text.len() as i64), Param::Int(packed(&bytes)));
        let row = [Param::Bytes(&digest.0), size, Param::Bytes(&bytes), packed];
        db.execute(
            "INSERT INTO blobs (sha256, size, zstd, packed) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            &row,
        )?;
    }
    Ok(())
}

/// Appends a record, and moves the head.
pub(crate) fn append(
    db: &mut Db,
    zip: &mut zstd::bulk::Compressor<'static>,
    draft: &Draft<'_>,
) -> Result<Head, Error> {
    let head = head(db)?;
    let seq = head.seq + 1;
    let (run, flow) = (draft.run.map(Id::as_str), draft.flow.map(Id::as_str));
    let link = Link { seq, run, flow, kind: draft.kind, at: draft.at, payload: draft.sha256 };
    let chain = link.after(&head.chain);
    let payload = draft.payload.map(|payload| zipped(zip, payload.as_bytes())).transpose()?;
    let row = [
        Param::Int(seq as i64),
        Param::maybe(run),
        Param::maybe(flow),
        Param::Text(draft.kind),
        Param::Text(draft.at),
        payload.as_deref().map_or(Param::Null, Param::Bytes),
        payload.as_deref().map_or(Param::Null, |payload| Param::Int(packed(payload))),
        Param::Bytes(&draft.sha256.0),
        Param::Bytes(&chain.0),
    ];
    db.execute(
        "INSERT INTO records (seq, run, flow, kind, at, payload, packed, payload_sha256, chain)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &row,
    )?;
    db.execute("UPDATE head SET seq = $1, chain = $2", &[Param::Int(seq as i64), Param::Bytes(&chain.0)])?;
    Ok(Head { seq, chain })
}

/// What a record changes in the list of runs.
pub(crate) fn index(db: &mut Db, seq: u64, run: Option<&Id>, event: &Event) -> Result<(), Error> {
    let Some(run) = run else { return Ok(()) };
    let set = |db: &mut Db, sql, value: &str| {
        db.execute(sql, &[Param::Text(value), Param::Text(run.as_str())]).map(drop)
    };
    match event {
        Event::Composed(Composed { run, .. }) => {
            let row = [
                Param::Int(seq as i64),
                Param::Text(run.id.as_str()),
                Param::maybe(run.parent.as_ref().map(Id::as_str)),
                Param::maybe(run.task.as_deref()),
                Param::maybe(run.agent.as_deref()),
                Param::maybe(run.phase.as_deref()),
                Param::maybe(run.role.as_deref()),
                Param::Text(&run.recipe),
                Param::Text(&run.started),
                Param::maybe(run.project.as_deref()),
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
            let run = [Param::Text(run.as_str())];
            db.execute("UPDATE runs SET imported = 1 WHERE id = $1", &run).map(drop)
        }
        _ => Ok(()),
    }
}
