//! Surveys the files below a folder, one by one, from the file system and independently of git.
//!
//! Every folder is opened through the handle of its parent, so no link leads elsewhere and no path is too
//! long. Only regular files are opened. A file that cannot be examined is reported, with the reason.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::mem;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use callsheet_core::record::sha256;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::fingerprint::{FileStamp, Fingerprint, FingerprintCache};
use super::ignore_rules::{IgnoreRules, MOST_RULES, RULES_FILE, RuleStack};
use super::own_files::OwnPaths;
use super::worktree_path::WorktreePath;
use crate::disk::walk::{DirectoryEntry, read_entries};

/// The class of a file according to git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileClass {
    #[serde(rename = "t")]
    Tracked,
    #[serde(rename = "u")]
    Untracked,
    #[serde(rename = "i")]
    Ignored,
}

/// A file: its path, its kind and permissions, its class, and its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SurveyEntry(
    pub(super) WorktreePath,
    pub(super) u32,
    pub(super) FileClass,
    pub(super) Fingerprint,
);

impl SurveyEntry {
    pub(super) fn place(&self) -> &WorktreePath {
        &self.0
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.1)
    }

    pub(super) fn class(&self) -> FileClass {
        self.2
    }

    pub(super) fn fingerprint(&self) -> &Fingerprint {
        &self.3
    }

    /// Checks whether both are the same file, as far as a survey can see.
    pub(super) fn has_same_state(&self, other: &Self) -> bool {
        self.1 == other.1 && self.3 == other.3
    }
}

/// All files below a folder, in byte order of their paths.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FileSurvey {
    pub(super) entries: Vec<SurveyEntry>,
    /// Folders and files that could not be examined, and why.
    pub(super) unseen: Vec<(WorktreePath, String)>,
    /// The path at which a limit ended the survey: nothing after it was examined.
    pub(super) cut: Option<WorktreePath>,
}

impl FileSurvey {
    /// Checks whether a path could not be examined.
    pub(super) fn is_hidden(&self, path: &WorktreePath) -> bool {
        self.cut.as_ref().is_some_and(|cut| path >= cut)
            || self.unseen.iter().any(|(folder, _)| path.is_in(folder.bytes()))
    }
}

/// The limits of a survey.
#[derive(Clone, Copy, Debug)]
struct SurveyLimits {
    files: usize,
    bytes: u64,
    time: Duration,
}

/// Far above any worktree that people work in.
const IN_REPOSITORY: SurveyLimits =
    SurveyLimits { files: 2_000_000, bytes: u64::MAX, time: Duration::from_secs(600) };

/// Lower limits, because every file is read without git.
const WITHOUT_GIT: SurveyLimits =
    SurveyLimits { files: 20_000, bytes: 1 << 30, time: Duration::from_secs(600) };

/// The most nested folders that are entered.
const MOST_DEPTH: usize = 1_000;

/// The most folders above the current one that are held open.
const MOST_OPEN: usize = 64;

/// The most folders that wait for a thread to examine their files.
const MOST_WAITING: usize = 64;

/// The most threads: more of them wait for each other.
const MOST_THREADS: usize = 4;

/// Options of a survey.
pub(super) struct SurveyOptions<'a> {
    pub(super) top: &'a Path,
    /// The paths that git tracks, in byte order; `None` without git.
    pub(super) tracked: Option<&'a [WorktreePath]>,
    pub(super) own: &'a OwnPaths,
    pub(super) prints: &'a FingerprintCache,
    /// The survey to compare with: a file gets the same kind of fingerprint as there.
    pub(super) earlier: Option<&'a FileSurvey>,
}

impl SurveyOptions<'_> {
    fn limits(&self) -> SurveyLimits {
        if self.tracked.is_some() { IN_REPOSITORY } else { WITHOUT_GIT }
    }

    /// Surveys the folder, and collects the ignore rules.
    pub(super) fn survey_collecting_rules(&self, rules: &mut IgnoreRules) -> io::Result<FileSurvey> {
        let stack = rules.top_stack();
        self.walk(RuleSource::Collect(rules), stack)
    }

    /// Surveys the folder with the ignore rules of an earlier time.
    pub(super) fn survey_with_rules(&self, rules: &IgnoreRules) -> io::Result<FileSurvey> {
        self.walk(RuleSource::Given(rules), rules.top_stack())
    }

    /// Walks through the folders in one thread; all threads examine the files.
    fn walk(&self, rules: RuleSource<'_>, stack: RuleStack) -> io::Result<FileSurvey> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(self.top, flags, Mode::empty())?;
        let jobs = JobQueue::new(self);
        let mut walk = SurveyWalk {
            look: self,
            jobs: &jobs,
            rules,
            stack,
            path: Vec::new(),
            found: SurveyPart::default(),
        };
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| jobs.survey_jobs())).collect();
            let walked = {
                // Also if the walk panics: the other threads would wait for ever.
                let _end = EndGuard(&jobs);
                walk.walk_folders(handle)
            };
            let mut parts = vec![mem::take(&mut walk.found), jobs.survey_jobs()];
            for other in others {
                parts.push(other.join().map_err(|_| io::Error::other("a thread failed"))?);
            }
            walked.map(|()| FileSurvey::from_parts(parts))
        })
    }
}

enum RuleSource<'a> {
    Collect(&'a mut IgnoreRules),
    Given(&'a IgnoreRules),
}

/// The files of a folder that must be examined.
struct FolderJob {
    folder: Arc<OwnedFd>,
    /// The path of the folder, with the slash.
    prefix: Vec<u8>,
    files: Vec<DirectoryEntry>,
    stack: RuleStack,
    is_ignored: bool,
}

/// The part of a survey that one thread made.
#[derive(Default)]
struct SurveyPart {
    entries: Vec<SurveyEntry>,
    /// The size of the files of one folder so far.
    bytes: u64,
    unseen: Vec<(WorktreePath, String)>,
    /// The first path that a limit excluded, and why.
    cut: Option<(WorktreePath, String)>,
}

impl SurveyPart {
    fn record_cut(&mut self, path: &[u8], why: String) {
        if self.cut.as_ref().is_none_or(|(first, _)| path < first.bytes()) {
            self.cut = Some((WorktreePath::new(path), why));
        }
    }

    fn push_unseen(&mut self, path: &[u8], why: String) {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        self.unseen.push((WorktreePath::new(path), why));
    }
}

impl FileSurvey {
    fn from_parts(parts: Vec<SurveyPart>) -> Self {
        let (mut survey, mut cuts) = (Self::default(), Vec::new());
        for part in parts {
            survey.entries.extend(part.entries);
            survey.unseen.extend(part.unseen);
            cuts.extend(part.cut);
        }
        // The entries are sorted runs, one for each folder.
        survey.entries.sort_by(|a, b| a.place().cmp(b.place()));
        survey.unseen.sort();
        if let Some((cut, why)) = cuts.into_iter().min() {
            survey.cut = Some(cut);
            survey.unseen.push((WorktreePath::new(b""), why));
        }
        survey
    }
}

/// The folders whose files must still be examined, and the counters of all threads.
struct JobQueue<'a> {
    look: &'a SurveyOptions<'a>,
    queue: Mutex<VecDeque<FolderJob>>,
    added: Condvar,
    /// Whether no folder will be added.
    ended: AtomicBool,
    /// The limit that was reached: nothing more is examined.
    stopped: OnceLock<String>,
    files: AtomicUsize,
    bytes: AtomicU64,
    begun: Instant,
    looked: SystemTime,
}

impl<'a> JobQueue<'a> {
    fn new(look: &'a SurveyOptions<'a>) -> Self {
        Self {
            look,
            queue: Mutex::default(),
            added: Condvar::new(),
            ended: AtomicBool::new(false),
            stopped: OnceLock::new(),
            files: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            begun: Instant::now(),
            looked: SystemTime::now(),
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, VecDeque<FolderJob>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a folder, or examines its files at once if many wait.
    fn add(&self, job: FolderJob, part: &mut SurveyPart) {
        if job.files.is_empty() {
            return;
        }
        let mut queue = self.lock_queue();
        if queue.len() < MOST_WAITING {
            queue.push_back(job);
            drop(queue);
            self.added.notify_one();
        } else {
            drop(queue);
            self.survey_files(job, part);
        }
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // A thread that saw the flag unset is waiting by now.
        drop(self.lock_queue());
        self.added.notify_all();
    }

    /// Examines the files of folders until there are no more.
    fn survey_jobs(&self) -> SurveyPart {
        let mut part = SurveyPart::default();
        loop {
            let mut queue = self.lock_queue();
            let job = loop {
                if let Some(job) = queue.pop_front() {
                    break job;
                }
                if self.ended.load(Ordering::Acquire) {
                    return part;
                }
                queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            self.survey_files(job, &mut part);
        }
    }

    fn survey_files(&self, job: FolderJob, part: &mut SurveyPart) {
        let FolderJob { folder, prefix, files, stack, is_ignored } = job;
        let mut tracked = PathCursor { all: self.look.tracked.unwrap_or_default(), at: 0 };
        let mut earlier =
            PathCursor { all: self.look.earlier.map_or(&[], |earlier| &earlier.entries), at: 0 };
        let mut path = prefix.clone();
        let count = part.entries.len();
        part.bytes = 0;
        for (number, found) in files.into_iter().enumerate() {
            if let Err(why) = self.check_limits(number, part.entries.len() - count) {
                part.record_cut(&prefix, why);
                return;
            }
            path.truncate(prefix.len());
            path.extend(found.name.as_bytes());
            let is_ignored = || is_ignored || stack.ignores(&path, false);
            let class = if self.look.tracked.is_none() {
                FileClass::Untracked
            } else if tracked.find(&path, WorktreePath::bytes).is_some() {
                FileClass::Tracked
            } else if is_ignored() {
                FileClass::Ignored
            } else {
                FileClass::Untracked
            };
            let earlier = earlier.find(&path, |entry| entry.place().bytes()).map(SurveyEntry::fingerprint);
            if let Err(why) = self.survey_file(&folder, &found, &path, class, earlier, part) {
                part.record_cut(&prefix, why);
                return;
            }
        }
        // Once for each folder: threads that share a counter wait for each other.
        self.files.fetch_add(part.entries.len() - count, Ordering::Relaxed);
        self.bytes.fetch_add(part.bytes, Ordering::Relaxed);
    }

    /// Checks whether one more file may be examined, besides `files` of this folder. Checks the time only now
    /// and then.
    fn check_limits(&self, number: usize, files: usize) -> Result<(), String> {
        let limits = self.look.limits();
        self.check_stopped()?;
        if self.files.load(Ordering::Relaxed) + files >= limits.files {
            return Err(self.stop(format!("there are more than {} files", limits.files)));
        }
        if number.is_multiple_of(256) && self.begun.elapsed() > limits.time {
            return Err(self.stop(format!("the survey took more than {} seconds", limits.time.as_secs())));
        }
        Ok(())
    }

    fn stop(&self, why: String) -> String {
        self.stopped.get_or_init(|| why).clone()
    }

    fn check_stopped(&self) -> Result<(), String> {
        self.stopped.get().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Examines a file. An error is a limit.
    fn survey_file(
        &self,
        folder: &OwnedFd,
        found: &DirectoryEntry,
        path: &[u8],
        class: FileClass,
        earlier: Option<&Fingerprint>,
        part: &mut SurveyPart,
    ) -> Result<(), String> {
        let stat = match statat(folder, &found.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => {
                part.push_unseen(path, error.to_string());
                return Ok(());
            }
        };
        let stamp = FileStamp::from_stat(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let most = self.look.limits().bytes;
            part.bytes = part.bytes.saturating_add(stamp.size());
            if self.bytes.load(Ordering::Relaxed).saturating_add(part.bytes) > most {
                return Err(self.stop(format!("there are more than {} MiB", most >> 20)));
            }
        }
        // Ignored files can be many: their times are enough, unless they were written just now.
        let read = match earlier {
            Some(Fingerprint::Contents(_)) => true,
            Some(Fingerprint::Touched(_)) => false,
            _ => class != FileClass::Ignored || !stamp.is_older_than(self.looked),
        };
        match self.look.prints.fingerprint(folder.as_fd(), found.name.as_bytes(), &stat, read) {
            Ok(Fingerprint::Contents(digest)) if self.look.own.is_own_content(path, &digest) => {}
            Ok(print) => {
                part.entries.push(SurveyEntry(WorktreePath::new(path), stamp.mode(), class, print));
            }
            Err(error) => part.push_unseen(path, error.to_string()),
        }
        Ok(())
    }
}

/// Ends the jobs when the walk is over.
struct EndGuard<'a>(&'a JobQueue<'a>);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A folder that the walk is in.
struct FolderLevel {
    /// `None` if it was closed because too many were open.
    handle: Option<Arc<OwnedFd>>,
    id: (u64, u64),
    folders: std::vec::IntoIter<DirectoryEntry>,
    /// The length of the path to this folder, with the slash.
    start: usize,
    /// The number of rules that apply above it.
    rules: usize,
    is_ignored: bool,
}

struct SurveyWalk<'a> {
    look: &'a SurveyOptions<'a>,
    jobs: &'a JobQueue<'a>,
    rules: RuleSource<'a>,
    stack: RuleStack,
    path: Vec<u8>,
    found: SurveyPart,
}

impl SurveyWalk<'_> {
    fn walk_folders(&mut self, handle: OwnedFd) -> io::Result<()> {
        let mut levels = vec![self.enter_folder(handle, false, true)?];
        loop {
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { return Ok(()) };
            self.path.truncate(level.start);
            let Some(found) = level.folders.next() else {
                let ended = levels.pop();
                if !self.leave_folder(ended, levels.last_mut()) {
                    return Ok(());
                }
                continue;
            };
            let Some(handle) = &level.handle else { continue };
            self.path.extend(found.name.as_bytes());
            if let Err(why) = self.jobs.check_stopped() {
                self.found.record_cut(&self.path, why);
                return Ok(());
            }
            let is_ignored = level.is_ignored || self.stack.ignores(&self.path, true);
            if depth >= MOST_DEPTH {
                let why = format!("folders are nested more than {MOST_DEPTH} levels deep");
                self.found.push_unseen(&self.path, why);
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat(handle, &found.name, flags, Mode::empty()).map_err(io::Error::from);
            match opened.and_then(|handle| self.enter_folder(handle, is_ignored, false)) {
                Ok(level) => levels.push(level),
                Err(error) if is_gone(&error) => {}
                Err(error) => self.found.push_unseen(&self.path, error.to_string()),
            }
            if levels.len() > MOST_OPEN {
                let far = levels.len() - MOST_OPEN;
                levels[far].handle = None;
            }
        }
    }

    /// Reads the entries of a folder.
    fn enter_folder(&mut self, handle: OwnedFd, is_ignored: bool, is_top: bool) -> io::Result<FolderLevel> {
        let mut found = read_entries(&handle)?;
        if is_top && self.look.tracked.is_some() {
            found.retain(|found| found.name != ".git");
        }
        let rules = self.stack.len();
        if self.look.tracked.is_some() && !is_ignored {
            let is_repository = !is_top && found.iter().any(|found| found.name == ".git");
            let has_rules = found
                .iter()
                .any(|found| found.name.as_bytes() == RULES_FILE && found.kind == FileType::RegularFile);
            if has_rules {
                self.collect_rules(&handle);
            }
            let rules = match &self.rules {
                RuleSource::Collect(rules) => &**rules,
                RuleSource::Given(rules) => rules,
            };
            rules.push_folder_rules(&mut self.stack, &self.path, is_repository);
        }
        if !is_top {
            self.path.push(b'/');
        }
        let id = file_id(&fstat(&handle)?);
        let own = |found: &DirectoryEntry| {
            let path = [&self.path[..], found.name.as_bytes()].concat();
            self.look.own.is_own(&path, found.kind)
        };
        found.retain(|found| !own(found));
        let (mut folders, mut files): (Vec<DirectoryEntry>, Vec<DirectoryEntry>) =
            found.into_iter().partition(|found| found.kind == FileType::Directory);
        // In the order of whole paths: a folder's name continues with a slash.
        folders.sort_unstable_by(|a, b| {
            a.name.as_bytes().iter().chain(b"/").cmp(b.name.as_bytes().iter().chain(b"/"))
        });
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let handle = Arc::new(handle);
        let (prefix, stack) = (self.path.clone(), self.stack.clone());
        self.jobs.add(
            FolderJob { folder: Arc::clone(&handle), prefix, files, stack, is_ignored },
            &mut self.found,
        );
        let (folders, start) = (folders.into_iter(), self.path.len());
        Ok(FolderLevel { handle: Some(handle), id, folders, start, rules, is_ignored })
    }

    /// Returns to the folder above; `false` if it no longer exists.
    fn leave_folder(&mut self, ended: Option<FolderLevel>, above: Option<&mut FolderLevel>) -> bool {
        let (Some(ended), Some(above)) = (ended, above) else { return true };
        self.stack.truncate(ended.rules);
        self.path.truncate(above.start);
        if above.handle.is_some() {
            return true;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = ended.handle.and_then(|handle| openat(&*handle, "..", flags, Mode::empty()).ok());
        let opened = opened.filter(|opened| fstat(opened).is_ok_and(|stat| file_id(&stat) == above.id));
        above.handle = opened.map(Arc::new);
        if above.handle.is_none() {
            self.found.record_cut(&self.path, "a folder was moved during the survey".to_owned());
        }
        above.handle.is_some()
    }

    /// Collects the rules of a folder, except those that callsheet wrote for its own files.
    fn collect_rules(&mut self, folder: &OwnedFd) {
        let RuleSource::Collect(rules) = &mut self.rules else { return };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = openat(folder, RULES_FILE, flags, Mode::empty()) else { return };
        let mut bytes = Vec::new();
        let read = File::from(file).take(MOST_RULES + 1).read_to_end(&mut bytes);
        let slash = if self.path.is_empty() { &b""[..] } else { b"/" };
        let path = [&self.path, slash, RULES_FILE].concat();
        if bytes.len() as u64 > MOST_RULES {
            rules.add_unread(&path, format!("its rules are longer than {MOST_RULES} bytes"));
        } else if read.is_ok() && !self.look.own.is_own_content(&path, &sha256(&[&bytes])) {
            rules.add(&self.path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

#[expect(clippy::unnecessary_cast, reason = "the types differ from system to system")]
fn file_id(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOENT)
}

/// A position in a sorted list, for paths that are searched in the order of the list.
struct PathCursor<'a, T> {
    all: &'a [T],
    at: usize,
}

impl<'a, T> PathCursor<'a, T> {
    fn find(&mut self, path: &[u8], key: impl Fn(&T) -> &[u8]) -> Option<&'a T> {
        let rest = &self.all[self.at..];
        let mut bound = 1;
        while rest.get(bound).is_some_and(|item| key(item) < path) {
            bound *= 2;
        }
        let (from, to) = (bound / 2, rest.len().min(bound + 1));
        self.at += from + rest[from..to].partition_point(|item| key(item) < path);
        self.all.get(self.at).filter(|item| key(item) == path)
    }
}
