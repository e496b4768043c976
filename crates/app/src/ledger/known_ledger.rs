//! Ledgers that this user knows: created by this callsheet or adopted, by location. The state directory keeps
//! the id and the last seen head of each, to detect a ledger that was replaced, rolled back or emptied.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{Digest, Id};
use callsheet_run::read_own_text;
use callsheet_store::{Head, Ledger, LedgerUrl};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::project::state::{create_private_folder, directory_key, hold_lock, replace_private, state_dir};

/// Stored facts of a known ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownEntry {
    /// The id of the ledger.
    pub id: Id,
    /// Location as it is shown.
    pub place: String,
    /// Inode of the file; none on PostgreSQL.
    pub inode: Option<u64>,
}

/// Folder of the state directory that belongs to a ledger's location.
#[derive(Clone, Debug)]
pub struct KnownLedger {
    folder: PathBuf,
    shown: String,
    file: Option<PathBuf>,
}

/// Shortest interval between two stored heads while records are appended.
const PAUSE: Duration = Duration::from_millis(200);

impl KnownLedger {
    /// Returns the ledger at a location, known or not.
    pub fn from_url(place: &LedgerUrl) -> Result<Self> {
        let (key, shown, file) = match place {
            LedgerUrl::Sqlite(path) => {
                let path = resolve_links(path);
                let mut key = OsString::from("file ");
                key.push(&path);
                (key.into_vec(), path.display().to_string(), Some(path))
            }
            LedgerUrl::Postgres(url) => {
                let shown = callsheet_store::postgres_location(url)?;
                (format!("postgres {shown}").into_bytes(), shown, None)
            }
            LedgerUrl::Memory => (b"memory".to_vec(), "memory".into(), None),
        };
        let key = Path::new(std::ffi::OsStr::from_bytes(&key)).to_owned();
        Ok(Self { folder: state_dir()?.join("ledgers").join(directory_key(&key)), shown, file })
    }

    /// Returns all known ledgers.
    pub fn list() -> Result<Vec<Self>> {
        let found = fs::read_dir(state_dir()?.join("ledgers")).into_iter().flatten().flatten();
        let mut all: Vec<Self> = found
            .filter_map(|found| {
                let folder = found.path();
                let known = Self { folder, shown: String::new(), file: None };
                let entry = known.entry()?;
                let file = entry.inode.map(|_| PathBuf::from(&entry.place));
                Some(Self { shown: entry.place, file, ..known })
            })
            .collect();
        all.sort_by(|a, b| a.shown.cmp(&b.shown));
        Ok(all)
    }

    /// Returns the location for people, without a password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the file of a SQLite ledger.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the entry in the state directory; `None` if the ledger is not known.
    pub fn entry(&self) -> Option<KnownEntry> {
        serde_json::from_str(&read_own_text(&self.folder.join("entry"))?).ok()
    }

    /// Returns the last stored head.
    pub fn head(&self) -> Option<Head> {
        let text = read_own_text(&self.folder.join("head"))?;
        let (seq, chain) = text.trim_end().split_once(':')?;
        Some(Head { seq: seq.parse().ok()?, chain: Digest::parse(chain)? })
    }

    /// Acquires the lock for creating or registering the ledger.
    pub fn lock(&self) -> Result<File> {
        self.hold_lock("lock")
    }

    fn hold_lock(&self, name: &str) -> Result<File> {
        create_private_folder(&self.folder)?;
        hold_lock(&self.folder.join(name))
    }

    /// Registers the ledger that is there now, with its current head.
    pub(crate) fn register(&self, ledger: &mut Ledger) -> Result<KnownEntry> {
        let none = || Diagnostic::error(Code::LedgerFailed, "the ledger has no id");
        let id = ledger.id()?.ok_or_else(none)?;
        let entry = KnownEntry { id, place: self.shown.clone(), inode: self.inode() };
        let Head { seq, chain } = ledger.head()?;
        create_private_folder(&self.folder)?;
        replace_private(&self.folder.join("head"), &format!("{seq}:{chain}\n"))?;
        replace_private(&self.folder.join("entry"), &serde_json::to_string(&entry).unwrap_or_default())?;
        Ok(entry)
    }

    /// Makes the ledger at this location foreign. Returns whether it was known.
    pub fn forget(&self) -> bool {
        let was_known = fs::remove_file(self.folder.join("entry")).is_ok();
        // A head without an entry has no meaning.
        let _ = fs::remove_file(self.folder.join("head"));
        was_known
    }

    /// Returns the inode of the ledger's file.
    pub(crate) fn inode(&self) -> Option<u64> {
        self.file.as_ref().and_then(|file| file.symlink_metadata().ok()).map(|found| found.ino())
    }

    /// Stores a head that is further than the stored one, even if several processes do so at once.
    fn keep_head(&self, head: Head) -> Result<()> {
        let held = self.hold_lock("head-lock")?;
        if self.entry().is_some() && self.head().is_none_or(|kept| kept.seq < head.seq) {
            let Head { seq, chain } = head;
            replace_private(&self.folder.join("head"), &format!("{seq}:{chain}\n"))?;
        }
        drop(held);
        Ok(())
    }

    /// Returns a function that stores heads: at intervals, and always the last one.
    pub(crate) fn head_keeper(self) -> impl FnMut(Head) + Send + 'static {
        let mut writer = HeadWriter { known: self, pending: None, written: None };
        move |head| writer.push(head)
    }
}

struct HeadWriter {
    known: KnownLedger,
    pending: Option<Head>,
    written: Option<Instant>,
}

impl HeadWriter {
    fn push(&mut self, head: Head) {
        self.pending = Some(head);
        if self.written.is_none_or(|written| written.elapsed() >= PAUSE) {
            self.write();
        }
    }

    fn write(&mut self) {
        if let Some(head) = self.pending.take() {
            // The record is in the ledger; without this head, an older one is compared.
            let _ = self.known.keep_head(head);
            self.written = Some(Instant::now());
        }
    }
}

impl Drop for HeadWriter {
    fn drop(&mut self) {
        self.write();
    }
}

/// Resolves the links of a path, even if the file does not exist yet.
fn resolve_links(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    for dir in path.ancestors() {
        // The file itself may be a link, which is never opened.
        if dir != path
            && let Ok(real) = dir.canonicalize()
        {
            return rest.iter().rev().fold(real, |path: PathBuf, part| path.join(part));
        }
        rest.push(dir.file_name().unwrap_or_default().to_owned());
    }
    path.to_owned()
}
