//! Finds the literals with which the matches of rules begin.
//!
//! Bit tables show whether a word can begin with three bytes, and with four. They take no time to set up,
//! which matters if one short prompt is composed, and skip most of a text; an automaton takes longer to build
//! than to use.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// An index of words of two bytes or more, in letters of either case.
#[derive(Clone)]
pub(super) struct LiteralIndex {
    /// In lower case.
    words: Vec<String>,
    /// The first three bytes of each word that has as many, in order, with the number of the word.
    long: Vec<(u32, usize)>,
    /// The words of two bytes.
    short: Vec<(u32, usize)>,
    /// The start and the end in `long` of the words that begin with each byte.
    of_byte: Box<[(usize, usize); 1 << 8]>,
    /// The first three bytes of the words.
    threes: PrefixSet,
    /// The first four bytes of the words of more than two bytes, and the words of two.
    fours: PrefixSet,
    twos: PrefixSet,
}

/// A set of byte prefixes, with the first byte lowest. It may hold more than was put in, such as the same
/// letters in the other case.
#[derive(Clone)]
struct PrefixSet(Box<[u64; 1 << 10]>);

impl PrefixSet {
    fn locate(bytes: u32) -> (usize, u64) {
        let bit = (bytes | 0x2020_2020).wrapping_mul(0x9e37_79b1) >> 16;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn put(&mut self, bytes: u32) {
        let (at, bit) = Self::locate(bytes);
        self.0[at] |= bit;
    }

    fn has(&self, bytes: u32) -> bool {
        let (at, bit) = Self::locate(bytes);
        self.0[at] & bit != 0
    }
}

const TWO: u32 = 0xffff;
const THREE: u32 = 0xff_ffff;

fn pack_bytes(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(byte.to_ascii_lowercase()))
}

impl LiteralIndex {
    /// Creates an index of words in lower case.
    pub(super) fn new(words: Vec<String>) -> Self {
        let (mut long, mut short) = (Vec::with_capacity(words.len()), Vec::new());
        let [mut twos, mut threes, mut fours] = [(); 3].map(|()| PrefixSet(Box::new([0; 1 << 10])));
        for (number, word) in words.iter().enumerate() {
            match word.as_bytes() {
                [first, second] => {
                    (0..=0xff).for_each(|third| threes.put(u32::from_le_bytes([*first, *second, third, 0])));
                    twos.put(u32::from_le_bytes([*first, *second, 0, 0]));
                    short.push((pack_bytes(&[*first, *second]), number));
                }
                [first, second, third, rest @ ..] => {
                    let start = |fourth| u32::from_le_bytes([*first, *second, *third, fourth]);
                    threes.put(start(0));
                    match rest.first() {
                        Some(fourth) => fours.put(start(*fourth)),
                        None => (0..=0xff).for_each(|fourth| fours.put(start(fourth))),
                    }
                    long.push((pack_bytes(&[*first, *second, *third]), number));
                }
                _ => {}
            }
        }
        long.sort_unstable();
        let mut of_byte = Box::new([(0, 0); 1 << 8]);
        for (at, (three, _)) in long.iter().enumerate() {
            let of_byte = &mut of_byte[(three >> 16) as usize];
            *of_byte = (if of_byte.1 == 0 { at } else { of_byte.0 }, at + 1);
        }
        Self { words, long, short, of_byte, twos, threes, fours }
    }

    pub(super) fn total_len(&self) -> usize {
        self.words.iter().map(String::len).sum()
    }

    /// Calls `found` with every offset at which a word begins, and with the number of the word.
    pub(super) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        // Each step loads four bytes anew, so that no step waits for the one before.
        for (at, four) in text.array_windows::<4>().enumerate() {
            let four = u32::from_le_bytes(*four);
            if self.threes.has(four & THREE) && (self.fours.has(four) || self.twos.has(four & TWO)) {
                self.find_at(text, at, &mut found);
            }
        }
        let last = text.len().saturating_sub(3)..text.len().saturating_sub(1);
        last.for_each(|at| self.find_at(text, at, &mut found));
    }

    /// Finds the words that begin at `at`, which must not be the last byte.
    fn find_at(&self, text: &[u8], at: usize, found: &mut impl FnMut(usize, usize)) {
        let two = pack_bytes(&text[at..at + 2]);
        for (_, number) in self.short.iter().filter(|(short, _)| *short == two) {
            found(at, *number);
        }
        let Some(three) = text.get(at..at + 3).map(pack_bytes) else { return };
        let (first, end) = self.of_byte[(three >> 16) as usize];
        for (_, number) in self.long[first..end].iter().filter(|(start, _)| *start == three) {
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

    fn find_all(words: &[&str], text: &str) -> Vec<(usize, usize)> {
        let literals = LiteralIndex::new(words.iter().map(|word| (*word).into()).collect());
        let mut all = Vec::new();
        literals.find(text.as_bytes(), |at, number| all.push((at, number)));
        all
    }

    #[test]
    fn nested_words_match_in_either_case() {
        let words = ["://", "key", "key=", "sk", "sk-", "\u{e4}x"];
        assert_eq!(find_all(&words, "KEY=sK-ey sk"), [(0, 1), (0, 2), (4, 3), (4, 4), (10, 3)]);
        assert_eq!(find_all(&words, "\u{e4}xs://ke"), [(0, 5), (4, 0)]);
        assert_eq!(find_all(&words, "k"), []);
        assert_eq!(find_all(&[], "key"), []);
    }
}
