//! Durations as people write them: `90s`, `30m`, `2h`, or seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration as people write it, such as `90s`, `30m` or `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    /// Returns the shorter duration.
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    pub(crate) fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let seconds = match &text[digits.len()..] {
            "s" | "" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86400,
            _ => 0,
        };
        let number = digits.parse::<u64>().ok().filter(|number| *number > 0 && seconds > 0);
        let seconds = number.and_then(|number| number.checked_mul(seconds));
        let seconds = seconds
            .ok_or_else(|| format!("invalid duration `{text}`: expected a value such as 90s, 30m or 2h"))?;
        Ok(Self(Duration::from_secs(seconds)))
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HumanDuration> for String {
    fn from(span: HumanDuration) -> Self {
        span.to_string()
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            _ if seconds.is_multiple_of(3600) => write!(f, "{}h", seconds / 3600),
            _ if seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            _ => write!(f, "{seconds}s"),
        }
    }
}

/// Renders a duration for people: `320 ms`, `12 s`, `3 min 4 s`, `2 h 5 min`.
pub fn duration_words(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{HumanDuration, duration_words};

    #[test]
    fn durations_become_words() {
        assert_eq!(
            [320, 12_000, 184_000, 7_500_000].map(duration_words),
            ["320 ms", "12 s", "3 min 4 s", "2 h 5 min"]
        );
    }

    #[test]
    fn durations_parse_and_print() {
        for (text, written) in [("90s", "90s"), ("120", "2m"), ("30m", "30m"), ("2h", "2h"), ("1d", "24h")] {
            assert_eq!(text.parse::<HumanDuration>().unwrap().to_string(), written);
        }
        for bad in ["", "0", "0s", "-1s", "1.5h", "5 m", "m", "1w", "99999999999999999999"] {
            assert_eq!(
                bad.parse::<HumanDuration>(),
                Err(format!("invalid duration `{bad}`: expected a value such as 90s, 30m or 2h"))
            );
        }
    }
}
