//! Phrases: words that no agent should have to guess the meaning of.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use memchr::memmem;

use crate::check::Problems;
use crate::diag::{Code, Diag};
use crate::source::SourceId;
use crate::text::Text;

const LIST: &str = include_str!("../../../../builtin/words/phrases.txt");

pub(super) fn check(id: &SourceId, text: &Text, problems: &mut Problems) {
    let (plain, places) = plain(text);
    for phrase in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        for at in memmem::find_iter(plain.as_bytes(), phrase.as_bytes()) {
            let place = places[at]..places[at + phrase.len()];
            let message = format!("`{phrase}` is a phrase that agents misread");
            let warning = Diag::warning(Code::TextPhrase, message).at(id, text, place);
            problems.add(id, warning.hint("say plainly what is to be done"));
        }
    }
}

/// The text in lower case with one blank for each gap, as the list is written; and where each of its bytes was.
fn plain(text: &str) -> (String, Vec<usize>) {
    let mut plain = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    for (at, c) in text.char_indices() {
        let c = if c.is_whitespace() { ' ' } else { c.to_ascii_lowercase() };
        if c == ' ' && plain.ends_with(' ') {
            continue;
        }
        plain.push(c);
        places.resize(plain.len(), at);
    }
    places.push(text.len());
    (plain, places)
}
