//! Files that nobody else can read, whatever the umask is.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The real path of a file that only its owner can read.
pub(crate) fn private_file(path: &Path, create: bool) -> Result<PathBuf, Error> {
    let failed = |error: std::io::Error| Error::Failed(format!("`{}`: {error}", path.display()));
    if !create && path.symlink_metadata().is_err() {
        return Err(Error::NotThere(path.display().to_string()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if create && !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    if create {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let found = path.symlink_metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(Error::Failed(format!("`{}` is not a regular file", path.display())));
    }
    if found.permissions().mode() & 0o777 != 0o600 {
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    }
    path.canonicalize().map_err(failed)
}
