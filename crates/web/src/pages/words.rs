//! Numbers and outcomes as a page shows them.

use callsheet_core::record::RunOutcome;
use callsheet_core::record::task_status::TaskStatus;

/// The look of an outcome: a class for the colour, and a sign that does not need colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutcomeMark {
    /// The class.
    pub(crate) class: &'static str,
    /// The sign.
    pub(crate) sign: &'static str,
    /// The words.
    pub(crate) words: &'static str,
}

impl OutcomeMark {
    /// Returns the look of an outcome.
    pub(crate) const fn new(outcome: RunOutcome) -> Self {
        let (class, sign) = match outcome {
            RunOutcome::Succeeded => ("good", "✓"),
            RunOutcome::Running => ("live", "●"),
            RunOutcome::Composed | RunOutcome::NothingChanged => ("quiet", "○"),
            RunOutcome::NeedsReview | RunOutcome::OutOfScope => ("warn", "!"),
            RunOutcome::Parked | RunOutcome::Stopped => ("warn", "‖"),
            RunOutcome::FailedChecks
            | RunOutcome::AgentFailed
            | RunOutcome::TimedOut
            | RunOutcome::OverCost
            | RunOutcome::Lost => ("bad", "✕"),
        };
        Self { class, sign, words: outcome.words() }
    }

    /// Returns the look of a task's status.
    pub(crate) const fn from_task(status: TaskStatus) -> Self {
        let (class, sign, words) = match status {
            TaskStatus::NeedsReview => ("warn", "!", "needs review"),
            TaskStatus::Failed => ("bad", "✕", "failed"),
            TaskStatus::Ready => ("good", "✓", "ready"),
            status => ("quiet", "○", status.name()),
        };
        Self { class, sign, words }
    }
}

/// Renders millionths of a dollar, with a mark if they are an estimate.
pub(crate) fn cost_words(micros: u64, is_estimate: bool) -> String {
    let about = if is_estimate { "~" } else { "" };
    format!("{about}${:.2}", micros as f64 / 1e6)
}

/// Renders a count: `812`, `12.3 k`, `4.1 M`.
pub(crate) fn count_words(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{:.1} k", count as f64 / 1e3),
        _ => format!("{:.1} M", count as f64 / 1e6),
    }
}

/// Renders a size: `812 B`, `12 KiB`, `4.1 MiB`.
pub(crate) fn size_words(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Percent-encodes a value for the query of an address.
pub(crate) fn encode_query(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte))
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Percent-encodes a path for an address, and leaves its slashes.
pub(crate) fn encode_path(path: &str) -> String {
    path.split('/').map(encode_query).collect::<Vec<_>>().join("/")
}

/// Decodes the query of an address.
pub(crate) fn decode_query(query: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = query.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let pair = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))).filter(|_| *byte == b'%');
        let code = pair.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        decoded.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_words() {
        assert_eq!([812, 12_345, 4_100_000].map(count_words), ["812", "12.3 k", "4.1 M"]);
        assert_eq!([812, 12_288, 4_299_162].map(size_words), ["812 B", "12.0 KiB", "4.1 MiB"]);
        assert_eq!((cost_words(1_234_567, true), cost_words(0, false)), ("~$1.23".into(), "$0.00".into()));
        let hostile = "a b/ü&=\"<\r\n%41%";
        assert_eq!(encode_query(hostile), "a%20b%2F%C3%BC%26%3D%22%3C%0D%0A%2541%25");
        assert_eq!(encode_path("a/b#?%/c"), "a/b%23%3F%25/c");
        assert_eq!(decode_query(&encode_query(hostile)), hostile);
        assert_eq!(decode_query("a%20b%2F%C3%BC%e2%80%AE&%2&%"), "a b/ü\u{202e}&%2&%");
    }
}
