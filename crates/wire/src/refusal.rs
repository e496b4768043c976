//! The requests that a server refused, and why.

use std::fmt;

/// A request that was refused and not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The method; empty if the head of the request was not complete.
    pub method: String,
    /// The path with its query, without the secret part of the address; empty if the head was not complete.
    pub path: String,
    /// The reason.
    pub reason: RefusalReason,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The body is larger than the limit.
    LargeBody {
        /// The limit.
        limit: u64,
        /// The bytes that the head of the request claims, or else the bytes that arrived.
        bytes: u64,
        /// Whether the body has more bytes than that.
        has_more: bool,
    },
    /// The bodies of all connections together are larger than the limit.
    HeldBytes {
        /// The limit.
        limit: u64,
    },
    /// The body did not arrive in time.
    SlowBody {
        /// The bytes that arrived.
        bytes: u64,
    },
    /// The connection ended before the body, or the chunks of the body are not valid.
    BrokenBody {
        /// The bytes that arrived.
        bytes: u64,
    },
    /// The head is larger than the limit, or has too many headers.
    LargeHead,
    /// The head did not arrive in time.
    SlowHead,
    /// The head is not valid HTTP, or is not complete.
    BrokenHead,
    /// The answer was not read in time.
    SlowReader,
    /// The body has an encoding that no known CLI uses, such as gzip.
    EncodedBody {
        /// The encoding.
        encoding: String,
    },
    /// The body cannot be decoded by the encoding that it claims.
    BrokenEncoding,
    /// The body is not the JSON object of a request to a model.
    NotJson {
        /// The line of the first byte that does not fit, from 1; 0 if unknown.
        line: usize,
        /// Its column, from 1; 0 if unknown.
        column: usize,
    },
    /// As many requests were kept as the limit allows.
    ManyRequests {
        /// The limit.
        limit: usize,
    },
    /// As many bytes were kept as the limit allows.
    KeptBytes {
        /// The limit.
        limit: u64,
    },
}

impl RefusalReason {
    /// Returns the status of HTTP for the answer. Agent CLIs do not repeat a request after 400 or 413.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::LargeBody { .. } => 413,
            Self::SlowBody { .. } => 408,
            Self::HeldBytes { .. } => 503,
            _ => 400,
        }
    }
}

impl fmt::Display for RefusedRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.method.is_empty() {
            return write!(out, "{}", self.reason);
        }
        write!(out, "{} {}: {}", self.method, self.path, self.reason)
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LargeBody { limit, bytes, has_more } => {
                let more = if *has_more { "more than " } else { "" };
                write!(out, "the body has {more}{bytes} bytes, and the limit is {limit}")
            }
            Self::HeldBytes { limit } => {
                write!(out, "the bodies that arrive have more than {limit} bytes together")
            }
            Self::SlowBody { bytes } => write!(out, "the body did not arrive in time ({bytes} bytes did)"),
            Self::BrokenBody { bytes } => {
                write!(out, "the body ended too early or is not valid ({bytes} bytes arrived)")
            }
            Self::LargeHead => write!(out, "the headers are too large or too many"),
            Self::SlowHead => write!(out, "the headers did not arrive in time"),
            Self::BrokenHead => write!(out, "the request is not valid HTTP"),
            Self::SlowReader => write!(out, "the answer was not read in time"),
            Self::EncodedBody { encoding } => {
                write!(out, "the body has the encoding `{encoding}`, which is not supported")
            }
            Self::BrokenEncoding => write!(out, "the body cannot be decoded"),
            Self::NotJson { line, column } => {
                write!(out, "the body is not a JSON request (line {line}, column {column})")
            }
            Self::ManyRequests { limit } => write!(out, "the limit of {limit} requests is reached"),
            Self::KeptBytes { limit } => {
                write!(out, "the limit of {limit} bytes for all requests is reached")
            }
        }
    }
}
