//! Removes the socket of a tmux server of our own, which tmux leaves behind when the server ends.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to end after it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Removes the socket of the server with this name, once no server listens there. A failure leaves the socket,
/// which does no harm.
pub(super) fn remove_socket(name: &str) {
    let Some(path) = socket_path(name) else { return };
    let is_socket = || path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket());
    let begun = Instant::now();
    while is_socket() {
        if UnixStream::connect(&path).is_err() {
            let _ = fs::remove_file(&path);
            return;
        }
        if begun.elapsed() > ENDS_WITHIN {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the path of the socket, as tmux chooses it.
fn socket_path(name: &str) -> Option<PathBuf> {
    // A name of our own is never a path.
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let folder = std::env::var_os("TMUX_TMPDIR").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let user = rustix::process::getuid().as_raw();
    Some(folder.canonicalize().ok()?.join(format!("tmux-{user}")).join(name))
}
