//! Takes the changes of a run back, or applies them to another checkout.
//!
//! Everything is compared before the first file is written: a file that is neither as expected nor already right is a
//! conflict, and then nothing is written.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::record::{FileChange, FileMode, FileVersion, Id, OmittedContents};
use callsheet_core::request::scope::Scope;
use callsheet_run::{FoundFile, Git, WritableFolder};
use callsheet_store::new_id;
use schemars::JsonSchema;
use serde::Serialize;

use super::{KeptChanges, RunChanges};
use crate::error::Result;
use crate::paths::shell_word;
use crate::project::Project;
use crate::project::state::path_error;
use crate::run::claim::{ClaimRequest, claim_checkout};

/// The result of taking back or applying the changes of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The run.
    pub run: Id,
    /// The checkout.
    pub dir: PathBuf,
    /// The files of the run.
    pub files: Vec<RestoredFile>,
}

/// A file that was taken back or applied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RestoredFile {
    /// The path.
    pub path: String,
    /// Whether it was written or removed; `false` if it was right already.
    pub written: bool,
    /// Whether it exists now.
    pub exists: bool,
}

/// The largest file that is compared by its bytes; a larger one by its digest.
const MOST_FILE: u64 = 1 << 20;

impl Project {
    /// Takes the changes of a run back, of all files or of those with these paths, where it worked; in this project if its
    /// worktree is gone. Writes nothing unless every file still is as the run left it.
    pub fn revert_changes(&self, name: &str, paths: &[String]) -> Result<RestoreReport> {
        let mut ledger = self.read_ledger()?;
        let mut changes = self.run_changes(&mut ledger, name)?;
        changes.keep_only(paths)?;
        let launch = changes.summary.launch.as_ref().filter(|_| !changes.summary.imported);
        let worktree = launch.map(|launch| PathBuf::from(&launch.worktree)).filter(|path| path.is_dir());
        restore(&changes, worktree.as_ref().unwrap_or(&self.dir), RestoreDirection::Back)
    }

    /// Applies the changes of a run to this project, all files or those with these paths. Writes nothing unless every file is
    /// as it was before the run.
    pub fn apply_changes(&self, name: &str, paths: &[String]) -> Result<RestoreReport> {
        let mut ledger = self.read_ledger()?;
        let mut changes = self.run_changes(&mut ledger, name)?;
        changes.keep_only(paths)?;
        restore(&changes, &self.dir, RestoreDirection::Forth)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RestoreDirection {
    Back,
    Forth,
}

impl RestoreDirection {
    /// Returns what a file must be now.
    fn expected(self, file: &FileChange) -> Option<&FileVersion> {
        if self == Self::Back { file.after.as_ref() } else { file.before.as_ref() }
    }

    /// Returns what a file becomes.
    fn wanted(self, file: &FileChange) -> Option<&FileVersion> {
        if self == Self::Back { file.before.as_ref() } else { file.after.as_ref() }
    }
}

fn restore(changes: &RunChanges, dir: &Path, direction: RestoreDirection) -> Result<RestoreReport> {
    let run = changes.summary.run.id.clone();
    let dir = dir.canonicalize().map_err(|error| path_error(dir, error))?;
    let id = new_id().ok_or_else(|| refused("cannot generate an id".into()))?;
    let scope = Scope::default();
    let claim = claim_checkout(&ClaimRequest { id: &id, flow: None, dir: &dir, scope: &scope, share: None })?;
    let git = Git::open(&dir).ok().flatten();
    let top = git.and_then(|git| git.top().canonicalize().ok()).unwrap_or_else(|| dir.clone());
    let below = dir.strip_prefix(&top).map(Path::to_owned).unwrap_or_default();
    let folder = WritableFolder::open(&top).map_err(|error| path_error(&top, error))?;
    let (files, problems) = restore_files(&changes.kept, &folder, &below, direction)?;
    drop(claim);
    if problems.is_empty() {
        return Ok(RestoreReport { run, dir, files });
    }
    let command = if direction == RestoreDirection::Back { "revert" } else { "apply" };
    let rest: Vec<String> = files.iter().map(|file| shell_word(&file.path)).collect();
    let hint = match rest.is_empty() {
        true => "nothing was written".to_owned(),
        false => {
            format!(
                "nothing was written; run `callsheet {command} {run} -- {}` for the others",
                rest.join(" ")
            )
        }
    };
    let mut problems = problems;
    let last = problems.pop().map(|problem| problem.hint(hint));
    problems.extend(last);
    Err(Diagnostics(problems).into())
}

fn refused(message: String) -> Diagnostic {
    Diagnostic::error(Code::RunRefused, message)
}

/// Writes the files, unless one of them has a problem. Returns the files without problems, and the problems.
fn restore_files(
    changes: &KeptChanges,
    folder: &WritableFolder,
    below: &Path,
    direction: RestoreDirection,
) -> Result<(Vec<RestoredFile>, Vec<Diagnostic>)> {
    let (mut problems, mut restored, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for file in &changes.files {
        match plan_file(changes, file, folder, below, direction) {
            Ok(planned) => {
                let (written, exists) = (planned.is_some(), direction.wanted(file).is_some());
                restored.push(RestoredFile { path: file.path.clone(), written, exists });
                writes.extend(planned);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let removed: BTreeSet<&str> =
        writes.iter().filter(|(_, file)| file.is_none()).map(|(path, _)| path.as_str()).collect();
    for (path, _) in writes.iter().filter(|(_, file)| file.is_some()) {
        if let Some(other) = folder.find_file_below(path, &removed) {
            problems.push(refused(format!("cannot restore `{path}`: it is a folder now, with `{other}`")));
        }
    }
    if problems.is_empty() {
        let writes: Vec<_> = writes
            .iter()
            .map(|(path, file)| (path.clone(), file.as_ref().map(|(mode, bytes)| (*mode, &bytes[..]))))
            .collect();
        folder.put_files(&writes).map_err(|error| refused(error.to_string()))?;
    }
    Ok((restored, problems))
}

/// A file with its new kind and contents; without any if it is removed.
type PlannedFile<'c> = (String, Option<(FileMode, Cow<'c, [u8]>)>);

/// Returns how a file has to be written; `None` if it is right already.
fn plan_file<'c>(
    changes: &'c KeptChanges,
    file: &'c FileChange,
    folder: &WritableFolder,
    below: &Path,
    direction: RestoreDirection,
) -> std::result::Result<Option<PlannedFile<'c>>, Diagnostic> {
    let (expected, wanted) = (direction.expected(file), direction.wanted(file));
    let path = path_below(below, &file.path)
        .ok_or_else(|| refused(format!("`{}` is outside of the worktree", file.path)))?;
    let now = folder.look(&path, MOST_FILE).map_err(|error| refused(error.to_string()))?;
    if is_version(now.as_ref(), wanted) {
        return Ok(None);
    }
    if !is_version(now.as_ref(), expected) {
        return Err(conflict(&file.path, now.as_ref(), expected, direction));
    }
    let Some(version) = wanted else { return Ok(Some((path, None))) };
    // A file of which only the mode changed has its contents already.
    let present = now.filter(|now| now.sha256 == version.sha256).and_then(|now| now.bytes);
    let bytes = match (changes.text(version), present) {
        (Some(text), _) => Cow::Borrowed(text.as_bytes()),
        (None, Some(bytes)) => Cow::Owned(bytes),
        (None, None) => {
            let why = version.omitted.unwrap_or(OmittedContents::Unknown).reason();
            let message = format!("the contents of `{}` are not kept: {why}", file.path);
            return Err(refused(message));
        }
    };
    Ok(Some((path, Some((version.mode, bytes)))))
}

/// Returns the path below the top of the repository; `None` if it leads elsewhere, or into the repository itself.
fn path_below(below: &Path, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = below.to_str()?.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => return None,
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let is_safe = !parts.is_empty() && parts.iter().all(|part| !part.eq_ignore_ascii_case(".git"));
    is_safe.then(|| parts.join("/"))
}

fn is_version(now: Option<&FoundFile>, version: Option<&FileVersion>) -> bool {
    match (now, version) {
        (None, None) => true,
        (Some(now), Some(version)) => {
            now.mode == version.mode && now.sha256.is_some() && now.sha256 == version.sha256
        }
        _ => false,
    }
}

fn conflict(
    path: &str,
    now: Option<&FoundFile>,
    expected: Option<&FileVersion>,
    direction: RestoreDirection,
) -> Diagnostic {
    let what = match (now, expected) {
        (None, _) => "does not exist any more".to_owned(),
        (Some(_), None) => "exists again".to_owned(),
        (Some(now), Some(expected)) if now.sha256 == expected.sha256 => {
            let word = |mode: FileMode| mode.name();
            format!("is {} instead of {}", word(now.mode), word(expected.mode))
        }
        (Some(_), Some(expected)) if expected.sha256.is_none() => {
            return refused(format!("cannot compare `{path}`: the contents that it had are not known"));
        }
        (Some(_), Some(_)) => "was edited".to_owned(),
    };
    let since = match direction {
        RestoreDirection::Back => "after the run",
        RestoreDirection::Forth => "and is not as it was before the run",
    };
    refused(format!("`{path}` {what} {since}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::Arc;

    use callsheet_core::record::Event;
    use callsheet_core::secrets::{SecretRedactor, SecretRules};
    use callsheet_run::{OwnFiles, WorktreeSnapshot};

    use super::*;

    /// Numbers that look random and are the same in every run.
    struct TestRng(u64);

    impl TestRng {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % most
        }
    }

    /// A tree: the kind and the contents of each file.
    type Tree = BTreeMap<String, (FileMode, Vec<u8>)>;

    const NAMES: [&str; 9] = ["a", "b", "c", "d/a", "d/b", "d/e/a", "a/x", "ä ö", "-n"];

    fn random_tree(rng: &mut TestRng) -> Tree {
        let mut tree = Tree::new();
        for name in NAMES {
            // A name is a file or a folder.
            let clashes = tree.keys().any(|known| {
                known.starts_with(&format!("{name}/")) || name.starts_with(&format!("{known}/"))
            });
            if clashes || rng.below(2) == 0 {
                continue;
            }
            tree.insert(name.into(), random_file(rng));
        }
        tree
    }

    fn random_file(rng: &mut TestRng) -> (FileMode, Vec<u8>) {
        let contents: &[&[u8]] =
            &[b"", b"one\n", b"one\ntwo", b"one\r\ntwo\r\n", b"x\0y", b"\xff\xfe", "ä\n".as_bytes()];
        let bytes = contents[rng.below(contents.len())].to_vec();
        match rng.below(4) {
            0 => (FileMode::Executable, bytes),
            1 => (FileMode::Link, b"a".to_vec()),
            _ => (FileMode::Plain, bytes),
        }
    }

    /// Changes some files of a tree: other contents, other modes, removed, moved, new.
    fn change_tree(tree: &Tree, rng: &mut TestRng) -> Tree {
        let other = random_tree(rng);
        let mut changed = Tree::new();
        for name in NAMES {
            let file = match rng.below(3) {
                0 => tree.get(name).cloned(),
                1 => other.get(name).cloned(),
                _ => tree.values().nth(rng.below(NAMES.len())).cloned(),
            };
            let clashes = |known: &String| {
                known.starts_with(&format!("{name}/")) || name.starts_with(&format!("{known}/"))
            };
            if let Some(file) = file.filter(|_| !changed.keys().any(clashes)) {
                changed.insert(name.into(), file);
            }
        }
        changed
    }

    fn write_tree(root: &Path, tree: &Tree) {
        for entry in
            fs::read_dir(root).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != ".git")
        {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(path).unwrap()
            } else {
                fs::remove_file(path).unwrap()
            }
        }
        for (name, (mode, bytes)) in tree {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if *mode == FileMode::Link {
                symlink(std::str::from_utf8(bytes).unwrap(), &path).unwrap();
                continue;
            }
            fs::write(&path, bytes).unwrap();
            let bits = if *mode == FileMode::Executable { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        }
    }

    fn read_tree(folder: &WritableFolder) -> Tree {
        let file = |name: &&str| {
            let found = folder.look(name, MOST_FILE).unwrap()?;
            Some(((*name).to_owned(), (found.mode, found.bytes.unwrap())))
        };
        NAMES.iter().filter_map(file).collect()
    }

    fn git(root: &Path, args: &[&str]) {
        let done = std::process::Command::new("git").current_dir(root).args(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    /// What a run changed from one tree to another, as it is recorded and read again.
    fn observe(root: &Path, from: &Tree, to: &Tree, rules: &SecretRules) -> KeptChanges {
        write_tree(root, from);
        let copies = tempfile::tempdir().unwrap();
        let before = WorktreeSnapshot::take(root, &OwnFiles::default(), &Arc::default()).unwrap();
        before.copy_uncommitted(copies.path()).unwrap();
        write_tree(root, to);
        let seen = before.diff(&Scope::default(), &[]);
        let found = before.read_contents(&seen.changed, copies.path());
        let (changed, texts) = super::super::keep::keep_contents(found, &mut SecretRedactor::new(rules));
        let Ok(Event::ChangedContents(read)) =
            Event::read("changed", &Event::ChangedContents(changed.clone()).payload().unwrap())
        else {
            panic!("the record cannot be read")
        };
        assert_eq!(read, changed);
        KeptChanges { files: read.files, texts }
    }

    /// Reverting and applying lead from one tree to the other and back. If the contents of a file are not kept, nothing is
    /// written.
    #[test]
    fn reverted_changes_can_be_applied_again() {
        let cases = if std::env::var_os("CALLSHEET_LONG").is_some() { 100_000 } else { 2_000 };
        let (mut rng, mut reverted) = (TestRng(20), 0);
        let rules = SecretRules::load_shipped().unwrap();
        let plain = tempfile::tempdir().unwrap();
        let repository = tempfile::tempdir().unwrap();
        git(repository.path(), &["init", "--quiet"]);
        for case in 0..cases {
            let mut from = random_tree(&mut rng);
            let mut to = change_tree(&from, &mut rng);
            // Most cases have only text, so that everything is kept.
            if case % 4 != 0 {
                for (_, bytes) in from.values_mut().chain(to.values_mut()) {
                    bytes.retain(|byte| *byte != 0 && *byte < 0x80);
                }
            }
            let has_git = case % 20 == 0;
            let root = if has_git { repository.path() } else { plain.path() };
            if has_git {
                // Some of the files are committed, and some of those are edited afterwards.
                write_tree(root, &random_tree(&mut rng));
                git(root, &["add", "--all"]);
                git(
                    root,
                    &[
                        "-c",
                        "user.name=x",
                        "-c",
                        "user.email=x",
                        "commit",
                        "--quiet",
                        "--allow-empty",
                        "-m",
                        "x",
                    ],
                );
            }
            let changes = observe(root, &from, &to, &rules);
            let folder = WritableFolder::open(&root.canonicalize().unwrap()).unwrap();
            let restore = |direction| restore_files(&changes, &folder, Path::new(""), direction).unwrap();
            assert_eq!(read_tree(&folder), to, "case {case}");
            let (_, problems) = restore(RestoreDirection::Back);
            if !problems.is_empty() {
                assert!(
                    problems.iter().all(|problem| problem.message.contains("are not kept")),
                    "{problems:?}"
                );
                assert_eq!(read_tree(&folder), to, "case {case}: something was written");
                continue;
            }
            reverted += 1;
            assert_eq!(read_tree(&folder), from, "case {case}: reverted");
            if restore(RestoreDirection::Forth).1.is_empty() {
                assert_eq!(read_tree(&folder), to, "case {case}: applied");
            } else {
                assert_eq!(read_tree(&folder), from, "case {case}: something was written");
            }
        }
        assert!(reverted > cases / 2, "only {reverted} cases could be reverted");
    }

    /// A ledger may come from anywhere: its paths lead nowhere but into the worktree.
    #[test]
    fn paths_stay_in_worktree() {
        for path in
            ["../x", "/x", "a/../../x", ".git/hooks/pre-commit", "a/.GIT/config", "", ".", "a//b", "a/./b"]
        {
            assert_eq!(path_below(Path::new(""), path), None, "{path}");
        }
        assert_eq!(path_below(Path::new("below"), "../a/b").as_deref(), Some("a/b"));
        assert_eq!(path_below(Path::new("below"), "a").as_deref(), Some("below/a"));
    }
}
