//! What settings name besides themselves: files that git obeys, and remotes.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Git, GitSetting, from_home, included, text};
use crate::read::PathBase;

/// As the settings were when they were read: what is named later is not believed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NamedFiles {
    /// Settings, ignore rules and attributes, there or not.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Folders of hooks.
    pub(crate) folders: BTreeSet<PathBuf>,
    /// The addresses of remotes, as git writes them down when it has fetched from there.
    remotes: BTreeSet<String>,
}

/// The longest list of what was fetched last.
const MOST_FETCHED: u64 = 4 << 20;

impl NamedFiles {
    pub(super) fn from_settings(git: &Git, configured: &[GitSetting]) -> Self {
        let values = |key: &'static str| {
            let values = configured.iter().filter(move |it| it.key == key);
            values.map(|it| plain(&from_home(&git.top, &it.value)))
        };
        let mut files: BTreeSet<PathBuf> = included(git.configs()).iter().map(|path| plain(path)).collect();
        files.extend(configured.iter().filter(|it| it.origin != git.top).map(|it| plain(&it.origin)));
        files.extend(values("core.excludesfile").chain(values("core.attributesfile")));
        // What git copies into every new repository of the user's.
        let templates = values("init.templatedir");
        let mut folders: BTreeSet<PathBuf> = values("core.hookspath").collect();
        for template in templates {
            files.insert(template.join("config"));
            folders.extend(["hooks", "info"].map(|name| template.join(name)));
        }
        Self { files, folders, remotes: remotes(git, configured) }
    }
}

/// Without `.` and `..`, as far as the path itself tells.
fn plain(path: &Path) -> PathBuf {
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

/// The addresses of all remotes but the repository itself.
fn remotes(git: &Git, configured: &[GitSetting]) -> BTreeSet<String> {
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
            all.insert(written(&url));
        }
    }
    all
}

/// The longest beginning that another address stands for.
fn rewrite_url(url: &str, configured: &[GitSetting]) -> String {
    let bases = configured.iter().filter_map(|it| {
        let base = it.key.strip_prefix("url.")?.strip_suffix(".insteadof")?;
        Some((base, url.strip_prefix(&it.value)?, it.value.len()))
    });
    let longest = bases.max_by_key(|(_, _, length)| *length);
    longest.map_or_else(|| url.to_owned(), |(base, rest, _)| format!("{base}{rest}"))
}

/// An address as git writes it into `FETCH_HEAD`: without a user, slashes and `.git` at its end.
fn written(url: &str) -> String {
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
    /// What git says that it fetched last from a remote that was one before.
    pub(crate) fn fetched(&self) -> Vec<String> {
        let list = PathBase::Anywhere.bytes(&self.own.join("FETCH_HEAD"), MOST_FETCHED).ok().flatten();
        let list = text(&list.unwrap_or_default());
        let fetched = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let (id, _, what) = (fields.next()?, fields.next()?, fields.next()?);
            // `branch 'main' of ADDRESS`; the address alone for what is checked out there.
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
    fn addresses_are_those_that_git_writes_down() {
        for (url, expected) in [
            ("https://me:secret@example.org/a/b.git", "https://example.org/a/b"),
            ("https://example.org/a@b//", "https://example.org/a@b"),
            ("git@example.org:a/b.git", "example.org:a/b"),
            ("ssh://git@example.org:22/a", "ssh://example.org:22/a"),
            ("/srv/a/b.git/", "/srv/a/b"),
            ("../a@b", "../a@b"),
        ] {
            assert_eq!(written(url), expected, "{url}");
        }
        assert_eq!(plain(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }
}
