//! Places: which bytes of the finished text belong to which section and block.
//!
//! Writers note edges only. They are put together when somebody asks, so that a prompt that nobody measures
//! pays next to nothing.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Api, Rendered};
use crate::prompt::{Format, Part, Prompt};

/// The order in which a format writes the sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    AsComposed,
    ByPart,
    SystemFirst,
}

impl Order {
    pub(super) fn of(format: Format, api: Option<Api>) -> Self {
        match (format, api) {
            (Format::Markdown, _) => Self::AsComposed,
            (Format::Json, Some(_)) => Self::SystemFirst,
            (Format::Xml | Format::Json, _) => Self::ByPart,
        }
    }
}

/// Where a section stands in the finished text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// From its heading or first block to the end of its last block.
    pub section: Range<usize>,
    /// Its blocks, each with the tags around it.
    pub blocks: Vec<Range<usize>>,
}

impl Rendered {
    /// Where the sections of `prompt`, of which this is the text, stand: one for each, in the prompt's order.
    /// What separates sections, and what surrounds all of them, belongs to none.
    pub fn places(&self, prompt: &Prompt) -> Vec<Placed> {
        let sections = &prompt.sections;
        let mut order: Vec<usize> = (0..sections.len()).collect();
        match self.order {
            Order::AsComposed => {}
            Order::ByPart => order.sort_by_key(|at| sections[*at].part),
            Order::SystemFirst => order.sort_by_key(|at| sections[*at].part != Part::System),
        }
        let mut places = alloc::vec![Placed::default(); sections.len()];
        let mut edges = self.edges.iter().copied();
        let mut next = || edges.next().unwrap_or(self.text.len());
        for at in order {
            let start = next();
            let blocks: Vec<Range<usize>> = sections[at].blocks.iter().map(|_| next()..next()).collect();
            let end = blocks.last().map_or(start, |last| last.end);
            places[at] = Placed { section: start..end, blocks };
        }
        places
    }
}
