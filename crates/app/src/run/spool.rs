//! Spool: holds an agent's text until it is judged, in memory and beyond a limit in an unnamed file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::reply::TextSink;

/// Most bytes held in memory.
const MOST_MEMORY: usize = 4 << 20;
/// Bytes collected before a write.
const MOST_UNWRITTEN: usize = 256 << 10;

/// Text in memory up to a limit. The rest is in a file that is unlinked when it is created and that only its
/// owner may read.
#[derive(Debug)]
pub(crate) struct TextSpool {
    dir: PathBuf,
    memory: Vec<u8>,
    file: Option<File>,
    /// End of the text that is not in the file yet.
    unwritten: Vec<u8>,
}

impl TextSpool {
    /// Returns a factory of spools whose files, if needed, are in `dir`.
    pub(crate) fn factory(dir: &Path) -> impl FnMut() -> Box<dyn TextSink> {
        let dir = dir.to_owned();
        move || Box::new(Self { dir: dir.clone(), memory: Vec::new(), file: None, unwritten: Vec::new() })
    }

    fn flush_unwritten(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.dir)?),
        };
        file.seek(SeekFrom::End(0))?;
        file.write_all(&self.unwritten)?;
        self.unwritten.clear();
        Ok(())
    }

    fn read_into(&mut self, at: usize, into: &mut [u8]) -> io::Result<()> {
        let held = self.memory.get(at..).unwrap_or_default();
        let (first, rest) = into.split_at_mut(held.len().min(into.len()));
        first.copy_from_slice(&held[..first.len()]);
        if rest.is_empty() {
            return Ok(());
        }
        self.flush_unwritten()?;
        let offset = (at + first.len() - self.memory.len()) as u64;
        self.file.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?.read_exact_at(rest, offset)
    }

    fn read_all(mut self) -> io::Result<Vec<u8>> {
        self.flush_unwritten()?;
        let Some(mut file) = self.file else { return Ok(self.memory) };
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        file.seek(SeekFrom::Start(0))?;
        self.memory.reserve_exact(len);
        file.take(len as u64).read_to_end(&mut self.memory)?;
        Ok(self.memory)
    }
}

impl TextSink for TextSpool {
    fn push(&mut self, bytes: &[u8]) -> bool {
        let limit = if self.file.is_none() && self.unwritten.is_empty() {
            MOST_MEMORY.saturating_sub(self.memory.len())
        } else {
            0
        };
        let (held, rest) = bytes.split_at(bytes.len().min(limit));
        self.memory.extend_from_slice(held);
        self.unwritten.extend_from_slice(rest);
        self.unwritten.len() < MOST_UNWRITTEN || self.flush_unwritten().is_ok()
    }

    fn clear(&mut self) {
        self.memory.clear();
        self.unwritten.clear();
        self.file = None;
    }

    fn read(&mut self, at: usize, into: &mut [u8]) -> bool {
        self.read_into(at, into).is_ok()
    }

    fn into_bytes(self: Box<Self>) -> Option<Vec<u8>> {
        self.read_all().ok()
    }
}
