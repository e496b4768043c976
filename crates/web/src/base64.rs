//! Base64, as addresses and content policies need it.

const PLAIN: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ADDRESS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes bytes for an address: without padding and without signs that have a meaning there.
pub(crate) fn to_base64url(bytes: &[u8]) -> String {
    encode_digits(bytes, ADDRESS)
}

/// Encodes bytes with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut text = encode_digits(bytes, PLAIN);
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

fn encode_digits(bytes: &[u8], digits: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=chunk.len() {
            text.push(char::from(digits[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64() {
        let cases = [("", "", ""), ("f", "Zg==", "Zg"), ("fo", "Zm8=", "Zm8"), ("foo", "Zm9v", "Zm9v")];
        for (bytes, plain, address) in cases {
            assert_eq!(
                (to_base64(bytes.as_bytes()).as_str(), to_base64url(bytes.as_bytes()).as_str()),
                (plain, address)
            );
        }
        assert_eq!((to_base64(&[0xfb, 0xff]), to_base64url(&[0xfb, 0xff])), ("+/8=".into(), "-_8".into()));
    }
}
