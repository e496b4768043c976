//! Diagnostics: one type for every problem, with a stable code, a place and a hint.
//!
//! A diagnostic never sends raw characters to a terminal: [`escape_invisible`] escapes every control or invisible
//! character of a message or an excerpt.

pub mod exit;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::text::SharedText;
use crate::text::word_enum::word_enum;

macro_rules! codes {
    ($($variant:ident $text:literal $exit:literal $meaning:literal,)*) => {
        /// The kind of a diagnostic. The spelling is stable: scripts may match on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $(#[doc = $meaning] $variant,)* }

        impl Code {
            /// Every code, in the order of the reference.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the stable spelling, such as `template/not-found`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the name that people see, such as `TemplateNotFound`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)* }
            }

            /// Returns the exit code of a command that this diagnostic ends.
            pub const fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit,)* }
            }

            /// Returns one sentence for the reference in the documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    TemplateNotFound "template/not-found" 3 "No root holds the template that a section needs.",
    TemplateFallback "template/fallback" 3 "An agent has no template of its own for a phase; the BASE one is used.",
    TemplateUnit "template/unit" 3 "An agent's template lacks a clause of its BASE template, or changes one without declaring it.",
    ToolUnknown "tool/unknown" 3 "A template names a tool that no contract describes.",
    FragmentNotFound "fragment/not-found" 3 "A template names a fragment that no root holds.",
    FragmentTooDeep "fragment/too-deep" 3 "Fragments are nested too deep.",
    FragmentCycle "fragment/cycle" 3 "A fragment contains itself, directly or through others.",
    IncludeNotFound "include/not-found" 3 "A required include is not in the session directory.",
    IncludeBadPath "include/bad-path" 3 "The path of an include leads out of the session directory.",
    SourceUnreadable "source/unreadable" 3 "A file cannot be read: it is outside its root, not a regular file, too large, or not UTF-8.",
    FrontBad "front/bad" 3 "A file's frontmatter is not closed, too long, not a mapping, or has a wrong field.",
    SlotUnfilled "slot/unfilled" 3 "Nothing fills a slot.",
    SlotUnknown "slot/unknown" 3 "A template has a slot that is neither declared nor filled.",
    SlotUndeclared "slot/undeclared" 3 "A template's frontmatter lists its variables, but not this slot.",
    VariableUnused "variable/unused" 3 "The frontmatter declares a variable that no slot uses.",
    ValueUnused "value/unused" 3 "A value was given that no slot uses.",
    RecipeNotFound "recipe/not-found" 3 "No root holds the recipe.",
    RecipeBad "recipe/bad" 3 "A recipe is invalid.",
    AgentNotFound "agent/not-found" 3 "No root holds the agent's file.",
    AgentBad "agent/bad" 3 "An agent's file is invalid.",
    ContractNotFound "contract/not-found" 3 "No root holds the contract.",
    ContractBad "contract/bad" 3 "A contract is invalid.",
    FlowNotFound "flow/not-found" 3 "No root holds the flow.",
    FlowBad "flow/bad" 3 "A flow is invalid.",
    FlowUnreachable "flow/unreachable" 3 "Nothing leads to a phase of a flow.",
    FlowVerdict "flow/verdict" 3 "A phase of a flow has no transition for a verdict of its contract.",
    FlowLoop "flow/loop" 3 "Phases of a flow form a loop without a limit.",
    FlowRefused "flow/refused" 9 "A phase cannot start: the inputs of its lanes are missing.",
    SubmissionBad "submission/bad" 1 "A submission does not match its contract.",
    PreferenceBad "preference/bad" 2 "A preference is blank, has forbidden content, or names an unknown role.",
    RequestBad "request/bad" 2 "A request does not match the schema.",
    RequestUnknownKey "request/unknown-key" 2 "A request has an unknown key.",
    RequestBadName "request/bad-name" 2 "The name of a role, agent, phase, command, recipe or key is invalid.",
    RequestIncomplete "request/incomplete" 2 "The request lacks an input that the recipe requires.",
    RequestNotShown "request/not-shown" 3 "The recipe does not use an input of the request.",
    DepthBad "depth/bad" 2 "A task depth is not a whole number of 0 or more.",
    DocumentNotFound "document/not-found" 4 "The file of a document does not exist.",
    DocumentNotShown "document/not-shown" 3 "The recipe lists paths, and this document has none.",
    DocumentLeftOut "document/left-out" 3 "Documents without text are listed by path.",
    ScopeNowhere "scope/nowhere" 3 "A write glob is absolute, or begins with a missing directory.",
    ScopeOpen "scope/open" 3 "No write scope was given: the agent may write everything except the excludes.",
    SectionCut "section/cut" 3 "A section exceeded its limit and was truncated at a line end.",
    TextFenced "text/fenced" 3 "A supplied text could imitate or hide structure; it was put between tags or into a code block.",
    ToolsNotShown "tools/not-shown" 3 "Tools were given, but this format cannot show them.",
    XmlCharacter "xml/character" 3 "A text contains a character that XML 1.0 cannot represent.",
    ApiIncomplete "api/incomplete" 2 "A request body would lack a field that the API requires.",
    PromptTooLarge "prompt/too-large" 3 "The prompt exceeds the size limit.",
    PromptBad "prompt/bad" 2 "A unified prompt does not match the schema, or the pieces of a hand-built prompt do not fit together.",
    PromptOverWindow "prompt/over-window" 3 "The prompt exceeds the model's context window.",
    PromptOverLimit "prompt/over-limit" 3 "The prompt exceeds the agent's size limit.",
    BudgetStepped "budget/stepped" 3 "To fit the budget, documents were reduced to outlines or paths, or omitted.",
    BudgetMusts "budget/musts" 3 "The required parts of the prompt exceed the budget.",
    SystemMisnamed "system/misnamed" 3 "A file in system/ is not named `[AGENT]-[PHASE].md`.",
    SystemPart "system/part" 3 "A system template lacks one of its four parts, or one is empty.",
    TemplateUnreachable "template/unreachable" 3 "No recipe, role or command name can reach this template.",
    MarkerAlone "marker/alone" 3 "A template shows a complete reply marker alone on a line.",
    TextInvisible "text/invisible" 3 "A file contains an invisible or bidirectional character.",
    TextPhrase "text/phrase" 3 "A text for agents contains a phrase that they misread; `phrases.txt` of callsheet-lint lists them.",
    FuzzEscapes "fuzz/escapes" 3 "A value can close an element that a template opens around its slot.",
    FuzzDangling "fuzz/dangling" 3 "An empty value leaves a heading, a list item or a code block empty.",
    FuzzEngine "fuzz/engine" 3 "A value breaks a guarantee of callsheet: please report it.",
    SecretFound "secret/found" 9 "A text of the prompt contains a secret.",
    PricesBad "prices/bad" 3 "A file of prices is invalid.",
    CostUnknown "cost/unknown" 2 "A cost limit was given, but the agent reports no cost, and no price of its model is known.",
    CostLimit "cost/limit" 7 "The runs of this day have reached the configured cost limit.",
    SecretsBad "secrets/bad" 3 "A file of rules for secrets is invalid.",
    TrustRequired "trust/required" 10 "A project's file asks for something that needs the user's trust.",
    PersonRequired "person/required" 9 "A decision needs a person: a terminal, or `--yes`.",
    PersonBelowGuard "person/below-guard" 9 "A process below a guard, such as an agent, cannot decide for a person.",
    ConfigBad "config/bad" 3 "A configuration file or variable is invalid.",
    InputNotFound "input/not-found" 4 "A file or directory named on the command line does not exist.",
    InputOutside "input/outside" 3 "A file named on the command line is outside the project.",
    InputLeftOut "input/left-out" 3 "A file below a directory cannot be included, even by its path.",
    InputUnreadable "input/unreadable" 3 "A file named on the command line cannot be read: not a regular file, too large, or not UTF-8.",
    DetailUnused "detail/unused" 3 "`--detail` names a path that no document has.",
    DeliverRefused "deliver/refused" 2 "The prompt cannot be delivered to this agent safely.",
    DeliverOtherwise "deliver/otherwise" 3 "The agent's preferred delivery method would alter the prompt; a fallback was used.",
    DeliverWhole "deliver/whole" 3 "A prompt was to be delivered in two parts, but is delivered as one.",
    AllowUnsupported "allow/unsupported" 3 "The agent cannot be allowed a command; it may ask for it or deny it.",
    ContextFailed "context/failed" 6 "The agent's CLI sent no request that shows its context.",
    ContextPrompt "context/prompt" 3 "The prompt did not arrive byte for byte in the request of the agent's CLI.",
    ContextPaidTwice "context/paid-twice" 3 "The prompt carries a file that the agent's CLI loads by itself.",
    ContextCut "context/cut" 3 "The agent's CLI loads only a part of an instruction file.",
    ContextRepeated "context/repeated" 3 "A text stands both in the prompt and in the texts of the agent's CLI.",
    ContextChanged "context/changed" 3 "The project changed while the agent's CLI was probed.",
    OutputFailed "output/failed" 70 "The output could not be written.",
    UsageBad "usage/bad" 2 "Invalid command-line arguments.",
    LedgerNotThere "ledger/not-there" 4 "The ledger does not exist.",
    LedgerLocked "ledger/locked" 8 "Another process holds the ledger's write lock.",
    LedgerNoAnswer "ledger/no-answer" 8 "The server of the ledger did not answer in time.",
    LedgerDamaged "ledger/damaged" 8 "A ledger or an export was changed after it was written.",
    LedgerNewer "ledger/newer" 8 "A newer version of callsheet wrote to the ledger.",
    LedgerFailed "ledger/failed" 8 "The ledger cannot be opened, read or written: disk full, no connection, or no permission.",
    LedgerForeign "ledger/foreign" 10 "The ledger or the run was created elsewhere; a person must accept it before anything is started from it.",
    LedgerTracked "ledger/tracked" 10 "Git tracks the ledger file: it came with the repository and is not opened.",
    LedgerShortLived "ledger/short-lived" 3 "The ledger is on a file system that is lost on restart or with its container.",
    LedgerProject "ledger/project" 3 "The project's id was removed or changed, or the project is a copy.",
    RunRefused "run/refused" 9 "The state of the run or task does not allow this.",
    RunNotStarted "run/not-started" 6 "The agent could not be started, or did not accept the prompt.",
    ProgramNotFound "program/not-found" 4 "The program of an agent or of a check is missing, or cannot be started.",
    TaskNotFound "task/not-found" 4 "No run belongs to this task.",
    ViolationNotFound "run/no-violation" 4 "The run did not change this path outside its scope.",
    GitFailed "git/failed" 3 "A git command failed.",
    RunNotFound "run/not-found" 4 "No run has this id.",
    RunAmbiguous "run/ambiguous" 4 "Several runs have an id with this prefix.",
    VerifyMismatch "verify/mismatch" 1 "A recorded prompt differs from the prompt that its request and sources give.",
    VerifySecret "verify/secret" 12 "A prompt was delivered with secret values that are not stored and were not given.",
    VerifyEngine "verify/engine" 11 "A recorded prompt was composed by another version of the engine.",
    NotifyFailed "notify/failed" 3 "The program for notifications failed, or took too long.",
    ClockWrong "clock/wrong" 3 "The clock is implausible, so nothing is removed by age.",
    OverrideRefused "override/refused" 3 "A file overrides a template that cannot be overridden.",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

word_enum! {
    /// The severity of a diagnostic.
    Severity {
        /// A note, shown only with `-v`.
        Note "note",
        /// A warning, which stops nothing.
        Warning "warning",
        /// An error.
        Error "error",
    }
}

/// A byte range of a named text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// A name that a person can open, such as `project:.callsheet/templates/x.md`, or the name of an input.
    pub name: String,
    /// The whole text.
    pub text: SharedText,
    /// The byte range in the text.
    pub range: Range<usize>,
}

impl SourceSpan {
    /// Returns the line and column, both counted from 1; the column counts characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = self.text_before();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    fn text_before(&self) -> &str {
        &self.text[..floor_to_char_boundary(&self.text, self.range.start)]
    }
}

fn floor_to_char_boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

/// A message with a stable code, a place, the places searched, and hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of the diagnostic.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// The place in a text that the message is about.
    pub place: Option<Box<SourceSpan>>,
    /// Every place that was searched, in order.
    pub looked: Vec<String>,
    /// The hints, each with a flag, a command or a fix.
    pub hints: Vec<String>,
    /// The number of further diagnostics of this kind that are only counted.
    pub more: usize,
}

/// The most diagnostics of one kind that are listed; the others are counted.
pub const MOST_PER_KIND: usize = 100;

/// Adds the diagnostic of `make`, unless an equal one is there already. If there are [`MOST_PER_KIND`] of its kind,
/// the last of them counts it.
pub(crate) fn push_diagnostic(
    diagnostics: &mut Vec<Diagnostic>,
    code: Code,
    make: impl FnOnce() -> Diagnostic,
) {
    if diagnostics.iter().filter(|diag| diag.code == code).count() < MOST_PER_KIND {
        let diag = make();
        if !diagnostics.contains(&diag) {
            diagnostics.push(diag);
        }
    } else if let Some(last) = diagnostics.iter_mut().rev().find(|diag| diag.code == code) {
        last.more += 1;
    }
}

impl Diagnostic {
    /// Creates an error.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// Creates a warning.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// Creates a note.
    pub fn note(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, message)
    }

    fn new(severity: Severity, code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, severity, message, place: None, looked: Vec::new(), hints: Vec::new(), more: 0 }
    }

    /// Sets the place: a byte range of the text that is called `name`.
    #[must_use]
    pub fn at(mut self, name: impl ToString, text: &SharedText, range: Range<usize>) -> Self {
        self.place = Some(Box::new(SourceSpan { name: name.to_string(), text: text.clone(), range }));
        self
    }

    /// Adds places that were searched.
    #[must_use]
    pub fn searched(mut self, places: impl IntoIterator<Item = impl ToString>) -> Self {
        self.looked.extend(places.into_iter().map(|place| place.to_string()));
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds `did you mean …?` if one of `known` is close to `given`.
    #[must_use]
    pub fn suggest<'a>(self, given: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match find_closest(given, known) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity.name(), self.code.name(), escape_invisible(&self.message))?;
        if let Some(place) = &self.place {
            write_excerpt(f, place)?;
        }
        for (first, looked) in self.looked.iter().enumerate() {
            let lead = if first == 0 { "looked in" } else { "         " };
            write!(f, "\n  = {lead} {}", escape_invisible(looked))?;
        }
        for hint in &self.hints {
            write!(f, "\n  = hint: {}", escape_invisible(hint))?;
        }
        if self.more > 0 {
            write!(f, "\n  = and {} more of this kind", self.more)?;
        }
        Ok(())
    }
}

/// The bytes of a long line that an excerpt shows on either side of its place.
const EXCERPT: usize = 60;

fn write_excerpt(f: &mut fmt::Formatter<'_>, place: &SourceSpan) -> fmt::Result {
    let (line, column) = place.line_column();
    let number = line.to_string();
    let pad = " ".repeat(number.len());
    write!(f, "\n{pad} ┌─ {}:{line}:{column}", escape_invisible(&place.name))?;
    let text = &*place.text;
    let start = floor_to_char_boundary(text, place.range.start);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = floor_to_char_boundary(text, place.range.end).clamp(start, line_end.max(start));
    let end = floor_to_char_boundary(text, end.min(start + 2 * EXCERPT));
    let from = floor_to_char_boundary(text, start.saturating_sub(EXCERPT)).max(line_start);
    let to = floor_to_char_boundary(text, (end + EXCERPT).min(line_end)).max(end);
    let before = escape_invisible(&text[from..start]);
    let marked = escape_invisible(&text[start..end]);
    let after = escape_invisible(text[end..to].trim_end_matches('\r'));
    write!(f, "\n{number} │ {before}{marked}{after}\n{pad} │ ")?;
    let indent = before.chars().count();
    let width = marked.chars().count().max(1);
    write!(f, "{}{}", " ".repeat(indent), "^".repeat(width))
}

/// Checks whether people cannot see a character: controls, bidirectional marks, zero-width characters, tags.
/// The joiners of emoji and scripts (U+200C, U+200D) and variation selectors are visible through the
/// characters that they join, so they do not count.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{180e}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text with every invisible character written as `\u{…}`, newlines as `␊` and tabs as spaces:
/// safe on a terminal, on one line.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_invisible(c) || c == '\n' || c == '\t') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push('␊'),
            '\t' => out.push(' '),
            c if is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns the name closest to `given`, if it is close enough for a typo.
pub fn find_closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = given.chars().count();
    // Two edits make a short name unrecognisable.
    let limit = if length <= 4 { 1 } else { (length / 3).max(1) };
    // People do not type names that long, and comparing two of them takes time.
    if limit > 32 {
        return None;
    }
    known
        .into_iter()
        .filter(|name| name.len() <= 4 * (given.len() + limit))
        .map(|name| (edit_distance(given, name), name))
        .filter(|(distance, name)| *distance <= limit && *distance < length.max(name.chars().count()))
        .min()
        .map(|(_, name)| name)
}

/// Counts the edits between two names, ignoring the case of letters; two swapped neighbours are one edit.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut before = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = alloc::vec![i + 1];
        for j in 0..b.len() {
            let change = row[j] + usize::from(a[i] != b[j]);
            let mut edits = change.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                let swap: usize = before[j - 1];
                edits = edits.min(swap + 1);
            }
            next.push(edits);
        }
        before = core::mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// The errors that stop a composition: all of one kind together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl From<Diagnostic> for Diagnostics {
    fn from(diag: Diagnostic) -> Self {
        Self(alloc::vec![diag])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diag) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { "\n" };
            write!(f, "{gap}{diag}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Diagnostics {}

/// Returns a number of things in words.
///
/// ```
/// use callsheet_core::diag::counted;
///
/// assert_eq!([counted(0, "file"), counted(1, "file"), counted(2, "file")], ["0 files", "1 file", "2 files"]);
/// ```
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let end = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{end}")
}
