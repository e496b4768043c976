//! Text that people, files and agents wrote, as a page shows it: control, bidirectional and invisible characters are visible, and a
//! very long line is truncated. The templates escape it for HTML.

use std::fmt;

use askama::FastWritable;
use callsheet_core::diag::{escape_invisible, is_invisible};

/// Text of others, on one line. The templates escape it for HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownText(String);

/// The most characters of a line that a page shows.
pub(crate) const MOST_COLUMNS: usize = 4000;

impl ShownText {
    /// Shows a text on one line.
    pub(crate) fn new(text: &str) -> Self {
        Self(truncate_line(&escape_invisible(text)))
    }

    /// Shows a line with its tabs.
    pub(crate) fn from_line(line: &str) -> Self {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.contains(is_invisible) {
            return Self(truncate_line(line));
        }
        let shown = line.split('\t').map(escape_invisible).collect::<Vec<_>>().join("\t");
        Self(truncate_line(&shown))
    }

    /// Returns the shown text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks whether it has no character.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for ShownText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&String> for ShownText {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl From<String> for ShownText {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl fmt::Display for ShownText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FastWritable for ShownText {
    fn write_into(&self, dest: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(dest.write_str(&self.0)?)
    }
}

fn truncate_line(line: &str) -> String {
    // The length in bytes is at least the length in characters.
    match line.char_indices().nth(MOST_COLUMNS).filter(|_| line.len() > MOST_COLUMNS) {
        None => line.to_owned(),
        Some((end, _)) => {
            let more = line[end..].chars().count();
            format!("{} … {more} more characters", &line[..end])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_shown() {
        assert_eq!(ShownText::new("a\u{202e}b\nc\td").as_str(), "a\\u{202e}b␊c d");
        assert_eq!(ShownText::from_line("a\u{202e}b\tc\r").as_str(), "a\\u{202e}b\tc");
        assert_eq!(ShownText::from_line("\ta\u{1b}[31m").as_str(), "\ta\\u{1b}[31m");
    }

    #[test]
    fn long_lines_are_truncated() {
        let shown = ShownText::new(&"é".repeat(MOST_COLUMNS + 7));
        assert_eq!(shown.as_str(), format!("{} … 7 more characters", "é".repeat(MOST_COLUMNS)));
        let whole = "é".repeat(MOST_COLUMNS);
        assert_eq!(ShownText::from_line(&whole).as_str(), whole);
    }
}
