//! Reads the bytes of one file, whole and unchanged, or reports the reason why not.
//!
//! Refuses to open anything but a regular file: opening alone can wait for ever (a FIFO) or have an effect (a
//! device).

use std::collections::TryReserveError;
use std::io::{self, Read as _};
use std::path::Path;

use callsheet_core::record::Digest;
use callsheet_core::{SharedText, SourceError};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, FileType, FileTypeExt as _, Metadata, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// The base of a path, which also limits its symbolic links.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathBase<'a> {
    /// A root: nothing outside it can be reached.
    Within(&'a Dir),
    /// The whole disk, for a path that a person typed.
    Anywhere,
}

/// Returns the text of a file that a person named explicitly, wherever it lies; `None` if it does not exist.
///
/// Follows symbolic links. Refuses anything but a regular file, without opening it.
pub fn read_file(path: &Path, limit: u64) -> Result<Option<SharedText>, SourceError> {
    read_text(PathBase::Anywhere, path, limit)
}

/// Opens a regular file that a person named explicitly, to read it piece by piece; `None` if it does not
/// exist.
pub fn open_file(path: &Path) -> Result<Option<std::fs::File>, SourceError> {
    let opened = PathBase::Anywhere.open_regular(path, u64::MAX)?;
    Ok(opened.map(|(file, _)| file.into_std()))
}

/// The most bytes of a file that callsheet keeps for itself.
const MOST_OWN: u64 = 64 * 1024 * 1024;

/// Returns the text of a file that callsheet keeps for itself; `None` if it cannot be read, for whatever
/// reason.
pub fn read_own_text(path: &Path) -> Option<String> {
    String::from_utf8(read_own_bytes(path)?).ok()
}

/// Returns the bytes of a file that callsheet keeps for itself.
pub(crate) fn read_own_bytes(path: &Path) -> Option<Vec<u8>> {
    PathBase::Anywhere.read_bytes(path, MOST_OWN).ok().flatten()
}

pub(crate) fn read_text(
    place: PathBase<'_>,
    path: &Path,
    limit: u64,
) -> Result<Option<SharedText>, SourceError> {
    let Some(bytes) = place.read_bytes(path, limit)? else {
        return Ok(None);
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text.into())),
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            Err(SourceError::NotUtf8 { offset, byte: error.as_bytes()[offset] })
        }
    }
}

impl PathBase<'_> {
    pub(crate) fn read_bytes(self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let Some((file, size)) = self.open_regular(path, limit)? else {
            return Ok(None);
        };
        read_all(file, size, limit).map(Some)
    }

    /// Opens a regular file of at most `limit` bytes, and returns it with its size.
    fn open_regular(self, path: &Path, limit: u64) -> Result<Option<(File, u64)>, SourceError> {
        let Some(metadata) = self.absent_as_none(path, self.metadata(path))? else {
            return Ok(None);
        };
        check_regular(&metadata, limit)?;
        let Some(file) = self.absent_as_none(path, self.open(path))? else {
            return Ok(None);
        };
        // Another file may have taken its place between the check and the opening.
        let metadata = file.metadata().map_err(|error| source_error(&error))?;
        check_regular(&metadata, limit)?;
        Ok(Some((file, metadata.len())))
    }

    /// Distinguishes absence from failure, given the system's answer about `path`.
    ///
    /// A link to nothing is a failure: a person or a program created it for a reason.
    pub(crate) fn absent_as_none<T>(
        self,
        path: &Path,
        answer: io::Result<T>,
    ) -> Result<Option<T>, SourceError> {
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(error) if !is_absence(&error) => Err(source_error(&error)),
            Err(_) if self.has_dangling_link(path) => {
                Err(SourceError::Unreadable("it is a symbolic link to nothing".to_owned()))
            }
            Err(_) => Ok(None),
        }
    }

    /// Checks whether the last existing part of an absent `path` is a link to nothing.
    fn has_dangling_link(self, path: &Path) -> bool {
        // Most absent files are overrides below a folder that does not exist either: one query is enough.
        let top = path.iter().next().map(Path::new);
        let absent = |top| self.link_metadata(top).is_err_and(|error| is_absence(&error));
        if matches!(self, Self::Within(_)) && top.is_none_or(absent) {
            return false;
        }
        for part in path.ancestors() {
            if let Ok(metadata) = self.link_metadata(part) {
                return metadata.file_type().is_symlink()
                    && self.metadata(part).is_err_and(|error| is_absence(&error));
            }
        }
        false
    }

    fn metadata(self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Within(dir) => dir.metadata(path),
            Self::Anywhere => path.metadata().map(Metadata::from_just_metadata),
        }
    }

    fn link_metadata(self, path: &Path) -> io::Result<Metadata> {
        match self {
            Self::Within(dir) => dir.symlink_metadata(path),
            Self::Anywhere => path.symlink_metadata().map(Metadata::from_just_metadata),
        }
    }

    /// Opens a file without waiting, and without adopting a terminal if the file has become one.
    fn open(self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
        match self {
            Self::Within(dir) => dir.open_with(path, &options),
            Self::Anywhere => File::open_ambient_with(path, &options, ambient_authority()),
        }
    }
}

fn check_regular(metadata: &Metadata, limit: u64) -> Result<(), SourceError> {
    if let Some(kind) = irregular_kind(metadata.file_type()) {
        return Err(SourceError::NotAFile(kind));
    }
    if metadata.len() > limit {
        return Err(SourceError::TooLarge { size: metadata.len(), limit });
    }
    Ok(())
}

/// Returns the kind of a file, unless it is regular.
fn irregular_kind(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("directory")
    } else if kind.is_fifo() {
        Some("FIFO")
    } else if kind.is_socket() {
        Some("socket")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("device")
    } else {
        Some("special file")
    }
}

/// Reads `expected` bytes, or as many as there are by now: a file may grow while it is read.
fn read_all(file: File, expected: u64, limit: u64) -> Result<Vec<u8>, SourceError> {
    let unreadable = |why: &dyn ToString| SourceError::Unreadable(why.to_string());
    let mut bytes = allocate_buffer(expected).map_err(|error| unreadable(&error))?;
    // The standard library's file reads into memory that was not zeroed first.
    let mut file = file.into_std().take(limit.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    let size = bytes.len() as u64;
    if size > limit {
        return Err(SourceError::TooLarge { size, limit });
    }
    Ok(bytes)
}

/// Returns the SHA-256 of everything that a file has, piece by piece.
pub(crate) fn hash_contents(mut file: impl io::Read) -> io::Result<Digest> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Digest(hash.finalize().into())),
            Ok(length) => hash.update(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Allocates a buffer. Can fail: the limit may be so high that a sparse file asks for more memory than there
/// is.
fn allocate_buffer(bytes: u64) -> Result<Vec<u8>, TryReserveError> {
    let mut room = Vec::new();
    room.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Ok(room)
}

/// Checks whether `error` only means that nothing has that name.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG))
}

pub(crate) fn source_error(error: &io::Error) -> SourceError {
    match Errno::from_io_error(error) {
        // cap-std's error for a path that leaves its directory: the only denial without an error number,
        // because it does not come from the system.
        None if error.kind() == io::ErrorKind::PermissionDenied => SourceError::Outside,
        Some(Errno::LOOP) => SourceError::Unreadable("its symbolic links form a loop".to_owned()),
        _ => SourceError::Unreadable(error.to_string()),
    }
}
