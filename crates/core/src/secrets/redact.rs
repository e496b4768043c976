//! Replaces secrets by placeholders, in whole texts and line by line.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use super::mask::find_occurrences;
use super::rules::SecretRules;

/// A redactor that replaces secrets by placeholders. A secret keeps its placeholder for the lifetime of the
/// redactor; placeholders are numbered in order of appearance, so that they reveal nothing about a secret.
#[derive(Clone, Debug)]
pub struct SecretRedactor<'r> {
    rules: &'r SecretRules,
    known: BTreeMap<String, KnownSecret>,
    /// The number of placeholders that were given.
    given: usize,
    /// The secret of several lines that is being read: the index of its rule, and its placeholder.
    open: Option<(usize, String)>,
}

#[derive(Clone, Debug)]
pub(super) struct KnownSecret {
    pub(super) rule: String,
    pub(super) placeholder: String,
}

/// The minimum length of a known secret that is searched in other texts; a shorter text occurs by chance.
const LEAST_KNOWN: usize = 8;

/// The beginning of every placeholder.
pub const PLACEHOLDER: &str = "[secret:";

impl<'r> SecretRedactor<'r> {
    /// Creates a redactor that applies `rules`.
    pub fn new(rules: &'r SecretRules) -> Self {
        Self { rules, known: BTreeMap::new(), given: 0, open: None }
    }

    /// Registers the value of `key`, which is replaced wherever it occurs from now on, unless it is very short.
    pub fn add_value(&mut self, key: &str, value: &str) {
        let known = KnownSecret { rule: "value".into(), placeholder: format!("[secret:value:{key}]") };
        self.known.entry(value.to_string()).or_insert(known);
    }

    fn next_placeholder(&mut self, rule: &str) -> String {
        self.given += 1;
        format!("[secret:{rule}:{}]", self.given)
    }

    pub(super) fn assign_placeholder(&mut self, rule: &str, secret: &str) -> String {
        if let Some(known) = self.known.get(secret) {
            return known.placeholder.clone();
        }
        let placeholder = self.next_placeholder(rule);
        let known = KnownSecret { rule: rule.into(), placeholder: placeholder.clone() };
        self.known.insert(secret.to_string(), known);
        placeholder
    }

    pub(super) fn is_known(&self, secret: &str) -> bool {
        self.known.contains_key(secret)
    }

    /// Returns the ranges of secrets in `text` that were seen before, whether or not a rule would find them
    /// there.
    pub(super) fn find_known(&self, text: &str) -> Vec<(Range<usize>, &KnownSecret)> {
        let long = self.known.iter().filter(|(secret, _)| secret.len() >= LEAST_KNOWN);
        long.flat_map(|(secret, known)| find_occurrences(text, secret).map(move |range| (range, known)))
            .collect()
    }

    /// Returns every secret in `text` with its placeholder: the hits of the rules, and the known secrets.
    pub(super) fn find_replacements(&mut self, text: &str) -> Vec<(Range<usize>, String)> {
        let rules = self.rules;
        let mut all: Vec<(Range<usize>, String)> = Vec::new();
        for hit in rules.scan(text) {
            let placeholder = self.assign_placeholder(hit.rule, &text[hit.range.clone()]);
            all.push((hit.range, placeholder));
        }
        let known = self.find_known(text).into_iter();
        all.extend(known.map(|(range, known)| (range, known.placeholder.clone())));
        all.sort_by(|(a, _), (b, _)| (a.start, b.end).cmp(&(b.start, a.end)));
        let mut end = 0;
        all.retain_mut(|(range, _)| {
            range.start = range.start.max(end);
            let keep = range.start < range.end;
            end = end.max(range.end);
            keep
        });
        all
    }

    /// Returns a whole text with its secrets replaced.
    pub fn redact_text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        apply_replacements(text, &self.find_replacements(text))
    }

    /// Returns the next line of a stream, with or without its line end, with its secrets replaced. Replaces
    /// each line of a key that spans several lines.
    pub fn redact_line<'t>(&mut self, line: &'t str) -> Cow<'t, str> {
        if let Some((rule, placeholder)) = &self.open {
            let lines = self.rules.set().rules[*rule].lines.as_ref();
            if lines.is_some_and(|(_, goes_on)| goes_on.is_match(line)) {
                let body = line.trim();
                if body.is_empty() {
                    return Cow::Borrowed(line);
                }
                let start = line.len() - line.trim_start().len();
                let range = start..start + body.len();
                return apply_replacements(line, &[(range, placeholder.clone())]);
            }
            self.open = None;
        }
        let rules = &self.rules.set().rules;
        let opens =
            rules.iter().position(|rule| rule.lines.as_ref().is_some_and(|(opens, _)| opens.is_match(line)));
        if let Some(rule) = opens {
            self.open = Some((rule, self.next_placeholder(&rules[rule].id)));
        }
        self.redact_text(line)
    }
}

pub(super) fn apply_replacements<'t>(text: &'t str, replacements: &[(Range<usize>, String)]) -> Cow<'t, str> {
    if replacements.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for (range, placeholder) in replacements {
        out.push_str(&text[end..range.start]);
        out.push_str(placeholder);
        end = range.end;
    }
    out.push_str(&text[end..]);
    Cow::Owned(out)
}
