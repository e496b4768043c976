//! Builds the request of a lane: its values, its documents, and the globs that it may write.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::changes::changes_for;
use super::{Flow, FlowState, Lane, Phase, PhaseRequest, WriteAccess};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::lookup::{DynLibrary, read_source};
use crate::library::recipe::DocumentKind;
use crate::request::values::SlotValues;
use crate::request::{Request, RequestDocument};
use crate::source::{ListingLimits, SourceId, SourceRoot};
use crate::text::SharedText;
use crate::text::glob::Glob;

/// Name of the artifact with the reasons why the lane's last submission was refused.
const REFUSED: &str = "REFUSED.md";

/// Returns the folder, inside the flow's folder, for the files that an entry sets aside.
pub fn archive_folder(entry: u32) -> String {
    format!("earlier/{entry:03}")
}

/// Builds the request of a lane, without the agent, the session and the layout. The flow's folder is the
/// session root of the sources.
pub fn build_request(
    flow: &Flow,
    state: &FlowState,
    phase: &Phase,
    lane: &Lane,
    library: &DynLibrary<'_>,
) -> Result<Request, Diagnostics> {
    let ask = phase.phase_request(state.again);
    let fill = |text: &String| PhaseRequest::fill(text, &state.request, lane);
    let mut values = SlotValues::default();
    for (name, value) in &ask.values {
        if let Some(value) = fill(value) {
            values.insert(name.as_str().into(), value.into());
        }
    }
    let mut inputs: Vec<String> = phase.inputs(state.again).to_vec();
    let refused = state.refused.get(&lane.id).map(Vec::as_slice).unwrap_or_default();
    if !refused.is_empty() {
        // The agent needs the refused files to correct them.
        inputs.extend(phase.stale_lane_files(lane));
    }
    let mut documents = read_artifacts(&inputs, state.entry, library)?;
    for document in documents.iter_mut().filter(|document| document.name.as_deref() == Some(&*flow.changes)) {
        let words = document.content.as_deref().unwrap_or_default();
        document.content = Some(changes_for(flow, &phase.name, words).into());
    }
    documents.retain(|document| {
        document.name.as_deref() != Some(&*flow.changes) || document.content.as_deref() != Some("")
    });
    if !refused.is_empty() {
        let reasons: String =
            refused.iter().map(|reason| format!("- {}\n", reason.replace('\n', "\n  "))).collect();
        documents.push(new_artifact(REFUSED.to_string(), reasons.into()));
    }
    Ok(Request {
        recipe: Some(phase.recipe.clone()),
        phase: ask.phase.clone().or_else(|| Some(phase.name.clone())),
        role: ask.role.as_ref().and_then(fill),
        command: ask.command.clone(),
        instructions: ask.instructions.as_ref().and_then(fill).map(SharedText::from),
        values,
        documents,
        ..Request::default()
    })
}

/// Reads the files of the flow's folder that `inputs` name, in that order. Files that this entry set aside
/// are read from there, so a lane receives the files that it is about to replace, no matter how often it is
/// started.
fn read_artifacts(
    inputs: &[String],
    entry: u32,
    library: &DynLibrary<'_>,
) -> Result<Vec<RequestDocument>, Diagnostics> {
    let before = archive_folder(entry) + "/";
    let mut documents: Vec<RequestDocument> = Vec::new();
    let mut seen = BTreeSet::new();
    for input in inputs {
        let mut paths = find_matching(library, &before, input)?;
        paths.extend(find_matching(library, "", input)?);
        for path in paths {
            if seen.contains(&path) {
                continue;
            }
            let text = match read_session_text(library, &format!("{before}{path}"))? {
                None => read_session_text(library, &path)?,
                aside => aside,
            };
            let Some(text) = text else { continue };
            seen.insert(path.clone());
            documents.push(new_artifact(path, text));
        }
    }
    Ok(documents)
}

fn new_artifact(name: String, content: SharedText) -> RequestDocument {
    RequestDocument {
        kind: DocumentKind::Artifact,
        name: Some(name),
        content: Some(content),
        ..RequestDocument::default()
    }
}

/// Returns the text of a file of the flow's folder, or `None` if there is no such file.
pub(super) fn read_session_text(
    library: &DynLibrary<'_>,
    path: &str,
) -> Result<Option<SharedText>, Diagnostics> {
    let Ok(id) = SourceId::new(SourceRoot::Session, path) else { return Ok(None) };
    Ok(read_source(&library.sources, &id)?)
}

/// Returns the paths below `home` that match `input`, in byte order.
pub(super) fn find_matching(
    library: &DynLibrary<'_>,
    home: &str,
    input: &str,
) -> Result<BTreeSet<String>, Diagnostics> {
    let Some(first) = input.find(['*', '?', '[', '{']) else { return Ok([input.to_string()].into()) };
    let folder = input[..first].rsplit_once('/').map_or("", |(folder, _)| folder);
    let dir = SourceId::new(SourceRoot::Session, &format!("./{home}{folder}"));
    let Ok(dir) = dir else { return Ok(BTreeSet::new()) };
    let limits = ListingLimits { depth: 8, entries: 10_000, ignored: true };
    let listing = library.sources.list(&dir, limits).map_err(|error| {
        Diagnostic::error(Code::SourceUnreadable, format!("cannot list `{dir}`: {error}"))
    })?;
    let glob = Glob::new(input);
    let files = listing.unwrap_or_default().entries.into_iter().filter(|entry| !entry.dir);
    let paths = files.map(|entry| match folder {
        "" => entry.path,
        folder => format!("{folder}/{}", entry.path),
    });
    Ok(paths.filter(|path| glob.covers(path)).collect())
}

/// Returns the files among the lane's outputs that exist now.
pub fn find_outputs(
    phase: &Phase,
    lane: &Lane,
    library: &DynLibrary<'_>,
) -> Result<Vec<String>, Diagnostics> {
    let mut files = BTreeSet::new();
    for output in phase.outputs.iter().chain(&phase.report) {
        for id in lane.covers() {
            for path in find_matching(library, "", &output.replace("{lane}", id))? {
                if read_session_text(library, &path)?.is_some() {
                    files.insert(path);
                }
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// Returns the globs that a lane may write, relative to the project; empty if it may write everything.
/// `folder` is the flow's folder.
pub fn writable_globs(phase: &Phase, lane: &Lane, folder: &str) -> Vec<String> {
    let own = format!("{}/**", folder.trim_end_matches('/'));
    match phase.writes {
        WriteAccess::Folder => alloc::vec![own],
        WriteAccess::Project if lane.owned.is_empty() => Vec::new(),
        WriteAccess::Project => lane.owned.iter().map(ToString::to_string).chain([own]).collect(),
    }
}
