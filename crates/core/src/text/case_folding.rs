//! Folds names that some file systems treat as one file: letters in either case, accents in any normalization
//! form.

use alloc::string::String;

use unicode_normalization::UnicodeNormalization as _;

/// Returns one text for all spellings of a name: decomposed, with Unicode's full case folding. `ı` and `i`
/// count as one letter, too.
pub(crate) fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // One conversion is not enough: some letters have only one of the two cases, and some become several
    // letters in the other one.
    let upper = text.nfd().flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).nfd().collect()
}

/// Returns a path or glob without empty and `.` parts. A slash at the end stays, unless nothing else is left.
pub(crate) fn normalize_path(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if !plain.is_empty() {
            plain.push('/');
        }
        plain.push_str(part);
    }
    if path.ends_with('/') && !plain.is_empty() {
        plain.push('/');
    }
    plain
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn letters_match_in_every_case() {
        for c in '\0'..=char::MAX {
            let folded = fold_case(&c.to_string());
            let same = [
                c.to_lowercase().collect::<String>(),
                c.to_uppercase().collect(),
                c.to_string().nfc().collect(),
                c.to_string().nfd().collect(),
                folded.clone(),
            ];
            for other in same {
                assert_eq!(fold_case(&other), folded, "{c:?} and {other:?}");
            }
        }
    }

    #[test]
    fn letters_are_folded_as_unicode_says() {
        let same = [
            ("Straße", "STRASSE"),
            ("STRAẞE", "strasse"),
            ("ﬁle", "FILE"),
            ("ﬄ", "FFL"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("\u{212a}", "k"),
            ("\u{212b}", "a\u{30a}"),
            ("İ", "i\u{307}"),
            ("e\u{301}", "É"),
            ("ᾳ", "ΑΙ"),
            ("ŉ", "ʼN"),
            ("Ꭰ", "ꭰ"),
            ("a\u{323}\u{307}", "A\u{307}\u{323}"),
            ("ſ", "S"),
        ];
        for (a, b) in same {
            assert_eq!(fold_case(a), fold_case(b), "{a} and {b}");
        }
        for (a, b) in [("a", "b"), ("e", "é"), ("ss", "s"), ("o", "ö"), ("ﬁ", "fl"), ("１", "1")] {
            assert_ne!(fold_case(a), fold_case(b), "{a} and {b}");
        }
    }

    #[test]
    fn a_path_is_plain() {
        let cases =
            [("./a//b/./c", "a/b/c"), ("a/", "a/"), ("./", ""), ("", ""), ("/a", "a"), ("a/./", "a/")];
        for (path, plain) in cases {
            assert_eq!(normalize_path(path), plain);
        }
    }
}
