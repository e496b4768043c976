//! Expands directories and patterns given with `-f`, and applies `--detail` to each file.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use callsheet_core::diag::{Code, Diagnostic, counted};
use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::request::{Request, RequestDocument};
use callsheet_core::text::glob::Glob;
use callsheet_core::{DocumentDetail, Listing, SharedText, SourceError, SourceId, SourceRoot};
use callsheet_run::{FileBody, PackLimits, PackOptions, PackProgress, PackedTree, WantedContent};

use super::read_first::GLOB_MARKS;
use crate::error::{Error, Result, usage_error};
use crate::paths::path_below;
use crate::project::Project;

/// Paths that an argument selects.
#[derive(Debug)]
pub(crate) struct PathSelection {
    /// The argument as written.
    written: String,
    /// File, or directory with all its contents, relative to the project.
    at: String,
    /// Pattern for paths below the directory.
    pattern: Option<Glob>,
}

impl PathSelection {
    /// Parses an argument. Returns `None` for a plain path outside the project.
    pub(crate) fn new(project: &Project, written: &str) -> Result<Option<Self>> {
        let is_there = project.here.join(written).symlink_metadata().is_ok();
        let magic = written.find(GLOB_MARKS).filter(|_| !is_there);
        let fixed = magic.map_or(written.len(), |magic| written[..magic].rfind('/').map_or(0, |at| at + 1));
        let (folder, glob) = written.split_at(fixed);
        let pattern = magic.map(|_| Glob::parse(glob)).transpose();
        let pattern = pattern.map_err(|error| usage_error(format!("invalid glob `{written}`: {error}")))?;
        match path_below(&project.here.join(folder), &project.dir) {
            Some(at) => Ok(Some(Self { written: written.into(), at, pattern })),
            None if pattern.is_some() => Err(outside_error(written)),
            None => Ok(None),
        }
    }

    pub(crate) fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Returns whether the selection contains `path`, relative to the project.
    fn contains(&self, path: &str) -> bool {
        let below = match self.at.as_str() {
            "." => Some(path),
            at => path.strip_prefix(at).and_then(|rest| rest.strip_prefix('/')),
        };
        match &self.pattern {
            Some(pattern) => below.is_some_and(|below| pattern.matches(below)),
            None => path == self.at || below.is_some(),
        }
    }

    fn join(&self, below: &str) -> String {
        if self.at == "." { below.into() } else { format!("{}/{below}", self.at) }
    }
}

pub(crate) fn outside_error(written: &str) -> Error {
    let message =
        format!("`{written}` is outside the project; only directories inside the project can be packed");
    usage_error(message).hint("name single files, or choose another project with `-C DIR`").into()
}

/// Detail of each file, as chosen with `--detail`.
#[derive(Debug, Default)]
pub(crate) struct DetailChoices(Vec<DetailChoice>);

#[derive(Debug)]
struct DetailChoice {
    written: String,
    /// Outside the project, a document is known only by its file name.
    paths: Result<PathSelection, String>,
    detail: DocumentDetail,
    used: Cell<bool>,
}

impl DetailChoice {
    fn is_match(&self, document: &str) -> bool {
        let fits = match &self.paths {
            Ok(paths) => paths.contains(document),
            Err(name) => name == document,
        };
        if fits {
            self.used.set(true);
        }
        fits
    }
}

impl DetailChoices {
    pub(crate) fn new(project: &Project, flags: &[String]) -> Result<Self> {
        let choice = |written: &String| {
            let (path, level) = written.rsplit_once('=').unwrap_or((written, ""));
            let detail = match level {
                "full" => DocumentDetail::Full,
                "outline" => DocumentDetail::Outline,
                "path" => DocumentDetail::Path,
                _ => {
                    let message = format!(
                        "invalid value `{written}` for `--detail`: expected PATH=full, PATH=outline or PATH=path"
                    );
                    return Err(Error::from(usage_error(message)));
                }
            };
            let name =
                || Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy().into());
            let paths = PathSelection::new(project, path)?.ok_or_else(name);
            Ok(DetailChoice { written: written.clone(), paths, detail, used: Cell::new(false) })
        };
        flags.iter().map(choice).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the last choice for a document's path or name.
    fn find_detail(&self, document: &str) -> Option<DocumentDetail> {
        self.0.iter().filter(|choice| choice.is_match(document)).last().map(|choice| choice.detail)
    }

    /// Returns whether the prompt needs more than the path of the file `below` these paths.
    fn is_text_wanted(&self, paths: &PathSelection, below: &str) -> bool {
        self.0.is_empty() || self.find_detail(&paths.join(below)) != Some(DocumentDetail::Path)
    }

    /// Applies the choices, and warns about those that match no document.
    pub(crate) fn apply(&self, request: &mut Request, diagnostics: &mut Vec<Diagnostic>) {
        if self.0.is_empty() {
            return;
        }
        for document in request.documents.iter_mut().filter(|it| it.kind != DocumentKind::Thought) {
            let Some(name) = document.path.as_ref().or(document.name.as_ref()) else { continue };
            document.detail = self.find_detail(name).or(document.detail);
        }
        for choice in self.0.iter().filter(|choice| !choice.used.get()) {
            let message = format!("`--detail {}` matches no document", choice.written);
            diagnostics.push(Diagnostic::warning(Code::DetailUnused, message));
        }
    }
}

/// Documents that flags have named.
#[derive(Debug, Default)]
pub(crate) struct GatheredDocuments {
    /// Paths of the documents.
    paths: BTreeSet<(&'static str, String)>,
    /// Texts that were read on the way.
    pub texts: BTreeMap<SourceId, SharedText>,
    /// Listings of directories that were walked on the way.
    pub listings: BTreeMap<SourceId, Listing>,
    progress: Arc<PackProgress>,
}

impl GatheredDocuments {
    pub(crate) fn new(request: &Request) -> Self {
        let paths = request.documents.iter().filter_map(|it| Some((it.kind.name(), it.path.clone()?)));
        Self { paths: paths.collect(), ..Self::default() }
    }

    /// Adds a document that has a path, unless it was added already.
    pub(crate) fn add(&mut self, document: RequestDocument, request: &mut Request) {
        let path = document.path.clone().unwrap_or_default();
        if self.paths.insert((document.kind.name(), path)) {
            request.documents.push(document);
        }
    }

    /// Adds all files at `paths`, in byte order. Reads texts only if the prompt shows them.
    pub(crate) fn add_tree(
        &mut self,
        project: &Project,
        paths: &PathSelection,
        (details, carries_texts): (&DetailChoices, bool),
        request: &mut Request,
    ) -> Result<Vec<Diagnostic>> {
        let met = Cell::new(0_usize);
        let want = |below: &str| {
            met.set(met.get() + 1);
            if paths.pattern.as_ref().is_some_and(|pattern| !pattern.matches(below)) {
                WantedContent::Nothing
            } else if carries_texts && details.is_text_wanted(paths, below) {
                WantedContent::Text
            } else {
                WantedContent::Path
            }
        };
        let dir = SourceId::new(SourceRoot::Project, &paths.at).map_err(|_| outside_error(&paths.written))?;
        let packed = self.pack_tree(project, paths, &dir, &want)?;
        let packed = packed.filter(|packed| !packed.files.is_empty());
        let Some(packed) = packed else { return Err(nothing_found_error(project, paths, met.get())) };
        let diagnostics = omission_warnings(paths, &packed);
        let mut texts = Vec::with_capacity(packed.files.len());
        for file in packed.files {
            let path = paths.join(&file.path);
            let mut document = RequestDocument { path: Some(path), ..RequestDocument::default() };
            match file.body {
                FileBody::Text(text) => {
                    let id = document.path.as_deref().map(|path| SourceId::new(SourceRoot::Project, path));
                    texts.extend(id.and_then(Result::ok).map(|id| (id, text)));
                }
                FileBody::LeftOut(left_out) => document.left_out = Some(left_out),
                FileBody::Unread => {}
            }
            self.add(document, request);
        }
        // All at once: they are in order already.
        self.texts.append(&mut texts.into_iter().collect());
        self.listings.insert(dir, packed.listing);
        Ok(diagnostics)
    }

    fn pack_tree(
        &self,
        project: &Project,
        paths: &PathSelection,
        dir: &SourceId,
        want: &dyn Fn(&str) -> WantedContent,
    ) -> Result<Option<PackedTree>> {
        let progress = &self.progress;
        let packing = PackOptions { want, limits: PackLimits::default(), threads: None, progress };
        let seen = Arc::clone(progress);
        let shown = project.observer.show_progress(Box::new(move || {
            let megabytes = seen.bytes.load(Ordering::Relaxed) / 1_000_000;
            format!("packing: {}, {megabytes} MB", counted(seen.files.load(Ordering::Relaxed), "file"))
        }));
        let packed = project.disk(None).pack(dir, &packing);
        drop(shown);
        packed.map_err(|error| match error {
            SourceError::Outside => outside_error(&paths.written),
            error => {
                let message = format!("cannot pack `{}`: {error}", paths.written);
                Diagnostic::error(Code::InputUnreadable, message).into()
            }
        })
    }
}

fn nothing_found_error(project: &Project, paths: &PathSelection, met: usize) -> Error {
    let written = &paths.written;
    let message = if paths.is_pattern() {
        format!("`{written}` matches no file ({} searched)", counted(met, "file"))
    } else {
        format!("`{written}` contains no file")
    };
    let folder = if paths.at == "." { project.dir.clone() } else { project.dir.join(&paths.at) };
    Diagnostic::error(Code::InputNotFound, message)
        .searched([folder.display()])
        .hint("hidden and gitignored files are skipped; name a file directly to include it")
        .into()
}

/// Warns about entries below the directory whose paths cannot appear in the prompt.
fn omission_warnings(paths: &PathSelection, packed: &PackedTree) -> Vec<Diagnostic> {
    let written = &paths.written;
    let counts = [
        (packed.listing.left_out, "a file name that is not UTF-8", "file names that are not UTF-8"),
        (
            packed.listing.not_entered,
            "a directory that cannot be opened",
            "directories that cannot be opened",
        ),
    ];
    let warning = |(count, one, more): (usize, &str, &str)| {
        let what = if count == 1 { one.into() } else { format!("{count} {more}") };
        Diagnostic::warning(Code::InputLeftOut, format!("`{written}` contains {what}; skipped"))
    };
    counts.into_iter().filter(|(count, ..)| *count > 0).map(warning).collect()
}
