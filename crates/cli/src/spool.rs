//! Spool: an agent's text until it is judged, in memory and, if there is more, in a file without a name.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::reply::TextSink;

/// So much is held in memory.
const MOST_MEMORY: usize = 4 << 20;
/// So much is collected before it is written.
const MOST_UNWRITTEN: usize = 256 << 10;

/// A text in memory up to a limit. The rest is in a file that was removed when it was made and that only its owner may
/// read.
#[derive(Debug)]
pub(crate) struct TextSpool {
    dir: PathBuf,
    memory: Vec<u8>,
    file: Option<File>,
    /// The end of the text, not yet in the file.
    unwritten: Vec<u8>,
}

impl TextSpool {
    /// Makes spools whose files, if any are needed, are in `dir`.
    pub(crate) fn maker(dir: &Path) -> impl FnMut() -> Box<dyn TextSink> {
        let dir = dir.to_owned();
        move || Box::new(Self { dir: dir.clone(), memory: Vec::new(), file: None, unwritten: Vec::new() })
    }

    fn write(&mut self) -> io::Result<()> {
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
        self.write()?;
        let offset = (at + first.len() - self.memory.len()) as u64;
        self.file.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?.read_exact_at(rest, offset)
    }

    fn whole(mut self) -> io::Result<Vec<u8>> {
        self.write()?;
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
        let room = if self.file.is_none() && self.unwritten.is_empty() {
            MOST_MEMORY.saturating_sub(self.memory.len())
        } else {
            0
        };
        let (held, rest) = bytes.split_at(bytes.len().min(room));
        self.memory.extend_from_slice(held);
        self.unwritten.extend_from_slice(rest);
        self.unwritten.len() < MOST_UNWRITTEN || self.write().is_ok()
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
        self.whole().ok()
    }
}
