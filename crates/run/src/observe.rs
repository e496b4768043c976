//! Observe: what a run changed, by the bytes of the files and from git, never from what an agent says.
//!
//! A worktree is looked at [before](Before::look) and [after](Before::observe). What was there already, unchanged, is no
//! change of the run, however dirty the worktree was. Which files changed is decided by [surveys](survey) of the file
//! system alone: no index, attribute, ignore rule or reference that an agent writes can hide one. Git names the changes, and
//! knows the commits.

mod checkout;
mod commits;
mod compare;
mod links;
mod own;
mod place;
mod print;
mod repository;
mod rules;
mod survey;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callsheet_core::fact::{Change, Changed, Decision, Observed, Reason, Unseen, Violation};
use callsheet_core::scope::{Judge, Scope};
use serde::{Deserialize, Serialize};

use crate::git::{Git, GitError};
use checkout::{Checkout, heads, index_now};
use commits::{Commits, Refs, between};
use compare::{Difference, Known, Told, differences};
use links::Links;
use own::Own;
pub use own::OwnFiles;
use place::{Place, shown};
pub use print::Prints;
use repository::Repository;
use rules::Rules;
use survey::{IN_REPOSITORY, Look, Survey, WITHOUT_GIT};

/// A worktree as it was before a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Before {
    top: PathBuf,
    /// The folder that scopes speak of, below the top; with a slash at its end, or empty.
    folder: String,
    own: Own,
    rules: Rules,
    survey: Survey,
    links: Links,
    checkout: Option<Checkout>,
    main: Option<MainCheckout>,
    #[serde(skip)]
    prints: Arc<Prints>,
}

/// The main checkout of a repository, where the run has a worktree of its own.
#[derive(Debug, Serialize, Deserialize)]
struct MainCheckout {
    top: PathBuf,
    own: Own,
    rules: Rules,
    tracked: Vec<Place>,
    survey: Survey,
}

/// Of the main checkout no more changes than this are told.
const MOST_ELSEWHERE: usize = 1_000;

impl Before {
    /// Looks at the worktree that `dir` lies in, or at the folder alone if it lies in none. Who looks often keeps the
    /// `prints`.
    pub fn look(dir: &Path, own: &OwnFiles, prints: &Arc<Prints>) -> Result<Self, GitError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let unread = |error: std::io::Error| GitError { what: "look".into(), why: error.to_string() };
        let git = Git::at(dir)?;
        let top = real(git.as_ref().map_or(dir, Git::top));
        let own = Own::below(&top, own);
        let below = real(dir).strip_prefix(&top).map(|below| shown(below.as_os_str().as_bytes()));
        let folder = below.ok().filter(|below| !below.is_empty()).map(|below| format!("{below}/"));
        let folder = folder.unwrap_or_default();
        let prints = Arc::clone(prints);
        let Some(git) = git else {
            let look = Look {
                top: &top,
                tracked: None,
                own: &own,
                prints: &prints,
                earlier: None,
                limits: WITHOUT_GIT,
            };
            let rules = Rules::default();
            let survey = look.by(&rules).map_err(unread)?;
            let links = Links::of(&top, &survey);
            return Ok(Self { top, folder, own, rules, survey, links, checkout: None, main: None, prints });
        };
        let mut rules = Rules::new(git.excludes().cloned().collect(), git.ignores_case());
        let main = git.is_linked().then(|| MainCheckout::look(&git, &prints)).flatten();
        let mut checkout = Checkout::look(git, &prints)?;
        let survey = checkout.compare_before(|tracked| {
            let tracked = Some(tracked);
            let look =
                Look { top: &top, tracked, own: &own, prints: &prints, earlier: None, limits: IN_REPOSITORY };
            look.collecting(&mut rules)
        });
        let survey = survey.map_err(unread)?;
        let links = Links::of(&top, &survey);
        Ok(Self { top, folder, own, rules, survey, links, checkout: Some(checkout), main, prints })
    }

    /// The commit that was checked out.
    pub fn head(&self) -> Option<&str> {
        self.checkout.as_ref()?.refs.head.as_deref()
    }

    /// Whether there was work that no commit had.
    pub fn is_dirty(&self) -> bool {
        self.checkout.as_ref().is_some_and(|checkout| checkout.is_dirty)
    }

    /// Why the folder cannot be looked at as a whole, without git.
    pub fn too_large(&self) -> Option<&str> {
        self.survey.cut.as_ref().filter(|_| self.checkout.is_none())?;
        self.survey.unseen.last().map(|(_, why)| why.as_str())
    }

    /// A path as the folder sees it that scopes speak of.
    fn shown(&self, path: &str) -> String {
        let is_of_user = path.starts_with("~/");
        match path.strip_prefix(&self.folder) {
            _ if is_of_user => path.to_owned(),
            Some(path) => path.to_owned(),
            None => format!("{}{path}", "../".repeat(self.folder.matches('/').count())),
        }
    }

    /// What is different now, and what of it `scope` did not allow.
    pub fn observe(&self, scope: &Scope) -> Observed {
        let mut seen = Observed {
            head_before: self.head().map(str::to_owned),
            dirty_before: self.is_dirty(),
            ..Observed::default()
        };
        let judge = scope.judge();
        let mut violations = BTreeMap::new();
        let now = self.checkout.as_ref().map(|checkout| self.git_now(checkout, &mut seen));
        let before =
            self.checkout.as_ref().map(|checkout| checkout.tracked(&self.survey)).unwrap_or_default();
        let tracked = now.as_ref().map(|now| now.tracked(&before)).unwrap_or_default();
        let limits = if self.checkout.is_some() { IN_REPOSITORY } else { WITHOUT_GIT };
        let look = Look {
            top: &self.top,
            tracked: self.checkout.is_some().then_some(&tracked[..]),
            own: &self.own,
            prints: &self.prints,
            earlier: Some(&self.survey),
            limits,
        };
        let survey = match look.by(&self.rules) {
            Ok(survey) => survey,
            // A worktree that is gone is the greatest change of all.
            Err(error) => {
                seen.unseen = vec![Unseen::new(".", error.to_string())];
                seen.changed = vec![Changed { path: ".".into(), change: Change::Deleted, from: None }];
                violations.insert(".".to_owned(), Reason::OutsideWrite);
                return finished(seen, violations);
            }
        };
        let found = differences(&self.survey, &survey);
        let mut told = self.told(&found, &before, now.as_ref());
        if let (Some(checkout), Some(now)) = (&self.checkout, &now) {
            told.extend(checkout.repository.changes(&now.repository).into_iter().map(of_repository));
            self.tell_commits(checkout, now, &survey, found.is_empty(), &mut told, &mut seen);
        }
        for Told { changed, paths } in told {
            let path = self.shown(&changed.path);
            let from = changed.from.as_ref().map(|from| self.shown(from));
            let is_one = changed.from.is_none();
            for inner in paths {
                let inner = self.shown(&inner);
                let at = if is_one { path.clone() } else { inner.clone() };
                violations.extend(violated(&judge, &inner, changed.change).map(|reason| (at, reason)));
            }
            seen.changed.push(Changed { path, change: changed.change, from });
        }
        for moved in &mut seen.commits {
            moved.paths = moved.paths.iter().map(|path| self.shown(path)).collect();
            for path in moved.paths.iter().filter(|_| !moved.elsewhere) {
                violations.extend(judge.violated(path).map(|reason| (path.clone(), reason)));
            }
        }
        for link in self.links.changes(&Links::of(&self.top, &survey)) {
            violations.entry(self.shown(&link.text())).or_insert(Reason::LeadsOutside);
        }
        seen.unseen.extend(self.unseen(&survey, now.as_ref()));
        seen.elsewhere = self.main.as_ref().map(|main| main.changes(&self.prints)).unwrap_or_default();
        finished(seen, violations)
    }

    /// What git says now. What it cannot say is unseen.
    fn git_now(&self, checkout: &Checkout, seen: &mut Observed) -> Now {
        let repository = Repository::of(&checkout.git, &self.prints);
        let mut now = Now { repository, ..Now::default() };
        // Git would wait for it.
        if !now.repository.odd.is_empty() {
            return now;
        }
        match Refs::of(&checkout.git) {
            Ok(refs) => {
                seen.head_after.clone_from(&refs.head);
                now.refs = Some(refs);
            }
            Err(error) => now.failed(&error),
        }
        match checkout.index_now() {
            Ok(index) => now.index = index,
            Err(error) => now.failed(&error),
        }
        if let Some(refs) = &now.refs {
            match between(&checkout.git, checkout.refs.head.as_deref(), refs.head.as_deref()) {
                Ok(between) => now.between = between,
                Err(error) => now.failed(&error),
            }
        }
        now
    }

    fn told(&self, found: &[Difference<'_>], before: &[Place], now: Option<&Now>) -> Vec<Told> {
        let has = |all: &[Place], path: &[u8]| all.binary_search_by(|place| place.bytes().cmp(path)).is_ok();
        let was_tracked = |path: &[u8]| has(before, path);
        let committed: BTreeSet<&[u8]> =
            now.iter().flat_map(|now| &now.between).map(|(_, path)| path.bytes()).collect();
        let is_tracked = |path: &[u8]| {
            let index = now.and_then(|now| now.index.as_ref());
            index.is_some_and(|index| has(&index.tracked, path)) || committed.contains(path)
        };
        let submodules = self.checkout.as_ref().map_or(&[][..], |checkout| &checkout.index.submodules);
        let known = Known {
            rules: &self.rules,
            submodules,
            was_tracked: &was_tracked,
            is_tracked: &is_tracked,
            has_git: self.checkout.is_some(),
        };
        let mut told = known.tell(found);
        if let Some(checkout) = &self.checkout {
            let heads = heads(&self.top, submodules);
            for place in
                submodules.iter().filter(|place| checkout.submodules.get(*place) != heads.get(*place))
            {
                told.push(Told::new(place.text(), Change::Submodule, None));
            }
        }
        told
    }

    /// Commits, and what of them the files do not show.
    fn tell_commits(
        &self,
        checkout: &Checkout,
        now: &Now,
        survey: &Survey,
        is_same: bool,
        told: &mut Vec<Told>,
        seen: &mut Observed,
    ) {
        let known: BTreeSet<String> = told
            .iter()
            .flat_map(|told| [Some(&told.changed.path), told.changed.from.as_ref()].into_iter().flatten())
            .cloned()
            .collect();
        for (letter, path) in now.between.iter().filter(|(_, path)| !known.contains(&path.text())) {
            let change = match letter {
                b'A' => Change::Added,
                b'D' => Change::Deleted,
                _ if checkout.index.submodules.contains(path) => Change::Submodule,
                _ => Change::Modified,
            };
            told.push(Told::new(path.text(), change, None));
        }
        if let Some(index) = &now.index {
            told.extend(checkout.index.changes(index).into_iter().map(of_repository));
        }
        let unseen = |error: &GitError| Unseen::new(".git", error.to_string());
        // Where git cannot be asked, there may be anything.
        seen.dirty_after = true;
        let Some(refs) = &now.refs else { return };
        told.extend(checkout.refs.replacements(refs).into_iter().map(of_repository));
        let is_same =
            is_same && refs.head == checkout.refs.head && now.index.is_none() && !checkout.is_unsure;
        let is_dirty = if is_same {
            Ok(checkout.is_dirty)
        } else {
            checkout.is_dirty_after(refs.head.as_deref(), survey)
        };
        match is_dirty {
            Ok(is_dirty) => seen.dirty_after = is_dirty,
            Err(error) => seen.unseen.push(Unseen { before: checkout.is_unsure, ..unseen(&error) }),
        }
        match checkout.refs.commits(refs, &checkout.git) {
            Ok(Commits { moved, unseen }) => {
                seen.commits = moved;
                seen.unseen.extend(unseen.into_iter().map(|(path, why)| Unseen::new(path, why)));
            }
            Err(error) => seen.unseen.push(unseen(&error)),
        }
    }

    /// What could not be looked at, and whether that was so before.
    fn unseen(&self, survey: &Survey, now: Option<&Now>) -> Vec<Unseen> {
        let of_survey = |survey: &Survey| -> Vec<(String, String)> {
            let name = |path: &Place| {
                if path.bytes().is_empty() { ".".to_owned() } else { self.shown(&path.text()) }
            };
            survey.unseen.iter().map(|(path, why)| (name(path), why.clone())).collect()
        };
        let of_repository = |repository: &Repository| -> Vec<(String, String)> {
            let odd = repository.odd.iter().map(|(path, kind)| (path.clone(), format!("it is {kind}")));
            let all = odd.chain(repository.unseen.iter().cloned());
            all.map(|(path, why)| (self.shown(&path), why)).collect()
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
                Unseen { path, why, before }
            })
            .collect()
    }
}

/// A repository after a run, as far as git tells.
#[derive(Debug, Default)]
struct Now {
    repository: Repository,
    refs: Option<Refs>,
    /// If somebody has written to it.
    index: Option<repository::Index>,
    /// How what is checked out differs from what was.
    between: Vec<(u8, Place)>,
    failed: Vec<String>,
}

impl Now {
    /// What git tracked `before` or does now, in byte order: none of it is ignored.
    fn tracked<'b>(&self, before: &'b [Place]) -> Cow<'b, [Place]> {
        let index = self.index.iter().flat_map(|index| &index.tracked);
        let committed = self.between.iter().filter(|(letter, _)| *letter != b'D').map(|(_, path)| path);
        let has = |path: &&Place| before.binary_search(path).is_err();
        let more: BTreeSet<&Place> = index.chain(committed).filter(has).collect();
        if more.is_empty() {
            return Cow::Borrowed(before);
        }
        let mut all: Vec<Place> = before.iter().chain(more).cloned().collect();
        all.sort_unstable();
        Cow::Owned(all)
    }

    fn failed(&mut self, error: &GitError) {
        self.failed.push(error.to_string());
    }
}

impl MainCheckout {
    fn look(git: &Git, prints: &Prints) -> Option<Self> {
        let top = git.common().parent().filter(|_| git.common().ends_with(".git"))?.canonicalize().ok()?;
        let main = Git::at(&top).ok().flatten().filter(|main| main.is_of_same_repository(git))?;
        let tracked = index_now(&main).ok()?.tracked;
        // Where callsheet keeps its own files, and where the run itself works.
        let mut own = OwnFiles { paths: vec![top.join(".callsheet").join("")], ..OwnFiles::default() };
        own.paths.extend(git.top().canonicalize().map(|top| top.join("")));
        let own = Own::below(&top, &own);
        let mut rules = Rules::new(main.excludes().cloned().collect(), main.ignores_case());
        let look = Look {
            top: &top,
            tracked: Some(&tracked),
            own: &own,
            prints,
            earlier: None,
            limits: IN_REPOSITORY,
        };
        let survey = look.collecting(&mut rules).ok()?;
        Some(Self { top, own, rules, tracked, survey })
    }

    fn changes(&self, prints: &Prints) -> Vec<Changed> {
        let look = Look {
            top: &self.top,
            tracked: Some(&self.tracked),
            own: &self.own,
            prints,
            earlier: Some(&self.survey),
            limits: IN_REPOSITORY,
        };
        let Ok(survey) = look.by(&self.rules) else {
            return vec![Changed { path: ".".into(), change: Change::Deleted, from: None }];
        };
        let has = |path: &[u8]| self.tracked.binary_search_by(|place| place.bytes().cmp(path)).is_ok();
        let known = Known {
            rules: &self.rules,
            submodules: &[],
            was_tracked: &has,
            is_tracked: &|_| false,
            has_git: true,
        };
        let told = known.tell(&differences(&self.survey, &survey)).into_iter().map(|told| told.changed);
        told.filter(|changed| changed.change != Change::Ignored).take(MOST_ELSEWHERE).collect()
    }
}

fn of_repository(changed: Changed) -> Told {
    Told::new(changed.path, changed.change, changed.from)
}

/// Why a changed path violates the scope.
fn violated(judge: &Judge, path: &str, change: Change) -> Option<Reason> {
    let reason = judge.violated(path.trim_end_matches('/'));
    // Whatever is built lands in ignored folders.
    reason.filter(|reason| change != Change::Ignored || *reason == Reason::Excluded)
}

fn finished(mut seen: Observed, violations: BTreeMap<String, Reason>) -> Observed {
    let violation = |(path, reason)| Violation { path, reason, decision: Decision::Pending };
    seen.violations = violations.into_iter().map(violation).collect();
    seen.changed.sort();
    seen.changed.dedup();
    seen.unseen.sort();
    seen.unseen.dedup();
    seen
}
