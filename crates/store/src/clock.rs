//! The clock, and ids that follow it.

use std::time::{SystemTime, UNIX_EPOCH};

use callsheet_core::record::Id;
use uuid::Uuid;

/// Now, in UTC: `2026-01-31T12:00:00.000000Z`. Two such texts compare as the times do.
pub fn now() -> String {
    // A clock before 1970 is set wrong, and it is better to record that than not to record.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    spelled(since.as_secs(), since.subsec_micros())
}

/// The time `days` days ago, spelled the same way.
pub(crate) fn days_ago(days: u64) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    spelled(since.as_secs().saturating_sub(days.saturating_mul(86_400)), since.subsec_micros())
}

/// An id that no other run has, and which sorts behind those that were made before it.
pub fn new_id() -> Option<Id> {
    Id::parse(&Uuid::now_v7().to_string())
}

fn spelled(seconds: u64, micros: u32) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their odd day at the end; 400 of them are 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_spelled_as_the_calendar_has_them() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000000Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(spelled(seconds, 0), text);
        }
    }
}
