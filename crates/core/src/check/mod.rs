//! Check: every problem of the data files in one go, whether or not a prompt would meet it today.
//!
//! All roots are looked at: an override and what it hides are both read. Nothing is composed.

mod derived;
mod place;
mod recipes;
mod slots;
mod system;
mod text;

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::catalog::{Catalog, File, Kind, folder, own_name, unreadable};
use crate::data;
use crate::diag::{Diag, Failure, Severity, closest};
use crate::request::Layout;
use crate::source::{SourceId, Sources};
use crate::template::Template;

/// What [`check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The project's own files first, then the user's, then the shipped ones; each in order of appearance.
    pub problems: Vec<Diag>,
    /// How many files were looked at.
    pub files: usize,
}

impl Report {
    /// Whether there is more than warnings.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Looks at every recipe, agent, template, skeleton and extension of the project, the user and the
/// shipped library.
pub fn check(sources: &dyn Sources, layout: &Layout) -> Report {
    let catalog = Catalog::read(sources, layout);
    let mut problems = Problems::default();
    problems.0.extend(catalog.files.problems.iter().cloned());
    for (id, problem) in &catalog.bad_recipes {
        problems.add(id, with_file(id, problem.clone()));
    }
    let files: Vec<&File> = catalog.files.all().filter(|file| is_ours(&catalog, file)).collect();
    for file in files.iter().copied().chain(&catalog.extensions) {
        match &file.text {
            Ok(contents) => text::check(&file.id, contents, &mut problems),
            Err(error) => problems.add(&file.id, unreadable(&file.id, error)),
        }
    }
    for file in &files {
        check_file(&catalog, file, &mut problems);
    }
    for recipe in &catalog.recipes {
        recipes::check(&catalog, recipe, &mut problems);
        derived::cycles(&catalog, recipe, &mut problems);
    }
    for extension in &catalog.extensions {
        check_extension(&catalog, extension, &mut problems);
    }
    for refused in &catalog.files.refused {
        problems.add(refused, place::refused_override(refused));
    }
    slots::cycles(&catalog, &mut problems);
    let looked_at = files.len() + catalog.extensions.len() + catalog.files.refused.len();
    Report { problems: problems.sorted(), files: looked_at }
}

/// A recipe can have its templates anywhere; what else lies there is none of our business.
fn is_ours(catalog: &Catalog, file: &File) -> bool {
    file.kind() != Kind::Template || file.is_template() || catalog.reach.reaches(&file.path)
}

fn check_file(catalog: &Catalog, file: &File, problems: &mut Problems) {
    if let Some(problem) = place::misplaced(catalog, file) {
        problems.add(&file.id, problem);
    }
    let Ok(contents) = &file.text else { return };
    match file.kind() {
        Kind::Agent => {
            if let Err(Failure(wrong)) = data::read_agent(&file.id, contents) {
                let wrong = wrong.into_iter().map(|problem| with_file(&file.id, problem));
                problems.0.extend(wrong.map(|problem| (file.id.clone(), problem)));
            }
        }
        Kind::Skeleton if !catalog.reach.reaches(&file.path) => text::markers(&file.id, contents, problems),
        Kind::Skeleton | Kind::Template => {
            text::markers(&file.id, contents, problems);
            slots::check(catalog, file, problems);
            if file.path.starts_with("templates/system/") {
                system::parts(catalog, file, problems);
            }
        }
        Kind::Recipe => {}
    }
}

fn check_extension(catalog: &Catalog, file: &File, problems: &mut Problems) {
    let provided = match place::extension(catalog, file) {
        Ok(provided) => provided,
        Err(problem) => {
            problems.add(&file.id, problem);
            return;
        }
    };
    let Ok(contents) = &file.text else { return };
    text::markers(&file.id, contents, problems);
    let template = Template::parse_extension(file.id.clone(), contents.clone());
    slots::unknown(&template, provided, "the template that takes this text has to declare it", problems);
}

/// Among many files a problem has to say which one it is in.
fn with_file(id: &SourceId, mut problem: Diag) -> Diag {
    let name = id.to_string();
    if problem.place.is_none() && !problem.message.contains(&name) {
        problem.message = format!("{name}: {}", problem.message);
    }
    problem
}

/// Adds `did you mean …?` for a path of the search tree: a file of the same folder, or else a folder.
fn suggest_path(catalog: &Catalog, error: Diag, path: &str) -> Diag {
    let in_folder =
        |home: &str, name: &str| if home.is_empty() { name.to_string() } else { format!("{home}/{name}") };
    let paths = || catalog.files.by_path().map(|(path, _)| path);
    let home = folder(path);
    let near = if paths().any(|known| folder(known) == home) {
        let beside = paths().filter(|known| folder(known) == home);
        closest(own_name(path), beside.map(own_name)).map(|near| in_folder(home, near))
    } else {
        let beside = paths().map(folder).filter(|known| folder(known) == folder(home));
        closest(own_name(home), beside.map(own_name)).map(|near| in_folder(folder(home), near))
    };
    match near {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// Problems with the files that they are in.
#[derive(Default)]
struct Problems(Vec<(SourceId, Diag)>);

impl Problems {
    fn add(&mut self, id: &SourceId, problem: Diag) {
        self.0.push((id.clone(), problem));
    }

    fn sorted(mut self) -> Vec<Diag> {
        let key = |id: &SourceId, problem: &Diag| {
            let start = problem.place.as_ref().map(|place| place.range.start);
            (Reverse(id.root()), id.path().to_string(), start, problem.code)
        };
        self.0.sort_by_cached_key(|(id, problem)| key(id, problem));
        // A file that is read in two notations has most of its problems twice.
        self.0.dedup();
        self.0.into_iter().map(|(_, problem)| problem).collect()
    }
}
