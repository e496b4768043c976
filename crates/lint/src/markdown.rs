//! Lines of Markdown that open a block: headings and code fences. It does not read what is inside.

/// Returns the level of a heading.
pub(crate) fn heading_level(line: &str) -> Option<usize> {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &line[marks..];
    ((1..=6).contains(&marks) && (rest.is_empty() || rest.starts_with([' ', '\t']))).then_some(marks)
}

/// Returns the mark of a line that opens a code block, and its length.
pub(crate) fn fence_mark(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start_matches(' ');
    let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    (length >= 3 && (mark == '~' || !info.contains('`'))).then_some((mark, length))
}
