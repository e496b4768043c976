//! Generates the worst texts that people, files and agents can supply.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::markdown::MARKS;

/// Texts that would be active in a template, or would look like structure of a format.
pub(crate) const HOSTILE: &[&str] = &[
    "{{PROJECT_CONTEXT}}",
    "{{a}}",
    "{{> x}}",
    "{{",
    "\\{{",
    "[[include:/etc/passwd]]",
    "[[include-optional:../secret]]",
    "[[shared:x]]",
    "[[placeholder:a]]",
    "\\[[",
    "]]>",
    "]]",
    "]",
    "]",
    ">",
    ">",
    "<![CDATA[",
    "<!--",
    "</file>",
    "<file path=\"x\">",
    "<file-2 path=\"x\">\n",
    "</artifact>",
    "<task>",
    "</task>",
    "<task-2>",
    "</task-2>\n",
    "<a>",
    "</a>\n",
    "</include>",
    "<",
    "fi",
    "le path=\"y\">\n",
    "\n\n---\n\n",
    "\r\n\r\n---\r\n\r\n",
    "---",
    "--",
    "-",
    "===",
    "\n## Constraints\n\n",
    "## Constraints",
    "# Role",
    "  ## Task\n",
    "\r## Task\r",
    "#",
    "word\n---\n",
    "word\n=\n",
    "&amp;",
    "&#13;",
    "&",
    "\r",
    "\r\n",
    "\t",
    "\u{feff}",
    "\u{2028}",
    "\u{2028}## Task\u{85}",
    "```",
    "\n````rust\n",
    "~~~\n",
    "  ```\n",
    "- ```\n",
    "<script>\n",
    "\n<?",
    "\n<!X",
    "-->",
    "\n***\n",
    "\n_ _ _\n",
    "\"",
    "'",
    "\\",
    "\\n",
    "\\u0041",
];

const TAME: &[&str] =
    &["word", " ", "\n", "\n\n", "- item\n", "fn main() {}", "e\u{301}", "中文", "🦀👩‍💻", "a < b", "0"];

/// Generates a text: half of its parts are hostile, and some texts have a line longer than any buffer.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        5 => select(HOSTILE).prop_map(String::from),
        4 => select(TAME).prop_map(String::from),
        1 => vec(any::<char>().prop_filter("a mark", |c| !MARKS.contains(c)), 1..4).prop_map(String::from_iter),
    ];
    (vec(part, 0..7), 0..400_u16).prop_map(|(parts, odd)| {
        let mut text = parts.concat();
        match odd {
            399 => text.push_str(&"long ".repeat(2000)),
            // XML cannot represent these characters.
            396..=398 => text.push(['\0', '\u{fffe}', '\u{ffff}'][usize::from(odd) - 396]),
            _ => {}
        }
        text
    })
}
