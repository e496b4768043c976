//! Tests that the file system of a directory is known before the directory exists.

use std::path::Path;

use callsheet_run::find_temporary_file_system;

#[test]
fn missing_directory_uses_its_parent() {
    assert_eq!(
        find_temporary_file_system(Path::new("/dev/shm/a/b")),
        find_temporary_file_system(Path::new("/dev/shm"))
    );
}
