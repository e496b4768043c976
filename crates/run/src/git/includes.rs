//! Reads which files a configuration file includes, without git: git would wait for one that is not a regular
//! file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{irregular_kind, read_rules, resolve_path};

/// The most included files that are followed; git follows includes up to ten levels deep.
const MOST_INCLUDED: usize = 256;

/// Returns all files that these configuration files include, directly or indirectly, whatever the conditions.
/// The files need not exist.
pub(super) fn find_included(configs: impl IntoIterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let (mut all, mut open): (BTreeSet<PathBuf>, Vec<PathBuf>) = (BTreeSet::new(), Vec::new());
    open.extend(configs);
    while let Some(config) = open.pop() {
        // A file that is not regular is not read: callers decide about it.
        let Some(text) = read_rules(&config) else { continue };
        let folder = config.parent().unwrap_or(Path::new("/"));
        for named in parse_include_paths(&text) {
            let path = resolve_path(folder, &named);
            if all.len() < MOST_INCLUDED && all.insert(path.clone()) {
                open.push(path);
            }
        }
    }
    all
}

/// Returns the first included file that git would wait for, and its kind. Git reports a folder by itself.
pub(super) fn find_irregular_included(
    configs: impl IntoIterator<Item = PathBuf>,
) -> Option<(PathBuf, &'static str)> {
    let odd =
        |path: PathBuf| irregular_kind(&path).filter(|kind| *kind != "a folder").map(|kind| (path, kind));
    find_included(configs).into_iter().find_map(odd)
}

/// Returns the values of `path` in the sections `include` and `includeIf`.
fn parse_include_paths(text: &str) -> Vec<String> {
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
                    let value = parse_value(&mut chars);
                    all.extend((is_include && key.eq_ignore_ascii_case("path")).then_some(value));
                }
            }
            _ => {}
        }
    }
    all
}

/// Parses the value after an equals sign, up to the end of the line.
fn parse_value(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let (mut value, mut is_quoted, mut length) = (String::new(), false, 0);
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\\' => match chars.next() {
                // The line continues.
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
                // Whitespace at the beginning and at the end is not part of the value.
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
    fn includes_are_parsed_like_git() {
        for (text, expected) in [
            ("[include]\npath=x.cfg\n", vec!["x.cfg"]),
            ("[INCLUDE] PATH = \"a b\" ; no\n", vec!["a b"]),
            ("[includeIf \"gitdir:~/]x/\"]\n\tpath = ~/y # no\n\tpath=z", vec!["~/y", "z"]),
            ("[include]\n# path = no\n; path = no\npath = a\\\nb\n", vec!["ab"]),
            ("[include]\npath = a \"  b\"c  \r\n[core]\npath = no\n", vec!["a   bc"]),
            ("[include]path=x\n[a \"include\"]\npath=no\n", vec!["x"]),
            ("[include]\npath\npathx = no\n", vec![]),
        ] {
            assert_eq!(parse_include_paths(text), expected, "{text}");
        }
    }
}
