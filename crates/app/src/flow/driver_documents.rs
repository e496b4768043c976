//! Watches the documents of a driven flow: records their changes, and whose they are.

use std::collections::BTreeMap;
use std::thread::{self};
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::{
    DocumentChanges, DocumentFilter, DriverPresence, FlowEvent, FlowState, diff_documents,
};
use callsheet_core::record::{DecidedBy, Id};

use super::driver::{FlowDriver, LOOK};
use crate::error::{Error, Result};
use crate::project::state::RunDir;
use crate::run::is_pane_alive;

/// How long a temporary file may take to replace its document. A file that stays is judged like any other.
const SETTLES: Duration = Duration::from_secs(1);

impl FlowDriver<'_> {
    /// Records the differences since the last look at the documents.
    pub(super) fn check_documents(&mut self, by: DecidedBy) -> Result<()> {
        let changed = self.changed_documents();
        self.record_document_changes(changed, DriverPresence::Driven, by)
    }

    /// Fails if documents differ from the approved ones.
    pub(super) fn check_approved(&mut self) -> Result<()> {
        self.check_documents(DecidedBy::Flow)?;
        if self.state.strayed.is_empty() { Ok(()) } else { Err(strayed_error(&self.id, &self.state)) }
    }

    fn changed_documents(&mut self) -> DocumentChanges {
        let filter = DocumentFilter::new(&self.plan.definition, self.state.entry);
        let begun = Instant::now();
        loop {
            let now = self.documents.read(&self.folder.path, &|path| filter.is_document(path));
            let changed = diff_documents(self.state.documents.as_ref().unwrap_or(&BTreeMap::new()), &now);
            // A lane that ends writes its outputs: such a temporary file is about to replace a document.
            let is_coming = |path: &String| {
                let name = path.rsplit('/').next().unwrap_or_default();
                name.starts_with('.') && name.ends_with(".new")
            };
            if !changed.keys().any(is_coming) || begun.elapsed() > SETTLES {
                return changed;
            }
            thread::sleep(LOOK);
        }
    }

    fn record_document_changes(
        &mut self,
        changed: DocumentChanges,
        meanwhile: DriverPresence,
        by: DecidedBy,
    ) -> Result<()> {
        if self.state.documents.is_none() || !changed.is_empty() {
            self.apply_event(FlowEvent::Documents { changed, meanwhile }, by)?;
        }
        Ok(())
    }

    /// Records the document changes since the flow was last driven. Changes that the agents' guards saw after
    /// the last process of their agents ended are the agents'; later ones are a person's. If a guard saw
    /// nothing, the author is unknown.
    pub(super) fn record_unattended_changes(&mut self) -> Result<()> {
        let mut looks = Vec::new();
        for run in self.state.running_lanes().filter_map(|(_, run)| Id::parse(run?)) {
            let run_dir = RunDir::from_run(&run)?;
            if run_dir.pane().as_ref().is_some_and(is_pane_alive) {
                // The agent continues in its terminal: the flow was not left alone.
                return Ok(());
            }
            looks.push(run_dir.last_documents(&run));
        }
        let changed = self.changed_documents();
        let Some(looks) = looks.into_iter().collect::<Option<Vec<_>>>() else {
            return self.record_document_changes(changed, DriverPresence::Cut, DecidedBy::Flow);
        };
        let was_seen =
            |path: &String, what: &Option<String>| looks.iter().any(|seen| seen.get(path) == what.as_ref());
        let (agents, persons) = changed.into_iter().partition(|(path, what)| was_seen(path, what));
        self.record_document_changes(agents, DriverPresence::Driven, DecidedBy::Flow)?;
        self.record_document_changes(persons, DriverPresence::LeftAlone, self.project.caller())
    }
}

/// Reports documents that differ from the approved ones.
pub(super) fn strayed_error(flow: &Id, state: &FlowState) -> Error {
    let paths: Vec<&str> = state.strayed.keys().map(String::as_str).collect();
    let message = format!("approved documents changed: {}", paths.join(", "));
    Diagnostic::error(Code::FlowRefused, message).hint(restore_hint(flow)).into()
}

/// Returns the hint for documents that differ from the approved ones.
pub(super) fn restore_hint(flow: &Id) -> String {
    let accept = format!("callsheet flow decide approve --flow {flow}");
    format!("restore them and run `callsheet flow resume {flow}`, or accept them with `{accept}`")
}
