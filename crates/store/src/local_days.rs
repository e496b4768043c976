//! Local days. Records have times in UTC; a person's day begins at local midnight.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::clock::{format_time, now};

/// Offset of local time to UTC, up to a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalOffset {
    /// First time at which it does not hold; `None` for the last one.
    pub(crate) until: Option<String>,
    /// Seconds that local time is ahead of UTC.
    pub(crate) seconds: i64,
}

/// Most changes of the offset that are followed: two a year, for a century.
const MOST_CHANGES: usize = 200;

/// Returns the offsets that hold from `first` on, in order.
pub(crate) fn local_offsets(first: &str) -> Vec<LocalOffset> {
    offsets_in(&TimeZone::system(), first, &now())
}

fn offsets_in(zone: &TimeZone, first: &str, last: &str) -> Vec<LocalOffset> {
    let mut at: Timestamp = first.parse().unwrap_or_default();
    let mut offsets = vec![LocalOffset { until: None, seconds: offset_at(zone, at) }];
    while offsets.len() < MOST_CHANGES
        && let Some(change) = zone.following(at).next()
    {
        at = change.timestamp();
        let until = format_time(at.as_second(), 0);
        if *until > *last {
            break;
        }
        let seconds = i64::from(change.offset().seconds());
        if let Some(before) = offsets.last_mut().filter(|before| before.seconds != seconds) {
            before.until = Some(until);
            offsets.push(LocalOffset { until: None, seconds });
        }
    }
    offsets
}

fn offset_at(zone: &TimeZone, at: Timestamp) -> i64 {
    i64::from(zone.to_offset(at).seconds())
}

/// Returns the time at which the local day began.
pub fn day_start() -> String {
    start_in(&TimeZone::system(), &now())
}

fn start_in(zone: &TimeZone, time: &str) -> String {
    let start = time.parse::<Timestamp>().ok().and_then(|at| at.to_zoned(zone.clone()).start_of_day().ok());
    // A clock far away from every calendar has days of UTC.
    start.map_or_else(
        || format!("{}T00:00:00.000000Z", &time[..10]),
        |start| format_time(start.timestamp().as_second(), 0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn offsets_follow_summer_time() {
        let offset = |until: Option<&str>, seconds| LocalOffset { until: until.map(str::to_owned), seconds };
        assert_eq!(
            offsets_in(&berlin(), "2025-01-01T00:00:00.000000Z", "2025-12-31T00:00:00.000000Z"),
            [
                offset(Some("2025-03-30T01:00:00.000000Z"), 3600),
                offset(Some("2025-10-26T01:00:00.000000Z"), 7200),
                offset(None, 3600),
            ]
        );
        assert_eq!(offsets_in(&TimeZone::UTC, "2025-01-01T00:00:00.000000Z", "2026"), [offset(None, 0)]);
        assert_eq!(offsets_in(&TimeZone::UTC, "no time", "2026"), [offset(None, 0)]);
    }

    #[test]
    fn day_begins_at_local_midnight() {
        for (time, expected) in [
            ("2025-07-01T21:59:59.000000Z", "2025-06-30T22:00:00.000000Z"),
            ("2025-07-01T22:00:00.000000Z", "2025-07-01T22:00:00.000000Z"),
            ("2025-01-01T23:30:00.000000Z", "2025-01-01T23:00:00.000000Z"),
        ] {
            assert_eq!(start_in(&berlin(), time), expected, "{time}");
        }
    }
}
