//! Adopts and forgets ledgers for this user, after a person agreed.

use std::collections::{BTreeMap, BTreeSet};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::flow::FlowEvent;
use callsheet_core::record::{Event, FlowRecord, Id, LaunchRecord, RunOptions};
use callsheet_store::{Head, Ledger, LedgerProblemKind, OpenMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

use super::known_ledger::{KnownEntry, KnownLedger};
use super::{LedgerTrust, check_head, judge_ledger, read_timeouts};
use crate::error::Result;
use crate::project::Project;
use crate::project::person::refuse_below_guard;

/// A ledger and its contents, for the person who decides about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct LedgerAdoption {
    /// The id of the ledger.
    pub id: Id,
    /// Whether this user knows the ledger already.
    pub is_known: bool,
    /// What is in the ledger.
    pub contents: LedgerContents,
    known: KnownLedger,
    ledger: Ledger,
}

/// Whether a ledger is known and there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LedgerState {
    /// Known, and gone.
    Gone,
    /// Known, and another file is in its place.
    Replaced,
    /// Known, and there.
    Known,
    /// Neither known nor there.
    None,
    /// There, and not known.
    Unknown,
}

impl LedgerState {
    /// Returns the state as a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Replaced => "replaced",
            Self::Known => "known",
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }
}

/// Summary of a ledger's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerContents {
    /// Number of runs.
    pub runs: usize,
    /// Number of flows.
    pub flows: usize,
    /// The programs that its runs and flows start.
    pub programs: BTreeSet<String>,
    /// Time of the first record.
    pub first: Option<String>,
    /// Time of the last record.
    pub last: Option<String>,
    /// The head.
    pub head: Head,
    /// Number of damaged places.
    pub damage: usize,
}

impl Project {
    /// Opens the ledger of the project for a decision about it, even if it is foreign.
    pub fn inspect_ledger(&self) -> Result<LedgerAdoption> {
        let none = || Diagnostic::error(Code::LedgerNotThere, "no ledger to adopt");
        let place = self.prepare_ledger_url(OpenMode::Write)?.ok_or_else(none)?;
        let known = KnownLedger::from_url(&place)?;
        let mut ledger = Ledger::connect(&place, OpenMode::Write, read_timeouts()?)?;
        let id = ledger.id()?.ok_or_else(none)?;
        let is_known = known.entry().is_some_and(|entry| entry.id == id && entry.inode == known.inode())
            && judge_ledger(&known, &mut ledger).is_ok_and(|trust| trust == LedgerTrust::Known)
            && check_head(&known, &mut ledger).is_ok();
        let contents = LedgerContents::read(&mut ledger)?;
        Ok(LedgerAdoption { id, is_known, contents, known, ledger })
    }

    /// Forgets the ledger of the project, which is gone, if `agree` finds that a person wants that.
    pub fn forget_lost_ledger(&self, agree: impl FnOnce(&KnownEntry) -> Result<()>) -> Result<KnownEntry> {
        let known = KnownLedger::from_url(&self.require_ledger_url()?)?;
        let entry = known.entry().ok_or_else(|| {
            Diagnostic::error(Code::LedgerNotThere, format!("unknown ledger: {}", known.shown()))
                .hint("run `callsheet ledger list` to list known ledgers")
        })?;
        refuse_below_guard()?;
        agree(&entry)?;
        known.forget();
        Ok(entry)
    }
}

impl LedgerAdoption {
    /// Returns the place of the ledger.
    pub fn place(&self) -> &str {
        self.known.shown()
    }

    /// Makes the ledger known, if `agree` finds that a person wants that.
    pub fn adopt(&mut self, project: &Project, agree: impl FnOnce(&Id) -> Result<()>) -> Result<()> {
        project.refuse_below_ledger_guard(&mut self.ledger)?;
        refuse_below_guard()?;
        agree(&self.id)?;
        let held = self.known.lock()?;
        self.known.register(&mut self.ledger)?;
        drop(held);
        Ok(())
    }
}

impl KnownLedger {
    /// Returns the state of the ledger's place, as far as it is visible without opening the ledger.
    pub fn state(&self) -> LedgerState {
        match (self.entry(), self.file(), self.inode()) {
            (Some(_), Some(_), None) => LedgerState::Gone,
            (Some(entry), Some(_), inode) if entry.inode != inode => LedgerState::Replaced,
            (Some(_), ..) => LedgerState::Known,
            (None, Some(_), None) => LedgerState::None,
            (None, ..) => LedgerState::Unknown,
        }
    }
}

impl LedgerContents {
    fn read(ledger: &mut Ledger) -> Result<Self> {
        let checked = ledger.verify_all(false)?;
        let is_damage = |result| result == LedgerProblemKind::Damaged;
        let mut contents = Self {
            runs: 0,
            flows: ledger.flows()?.len(),
            programs: BTreeSet::new(),
            first: None,
            last: None,
            head: checked.head,
            damage: checked.problems.iter().filter(|problem| is_damage(problem.result)).count(),
        };
        let mut seq = 0;
        loop {
            let page = ledger.records_after(seq, 256)?;
            let Some(newest) = page.last() else { return Ok(contents) };
            seq = newest.seq;
            for record in &page {
                contents.first.get_or_insert_with(|| record.at.clone());
                contents.last = Some(record.at.clone());
                // `verify_all` counts unreadable records as damage.
                if record.flow.is_none() {
                    if let Ok(Some(event)) = record.event() {
                        contents.add_event(&event);
                    }
                } else if let Ok(Some(FlowRecord { event: FlowEvent::Started { more, .. }, .. })) =
                    record.flow_record()
                    && let Ok(programs) = serde_json::from_value(more)
                {
                    contents.add_flow(programs);
                }
            }
        }
    }

    fn add_event(&mut self, event: &Event) {
        let Event::Composed(composed) = event else { return };
        self.runs += 1;
        let Some(LaunchRecord { options, .. }) = &composed.launch else { return };
        if options.program.is_empty() {
            self.programs.insert(format!("the agent {}", composed.run.agent.as_deref().unwrap_or("base")));
        }
        self.add_options(options);
    }

    fn add_flow(&mut self, flow: FlowPrograms) {
        self.add_options(&flow.run);
        let agents = flow.agents.into_values().chain(flow.agent);
        self.programs.extend(agents.map(|agent| format!("the agent {agent}")));
    }

    fn add_options(&mut self, options: &RunOptions) {
        let checks = options.checks.iter().map(|check| &check.argv);
        let programs = checks.chain([&options.program]).filter(|argv| !argv.is_empty());
        self.programs.extend(programs.map(|argv| argv.join(" ")));
    }
}

/// The programs in the start options of a flow.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FlowPrograms {
    agent: Option<String>,
    agents: BTreeMap<String, String>,
    #[serde(flatten)]
    run: RunOptions,
}
