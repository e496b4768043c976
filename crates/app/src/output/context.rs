//! The requests of agent CLIs, by part.

use callsheet_core::library::agent::ContextKind;
use callsheet_core::record::{Digest, Id};
use callsheet_core::source::origin::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostics::DiagnosticOutput;

/// The request that the CLI of an agent sends to its model with a prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextOutput {
    /// The agent.
    pub agent: String,
    /// The version that the CLI reports.
    pub version: Option<String>,
    /// The model that the request names.
    pub model: Option<String>,
    /// The API that the CLI speaks.
    pub api: String,
    /// Whether the CLI ran with an empty home, without the user's own set-up.
    pub isolated: bool,
    /// Whether the shared beginning of the prompt was delivered separately.
    pub split: bool,
    /// The run that it is recorded with.
    pub run: Option<Id>,
    /// The SHA-256 of the prompt.
    pub prompt_sha256: Digest,
    /// The bytes of the body.
    pub bytes: usize,
    /// The tokens of all parts.
    pub tokens: usize,
    /// `exact`, or how the tokens were estimated.
    pub token_method: String,
    /// The part of the request that the provider can cache.
    pub cache: CacheOutput,
    /// The price of the request; null if the model has no known price.
    pub price: Option<ContextPriceOutput>,
    /// How the prompt arrived.
    pub arrival: ArrivalOutput,
    /// The parts in the order in which the model reads them. Their ranges cover every byte of the body once.
    pub parts: Vec<ContextPartOutput>,
    /// The other requests that the CLI made.
    pub side_requests: Vec<SideRequestOutput>,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

/// The beginning of a request that the provider can cache.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CacheOutput {
    /// Whether the CLI marks its end; otherwise the provider caches any beginning that it has seen before.
    pub is_marked: bool,
    /// The number of parts that it covers.
    pub part_count: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Its tokens.
    pub tokens: usize,
}

/// The price of a request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextPriceOutput {
    /// The month of the price list.
    pub as_of: String,
    /// The price if nothing is cached, in millionths of a dollar.
    pub uncached_microusd: u64,
    /// The price if the cacheable beginning is read from the cache, in millionths of a dollar.
    pub cached_microusd: u64,
}

/// How a prompt arrived in a request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ArrivalOutput {
    /// Whether it arrived byte for byte, as a message of its own.
    pub is_exact: bool,
    /// The bytes that the CLI put before it, in the same message.
    pub bytes_before: usize,
    /// The bytes that the CLI put after it, in the same message.
    pub bytes_after: usize,
    /// The bytes that are missing at its start.
    pub missing_start: usize,
    /// The bytes that are missing at its end.
    pub missing_end: usize,
    /// Whether other bytes of it are missing or changed.
    pub is_changed: bool,
}

/// A part of a request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextPartOutput {
    /// The kind.
    pub kind: ContextKind,
    /// The name: of a tool, of a text, or the path of an instruction file.
    pub name: String,
    /// The MCP server of a tool.
    pub server: Option<String>,
    /// The bytes of the body.
    pub bytes: usize,
    /// The tokens.
    pub tokens: usize,
    /// The share of the body, in percent.
    pub share_percent: f64,
    /// The price if it is not cached, in millionths of a dollar.
    pub price_microusd: Option<u64>,
    /// The price if it is read from the cache, in millionths of a dollar.
    pub cached_price_microusd: Option<u64>,
    /// Whether the cacheable beginning contains it.
    pub is_cacheable: bool,
    /// The byte ranges of the body.
    pub ranges: Vec<ByteRangeOutput>,
    /// The SHA-256 of the text.
    pub sha256: Digest,
    /// For the prompt: where its bytes come from, most bytes first.
    pub origins: Vec<PromptShareOutput>,
    /// The text, if it was asked for; of a tool and of the structure it is JSON.
    pub text: Option<String>,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ByteRangeOutput {
    /// The offset of the first byte.
    pub start: usize,
    /// The offset after the last byte.
    pub end: usize,
}

/// The share of an origin in the prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PromptShareOutput {
    /// The origin, as `explain` shows it.
    pub origin: String,
    /// The party behind it.
    pub trust: Trust,
    /// Its bytes in the prompt.
    pub bytes: usize,
}

/// A request that is not the one with the prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SideRequestOutput {
    /// The path, without the secret part of the address.
    pub path: String,
    /// The bytes of its body.
    pub bytes: usize,
}

/// The difference of two requests, by part.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextDiffOutput {
    /// The first request.
    pub before: ContextSideOutput,
    /// The second request.
    pub after: ContextSideOutput,
    /// The parts that differ, in the order of the requests.
    pub parts: Vec<PartChangeOutput>,
    /// The number of parts that are equal.
    pub equal_count: usize,
}

/// One of two requests.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextSideOutput {
    /// The agent.
    pub agent: String,
    /// The version of its CLI.
    pub version: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The bytes of the body.
    pub bytes: usize,
    /// The tokens.
    pub tokens: usize,
}

/// A part that differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PartChangeOutput {
    /// The kind.
    pub kind: ContextKind,
    /// The name.
    pub name: String,
    /// The MCP server of a tool.
    pub server: Option<String>,
    /// Its bytes in the first request; null if the request lacks it.
    pub bytes_before: Option<usize>,
    /// Its bytes in the second request; null if the request lacks it.
    pub bytes_after: Option<usize>,
    /// Its tokens in the first request.
    pub tokens_before: Option<usize>,
    /// Its tokens in the second request.
    pub tokens_after: Option<usize>,
    /// The changed lines, if both texts are known.
    pub lines: Vec<PartLineOutput>,
}

/// A line that only one of two texts has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PartLineOutput {
    /// Whether only the second text has it.
    pub is_added: bool,
    /// The line.
    pub line: String,
}

/// The beginning that the requests of several lanes share.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextLanesOutput {
    /// The agent.
    pub agent: String,
    /// The version of its CLI.
    pub version: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The number of lanes.
    pub lane_count: usize,
    /// Each way of delivering the prompts that was tried; the requested one is first.
    pub ways: Vec<LaneWayOutput>,
    /// The least share that was asked for, in percent.
    pub min_shared_percent: Option<f64>,
    /// Whether the first way reaches it.
    pub passes: bool,
    /// Warnings and notes.
    pub diagnostics: Vec<DiagnosticOutput>,
}

/// The requests of all lanes with one way of delivering the prompts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LaneWayOutput {
    /// Whether the shared beginning of the prompts was delivered separately.
    pub split: bool,
    /// The bytes of the smallest request that the model reads.
    pub bytes: usize,
    /// The tokens of the same request.
    pub tokens: usize,
    /// The bytes that all requests share as their beginning.
    pub shared_bytes: usize,
    /// The tokens of these bytes.
    pub shared_tokens: usize,
    /// Their share of the bytes, in percent.
    pub shared_percent: f64,
    /// The part in which the first difference is.
    pub ended_by: Option<LaneEndOutput>,
    /// The price of all lanes, in millionths of a dollar; null if the model has no known price.
    pub price: Option<ContextPriceOutput>,
}

/// The part that ends the shared beginning.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LaneEndOutput {
    /// The kind.
    pub kind: ContextKind,
    /// The name.
    pub name: String,
    /// For the prompt, the origin of the first different byte.
    pub origin: Option<String>,
    /// The text of the first lane from the difference on, at most 80 characters.
    pub excerpt: String,
}
