//! Literals: where one of the words stands that rules begin with.
//!
//! A table of bits says whether a word can begin with three bytes. It takes no time to set up, which matters to whoever
//! composes one short prompt, and passes over most of a text; an automaton takes longer to build than to use.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::diag::{Code, Diag, Failure};

/// Bytes of all literals together; far more than people write by hand.
const MOST_LITERALS: usize = 64 * 1024;

/// Words of two bytes or more, in letters of either case.
#[derive(Clone)]
pub(super) struct Literals {
    /// In small letters.
    words: Vec<String>,
    /// The first three bytes of each word that has so many, in order, with the word's number.
    long: Vec<(u32, usize)>,
    /// The words of two bytes.
    short: Vec<(u32, usize)>,
    /// Which three bytes words begin with, as bits: see [`place`].
    starts: Box<[u64; 1 << 10]>,
}

/// Where the bit of three bytes is. Others may share it.
fn place(three: u32) -> (usize, u64) {
    let bit = three.wrapping_mul(0x9e37_79b1) >> 16;
    ((bit / 64) as usize, 1 << (bit % 64))
}

fn joined(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

impl Literals {
    /// Words in small letters.
    pub(super) fn new(words: Vec<String>) -> Result<Self, Failure> {
        if words.iter().map(String::len).sum::<usize>() > MOST_LITERALS {
            let message = "the literals of all rules are too much together";
            return Err(Diag::error(Code::SecretsBad, message).into());
        }
        let (mut long, mut short) = (Vec::with_capacity(words.len()), Vec::new());
        let mut starts = Box::new([0; 1 << 10]);
        let mut mark = |three: u32| {
            let (at, bit) = place(three);
            starts[at] |= bit;
        };
        for (number, word) in words.iter().enumerate() {
            match word.as_bytes() {
                [first, second] => {
                    let two = joined(&[*first, *second]);
                    (0..=0xff).for_each(|third| mark(two << 8 | third));
                    short.push((two, number));
                }
                [first, second, third, ..] => {
                    let three = joined(&[*first, *second, *third]);
                    mark(three);
                    long.push((three, number));
                }
                _ => {}
            }
        }
        long.sort_unstable();
        Ok(Self { words, long, short, starts })
    }

    /// Calls `found` with every place where a word begins, and with the word's number.
    pub(super) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        let mut three = 0;
        let can_start = |three: u32| {
            let (at, bit) = place(three);
            self.starts[at] & bit != 0
        };
        for (end, byte) in text.iter().enumerate() {
            three = (three << 8 | u32::from(byte.to_ascii_lowercase())) & 0xff_ffff;
            if can_start(three)
                && let Some(at) = end.checked_sub(2)
            {
                self.find_at(text, at, three, &mut found);
            }
        }
        // A word of two bytes at the very end has no third one behind it.
        let two = (three & 0xffff) << 8;
        if can_start(two)
            && let Some(at) = text.len().checked_sub(2)
        {
            self.find_at(text, at, two, &mut found);
        }
    }

    /// The words that begin at `at`, which is where these three bytes stand.
    fn find_at(&self, text: &[u8], at: usize, three: u32, found: &mut impl FnMut(usize, usize)) {
        for (_, number) in self.short.iter().filter(|(two, _)| *two == three >> 8) {
            found(at, *number);
        }
        let first = self.long.partition_point(|(start, _)| *start < three);
        for (_, number) in self.long[first..].iter().take_while(|(start, _)| *start == three) {
            let word = self.words[*number].as_bytes();
            if text.get(at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word)) {
                found(at, *number);
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
