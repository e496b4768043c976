//! Estimates the cost of a run from its tokens, and finds cost limits that cannot be checked before the agent is paid.

use callsheet_core::delivery::receipt::AgentReport;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::agent::{Agent, DeliveryMethod};
use callsheet_core::library::prices::PriceList;
use callsheet_core::record::{CostEstimate, RunCost, RunOptions};

use crate::error::Result;
use crate::project::Project;

impl Project {
    /// Returns the prices that apply: the shipped ones, the user's, and those of a trusted project.
    pub fn prices(&self) -> Result<PriceList> {
        let disk = self.disk(None);
        Ok(PriceList::load(&disk, &self.config.layout(), self.is_trusted())?)
    }
}

/// Measures the cost of a run.
#[derive(Debug)]
pub(crate) struct CostMeter {
    prices: PriceList,
    /// Model that is known before the agent starts.
    model: Option<String>,
}

impl CostMeter {
    pub(crate) fn new(project: &Project, agent: &Agent, options: &RunOptions) -> Result<Self> {
        let prices = if agent.events.has_tokens() { project.prices()? } else { PriceList::default() };
        Ok(Self { prices, model: options.model.clone().or_else(|| agent.model.clone()) })
    }

    /// Estimates the cost of an agent that reports tokens and no cost. The model that it names itself counts.
    pub(crate) fn estimate(&self, report: &AgentReport) -> Option<CostEstimate> {
        let tokens = report.token_counts().filter(|_| report.cost_usd.is_none())?;
        let model = report.model.as_ref().or(self.model.as_ref())?;
        let (source, price) = self.prices.find(model)?;
        Some(CostEstimate {
            cost_microusd: price.cost_microusd(tokens),
            model: model.clone(),
            as_of: price.as_of.clone(),
            source: source.to_string(),
        })
    }

    /// Returns the cost so far: as reported, else as estimated.
    pub(crate) fn cost(&self, report: &AgentReport) -> Option<RunCost> {
        let estimate = || Some(RunCost { microusd: self.estimate(report)?.cost_microusd, is_estimate: true });
        report.cost_usd.map(RunCost::from_dollars).or_else(estimate)
    }

    /// Returns why the cost of a run cannot be known, and the remedy; `None` if it can be.
    fn unknown_reason(&self, agent: &Agent, by: DeliveryMethod) -> Option<(String, String)> {
        let name = &agent.name;
        let elsewhere = "`--timeout` limits every agent";
        if by == DeliveryMethod::Terminal {
            let why = format!("{name} reports no cost in a terminal");
            return Some((why, format!("run it without a terminal; {elsewhere}")));
        }
        if agent.events.has_cost() {
            return None;
        }
        if !agent.events.has_tokens() {
            return Some((format!("{name} reports neither cost nor tokens"), elsewhere.into()));
        }
        let Some(model) = &self.model else {
            let why = format!("{name} reports no cost, and its model is not known");
            return Some((why, "name its model with `--model`".into()));
        };
        let why = format!("{name} reports no cost, and no price of the model `{model}` is known");
        let hint = "add its price to `prices/NAME.toml` in your configuration folder, or name another model with `--model`";
        self.prices.find(model).is_none().then(|| (why, hint.into()))
    }
}

/// A cost limit and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostLimitKind {
    /// A person asked for it with a flag: a run that cannot be limited is refused.
    Given,
    /// It is configured for all runs: a run that cannot be limited is reported.
    Configured,
}

/// Refuses a cost limit that was asked for and cannot be checked. Returns a warning for a configured one.
pub(crate) fn check_cost_limit(
    meter: &CostMeter,
    agent: &Agent,
    by: DeliveryMethod,
    limit: Option<CostLimitKind>,
) -> Result<Option<Diagnostic>> {
    let Some((kind, (why, hint))) = limit.zip(meter.unknown_reason(agent, by)) else { return Ok(None) };
    match kind {
        CostLimitKind::Given => {
            let message = format!("`--max-cost` cannot be checked: {why}");
            Err(Diagnostic::error(Code::CostUnknown, message)
                .hint(hint)
                .hint("or remove `--max-cost`")
                .into())
        }
        CostLimitKind::Configured => {
            let message = format!("the configured cost limit cannot be checked: {why}");
            Ok(Some(Diagnostic::warning(Code::CostUnknown, message).hint(hint)))
        }
    }
}

/// Renders millionths of a dollar: `$0.12`, or `$0.0004` if it is less than a cent.
pub fn dollars(microusd: u64) -> String {
    let usd = microusd as f64 / 1e6;
    if microusd > 0 && microusd < 10_000 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// Renders a cost; an estimate is said to be one.
pub fn cost_words(cost: RunCost) -> String {
    let about = if cost.is_estimate { "about " } else { "" };
    format!("{about}{}", dollars(cost.microusd))
}

/// Returns why a run with this cost must end, if it exceeds its limit.
pub(super) fn exceeded_reason(limit: Option<RunCost>, cost: RunCost) -> Option<String> {
    let limit = limit.filter(|limit| cost.microusd > limit.microusd)?;
    Some(format!("over the cost limit of {} (spent {})", cost_words(limit), cost_words(cost)))
}
