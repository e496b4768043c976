//! All files below a directory at once: found by one walk, read by many threads, in byte order of their
//! paths.
//!
//! Refuses to follow symbolic links and to open anything but a regular file. How many threads there are
//! makes no difference to the answer.

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

use crate::shelf::TextArena;
use crate::walk::{MAX_DEPTH, WalkItem, WalkLimits, walk};

/// How much can be packed. More than that is no prompt but a mistake, and all of it is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackLimits {
    pub files: usize,
    /// Bytes of text in all files together.
    pub bytes: u64,
}

impl Default for PackLimits {
    fn default() -> Self {
        Self { files: 100_000, bytes: 512 * 1024 * 1024 }
    }
}

/// How much of a file is looked at to tell whether it is text.
const HEAD: usize = 8 * 1024;

/// Files up to here are read at once: to ask twice takes longer than to read what is not wanted.
const AT_ONCE: u64 = 64 * 1024;

/// Files that one thread reads before it looks for more.
const BATCH: usize = 32;

/// Batches that wait at most. Each keeps a directory open, and a process may not have many of those.
const WAITING: usize = 64;

/// What stands below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedTree {
    /// In byte order of the paths.
    pub files: Vec<PackedFile>,
    /// Everything that was met, wanted or not. Left out are names that are not UTF-8, and so have no address; not
    /// entered are directories that could not be opened, or are too deep.
    pub listing: Listing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Relative to the packed directory.
    pub path: String,
    pub body: FileBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileBody {
    Text(SharedText),
    /// There is no text to show.
    LeftOut(TextlessDocument),
    /// Nobody wanted to read it.
    Unread,
}

/// What is wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedContent {
    Nothing,
    Path,
    Text,
}

/// How a tree is packed.
pub struct PackOptions<'p> {
    /// What is wanted of each path, which is relative to the packed directory.
    pub want: &'p dyn Fn(&str) -> WantedContent,
    pub limits: PackLimits,
    /// How many threads read; `None` for as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Counts along, for whoever wants to know how far it is.
    pub progress: &'p PackProgress,
}

impl std::fmt::Debug for PackOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { want: _, limits, threads, progress } = self;
        f.debug_struct("Packing")
            .field("limits", limits)
            .field("threads", threads)
            .field("progress", progress)
            .finish_non_exhaustive()
    }
}

/// What was read so far.
#[derive(Debug, Default)]
pub struct PackProgress {
    pub files: AtomicUsize,
    pub bytes: AtomicU64,
}

/// Packs `dir`, a path inside of `root`; `None` if there is no such directory.
pub(crate) fn pack(
    root: &Dir,
    dir: &Path,
    limit: u64,
    packing: &PackOptions<'_>,
) -> Result<Option<PackedTree>, SourceError> {
    let threads = packing.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into));
    let limits = packing.limits;
    let most = packing.progress.bytes.load(Ordering::Relaxed).saturating_add(limits.bytes);
    let reader = BatchReader { limit, most, progress: packing.progress };
    let (jobs, waiting) = mpsc::sync_channel(WAITING);
    let waiting = Mutex::new(waiting);
    let (done, finished) = mpsc::channel();
    let mut gathering = TreePacker { batch: None, limits, packed: PackedTree::default() };

    let found = thread::scope(|scope| {
        for _ in 1..threads {
            let done = done.clone();
            let (reader, waiting) = (&reader, &waiting);
            let work = move || {
                reader.work(waiting, &mut ReadBuffers::default(), &mut |batch| drop(done.send(batch)))
            };
            // Where no more threads are to be had, fewer do the same.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        let mut desk = ReadBuffers::default();
        let mut read_here = |batch: ReadBatch| drop(done.send(reader.read(batch, &mut desk)));
        let reach = WalkLimits { depth: MAX_DEPTH, ignored: false };
        let found = walk(root, dir, &reach, &mut |met| {
            gathering.meet(met, packing.want, &mut |batch| send_or_read(&jobs, batch, &mut read_here))
        });
        if let Some(batch) = gathering.batch.take() {
            read_here(batch);
        }
        drop(jobs);
        reader.work(&waiting, &mut desk, &mut |batch| drop(done.send(batch)));
        found
    })?;
    drop(done);
    if !found {
        return Ok(None);
    }
    gathering.finish(finished, &reader).map(Some)
}

/// Lets another thread read, or reads here when all of them have enough to do.
fn send_or_read(jobs: &SyncSender<ReadBatch>, batch: ReadBatch, read_here: &mut dyn FnMut(ReadBatch)) {
    if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = jobs.try_send(batch) {
        read_here(batch);
    }
}

/// Files of one directory that are to be read.
struct ReadBatch {
    holder: Arc<OwnedFd>,
    /// Each with its place among all files.
    files: Vec<(usize, String)>,
}

/// What became of a batch. A file that is gone by now has nothing.
type BatchResult = Vec<(usize, Option<FileBody>)>;

struct TreePacker {
    batch: Option<ReadBatch>,
    limits: PackLimits,
    packed: PackedTree,
}

impl TreePacker {
    fn meet(
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
                self.add(holder, name, offer);
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
    fn add(&mut self, holder: &Arc<OwnedFd>, name: &str, offer: &mut dyn FnMut(ReadBatch)) {
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
    /// The most bytes that a file may have.
    limit: u64,
    /// Where the count of bytes may go to.
    most: u64,
    progress: &'p PackProgress,
}

/// What a thread has at hand to read with.
#[derive(Default)]
struct ReadBuffers {
    /// Holds one file at a time, and stays near.
    buffer: Vec<u8>,
    shelf: TextArena,
}

impl BatchReader<'_> {
    /// Reads what waits until nothing more can come.
    fn work(
        &self,
        waiting: &Mutex<Receiver<ReadBatch>>,
        desk: &mut ReadBuffers,
        done: &mut dyn FnMut(BatchResult),
    ) {
        // A thread that panicked takes the whole packing with it, so nothing is lost here.
        let next = || waiting.lock().ok()?.recv().ok();
        while let Some(batch) = next() {
            done(self.read(batch, desk));
        }
        let mut answers = Vec::new();
        desk.shelf.clear(&mut |at, text| answers.push((at, Some(FileBody::Text(text)))));
        done(answers);
    }

    fn is_over(&self) -> bool {
        self.progress.bytes.load(Ordering::Relaxed) > self.most
    }

    /// Texts may stay on the desk's shelf.
    fn read(&self, batch: ReadBatch, desk: &mut ReadBuffers) -> BatchResult {
        let mut answers = Vec::with_capacity(batch.files.len());
        let mut files = 0;
        for (at, name) in &batch.files {
            if self.is_over() {
                break;
            }
            files += 1;
            match self.text(&batch.holder, name, &mut desk.buffer) {
                None => answers.push((*at, None)),
                Some(Err(left_out)) => answers.push((*at, Some(FileBody::LeftOut(left_out)))),
                Some(Ok(text)) => {
                    self.progress.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
                    desk.shelf.put(*at, text, &mut |at, text| answers.push((at, Some(FileBody::Text(text)))));
                }
            }
        }
        self.progress.files.fetch_add(files, Ordering::Relaxed);
        answers
    }

    /// The text of a file, which is in `buffer` then; `None` if the file is gone by now.
    fn text<'b>(
        &self,
        holder: &OwnedFd,
        name: &str,
        buffer: &'b mut Vec<u8>,
    ) -> Option<Result<&'b str, TextlessDocument>> {
        let left_out = |why, bytes| Some(Err(TextlessDocument { why, bytes }));
        // By now the name may stand for anything: nothing is followed, waited for or adopted.
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

/// Reads all bytes of a file, or as many as it takes to find a NUL among the first of them: then it is no text.
fn read_text(file: &OwnedFd, size: u64, limit: u64, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    // Room for one byte more tells a file that has grown meanwhile from one that has not, without asking again.
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
