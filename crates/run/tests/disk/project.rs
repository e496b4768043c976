//! A project and the other roots of sources, and shorter calls for the sources.

use std::fs;
use std::ops::Deref;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use callsheet_core::{
    Listing, ListingEntry, ListingLimits, SharedText, SourceError, SourceId, SourceRoot, Sources as _,
};
use callsheet_run::{
    DEFAULT_MAX_FILE_BYTES, Disk, PackLimits, PackOptions, PackProgress, PackedTree, Roots, WantedContent,
};
use callsheet_testing::TestProject;

pub(crate) type Read = Result<Option<SharedText>, SourceError>;

/// A project with the folders `user`, `session` and `outside` next to it.
pub(crate) struct DiskProject(TestProject);

impl Deref for DiskProject {
    type Target = TestProject;

    fn deref(&self) -> &TestProject {
        &self.0
    }
}

impl DiskProject {
    pub(crate) fn new() -> Self {
        let project = TestProject::new();
        for dir in ["user", "session", "outside"] {
            fs::create_dir(project.beside(dir)).unwrap();
        }
        project.write_beside("outside/secret", "secret");
        Self(project)
    }

    /// Creates a directory of the project or next to it.
    pub(crate) fn create_dir(&self, path: &str) {
        fs::create_dir_all(self.beside(path)).unwrap();
    }

    /// Creates empty files of the project or next to it.
    pub(crate) fn write_empty(&self, paths: &[&str]) {
        for path in paths {
            self.write_beside(path, "");
        }
    }

    /// Creates a FIFO of the project or next to it.
    pub(crate) fn create_fifo(&self, path: &str) {
        assert!(Command::new("mkfifo").arg(self.beside(path)).status().unwrap().success());
    }

    pub(crate) fn roots(&self) -> Roots {
        let dir = |name| Some(self.beside(name));
        Roots { user: dir("user"), project: dir("project"), session: dir("session") }
    }

    pub(crate) fn disk(&self) -> Disk {
        Disk::new(&self.roots(), DEFAULT_MAX_FILE_BYTES)
    }

    pub(crate) fn text(&self, path: &str) -> Read {
        text(&self.disk(), SourceRoot::Project, path)
    }

    pub(crate) fn list(&self, path: &str, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        self.disk().list(&id(SourceRoot::Project, path), limits)
    }

    pub(crate) fn pack(&self, path: &str) -> Result<Option<PackedTree>, SourceError> {
        pack(&self.disk(), path, None)
    }

    /// Returns the whole project as one name per entry; a directory ends in a slash.
    pub(crate) fn tree(&self) -> Vec<String> {
        names(&self.list(".", ALL).unwrap().unwrap())
    }
}

pub(crate) const ALL: ListingLimits = ListingLimits { depth: 100, entries: 100, ignored: false };

pub(crate) fn id(root: SourceRoot, path: &str) -> SourceId {
    SourceId::new(root, path).unwrap()
}

pub(crate) fn text(disk: &Disk, root: SourceRoot, path: &str) -> Read {
    disk.text(&id(root, path))
}

/// Packs every text below a directory of the project.
pub(crate) fn pack(
    disk: &Disk,
    path: &str,
    threads: Option<usize>,
) -> Result<Option<PackedTree>, SourceError> {
    let packing = PackOptions {
        want: &|_| WantedContent::Text,
        limits: PackLimits::default(),
        threads,
        progress: &PackProgress::default(),
    };
    disk.pack(&id(SourceRoot::Project, path), &packing)
}

pub(crate) fn some(text: &str) -> Read {
    Ok(Some(text.into()))
}

pub(crate) fn unreadable<T>(why: &str) -> Result<T, SourceError> {
    Err(SourceError::Unreadable(why.to_owned()))
}

pub(crate) fn names(listing: &Listing) -> Vec<String> {
    let name = |entry: &ListingEntry| format!("{}{}", entry.path, if entry.dir { "/" } else { "" });
    listing.entries.iter().map(name).collect()
}

/// Fails instead of hanging if `work` waits for something.
pub(crate) fn within_ten_seconds<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(work()));
    receive.recv_timeout(Duration::from_secs(10)).unwrap()
}
