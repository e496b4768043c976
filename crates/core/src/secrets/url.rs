//! Hides passwords in the address of a ledger: `postgres://user:password@host/db?password=…`, or
//! `host=… password=…`.
//!
//! It hides too much rather than too little: a password may hold any character that a person forgot to
//! encode.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::ops::Range;

/// The replacement for a password.
const HIDDEN: &str = "…";

/// The PostgreSQL options whose values are shown. A hidden value ends before the next known option, shown or
/// hidden.
const SHOWN_OPTIONS: [&str; 24] = [
    "user",
    "dbname",
    "options",
    "application_name",
    "sslmode",
    "sslcert",
    "sslrootcert",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
    "client_encoding",
    "gssencmode",
    "replication",
    "krbsrvname",
];

/// The PostgreSQL options whose values are hidden.
const HIDDEN_OPTIONS: [&str; 4] = ["password", "passfile", "sslpassword", "sslkey"];

/// Parts of the names of options with secret values.
const SECRET_NAMES: [&str; 5] = ["pass", "pwd", "secret", "token", "sslkey"];

/// Returns the address of a ledger with its passwords hidden.
pub fn mask_address(address: &str) -> String {
    let mut shown = String::new();
    let mut end = 0;
    for range in find_hidden_ranges(address) {
        shown.push_str(&address[end..range.start]);
        shown.push_str(HIDDEN);
        end = range.end;
    }
    shown.push_str(&address[end..]);
    shown
}

/// Returns a text with the passwords of `address` hidden in all of their spellings.
pub fn mask_address_in(text: &str, address: &str) -> String {
    let ranges = find_hidden_ranges(address);
    if ranges.is_empty() {
        return text.to_string();
    }
    let mut secrets: Vec<String> = Vec::new();
    for range in &ranges {
        let raw = &address[range.clone()];
        for spelled in [raw.to_string(), percent_decode(raw), raw.trim_matches('\'').to_string()] {
            // JSON escapes quotes and control characters.
            let json = serde_json::Value::from(spelled.as_str()).to_string();
            secrets.push(json.trim_matches('"').to_string());
            secrets.push(spelled);
        }
    }
    let mut shown = text.replace(address, &mask_address(address));
    // Fewer than three characters occur in any text.
    secrets.retain(|secret| secret.chars().count() > 2);
    secrets.sort_by_key(|secret| core::cmp::Reverse(secret.len()));
    for secret in &secrets {
        shown = shown.replace(secret.as_str(), HIDDEN);
    }
    shown
}

/// Returns a text with the passwords of its PostgreSQL addresses hidden.
pub fn mask_addresses(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = [rest.find("postgres://"), rest.find("postgresql://")].into_iter().flatten().min() {
        let end =
            rest[at..].find([' ', '\t', '\n', '\'', '"', '`', '<', '>']).map_or(rest.len(), |end| at + end);
        shown.push_str(&rest[..at]);
        shown.push_str(&mask_address(&rest[at..end]));
        rest = &rest[end..];
    }
    shown.push_str(rest);
    shown
}

/// Returns the ranges of the passwords, in order and apart.
fn find_hidden_ranges(address: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = find_credentials(address).into_iter().collect();
    let mut at = 0;
    while let Some(value) = find_secret_option(address, at) {
        at = value.end.max(at + 1);
        ranges.push(value);
        if at >= address.len() {
            break;
        }
    }
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Returns the range from the first colon after the scheme to the last `@`: a password that was not encoded
/// may hold any character.
fn find_credentials(address: &str) -> Option<Range<usize>> {
    let scheme = address.find("://").map(|at| at + 3);
    let start = scheme.unwrap_or(0);
    let rest = &address[start..];
    let colon = rest.find(':')?;
    if let Some(at) = rest.rfind('@').filter(|at| *at > colon) {
        return Some(start + colon + 1..start + at);
    }
    // Without an `@`, the text after the colon is a port, or a password whose host was forgotten.
    scheme?;
    let end = rest[colon..].find(['/', '?']).map_or(rest.len(), |at| colon + at);
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b",:[]".contains(&byte));
    (!rest.starts_with('[')
        && !rest[colon + 1..end]
            .split(',')
            .all(|part| is_port(part.rsplit_once(':').map_or(part, |(_, port)| port))))
    .then(|| start + colon + 1..address.len())
}

/// Returns the value of the first option with a secret name at or after `from`.
fn find_secret_option(address: &str, from: usize) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        let equals = at + address.get(at..)?.find('=')?;
        let before = address[..equals].trim_end();
        let start = before.rfind(['?', '&', ' ', '\t', '\n', ';', '/', '@']).map_or(0, |at| at + 1);
        let name = percent_decode(&before[start..]).to_lowercase();
        if SECRET_NAMES.iter().any(|secret| name.contains(secret)) {
            return Some(equals + 1..find_value_end(address, equals + 1));
        }
        at = equals + 1;
    }
}

/// Returns the end of a value, which is before the next known option.
fn find_value_end(address: &str, start: usize) -> usize {
    let value = &address[start..];
    let ends = value.char_indices().filter(|(_, c)| matches!(c, '&' | ' ' | '\t' | '\n'));
    let is_option = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '\t', '\n', '&']);
        rest.split_once('=').is_some_and(|(name, _)| {
            let name = name.trim_end().to_lowercase();
            SHOWN_OPTIONS.contains(&name.as_str()) || HIDDEN_OPTIONS.contains(&name.as_str())
        })
    };
    ends.map(|(at, _)| at).find(|at| is_option(&value[*at..])).map_or(address.len(), |at| start + at)
}

/// Returns the text with `%41` decoded as `A`; other text stays.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain: Vec<u8> = Vec::with_capacity(bytes.len());
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
            }
            (byte, ..) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).unwrap_or_else(|_| text.to_string())
}
