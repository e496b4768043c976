//! Values read from the session directory: finished research, open findings, the number of the review round.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::Value;

use super::{RowBuilder, use_value};
use crate::compose::Composer;
use crate::compose::fill::DerivedRow;
use crate::diag::{Code, Diagnostic, push_diagnostic};
use crate::library::lookup;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::prompt::Block;
use crate::source::origin::Trust;
use crate::source::{Listing, ListingLimits, SourceId, SourceRoot};
use crate::text::SharedText;
use crate::text::name::is_name;

const RESEARCH: &str = "03_research";
const REVIEW: &str = "07_review";
const FIX_REQUEST: &str = "07_review/fix_request.md";

/// Returns a required file of the session as a block.
pub(super) fn read_required(c: &mut Composer<'_>, name: &str, path: &str) -> Option<Block> {
    let id = session_file_id(c, path)?;
    match lookup::read_source(&c.library.sources, &id) {
        Ok(Some(text)) => return Some(c.file_block(name, &id, &text)),
        Ok(None) => {
            let message = format!("file not found: `{path}`");
            push_diagnostic(&mut c.errors, Code::IncludeNotFound, || {
                Diagnostic::error(Code::IncludeNotFound, message).searched([&id])
            });
        }
        Err(error) => c.errors.push(error),
    }
    None
}

fn session_file_id(c: &mut Composer<'_>, path: &str) -> Option<SourceId> {
    let id = SourceId::new(SourceRoot::Session, path);
    if let Err(why) = &id {
        let message = format!("cannot read `{path}`: {why}");
        c.errors.push(Diagnostic::error(Code::IncludeBadPath, message));
    }
    id.ok()
}

/// Lists a folder of the session. The listing is empty if there is no such folder.
fn list_folder(c: &mut Composer<'_>, folder: &str, depth: usize) -> Listing {
    let Ok(id) = SourceId::new(SourceRoot::Session, folder) else { return Listing::default() };
    // Version control may ignore the session directory.
    let limits = ListingLimits { depth, entries: 10_000, ignored: true };
    match c.library.sources.list(&id, limits) {
        Ok(listing) => {
            if listing.is_none() {
                c.omitted.push(OmittedInput::new(id.to_string(), OmissionReason::NotThere, ""));
            }
            listing.unwrap_or_default()
        }
        Err(error) => {
            c.errors.push(Diagnostic::error(Code::SourceUnreadable, format!("cannot list `{id}`: {error}")));
            Listing::default()
        }
    }
}

/// Returns the finished research. A topic counts once both its `done` and its summary exist.
pub(super) fn research_rows(c: &mut Composer<'_>, name: &str) -> Vec<DerivedRow> {
    let entries = list_folder(c, RESEARCH, 2).entries;
    let files: BTreeSet<&str> = entries.iter().filter(|e| !e.dir).map(|e| e.path.as_str()).collect();
    let mut make = RowBuilder { name: name.into(), trust: Trust::Agent, lines: true };
    let mut rows = Vec::new();
    for topic in entries.iter().filter(|entry| entry.dir && !entry.path.contains('/')) {
        let has = |file: &str| files.contains(format!("{}/{file}", topic.path).as_str());
        if !has("done") || !has("summary.md") {
            let missing = if has("done") { "no summary.md" } else { "not done" };
            let what = format!("session:{RESEARCH}/{}", topic.path);
            c.omitted.push(OmittedInput::new(what, OmissionReason::Empty, missing));
            continue;
        }
        let mut row = |kind: &'static str, file: &str| {
            let path = format!("{RESEARCH}/{}/{file}", topic.path);
            rows.push(make.row(c, kind, [("path", path.into())]));
        };
        row("summary", "summary.md");
        if has("detail.md") {
            row("detail", "detail.md");
        }
    }
    rows
}

/// Returns the fix request, or else every failed review in order of their names.
pub(super) fn finding_rows(c: &mut Composer<'_>, name: &str) -> Vec<DerivedRow> {
    let named = use_value(c, "fix_request_file");
    let mut make = RowBuilder { name: name.into(), trust: Trust::Agent, lines: true };
    let mut row = |c: &mut Composer<'_>, path: &str, content: Block| {
        let mut row = make.row(c, "file", [("path", path.into())]);
        row.fields.push(("content", content));
        row
    };
    let request = named.or_else(|| {
        let id = SourceId::new(SourceRoot::Session, FIX_REQUEST);
        let there = id.map(|id| lookup::read_source(&c.library.sources, &id));
        (!matches!(there, Ok(Ok(None)))).then_some(SharedText::from_static(FIX_REQUEST))
    });
    if let Some(path) = request {
        let content = read_required(c, "findings", &path);
        return content.map(|content| row(c, &path, content)).into_iter().collect();
    }
    let entries = list_folder(c, REVIEW, 1).entries;
    let mut rows = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.dir && is_review(&entry.path)) {
        let path = format!("{REVIEW}/{}", entry.path);
        let Some(content) = read_required(c, "findings", &path) else { continue };
        if content.text(&c.origins).lines().next().is_some_and(|first| first.trim_end() == "verdict: fail") {
            rows.push(row(c, &path, content));
        }
    }
    if rows.is_empty() {
        let looked = [FIX_REQUEST, "07_review/review.md"];
        let looked: Vec<SourceId> =
            looked.into_iter().filter_map(|path| SourceId::new(SourceRoot::Session, path).ok()).collect();
        let message = "no findings: no fix request and no failed review";
        c.errors.push(Diagnostic::error(Code::IncludeNotFound, message).searched(looked));
    }
    rows
}

/// Matches `review.md` and `review_<role>.md`. Archived reviews begin with the number of their round.
fn is_review(file: &str) -> bool {
    let Some(stem) = file.strip_suffix(".md") else { return false };
    let role = stem.strip_prefix("review_");
    stem == "review"
        || role.is_some_and(|role| is_name(role) && !role.starts_with(|c: char| c.is_ascii_digit()))
}

pub(super) fn review_round_rows(c: &mut Composer<'_>, name: &str) -> Option<Vec<DerivedRow>> {
    let id = SourceId::new(SourceRoot::Session, "state.json").ok()?;
    let state = lookup::read_source(&c.library.sources, &id).map_err(|error| c.errors.push(error)).ok()??;
    let state: Result<Value, _> = serde_json::from_str(&state);
    let state = state.map_err(|error| {
        let message = format!("`state.json` is not valid JSON: {error}");
        c.diagnostics.push(Diagnostic::warning(Code::SourceUnreadable, message).searched([&id]));
    });
    let state = state.ok()?;
    let rounds = state["review_iteration"].as_u64()?;
    let mut make = RowBuilder { name: name.into(), trust: Trust::Ours, lines: true };
    Some(alloc::vec![make.row(c, "round", [("round", rounds.saturating_add(1).to_string().into())])])
}
