//! Replaces the parts of a page that differ between two runs of a test.

/// Replaces every id of a run or flow by `id`, and every duration, such as `320 ms` or `3 min 4 s`, by `time`.
pub fn mask_page(page: &str, id: &str, time: &str) -> String {
    let mut masked = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(next) = rest.chars().next() {
        let (length, mask) = match masked.ends_with(char::is_alphanumeric) {
            true => (0, ""),
            false => id_length(rest).map(|length| (length, id)).unwrap_or((duration_length(rest), time)),
        };
        if length > 0 {
            masked += mask;
        } else {
            masked.push(next);
        }
        rest = &rest[length.max(next.len_utf8() * usize::from(length == 0))..];
    }
    masked
}

fn id_length(text: &str) -> Option<usize> {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.get(..36).filter(|id| id.bytes().enumerate().all(fits)).map(str::len)
}

/// Returns the length of a duration at the start of a text, 0 if there is none.
fn duration_length(text: &str) -> usize {
    let part = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let unit = text[digits..].strip_prefix(' ').filter(|_| digits > 0)?;
        let unit = unit.split(|c: char| !c.is_alphanumeric()).next()?;
        matches!(unit, "ms" | "s" | "min" | "h").then_some(digits + 1 + unit.len())
    };
    let Some(first) = part(text) else { return 0 };
    let second = text[first..].strip_prefix(' ').and_then(part);
    first + second.map_or(0, |second| 1 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_durations_are_masked() {
        let page = "run 01a1ec17-ab84-773d-96bd-2066ac8cc8c4  took 3 min 4 s (12 ms), 3 more lines, r5 s";
        assert_eq!(mask_page(page, "ID", "TIME"), "run ID  took TIME (TIME), 3 more lines, r5 s");
    }
}
