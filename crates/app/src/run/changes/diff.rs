//! The changes of a run as a patch that git can apply, and the differences between two attempts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use callsheet_core::record::{FileChange, FileMode, FileVersion, OmittedContents};
use similar::{ChangeTag, TextDiff};

use super::KeptChanges;

/// The changes of one file.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileDiff {
    /// The path after the change, or before it if the file was removed.
    pub path: String,
    /// The path before the change, if it is another one.
    pub from: Option<String>,
    /// The kind of the file before the change; `None` if it did not exist.
    pub mode_before: Option<FileMode>,
    /// The kind of the file after the change; `None` if it does not exist.
    pub mode_after: Option<FileMode>,
    /// The changed lines.
    pub body: PatchBody,
}

/// The changed lines of a file.
#[derive(Debug)]
pub enum PatchBody {
    /// The lines as a unified diff; empty if only the path or the mode changed.
    Lines {
        /// The hunks.
        hunks: String,
        /// The number of added lines.
        added: usize,
        /// The number of removed lines.
        removed: usize,
    },
    /// The contents are not kept.
    Omitted(OmittedContents),
}

impl FileDiff {
    /// Returns the numbers of added and removed lines, if they are known.
    pub fn line_counts(&self) -> Option<(usize, usize)> {
        match &self.body {
            PatchBody::Lines { added, removed, .. } => Some((*added, *removed)),
            PatchBody::Omitted(_) => None,
        }
    }

    /// Returns the header of the patch, as git writes it.
    pub fn header(&self) -> String {
        let old = self.from.as_deref().unwrap_or(&self.path);
        let [a, b] = [format!("a/{old}"), format!("b/{}", self.path)].map(|path| quote_path(&path));
        let mut head = format!("diff --git {a} {b}\n");
        match (self.mode_before, self.mode_after) {
            (None, Some(mode)) => head += &format!("new file mode {}\n", git_mode(mode)),
            (Some(mode), None) => head += &format!("deleted file mode {}\n", git_mode(mode)),
            (Some(old), Some(new)) if old != new => {
                head += &format!("old mode {}\nnew mode {}\n", git_mode(old), git_mode(new));
            }
            _ => {}
        }
        if let Some(from) = &self.from {
            let [from, to] = [from, &self.path].map(|path| quote_path(path));
            head += &format!("similarity index 100%\nrename from {from}\nrename to {to}\n");
        }
        if matches!(&self.body, PatchBody::Lines { hunks, .. } if !hunks.is_empty()) {
            let [old, new] = [(self.mode_before, &a), (self.mode_after, &b)]
                .map(|(mode, path)| mode.map_or("/dev/null", |_| path.as_str()));
            head += &format!("--- {old}\n+++ {new}\n");
        }
        head
    }

    /// Returns the patch: the header and the hunks, or why there are none.
    pub fn patch(&self) -> String {
        match &self.body {
            PatchBody::Lines { hunks, .. } => self.header() + hunks,
            PatchBody::Omitted(why) => format!("{}# not shown: {}\n", self.header(), why.reason()),
        }
    }
}

const fn git_mode(mode: FileMode) -> &'static str {
    match mode {
        FileMode::Plain => "100644",
        FileMode::Executable => "100755",
        FileMode::Link => "120000",
    }
}

/// Quotes a path as git does, if it has to be quoted.
fn quote_path(path: &str) -> String {
    if !path.chars().any(|sign| sign.is_control() || matches!(sign, '"' | '\\')) {
        return path.to_owned();
    }
    let mut quoted = String::from('"');
    for sign in path.chars() {
        match sign {
            '"' | '\\' => quoted.extend(['\\', sign]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            sign if sign.is_control() => {
                let mut bytes = [0; 4];
                sign.encode_utf8(&mut bytes).bytes().for_each(|byte| {
                    let _ = write!(quoted, "\\{byte:03o}");
                });
            }
            sign => quoted.push(sign),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the changes of a run, file by file. A removed file and a new one with the same contents are one renamed file.
pub fn diff_files(changes: &KeptChanges) -> Vec<FileDiff> {
    let key = |version: &FileVersion| Some((version.sha256?, version.mode));
    let mut removed: BTreeMap<_, Vec<&FileChange>> = BTreeMap::new();
    for file in changes.files.iter().rev() {
        if let (Some(key), None) = (file.before.as_ref().and_then(key), &file.after) {
            removed.entry(key).or_default().push(file);
        }
    }
    let mut moved = BTreeMap::new();
    for file in &changes.files {
        if let (None, Some(key)) = (&file.before, file.after.as_ref().and_then(key))
            && let Some(old) = removed.get_mut(&key).and_then(Vec::pop)
        {
            moved.insert(file.path.as_str(), old);
        }
    }
    let left: Vec<&str> = moved.values().map(|file| file.path.as_str()).collect();
    let shown = changes.files.iter().filter(|file| !left.contains(&file.path.as_str()));
    let diff = |file: &FileChange| match moved.get(file.path.as_str()) {
        Some(old) => diff_versions(
            &file.path,
            (Some(&old.path), old.before.as_ref(), changes),
            (file.after.as_ref(), changes),
        ),
        None => {
            diff_versions(&file.path, (None, file.before.as_ref(), changes), (file.after.as_ref(), changes))
        }
    };
    shown.map(diff).collect()
}

/// Returns the differences between the results of two runs: of every file that one of them changed, what the second left
/// instead of what the first left. A file that only one of them changed is compared with its contents before that run.
pub fn diff_runs(from: &KeptChanges, to: &KeptChanges) -> Vec<FileDiff> {
    let mut paths: Vec<&str> = from.files.iter().chain(&to.files).map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let find = |changes: &'_ KeptChanges, path: &str| changes.files.iter().position(|file| file.path == path);
    let mut all = Vec::new();
    for path in paths {
        let (old, new) = match (find(from, path), find(to, path)) {
            (Some(old), Some(new)) => {
                ((from.files[old].after.as_ref(), from), (to.files[new].after.as_ref(), to))
            }
            (Some(old), None) => {
                ((from.files[old].after.as_ref(), from), (from.files[old].before.as_ref(), from))
            }
            (None, Some(new)) => ((to.files[new].before.as_ref(), to), (to.files[new].after.as_ref(), to)),
            (None, None) => continue,
        };
        if old.0.map(|version| (version.mode, version.sha256))
            != new.0.map(|version| (version.mode, version.sha256))
        {
            all.push(diff_versions(path, (None, old.0, old.1), new));
        }
    }
    all
}

fn diff_versions(
    path: &str,
    (from, before, old): (Option<&String>, Option<&FileVersion>, &KeptChanges),
    (after, new): (Option<&FileVersion>, &KeptChanges),
) -> FileDiff {
    let text = |version: Option<&FileVersion>, changes: &KeptChanges| match version {
        None => Ok(String::new()),
        Some(version) => changes
            .text(version)
            .map(str::to_owned)
            .ok_or(version.omitted.unwrap_or(OmittedContents::Unknown)),
    };
    let is_same = before.zip(after).is_some_and(|(a, b)| a.sha256.is_some() && a.sha256 == b.sha256);
    let body = match (text(before, old), text(after, new)) {
        _ if is_same => PatchBody::Lines { hunks: String::new(), added: 0, removed: 0 },
        (Ok(before), Ok(after)) => diff_texts(&before, &after),
        (Err(why), _) | (_, Err(why)) => PatchBody::Omitted(why),
    };
    FileDiff {
        path: path.to_owned(),
        from: from.cloned(),
        mode_before: before.map(|version| version.mode),
        mode_after: after.map(|version| version.mode),
        body,
    }
}

/// How many unchanged lines surround a change.
const CONTEXT: usize = 3;

fn diff_texts(before: &str, after: &str) -> PatchBody {
    // Git ends a line at a newline alone, and `similar` also at a carriage return.
    let [old, new] = [before, after].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let diff = TextDiff::from_slices(&old, &new);
    let (mut added, mut removed, mut hunks) = (0, 0, String::new());
    for group in diff.grouped_ops(CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |start: usize, end: usize| match end - start {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            length => format!("{},{length}", start + 1),
        };
        let old_range = range(first.old_range().start, last.old_range().end);
        let new_range = range(first.new_range().start, last.new_range().end);
        hunks += &format!("@@ -{old_range} +{new_range} @@\n");
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            added += usize::from(change.tag() == ChangeTag::Insert);
            removed += usize::from(change.tag() == ChangeTag::Delete);
            let line = change.value();
            hunks.push(sign);
            hunks += line;
            if !line.ends_with('\n') {
                hunks += "\n\\ No newline at end of file\n";
            }
        }
    }
    PatchBody::Lines { hunks, added, removed }
}
