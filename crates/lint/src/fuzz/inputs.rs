//! Everything that reaches a prompt from outside: the contents of a request, and files that callsheet does
//! not own.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::request::fact::{
    CheckResult, CheckSummary, EndReason, RunFacts, Violation, ViolationDecision, ViolationReason,
};
use callsheet_core::request::{ContextBlock, MemoryEntry, Request, RequestDocument, Task};
use callsheet_core::source::{Listing, ListingLimits, SourceError, SourceId, SourceRoot, Sources};
use callsheet_core::text::SharedText;

/// One way for a text to get into a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FuzzInput {
    /// A value for a slot.
    Value(String),
    /// A field of the request, by its index in [`FIELDS`].
    Field(usize),
    /// Every file of the session.
    Session,
    /// The files in which a project describes itself.
    Project,
}

impl FuzzInput {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Value(name) => name.clone(),
            Self::Field(at) => FIELDS[*at].0.into(),
            Self::Session => "session file".into(),
            Self::Project => "project document".into(),
        }
    }

    /// Returns a harmless text that occurs nowhere else.
    pub(super) fn plain_text(&self) -> String {
        match self {
            Self::Value(name) => format!("plain-value-{name}-x"),
            Self::Field(at) => format!("plain-field-{at}-x"),
            Self::Session => "plain-session-x".into(),
            Self::Project => "plain-project-x".into(),
        }
    }
}

type FieldSetter = fn(&mut Request, SharedText);

/// The fields that become text.
pub(super) const FIELDS: [(&str, FieldSetter); 24] = [
    ("instructions", |request, text| request.instructions = Some(text)),
    ("human_input", |request, text| request.human_input = Some(text)),
    ("task.id", |request, text| task_mut(request).id = Some(text)),
    ("task.title", |request, text| task_mut(request).title = Some(text)),
    ("task.description", |request, text| task_mut(request).description = Some(text)),
    ("task.criteria", |request, text| task_mut(request).criteria = alloc::vec![text]),
    ("task.write", |request, text| task_mut(request).write = alloc::vec![text.to_string()]),
    ("task.exclude", |request, text| task_mut(request).exclude = alloc::vec![text.to_string()]),
    ("rules", |request, text| request.rules = alloc::vec![text]),
    ("read_first", |request, text| request.read_first = alloc::vec![text.to_string()]),
    ("memories.type", |request, text| memory_mut(request).kind = text.to_string()),
    ("memories.content", |request, text| memory_mut(request).content = text),
    ("context.text", |request, text| request.context[0].text = Some(text)),
    ("context.data key", |request, text| {
        request.context[1].data = Some([(text.to_string(), Value::from(1))].into_iter().collect());
    }),
    ("context.data value", |request, text| {
        request.context[2].data = Some([("key".to_string(), text.as_str().into())].into_iter().collect());
    }),
    ("file content", |request, text| request.documents[0].content = Some(text)),
    ("file name", |request, text| request.documents[0].name = Some(text.to_string())),
    ("artifact content", |request, text| request.documents[1].content = Some(text)),
    ("artifact name", |request, text| request.documents[1].name = Some(text.to_string())),
    ("thought", |request, text| request.documents[2].content = Some(text)),
    ("previous.run", |request, text| previous_mut(request).run = Some(text.to_string())),
    ("previous.checks", |request, text| {
        previous_mut(request).checks =
            alloc::vec![CheckSummary { name: text.to_string(), result: CheckResult::Failed, output: None }];
    }),
    ("previous.changed", |request, text| previous_mut(request).changed = alloc::vec![text.to_string()]),
    ("previous.violations", |request, text| {
        let path = text.to_string();
        let violation =
            Violation { path, reason: ViolationReason::Excluded, decision: ViolationDecision::Pending };
        previous_mut(request).violations = alloc::vec![violation];
    }),
];

fn task_mut(request: &mut Request) -> &mut Task {
    request.task.get_or_insert_default()
}

fn previous_mut(request: &mut Request) -> &mut RunFacts {
    request.previous.get_or_insert_with(|| RunFacts { ended: Some(EndReason::Exited), ..RunFacts::default() })
}

fn memory_mut(request: &mut Request) -> &mut MemoryEntry {
    if request.memories.is_empty() {
        request
            .memories
            .push(MemoryEntry { kind: "learning".into(), content: SharedText::from_static("learned") });
    }
    &mut request.memories[0]
}

/// Returns a request with every field set to a plain text.
pub(super) fn full_request(layout: &Layout) -> Request {
    let block = |name: &str| ContextBlock { name: name.into(), text: None, data: None };
    let document = |kind, name: &str| RequestDocument {
        kind,
        name: Some(name.into()),
        content: Some(SharedText::from_static("content")),
        ..RequestDocument::default()
    };
    let mut request = Request {
        context: alloc::vec![block("upstream"), block("metadata"), block("state")],
        documents: alloc::vec![
            document(DocumentKind::File, "src/lib.rs"),
            document(DocumentKind::Artifact, "plan"),
            document(DocumentKind::Thought, "thought-1"),
        ],
        layout: layout.clone(),
        ..Request::default()
    };
    for (at, (_, put)) in FIELDS.iter().enumerate() {
        put(&mut request, FuzzInput::Field(at).plain_text().into());
    }
    request
}

/// The project's sources, with the tried value in the files that others write.
pub(super) struct FuzzSources<'s> {
    inner: &'s dyn Sources,
    documents: Vec<SourceId>,
    session: SharedText,
    project: SharedText,
    /// Whether the role is a coder, who gets no prompt without a plan.
    has_plan: bool,
}

/// A plan of one sub-plan, whose own text is the tried value.
const PLAN: [(&str, &str); 3] = [
    (
        "04_planning/execution_plan.yaml",
        "groups: [{group_id: all, mode: serial, plans: [{file: plan_1.md, name: All}]}]\nneeds_design: false\n\
         needs_docs: false\ndoc_files: []\nreview_strategy: {severity: low, focus: []}\n",
    ),
    ("04_planning/plan.md", "## Phase 1\n-\n## Phase 2\n-\n## Phase 3\n-\n## Conflict map\n-\n"),
    ("04_planning/tasks_1.md", "- [ ] 1 Task\n"),
];

impl<'s> FuzzSources<'s> {
    pub(super) fn new(inner: &'s dyn Sources, layout: &Layout, request: &Request) -> Self {
        let usual = [".callsheet/memory/profile.md", "CLAUDE.md", "AGENTS.md", "README.md"];
        let paths = usual.into_iter().chain([layout.project_context.as_str()]);
        Self {
            inner,
            documents: paths.filter_map(|path| SourceId::new(SourceRoot::Project, path).ok()).collect(),
            session: FuzzInput::Session.plain_text().into(),
            project: FuzzInput::Project.plain_text().into(),
            has_plan: request.role.as_deref() == Some("coder"),
        }
    }

    /// Puts `text` into the place that `input` names: the request, or files.
    pub(super) fn put(&mut self, input: &FuzzInput, text: &SharedText, request: &mut Request) {
        match input {
            FuzzInput::Value(name) => {
                request.values.insert(name.as_str().into(), text.clone());
            }
            FuzzInput::Field(at) => FIELDS[*at].1(request, text.clone()),
            FuzzInput::Session => self.session = text.clone(),
            FuzzInput::Project => {
                self.project = text.clone();
                // Memories would replace the documents.
                request.memories.clear();
            }
        }
    }
}

impl Sources for FuzzSources<'_> {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        if id.root() == SourceRoot::Session {
            let planned = PLAN.iter().find(|(path, _)| self.has_plan && *path == id.path());
            return Ok(Some(
                planned.map_or_else(|| self.session.clone(), |(_, text)| SharedText::from_static(text)),
            ));
        }
        if self.documents.contains(id) {
            return Ok(Some(self.project.clone()));
        }
        self.inner.text(id)
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        self.inner.list(dir, limits)
    }
}
