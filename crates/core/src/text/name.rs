//! Names: the texts allowed for a slot, a role, a phase or a file name. A name is never a path or a flag.

/// The hint for a text that is not a name.
pub(crate) const NAME_HINT: &str =
    "a name begins with a letter or digit and contains only letters, digits, `_` and `-`";

/// Checks whether `text` is a name: `[A-Za-z0-9][A-Za-z0-9_-]*`.
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.iter().all(|b| is_name_byte(*b))
}

/// Checks whether a name may contain `byte`.
pub const fn is_name_byte(byte: u8) -> bool {
    IN_NAMES[byte as usize]
}

/// One lookup for each byte: every name of every template is checked here.
const IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte.is_ascii() {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        byte += 1;
    }
    table
};
