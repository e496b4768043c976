//! Reads all files below a directory at once: one walk finds them, many threads read them, and the result is
//! in byte order of their paths.
//!
//! Refuses to follow symbolic links and to open anything but a regular file. The number of threads makes no
//! difference to the result.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread;

use callsheet_core::{Listing, ListingEntry, NoTextReason, SharedText, SourceError, TextlessDocument};
use cap_std::fs::Dir;
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, read, retry_on_intr};

use super::text_arena::TextArena;
use super::walk::{MAX_DEPTH, WalkItem, WalkLimits, walk_dir};

/// The limits of a packed tree. More than that is a mistake, not a prompt, and all of it is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackLimits {
    /// The number of files.
    pub files: usize,
    /// Bytes of text in all files together.
    pub bytes: u64,
}

impl Default for PackLimits {
    fn default() -> Self {
        Self { files: 100_000, bytes: 512 * 1024 * 1024 }
    }
}

/// How many bytes of a file are examined to decide whether it is text.
const HEAD: usize = 8 * 1024;

/// Files up to this size are read at once: a second read takes longer than reading unwanted bytes.
const AT_ONCE: u64 = 64 * 1024;

/// Files that one thread reads before it takes more.
const BATCH: usize = 32;

/// The most batches that wait. Each keeps a directory open, and a process may not have many of those.
const WAITING: usize = 64;

/// The files and the listing of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedTree {
    /// The files, in byte order of their paths.
    pub files: Vec<PackedFile>,
    /// Everything that the walk met, wanted or not. Left out are names that are not UTF-8, and so have no
    /// address; not entered are directories that could not be opened, or are too deep.
    pub listing: Listing,
}

/// A file of a packed tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// The path, relative to the packed directory.
    pub path: String,
    /// The contents, or the reason why there are none.
    pub body: FileBody,
}

/// The contents of a packed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileBody {
    /// The text.
    Text(SharedText),
    /// The file has no text to show.
    LeftOut(TextlessDocument),
    /// Only the path was wanted.
    Unread,
}

/// The part of a file that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedContent {
    /// Neither the path nor the text.
    Nothing,
    /// The path alone.
    Path,
    /// The path and the text.
    Text,
}

/// Options for packing a tree.
pub struct PackOptions<'p> {
    /// Returns the wanted part of a file, given its path relative to the packed directory.
    pub want: &'p dyn Fn(&str) -> WantedContent,
    /// The limits of the tree.
    pub limits: PackLimits,
    /// The number of reading threads; `None` for as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Counters for callers that show the progress.
    pub progress: &'p PackProgress,
}

impl std::fmt::Debug for PackOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackOptions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Counters of the files and bytes read so far.
#[derive(Debug, Default)]
pub struct PackProgress {
    /// The number of files.
    pub files: AtomicUsize,
    /// The number of bytes of text.
    pub bytes: AtomicU64,
}

/// Packs `dir`, a path inside `root`; `None` if there is no such directory.
pub(crate) fn pack_tree(
    root: &Dir,
    dir: &Path,
    limit: u64,
    packing: &PackOptions<'_>,
) -> Result<Option<PackedTree>, SourceError> {
    let threads = packing.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into));
    let limits = packing.limits;
    let bytes_limit = packing.progress.bytes.load(Ordering::Relaxed).saturating_add(limits.bytes);
    let reader = BatchReader { limit, most: bytes_limit, progress: packing.progress };
    let (jobs, waiting) = mpsc::sync_channel(WAITING);
    let waiting = Mutex::new(waiting);
    let (done, finished) = mpsc::channel();
    let mut gathering = TreePacker { batch: None, limits, packed: PackedTree::default() };

    let found = thread::scope(|scope| {
        for _ in 1..threads {
            let done = done.clone();
            let (reader, waiting) = (&reader, &waiting);
            let work = move || {
                reader.read_batches(waiting, &mut ReadBuffers::default(), &mut |batch| drop(done.send(batch)))
            };
            // If no more threads can be started, fewer do the same work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        let mut buffers = ReadBuffers::default();
        let mut read_here = |batch: ReadBatch| drop(done.send(reader.read_batch(batch, &mut buffers)));
        let reach = WalkLimits { depth: MAX_DEPTH, ignored: false };
        let found = walk_dir(root, dir, &reach, &mut |met| {
            gathering.add_item(met, packing.want, &mut |batch| send_or_read(&jobs, batch, &mut read_here))
        });
        if let Some(batch) = gathering.batch.take() {
            read_here(batch);
        }
        drop(jobs);
        reader.read_batches(&waiting, &mut buffers, &mut |batch| drop(done.send(batch)));
        found
    })?;
    drop(done);
    if !found {
        return Ok(None);
    }
    gathering.finish(finished, &reader).map(Some)
}

/// Gives a batch to another thread, or reads it here if all threads have enough to do.
fn send_or_read(jobs: &SyncSender<ReadBatch>, batch: ReadBatch, read_here: &mut dyn FnMut(ReadBatch)) {
    if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = jobs.try_send(batch) {
        read_here(batch);
    }
}

/// Files of one directory that must be read.
struct ReadBatch {
    holder: Arc<OwnedFd>,
    /// The names of the files, each with its index among all files.
    files: Vec<(usize, String)>,
}

/// The results of a batch. A file that is gone by now has none.
type BatchResult = Vec<(usize, Option<FileBody>)>;

struct TreePacker {
    batch: Option<ReadBatch>,
    limits: PackLimits,
    packed: PackedTree,
}

impl TreePacker {
    fn add_item(
        &mut self,
        met: WalkItem<'_>,
        want: &dyn Fn(&str) -> WantedContent,
        offer: &mut dyn FnMut(ReadBatch),
    ) -> ControlFlow<()> {
        let listing = &mut self.packed.listing;
        let (path, name, kind, holder) = match met {
            WalkItem::Dir { path } => {
                listing.entries.push(ListingEntry { path: path.to_owned(), dir: true });
                return ControlFlow::Continue(());
            }
            WalkItem::Unnamed => {
                listing.left_out += 1;
                return ControlFlow::Continue(());
            }
            WalkItem::NotEntered => {
                listing.not_entered += 1;
                return ControlFlow::Continue(());
            }
            WalkItem::File { path, name, kind, holder } => (path, name, kind, holder),
        };
        listing.entries.push(ListingEntry { path: path.to_owned(), dir: false });
        let without_text = |why| FileBody::LeftOut(TextlessDocument { why, bytes: 0 });
        let body = match (want(path), kind) {
            (WantedContent::Nothing, _) => return ControlFlow::Continue(()),
            (WantedContent::Path, _) => FileBody::Unread,
            (WantedContent::Text, FileType::RegularFile) => {
                self.add_to_batch(holder, name, offer);
                FileBody::Unread
            }
            (WantedContent::Text, FileType::Symlink) => without_text(NoTextReason::Link),
            (WantedContent::Text, _) => without_text(NoTextReason::Unreadable),
        };
        let files = &mut self.packed.files;
        files.push(PackedFile { path: path.to_owned(), body });
        if files.len() > self.limits.files { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Adds the next file to the batch of its directory.
    fn add_to_batch(&mut self, holder: &Arc<OwnedFd>, name: &str, offer: &mut dyn FnMut(ReadBatch)) {
        let fits = |batch: &ReadBatch| batch.files.len() < BATCH && Arc::ptr_eq(&batch.holder, holder);
        if !self.batch.as_ref().is_some_and(fits) {
            let next = ReadBatch { holder: holder.clone(), files: Vec::with_capacity(BATCH) };
            if let Some(full) = self.batch.replace(next) {
                offer(full);
            }
        }
        if let Some(batch) = &mut self.batch {
            batch.files.push((self.packed.files.len(), name.to_owned()));
        }
    }

    fn finish(
        self,
        finished: Receiver<BatchResult>,
        reader: &BatchReader<'_>,
    ) -> Result<PackedTree, SourceError> {
        let PackedTree { mut files, listing } = self.packed;
        let too_much = |what: String| Err(SourceError::Unreadable(format!("it holds {what}")));
        if files.len() > self.limits.files {
            return too_much(format!("more than {} files", self.limits.files));
        }
        if reader.is_over() {
            return too_much(format!("more than {} bytes of text", self.limits.bytes));
        }
        let mut gone = Vec::new();
        for (at, body) in finished.into_iter().flatten() {
            match body {
                Some(body) => files[at].body = body,
                None => gone.push(at),
            }
        }
        gone.sort_unstable();
        for at in gone.into_iter().rev() {
            files.remove(at);
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(PackedTree { files, listing })
    }
}

struct BatchReader<'p> {
    /// The most bytes that one file may have.
    limit: u64,
    /// The limit of the byte counter.
    most: u64,
    progress: &'p PackProgress,
}

/// The buffers of a reading thread.
#[derive(Default)]
struct ReadBuffers {
    /// Holds one file at a time, and stays in the cache because it is reused.
    buffer: Vec<u8>,
    arena: TextArena,
}

impl BatchReader<'_> {
    /// Reads the waiting batches until no more can come.
    fn read_batches(
        &self,
        waiting: &Mutex<Receiver<ReadBatch>>,
        buffers: &mut ReadBuffers,
        done: &mut dyn FnMut(BatchResult),
    ) {
        // A thread that panicked ends the whole packing, so nothing is lost here.
        let next = || waiting.lock().ok()?.recv().ok();
        while let Some(batch) = next() {
            done(self.read_batch(batch, buffers));
        }
        let mut answers = Vec::new();
        buffers.arena.flush(&mut |at, text| answers.push((at, Some(FileBody::Text(text)))));
        done(answers);
    }

    fn is_over(&self) -> bool {
        self.progress.bytes.load(Ordering::Relaxed) > self.most
    }

    /// Reads a batch. Texts may stay in the arena of `buffers` until later.
    fn read_batch(&self, batch: ReadBatch, buffers: &mut ReadBuffers) -> BatchResult {
        let mut answers = Vec::with_capacity(batch.files.len());
        let mut files = 0;
        for (at, name) in &batch.files {
            if self.is_over() {
                break;
            }
            files += 1;
            match self.read_file(&batch.holder, name, &mut buffers.buffer) {
                None => answers.push((*at, None)),
                Some(Err(left_out)) => answers.push((*at, Some(FileBody::LeftOut(left_out)))),
                Some(Ok(text)) => {
                    self.progress.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
                    buffers
                        .arena
                        .push(*at, text, &mut |at, text| answers.push((at, Some(FileBody::Text(text)))));
                }
            }
        }
        self.progress.files.fetch_add(files, Ordering::Relaxed);
        answers
    }

    /// Reads the text of a file into `buffer`; `None` if the file is gone by now.
    fn read_file<'b>(
        &self,
        holder: &OwnedFd,
        name: &str,
        buffer: &'b mut Vec<u8>,
    ) -> Option<Result<&'b str, TextlessDocument>> {
        let left_out = |why, bytes| Some(Err(TextlessDocument { why, bytes }));
        // The name may refer to anything by now: nothing is followed, waited for or adopted.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(holder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return None,
            Err(Errno::LOOP | Errno::MLINK) => return left_out(NoTextReason::Link, 0),
            Err(_) => return left_out(NoTextReason::Unreadable, 0),
        };
        let Ok(stat) = fstat(&file) else { return left_out(NoTextReason::Unreadable, 0) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return left_out(NoTextReason::Unreadable, 0);
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size > self.limit {
            return left_out(NoTextReason::TooLarge, size);
        }
        let Ok(can_be_text) = read_text(&file, size, self.limit, buffer) else {
            return left_out(NoTextReason::Unreadable, size);
        };
        let length = if can_be_text { buffer.len() as u64 } else { size };
        match str::from_utf8(buffer) {
            _ if length > self.limit => left_out(NoTextReason::TooLarge, length),
            Ok(text) if can_be_text => Some(Ok(text)),
            _ => left_out(NoTextReason::Binary, length),
        }
    }
}

/// Reads all bytes of a file, or only the first of them if they contain a NUL. Returns whether the file can
/// be text.
fn read_text(file: &OwnedFd, size: u64, limit: u64, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    // Capacity for one byte more shows whether a file has grown meanwhile, without another query.
    let room = usize::try_from(size.saturating_add(1)).unwrap_or(usize::MAX);
    bytes.try_reserve(room).map_err(io::Error::other)?;
    if size > AT_ONCE {
        let mut head = [0; HEAD];
        let length = retry_on_intr(|| read(file, &mut head))?;
        bytes.extend_from_slice(&head[..length]);
        if head[..length].contains(&0) {
            return Ok(false);
        }
    }
    while bytes.len() as u64 <= limit {
        if bytes.len() == bytes.capacity() {
            bytes.try_reserve(HEAD).map_err(io::Error::other)?;
        }
        let length = retry_on_intr(|| read(file, spare_capacity(bytes)))?;
        if length == 0 || bytes.len() as u64 == size {
            break;
        }
    }
    Ok(!bytes[..bytes.len().min(HEAD)].contains(&0))
}
