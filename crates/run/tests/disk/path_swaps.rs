//! Tests reads while another thread swaps files and directories.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::{SourceRoot, Sources as _};
use callsheet_run::FileBody;

use crate::project::{ALL, DiskProject, id, names, pack, text};

/// Counts tries. A busy machine can stop the other thread in the middle of a swap for all of them.
struct Tries {
    count: usize,
    deadline: Instant,
}

impl Tries {
    fn new() -> Self {
        Self { count: 0, deadline: Instant::now() + Duration::from_secs(60) }
    }

    /// Returns whether to try again: 2,000 times, and further if nothing was read yet.
    fn try_again(&mut self, reads: usize) -> bool {
        self.count += 1;
        self.count <= 2000 || (reads == 0 && Instant::now() < self.deadline)
    }
}

#[test]
fn swapped_in_link_is_not_followed() {
    let project = DiskProject::new();
    project.write("dir/secret", "harmless");
    project.write_empty(&["outside/leak"]);
    project.link("../outside", ".link");
    let (disk, stop) = (project.disk(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let name = |name| project.path().join(name);
            while !stop.load(Ordering::Relaxed) {
                fs::rename(name("dir"), name(".dir")).unwrap();
                fs::rename(name(".link"), name("dir")).unwrap();
                fs::rename(name("dir"), name(".link")).unwrap();
                fs::rename(name(".dir"), name("dir")).unwrap();
            }
        });
        let (mut leaks, mut reads, mut tries) = (Vec::new(), 0, Tries::new());
        while tries.try_again(reads) {
            match text(&disk, SourceRoot::Project, "dir/secret") {
                Ok(Some(text)) if text.as_str() == "harmless" => reads += 1,
                Ok(Some(text)) => leaks.push(text.to_string()),
                Ok(None) | Err(_) => {}
            }
            let listings = [".", "dir"].map(|dir| disk.list(&id(SourceRoot::Project, dir), ALL));
            for listing in listings.into_iter().flatten().flatten() {
                leaks.extend(names(&listing).into_iter().filter(|name| name.ends_with("leak")));
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(leaks, [""; 0]);
        assert_ne!(reads, 0);
    });
}

/// A directory and a file become links during a pack.
#[test]
fn pack_ignores_swapped_in_links() {
    let project = DiskProject::new();
    project.write("dir/secret", "harmless");
    project.write("file", "harmless");
    project.link("../outside", ".dir-link");
    project.link("../outside/secret", ".file-link");
    let (disk, stop) = (project.disk(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let name = |name: &str| project.path().join(name);
            while !stop.load(Ordering::Relaxed) {
                for (real, link) in [("dir", ".dir-link"), ("file", ".file-link")] {
                    fs::rename(name(real), name(".aside")).unwrap();
                    fs::rename(name(link), name(real)).unwrap();
                    fs::rename(name(real), name(link)).unwrap();
                    fs::rename(name(".aside"), name(real)).unwrap();
                }
            }
        });
        let (mut leaks, mut reads, mut tries) = (Vec::new(), 0, Tries::new());
        while tries.try_again(reads) {
            // A swap at the wrong moment is not a failure of the whole pack.
            let Ok(Some(packed)) = pack(&disk, ".", Some(2)) else { continue };
            for file in packed.files {
                match file.body {
                    FileBody::Text(text) if text.as_str() == "harmless" => reads += 1,
                    FileBody::Text(text) => leaks.push(text.to_string()),
                    FileBody::LeftOut(_) | FileBody::Unread => {}
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(leaks, [""; 0]);
        assert_ne!(reads, 0);
    });
}
