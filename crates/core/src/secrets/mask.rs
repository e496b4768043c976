//! Masks the secrets of a text byte for byte, so that every offset in it stays.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

use memchr::memmem;

use super::rules::SecretRules;
use crate::diag::Diagnostic;
use crate::text::SharedText;

impl SecretRules {
    /// Returns the text with a star for every byte of a secret.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        cover_ranges(text, self.scan(text).into_iter().map(|hit| hit.range))
    }

    /// Returns the diagnostic, at the same place, with the secrets in all of its texts masked.
    #[must_use]
    pub fn mask_diagnostic(&self, diag: Diagnostic) -> Diagnostic {
        mask_texts(diag, &|text| self.mask(text))
    }
}

/// Returns the diagnostic with all of its texts masked.
pub(super) fn mask_texts(mut diag: Diagnostic, mask: &dyn for<'t> Fn(&'t str) -> Cow<'t, str>) -> Diagnostic {
    let own = |text: &mut String| {
        if let Cow::Owned(masked) = mask(text) {
            *text = masked;
        }
    };
    own(&mut diag.message);
    diag.looked.iter_mut().chain(&mut diag.hints).for_each(own);
    if let Some(place) = &mut diag.place {
        own(&mut place.name);
        if let Cow::Owned(masked) = mask(&place.text) {
            place.text = SharedText::from(masked);
        }
    }
    diag
}

/// Replaces the bytes of these ranges by stars.
pub(super) fn cover_ranges(text: &str, ranges: impl Iterator<Item = Range<usize>>) -> Cow<'_, str> {
    let mut out = String::new();
    let mut end = 0;
    for range in ranges.filter(|range| !range.is_empty()) {
        out.push_str(&text[end..range.start]);
        // Line ends stay, so that line numbers do not change.
        out.extend(text[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { '*' }));
        end = range.end;
    }
    if end == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[end..]);
    Cow::Owned(out)
}

/// Returns the ranges at which `known` occurs in `text`.
pub(super) fn find_occurrences<'t>(text: &'t str, known: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
    memmem::find_iter(text.as_bytes(), known.as_bytes()).map(|at| at..at + known.len())
}
