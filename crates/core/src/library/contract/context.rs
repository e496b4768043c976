//! Judges data by a contract, with the sources and settings that this needs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::{Submission, SubmissionValues, fields, find_contract};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{Library, read_source};
use crate::source::{SourceId, SourceRoot, Sources};
use crate::text::SharedText;

/// Sources and settings that submissions are checked with.
pub(crate) struct SubmissionContext<'s> {
    pub(crate) library: Library<&'s dyn Sources>,
    pub(crate) layout: &'s Layout,
    pub(crate) roles: Vec<String>,
}

impl SubmissionContext<'_> {
    pub(crate) fn find_submission(&self, name: &str) -> Result<Submission, Diagnostics> {
        let (id, contract) = find_contract(&self.library, name, self.layout)?;
        contract.submission.ok_or_else(|| {
            Diagnostic::error(Code::SubmissionBad, format!("the contract `{name}` has no submission"))
                .searched([id])
                .into()
        })
    }

    pub(crate) fn check_fields(
        &self,
        submission: &Submission,
        given: &Value,
    ) -> Result<(SubmissionValues, Vec<Diagnostic>), Diagnostics> {
        fields::check_fields(&submission.field, given, &self.roles)
    }

    pub(crate) fn has_file(&self, path: &str) -> Result<bool, Diagnostics> {
        let Ok(id) = SourceId::new(SourceRoot::Session, path) else { return Ok(false) };
        Ok(read_source(&self.library.sources, &id)?.is_some())
    }

    pub(crate) fn session_text(&self, file: &str) -> Result<Option<SharedText>, Diagnostics> {
        let Ok(id) = SourceId::new(SourceRoot::Session, file) else { return Ok(None) };
        Ok(read_source(&self.library.sources, &id)?)
    }
}
