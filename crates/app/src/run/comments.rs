//! Comments of a person on lines, as the text of a continuation.

/// A comment on a line of a change or of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineComment {
    /// The file; empty for the prompt.
    pub path: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// Whether the change removed the line.
    pub is_removed: bool,
    /// The line.
    pub quote: String,
    /// The comment.
    pub text: String,
}

/// Returns the comments as one text: the place, the line as a quotation, and the comment; then the text for all of them.
pub fn comments_text(comments: &[LineComment], text: &str) -> String {
    let mut parts = Vec::new();
    for comment in comments.iter().filter(|comment| !comment.text.trim().is_empty()) {
        let path = if comment.path.is_empty() { "prompt" } else { &comment.path };
        let quote = comment.quote.lines().next().unwrap_or_default().trim_end();
        let quote = if quote.is_empty() { String::new() } else { format!("> {quote}\n") };
        let removed = if comment.is_removed { " (removed)" } else { "" };
        parts.push(format!("{path}:{}{removed}\n{quote}{}", comment.line, comment.text.trim()));
    }
    parts.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_their_lines() {
        let comment = |path: &str, line, quote: &str, text: &str| LineComment {
            path: path.into(),
            line,
            is_removed: line == 7,
            quote: quote.into(),
            text: text.into(),
        };
        let comments = [
            comment("src/a.rs", 12, "let x = 1;  \nmore", " Why 1?\n"),
            comment("", 3, "", "Not needed."),
            comment("src/b.rs", 1, "x", "  "),
            comment("src/a.rs", 7, "old", "Why not?"),
        ];
        let text = comments_text(&comments, " And test it.\n");
        assert_eq!(
            text,
            "src/a.rs:12\n> let x = 1;\nWhy 1?\n\nprompt:3\nNot needed.\n\nsrc/a.rs:7 (removed)\n> old\nWhy not?\n\nAnd test it."
        );
        assert_eq!(comments_text(&[], ""), "");
    }
}
