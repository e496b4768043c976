//! Tests that a lock is never waited for without an end.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use callsheet_run::{LOCK_PATIENCE, lock_file};

#[test]
fn held_lock_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let held = lock_file(&path, LOCK_PATIENCE).unwrap();
    let refused = lock_file(&path, Duration::from_millis(50)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    assert_eq!(refused.to_string(), "another process has held it for 50ms");
    drop(held);
    lock_file(&path, Duration::from_millis(50)).unwrap();
}

#[test]
fn irregular_lock_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Without a reader the system refuses to open the pipe; with one, the file's kind is the reason.
    assert!(lock_file(&pipe, LOCK_PATIENCE).is_err());
    let _reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    assert_eq!(lock_file(&pipe, LOCK_PATIENCE).unwrap_err().to_string(), "it is not a regular file");
    assert_eq!(
        lock_file(Path::new("/dev/null"), LOCK_PATIENCE).unwrap_err().to_string(),
        "it is not a regular file"
    );
}
