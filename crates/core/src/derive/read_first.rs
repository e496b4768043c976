//! Paths to read first: those of the request and of its documents.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Maker, distinct, limited};
use crate::compose::Composer;
use crate::diag::{Code, Diag};
use crate::fill::Row;
use crate::prompt::Trust;
use crate::request::DocumentKind;
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

/// The paths of the request and of its documents. Too many: entry files first, then the directories of
/// the rest with how many are in each.
pub(super) fn read_first(c: &mut Composer<'_>, name: &str, limit: usize) -> Vec<Row> {
    let request = c.request;
    let documents = request.documents.iter().filter(|document| document.kind != DocumentKind::Thought);
    let given = request.read_first.iter().chain(documents.filter_map(|document| document.path.as_ref()));
    let mut paths: Vec<String> = Vec::new();
    for path in distinct(given) {
        match SourceId::new(Root::Project, path) {
            Ok(id) => {
                let folder = if path.ends_with('/') { "/" } else { "" };
                paths.push(format!("{}{folder}", id.path()));
            }
            Err(why) => {
                let message = format!("`{path}` cannot be read first: {why}");
                c.errors
                    .push(Diag::error(Code::RequestBad, message).hint("paths are relative to the worktree"));
            }
        }
    }
    let mut make = Maker { name: name.into(), trust: Trust::Person, lines: true };
    if paths.len() <= limit {
        return paths.into_iter().map(|path| make.row(c, "path", [("path", path.into())])).collect();
    }
    let is_entry = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        path.ends_with('/') || ENTRY_FILES.contains(&file.as_str())
    };
    let (entries, others): (Vec<String>, Vec<String>) = paths.into_iter().partition(is_entry);
    let mut rows: Vec<Row> =
        entries.into_iter().map(|path| make.row(c, "path", [("path", path.into())])).collect();
    let mut folders: Vec<(String, usize)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for path in others {
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
