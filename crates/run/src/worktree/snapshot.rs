//! Observes the changes of a run, by the bytes of the files and from git, never by an agent's claims.
//!
//! A worktree is examined [before](WorktreeSnapshot::take) and [after](WorktreeSnapshot::diff) a run. A file
//! that is unchanged is not a change of the run, however dirty the worktree was. [Surveys](super::survey) of the
//! file system alone decide which files changed: no index, attribute, ignore rule or reference that an agent
//! writes can hide one. Git names the changes, and knows the commits.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callsheet_core::request::fact::{
    ChangeKind, ChangedFile, UnseenPath, Violation, ViolationDecision, ViolationReason, WorktreeObservation,
};
use callsheet_core::request::scope::{Scope, ScopeMatcher};
use serde::{Deserialize, Serialize};

use super::checkout::{CheckoutSnapshot, read_heads, read_index};
use super::commits::{ClaimedWorktrees, NewCommits, RefSnapshot, diff_trees};
use super::compare::{FileDifference, ScopedChange, WorktreeContext, find_differences};
use super::external_links::ExternalLinks;
pub use super::fingerprint::FingerprintCache;
use super::ignore_rules::IgnoreRules;
use super::nested_repositories::NestedRepositories;
pub use super::own_files::OwnFiles;
use super::own_files::OwnPaths;
use super::repository::{IndexSnapshot, RepositoryFiles};
use super::staged::{find_staged_only, staged_changes};
use super::survey::{FileSurvey, SurveyOptions};
use super::worktree_path::{WorktreePath, display_bytes};
use crate::git::{Git, GitError};

/// A worktree as it was before a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorktreeSnapshot {
    pub(super) top: PathBuf,
    /// The folder that scopes refer to, below the top; with a slash at its end, or empty.
    pub(super) folder: String,
    own: OwnPaths,
    rules: IgnoreRules,
    pub(super) survey: FileSurvey,
    links: ExternalLinks,
    pub(super) checkout: Option<CheckoutSnapshot>,
    #[serde(default)]
    modules: NestedRepositories,
    main: Option<MainCheckout>,
    #[serde(skip)]
    prints: Arc<FingerprintCache>,
}

/// The main checkout of a repository, if the run has a worktree of its own.
#[derive(Debug, Serialize, Deserialize)]
struct MainCheckout {
    top: PathBuf,
    own: OwnPaths,
    rules: IgnoreRules,
    tracked: Vec<WorktreePath>,
    survey: FileSurvey,
}

/// The most changes of the main checkout that are reported.
const MOST_ELSEWHERE: usize = 1_000;

impl WorktreeSnapshot {
    /// Examines the worktree that contains `dir`, or the folder alone if there is none. Callers that do this
    /// often keep the `prints`.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use callsheet_core::request::scope::Scope;
    /// use callsheet_run::{FingerprintCache, OwnFiles, WorktreeSnapshot};
    ///
    /// let before = WorktreeSnapshot::take(
    ///     ".".as_ref(),
    ///     &OwnFiles::default(),
    ///     &Arc::new(FingerprintCache::default()),
    /// )?;
    /// // The agent works here.
    /// let observed = before.diff(&Scope::default(), &[]);
    /// println!("{} files changed", observed.changed.len());
    /// # Ok::<(), callsheet_run::GitError>(())
    /// ```
    pub fn take(dir: &Path, own: &OwnFiles, prints: &Arc<FingerprintCache>) -> Result<Self, GitError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let unread = |error: std::io::Error| GitError::new("look", error);
        let git = Git::open(dir)?;
        let top = real(git.as_ref().map_or(dir, Git::top));
        let own = OwnPaths::from_files_below(&top, own);
        let below = real(dir).strip_prefix(&top).map(|below| display_bytes(below.as_os_str().as_bytes()));
        let folder = below.ok().filter(|below| !below.is_empty()).map(|below| format!("{below}/"));
        let folder = folder.unwrap_or_default();
        let prints = Arc::clone(prints);
        let Some(git) = git else {
            let look = SurveyOptions { top: &top, tracked: None, own: &own, prints: &prints, earlier: None };
            let rules = IgnoreRules::default();
            let survey = look.survey_with_rules(&rules).map_err(unread)?;
            let links = ExternalLinks::from_survey(&top, &survey);
            let (checkout, modules, main) = (None, NestedRepositories::default(), None);
            return Ok(Self { top, folder, own, rules, survey, links, checkout, modules, main, prints });
        };
        let mut rules = IgnoreRules::new(git.ignore_texts().cloned().collect(), git.is_case_insensitive());
        let main = git.is_linked().then(|| MainCheckout::take(&git, &prints)).flatten();
        let mut checkout = CheckoutSnapshot::take(git, &prints)?;
        let survey = checkout.compare_before(|tracked| {
            let tracked = Some(tracked);
            let look = SurveyOptions { top: &top, tracked, own: &own, prints: &prints, earlier: None };
            look.survey_collecting_rules(&mut rules)
        });
        let survey = survey.map_err(unread)?;
        let links = ExternalLinks::from_survey(&top, &survey);
        let modules = NestedRepositories::take(&checkout.git, &checkout.repository, &survey);
        modules.add_to(&mut checkout.repository, &prints);
        let checkout = Some(checkout);
        Ok(Self { top, folder, own, rules, survey, links, checkout, modules, main, prints })
    }

    /// Returns the commit that was checked out.
    pub fn head(&self) -> Option<&str> {
        self.checkout.as_ref()?.refs.head.as_deref()
    }

    /// Checks whether there was work that no commit had.
    pub fn is_dirty(&self) -> bool {
        self.checkout.as_ref().is_some_and(|checkout| checkout.is_dirty)
    }

    /// Returns why the folder cannot be examined as a whole, without git.
    pub fn size_limit_reason(&self) -> Option<&str> {
        self.survey.cut.as_ref().filter(|_| self.checkout.is_none())?;
        self.survey.unseen.last().map(|(_, why)| why.as_str())
    }

    /// Returns a path relative to the folder that scopes refer to.
    fn relative_path(&self, path: &str) -> String {
        let is_of_user = is_outside_worktrees(path);
        match path.strip_prefix(&self.folder) {
            _ if is_of_user => path.to_owned(),
            Some(path) => path.to_owned(),
            None => format!("{}{path}", "../".repeat(self.folder.matches('/').count())),
        }
    }

    /// Returns the changes since the snapshot, and those that `scope` did not allow. `others` are the tops of
    /// the worktrees that other runs claimed meanwhile: commits on their branches belong to those runs.
    pub fn diff(&self, scope: &Scope, others: &[PathBuf]) -> WorktreeObservation {
        let mut seen = WorktreeObservation {
            head_before: self.head().map(str::to_owned),
            dirty_before: self.is_dirty(),
            ..WorktreeObservation::default()
        };
        let judge = scope.compile();
        let mut violations = BTreeMap::new();
        let now = self.checkout.as_ref().map(|checkout| self.read_repository(checkout, &mut seen));
        let before =
            self.checkout.as_ref().map(|checkout| checkout.tracked_paths(&self.survey)).unwrap_or_default();
        let tracked = now.as_ref().map(|now| now.merge_tracked(&before)).unwrap_or_default();
        let look = SurveyOptions {
            top: &self.top,
            tracked: self.checkout.is_some().then_some(&tracked[..]),
            own: &self.own,
            prints: &self.prints,
            earlier: Some(&self.survey),
        };
        let survey = match look.survey_with_rules(&self.rules) {
            Ok(survey) => survey,
            // A worktree that is gone is the greatest change of all.
            Err(error) => {
                seen.unseen = vec![UnseenPath::new(".", error.to_string())];
                seen.changed =
                    vec![ChangedFile { path: ".".into(), change: ChangeKind::Deleted, from: None }];
                violations.insert(".".to_owned(), ViolationReason::OutsideWrite);
                return finish_observation(seen, violations);
            }
        };
        let found = find_differences(&self.survey, &survey);
        let mut changes = self.name_changes(&found, &before, now.as_ref());
        if let (Some(checkout), Some(now)) = (&self.checkout, &now) {
            // A hook among the files of the worktree is one of them, unless git ignores it.
            let known: BTreeSet<String> = changes
                .iter()
                .filter(|change| change.changed.change != ChangeKind::Ignored)
                .map(|change| change.changed.path.clone())
                .collect();
            let new = checkout.repository.changes(&now.repository).into_iter();
            changes.extend(new.filter(|changed| !known.contains(&changed.path)).map(unscoped_change));
            let made = ClaimedWorktrees(others);
            self.add_commits(checkout, now, &survey, (found.is_empty(), &made), &mut changes, &mut seen);
            // Git would wait for an irregular file.
            if now.repository.odd.is_empty() {
                self.add_nested(&made, &mut changes, &mut seen);
            }
        }
        for ScopedChange { changed, paths } in changes {
            let path = self.relative_path(&changed.path);
            let from = changed.from.as_ref().map(|from| self.relative_path(from));
            let is_one = changed.from.is_none();
            for inner in paths {
                // No run may write to files outside the worktree that git obeys.
                if changed.change == ChangeKind::Repository && is_outside_worktrees(&inner) {
                    violations.insert(inner, ViolationReason::OutsideWrite);
                    continue;
                }
                let inner = self.relative_path(&inner);
                let at = if is_one { path.clone() } else { inner.clone() };
                violations
                    .extend(violation_reason(&judge, &inner, changed.change).map(|reason| (at, reason)));
            }
            seen.changed.push(ChangedFile { path, change: changed.change, from });
        }
        for moved in &mut seen.commits {
            moved.paths = moved.paths.iter().map(|path| self.relative_path(path)).collect();
            for path in moved.paths.iter().filter(|_| !moved.elsewhere) {
                violations.extend(judge.violation_reason(path).map(|reason| (path.clone(), reason)));
            }
        }
        for link in self.links.changes(&ExternalLinks::from_survey(&self.top, &survey)) {
            violations.entry(self.relative_path(&link.to_text())).or_insert(ViolationReason::LeadsOutside);
        }
        seen.unseen.extend(self.unseen_paths(&survey, now.as_ref()));
        seen.elsewhere = self.main.as_ref().map(|main| main.changes(&self.prints)).unwrap_or_default();
        finish_observation(seen, violations)
    }

    /// Reads the repository's state from git. Anything that git cannot report is unseen.
    fn read_repository(
        &self,
        checkout: &CheckoutSnapshot,
        seen: &mut WorktreeObservation,
    ) -> RepositoryState {
        let mut repository = RepositoryFiles::from_git(&checkout.git, &self.prints);
        self.modules.add_to(&mut repository, &self.prints);
        let mut now = RepositoryState { repository, ..RepositoryState::default() };
        // Git would wait for an irregular file.
        if !now.repository.odd.is_empty() {
            return now;
        }
        now.refs = now.keep(RefSnapshot::from_git(&checkout.git));
        now.index = now.keep(checkout.read_changed_index()).flatten();
        if let Some(refs) = &now.refs {
            seen.head_after.clone_from(&refs.head);
            let between = diff_trees(&checkout.git, checkout.refs.head.as_deref(), refs.head.as_deref());
            now.between = now.keep(between).unwrap_or_default();
        }
        now
    }

    fn name_changes(
        &self,
        found: &[FileDifference<'_>],
        before: &[WorktreePath],
        now: Option<&RepositoryState>,
    ) -> Vec<ScopedChange> {
        let has =
            |all: &[WorktreePath], path: &[u8]| all.binary_search_by(|place| place.bytes().cmp(path)).is_ok();
        let was_tracked = |path: &[u8]| has(before, path);
        let committed: BTreeSet<&[u8]> =
            now.iter().flat_map(|now| &now.between).map(|(_, path)| path.bytes()).collect();
        let is_tracked = |path: &[u8]| {
            let index = now.and_then(|now| now.index.as_ref());
            index.is_some_and(|index| has(&index.tracked, path)) || committed.contains(path)
        };
        let submodules = self.checkout.as_ref().map_or(&[][..], |checkout| &checkout.index.submodules);
        let known = WorktreeContext {
            rules: &self.rules,
            submodules,
            was_tracked: &was_tracked,
            is_tracked: &is_tracked,
            has_git: self.checkout.is_some(),
        };
        let mut changes = known.name_changes(found);
        if let Some(checkout) = &self.checkout {
            let heads = read_heads(&self.top, submodules);
            for place in
                submodules.iter().filter(|place| checkout.submodules.get(*place) != heads.get(*place))
            {
                changes.push(ScopedChange::new(place.to_text(), ChangeKind::Submodule, None));
            }
        }
        changes
    }

    /// Adds the commits, and their changes that the files do not show.
    fn add_commits(
        &self,
        checkout: &CheckoutSnapshot,
        now: &RepositoryState,
        survey: &FileSurvey,
        (is_same, made): (bool, &ClaimedWorktrees<'_>),
        changes: &mut Vec<ScopedChange>,
        seen: &mut WorktreeObservation,
    ) {
        let known: BTreeSet<String> = changes
            .iter()
            .flat_map(|change| {
                [Some(&change.changed.path), change.changed.from.as_ref()].into_iter().flatten()
            })
            .cloned()
            .collect();
        for (letter, path) in now.between.iter().filter(|(_, path)| !known.contains(&path.to_text())) {
            let change = match letter {
                b'A' => ChangeKind::Added,
                b'D' => ChangeKind::Deleted,
                _ if checkout.index.submodules.contains(path) => ChangeKind::Submodule,
                _ => ChangeKind::Modified,
            };
            changes.push(ScopedChange::new(path.to_text(), change, None));
        }
        if let Some(index) = &now.index {
            changes.extend(checkout.index.changes(index).into_iter().map(unscoped_change));
        }
        let unseen = |error: &GitError| UnseenPath::new(".git", error.to_string());
        // If git cannot be asked, there may be any work.
        seen.dirty_after = true;
        let Some(refs) = &now.refs else { return };
        changes.extend(checkout.refs.changed_replacements(refs).into_iter().map(unscoped_change));
        if now.index.is_some() {
            let (git, head) = (&checkout.git, refs.head.as_deref());
            match find_staged_only(git, Some(&self.top), &checkout.index, head) {
                Ok(paths) => changes.extend(staged_changes(&paths)),
                Err(error) => seen.unseen.push(unseen(&error)),
            }
        }
        let is_same =
            is_same && refs.head == checkout.refs.head && now.index.is_none() && !checkout.is_unsure;
        let is_dirty = if is_same {
            Ok(checkout.is_dirty)
        } else {
            checkout.is_dirty_after(refs.head.as_deref(), survey)
        };
        match is_dirty {
            Ok(is_dirty) => seen.dirty_after = is_dirty,
            Err(error) => seen.unseen.push(UnseenPath { before: checkout.is_unsure, ..unseen(&error) }),
        }
        match checkout.refs.find_new_commits(refs, &checkout.git, made) {
            Ok(NewCommits { moved, unseen }) => {
                seen.commits = moved;
                seen.unseen.extend(unseen.into_iter().map(|(path, why)| UnseenPath::new(path, why)));
            }
            Err(error) => seen.unseen.push(unseen(&error)),
        }
    }

    /// Adds the commits and changes of the repositories inside the worktree.
    fn add_nested(
        &self,
        made: &ClaimedWorktrees<'_>,
        changes: &mut Vec<ScopedChange>,
        seen: &mut WorktreeObservation,
    ) {
        let nested = self.modules.find_changes(made);
        changes.extend(nested.scoped);
        seen.commits.extend(nested.moved);
        let before = |path: &str| self.modules.unseen.iter().any(|(known, _)| known == path);
        seen.unseen.extend(nested.unseen.into_iter().map(|(path, why)| UnseenPath {
            before: before(&path),
            path,
            why,
        }));
    }

    /// Returns the paths that could not be examined, and whether that was so before.
    fn unseen_paths(&self, survey: &FileSurvey, now: Option<&RepositoryState>) -> Vec<UnseenPath> {
        let of_survey = |survey: &FileSurvey| -> Vec<(String, String)> {
            let name = |path: &WorktreePath| {
                if path.bytes().is_empty() { ".".to_owned() } else { self.relative_path(&path.to_text()) }
            };
            let all = survey.unseen.iter().chain(&self.rules.unread);
            all.map(|(path, why)| (name(path), why.clone())).collect()
        };
        let of_repository = |repository: &RepositoryFiles| -> Vec<(String, String)> {
            let odd = repository.odd.iter().map(|(path, kind)| (path.clone(), format!("it is {kind}")));
            let all = odd.chain(repository.unseen.iter().cloned());
            all.map(|(path, why)| (self.relative_path(&path), why)).collect()
        };
        let mut before = of_survey(&self.survey);
        before.extend(self.checkout.iter().flat_map(|checkout| of_repository(&checkout.repository)));
        let mut after = of_survey(survey);
        after.extend(now.iter().flat_map(|now| of_repository(&now.repository)));
        after
            .extend(now.iter().flat_map(|now| now.failed.iter().map(|why| (".git".to_owned(), why.clone()))));
        after
            .into_iter()
            .map(|(path, why)| {
                let before = before.iter().any(|(known, _)| *known == path);
                UnseenPath { path, why, before }
            })
            .collect()
    }
}

/// A repository after a run, as far as git reports it.
#[derive(Debug, Default)]
struct RepositoryState {
    repository: RepositoryFiles,
    refs: Option<RefSnapshot>,
    /// The index, if it was written to.
    index: Option<IndexSnapshot>,
    /// The differences between the commits checked out before and now.
    between: Vec<(u8, WorktreePath)>,
    failed: Vec<String>,
}

impl RepositoryState {
    /// Returns the paths that git tracked `before` or tracks now, in byte order: none of them is ignored.
    fn merge_tracked<'b>(&self, before: &'b [WorktreePath]) -> Cow<'b, [WorktreePath]> {
        let index = self.index.iter().flat_map(|index| &index.tracked);
        let committed = self.between.iter().filter(|(letter, _)| *letter != b'D').map(|(_, path)| path);
        let has = |path: &&WorktreePath| before.binary_search(path).is_err();
        let more: BTreeSet<&WorktreePath> = index.chain(committed).filter(has).collect();
        if more.is_empty() {
            return Cow::Borrowed(before);
        }
        let mut all: Vec<WorktreePath> = before.iter().chain(more).cloned().collect();
        all.sort_unstable();
        Cow::Owned(all)
    }

    /// Returns the report of git; keeps the reason if there is none.
    fn keep<T>(&mut self, reported: Result<T, GitError>) -> Option<T> {
        reported.map_err(|error| self.failed.push(error.to_string())).ok()
    }
}

impl MainCheckout {
    fn take(git: &Git, prints: &FingerprintCache) -> Option<Self> {
        let top =
            git.common_dir().parent().filter(|_| git.common_dir().ends_with(".git"))?.canonicalize().ok()?;
        let main = Git::open(&top).ok().flatten().filter(|main| main.is_of_same_repository(git))?;
        let tracked = read_index(&main).ok()?.tracked;
        // The folder of callsheet's own files, and the worktree of the run itself.
        let mut own = OwnFiles { paths: vec![top.join(".callsheet").join("")], ..OwnFiles::default() };
        own.paths.extend(git.top().canonicalize().map(|top| top.join("")));
        let own = OwnPaths::from_files_below(&top, &own);
        let mut rules = IgnoreRules::new(main.ignore_texts().cloned().collect(), main.is_case_insensitive());
        let look = SurveyOptions { top: &top, tracked: Some(&tracked), own: &own, prints, earlier: None };
        let survey = look.survey_collecting_rules(&mut rules).ok()?;
        Some(Self { top, own, rules, tracked, survey })
    }

    fn changes(&self, prints: &FingerprintCache) -> Vec<ChangedFile> {
        let look = SurveyOptions {
            top: &self.top,
            tracked: Some(&self.tracked),
            own: &self.own,
            prints,
            earlier: Some(&self.survey),
        };
        let Ok(survey) = look.survey_with_rules(&self.rules) else {
            return vec![ChangedFile { path: ".".into(), change: ChangeKind::Deleted, from: None }];
        };
        let has = |path: &[u8]| self.tracked.binary_search_by(|place| place.bytes().cmp(path)).is_ok();
        let known = WorktreeContext {
            rules: &self.rules,
            submodules: &[],
            was_tracked: &has,
            is_tracked: &|_| false,
            has_git: true,
        };
        let changes = known
            .name_changes(&find_differences(&self.survey, &survey))
            .into_iter()
            .map(|change| change.changed);
        changes.filter(|changed| changed.change != ChangeKind::Ignored).take(MOST_ELSEWHERE).collect()
    }
}

/// Checks whether a path lies outside every worktree: only files that git obeys have such paths.
fn is_outside_worktrees(path: &str) -> bool {
    path.starts_with("~/") || path.starts_with('/')
}

fn unscoped_change(changed: ChangedFile) -> ScopedChange {
    ScopedChange::new(changed.path, changed.change, changed.from)
}

/// Returns why a changed path violates the scope.
fn violation_reason(judge: &ScopeMatcher, path: &str, change: ChangeKind) -> Option<ViolationReason> {
    let reason = judge.violation_reason(path.trim_end_matches('/'));
    // Build output lands in ignored folders.
    reason.filter(|reason| change != ChangeKind::Ignored || *reason == ViolationReason::Excluded)
}

fn finish_observation(
    mut seen: WorktreeObservation,
    violations: BTreeMap<String, ViolationReason>,
) -> WorktreeObservation {
    let violation = |(path, reason)| Violation { path, reason, decision: ViolationDecision::Pending };
    seen.violations = violations.into_iter().map(violation).collect();
    seen.changed.sort();
    seen.changed.dedup();
    seen.unseen.sort();
    seen.unseen.dedup();
    seen
}
