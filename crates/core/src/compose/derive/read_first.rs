//! Paths to read first: those of the request and those of its documents.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{RowBuilder, limit_rows};
use crate::compose::Composer;
use crate::compose::fill::DerivedRow;
use crate::diag::{Code, Diagnostic};
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
/// rest, each with its count of files.
pub(super) fn read_first_rows(c: &mut Composer<'_>, name: &str, limit: usize) -> Vec<DerivedRow> {
    let request = c.request;
    let listed =
        |document: &&RequestDocument| document.kind != DocumentKind::Thought && c.is_path_listed(document);
    let documents: Vec<&String> =
        request.documents.iter().filter(listed).filter_map(|document| document.path.as_ref()).collect();
    let mut seen = BTreeSet::new();
    let mut plain = |c: &mut Composer<'_>, path: &String| match SourceId::new(SourceRoot::Project, path) {
        Ok(id) => {
            let folder = if path.ends_with('/') { "/" } else { "" };
            // Different spellings of a path are one path.
            Some(format!("{}{folder}", id.path())).filter(|path| seen.insert(path.clone()))
        }
        Err(why) => {
            let message = format!("`{path}` cannot be read first: {why}");
            c.errors.push(
                Diagnostic::error(Code::RequestBad, message).hint("paths are relative to the worktree"),
            );
            None
        }
    };
    let mut named: Vec<String> = request.read_first.iter().filter_map(|path| plain(c, path)).collect();
    let mut others: Vec<String> = documents.into_iter().filter_map(|path| plain(c, path)).collect();
    let mut make = RowBuilder { name: name.into(), trust: Trust::Person, lines: true };
    if named.len() + others.len() <= limit {
        named.append(&mut others);
        return named.into_iter().map(|path| make.row(c, "path", [("path", path.into())])).collect();
    }
    let named_folders: BTreeSet<String> =
        named.iter().map(|path| path.trim_end_matches('/').to_string()).collect();
    let lies_in_named =
        |path: &String| path.match_indices('/').any(|(end, _)| named_folders.contains(&path[..end]));
    if named.len() > limit {
        // The limit does not hold all named paths, so none of them takes precedence over the rest.
        named.append(&mut others);
        core::mem::swap(&mut named, &mut others);
    } else {
        // A named folder covers the paths inside it.
        others.retain(|path| !lies_in_named(path));
    }
    let parent =
        |path: &str| path.rsplit_once('/').map_or("./".to_string(), |(folder, _)| format!("{folder}/"));
    let parents: BTreeSet<String> =
        others.iter().filter(|path| !path.ends_with('/')).map(|path| parent(path)).collect();
    let is_entry = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        ENTRY_FILES.contains(&file.as_str()) || path.ends_with('/') && !parents.contains(path)
    };
    let (mut entries, others): (Vec<String>, Vec<String>) = others.into_iter().partition(is_entry);
    named.append(&mut entries);
    let mut rows: Vec<DerivedRow> =
        named.iter().map(|path| make.row(c, "path", [("path", path.as_str().into())])).collect();
    let mut folders: Vec<(String, usize)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for path in &others {
        let itself = format!("{}/", path.trim_end_matches('/'));
        let is_folder = path.ends_with('/') || parents.contains(&itself);
        let folder = if is_folder { itself } else { parent(path) };
        let place = *places.entry(folder.clone()).or_insert(folders.len());
        if place == folders.len() {
            folders.push((folder, 0));
        }
        folders[place].1 += usize::from(!is_folder);
    }
    for (folder, count) in folders {
        let count = (count > 0).then(|| count.to_string());
        rows.push(match count {
            Some(count) => make.row(c, "dir", [("path", folder.into()), ("count", count.into())]),
            None => make.row(c, "path", [("path", folder.into())]),
        });
    }
    limit_rows(c, &mut make, rows, limit)
}
