//! The cost of a run: as the agent reported it, else as it was estimated from tokens and a price.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::Exit;

/// Estimate of a run's cost, made when the run ended. It stays as it is when prices change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CostEstimate {
    /// Cost in millionths of a dollar.
    pub cost_microusd: u64,
    /// Model of the price.
    pub model: String,
    /// Month of the price, such as `2025-08`.
    pub as_of: String,
    /// File of the price, such as `builtin:prices/openai.toml`.
    pub source: String,
}

/// Cost of a run, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCost {
    /// Cost in millionths of a dollar.
    pub microusd: u64,
    /// Whether it was estimated from tokens and a price. A sum with one estimate is an estimate.
    pub is_estimate: bool,
}

impl RunCost {
    /// Returns a cost that an agent reported in dollars.
    pub fn from_dollars(dollars: f64) -> Self {
        // The conversion takes what is no number, or negative, as nothing, and saturates.
        Self { microusd: (dollars * 1e6 + 0.5) as u64, is_estimate: false }
    }
}

impl core::ops::Add for RunCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            microusd: self.microusd.saturating_add(other.microusd),
            is_estimate: self.is_estimate || other.is_estimate,
        }
    }
}

impl Exit {
    /// Returns the cost of the run: the reported one, else the estimated one; `None` if neither is known.
    pub fn cost(&self) -> Option<RunCost> {
        let estimate =
            |estimate: &CostEstimate| RunCost { microusd: estimate.cost_microusd, is_estimate: true };
        self.report.cost_usd.map(RunCost::from_dollars).or_else(|| self.estimate.as_ref().map(estimate))
    }
}
