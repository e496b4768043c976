//! The edge of callsheet: where the pure core meets the machine.
//!
//! [`Disk`] gives the core its sources and never leaves the roots it was given. [`read_file`] is for
//! the one case where a person names a file outright, wherever it lies.

mod disk;
mod list;
mod read;

pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use list::MAX_LEFT_OUT;
pub use read::read_file;
