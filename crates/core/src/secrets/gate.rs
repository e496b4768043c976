//! The gate: every text of a request and every source that composing looks at passes it, and what is found is
//! told, replaced or refused, all at once.
//!
//! It stands before the recorder of a snapshot, so that what is composed, stored and verified is the same.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::{RequestText, walk};
use super::mask::{cover_ranges, mask_texts, occurrences};
use super::redact::{SecretRedactor, replaced};
use super::rules::SecretRules;
use super::seal::is_secret;
use crate::diag::{Code, Diagnostic, Diagnostics, Severity, SourceSpan, tell};
use crate::prompt::{Piece, Prompt, Trust};
use crate::render::{RenderedRange, RenderedText};
use crate::request::Request;
use crate::source::{Listing, ListingLimits, SourceError, SourceId, SourceRoot, Sources};
use crate::text::SharedText;

/// What becomes of a secret that is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretMode {
    /// It goes in, with a warning. Nothing may be stored then.
    #[default]
    Warn,
    /// Nothing is composed.
    Refuse,
    /// A placeholder stands in its place.
    Redact,
    /// It goes in, and that it was let through is kept.
    Allow,
}

impl SecretMode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Refuse => "refuse",
            Self::Redact => "redact",
            Self::Allow => "allow",
        }
    }
}

/// A secret that was found, without the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSecret {
    pub rule: String,
    /// Where: a source or a field of the request, with line and column.
    pub place: String,
    /// What stands there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

/// What passed the gate, for the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub mode: SecretMode,
    pub found: Vec<FoundSecret>,
}

/// What was found, with all that a diagnostic needs.
struct CaughtSecret {
    found: FoundSecret,
    /// The text is masked.
    place: SourceSpan,
    /// Whether it can be replaced.
    fixed: bool,
    /// Where the parts come from, of what only the finished prompt holds.
    parts: Vec<String>,
}

struct GateState<'r> {
    redactor: SecretRedactor<'r>,
    catches: Vec<CaughtSecret>,
    /// Texts in which the rules find nothing, as others have found out.
    clean: BTreeMap<SourceId, SharedText>,
    /// Sources that passed, as they passed.
    passed: BTreeMap<SourceId, Option<SharedText>>,
    /// Values that the request marks as secret.
    marked: Vec<SharedText>,
}

/// Stands between the world and one composition.
pub struct Gate<'r> {
    rules: &'r SecretRules,
    mode: SecretMode,
    state: RefCell<GateState<'r>>,
}

impl core::fmt::Debug for Gate<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gate").field("rules", self.rules).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A named text is looked at together with its name up to this length: a name says nothing about a whole document.
const NAMED: usize = 1024;

/// With fewer bytes that are not ours a window holds our own words, and those are no secret.
const FOREIGN: usize = 4;

/// How much on either side of a seam of the finished prompt is looked at.
const SEAM: usize = 512;

impl<'r> Gate<'r> {
    pub fn new(rules: &'r SecretRules, mode: SecretMode) -> Self {
        let redactor = SecretRedactor::new(rules);
        let (clean, passed) = (BTreeMap::new(), BTreeMap::new());
        let state = GateState { redactor, catches: Vec::new(), clean, passed, marked: Vec::new() };
        Self { rules, mode, state: RefCell::new(state) }
    }

    /// Lets a request in: with [`SecretMode::Redact`] it holds placeholders afterwards. Values that it marks as secret are not
    /// looked at.
    pub fn request(&self, request: &mut Request) {
        let marked = request.secret.iter().filter_map(|key| request.values.get(key));
        self.state.borrow_mut().marked.extend(marked.filter(|value| !value.is_empty()).cloned());
        walk(request, &mut |field| self.field(&field));
    }

    fn field(&self, field: &RequestText<'_>) -> Option<String> {
        let text = field.text;
        // Only what a name is given to can be told from its name: it is put before the text, and taken away again.
        let named = field.key.filter(|_| text.len() <= NAMED && !text.contains('"'));
        let prefix = named.map(|key| format!("{key} = \"")).unwrap_or_default();
        let hits = match named {
            Some(_) => self.hits(&format!("{prefix}{text}\"")),
            None => self.hits(text),
        };
        let ranges = hits.into_iter().filter_map(|(rule, range)| {
            let start = range.start.saturating_sub(prefix.len());
            let end = range.end.saturating_sub(prefix.len()).min(text.len());
            (start < end).then_some((rule, start..end))
        });
        let name = || format!("request {}", (field.name)());
        self.record_hits(&name, text, ranges.collect(), field.fixed).filter(|_| !field.fixed)
    }

    fn hits(&self, text: &str) -> Vec<(String, Range<usize>)> {
        self.rules.scan(text).into_iter().map(|hit| (hit.rule.to_string(), hit.range)).collect()
    }

    /// Takes note of texts in which these rules find nothing, so that nobody has to look again.
    pub fn clean(&self, texts: Vec<(SourceId, SharedText)>) {
        self.state.borrow_mut().clean.extend(texts);
    }

    /// Sources as they may be seen.
    pub fn sources<S: Sources>(&self, inner: S) -> GatedSources<'_, 'r, S> {
        GatedSources { gate: self, inner }
    }

    /// Takes note of what was found in a text; what the text is with placeholders, where it is to have them.
    fn record_hits(
        &self,
        name: &dyn Fn() -> String,
        text: &str,
        hits: Vec<(String, Range<usize>)>,
        fixed: bool,
    ) -> Option<String> {
        let state = &mut *self.state.borrow_mut();
        let mut replacements = Vec::new();
        for (rule, range) in hits {
            let placeholder = state.redactor.placeholder(&rule, &text[range.clone()]);
            replacements.push((rule, range, placeholder));
        }
        if self.mode == SecretMode::Redact {
            for (range, known) in state.redactor.find_known(text) {
                let overlaps = |(_, other, _): &(String, Range<usize>, String)| {
                    range.start < other.end && other.start < range.end
                };
                if !replacements.iter().any(overlaps) {
                    replacements.push((known.rule.clone(), range, known.placeholder.clone()));
                }
            }
            replacements.sort_by_key(|(_, range, _)| range.start);
        }
        if replacements.is_empty() {
            return None;
        }
        let covered: SharedText =
            cover_ranges(text, replacements.iter().map(|(_, range, _)| range.clone())).as_ref().into();
        let redact = self.mode == SecretMode::Redact && !fixed;
        for (rule, range, placeholder) in &replacements {
            let place = SourceSpan { name: name(), text: covered.clone(), range: range.clone() };
            let (line, column) = place.line_column();
            let found = FoundSecret {
                rule: rule.clone(),
                place: format!("{}:{line}:{column}", place.name),
                placeholder: redact.then(|| placeholder.clone()),
            };
            state.catches.push(CaughtSecret { found, place, fixed, parts: Vec::new() });
        }
        let replacements: Vec<_> = replacements.into_iter().map(|(_, range, with)| (range, with)).collect();
        redact.then(|| replaced(text, &replacements).into_owned())
    }

    /// Looks at the finished prompt and judges: what passed with what there is to say about it, or everything that
    /// must not pass.
    pub fn judge(
        &self,
        request: &Request,
        prompt: &Prompt,
        rendered: &RenderedText,
    ) -> Result<(GateReport, Vec<Diagnostic>), Diagnostics> {
        self.finished(request, prompt, rendered);
        let state = self.state.borrow();
        let mut diags = Vec::new();
        for catch in &state.catches {
            tell(&mut diags, Code::SecretFound, || self.diag(catch));
        }
        if let Some(first) = diags.first_mut() {
            first.hints.extend(self.hint(first.severity).map(ToString::to_string));
        }
        if diags.iter().any(|diag| diag.severity == Severity::Error) {
            diags.retain(|diag| diag.severity == Severity::Error);
            return Err(Diagnostics(diags));
        }
        let found = state.catches.iter().map(|catch| catch.found.clone()).collect();
        Ok((GateReport { mode: self.mode, found }, diags))
    }

    fn diag(&self, catch: &CaughtSecret) -> Diagnostic {
        let FoundSecret { rule, placeholder, .. } = &catch.found;
        let mut message = format!("{} ({rule})", self.rules.describe(rule));
        let replaced = placeholder.as_ref().filter(|_| catch.parts.is_empty());
        match (self.mode, replaced) {
            (SecretMode::Redact, Some(placeholder)) => {
                message.push_str(&format!(": replaced by `{placeholder}`"))
            }
            (SecretMode::Redact, None) if catch.fixed => {
                message.push_str(": it cannot be replaced in a name or path")
            }
            (SecretMode::Allow, _) => message.push_str(": let through"),
            _ => {}
        }
        if !catch.parts.is_empty() {
            message.push_str(&format!(
                ": it is in the finished prompt only, where these meet: {}",
                catch.parts.join(", ")
            ));
        }
        let refused = match self.mode {
            SecretMode::Refuse => true,
            SecretMode::Redact => replaced.is_none(),
            SecretMode::Warn | SecretMode::Allow => false,
        };
        let mut diag = if refused {
            Diagnostic::error(Code::SecretFound, message)
        } else {
            Diagnostic::warning(Code::SecretFound, message)
        };
        diag.place = Some(alloc::boxed::Box::new(catch.place.clone()));
        diag
    }

    fn hint(&self, severity: Severity) -> Option<&'static str> {
        match (self.mode, severity) {
            (SecretMode::Warn, _) => {
                Some("`--secrets redact` puts placeholders there, `--secrets refuse` stops")
            }
            (SecretMode::Refuse, _) => Some(
                "`--secrets redact` puts placeholders there, `--secrets allow` lets them through; a value that must go \
                 in is given with `--set-secret`",
            ),
            (SecretMode::Redact, Severity::Error) => Some("take it out where it comes from"),
            (SecretMode::Redact | SecretMode::Allow, _) => None,
        }
    }

    /// What is a secret only where pieces meet, and what was replaced in one place and stands in another.
    fn finished(&self, request: &Request, prompt: &Prompt, rendered: &RenderedText) {
        let text = &rendered.text;
        let mut new: Vec<(String, Range<usize>, Range<usize>)> = Vec::new();
        {
            let state = self.state.borrow();
            let foreign = |window: &Range<usize>| {
                let spans = touched_spans(rendered, window).iter();
                let foreign = spans.filter(|span| span.piece.is_some_and(|piece| !ours(prompt, piece)));
                foreign.map(|span| span.end - span.start).sum::<usize>()
            };
            for window in seams(rendered).into_iter().filter(|window| foreign(window) >= FOREIGN) {
                for hit in self.rules.scan(&text[window.clone()]) {
                    let moved = |range: &Range<usize>| range.start + window.start..range.end + window.start;
                    let (secret, whole) = (moved(&hit.range), moved(&hit.whole));
                    // A window may begin inside of a word.
                    let cut = whole.start == window.start && window.start > 0;
                    let known = state.redactor.is_known(&decode_range(rendered, &secret));
                    if !cut && !known && touched_spans(rendered, &whole).len() > 1 {
                        new.push((hit.rule.to_string(), secret, whole));
                    }
                }
            }
            if self.mode == SecretMode::Redact {
                let known = state.redactor.find_known(text).into_iter();
                new.extend(known.map(|(range, known)| (known.rule.clone(), range.clone(), range)));
            }
        }
        let marked = |span: &RenderedRange| {
            span.piece.is_some_and(|piece| is_secret(request, &prompt.origins[piece.origin]))
        };
        new.retain(|(_, secret, _)| !touched_spans(rendered, secret).iter().any(marked));
        for (rule, secret, whole) in new {
            let text: SharedText = cover_ranges(text, [secret.clone()].into_iter()).as_ref().into();
            let mut parts: Vec<String> = Vec::new();
            for span in touched_spans(rendered, &whole) {
                let origin = span.piece.map(|piece| &prompt.origins[piece.origin]);
                let label = origin.map_or_else(|| "engine".to_string(), |origin| origin.label());
                if !parts.contains(&label) {
                    parts.push(label);
                }
            }
            let place = SourceSpan { name: "prompt".into(), text, range: secret };
            let (line, column) = place.line_column();
            let found = FoundSecret { rule, place: format!("prompt:{line}:{column}"), placeholder: None };
            self.state.borrow_mut().catches.push(CaughtSecret { found, place, fixed: false, parts });
        }
    }

    /// The finished prompt with a star for each byte of a secret, marked ones included.
    pub fn mask<'t>(&self, request: &Request, prompt: &Prompt, rendered: &'t RenderedText) -> Cow<'t, str> {
        let marked = |span: &&RenderedRange| {
            span.piece.is_some_and(|piece| is_secret(request, &prompt.origins[piece.origin]))
        };
        let mut ranges: Vec<Range<usize>> =
            rendered.spans.iter().filter(marked).map(|span| span.start..span.end).collect();
        ranges.extend(self.known_ranges(&rendered.text));
        cover_ranges(&rendered.text, merge_ranges(ranges).into_iter())
    }

    fn known_ranges(&self, text: &str) -> Vec<Range<usize>> {
        let state = self.state.borrow();
        let mut ranges: Vec<Range<usize>> = self.rules.scan(text).into_iter().map(|hit| hit.range).collect();
        ranges.extend(state.redactor.find_known(text).into_iter().map(|(range, _)| range));
        state.marked.iter().for_each(|value| ranges.extend(occurrences(text, value)));
        ranges
    }

    /// The same failure with no secret in it, marked ones included.
    #[must_use]
    pub fn mask_diagnostics(&self, failure: Diagnostics) -> Diagnostics {
        Diagnostics(failure.0.into_iter().map(|diag| self.mask_diagnostic(diag)).collect())
    }

    /// The same diagnostic with no secret in it, marked ones included.
    #[must_use]
    pub fn mask_diagnostic(&self, diag: Diagnostic) -> Diagnostic {
        // A diagnostic says nothing that did not come in by the gate.
        let state = self.state.borrow();
        if state.catches.is_empty() && state.marked.is_empty() {
            return diag;
        }
        drop(state);
        mask_texts(diag, &|text| cover_ranges(text, merge_ranges(self.known_ranges(text)).into_iter()))
    }
}

/// Ranges in order, without overlaps.
fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    merged_in_order(ranges.into_iter())
}

/// The same for ranges that come in order: of those that overlap, none is held.
fn merged_in_order(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => all.push(range),
        }
    }
    all
}

/// What lies around the places where one piece of the finished prompt ends and another begins.
fn seams(rendered: &RenderedText) -> Vec<Range<usize>> {
    let text = &rendered.text;
    let around = |at: usize| {
        text.floor_char_boundary(at.saturating_sub(SEAM))
            ..text.ceil_char_boundary((at + SEAM).min(text.len()))
    };
    merged_in_order(rendered.spans.iter().skip(1).map(|span| around(span.start)))
}

/// The spans that a range of the finished prompt has a part in.
fn touched_spans<'r>(rendered: &'r RenderedText, range: &Range<usize>) -> &'r [RenderedRange] {
    let first = rendered.spans.partition_point(|span| span.end <= range.start);
    let count = rendered.spans[first..].partition_point(|span| span.start < range.end);
    &rendered.spans[first..first + count]
}

/// What a range of the finished prompt was before its format encoded it.
fn decode_range(rendered: &RenderedText, range: &Range<usize>) -> String {
    let mut out = String::new();
    for span in touched_spans(rendered, range) {
        let part = &rendered.text[span.start.max(range.start)..span.end.min(range.end)];
        match span.encoding.decode(part) {
            Some(plain) => out.push_str(&plain),
            None => out.push_str(part),
        }
    }
    out
}

fn ours(prompt: &Prompt, piece: Piece) -> bool {
    prompt.origins[piece.origin].trust == Trust::Ours
}

/// Sources whose texts pass a [`Gate`].
#[derive(Debug)]
pub struct GatedSources<'g, 'r, S> {
    gate: &'g Gate<'r>,
    inner: S,
}

impl<S: Sources> Sources for GatedSources<'_, '_, S> {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        // What is shipped holds no secret, and most of what is looked at is shipped.
        if id.root() == SourceRoot::Builtin {
            return self.inner.text(id);
        }
        if let Some(known) = self.gate.state.borrow().passed.get(id) {
            return Ok(known.clone());
        }
        let text = self.inner.text(id)?.map(|text| {
            let is_clean = self.gate.state.borrow().clean.get(id) == Some(&text);
            let hits = if is_clean { Vec::new() } else { self.gate.hits(&text) };
            self.gate.record_hits(&|| id.to_string(), &text, hits, false).map_or(text, SharedText::from)
        });
        self.gate.state.borrow_mut().passed.insert(id.clone(), text.clone());
        Ok(text)
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        self.inner.list(dir, limits)
    }
}
