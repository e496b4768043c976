//! Defines the problems of a reply, and computes their places.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use memchr::{memchr_iter, memrchr};
use serde::{Deserialize, Serialize};

use super::scan::UnclosedBlock;
use super::stream::StreamDoubts;
use crate::diag::{MOST_PER_KIND, escape_invisible};
use crate::text::word_enum::word_enum;

/// A fault of a reply, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyProblem {
    /// The kind of the problem.
    pub code: ProblemCode,
    /// The description of the problem.
    pub message: String,
    /// The place in the agent's text, if the problem has one.
    pub place: Option<LineColumn>,
    /// The number of further problems of this kind, which are not reported one by one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
const fn is_zero(more: &usize) -> bool {
    *more == 0
}

/// Line and column in the agent's text, thoughts included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineColumn {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

macro_rules! problems {
    ($($variant:ident $text:literal $meaning:literal,)*) => {
        word_enum! {
            /// The kind of a problem. The spelling is stable.
            ProblemCode { $(#[doc = $meaning] $variant $text,)* }
        }

        impl ProblemCode {
            /// Returns one sentence for the reference in the documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

problems! {
    NoVerdict "no_verdict" "The contract requires a verdict, and no verdict counts.",
    ForeignVerdict "foreign_verdict" "The contract does not allow the verdict.",
    Conflict "conflict" "Two words contradict each other, or a word that is not good shares its line or paragraph: the most severe word counts.",
    InlineMarker "inline_marker" "A good marker shares its paragraph, list item or HTML block with other text: it does not count.",
    IndentedMarker "indented_marker" "A marker is indented like code: it does not count.",
    BrokenMarker "broken_marker" "A marker that begins a line is incomplete, or has extra attributes.",
    ForeignStatus "foreign_status" "The status of a task is not a word of the contract.",
    TaskMissing "task_missing" "The reply does not report the status of a task.",
    TaskRepeated "task_repeated" "The reply reports the status of a task more than once.",
    TaskUnasked "task_unasked" "The reply reports a task that is not part of the run.",
    UnclosedThought "unclosed_thought" "A thought is not closed: the text after its start is dropped, a word in it counts only if it is not good, and no pass counts.",
    UnopenedThought "unopened_thought" "A thought has an end but no start: no good word before its end counts.",
    UnclosedFence "unclosed_fence" "A code fence is not closed, so code and prose cannot be distinguished.",
    UnclosedComment "unclosed_comment" "A comment is not closed: it hides the text after its start.",
    TooLarge "too_large" "A part of the reply is too large to judge: no good word counts.",
    StreamFailed "stream_failed" "The agent's stream reports a failure.",
    StreamMixed "stream_mixed" "A line of the stream is not an event.",
    StreamIncomplete "stream_incomplete" "The stream has no start or no end, or continues after its end.",
    StreamConflict "stream_conflict" "The stream contradicts itself.",
    OutputIncomplete "output_incomplete" "Part of the output was not kept, so the reply is judged without it.",
    TooLong "too_long" "The agent's text is longer than 64 MiB; only the first 64 MiB are judged.",
}

impl UnclosedBlock {
    const fn problem(self) -> (ProblemCode, &'static str) {
        match self {
            Self::Thought => {
                (ProblemCode::UnclosedThought, "a thought is not closed: the text after its start is dropped")
            }
            Self::Fence => (
                ProblemCode::UnclosedFence,
                "a code fence is not closed, so code and prose cannot be distinguished",
            ),
            Self::Comment => {
                (ProblemCode::UnclosedComment, "a comment is not closed: it hides the text after its start")
            }
        }
    }
}

/// The problems found so far, with byte offsets.
#[derive(Default)]
pub(super) struct ReplyProblems {
    reported: Vec<(Option<usize>, ReplyProblem)>,
    /// For each kind, the number of problems and the index of the last one that is reported.
    counts: [(usize, usize); ProblemCode::ALL.len()],
}

impl ReplyProblems {
    /// Adds a problem. Problems of one kind beyond `MOST` are only counted.
    pub(super) fn add(&mut self, code: ProblemCode, at: Option<usize>, message: impl FnOnce() -> String) {
        let (count, last) = &mut self.counts[code as usize];
        *count += 1;
        if *count > MOST_PER_KIND {
            self.reported[*last].1.more += 1;
            return;
        }
        *last = self.reported.len();
        self.reported.push((at, ReplyProblem { code, message: message(), place: None, more: 0 }));
    }

    pub(super) fn add_stream_doubts(&mut self, doubts: &StreamDoubts) {
        if let Some(why) = &doubts.failed {
            let message = || format!("the agent's stream reports a failure: {}", shorten(why));
            self.add(ProblemCode::StreamFailed, None, message);
        }
        if let Some((count, line, why)) = doubts.mixed {
            let message = || format!("unreadable lines in the stream: {count}; line {line}: {why}");
            self.add(ProblemCode::StreamMixed, None, message);
        }
        let limit = doubts
            .is_too_long
            .then_some("the agent's text is longer than 64 MiB; only the first 64 MiB are judged");
        for (code, why) in [
            (ProblemCode::StreamIncomplete, doubts.incomplete),
            (ProblemCode::StreamConflict, doubts.conflict),
            (ProblemCode::OutputIncomplete, doubts.missing),
            (ProblemCode::TooLong, limit),
        ] {
            if let Some(why) = why {
                self.add(code, None, || why.to_string());
            }
        }
    }

    pub(super) fn add_unclosed(&mut self, open: &[(UnclosedBlock, usize)], unopened: Option<usize>) {
        for (open, at) in open {
            let (code, message) = open.problem();
            self.add(code, Some(*at), || message.to_string());
        }
        if unopened.is_some() {
            let message = "a thought has an end but no start: no pass before its end counts";
            self.add(ProblemCode::UnopenedThought, unopened.map(|end| end - 1), || message.to_string());
        }
    }

    /// Returns all problems in order of place; those without a place are last.
    pub(super) fn finish(self, text: &[u8]) -> Vec<ReplyProblem> {
        let mut problems = self.reported;
        problems.sort_by_key(|(at, _)| at.unwrap_or(usize::MAX));
        let mut place = LineColumn { line: 1, column: 1 };
        let mut seen = 0;
        for (at, problem) in &mut problems {
            let Some(at) = *at else { continue };
            let between = &text[seen..at];
            let in_line = match memrchr(b'\n', between) {
                Some(end) => {
                    place = LineColumn { line: place.line + memchr_iter(b'\n', between).count(), column: 1 };
                    &between[end + 1..]
                }
                None => between,
            };
            place.column += String::from_utf8_lossy(in_line).chars().count();
            seen = at;
            problem.place = Some(place);
        }
        problems.into_iter().map(|(_, problem)| problem).collect()
    }
}

/// Shortens an agent's words to a recognizable length.
pub(super) fn shorten(words: &str) -> String {
    const MOST_CHARACTERS: usize = 80;
    let visible = escape_invisible(words.trim());
    match visible.char_indices().nth(MOST_CHARACTERS) {
        Some((at, _)) => format!("{}…", &visible[..at]),
        None => visible.into_owned(),
    }
}
