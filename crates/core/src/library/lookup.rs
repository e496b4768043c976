//! Lookup: the search path, and the templates found on it.
//!
//! The order is project, user, builtin; the first file wins, whole. A file that exists but cannot be used is
//! an error: an override is never skipped silently.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use parking_lot::RwLock;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::frontmatter;
use crate::library::layout::Layout;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::template::{Template, TemplateNotation};
use crate::source::{ListingLimits, SourceId, SourceRoot, Sources};
use crate::text::SharedText;

/// The one template that cannot be overridden.
pub const CONTROLLED: &str = "templates/context.md";

/// Returns every place that can hold the data file `path` (such as `templates/system/BASE-plan.md`), in
/// order.
pub fn candidates(path: &str, layout: &Layout) -> Vec<SourceId> {
    let mut places = Vec::with_capacity(layout.templates.len() + 2);
    let shipped = SourceId::new(SourceRoot::Builtin, path).ok();
    if path != CONTROLLED {
        let mut project = |dir: &str, rest: &str| {
            let path = [dir, "/", rest].concat();
            places.extend(SourceId::new(SourceRoot::Project, &path).ok());
        };
        match path.strip_prefix("templates/") {
            Some(rest) => {
                // A template folder of the project's own may hold identities directly, without `identity/`.
                let flat = rest.strip_prefix("identity/");
                let usual = Layout::default().templates;
                for dir in &layout.templates {
                    project(dir, rest);
                    flat.filter(|_| !usual.contains(dir)).into_iter().for_each(|rest| project(dir, rest));
                }
            }
            None => project(".callsheet", path),
        }
        places.extend(shipped.as_ref().map(|shipped| shipped.with_root(SourceRoot::User)));
    }
    places.extend(shipped);
    places
}

/// Returns the names (without `.md` or `.toml`) of all data files directly in `dir`, in all roots, in byte
/// order.
pub fn list_names(sources: &dyn Sources, dir: &str, layout: &Layout) -> Vec<String> {
    let limits = ListingLimits { depth: 1, entries: 10_000, ignored: true };
    let mut names: Vec<String> = candidates(&format!("{dir}/x"), layout)
        .iter()
        .filter_map(|place| {
            let folder = place.path().strip_suffix("/x")?;
            sources.list(&SourceId::new(place.root(), folder).ok()?, limits).ok()?
        })
        .flat_map(|listing| listing.entries)
        .filter(|entry| !entry.dir)
        .filter_map(|entry| {
            let stem = entry.path.strip_suffix(".md").or_else(|| entry.path.strip_suffix(".toml"));
            stem.map(String::from)
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Checks whether `name` can be the name of a phase. A file name with a phase in upper case is wrong.
pub fn is_phase_name(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_uppercase())
}

/// Reads a source. Returns an error that names it if it exists but cannot be used.
pub(crate) fn read_source(sources: &dyn Sources, id: &SourceId) -> Result<Option<SharedText>, Diagnostic> {
    sources
        .text(id)
        .map_err(|error| Diagnostic::error(Code::SourceUnreadable, format!("cannot read `{id}`: {error}")))
}

/// Templates by path, or fragments by name; `None` if no root has one.
type TemplateCache = BTreeMap<String, Option<Arc<Template>>>;

/// Sources with the templates that were parsed so far, for a caller that composes often from files that do
/// not change. [`compose`](crate::compose()) creates a new one each time.
///
/// It owns its sources, and threads can share it if they can share these: a server keeps a
/// `Library<Arc<S>>`. A function that needs any library takes a `&DynLibrary<'_>`, and a `&Library<S>`
/// becomes one by itself.
pub struct Library<S: ?Sized> {
    /// One cache for each notation.
    found: [RwLock<TemplateCache>; 2],
    fragments: [RwLock<TemplateCache>; 2],
    /// The files that each winner hides.
    shadowed: RwLock<BTreeMap<SourceId, Vec<OmittedInput>>>,
    /// The last field: only its type is erased in a [`DynLibrary`].
    pub(crate) sources: S,
}

/// A library of any sources.
pub type DynLibrary<'s> = Library<dyn Sources + 's>;

impl<S: ?Sized> fmt::Debug for Library<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("found", &self.found).finish_non_exhaustive()
    }
}

impl<S: Sources> Library<S> {
    /// Creates a library in which no template is parsed yet.
    ///
    /// ```
    /// use callsheet_core::{Builtin, Library, Request};
    ///
    /// // A server keeps one library: each template is parsed once.
    /// let library = Library::new(Builtin);
    /// for task in ["Add a login page.", "Add a logout page."] {
    ///     let request = Request {
    ///         recipe: Some("unified".into()),
    ///         phase: Some("plan".into()),
    ///         instructions: Some(task.into()),
    ///         ..Request::default()
    ///     };
    ///     library.compose(&request, &library.recipe(&request)?)?;
    /// }
    /// # Ok::<(), callsheet_core::diag::Diagnostics>(())
    /// ```
    pub fn new(sources: S) -> Self {
        Self {
            found: Default::default(),
            fragments: Default::default(),
            shadowed: RwLock::default(),
            sources,
        }
    }

    /// Returns the sources.
    pub const fn sources(&self) -> &S {
        &self.sources
    }
}

impl<S: Sources + ?Sized> Library<S> {
    /// Returns the files that the winners among `used` hide, in the order of the winners' ids.
    pub(crate) fn find_shadowed<'u>(&self, used: impl Iterator<Item = &'u SourceId>) -> Vec<OmittedInput> {
        let shadowed = self.shadowed.read();
        if shadowed.is_empty() {
            return Vec::new();
        }
        let used: BTreeSet<&SourceId> = used.collect();
        used.into_iter().filter_map(|id| shadowed.get(id)).flatten().cloned().collect()
    }

    /// Reads the winner among the places that can hold `path`, unparsed.
    pub(crate) fn read_file(
        &self,
        path: &str,
        layout: &Layout,
    ) -> Result<Option<(SourceId, SharedText)>, Diagnostic> {
        let mut winner: Option<(SourceId, SharedText)> = None;
        for id in candidates(path, layout) {
            match &winner {
                None => winner = read_source(&&self.sources, &id)?.map(|text| (id, text)),
                // Only existence matters now: the hidden file may well be unreadable.
                Some((by, _)) => {
                    if !matches!(self.sources.text(&id), Ok(None)) {
                        let by_whom = format!("by {by}");
                        let hidden = OmittedInput::new(id.to_string(), OmissionReason::Shadowed, by_whom);
                        let mut all = self.shadowed.write();
                        let shadowed = all.entry(by.clone()).or_default();
                        if !shadowed.contains(&hidden) {
                            shadowed.push(hidden);
                        }
                    }
                }
            }
        }
        Ok(winner)
    }

    /// Returns the body of the template at `path` as it is written, and its id; `None` if no root holds it.
    pub(crate) fn read_body(
        &self,
        path: &str,
        layout: &Layout,
    ) -> Result<Option<(SourceId, String)>, Diagnostics> {
        let Some((id, text)) = self.read_file(path, layout)? else { return Ok(None) };
        let (_, body) = frontmatter::split_frontmatter(&id, &text)?;
        let body = body.slice(&text).to_string();
        Ok(Some((id, body)))
    }

    /// Returns the fragment `name`, parsed; `None` if no root holds it.
    pub(crate) fn load_fragment(
        &self,
        name: &str,
        notation: TemplateNotation,
        layout: &Layout,
    ) -> Result<Option<Arc<Template>>, Diagnostic> {
        let fragments = &self.fragments[usize::from(notation == TemplateNotation::Brackets)];
        if let Some(known) = fragments.read().get(name) {
            return Ok(known.clone());
        }
        let found = self.parse_file(&fragment_path(name), notation, layout)?;
        fragments.write().insert(name.to_string(), found.clone());
        Ok(found)
    }

    /// Returns the template at `path`, parsed; `None` if no root holds it.
    pub(crate) fn load_template(
        &self,
        path: &str,
        notation: TemplateNotation,
        layout: &Layout,
    ) -> Result<Option<Arc<Template>>, Diagnostic> {
        let found = &self.found[usize::from(notation == TemplateNotation::Brackets)];
        if let Some(known) = found.read().get(path) {
            return Ok(known.clone());
        }
        let parsed = self.parse_file(path, notation, layout)?;
        found.write().insert(path.to_string(), parsed.clone());
        Ok(parsed)
    }

    fn parse_file(
        &self,
        path: &str,
        notation: TemplateNotation,
        layout: &Layout,
    ) -> Result<Option<Arc<Template>>, Diagnostic> {
        let parse = |(id, text)| Template::parse(id, text, notation).map(Arc::new);
        self.read_file(path, layout)?.map(parse).transpose()
    }
}

/// Returns the path of the fragment `name`: in `shared/`, unless the name has a folder.
pub fn fragment_path(name: &str) -> String {
    ["templates/", if name.contains('/') { "" } else { "shared/" }, name, ".md"].concat()
}

/// Returns the names of the roles: one for each template in `agents/`.
pub fn list_roles(sources: &dyn Sources, layout: &Layout) -> Vec<String> {
    list_names(sources, "templates/agents", layout)
}
