//! Paths to read first: those of the request and those of its documents.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{RowBuilder, add_rest};
use crate::compose::Composer;
use crate::compose::fill::DerivedRow;
use crate::diag::{Code, Diagnostic, push_diagnostic};
use crate::library::recipe::DocumentKind;
use crate::request::RequestDocument;
use crate::source::origin::Trust;
use crate::source::{SourceId, SourceRoot};

/// Names of files that lead to the others.
const ENTRY_FILES: [&str; 14] = [
    "readme.md",
    "readme",
    "index.md",
    "00-index.md",
    "agents.md",
    "claude.md",
    "architecture.md",
    "cargo.toml",
    "package.json",
    "pyproject.toml",
    "go.mod",
    "main.rs",
    "lib.rs",
    "mod.rs",
];

/// Returns rows for the paths of the request and of its documents. If there are more than `limit`: the paths
/// that the request names, unless they alone exceed the limit; then entry files; then the directories of the
/// rest, each with its count of files. There can be a million paths: each is held once, and only the rows that are shown
/// are made.
pub(super) fn read_first_rows(c: &mut Composer<'_>, name: &str, limit: usize) -> Vec<DerivedRow> {
    let request = c.request;
    let listed =
        |document: &&RequestDocument| document.kind != DocumentKind::Thought && c.is_path_listed(document);
    let documents: Vec<&String> =
        request.documents.iter().filter(listed).filter_map(|document| document.path.as_ref()).collect();
    let mut plain = |path| normalize_path(c, path);
    let named: Vec<Cow<'_, str>> = request.read_first.iter().filter_map(&mut plain).collect();
    let others: Vec<Cow<'_, str>> = documents.into_iter().filter_map(plain).collect();
    let mut seen = BTreeSet::new();
    let (mut named, mut others) = (distinct_paths(&named, &mut seen), distinct_paths(&others, &mut seen));
    drop(seen);
    let mut make = RowBuilder { name: name.into(), trust: Trust::Person, lines: true };
    if named.len() + others.len() <= limit {
        named.append(&mut others);
        return named.into_iter().map(|path| make.row(c, "path", [("path", path.into())])).collect();
    }
    if named.len() > limit {
        // The limit does not hold all named paths, so none of them takes precedence over the rest.
        named.append(&mut others);
        core::mem::swap(&mut named, &mut others);
    } else {
        // A named folder covers the paths inside it.
        let folders: BTreeSet<&str> = named.iter().map(|path| path.trim_end_matches('/')).collect();
        others.retain(|path| !path.match_indices('/').any(|(end, _)| folders.contains(&path[..end])));
    }
    let parents: BTreeSet<&str> =
        others.iter().filter(|path| !path.ends_with('/')).map(|path| parent_of(path)).collect();
    let is_entry = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        ENTRY_FILES.contains(&file.as_str()) || path.ends_with('/') && !parents.contains(path)
    };
    let (entries, others): (Vec<&str>, Vec<&str>) = others.into_iter().partition(is_entry);
    named.extend(entries);
    let mut folders: Vec<(&str, usize)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for path in others {
        let itself =
            if path.ends_with('/') { Some(path) } else { parents.get(&*format!("{path}/")).copied() };
        let folder = itself.unwrap_or_else(|| parent_of(path));
        let place = *places.entry(folder).or_insert(folders.len());
        if place == folders.len() {
            folders.push((folder, 0));
        }
        folders[place].1 += usize::from(itself.is_none());
    }
    let rest = (named.len() + folders.len()).saturating_sub(limit);
    let shown = named.into_iter().map(|path| (path, 0)).chain(folders).take(limit);
    let mut rows: Vec<DerivedRow> = shown
        .map(|(path, count)| match count {
            0 => make.row(c, "path", [("path", path.into())]),
            _ => make.row(c, "dir", [("path", path.into()), ("count", count.to_string().into())]),
        })
        .collect();
    add_rest(c, &mut make, &mut rows, rest);
    rows
}

/// Normalizes a path; reports one that cannot be read.
fn normalize_path<'p>(c: &mut Composer<'_>, path: &'p String) -> Option<Cow<'p, str>> {
    match SourceId::new(SourceRoot::Project, path) {
        Ok(id) => {
            let folder = if path.ends_with('/') { "/" } else { "" };
            let usual = format!("{}{folder}", id.path());
            Some(if usual == *path { Cow::Borrowed(path) } else { Cow::Owned(usual) })
        }
        Err(why) => {
            push_diagnostic(&mut c.errors, Code::RequestBad, || {
                let message = format!("cannot read `{path}` first: {why}");
                Diagnostic::error(Code::RequestBad, message).hint("paths are relative to the worktree")
            });
            None
        }
    }
}

/// Returns each path once: different spellings of a path are one path.
fn distinct_paths<'p>(paths: &'p [Cow<'_, str>], seen: &mut BTreeSet<&'p str>) -> Vec<&'p str> {
    paths.iter().map(Cow::as_ref).filter(|path| seen.insert(path)).collect()
}

/// Returns the directory of a file, with the slash at its end.
fn parent_of(path: &str) -> &str {
    path.rfind('/').map_or("./", |end| &path[..=end])
}
