//! Bodies that a CLI compressed. Codex does so for people who are logged in to ChatGPT, with zstd; no CLI uses another encoding.

use std::io::Read as _;

use crate::refusal::RefusalReason;

/// The largest window of a compressed body, as a power of two: the memory of the decoder.
const MOST_WINDOW: u32 = 23;

/// Returns the bytes of a body before they were compressed, at most `limit`.
pub(crate) fn decode_body(
    encoding: Option<&str>,
    body: Vec<u8>,
    limit: u64,
) -> Result<Vec<u8>, RefusalReason> {
    match encoding {
        _ if body.is_empty() => Ok(body),
        None | Some("identity") => Ok(body),
        Some("zstd") => decode_zstd(&body, limit),
        Some(other) => Err(RefusalReason::EncodedBody { encoding: other.chars().take(32).collect() }),
    }
}

fn decode_zstd(body: &[u8], limit: u64) -> Result<Vec<u8>, RefusalReason> {
    let broken = |_| RefusalReason::BrokenEncoding;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(broken)?;
    decoder.window_log_max(MOST_WINDOW).map_err(broken)?;
    let mut decoded = Vec::new();
    decoder.take(limit.saturating_add(1)).read_to_end(&mut decoded).map_err(broken)?;
    if decoded.len() as u64 > limit {
        return Err(RefusalReason::LargeBody { limit, bytes: limit, has_more: true });
    }
    Ok(decoded)
}
