//! A project with a secret outside of it, and work on all processors.

use std::ops::Deref;
use std::path::Path;
use std::thread;

use callsheet_testing::{CommandOutput, TestProject};

/// A text in every file outside the project. It must not appear anywhere else.
pub(crate) const CANARY: &str = "CANARY-c0ffee-outside";

/// A project with files next to it that contain [`CANARY`].
pub(crate) struct CanaryProject(TestProject);

impl CanaryProject {
    pub(crate) fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    pub(crate) fn new_in(parent: &Path) -> Self {
        let project = TestProject::new_in(parent);
        for name in ["canary", "canary.md", "canary.toml", "dir/canary.md"] {
            project.write_beside(&format!("outside/{name}"), CANARY);
        }
        Self(project)
    }
}

impl Deref for CanaryProject {
    type Target = TestProject;

    fn deref(&self) -> &TestProject {
        &self.0
    }
}

/// Returns whether either stream shows text from outside the project.
pub(crate) fn has_leak(output: &CommandOutput) -> bool {
    let shows = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(CANARY);
    shows(&output.stdout) || shows(&output.stderr)
}

/// Does `work` for every item, on as many threads as there are processors, and returns the result of each
/// thread.
pub(crate) fn run_in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let share = items.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let running: Vec<_> = items.chunks(share).map(|part| scope.spawn(|| work(part))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
