//! Degradations: blocks that are shown as less because the prompt does not fit its budget.
//!
//! `render::budget` chooses the degradations and writes them into the request. This module applies them, so
//! composing the same request again gives the same prompt.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::compose::Composer;
use crate::compose::document::NoticeTemplates;
use crate::compose::outline::outline;
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::prompt::{Block, BudgetUnit};
use crate::request::detail::DetailLevel;

impl BudgetUnit {
    /// Returns the key of the unit in the request's `steps`.
    pub(crate) fn key(self, section: &str, block: &str) -> String {
        match self {
            Self::Own => format!("{section}.{block}"),
            Self::Document(at) => format!("documents[{at}]"),
            Self::Context(at) => format!("context[{at}]"),
        }
    }
}

impl Composer<'_> {
    /// Returns the detail level to which the budget degraded this document.
    pub(crate) fn document_level(&self, at: usize) -> DetailLevel {
        if self.request.steps.is_empty() {
            return DetailLevel::Full;
        }
        let level =
            self.request.steps.get(&BudgetUnit::Document(at).key("", "")).copied().unwrap_or_default();
        let has_path = self.request.documents.get(at).is_some_and(|document| document.path.is_some());
        if level == DetailLevel::Path && !has_path { DetailLevel::Outline } else { level }
    }

    /// Degrades all blocks except documents, which are already degraded.
    pub(crate) fn degrade(&mut self, section: &str, blocks: &mut Vec<Block>) {
        let mut notices = NoticeTemplates::new();
        blocks.retain_mut(|block| {
            let Some(unit) = block.unit.filter(|unit| !matches!(unit, BudgetUnit::Document(_))) else {
                return true;
            };
            let key = unit.key(section, &block.name);
            let level = self.request.steps.get(&key).copied().unwrap_or_default();
            let detail = match level {
                DetailLevel::Full => return true,
                DetailLevel::Out => level.words().to_string(),
                DetailLevel::Outline | DetailLevel::Path => {
                    // A text without headings has no outline.
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
            self.omitted.push(OmittedInput::new(what, OmissionReason::Budget, detail));
            level != DetailLevel::Out
        });
    }
}

/// Blocks that are not documents are treated as Markdown.
const MARKDOWN: &str = "text.md";

impl BudgetUnit {
    /// Returns the label of a unit that is not a document.
    pub(crate) fn label(self, section: &str, block: &str) -> String {
        match self {
            Self::Context(_) => format!("context block {block}"),
            Self::Own | Self::Document(_) => format!("block {section}.{block}"),
        }
    }
}
