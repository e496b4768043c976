//! Prints: what tells a file from another one at the same place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use callsheet_core::record::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The mode of a file and the SHA-256 of its contents, or where it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Print(String);

impl Print {
    pub(super) fn is_link(&self) -> bool {
        self.0.contains(ARROW)
    }

    /// Of a folder that is much too large to be read.
    pub(super) fn of_folder(times: Digest) -> Self {
        Self(times.to_string())
    }

    /// The print of something that has contents of its own besides, a submodule.
    pub(super) fn with(self, contents: &str) -> Self {
        Self(format!("{contents} {}", self.0))
    }
}

const ARROW: &str = " → ";

/// Prints that were taken before: a file that nobody touched since is not read again. Paths are bytes here, because they
/// are compared part by part otherwise.
#[derive(Debug, Default)]
pub struct Prints(Mutex<BTreeMap<OsString, (Stamp, Print)>>);

/// Nobody can write to a file and leave all of these as they were, unless in the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    number: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// How much older than the look at it a file's times have to be, so that a later change shows in them.
const MOMENT: Duration = Duration::from_secs(2);

impl Prints {
    /// The print of what is at `path`; `None` where nothing is.
    pub(super) fn of(&self, path: &Path) -> Option<Print> {
        let meta = path.symlink_metadata().ok()?;
        let mode = meta.mode();
        if meta.is_symlink() {
            return Some(Print(format!("{mode:o}{ARROW}{}", fs::read_link(path).ok()?.display())));
        }
        if !meta.is_file() {
            return Some(Print(format!("{mode:o}")));
        }
        let stamp = Stamp::of(&meta);
        if let Ok(known) = self.0.lock()
            && let Some((_, print)) = known.get(path.as_os_str()).filter(|(known, _)| *known == stamp)
        {
            return Some(print.clone());
        }
        let looked = SystemTime::now();
        // A file that cannot be read can still be told from one of another time.
        let contents =
            contents(path).unwrap_or_else(|_| format!("{} {}", stamp.modified.0, stamp.modified.1));
        let print = Print(format!("{mode:o} {contents}"));
        if stamp.is_older_than(looked)
            && let Ok(mut known) = self.0.lock()
        {
            known.insert(path.into(), (stamp, print.clone()));
        }
        Some(print)
    }
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            number: meta.ino(),
            size: meta.len(),
            mode: meta.mode(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    fn is_older_than(&self, looked: SystemTime) -> bool {
        let changed = u64::try_from(self.changed.0).ok().map(Duration::from_secs);
        changed
            .and_then(|changed| UNIX_EPOCH.checked_add(changed)?.checked_add(MOMENT))
            .is_some_and(|at| at < looked)
    }
}

fn contents(path: &Path) -> io::Result<String> {
    let mut hash = HashWriter(Sha256::new());
    io::copy(&mut File::open(path)?, &mut hash)?;
    Ok(Digest(hash.0.finalize().into()).to_string())
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_unless_nothing_of_it_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "one").unwrap();
        let prints = Prints::default();
        let one = prints.of(&path).unwrap();
        assert!(prints.0.lock().unwrap().is_empty(), "somebody could write to it in this very moment");

        let meta = path.metadata().unwrap();
        let marked = Print("marked".into());
        prints.0.lock().unwrap().insert(path.clone().into(), (Stamp::of(&meta), marked.clone()));
        assert_eq!(prints.of(&path), Some(marked));

        // As long as before, and with the time of before.
        fs::write(&path, "two").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(meta.modified().unwrap()).unwrap();
        let two = prints.of(&path).unwrap();
        assert_eq!(two, Print(format!("{:o} {}", meta.mode(), callsheet_core::record::sha256(&[b"two"]))));
        assert_ne!(one, two);
    }

    #[test]
    fn only_what_is_old_enough_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "one").unwrap();
        let stamp = Stamp::of(&path.metadata().unwrap());
        let changed = UNIX_EPOCH + Duration::from_secs(stamp.changed.0.unsigned_abs());
        assert!(!stamp.is_older_than(changed + MOMENT));
        assert!(stamp.is_older_than(changed + MOMENT + Duration::from_nanos(1)));
    }
}
