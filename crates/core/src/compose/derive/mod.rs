//! Derived values: rows computed from the request and the sources.
//!
//! A row holds facts, never words: the recipe words them. A value without any input is `None`, so the next
//! rule for an unfilled slot applies; a value that is legitimately empty has no rows.

mod plans;
mod project;
mod read_first;
mod session;
mod tasks;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) use tasks::task_ids;

use crate::compose::Composer;
use crate::compose::fill::DerivedRow;
use crate::diag::{Code, Diagnostic};
use crate::library::allowed_command::AllowedCommand;
use crate::library::lookup;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::recipe::DocumentKind;
use crate::library::recipe::{DeriveSpec, DerivedValue, RequestField, RowWording};
use crate::library::template::Template;
use crate::prompt::Block;
use crate::request::detail::DetailLevel;
use crate::request::fact::CheckSummary;
use crate::request::{RequestDocument, Task};
use crate::source::origin::{OriginKind, Trust};
use crate::source::{ListingLimits, SourceId, SourceRoot};
use crate::text::SharedText;

pub(crate) fn derive(composer: &mut Composer<'_>, name: &str, spec: &DeriveSpec) -> Option<Block> {
    if spec.from == DerivedValue::Extension {
        return Some(extension_block(composer, name));
    }
    composer.shown.extend(spec.from.shown_fields());
    let rows = derive_rows(composer, name, spec)?;
    Some(composer.render_rows(name, spec, rows, &[]))
}

fn derive_rows(c: &mut Composer<'_>, name: &str, spec: &DeriveSpec) -> Option<Vec<DerivedRow>> {
    let limit = spec.limit.unwrap_or(usize::MAX);
    let request = c.request;
    let previous = request.previous.as_ref();
    let mut make = RowBuilder { name: name.into(), trust: Trust::Person, lines: true };
    Some(match spec.from {
        DerivedValue::ProjectContext => project::context_rows(c, name)?,
        DerivedValue::Preferences => project::preference_rows(c, name, spec),
        DerivedValue::Tasks => tasks::task_list_rows(c, name)?,
        DerivedValue::Research => session::research_rows(c, name),
        DerivedValue::Plans => plans::plan_rows(c, name)?,
        DerivedValue::SubPlans => plans::sub_plan_rows(c, name),
        DerivedValue::Completion => plans::completion_rows(c, name, spec)?,
        DerivedValue::Findings => session::finding_rows(c, name),
        DerivedValue::ReviewRound => session::review_round_rows(c, name)?,
        DerivedValue::ProjectDocuments => project::document_rows(c, name),
        DerivedValue::ProjectStructure => tree_rows(c, name, spec)?,
        DerivedValue::Skeleton => skeleton_rows(c)?,
        DerivedValue::Rules => {
            make.lines = false;
            let rules = request.rules.iter().filter(|rule| !rule.trim().is_empty());
            rules.map(|rule| make.row(c, "rule", [("text", rule.clone())])).collect()
        }
        DerivedValue::Artifacts => {
            make.trust = Trust::Agent;
            let artifacts = request.documents.iter().enumerate();
            let artifacts = artifacts.filter(|(_, document)| document.kind == DocumentKind::Artifact);
            let artifacts: Vec<(usize, &RequestDocument)> = artifacts.collect();
            if artifacts.is_empty() {
                return None;
            }
            // A document that the budget left out is not delivered with the prompt.
            let names = artifacts.into_iter().filter(|(at, _)| c.document_level(*at) != DetailLevel::Out);
            let names = names.filter_map(|(_, document)| document.name.as_ref().or(document.path.as_ref()));
            let names: Vec<&String> = names.collect();
            names.into_iter().map(|name| make.row(c, "artifact", [("name", name.as_str().into())])).collect()
        }
        DerivedValue::Depth => {
            let task = request.task.as_ref()?;
            if task.depth.is_none() && task.max_depth.is_none() && task.max_steps.is_none() {
                return None;
            }
            alloc::vec![depth_row(c, name, TaskDepth::from_task(task))]
        }
        DerivedValue::FeatureDir => {
            let session = request.session.as_deref().unwrap_or(".");
            alloc::vec![make.row(c, "path", [("path", session.into())])]
        }
        DerivedValue::ProjectDir => {
            alloc::vec![make.row(c, "path", [("path", SharedText::from_static("."))])]
        }
        DerivedValue::AskUserTool => {
            make.trust = Trust::Ours;
            let tool = c.agent.tools.ask_user.clone()?;
            alloc::vec![make.row(c, "tool", [("name", tool.into())])]
        }
        DerivedValue::Contract => crate::compose::reply_instructions::contract_rows(c, name, spec)?,
        DerivedValue::Workspace => {
            alloc::vec![make.row(c, if request.no_git { "folder" } else { "git" }, [])]
        }
        DerivedValue::Task => task_rows(c, &mut make)?,
        DerivedValue::Criteria => {
            let criteria = request.task.iter().flat_map(|task| &task.criteria);
            let criteria = criteria.filter(|text| !text.trim().is_empty());
            criteria.map(|text| make.row(c, "criterion", [("text", text.clone())])).collect()
        }
        DerivedValue::ReadFirst => read_first::read_first_rows(c, name, limit),
        DerivedValue::Memories => {
            let memories = request.memories.iter().filter(|memory| !memory.content.trim().is_empty());
            memories
                .map(|memory| {
                    let fields = [("type", memory.kind.as_str().into()), ("content", memory.content.clone())];
                    make.row(c, "memory", fields)
                })
                .collect()
        }
        DerivedValue::AllowedCommands => {
            let commands = request.allow.iter().filter_map(|text| AllowedCommand::parse(text).ok());
            let commands: BTreeSet<AllowedCommand> = commands.collect();
            let kind = |command: &AllowedCommand| if command.has_more() { "more" } else { "exact" };
            let row = |command: &AllowedCommand| (kind(command), command.line());
            let rows: Vec<_> = commands.iter().map(row).collect();
            rows.into_iter()
                .map(|(kind, line)| make.row(c, kind, [("command", line.as_str().into())]))
                .collect()
        }
        DerivedValue::Write => {
            let globs = c.scope().write.clone();
            if globs.is_empty() {
                let message = "no write scope given: the agent may write everything except the excludes";
                c.diagnostics.push(
                    Diagnostic::warning(Code::ScopeOpen, message).hint("narrow it with `--write GLOB`"),
                );
                return Some(alloc::vec![make.row(c, "open", [("glob", SharedText::from_static("**"))])]);
            }
            globs.into_iter().map(|glob| make.row(c, "glob", [("glob", glob.as_str().into())])).collect()
        }
        DerivedValue::Exclude => {
            let globs = c.scope().exclude.clone();
            globs.into_iter().map(|glob| make.row(c, "glob", [("glob", glob.as_str().into())])).collect()
        }
        DerivedValue::RunResult => {
            make.trust = Trust::Ours;
            run_result_rows(c, &mut make)?
        }
        DerivedValue::Checks => {
            make.trust = Trust::Project;
            let checks = previous.iter().flat_map(|facts| &facts.checks);
            checks.map(|check| check_row(c, &mut make, spec, check)).collect()
        }
        DerivedValue::Violations => {
            make.trust = Trust::Agent;
            let violations = &previous?.violations;
            if violations.is_empty() {
                return Some(Vec::new());
            }
            let count = violations.len().to_string().into();
            let mut rows = alloc::vec![make.row(c, "count", [("count", count)])];
            rows.extend(violations.iter().take(limit).map(|violation| {
                let decision = SharedText::from_static(violation.decision.name());
                let fields = [("path", violation.path.as_str().into()), ("decision", decision)];
                make.row(c, violation.reason.name(), fields)
            }));
            add_rest(c, &mut make, &mut rows, violations.len().saturating_sub(limit));
            rows
        }
        DerivedValue::Changed => {
            make.trust = Trust::Agent;
            let paths = &previous?.changed;
            let shown = paths.iter().take(limit);
            let mut rows: Vec<DerivedRow> =
                shown.map(|path| make.row(c, "path", [("path", path.as_str().into())])).collect();
            add_rest(c, &mut make, &mut rows, paths.len().saturating_sub(limit));
            rows
        }
        // Both need more than a name: the extension is a template, and a data block is one of several.
        DerivedValue::Extension | DerivedValue::ContextData => return None,
    })
}

/// Returns a value of the request and marks it as used.
pub(crate) fn use_value(c: &mut Composer<'_>, key: &str) -> Option<SharedText> {
    let (origin, _) = c.values.find(key)?;
    Some(c.origins[origin].text.clone())
}

/// Builds rows whose fields are texts of the derived value itself.
struct RowBuilder {
    name: SharedText,
    trust: Trust,
    /// Whether each field is part of one line.
    lines: bool,
}

impl RowBuilder {
    fn row<const N: usize>(
        &mut self,
        c: &mut Composer<'_>,
        kind: &'static str,
        fields: [(&'static str, SharedText); N],
    ) -> DerivedRow {
        if !c.take_row(N) {
            return DerivedRow { kind, fields: Vec::new() };
        }
        let fields = fields.into_iter().map(|(field, text)| {
            let from = OriginKind::new_derived(self.name.clone(), SharedText::from_static(field));
            // Between tags, a row of one text has the name of its kind: `rule`, not `text`.
            let tag = if N == 1 { kind } else { field };
            let mut block = c.text_block(SharedText::from_static(tag), from, self.trust, text);
            block.supplied.iter_mut().for_each(|supplied| supplied.line = self.lines);
            (field, block)
        });
        DerivedRow { kind, fields: fields.collect() }
    }
}

/// Adds a row with the number of rows that a limit omits.
fn add_rest(c: &mut Composer<'_>, make: &mut RowBuilder, rows: &mut Vec<DerivedRow>, rest: usize) {
    if rest > 0 {
        c.omitted.push(OmittedInput::new(
            format!("derived {}", make.name),
            OmissionReason::Cut,
            format!("{rest} more"),
        ));
        make.trust = Trust::Ours;
        rows.push(make.row(c, "rest", [("count", rest.to_string().into())]));
    }
}

/// Returns a row with the whole text of a file, or `None` if the file is missing or blank.
fn file_row(c: &mut Composer<'_>, name: &str, id: &SourceId) -> Option<DerivedRow> {
    match lookup::read_source(&c.library.sources, id) {
        Ok(Some(text)) if !text.trim().is_empty() => {
            Some(DerivedRow { kind: "file", fields: alloc::vec![("content", c.file_block(name, id, &text))] })
        }
        Ok(found) => {
            let why = if found.is_some() { OmissionReason::Empty } else { OmissionReason::NotThere };
            c.omitted.push(OmittedInput::new(id.to_string(), why, ""));
            None
        }
        Err(error) => {
            c.errors.push(error);
            None
        }
    }
}

fn tree_rows(c: &mut Composer<'_>, name: &str, spec: &DeriveSpec) -> Option<Vec<DerivedRow>> {
    let root = SourceId::new(SourceRoot::Project, ".").ok()?;
    let limits =
        ListingLimits { depth: spec.depth.unwrap_or(3), entries: spec.limit.unwrap_or(200), ignored: false };
    let listing = match c.library.sources.list(&root, limits) {
        Ok(listing) => listing?,
        Err(error) => {
            c.diagnostics
                .push(Diagnostic::warning(Code::SourceUnreadable, format!("cannot list `{root}`: {error}")));
            return None;
        }
    };
    let mut make = RowBuilder { name: name.into(), trust: Trust::Project, lines: true };
    if listing.entries.is_empty() {
        return Some(alloc::vec![make.row(c, "empty", [])]);
    }
    let mut rows: Vec<DerivedRow> = Vec::new();
    for entry in listing.entries {
        let (above, file) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
        let level = if above.is_empty() { 0 } else { above.matches('/').count() + 1 };
        let kind = if entry.dir { "dir" } else { "file" };
        rows.push(make.row(c, kind, [("indent", "  ".repeat(level).into()), ("name", file.into())]));
    }
    let left_out = [("rest", listing.left_out), ("deeper", listing.not_entered)];
    for (kind, count) in left_out.into_iter().filter(|(_, count)| *count > 0) {
        make.trust = Trust::Ours;
        rows.push(make.row(c, kind, [("count", count.to_string().into())]));
        let detail = match (kind, count) {
            ("rest", 1) => "entry over the limit",
            ("rest", _) => "entries over the limit",
            (_, 1) => "folder not entered",
            _ => "folders not entered",
        };
        c.omitted.push(OmittedInput::new(
            format!("derived {name}"),
            OmissionReason::Cut,
            format!("{count} {detail}"),
        ));
    }
    Some(rows)
}

/// Returns the skeletons whose names begin with the phase: `skeletons/plan-proposal.md` for `plan`.
fn skeleton_rows(c: &mut Composer<'_>) -> Option<Vec<DerivedRow>> {
    let phase = c.field(RequestField::Phase)?.to_string();
    let layout = &c.request.layout;
    let names = lookup::list_names(&c.library.sources, "skeletons", layout);
    let mut rows = Vec::new();
    for name in
        names.iter().filter(|name| name.strip_prefix(&*phase).is_some_and(|rest| rest.starts_with('-')))
    {
        match c.library.read_file(&format!("skeletons/{name}.md"), layout) {
            Ok(Some((id, text))) => {
                let content = c.file_block("skeleton", &id, &text);
                rows.push(DerivedRow { kind: "skeleton", fields: alloc::vec![("content", content)] });
            }
            Ok(None) => {}
            Err(error) => c.errors.push(error),
        }
    }
    (!rows.is_empty()).then_some(rows)
}

pub(crate) struct TaskDepth {
    pub(crate) depth: u32,
    pub(crate) max_depth: u32,
    pub(crate) max_steps: u32,
}

impl Default for TaskDepth {
    fn default() -> Self {
        Self { depth: 0, max_depth: 2, max_steps: 20 }
    }
}

impl TaskDepth {
    fn from_task(task: &Task) -> Self {
        let usual = Self::default();
        Self {
            depth: task.depth.unwrap_or(usual.depth),
            max_depth: task.max_depth.unwrap_or(usual.max_depth),
            max_steps: task.max_steps.unwrap_or(usual.max_steps),
        }
    }
}

/// Returns the row for a task's depth. The deepest level is checked first: a root task that may not be split
/// is a task to be done.
pub(crate) fn depth_row(c: &mut Composer<'_>, name: &str, task: TaskDepth) -> DerivedRow {
    let mut make = RowBuilder { name: name.into(), trust: Trust::Person, lines: true };
    if task.depth >= task.max_depth {
        make.row(c, "execution-focus", [])
    } else if task.depth == 0 {
        make.row(c, "plan-structure-guide", [("max_steps", task.max_steps.to_string().into())])
    } else {
        let depths = [
            ("current_depth", task.depth.to_string().into()),
            ("max_depth", task.max_depth.to_string().into()),
        ];
        make.row(c, "controlled-splitting", depths)
    }
}

/// Returns the project's own text for the command, then for the role. Only its placeholders are live.
fn extension_block(c: &mut Composer<'_>, name: &str) -> Block {
    let mut all = Block { name: name.into(), ..Block::default() };
    for (folder, field) in [("commands", RequestField::Command), ("agents", RequestField::Role)] {
        let Some(file) = c.field(field) else { continue };
        let path = format!("{}/{folder}/{file}.md", c.request.layout.prompts);
        let Ok(id) = SourceId::new(SourceRoot::Project, &path) else { continue };
        match lookup::read_source(&c.library.sources, &id) {
            Ok(Some(text)) => {
                if !all.pieces.is_empty() {
                    let gap = c.engine_piece("\n\n");
                    all.pieces.push(gap);
                }
                let template = Template::parse_extension(id, text).into();
                c.fill_supplied(&template, &mut all);
            }
            Ok(None) => c.omitted.push(OmittedInput::new(id.to_string(), OmissionReason::NotThere, "")),
            Err(error) => c.errors.push(error),
        }
    }
    all
}

/// Returns the row of a check, with its output if that is known.
fn check_row(
    c: &mut Composer<'_>,
    make: &mut RowBuilder,
    spec: &DeriveSpec,
    check: &CheckSummary,
) -> DerivedRow {
    let fields =
        [("name", check.name.as_str().into()), ("result", SharedText::from_static(check.result.name()))];
    // A recipe without a wording for the output does not show it.
    let is_worded = matches!(&spec.each, Some(RowWording::Kinds(kinds)) if kinds.contains_key("output"));
    let Some(output) = check.output.as_ref().filter(|_| is_worded) else {
        return make.row(c, "check", fields);
    };
    let mut row = make.row(c, "output", fields);
    let from = OriginKind::new_derived(make.name.clone(), SharedText::from_static("output"));
    let mut output = c.text_block("output", from, Trust::Agent, output.as_str().into());
    output.supplied.iter_mut().for_each(|supplied| supplied.tagged = true);
    row.fields.push(("output", output));
    row
}

fn task_rows(c: &mut Composer<'_>, make: &mut RowBuilder) -> Option<Vec<DerivedRow>> {
    let task = c.request.task.as_ref()?;
    let row = match (task.id.clone(), task.title.clone()) {
        (Some(id), Some(title)) => make.row(c, "both", [("id", id), ("title", title)]),
        (Some(id), None) => make.row(c, "id", [("id", id)]),
        (None, Some(title)) => make.row(c, "title", [("title", title)]),
        (None, None) => return None,
    };
    Some(alloc::vec![row])
}

fn run_result_rows(c: &mut Composer<'_>, make: &mut RowBuilder) -> Option<Vec<DerivedRow>> {
    let facts = c.request.previous.as_ref()?;
    let mut rows = Vec::new();
    if let Some(run) = &facts.run {
        rows.push(make.row(c, "run", [("run", run.as_str().into())]));
    }
    if let Some(ended) = facts.ended {
        rows.push(make.row(c, ended.name(), []));
    }
    if let Some(code) = facts.exit_code {
        rows.push(make.row(c, "exit_code", [("exit_code", code.to_string().into())]));
    }
    if let Some(attempts) = facts.attempts {
        rows.push(make.row(c, "attempts", [("attempts", attempts.to_string().into())]));
    }
    Some(rows)
}
