//! Documents: what each phase approved stays as it is, but for what the phase at work may change.
//!
//! The flow's folder is looked at when a phase is entered, when a lane is about to start and when it has ended. What
//! differs from the last look is an event. The machine judges it: a change by the owner counts, a change while a person
//! is asked or while nothing of the flow lived is the person's, every other change strays, and a person is asked about it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::{CONTEXT, DriverPresence, Flow, FlowState, FlowStatus, FolderKind, Lane, Phase, aside};
use crate::glob::Glob;

/// Path → what is there: the SHA-256 of a file, or a word for what is none.
pub type DocumentDigests = BTreeMap<String, String>;

/// Path → what is there now; none where it is gone.
pub type DocumentChanges = BTreeMap<String, Option<String>>;

/// Where everything is that was set aside.
const EARLIER: &str = "earlier/";

/// What differs between two looks.
pub fn document_changes(before: &DocumentDigests, now: &DocumentDigests) -> DocumentChanges {
    let gone = before.keys().filter(|path| !now.contains_key(*path)).map(|path| (path.clone(), None));
    let other = now.iter().filter(|(path, what)| before.get(*path) != Some(what));
    gone.chain(other.map(|(path, what)| (path.clone(), Some(what.clone())))).collect()
}

/// Tells documents from other files of a flow's folder.
#[derive(Debug)]
pub struct DocumentFilter {
    globs: Vec<Glob>,
    /// What this entry has set aside travels with its prompts.
    aside: String,
}

impl DocumentFilter {
    pub fn new(flow: &Flow, entry: u32) -> Self {
        let phases = flow.phase.iter().flat_map(Phase::changeable).map(String::as_str);
        let globs = phases.chain(flow.ours()).map(|path| Glob::new(&path.replace("{lane}", "*")));
        Self { globs: globs.collect(), aside: aside(entry) + "/" }
    }

    pub fn is_document(&self, path: &str) -> bool {
        match path.strip_prefix(EARLIER) {
            Some(_) => path.starts_with(&self.aside),
            None => self.globs.iter().any(|glob| glob.covers(path)),
        }
    }
}

impl Flow {
    /// The documents that callsheet writes: the person's words, reviews put together, and what a session is.
    fn ours(&self) -> impl Iterator<Item = &str> {
        let collected = self.phase.iter().filter_map(|phase| phase.collect.as_ref());
        let collected = collected.flat_map(|collect| [collect.all.as_str(), &collect.failed]);
        let context = (self.folder == FolderKind::Sessions).then_some(CONTEXT);
        let words = self.request.iter().map(String::as_str).chain([self.changes.as_str()]);
        words.chain(collected).chain(context)
    }
}

impl Phase {
    /// Globs of the documents that the phase may change.
    fn changeable(&self) -> impl Iterator<Item = &String> {
        self.outputs.iter().chain(&self.report).chain(&self.owns)
    }

    /// The same while these lanes work.
    fn changeable_by<'a>(&'a self, lanes: &'a [&Lane]) -> impl Iterator<Item = Glob> + 'a {
        self.changeable().flat_map(move |path| {
            let ids = lanes.iter().flat_map(|lane| lane.covers());
            // A path without a hole is the same for every lane.
            let most = if path.contains("{lane}") { usize::MAX } else { 1 };
            ids.take(most).map(move |id| Glob::new(&path.replace("{lane}", id)))
        })
    }

    /// Whether some lane of the phase may change the document.
    pub fn can_change(&self, path: &str) -> bool {
        self.changeable().any(|own| Glob::new(&own.replace("{lane}", "*")).covers(path))
    }

    /// What of `changes` is not for the phase to change while these lanes work.
    fn find_strays<'c>(
        &self,
        lanes: &[&Lane],
        changes: impl IntoIterator<Item = &'c String>,
    ) -> Vec<&'c String> {
        let globs: Vec<Glob> = self.changeable_by(lanes).collect();
        changes.into_iter().filter(|path| !globs.iter().any(|glob| glob.covers(path))).collect()
    }
}

/// Takes what differs from the last look.
pub(super) fn take(flow: &Flow, state: &mut FlowState, changes: &DocumentChanges, meanwhile: DriverPresence) {
    let is_persons = state.is_paused() || meanwhile == DriverPresence::LeftAlone;
    // The first look is what all others are compared with.
    let strays = match state.documents.is_none() || is_persons {
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
        // A change back to what was approved is no change.
        if is_persons || state.strayed.get(path) == Some(what) {
            state.strayed.remove(path);
        }
    }
    state.cut &= !state.strayed.is_empty();
}

fn find_stray_changes(flow: &Flow, state: &FlowState, changes: &DocumentChanges) -> Vec<String> {
    let Some(phase) = flow.phase(&state.phase) else { return Vec::new() };
    let strays: Vec<&String> = if state.at == FlowStatus::Entering {
        // What the phase writes is being set aside, and callsheet writes what is its own.
        let stale = phase.stale_files().chain(flow.ours()).map(Glob::new).collect::<Vec<_>>();
        let is_ours = |path: &str| path.starts_with(EARLIER) || stale.iter().any(|glob| glob.covers(path));
        changes.keys().filter(|path| !is_ours(path)).collect()
    } else {
        let lanes: Vec<&Lane> = state.running().map(|(lane, _)| lane).collect();
        phase.find_strays(&lanes, changes.keys())
    };
    strays.into_iter().cloned().collect()
}
