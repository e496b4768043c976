//! Checks a prompt that was put together by hand: whether its pieces, ranges and names fit each other.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Block, Piece, Prompt};
use crate::diag::{Code, Diagnostic, Diagnostics, push_diagnostic};
use crate::text::name::{NAME_HINT, is_name};

impl Prompt {
    /// Checks that every piece is a range of characters of an origin, that the supplied runs of a block are
    /// ranges of its pieces and in order, and that they can be named in tags. A composed prompt always
    /// passes; one that was put together by hand may not, and is not rendered then.
    pub fn check(&self) -> Result<(), Diagnostics> {
        let mut checker = PromptChecker { prompt: self, wrong: Vec::new() };
        for (at, section) in self.sections.iter().enumerate() {
            let place = || format!("section {at} (`{}`)", section.name);
            checker.check_piece(section.heading, || format!("{}, heading", place()));
            for (at, block) in section.blocks.iter().enumerate() {
                checker.check_block(block, &|| format!("{}, block {at} (`{}`)", place(), block.name));
            }
        }
        if checker.wrong.is_empty() { Ok(()) } else { Err(Diagnostics(checker.wrong)) }
    }
}

struct PromptChecker<'p> {
    prompt: &'p Prompt,
    wrong: Vec<Diagnostic>,
}

impl PromptChecker<'_> {
    fn check_block(&mut self, block: &Block, place: &dyn Fn() -> String) {
        self.check_piece(block.document.map(|(_, name)| name), || format!("{}, name", place()));
        for (at, piece) in block.pieces.iter().enumerate() {
            self.check_piece(Some(*piece), || format!("{}, piece {at}", place()));
        }
        let mut from = 0;
        for (at, supplied) in block.supplied.iter().enumerate() {
            let range = &supplied.pieces;
            let place = || format!("{}, supplied text {at}", place());
            if range.start < from || range.end < range.start || range.end > block.pieces.len() {
                let all = block.pieces.len();
                let message = format!(
                    "{}: pieces {}..{} are not a range of the {all} pieces after those before it",
                    place(),
                    range.start,
                    range.end
                );
                self.report(|| Diagnostic::error(Code::PromptBad, message));
                continue;
            }
            from = range.end;
            self.check_piece(supplied.path, || format!("{}, path", place()));
            let name = supplied.name(block, &self.prompt.origins);
            if !is_name(name) {
                let message = format!("{}: invalid tag name `{name}`", place());
                self.report(|| Diagnostic::error(Code::PromptBad, message).hint(NAME_HINT));
            }
        }
    }

    fn check_piece(&mut self, piece: Option<Piece>, place: impl FnOnce() -> String) {
        let Some(piece) = piece.filter(|piece| piece.get(&self.prompt.origins).is_none()) else { return };
        let Piece { origin, start, end } = piece;
        let message = match self.prompt.origins.get(origin) {
            None => format!("{}: unknown origin {origin}", place()),
            Some(origin) => format!(
                "{}: {start}..{end} is not a range of characters of {}, which has {} bytes",
                place(),
                origin.label(),
                origin.text.len()
            ),
        };
        self.report(|| Diagnostic::error(Code::PromptBad, message));
    }

    fn report(&mut self, make: impl FnOnce() -> Diagnostic) {
        push_diagnostic(&mut self.wrong, Code::PromptBad, make);
    }
}
