//! Origins: the texts that a prompt points into, where each comes from and who is behind it.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Index;

use serde::{Deserialize, Serialize};

use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;
use crate::values::SlotValues;

/// Who is behind a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    Ours,
    Project,
    Person,
    Agent,
}

impl Trust {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Project => "project",
            Self::Person => "person",
            Self::Agent => "agent",
        }
    }

    pub const fn of(root: SourceRoot) -> Self {
        match root {
            SourceRoot::Builtin => Self::Ours,
            SourceRoot::User => Self::Person,
            SourceRoot::Project => Self::Project,
            SourceRoot::Session => Self::Agent,
        }
    }
}

/// Where a text comes from.
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
    /// The name of the request's document at this place.
    DocumentName(u32),
    /// A default in a template's frontmatter.
    Default(Box<DefaultOrigin>),
    /// A row that was derived from the request and the sources.
    Derived(Box<DerivedOrigin>),
    /// Separators, tags and notices.
    Engine,
}

/// A slot's default, and the template that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultOrigin {
    pub source: SourceId,
    pub name: String,
}

/// A derived value, and the field of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedOrigin {
    pub name: SharedText,
    pub field: SharedText,
}

impl OriginKind {
    pub(crate) fn default(source: SourceId, name: impl Into<String>) -> Self {
        Self::Default(Box::new(DefaultOrigin { source, name: name.into() }))
    }

    pub(crate) fn derived(name: impl Into<SharedText>, field: impl Into<SharedText>) -> Self {
        Self::Derived(Box::new(DerivedOrigin { name: name.into(), field: field.into() }))
    }
}

/// A text, where it comes from, and who is behind it. A prompt may have millions of them: what is rare is kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub from: OriginKind,
    pub trust: Trust,
    pub text: SharedText,
}

impl Origin {
    pub fn is_engine(&self) -> bool {
        matches!(self.from, OriginKind::Engine)
    }

    pub fn source(id: SourceId, text: SharedText) -> Self {
        Self { trust: Trust::of(id.root()), from: OriginKind::Source(id), text }
    }

    /// What a person reads in `explain`: a file, or the input that it came in by.
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

/// All origins of one prompt, by number. The values of the request come first: they are shared with it, so
/// that a prompt of a thousand values copies none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginTable {
    values: Arc<Vec<Origin>>,
    own: Vec<Origin>,
}

impl OriginTable {
    pub(crate) fn new(values: &SlotValues) -> Self {
        Self { values: values.origins().clone(), own: Vec::with_capacity(16) }
    }

    /// Adds an origin, and says by which number it is found.
    pub fn push(&mut self, origin: Origin) -> u32 {
        self.own.push(origin);
        u32::try_from(self.values.len() + self.own.len() - 1).unwrap_or(u32::MAX)
    }
}

impl<'o> IntoIterator for &'o OriginTable {
    type Item = &'o Origin;
    type IntoIter = core::iter::Chain<core::slice::Iter<'o, Origin>, core::slice::Iter<'o, Origin>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter().chain(&self.own)
    }
}

impl Index<u32> for OriginTable {
    type Output = Origin;

    fn index(&self, number: u32) -> &Origin {
        let number = number as usize;
        self.values.get(number).unwrap_or_else(|| &self.own[number - self.values.len()])
    }
}
