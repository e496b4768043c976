//! Ledgers that this user knows: made by this callsheet or adopted, at their places. The state directory keeps the id of
//! each and the last head that was seen, so that a ledger that was replaced, rolled back or emptied is found.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::{Digest, Id};
use callsheet_run::read_own;
use callsheet_store::{Head, Ledger, LedgerUrl};
use serde::{Deserialize, Serialize};

use crate::ledger::failure;
use crate::state::{hold, name_of, private_folder, replace_private, state_dir};

/// What is kept of a known ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownEntry {
    pub(crate) id: Id,
    /// The place as it is shown.
    pub(crate) place: String,
    /// Of the file; none on PostgreSQL.
    pub(crate) inode: Option<u64>,
}

/// The folder of the state directory that belongs to a ledger's place.
#[derive(Clone, Debug)]
pub(crate) struct KnownLedger {
    folder: PathBuf,
    shown: String,
    file: Option<PathBuf>,
}

/// So often a head is kept while records are appended one after the other.
const PAUSE: Duration = Duration::from_millis(200);

impl KnownLedger {
    pub(crate) fn of(place: &LedgerUrl) -> Result<Self, Diagnostics> {
        let (key, shown, file) = match place {
            LedgerUrl::Sqlite(path) => {
                let path = real(path);
                let mut key = OsString::from("file ");
                key.push(&path);
                (key.into_vec(), path.display().to_string(), Some(path))
            }
            LedgerUrl::Postgres(url) => {
                let shown = callsheet_store::postgres_place(url).map_err(failure)?;
                (format!("postgres {shown}").into_bytes(), shown, None)
            }
            LedgerUrl::Memory => (b"memory".to_vec(), "memory".into(), None),
        };
        let key = Path::new(std::ffi::OsStr::from_bytes(&key)).to_owned();
        Ok(Self { folder: state_dir()?.join("ledgers").join(name_of(&key)), shown, file })
    }

    /// All that there are.
    pub(crate) fn all() -> Result<Vec<Self>, Diagnostics> {
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

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn entry(&self) -> Option<KnownEntry> {
        serde_json::from_str(&read_own(&self.folder.join("entry"))?).ok()
    }

    /// The last head that was kept.
    pub(crate) fn head(&self) -> Option<Head> {
        let text = read_own(&self.folder.join("head"))?;
        let (seq, chain) = text.trim_end().split_once(':')?;
        Some(Head { seq: seq.parse().ok()?, chain: Digest::parse(chain)? })
    }

    /// Held while the ledger is made or becomes known.
    pub(crate) fn lock(&self) -> Result<File, Diagnostics> {
        self.locked("lock")
    }

    fn locked(&self, name: &str) -> Result<File, Diagnostics> {
        private_folder(&self.folder)?;
        hold(&self.folder.join(name))
    }

    /// Makes the ledger that lies there now known, with the head that it has now.
    pub(crate) fn register(&self, ledger: &mut Ledger) -> Result<KnownEntry, Diagnostics> {
        let none = || Diagnostic::error(Code::LedgerFailed, "the ledger has no id");
        let id = ledger.id().map_err(failure)?.ok_or_else(none)?;
        let entry = KnownEntry { id, place: self.shown.clone(), inode: self.inode() };
        let Head { seq, chain } = ledger.head().map_err(failure)?;
        private_folder(&self.folder)?;
        replace_private(&self.folder.join("head"), &format!("{seq}:{chain}\n"))?;
        replace_private(&self.folder.join("entry"), &serde_json::to_string(&entry).unwrap_or_default())?;
        Ok(entry)
    }

    /// What lies there now is foreign. Whether it was known.
    pub(crate) fn forget(&self) -> bool {
        let was_known = fs::remove_file(self.folder.join("entry")).is_ok();
        // A head without an entry says nothing.
        let _ = fs::remove_file(self.folder.join("head"));
        was_known
    }

    /// The inode of the file that lies there.
    pub(crate) fn inode(&self) -> Option<u64> {
        self.file.as_ref().and_then(|file| file.symlink_metadata().ok()).map(|found| found.ino())
    }

    /// Keeps a head that is further than the one that was kept, also if several processes do so at once.
    fn keep(&self, head: Head) -> Result<(), Diagnostics> {
        let held = self.locked("head-lock")?;
        if self.entry().is_some() && self.head().is_none_or(|kept| kept.seq < head.seq) {
            let Head { seq, chain } = head;
            replace_private(&self.folder.join("head"), &format!("{seq}:{chain}\n"))?;
        }
        drop(held);
        Ok(())
    }

    /// Keeps heads as they come: now and then, and the last one in any case.
    pub(crate) fn keeper(self) -> impl FnMut(Head) + Send + 'static {
        let mut writer = HeadWriter { known: self, pending: None, written: None };
        move |head| writer.take(head)
    }
}

struct HeadWriter {
    known: KnownLedger,
    pending: Option<Head>,
    written: Option<Instant>,
}

impl HeadWriter {
    fn take(&mut self, head: Head) {
        self.pending = Some(head);
        if self.written.is_none_or(|written| written.elapsed() >= PAUSE) {
            self.write();
        }
    }

    fn write(&mut self) {
        if let Some(head) = self.pending.take() {
            // The record is in the ledger; without the head, an older one is compared.
            let _ = self.known.keep(head);
            self.written = Some(Instant::now());
        }
    }
}

impl Drop for HeadWriter {
    fn drop(&mut self) {
        self.write();
    }
}

/// The path without links, also of a file that is not there yet.
fn real(path: &Path) -> PathBuf {
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
