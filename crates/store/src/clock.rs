//! The clock, and ids that follow it. A clock can be set to any time, so nothing here fails because of it.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use callsheet_core::record::Id;
use jiff::SignedDuration;
use jiff::civil::{self, DateTime};
use uuid::{ContextV7, Timestamp, Uuid};

/// Returns the current time in UTC: `2026-01-31T12:00:00.000000Z`. Two such texts compare as the times do: a
/// year has four digits, and a time before the year 0 or after 9999 becomes the nearest time of these.
pub fn now() -> String {
    let (seconds, micros) = since_1970(SystemTime::now());
    format_time(seconds, micros)
}

/// Returns the current time in seconds since 1970.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the time at `seconds` since 1970, in the format of [`now`].
pub fn time_from_unix(seconds: u64) -> String {
    format_time(i64::try_from(seconds).unwrap_or(i64::MAX), 0)
}

/// Returns the time `days` days before `time`, in the same format; `None` if `time` has another format.
pub(crate) fn days_before(time: &str, days: u64) -> Option<String> {
    shift_seconds(time, -seconds_of(days))
}

/// Returns the time `days` days after `time`, in the same format; `None` if `time` has another format.
pub(crate) fn days_after(time: &str, days: u64) -> Option<String> {
    shift_seconds(time, seconds_of(days))
}

fn seconds_of(days: u64) -> i64 {
    i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(86_400)
}

fn shift_seconds(time: &str, by: i64) -> Option<String> {
    let (seconds, micros) = parse_time(time)?;
    Some(format_time(seconds.saturating_add(by), micros))
}

/// Returns whether a clock with this time can be right: not before callsheet existed, and not at the last
/// time of all.
pub(crate) fn is_possible(time: &str) -> bool {
    time > "2020" && time < LAST && parse_time(time).is_some()
}

/// Returns a unique id that sorts behind all earlier ones, as far as the clock allows.
pub fn new_id() -> Option<Id> {
    static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let (seconds, micros) = since_1970(SystemTime::now());
    // An id has 48 bits for milliseconds since 1970; a time outside this range becomes the first or the last.
    let seconds = seconds.clamp(1, (1 << 48) / 1000 - 1).unsigned_abs();
    let context = CONTEXT.lock().unwrap_or_else(PoisonError::into_inner);
    Id::parse(&Uuid::new_v7(Timestamp::from_unix(&*context, seconds, micros * 1000)).to_string())
}

const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

/// First time that can be formatted, and its seconds since 1970.
const FIRST: &str = "0000-01-01T00:00:00.000000Z";
const FIRST_SECOND: i64 = -62_167_219_200;
/// Last time that can be formatted, and its seconds since 1970.
const LAST: &str = "9999-12-31T23:59:59.999999Z";
const LAST_SECOND: i64 = 253_402_300_799;

/// Returns the seconds since 1970, which are negative before, and the microseconds from there on.
fn since_1970(time: SystemTime) -> (i64, u32) {
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (seconds(after), after.subsec_micros()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_micros() {
                0 => (-seconds(before), 0),
                micros => (-seconds(before) - 1, 1_000_000 - micros),
            }
        }
    }
}

pub(crate) fn format_time(seconds: i64, micros: u32) -> String {
    if seconds < FIRST_SECOND {
        return FIRST.into();
    }
    if seconds > LAST_SECOND {
        return LAST.into();
    }
    let time = EPOCH.checked_add(SignedDuration::new(seconds, 0)).unwrap_or(EPOCH);
    format!("{}.{micros:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S"))
}

/// Parses a time. Returns `None` unless [`format_time`] would return the same text.
pub(crate) fn parse_time(time: &str) -> Option<(i64, u32)> {
    let (seconds, micros) = time.strip_suffix('Z')?.split_once('.')?;
    let seconds = DateTime::strptime("%Y-%m-%dT%H:%M:%S", seconds).ok()?.duration_since(EPOCH).as_secs();
    let found = (seconds, micros.parse().ok()?);
    (format_time(found.0, found.1) == time).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_are_formatted_as_calendar_times() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000000Z"),
            (-1, "1969-12-31T23:59:59.000000Z"),
            (-2_203_891_200, "1900-03-01T00:00:00.000000Z"),
            (-2_203_891_201, "1900-02-28T23:59:59.000000Z"),
            (FIRST_SECOND, FIRST),
            (FIRST_SECOND - 1, FIRST),
            (i64::MIN, FIRST),
            (LAST_SECOND, "9999-12-31T23:59:59.000000Z"),
            (LAST_SECOND + 1, LAST),
            (i64::MAX, LAST),
        ];
        for (seconds, text) in cases {
            assert_eq!(format_time(seconds, 0), text);
        }
    }

    /// Returns seconds from every part of a clock's range, in order.
    fn seconds() -> Vec<i64> {
        let mut all = vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for edge in [FIRST_SECOND, LAST_SECOND, 0, 1 << 31, 1 << 32, (1 << 48) / 1000] {
            all.extend((-3..=3).map(|by| edge + by));
        }
        // A prime step reaches all times of the day and all days of the year.
        all.extend((FIRST_SECOND - 1_000_000_007..LAST_SECOND + 1_000_000_007).step_by(7_654_337));
        all.extend((0..63).flat_map(|bits| [1_i64 << bits, -(1_i64 << bits)]));
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn formatted_times_sort_like_times() {
        let all = seconds();
        assert!(all.len() > 40_000, "{}", all.len());
        let texts: Vec<String> = all.iter().map(|seconds| format_time(*seconds, 5)).collect();
        assert!(texts.iter().all(|text| text.len() == FIRST.len()));
        assert!(texts.windows(2).all(|two| two[0] <= two[1]));
        for (seconds, text) in all.iter().zip(&texts) {
            let inside = (FIRST_SECOND..=LAST_SECOND).contains(seconds);
            assert_eq!(
                parse_time(text),
                Some(if inside { (*seconds, 5) } else { parse_time(text).unwrap() })
            );
            let day_before = days_before(text, 1).unwrap();
            assert!(day_before < *text || text == FIRST, "{text}");
            assert!(days_after(text, 1).unwrap() > *text || text.as_str() > "9999-12-30", "{text}");
            assert_eq!(days_before(text, u64::MAX).unwrap(), FIRST);
        }
        for odd in [
            "",
            "now",
            "10000-01-01T00:00:00.000000Z",
            "2026-02-30T00:00:00.000000Z",
            "2026-1-01T00:00:00.000000Z",
        ] {
            assert_eq!(
                (parse_time(odd), days_before(odd, 1), is_possible(odd)),
                (None, None, false),
                "{odd}"
            );
        }
    }

    #[test]
    fn every_system_time_is_formatted() {
        for span in [0, 1, 500_000, 999_999, 1_000_000, 1_500_000, 86_400_000_000, 1 << 60] {
            let span = Duration::from_micros(span);
            let (Some(after), Some(before)) = (UNIX_EPOCH.checked_add(span), UNIX_EPOCH.checked_sub(span))
            else {
                continue;
            };
            let spelled = |time| {
                let (seconds, micros) = since_1970(time);
                assert!(micros < 1_000_000);
                format_time(seconds, micros)
            };
            assert!(spelled(before) <= spelled(UNIX_EPOCH) && spelled(UNIX_EPOCH) <= spelled(after));
            let exact = i128::from(since_1970(before).0) * 1_000_000 + i128::from(since_1970(before).1);
            assert_eq!(exact, -i128::try_from(span.as_micros()).unwrap());
        }
    }

    #[test]
    fn new_ids_are_increasing() {
        let ids: Vec<Id> = (0..1000).map(|_| new_id().unwrap()).collect();
        assert!(ids.windows(2).all(|two| two[0] < two[1]));
    }
}
