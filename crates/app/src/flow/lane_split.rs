//! The part that the prompts of a phase share: the same bytes in every lane.

use std::sync::{Arc, OnceLock};

use callsheet_core::delivery::split::{common_length, find_boundary};
use callsheet_core::flow::Lane;

use super::lane::LaneJob;
use crate::compose::Composition;
use crate::observer::SilentObserver;
use crate::project::Project;

/// The part that the prompts of a phase share. The first lane that needs it determines it.
#[derive(Debug)]
pub(super) struct SharedPart {
    /// The lanes of the phase.
    lanes: Vec<Lane>,
    text: OnceLock<String>,
}

impl SharedPart {
    pub(super) fn new(lanes: Vec<Lane>) -> Self {
        Self { lanes, text: OnceLock::new() }
    }
}

impl LaneJob {
    /// Returns the length of the part that the prompt of this lane shares with those of the other lanes; `None` if there are
    /// no others.
    pub(super) fn shared_bytes(&self, project: &Project, own: &Composition) -> Option<usize> {
        if self.shared.lanes.len() < 2 {
            return None;
        }
        let shared = self.shared.text.get_or_init(|| self.find_shared_text(project, own));
        if own.text().starts_with(shared.as_str()) {
            return Some(shared.len());
        }
        // A document has changed since the first lane began.
        let common = common_length([own.text(), shared.as_str()]);
        Some(find_boundary(&own.composed.prompt, &own.rendered, common))
    }

    /// Composes the prompts of all lanes and returns the text that they begin with.
    fn find_shared_text(&self, project: &Project, own: &Composition) -> String {
        // Each lane reports what concerns its own prompt.
        let mut silent = project.clone();
        silent.observer = Arc::new(SilentObserver);
        let others = self.shared.lanes.iter().filter(|lane| lane.id != self.lane.id);
        let others = others.filter_map(|lane| self.compose_lane(&silent, lane, None, false).ok());
        let mut common = own.text().len();
        for (other, _) in others {
            common = common.min(common_length([own.text(), other.text()]));
        }
        let end = find_boundary(&own.composed.prompt, &own.rendered, common);
        own.text()[..end].to_owned()
    }
}
