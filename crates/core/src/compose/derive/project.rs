//! The project's memory: its profile, the file that describes it, and its documents.
//!
//! Each is shown once, by its name. A file that the agent loads by itself is left out, and so is one that
//! cannot be read: a prompt without it is better than none.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::RowBuilder;
use crate::compose::Composer;
use crate::compose::fill::DerivedRow;
use crate::diag::{Code, Diagnostic};
use crate::library::layout::Layout;
use crate::library::lookup;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::preferences;
use crate::library::recipe::DocumentKind;
use crate::library::recipe::{DeriveSpec, RequestField};
use crate::source::origin::{Origin, OriginKind, Trust};
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;

const PROFILE: &str = ".callsheet/memory/profile.md";

/// Documents in the root of a project.
const DOCUMENTS: [&str; 3] = ["CLAUDE.md", "AGENTS.md", "README.md"];

/// Returns the profile and the file that describes the project, or `None` if there is neither.
pub(super) fn context_rows(c: &mut Composer<'_>, name: &str) -> Option<Vec<DerivedRow>> {
    let paths = [PROFILE.to_string(), find_context_file(c)];
    let (mut rows, left_out) = file_rows(c, name, &paths);
    if let [only] = rows.as_mut_slice() {
        // The recipe describes a single file; only two files need names to distinguish them.
        for supplied in only.fields.iter_mut().flat_map(|(_, block)| &mut block.supplied) {
            (supplied.name, supplied.path) = (Some(name.into()), None);
        }
    }
    (left_out || !rows.is_empty()).then_some(rows)
}

/// Returns the request's memories, or else the project's profile and documents.
pub(super) fn document_rows(c: &mut Composer<'_>, name: &str) -> Vec<DerivedRow> {
    let request = c.request;
    if !request.memories.is_empty() {
        let mut make = RowBuilder { name: name.into(), trust: Trust::Project, lines: false };
        let memories = request.memories.iter().filter(|memory| !memory.content.trim().is_empty());
        return memories.map(|memory| make.row(c, "memory", [("content", memory.content.clone())])).collect();
    }
    let mut paths = alloc::vec![PROFILE.to_string(), find_context_file(c)];
    paths.extend(DOCUMENTS.map(String::from));
    file_rows(c, name, &paths).0
}

/// Returns the configured file, or the default one if only that exists.
fn find_context_file(c: &Composer<'_>) -> String {
    let configured = &c.request.layout.project_context;
    let usual = Layout::default().project_context;
    if exists(c, configured) || !exists(c, &usual) { configured.clone() } else { usual }
}

/// Returns a row for each existing file, and whether a file was left out because the agent loads it.
fn file_rows(c: &mut Composer<'_>, name: &str, paths: &[String]) -> (Vec<DerivedRow>, bool) {
    let mut rows = Vec::new();
    let mut left_out = false;
    let mut seen = BTreeSet::new();
    for path in paths.iter().filter(|path| seen.insert(path.as_str())) {
        let Ok(id) = SourceId::new(SourceRoot::Project, path) else { continue };
        if is_loaded_by_agent(c, id.path()) {
            let agent = c.agent.name.clone();
            c.omitted.push(OmittedInput::new(id.to_string(), OmissionReason::LoadedByAgent, agent));
            left_out = true;
            continue;
        }
        rows.extend(named_file_row(c, name, &id));
    }
    (rows, left_out)
}

fn named_file_row(c: &mut Composer<'_>, name: &str, id: &SourceId) -> Option<DerivedRow> {
    let (why, detail) = match lookup::read_source(&c.library.sources, id) {
        Ok(Some(text)) if !text.trim().is_empty() => {
            let mut content = c.file_block(name, id, &text);
            let from = OriginKind::new_derived(SharedText::from(name), SharedText::from_static("path"));
            let origin = c.add_origin(Origin { from, trust: Trust::Project, text: id.path().into() });
            for supplied in &mut content.supplied {
                supplied.name = Some(SharedText::from_static(DocumentKind::File.name()));
                supplied.path = Some(c.whole_piece(origin));
            }
            return Some(DerivedRow { kind: "file", fields: alloc::vec![("content", content)] });
        }
        Ok(Some(_)) => (OmissionReason::Empty, String::new()),
        Ok(None) => (OmissionReason::NotThere, String::new()),
        Err(error) => {
            let warning = Diagnostic::warning(Code::SourceUnreadable, error.message.clone());
            c.diagnostics.push(warning.hint("the prompt is composed without it"));
            (OmissionReason::Empty, error.message)
        }
    };
    c.omitted.push(OmittedInput::new(id.to_string(), why, detail));
    None
}

/// Checks whether `path` exists and the agent loads it by itself.
fn is_loaded_by_agent(c: &Composer<'_>, path: &str) -> bool {
    let is_there = |path: &str| exists(c, path);
    let version = c.request.agent_version.as_deref();
    is_there(path) && c.agent.loads.iter().any(|entry| entry.loads(path, &is_there, version))
}

fn exists(c: &Composer<'_>, path: &str) -> bool {
    SourceId::new(SourceRoot::Project, path).is_ok_and(|id| !matches!(c.library.sources.text(&id), Ok(None)))
}

/// Returns the preferences that a person approved for the role, or else for the role that the recipe names
/// for the command or the phase.
pub(super) fn preference_rows(c: &mut Composer<'_>, name: &str, spec: &DeriveSpec) -> Vec<DerivedRow> {
    let of = |field| c.field(field).and_then(|name| spec.roles.get(name)).map(String::as_str);
    let role =
        c.field(RequestField::Role).or_else(|| of(RequestField::Command)).or_else(|| of(RequestField::Phase));
    let Some(role) = role.map(String::from) else { return Vec::new() };
    let Ok(id) = SourceId::new(SourceRoot::Project, &preferences::extension_path(&c.request.layout, &role))
    else {
        return Vec::new();
    };
    let text = lookup::read_source(&c.library.sources, &id).map_err(|error| c.errors.push(error));
    let Ok(Some(text)) = text else { return Vec::new() };
    // Each preference is already one line, and may well hold code.
    let mut make = RowBuilder { name: name.into(), trust: Trust::Project, lines: false };
    preferences::list_bullets(&text)
        .into_iter()
        .map(|bullet| make.row(c, "preference", [("text", bullet.into())]))
        .collect()
}
