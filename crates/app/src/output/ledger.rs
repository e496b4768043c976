//! Ledgers: where they are, what is in them, and whether it is true.

use callsheet_core::record::{Digest, Id};
use callsheet_store::{Head, ImportReport, LedgerProblem, SweepReport, VerifyReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostics::DiagnosticOutput;
use crate::ledger::adopt::{LedgerAdoption, LedgerState};
use crate::ledger::known_ledger::{KnownEntry, KnownLedger};
use crate::ledger::verify::problem_code;

/// The newest record of a ledger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct HeadOutput {
    /// The number of the record.
    pub seq: u64,
    /// Its link in the chain.
    pub chain: Digest,
}

impl From<&Head> for HeadOutput {
    fn from(head: &Head) -> Self {
        Self { seq: head.seq, chain: head.chain }
    }
}

/// A ledger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LedgerOutput {
    /// The id of the ledger; `null` if it is not known.
    pub ledger: Option<Id>,
    /// Where it is, without a password.
    pub place: String,
    /// Whether you know it, and whether it is still there.
    pub state: LedgerState,
    /// The head that you saw last.
    pub head: Option<HeadOutput>,
    /// The project whose ledger was asked for.
    pub project: Option<String>,
    /// Warnings about its place.
    pub diagnostics: Vec<DiagnosticOutput>,
}

impl LedgerOutput {
    /// Describes a ledger.
    pub fn new(known: &KnownLedger) -> Self {
        let entry = known.entry();
        Self {
            ledger: entry.as_ref().map(|entry| entry.id.clone()),
            place: entry.map_or_else(|| known.shown().to_owned(), |entry| entry.place),
            state: known.state(),
            head: known.head().as_ref().map(HeadOutput::from),
            project: None,
            diagnostics: Vec::new(),
        }
    }
}

/// A ledger that is adopted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AdoptionOutput {
    /// The id of the ledger.
    pub ledger: Id,
    /// Where it is, without a password.
    pub place: String,
    /// The number of its runs.
    pub run_count: usize,
    /// The number of its flows.
    pub flow_count: usize,
    /// The programs that its runs and flows start.
    pub programs: Vec<String>,
    /// When its first record was appended.
    pub first_at: Option<String>,
    /// When its last record was appended.
    pub last_at: Option<String>,
    /// The head.
    pub head: HeadOutput,
    /// The number of damaged places.
    pub damage_count: usize,
}

impl From<&LedgerAdoption> for AdoptionOutput {
    fn from(found: &LedgerAdoption) -> Self {
        let contents = &found.contents;
        Self {
            ledger: found.id.clone(),
            place: found.place().to_owned(),
            run_count: contents.runs,
            flow_count: contents.flows,
            programs: contents.programs.iter().cloned().collect(),
            first_at: contents.first.clone(),
            last_at: contents.last.clone(),
            head: (&contents.head).into(),
            damage_count: contents.damage,
        }
    }
}

/// A ledger that was forgotten.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ForgottenOutput {
    /// The id of the ledger.
    pub ledger: Id,
    /// Where it was.
    pub place: String,
}

impl From<&KnownEntry> for ForgottenOutput {
    fn from(entry: &KnownEntry) -> Self {
        Self { ledger: entry.id.clone(), place: entry.place.clone() }
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct VerificationOutput {
    /// The number of records whose links are right.
    pub record_count: u64,
    /// The number of runs.
    pub run_count: usize,
    /// The number of prompts that were composed again with the same bytes.
    pub same_count: usize,
    /// The number of texts that were read.
    pub blob_count: usize,
    /// The head.
    pub head: HeadOutput,
    /// Prompts whose proof needs secret values.
    pub sealed: Vec<SealedRunOutput>,
    /// Prompts that another version of the engine composed.
    pub other_engines: Vec<OtherEngineOutput>,
    /// Everything that is wrong.
    pub problems: Vec<LedgerProblemOutput>,
}

/// A prompt whose proof needs secret values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SealedRunOutput {
    /// The run.
    pub run: Id,
    /// The names of the values.
    pub values: Vec<String>,
}

/// A prompt that another version of the engine composed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OtherEngineOutput {
    /// The run.
    pub run: Id,
    /// The version of the engine.
    pub engine: u32,
}

/// A problem of a ledger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LedgerProblemOutput {
    /// The stable code, such as `ledger/damaged`.
    pub code: String,
    /// The finding in words.
    pub message: String,
    /// The run that it is about.
    pub run: Option<String>,
    /// The record that it is about.
    pub record: Option<u64>,
    /// The place, as it is shown: a record, a run, a text, the head.
    pub subject: String,
}

impl From<&LedgerProblem> for LedgerProblemOutput {
    fn from(problem: &LedgerProblem) -> Self {
        let of = |word: &str| problem.place.strip_prefix(word).map(str::trim);
        Self {
            code: problem_code(problem.result).as_str().to_owned(),
            message: problem.to_string(),
            run: of("run ").map(|run| run.split([' ', ',', ':']).next().unwrap_or(run).to_owned()),
            record: of("record ").and_then(|number| number.split([' ', ',', ':']).next()?.parse().ok()),
            subject: problem.place.clone(),
        }
    }
}

impl From<&VerifyReport> for VerificationOutput {
    fn from(report: &VerifyReport) -> Self {
        let VerifyReport { records, runs, same, blobs, sealed, other_engines, problems, head } = report;
        let sealed =
            sealed.iter().map(|(run, values)| SealedRunOutput { run: run.clone(), values: values.clone() });
        let engines =
            other_engines.iter().map(|(run, engine)| OtherEngineOutput { run: run.clone(), engine: *engine });
        Self {
            record_count: *records,
            run_count: *runs,
            same_count: *same,
            blob_count: *blobs,
            head: head.into(),
            sealed: sealed.collect(),
            other_engines: engines.collect(),
            problems: problems.iter().map(LedgerProblemOutput::from).collect(),
        }
    }
}

/// The runs that retention removes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SweepOutput {
    /// The runs.
    pub runs: Vec<Id>,
    /// Runs that no rule keeps, but that stay because they or their flows have not ended.
    pub unfinished: Vec<Id>,
    /// Whether the clock cannot be right, so that no run is removed because of its age.
    pub clock_is_wrong: bool,
    /// Whether nothing was removed, only named.
    pub dry_run: bool,
    /// The number of records whose payload was removed.
    pub record_count: Option<u64>,
    /// The number of removed texts.
    pub blob_count: Option<u64>,
    /// The size of the removed texts.
    pub bytes: Option<u64>,
    /// The number of the record about the removal.
    pub seq: Option<u64>,
}

impl SweepOutput {
    /// Describes a removal, which was only tried if `dry_run` is set.
    pub fn new(report: &SweepReport, dry_run: bool) -> Self {
        let done = |number: u64| (!dry_run).then_some(number);
        Self {
            runs: report.runs.clone(),
            unfinished: report.unfinished.clone(),
            clock_is_wrong: report.clock_is_wrong,
            dry_run,
            record_count: done(report.records),
            blob_count: done(report.blobs),
            bytes: done(report.bytes),
            seq: report.seq,
        }
    }
}

/// The result of an import.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ImportOutput {
    /// The number of added runs.
    pub run_count: usize,
    /// The number of added records.
    pub record_count: usize,
    /// The number of runs that were there already.
    pub known_count: usize,
    /// Whether the ledger has the same chain as the export.
    pub same_chain: bool,
}

impl From<&ImportReport> for ImportOutput {
    fn from(report: &ImportReport) -> Self {
        Self {
            run_count: report.runs,
            record_count: report.records,
            known_count: report.known,
            same_chain: report.same_chain,
        }
    }
}
