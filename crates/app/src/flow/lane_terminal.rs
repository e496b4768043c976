//! Waits for the agent of a lane in its terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::flow::has_submitted;
use callsheet_core::record::{Exit, Id};
use callsheet_core::request::fact::EndReason;
use callsheet_store::Ledger;

use super::lane::LaneJob;
use super::lane_outcome::LaneOutcome;
use crate::error::Result;
use crate::project::Project;
use crate::run::{
    RunStopper, TerminalState, TerminalWatch, complete, recover, run_pending_checks, terminal_summary,
};

/// Poll interval for a terminal.
const TERMINAL_LOOK: Duration = Duration::from_millis(500);

/// Questions that an agent asked in its terminal.
#[derive(Default)]
struct TerminalQuestions {
    /// Open questions, each with the words that followed it.
    open: BTreeMap<String, String>,
    /// Questions after which the agent continued while a person was attached.
    answered: BTreeSet<String>,
}

impl TerminalQuestions {
    /// Detects answers: a person is attached to the terminal, and the text behind a question has grown.
    fn note_answers(&mut self, shown: &str, is_attended: bool) {
        let behind = text_after_questions(shown);
        let is_answered = |before: &String| is_attended && *before != behind;
        let answered =
            self.open.iter().filter(|(_, before)| is_answered(before)).map(|(asked, _)| asked.clone());
        self.answered.extend(answered);
    }

    /// Retains the open questions in `questions`, and returns the new ones.
    fn take_new_questions(&mut self, questions: &mut Vec<String>, shown: &str) -> Vec<String> {
        questions.retain(|question| !self.answered.contains(question));
        let new: Vec<String> =
            questions.iter().filter(|question| !self.open.contains_key(*question)).cloned().collect();
        let behind = text_after_questions(shown);
        self.open.extend(new.iter().map(|question| (question.clone(), behind.clone())));
        new
    }
}

/// Returns the words behind the last question, without whitespace and punctuation, because those differ in a
/// terminal of another width.
fn text_after_questions(shown: &str) -> String {
    let plain: String = shown.chars().filter(|c| c.is_alphanumeric() || "</>".contains(*c)).collect();
    plain.rsplit("</question>").next().unwrap_or_default().to_owned()
}

impl LaneJob {
    /// Waits for an agent in a terminal. It has ended well if its process ended, or if all its outputs exist
    /// and its pane is idle. While a person is attached, the person answers its questions there.
    pub(super) fn wait_for_terminal(
        &self,
        project: &Project,
        ledger: &mut Ledger,
        run: &Id,
        place: Option<&PathBuf>,
        stopper: &RunStopper,
    ) -> Result<LaneOutcome> {
        let Some(mut watch) = TerminalWatch::find(run)? else {
            recover(project, ledger, run, EndReason::Lost, "its terminal is gone")?;
            return self.collect_outcome(project, &ledger.run_summary(run)?, place);
        };
        let mut dialog = TerminalQuestions::default();
        project.observer.status(&format!(
            "{} {}: `{}`",
            self.phase.name,
            self.lane.id,
            watch.attach_command()
        ));
        let (begun, stop) = (Instant::now(), stopper.stop_flag());
        let deadline = self.plan.run.timeout_ms.map(Duration::from_millis);
        let exit = loop {
            let known = ledger.run_summary(run)?;
            if known.is_complete() {
                // A person stopped the run.
                return self.collect_outcome(project, &known, place);
            }
            let state = watch.poll_state();
            if !dialog.open.is_empty() {
                dialog.note_answers(watch.shown(), watch.is_attended());
            }
            if let TerminalState::Gone(code) = state {
                break Exit::new(EndReason::Exited, code);
            }
            if stop.is_stopped() {
                let (ended, why) = stopper.stop_reason();
                break Exit { why, ..Exit::new(ended, None) };
            }
            if deadline.is_some_and(|deadline| begun.elapsed() > deadline) {
                break Exit::new(EndReason::Timeout, None);
            }
            if state == TerminalState::Idle {
                let seen = terminal_summary(project, ledger, run, watch.shown())?;
                let LaneOutcome { evidence, mut submissions, .. } =
                    self.collect_outcome(project, &seen, place)?;
                let new = dialog.take_new_questions(&mut submissions.questions, watch.shown());
                if !new.is_empty() {
                    let asks = new.join("; ");
                    project.observer.status(&format!(
                        "`{}` asks: {asks}: `{}`",
                        self.lane.id,
                        watch.attach_command()
                    ));
                }
                let is_open = !submissions.questions.is_empty();
                let is_done = has_submitted(&self.phase, &self.lane, &evidence);
                if is_open && !watch.is_attended() || !is_open && (is_done || !submissions.refused.is_empty())
                {
                    let why = Some("its work is complete and its terminal is idle".to_owned());
                    break Exit { why, ..Exit::new(EndReason::Exited, Some(0)) };
                }
            }
            thread::sleep(TERMINAL_LOOK);
        };
        let shown = watch.text();
        watch.close()?;
        complete(project, ledger, run, exit, Some(&shown))?;
        let account = ledger.run_summary(run)?;
        let account = run_pending_checks(project, ledger, account, stopper, &self.progress)?;
        let mut outcome = self.collect_outcome(project, &account, place)?;
        outcome.submissions.questions.retain(|question| !dialog.answered.contains(question));
        Ok(outcome)
    }
}
