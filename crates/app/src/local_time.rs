//! Times as people write and read them, in the time zone of the machine. Records hold UTC.

use callsheet_core::diag::Diagnostic;
use callsheet_store::now;
use jiff::civil::{self, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

use crate::error::usage_error;
use crate::project::duration::HumanDuration;

/// The present time, in the time zone of the machine (`TZ`, else its setting).
#[derive(Clone, Debug)]
pub struct LocalClock {
    now: Zoned,
}

impl LocalClock {
    /// Reads the clock.
    pub fn read() -> Self {
        Self::new(&now(), TimeZone::system())
    }

    fn new(now: &str, zone: TimeZone) -> Self {
        Self { now: parse_record_time(now).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone) }
    }

    /// Returns the first time that a person means by `2h`, `yesterday` or `2026-01-31`, as records hold it.
    pub fn since(&self, text: &str) -> Result<String, Diagnostic> {
        self.range(text).map(|(first, _)| first).ok_or_else(|| time_error(text))
    }

    /// Returns the last time that a person means by it, as records hold it.
    pub fn until(&self, text: &str) -> Result<String, Diagnostic> {
        self.range(text).map(|(_, last)| last).ok_or_else(|| time_error(text))
    }

    fn range(&self, text: &str) -> Option<(String, String)> {
        let text = text.trim();
        let is_year = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(ago) = text.parse::<HumanDuration>().ok().filter(|_| !is_year) {
            let ago = jiff::SignedDuration::try_from(ago.0).ok()?;
            let at = self
                .now
                .timestamp()
                .checked_sub(ago)
                .map_or_else(|_| format_civil_time(civil::datetime(0, 1, 1, 0, 0, 0, 0)), format_record_time);
            return Some((at.clone(), at));
        }
        let today = self.now.date();
        let (first, unit) = match text.to_ascii_lowercase().as_str() {
            "now" => {
                return Some((
                    format_record_time(self.now.timestamp()),
                    format_record_time(self.now.timestamp()),
                ));
            }
            "today" => (today.to_datetime(civil::Time::midnight()), 1.day()),
            "yesterday" => (today.yesterday().ok()?.to_datetime(civil::Time::midnight()), 1.day()),
            _ => parse_date(text.strip_suffix(['Z', 'z']).unwrap_or(text))?,
        };
        let zone = match text.ends_with(['Z', 'z']) {
            true => TimeZone::UTC,
            false => self.now.time_zone().clone(),
        };
        let last = first.checked_add(unit).and_then(|after| after.checked_sub(1.microsecond()));
        let at = |time: DateTime| match time.to_zoned(zone.clone()) {
            Ok(time) => format_record_time(time.timestamp()),
            // The last day of all and the first one have no other time zone.
            Err(_) => format_civil_time(time),
        };
        Some((at(first), at(last.unwrap_or(DateTime::MAX))))
    }

    /// Returns how long ago a recorded time was, or when it was: `12s`, `3m`, `2h`, `yesterday 14:02`, `Nov 12`, `2024-11-12`.
    pub fn age(&self, recorded: &str) -> String {
        let Some(at) = parse_record_time(recorded) else { return recorded.to_owned() };
        let seconds = self.now.timestamp().as_second() - at.as_second();
        let at = at.to_zoned(self.now.time_zone().clone());
        let (day, today) = (at.date(), self.now.date());
        match seconds {
            0..60 => format!("{seconds}s"),
            60..3600 => format!("{}m", seconds / 60),
            3600..43_200 => format!("{}h", seconds / 3600),
            _ if today.yesterday().ok() == Some(day) => at.strftime("yesterday %H:%M").to_string(),
            _ if day == today => at.strftime("today %H:%M").to_string(),
            _ if day.year() == today.year() => at.strftime("%b %-d").to_string(),
            _ => at.strftime("%Y-%m-%d").to_string(),
        }
    }

    /// Returns when a recorded time was, in a sentence: `3m ago`, `yesterday 14:02`.
    pub fn ago(&self, recorded: &str) -> String {
        let age = self.age(recorded);
        let is_span = age.ends_with(['s', 'm', 'h']) && age.starts_with(|c: char| c.is_ascii_digit());
        if is_span { format!("{age} ago") } else { age }
    }

    /// Renders a recorded time as the clock on the wall shows it: `09:41:07`, with the date in front if it is not today.
    pub fn clock_time(&self, recorded: &str) -> String {
        let Some(at) = parse_record_time(recorded) else { return recorded.to_owned() };
        let at = at.to_zoned(self.now.time_zone().clone());
        let form = if at.date() == self.now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
        at.strftime(form).to_string()
    }

    /// Returns the next moment at which the clock shows `10:01 AM` or `22:01`, or the moment of `Nov 19th, 2026 10:01 AM`, in
    /// seconds since 1970.
    pub fn next_moment(&self, text: &str) -> Option<u64> {
        let zone = || self.now.time_zone().clone();
        let text = text.trim().trim_end_matches('.').replace('\u{202f}', " ");
        let time = ["%I:%M %p", "%H:%M"].iter().find_map(|form| civil::Time::strptime(form, &text).ok());
        let moment = match time {
            Some(time) => {
                let today = self.now.date().to_datetime(time).to_zoned(zone()).ok()?;
                // A clock that shows an earlier time means tomorrow.
                let is_past = today.timestamp() < self.now.timestamp().checked_sub(1.minute()).ok()?;
                match is_past {
                    true => today.tomorrow().ok()?.date().to_datetime(time).to_zoned(zone()).ok()?,
                    false => today,
                }
            }
            None => {
                let plain = ["st,", "nd,", "rd,", "th,"]
                    .iter()
                    .fold(text, |text, suffix| text.replacen(suffix, ",", 1));
                DateTime::strptime("%b %d, %Y %I:%M %p", &plain).ok()?.to_zoned(zone()).ok()?
            }
        };
        u64::try_from(moment.timestamp().as_second()).ok()
    }

    /// Returns the milliseconds since a recorded time.
    pub fn elapsed_ms(&self, recorded: &str) -> u64 {
        let at = parse_record_time(recorded).map_or(0, Timestamp::as_millisecond);
        u64::try_from(self.now.timestamp().as_millisecond() - at).unwrap_or(0)
    }

    /// Returns the local day of a recorded time: `2026-01-31`.
    pub fn day(&self, recorded: &str) -> String {
        let zone = self.now.time_zone();
        parse_record_time(recorded)
            .map_or_else(String::new, |at| at.to_zoned(zone.clone()).date().to_string())
    }
}

fn time_error(text: &str) -> Diagnostic {
    usage_error(format!(
        "invalid time `{text}`: expected 2h, today, yesterday, 2026-01-31 or 2026-01-31T12:00 (add Z for UTC)"
    ))
}

fn parse_record_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn format_record_time(time: Timestamp) -> String {
    format_civil_time(time.to_zoned(TimeZone::UTC).datetime())
}

fn format_civil_time(time: DateTime) -> String {
    // A time before the year 0 is before every record.
    let time = if time.year() < 0 { civil::datetime(0, 1, 1, 0, 0, 0, 0) } else { time };
    format!("{}.{:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S"), time.subsec_nanosecond() / 1000)
}

/// Parses a date, or a date and a time, from the year on. Returns its first moment, and its length.
fn parse_date(text: &str) -> Option<(DateTime, Span)> {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000000";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        form => byte == *form,
    };
    if text.len() > FORM.len() || !text.bytes().zip(FORM).all(fits) {
        return None;
    }
    let field = |from: usize, least: i16| match text.get(from..from + 2) {
        Some(digits) => digits.parse().ok(),
        None => Some(least),
    };
    let unit = match text.len() {
        4 => 1.year(),
        7 => 1.month(),
        10 => 1.day(),
        16 => 1.minute(),
        19 => 1.second(),
        21.. => 1.microsecond(),
        _ => return None,
    };
    let year: i16 = text.get(..4)?.parse().ok()?;
    let [month, day] = [field(5, 1)?, field(8, 1)?];
    let [hour, minute, second] = [field(11, 0)?, field(14, 0)?, field(17, 0)?];
    let small = |number: i16| i8::try_from(number).ok();
    let micros: i32 = match text.get(20..) {
        Some(digits) => format!("{digits:0<6}").parse().ok()?,
        None => 0,
    };
    let time = DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        micros * 1000,
    );
    Some((time.ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> LocalClock {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        LocalClock::new("2026-03-10T08:30:00.000000Z", zone)
    }

    #[test]
    fn times_of_people_become_ranges() {
        let cases = [
            ("2h", "2026-03-10T06:30:00.000000Z", "2026-03-10T06:30:00.000000Z"),
            ("today", "2026-03-09T22:00:00.000000Z", "2026-03-10T21:59:59.999999Z"),
            ("yesterday", "2026-03-08T22:00:00.000000Z", "2026-03-09T21:59:59.999999Z"),
            ("2026-03-01", "2026-02-28T22:00:00.000000Z", "2026-03-01T21:59:59.999999Z"),
            ("2026-03", "2026-02-28T22:00:00.000000Z", "2026-03-31T21:59:59.999999Z"),
            ("2026", "2025-12-31T22:00:00.000000Z", "2026-12-31T21:59:59.999999Z"),
            ("2026-03-01T12:00", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:59.999999Z"),
            ("2026-03-01 12:00", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:59.999999Z"),
            ("2026-03-01T12:00:05Z", "2026-03-01T12:00:05.000000Z", "2026-03-01T12:00:05.999999Z"),
            ("9999-12-31", "9999-12-30T22:00:00.000000Z", "9999-12-31T23:59:59.999999Z"),
            ("0000", "0000-01-01T00:00:00.000000Z", "0000-12-31T21:59:59.999999Z"),
            ("2026-03-01T12:00:05.5Z", "2026-03-01T12:00:05.500000Z", "2026-03-01T12:00:05.500000Z"),
        ];
        for (text, since, until) in cases {
            let clock = clock();
            assert_eq!(
                (clock.since(text).unwrap().as_str(), clock.until(text).unwrap().as_str()),
                (since, until),
                "{text}"
            );
        }
        for bad in [
            "",
            "soon",
            "2026-13-01",
            "2026-02-30",
            "2026-1-1",
            "26-01-01",
            "2026-01-01T25:00",
            "5 m",
            "12:00",
        ] {
            let error = clock().since(bad).unwrap_err();
            assert!(error.message.starts_with(&format!("invalid time `{bad}`")), "{bad}: {error}");
        }
    }

    #[test]
    fn ages_are_short_and_local() {
        let cases = [
            ("2026-03-10T08:29:48.000000Z", "12s"),
            ("2026-03-10T08:27:00.000000Z", "3m"),
            ("2026-03-10T06:29:59.000000Z", "2h"),
            ("2026-03-09T21:59:00.000000Z", "10h"),
            ("2026-03-09T12:02:00.000000Z", "yesterday 14:02"),
            ("2026-03-10T10:00:00.000000Z", "today 12:00"),
            ("2026-01-05T12:00:00.000000Z", "Jan 5"),
            ("2024-11-12T23:30:00.000000Z", "2024-11-13"),
            ("garbage", "garbage"),
        ];
        for (recorded, age) in cases {
            assert_eq!(clock().age(recorded), age, "{recorded}");
        }
        assert_eq!(clock().ago("2026-03-10T08:27:00.000000Z"), "3m ago");
        assert_eq!(clock().ago("2026-01-05T12:00:00.000000Z"), "Jan 5");
        assert_eq!(clock().day("2026-03-09T22:00:00.000000Z"), "2026-03-10");
        assert_eq!(clock().elapsed_ms("2026-03-10T08:29:48.000000Z"), 12_000);
    }

    #[test]
    fn clock_times_are_next_moments() {
        let clock = LocalClock::new("2026-11-18T09:30:00.000000Z", TimeZone::fixed(jiff::tz::offset(2)));
        for (text, moment) in [
            ("11:45 AM", Some("2026-11-18T09:45:00Z")),
            ("11:45 AM.", Some("2026-11-18T09:45:00Z")),
            ("11:20 AM", Some("2026-11-19T09:20:00Z")),
            ("23:05", Some("2026-11-18T21:05:00Z")),
            ("Nov 23rd, 2026 1:05 PM", Some("2026-11-23T11:05:00Z")),
            ("later", None),
            ("25:00", None),
        ] {
            let wanted = moment.map(|moment| moment.parse::<Timestamp>().unwrap().as_second().unsigned_abs());
            assert_eq!(clock.next_moment(text), wanted, "{text}");
        }
        for (recorded, shown) in [
            ("2026-11-18T07:41:07.000000Z", "09:41:07"),
            ("2026-11-17T23:00:00.000000Z", "01:00:00"),
            ("2026-11-16T23:00:00.000000Z", "2026-11-17 01:00:00"),
            ("now", "now"),
        ] {
            assert_eq!(clock.clock_time(recorded), shown, "{recorded}");
        }
    }
}
