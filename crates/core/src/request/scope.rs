//! Scope: the paths that a run may write. Exclude wins over write, and everything may be read.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::request::Request;
use crate::request::fact::ViolationReason;
use crate::text::glob::Glob;

/// The globs of one run, merged once and kept with it: later changes of the settings do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// Globs of files that may be written; if empty, every file may be.
    pub write: Vec<String>,
    /// Globs of files that must not be touched.
    pub exclude: Vec<String>,
}

impl Scope {
    /// Returns the scope of a request's task, each glob once.
    pub fn from_request(request: &Request) -> Self {
        let distinct = |globs: &[String]| {
            let mut seen = BTreeSet::new();
            globs.iter().filter(|glob| seen.insert(*glob)).cloned().collect()
        };
        let task = request.task.as_ref();
        task.map(|task| Self { write: distinct(&task.write), exclude: distinct(&task.exclude) })
            .unwrap_or_default()
    }

    /// Adds the globs of another scope, each once. Ignores blank ones.
    #[must_use]
    pub fn merge(mut self, other: &Self) -> Self {
        let add = |own: &mut Vec<String>, more: &[String]| {
            for glob in more.iter().map(|glob| glob.trim()).filter(|glob| !glob.is_empty()) {
                if !own.iter().any(|known| known == glob) {
                    own.push(glob.to_string());
                }
            }
        };
        add(&mut self.write, &other.write);
        add(&mut self.exclude, &other.exclude);
        self
    }

    /// Compiles the globs, so that many paths can be checked.
    pub fn compile(&self) -> ScopeMatcher {
        let globs = |globs: &[String]| globs.iter().map(|glob| Glob::new(glob)).collect();
        ScopeMatcher { write: globs(&self.write), exclude: globs(&self.exclude), open: self.write.is_empty() }
    }
}

/// A scope with compiled globs, which can check many paths.
#[derive(Debug)]
pub struct ScopeMatcher {
    write: Vec<Glob>,
    exclude: Vec<Glob>,
    open: bool,
}

impl ScopeMatcher {
    /// Returns why a change of `path`, relative to the worktree, violates the scope; `None` if it was
    /// allowed. Git's own files never are. Callsheet's are if the scope has no write globs, or if one names them
    /// outright.
    pub fn violation_reason(&self, path: &str) -> Option<ViolationReason> {
        if self.exclude.iter().any(|glob| glob.owns(path)) {
            return Some(ViolationReason::Excluded);
        }
        let is_gits = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
        let is_own = path.split('/').any(|part| part.eq_ignore_ascii_case(".callsheet"));
        let mut named = self.write.iter().filter(|glob| !is_own || glob.has_callsheet_folder());
        let allowed = self.open || named.any(|glob| glob.covers(path));
        (is_gits || !allowed).then_some(ViolationReason::OutsideWrite)
    }
}
