//! Steps: how far a block comes down when there is not room for all of it.
//!
//! Which steps are taken is decided by [`budget`](crate::budget) and written into the request. Here they are
//! applied, so that composing the same request again gives the same prompt.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compose::Composer;
use crate::detail::{Detail, outline};
use crate::document::Notices;
use crate::prompt::{Absent, Block, Unit, Why};

/// How much is shown of a block, from all to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rung {
    #[default]
    Full,
    Outline,
    /// The path of a document that has one; of anything else, the outline.
    Path,
    Out,
}

impl Rung {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Outline => "outline",
            Self::Path => "path",
            Self::Out => "out",
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Full => "shown whole",
            Self::Outline => "shown as an outline",
            Self::Path => "shown by its path",
            Self::Out => "left out",
        }
    }
}

impl From<Detail> for Rung {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::Full => Self::Full,
            Detail::Outline => Self::Outline,
            Detail::Path => Self::Path,
        }
    }
}

impl Unit {
    /// What a request calls it in `steps`.
    pub(crate) fn key(self, section: &str, block: &str) -> String {
        match self {
            Self::Own => format!("{section}.{block}"),
            Self::Document(at) => format!("documents[{at}]"),
            Self::Context(at) => format!("context[{at}]"),
        }
    }
}

impl Composer<'_> {
    /// How far the document at this place has stepped down.
    pub(crate) fn document_rung(&self, at: usize) -> Rung {
        if self.request.steps.is_empty() {
            return Rung::Full;
        }
        let rung = self.request.steps.get(&Unit::Document(at).key("", "")).copied().unwrap_or_default();
        let has_path = self.request.documents.get(at).is_some_and(|document| document.path.is_some());
        if rung == Rung::Path && !has_path { Rung::Outline } else { rung }
    }

    /// Takes the steps of all blocks but documents, which have taken theirs.
    pub(crate) fn step_down(&mut self, section: &str, blocks: &mut Vec<Block>) {
        let mut notices = Notices::new();
        blocks.retain_mut(|block| {
            let Some(unit) = block.unit.filter(|unit| !matches!(unit, Unit::Document(_))) else {
                return true;
            };
            let key = unit.key(section, &block.name);
            let rung = self.request.steps.get(&key).copied().unwrap_or_default();
            let detail = match rung {
                Rung::Full => return true,
                Rung::Out => rung.words().to_string(),
                Rung::Outline | Rung::Path => {
                    // Without a heading in it there is no outline of a text.
                    if outline(MARKDOWN, &block.text(&self.origins)).is_empty() {
                        return true;
                    }
                    let Some((outlined, left_out)) = self.outlined(block, MARKDOWN, &mut notices) else {
                        return true;
                    };
                    block.pieces = outlined.pieces;
                    block.supplied = outlined.supplied;
                    format!("{}, {left_out}", Rung::Outline.words())
                }
            };
            let what = unit.label(section, &block.name);
            self.absent.push(Absent { what, why: Why::Budget, detail });
            rung != Rung::Out
        });
    }
}

/// What is no document is taken for Markdown.
const MARKDOWN: &str = "text.md";

impl Unit {
    /// What people call it, where it is no document.
    pub(crate) fn label(self, section: &str, block: &str) -> String {
        match self {
            Self::Context(_) => format!("context block {block}"),
            Self::Own | Self::Document(_) => format!("block {section}.{block}"),
        }
    }
}
