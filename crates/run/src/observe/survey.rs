//! Surveys: what the file system has below a folder, file by file, whatever git is told of it.
//!
//! Every folder is opened through the handle of the one that holds it: no link leads elsewhere, and no path is too long.
//! Nothing is opened but regular files. What cannot be looked at is said, with the reason.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use callsheet_core::record::sha256;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::own::Own;
use super::place::Place;
use super::print::{Print, Prints, Stamp};
use super::rules::{MOST_RULES, RULES_FILE, RuleStack, Rules};

/// What git has to do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Class {
    #[serde(rename = "t")]
    Tracked,
    #[serde(rename = "u")]
    Untracked,
    #[serde(rename = "i")]
    Ignored,
}

/// A file: its path, kind and permissions, and contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry(pub(super) Place, pub(super) u32, pub(super) Class, pub(super) Print);

impl Entry {
    pub(super) fn place(&self) -> &Place {
        &self.0
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.1)
    }

    pub(super) fn class(&self) -> Class {
        self.2
    }

    pub(super) fn print(&self) -> &Print {
        &self.3
    }

    /// Whether both are the same file, as far as anybody can see.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.1 == other.1 && self.3 == other.3
    }
}

/// All files below a folder, in byte order of their paths.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Survey {
    pub(super) entries: Vec<Entry>,
    /// Folders and files that could not be looked at, and why.
    pub(super) unseen: Vec<(Place, String)>,
    /// Where a limit ended the survey: nothing behind it was looked at.
    pub(super) cut: Option<Place>,
}

impl Survey {
    /// Whether a path could not be looked at.
    pub(super) fn hides(&self, path: &Place) -> bool {
        self.cut.as_ref().is_some_and(|cut| path >= cut)
            || self.unseen.iter().any(|(folder, _)| path.is_in(folder.bytes()))
    }
}

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) files: usize,
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// Far more than a worktree has that people work in.
pub(super) const IN_REPOSITORY: Limits =
    Limits { files: 2_000_000, bytes: u64::MAX, time: Duration::from_secs(600) };

/// Without git every file is read.
pub(super) const WITHOUT_GIT: Limits =
    Limits { files: 20_000, bytes: 1 << 30, time: Duration::from_secs(600) };

/// Folders that are in each other more than this are not looked into.
const MOST_DEPTH: usize = 1_000;

/// So many folders are held open at once.
const MOST_OPEN: usize = 64;

/// How a folder is looked at.
pub(super) struct Look<'a> {
    pub(super) top: &'a Path,
    /// What git tracks, in byte order; `None` without git.
    pub(super) tracked: Option<&'a [Place]>,
    pub(super) own: &'a Own,
    pub(super) prints: &'a Prints,
    /// The survey to compare with: a file is told in the same way as there.
    pub(super) earlier: Option<&'a Survey>,
    pub(super) limits: Limits,
}

impl Look<'_> {
    /// Looks, and collects the rules that say what is ignored.
    pub(super) fn collecting(&self, rules: &mut Rules) -> io::Result<Survey> {
        let stack = rules.at_top();
        self.walk(Source::Collect(rules), stack)
    }

    /// Looks with the rules of an earlier time.
    pub(super) fn by(&self, rules: &Rules) -> io::Result<Survey> {
        self.walk(Source::Given(rules), rules.at_top())
    }

    fn walk(&self, rules: Source<'_>, stack: RuleStack) -> io::Result<Survey> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(self.top, flags, Mode::empty())?;
        let mut walk = Walk {
            look: self,
            rules,
            stack,
            tracked: Cursor { all: self.tracked.unwrap_or_default(), at: 0 },
            earlier: Cursor { all: self.earlier.map_or(&[], |earlier| &earlier.entries), at: 0 },
            path: Vec::new(),
            bytes: 0,
            begun: Instant::now(),
            looked: SystemTime::now(),
            survey: Survey::default(),
        };
        walk.all(handle)?;
        Ok(walk.survey)
    }
}

enum Source<'a> {
    Collect(&'a mut Rules),
    Given(&'a Rules),
}

/// Something in a folder.
struct Found {
    name: Vec<u8>,
    kind: FileType,
}

/// A folder in which the walk is.
struct Level {
    /// Closed if too many are open.
    handle: Option<OwnedFd>,
    id: (u64, u64),
    found: std::vec::IntoIter<Found>,
    /// How much of the path leads here, with the slash.
    start: usize,
    /// How many rules hold above it.
    rules: usize,
    is_ignored: bool,
}

struct Walk<'a> {
    look: &'a Look<'a>,
    rules: Source<'a>,
    stack: RuleStack,
    tracked: Cursor<'a, Place>,
    earlier: Cursor<'a, Entry>,
    path: Vec<u8>,
    bytes: u64,
    begun: Instant,
    looked: SystemTime,
    survey: Survey,
}

impl Walk<'_> {
    fn all(&mut self, handle: OwnedFd) -> io::Result<()> {
        let mut levels = vec![self.enter(handle, false, true)?];
        loop {
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { return Ok(()) };
            self.path.truncate(level.start);
            let Some(found) = level.found.next() else {
                let ended = levels.pop();
                if !self.leave(ended, levels.last_mut()) {
                    return Ok(());
                }
                continue;
            };
            let Some(handle) = &level.handle else { continue };
            self.path.extend(&found.name);
            if self.look.own.has(&self.path, found.kind) {
                continue;
            }
            if found.kind != FileType::Directory {
                if let Err(why) = self.file(handle, &found, level.is_ignored) {
                    self.cut(why);
                    return Ok(());
                }
                continue;
            }
            let is_ignored = level.is_ignored || self.stack.ignores(&self.path, true);
            if depth >= MOST_DEPTH {
                self.unseen(format!("more than {MOST_DEPTH} folders are in each other"));
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat(handle, &found.name[..], flags, Mode::empty()).map_err(io::Error::from);
            match opened.and_then(|handle| self.enter(handle, is_ignored, false)) {
                Ok(level) => levels.push(level),
                Err(error) if is_gone(&error) => {}
                Err(error) => self.unseen(error.to_string()),
            }
            if levels.len() > MOST_OPEN {
                let far = levels.len() - MOST_OPEN;
                levels[far].handle = None;
            }
        }
    }

    /// Reads what is in a folder.
    fn enter(&mut self, handle: OwnedFd, is_ignored: bool, is_top: bool) -> io::Result<Level> {
        let mut found = Vec::new();
        for entry in Dir::new(handle.try_clone()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let is_repository = is_top && self.look.tracked.is_some() && name == b".git";
            if name == b"." || name == b".." || is_repository {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems give no types with the names.
                FileType::Unknown => statat(&handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            found.push(Found { name: name.to_vec(), kind });
        }
        // In the order of whole paths: a folder's name goes on with a slash.
        let key = |found: &Found| (found.kind == FileType::Directory).then_some(b'/');
        found.sort_unstable_by(|a, b| {
            a.name.iter().copied().chain(key(a)).cmp(b.name.iter().copied().chain(key(b)))
        });
        let rules = self.stack.len();
        if self.look.tracked.is_some() && !is_ignored {
            let is_repository = !is_top && found.iter().any(|found| found.name == b".git");
            let has_rules =
                found.iter().any(|found| found.name == RULES_FILE && found.kind == FileType::RegularFile);
            if has_rules {
                self.collect(&handle);
            }
            let rules = match &self.rules {
                Source::Collect(rules) => &**rules,
                Source::Given(rules) => rules,
            };
            rules.enter(&mut self.stack, &self.path, is_repository);
        }
        if !is_top {
            self.path.push(b'/');
        }
        let stat = fstat(&handle)?;
        let id = id(&stat);
        let found = found.into_iter();
        Ok(Level { handle: Some(handle), id, found, start: self.path.len(), rules, is_ignored })
    }

    /// Goes back to the folder above; `false` if it is not there any more.
    fn leave(&mut self, ended: Option<Level>, above: Option<&mut Level>) -> bool {
        let (Some(ended), Some(above)) = (ended, above) else { return true };
        self.stack.truncate(ended.rules);
        self.path.truncate(above.start);
        if above.handle.is_some() {
            return true;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = ended.handle.and_then(|handle| openat(&handle, "..", flags, Mode::empty()).ok());
        above.handle = opened.filter(|opened| fstat(opened).is_ok_and(|stat| id(&stat) == above.id));
        if above.handle.is_none() {
            self.cut("a folder was moved while it was looked at".to_owned());
        }
        above.handle.is_some()
    }

    /// Keeps the rules of a folder, but for those that callsheet wrote for its own files.
    fn collect(&mut self, folder: &OwnedFd) {
        let Source::Collect(rules) = &mut self.rules else { return };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = openat(folder, RULES_FILE, flags, Mode::empty()) else { return };
        let mut bytes = Vec::new();
        let read = File::from(file).take(MOST_RULES).read_to_end(&mut bytes);
        let slash = if self.path.is_empty() { &b""[..] } else { b"/" };
        let path = [&self.path, slash, RULES_FILE].concat();
        if read.is_ok() && !self.look.own.wrote(&path, &sha256(&[&bytes])) {
            rules.add(&self.path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }

    /// Looks at a file. An error is a limit.
    fn file(&mut self, folder: &OwnedFd, found: &Found, is_ignored: bool) -> Result<(), String> {
        let limits = self.look.limits;
        if self.survey.entries.len() >= limits.files {
            return Err(format!("there are more than {} files", limits.files));
        }
        if self.survey.entries.len().is_multiple_of(1024) && self.begun.elapsed() > limits.time {
            return Err(format!("looking took more than {} seconds", limits.time.as_secs()));
        }
        let stat = match statat(folder, &found.name[..], AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => {
                self.unseen(error.to_string());
                return Ok(());
            }
        };
        let stamp = Stamp::of(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            self.bytes = self.bytes.saturating_add(stamp.size());
            if self.bytes > limits.bytes {
                return Err(format!("there are more than {} MiB", limits.bytes >> 20));
            }
        }
        let class = if self.look.tracked.is_none() {
            Class::Untracked
        } else if self.tracked.find(&self.path, Place::bytes).is_some() {
            Class::Tracked
        } else if is_ignored || self.stack.ignores(&self.path, false) {
            Class::Ignored
        } else {
            Class::Untracked
        };
        // What is ignored can be much: when it was written says enough, unless that was just now.
        let read = match self.earlier.find(&self.path, |entry| entry.place().bytes()).map(Entry::print) {
            Some(Print::Contents(_)) => true,
            Some(Print::Touched(_)) => false,
            _ => class != Class::Ignored || !stamp.is_older_than(self.looked),
        };
        let print = self.look.prints.of(folder.as_fd(), &found.name, &stat, read);
        match print {
            Ok(Print::Contents(digest)) if self.look.own.wrote(&self.path, &digest) => {}
            Ok(print) => {
                self.survey.entries.push(Entry(Place::new(&self.path), stamp.mode(), class, print));
            }
            Err(error) => self.unseen(error.to_string()),
        }
        Ok(())
    }

    fn unseen(&mut self, why: String) {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        self.survey.unseen.push((Place::new(path), why));
    }

    fn cut(&mut self, why: String) {
        self.survey.cut = Some(Place::new(&self.path));
        self.survey.unseen.push((Place::new(b""), why));
    }
}

#[expect(clippy::unnecessary_cast, reason = "the types differ from system to system")]
fn id(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOENT)
}

/// Finds paths in a list, in the order of the list.
struct Cursor<'a, T> {
    all: &'a [T],
    at: usize,
}

impl<'a, T> Cursor<'a, T> {
    fn find(&mut self, path: &[u8], key: impl Fn(&T) -> &[u8]) -> Option<&'a T> {
        while self.all.get(self.at).is_some_and(|item| key(item) < path) {
            self.at += 1;
        }
        self.all.get(self.at).filter(|item| key(item) == path)
    }
}
