//! Folds a text into the letters and signs that a person sees, whatever its spelling.
//!
//! Folding undoes entities, escapes, look-alike letters and brackets, invisible characters and accents. The
//! result serves only to find bad words, never good ones: folding too much costs a pass, folding too little
//! would grant one.

use alloc::vec::Vec;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_security::skeleton;

/// A character as a person sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldedChar {
    /// A lower-case ASCII letter or a digit; digits and letters that look alike share one value.
    Letter(u8),
    Open,
    Close,
    Slash,
    Blank,
    /// Any other character.
    Other(char),
}

/// An iterator over the folded characters of a text, each with the offset at which it ends.
#[derive(Clone, Debug)]
pub(super) struct FoldedChars<'t> {
    text: &'t [u8],
    at: usize,
    /// The remaining letters of a character that folds into several.
    rest: [u8; 4],
    left: usize,
}

impl<'t> FoldedChars<'t> {
    pub(super) const fn new(text: &'t [u8], at: usize) -> Self {
        Self { text, at, rest: [0; 4], left: 0 }
    }

    /// Returns the character at `self.at`, with entities and escapes decoded, and its end. An invalid byte is
    /// a character too.
    fn decode_char(&self) -> Option<(char, usize)> {
        let rest = self.text.get(self.at..)?;
        let first = *rest.first()?;
        match first {
            b'&' => {
                let (c, length) = decode_entity(rest).unwrap_or(('&', 1));
                Some((c, self.at + length))
            }
            b'\\' => {
                let (c, length) = decode_escape(rest).unwrap_or(('\u{200b}', 1));
                Some((c, self.at + length))
            }
            b'%' => {
                let code = rest.get(1..3).and_then(|digits| parse_number(digits, 16));
                let c = code.filter(|code| matches!(code, 0x21..=0x7e)).and_then(char::from_u32);
                Some((c.unwrap_or('%'), self.at + if c.is_some() { 3 } else { 1 }))
            }
            0..=0x7f => Some((char::from(first), self.at + 1)),
            _ => {
                let length = match first {
                    0xc0..=0xdf => 2,
                    0xe0..=0xef => 3,
                    _ => 4,
                };
                let c = rest.get(..length).and_then(|bytes| str::from_utf8(bytes).ok()?.chars().next());
                Some(c.map_or(('\u{fffd}', self.at + 1), |c| (c, self.at + length)))
            }
        }
    }
}

impl Iterator for FoldedChars<'_> {
    type Item = (FoldedChar, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left > 0 {
            let letter = self.rest[4 - self.left];
            self.left -= 1;
            return Some((FoldedChar::Letter(letter), self.at));
        }
        // Limits how many invisible characters one step skips.
        for passed in 0.. {
            let (c, end) = self.decode_char()?;
            self.at = end;
            if passed > MOST_INVISIBLE {
                return Some((FoldedChar::Other(c), end));
            }
            if let Some(seen) = fold_ascii(c) {
                return Some((seen, end));
            }
            if c.is_ascii() {
                return Some((FoldedChar::Other(c), end));
            }
            if c.is_whitespace() {
                return Some((FoldedChar::Blank, end));
            }
            if let Some(seen) = fold_sign(c) {
                return Some((seen, end));
            }
            let mut letters = [0; 4];
            let mut length = 0;
            let mut visible = false;
            let mut other = None;
            decompose_compatible(c, |part| {
                let mut add = |part: char| {
                    visible = true;
                    match fold_ascii(part) {
                        Some(FoldedChar::Letter(letter)) if length < 4 => {
                            letters[length] = letter;
                            length += 1;
                        }
                        seen => other = other.or(seen),
                    }
                };
                if part.is_ascii() {
                    return add(part);
                }
                let mut buffer = [0; 4];
                let alike = skeleton(part.encode_utf8(&mut buffer));
                alike.filter(|part| !is_combining_mark(*part)).for_each(add);
            });
            if length > 0 {
                self.left = length - 1;
                self.rest.copy_from_slice(&letters);
                self.rest.rotate_right(4 - length);
                return Some((FoldedChar::Letter(letters[0]), end));
            }
            if visible {
                return Some((other.unwrap_or(FoldedChar::Other(c)), end));
            }
        }
        None
    }
}

const MOST_INVISIBLE: usize = 32;

fn fold_ascii(c: char) -> Option<FoldedChar> {
    Some(match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => FoldedChar::Letter(fold_lookalike(c as u8)),
        '<' | '[' | '{' => FoldedChar::Open,
        '>' | ']' | '}' => FoldedChar::Close,
        '/' => FoldedChar::Slash,
        ' ' | '\t' | '\r' | '\n' | '\u{b}' | '\u{c}' => FoldedChar::Blank,
        _ => return None,
    })
}

/// Maps letters and digits that are used for each other to one letter.
pub(super) const fn fold_lookalike(byte: u8) -> u8 {
    match byte.to_ascii_lowercase() {
        b'0' => b'o',
        b'1' | b'l' => b'i',
        b'3' => b'e',
        b'4' => b'a',
        b'5' => b's',
        b'7' => b't',
        byte => byte,
    }
}

/// Folds signs and letters that the Unicode tables do not treat as alike.
fn fold_sign(c: char) -> Option<FoldedChar> {
    const SMALL: &str = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡ";
    let letter = |at: u32| Some(FoldedChar::Letter(fold_lookalike(b'a' + (at % 26) as u8)));
    match c {
        '＜' | '﹤' | '‹' | '«' | '〈' | '《' | '\u{2329}' | '⟨' | '⟪' | '❬' | '❮' | '❰' | '≺' | '≪'
        | '˂' | 'ᐸ' | '⧼' | '◁' | '【' | '［' | '｛' | '⦅' => Some(FoldedChar::Open),
        '＞' | '﹥' | '›' | '»' | '〉' | '》' | '\u{232a}' | '⟩' | '⟫' | '❭' | '❯' | '❱' | '≻' | '≫'
        | '˃' | 'ᐳ' | '⧽' | '▷' | '】' | '］' | '｝' | '⦆' => Some(FoldedChar::Close),
        '／' | '⁄' | '∕' | '⧸' => Some(FoldedChar::Slash),
        '\u{1f150}'..='\u{1f169}' => letter(c as u32 - 0x1f150),
        '\u{1f170}'..='\u{1f189}' => letter(c as u32 - 0x1f170),
        '\u{1f1e6}'..='\u{1f1ff}' => letter(c as u32 - 0x1f1e6),
        '\u{e0021}'..='\u{e007e}' => fold_ascii(char::from_u32(c as u32 - 0xe0000)?),
        _ => SMALL.chars().position(|small| small == c).and_then(|at| letter(at as u32)),
    }
}

/// Decodes the character reference at the start of `text`. Returns the character and the length of the
/// reference. Names that stand for ASCII signs are enough.
fn decode_entity(text: &[u8]) -> Option<(char, usize)> {
    let name_end =
        text.iter().take(40).skip(1).position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#')?;
    let name = &text[1..=name_end];
    let length = 1 + name.len() + usize::from(text.get(1 + name.len()) == Some(&b';'));
    if let Some(digits) = name.strip_prefix(b"#") {
        let code = match digits {
            [b'x' | b'X', digits @ ..] => parse_number(digits, 16),
            digits => parse_number(digits, 10),
        };
        return Some((char::from_u32(code?).unwrap_or('\u{fffd}'), length));
    }
    const NAMES: [(&str, char); 33] = [
        ("lt", '<'),
        ("gt", '>'),
        ("amp", '\u{200b}'),
        ("nbsp", ' '),
        ("ensp", ' '),
        ("emsp", ' '),
        ("thinsp", ' '),
        ("hairsp", ' '),
        ("newline", ' '),
        ("tab", ' '),
        ("zerowidthspace", '\u{200b}'),
        ("zwnj", '\u{200b}'),
        ("zwj", '\u{200b}'),
        ("shy", '\u{200b}'),
        ("nobreak", '\u{200b}'),
        ("lowbar", '_'),
        ("underbar", '_'),
        ("hyphen", '-'),
        ("dash", '-'),
        ("sol", '/'),
        ("bsol", '\u{200b}'),
        ("lsqb", '['),
        ("lbrack", '['),
        ("rsqb", ']'),
        ("rbrack", ']'),
        ("lang", '⟨'),
        ("rang", '⟩'),
        ("lsaquo", '‹'),
        ("rsaquo", '›'),
        ("laquo", '«'),
        ("raquo", '»'),
        ("ast", '*'),
        ("grave", '`'),
    ];
    // An escaped ampersand begins a reference that was escaped twice: the text after it is read as a
    // reference.
    if name.eq_ignore_ascii_case(b"amp") {
        let rest = text.get(length..)?;
        let end = rest.iter().take(40).position(|byte| *byte == b';')?;
        let mut again = Vec::with_capacity(end + 2);
        again.push(b'&');
        again.extend_from_slice(&rest[..=end]);
        // The length limit allows a few levels, as in `&amp;amp;lt;`, which is enough.
        if again.len() < 24
            && let Some((c, used)) = decode_entity(&again)
        {
            return Some((c, length + used - 1));
        }
    }
    let known = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    known.map(|(_, c)| (*c, length)).or_else(|| {
        // Browsers accept `&lt` without its semicolon, as in `&ltreview>`.
        let short = name.get(..2)?;
        let c = if short.eq_ignore_ascii_case(b"lt") {
            '<'
        } else if short.eq_ignore_ascii_case(b"gt") {
            '>'
        } else {
            return None;
        };
        Some((c, 3))
    })
}

/// Decodes the escape at the start of `text`: `\u003c`, `\u{3c}`, `\x3c`, `\074` or `\n`. Returns `None` for
/// any other backslash, which only escapes the next character.
fn decode_escape(text: &[u8]) -> Option<(char, usize)> {
    match text.get(1)? {
        b'u' | b'U' if text.get(2) == Some(&b'{') => {
            let end = text.iter().take(12).position(|byte| *byte == b'}')?;
            Some((char::from_u32(parse_number(text.get(3..end)?, 16)?)?, end + 1))
        }
        b'u' | b'U' => Some((char::from_u32(parse_number(text.get(2..6)?, 16)?)?, 6)),
        b'x' | b'X' => Some((char::from_u32(parse_number(text.get(2..4)?, 16)?)?, 4)),
        b'0'..=b'1' => Some((char::from_u32(parse_number(text.get(1..4)?, 8)?)?, 4)),
        b'n' | b'r' | b't' => {
            // `\n` is a line end in a text that was printed as a string, unless a word begins there.
            let word = text.get(2).is_some_and(u8::is_ascii_lowercase);
            (!word).then_some((' ', 2))
        }
        _ => None,
    }
}

fn parse_number(digits: &[u8], radix: u32) -> Option<u32> {
    if digits.is_empty() || digits.len() > 12 {
        return None;
    }
    let mut number: u32 = 0;
    for digit in digits {
        number = number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)?;
    }
    Some(number)
}

/// Returns the folded letters of `text`, without anything else.
pub(super) fn fold_letters(text: &[u8]) -> Vec<u8> {
    let letter = |(seen, _)| if let FoldedChar::Letter(letter) = seen { Some(letter) } else { None };
    FoldedChars::new(text, 0).filter_map(letter).collect()
}
