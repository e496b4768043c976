//! Collects the files and remotes that settings name, and the commits that were fetched from these remotes.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Git, GitSetting, find_included, lossy_text, resolve_path};
use crate::disk::read::PathBase;

/// Files and remotes that the settings named when they were read. Names that appear later are not trusted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NamedFiles {
    /// Files of settings, ignore rules and attributes, whether they exist or not.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Folders of hooks.
    pub(crate) folders: BTreeSet<PathBuf>,
    /// The addresses of remotes, as git records them after a fetch.
    remotes: BTreeSet<String>,
}

/// The longest list of fetched commits that is read.
const MOST_FETCHED: u64 = 4 << 20;

impl NamedFiles {
    pub(super) fn from_settings(git: &Git, configured: &[GitSetting]) -> Self {
        let values = |key: &'static str| {
            let values = configured.iter().filter(move |it| it.key == key);
            values.map(|it| normalize_path(&resolve_path(&git.top, &it.value)))
        };
        let mut files: BTreeSet<PathBuf> =
            find_included(git.config_files()).iter().map(|path| normalize_path(path)).collect();
        files
            .extend(configured.iter().filter(|it| it.origin != git.top).map(|it| normalize_path(&it.origin)));
        files.extend(values("core.excludesfile").chain(values("core.attributesfile")));
        // Git copies this folder into every new repository of the user.
        let templates = values("init.templatedir");
        let mut folders: BTreeSet<PathBuf> = values("core.hookspath").collect();
        for template in templates {
            files.insert(template.join("config"));
            folders.extend(["hooks", "info"].map(|name| template.join(name)));
        }
        Self { files, folders, remotes: collect_remotes(git, configured) }
    }
}

/// Removes `.` and `..` from a path, without asking the file system.
pub(crate) fn normalize_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the addresses of all remotes except the repository itself.
fn collect_remotes(git: &Git, configured: &[GitSetting]) -> BTreeSet<String> {
    let real = |path: &Path| path.canonicalize().ok();
    let own = [real(&git.top), real(&git.common)];
    let mut all = BTreeSet::new();
    for it in configured {
        let is_url = it.key.starts_with("remote.") && it.key.ends_with(".url");
        if !is_url {
            continue;
        }
        let url = rewrite_url(&it.value, configured);
        let path = url.strip_prefix("file://").unwrap_or(&url);
        let is_own = real(&git.top.join(path)).is_some_and(|path| own.contains(&Some(path)));
        if !is_own && !url.trim().is_empty() {
            all.insert(fetch_head_url(&url));
        }
    }
    all
}

/// Replaces the longest prefix for which the settings name another address.
fn rewrite_url(url: &str, configured: &[GitSetting]) -> String {
    let bases = configured.iter().filter_map(|it| {
        let base = it.key.strip_prefix("url.")?.strip_suffix(".insteadof")?;
        Some((base, url.strip_prefix(&it.value)?, it.value.len()))
    });
    let longest = bases.max_by_key(|(_, _, length)| *length);
    longest.map_or_else(|| url.to_owned(), |(base, rest, _)| format!("{base}{rest}"))
}

/// Returns an address as git writes it into `FETCH_HEAD`: without a user, and without slashes and `.git` at
/// its end.
fn fetch_head_url(url: &str) -> String {
    let url = match (url.split_once("://"), url.split_once('@')) {
        (Some((scheme, rest)), _) => {
            let host = rest.split('/').next().unwrap_or_default();
            let user = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[user..])
        }
        (None, Some((user, rest))) if !user.contains('/') && rest.contains(':') => rest.to_owned(),
        _ => url.to_owned(),
    };
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url).to_owned()
}

impl Git {
    /// Returns the commits that git fetched last from a remote that was known when the settings were read.
    pub(crate) fn read_fetched_commits(&self) -> Vec<String> {
        let list = PathBase::Anywhere.read_bytes(&self.own.join("FETCH_HEAD"), MOST_FETCHED).ok().flatten();
        let list = lossy_text(&list.unwrap_or_default());
        let fetched = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let (id, _, what) = (fields.next()?, fields.next()?, fields.next()?);
            // `branch 'main' of ADDRESS`; the address alone for the commit that is checked out there.
            let url = what.rsplit_once("' of ").map_or(what, |(_, url)| url);
            let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_id && self.named.remotes.contains(url)).then(|| id.to_owned())
        };
        list.lines().filter_map(fetched).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_match_fetch_head() {
        for (url, expected) in [
            ("https://me:secret@example.org/a/b.git", "https://example.org/a/b"),
            ("https://example.org/a@b//", "https://example.org/a@b"),
            ("git@example.org:a/b.git", "example.org:a/b"),
            ("ssh://git@example.org:22/a", "ssh://example.org:22/a"),
            ("/srv/a/b.git/", "/srv/a/b"),
            ("../a@b", "../a@b"),
        ] {
            assert_eq!(fetch_head_url(url), expected, "{url}");
        }
        assert_eq!(normalize_path(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }
}
