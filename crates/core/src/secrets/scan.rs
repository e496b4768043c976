//! Scans a text for secrets: one pass for the literals of all rules, and a pattern at each literal that is
//! found.
//!
//! The time is linear in the text: a pattern examines a window after its literal, and the same rule does not
//! examine a match again. Patterns that are not shipped share a number of steps ([`StepBudget`]); once it is
//! used up, the rest of the text counts as a secret.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use regex_automata::{Anchored, Input};

use super::rules::{CompiledRule, RuleSet, SecretRules};

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretHit<'r> {
    /// The id of the rule that found it.
    pub rule: &'r str,
    /// The range of the secret.
    pub range: Range<usize>,
    /// The range of the secret with the text that identifies it.
    pub whole: Range<usize>,
}

/// A hit before it is assigned to one of several rules.
struct HitCandidate {
    rule: usize,
    secret: Range<usize>,
    whole: Range<usize>,
}

/// The minimum number of characters without whitespace in a secret with the text that identifies it.
const SHORTEST: usize = 8;

/// Checks whether a text can hold a secret at all: most requests are a few short words.
fn has_long_word(text: &str) -> bool {
    text.split_ascii_whitespace().any(|word| word.len() >= SHORTEST)
}

impl SecretRules {
    /// Returns every secret in `text`, in order and without overlaps.
    pub fn scan(&self, text: &str) -> Vec<SecretHit<'_>> {
        if !has_long_word(text) {
            return Vec::new();
        }
        let set = self.set();
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        // The offset that each rule has reached.
        let mut done = alloc::vec![0; set.rules.len()];
        let mut work = StepBudget::new(bytes);
        set.literals.find(bytes, |at, literal| {
            for number in &set.of_literal[literal] {
                let rule = &set.rules[*number];
                if at < done[*number] || !(rule.inside || is_word_start(bytes, at)) {
                    continue;
                }
                let Some((whole, secret)) = match_rule(rule, bytes, at, &mut work) else { continue };
                done[*number] = whole.end;
                let text_of = &bytes[secret.clone()];
                let unknown = work.left == 0 && rule.pattern.automaton().is_some();
                let is_secret = rule.accepts(text_of)
                    && !(rule.allow && set.is_allowed(text_of))
                    && !is_excepted(rule, bytes, at, &whole, &mut work);
                if unknown || is_secret {
                    let secret = text.floor_char_boundary(secret.start)..text.ceil_char_boundary(secret.end);
                    let whole = text.floor_char_boundary(whole.start)..text.ceil_char_boundary(whole.end);
                    found.push(HitCandidate { rule: *number, secret, whole });
                }
            }
        });
        set.merge_overlapping(found)
    }
}

impl RuleSet {
    /// Merges overlapping hits into one that covers them all. A rule that goes by the form of a secret names
    /// it.
    fn merge_overlapping(&self, mut found: Vec<HitCandidate>) -> Vec<SecretHit<'_>> {
        found.sort_by_key(|it| (it.secret.start, Reverse(it.secret.end), it.rule));
        let mut hits: Vec<SecretHit<'_>> = Vec::new();
        let mut rank = 0;
        for HitCandidate { rule, secret, whole } in found {
            let own_rank = usize::from(self.rules[rule].random);
            let id = self.rules[rule].id.as_str();
            match hits.last_mut().filter(|last| secret.start < last.range.end) {
                None => {
                    hits.push(SecretHit { rule: id, range: secret, whole });
                    rank = own_rank;
                }
                Some(last) => {
                    last.range.end = last.range.end.max(secret.end);
                    last.whole = last.whole.start.min(whole.start)..last.whole.end.max(whole.end);
                    if own_rank < rank {
                        last.rule = id;
                        rank = own_rank;
                    }
                }
            }
        }
        hits
    }
}

/// The number of steps that the patterns that are not shipped may take together in one text.
struct StepBudget {
    left: usize,
}

impl StepBudget {
    /// Steps for each byte of a text, and steps for every text besides.
    const FOR_EACH: usize = 64;
    const FOR_ALL: usize = 4 << 20;

    fn new(bytes: &[u8]) -> Self {
        Self { left: bytes.len().saturating_mul(Self::FOR_EACH).saturating_add(Self::FOR_ALL) }
    }

    fn spend(&mut self, steps: usize) {
        self.left = self.left.saturating_sub(steps);
    }
}

/// Matches the rule's pattern at a literal. Returns the whole match and the secret in it, or the rest of the
/// text if the step budget is used up.
fn match_rule(
    rule: &CompiledRule,
    bytes: &[u8],
    at: usize,
    work: &mut StepBudget,
) -> Option<(Range<usize>, Range<usize>)> {
    let regex = rule.pattern.get()?;
    let start = at.saturating_sub(rule.before);
    let anchored = if rule.before == 0 { Anchored::Yes } else { Anchored::No };
    let mut end = at.saturating_add(rule.window).min(bytes.len());
    let limited = rule.pattern.automaton();
    if let Some(automaton) = limited {
        let (is_match, steps) = automaton.is_match(bytes, start..end);
        work.spend(steps);
        if work.left == 0 {
            return Some((at..bytes.len(), at..bytes.len()));
        }
        if !is_match {
            return None;
        }
    }
    let input = |end: usize| Input::new(bytes).span(start..end).anchored(anchored);
    // Most literals are not part of a secret, and a match without groups shows that sooner.
    if limited.is_none() && !regex.is_match(input(end)) {
        return None;
    }
    let mut captures = regex.create_captures();
    loop {
        regex.search_captures(&input(end), &mut captures);
        let whole = captures.get_match()?.range();
        work.spend(limited.map_or(0, |automaton| automaton.weight * (end - start)));
        if work.left == 0 && limited.is_some() {
            return Some((at..bytes.len(), at..bytes.len()));
        }
        // A secret that is longer than the window must not be split.
        if whole.end == end && end < bytes.len() {
            end = end.saturating_add((end - start) * 15).min(bytes.len());
            continue;
        }
        let group = (1..captures.group_len()).find_map(|group| captures.get_group(group));
        let secret = group.map_or_else(|| whole.clone(), |group| group.start..group.end);
        return Some((whole, secret));
    }
}

/// The number of bytes of the name before the literal, and of the text from the literal on, that are searched
/// for an exception.
const EXCEPTED: (usize, usize) = (64, 512);

/// Checks whether the rule itself excepts its match.
fn is_excepted(
    rule: &CompiledRule,
    bytes: &[u8],
    at: usize,
    whole: &Range<usize>,
    work: &mut StepBudget,
) -> bool {
    let Some(unless) = &rule.unless else { return false };
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    let before = bytes[..at].iter().rev().take(EXCEPTED.0).take_while(is_name).count();
    let text = &bytes[at - before..whole.end.min(at.saturating_add(EXCEPTED.1))];
    match unless.automaton() {
        Some(automaton) => {
            let (is_match, steps) = automaton.is_match(text, 0..text.len());
            work.spend(steps);
            is_match
        }
        None => unless.get().is_some_and(|regex| regex.is_match(text)),
    }
}

/// Checks whether no word continues at `at`. The letter of an escape such as `\n` is not part of a word.
fn is_word_start(bytes: &[u8], at: usize) -> bool {
    let back = |steps: usize| at.checked_sub(steps).map(|at| bytes[at]);
    match back(1) {
        Some(before) if before.is_ascii_alphanumeric() || matches!(before, b'_' | b'-') => {
            (back(2) == Some(b'\\') && matches!(before, b'n' | b'r' | b't')) || back(3) == Some(b'%')
        }
        _ => true,
    }
}

impl CompiledRule {
    fn accepts(&self, secret: &[u8]) -> bool {
        secret.iter().filter(|byte| byte.is_ascii_digit()).count() >= self.digits
            && (!self.random || is_mixed(secret))
            && (self.millibits == 0 || entropy(secret) >= self.millibits)
    }
}

/// Checks whether kinds of characters change as often as in a random text. In words, numbers and combinations
/// of them they change less; a capital letter that begins a word is not a change.
fn is_mixed(secret: &[u8]) -> bool {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let is_joint = |byte: &u8| matches!(byte, b'_' | b'-' | b'.' | b'/' | b':');
    let mut last = None;
    let (mut changes, mut length) = (0, 0);
    for byte in secret.iter().filter(|byte| !is_joint(byte)) {
        let kind = kind(*byte);
        changes += usize::from(last.is_some_and(|last| last != kind && (last, kind) != (1, 0)));
        last = Some(kind);
        length += 1;
    }
    changes * 6 >= length
}

/// Returns the average information of a byte, in thousandths of a bit.
fn entropy(text: &[u8]) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let mut counts = [0_u32; 256];
    text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let length = text.len() as u64;
    let spent: u64 = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| u64::from(*count) * log2(u64::from(*count)))
        .sum();
    u32::try_from((log2(length) - spent / length) / 1000).unwrap_or(u32::MAX)
}

/// Returns the logarithm to base two, in millionths. `core` has no floating-point functions.
fn log2(number: u64) -> u64 {
    let whole = u64::from(number.max(1).ilog2());
    // The number as 1.x with 32 bits after the point.
    let mut rest = if whole <= 32 { number << (32 - whole) } else { number >> (whole - 32) };
    let mut fraction = 0_u64;
    for _ in 0..20 {
        let square = (u128::from(rest) * u128::from(rest)) >> 32;
        fraction <<= 1;
        rest = u64::try_from(square).unwrap_or(u64::MAX);
        if rest >= 2 << 32 {
            fraction |= 1;
            rest >>= 1;
        }
    }
    whole * 1_000_000 + ((fraction * 1_000_000) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_and_log2_match_known_values() {
        for (number, wanted) in [(1, 0), (2, 1_000_000), (3, 1_584_962), (10, 3_321_928), (1024, 10_000_000)]
        {
            assert!(log2(number).abs_diff(wanted) <= 2, "{number}: {}", log2(number));
        }
        assert_eq!(entropy(b""), 0);
        assert_eq!(entropy(b"aaaa"), 0);
        assert_eq!(entropy(b"abab"), 1000);
        assert_eq!(entropy(b"abcdefgh"), 3000);
    }

    #[test]
    fn only_random_texts_are_mixed() {
        for words in
            ["access_token_v2", "MyServiceTokenProvider", "1234567890", "refresh-token", "application/json"]
        {
            assert!(!is_mixed(words.as_bytes()), "{words}");
        }
        for random in ["Tr0ub4dor&3", "9f86d081884c7d65", "kJ8sQ2mZ0pLx4VbN"] {
            assert!(is_mixed(random.as_bytes()), "{random}");
        }
    }
}
