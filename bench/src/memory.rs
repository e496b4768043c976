//! Memory: the most bytes that were allocated at once while something ran.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

pub(crate) struct Counting;

/// Counting costs time, so it is off unless something is being weighed.
static ON: AtomicBool = AtomicBool::new(false);
static NOW: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

fn note(change: isize) {
    if ON.load(Relaxed) {
        let now = NOW.fetch_add(change, Relaxed) + change;
        PEAK.fetch_max(now, Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; only sizes are noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize);
        note(-(layout.size() as isize));
        unsafe { System.realloc(place, layout, size) }
    }
}

/// The peak of what `run` allocates beyond what is there already, in bytes.
pub(crate) fn peak_of(run: impl FnOnce() -> usize) -> usize {
    NOW.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    ON.store(true, Relaxed);
    std::hint::black_box(run());
    ON.store(false, Relaxed);
    PEAK.load(Relaxed).max(0) as usize
}
