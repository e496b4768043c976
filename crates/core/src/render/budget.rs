//! Fits a prompt into a budget of tokens by degrading blocks.
//!
//! Blocks of level `may` degrade before those of level `should`, the largest block first, one detail level at
//! a time: full, outline, path, out. Blocks of level `must` never degrade. Counting tokens is left to the
//! caller.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use serde::Serialize;

use crate::compose::ComposedPrompt;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::format::ModelApi;
use crate::library::lookup::Library;
use crate::library::recipe::RecipeFile;
use crate::library::recipe::SectionPriority;
use crate::prompt::{Block, BudgetUnit, Prompt};
use crate::render::{RenderedText, render};
use crate::request::Request;
use crate::request::detail::DetailLevel;
use crate::source::Sources;
use crate::source::cached_sources::CachedSources;

/// A prompt that fits its budget, and the degradations that made it fit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FittedPrompt {
    /// The request with all degradations in it: composing it gives the same prompt again, without counting.
    pub request: Request,
    /// The composed prompt.
    pub composed: ComposedPrompt,
    /// The rendered prompt.
    pub rendered: RenderedText,
    /// The tokens of the whole text.
    pub tokens: usize,
    /// All degradations, in the order in which they were made.
    pub steps: Vec<Degradation>,
}

/// One block, degraded by one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Degradation {
    /// The name of the block: a document's label, or a block of a section.
    pub what: String,
    /// The section that holds the block.
    pub section: String,
    /// The priority of the block.
    pub level: SectionPriority,
    /// The detail level before.
    pub from: DetailLevel,
    /// The detail level after.
    pub to: DetailLevel,
    /// The tokens of the block alone, before.
    pub before: usize,
    /// The tokens of the block alone, after.
    pub after: usize,
}

/// Composes `request` and degrades blocks while the rendered text has more than `budget` tokens. `count`
/// returns the tokens of a text for the agent of the prompt.
///
/// ```
/// use callsheet_core::{Builtin, Request, fit};
///
/// let request = Request {
///     recipe: Some("unified".into()),
///     phase: Some("plan".into()),
///     instructions: Some("Add a login page.".into()),
///     ..Request::default()
/// };
/// // A rough count. The package `callsheet` counts exactly.
/// let fitted = fit(&request, &Builtin, None, 20_000, &mut |_, text| text.len() / 4)?;
/// assert_eq!(fitted.steps, []); // nothing had to be shortened
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn fit(
    request: &Request,
    sources: &dyn Sources,
    api: Option<ModelApi>,
    budget: usize,
    count: &mut dyn FnMut(&ComposedPrompt, &str) -> usize,
) -> Result<FittedPrompt, Diagnostics> {
    let files = CachedSources::new(sources);
    let library = Library::new(&files as &dyn Sources);
    let maker = BudgetComposer { request, recipe: library.recipe(request)?, library, api };
    let whole = maker.attempt(request.steps.clone())?;
    let tokens = count(&whole.composed, &whole.rendered.text);
    if tokens <= budget {
        return Ok(whole.into_fitted(tokens, Vec::new()));
    }
    let mut count = |text: &str| count(&whole.composed, text);
    let units = degradable_units(&whole);
    let everything = |level| maker.attempt(maker.merge_steps(units.iter().map(|unit| (unit, level))));
    // The `must` blocks alone may not be a valid prompt, such as a body without a message. Their tokens are
    // then unknown, but a larger prompt may still fit.
    let musts = everything(DetailLevel::Out).map_or(0, |least| count(&least.rendered.text));
    if musts > budget {
        let message =
            format!("the required parts of this prompt have {musts} tokens; the budget is {budget}");
        let error = Diagnostic::error(Code::BudgetMusts, message);
        return Err(error.hint("run `callsheet compose --count` to see the tokens of each section").into());
    }
    let (outline, path) = (everything(DetailLevel::Outline)?, everything(DetailLevel::Path)?);
    let mut ladder = DegradationLadder::new(units, [&whole, &outline, &path], &mut count);
    let mut expected = tokens;
    loop {
        let stuck = !ladder.degrade(&mut expected, budget);
        let attempt = maker.attempt(maker.merge_steps(ladder.detail_levels()))?;
        // Token counts of parts do not add up: only the count of the whole text is exact.
        let tokens = (ladder.count)(&attempt.rendered.text);
        if tokens <= budget || stuck {
            let warning = ladder.warning(budget);
            let mut fitted = attempt.into_fitted(tokens, ladder.steps);
            fitted.composed.diagnostics.push(warning);
            return Ok(fitted);
        }
        expected = tokens;
    }
}

/// Composes one request repeatedly, each time with other degradations.
struct BudgetComposer<'m> {
    request: &'m Request,
    recipe: RecipeFile,
    library: Library<&'m dyn Sources>,
    api: Option<ModelApi>,
}

struct BudgetAttempt {
    request: Request,
    composed: ComposedPrompt,
    rendered: RenderedText,
}

impl BudgetComposer<'_> {
    /// Returns the request's own degradations combined with these.
    fn merge_steps<'u>(
        &self,
        levels: impl Iterator<Item = (&'u DegradableUnit, DetailLevel)>,
    ) -> BTreeMap<String, DetailLevel> {
        let mut steps = self.request.steps.clone();
        for (unit, level) in levels.filter(|(unit, level)| *level > unit.start) {
            let step = steps.entry(unit.key.clone()).or_default();
            *step = level.max(*step);
        }
        steps
    }

    fn attempt(&self, steps: BTreeMap<String, DetailLevel>) -> Result<BudgetAttempt, Diagnostics> {
        let request = Request { steps, ..self.request.clone() };
        let composed = self.library.compose(&request, &self.recipe)?;
        let rendered = render(&composed.prompt, composed.prompt.format, self.api)?;
        Ok(BudgetAttempt { request, composed, rendered })
    }
}

impl BudgetAttempt {
    fn into_fitted(self, tokens: usize, steps: Vec<Degradation>) -> FittedPrompt {
        let Self { request, composed, rendered } = self;
        FittedPrompt { request, composed, rendered, tokens, steps }
    }

    /// Returns the ranges of the text that belong to each unit.
    fn ranges(&self) -> BTreeMap<String, Vec<Range<usize>>> {
        let prompt = &self.composed.prompt;
        let mut ranges: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
        for (section, placed) in prompt.sections.iter().zip(self.rendered.section_ranges(prompt)) {
            for (block, range) in section.blocks.iter().zip(placed.blocks) {
                if let Some(unit) = block.unit {
                    ranges.entry(unit.key(&section.name, &block.name)).or_default().push(range);
                }
            }
        }
        ranges
    }
}

/// A block that can be degraded, or several that are degraded together.
struct DegradableUnit {
    key: String,
    what: String,
    section: String,
    level: SectionPriority,
    /// Its detail level before any degradation.
    start: DetailLevel,
}

/// Returns everything in the prompt that can be degraded, in order of appearance.
fn degradable_units(whole: &BudgetAttempt) -> Vec<DegradableUnit> {
    let prompt = &whole.composed.prompt;
    let mut units: Vec<DegradableUnit> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for section in &prompt.sections {
        for block in &section.blocks {
            let Some(unit) = block.unit else { continue };
            let key = unit.key(&section.name, &block.name);
            if let Some(at) = known.get(&key) {
                let unit = &mut units[*at];
                unit.level = unit.level.min(block.level);
                continue;
            }
            known.insert(key.clone(), units.len());
            let what = unit_label(prompt, unit, &section.name, block);
            let start = starting_level(&whole.request, unit, &key);
            units.push(DegradableUnit {
                key,
                what,
                section: section.name.clone(),
                level: block.level,
                start,
            });
        }
    }
    units.retain(|unit| unit.level != SectionPriority::Must);
    units
}

fn unit_label(prompt: &Prompt, unit: BudgetUnit, section: &str, block: &Block) -> String {
    match block.document {
        Some((_, name)) => name.text(&prompt.origins).to_string(),
        None => unit.label(section, &block.name),
    }
}

fn starting_level(request: &Request, unit: BudgetUnit, key: &str) -> DetailLevel {
    let detail = match unit {
        BudgetUnit::Document(at) => request.documents.get(at).and_then(|document| document.detail),
        BudgetUnit::Own | BudgetUnit::Context(_) => None,
    };
    DetailLevel::from(detail.unwrap_or_default()).max(request.steps.get(key).copied().unwrap_or_default())
}

/// The detail levels that show something, indexed by their number.
const SHOWN: [DetailLevel; 3] = [DetailLevel::Full, DetailLevel::Outline, DetailLevel::Path];

/// Ranges of a text by the key of their unit.
type NamedRanges = BTreeMap<String, Vec<Range<usize>>>;

struct DegradationLadder<'l> {
    units: Vec<DegradableUnit>,
    shown: Vec<DetailLevel>,
    texts: [(&'l str, NamedRanges); SHOWN.len()],
    /// Units with their tokens, the next one to degrade first; one level at a time.
    queue: BinaryHeap<(usize, Reverse<usize>)>,
    levels: core::array::IntoIter<SectionPriority, 2>,
    steps: Vec<Degradation>,
    count: &'l mut dyn FnMut(&str) -> usize,
}

impl<'l> DegradationLadder<'l> {
    fn new(
        units: Vec<DegradableUnit>,
        attempts: [&'l BudgetAttempt; SHOWN.len()],
        count: &'l mut dyn FnMut(&str) -> usize,
    ) -> Self {
        Self {
            shown: units.iter().map(|unit| unit.start).collect(),
            units,
            texts: attempts.map(|attempt| (attempt.rendered.text.as_str(), attempt.ranges())),
            queue: BinaryHeap::new(),
            levels: [SectionPriority::May, SectionPriority::Should].into_iter(),
            steps: Vec::new(),
            count,
        }
    }

    fn warning(&self, budget: usize) -> Diagnostic {
        let changed = || self.units.iter().zip(&self.shown).filter(|(unit, at)| unit.start != **at);
        let stepped = |level: DetailLevel| changed().filter(|(_, at)| **at == level).count();
        let all = changed().count();
        let kinds = [
            (DetailLevel::Outline, "to an outline"),
            (DetailLevel::Path, "to a path"),
            (DetailLevel::Out, "out"),
        ];
        let kinds = kinds.map(|(level, words)| (stepped(level), words));
        let kinds: Vec<String> =
            kinds.iter().filter(|(all, _)| *all > 0).map(|(all, words)| format!("{all} {words}")).collect();
        let blocks = if self.units.len() == 1 { "block" } else { "blocks" };
        let verb = if all == 1 { "was" } else { "were" };
        let message = format!(
            "to fit {budget} tokens, {all} of {} {blocks} {verb} reduced: {}",
            self.units.len(),
            kinds.join(", "),
        );
        Diagnostic::warning(Code::BudgetStepped, message).hint("run `callsheet explain` to see every step")
    }

    fn detail_levels(&self) -> impl Iterator<Item = (&DegradableUnit, DetailLevel)> {
        self.units.iter().zip(self.shown.iter().copied())
    }

    /// Degrades blocks until the prompt is expected to fit. Returns `false` if nothing more can be degraded.
    fn degrade(&mut self, expected: &mut usize, budget: usize) -> bool {
        while *expected > budget {
            let Some((before, Reverse(at))) = self.next_unit() else { return false };
            let from = self.shown[at];
            let (to, after) = self.find_lower_level(at, from, before);
            *expected = expected.saturating_sub(before - after);
            self.shown[at] = to;
            if to != DetailLevel::Out {
                self.queue.push((after, Reverse(at)));
            }
            let DegradableUnit { what, section, level, .. } = &self.units[at];
            let (what, section, level) = (what.clone(), section.clone(), *level);
            self.steps.push(Degradation { what, section, level, from, to, before, after });
        }
        true
    }

    fn next_unit(&mut self) -> Option<(usize, Reverse<usize>)> {
        while self.queue.is_empty() {
            let level = self.levels.next()?;
            for at in 0..self.units.len() {
                if self.units[at].level == level {
                    let tokens = self.count_tokens(at, self.units[at].start);
                    self.queue.push((tokens, Reverse(at)));
                }
            }
        }
        self.queue.pop()
    }

    /// Returns the next detail level at which the unit has fewer tokens than `before`.
    fn find_lower_level(&mut self, at: usize, from: DetailLevel, before: usize) -> (DetailLevel, usize) {
        for level in SHOWN.into_iter().filter(|level| *level > from) {
            let tokens = self.count_tokens(at, level);
            if tokens < before {
                return (level, tokens);
            }
        }
        (DetailLevel::Out, 0)
    }

    fn count_tokens(&mut self, at: usize, level: DetailLevel) -> usize {
        let (text, ranges) = &self.texts[level as usize];
        let ranges = ranges.get(&self.units[at].key).into_iter().flatten();
        ranges.map(|range| (self.count)(&text[range.clone()])).sum()
    }
}
