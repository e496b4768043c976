//! Prices of models: data files by which the cost of a run is estimated from its tokens.
//!
//! A model without a price has none: no price is taken from a model with a similar name. Which model a run used is the
//! caller's business.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::{candidates, read_source};
use crate::library::read_toml::{FileFormat, ReadErrorCodes, check_length, read_data};
use crate::source::{ListingLimits, SourceId, SourceRoot, Sources};
use crate::text::SharedText;

/// The contents of `prices/NAME.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(title = "Prices"))]
pub struct PriceFile {
    /// The prices.
    pub price: Vec<ModelPrice>,
}

/// The price of some models, in millionths of a dollar for a million tokens: 1250000 is $1.25.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// The names of the models. A name also stands for its dated versions, such as `gpt-5-2025-08-07` for `gpt-5`, and with
    /// a `*` at its end for every model that begins with it.
    pub models: Vec<String>,
    /// The month of the price list, such as `2025-08`.
    pub as_of: String,
    /// The price of input.
    pub input: u64,
    /// The price of input that was read from a cache [default: the price of input].
    #[serde(default)]
    pub cached_input: Option<u64>,
    /// The price of output.
    pub output: u64,
}

/// The tokens of a run that are paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// All tokens of the input, cached ones included.
    pub input: u64,
    /// The tokens of the input that were read from a cache.
    pub cached: u64,
    /// The tokens of the output, thoughts included.
    pub output: u64,
}

/// The highest price: $10,000 for a million tokens.
const MOST_PRICE: u64 = 10_000_000_000;

/// The most characters of a model's name.
const MOST_NAME: usize = 200;

impl ModelPrice {
    /// Returns the cost of tokens in millionths of a dollar, rounded up.
    pub fn cost_microusd(&self, tokens: TokenCounts) -> u64 {
        let cached = tokens.cached.min(tokens.input);
        let parts = [
            (tokens.input - cached, self.input),
            (cached, self.cached_input.unwrap_or(self.input)),
            (tokens.output, self.output),
        ];
        let total: u128 = parts.iter().map(|(count, price)| u128::from(*count) * u128::from(*price)).sum();
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Returns how closely a name of a price fits a model: the model itself and its dated versions, or every model with the
/// beginning before the `*`. The longest name fits best.
fn match_length(name: &str, model: &str) -> Option<usize> {
    match name.strip_suffix('*') {
        Some(start) => model.starts_with(start).then_some(2 * start.len()),
        None => model.strip_prefix(name).filter(|rest| is_version(rest)).map(|_| 2 * name.len() + 1),
    }
}

/// Checks whether the rest of a model's name is nothing or a date, such as `-20250929`, `-2025-08-07` or `@20250929`.
fn is_version(rest: &str) -> bool {
    let Some(date) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    digits == 8
        && (date.len() == 8 || date.len() == 10 && date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-')
}

/// Reads a file of prices.
pub fn read_prices(id: &SourceId, text: &SharedText) -> Result<PriceFile, Diagnostics> {
    check_length(id, text, Code::PricesBad)?;
    let codes = ReadErrorCodes { bad: Code::PricesBad, unknown: Code::PricesBad };
    let file: PriceFile = read_data(&id.to_string(), text, FileFormat::Toml, codes)?;
    let wrong = find_problems(id, &file);
    if wrong.is_empty() { Ok(file) } else { Err(Diagnostics(wrong)) }
}

fn find_problems(id: &SourceId, file: &PriceFile) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    let mut taken = BTreeSet::new();
    let bad = |message: String| Diagnostic::error(Code::PricesBad, format!("{id}: {message}"));
    for price in &file.price {
        let first = price.models.first().map_or("", String::as_str);
        if price.models.is_empty() {
            wrong.push(bad("a price names no model".into()).hint("give `models`, such as [\"gpt-5\"]"));
        }
        for model in &price.models {
            let stem = model.strip_suffix('*').unwrap_or(model);
            let is_wrong = |c: char| c.is_control() || c.is_whitespace() || c == '*';
            if stem.is_empty() || stem.contains(is_wrong) || model.chars().count() > MOST_NAME {
                let hint = "give its name, or the beginning of several names and a `*`";
                wrong.push(bad(format!("invalid model `{model}`")).hint(hint));
            }
            if !taken.insert(model) {
                wrong.push(bad(format!("`{model}` has two prices")).hint("keep the newer one"));
            }
        }
        if !is_month(&price.as_of) {
            let message = format!("`{first}` has the invalid month `{}`", price.as_of);
            wrong.push(bad(message).hint("give the year and month of the price list, such as `2025-08`"));
        }
        let cached = price.cached_input.unwrap_or(0);
        if [price.input, cached, price.output].into_iter().any(|price| price > MOST_PRICE) {
            let hint = "prices are in millionths of a dollar for a million tokens: $1.25 is 1_250_000";
            wrong.push(bad(format!("`{first}` has a price above {MOST_PRICE}")).hint(hint));
        }
    }
    wrong
}

fn is_month(text: &str) -> bool {
    let Some((year, month)) = text.split_once('-') else { return false };
    let is_number =
        |digits: &str, len| digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number(year, 4) && is_number(month, 2) && ("01"..="12").contains(&month)
}

/// All prices that apply.
#[derive(Clone, Debug, Default)]
pub struct PriceList {
    /// The files, those of nearer roots first.
    files: Vec<(SourceId, PriceFile)>,
}

impl PriceList {
    /// Loads the prices of all roots; those of the project only if `with_project` is set, because they can make a limit
    /// loose. A file of a nearer root replaces the file of its name, and its prices come before all others.
    pub fn load(sources: &dyn Sources, layout: &Layout, with_project: bool) -> Result<Self, Diagnostics> {
        let mut files = Vec::new();
        let mut taken = BTreeSet::new();
        let mut wrong = Vec::new();
        for place in candidates("prices/x", layout) {
            if place.root() == SourceRoot::Project && !with_project {
                continue;
            }
            for (name, id) in list_price_files(sources, &place)? {
                let Some(text) = read_source(sources, &id)?.filter(|_| taken.insert(name)) else { continue };
                match read_prices(&id, &text) {
                    Ok(file) => files.push((id, file)),
                    Err(Diagnostics(diags)) => wrong.extend(diags),
                }
            }
        }
        if wrong.is_empty() { Ok(Self { files }) } else { Err(Diagnostics(wrong)) }
    }

    /// Returns the price of a model and its file: the closest one of the nearest root.
    pub fn find(&self, model: &str) -> Option<(&SourceId, &ModelPrice)> {
        let mut best: BTreeMap<SourceRoot, (usize, &SourceId, &ModelPrice)> = BTreeMap::new();
        for (id, file) in &self.files {
            for price in &file.price {
                let fit = price.models.iter().filter_map(|name| match_length(name, model)).max();
                let Some(fit) = fit else { continue };
                let known = best.entry(id.root()).or_insert((fit, id, price));
                if fit > known.0 {
                    *known = (fit, id, price);
                }
            }
        }
        best.into_values().next_back().map(|(_, id, price)| (id, price))
    }
}

fn list_price_files(sources: &dyn Sources, place: &SourceId) -> Result<Vec<(String, SourceId)>, Diagnostic> {
    let folder = place.path().strip_suffix("/x").unwrap_or_default();
    let Ok(dir) = SourceId::new(place.root(), folder) else { return Ok(Vec::new()) };
    let limits = ListingLimits { depth: 1, entries: 1000, ignored: true };
    let listing = sources.list(&dir, limits).map_err(|error| {
        Diagnostic::error(Code::SourceUnreadable, format!("cannot list `{dir}`: {error}"))
    })?;
    let entries = listing.into_iter().flat_map(|listing| listing.entries);
    let names = entries.filter(|entry| !entry.dir && entry.path.ends_with(".toml")).map(|entry| entry.path);
    Ok(names
        .filter_map(|name| {
            Some((name.clone(), SourceId::new(place.root(), &format!("{folder}/{name}")).ok()?))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::builtin::Builtin;

    #[test]
    fn names_fit_models_and_versions() {
        for (name, model, expected) in [
            ("gpt-5", "gpt-5", Some(11)),
            ("gpt-5", "gpt-5-2025-08-07", Some(11)),
            ("claude-opus-4", "claude-opus-4-20250514", Some(27)),
            ("claude-opus-4", "claude-opus-4@20250514", Some(27)),
            ("claude-opus-4", "claude-opus-4-5", None),
            ("claude-opus-4", "claude-opus-4-5-20251101", None),
            ("gpt-5", "gpt-5.5", None),
            ("gpt-5", "gpt-5-mini", None),
            ("gpt-5", "gpt-5-2025-08", None),
            ("gpt-5", "gpt-5-20250807x", None),
            ("gpt-*", "gpt-5.5", Some(8)),
            ("gpt-*", "o3", None),
        ] {
            assert_eq!(match_length(name, model), expected, "{name} {model}");
        }
    }

    #[test]
    fn cost_counts_cached_tokens_once() {
        let price = |cached_input| ModelPrice {
            input: 1_000_000,
            cached_input,
            output: 10_000_000,
            ..ModelPrice::default()
        };
        let cost = |cached_input, input, cached, output| {
            price(cached_input).cost_microusd(TokenCounts { input, cached, output })
        };
        assert_eq!(cost(Some(100_000), 1_000_000, 600_000, 0), 400_000 + 60_000);
        assert_eq!(cost(None, 1_000_000, 600_000, 0), 1_000_000);
        assert_eq!(cost(Some(0), 10, 20, 1), 10);
        assert_eq!(cost(Some(100_000), 0, 0, 1), 10);
        assert_eq!(cost(Some(100_000), 1, 1, 0), 1);
        assert_eq!(cost(None, u64::MAX, 0, u64::MAX), u64::MAX);
    }

    #[test]
    fn shipped_prices_are_read() {
        let list = PriceList::load(&Builtin, &Layout::default(), true).unwrap();
        let input = |model| list.find(model).map(|(_, price)| price.input);
        assert_eq!(input("gpt-5.1-codex"), Some(1_250_000));
        assert_eq!(input("gemini-2.5-flash-lite"), Some(100_000));
        assert_eq!(input("claude-opus-4-5-20251101"), Some(5_000_000));
        assert_eq!(input("gpt-9"), None);
    }
}
