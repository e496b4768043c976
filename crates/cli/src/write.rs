//! Writing files: whole or not at all, and never where nobody asked for it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diag, Failure};
use tempfile::NamedTempFile;

/// Puts `bytes` where a person wants them. A link keeps leading to its file, a file keeps its mode, and what
/// is no file (a device, a FIFO) is written into.
pub(crate) fn write_out(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let old = path.metadata().ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            return OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
        let target = end_of_links(path);
        let file = beside(&target, bytes)?;
        if let Some(old) = old {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.persist(target)?;
        Ok(())
    };
    write().map_err(|error| failed(path, "written", &error))
}

/// Writes a file of the project that was not there, with the folders above it. A repository that was cloned
/// may hold links to anywhere: none of them is followed out of it.
pub(crate) fn write_new(project: &Path, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    let target = project.join(path);
    let folder = target.parent().unwrap_or(project);
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(project);
    let real = |path: &Path| path.canonicalize().map_err(|error| failed(&target, "written", &error));
    if !real(there)?.starts_with(real(project)?) {
        let message = format!("`{path}` could not be written: its folder leads out of the project");
        return Err(Diag::error(Code::OutputFailed, message).looked([real(there)?.display()]).into());
    }
    fs::create_dir_all(folder).map_err(|error| failed(folder, "made", &error))?;
    let file = beside(&target, bytes);
    let written = file.and_then(|file| Ok(file.persist_noclobber(&target)?));
    written.map(drop).map_err(|error| failed(&target, "written", &error))
}

/// A new file with these bytes in the folder of `target`, so that it can take its place in one step.
fn beside(target: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // What any program gives a new file; the umask takes its part.
    let usual = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(usual).tempfile_in(folder)?;
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

fn failed(path: &Path, done: &str, error: &io::Error) -> Failure {
    Diag::error(Code::OutputFailed, format!("`{}` could not be {done}: {error}", path.display())).into()
}
