//! Times as the clock on the person's wall shows them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::clock::{format_time, parse_time};

/// Returns the time at `seconds` since 1970, in the format of [`now`](crate::now).
pub fn time_from_unix(seconds: u64) -> String {
    format_time(i64::try_from(seconds).unwrap_or(i64::MAX), 0)
}

/// Returns the seconds since 1970 at this time; `None` if it has another format than that of [`now`](crate::now).
pub fn time_to_unix(time: &str) -> Option<u64> {
    u64::try_from(parse_time(time)?.0).ok()
}

/// Returns the current time in seconds since 1970.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Renders a time of a record as local time: `09:41:07`, with the date in front if it is not today.
pub fn local_time(time: &str) -> Option<String> {
    render_local(time, &Zoned::now())
}

fn render_local(time: &str, now: &Zoned) -> Option<String> {
    let then = Timestamp::from_second(parse_time(time)?.0).ok()?.to_zoned(now.time_zone().clone());
    let form = if then.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    Some(then.strftime(form).to_string())
}

/// Returns the next moment of a local clock, in seconds since 1970: `10:01 AM`, `22:01`, or with a day in front as in
/// `Nov 19th, 2026 10:01 AM`.
pub fn clock_to_unix(text: &str) -> Option<u64> {
    next_moment(text, &Zoned::now())
}

fn next_moment(text: &str, now: &Zoned) -> Option<u64> {
    let zone: TimeZone = now.time_zone().clone();
    let text = text.trim().trim_end_matches('.').replace('\u{202f}', " ");
    let time = ["%I:%M %p", "%H:%M"].iter().find_map(|form| Time::strptime(form, &text).ok());
    let moment = match time {
        Some(time) => {
            let today = now.date().to_datetime(time).to_zoned(zone).ok()?;
            // A clock that shows an earlier time means tomorrow.
            let is_past =
                today.timestamp() < now.timestamp().checked_sub(SignedDuration::from_mins(1)).ok()?;
            if is_past {
                today.tomorrow().ok()?.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok()?
            } else {
                today
            }
        }
        None => {
            let plain =
                ["st,", "nd,", "rd,", "th,"].iter().fold(text, |text, suffix| text.replacen(suffix, ",", 1));
            DateTime::strptime("%b %d, %Y %I:%M %p", &plain).ok()?.to_zoned(zone).ok()?
        }
    };
    u64::try_from(moment.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        "2026-11-18T09:30:00Z".parse::<Timestamp>().unwrap().to_zoned(zone)
    }

    #[test]
    fn clock_times_are_next_moments() {
        for (text, moment) in [
            ("11:45 AM", Some("2026-11-18T09:45:00Z")),
            ("11:45 AM.", Some("2026-11-18T09:45:00Z")),
            ("11:20 AM", Some("2026-11-19T09:20:00Z")),
            ("23:05", Some("2026-11-18T21:05:00Z")),
            ("Nov 23rd, 2026 1:05 PM", Some("2026-11-23T11:05:00Z")),
            ("later", None),
            ("25:00", None),
        ] {
            let wanted = moment.map(|moment| moment.parse::<Timestamp>().unwrap().as_second());
            assert_eq!(
                next_moment(text, &now()).map(|found| i64::try_from(found).unwrap()),
                wanted,
                "{text}"
            );
        }
    }

    #[test]
    fn record_time_is_shown_locally() {
        let shown = |time| render_local(time, &now());
        assert_eq!(shown("2026-11-18T07:41:07.000000Z").as_deref(), Some("09:41:07"));
        assert_eq!(shown("2026-11-17T23:00:00.000000Z").as_deref(), Some("01:00:00"));
        assert_eq!(shown("2026-11-16T23:00:00.000000Z").as_deref(), Some("2026-11-17 01:00:00"));
        assert_eq!(shown("now"), None);
        assert_eq!(time_to_unix(&time_from_unix(1_794_996_760)), Some(1_794_996_760));
    }
}
