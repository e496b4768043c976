//! Describes a request of a CLI: its parts with bytes, tokens and prices, the cacheable beginning, and warnings.

use std::collections::BTreeMap;
use std::ops::Range;

use callsheet_core::delivery::{DeliveryAction, PromptPart};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::prices::{ModelPrice, TokenCounts};
use callsheet_core::record::sha256;
use callsheet_core::source::origin::Trust;
use callsheet_wire::Protocol;

use super::attribute::{
    AttributedRequest, AttributionInputs, DeliveredText, FoundPart, InstructionFile, attribute,
};
use super::json_spans::JsonSpan;
use super::probe_run::ProbedAgent;
use super::prompt_arrival::PromptArrival;
use super::warnings::{WarningInputs, find_warnings};
use super::{ContextOptions, ContextProbe};
use crate::compose::tokens::TokenCounter;
use crate::compose::{Composition, secrets};
use crate::diagnostics::diagnostic_outputs;
use crate::error::Result;
use crate::output::{
    ArrivalOutput, ByteRangeOutput, CacheOutput, ContextOutput, ContextPartOutput, ContextPriceOutput,
    PromptShareOutput, SideRequestOutput,
};
use crate::project::Project;
use crate::run::{PreparedRun, RedactionRules};

/// Divides the request of a CLI and describes it.
pub(super) fn build_probe(
    project: &Project,
    name: String,
    probed: ProbedAgent,
    options: &ContextOptions,
) -> Result<ContextProbe> {
    let ProbedAgent { agent, version, prepared, request, side_requests, files, diagnostics } = probed;
    let unreadable = || Diagnostic::error(Code::ContextFailed, "the request of the CLI is not JSON in UTF-8");
    let body = String::from_utf8(request.body).map_err(|_| unreadable())?;
    let composition = prepared.composition();
    let delivered = list_delivered(&prepared);
    let spec = agent.probe.as_ref();
    let inputs = AttributionInputs {
        delivered: &delivered,
        files: &files,
        markers: spec.map(|spec| spec.texts.as_slice()).unwrap_or_default(),
        mcp_pattern: agent.tools.mcp.as_deref(),
    };
    let protocol = request.protocol.ok_or_else(unreadable)?;
    let attributed = attribute(protocol, &body, &inputs).ok_or_else(unreadable)?;
    let model = read_model(protocol, &body, &request.path);
    let counter = TokenCounter::for_model(&agent, model.as_deref());
    let prices = project.prices()?;
    let price = model.as_ref().and_then(|model| prices.find(model)).map(|(_, price)| price.clone());
    let cut = cache_end(&attributed);
    let redaction =
        RedactionRules { rules: secrets::load_rules(project)?, values: composition.secret_values() };
    let mut redactor = redaction.redactor();
    let parts: Vec<ContextPartOutput> = attributed
        .parts
        .iter()
        .map(|part| {
            let described =
                PartDescription { part, body_bytes: body.len(), price: price.as_ref(), counter: &counter };
            let is_cacheable = part.piece.is_some_and(|piece| piece < cut);
            let text = redactor.redact_text(&part.text).into_owned();
            described.output(composition, is_cacheable, text)
        })
        .collect();
    let tokens: usize = parts.iter().map(|part| part.tokens).sum();
    let cache = describe_cache(&parts, attributed.pieces.iter().any(|piece| piece.is_cache_mark));
    let price = price.map(|price| describe_price(&price, tokens, cache.tokens));
    let mut found = diagnostics;
    found.extend(find_warnings(&WarningInputs {
        name: &name,
        agent: &agent,
        version: version.as_deref(),
        attributed: &attributed,
        files: &files,
        composition,
        tokens,
        counter: &counter,
    }));
    let output = ContextOutput {
        agent: name,
        version,
        model,
        api: protocol_name(protocol).to_owned(),
        isolated: options.isolated,
        split: delivered.len() > 1,
        run: None,
        prompt_sha256: sha256(&[prepared.prompt().as_bytes()]),
        bytes: body.len(),
        tokens,
        token_method: counter.method().to_owned(),
        cache,
        price,
        arrival: describe_arrival(&attributed.arrivals),
        parts,
        side_requests: side_requests
            .into_iter()
            .map(|request| SideRequestOutput { bytes: request.body.len(), path: request.path })
            .collect(),
        diagnostics: diagnostic_outputs(&found),
    };
    let unread = spec.map(|spec| spec.unread.as_slice()).unwrap_or_default();
    let is_unread = |part: &FoundPart| unread.iter().any(|start| part.text.starts_with(start.as_str()));
    let unread =
        attributed.parts.iter().filter(|part| is_unread(part)).filter_map(|part| part.piece).collect();
    Ok(ContextProbe { output, body, attributed, unread })
}

const fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => "anthropic-messages",
        Protocol::Responses => "openai-responses",
        Protocol::Chat => "openai-chat",
        Protocol::Gemini => "gemini",
    }
}

/// Returns the model that a request names, in its body or, for Gemini, in its path.
fn read_model(protocol: Protocol, body: &str, path: &str) -> Option<String> {
    if protocol == Protocol::Gemini {
        let (_, name) = path.rsplit_once("/models/")?;
        return name.split(':').next().map(str::to_owned);
    }
    JsonSpan::parse(body)?.text_of(body, "model")
}

/// Returns the texts that the CLI gets, in the order of the prompt: the prompt, its two parts, or the line that names its file.
fn list_delivered(prepared: &PreparedRun) -> Vec<DeliveredText> {
    let prompt = prepared.prompt();
    let stdin = prepared.actions().iter().find_map(|act| match act {
        DeliveryAction::Spawn { stdin, .. } => Some(stdin.to_text(prompt)),
        _ => None,
    });
    let stdin = stdin.unwrap_or_default();
    let mut delivered = Vec::new();
    let mut start = 0;
    for part in prepared.launch.parts.iter().filter(|part| part.part == PromptPart::Shared) {
        let text = prompt.get(part.start..part.end).unwrap_or_default().to_owned();
        delivered.push(DeliveredText { name: "shared part".to_owned(), text, prompt: part.start..part.end });
        start = part.end;
    }
    let own = &prompt[start..];
    let range = if stdin.ends_with(own) { start..prompt.len() } else { start..start };
    let name = if delivered.is_empty() { "prompt" } else { "own part" };
    delivered.push(DeliveredText { name: name.to_owned(), text: stdin, prompt: range });
    delivered
}

/// Returns the number of the first piece that is not in the cacheable beginning: behind the last mark, or behind all pieces.
fn cache_end(attributed: &AttributedRequest) -> usize {
    let marked = attributed.pieces.iter().rposition(|piece| piece.is_cache_mark);
    marked.map_or(attributed.pieces.len(), |last| last + 1)
}

fn describe_cache(parts: &[ContextPartOutput], is_marked: bool) -> CacheOutput {
    let cached = || parts.iter().filter(|part| part.is_cacheable);
    CacheOutput {
        is_marked,
        part_count: cached().count(),
        bytes: cached().map(|part| part.bytes).sum(),
        tokens: cached().map(|part| part.tokens).sum(),
    }
}

/// Returns the price of a request, without a cache and with its beginning in the cache.
pub(super) fn describe_price(price: &ModelPrice, tokens: usize, cached: usize) -> ContextPriceOutput {
    let cost = |cached: usize| {
        let counts = TokenCounts { input: tokens as u64, cached: cached as u64, output: 0 };
        price.cost_microusd(counts)
    };
    ContextPriceOutput {
        as_of: price.as_of.clone(),
        uncached_microusd: cost(0),
        cached_microusd: cost(cached),
    }
}

fn describe_arrival(arrivals: &[PromptArrival]) -> ArrivalOutput {
    let sum = |count: fn(&PromptArrival) -> usize| arrivals.iter().map(count).sum();
    ArrivalOutput {
        is_exact: !arrivals.is_empty() && arrivals.iter().all(PromptArrival::is_exact),
        bytes_before: sum(|arrival| arrival.before.len()),
        bytes_after: sum(|arrival| arrival.after.len()),
        missing_start: sum(|arrival| arrival.missing_start),
        missing_end: sum(|arrival| arrival.missing_end),
        is_changed: arrivals.iter().any(|arrival| arrival.is_changed),
    }
}

struct PartDescription<'a> {
    part: &'a FoundPart,
    body_bytes: usize,
    price: Option<&'a ModelPrice>,
    counter: &'a TokenCounter,
}

impl PartDescription<'_> {
    fn output(&self, composition: &Composition, is_cacheable: bool, text: String) -> ContextPartOutput {
        let Self { part, body_bytes, price, counter } = self;
        let tokens = counter.count(&part.text);
        let price = price.map(|price| describe_price(price, tokens, tokens));
        let share = part.bytes() as f64 * 100.0 / (*body_bytes).max(1) as f64;
        ContextPartOutput {
            kind: part.kind,
            name: part.name.clone(),
            server: part.server.clone(),
            bytes: part.bytes(),
            tokens,
            share_percent: (share * 100.0).round() / 100.0,
            price_microusd: price.as_ref().map(|price| price.uncached_microusd),
            cached_price_microusd: price.as_ref().map(|price| price.cached_microusd),
            is_cacheable,
            ranges: part
                .ranges
                .iter()
                .map(|range| ByteRangeOutput { start: range.start, end: range.end })
                .collect(),
            sha256: sha256(&[part.text.as_bytes()]),
            origins: part.prompt.clone().map(|range| share_origins(composition, range)).unwrap_or_default(),
            text: Some(text),
        }
    }
}

/// Returns the origins of a range of the prompt with their bytes, most bytes first.
fn share_origins(composition: &Composition, range: Range<usize>) -> Vec<PromptShareOutput> {
    let mut shares: BTreeMap<String, (Trust, usize)> = BTreeMap::new();
    for span in &composition.rendered.spans {
        let bytes = span.end.min(range.end).saturating_sub(span.start.max(range.start));
        if bytes > 0 {
            let (label, trust) = origin_label(composition, span.start);
            shares.entry(label).or_insert((trust, 0)).1 += bytes;
        }
    }
    let mut shares: Vec<PromptShareOutput> = shares
        .into_iter()
        .map(|(origin, (trust, bytes))| PromptShareOutput { origin, trust, bytes })
        .collect();
    shares.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.origin.cmp(&b.origin)));
    shares
}

/// Returns the label and the trust of the origin of a byte of the prompt.
pub(super) fn origin_label(composition: &Composition, offset: usize) -> (String, Trust) {
    let spans = &composition.rendered.spans;
    let at = spans.partition_point(|span| span.end <= offset);
    let piece = spans.get(at).and_then(|span| span.piece);
    match piece.and_then(|piece| composition.composed.prompt.origins.get(piece.origin)) {
        Some(origin) => (origin.label(), origin.trust),
        None => ("engine".to_owned(), Trust::Ours),
    }
}

/// Returns the instruction files that the CLI loaded, with the bytes that it loaded of each.
pub(super) fn list_loaded<'f>(
    attributed: &AttributedRequest,
    files: &'f [InstructionFile],
) -> Vec<(&'f InstructionFile, usize)> {
    let loaded = files.iter().zip(attributed.loaded.iter().copied());
    loaded.filter(|(_, bytes)| *bytes > 0).collect()
}
