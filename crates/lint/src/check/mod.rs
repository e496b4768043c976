//! Checks the data files: finds every problem in one run, whether or not a prompt would meet it today.
//!
//! It covers all roots: it reads an override and the files that it hides. It composes nothing.

mod clauses;
mod configuration;
mod derived;
mod flows;
mod phrases;
mod placement;
mod recipes;
mod slots;
mod system;
mod text;
mod tools;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::catalog::{
    CatalogFile, CatalogFileKind, PathPattern, SourceCatalog, folder_of, own_name, unreadable_error,
};
use callsheet_core::diag::{Code, Diagnostic, Diagnostics, MOST_PER_KIND, Severity, find_closest};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::{BlockSpec, RequestField};
use callsheet_core::library::template::Template;
use callsheet_core::library::{agent, contract, prices};
use callsheet_core::secrets::read_rules;
use callsheet_core::source::{SourceId, Sources};

/// The result of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LintReport {
    /// The problems of the project's files first, then the user's, then the shipped ones; each in order of
    /// appearance.
    pub problems: Vec<Diagnostic>,
    /// The number of files that were checked.
    pub files: usize,
}

impl LintReport {
    /// Returns the number of errors among the problems.
    pub fn error_count(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    }
}

/// Checks every recipe, agent, flow, file of prices, template, skeleton and extension of the project, the user and the
/// shipped library.
///
/// ```
/// use callsheet_core::{MemorySources, SourceId, SourceRoot};
///
/// let id = SourceId::new(SourceRoot::Project, ".callsheet/templates/identity/fixer.md").unwrap();
/// let sources = MemorySources::from_iter([(id, "Fix it. {{> nowhere}}")]);
/// let report = callsheet_lint::check::check(&sources, &Default::default());
/// assert!(report.error_count() > 0);
/// ```
pub fn check(sources: &dyn Sources, layout: &Layout) -> LintReport {
    let catalog = SourceCatalog::read(sources, layout);
    let mut problems = LintProblems::default();
    for (id, problem) in &catalog.files.problems {
        problems.add(id, problem.clone());
    }
    for (id, problem) in &catalog.bad_recipes {
        problems.add(id, with_file(id, problem.clone()));
    }
    let files: Vec<&CatalogFile> = catalog.files.all().filter(|file| is_ours(&catalog, file)).collect();
    for file in files.iter().copied().chain(&catalog.extensions) {
        match &file.text {
            Ok(contents) => {
                text::check(&file.id, contents, &mut problems);
                // The contents of these are not prompts.
                let is_data = files.iter().any(|data| data.id == file.id)
                    && matches!(
                        file.kind(),
                        CatalogFileKind::Agent | CatalogFileKind::Prices | CatalogFileKind::Secrets
                    );
                if !is_data {
                    phrases::check(&file.id, contents, &mut problems);
                }
            }
            Err(error) => problems.add(&file.id, unreadable_error(&file.id, error)),
        }
    }
    for file in &files {
        check_file(&catalog, file, &mut problems);
    }
    for recipe in &catalog.recipes {
        recipes::check(&catalog, recipe, &mut problems);
        derived::check_cycles(&catalog, recipe, &mut problems);
    }
    for extension in &catalog.extensions {
        check_extension(&catalog, extension, &mut problems);
    }
    for refused in &catalog.files.refused {
        problems.add(refused, placement::refused_override_error(refused));
    }
    for (id, problem) in placement::find_misnamed_folders(&catalog, sources, layout) {
        problems.add(&id, problem);
    }
    configuration::check(&catalog, sources, &mut problems);
    slots::check_cycles(&catalog, &mut problems);
    let looked_at = files.len() + catalog.extensions.len() + catalog.files.refused.len();
    LintReport { problems: problems.into_sorted(), files: looked_at }
}

/// Checks whether a file is one of callsheet's. A recipe can have its templates anywhere; other files there
/// are ignored.
fn is_ours(catalog: &SourceCatalog, file: &CatalogFile) -> bool {
    file.kind() != CatalogFileKind::Template || file.is_template() || catalog.reach.is_reached(&file.path)
}

fn check_file(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    if let Some(problem) = placement::check_placement(catalog, file) {
        problems.add(&file.id, problem);
    }
    let Ok(contents) = &file.text else { return };
    match file.kind() {
        CatalogFileKind::Flow => flows::check(catalog, file, contents, problems),
        CatalogFileKind::Agent
        | CatalogFileKind::Contract
        | CatalogFileKind::Prices
        | CatalogFileKind::Secrets => {
            let read = match file.kind() {
                CatalogFileKind::Agent => agent::read_agent(&file.id, contents).map(drop),
                CatalogFileKind::Contract => contract::read_contract(&file.id, contents).map(drop),
                CatalogFileKind::Prices => prices::read_prices(&file.id, contents).map(drop),
                _ => read_rules(&file.id, contents).map(drop),
            };
            for problem in read.err().into_iter().flat_map(|Diagnostics(wrong)| wrong) {
                problems.add(&file.id, with_file(&file.id, problem));
            }
        }
        CatalogFileKind::Skeleton if !catalog.reach.is_reached(&file.path) => {
            text::check_markers(&file.id, contents, problems)
        }
        CatalogFileKind::Skeleton | CatalogFileKind::Template => {
            text::check_markers(&file.id, contents, problems);
            tools::check(catalog, file, problems);
            slots::check(catalog, file, problems);
            if file.path.starts_with("templates/system/") {
                system::check_parts(catalog, file, problems);
                clauses::check(catalog, file, problems);
            }
        }
        CatalogFileKind::Recipe => {}
    }
}

fn check_extension(catalog: &SourceCatalog, file: &CatalogFile, problems: &mut LintProblems) {
    let provided = match placement::find_extension_slots(catalog, file) {
        Ok(provided) => provided,
        Err(problem) => {
            problems.add(&file.id, problem);
            return;
        }
    };
    let Ok(contents) = &file.text else { return };
    text::check_markers(&file.id, contents, problems);
    let template = Template::parse_extension(file.id.clone(), contents.clone());
    slots::check_unknown_slots(
        &template,
        provided,
        "the template that takes this text must declare it",
        problems,
    );
}

/// Names the file in the message: among many files a problem must say which one it is in.
fn with_file(id: &SourceId, mut problem: Diagnostic) -> Diagnostic {
    let name = id.to_string();
    if problem.place.is_none() && !problem.message.contains(&name) {
        problem.message = format!("{name}: {}", problem.message);
    }
    problem
}

/// Adds `did you mean …?` for a path of the search tree: a file of the same folder, or else a folder.
fn suggest_path(catalog: &SourceCatalog, error: Diagnostic, path: &str) -> Diagnostic {
    let in_folder =
        |home: &str, name: &str| if home.is_empty() { name.to_string() } else { format!("{home}/{name}") };
    let paths = || catalog.files.by_path().map(|(path, _)| path);
    let home = folder_of(path);
    let near = if paths().any(|known| folder_of(known) == home) {
        let beside = paths().filter(|known| folder_of(known) == home);
        find_closest(own_name(path), beside.map(own_name)).map(|near| in_folder(home, near))
    } else {
        let beside = paths().map(folder_of).filter(|known| folder_of(known) == folder_of(home));
        find_closest(own_name(home), beside.map(own_name)).map(|near| in_folder(folder_of(home), near))
    };
    suggest_near(error, near)
}

/// Adds `did you mean …?` if there is something near.
fn suggest_near(error: Diagnostic, near: Option<impl core::fmt::Display>) -> Diagnostic {
    match near {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// Returns the paths at which a block looks for its template in a request with these fields, unless it is
/// left out or a root holds one of them.
fn find_missing_paths<'v>(
    catalog: &SourceCatalog,
    block: &BlockSpec,
    given: impl Fn(RequestField) -> Option<&'v str>,
) -> Option<Vec<String>> {
    let is_skipped = block.when.is_some_and(|field| given(field).is_none())
        || block.unless.is_some_and(|field| given(field).is_some());
    let template = block.template.as_ref().filter(|_| !is_skipped)?;
    let filled = template.as_slice().iter().filter_map(|path| PathPattern::new(path).fill(&given));
    let paths: Vec<String> = filled.collect();
    let is_found = paths.iter().any(|path| catalog.files.winner(path).is_some());
    Some(paths).filter(|paths| !paths.is_empty() && !is_found)
}

/// Returns the error for a template that is at none of `paths`, with every place that was searched.
fn missing_template_error(catalog: &SourceCatalog, message: String, paths: &[String]) -> Diagnostic {
    let mut places: Vec<SourceId> = paths.iter().flat_map(|path| catalog.candidate_places(path)).collect();
    let mut seen = BTreeSet::new();
    places.retain(|place| seen.insert(place.clone()));
    let error = Diagnostic::error(Code::TemplateNotFound, message).searched(places);
    paths.iter().fold(error, |error, path| suggest_path(catalog, error, path))
}

/// Problems, by their file and kind.
#[derive(Default)]
struct LintProblems(BTreeMap<(SourceId, Code), KindProblems>);

/// The problems of one kind in one file.
#[derive(Default)]
struct KindProblems {
    reported: Vec<Diagnostic>,
    /// The places of those that are only counted; the message of one without a place.
    counted: BTreeSet<(Option<usize>, String)>,
}

impl KindProblems {
    /// Checks whether one more problem would still be reported; if not, counts it, unless it was reported.
    fn has_capacity(&mut self, start: Option<usize>, message: &str) -> bool {
        let is_full = self.reported.len() >= MOST_PER_KIND;
        let is_same = |known: &Diagnostic| match start {
            Some(_) => start_of(known) == start,
            None => known.place.is_none() && known.message == message,
        };
        if is_full && !self.reported.iter().any(is_same) {
            let message = if start.is_some() { "" } else { message };
            self.counted.insert((start, message.to_string()));
        }
        !is_full
    }
}

fn start_of(problem: &Diagnostic) -> Option<usize> {
    problem.place.as_ref().map(|place| place.range.start)
}

impl LintProblems {
    fn add(&mut self, id: &SourceId, problem: Diagnostic) {
        let kind = self.0.entry((id.clone(), problem.code)).or_default();
        // A file that is read in two notations has most of its problems twice.
        let is_known = kind.reported.contains(&problem);
        if !is_known && kind.has_capacity(start_of(&problem), &problem.message) {
            kind.reported.push(problem);
        }
    }

    /// Checks whether one more problem of this kind in this file would still be reported; if not, counts it.
    fn has_capacity(&mut self, id: &SourceId, code: Code, start: usize) -> bool {
        self.0.entry((id.clone(), code)).or_default().has_capacity(Some(start), "")
    }

    fn into_sorted(self) -> Vec<Diagnostic> {
        let mut all = Vec::new();
        for ((id, _), KindProblems { mut reported, counted }) in self.0 {
            reported.sort_by_key(start_of);
            if let Some(last) = reported.last_mut().filter(|_| !counted.is_empty()) {
                last.more = counted.len();
            }
            all.extend(reported.into_iter().map(|problem| (id.clone(), problem)));
        }
        all.sort_by_cached_key(|(id, problem)| {
            (Reverse(id.root()), id.path().to_string(), start_of(problem), problem.code)
        });
        all.into_iter().map(|(_, problem)| problem).collect()
    }
}
