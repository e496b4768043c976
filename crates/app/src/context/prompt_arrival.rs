//! How a prompt arrived in a request: byte for byte, or with differences.

use std::ops::Range;

use super::attribute::common_prefix;

/// The arrival of a delivered text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptArrival {
    /// The text that the CLI put before it, in the same message.
    pub before: String,
    /// The text that the CLI put after it, in the same message.
    pub after: String,
    /// The number of bytes that are missing at its start.
    pub missing_start: usize,
    /// The number of bytes that are missing at its end.
    pub missing_end: usize,
    /// Whether other bytes of it are missing or changed.
    pub is_changed: bool,
    /// Whether nothing of it arrived.
    pub is_missing: bool,
}

impl PromptArrival {
    /// Returns whether it arrived byte for byte, as a message of its own.
    pub(crate) fn is_exact(&self) -> bool {
        *self == Self::default()
    }
}

/// A range of a text that holds the bytes from `from` on of a delivered text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrivedRange {
    /// The number of the text.
    pub text: usize,
    pub range: Range<usize>,
    pub from: usize,
}

/// Finds a delivered text in the texts of a request.
pub(crate) fn find_prompt(texts: &[&str], delivered: &str) -> (Vec<ArrivedRange>, PromptArrival) {
    let start = delivered.len() - delivered.trim_start().len();
    let end = delivered.trim_end().len().max(start);
    for (from, to) in [(0, delivered.len()), (0, end), (start, end)] {
        let wanted = &delivered[from..to];
        // A message that is only the prompt goes before one that repeats it.
        let whole = texts.iter().rposition(|text| *text == wanted).map(|at| (at, 0));
        let inside = || {
            let mut found = texts.iter().enumerate().rev();
            found.find_map(|(at, text)| Some((at, text.find(wanted)?)))
        };
        if wanted.is_empty() {
            continue;
        }
        if let Some((text, at)) = whole.or_else(inside) {
            let range = at..at + wanted.len();
            let arrival = PromptArrival {
                before: texts[text][..at].to_owned(),
                after: texts[text][range.end..].to_owned(),
                missing_start: from,
                missing_end: delivered.len() - to,
                ..PromptArrival::default()
            };
            return (vec![ArrivedRange { text, range, from }], arrival);
        }
    }
    find_changed(texts, delivered)
}

/// The least number of bytes by which a changed prompt is recognized.
const LEAST: usize = 16;

/// Finds the longest run of lines of a delivered text that arrived.
fn find_changed(texts: &[&str], delivered: &str) -> (Vec<ArrivedRange>, PromptArrival) {
    let mut best: Option<ArrivedRange> = None;
    let mut from = 0;
    for line in delivered.split_inclusive('\n').take(MOST_LINES) {
        let first = from + line.len() - line.trim_start().len();
        let is_inside = best.as_ref().is_some_and(|best| first < best.from + best.range.len());
        if line.trim().len() >= LEAST.min(delivered.trim().len()) && !is_inside {
            for (text, said) in texts.iter().enumerate() {
                let Some(at) = said.find(line.trim()) else { continue };
                let length = common_prefix(&said[at..], &delivered[first..]);
                if best.as_ref().is_none_or(|best| best.range.len() < length) {
                    best = Some(ArrivedRange { text, range: at..at + length, from: first });
                }
            }
        }
        from += line.len();
    }
    let arrival = PromptArrival { is_changed: true, is_missing: best.is_none(), ..PromptArrival::default() };
    (best.into_iter().collect(), arrival)
}

/// The most lines of a changed prompt that are searched for.
const MOST_LINES: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_names_each_difference() {
        let find = |texts: &[&str], delivered: &str| find_prompt(texts, delivered).1;
        let prompt = "  You are a coder who fixes things.\nFix the login timeout.\n\n";
        let exact = find(&["<reminder>", prompt], prompt);
        assert!(exact.is_exact(), "{exact:?}");
        let dated = find(&[&format!("<now>\n\n{}", prompt.trim_end())], prompt);
        let expected =
            PromptArrival { before: "<now>\n\n".into(), missing_end: 2, ..PromptArrival::default() };
        assert_eq!(dated, expected);
        let trimmed = find(&[prompt.trim()], prompt);
        let expected = PromptArrival { missing_start: 2, missing_end: 2, ..PromptArrival::default() };
        assert_eq!(trimmed, expected);
        let (found, changed) =
            find_prompt(&["x", "You are a coder who fixes things.\nFix the @file timeout."], prompt);
        assert!(changed.is_changed && !changed.is_missing && !changed.is_exact());
        assert_eq!(found, [ArrivedRange { text: 1, range: 0..42, from: 2 }]);
        let (found, changed) =
            find_prompt(&["> Fix the login timeout.\n"], "One\nFix the login timeout.\nTwo");
        assert!(changed.is_changed && !changed.is_missing);
        assert_eq!(found, [ArrivedRange { text: 0, range: 2..25, from: 4 }]);
        assert!(find(&["other"], prompt).is_missing);
    }
}
