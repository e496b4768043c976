//! Judging: from the markers that count to an outcome.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::problem::{ProblemCode, Problems, shortened};
use super::scan::{Found, Standing};
use super::tag::{Marker, Name, Tag, is_word};
use super::{Asked, Outcome, Status, Verdict};
use crate::contract::Choice;

/// What the reply says in markers that count. A word that means nothing is kept as it is.
#[derive(Debug, Default)]
pub(super) struct Said<'t> {
    verdicts: Vec<(usize, Result<Verdict, &'t str>)>,
    tasks: Vec<(usize, &'t str, Result<Status, &'t str>)>,
    /// Something began as a marker, and nobody knows what it was going to say.
    pub(super) broken: bool,
}

impl<'t> Said<'t> {
    pub(super) fn new(text: &'t [u8], found: &[Found], problems: &mut Problems) -> Self {
        let mut said = Self::default();
        let marker = |at| Tag::at(text, at).and_then(|tag| Marker::of(text, &tag));
        // Most of what is found may be of no use, so what it was is looked at only where it is told.
        let shown =
            |at| shortened(&String::from_utf8_lossy(&text[at..marker(at).map_or(at, |marker| marker.end)]));
        for Found { at, standing } in found {
            let at = *at;
            let alone = if *standing == Standing::Alone { marker(at) } else { None };
            match (standing, alone) {
                (_, Some(marker)) => said.add(at, &marker, problems),
                (Standing::Inline, None) => {
                    let message =
                        || format!("`{}` is not alone on its line, so it does not count", shown(at));
                    problems.add(ProblemCode::InlineMarker, Some(at), message);
                }
                (Standing::Indented, None) => {
                    let message = || format!("`{}` is indented as code is, so it does not count", shown(at));
                    problems.add(ProblemCode::IndentedMarker, Some(at), message);
                }
                (Standing::Alone | Standing::Broken, None) => {
                    let message =
                        "a marker is not complete: tag, word and closing tag stand on one line, or on three";
                    said.broken(at, message, problems);
                }
            }
        }
        said
    }

    fn add(&mut self, at: usize, marker: &Marker<'t>, problems: &mut Problems) {
        if marker.name == Name::Review {
            self.verdicts.push((at, verdict(marker.word).ok_or(marker.word)));
            // An attribute that says something else would make the marker contradict itself.
            let values = marker
                .attributes()
                .flat_map(|(_, value)| value.split(|c: char| !c.is_alphanumeric() && c != '_'));
            self.verdicts.extend(values.filter_map(verdict).map(|verdict| (at, Ok(verdict))));
            return;
        }
        let mut ids =
            marker.attributes().filter(|(name, _)| name.eq_ignore_ascii_case("id")).map(|(_, id)| id.trim());
        let (Some(id), None) = (ids.next().filter(|id| !id.is_empty()), ids.next()) else {
            return self.broken(at, "a `task_status` needs one `id`", problems);
        };
        let others = marker.attributes().filter(|(name, _)| !name.eq_ignore_ascii_case("id"));
        let status = status(marker.word).ok_or(marker.word);
        let worst = others.filter_map(|(_, value)| status_of(value)).chain(status.ok()).max();
        self.tasks.push((at, id, status.map(|status| worst.unwrap_or(status))));
    }

    fn broken(&mut self, at: usize, message: &str, problems: &mut Problems) {
        self.broken = true;
        problems.add(ProblemCode::BrokenMarker, Some(at), || message.to_string());
    }
}

fn verdict(word: &str) -> Option<Verdict> {
    Verdict::ALL.iter().copied().find(|verdict| is_word(word, verdict.name()))
}

fn status(word: &str) -> Option<Status> {
    Status::ALL.iter().copied().find(|status| is_word(word, status.name()))
}

fn status_of(value: &str) -> Option<Status> {
    value.split(|c: char| !c.is_alphanumeric()).filter_map(status).max()
}

/// Why something good may not be believed.
pub(super) struct Doubt {
    pub(super) anywhere: bool,
    /// What stands before this may have been a thought.
    pub(super) before: Option<usize>,
    /// How many markers do not count for where they stand.
    pub(super) quoted: usize,
}

impl Doubt {
    fn of(&self, at: usize) -> bool {
        self.before.is_some_and(|end| at < end)
    }
}

pub(super) struct Judged {
    pub(super) verdict: Option<Verdict>,
    pub(super) outcome: Outcome,
    pub(super) tasks: BTreeMap<String, Status>,
}

pub(super) fn judge(asked: &Asked<'_>, said: &Said<'_>, doubt: &Doubt, problems: &mut Problems) -> Judged {
    let contract = asked.contract;
    let (verdict, outcome) = match contract.verdict.as_slice() {
        [] => {
            foreign_verdicts(said, &[], problems);
            (None, Outcome::None)
        }
        legal => verdict_of(said, legal, doubt, problems),
    };
    if contract.task_status.is_empty() {
        for (at, id, _) in &said.tasks {
            let message =
                || format!("the status of task `{}` was not asked for: the contract has none", shortened(id));
            problems.add(ProblemCode::ForeignStatus, Some(*at), message);
        }
        return Judged { verdict, outcome, tasks: BTreeMap::new() };
    }
    let (tasks, complete) = tasks_of(asked, said, doubt, problems);
    let outcome = match outcome {
        Outcome::None if complete => Outcome::Complete,
        Outcome::None => Outcome::Incomplete,
        Outcome::Pass if !complete => Outcome::Incomplete,
        outcome => outcome,
    };
    Judged { verdict, outcome, tasks }
}

/// How bad a verdict is. A word that means nothing is worse than a pass and says less than any other.
const fn rank(said: Result<Verdict, &str>) -> u8 {
    match said {
        Ok(Verdict::Pass) => 0,
        Err(_) => 1,
        Ok(Verdict::NeedsRevision | Verdict::NeedsChanges) => 2,
        Ok(Verdict::Rejected | Verdict::MajorIssues) => 3,
    }
}

const fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Pass => Outcome::Pass,
        Verdict::NeedsRevision => Outcome::NeedsRevision,
        Verdict::NeedsChanges => Outcome::NeedsChanges,
        Verdict::Rejected => Outcome::Rejected,
        Verdict::MajorIssues => Outcome::MajorIssues,
    }
}

fn is_legal(said: Result<Verdict, &str>, legal: &[Choice]) -> bool {
    said.is_ok_and(|verdict| legal.iter().any(|choice| is_word(&choice.name, verdict.name())))
}

fn foreign_verdicts(said: &Said<'_>, legal: &[Choice], problems: &mut Problems) {
    for (at, word) in said.verdicts.iter().filter(|(_, word)| !is_legal(*word, legal)) {
        let allowed: Vec<&str> = legal.iter().map(|choice| choice.name.as_str()).collect();
        let allowed = if allowed.is_empty() { "it asks for none".into() } else { allowed.join(", ") };
        let message = || format!("`{}` is no verdict of this contract: {allowed}", name(*word));
        problems.add(ProblemCode::ForeignVerdict, Some(*at), message);
    }
}

fn name(said: Result<Verdict, &str>) -> String {
    said.map_or_else(shortened, |verdict| verdict.name().to_string())
}

fn verdict_of(
    said: &Said<'_>,
    legal: &[Choice],
    doubt: &Doubt,
    problems: &mut Problems,
) -> (Option<Verdict>, Outcome) {
    foreign_verdicts(said, legal, problems);
    let believed =
        |(at, word): &&(usize, Result<Verdict, &str>)| *word != Ok(Verdict::Pass) || !doubt.of(*at);
    let all: Vec<_> = said.verdicts.iter().filter(believed).collect();
    let Some((_, worst)) =
        all.iter().copied().rev().max_by_key(|(_, word)| (rank(*word), is_legal(*word, legal)))
    else {
        let message = || match (said.verdicts.len(), doubt.quoted) {
            (0, 0) => "no verdict stands alone on a line".into(),
            (0, quoted) => {
                format!("no verdict stands alone on a line; markers in code, quotes and echoes: {quoted}")
            }
            _ => "a pass before the end of a thought is not believed".into(),
        };
        problems.add(ProblemCode::NoVerdict, None, message);
        return (None, Outcome::NoVerdict);
    };
    if let Some((at, other)) = all.iter().find(|(_, word)| word != worst) {
        let message =
            || format!("the reply says `{}` and `{}`; the most severe counts", name(*other), name(*worst));
        problems.add(ProblemCode::Conflict, Some(*at), message);
    }
    if !all.iter().any(|(_, word)| is_legal(*word, legal)) {
        return (None, Outcome::ForeignVerdict);
    }
    match worst {
        Ok(Verdict::Pass) if doubt.anywhere => {
            let message = "a pass is not believed where the reply is broken or the agent failed";
            problems.add(ProblemCode::NoVerdict, None, || message.to_string());
            (None, Outcome::NoVerdict)
        }
        Ok(verdict) => (Some(*verdict), outcome(*verdict)),
        Err(_) => (None, Outcome::ForeignVerdict),
    }
}

/// What is said of each task, and whether every task that was asked for is completed, said once.
fn tasks_of(
    asked: &Asked<'_>,
    said: &Said<'_>,
    doubt: &Doubt,
    problems: &mut Problems,
) -> (BTreeMap<String, Status>, bool) {
    let mut tasks: BTreeMap<String, Status> = BTreeMap::new();
    let mut times: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (at, id, status) in &said.tasks {
        let is_asked = asked.tasks.iter().any(|task| task == id);
        let (count, completed) = times.entry(id).or_insert((0, true));
        *count += 1;
        if *count == 2 {
            let message = || format!("the status of task `{}` is given more than once", shortened(id));
            problems.add(ProblemCode::TaskRepeated, Some(*at), message);
        }
        if *count == 1 && !is_asked && !asked.tasks.is_empty() {
            let message = || format!("task `{}` was not asked for", shortened(id));
            problems.add(ProblemCode::TaskUnasked, Some(*at), message);
        }
        match status {
            Err(word) => {
                *completed = false;
                let known: Vec<&str> =
                    asked.contract.task_status.iter().map(|choice| choice.name.as_str()).collect();
                let message =
                    || format!("`{}` is no status of a task: {}", shortened(word), known.join(", "));
                problems.add(ProblemCode::ForeignStatus, Some(*at), message);
            }
            Ok(Status::Completed) if doubt.of(*at) => *completed = false,
            Ok(status) => {
                *completed &= *status == Status::Completed;
                let worst = tasks.entry((*id).to_string()).or_insert(*status);
                *worst = (*worst).max(*status);
            }
        }
    }
    if asked.tasks.is_empty() {
        let message = "no task was asked for, so that none can be complete";
        problems.add(ProblemCode::NoTasks, None, || message.to_string());
    }
    let mut complete = !asked.tasks.is_empty() && !doubt.anywhere;
    for id in asked.tasks {
        match times.get(id.as_str()) {
            Some((count, completed)) => complete &= *count == 1 && *completed,
            None => {
                complete = false;
                let message = || format!("nothing is said of task `{}`", shortened(id));
                problems.add(ProblemCode::TaskMissing, None, message);
            }
        }
    }
    (tasks, complete)
}
