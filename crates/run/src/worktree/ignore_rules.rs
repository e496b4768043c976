//! Decides which files are ignored, by the rules that applied before a run. Rules that an agent writes
//! meanwhile do not count.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::Gitignore;
use serde::{Deserialize, Serialize};

use super::worktree_path::WorktreePath;
use crate::disk::walk::parse_rules;

/// The name of the files that hold rules.
pub(super) const RULES_FILE: &[u8] = b".gitignore";

/// The most bytes of such a file. A longer one is not used, not even in part.
pub(super) const MOST_RULES: u64 = 1 << 20;

/// The ignore rules of a worktree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct IgnoreRules {
    /// The rules that apply everywhere, the more general first.
    everywhere: Vec<String>,
    /// The rules of each folder, by its path.
    folders: BTreeMap<WorktreePath, String>,
    any_case: bool,
    /// Files of rules that were not used, and why.
    #[serde(default)]
    pub(super) unread: Vec<(WorktreePath, String)>,
}

impl IgnoreRules {
    pub(super) fn new(everywhere: Vec<String>, any_case: bool) -> Self {
        Self { everywhere, any_case, ..Self::default() }
    }

    pub(super) fn add(&mut self, folder: &[u8], text: String) {
        self.folders.insert(WorktreePath::new(folder), text);
    }

    pub(super) fn add_unread(&mut self, path: &[u8], why: String) {
        self.unread.push((WorktreePath::new(path), why));
    }

    pub(super) fn top_stack(&self) -> RuleStack {
        let all = self.everywhere.iter().filter_map(|text| self.compile(text));
        RuleStack(all.map(|globs| Some((0, globs))).collect())
    }

    /// Adds the rules of a folder. The rules of its repository end where another repository begins.
    pub(super) fn push_folder_rules(&self, stack: &mut RuleStack, folder: &[u8], is_repository: bool) {
        if is_repository {
            stack.0.push(None);
            let start = folder.len() + usize::from(!folder.is_empty());
            stack.0.extend(
                self.everywhere.first().and_then(|text| self.compile(text)).map(|globs| Some((start, globs))),
            );
        }
        if let Some(globs) = self.folders.get(folder).and_then(|text| self.compile(text)) {
            stack.0.push(Some((folder.len() + usize::from(!folder.is_empty()), globs)));
        }
    }

    fn compile(&self, text: &str) -> Option<Arc<Gitignore>> {
        parse_rules(text.as_bytes(), self.any_case).ok().filter(|globs| !globs.is_empty()).map(Arc::new)
    }

    /// Returns the topmost ignored folder of `path`, with a slash; otherwise the path itself.
    pub(super) fn topmost_ignored(&self, path: &[u8]) -> Vec<u8> {
        let mut stack = self.top_stack();
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        self.push_folder_rules(&mut stack, b"", false);
        for at in slashes {
            if stack.ignores(&path[..at], true) {
                return path[..=at].to_vec();
            }
            self.push_folder_rules(&mut stack, &path[..at], false);
        }
        path.to_vec()
    }
}

/// The rules that apply in a folder, the deepest last. `None` marks the beginning of a repository.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleStack(Vec<Option<(usize, Arc<Gitignore>)>>);

impl RuleStack {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// Checks whether a path that lies in no ignored folder is ignored. A repository's own files never are.
    pub(super) fn ignores(&self, path: &[u8], is_folder: bool) -> bool {
        if path.split(|byte| *byte == b'/').next_back() == Some(b".git") {
            return false;
        }
        for (start, globs) in self.0.iter().rev().map_while(Option::as_ref) {
            match globs.matched(OsStr::from_bytes(&path[*start..]), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}
