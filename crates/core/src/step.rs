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
use crate::detail::{DocumentDetail, outline};
use crate::document::NoticeTemplates;
use crate::prompt::{Block, BudgetUnit, OmissionReason, OmittedInput};

/// How much is shown of a block, from all to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DetailLevel {
    #[default]
    Full,
    Outline,
    /// The path of a document that has one; of anything else, the outline.
    Path,
    Out,
}

impl DetailLevel {
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

impl From<DocumentDetail> for DetailLevel {
    fn from(detail: DocumentDetail) -> Self {
        match detail {
            DocumentDetail::Full => Self::Full,
            DocumentDetail::Outline => Self::Outline,
            DocumentDetail::Path => Self::Path,
        }
    }
}

impl BudgetUnit {
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
    pub(crate) fn document_level(&self, at: usize) -> DetailLevel {
        if self.request.steps.is_empty() {
            return DetailLevel::Full;
        }
        let rung = self.request.steps.get(&BudgetUnit::Document(at).key("", "")).copied().unwrap_or_default();
        let has_path = self.request.documents.get(at).is_some_and(|document| document.path.is_some());
        if rung == DetailLevel::Path && !has_path { DetailLevel::Outline } else { rung }
    }

    /// Takes the steps of all blocks but documents, which have taken theirs.
    pub(crate) fn degrade(&mut self, section: &str, blocks: &mut Vec<Block>) {
        let mut notices = NoticeTemplates::new();
        blocks.retain_mut(|block| {
            let Some(unit) = block.unit.filter(|unit| !matches!(unit, BudgetUnit::Document(_))) else {
                return true;
            };
            let key = unit.key(section, &block.name);
            let rung = self.request.steps.get(&key).copied().unwrap_or_default();
            let detail = match rung {
                DetailLevel::Full => return true,
                DetailLevel::Out => rung.words().to_string(),
                DetailLevel::Outline | DetailLevel::Path => {
                    // Without a heading in it there is no outline of a text.
                    if outline(MARKDOWN, &block.text(&self.origins)).is_empty() {
                        return true;
                    }
                    let Some((outlined, left_out)) = self.outline_block(block, MARKDOWN, &mut notices) else {
                        return true;
                    };
                    block.pieces = outlined.pieces;
                    block.supplied = outlined.supplied;
                    format!("{}, {left_out}", DetailLevel::Outline.words())
                }
            };
            let what = unit.label(section, &block.name);
            self.absent.push(OmittedInput { what, why: OmissionReason::Budget, detail });
            rung != DetailLevel::Out
        });
    }
}

/// What is no document is taken for Markdown.
const MARKDOWN: &str = "text.md";

impl BudgetUnit {
    /// What people call it, where it is no document.
    pub(crate) fn label(self, section: &str, block: &str) -> String {
        match self {
            Self::Context(_) => format!("context block {block}"),
            Self::Own | Self::Document(_) => format!("block {section}.{block}"),
        }
    }
}
