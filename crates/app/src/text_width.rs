//! The width of a text on a terminal, and texts that are shortened to a width.

use callsheet_core::diag::escape_invisible;

/// Returns the columns that a text takes on a terminal. An uncertain character counts as a wide one.
pub fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    let is_wide = matches!(
        u32::from(c),
        0x1100..=0x115F
            | 0x231A..=0x231B
            | 0x23E9..=0x23F3
            | 0x25FD..=0x25FE
            | 0x2600..=0x2712
            | 0x2714..=0x2716
            | 0x2718..=0x27BF
            | 0x2B00..=0x2BFF
            | 0x2E80..=0x303E
            | 0x3041..=0xA4CF
            | 0xA960..=0xA97F
            | 0xAC00..=0xD7FF
            | 0xF900..=0xFAFF
            | 0xFE10..=0xFE6F
            | 0xFF00..=0xFF60
            | 0xFFE0..=0xFFE6
            | 0x16FE0..=0x18DFF
            | 0x1AFF0..=0x1B2FF
            | 0x1F000..=0x1FAFF
            | 0x20000..=0x3FFFD
    );
    if is_wide { 2 } else { 1 }
}

/// Returns the longest beginning of a text that fits.
fn head(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += char_width(*c);
        used > width
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// Returns the longest end of a text that fits.
fn tail(text: &str, width: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        used += char_width(*c);
        used > width
    });
    start.map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}

/// Shortens a text at its end.
pub fn shorten_end(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    if width == 0 { String::new() } else { format!("{}…", head(text, width - 1).trim_end()) }
}

/// Shortens a path in its middle: its beginning and the name of the file stay, as far as they fit.
pub fn shorten_middle(path: &str, width: usize) -> String {
    if text_width(path) <= width {
        return path.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let name = path.rfind('/').map_or(path, |at| &path[at..]);
    let end = text_width(name).max(room * 2 / 3).min(room);
    let end = tail(path, end);
    format!("{}…{end}", head(path, room - text_width(end)))
}

/// Returns the first line of a text from outside, with nothing in it that a terminal acts on.
pub fn visible_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    escape_invisible(line).replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shortened_to_columns() {
        for (text, width, end, middle) in [
            ("src/main.rs", 11, "src/main.rs", "src/main.rs"),
            ("src/run/progress.rs", 15, "src/run/progre…", "sr…/progress.rs"),
            ("src/run/progress.rs", 8, "src/run…", "…ress.rs"),
            ("src/日本語/語.rs", 10, "src/日本…", "src…/語.rs"),
            ("abc", 1, "…", "…"),
            ("abc", 0, "", ""),
        ] {
            assert_eq!(
                (shorten_end(text, width).as_str(), shorten_middle(text, width).as_str()),
                (end, middle),
                "{text}"
            );
            assert!(
                text_width(&shorten_end(text, width)) <= width
                    && text_width(&shorten_middle(text, width)) <= width
            );
        }
        assert_eq!(text_width("日本…"), 5);
    }
}
