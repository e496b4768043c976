//! Explains missing evidence of a flow's lane from the records of its run. The reasons are derived when they
//! are shown, so records of older versions have them too.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Exit, RecordedReply, RunSummary};
use crate::flow::{Evidence, EvidenceNeed, LaneDetails, parse_need};
use crate::library::contract::Status;
use crate::reply::{Outcome, ProblemCode, ReplyProblem};
use crate::request::fact::{CheckResult, CheckRun, EndReason, Violation, ViolationDecision, ViolationReason};
use crate::text::glob::Glob;
use crate::text::word_enum::word_enum;

word_enum! {
    /// The kind of a reason why evidence is missing. The spelling is stable.
    LackCode {
        /// The agent gave no reply.
        NoReply "no_reply",
        /// The reply has a problem, such as a marker that does not count.
        ReplyProblem "reply_problem",
        /// The reply has another verdict.
        OtherVerdict "other_verdict",
        /// The review passes, but rates a finding as critical or high.
        SevereFinding "severe_finding",
        /// The reply does not report a task as completed.
        TaskOpen "task_open",
        /// The reply has no such claim.
        NoClaim "no_claim",
        /// A change outside of the scope waits for a person's decision.
        Undecided "undecided",
        /// A person rejected a change outside of the scope.
        Rejected "rejected",
        /// A person has accepted every change since.
        Accepted "accepted",
        /// A file could not be observed.
        Unseen "unseen",
        /// The lane changed a document of another phase.
        ForeignDocument "foreign_document",
        /// A check failed.
        CheckFailed "check_failed",
        /// A check has no result.
        CheckNotRun "check_not_run",
        /// No such check is configured.
        NoCheck "no_check",
        /// The file is from an earlier round.
        FileStale "file_stale",
        /// The file was not written.
        FileMissing "file_missing",
        /// The agent submitted nothing for the contract.
        NotSubmitted "not_submitted",
        /// The submission or the plan was refused.
        Refused "refused",
        /// There is no execution plan.
        NoPlan "no_plan",
        /// The plan does not ask for a design.
        NoDesign "no_design",
        /// No requested research is open.
        NoTopics "no_topics",
        /// The flow did not change the changelog.
        ChangelogUnchanged "changelog_unchanged",
        /// The agent ended with another exit code than 0.
        ExitCode "exit_code",
        /// The agent did not end by itself.
        NotExited "not_exited",
        /// The agent reported a failure.
        ReportedFailure "reported_failure",
        /// The records do not show the reason.
        Unknown "unknown",
    }
}

/// Reason why a word of evidence is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LackReason {
    /// The word of evidence.
    pub need: String,
    /// The kind of the reason.
    pub code: LackCode,
    /// The reason in words.
    pub message: String,
    /// The problem of the reply.
    pub problem: Option<ProblemCode>,
    /// The line in the agent's text.
    pub line: Option<usize>,
    /// The path that the reason is about.
    pub path: Option<String>,
    /// The last lines of a failed check.
    pub output: Vec<String>,
}

/// Records of a lane that lacks evidence.
#[derive(Clone, Copy, Debug)]
pub struct LackContext<'l> {
    /// Evidence of the lane.
    pub evidence: &'l Evidence,
    /// Its last run; `None` if the records of the run are gone.
    pub run: Option<&'l RunSummary>,
    /// Reasons why its last submission was refused.
    pub refused: &'l [String],
    /// Documents of an earlier round that were set aside.
    pub aside: &'l BTreeSet<String>,
    /// Further observations at its end.
    pub details: &'l LaneDetails,
}

/// The most lines of a failed check.
const MOST_LINES: usize = 6;

/// Explains why each of these words is missing, in order. Every word has at least one reason.
pub fn explain_lacks(lacks: &[String], context: &LackContext<'_>) -> Vec<LackReason> {
    lacks.iter().flat_map(|need| context.explain(need)).collect()
}

impl LackReason {
    fn new(need: &str, code: LackCode, message: impl Into<String>) -> Self {
        let (need, message) = (need.to_string(), message.into());
        Self { need, code, message, problem: None, line: None, path: None, output: Vec::new() }
    }

    fn about(self, path: &str) -> Self {
        Self { path: Some(path.to_string()), ..self }
    }
}

impl LackContext<'_> {
    fn explain(&self, need: &str) -> Vec<LackReason> {
        let reasons = match (parse_need(need), need) {
            (Some(EvidenceNeed::Reply(word)), _) => self.explain_reply(need, word),
            (Some(EvidenceNeed::Submission(name)), _) => {
                self.refused_or(need, LackCode::NotSubmitted, &format!("the agent did not submit `{name}`"))
            }
            (Some(EvidenceNeed::File(path)), _) => alloc::vec![self.explain_file(need, path)],
            (Some(EvidenceNeed::Check(name)), _) => self.explain_checks(need, Some(name)),
            (_, "checks" | "checks-or-none") => self.explain_checks(need, None),
            (_, "clean") => self.explain_changes(need),
            (_, "exit") => self.explain_exit(need),
            (_, "plan") => self.refused_or(need, LackCode::NoPlan, "there is no execution plan"),
            (_, "plan.needs_design") => {
                alloc::vec![LackReason::new(need, LackCode::NoDesign, "the plan does not ask for a design")]
            }
            (_, "topics") => {
                alloc::vec![LackReason::new(need, LackCode::NoTopics, "no requested research is open")]
            }
            (_, "changelog-or-none") => alloc::vec![self.explain_changelog(need)],
            _ => Vec::new(),
        };
        if reasons.is_empty() { alloc::vec![self.unknown(need)] } else { reasons }
    }

    fn unknown(&self, need: &str) -> LackReason {
        let message = match self.run {
            Some(_) => "the records of the run do not show why",
            None => "the records of the run are gone",
        };
        LackReason::new(need, LackCode::Unknown, message)
    }

    fn refused_or(&self, need: &str, code: LackCode, message: &str) -> Vec<LackReason> {
        if self.refused.is_empty() {
            return alloc::vec![LackReason::new(need, code, message)];
        }
        let refused = self.refused.iter();
        refused.map(|why| LackReason::new(need, LackCode::Refused, format!("refused: {why}"))).collect()
    }

    fn explain_reply(&self, need: &str, word: &str) -> Vec<LackReason> {
        let Some(run) = self.run else { return Vec::new() };
        let Some(reply) = run.reply().filter(|reply| !is_empty_reply(reply)) else {
            return alloc::vec![LackReason::new(need, LackCode::NoReply, "the agent gave no reply")];
        };
        if word == "complete" || reply.outcome == Outcome::Incomplete {
            return explain_tasks(need, reply);
        }
        let given = self.evidence.iter().filter_map(|word| word.strip_prefix("reply."));
        let given: Vec<&str> = given.filter(|given| is_verdict(given)).collect();
        if word == "PASS" && reply.outcome == Outcome::Pass && !given.contains(&"PASS") {
            let message = "the review passes, but rates a finding as critical or high";
            return alloc::vec![LackReason::new(need, LackCode::SevereFinding, message)];
        }
        let mut reasons: Vec<LackReason> = given
            .iter()
            .map(|given| LackReason::new(need, LackCode::OtherVerdict, format!("the verdict is `{given}`")))
            .collect();
        if reasons.is_empty() || reply.outcome == Outcome::ForeignVerdict {
            reasons.extend(explain_problems(need, reply, |code| !is_about_tasks(code)));
        }
        if reasons.is_empty() {
            let message = format!("the reply has no `{word}`");
            reasons.push(LackReason::new(need, LackCode::NoClaim, message));
        }
        reasons
    }

    fn explain_file(&self, need: &str, path: &str) -> LackReason {
        let glob = Glob::new(path);
        match self.aside.iter().find(|file| glob.covers(file)) {
            Some(file) => {
                let from = if file == path { "it is".to_string() } else { format!("`{file}` is") };
                let message = format!("`{path}` was not written in this round; {from} from an earlier one");
                LackReason::new(need, LackCode::FileStale, message).about(file)
            }
            None => {
                let message = format!("`{path}` was not written in this round");
                LackReason::new(need, LackCode::FileMissing, message).about(path)
            }
        }
    }

    fn explain_checks(&self, need: &str, only: Option<&str>) -> Vec<LackReason> {
        let Some(run) = self.run else { return Vec::new() };
        let planned = run.launch.iter().flat_map(|launch| &launch.options.checks);
        let planned: Vec<&str> = planned.map(|check| check.name.as_str()).collect();
        let is_meant = |name: &str| only.is_none_or(|only| only == name);
        let ran = run.observed.iter().flat_map(|observed| &observed.checks);
        let ran: Vec<&CheckRun> = ran.filter(|check| is_meant(&check.name)).collect();
        let bad = ran.iter().filter(|check| check.result != CheckResult::Passed);
        let mut reasons: Vec<LackReason> = bad.map(|check| explain_check(need, check)).collect();
        let is_open = |name: &&&str| is_meant(name) && !ran.iter().any(|check| check.name == **name);
        reasons.extend(
            planned.iter().filter(is_open).map(|name| {
                LackReason::new(need, LackCode::CheckNotRun, format!("check `{name}` has not run"))
            }),
        );
        if ran.is_empty() && !planned.iter().any(|name| is_meant(name)) {
            let message = match only {
                Some(name) => format!("no check `{name}` is configured"),
                None => "no check is configured".to_string(),
            };
            reasons.push(LackReason::new(need, LackCode::NoCheck, message));
        }
        reasons
    }

    fn explain_changes(&self, need: &str) -> Vec<LackReason> {
        let strayed = self.details.strayed.iter().map(|path| {
            let message = format!("`{path}` is a document of another phase");
            LackReason::new(need, LackCode::ForeignDocument, message).about(path)
        });
        let mut reasons: Vec<LackReason> = strayed.collect();
        let Some(run) = self.run else { return reasons };
        let violations = run.violations();
        let open = violations.iter().filter(|violation| !violation.decision.is_accepted());
        reasons.extend(open.map(|violation| explain_violation(need, violation)));
        let seen = run.observed.as_ref().and_then(|observed| observed.worktree.as_ref());
        reasons.extend(seen.into_iter().flat_map(|seen| seen.newly_unseen()).map(|unseen| {
            let message = format!("`{}` could not be observed: {}", unseen.path, unseen.why);
            LackReason::new(need, LackCode::Unseen, message).about(&unseen.path)
        }));
        if reasons.is_empty() && !violations.is_empty() {
            let message = "a person has accepted every change since";
            reasons.push(LackReason::new(need, LackCode::Accepted, message));
        }
        reasons
    }

    fn explain_exit(&self, need: &str) -> Vec<LackReason> {
        let Some(run) = self.run else { return Vec::new() };
        let reply = run.reply();
        let failed = reply.and_then(|reply| {
            reply.problems.iter().find(|problem| problem.code == ProblemCode::StreamFailed)
        });
        let mut reasons: Vec<LackReason> =
            run.exit.iter().filter_map(|exit| explain_end(need, exit)).collect();
        reasons.extend(failed.map(|problem| LackReason {
            problem: Some(problem.code),
            ..LackReason::new(need, LackCode::ReportedFailure, problem.message.clone())
        }));
        reasons
    }

    fn explain_changelog(&self, need: &str) -> LackReason {
        match &self.details.changelog {
            Some(path) => {
                let message = format!("no run of the flow changed `{path}`");
                LackReason::new(need, LackCode::ChangelogUnchanged, message).about(path)
            }
            None => {
                let message = "no run of the flow changed the project's changelog";
                LackReason::new(need, LackCode::ChangelogUnchanged, message)
            }
        }
    }
}

fn is_empty_reply(reply: &RecordedReply) -> bool {
    reply.text.trim().is_empty()
        && reply.tasks.is_empty()
        && reply.problems.iter().all(|problem| is_absence(problem.code))
}

fn is_verdict(word: &str) -> bool {
    !matches!(word, "complete" | "incomplete" | "no_verdict" | "foreign_verdict" | "none")
}

/// Checks whether the problem only names a missing claim.
fn is_absence(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::NoVerdict | ProblemCode::TaskMissing)
}

fn is_about_tasks(code: ProblemCode) -> bool {
    matches!(
        code,
        ProblemCode::ForeignStatus
            | ProblemCode::TaskMissing
            | ProblemCode::TaskRepeated
            | ProblemCode::TaskUnasked
    )
}

/// Explains by the problems of the reply. A missing verdict is the reason only if no problem explains it.
fn explain_problems(
    need: &str,
    reply: &RecordedReply,
    is_meant: impl Fn(ProblemCode) -> bool,
) -> Vec<LackReason> {
    let meant = || reply.problems.iter().filter(|problem| is_meant(problem.code));
    let has_cause = meant().any(|problem| problem.code != ProblemCode::NoVerdict);
    let shown = meant().filter(|problem| !has_cause || problem.code != ProblemCode::NoVerdict);
    let reason = |problem: &ReplyProblem| {
        let line = problem.place.map(|place| place.line);
        let at = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        let more = if problem.more > 0 { format!(", and {} more", problem.more) } else { String::new() };
        let message = format!("{}{at}{more}", problem.message);
        let reason = LackReason::new(need, LackCode::ReplyProblem, message);
        LackReason { problem: Some(problem.code), line, ..reason }
    };
    shown.map(reason).collect()
}

fn explain_tasks(need: &str, reply: &RecordedReply) -> Vec<LackReason> {
    let open = reply.tasks.iter().filter(|(_, status)| **status != Status::Completed);
    let mut reasons: Vec<LackReason> = open
        .map(|(task, status)| {
            let message = format!("task `{task}` is reported as `{}`", status.name());
            LackReason::new(need, LackCode::TaskOpen, message)
        })
        .collect();
    reasons.extend(explain_problems(need, reply, |code| code != ProblemCode::NoVerdict));
    if reasons.is_empty() {
        let message = "the reply reports no task as completed";
        reasons.push(LackReason::new(need, LackCode::NoClaim, message));
    }
    reasons
}

fn explain_check(need: &str, check: &CheckRun) -> LackReason {
    let (name, command) = (&check.name, check.argv.join(" "));
    let (code, how) = match (check.result, check.ended, check.exit_code) {
        (CheckResult::Pending, ..) => (LackCode::CheckNotRun, "has not run".to_string()),
        (_, Some(EndReason::Timeout), _) => (LackCode::CheckFailed, "exceeded its time limit".to_string()),
        (_, _, Some(code)) => (LackCode::CheckFailed, format!("failed with exit code {code}")),
        _ => (LackCode::CheckFailed, "failed".to_string()),
    };
    let lines: Vec<&str> = check.output.trim_end().lines().collect();
    let output = lines[lines.len().saturating_sub(MOST_LINES)..].iter().map(ToString::to_string).collect();
    LackReason { output, ..LackReason::new(need, code, format!("check `{name}` {how}: `{command}`")) }
}

fn explain_violation(need: &str, violation: &Violation) -> LackReason {
    let path = &violation.path;
    let place = match violation.reason {
        ViolationReason::OutsideWrite => "is outside the scope",
        ViolationReason::Excluded => "is excluded from the scope",
        ViolationReason::LeadsOutside => "leads out of the worktree",
    };
    let (code, decision) = match violation.decision {
        ViolationDecision::Rejected => (LackCode::Rejected, "and a person rejected the change"),
        _ => (LackCode::Undecided, "and undecided"),
    };
    LackReason::new(need, code, format!("`{path}` {place} {decision}")).about(path)
}

fn explain_end(need: &str, exit: &Exit) -> Option<LackReason> {
    let (code, mut message) = match (exit.ended, exit.code, exit.signal) {
        (EndReason::Exited, Some(0), _) => return None,
        (EndReason::Exited, Some(code), _) => {
            (LackCode::ExitCode, format!("the agent ended with exit code {code}"))
        }
        (EndReason::Timeout, ..) => (LackCode::NotExited, "the agent exceeded its time limit".to_string()),
        (EndReason::Cost, ..) => (LackCode::NotExited, "the agent exceeded its cost limit".to_string()),
        (EndReason::Stopped, ..) => (LackCode::NotExited, "a person stopped the agent".to_string()),
        (EndReason::Lost, ..) => (LackCode::NotExited, "the end of the agent was not observed".to_string()),
        (EndReason::Unstarted, ..) => (LackCode::NotExited, "the agent could not be started".to_string()),
        (_, _, Some(signal)) => (LackCode::NotExited, format!("signal {signal} ended the agent")),
        _ => (LackCode::NotExited, "the agent did not end by itself".to_string()),
    };
    message += &exit.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    Some(LackReason::new(need, code, message))
}
