//! The data files of every root, including those that an override hides.
//!
//! An unusable file is listed too: it still wins over the files that it hides.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::lookup::{CONTROLLED, candidates};
use callsheet_core::library::template::{Template, TemplateNotation};
use callsheet_core::source::{ListingLimits, SourceError, SourceId, Sources};
use callsheet_core::text::SharedText;

/// The deepest level of folders that is read.
const LEVELS: usize = 8;
const ONE_LEVEL: ListingLimits = ListingLimits { depth: 1, entries: 10_000, ignored: true };

/// The kind of a file, by its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CatalogFileKind {
    Recipe,
    Agent,
    Contract,
    Flow,
    Prices,
    Secrets,
    Skeleton,
    Template,
}

#[derive(Debug)]
pub(crate) struct CatalogFile {
    pub(crate) id: SourceId,
    /// Its path in the search tree, whatever its root: `templates/system/BASE-plan.md`.
    pub(crate) path: String,
    pub(crate) text: Result<SharedText, SourceError>,
    parsed: Option<Result<ParsedNotations, Diagnostic>>,
}

/// A template in both notations: which one is live depends on the recipes that reach the file.
#[derive(Debug)]
struct ParsedNotations {
    braces: Template,
    brackets: Template,
}

impl CatalogFile {
    fn new(id: SourceId, path: String, text: Result<SharedText, SourceError>) -> Self {
        let holes = matches!(kind_of_path(&path), CatalogFileKind::Skeleton | CatalogFileKind::Template);
        let parsed = text.as_ref().ok().filter(|_| holes).map(|text| {
            let parse = |notation| Template::parse(id.clone(), text.clone(), notation);
            Ok(ParsedNotations {
                braces: parse(TemplateNotation::Braces)?,
                brackets: parse(TemplateNotation::Brackets)?,
            })
        });
        Self { id, path, text, parsed }
    }

    pub(crate) fn kind(&self) -> CatalogFileKind {
        kind_of_path(&self.path)
    }

    /// Checks whether the file is in a folder for templates; a recipe can have some elsewhere.
    pub(crate) fn is_template(&self) -> bool {
        self.path.starts_with("templates/") || self.path.starts_with("profiles/")
    }

    /// Returns the file's own name without the folder and the extension, or `None` if it has another
    /// extension.
    pub(crate) fn stem(&self, extension: &str) -> Option<&str> {
        own_name(&self.path).strip_suffix(extension)
    }

    pub(crate) fn template(&self, notation: TemplateNotation) -> Option<&Template> {
        let parsed = self.parsed.as_ref()?.as_ref().ok()?;
        Some(match notation {
            TemplateNotation::Braces => &parsed.braces,
            TemplateNotation::Brackets => &parsed.brackets,
        })
    }

    /// Returns the error in its frontmatter that makes it unusable as a template.
    pub(crate) fn parse_error(&self) -> Option<&Diagnostic> {
        self.parsed.as_ref()?.as_ref().err()
    }
}

fn kind_of_path(path: &str) -> CatalogFileKind {
    match path.split('/').next() {
        Some("recipes") => CatalogFileKind::Recipe,
        Some("agents") => CatalogFileKind::Agent,
        Some("contracts") => CatalogFileKind::Contract,
        Some("flows") => CatalogFileKind::Flow,
        Some("prices") => CatalogFileKind::Prices,
        Some("secrets") => CatalogFileKind::Secrets,
        Some("skeletons") => CatalogFileKind::Skeleton,
        _ => CatalogFileKind::Template,
    }
}

/// Returns the folder of a path.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the last part of a path.
pub(crate) fn own_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Checks whether the file is a note for people, which no shipped recipe uses as a template.
pub(crate) fn is_readme(path: &str) -> bool {
    let elsewhere = kind_of_path(path) == CatalogFileKind::Template
        && !["templates/", "profiles/"].iter().any(|home| path.starts_with(home));
    own_name(path) == "README.md" && !elsewhere
}

#[derive(Debug, Default)]
pub(crate) struct CatalogFiles {
    by_path: BTreeMap<String, Vec<CatalogFile>>,
    folders: Vec<String>,
    /// Files in a place that must stay empty.
    pub(crate) refused: Vec<SourceId>,
    /// Folders that could not be listed.
    pub(crate) problems: Vec<(SourceId, Diagnostic)>,
}

impl CatalogFiles {
    /// Adds the files of all roots below `folder`, unless they were added before.
    pub(crate) fn add(&mut self, sources: &dyn Sources, layout: &Layout, folder: &str) {
        let inside = |known: &String| {
            folder.strip_prefix(known.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.folders.iter().any(inside) {
            return;
        }
        self.folders.push(folder.to_string());
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        for place in candidates(&format!("{prefix}x"), layout) {
            let Ok(dir) = SourceId::new(place.root(), &format!("./{}", self::folder_of(place.path()))) else {
                continue;
            };
            let mut found = Vec::new();
            collect_files(sources, &dir, &prefix, &mut found, &mut self.problems);
            for file in found.into_iter().filter(|file| !is_readme(&file.path)) {
                if file.path == CONTROLLED && !candidates(CONTROLLED, layout).contains(&file.id) {
                    self.refused.push(file.id);
                    continue;
                }
                self.insert(file, layout);
            }
        }
    }

    /// Adds a file. An identity outside a folder for identities gets the path by which it is found.
    fn insert(&mut self, mut file: CatalogFile, layout: &Layout) {
        let flat = file.path.strip_prefix("templates/").filter(|name| !name.contains('/'));
        let identity = flat.map(|name| format!("templates/identity/{name}"));
        let places = identity.as_deref().map(|path| candidates(path, layout)).unwrap_or_default();
        let is_identity = places.contains(&file.id);
        if let Some(path) = identity.filter(|_| is_identity) {
            file.path = path;
        }
        let same_path = self.by_path.entry(file.path.clone()).or_default();
        if same_path.iter().all(|known| known.id != file.id) {
            same_path.push(file);
        }
        if is_identity {
            same_path.sort_by_key(|file| places.iter().position(|place| *place == file.id));
        }
    }

    /// Returns the files at `path` in search order: the first wins.
    pub(crate) fn files_at(&self, path: &str) -> &[CatalogFile] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn winner(&self, path: &str) -> Option<&CatalogFile> {
        self.files_at(path).first()
    }

    /// Returns every path with its files, in byte order.
    pub(crate) fn by_path(&self) -> impl Iterator<Item = (&str, &[CatalogFile])> {
        self.by_path.iter().map(|(path, files)| (path.as_str(), files.as_slice()))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &CatalogFile> {
        self.by_path.values().flatten()
    }

    /// Returns the names of the files `FOLDER/NAME.EXTENSION`.
    pub(crate) fn names(&self, folder: &str, extension: &str) -> impl Iterator<Item = &str> {
        self.by_path.keys().filter_map(move |path| {
            let name = path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(extension)?;
            (!name.contains('/')).then_some(name)
        })
    }
}

/// Collects every file below `dir`; their paths begin with `prefix`.
pub(crate) fn collect_files(
    sources: &dyn Sources,
    dir: &SourceId,
    prefix: &str,
    found: &mut Vec<CatalogFile>,
    problems: &mut Vec<(SourceId, Diagnostic)>,
) {
    CatalogWalk { sources, found, problems }.visit_folder(
        dir,
        prefix,
        CatalogWalkState { levels: LEVELS, linked: false },
    );
}

struct CatalogWalk<'w> {
    sources: &'w dyn Sources,
    found: &'w mut Vec<CatalogFile>,
    problems: &'w mut Vec<(SourceId, Diagnostic)>,
}

/// The path by which the walk reached a folder.
#[derive(Clone, Copy)]
struct CatalogWalkState {
    /// How many more levels the walk may descend.
    levels: usize,
    /// Whether the walk followed a link. It does not follow a second one: links can form cycles.
    linked: bool,
}

impl CatalogWalk<'_> {
    fn push_unlisted(&mut self, id: &SourceId, why: &str) {
        let message = format!("cannot list `{id}`: {why}");
        self.problems.push((id.clone(), Diagnostic::error(Code::SourceUnreadable, message)));
    }

    fn visit_folder(&mut self, dir: &SourceId, prefix: &str, way: CatalogWalkState) {
        let listing = match self.sources.list(dir, ONE_LEVEL) {
            Ok(Some(listing)) => listing,
            Ok(None) => return,
            Err(error) => return self.push_unlisted(dir, &error.to_string()),
        };
        if way.levels == 0 {
            return self.push_unlisted(dir, "the folders are nested too deep");
        }
        if listing.left_out > 0 {
            self.push_unlisted(dir, "it has too many entries, or names that are not UTF-8");
        }
        for entry in listing.entries {
            // Names with a leading dot belong to editors and systems: none of our names has one.
            if entry.path.starts_with('.') {
                continue;
            }
            if let Ok(id) = SourceId::new(dir.root(), &format!("{}/{}", dir.path(), entry.path)) {
                let path = format!("{prefix}{}", entry.path);
                self.visit_entry(id, path, entry.dir, CatalogWalkState { levels: way.levels - 1, ..way });
            }
        }
    }

    fn visit_entry(&mut self, id: SourceId, path: String, dir: bool, way: CatalogWalkState) {
        // A folder with a file's name takes the place of the file.
        if dir && !path.ends_with(".md") && !path.ends_with(".toml") {
            return self.visit_folder(&id, &format!("{path}/"), way);
        }
        let text = self.sources.text(&id);
        // A link to a folder is listed as a file, and its contents can be read.
        let may_be_link = !dir && !way.linked && matches!(text, Err(SourceError::NotAFile(_)));
        if may_be_link && matches!(self.sources.list(&id, ONE_LEVEL), Ok(Some(_))) {
            return self.visit_folder(&id, &format!("{path}/"), CatalogWalkState { linked: true, ..way });
        }
        if let Some(text) = text.transpose() {
            self.found.push(CatalogFile::new(id, path, text));
        }
    }
}
