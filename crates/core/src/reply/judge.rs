//! Judges the markers of a reply and derives its outcome.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use unicode_normalization::char::decompose_compatible;

use super::loose_marker::{LooseTag, LooseWord, find_bad_attribute};
use super::problem::{ProblemCode, ReplyProblems, shorten};
use super::scan::{FoundMarker, MarkerStanding};
use super::tag::{Marker, MarkerName, MarkerTag, is_plain, is_word, question_words};
use super::{Outcome, ReplyContext, Status, Verdict};
use crate::library::contract::ContractChoice;
use crate::library::contract::ONE_TASK;

/// The claims of a reply: the words of markers that count, and bad words in any place. A word without a
/// meaning is kept as it is.
#[derive(Debug, Default)]
pub(super) struct ReplyClaims<'t> {
    verdicts: Vec<(usize, Result<Verdict, &'t str>)>,
    tasks: Vec<(usize, &'t str, Result<Status, &'t str>)>,
    /// Offsets of bad words that are not alone in their block.
    loose: Vec<usize>,
    /// Offsets of verdicts that are not alone in their block and cannot be read.
    unreadable: Vec<usize>,
    /// Whether a marker was begun whose intended word is unknown.
    pub(super) broken: bool,
    /// Questions to the person.
    pub(super) questions: Vec<String>,
}

impl<'t> ReplyClaims<'t> {
    pub(super) fn new(text: &'t [u8], found: &[FoundMarker], problems: &mut ReplyProblems) -> Self {
        let mut said = Self::default();
        let marker = |at| MarkerTag::parse_at(text, at).and_then(|tag| Marker::parse(text, &tag));
        for FoundMarker { at, end, standing } in found {
            let at = *at;
            // Most markers may be of no use, so their text is decoded only if a message shows it.
            let shown = || shorten(&String::from_utf8_lossy(&text[at..*end]));
            match standing {
                MarkerStanding::Question => {
                    let words = String::from_utf8_lossy(question_words(&text[at..*end])).trim().to_string();
                    if said.questions.len() < MOST_QUESTIONS && !said.questions.contains(&words) {
                        said.questions.push(words);
                    }
                }
                MarkerStanding::Alone => match marker(at) {
                    Some(marker) => said.add(at, &marker, problems),
                    None => said.report_broken(at, BROKEN, problems),
                },
                MarkerStanding::Enclosed => match marker(at) {
                    Some(marker) if is_good(&marker) && is_plain(marker.name, marker.attributes) => {
                        let message =
                            || format!("`{}` is inside another element, so it does not count", shown());
                        problems.add(ProblemCode::InlineMarker, Some(at), message);
                    }
                    Some(marker) => {
                        said.add(at, &marker, problems);
                        said.loose.push(at);
                    }
                    None => said.report_broken(at, BROKEN, problems),
                },
                MarkerStanding::Indented => {
                    let message = || format!("`{}` is indented like code, so it does not count", shown());
                    problems.add(ProblemCode::IndentedMarker, Some(at), message);
                }
                MarkerStanding::Loose(LooseWord::Good) => {
                    let message = || {
                        format!("`{}` shares its paragraph with other text, so it does not count", shown())
                    };
                    problems.add(ProblemCode::InlineMarker, Some(at), message);
                }
                MarkerStanding::Loose(LooseWord::Broken) => said.report_broken(at, BROKEN, problems),
                MarkerStanding::Loose(word) => {
                    let is_status =
                        LooseTag::parse_near(text, at).is_some_and(|tag| tag.name == MarkerName::TaskStatus);
                    let words = str::from_utf8(&text[at..*end]).unwrap_or("?");
                    match (word, is_status) {
                        (LooseWord::Verdict(verdict), _) => {
                            said.verdicts.push((at, Ok(*verdict)));
                            said.loose.push(at);
                        }
                        (_, false) => said.unreadable.push(at),
                        (word, true) => match find_loose_id(text, at) {
                            Some(id) => {
                                let status =
                                    if *word == LooseWord::Failed { Ok(Status::Failed) } else { Err(words) };
                                said.tasks.push((at, id, status));
                                said.loose.push(at);
                            }
                            None => said.report_broken(at, "a `task_status` needs one `id`", problems),
                        },
                    }
                }
            }
        }
        said
    }

    fn add(&mut self, at: usize, marker: &Marker<'t>, problems: &mut ReplyProblems) {
        // A marker contradicts itself if an attribute says something else.
        if is_good(marker) && !is_plain(marker.name, marker.attributes) {
            self.report_broken(at, TALKATIVE, problems);
        }
        if marker.name == MarkerName::Review {
            self.verdicts.push((at, parse_verdict(marker.word).ok_or(marker.word)));
            if let Some(LooseWord::Verdict(verdict)) =
                find_bad_attribute(MarkerName::Review, marker.attributes)
            {
                self.verdicts.push((at, Ok(verdict)));
            }
            return;
        }
        let Some(id) = find_id(marker) else {
            return self.report_broken(at, "a `task_status` needs one `id`", problems);
        };
        let mut others = marker.attributes().filter(|(name, _)| !name.eq_ignore_ascii_case("id"));
        let failed = others.any(|(name, value)| {
            [name, value]
                .iter()
                .any(|said| find_bad_attribute(MarkerName::TaskStatus, said) == Some(LooseWord::Failed))
        });
        let status = parse_status(marker.word).ok_or(marker.word);
        self.tasks.push((at, id, if failed { Ok(Status::Failed) } else { status }));
    }

    fn report_broken(&mut self, at: usize, message: &str, problems: &mut ReplyProblems) {
        self.broken = true;
        problems.add(ProblemCode::BrokenMarker, Some(at), || message.to_string());
    }

    /// Reports every claim that counts although it is not alone in its block.
    fn report_conflicts(&self, problems: &mut ReplyProblems) {
        for at in &self.loose {
            let message = "a word that is not good counts anywhere in the reply";
            problems.add(ProblemCode::Conflict, Some(*at), || message.to_string());
        }
    }
}

/// The maximum number of distinct questions that are kept.
const MOST_QUESTIONS: usize = 20;

const BROKEN: &str = "incomplete marker: write tag, word and closing tag on one line, or on three";

const TALKATIVE: &str = "a good marker has no attribute except `id`";

/// Returns the id of a marker that has exactly one.
fn find_id<'t>(marker: &Marker<'t>) -> Option<&'t str> {
    let ids = marker.attributes().filter(|(name, _)| name.eq_ignore_ascii_case("id"));
    let mut ids = ids.map(|(_, id)| id.trim());
    ids.next().filter(|id| !id.is_empty() && ids.next().is_none())
}

/// Returns the id of a loose marker, as far as it can be read.
fn find_loose_id(text: &[u8], at: usize) -> Option<&str> {
    let tag = LooseTag::parse_near(text, at)?;
    let attributes = str::from_utf8(&text[tag.name_end..tag.end]).ok()?.trim_end_matches('>');
    let marker = Marker { name: MarkerName::TaskStatus, attributes, word: "", end: tag.end };
    find_id(&marker)
}

pub(super) fn is_good(marker: &Marker<'_>) -> bool {
    match marker.name {
        MarkerName::Review => parse_verdict(marker.word) == Some(Verdict::Pass),
        MarkerName::TaskStatus => parse_status(marker.word) == Some(Status::Completed),
        MarkerName::Question | MarkerName::Response => false,
    }
}

fn parse_verdict(word: &str) -> Option<Verdict> {
    Verdict::ALL.iter().copied().find(|verdict| is_word(word, verdict.name()))
}

fn parse_status(word: &str) -> Option<Status> {
    Status::ALL.iter().copied().find(|status| is_word(word, status.name()))
}

/// The reasons not to believe something good.
pub(super) struct ReplyDoubt {
    pub(super) anywhere: bool,
    /// The text before this offset may have been a thought.
    pub(super) before: Option<usize>,
    /// The number of markers that do not count because of their place.
    pub(super) quoted: usize,
}

impl ReplyDoubt {
    fn covers(&self, at: usize) -> bool {
        self.before.is_some_and(|end| at < end)
    }
}

pub(super) struct ReplyJudgement {
    pub(super) verdict: Option<Verdict>,
    pub(super) outcome: Outcome,
    pub(super) tasks: BTreeMap<String, Status>,
}

pub(super) fn judge(
    asked: &ReplyContext<'_>,
    said: &ReplyClaims<'_>,
    doubt: &ReplyDoubt,
    problems: &mut ReplyProblems,
) -> ReplyJudgement {
    let contract = asked.contract;
    let (verdict, outcome) = match contract.verdict.as_slice() {
        [] => {
            report_foreign_verdicts(said, &[], problems);
            report_unreadable(said, problems, ProblemCode::BrokenMarker);
            (None, Outcome::None)
        }
        legal => judge_verdict(said, legal, doubt, problems),
    };
    if contract.task_status.is_empty() {
        for (at, id, _) in &said.tasks {
            let message =
                || format!("unexpected status of task `{}`: the contract has no task status", shorten(id));
            problems.add(ProblemCode::ForeignStatus, Some(*at), message);
        }
        return ReplyJudgement { verdict, outcome, tasks: BTreeMap::new() };
    }
    if contract.verdict.is_empty() {
        said.report_conflicts(problems);
    }
    let tasks: Cow<'_, [String]> = match (asked.tasks, contract.tasks.as_slice()) {
        ([], []) => Cow::Owned(alloc::vec![ONE_TASK.to_string()]),
        ([], tasks) | (tasks, _) => Cow::Borrowed(tasks),
    };
    let asked = &ReplyContext { tasks: &tasks, ..*asked };
    let (tasks, complete) = judge_tasks(asked, said, doubt, problems);
    let outcome = match outcome {
        Outcome::None if complete => Outcome::Complete,
        Outcome::None => Outcome::Incomplete,
        Outcome::Pass if !complete => Outcome::Incomplete,
        outcome => outcome,
    };
    ReplyJudgement { verdict, outcome, tasks }
}

/// Returns the severity of a verdict. An unknown word is worse than a pass and says less than any other
/// verdict.
const fn rank(said: Result<Verdict, &str>) -> u8 {
    match said {
        Ok(Verdict::Pass) => 0,
        Err(_) => 1,
        Ok(Verdict::NeedsRevision | Verdict::NeedsChanges) => 2,
        Ok(Verdict::Rejected | Verdict::MajorIssues) => 3,
    }
}

const fn to_outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Pass => Outcome::Pass,
        Verdict::NeedsRevision => Outcome::NeedsRevision,
        Verdict::NeedsChanges => Outcome::NeedsChanges,
        Verdict::Rejected => Outcome::Rejected,
        Verdict::MajorIssues => Outcome::MajorIssues,
    }
}

fn is_legal(said: Result<Verdict, &str>, legal: &[ContractChoice]) -> bool {
    said.is_ok_and(|verdict| legal.iter().any(|choice| is_word(&choice.name, verdict.name())))
}

fn report_foreign_verdicts(said: &ReplyClaims<'_>, legal: &[ContractChoice], problems: &mut ReplyProblems) {
    for (at, word) in said.verdicts.iter().filter(|(_, word)| !is_legal(*word, legal)) {
        let allowed: Vec<&str> = legal.iter().map(|choice| choice.name.as_str()).collect();
        let allowed = if allowed.is_empty() { "it has none".into() } else { allowed.join(", ") };
        let message = || format!("`{}` is not a verdict of this contract: {allowed}", format_word(*word));
        problems.add(ProblemCode::ForeignVerdict, Some(*at), message);
    }
}

fn format_word(said: Result<Verdict, &str>) -> String {
    said.map_or_else(shorten, |verdict| verdict.name().to_string())
}

fn judge_verdict(
    said: &ReplyClaims<'_>,
    legal: &[ContractChoice],
    doubt: &ReplyDoubt,
    problems: &mut ReplyProblems,
) -> (Option<Verdict>, Outcome) {
    report_foreign_verdicts(said, legal, problems);
    said.report_conflicts(problems);
    let believed =
        |(at, word): &&(usize, Result<Verdict, &str>)| *word != Ok(Verdict::Pass) || !doubt.covers(*at);
    let all: Vec<_> = said.verdicts.iter().filter(believed).collect();
    let Some((_, worst)) =
        all.iter().copied().rev().max_by_key(|(_, word)| (rank(*word), is_legal(*word, legal)))
    else {
        let message = || match (said.verdicts.len(), doubt.quoted) {
            (0, 0) => "no line holds only a verdict".into(),
            (0, quoted) => {
                format!("no line holds only a verdict; markers in code, quotes and echoes: {quoted}")
            }
            _ => "a pass before the end of a thought does not count".into(),
        };
        report_unreadable(said, problems, ProblemCode::BrokenMarker);
        problems.add(ProblemCode::NoVerdict, None, message);
        return (None, Outcome::NoVerdict);
    };
    report_unreadable(said, problems, ProblemCode::Conflict);
    if let Some((at, other)) = all.iter().find(|(_, word)| word != worst) {
        let message = || {
            format!(
                "the reply says `{}` and `{}`; the most severe counts",
                format_word(*other),
                format_word(*worst)
            )
        };
        problems.add(ProblemCode::Conflict, Some(*at), message);
    }
    if !all.iter().any(|(_, word)| is_legal(*word, legal)) {
        return (None, Outcome::ForeignVerdict);
    }
    match worst {
        Ok(Verdict::Pass) if !said.unreadable.is_empty() => (None, Outcome::NoVerdict),
        Ok(Verdict::Pass) if doubt.anywhere => {
            let message = "a pass does not count if the reply is broken or the agent failed";
            problems.add(ProblemCode::NoVerdict, None, || message.to_string());
            (None, Outcome::NoVerdict)
        }
        Ok(verdict) => (Some(*verdict), to_outcome(*verdict)),
        // An unknown word beside a pass may mean anything.
        Err(_) if all.iter().any(|(_, word)| *word == Ok(Verdict::Pass)) => (None, Outcome::NoVerdict),
        Err(_) => (None, Outcome::ForeignVerdict),
    }
}

/// Reports verdicts that cannot be read.
fn report_unreadable(said: &ReplyClaims<'_>, problems: &mut ReplyProblems, code: ProblemCode) {
    for at in &said.unreadable {
        problems.add(code, Some(*at), || "this may be a verdict, but it is unreadable".into());
    }
}

/// Returns the status of each task, and whether every requested task is reported once and completed.
fn judge_tasks(
    asked: &ReplyContext<'_>,
    said: &ReplyClaims<'_>,
    doubt: &ReplyDoubt,
    problems: &mut ReplyProblems,
) -> (BTreeMap<String, Status>, bool) {
    let mut tasks: BTreeMap<String, Status> = BTreeMap::new();
    let mut times: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (at, id, status) in &said.tasks {
        let is_asked = asked.tasks.iter().any(|task| task == id);
        let (count, completed) = times.entry(id).or_insert((0, true));
        *count += 1;
        if *count == 2 {
            let message = || format!("task `{}` is reported more than once", shorten(id));
            problems.add(ProblemCode::TaskRepeated, Some(*at), message);
        }
        if *count == 1 && !is_asked {
            let message =
                || format!("unexpected status of task `{}`, which is not a task of this run", shorten(id));
            problems.add(ProblemCode::TaskUnasked, Some(*at), message);
        }
        match status {
            Err(word) => {
                *completed = false;
                let known: Vec<&str> =
                    asked.contract.task_status.iter().map(|choice| choice.name.as_str()).collect();
                let message = || format!("`{}` is not a task status: {}", shorten(word), known.join(", "));
                problems.add(ProblemCode::ForeignStatus, Some(*at), message);
            }
            Ok(Status::Completed) if doubt.covers(*at) => *completed = false,
            Ok(status) => {
                *completed &= *status == Status::Completed;
                let worst = tasks.entry((*id).to_string()).or_insert(*status);
                *worst = (*worst).max(*status);
            }
        }
    }
    let loose = said.tasks.iter().any(|(at, _, _)| said.loose.binary_search(at).is_ok());
    let is_other = |id: &str| !asked.tasks.iter().any(|task| can_mean_task(id, task));
    let only_good = said.tasks.iter().all(|(_, id, status)| *status == Ok(Status::Completed) || is_other(id));
    let mut complete = !doubt.anywhere && !loose && only_good;
    for id in asked.tasks {
        match times.get(id.as_str()) {
            Some((count, completed)) => complete &= *count == 1 && *completed,
            None => {
                complete = false;
                let message = || format!("the reply does not report task `{}`", shorten(id));
                problems.add(ProblemCode::TaskMissing, None, message);
            }
        }
    }
    (tasks, complete)
}

/// Checks whether an id may refer to a task or to a part of it: `Task 1.1`, `1.1-b`, `all`. An id with other
/// numbers does not.
fn can_mean_task(id: &str, task: &str) -> bool {
    let said = extract_numbers(id);
    said.is_empty() || said.starts_with(&extract_numbers(task))
}

/// Returns the numbers in an id, in any kind of digits.
fn extract_numbers(id: &str) -> Vec<String> {
    let mut plain = String::new();
    for c in id.chars() {
        decompose_compatible(c, |part| plain.push(if part.is_ascii_digit() { part } else { ' ' }));
    }
    plain.split_whitespace().map(ToString::to_string).collect()
}
