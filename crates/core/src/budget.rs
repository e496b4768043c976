//! Budgets: which blocks step down, and how far, so that a prompt has no more tokens than it may.
//!
//! What may be in a prompt steps down before what should be, the largest block first, one rung at a time:
//! full, outline, path, out. What must be in it never does. Counting is the caller's business.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use serde::Serialize;

use crate::compose::Composed;
use crate::data::RecipeFile;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::Library;
use crate::once::ReadOnce;
use crate::prompt::{Block, Prompt, Unit};
use crate::recipe::Level;
use crate::render::{Api, Rendered, render};
use crate::request::Request;
use crate::source::Sources;
use crate::step::Rung;

/// A prompt that fits, and how it was made to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The request with all steps in it: composing it gives the same prompt again, without counting.
    pub request: Request,
    pub composed: Composed,
    pub rendered: Rendered,
    /// How many tokens the whole text has.
    pub tokens: usize,
    /// Every step, in the order in which they were taken.
    pub steps: Vec<Step>,
}

/// One block, one rung down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub what: String,
    pub section: String,
    pub level: Level,
    pub from: Rung,
    pub to: Rung,
    /// The tokens of the block alone, before and after.
    pub before: usize,
    pub after: usize,
}

/// Composes `request` and, while the finished text has more than `budget` tokens, lets blocks step down.
/// `count` says how many tokens a text has for those whom the prompt is composed for.
pub fn fit(
    request: &Request,
    sources: &dyn Sources,
    api: Option<Api>,
    budget: usize,
    count: &mut dyn FnMut(&Composed, &str) -> usize,
) -> Result<Fitted, Failure> {
    let files = ReadOnce::new(sources);
    let library = Library::new(&files);
    let maker = Maker { request, recipe: library.recipe(request)?, library, api };
    let whole = maker.attempt(request.steps.clone())?;
    let tokens = count(&whole.composed, &whole.rendered.text);
    if tokens <= budget {
        return Ok(whole.fitted(tokens, Vec::new()));
    }
    let mut count = |text: &str| count(&whole.composed, text);
    let units = units(&whole);
    let everything = |rung| maker.attempt(maker.steps(units.iter().map(|unit| (unit, rung))));
    // The musts alone may be no prompt at all, such as a body without a message: then there is no saying how
    // many tokens they have, but there may well be something that fits.
    let musts = everything(Rung::Out).map_or(0, |least| count(&least.rendered.text));
    if musts > budget {
        let message = format!("what must be in this prompt has {musts} tokens; the budget is {budget}");
        let error = Diag::error(Code::BudgetMusts, message);
        return Err(error.hint("`compose --count` shows how many each section has").into());
    }
    let (outline, path) = (everything(Rung::Outline)?, everything(Rung::Path)?);
    let mut ladder = Ladder::new(units, [&whole, &outline, &path], &mut count);
    let mut expected = tokens;
    loop {
        let stuck = !ladder.step_down(&mut expected, budget);
        let attempt = maker.attempt(maker.steps(ladder.rungs()))?;
        // Counts do not add up over cuts: only that of the whole text is true.
        let tokens = (ladder.count)(&attempt.rendered.text);
        if tokens <= budget || stuck {
            let warning = ladder.warning(budget);
            let mut fitted = attempt.fitted(tokens, ladder.steps);
            fitted.composed.talk.push(warning);
            return Ok(fitted);
        }
        expected = tokens;
    }
}

/// Composes the same request again and again, each time with other steps.
struct Maker<'m> {
    request: &'m Request,
    recipe: RecipeFile,
    library: Library<'m>,
    api: Option<Api>,
}

struct Attempt {
    request: Request,
    composed: Composed,
    rendered: Rendered,
}

impl Maker<'_> {
    /// The request's own steps, and on top of them these.
    fn steps<'u>(&self, rungs: impl Iterator<Item = (&'u Stepping, Rung)>) -> BTreeMap<String, Rung> {
        let mut steps = self.request.steps.clone();
        for (unit, rung) in rungs.filter(|(unit, rung)| *rung > unit.start) {
            let step = steps.entry(unit.key.clone()).or_default();
            *step = rung.max(*step);
        }
        steps
    }

    fn attempt(&self, steps: BTreeMap<String, Rung>) -> Result<Attempt, Failure> {
        let request = Request { steps, ..self.request.clone() };
        let composed = self.library.compose(&request, &self.recipe)?;
        let rendered = render(&composed.prompt, composed.prompt.format, self.api)?;
        Ok(Attempt { request, composed, rendered })
    }
}

impl Attempt {
    fn fitted(self, tokens: usize, steps: Vec<Step>) -> Fitted {
        let Self { request, composed, rendered } = self;
        Fitted { request, composed, rendered, tokens, steps }
    }

    /// The ranges of the text that each unit has.
    fn ranges(&self) -> BTreeMap<String, Vec<Range<usize>>> {
        let prompt = &self.composed.prompt;
        let mut ranges: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
        for (section, placed) in prompt.sections.iter().zip(self.rendered.places(prompt)) {
            for (block, range) in section.blocks.iter().zip(placed.blocks) {
                if let Some(unit) = block.unit {
                    ranges.entry(unit.key(&section.name, &block.name)).or_default().push(range);
                }
            }
        }
        ranges
    }
}

/// A block that can step down, or several that do so together.
struct Stepping {
    key: String,
    what: String,
    section: String,
    level: Level,
    /// Where it stood when nothing had stepped down yet.
    start: Rung,
}

/// Everything in the prompt that can step down, in the order in which it stands there.
fn units(whole: &Attempt) -> Vec<Stepping> {
    let prompt = &whole.composed.prompt;
    let mut units: Vec<Stepping> = Vec::new();
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
            let what = label(prompt, unit, &section.name, block);
            let start = start(&whole.request, unit, &key);
            units.push(Stepping { key, what, section: section.name.clone(), level: block.level, start });
        }
    }
    units.retain(|unit| unit.level != Level::Must);
    units
}

fn label(prompt: &Prompt, unit: Unit, section: &str, block: &Block) -> String {
    match block.document {
        Some((_, name)) => name.text(&prompt.origins).to_string(),
        None => unit.label(section, &block.name),
    }
}

fn start(request: &Request, unit: Unit, key: &str) -> Rung {
    let detail = match unit {
        Unit::Document(at) => request.documents.get(at).and_then(|document| document.detail),
        Unit::Own | Unit::Context(_) => None,
    };
    Rung::from(detail.unwrap_or_default()).max(request.steps.get(key).copied().unwrap_or_default())
}

/// The rungs that show something; the place of each is its number.
const SHOWN: [Rung; 3] = [Rung::Full, Rung::Outline, Rung::Path];

/// Ranges of a text by the names of what stands there.
type Places = BTreeMap<String, Vec<Range<usize>>>;

struct Ladder<'l> {
    units: Vec<Stepping>,
    rungs: Vec<Rung>,
    texts: [(&'l str, Places); SHOWN.len()],
    /// Units with their tokens, the next one to step down first; those of one level at a time.
    queue: BinaryHeap<(usize, Reverse<usize>)>,
    levels: core::array::IntoIter<Level, 2>,
    steps: Vec<Step>,
    count: &'l mut dyn FnMut(&str) -> usize,
}

impl<'l> Ladder<'l> {
    fn new(
        units: Vec<Stepping>,
        attempts: [&'l Attempt; SHOWN.len()],
        count: &'l mut dyn FnMut(&str) -> usize,
    ) -> Self {
        Self {
            rungs: units.iter().map(|unit| unit.start).collect(),
            units,
            texts: attempts.map(|attempt| (attempt.rendered.text.as_str(), attempt.ranges())),
            queue: BinaryHeap::new(),
            levels: [Level::May, Level::Should].into_iter(),
            steps: Vec::new(),
            count,
        }
    }

    fn warning(&self, budget: usize) -> Diag {
        let changed = || self.units.iter().zip(&self.rungs).filter(|(unit, at)| unit.start != **at);
        let stepped = |rung: Rung| changed().filter(|(_, at)| **at == rung).count();
        let all = changed().count();
        let kinds = [(Rung::Outline, "to an outline"), (Rung::Path, "to a path"), (Rung::Out, "out")];
        let kinds = kinds.map(|(rung, words)| (stepped(rung), words));
        let kinds: Vec<String> =
            kinds.iter().filter(|(all, _)| *all > 0).map(|(all, words)| format!("{all} {words}")).collect();
        let message = format!(
            "to fit into {budget} tokens, {all} of {} blocks stepped down: {}",
            self.units.len(),
            kinds.join(", "),
        );
        Diag::warning(Code::BudgetStepped, message).hint("`explain` lists every step")
    }

    fn rungs(&self) -> impl Iterator<Item = (&Stepping, Rung)> {
        self.units.iter().zip(self.rungs.iter().copied())
    }

    /// Steps down until the prompt is expected to fit; `false` when nothing is left that could.
    fn step_down(&mut self, expected: &mut usize, budget: usize) -> bool {
        while *expected > budget {
            let Some((before, Reverse(at))) = self.next() else { return false };
            let from = self.rungs[at];
            let (to, after) = self.lower(at, from, before);
            *expected = expected.saturating_sub(before - after);
            self.rungs[at] = to;
            if to != Rung::Out {
                self.queue.push((after, Reverse(at)));
            }
            let Stepping { what, section, level, .. } = &self.units[at];
            let (what, section, level) = (what.clone(), section.clone(), *level);
            self.steps.push(Step { what, section, level, from, to, before, after });
        }
        true
    }

    fn next(&mut self) -> Option<(usize, Reverse<usize>)> {
        while self.queue.is_empty() {
            let level = self.levels.next()?;
            for at in 0..self.units.len() {
                if self.units[at].level == level {
                    let tokens = self.tokens(at, self.units[at].start);
                    self.queue.push((tokens, Reverse(at)));
                }
            }
        }
        self.queue.pop()
    }

    /// The next rung on which the unit has fewer tokens than `before`.
    fn lower(&mut self, at: usize, from: Rung, before: usize) -> (Rung, usize) {
        for rung in SHOWN.into_iter().filter(|rung| *rung > from) {
            let tokens = self.tokens(at, rung);
            if tokens < before {
                return (rung, tokens);
            }
        }
        (Rung::Out, 0)
    }

    fn tokens(&mut self, at: usize, rung: Rung) -> usize {
        let (text, ranges) = &self.texts[rung as usize];
        let ranges = ranges.get(&self.units[at].key).into_iter().flatten();
        ranges.map(|range| (self.count)(&text[range.clone()])).sum()
    }
}
