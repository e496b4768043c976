//! Claims: which runs and flows work in which checkout, so that no run is blamed for the changes of another.
//!
//! A claim belongs to the real directory of the worktree's top, whichever path, link, subfolder, project or
//! ledger a run uses. It is valid while its process or any process of its run lives.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::Id;
use callsheet_core::request::fact::{
    ChangeKind, ChangedFile, Violation, ViolationReason, WorktreeObservation,
};
use callsheet_core::request::scope::Scope;
use callsheet_run::{ProcessStamp, ProcessTrace, find_runs_above, is_below_guard, read_boot_id, read_file};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::project::state::{
    RunDir, create_private_folder, hold_lock, path_error, replace_private, state_dir,
};
use callsheet_run::host_name;

/// Claim that a run or flow asks for.
#[derive(Debug)]
pub(crate) struct ClaimRequest<'c> {
    pub id: &'c Id,
    /// Flow that drives the run, or the flow itself.
    pub flow: Option<&'c str>,
    /// Directory in which the agent works.
    pub dir: &'c Path,
    pub scope: &'c Scope,
    /// Whether other runs may work there too; `None` if that cannot be asked for.
    pub share: Option<bool>,
}

/// Claim of this process. Dropping it ends the claim.
#[derive(Debug)]
pub(crate) struct CheckoutClaim {
    id: String,
    is_handed_over: bool,
}

/// Run or flow that works in a checkout.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ClaimHolder {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    checkout: ClaimedCheckout,
    host: String,
    boot: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<ProcessStamp>,
    /// Project below the worktree's top: empty, or with a slash at its end.
    folder: String,
    scope: Scope,
    /// Runs that worked in the checkout at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    overlaps: Vec<OverlappingRun>,
    /// Tops of other worktrees in which runs worked at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<PathBuf>,
    /// Runs whose agents made the claim: changes of this holder are theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    above: Vec<String>,
}

/// Another run in the same checkout, with its scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OverlappingRun {
    pub id: String,
    folder: String,
    scope: Scope,
}

/// Directory whose changes are observed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClaimedCheckout {
    device: u64,
    inode: u64,
    path: PathBuf,
    /// Whether the directory is the top of a git worktree. A worktree inside another one is a separate
    /// checkout; a plain folder is part of the folders above it.
    is_worktree: bool,
}

impl ClaimedCheckout {
    /// Returns the checkout that contains `dir`, and the folder of `dir` below its top.
    fn find(dir: &Path) -> Result<(Self, String)> {
        let real = dir.canonicalize().map_err(|error| path_error(dir, error))?;
        let top = real.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok());
        let path = top.unwrap_or(&real).to_owned();
        let meta = fs::metadata(&path).map_err(|error| path_error(&path, error))?;
        let below = real.strip_prefix(&path).map(|below| below.display().to_string()).unwrap_or_default();
        let folder = if below.is_empty() { below } else { format!("{below}/") };
        Ok((Self { device: meta.dev(), inode: meta.ino(), path, is_worktree: top.is_some() }, folder))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let is_same = (self.device, self.inode) == (other.device, other.inode);
        let is_nested = self.path.starts_with(&other.path) || other.path.starts_with(&self.path);
        is_same || is_nested && !self.is_worktree && !other.is_worktree
    }
}

impl ClaimHolder {
    /// Returns whether the claiming process or a process of its run lives. Processes of another machine
    /// cannot be seen.
    fn is_alive(&self) -> bool {
        let is_here = self.host == host_name() && self.boot == read_boot_id();
        is_here && (self.process.is_some_and(ProcessStamp::is_alive) || self.has_processes())
    }

    fn run_dir(&self) -> Option<RunDir> {
        RunDir::from_run(&Id::parse(&self.id)?).ok()
    }

    fn has_processes(&self) -> bool {
        let run_dir = self.run_dir().filter(|run_dir| run_dir.dir().is_dir());
        run_dir.is_some_and(|run_dir| {
            run_dir.is_locked() || !ProcessTrace::open(&self.id, run_dir.dir()).living_processes().is_empty()
        })
    }

    /// Returns whether the run's callsheet died before its records were complete. Its changes are still to be
    /// observed.
    fn is_unfinished(&self) -> bool {
        self.run_dir().is_some_and(|run_dir| run_dir.dir().is_dir())
    }

    fn is_flow(&self) -> bool {
        self.flow.as_deref() == Some(self.id.as_str())
    }

    fn as_overlap(&self) -> OverlappingRun {
        OverlappingRun { id: self.id.clone(), folder: self.folder.clone(), scope: self.scope.clone() }
    }

    /// Notes that another run works in a different worktree.
    fn add_beside(&mut self, other: &Self) {
        let path = &other.checkout.path;
        let is_own = other.above.iter().any(|run| *run == self.id || run == UNKNOWN_RUN);
        if other.checkout.is_worktree && !is_own && !self.beside.contains(path) {
            self.beside.push(path.clone());
        }
    }

    fn add_overlap(&mut self, other: OverlappingRun) {
        if other.id != self.id && !self.overlaps.contains(&other) {
            self.overlaps.push(other);
        }
    }
}

/// Claims the checkout of a run or flow. Refuses if another one works there, unless both agree to share it.
pub(crate) fn claim_checkout(request: &ClaimRequest<'_>) -> Result<CheckoutClaim> {
    let (checkout, folder) = ClaimedCheckout::find(request.dir)?;
    let mut own = ClaimHolder {
        id: request.id.to_string(),
        flow: request.flow.map(str::to_owned),
        checkout,
        host: host_name(),
        boot: read_boot_id(),
        process: ProcessStamp::current(),
        folder,
        scope: request.scope.clone(),
        overlaps: Vec::new(),
        beside: Vec::new(),
        above: guarding_runs(),
    };
    change_claims(|holders| {
        holders.retain(|holder| holder.id != own.id && (holder.is_unfinished() || holder.is_alive()));
        for holder in holders.iter_mut() {
            if holder.checkout != own.checkout {
                holder.add_beside(&own);
                own.add_beside(holder);
            }
        }
        let is_there = |holder: &&mut ClaimHolder| holder.checkout.overlaps(&own.checkout);
        let mut there: Vec<&mut ClaimHolder> = holders.iter_mut().filter(is_there).collect();
        let alive: Vec<bool> = there.iter().map(|holder| holder.is_alive()).collect();
        for (holder, _) in there.iter().zip(&alive).filter(|(_, alive)| **alive) {
            let is_same_flow = own.flow.is_some() && holder.flow == own.flow;
            let agreed =
                |overlap: &OverlappingRun| overlap.id == own.id || Some(&overlap.id) == own.flow.as_ref();
            if !is_same_flow && request.share != Some(true) && !holder.overlaps.iter().any(agreed) {
                return Err(claim_refused_error(holder, request));
            }
        }
        for (holder, alive) in there.iter_mut().zip(alive) {
            if holder.is_flow() && holder.flow == own.flow {
                // A run that shares the checkout with the flow shares it with the flow's lanes.
                holder.overlaps.iter().for_each(|overlap| own.add_overlap(overlap.clone()));
                continue;
            }
            if alive {
                own.add_overlap(holder.as_overlap());
            }
            holder.add_overlap(own.as_overlap());
        }
        holders.push(own);
        Ok(())
    })?;
    Ok(CheckoutClaim { id: request.id.to_string(), is_handed_over: false })
}

/// Placeholder for a run whose guard cannot be seen.
const UNKNOWN_RUN: &str = "?";

/// Returns the runs whose guards are ancestors of this process.
fn guarding_runs() -> Vec<String> {
    let runs = find_runs_above();
    if runs.is_empty() && is_below_guard(None) { vec![UNKNOWN_RUN.to_owned()] } else { runs }
}

fn claim_refused_error(holder: &ClaimHolder, request: &ClaimRequest<'_>) -> Error {
    let what = if holder.is_flow() { "flow" } else { "run" };
    let (id, path) = (&holder.id, holder.checkout.path.display());
    let error = Diagnostic::error(Code::RunRefused, format!("{what} {id} is working in `{path}`"));
    let stop = if holder.is_flow() { "callsheet flow stop" } else { "callsheet stop" };
    let error = error.hint(format!("wait for it, or stop it with `{stop} {id}`"));
    if request.share.is_none() {
        return error.into();
    }
    if request.flow.is_some() {
        let share = "add `--share` to `flow start` to run several flows here";
        return error.hint(format!("{share} without attributing changes to one of them")).into();
    }
    let own = "add `--worktree` to use a separate worktree";
    error.hint(format!("{own}, or `--share` to run here without attributing changes to one run")).into()
}

impl CheckoutClaim {
    /// Binds the claim to the lifetime of another process.
    pub(crate) fn hand_over(mut self, pid: i32) -> Result<()> {
        self.is_handed_over = true;
        change_claims(|holders| {
            if let Some(own) = holders.iter_mut().find(|holder| holder.id == self.id) {
                own.process = ProcessStamp::from_pid(pid).or(own.process);
            }
            Ok(())
        })
    }
}

impl Drop for CheckoutClaim {
    fn drop(&mut self) {
        if self.is_handed_over {
            return;
        }
        // If the write fails, the claim ends with this process.
        let _ = change_claims(|holders| {
            // A run that still needs recovery must know the other runs in its checkout until then.
            holders.retain(|holder| holder.id != self.id || holder.is_unfinished());
            for own in holders.iter_mut().filter(|holder| holder.id == self.id) {
                own.process = None;
            }
            Ok(())
        });
    }
}

/// Ends the claim of a run whose records are complete.
pub(crate) fn release_claim(id: &str) {
    let _ = change_claims(|holders| {
        holders.retain(|holder| holder.id != id);
        Ok(())
    });
}

/// Runs that worked in the checkout of a run at the same time. They make some of its violations uncertain.
#[derive(Debug)]
pub(crate) struct SharedCheckout {
    folder: String,
    overlaps: Vec<OverlappingRun>,
    /// Tops of other worktrees in which runs worked at the same time, and the folders in which callsheet
    /// creates worktrees.
    pub beside: Vec<PathBuf>,
}

impl SharedCheckout {
    pub(crate) fn find(id: &Id) -> Result<Self> {
        let own = read_claims()?.into_iter().find(|holder| holder.id == id.as_str());
        let (folder, overlaps, mut beside) =
            own.map(|own| (own.folder, own.overlaps, own.beside)).unwrap_or_default();
        // A worktree is created before it is claimed.
        beside.extend(state_dir()?.join("lanes").canonicalize());
        Ok(Self { folder, overlaps, beside })
    }

    pub(crate) fn runs(&self) -> Vec<String> {
        let mut runs: Vec<String> = self.overlaps.iter().map(|overlap| overlap.id.clone()).collect();
        runs.sort();
        runs.dedup();
        runs
    }

    /// Removes the violations that another run may have caused, because its scope allows the path. Returns
    /// their paths.
    pub(crate) fn take_uncertain(&self, seen: &mut WorktreeObservation) -> Vec<String> {
        let is_uncertain = |violation: &Violation| {
            let path = violation.path.trim_end_matches('/');
            let may_write = |other: &OverlappingRun| {
                other
                    .scope
                    .compile()
                    .violation_reason(&rebase_path(&other.folder, &self.folder, path))
                    .is_none()
            };
            // No scope of another run covers files of the repository or of the user.
            let of_repository = |change: &ChangedFile| {
                change.path == violation.path && change.change == ChangeKind::Repository
            };
            violation.reason != ViolationReason::LeadsOutside
                && !seen.changed.iter().any(of_repository)
                && self.overlaps.iter().any(may_write)
        };
        let (uncertain, certain) = seen.violations.iter().cloned().partition(is_uncertain);
        seen.violations = certain;
        Vec::into_iter(uncertain).map(|violation: Violation| violation.path).collect()
    }
}

/// Converts a path relative to the folder `from` into one relative to the folder `to`. Both are below one
/// top.
fn rebase_path(to: &str, from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let path = parts.join("/");
    match path.strip_prefix(to) {
        Some(below) => below.to_owned(),
        None => format!("{}{path}", "../".repeat(to.matches('/').count())),
    }
}

fn claims_file() -> Result<PathBuf> {
    let state = state_dir()?;
    create_private_folder(&state)?;
    Ok(state.join("claims.json"))
}

/// Size limit of the claims file.
const MAX_CLAIMS: u64 = 16 << 20;

fn read_claims() -> Result<Vec<ClaimHolder>> {
    let path = claims_file()?;
    let unreadable = |why: String| {
        let message = format!("cannot read `{}`: {why}", path.display());
        let hint = "remove the file if no run is active";
        Error::from(Diagnostic::error(Code::OutputFailed, message).hint(hint))
    };
    match read_file(&path, MAX_CLAIMS).map_err(|error| unreadable(error.to_string()))? {
        Some(text) => serde_json::from_str(&text).map_err(|error| unreadable(error.to_string())),
        None => Ok(Vec::new()),
    }
}

/// Changes the claims under a lock, on which other processes wait.
fn change_claims(work: impl FnOnce(&mut Vec<ClaimHolder>) -> Result<()>) -> Result<()> {
    let path = claims_file()?;
    let _lock = hold_lock(&path.with_extension("lock"))?;
    let mut holders = read_claims()?;
    work(&mut holders)?;
    let text = serde_json::to_string(&holders)
        .map_err(|error| Diagnostic::error(Code::OutputFailed, error.to_string()))?;
    replace_private(&path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_rebased_between_folders() {
        for (to, from, path, expected) in [
            ("", "", "a/b", "a/b"),
            ("", "sub/", "a", "sub/a"),
            ("", "sub/", "../a", "a"),
            ("sub/", "", "sub/a", "a"),
            ("sub/", "", "a", "../a"),
            ("x/y/", "sub/", "a", "../../sub/a"),
            ("x/y/", "x/z/", "../y/a", "a"),
        ] {
            assert_eq!(rebase_path(to, from, path), expected, "{to} {from} {path}");
        }
    }

    #[test]
    fn checkouts_are_compared_by_directory() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["repo/.git", "repo/sub", "repo/inner/.git", "plain/sub", "other"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        std::os::unix::fs::symlink(at("repo/sub"), at("link")).unwrap();
        let find = |path: &str| ClaimedCheckout::find(&at(path)).unwrap();
        let same = |one: &str, two: &str| find(one).0.overlaps(&find(two).0);
        assert_eq!(find("link").1, "sub/");
        for (one, two, expected) in [
            ("repo", "repo/sub", true),
            ("repo", "link", true),
            ("repo", "repo/inner", false),
            ("plain", "plain/sub", true),
            ("plain/sub", "plain", true),
            ("plain", "other", false),
            ("repo", "plain", false),
        ] {
            assert_eq!(same(one, two), expected, "{one} {two}");
        }
    }
}
