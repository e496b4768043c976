//! Reads all facts about one recorded run.

use callsheet_core::flow::FlowEvent;
use callsheet_core::record::{Composed, Id, RunSummary};
use callsheet_store::{Ledger, RunRow};

use crate::error::Result;
use crate::flow::RecordedFlow;

/// A recorded run.
#[derive(Clone, Debug)]
pub struct RunView {
    /// The run, its end and its verdict.
    pub row: RunRow,
    /// The prompt and what it was made of.
    pub composed: Composed,
    /// What was observed of the run.
    pub summary: RunSummary,
    /// Number of records.
    pub records: usize,
    /// The reasons why the last submission of the run was refused, as its flow recorded them.
    pub refused: Vec<String>,
}

impl RunView {
    /// Reads a run of the ledger.
    pub fn read(ledger: &mut Ledger, row: RunRow) -> Result<Self> {
        let composed = ledger.prompt_record(&row.run.id)?;
        let records = ledger.count_records(&row.run.id)?;
        let summary = ledger.run_summary(&row.run.id)?;
        let refused = find_refusals(ledger, &summary)?;
        Ok(Self { row, composed, summary, records, refused })
    }
}

fn find_refusals(ledger: &mut Ledger, summary: &RunSummary) -> Result<Vec<String>> {
    let of_run = summary.submitted.last().map(|last| last.refused.clone()).unwrap_or_default();
    let flow = summary.launch.as_ref().and_then(|launch| Id::parse(launch.flow.get("flow")?));
    let Some(flow) = flow else { return Ok(of_run) };
    let known = RecordedFlow::read(ledger, &flow)?;
    let of_flow = known.into_iter().flat_map(|known| known.events).find_map(|event| match event {
        FlowEvent::LaneEnded { run, refused, .. } if run == summary.run.id.as_str() => Some(refused),
        _ => None,
    });
    Ok(of_flow.unwrap_or(of_run))
}
