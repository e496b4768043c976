//! Files of settings that name others, read without git: git would wait for one that is no regular file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{from_home, irregular_kind, rules_text};

/// More files than this are not followed; git follows ten that are in each other.
const MOST_INCLUDED: usize = 256;

/// All files that these files of settings include, and those that they include, whatever the conditions. They need not be
/// there.
pub(super) fn included(configs: impl IntoIterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let (mut all, mut open): (BTreeSet<PathBuf>, Vec<PathBuf>) = (BTreeSet::new(), Vec::new());
    open.extend(configs);
    while let Some(config) = open.pop() {
        // One that is no regular file is not read: that is for who asks.
        let Some(text) = rules_text(&config) else { continue };
        let folder = config.parent().unwrap_or(Path::new("/"));
        for named in named(&text) {
            let path = from_home(folder, &named);
            if all.len() < MOST_INCLUDED && all.insert(path.clone()) {
                open.push(path);
            }
        }
    }
    all
}

/// The first of the included files for which git would wait, and what it is. Of a folder git says by itself that it is none.
pub(super) fn odd_included(configs: impl IntoIterator<Item = PathBuf>) -> Option<(PathBuf, &'static str)> {
    let odd =
        |path: PathBuf| irregular_kind(&path).filter(|kind| *kind != "a folder").map(|kind| (path, kind));
    included(configs).into_iter().find_map(odd)
}

/// The values of `path` in the sections `include` and `includeIf`.
fn named(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut is_include = false;
    while let Some(c) = chars.next() {
        match c {
            '#' | ';' => while chars.next_if(|c| *c != '\n').is_some() {},
            '[' => {
                let (mut name, mut is_quoted) = (String::new(), false);
                while let Some(c) = chars.next() {
                    match c {
                        '\\' if is_quoted => name.extend(chars.next()),
                        '"' => is_quoted = !is_quoted,
                        ']' if !is_quoted => break,
                        c => name.push(c),
                    }
                }
                let section = name.split([' ', '\t', '.']).next().unwrap_or_default();
                is_include = ["include", "includeif"].iter().any(|it| section.eq_ignore_ascii_case(it));
            }
            c if c.is_ascii_alphabetic() => {
                let mut key = c.to_string();
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
                    key.push(c);
                }
                while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                if chars.next_if_eq(&'=').is_some() {
                    let value = value(&mut chars);
                    all.extend((is_include && key.eq_ignore_ascii_case("path")).then_some(value));
                }
            }
            _ => {}
        }
    }
    all
}

/// What stands behind an equals sign, to the end of the line.
fn value(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let (mut value, mut is_quoted, mut length) = (String::new(), false, 0);
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\\' => match chars.next() {
                // The line goes on.
                Some('\n') | None => {}
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('b') => value.push('\u{8}'),
                Some(c) => value.push(c),
            },
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                break;
            }
            c if c.is_whitespace() && !is_quoted => {
                // Spaces at the beginning and at the end are not part of it.
                if !value.is_empty() {
                    value.push(c);
                }
                continue;
            }
            c => value.push(c),
        }
        length = value.len();
    }
    value.truncate(length);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_read_as_git_reads_them() {
        for (text, expected) in [
            ("[include]\npath=x.cfg\n", vec!["x.cfg"]),
            ("[INCLUDE] PATH = \"a b\" ; no\n", vec!["a b"]),
            ("[includeIf \"gitdir:~/]x/\"]\n\tpath = ~/y # no\n\tpath=z", vec!["~/y", "z"]),
            ("[include]\n# path = no\n; path = no\npath = a\\\nb\n", vec!["ab"]),
            ("[include]\npath = a \"  b\"c  \r\n[core]\npath = no\n", vec!["a   bc"]),
            ("[include]path=x\n[a \"include\"]\npath=no\n", vec!["x"]),
            ("[include]\npath\npathx = no\n", vec![]),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }
}
