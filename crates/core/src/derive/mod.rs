//! Derived values: rows computed from the request and the sources.
//!
//! A row holds facts, never words: how it is worded is in the recipe. A value that has nothing to be
//! derived from is `None`, so that the next rule for an unfilled slot applies; one that is rightly
//! empty has no rows.

mod plans;
mod project;
mod read_first;
mod session;
mod tasks;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) use tasks::task_ids;

use crate::compose::Composer;
use crate::diag::{Code, Diag};
use crate::fact::Check;
use crate::fill::Row;
use crate::lookup;
use crate::prompt::{Absent, Block, From, Trust, Why};
use crate::recipe::{Derive, Derived, Each, Field};
use crate::request::{Document, DocumentKind, Task};
use crate::source::{Limits, Root, SourceId};
use crate::step::Rung;
use crate::template::Template;
use crate::text::Text;

pub(crate) fn derive(composer: &mut Composer<'_>, name: &str, spec: &Derive) -> Option<Block> {
    if spec.from == Derived::Extension {
        return Some(extension(composer, name));
    }
    composer.shown.extend(shows(spec.from));
    let rows = rows(composer, name, spec)?;
    Some(composer.word(name, spec, rows, &[]))
}

/// The parts of the request that a derived value shows.
fn shows(from: Derived) -> &'static [&'static str] {
    match from {
        Derived::ProjectDocuments | Derived::Memories => &["memories"],
        Derived::Rules => &["rules"],
        Derived::Depth => &["task.depth"],
        Derived::Task => &["task.id", "task.title"],
        Derived::Criteria => &["task.criteria"],
        Derived::ReadFirst => &["read_first", "documents"],
        Derived::Write => &["task.write"],
        Derived::Exclude => &["task.exclude"],
        Derived::RunResult | Derived::Checks | Derived::Violations | Derived::Changed => &["previous"],
        _ => &[],
    }
}

fn rows(c: &mut Composer<'_>, name: &str, spec: &Derive) -> Option<Vec<Row>> {
    let limit = spec.limit.unwrap_or(usize::MAX);
    let request = c.request;
    let previous = request.previous.as_ref();
    let mut make = Maker { name: name.into(), trust: Trust::Person, lines: true };
    Some(match spec.from {
        Derived::ProjectContext => project::context(c, name)?,
        Derived::Preferences => project::preferences(c, name, spec),
        Derived::Tasks => tasks::rows(c, name)?,
        Derived::Research => session::research(c, name),
        Derived::Plans => plans::rows(c, name)?,
        Derived::SubPlans => plans::all(c, name),
        Derived::Completion => plans::completion(c, name, spec)?,
        Derived::Findings => session::findings(c, name),
        Derived::ReviewRound => session::review_round(c, name)?,
        Derived::ProjectDocuments => project::documents(c, name),
        Derived::ProjectStructure => tree(c, name, spec)?,
        Derived::Skeleton => skeletons(c)?,
        Derived::Rules => {
            make.lines = false;
            let rules = request.rules.iter().filter(|rule| !rule.trim().is_empty());
            rules.map(|rule| make.row(c, "rule", [("text", rule.clone())])).collect()
        }
        Derived::Artifacts => {
            make.trust = Trust::Agent;
            let artifacts = request.documents.iter().enumerate();
            let artifacts = artifacts.filter(|(_, document)| document.kind == DocumentKind::Artifact);
            let artifacts: Vec<(usize, &Document)> = artifacts.collect();
            if artifacts.is_empty() {
                return None;
            }
            // What a budget left out does not travel with the prompt.
            let names = artifacts.into_iter().filter(|(at, _)| c.document_rung(*at) != Rung::Out);
            let names = names.filter_map(|(_, document)| document.name.as_ref().or(document.path.as_ref()));
            let names: Vec<&String> = names.collect();
            names.into_iter().map(|name| make.row(c, "artifact", [("name", name.as_str().into())])).collect()
        }
        Derived::Depth => {
            let task = request.task.as_ref()?;
            if task.depth.is_none() && task.max_depth.is_none() && task.max_steps.is_none() {
                return None;
            }
            alloc::vec![depth_row(c, name, Depth::of(task))]
        }
        Derived::FeatureDir => {
            let session = request.session.as_deref().unwrap_or(".");
            alloc::vec![make.row(c, "path", [("path", session.into())])]
        }
        Derived::ProjectDir => alloc::vec![make.row(c, "path", [("path", Text::fixed("."))])],
        Derived::AskUserTool => {
            make.trust = Trust::Ours;
            let tool = c.agent.tools.ask_user.clone()?;
            alloc::vec![make.row(c, "tool", [("name", tool.into())])]
        }
        Derived::Contract => crate::instruct::rows(c, name, spec)?,
        Derived::Workspace => {
            alloc::vec![make.row(c, if request.no_git { "folder" } else { "git" }, [])]
        }
        Derived::Task => task_line(c, &mut make)?,
        Derived::Criteria => {
            let criteria = request.task.iter().flat_map(|task| &task.criteria);
            let criteria = criteria.filter(|text| !text.trim().is_empty());
            criteria.map(|text| make.row(c, "criterion", [("text", text.clone())])).collect()
        }
        Derived::ReadFirst => read_first::read_first(c, name, limit),
        Derived::Memories => {
            let memories = request.memories.iter().filter(|memory| !memory.content.trim().is_empty());
            memories
                .map(|memory| {
                    let fields = [("type", memory.kind.as_str().into()), ("content", memory.content.clone())];
                    make.row(c, "memory", fields)
                })
                .collect()
        }
        Derived::Write => {
            let globs = c.scope().write.clone();
            if globs.is_empty() {
                let message = "no write scope was given: everything but the excludes may be written";
                c.talk.push(Diag::warning(Code::ScopeOpen, message).hint("narrow it with `--write GLOB`"));
                return Some(alloc::vec![make.row(c, "open", [("glob", Text::fixed("**"))])]);
            }
            globs.into_iter().map(|glob| make.row(c, "glob", [("glob", glob.as_str().into())])).collect()
        }
        Derived::Exclude => {
            let globs = c.scope().exclude.clone();
            globs.into_iter().map(|glob| make.row(c, "glob", [("glob", glob.as_str().into())])).collect()
        }
        Derived::RunResult => {
            make.trust = Trust::Ours;
            run_result(c, &mut make)?
        }
        Derived::Checks => {
            make.trust = Trust::Project;
            let checks = previous.iter().flat_map(|facts| &facts.checks);
            checks.map(|check| check_row(c, &mut make, spec, check)).collect()
        }
        Derived::Violations => {
            make.trust = Trust::Agent;
            let violations = &previous?.violations;
            if violations.is_empty() {
                return Some(Vec::new());
            }
            let count = violations.len().to_string().into();
            let count = make.row(c, "count", [("count", count)]);
            let rows = violations.iter().map(|violation| {
                let reason = match violation.reason {
                    crate::fact::Reason::OutsideWrite => "outside_write",
                    crate::fact::Reason::Excluded => "excluded",
                    crate::fact::Reason::LeadsOutside => "leads_outside",
                };
                let decision = Text::fixed(violation.decision.name());
                let fields = [("path", violation.path.as_str().into()), ("decision", decision)];
                make.row(c, reason, fields)
            });
            let rows = rows.collect();
            let mut rows = limited(c, &mut make, rows, limit);
            rows.insert(0, count);
            rows
        }
        Derived::Changed => {
            make.trust = Trust::Agent;
            let paths = &previous?.changed;
            let rows = paths.iter().map(|path| make.row(c, "path", [("path", path.as_str().into())]));
            let rows = rows.collect();
            limited(c, &mut make, rows, limit)
        }
        // Both need more than a name: the extension is a template, a data block is one of several.
        Derived::Extension | Derived::ContextData => return None,
    })
}

/// A value of the request, which counts as used.
pub(crate) fn value(c: &mut Composer<'_>, key: &str) -> Option<Text> {
    let (origin, _) = c.values.find(key)?;
    Some(c.origins[origin].text.clone())
}

/// Makes rows whose fields are texts of the derived value's own.
struct Maker {
    name: Text,
    trust: Trust,
    /// Whether each field has its place in one line.
    lines: bool,
}

impl Maker {
    fn row<const N: usize>(
        &mut self,
        c: &mut Composer<'_>,
        kind: &'static str,
        fields: [(&'static str, Text); N],
    ) -> Row {
        let fields = fields.into_iter().map(|(field, text)| {
            let from = From::derived(self.name.clone(), Text::fixed(field));
            // Between tags, a row that is one text is called what it is: `rule`, not `text`.
            let tag = if N == 1 { kind } else { field };
            let mut block = c.text_block(Text::fixed(tag), from, self.trust, text);
            block.supplied.iter_mut().for_each(|supplied| supplied.line = self.lines);
            (field, block)
        });
        Row { kind, fields: fields.collect() }
    }
}

fn limited(c: &mut Composer<'_>, make: &mut Maker, mut rows: Vec<Row>, limit: usize) -> Vec<Row> {
    let rest = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    if rest > 0 {
        c.absent.push(Absent {
            what: format!("derived {}", make.name),
            why: Why::Cut,
            detail: format!("{rest} more"),
        });
        make.trust = Trust::Ours;
        rows.push(make.row(c, "rest", [("count", rest.to_string().into())]));
    }
    rows
}

/// A row that is the whole text of a file; `None` where there is none, or nothing in it.
fn file_row(c: &mut Composer<'_>, name: &str, id: &SourceId) -> Option<Row> {
    match lookup::read(c.library.sources, id) {
        Ok(Some(text)) if !text.trim().is_empty() => {
            Some(Row { kind: "file", fields: alloc::vec![("content", c.file_block(name, id, &text))] })
        }
        Ok(found) => {
            let why = if found.is_some() { Why::Empty } else { Why::NotThere };
            c.absent.push(Absent { what: id.to_string(), why, detail: String::new() });
            None
        }
        Err(error) => {
            c.errors.push(error);
            None
        }
    }
}

fn tree(c: &mut Composer<'_>, name: &str, spec: &Derive) -> Option<Vec<Row>> {
    let root = SourceId::new(Root::Project, ".").ok()?;
    let limits =
        Limits { depth: spec.depth.unwrap_or(3), entries: spec.limit.unwrap_or(200), ignored: false };
    let listing = match c.library.sources.list(&root, limits) {
        Ok(listing) => listing?,
        Err(error) => {
            c.talk.push(Diag::warning(Code::SourceUnreadable, format!("`{root}` cannot be listed: {error}")));
            return None;
        }
    };
    let mut make = Maker { name: name.into(), trust: Trust::Project, lines: true };
    if listing.entries.is_empty() {
        return Some(alloc::vec![make.row(c, "empty", [])]);
    }
    let mut rows: Vec<Row> = Vec::new();
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
        let detail = if kind == "rest" { "entries over the limit" } else { "folders not entered" };
        c.absent.push(Absent {
            what: format!("derived {name}"),
            why: Why::Cut,
            detail: format!("{count} {detail}"),
        });
    }
    Some(rows)
}

/// The skeletons whose names begin with the phase: `skeletons/plan-proposal.md` for `plan`.
fn skeletons(c: &mut Composer<'_>) -> Option<Vec<Row>> {
    let phase = c.field(Field::Phase)?.to_string();
    let layout = &c.request.layout;
    let names = lookup::names_in(c.library.sources, "skeletons", layout);
    let mut rows = Vec::new();
    for name in
        names.iter().filter(|name| name.strip_prefix(&*phase).is_some_and(|rest| rest.starts_with('-')))
    {
        match c.library.file(&format!("skeletons/{name}.md"), layout) {
            Ok(Some((id, text))) => {
                let content = c.file_block("skeleton", &id, &text);
                rows.push(Row { kind: "skeleton", fields: alloc::vec![("content", content)] });
            }
            Ok(None) => {}
            Err(error) => c.errors.push(error),
        }
    }
    (!rows.is_empty()).then_some(rows)
}

pub(crate) struct Depth {
    pub(crate) depth: u32,
    pub(crate) max_depth: u32,
    pub(crate) max_steps: u32,
}

impl Default for Depth {
    fn default() -> Self {
        Self { depth: 0, max_depth: 2, max_steps: 20 }
    }
}

impl Depth {
    fn of(task: &Task) -> Self {
        let usual = Self::default();
        Self {
            depth: task.depth.unwrap_or(usual.depth),
            max_depth: task.max_depth.unwrap_or(usual.max_depth),
            max_steps: task.max_steps.unwrap_or(usual.max_steps),
        }
    }
}

/// The deepest level is decided first: a root task that may not be split is there to be done.
pub(crate) fn depth_row(c: &mut Composer<'_>, name: &str, task: Depth) -> Row {
    let mut make = Maker { name: name.into(), trust: Trust::Person, lines: true };
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

/// The project's own text for the command, then for the role; in it only placeholders are live.
fn extension(c: &mut Composer<'_>, name: &str) -> Block {
    let mut all = Block { name: name.into(), ..Block::default() };
    for (folder, field) in [("commands", Field::Command), ("agents", Field::Role)] {
        let Some(file) = c.field(field) else { continue };
        let path = format!("{}/{folder}/{file}.md", c.request.layout.prompts);
        let Ok(id) = SourceId::new(Root::Project, &path) else { continue };
        match lookup::read(c.library.sources, &id) {
            Ok(Some(text)) => {
                if !all.pieces.is_empty() {
                    let gap = c.engine("\n\n");
                    all.pieces.push(gap);
                }
                let template = Template::parse_extension(id, text).into();
                c.fill_supplied(&template, &mut all);
            }
            Ok(None) => {
                c.absent.push(Absent { what: id.to_string(), why: Why::NotThere, detail: String::new() })
            }
            Err(error) => c.errors.push(error),
        }
    }
    all
}

/// A check, with what it printed where that is known.
fn check_row(c: &mut Composer<'_>, make: &mut Maker, spec: &Derive, check: &Check) -> Row {
    let fields = [("name", check.name.as_str().into()), ("result", Text::fixed(check.result.name()))];
    // A recipe that has no words for it does not show it.
    let is_worded = matches!(&spec.each, Some(Each::Kinds(kinds)) if kinds.contains_key("output"));
    let Some(output) = check.output.as_ref().filter(|_| is_worded) else {
        return make.row(c, "check", fields);
    };
    let mut row = make.row(c, "output", fields);
    let from = From::derived(make.name.clone(), Text::fixed("output"));
    let mut output = c.text_block("output", from, Trust::Agent, output.as_str().into());
    output.supplied.iter_mut().for_each(|supplied| supplied.tagged = true);
    row.fields.push(("output", output));
    row
}

fn task_line(c: &mut Composer<'_>, make: &mut Maker) -> Option<Vec<Row>> {
    let task = c.request.task.as_ref()?;
    let row = match (task.id.clone(), task.title.clone()) {
        (Some(id), Some(title)) => make.row(c, "both", [("id", id), ("title", title)]),
        (Some(id), None) => make.row(c, "id", [("id", id)]),
        (None, Some(title)) => make.row(c, "title", [("title", title)]),
        (None, None) => return None,
    };
    Some(alloc::vec![row])
}

fn run_result(c: &mut Composer<'_>, make: &mut Maker) -> Option<Vec<Row>> {
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
