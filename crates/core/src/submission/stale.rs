//! Finds files of the session by name patterns: files to read as submissions, and files of an earlier plan.

use alloc::string::String;
use alloc::vec::Vec;

use crate::diag::Diagnostics;
use crate::library::contract::Submission;
use crate::library::contract::paths::find_files;
use crate::library::contract::{SubmissionContext, SubmissionValues};
use crate::library::layout::Layout;
use crate::library::lookup::Library;
use crate::source::Sources;

/// Returns the files of the session that can hold a submission of the contract `name`, in byte order, each
/// with the data from its own name.
pub fn find_waiting_files(
    sources: &dyn Sources,
    layout: &Layout,
    name: &str,
) -> Result<Vec<(String, SubmissionValues)>, Diagnostics> {
    let context = SubmissionContext { library: Library::new(sources), layout, roles: Vec::new() };
    let submission = context.find_submission(name)?;
    let Some(file) = &submission.file else { return Ok(Vec::new()) };
    Ok(find_files(sources, file, submission.suffix.as_deref()))
}

/// Returns the numbered files, data and companions, whose number `is_kept` rejects.
pub(super) fn find_surplus_files(
    sources: &dyn Sources,
    submission: &Submission,
    data_too: bool,
    is_kept: &dyn Fn(u64) -> bool,
) -> Vec<String> {
    let companions = submission.write.iter().map(|companion| companion.path.as_str());
    let data = submission.file.as_deref().filter(|_| data_too);
    let mut beyond = Vec::new();
    for pattern in companions.chain(data) {
        for (path, data) in find_files(sources, pattern, None) {
            if data.values().filter_map(serde_json::Value::as_u64).any(|number| !is_kept(number)) {
                beyond.push(path);
            }
        }
    }
    beyond
}
