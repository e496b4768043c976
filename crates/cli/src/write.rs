//! Writing files: whole or not at all, and never where nobody asked for it.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_run::open_device;
use tempfile::NamedTempFile;

use crate::session::{failed as unwritten, open};

/// The mode of a new file for a person, of which the umask takes its part: a prompt can hold what is for its reader alone.
const PRIVATE: u32 = 0o600;

/// Puts `bytes` where a person wants them. A link keeps leading to its file, a file keeps its mode, a new one is for its
/// owner alone, and what is no file (a device, a FIFO) is written into. A path in the project stays there: its links are
/// not the person's.
pub(crate) fn write_out(project: &Path, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let target = end_of_links(path);
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = folder.canonicalize().map_err(|error| failed(path, &error))?;
    let target = real.join(target.file_name().unwrap_or_default());
    let below = target.strip_prefix(project).ok().and_then(Path::to_str);
    if let Some(below) = below.filter(|_| target.metadata().map_or(true, |meta| meta.is_file())) {
        let project = open(project)?;
        let written = match target.symlink_metadata() {
            Ok(_) => project.replace(below, bytes),
            Err(_) => project.write(below, bytes, PRIVATE),
        };
        return written.map_err(|error| unwritten(&error));
    }
    stays(project, path, &target)?;
    let write = || -> io::Result<()> {
        let old = target.metadata().ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            return open_device(&target)?.write_all(bytes);
        }
        let file = beside(&target, bytes)?;
        if let Some(old) = old {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.persist(&target)?;
        Ok(())
    };
    write().map_err(|error| failed(path, &error))
}

/// A path in the project must not lead out of it: its links are not those of the person who named it.
pub(crate) fn stays(project: &Path, path: &Path, real: &Path) -> Result<(), Failure> {
    if !path.starts_with(project) || real.starts_with(project) {
        return Ok(());
    }
    let message = format!("`{}` could not be written: it leads out of the project", path.display());
    let hint = format!("name `{}` itself if you mean that", real.display());
    Err(Diag::error(Code::OutputFailed, message).hint(hint).into())
}

/// Writes a file of the project that was not there, with the folders above it. A repository that was cloned
/// may hold links to anywhere: none of them is followed.
pub(crate) fn write_new(project: &Path, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    open(project)?.create(path, bytes).map_err(|error| unwritten(&error))
}

/// A new file with these bytes in the folder of `target`, so that it can take its place in one step.
fn beside(target: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut file =
        tempfile::Builder::new().permissions(Permissions::from_mode(PRIVATE)).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// The file that `path` leads to in the end, there or not.
fn end_of_links(path: &Path) -> PathBuf {
    // As many as the system itself follows.
    const MOST_LINKS: usize = 40;
    let mut end = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let Ok(next) = end.read_link() else { break };
        end = end.parent().unwrap_or(Path::new(".")).join(next);
    }
    end
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Diag::error(Code::OutputFailed, format!("`{}` could not be written: {error}", path.display())).into()
}
