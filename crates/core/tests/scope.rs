//! Scopes and globs: which paths a run may write.

use callsheet_core::library::plan::{SharedName, find_other_names};
use callsheet_core::request::fact::ViolationReason;
use callsheet_core::request::scope::Scope;
use callsheet_core::text::glob::{Glob, GlobError};

fn scope(write: &[&str], exclude: &[&str]) -> Scope {
    let all = |globs: &[&str]| globs.iter().map(ToString::to_string).collect();
    Scope { write: all(write), exclude: all(exclude) }
}

#[test]
fn exclude_wins_over_write() {
    let judge = scope(&["src/**", "docs", "*.md", "[ab].txt"], &["src/secret/**", "**/*.KEY"]).compile();
    let of = |path: &str| judge.violation_reason(path);
    for allowed in ["src/a.rs", "src/x/y.rs", "docs/x/y", "docs", "README.md", "a.txt"] {
        assert_eq!(of(allowed), None, "{allowed}");
    }
    for outside in [
        "lib/a.rs",
        "x/README.md",
        "srcs",
        "src",
        ".git/config",
        "sub/.GIT/hooks/x",
        "c.txt",
        "A.txt",
        "SRC/a.rs",
    ] {
        assert_eq!(of(outside), Some(ViolationReason::OutsideWrite), "{outside}");
    }
    for excluded in ["src/secret/a", "src/SECRET/a", "docs/a.key"] {
        assert_eq!(of(excluded), Some(ViolationReason::Excluded), "{excluded}");
    }
    let all = scope(&["**", "*/**", ".callsheet/changes/x/**"], &[]).compile();
    let outside = Some(ViolationReason::OutsideWrite);
    for own in [".callsheet/config.toml", "a/.callsheet/config.toml", ".CALLSHEET/x", ".git/config"] {
        assert_eq!(all.violation_reason(own), outside, "{own}");
    }
    assert_eq!(
        (all.violation_reason("a/b"), all.violation_reason(".callsheet/changes/x/tasks.md")),
        (None, None)
    );
    for above in ["../other.txt", "../x/y", "../../a/b"] {
        assert_eq!(all.violation_reason(above), outside, "{above}");
    }
    let named = scope(&["**", "../x/**"], &["**/*.key"]).compile();
    assert_eq!((named.violation_reason("../x/y"), named.violation_reason("../y")), (None, outside));
    assert_eq!(named.violation_reason("../x/y.key"), Some(ViolationReason::Excluded));
    let open = scope(&[], &["x"]).compile();
    assert_eq!(
        (open.violation_reason("y"), open.violation_reason("x/y")),
        (None, Some(ViolationReason::Excluded))
    );
    assert_eq!(open.violation_reason(".git/hooks/pre-commit"), Some(ViolationReason::OutsideWrite));
}

#[test]
fn merged_scopes_keep_order() {
    let merged = scope(&["a"], &["x"]).merge(&scope(&["b", " a ", ""], &["x", "y"]));
    assert_eq!(merged, Scope { write: vec!["a".into(), "b".into()], exclude: vec!["x".into(), "y".into()] });
}

#[test]
fn mistakes_in_globs_are_reported() {
    let cases = [
        ("src/[", Err(GlobError::UnclosedClass)),
        ("[]", Err(GlobError::UnclosedClass)),
        ("{a,b", Err(GlobError::LoneBrace)),
        ("{a,{b}", Err(GlobError::LoneBrace)),
        ("a}", Err(GlobError::LoneBrace)),
        ("a\\", Err(GlobError::LastBackslash)),
        ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", Err(GlobError::TooManyAlternatives)),
        (r"\[", Ok(())),
        (r"\{", Ok(())),
        ("[}]", Ok(())),
        ("{a,b{c,d}}", Ok(())),
        ("", Ok(())),
    ];
    for (glob, expected) in cases {
        assert_eq!(Glob::parse(glob).map(drop), expected, "{glob}");
    }
}

#[test]
fn folder_of_path_is_no_match() {
    for (glob, path, expected) in [
        ("src/*", "src/a.rs", true),
        ("src/*", "src/x/a.rs", false),
        ("src", "src/a.rs", false),
        ("src/**", "src/x/a.rs", true),
        ("**/*.rs", "a.rs", true),
        ("{a,b}/?.rs", "b/c.rs", true),
        ("src/A.rs", "src/a.rs", false),
    ] {
        assert_eq!(Glob::parse(glob).unwrap().matches(path), expected, "{glob} and {path}");
    }
}

fn shared_name(paths: &[&str], is_folder: bool) -> SharedName {
    SharedName { paths: paths.iter().map(ToString::to_string).collect(), is_folder }
}

#[test]
fn owner_of_one_name_owns_others() {
    let names = [
        shared_name(&["a.txt", "b[1].txt"], false),
        shared_name(&["docs", "src/text"], true),
        shared_name(&["src/text/x.md", "x.md"], false),
    ];
    let other = |owned: &str| find_other_names(&[owned.to_string()], &names);
    assert_eq!(other("a.txt"), ["a.txt", r"b\[1\].txt"]);
    assert_eq!(other("*.txt"), ["a.txt", r"b\[1\].txt"]);
    assert_eq!(other("docs/y.md"), ["docs/", "src/text/", "src/text/x.md", "x.md"]);
    assert_eq!(other("x.md"), ["docs/", "src/text/", "src/text/x.md", "x.md"]);
    assert_eq!(other("lib/**"), vec![""; 0]);
}
