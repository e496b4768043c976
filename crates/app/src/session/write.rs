//! Writes files as a whole or not at all, and never outside the requested place.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use callsheet_core::SourceError;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_run::open_file;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::session::open_folder;

/// Mode of a new file for a person, before the umask: a prompt can be for its reader alone.
const PRIVATE: u32 = 0o600;

/// Resolves the output file that a person named; `None` is stdout. Stdout has other names too, which may lead
/// to a file that other processes write to: it must not be replaced. Refuses a FIFO, a device or a directory
/// before anything is written.
pub fn resolve_output(here: &Path, out: Option<&Path>) -> Result<Option<PathBuf>> {
    let is_stdout = |out: &Path| STDOUT_NAMES.iter().any(|name| out == Path::new(name));
    let Some(out) = out.filter(|out| !is_stdout(out)).map(|out| here.join(out)) else { return Ok(None) };
    match open_file(&out) {
        Err(error @ SourceError::NotAFile(_)) => {
            let message = format!("cannot write `{}`: {error}", out.display());
            let hint = "remove `--out` and redirect stdout";
            Err(Diagnostic::error(Code::SourceUnreadable, message).hint(hint).into())
        }
        _ => Ok(Some(out)),
    }
}

const STDOUT_NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Writes `bytes` to the path that a person named. A link still leads to its file, a file keeps its mode, and
/// only the owner can read a new file. A path in the project stays there, because the project's links are not
/// the person's.
pub fn write_out(project: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let target = resolve_links(path);
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = folder.canonicalize().map_err(|error| write_error(path, error))?;
    let target = real.join(target.file_name().unwrap_or_default());
    let below = target.strip_prefix(project).ok().and_then(Path::to_str);
    if let Some(below) = below {
        let project = open_folder(project)?;
        let written = match target.symlink_metadata() {
            Ok(_) => project.replace(below, bytes),
            Err(_) => project.write(below, bytes, PRIVATE),
        };
        return Ok(written?);
    }
    check_stays_inside(project, path, &target)?;
    let write = || -> io::Result<()> {
        let file = write_temporary(&target, bytes)?;
        if let Ok(old) = target.metadata() {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.persist(&target)?;
        Ok(())
    };
    write().map_err(|error| write_error(path, error))
}

/// Checks that a path in the project does not lead out of it: the project's links are not those of the person
/// who named the path.
pub fn check_stays_inside(project: &Path, path: &Path, real: &Path) -> Result<()> {
    if !path.starts_with(project) || real.starts_with(project) || is_above(project, path, real) {
        return Ok(());
    }
    let message = format!("cannot write `{}`: it leads out of the project", path.display());
    let hint = format!("name `{}` directly if you mean that file", real.display());
    Err(Diagnostic::error(Code::OutputFailed, message).hint(hint).into())
}

/// Checks whether the path itself leads out of the project, by `..`, and no link is on its way.
fn is_above(project: &Path, path: &Path, real: &Path) -> bool {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    let folder = plain.parent().and_then(|folder| folder.canonicalize().ok());
    !plain.starts_with(project) && plain.file_name() == real.file_name() && folder.as_deref() == real.parent()
}

/// Writes a new file of the project, with the folders above it. Follows no link, because a cloned repository
/// may hold links to anywhere.
pub fn write_new(project: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    Ok(open_folder(project)?.create(path, bytes)?)
}

/// Writes a new file in the folder of `target`, so that it can replace `target` in one step.
fn write_temporary(target: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut file =
        tempfile::Builder::new().permissions(Permissions::from_mode(PRIVATE)).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Returns the final target of `path`, whether it exists or not.
fn resolve_links(path: &Path) -> PathBuf {
    // As many as the system itself follows.
    const MOST_LINKS: usize = 40;
    let mut end = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let Ok(next) = end.read_link() else { break };
        end = end.parent().unwrap_or(Path::new(".")).join(next);
    }
    end
}

fn write_error(path: &Path, error: io::Error) -> Error {
    let message = format!("cannot write `{}`: {error}", path.display());
    Error::new(Diagnostic::error(Code::OutputFailed, message), error)
}
