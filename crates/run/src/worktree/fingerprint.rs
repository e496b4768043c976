//! Fingerprints: they distinguish a file from another one at the same path.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use callsheet_core::record::Digest;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::worktree_path::parse_hex;
use crate::disk::read::{hash_contents, read_own_bytes};

/// The contents of a file, as far as they were examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fingerprint {
    /// The SHA-256 of its bytes.
    Contents(Digest),
    /// The stamp of a file that was not read: no process can write to it and leave the stamp as it was.
    Touched(FileStamp),
    /// The target of a link.
    Link(Vec<u8>),
    /// A FIFO, a socket or a device.
    Special(u64),
}

/// The metadata of a file. No process can write to it and leave all of them as they were, unless in the same
/// moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
    device: u64,
    number: u64,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        #[expect(clippy::unnecessary_cast, reason = "the types differ from system to system")]
        Self {
            device: stat.st_dev as u64,
            number: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mode: stat.st_mode as u32,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Returns the stamp of the file at a path, if a later change shows in it.
    pub(super) fn from_settled_file(path: &Path) -> Option<Self> {
        let stamp = Self::from_stat(&statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?);
        stamp.is_older_than(SystemTime::now()).then_some(stamp)
    }

    pub(super) fn mode(&self) -> u32 {
        self.mode
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Checks whether a later change shows in the times of the file.
    pub(super) fn is_older_than(&self, looked: SystemTime) -> bool {
        let changed = u64::try_from(self.changed.0).ok().map(Duration::from_secs);
        changed
            .and_then(|changed| UNIX_EPOCH.checked_add(changed)?.checked_add(MOMENT))
            .is_some_and(|at| at < looked)
    }
}

/// How much older than its examination a file's times must be, so that a later change shows in them.
const MOMENT: Duration = Duration::from_secs(2);

/// Larger files are identified by their times alone.
const MOST_BYTES: u64 = 1 << 30;

/// Digests that were computed before, by device and inode: a file that was not touched since is not read
/// again.
#[derive(Debug, Default)]
pub struct FingerprintCache {
    /// The digests of an earlier process. Threads look them up without waiting for each other.
    loaded: OnceLock<DigestMap>,
    /// The digests of this process.
    taken: Mutex<DigestMap>,
    is_new: AtomicBool,
}

type DigestMap = HashMap<(u64, u64), CachedDigest, BuildHasherDefault<FileHasher>>;

/// A hasher that spreads device and inode of a file: the system assigns the numbers one after the other.
#[derive(Debug, Default)]
struct FileHasher(u64);

impl Hasher for FileHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, number: u64) {
        // The golden ratio, as in Knuth's multiplicative hashing.
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[derive(Debug)]
struct CachedDigest {
    stamp: FileStamp,
    contents: Digest,
    /// Whether this process has asked for it.
    used: AtomicBool,
}

impl CachedDigest {
    fn new(stamp: FileStamp, contents: Digest, used: bool) -> Self {
        Self { stamp, contents, used: AtomicBool::new(used) }
    }

    fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the digest, if the file is unchanged.
    fn digest_if_unchanged(&self, stamp: &FileStamp) -> Option<Digest> {
        (self.stamp == *stamp).then(|| {
            self.used.store(true, Ordering::Relaxed);
            self.contents
        })
    }
}

impl FingerprintCache {
    /// Returns the fingerprint of a file, given its `stat`. Without `read`, or if it cannot be read, uses its
    /// times.
    pub(super) fn fingerprint(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        stat: &Stat,
        read: bool,
    ) -> io::Result<Fingerprint> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Ok(Fingerprint::Link(readlinkat(dir, name, Vec::new())?.into_bytes())),
            FileType::RegularFile => {
                let stamp = FileStamp::from_stat(stat);
                if !read || stamp.size > MOST_BYTES {
                    return Ok(Fingerprint::Touched(stamp));
                }
                Ok(self
                    .read_digest(dir, name, stamp)
                    .map_or(Fingerprint::Touched(stamp), Fingerprint::Contents))
            }
            #[expect(clippy::unnecessary_cast, reason = "the types differ from system to system")]
            _ => Ok(Fingerprint::Special(stat.st_rdev as u64)),
        }
    }

    /// Returns the kind and fingerprint of the file at `path`; `None` if there is none.
    pub(super) fn fingerprint_path(&self, path: &Path) -> Option<String> {
        let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let print = self.fingerprint(CWD, path.as_os_str().as_bytes(), &stat, true).ok()?;
        Some(format!("{:o} {print}", stat.st_mode))
    }

    fn read_digest(&self, dir: BorrowedFd<'_>, name: &[u8], stamp: FileStamp) -> io::Result<Digest> {
        let id = (stamp.device, stamp.number);
        if let Some(contents) =
            self.loaded.get().and_then(|loaded| loaded.get(&id)?.digest_if_unchanged(&stamp))
        {
            return Ok(contents);
        }
        if let Ok(taken) = self.taken.lock()
            && let Some(contents) = taken.get(&id).and_then(|known| known.digest_if_unchanged(&stamp))
        {
            return Ok(contents);
        }
        let looked = SystemTime::now();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(dir, name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file any more"));
        }
        let contents = hash_contents(io::Read::take(file, MOST_BYTES))?;
        if stamp.is_older_than(looked)
            && let Ok(mut taken) = self.taken.lock()
        {
            taken.insert(id, CachedDigest::new(stamp, contents, true));
            self.is_new.store(true, Ordering::Relaxed);
        }
        Ok(contents)
    }

    /// Adds the digests that an earlier process [saved](Self::save). If they cannot be read, they are computed
    /// again.
    pub fn load(&self, path: &Path) {
        let Some(bytes) = read_own_bytes(path) else { return };
        let Some(records) = bytes.strip_prefix(MAGIC) else { return };
        let records = records.as_chunks::<RECORD>().0;
        let read = records.iter().map(|record| {
            let (stamp, contents) = read_record(record);
            ((stamp.device, stamp.number), CachedDigest::new(stamp, contents, false))
        });
        // Loading a second time adds nothing.
        let _ = self.loaded.set(read.collect());
    }

    /// Keeps the digests that this process used, if some are new and keeping them saves time.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        if !self.is_new.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Ok(taken) = self.taken.lock() else { return Ok(()) };
        let loaded = self.loaded.get().into_iter().flatten().filter(|(id, _)| !taken.contains_key(*id));
        let mut records: Vec<[u8; RECORD]> = loaded
            .chain(taken.iter())
            .filter(|(_, known)| known.is_used())
            .map(|(_, known)| to_record(&known.stamp, &known.contents))
            .collect();
        drop(taken);
        if records.len() < WORTH_KEEPING {
            return Ok(());
        }
        records.sort_unstable();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(records.as_flattened());
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
        let fresh = tempfile::NamedTempFile::new_in(folder)?;
        std::fs::write(fresh.path(), bytes)?;
        fresh.persist(path).map(drop).map_err(|error| error.error)
    }
}

/// Fewer files than this are read as fast as a list of their digests.
const WORTH_KEEPING: usize = 2_000;

const MAGIC: &[u8] = b"callsheet prints 1\n";
const RECORD: usize = 92;

fn to_record(stamp: &FileStamp, contents: &Digest) -> [u8; RECORD] {
    let FileStamp { device, number, size, mode, modified, changed } = *stamp;
    let mut all = [0; RECORD];
    let numbers = [device, number, size].map(u64::to_le_bytes);
    let times = [modified.0, modified.1, changed.0, changed.1].map(i64::to_le_bytes);
    let bytes = numbers.iter().chain(&times).flatten().chain(&contents.0);
    let bytes = bytes.copied().chain(mode.to_le_bytes());
    all.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    all
}

fn read_record(record: &[u8; RECORD]) -> (FileStamp, Digest) {
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at * 8..at * 8 + 8]);
        u64::from_le_bytes(bytes)
    };
    let time = |at: usize| number(at).cast_signed();
    let (mut contents, mut mode) = ([0; 32], [0; 4]);
    contents.copy_from_slice(&record[56..88]);
    mode.copy_from_slice(&record[88..]);
    let stamp = FileStamp {
        device: number(0),
        number: number(1),
        size: number(2),
        mode: u32::from_le_bytes(mode),
        modified: (time(3), time(4)),
        changed: (time(5), time(6)),
    };
    (stamp, Digest(contents))
}

/// Writes one letter for the kind, and its value.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contents(digest) => write!(f, "c{digest}"),
            Self::Touched(FileStamp { device, number, size, mode, modified, changed }) => write!(
                f,
                "t{device} {number} {size} {mode} {} {} {} {}",
                modified.0, modified.1, changed.0, changed.1
            ),
            Self::Link(to) => write!(f, "l{}", callsheet_core::text::hex::to_hex(to)),
            Self::Special(device) => write!(f, "s{device}"),
        }
    }
}

impl Fingerprint {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.get(1..)?;
        match text.as_bytes().first()? {
            b'c' => Digest::parse(rest).map(Self::Contents),
            b't' => {
                let mut words = rest.split(' ');
                let mut word = || words.next();
                Some(Self::Touched(FileStamp {
                    device: word()?.parse().ok()?,
                    number: word()?.parse().ok()?,
                    size: word()?.parse().ok()?,
                    mode: word()?.parse().ok()?,
                    modified: (word()?.parse().ok()?, word()?.parse().ok()?),
                    changed: (word()?.parse().ok()?, word()?.parse().ok()?),
                }))
            }
            b'l' => parse_hex(rest).map(Self::Link),
            b's' => rest.parse().ok().map(Self::Special),
            _ => None,
        }
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("it is not a fingerprint"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;

    fn fingerprint_file(prints: &FingerprintCache, dir: &Path, name: &str) -> (FileStamp, Fingerprint) {
        let dir = File::open(dir).unwrap();
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        (FileStamp::from_stat(&stat), prints.fingerprint(dir.as_fd(), name.as_bytes(), &stat, true).unwrap())
    }

    #[test]
    fn changed_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "one").unwrap();
        let prints = FingerprintCache::default();
        let (stamp, one) = fingerprint_file(&prints, dir.path(), "notes.txt");
        assert!(prints.taken.lock().unwrap().is_empty(), "somebody could write to it in this very moment");

        let known = CachedDigest::new(stamp, Digest::ZERO, true);
        prints.taken.lock().unwrap().insert((stamp.device, stamp.number), known);
        assert_eq!(fingerprint_file(&prints, dir.path(), "notes.txt").1, Fingerprint::Contents(Digest::ZERO));

        // The same length and the same modification time as before.
        let modified = path.metadata().unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        let two = fingerprint_file(&prints, dir.path(), "notes.txt").1;
        assert_eq!(two, Fingerprint::Contents(callsheet_core::record::sha256(&[b"two"])));
        assert_ne!(one, two);
    }

    #[test]
    fn only_settled_files_are_cached() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes.txt"), "one").unwrap();
        let (stamp, _) = fingerprint_file(&FingerprintCache::default(), dir.path(), "notes.txt");
        let changed = UNIX_EPOCH + Duration::from_secs(stamp.changed.0.unsigned_abs());
        assert!(!stamp.is_older_than(changed + MOMENT));
        assert!(stamp.is_older_than(changed + MOMENT + Duration::from_nanos(1)));
    }

    #[test]
    fn fingerprint_and_cache_round_trip() {
        let stamp = |seed: u64| FileStamp {
            device: seed,
            number: seed ^ 7,
            size: u64::MAX - seed,
            mode: 0o100_644,
            modified: (-1, 999_999_999),
            changed: (i64::MAX, 1),
        };
        for print in [
            Fingerprint::Contents(callsheet_core::record::sha256(&[b"x"])),
            Fingerprint::Touched(stamp(3)),
            Fingerprint::Link(b"../\xff \n".to_vec()),
            Fingerprint::Special(259),
        ] {
            assert_eq!(Fingerprint::parse(&print.to_string()), Some(print));
        }
        let dir = tempfile::tempdir().unwrap();
        let (prints, kept) = (FingerprintCache::default(), dir.path().join("prints"));
        let count = WORTH_KEEPING as u64;
        for seed in 0..=count {
            let contents = callsheet_core::record::sha256(&[&seed.to_le_bytes()]);
            let known = CachedDigest::new(stamp(seed), contents, seed > 0);
            prints.taken.lock().unwrap().insert((seed, seed), known);
        }
        prints.save(&kept).unwrap();
        assert!(!kept.exists(), "nothing is new");
        prints.is_new.store(true, Ordering::Relaxed);
        prints.save(&kept).unwrap();
        let read = FingerprintCache::default();
        read.load(&kept);
        let read = read.loaded.into_inner().unwrap();
        assert_eq!(read.len() as u64, count, "what nobody used is not kept");
        for seed in 1..=count {
            let known = &read[&(stamp(seed).device, stamp(seed).number)];
            let contents = callsheet_core::record::sha256(&[&seed.to_le_bytes()]);
            assert_eq!((known.stamp, known.contents), (stamp(seed), contents));
        }
    }
}
