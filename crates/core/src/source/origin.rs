//! Origins: the texts that a prompt points into, each with the place that it comes from and its trust.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The party behind a text.
    Trust {
        /// callsheet.
        Ours "ours",
        /// The project.
        Project "project",
        /// The user.
        Person "person",
        /// An agent.
        Agent "agent",
    }
}

impl Trust {
    /// Returns the trust of the texts in `root`.
    pub const fn from_root(root: SourceRoot) -> Self {
        match root {
            SourceRoot::Builtin => Self::Ours,
            SourceRoot::User => Self::Person,
            SourceRoot::Project => Self::Project,
            SourceRoot::Session => Self::Agent,
        }
    }
}

/// The kind of place that a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// A file.
    Source(SourceId),
    /// A value of the request, by its key.
    Value(SharedText),
    /// A field of the request, such as `instructions` or `context[0].text`.
    Request(String),
    /// The content of a document of the request, by its name.
    Document(SharedText),
    /// The name of the request's document at this index.
    DocumentName(u32),
    /// A default in a template's frontmatter.
    Default(Box<DefaultOrigin>),
    /// A row that was derived from the request and the sources.
    Derived(Box<DerivedOrigin>),
    /// Separators, tags and notices.
    Engine,
}

/// A slot's default and its template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultOrigin {
    /// The template.
    pub source: SourceId,
    /// The name of the slot.
    pub name: String,
}

/// A derived value, and the field of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedOrigin {
    /// The name of the derived value.
    pub name: SharedText,
    /// The field of the row.
    pub field: SharedText,
}

impl OriginKind {
    pub(crate) fn new_default(source: SourceId, name: impl Into<String>) -> Self {
        Self::Default(Box::new(DefaultOrigin { source, name: name.into() }))
    }

    pub(crate) fn new_derived(name: impl Into<SharedText>, field: impl Into<SharedText>) -> Self {
        Self::Derived(Box::new(DerivedOrigin { name: name.into(), field: field.into() }))
    }
}

/// A text, the place that it comes from, and its trust. A prompt may have millions of them, so rare data is
/// boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The place that the text comes from.
    pub from: OriginKind,
    /// The party behind the text.
    pub trust: Trust,
    /// The text.
    pub text: SharedText,
}

impl Origin {
    /// Returns whether callsheet itself wrote the text: a separator, a tag or a notice.
    pub fn is_engine(&self) -> bool {
        matches!(self.from, OriginKind::Engine)
    }

    /// Creates the origin of a file. The root decides the trust.
    pub fn from_source(id: SourceId, text: SharedText) -> Self {
        Self { trust: Trust::from_root(id.root()), from: OriginKind::Source(id), text }
    }

    /// Returns the label that `explain` shows: a file, or the input that supplied the text.
    pub fn label(&self) -> String {
        match &self.from {
            OriginKind::Source(id) => id.to_string(),
            OriginKind::Value(key) => alloc::format!("value {key}"),
            OriginKind::Request(field) => alloc::format!("request {field}"),
            OriginKind::Document(name) => alloc::format!("document {name}"),
            OriginKind::DocumentName(at) => alloc::format!("request documents[{at}].name"),
            OriginKind::Default(of) => alloc::format!("default of {} in {}", of.name, of.source),
            OriginKind::Derived(of) => alloc::format!("derived {}.{}", of.name, of.field),
            OriginKind::Engine => "engine".to_string(),
        }
    }
}
