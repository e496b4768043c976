//! The weight of JSON: its memory once it is parsed, which its size does not show.

/// Estimates the memory of parsed JSON, before it is parsed: a value counts as one, a list or an object as three. Each
/// takes up to 160 bytes.
pub(crate) fn json_weight(text: &str) -> usize {
    let (mut weight, mut in_string, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' if !in_string => weight += 1,
            b'[' | b'{' if !in_string => weight += 2,
            _ => {}
        }
    }
    weight
}
