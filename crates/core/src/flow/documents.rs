//! Documents: approved documents stay unchanged, except for those that the current phase may change.
//!
//! The driver checks the flow's folder when a phase is entered, when a lane is about to start and when a lane
//! has ended. A difference from the last check is an event, which the state machine judges. A change by the
//! owner counts. A change while a person is asked, or while no process of the flow was alive, is the
//! person's. For every other change, callsheet asks a person.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::{CONTEXT, DriverPresence, Flow, FlowState, FlowStatus, FolderKind, Lane, Phase, archive_folder};
use crate::text::glob::Glob;

/// Path → SHA-256 of the file, or a word for an entry that is not a file.
pub type DocumentDigests = BTreeMap<String, String>;

/// Path → new digest; `None` if the document was removed.
pub type DocumentChanges = BTreeMap<String, Option<String>>;

/// Folder of all files that were set aside.
const EARLIER: &str = "earlier/";

/// Compares the documents of two checks.
pub fn diff_documents(before: &DocumentDigests, now: &DocumentDigests) -> DocumentChanges {
    let gone = before.keys().filter(|path| !now.contains_key(*path)).map(|path| (path.clone(), None));
    let other = now.iter().filter(|(path, what)| before.get(*path) != Some(what));
    gone.chain(other.map(|(path, what)| (path.clone(), Some(what.clone())))).collect()
}

/// Distinguishes documents from other files of a flow's folder.
#[derive(Debug)]
pub struct DocumentFilter {
    globs: Vec<Glob>,
    /// Folder of the files that this entry set aside. They travel with its prompts.
    aside: String,
}

impl DocumentFilter {
    /// Builds the filter for a phase entry.
    pub fn new(flow: &Flow, entry: u32) -> Self {
        let phases = flow.phase.iter().flat_map(Phase::changeable_globs).map(String::as_str);
        let globs = phases.chain(flow.own_documents()).map(|path| Glob::new(&path.replace("{lane}", "*")));
        Self { globs: globs.collect(), aside: archive_folder(entry) + "/" }
    }

    /// Checks whether the path is a document.
    pub fn is_document(&self, path: &str) -> bool {
        match path.strip_prefix(EARLIER) {
            Some(_) => path.starts_with(&self.aside),
            None => self.globs.iter().any(|glob| glob.covers(path)),
        }
    }
}

impl Flow {
    /// Returns the documents that callsheet writes: the person's words, collected reviews, and the session's
    /// context.
    fn own_documents(&self) -> impl Iterator<Item = &str> {
        let collected = self.phase.iter().filter_map(|phase| phase.collect.as_ref());
        let collected = collected.flat_map(|collect| [collect.all.as_str(), &collect.failed]);
        let context = (self.folder == FolderKind::Sessions).then_some(CONTEXT);
        let words = self.request.iter().map(String::as_str).chain([self.changes.as_str()]);
        words.chain(collected).chain(context)
    }
}

impl Phase {
    /// Returns the globs of the documents that the phase may change.
    fn changeable_globs(&self) -> impl Iterator<Item = &String> {
        self.outputs.iter().chain(&self.report).chain(&self.owns)
    }

    /// Returns the globs of the documents that the phase may change while these lanes work.
    fn changeable_lane_globs<'a>(&'a self, lanes: &'a [&Lane]) -> impl Iterator<Item = Glob> + 'a {
        self.changeable_globs().flat_map(move |path| {
            let ids = lanes.iter().flat_map(|lane| lane.covers());
            // A path without a slot is the same for every lane.
            let most = if path.contains("{lane}") { usize::MAX } else { 1 };
            ids.take(most).map(move |id| Glob::new(&path.replace("{lane}", id)))
        })
    }

    /// Checks whether some lane of the phase may change the document.
    pub fn can_change(&self, path: &str) -> bool {
        self.changeable_globs().any(|own| Glob::new(&own.replace("{lane}", "*")).covers(path))
    }

    /// Returns the paths of `changes` that the phase may not change while these lanes work.
    fn find_strays<'c>(
        &self,
        lanes: &[&Lane],
        changes: impl IntoIterator<Item = &'c String>,
    ) -> Vec<&'c String> {
        let globs: Vec<Glob> = self.changeable_lane_globs(lanes).collect();
        changes.into_iter().filter(|path| !globs.iter().any(|glob| glob.covers(path))).collect()
    }
}

/// Applies the differences from the last check to the state.
pub(super) fn apply_changes(
    flow: &Flow,
    state: &mut FlowState,
    changes: &DocumentChanges,
    meanwhile: DriverPresence,
) {
    let is_persons = state.is_paused() || meanwhile == DriverPresence::LeftAlone;
    // The first check is the baseline.
    let strays = match state.documents.is_none() {
        true => Vec::new(),
        false => find_stray_changes(flow, state, changes),
    };
    state.cut |= meanwhile == DriverPresence::Cut && !strays.is_empty();
    for path in strays {
        let approved = state.documents.as_ref().and_then(|known| known.get(&path).cloned());
        state.strayed.entry(path).or_insert(approved);
    }
    let documents = state.documents.get_or_insert_default();
    for (path, what) in changes {
        match what {
            Some(what) => drop(documents.insert(path.clone(), what.clone())),
            None => drop(documents.remove(path)),
        }
        // A change back to the approved contents is not a change.
        if is_persons || state.strayed.get(path) == Some(what) {
            state.strayed.remove(path);
        }
    }
    state.cut &= !state.strayed.is_empty();
}

fn find_stray_changes(flow: &Flow, state: &FlowState, changes: &DocumentChanges) -> Vec<String> {
    let Some(phase) = flow.phase(&state.phase) else { return Vec::new() };
    let strays: Vec<&String> = if state.at == FlowStatus::Entering {
        // The outputs of the phase are being set aside, and callsheet writes its own documents.
        let stale = phase.stale_files().chain(flow.own_documents()).map(Glob::new).collect::<Vec<_>>();
        let is_ours = |path: &str| path.starts_with(EARLIER) || stale.iter().any(|glob| glob.covers(path));
        changes.keys().filter(|path| !is_ours(path)).collect()
    } else {
        let lanes: Vec<&Lane> = state.running_lanes().map(|(lane, _)| lane).collect();
        phase.find_strays(&lanes, changes.keys())
    };
    strays.into_iter().cloned().collect()
}
