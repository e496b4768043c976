//! Generates prompts: a recipe, templates, and a request full of hostile texts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::request::{ContextBlock, MemoryEntry, RequestDocument, Task};
use callsheet_core::{
    Builtin, Listing, ListingEntry, ListingLimits, Request, RunFacts, SharedText, SourceError, SourceId,
    SourceRoot, Sources,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::hostile_texts::text;

/// Sources in memory that record which ids were requested.
#[derive(Debug, Default)]
pub(crate) struct RecordingSources {
    texts: BTreeMap<SourceId, SharedText>,
    requested: RefCell<BTreeSet<SourceId>>,
}

impl RecordingSources {
    pub(crate) fn put(&mut self, root: SourceRoot, path: &str, text: impl Into<SharedText>) {
        self.texts.insert(SourceId::new(root, path).unwrap(), text.into());
    }

    pub(crate) fn into_requested_ids(self) -> BTreeSet<SourceId> {
        self.requested.into_inner()
    }
}

impl Sources for RecordingSources {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        self.requested.borrow_mut().insert(id.clone());
        match self.texts.get(id) {
            Some(text) => Ok(Some(text.clone())),
            None if id.path().starts_with("recipes/") => Builtin.text(id),
            None => Ok(None),
        }
    }

    fn list(&self, dir: &SourceId, _: ListingLimits) -> Result<Option<Listing>, SourceError> {
        self.requested.borrow_mut().insert(dir.clone());
        let below = |id: &SourceId| match dir.path() {
            "." => Some(id.path().to_owned()),
            path => Some(id.path().strip_prefix(path)?.strip_prefix('/')?.to_owned()),
        };
        let files = self.texts.keys().filter(|id| id.root() == dir.root());
        let entries: Vec<ListingEntry> =
            files.filter_map(below).map(|path| ListingEntry { path, dir: false }).collect();
        Ok((!entries.is_empty()).then(|| Listing { entries, ..Listing::default() }))
    }
}

/// The layouts that a recipe can give to a prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Rules between sections, as in `layers`.
    Rules,
    /// Headings above sections, as in `run`.
    Headings,
    /// Neither, and brackets, as in `staged`.
    Free,
    /// The shipped recipe `unified`.
    Unified,
}

const RULES: &str = r#"
format = "markdown"
separator = "rule"

[[section]]
name = "role"
part = "system"
blocks = [{ template = "templates/role.md" }]

[[section]]
name = "project"
part = "system"
blocks = [{ value = "memories" }]

[[section]]
name = "context"
part = "context"
blocks = [{ context = true }, { documents = ["file", "artifact", "thought"] }]

[[section]]
name = "task"
part = "instructions"
blocks = [{ value = "instructions" }]

[derive.memories]
from = "project-documents"
join = "\n\n"

[derive.context_data]
from = "context-data"
each = '+ **{{key}}:** {{value}}'
wrap = '''
Data of {{title}}

{{rows}}'''
"#;

const HEADINGS: &str = r#"
format = "markdown"

[[section]]
name = "role"
part = "system"
heading = "Role"
blocks = [{ template = "templates/role.md" }]

[[section]]
name = "task"
part = "instructions"
heading = "Task"
blocks = [
    { value = "line" },
    { value = "instructions" },
    { value = "criteria" },
    { context = true },
    { documents = ["file", "artifact", "thought"] },
]

[[section]]
name = "memories"
part = "context"
heading = "Memories"
blocks = [{ value = "memories" }]

[[section]]
name = "constraints"
part = "context"
heading = "Constraints"
blocks = [{ value = "write" }]

[[section]]
name = "digest"
part = "context"
heading = "Digest"
blocks = [{ value = "changed" }]

[derive.line]
from = "task"
each = { title = '**{{title}}**' }

[derive.criteria]
from = "criteria"
each = '+ {{text}}'
wrap = '''
Done when:
{{rows}}'''

[derive.memories]
from = "memories"
each = '+ [{{type}}] {{content}}'

[derive.write]
from = "write"
each = '+ `{{glob}}`'

[derive.changed]
from = "changed"
each = '{{path}}'

[derive.context_data]
from = "context-data"
each = '+ **{{key}}:** {{value}}'
wrap = '''
### {{title}}

{{rows}}'''
"#;

const FREE: &str = r#"
format = "markdown"
notation = "brackets"

[[section]]
name = "task"
part = "system"
blocks = [{ template = "templates/role.md" }]

[[section]]
name = "context"
part = "context"
blocks = [{ context = true }, { documents = ["file", "artifact", "thought"] }]

[[section]]
name = "instructions"
part = "instructions"
blocks = [{ value = "instructions" }]

[derive.project_instructions]
from = "extension"

[derive.context_data]
from = "context-data"
each = '+ **{{key}}:** {{value}}'
wrap = '''
Data of {{title}}

{{rows}}'''
"#;

/// A part of a generated template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bit {
    /// Text of the template itself: one of [`OWN`].
    Own(usize),
    /// A slot for one of [`SLOTS`].
    Slot(usize),
    Fragment,
    /// A feature of some recipes: an include, the extension, a derived value.
    Special(usize),
}

/// Texts that no reader takes for structure, in any position.
pub(crate) const OWN: &[&str] =
    &["You work here.\n", "\n\n", "Name: ", ", ", "\n", "+ ", "`", "é ", "Below:\n", "\t"];

pub(crate) const SLOTS: [&str; 3] = ["a", "b", "long_name-2"];

/// Names of context blocks.
const BLOCKS: [&str; 3] = ["task", "upstream", "hook"];

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    pub(crate) role: Vec<Bit>,
    pub(crate) fragment: Vec<Bit>,
    pub(crate) values: Vec<String>,
    pub(crate) instructions: String,
    /// Name, text, and whether the text is an entry of a data block.
    pub(crate) context: Vec<(usize, String, bool)>,
    pub(crate) documents: Vec<(usize, String, String)>,
    pub(crate) rows: Vec<String>,
    pub(crate) files: Vec<String>,
}

pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    let kind = prop_oneof![Just(Kind::Rules), Just(Kind::Headings), Just(Kind::Free), Just(Kind::Unified)];
    let bit = || {
        prop_oneof![
            4 => (0..OWN.len()).prop_map(Bit::Own),
            5 => (0..SLOTS.len()).prop_map(Bit::Slot),
            1 => Just(Bit::Fragment),
            1 => (0..3_usize).prop_map(Bit::Special),
        ]
    };
    let request = (
        vec(text(), SLOTS.len()),
        text(),
        vec((0..BLOCKS.len(), text(), prop::bool::weighted(0.3)), 0..3),
        vec((0..3_usize, text(), text()), 0..3),
        vec(text(), 0..3),
        vec(text(), 3),
    );
    (kind, vec(bit(), 0..6), vec(bit(), 0..3), request).prop_map(|(kind, role, fragment, request)| {
        let (values, instructions, context, documents, rows, files) = request;
        Scenario { kind, role, fragment, values, instructions, context, documents, rows, files }
    })
}

impl Scenario {
    pub(crate) fn sources(&self) -> RecordingSources {
        let mut sources = RecordingSources::default();
        let (path, recipe) = match self.kind {
            Kind::Rules => ("role.md", RULES),
            Kind::Headings => ("role.md", HEADINGS),
            Kind::Free => ("role.md", FREE),
            Kind::Unified => ("system/BASE-plan.md", ""),
        };
        if !recipe.is_empty() {
            sources.put(SourceRoot::Project, ".callsheet/recipes/mine.toml", SharedText::from_static(recipe));
        }
        sources.put(
            SourceRoot::Project,
            &format!(".callsheet/templates/{path}"),
            self.render_source(&self.role, true),
        );
        let fragment = self.render_source(&self.fragment, false);
        sources.put(SourceRoot::User, "templates/shared/part.md", fragment);
        sources.put(SourceRoot::Builtin, "templates/shared/tree.md", SharedText::from_static("{{rows}}"));
        sources.put(
            SourceRoot::Builtin,
            "templates/shared/data-block.md",
            SharedText::from_static("{{title}}\n{{rows}}"),
        );
        sources.put(SourceRoot::Session, "note.md", self.files[0].as_str());
        sources.put(SourceRoot::Session, "tasks.md", self.files[0].as_str());
        sources.put(SourceRoot::Project, ".callsheet/prompts/agents/coder.md", self.files[1].as_str());
        sources.put(SourceRoot::Project, "agentd/project.md", self.files[2].as_str());
        sources
    }

    pub(crate) fn request(&self) -> Request {
        let context = self.context.iter().map(|(name, text, data)| {
            let name = BLOCKS[*name].into();
            if *data {
                let data = [(text.clone(), text.as_str().into()), ("k".to_owned(), 1.into())];
                ContextBlock { name, text: None, data: Some(data.into_iter().collect()) }
            } else {
                ContextBlock { name, text: Some(text.as_str().into()), data: None }
            }
        });
        let documents = self.documents.iter().map(|(kind, name, content)| RequestDocument {
            kind: [DocumentKind::File, DocumentKind::Artifact, DocumentKind::Thought][*kind],
            name: Some(name.clone()),
            path: None,
            content: Some(content.as_str().into()),
            ..RequestDocument::default()
        });
        let rows = || self.rows.iter().map(|row| SharedText::from(row.as_str()));
        let unified = self.kind == Kind::Unified;
        Request {
            recipe: Some(if unified { "unified" } else { "mine" }.into()),
            phase: unified.then(|| "plan".into()),
            role: Some("coder".into()),
            instructions: Some(self.instructions().into()),
            values: self.named_values().collect(),
            context: context.collect(),
            documents: documents.collect(),
            memories: rows().map(|content| MemoryEntry { kind: "note".into(), content }).collect(),
            task: Some(Task {
                title: self.rows.first().map(|row| row.as_str().into()),
                criteria: rows().collect(),
                write: self.rows.clone(),
                ..Task::default()
            }),
            previous: Some(RunFacts { changed: self.rows.clone(), ..RunFacts::default() }),
            ..Request::default()
        }
    }

    pub(crate) fn instructions(&self) -> String {
        // The recipe `unified` requires non-empty instructions.
        let end = if self.kind == Kind::Unified { "." } else { "" };
        format!("{}{end}", self.instructions)
    }

    pub(crate) fn named_values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        SLOTS.into_iter().zip(self.values.iter().map(String::as_str))
    }

    /// Returns the same scenario with a harmless word in place of each supplied text.
    pub(crate) fn to_tamed(&self) -> Self {
        let tame = |texts: &[String]| texts.iter().map(|_| "x".to_owned()).collect();
        Self {
            values: tame(&self.values),
            instructions: "x".into(),
            context: self.context.iter().map(|(name, _, data)| (*name, "x".into(), *data)).collect(),
            documents: self.documents.iter().map(|(kind, ..)| (*kind, "x".into(), "x".into())).collect(),
            rows: tame(&self.rows),
            files: tame(&self.files),
            ..self.clone()
        }
    }

    /// Renders a template's source in the notation of the recipe; only the outer one contains fragments.
    fn render_source(&self, bits: &[Bit], outer: bool) -> String {
        let brackets = self.kind == Kind::Free;
        let spell = |bit: &Bit| match (bit, brackets) {
            (Bit::Own(own), _) => OWN[*own].to_owned(),
            (Bit::Slot(slot), false) => format!("{{{{ {} }}}}", SLOTS[*slot]),
            (Bit::Slot(slot), true) => format!("[[placeholder:{}]]", SLOTS[*slot]),
            (Bit::Fragment, _) if !outer => String::new(),
            (Bit::Fragment, false) => "{{> part}}".to_owned(),
            (Bit::Fragment, true) => "[[shared:part]]".to_owned(),
            (Bit::Special(special), true) => [
                "[[include:note.md]]",
                "[[include-optional:none.md]]",
                "[[placeholder:project_instructions]]",
            ][*special]
                .to_owned(),
            (Bit::Special(special), false) if self.kind == Kind::Unified => {
                ["{{PROJECT_CONTEXT}}", "{{TASKS}}", "{{PROJECT_STRUCTURE}}"][*special].to_owned()
            }
            (Bit::Special(_), false) => String::new(),
        };
        let mut text: String = bits.iter().map(spell).collect();
        if outer && self.kind == Kind::Unified {
            // The recipe requires a non-empty template.
            text.push('.');
        }
        text
    }
}
