//! Origins: the texts that a prompt points into, where each comes from and who is behind it.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Index;

use serde::{Deserialize, Serialize};

use crate::source::{Root, SourceId};
use crate::text::Text;
use crate::values::Values;

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

    pub const fn of(root: Root) -> Self {
        match root {
            Root::Builtin => Self::Ours,
            Root::User => Self::Person,
            Root::Project => Self::Project,
            Root::Session => Self::Agent,
        }
    }
}

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A file.
    Source(SourceId),
    /// A value of the request, by its key.
    Value(Text),
    /// A field of the request, such as `instructions` or `context[0].text`.
    Request(String),
    /// The content of a document of the request, by its name.
    Document(String),
    /// A default in a template's frontmatter.
    Default { source: SourceId, name: String },
    /// A row that was derived from the request and the sources.
    Derived { name: Text, field: Text },
    /// Separators, tags and notices.
    Engine,
}

/// A text, where it comes from, and who is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub from: From,
    pub trust: Trust,
    pub text: Text,
}

impl Origin {
    pub fn is_engine(&self) -> bool {
        matches!(self.from, From::Engine)
    }

    pub fn source(id: SourceId, text: Text) -> Self {
        Self { trust: Trust::of(id.root()), from: From::Source(id), text }
    }

    /// What a person reads in `explain`: a file, or the input that it came in by.
    pub fn label(&self) -> String {
        match &self.from {
            From::Source(id) => id.to_string(),
            From::Value(key) => alloc::format!("value {key}"),
            From::Request(field) => alloc::format!("request {field}"),
            From::Document(name) => alloc::format!("document {name}"),
            From::Default { source, name } => alloc::format!("default of {name} in {source}"),
            From::Derived { name, field } => alloc::format!("derived {name}.{field}"),
            From::Engine => "engine".to_string(),
        }
    }
}

/// All origins of one prompt, by number. The values of the request come first: they are shared with it, so
/// that a prompt of a thousand values copies none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    values: Arc<Vec<Origin>>,
    own: Vec<Origin>,
}

impl Origins {
    pub(crate) fn new(values: &Values) -> Self {
        Self { values: values.origins().clone(), own: Vec::with_capacity(16) }
    }

    /// Adds an origin, and says by which number it is found.
    pub fn push(&mut self, origin: Origin) -> u32 {
        self.own.push(origin);
        u32::try_from(self.values.len() + self.own.len() - 1).unwrap_or(u32::MAX)
    }
}

impl<'o> IntoIterator for &'o Origins {
    type Item = &'o Origin;
    type IntoIter = core::iter::Chain<core::slice::Iter<'o, Origin>, core::slice::Iter<'o, Origin>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter().chain(&self.own)
    }
}

impl Index<u32> for Origins {
    type Output = Origin;

    fn index(&self, number: u32) -> &Origin {
        let number = number as usize;
        self.values.get(number).unwrap_or_else(|| &self.own[number - self.values.len()])
    }
}
