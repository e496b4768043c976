//! Matches a path against a glob, exactly. [`overlap`](crate::library::plan) compares two globs instead.
//!
//! Globs are the same everywhere: in `--write` and `-f`, in plans, contracts and flows.
//!
//! `*` and `?` stop at slashes, `**` does not, `[a-z]` and `[!a]` are classes, `{a,b}` are alternatives, a
//! backslash escapes the next character. A glob that matches a folder covers everything in it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::text::case_folding::{fold_case, normalize_path};

/// The most alternatives that are expanded. A glob with more of them covers nothing and owns everything.
const MOST_ALTERNATIVES: usize = 64;

/// A parsed glob.
#[derive(Debug)]
pub struct Glob {
    alternatives: Vec<Vec<GlobToken>>,
    folded: Vec<Vec<GlobToken>>,
    too_many: bool,
    names_own: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobToken {
    Char(char),
    /// One character that is not a slash.
    One,
    /// Any number of characters that are not slashes.
    Star,
    /// Any number of any characters.
    Deep,
    /// Any number of whole folders, each with its slash.
    Folders,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A mistake in a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// A class of characters has no end.
    #[error("unclosed `[`")]
    UnclosedClass,
    /// Alternatives have no end, or no beginning.
    #[error("unmatched `{{` or `}}`")]
    LoneBrace,
    /// There is nothing to escape.
    #[error("it ends in a backslash")]
    LastBackslash,
    /// There are too many alternatives.
    #[error("it has more than {MOST_ALTERNATIVES} alternatives")]
    TooManyAlternatives,
}

impl Glob {
    /// Parses a glob, and reports mistakes.
    pub fn parse(glob: &str) -> Result<Self, GlobError> {
        find_mistake(glob).map_or(Ok(()), Err)?;
        let parsed = Self::new(glob);
        if parsed.too_many { Err(GlobError::TooManyAlternatives) } else { Ok(parsed) }
    }

    /// Parses a glob. A mistake in it stands for itself.
    pub(crate) fn new(glob: &str) -> Self {
        let mut all = Vec::new();
        let too_many = !expand_braces(glob, &mut all);
        let read = |globs: &[String]| globs.iter().map(|glob| parse_tokens(glob)).collect();
        let folded: Vec<String> = all.iter().map(|glob| fold_case(glob)).collect();
        let names_own = all.iter().any(|glob| glob.split('/').any(|part| part == ".callsheet"));
        Self { alternatives: read(&all), folded: read(&folded), too_many, names_own }
    }

    /// Returns whether the glob names callsheet's own folder outright.
    pub(crate) const fn has_callsheet_folder(&self) -> bool {
        self.names_own
    }

    /// Checks whether the glob matches `path` itself, letter by letter, and not only a folder that contains
    /// it.
    pub fn matches(&self, path: &str) -> bool {
        let chars: Vec<char> = path.chars().collect();
        self.alternatives.iter().any(|tokens| matches_whole(tokens, &chars))
    }

    /// Checks whether the glob certainly means `path`, letter by letter. A wildcard never means a folder
    /// above: a glob for such a folder begins with as many `..` as the path.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let chars: Vec<char> = path.chars().collect();
        let above = path.split('/').take_while(|part| *part == "..").count();
        let mut fitting = self.alternatives.iter().filter(|tokens| count_leading_parents(tokens) == above);
        !self.too_many && fitting.any(|tokens| matches_path_or_parent(tokens, &chars))
    }

    /// Checks whether the glob may mean `path`: on some systems the case of letters makes no difference.
    pub(crate) fn owns(&self, path: &str) -> bool {
        self.too_many || matches_any(&self.folded, &fold_case(path))
    }
}

fn matches_any(alternatives: &[Vec<GlobToken>], path: &str) -> bool {
    let chars: Vec<char> = path.chars().collect();
    alternatives.iter().any(|tokens| matches_path_or_parent(tokens, &chars))
}

/// Checks whether the tokens match the path itself or a folder that contains it.
fn matches_path_or_parent(tokens: &[GlobToken], path: &[char]) -> bool {
    let ends = (0..path.len()).filter(|at| path[*at] == '/').chain([path.len()]);
    let mut ends = ends.filter(|end| *end > 0);
    ends.any(|end| matches_whole(tokens, &path[..end]))
}

/// Counts the folders that the beginning of a glob leads up.
fn count_leading_parents(tokens: &[GlobToken]) -> usize {
    const UP: [GlobToken; 2] = [GlobToken::Char('.'), GlobToken::Char('.')];
    let parts = tokens.split(|token| *token == GlobToken::Char('/'));
    parts.take_while(|part| **part == UP).count()
}

fn matches_whole(tokens: &[GlobToken], path: &[char]) -> bool {
    // `reached[n]`: the tokens so far can match the first `n` characters of the path.
    let mut reached = alloc::vec![false; path.len() + 1];
    let mut next = reached.clone();
    reached[0] = true;
    for token in tokens {
        let mut open = false;
        for at in 0..=path.len() {
            let before = at.checked_sub(1).map(|before| path[before]);
            match token {
                GlobToken::Deep => {
                    open |= reached[at];
                    next[at] = open;
                }
                GlobToken::Star => {
                    open = reached[at] || (open && before != Some('/'));
                    next[at] = open;
                }
                GlobToken::Folders => {
                    next[at] = reached[at] || (open && before == Some('/'));
                    open |= reached[at];
                }
                one => next[at] = before.is_some_and(|c| reached[at - 1] && matches_char(one, c)),
            }
        }
        core::mem::swap(&mut reached, &mut next);
    }
    reached[path.len()]
}

fn find_mistake(glob: &str) -> Option<GlobError> {
    let chars: Vec<char> = glob.chars().collect();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(c) = chars.get(at) {
        at += 1;
        match c {
            '\\' if at == chars.len() => return Some(GlobError::LastBackslash),
            '\\' => at += 1,
            '[' => match parse_class(&chars, at) {
                Some((_, end)) => at = end,
                None => return Some(GlobError::UnclosedClass),
            },
            '{' => depth += 1,
            '}' if depth == 0 => return Some(GlobError::LoneBrace),
            '}' => depth -= 1,
            _ => {}
        }
    }
    (depth > 0).then_some(GlobError::LoneBrace)
}

fn matches_char(token: &GlobToken, c: char) -> bool {
    match token {
        GlobToken::Char(own) => *own == c,
        GlobToken::One => c != '/',
        GlobToken::Class { negated, ranges } => {
            c != '/' && ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
        }
        GlobToken::Star | GlobToken::Deep | GlobToken::Folders => false,
    }
}

fn parse_tokens(glob: &str) -> Vec<GlobToken> {
    // A glob that ends in a slash means a folder, which is matched by its name.
    let chars: Vec<char> = normalize_path(glob).trim_end_matches('/').chars().collect();
    let mut tokens: Vec<GlobToken> = Vec::with_capacity(chars.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '*' if chars.get(at) == Some(&'*') => {
                let begins = at == 1 || chars[at - 2] == '/';
                while chars.get(at) == Some(&'*') {
                    at += 1;
                }
                if begins && chars.get(at) == Some(&'/') {
                    at += 1;
                    tokens.push(GlobToken::Folders);
                } else {
                    // `src/**` means the contents of `src`, so at least one character must follow.
                    tokens.extend((begins && at == chars.len()).then_some(GlobToken::One));
                    tokens.push(GlobToken::Deep);
                }
            }
            '*' => tokens.push(GlobToken::Star),
            '?' => tokens.push(GlobToken::One),
            '[' => match parse_class(&chars, at) {
                Some((class, end)) => {
                    tokens.push(class);
                    at = end;
                }
                None => tokens.push(GlobToken::Char('[')),
            },
            '\\' => {
                tokens.extend(chars.get(at).map(|c| GlobToken::Char(*c)));
                at += 1;
            }
            c => tokens.push(GlobToken::Char(c)),
        }
    }
    tokens
}

/// Parses the class whose inside begins at `at`. Returns it with its end. A bracket at its very beginning
/// belongs to it.
fn parse_class(chars: &[char], at: usize) -> Option<(GlobToken, usize)> {
    let negated = matches!(chars.get(at), Some('!' | '^'));
    let first = at + usize::from(negated);
    let end = (first + 1..chars.len()).find(|end| chars[*end] == ']')?;
    let mut ranges = Vec::new();
    let mut at = first;
    while at < end {
        let is_range = at + 2 < end && chars[at + 1] == '-';
        let to = if is_range { at + 2 } else { at };
        ranges.push((chars[at], chars[to]));
        at = to + 1;
    }
    Some((GlobToken::Class { negated, ranges }, end + 1))
}

/// Adds every alternative of `{a,b}` to `all`. Returns false if there are too many.
pub(crate) fn expand_braces(glob: &str, all: &mut Vec<String>) -> bool {
    let Some((open, close)) = find_innermost_braces(glob) else {
        all.push(glob.to_string());
        return all.len() <= MOST_ALTERNATIVES;
    };
    glob[open + 1..close]
        .split(',')
        .all(|word| expand_braces(&[&glob[..open], word, &glob[close + 1..]].concat(), all))
}

/// Finds the first pair of braces that contains no other pair.
fn find_innermost_braces(glob: &str) -> Option<(usize, usize)> {
    let (mut open, mut escaped) = (None, false);
    for (at, c) in glob.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => open = Some(at),
            '}' => {
                if let Some(open) = open {
                    return Some((open, at));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs_cover_exactly_what_they_say() {
        let cases = [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/A.rs", false),
            ("src", "src/x/a.rs", true),
            ("src/", "src/a.rs", true),
            ("./src/", "src/a.rs", true),
            ("src/*", "src/x/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/x/a.rs", false),
            ("src/**", "src/x/a.rs", true),
            ("src/**", "src", false),
            ("src/**", "srcs/a", false),
            ("**", "a/b", true),
            ("**/*.rs", "a.rs", true),
            ("**/*.rs", "x/y/a.rs", true),
            ("**/a.rs", "xa.rs", false),
            ("src/**/a.rs", "src/a.rs", true),
            ("src/**/a.rs", "src/x/y/a.rs", true),
            ("src/**/a.rs", "src/xa.rs", false),
            ("a**b", "axx/yb", true),
            ("[a-c].txt", "b.txt", true),
            ("[!a-c].txt", "b.txt", false),
            ("[!a-c].txt", "d.txt", true),
            ("[]a].txt", "].txt", true),
            ("[", "[", true),
            ("a?c", "a/c", false),
            ("{a,b{c,d}}.rs", "bd.rs", true),
            ("{a,b}.rs", "c.rs", false),
            (r"\*.rs", "a.rs", false),
            (r"\*.rs", "*.rs", true),
            ("", "a", false),
            ("**", "../a", false),
            ("*", "../a", false),
            ("./**", "../a", false),
            ("**/*.txt", "../a.txt", false),
            ("*/a", "../a", false),
            ("??/a", "../a", false),
            ("[.][.]/a", "../a", false),
            (".*/**", "../a", false),
            ("..*", "../a", false),
            ("{x,**}/a", "../a", false),
            ("../**", "../a", true),
            ("../**", "../../a", false),
            ("../**", "a", false),
            ("../*/a", "../../a", false),
            ("../../*", "../../a", true),
            ("{..,x}/a", "../a", true),
            (r"\.\./a", "../a", true),
            ("..", "../a", true),
            ("../a", "../a/b", true),
            ("**", "..a/b", true),
            ("**", "a..", true),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "aaaaaaa", false),
        ];
        for (glob, path, expected) in cases {
            assert_eq!(Glob::new(glob).covers(path), expected, "{glob} and {path}");
        }
        assert!(Glob::new("src/A.rs").owns("SRC/a.rs"));
        // An excluded glob also protects files above the worktree.
        assert!(Glob::new("**/*.key").owns("../a.key"));
        assert!(Glob::new("Straße/*.KEY").owns("strasse/é.key"));
        assert!(Glob::new("*/e\u{301}").owns("x/É"));
        assert!(Glob::new("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}").owns("x"));
    }
}
