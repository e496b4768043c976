//! Reads tokens, cost and model from an agent's events.

use alloc::string::String;
use serde_json::Value;

use super::receipt::AgentReport;
use crate::library::agent::{EventPatterns, UsagePattern};
use crate::library::prices::TokenCounts;

/// The most characters of a model's name.
const MOST_MODEL: usize = 200;

/// Places of the counts in an event.
struct CountPlaces<'p> {
    input: &'p [String],
    output: &'p [String],
    cached: &'p [String],
    cache_written: &'p [String],
    total: &'p [String],
    cost_usd: &'p [String],
    /// Whether the number of input tokens includes the cached ones.
    includes_cached: bool,
}

impl<'p> CountPlaces<'p> {
    /// Returns the places of the sums so far.
    fn of_sums(events: &'p EventPatterns) -> Self {
        Self {
            input: &events.input_tokens,
            output: &events.output_tokens,
            cached: &events.cached_tokens,
            cache_written: &events.cache_written_tokens,
            total: &events.total_tokens,
            cost_usd: &events.cost_usd,
            includes_cached: events.input_includes_cached,
        }
    }

    /// Returns the places of the counts of a part of the work.
    fn of_part(events: &'p EventPatterns, part: &'p UsagePattern) -> Self {
        Self {
            input: part.input_tokens.as_slice(),
            output: part.output_tokens.as_slice(),
            cached: part.cached_tokens.as_slice(),
            cache_written: part.cache_written_tokens.as_slice(),
            total: part.total_tokens.as_slice(),
            cost_usd: part.cost_usd.as_slice(),
            includes_cached: events.input_includes_cached,
        }
    }

    fn read(&self, event: &Value) -> AgentReport {
        let first = |places: &[String]| places.iter().find_map(|place| event.pointer(place));
        let number = |places: &[String]| first(places).and_then(Value::as_u64);
        let (input, cached, output) = (number(self.input), number(self.cached), number(self.output));
        let all_input = input.map(|input| {
            let beside = if self.includes_cached { 0 } else { cached.unwrap_or(0) };
            let written = number(self.cache_written).unwrap_or(0);
            input.saturating_add(beside).saturating_add(written)
        });
        let named = all_input.unwrap_or(0).saturating_add(output.unwrap_or(0));
        let thoughts = number(self.total).map(|total| total.saturating_sub(named));
        AgentReport {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached,
            all_input_tokens: all_input,
            thought_tokens: thoughts.filter(|count| *count > 0),
            cost_usd: first(self.cost_usd).and_then(Value::as_f64),
            ..AgentReport::default()
        }
    }
}

/// Tokens and cost of the parts of the work, which add up.
#[derive(Debug, Default)]
pub(super) struct PartialUsage {
    /// Id of the last part, if it has one.
    id: Option<String>,
    /// Sum of the parts before it.
    before: AgentReport,
    part: AgentReport,
}

impl PartialUsage {
    /// Adds an event about a part. Returns the sum; `None` if the event is not about a part.
    pub(super) fn add_event(&mut self, events: &EventPatterns, event: &Value) -> Option<AgentReport> {
        let fits = |pattern: &&UsagePattern| pattern.when.as_ref().is_some_and(|when| when.matches(event));
        let pattern = events.usage.iter().find(fits)?;
        let id = pattern.id.as_ref().and_then(|place| event.pointer(place)).and_then(Value::as_str);
        // Several events can report the same part.
        if id.is_none() || self.id.as_deref() != id {
            self.before.add_counts(&self.part);
            self.id = id.map(String::from);
        }
        self.part = CountPlaces::of_part(events, pattern).read(event);
        let mut all = self.before.clone();
        all.add_counts(&self.part);
        Some(all)
    }
}

impl AgentReport {
    /// Takes the sums and the model of an event.
    pub(super) fn read_usage(&mut self, events: &EventPatterns, event: &Value) {
        let model = events.model.iter().find_map(|place| event.pointer(place)).and_then(Value::as_str);
        if let Some(model) = model {
            self.model.get_or_insert_with(|| model.chars().take(MOST_MODEL).collect());
        }
        self.take_counts(&CountPlaces::of_sums(events).read(event));
    }

    /// Replaces every count that the other report has.
    pub(super) fn take_counts(&mut self, new: &Self) {
        self.input_tokens = new.input_tokens.or(self.input_tokens);
        self.output_tokens = new.output_tokens.or(self.output_tokens);
        self.cached_tokens = new.cached_tokens.or(self.cached_tokens);
        self.all_input_tokens = new.all_input_tokens.or(self.all_input_tokens);
        self.thought_tokens = new.thought_tokens.or(self.thought_tokens);
        self.cost_usd = new.cost_usd.or(self.cost_usd);
    }

    fn add_counts(&mut self, part: &Self) {
        let add = |all: &mut Option<u64>, part: Option<u64>| {
            if let Some(part) = part {
                *all = Some(all.unwrap_or(0).saturating_add(part));
            }
        };
        add(&mut self.input_tokens, part.input_tokens);
        add(&mut self.output_tokens, part.output_tokens);
        add(&mut self.cached_tokens, part.cached_tokens);
        add(&mut self.all_input_tokens, part.all_input_tokens);
        add(&mut self.thought_tokens, part.thought_tokens);
        if let Some(cost) = part.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }

    /// Returns the tokens that are paid for; `None` if the agent reported none.
    pub fn token_counts(&self) -> Option<TokenCounts> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let cached = self.cached_tokens.unwrap_or(0);
        // Records of older versions do not say whether the input includes the cached tokens.
        let input =
            self.all_input_tokens.unwrap_or_else(|| self.input_tokens.unwrap_or(0).saturating_add(cached));
        let output = self.output_tokens.unwrap_or(0).saturating_add(self.thought_tokens.unwrap_or(0));
        Some(TokenCounts { input, cached, output })
    }
}
