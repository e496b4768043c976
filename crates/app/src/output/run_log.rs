//! The records of a run and the output of its agent.

use callsheet_core::record::{Digest, Id, LogStream};
use callsheet_store::{LedgerError, LogExcerpt, StoredRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::Result;

/// A record of the ledger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RecordOutput {
    /// The number of the record.
    pub seq: u64,
    /// When it was appended.
    pub at: String,
    /// The kind of the record.
    pub kind: String,
    /// The run.
    pub run: Option<String>,
    /// The flow.
    pub flow: Option<String>,
    /// The payload; `null` if retention removed it.
    pub data: Value,
    /// The SHA-256 of the payload.
    pub payload_sha256: Digest,
    /// The link of the record in the chain.
    pub chain: Digest,
}

impl RecordOutput {
    /// Describes a record. A payload that is no JSON is damage.
    pub fn new(record: &StoredRecord) -> Result<Self> {
        let wrong = |error| LedgerError::Damaged(format!("record {}: {error}", record.seq));
        let data = record.payload.as_deref().map(serde_json::from_str).transpose().map_err(wrong)?;
        Ok(Self {
            seq: record.seq,
            at: record.at.clone(),
            kind: record.kind.clone(),
            run: record.run.clone(),
            flow: record.flow.clone(),
            data: data.unwrap_or_default(),
            payload_sha256: record.payload_sha256,
            chain: record.chain,
        })
    }
}

/// Lines that an agent printed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RunLogOutput {
    /// The run.
    pub run: Id,
    /// The stream.
    pub stream: LogStream,
    /// The lines.
    pub items: Vec<LogLineOutput>,
    /// The number of lines of the whole stream.
    pub total_lines: u64,
    /// Whether lines before the first one were asked for and left out.
    pub has_more: bool,
    /// Whether the agent printed more than is kept.
    pub cut: bool,
    /// The number of bytes that were left out as a whole.
    pub left_out_bytes: u64,
    /// The number of lines whose end is missing.
    pub cut_lines: u64,
}

/// A line that an agent printed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LogLineOutput {
    /// The number of the line, from 1.
    pub line: u64,
    /// When it was recorded.
    pub at: String,
    /// The line.
    pub text: String,
}

impl RunLogOutput {
    /// Describes the lines of a stream from the line `since` on.
    pub fn new(run: &Id, stream: LogStream, log: &LogExcerpt, since: u64) -> Self {
        let line = |line: &callsheet_store::LogLine| LogLineOutput {
            line: line.number,
            at: line.at.clone(),
            text: line.data.clone(),
        };
        Self {
            run: run.clone(),
            stream,
            items: log.lines.iter().map(line).collect(),
            total_lines: log.total,
            has_more: log.lines.first().map_or(since, |line| line.number) > since,
            cut: log.cut,
            left_out_bytes: log.left_out,
            cut_lines: log.cut_lines,
        }
    }
}
