//! A copy of a project in a folder of its own, for a program that must not touch the project.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::folder::WritableFolder;
use crate::disk::read::read_file;
use crate::git::{Git, GitError, lossy_text};

/// The most files of a copy.
const MOST_FILES: usize = 100_000;

/// The most bytes of a copy.
const MOST_BYTES: u64 = 1 << 30;

/// The longest name of a branch that is read.
const MOST_HEAD: u64 = 4096;

/// Copies a project into the empty folder `to`: the files that git tracks or would track, and the files `also`, by path
/// relative to the project. In a repository, the copy has the same commits, branch and index, and shares only the objects,
/// which it reads. Without a repository, all files are copied. Returns the project in the copy.
pub fn copy_project(project: &Path, to: &Path, also: &[String]) -> Result<PathBuf, GitError> {
    let fail = |why: String| GitError::new("copy", why);
    let canonical =
        |path: &Path| path.canonicalize().map_err(|error| fail(format!("`{}`: {error}", path.display())));
    let (project, to) = (canonical(project)?, canonical(to)?);
    let git = Git::open(&project)?;
    let top = git.as_ref().map_or(Ok(project.clone()), |git| canonical(git.top()))?;
    let below = project.strip_prefix(&top).map(Path::to_owned).unwrap_or_default();
    let mut paths = match &git {
        Some(git) => list_git_files(git)?,
        None => list_all_files(&top, &to).map_err(|error| fail(error.to_string()))?,
    };
    paths.extend(also.iter().filter_map(|path| below.join(path).to_str().map(str::to_owned)));
    if paths.len() > MOST_FILES {
        return Err(fail(format!("the project has more than {MOST_FILES} files")));
    }
    let open = |path: &Path| {
        WritableFolder::open(path).map_err(|error| fail(format!("`{}`: {error}", path.display())))
    };
    let (from, folder) = (open(&top)?, open(&to)?);
    let mut left = MOST_BYTES;
    for path in &paths {
        // Submodules, special files, and files that are gone by now are not part of the copy.
        let Ok(meta) = top.join(path).symlink_metadata() else { continue };
        if !meta.is_file() && !meta.is_symlink() {
            continue;
        }
        left = left.checked_sub(meta.len()).ok_or_else(|| fail("the project has more than 1 GiB".into()))?;
        folder.copy(path, &from, path).map_err(|error| fail(error.to_string()))?;
    }
    if let Some(git) = &git {
        copy_repository(git, &to, &folder)?;
    }
    if let Some(inner) = below.to_str().filter(|inner| !inner.is_empty()) {
        folder.create_folder(inner, 0o700).map_err(|error| fail(error.to_string()))?;
    }
    // Without the slash that joining an empty path adds.
    Ok(to.join(&below).components().collect())
}

/// Returns the files that git tracks or would track, from the top.
fn list_git_files(git: &Git) -> Result<BTreeSet<String>, GitError> {
    let mut paths = BTreeSet::new();
    for kinds in [&["ls-files", "-z"][..], &["ls-files", "-z", "--others", "--exclude-standard"]] {
        let listed = git.run_checked(kinds, "")?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        paths.extend(names.filter_map(|name| std::str::from_utf8(name).ok()).map(str::to_owned));
    }
    Ok(paths)
}

/// Returns all files below a folder, except those below `not`.
fn list_all_files(top: &Path, not: &Path) -> io::Result<BTreeSet<String>> {
    let (mut paths, mut folders) = (BTreeSet::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(top.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if top.join(&path) != not {
                    folders.push(path);
                }
            } else if let Some(path) = path.to_str() {
                paths.insert(path.to_owned());
            }
            if paths.len() + folders.len() > MOST_FILES {
                return Err(io::Error::other(format!("the folder has more than {MOST_FILES} files")));
            }
        }
    }
    Ok(paths)
}

/// Makes a repository in `to` with the commits, references, branch and index of `git`. Its settings are not taken over: they
/// may name programs.
fn copy_repository(git: &Git, to: &Path, folder: &WritableFolder) -> Result<(), GitError> {
    let fail = |why: String| GitError::new("copy", why);
    let write = |path: &str, text: &str| {
        folder.write(path, text.as_bytes(), 0o600).map_err(|error| fail(error.to_string()))
    };
    let objects = git.common_dir().join("objects");
    let objects = objects.to_str().filter(|path| !path.contains(['\n', '"']));
    let objects =
        objects.ok_or_else(|| fail("the path of the repository contains a quote or a line end".into()))?;
    let line = |args: &[&str]| git.run_for_line(args, "").unwrap_or_default();
    let head = read_file(&git.git_dir().join("HEAD"), MOST_HEAD).ok().flatten().unwrap_or_default();
    let head = head.trim();
    let is_name = |name: &str| name.starts_with("refs/") && !name.contains(char::is_whitespace);
    let is_id = |id: &str| !id.is_empty() && id.chars().all(|c| c.is_ascii_hexdigit());
    if !head.strip_prefix("ref: ").map_or_else(|| is_id(head), is_name) {
        return Err(fail("the repository has no branch that can be copied".into()));
    }
    let listed = git.run_checked(&["for-each-ref", "--format=%(objectname) %(refname)"], "")?;
    let refs: BTreeSet<String> = lossy_text(&listed).lines().map(str::to_owned).collect();
    let mut refs: Vec<&str> = refs.iter().map(String::as_str).collect();
    refs.sort_by_key(|line| line.split_once(' ').map_or("", |(_, name)| name));
    let format = line(&["rev-parse", "--show-object-format"]);
    let sha256 = "\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n";
    let version = if format == "sha256" { sha256 } else { "\trepositoryformatversion = 0\n" };
    write(".git/config", &format!("[core]\n\tbare = false\n{version}"))?;
    write(".git/HEAD", &format!("{head}\n"))?;
    let packed = refs.iter().map(|line| format!("{line}\n")).collect::<String>();
    write(".git/packed-refs", &format!("# pack-refs with: sorted \n{packed}"))?;
    write(".git/objects/info/alternates", &format!("{objects}\n"))?;
    folder.create_folder(".git/refs/heads", 0o700).map_err(|error| fail(error.to_string()))?;
    git.copy_index(&to.join(".git/index")).map_err(|error| fail(error.to_string()))?;
    Ok(())
}
