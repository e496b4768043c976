//! Fuzzing: hostile values in every slot of a template, or in all inputs of a recipe.
//!
//! Two parties are responsible for the result: the author of a template for the constructs that it opens
//! around a slot (`markup`), callsheet for the rest (`engine`). Only the seed makes anything random.

mod engine;
mod inputs;
mod markup;
mod recipe_variants;
#[cfg(test)]
mod tests;
mod values;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use engine::{CaseFailure, ComposedCase, ControlCase, EngineUnderTest, OURS, has_span};
use inputs::{FIELDS, FuzzInput, FuzzSources, full_request};
use markup::{MarkupConstruct, find_dangling, find_enclosing, find_ended};
use recipe_variants::{RecipeVariant, list_variants};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, Severity};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::MissingPolicy;
use callsheet_core::prompt::{OriginTable, Piece};
use callsheet_core::request::Request;
use callsheet_core::source::cached_sources::CachedSources;
use callsheet_core::source::{SourceId, SourceRoot, Sources};
use callsheet_core::text::SharedText;

/// The subject of a fuzz run.
#[derive(Clone, Copy, Debug)]
pub enum FuzzSubject<'s> {
    /// A data file such as `templates/system/BASE-plan.md`.
    Template(&'s str),
    /// The name of a recipe.
    Recipe(&'s str),
}

/// The value that names a sub-plan.
const PLAN: &str = "plan";

/// The options of a fuzz run.
#[derive(Clone, Debug, Default)]
pub struct FuzzOptions {
    /// The seed of the random values.
    pub seed: u64,
    /// The number of random values, after those that are always tried.
    pub cases: usize,
    /// The only role of the recipe to try; all if `None`.
    pub role: Option<String>,
    /// The only phase of the recipe to try; all if `None`.
    pub phase: Option<String>,
    /// The only command of the recipe to try; all if `None`.
    pub command: Option<String>,
}

/// A promise that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FuzzFinding {
    /// The diagnostic for the broken promise.
    pub diag: Diagnostic,
    /// The input that held the value.
    pub input: String,
    /// The value that breaks the promise.
    pub value: SharedText,
}

/// The result of a fuzz run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FuzzReport {
    /// The number of values that were tried, each in one place.
    pub tried: usize,
    /// The findings in order of appearance, each promise and place once.
    pub findings: Vec<FuzzFinding>,
}

impl FuzzReport {
    /// Returns the number of errors among the findings.
    pub fn error_count(&self) -> usize {
        self.findings.iter().filter(|finding| finding.diag.severity == Severity::Error).count()
    }
}

/// Tries hostile values on `subject`. Calls `watch` with the number of values tried so far and their total.
///
/// ```
/// use callsheet_lint::fuzz::{FuzzOptions, FuzzSubject, fuzz};
///
/// let subject = FuzzSubject::Template("templates/by-file.md");
/// let report =
///     fuzz(&callsheet_core::Builtin, &Default::default(), subject, &FuzzOptions::default(), &mut |_, _| {})?;
/// assert_eq!(report.error_count(), 0);
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn fuzz(
    sources: &dyn Sources,
    layout: &Layout,
    subject: FuzzSubject<'_>,
    options: &FuzzOptions,
    watch: &mut dyn FnMut(usize, usize),
) -> Result<FuzzReport, Diagnostics> {
    let sources = CachedSources::new(sources);
    let choices = list_variants(&sources, layout, subject, options)?;
    let mut run = FuzzRun { engine: OURS, sources: &sources, layout, report: FuzzReport::default() };
    let mut trials = Vec::new();
    let mut seen = BTreeSet::new();
    for choice in &choices {
        trials.extend(run.list_trials(choice, &mut seen)?);
    }
    let fixed = values::fixed_values();
    let total = trials.iter().map(|trial| fixed.len() + trial.closers.len()).sum::<usize>() + options.cases;
    for trial in &trials {
        for value in fixed.iter().cloned().chain(trial.closers.iter().map(|closer| closer.as_str().into())) {
            watch(run.report.tried, total);
            run.attempt(trial, &value);
        }
    }
    let mut random = values::SeededRandom(options.seed);
    for _ in 0..if trials.is_empty() { 0 } else { options.cases } {
        watch(run.report.tried, total);
        let trial = &trials[random.next_below(trials.len())];
        let value = random.next_value(&trial.closers);
        run.attempt(trial, &value);
    }
    Ok(run.report)
}

/// One input of one recipe variant, with its plain prompt.
struct FuzzTrial<'c> {
    choice: &'c RecipeVariant,
    input: FuzzInput,
    request: Request,
    made: ComposedCase,
    slots: Vec<SlotOccurrence>,
    spots: Vec<usize>,
    /// Texts that would end a construct that is open around a slot.
    closers: Vec<String>,
}

/// A place in a block that holds the input.
struct SlotOccurrence {
    block: String,
    range: Range<usize>,
    around: Vec<MarkupConstruct>,
    /// The position of the hole in the template.
    place: Option<(String, SharedText, Range<usize>)>,
}

struct FuzzRun<'r> {
    engine: EngineUnderTest,
    sources: &'r dyn Sources,
    layout: &'r Layout,
    report: FuzzReport,
}

impl FuzzRun<'_> {
    fn make_plain(
        &self,
        choice: &RecipeVariant,
        input: Option<&FuzzInput>,
        request: &Request,
    ) -> Result<ComposedCase, Diagnostics> {
        let mut outside = FuzzSources::new(self.sources, self.layout, request);
        let mut request = request.clone();
        if let Some(input) = input {
            outside.put(input, &input.plain_text().into(), &mut request);
        }
        self.engine.make(&request, &choice.recipe, &outside).map_err(|failure| match failure {
            CaseFailure::Refused(diagnostics) => diagnostics,
            CaseFailure::Broken(what) => {
                Diagnostic::error(Code::FuzzEngine, format!("without any hostile value, {what}")).into()
            }
        })
    }

    /// Returns the inputs that this variant shows, except those that were `seen` in the same surroundings.
    fn list_trials<'c>(
        &self,
        choice: &'c RecipeVariant,
        seen: &mut BTreeSet<(String, Vec<String>)>,
    ) -> Result<Vec<FuzzTrial<'c>>, Diagnostics> {
        let mut request = if choice.is_template { Request::default() } else { full_request(self.layout) };
        request.layout = self.layout.clone();
        request.missing = Some(MissingPolicy::Empty);
        [request.agent, request.phase, request.role, request.command] = choice.fields.clone();
        for name in &choice.slots {
            request.values.insert(name.as_str().into(), FuzzInput::Value(name.clone()).plain_text().into());
        }
        // The session has one sub-plan: its files hold any text, but its number is a number.
        request.values.insert(PLAN.into(), "1".into());
        let made = self.make_plain(choice, None, &request)?;
        let used = request.values.iter().zip(&made.composed.used).filter(|(_, used)| **used);
        request.values = used.map(|((name, text), _)| (name.clone(), text.clone())).collect();
        let names: Vec<SharedText> =
            request.values.keys().filter(|name| name.as_str() != PLAN).cloned().collect();
        let values = names.iter().map(|name| FuzzInput::Value(name.to_string()));
        let fields = (0..FIELDS.len()).filter(|_| !choice.is_template).map(FuzzInput::Field);
        let mut trials = Vec::new();
        for input in values.chain([FuzzInput::Session, FuzzInput::Project]).chain(fields) {
            let made = self.make_plain(choice, Some(&input), &request)?;
            let (slots, spots) = find_occurrences(&made, &input.plain_text());
            let names = made.composed.prompt.sections.iter().flat_map(|section| &section.blocks);
            let named = names.filter_map(|block| Some(block.document?.1.text(&made.composed.prompt.origins)));
            let is_name = named.clone().any(|name| name.contains(&input.plain_text()));
            let mut surroundings: Vec<String> = slots.iter().map(|slot| slot.block.clone()).collect();
            surroundings.extend(is_name.then(String::new));
            if surroundings.is_empty() || !seen.insert((input.plain_text(), surroundings)) {
                continue;
            }
            let closers: BTreeSet<String> = slots
                .iter()
                .flat_map(|slot| slot.around.iter().map(|it| it.closing_text(&slot.block)))
                .collect();
            let closers = closers.into_iter().collect();
            trials.push(FuzzTrial { choice, input, request: request.clone(), made, slots, spots, closers });
        }
        Ok(trials)
    }

    fn attempt(&mut self, trial: &FuzzTrial<'_>, value: &SharedText) {
        self.report.tried += 1;
        let mut outside = FuzzSources::new(self.sources, self.layout, &trial.request);
        let mut request = trial.request.clone();
        outside.put(&trial.input, value, &mut request);
        // A path is written in its normal form.
        let own_form = SourceId::new(SourceRoot::Project, value).is_ok_and(|id| id.path() == value.as_str());
        if trial.input.name() == "read_first" && !own_form {
            return;
        }
        let (plain, name) = (trial.input.plain_text(), trial.input.name());
        let control = ControlCase { made: &trial.made, plain: &plain, spots: &trial.spots };
        let made = match self.engine.judge(&request, &trial.choice.recipe, &outside, &control, value) {
            Ok(made) => made,
            Err(CaseFailure::Refused(_)) => return,
            Err(CaseFailure::Broken(what)) => {
                let place = trial.slots.first().and_then(|slot| slot.place.as_ref());
                let diag = Diagnostic::error(
                    Code::FuzzEngine,
                    format!("a value of `{name}` breaks a promise: {what}"),
                );
                let diag = diag.hint("this is a bug in callsheet: please report it");
                return self.report_finding(with_place(diag, place), trial, value);
            }
        };
        let stands = made.text_ranges();
        let same = stands.len() == trial.made.text_ranges().len();
        for (slot, spot) in trial.slots.iter().zip(&trial.spots) {
            let tagged = same && stands[*spot].tag.is_some();
            if let Some(it) = find_ended(&slot.block, &slot.range, &slot.around, value, tagged) {
                let message = format!(
                    "a value of `{name}` can end the {} that `{}` opens",
                    it.kind.words(),
                    it.label(&slot.block)
                );
                self.report_finding(
                    with_place(Diagnostic::error(Code::FuzzEscapes, message), slot.place.as_ref()),
                    trial,
                    value,
                );
            }
            if !value.is_empty() {
                continue;
            }
            let left = format!("{}{}", &slot.block[..slot.range.start], &slot.block[slot.range.end..]);
            let prompt = &made.composed.prompt;
            let mut blocks = prompt.sections.iter().flat_map(|section| &section.blocks);
            // An empty block or row is left out entirely.
            let is_left = blocks.any(|block| block.text(&prompt.origins) == left);
            if let Some(what) = find_dangling(&slot.block, &slot.range, &slot.around).filter(|_| is_left) {
                let message = format!("without a value of `{name}` a {what} is empty");
                self.report_finding(
                    with_place(Diagnostic::warning(Code::FuzzDangling, message), slot.place.as_ref()),
                    trial,
                    value,
                );
            }
        }
    }

    fn report_finding(&mut self, diag: Diagnostic, trial: &FuzzTrial<'_>, value: &SharedText) {
        let same = |known: &FuzzFinding| known.diag.message == diag.message && known.diag.place == diag.place;
        if self.report.findings.iter().any(same) {
            return;
        }
        let diag = if diag.severity == Severity::Error {
            diag.hint(format!("tried: {}", values::format_value(value)))
        } else {
            diag
        };
        self.report.findings.push(FuzzFinding { diag, input: trial.input.name(), value: value.clone() });
    }
}

fn with_place(diag: Diagnostic, place: Option<&(String, SharedText, Range<usize>)>) -> Diagnostic {
    match place {
        Some((name, text, range)) => diag.at(name, text, range.clone()),
        None => diag,
    }
}

/// Returns every place of `plain` in a block, and its index among the texts of all blocks.
fn find_occurrences(made: &ComposedCase, plain: &str) -> (Vec<SlotOccurrence>, Vec<usize>) {
    let prompt = &made.composed.prompt;
    let (mut slots, mut spots, mut count) = (Vec::new(), Vec::new(), 0);
    for block in prompt.sections.iter().flat_map(|section| &section.blocks) {
        let text = block.text(&prompt.origins);
        let mut start = 0;
        for (at, piece) in block.pieces.iter().enumerate() {
            let own = piece.text(&prompt.origins);
            if let Some(found) = own.find(plain) {
                let range = start + found..start + found + plain.len();
                let (around, block_text) = (find_enclosing(&text, &range), text.clone());
                let place = find_hole(&prompt.origins, &block.pieces, at);
                slots.push(SlotOccurrence { block: block_text, range, around, place });
                spots.push(count);
            }
            start += own.len();
            count += usize::from(has_span(prompt, piece));
        }
    }
    (slots, spots)
}

/// Returns the hole in the template that a text fills: after the piece before it, or before the piece after
/// it.
fn find_hole(
    origins: &OriginTable,
    pieces: &[Piece],
    at: usize,
) -> Option<(String, SharedText, Range<usize>)> {
    let of = |piece: &Piece| {
        let origin = &origins[piece.origin];
        let callsheet_core::source::origin::OriginKind::Source(id) = &origin.from else { return None };
        Some((id.to_string(), origin.text.clone()))
    };
    let closed = |rest: &str| {
        let close = if rest.starts_with("{{") { "}}" } else { "]]" };
        let opens = rest.starts_with("{{") || rest.starts_with("[[");
        // A path can hold holes of its own.
        let line = rest.lines().next().unwrap_or_default();
        let end = if line.starts_with("[[include") { line.rfind(close) } else { line.find(close) };
        end.filter(|_| opens).map(|end| end + close.len())
    };
    let before = at.checked_sub(1).and_then(|at| pieces.get(at)).and_then(|piece| {
        let (name, text) = of(piece)?;
        let length = closed(&text[piece.end..])?;
        Some((name, text, piece.end..piece.end + length))
    });
    before.or_else(|| {
        let piece = pieces.get(at + 1)?;
        let (name, text) = of(piece)?;
        let start =
            text[..piece.start].rfind(['{', '[']).map(|at| text[..=at].trim_end_matches(['{', '[']).len())?;
        (start + closed(&text[start..])? == piece.start).then_some((name, text, start..piece.start))
    })
}
