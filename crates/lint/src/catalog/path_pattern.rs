//! Patterns: the template paths of a recipe, with the request's fields as holes.

use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::catalog_files::folder_of;
use callsheet_core::library::recipe::{PathHole, RequestField};
use callsheet_core::text::name::is_name;

enum PatternPart<'p> {
    Text(&'p str),
    Hole(PathHole),
}

/// The values in the holes of a path that matches.
pub(crate) type PatternMatch<'t> = Vec<(PathHole, &'t str)>;

/// A path with holes, such as `templates/system/{AGENT}-{phase}.md`.
pub(crate) struct PathPattern<'p> {
    parts: Vec<PatternPart<'p>>,
    /// The folder that holds every matching file.
    pub(crate) folder: &'p str,
}

impl<'p> PathPattern<'p> {
    pub(crate) fn new(text: &'p str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((at, hole)) = next_hole(rest) {
            parts.push(PatternPart::Text(&rest[..at]));
            parts.push(PatternPart::Hole(hole));
            rest = &rest[at + hole.word.len()..];
        }
        let fixed = if parts.is_empty() { text } else { &text[..next_hole(text).map_or(0, |(at, ..)| at)] };
        parts.push(PatternPart::Text(rest));
        Self { parts, folder: folder_of(fixed) }
    }

    pub(crate) fn holes(&self) -> impl Iterator<Item = PathHole> {
        self.parts.iter().filter_map(|part| match part {
            PatternPart::Hole(hole) => Some(*hole),
            PatternPart::Text(_) => None,
        })
    }

    /// Returns every way in which `path` matches: `GPT-4-plan` has two agents and two phases to choose from.
    pub(crate) fn match_path<'t>(&self, path: &'t str) -> Vec<PatternMatch<'t>> {
        let mut fits = Vec::new();
        match_parts(&self.parts, path, &mut Vec::new(), &mut fits);
        fits
    }

    /// Returns the path with every hole filled, or `None` if `value` has no value for one of them.
    pub(crate) fn fill<'v>(&self, value: impl Fn(RequestField) -> Option<&'v str>) -> Option<String> {
        let mut path = String::new();
        for part in &self.parts {
            match part {
                PatternPart::Text(text) => path.push_str(text),
                PatternPart::Hole(hole) => path.push_str(&hole.write(value(hole.field)?)),
            }
        }
        Some(path)
    }
}

fn next_hole(text: &str) -> Option<(usize, PathHole)> {
    PathHole::ALL.into_iter().filter_map(|hole| Some((text.find(hole.word)?, hole))).min_by_key(|(at, _)| *at)
}

fn match_parts<'t>(
    parts: &[PatternPart<'_>],
    rest: &'t str,
    so_far: &mut PatternMatch<'t>,
    fits: &mut Vec<PatternMatch<'t>>,
) {
    match parts {
        [] if rest.is_empty() => fits.push(so_far.clone()),
        [] => {}
        [PatternPart::Text(text), more @ ..] => {
            if let Some(rest) = rest.strip_prefix(text) {
                match_parts(more, rest, so_far, fits);
            }
        }
        [PatternPart::Hole(hole), more @ ..] => {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
            for end in ends.take_while(|end| is_name(&rest[..*end])) {
                let value = &rest[..end];
                if !hole.upper || !value.contains(|c: char| c.is_ascii_lowercase()) {
                    so_far.push((*hole, value));
                    match_parts(more, &rest[end..], so_far, fits);
                    so_far.pop();
                }
            }
        }
    }
}
