//! Answers of a model that does not work: a refused key, and a quota that is used up.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::script::{Failure, Step};

/// The end of a quota, as far away as it can be: 2100-01-01.
const END: u64 = 4_102_444_800;

impl Step {
    /// Returns an error with this status, body and headers.
    pub fn fail_with(status: u16, error: Value, headers: &[(&str, &str)]) -> Self {
        let headers: BTreeMap<String, String> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let body = json!({ "type": "error", "error": error });
        Self { fail: Some(Failure::Status { status, body, headers }), ..Self::default() }
    }
}

/// Returns the body of an error that is valid in all protocols.
pub fn error_body(kind: &str, code: u16, state: &str, message: &str) -> Value {
    json!({ "type": kind, "code": code, "status": state, "message": message })
}

/// Returns the answer to a key that is not valid.
pub fn refused_key() -> Step {
    let error = error_body("authentication_error", 401, "UNAUTHENTICATED", "invalid x-api-key");
    Step::fail_with(401, error, &[])
}

/// Returns the answer after a quota is used up, with its end in the form that the CLI can report.
pub fn used_quota(cli: Cli) -> Step {
    let usual = error_body("rate_limit_error", 429, "RESOURCE_EXHAUSTED", "You exceeded your current quota");
    match cli {
        Cli::Claude => Step::fail_with(
            429,
            usual,
            &[
                ("anthropic-ratelimit-unified-status", "rejected"),
                ("anthropic-ratelimit-unified-reset", &END.to_string()),
                ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
                ("retry-after", "3600"),
            ],
        ),
        Cli::Codex => {
            let text = "The usage limit has been reached";
            Step::fail_with(
                429,
                json!({ "type": "usage_limit_reached", "message": text, "plan_type": "plus", "resets_at": END }),
                &[],
            )
        }
        Cli::Gemini => {
            let mut error = usual;
            error["details"] = json!([
                { "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{ "quotaId": "RequestsPerDay" }] },
                { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s" },
            ]);
            Step::fail_with(429, error, &[])
        }
        Cli::Copilot | Cli::Opencode => Step::fail_with(429, usual, &[("retry-after", "3600")]),
    }
}
