//! Paths to read first: those of the request and of its documents.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Maker, limited};
use crate::compose::Composer;
use crate::diag::{Code, Diag};
use crate::fill::Row;
use crate::prompt::Trust;
use crate::request::{Document, DocumentKind};
use crate::source::{Root, SourceId};

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

/// The paths of the request and of its documents. Too many: those that the request names, then entry files, then the
/// directories of the rest with how many are in each.
pub(super) fn read_first(c: &mut Composer<'_>, name: &str, limit: usize) -> Vec<Row> {
    let request = c.request;
    let listed = |document: &&Document| document.kind != DocumentKind::Thought && c.lists_path(document);
    let documents: Vec<&String> =
        request.documents.iter().filter(listed).filter_map(|document| document.path.as_ref()).collect();
    let mut seen = BTreeSet::new();
    let mut plain = |c: &mut Composer<'_>, path: &String| match SourceId::new(Root::Project, path) {
        Ok(id) => {
            let folder = if path.ends_with('/') { "/" } else { "" };
            // However it is spelled, it is one path.
            Some(format!("{}{folder}", id.path())).filter(|path| seen.insert(path.clone()))
        }
        Err(why) => {
            let message = format!("`{path}` cannot be read first: {why}");
            c.errors.push(Diag::error(Code::RequestBad, message).hint("paths are relative to the worktree"));
            None
        }
    };
    let mut named: Vec<String> = request.read_first.iter().filter_map(|path| plain(c, path)).collect();
    let mut others: Vec<String> = documents.into_iter().filter_map(|path| plain(c, path)).collect();
    let mut make = Maker { name: name.into(), trust: Trust::Person, lines: true };
    if named.len() + others.len() <= limit {
        named.append(&mut others);
        return named.into_iter().map(|path| make.row(c, "path", [("path", path.into())])).collect();
    }
    if named.len() > limit {
        // There is no room for all that was named, so none of it is dearer than the rest.
        named.append(&mut others);
        core::mem::swap(&mut named, &mut others);
    }
    let is_entry = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        path.ends_with('/') || ENTRY_FILES.contains(&file.as_str())
    };
    let (mut entries, others): (Vec<String>, Vec<String>) = others.into_iter().partition(is_entry);
    named.append(&mut entries);
    let mut rows: Vec<Row> =
        named.iter().map(|path| make.row(c, "path", [("path", path.as_str().into())])).collect();
    let mut folders: Vec<(String, usize)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    // What lies in a folder that is named is named with it.
    let is_named =
        |path: &String| named.iter().any(|named| named.ends_with('/') && path.starts_with(named.as_str()));
    for path in others.iter().filter(|path| !is_named(path)) {
        let folder = path.rsplit_once('/').map_or("./".to_string(), |(folder, _)| format!("{folder}/"));
        let place = *places.entry(folder.clone()).or_insert(folders.len());
        match folders.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => folders.push((folder, 1)),
        }
    }
    for (folder, count) in folders {
        rows.push(make.row(c, "dir", [("path", folder.into()), ("count", count.to_string().into())]));
    }
    limited(c, &mut make, rows, limit)
}
