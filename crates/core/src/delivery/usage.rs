//! Reads tokens, cost and model from an agent's events.

use alloc::string::String;
use serde_json::Value;

use super::receipt::AgentReport;
use crate::library::agent::EventPatterns;
use crate::library::prices::TokenCounts;

/// The most characters of a model's name.
const MOST_MODEL: usize = 200;

impl AgentReport {
    /// Adds the tokens, the cost and the model of an event.
    pub(super) fn read_usage(&mut self, events: &EventPatterns, event: &Value) {
        let first = |places: &[String]| places.iter().find_map(|place| event.pointer(place));
        if let Some(model) = first(&events.model).and_then(Value::as_str) {
            self.model.get_or_insert_with(|| model.chars().take(MOST_MODEL).collect());
        }
        let number = |places: &[String]| first(places).and_then(Value::as_u64);
        let add = |new: Option<u64>, known: Option<u64>| match (new, known) {
            (Some(new), Some(known)) if events.counts_add_up => Some(known.saturating_add(new)),
            (new, known) => new.or(known),
        };
        let (input, cached) = (number(&events.input_tokens), number(&events.cached_tokens));
        let output = number(&events.output_tokens);
        let all_input = input.map(|input| {
            let beside = if events.input_includes_cached { 0 } else { cached.unwrap_or(0) };
            let written = number(&events.cache_written_tokens).unwrap_or(0);
            input.saturating_add(beside).saturating_add(written)
        });
        let named = all_input.unwrap_or(0).saturating_add(output.unwrap_or(0));
        let thoughts = number(&events.total_tokens).map(|total| total.saturating_sub(named));
        self.input_tokens = add(input, self.input_tokens);
        self.output_tokens = add(output, self.output_tokens);
        self.cached_tokens = add(cached, self.cached_tokens);
        self.all_input_tokens = add(all_input, self.all_input_tokens);
        self.thought_tokens = add(thoughts.filter(|count| *count > 0), self.thought_tokens);
        let cost = first(&events.cost_usd).and_then(Value::as_f64);
        self.cost_usd = match (cost, self.cost_usd) {
            (Some(new), Some(known)) if events.counts_add_up => Some(known + new),
            (new, known) => new.or(known),
        };
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
