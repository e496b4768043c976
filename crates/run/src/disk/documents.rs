//! Reads the documents of a folder as digests of their contents.

use std::collections::BTreeMap;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

use super::read::hash_contents;

/// Larger files are not read: their size and times replace the digest.
const MOST_BYTES: u64 = 64 << 20;

/// A file that changed more recently could change again without a trace in its times.
const SETTLED: Duration = Duration::from_secs(2);

/// The metadata that the system changes on every write to a file.
type DocumentStamp = (u64, u64, u64, i64, i64, i64, i64);

/// A reader of folders that reads no unchanged file twice.
#[derive(Debug, Default)]
pub struct DocumentReader {
    known: BTreeMap<DocumentStamp, String>,
}

impl DocumentReader {
    /// Returns every file below `root` that `wanted` accepts, with the SHA-256 of its content, or with a word
    /// for anything but a regular file. Follows no links. A folder that cannot be listed counts as empty.
    pub fn read(&mut self, root: &Path, wanted: &dyn Fn(&str) -> bool) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut known = BTreeMap::new();
        let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let mut open = if is_folder(root) { vec![String::new()] } else { Vec::new() };
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(path),
                    _ if wanted(&path) => {
                        let what = self.describe_file(&entry.path(), &mut known);
                        found.insert(path, what);
                    }
                    _ => {}
                }
            }
        }
        self.known = known;
        found
    }

    fn describe_file(&self, path: &Path, known: &mut BTreeMap<DocumentStamp, String>) -> String {
        let unreadable = |error: io::Error| format!("unreadable: {error}");
        let meta = match path.symlink_metadata() {
            Ok(meta) => meta,
            Err(error) => return unreadable(error),
        };
        if meta.is_symlink() {
            let target = fs::read_link(path).unwrap_or_default();
            return format!("link: {}", target.display());
        }
        if !meta.is_file() {
            return "not a regular file".into();
        }
        let stamp = file_stamp(&meta);
        let digest = match self.known.get(&stamp) {
            Some(digest) => Ok(digest.clone()),
            None => read_digest(path, &meta),
        };
        digest.map_or_else(unreadable, |digest| {
            if is_settled(&meta) {
                known.insert(stamp, digest.clone());
            }
            digest
        })
    }
}

fn file_stamp(meta: &Metadata) -> DocumentStamp {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec())
}

fn is_settled(meta: &Metadata) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or(u64::MAX));
    now.checked_sub(changed).is_some_and(|age| age > SETTLED)
}

fn read_digest(path: &Path, meta: &Metadata) -> io::Result<String> {
    if meta.len() > MOST_BYTES {
        return Ok(format!("large: {:?}", file_stamp(meta)));
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok("not a regular file".into());
    }
    Ok(hash_contents(file.take(MOST_BYTES))?.to_string())
}
