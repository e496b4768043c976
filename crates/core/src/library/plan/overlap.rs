//! Decides whether two globs can match the same path. An undecidable case counts as yes.
//!
//! A glob also owns the contents of a folder that it matches. The glob `src/export` alone does not show
//! whether it is a folder: without an extension it counts as one, and so does a path that another glob
//! continues. Letters are compared without regard to case and to the encoding of accents, because some
//! systems treat both names as one file.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::case_folding::{fold_case, normalize_path};
use crate::text::glob::expand_braces;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverlapToken {
    Char(char),
    /// One character except a slash.
    One,
    /// Any number of characters except a slash.
    Star,
    /// Any number of any characters.
    Deep,
    /// The given number of following tokens is optional.
    Skip(usize),
}

/// Glob, or several globs if it has alternatives.
#[derive(Clone, Debug)]
pub(crate) struct OwnedGlob(Vec<GlobAlternative>);

#[derive(Clone, Debug)]
struct GlobAlternative {
    /// Tokens that it matches.
    tokens: Vec<OverlapToken>,
    /// Tokens that it owns.
    owned: Vec<OverlapToken>,
    /// Folders that certainly contain it, each as a path.
    folders: Vec<Vec<OverlapToken>>,
    /// Whether it is absolute or goes upwards.
    leads_out: bool,
}

impl OwnedGlob {
    pub(crate) fn new(glob: &str) -> Self {
        let mut all = Vec::new();
        if !expand_braces(glob, &mut all) {
            all = alloc::vec!["**".to_string()];
        }
        Self(all.iter().map(|glob| GlobAlternative::new(glob)).collect())
    }

    /// Checks whether the glob owns the path.
    pub(crate) fn owns(&self, path: &str) -> bool {
        let path = fold_case(&normalize_path(path));
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let paths: Vec<Vec<OverlapToken>> = ends.map(|end| literal_tokens(&path[..end])).collect();
        self.0.iter().any(|own| paths.iter().any(|path| can_both_match(&own.tokens, path)))
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().any(|a| other.0.iter().any(|b| a.overlaps(b)))
    }

    /// Returns why no sub-plan can own it; `None` if one can.
    pub(crate) fn unownable_reason(&self) -> Option<&'static str> {
        self.0.iter().find_map(GlobAlternative::unownable_reason)
    }
}

/// Returns the glob for exactly this path; for a folder, with all of its contents.
pub(crate) fn escape_path(path: &str, is_folder: bool) -> String {
    let mut glob = String::with_capacity(path.len() + 1);
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ',' | '!') {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob.extend(is_folder.then_some('/'));
    glob
}

/// Names of the private folders of git and callsheet; `git~1` is the short name of `.git` on old Windows
/// systems.
const PRIVATE: [&str; 3] = [".git", ".callsheet", "git~1"];

impl GlobAlternative {
    fn new(glob: &str) -> Self {
        let leads_out = glob.starts_with('/') || glob.split('/').any(|part| part == "..");
        let plain = fold_case(&normalize_path(glob));
        let glob = plain.as_str();
        let bare = glob.trim_end_matches('/');
        let tokens = tokenize(bare);
        let mut owned = tokens.clone();
        let last = bare.rsplit('/').next().unwrap_or_default();
        if bare.len() < glob.len() || !last.contains('.') {
            owned.extend([OverlapToken::Skip(2), OverlapToken::Char('/'), OverlapToken::Deep]);
        }
        let fixed = bare.find(['*', '?', '[', '\\']).unwrap_or(bare.len());
        let ends = bare[..fixed].match_indices('/').map(|(end, _)| end);
        let folders = ends.map(|end| literal_tokens(&bare[..end])).collect();
        Self { tokens, owned, folders, leads_out }
    }

    fn unownable_reason(&self) -> Option<&'static str> {
        if self.leads_out {
            return Some("it is absolute, or contains `..`");
        }
        if self.tokens.first() == Some(&OverlapToken::Char('!')) {
            return Some("a leading `!` does not exclude files here");
        }
        // A star alone does not include the folders of git and callsheet: scopes exclude them.
        let parts =
            self.tokens.split(|token| matches!(token, OverlapToken::Char('/') | OverlapToken::Skip(_)));
        let named = parts.filter(|part| {
            part.iter().any(|token| !matches!(token, OverlapToken::Star | OverlapToken::Deep))
        });
        let is_private = named.map(strip_disguise).any(|part| {
            let pieces = part.split(|token| *token == OverlapToken::Deep).collect::<Vec<_>>();
            let last = pieces.len() - 1;
            pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()).any(|(at, piece)| {
                // Two stars can match the rest of one name and the beginning of another.
                let mut piece = piece.to_vec();
                if at > 0 {
                    piece.insert(0, OverlapToken::Star);
                }
                if at < last {
                    piece.push(OverlapToken::Star);
                }
                PRIVATE.iter().any(|name| can_both_match(&piece, &literal_tokens(name)))
            })
        });
        is_private.then_some("it matches files of git or callsheet")
    }

    fn overlaps(&self, other: &Self) -> bool {
        let inside = |a: &Self, b: &Self| b.folders.iter().any(|folder| can_both_match(&a.tokens, folder));
        can_both_match(&self.owned, &other.owned) || inside(self, other) || inside(other, self)
    }
}

/// Returns the tokens of exactly this path, for any characters.
fn literal_tokens(path: &str) -> Vec<OverlapToken> {
    path.chars().map(OverlapToken::Char).collect()
}

/// Removes parts of a name that some systems ignore: invisible letters, dots and spaces at the end, streams.
fn strip_disguise(part: &[OverlapToken]) -> Vec<OverlapToken> {
    let is_invisible = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let seen = part.iter().filter(|token| !matches!(token, OverlapToken::Char(c) if is_invisible(*c)));
    let mut seen: Vec<OverlapToken> =
        seen.copied().take_while(|token| *token != OverlapToken::Char(':')).collect();
    while matches!(seen.last(), Some(OverlapToken::Char('.' | ' '))) {
        seen.pop();
    }
    seen
}

fn tokenize(glob: &str) -> Vec<OverlapToken> {
    let mut tokens = Vec::with_capacity(glob.len() + 3);
    let chars: Vec<char> = glob.chars().collect();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        at += 1;
        match c {
            '*' if chars.get(at) == Some(&'*') => {
                while chars.get(at) == Some(&'*') {
                    at += 1;
                }
                let whole_part = tokens.last().is_none_or(|last| *last == OverlapToken::Char('/'));
                if whole_part && chars.get(at) == Some(&'/') {
                    at += 1;
                    tokens.extend([OverlapToken::Skip(2), OverlapToken::Deep, OverlapToken::Char('/')]);
                } else {
                    tokens.push(OverlapToken::Deep);
                }
            }
            '*' => tokens.push(OverlapToken::Star),
            '?' => tokens.push(OverlapToken::One),
            '[' => match find_class_end(&chars, at) {
                // The characters of the class are not compared.
                Some(end) => {
                    tokens.push(OverlapToken::One);
                    at = end + 1;
                }
                None => tokens.push(OverlapToken::Char('[')),
            },
            '\\' => {
                tokens.extend(chars.get(at).map(|c| OverlapToken::Char(*c)));
                at += 1;
            }
            c => tokens.push(OverlapToken::Char(*c)),
        }
    }
    tokens
}

/// Returns the end of the class whose content begins at `at`; a bracket at its very beginning belongs to it.
fn find_class_end(chars: &[char], at: usize) -> Option<usize> {
    let negated = matches!(chars.get(at), Some('!' | '^'));
    let first = at + usize::from(negated);
    (first + 1..chars.len()).find(|end| chars[*end] == ']')
}

/// Checks whether some text matches both: a search over all pairs of positions that can be reached together.
fn can_both_match(a: &[OverlapToken], b: &[OverlapToken]) -> bool {
    let width = b.len() + 1;
    let mut seen = alloc::vec![false; (a.len() + 1) * width];
    let mut open = alloc::vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        if i > a.len() || j > b.len() || core::mem::replace(&mut seen[i * width + j], true) {
            continue;
        }
        let (left, right) = (a.get(i), b.get(j));
        if left.is_none() && right.is_none() {
            return true;
        }
        open.extend(free_steps(left).into_iter().flatten().map(|step| (i + step, j)));
        open.extend(free_steps(right).into_iter().flatten().map(|step| (i, j + step)));
        if left == Some(&OverlapToken::One) {
            open.extend(
                (2..=4).filter(|most| is_folded_letter(&b[j..], *most)).map(|most| (i + 1, j + most)),
            );
        }
        if right == Some(&OverlapToken::One) {
            open.extend(
                (2..=4).filter(|most| is_folded_letter(&a[i..], *most)).map(|most| (i + most, j + 1)),
            );
        }
        if let (Some((slash, step)), Some((other_slash, other_step))) =
            (matched_chars(left), matched_chars(right))
        {
            let both = match (slash, other_slash) {
                (MatchedChars::This(a), MatchedChars::This(b)) => a == b,
                (MatchedChars::This(c), MatchedChars::NoSlash)
                | (MatchedChars::NoSlash, MatchedChars::This(c)) => c != '/',
                _ => true,
            };
            if both {
                open.push((i + step, j + other_step));
            }
        }
    }
    false
}

/// Checks whether the next tokens can be the case folding of one letter, as `ß` becomes `ss`.
fn is_folded_letter(tokens: &[OverlapToken], most: usize) -> bool {
    let Some(tokens) = tokens.get(..most) else { return false };
    let mut text = String::new();
    for token in tokens {
        match token {
            OverlapToken::Char(c) if *c != '/' => text.push(*c),
            // It can match any letter.
            OverlapToken::One => text.push('\u{fffd}'),
            _ => return false,
        }
    }
    !text.is_ascii() || matches!(text.as_str(), "ss" | "ff" | "fi" | "fl" | "st" | "ffi" | "ffl")
}

/// Returns the steps that consume no character.
fn free_steps(token: Option<&OverlapToken>) -> [Option<usize>; 2] {
    match token {
        Some(OverlapToken::Star | OverlapToken::Deep) => [Some(1), None],
        Some(OverlapToken::Skip(tokens)) => [Some(1), Some(tokens + 1)],
        _ => [None, None],
    }
}

enum MatchedChars {
    This(char),
    NoSlash,
    Any,
}

/// Returns the characters that a token matches, and the step that follows.
fn matched_chars(token: Option<&OverlapToken>) -> Option<(MatchedChars, usize)> {
    match token? {
        OverlapToken::Char(c) => Some((MatchedChars::This(*c), 1)),
        OverlapToken::One => Some((MatchedChars::NoSlash, 1)),
        OverlapToken::Star => Some((MatchedChars::NoSlash, 0)),
        OverlapToken::Deep => Some((MatchedChars::Any, 0)),
        OverlapToken::Skip(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::OwnedGlob;

    #[test]
    fn globs_matching_same_path_overlap() {
        let cases = [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src/a.rs", "SRC/A.rs", true),
            ("src", "src/a.rs", true),
            ("src/", "src/deep/a.rs", true),
            ("src/export", "src/export.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/*", "src/deep/a.rs", true),
            ("src/**", "src/deep/a.rs", true),
            ("**", "docs/x.md", true),
            ("**/*.md", "docs/x.rs", false),
            ("**/*.md", "README.md", true),
            ("v1.2", "v1.2/a.rs", true),
            ("v1.2", "v1.2/**/*.rs", true),
            ("src", "**/*.rs", true),
            ("src/a.rs", "**/*.md", false),
            ("src/**/a.rs", "src/a.rs", true),
            ("src/**/a.rs", "src/xa.rs", false),
            ("src/**/a.rs", "src/x/y/a.rs", true),
            ("src/*/mod.rs", "src/a/*.rs", true),
            ("a*b", "b*a", false),
            ("a*b", "*ab", true),
            ("*a*", "*b*", true),
            ("src/{a,b}.rs", "src/b.rs", true),
            ("src/{a,b}.rs", "src/c.rs", false),
            ("src/{a,{b,c}}.rs", "src/c.rs", true),
            ("src/?.rs", "src/ab.rs", false),
            ("src/[ab].rs", "src/a.rs", true),
            // Undecidable, so it counts as an overlap.
            ("src/[ab].rs", "src/c.rs", true),
            ("src/[ab].rs", "src/ab.rs", false),
            ("src/[", "src/[", true),
            ("src/[]a].rs", "src/].rs", true),
            (r"src/\*.rs", "src/a.rs", false),
            (r"src/\{a,b\}", "src/a", false),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "nothing/of/that", true),
            ("", "x", false),
            ("Straße/a.rs", "STRASSE/A.RS", true),
            ("e\u{301}.rs", "É.rs", true),
            ("e*.rs", "é.rs", true),
            ("ﬁle.rs", "FILE.rs", true),
            ("ΣΑΣ", "σας", true),
            ("src/?.rs", "src/ß.rs", true),
            ("src/?.rs", "src/é.rs", true),
            ("ss?", "ßß", true),
            ("src/[é].rs", "src/e\u{301}.rs", true),
            ("é.rs", "e.rs", false),
            ("./src//a.rs", "src/./a.rs", true),
        ];
        for (a, b, expected) in cases {
            assert_eq!(OwnedGlob::new(a).overlaps(&OwnedGlob::new(b)), expected, "{a} and {b}");
            assert_eq!(OwnedGlob::new(b).overlaps(&OwnedGlob::new(a)), expected, "{b} and {a}");
        }
    }

    #[test]
    fn path_is_owned_by_matching_glob() {
        let owns = |glob: &str, path: &str| OwnedGlob::new(glob).owns(path);
        assert!(owns("docs/**", "docs/export.md"));
        assert!(owns("docs", "docs/export.md"));
        assert!(owns("docs/**", "docs/*.md"));
        assert!(!owns("docs/export.md", "docs"));
        assert!(!owns("docs/*.md", "docs/deep/x.md"));
        assert!(owns("Dócs", "./do\u{301}cs//x.md"));
    }

    #[test]
    fn private_folders_cannot_be_owned() {
        let names = [
            ".git",
            ".GIT",
            ".Git",
            ".callsheet",
            ".CallSheet",
            "git~1",
            ".g\u{200c}it",
            ".git.",
            ".git ",
            ".git::$I",
            "\\.git",
            "[.]git",
            ".g*",
            ".gi?",
            ".gi[t]",
            "?git",
            "*git",
            ".{git,x}",
            ".*",
            "????",
            ".c*t",
            ".g**",
        ];
        let around =
            ["{}", "./{}", "{}/", "{}/**", "{}/config", "a/{}", "a/b/{}/x", "**/{}", "*/{}/*", "a//./{}"];
        for name in names {
            for path in around.map(|around| around.replace("{}", name)) {
                assert!(OwnedGlob::new(&path).unownable_reason().is_some(), "{path}");
            }
        }
        let others =
            ["a/../.git", "..", "../x", "/etc/passwd", "a/..", "!x", "!src/**", "{!x,y}", "\\!x", "./!x"];
        for path in others {
            assert!(OwnedGlob::new(path).unownable_reason().is_some(), "{path}");
        }
        let fine = [
            "src/**",
            "**",
            "*",
            "*/*",
            "**/*.rs",
            ".gitignore",
            ".github/**",
            ".gitattributes",
            "src/!x",
            "git",
            "*.md",
            "callsheet",
            ".callsheets",
            "src/.git*ignore",
            "a..b",
            ".env*",
            "{a,b}/**",
            "??",
            "*/mod.rs",
        ];
        for path in fine {
            assert_eq!(OwnedGlob::new(path).unownable_reason(), None, "{path}");
        }
    }
}
