//! The edge of callsheet: where the pure core meets the machine.
//!
//! [`Disk`] gives the core its sources and never leaves the roots it was given. [`read_file`] is for
//! the one case where a person names a file outright, wherever it lies. [`Folder`] is a directory that
//! is written to, and never leaves it either.

mod disk;
mod folder;
mod list;
mod pack;
mod prefetched;
mod read;
mod walk;

pub use disk::{DEFAULT_MAX_FILE_BYTES, Disk, Roots};
pub use folder::{Folder, WriteError};
pub use list::MAX_LEFT_OUT;
pub use pack::{Body, PackLimits, Packed, PackedFile, Packing, Progress, Want};
pub use prefetched::Prefetched;
pub use read::read_file;
