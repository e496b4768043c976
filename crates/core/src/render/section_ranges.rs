//! Maps sections and blocks to byte ranges of the rendered text.
//!
//! Writers record only edges. Ranges are computed on request, so a prompt that is not measured costs next to
//! nothing.

use alloc::vec::Vec;
use core::ops::Range;

use super::RenderedText;
use crate::library::format::ModelApi;
use crate::library::format::PromptFormat;
use crate::library::recipe::Part;
use crate::prompt::Prompt;

/// The order in which a format writes the sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SectionOrder {
    #[default]
    AsComposed,
    ByPart,
    SystemFirst,
}

impl SectionOrder {
    pub(super) fn for_format(format: PromptFormat, api: Option<ModelApi>) -> Self {
        match (format, api) {
            (PromptFormat::Markdown, _) => Self::AsComposed,
            (PromptFormat::Json, Some(_)) => Self::SystemFirst,
            (PromptFormat::Xml | PromptFormat::Json, _) => Self::ByPart,
        }
    }
}

/// The range of a section in the rendered text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionRange {
    /// From its heading or first block to the end of its last block.
    pub section: Range<usize>,
    /// Its blocks, each with the tags around it.
    pub blocks: Vec<Range<usize>>,
}

impl RenderedText {
    /// Returns the ranges of the sections of `prompt`, whose text this is: one for each, in the prompt's
    /// order. Separators between sections, and text around all of them, belong to none.
    pub fn section_ranges(&self, prompt: &Prompt) -> Vec<SectionRange> {
        let sections = &prompt.sections;
        let mut order: Vec<usize> = (0..sections.len()).collect();
        match self.order {
            SectionOrder::AsComposed => {}
            SectionOrder::ByPart => order.sort_by_key(|at| sections[*at].part),
            SectionOrder::SystemFirst => order.sort_by_key(|at| sections[*at].part != Part::System),
        }
        let mut places = alloc::vec![SectionRange::default(); sections.len()];
        let mut edges = self.edges.iter().copied();
        let mut next = || edges.next().unwrap_or(self.text.len());
        for at in order {
            let start = next();
            let blocks: Vec<Range<usize>> = sections[at].blocks.iter().map(|_| next()..next()).collect();
            let end = blocks.last().map_or(start, |last| last.end);
            places[at] = SectionRange { section: start..end, blocks };
        }
        places
    }
}
