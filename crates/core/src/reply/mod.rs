//! Reads the claims of a reply from an agent's output.
//!
//! [`read`] cannot fail: it returns a [`Reply`] for any bytes and lists every fault in its problems. It does
//! not guess. Text in a thought, in code, in a quote or in an echo of the prompt is not a claim of the agent;
//! a marker inside a sentence does not count; and if two readings are possible, neither of them is a pass.

mod echo;
mod fold;
mod judge;
mod loose_marker;
mod problem;
mod scan;
mod stream;
mod syntax_hits;
mod tag;
mod thought_tags;

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use serde::{Serialize, Serializer};

pub use problem::{LineColumn, ProblemCode, ReplyProblem};
pub use stream::{MOST_TEXT, StreamDoubts, StreamReader, StreamText, TextSink};

use crate::library::agent::OutputSpec;
use crate::library::contract::Contract;
use crate::library::contract::{Status, Verdict};
use crate::text::word_enum::word_enum;
use echo::PromptEcho;
use judge::{ReplyClaims, ReplyDoubt, ReplyJudgement, judge};
use problem::ReplyProblems;
use scan::{FoundMarker, ReplyScan, scan};

/// The contract, tasks and prompt that a reply answers.
#[derive(Clone, Copy, Debug)]
pub struct ReplyContext<'a> {
    /// The contract of the prompt.
    pub contract: &'a Contract,
    /// The tasks whose status is requested; if empty, those of the contract.
    pub tasks: &'a [String],
    /// The prompt as the agent received it: text that the reply repeats from it is not the agent's own.
    pub prompt: Option<&'a str>,
}

/// The claims read from an agent's output; they are never facts.
#[derive(Clone, Debug, Serialize)]
pub struct Reply<'o> {
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// The result of the reply as a whole.
    pub outcome: Outcome,
    /// The claimed status of each task; the worst one if a task has several.
    pub tasks: BTreeMap<String, Status>,
    /// Questions to the person, independent of the rest of the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The agent's text, without its thoughts.
    pub text: ReplyText<'o>,
    /// The problems of the reply in order of place.
    pub problems: Vec<ReplyProblem>,
}

word_enum! {
    /// The result of a reply as a whole.
    #[derive(Default)]
    Outcome {
        /// The verdict `PASS`.
        Pass "pass",
        /// The verdict `NEEDS_REVISION`.
        NeedsRevision "needs_revision",
        /// The verdict `NEEDS_CHANGES`.
        NeedsChanges "needs_changes",
        /// The verdict `REJECTED`.
        Rejected "rejected",
        /// The verdict `MAJOR_ISSUES`.
        MajorIssues "major_issues",
        /// The contract requires a verdict, and no verdict counts.
        NoVerdict "no_verdict",
        /// The contract does not allow the verdict.
        ForeignVerdict "foreign_verdict",
        /// Every task is completed.
        Complete "complete",
        /// Some task is not completed.
        Incomplete "incomplete",
        /// The contract requires no verdict and no task.
        #[default]
        None "none",
    }
}

impl Outcome {
    /// Checks whether everything that was requested is present and good.
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Pass | Self::Complete | Self::None)
    }
}

/// The text of an output without its cut parts, as ranges of the output instead of a copy. Displaying it
/// replaces bytes that are not text by U+FFFD.
#[derive(Clone, Debug)]
pub struct ReplyText<'o> {
    whole: Cow<'o, [u8]>,
    cuts: Vec<Range<usize>>,
    last_message: Option<usize>,
}

impl ReplyText<'_> {
    /// Returns the remaining pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.ranges().map(|range| String::from_utf8_lossy(&self.whole[range]))
    }

    /// Returns the number of lines of the agent's last message, without the lines that are cut away; `None` if the output has no
    /// messages.
    pub fn last_message_lines(&self) -> Option<usize> {
        let start = self.last_message?;
        let pieces = self.ranges().map(|range| &self.whole[range.start.max(start).min(range.end)..range.end]);
        let message: Vec<u8> = pieces.flatten().copied().collect();
        Some(String::from_utf8_lossy(&message).trim().lines().count())
    }

    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = core::iter::once(0).chain(self.cuts.iter().map(|cut| cut.end));
        let ends = self.cuts.iter().map(|cut| cut.start).chain([self.whole.len()]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
    }

    fn join_pieces(&self) -> Cow<'_, [u8]> {
        if self.cuts.is_empty() {
            return Cow::Borrowed(&self.whole);
        }
        let mut joined = Vec::with_capacity(self.whole.len());
        self.ranges().for_each(|range| joined.extend_from_slice(&self.whole[range]));
        Cow::Owned(joined)
    }
}

impl fmt::Display for ReplyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.ranges().flat_map(|range| self.whole[range].utf8_chunks());
        whole.into_iter().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() { Ok(()) } else { f.write_str("\u{FFFD}") }
        })
    }
}

impl Serialize for ReplyText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the output that an agent printed in `format`.
///
/// ```
/// use callsheet_core::library::agent::OutputSpec;
/// use callsheet_core::reply::{Outcome, ReplyContext, read};
/// use callsheet_core::{Builtin, Library, find_contract};
///
/// let library = Library::new(Builtin);
/// let (_, contract) = find_contract(&library, "review", &Default::default())?;
/// let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
/// let output = b"The change is good.\n\n<review>PASS</review>\n";
/// assert_eq!(read(&asked, output, &OutputSpec::default()).outcome, Outcome::Pass);
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn read<'o>(asked: &ReplyContext<'_>, output: &'o [u8], format: &OutputSpec) -> Reply<'o> {
    read_text(asked, stream::extract_text(output, format))
}

/// Reads the agent's text that a [`StreamReader`] extracted from its output.
pub fn read_text<'o>(asked: &ReplyContext<'_>, stream: StreamText<Cow<'o, [u8]>>) -> Reply<'o> {
    let tasks = if asked.tasks.is_empty() { &asked.contract.tasks } else { asked.tasks };
    let asked = &ReplyContext { tasks, ..*asked };
    let StreamText { text: whole, last_message, doubts } = stream;
    let ReplyScan { cuts, mut found, quoted, open, unopened, too_large } = scan(&whole);
    let text = ReplyText { whole, cuts, last_message };
    let before = found.len();
    if let Some(prompt) = asked.prompt.filter(|_| before > 0) {
        remove_echoes(&text, prompt, &mut found);
    }
    let quoted = quoted + before - found.len();

    let mut problems = ReplyProblems::default();
    problems.add_stream_doubts(&doubts);
    problems.add_unclosed(&open, unopened);
    if too_large.is_some() {
        let message = "this block has too many lines, characters or levels to judge";
        problems.add(ProblemCode::TooLarge, too_large, || message.into());
    }
    let said = ReplyClaims::new(&text.whole, &found, &mut problems);
    // The intended end of an unclosed block is unknown, so the whole reply is in doubt.
    let anywhere = said.broken || too_large.is_some() || doubts.has_doubts() || !open.is_empty();
    let doubt = ReplyDoubt { anywhere, before: unopened, quoted };
    let ReplyJudgement { verdict, outcome, tasks } = judge(asked, &said, &doubt, &mut problems);
    let problems = problems.finish(&text.whole);
    Reply { verdict, outcome, tasks, questions: said.questions, text, problems }
}

/// Drops the markers that the reply only repeats from its prompt.
fn remove_echoes(text: &ReplyText<'_>, prompt: &str, found: &mut Vec<FoundMarker>) {
    let prompt = prompt.as_bytes();
    let prompt = ReplyText { cuts: scan(prompt).cuts, whole: Cow::Borrowed(prompt), last_message: None };
    let prompt = prompt.join_pieces();
    let mut echo = PromptEcho::new(&prompt);
    let kept = text.join_pieces();
    let mut cuts = text.cuts.iter().peekable();
    let mut cut_away = 0;
    found.retain(|found| {
        while let Some(cut) = cuts.next_if(|cut| cut.end <= found.at) {
            cut_away += cut.len();
        }
        // A marker that counts in an unclosed thought is not part of the remaining text.
        if cuts.peek().is_some_and(|cut| cut.start <= found.at) {
            return true;
        }
        let at = found.at - cut_away;
        let inside: usize = cuts.clone().take_while(|cut| cut.end <= found.end).map(Range::len).sum();
        let end = (found.end - cut_away).saturating_sub(inside).clamp(at, kept.len());
        !echo.contains(&kept, &(at..end))
    });
}
