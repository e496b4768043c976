//! Literals: where one of the words stands that rules begin with.
//!
//! A table of bits says whether a word can begin with three bytes. It takes no time to set up, which matters to whoever
//! composes one short prompt, and passes over most of a text; an automaton takes longer to build than to use.

use alloc::string::String;
use alloc::vec::Vec;

use crate::diag::{Code, Diag, Failure};

/// Bytes of all literals together; far more than people write by hand.
const MOST_LITERALS: usize = 64 * 1024;

/// Words of two bytes or more, in letters of either case.
#[derive(Clone)]
pub(super) struct Literals {
    /// In order, in small letters.
    words: Vec<String>,
    /// What words begin with, as bits: see [`place`].
    starts: Vec<u64>,
}

/// Where the bit of three bytes is, in letters of either case. Others may share it.
fn place(first: u8, second: u8, third: u8) -> (usize, u64) {
    let small = u32::from_be_bytes([0, first, second, third].map(|byte| byte.to_ascii_lowercase()));
    let bit = small.wrapping_mul(0x9e37_79b1) >> 16;
    ((bit / 64) as usize, 1 << (bit % 64))
}

impl Literals {
    /// Words in order, in small letters.
    pub(super) fn new(words: Vec<String>) -> Result<Self, Failure> {
        if words.iter().map(String::len).sum::<usize>() > MOST_LITERALS {
            let message = "the literals of all rules are too much together";
            return Err(Diag::error(Code::SecretsBad, message).into());
        }
        let mut starts = alloc::vec![0; (1 << 16) / 64];
        for word in &words {
            let thirds = match word.as_bytes() {
                [_, _, third, ..] => *third..=*third,
                _ => u8::MIN..=u8::MAX,
            };
            if let [first, second, ..] = word.as_bytes() {
                for third in thirds {
                    let (at, bit) = place(*first, *second, third);
                    starts[at] |= bit;
                }
            }
        }
        Ok(Self { words, starts })
    }

    /// Calls `found` with every place where a word begins, and with the word's number.
    pub(super) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        for (at, three) in text.array_windows().enumerate() {
            self.look(text, at, *three, &mut found);
        }
        if let [.., first, second] = text {
            self.look(text, text.len() - 2, [*first, *second, 0], &mut found);
        }
    }

    fn look(&self, text: &[u8], at: usize, three: [u8; 3], found: &mut impl FnMut(usize, usize)) {
        let [first, second, third] = three;
        let (word, bit) = place(first, second, third);
        if self.starts[word] & bit != 0 {
            self.find_at(text, at, found);
        }
    }

    /// The words that begin at `at`, of those that begin with the same two bytes.
    fn find_at(&self, text: &[u8], at: usize, found: &mut impl FnMut(usize, usize)) {
        let rest = &text[at..];
        let small = [rest[0].to_ascii_lowercase(), rest[1].to_ascii_lowercase()];
        let first = self.words.partition_point(|word| word.as_bytes() < &small[..]);
        for (number, word) in self.words.iter().enumerate().skip(first) {
            if !word.as_bytes().starts_with(&small) {
                return;
            }
            if rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes())) {
                found(at, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[&str], text: &str) -> Vec<(usize, usize)> {
        let literals = Literals::new(words.iter().map(|word| (*word).into()).collect()).unwrap();
        let mut all = Vec::new();
        literals.find(text.as_bytes(), |at, number| all.push((at, number)));
        all
    }

    #[test]
    fn words_are_found_in_letters_of_either_case_and_inside_of_each_other() {
        let words = ["://", "key", "key=", "sk", "sk-", "\u{e4}x"];
        assert_eq!(found(&words, "KEY=sK-ey sk"), [(0, 1), (0, 2), (4, 3), (4, 4), (10, 3)]);
        assert_eq!(found(&words, "\u{e4}xs://ke"), [(0, 5), (4, 0)]);
        assert_eq!(found(&words, "k"), []);
        assert_eq!(found(&[], "key"), []);
    }
}
