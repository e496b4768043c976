//! Tests outlines: the lines that are kept depend only on the path and the layout of a file.

use callsheet_core::outline;
use proptest::prelude::*;

fn check(path: &str, text: &str, expected: &str) {
    let kept: String = outline(path, text).into_iter().map(|range| &text[range]).collect();
    assert_eq!(kept, expected, "{path}");
}

#[test]
fn both_heading_styles_are_kept() {
    check(
        "README.md",
        "# One\ntext\n\n## Two ##\n\nThree\n=====\n\nFour\nand more\n---\n###### Six\n#\n",
        "# One\n## Two ##\nThree\n=====\nFour\nand more\n---\n###### Six\n#\n",
    );
    check("x/Y.MARKDOWN", "   # in\n    # out\n", "   # in\n");
    check("a.md", "#no\n#! no\n####### no\n\\# no\n", "");
    check("a.md", "# cut off", "# cut off");
    check(
        "a.md",
        "\u{feff}# after a mark\r\ntext\r\n\r\nUnder\r\n--\r\n",
        "# after a mark\r\nUnder\r\n--\r\n",
    );
}

#[test]
fn false_headings_are_not_kept() {
    let code = "```sh\n# no\n~~~\n# no\n```\n# yes\n~~~~\n```\n# no\n~~~\n# no\n~~~~ \n# yes\n";
    check("a.md", code, "# yes\n# yes\n");
    check("a.md", "``` not ` code\n# yes\n", "# yes\n");
    check("a.md", "  ```\n# no\n    ```\n# no\n   ```\n# yes\n", "# yes\n");
    check("a.md", "```\n# never closed\n", "");
    check("a.md", "---\ntitle: no\n---\n# yes\n", "# yes\n");
    check("a.md", "---\ntitle: yes\n", "");
    check("a.md", "text\n\n---\n\n***\n- - -\n# yes\n", "# yes\n");
    check("a.md", "- item\n---\n> quote\n---\n1. one\n---\n> quote\nmore\n===\n", "");
    check("a.md", "<!-- # no -->\n<!--\n# no\n-->\n# yes\n", "# yes\n");
    check("a.md", "| a | b |\n|---|---|\n| 1 | 2 |\n", "");
    check("a.md", "    code\n---\n", "");
    check("a.md", "a paragraph\n    goes on\n---\n", "a paragraph\n    goes on\n---\n");
}

#[test]
fn two_outermost_code_levels_are_kept() {
    let rust = "use a;\n\nimpl A {\n    fn b() {\n        c();\n    }\n\n    fn d() {}\n}\n";
    check("src/a.rs", rust, "use a;\nimpl A {\n    fn b() {\n    }\n    fn d() {}\n}\n");
    check("a.go", "func a() {\n\tif b {\n\t\tc()\n\t}\n}\n", "func a() {\n\tif b {\n\t}\n}\n");
    check(
        "a.py",
        "def a():\n  if b:\n    c\nclass D:\n    e = 1\n    def f():\n        g\n",
        "def a():\n  if b:\nclass D:\n    e = 1\n    def f():\n",
    );
    check("a.txt", "no indentation\n\n \t\nat all\n", "no indentation\nat all\n");
    check("empty.rs", "", "");
    check("blank.rs", "\n  \n\t\r\n", "");
    check("no-line-end.rs", "a\n  b\n    c\n  d", "a\n  b\n  d");
}

#[test]
fn alignment_is_not_a_level() {
    let java = "/**\n * What it is.\n */\nclass A {\n    /**\n     * What it does.\n     */\n    void b() {\n        c();\n    }\n}\n";
    let kept = "/**\n * What it is.\n */\nclass A {\n    /**\n     * What it does.\n     */\n    void b() {\n    }\n}\n";
    check("A.java", java, kept);
    check(
        "a.h",
        "class A {\n public:\n  void b();\n    // deep\n};\n",
        "class A {\n public:\n  void b();\n};\n",
    );
}

#[test]
fn wrapped_lines_stay_with_first_line() {
    let wrapped = "class A(B,\n        C):\n    def d(self,\n          e):\n        f\n";
    check("a.py", wrapped, "class A(B,\n        C):\n    def d(self,\n");
}

/// If the first line of a file is deeper than its last, the outermost line sets the margin.
#[test]
fn outermost_line_sets_margin() {
    check(
        "a.inc",
        "      a\n          b\n    c\n        d\n            e\n  f\n",
        "      a\n          b\n    c\n        d\n  f\n",
    );
    check("a.c", "\ta\n    b\n        c\n\t\td\n            e\n", "\ta\n    b\n        c\n\t\td\n");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// An outline has whole lines, in order and without duplicates, with neighbours in one range. It has no
    /// blank line that a heading does not need.
    #[test]
    fn outline_consists_of_whole_lines(
        lines in prop::collection::vec("[ \t]{0,9}(#{0,7}|[-=`~*_>]{0,5}|<!--|-->|x|}|é)[ x]{0,2}\r?", 0..12),
        last in "[ \t]{0,5}[#x]{0,2}",
        path in prop::sample::select(vec!["a.md", "a.rs"]),
    ) {
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>() + &last;
        let mut end = None;
        for range in outline(path, &text) {
            prop_assert!(range.start < range.end);
            prop_assert!(end.is_none_or(|end| end < range.start), "{range:?} after {end:?}");
            prop_assert!(range.start == 0 || text.as_bytes()[range.start - 1] == b'\n');
            prop_assert!(range.end == text.len() || text.as_bytes()[range.end - 1] == b'\n');
            prop_assert!(!text[range.clone()].lines().any(|line| line.trim().is_empty()));
            end = Some(range.end);
        }
    }
}
