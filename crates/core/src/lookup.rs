//! Lookup: the search path, and the templates that were found on it.
//!
//! Project first, then user, then builtin; the first file wins, whole. A file that is there but cannot
//! be used is an error: an override is never skipped in silence.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use crate::diag::{Code, Diag, Failure};
use crate::front;
use crate::prompt::{Absent, Why};
use crate::request::Layout;
use crate::source::{Limits, Root, SourceId, Sources};
use crate::template::{Notation, Template};
use crate::text::Text;

/// The one template that nobody may override.
pub(crate) const CONTROLLED: &str = "templates/context.md";

/// Every place that can hold the data file `path` (such as `templates/system/BASE-plan.md`), in order.
pub fn candidates(path: &str, layout: &Layout) -> Vec<SourceId> {
    let mut places = Vec::new();
    if path != CONTROLLED {
        match path.strip_prefix("templates/") {
            Some(rest) => {
                places.extend(layout.templates.iter().map(|dir| (Root::Project, format!("{dir}/{rest}"))))
            }
            None => places.push((Root::Project, format!(".callsheet/{path}"))),
        }
        places.push((Root::User, path.to_string()));
    }
    places.push((Root::Builtin, path.to_string()));
    places.iter().filter_map(|(root, path)| SourceId::new(*root, path).ok()).collect()
}

/// The names (without `.md` or `.toml`) of all data files directly in `dir`, over all roots, in byte order.
pub fn names_in(sources: &dyn Sources, dir: &str, layout: &Layout) -> Vec<String> {
    let limits = Limits { depth: 1, entries: 10_000, ignored: true };
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

/// Whether a phase can be called so. A file that has it in upper case is misnamed.
pub(crate) fn is_phase(name: &str) -> bool {
    !name.contains(|c: char| c.is_ascii_uppercase())
}

/// Reads a source; being there and unusable is an error with the place named.
pub(crate) fn read(sources: &dyn Sources, id: &SourceId) -> Result<Option<Text>, Diag> {
    sources
        .text(id)
        .map_err(|error| Diag::error(Code::SourceUnreadable, format!("`{id}` cannot be used: {error}")))
}

/// Templates by path; `None` where no root has one.
type Found = BTreeMap<String, Option<Arc<Template>>>;

/// Sources with the templates that were parsed so far: for a caller that composes often from files that do
/// not change meanwhile. [`compose`](crate::compose()) makes a new one each time.
pub struct Library<'s> {
    pub(crate) sources: &'s dyn Sources,
    /// One for each notation.
    found: [RefCell<Found>; 2],
    /// What each winner hides.
    shadowed: RefCell<BTreeMap<SourceId, Vec<Absent>>>,
}

impl fmt::Debug for Library<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("found", &self.found).finish_non_exhaustive()
    }
}

impl<'s> Library<'s> {
    pub fn new(sources: &'s dyn Sources) -> Self {
        Self { sources, found: Default::default(), shadowed: RefCell::default() }
    }

    /// What a winner hides.
    pub(crate) fn shadowed(&self, by: &SourceId) -> Vec<Absent> {
        self.shadowed.borrow().get(by).cloned().unwrap_or_default()
    }

    /// The winner among the places that can hold `path`, unparsed.
    pub(crate) fn file(&self, path: &str, layout: &Layout) -> Result<Option<(SourceId, Text)>, Diag> {
        let mut winner: Option<(SourceId, Text)> = None;
        for id in candidates(path, layout) {
            match &winner {
                None => winner = read(self.sources, &id)?.map(|text| (id, text)),
                // Only that something is there matters now: what is hidden may well be unreadable.
                Some((by, _)) => {
                    if !matches!(self.sources.text(&id), Ok(None)) {
                        let hidden =
                            Absent { what: id.to_string(), why: Why::Shadowed, detail: format!("by {by}") };
                        let mut all = self.shadowed.borrow_mut();
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

    /// The body of the template at `path`, as it is written; `None` if no root holds it.
    pub(crate) fn body(&self, path: &str, layout: &Layout) -> Result<Option<String>, Failure> {
        let Some((id, text)) = self.file(path, layout)? else { return Ok(None) };
        let (_, body) = front::split(&id, &text)?;
        Ok(Some(body.of(&text).to_string()))
    }

    /// The template at `path`, parsed; `None` if no root holds it.
    pub(crate) fn template(
        &self,
        path: &str,
        notation: Notation,
        layout: &Layout,
    ) -> Result<Option<Arc<Template>>, Diag> {
        let found = &self.found[usize::from(notation == Notation::Brackets)];
        if let Some(known) = found.borrow().get(path) {
            return Ok(known.clone());
        }
        let parsed = match self.file(path, layout)? {
            Some((id, text)) => Some(Arc::new(Template::parse(id, text, notation)?)),
            None => None,
        };
        found.borrow_mut().insert(path.to_string(), parsed.clone());
        Ok(parsed)
    }
}

/// Where the fragment `name` lives: `shared/` unless it names a folder itself.
pub(crate) fn fragment_path(name: &str) -> String {
    if name.contains('/') { format!("templates/{name}.md") } else { format!("templates/shared/{name}.md") }
}
