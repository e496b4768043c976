//! The beginning that the requests of several lanes share, which a provider caches once for all of them.

use callsheet_core::delivery::split::{common_length, find_boundary};
use callsheet_core::diag::Diagnostic;

use super::probe_folder::ProbeFolder;
use super::probe_run::OWN_HOME;
use super::report::{describe_price, origin_label};
use super::{ContextOptions, ContextProbe, LanePlace};
use crate::compose::inputs::{ComposeInput, PreparedInput, RequestFile};
use crate::compose::tokens::TokenCounter;
use crate::compose::{ComposeOptions, Composition, Purpose, compose_input};
use crate::error::{Result, usage_error};
use crate::output::{ContextLanesOutput, LaneEndOutput, LaneWayOutput};
use crate::project::Project;

/// The most lanes of a probe.
const MOST_LANES: usize = 16;

/// The number of the folders of lanes.
const OF_LANES: usize = 1;

/// The most characters of an excerpt.
const MOST_EXCERPT: usize = 80;

impl Project {
    /// Probes the same prompt with a different task in each of several worktrees, and returns the beginning that the requests
    /// share.
    pub fn probe_lanes(
        &self,
        input: &ComposeInput,
        file: RequestFile,
        lanes: usize,
        min_shared_percent: Option<f64>,
        options: &ContextOptions,
    ) -> Result<ContextLanesOutput> {
        if !(2..=MOST_LANES).contains(&lanes) {
            return Err(usage_error(format!("`--lanes` must be a number from 2 to {MOST_LANES}")).into());
        }
        if options.here {
            return Err(usage_error("`--lanes` needs a worktree for each lane; remove `--here`").into());
        }
        let (prepared, compose_options) = self.prepare_input(input, file, Purpose::Record)?;
        let probes = self.probe_each_lane(&prepared, compose_options, lanes, options)?;
        let first = &probes[0].probe.output;
        let mut ways = vec![describe_way(self, &probes)?];
        // The other way is tried, so that a person sees what would change.
        let mut other = options.clone();
        other.overrides.split = Some(!first.split);
        if first.split || probes[0].can_split {
            let probes = self.probe_each_lane(&prepared, compose_options, lanes, &other)?;
            ways.extend(
                (probes[0].probe.output.split != first.split)
                    .then(|| describe_way(self, &probes))
                    .transpose()?,
            );
        }
        let passes = min_shared_percent.is_none_or(|least| ways[0].shared_percent >= least);
        Ok(ContextLanesOutput {
            agent: first.agent.clone(),
            version: first.version.clone(),
            model: first.model.clone(),
            lane_count: lanes,
            diagnostics: first.diagnostics.clone(),
            ways,
            min_shared_percent,
            passes,
        })
    }

    fn probe_each_lane(
        &self,
        prepared: &PreparedInput,
        compose_options: ComposeOptions,
        lanes: usize,
        options: &ContextOptions,
    ) -> Result<Vec<LaneProbe>> {
        let mut compositions = Vec::new();
        for lane in 1..=lanes {
            compositions.push(compose_input(
                self,
                prepared.for_lane(lane),
                compose_options,
                Purpose::Record,
            )?);
        }
        let common = common_length(compositions.iter().map(Composition::text));
        let spec = compositions.first().and_then(|first| first.composed.agent.probe.clone());
        let folder = ProbeFolder::create(&self.dir, OF_LANES)?;
        let places = folder.create_lanes(self, &spec.unwrap_or_default(), lanes)?;
        if !options.isolated {
            self.observer.status(OWN_HOME);
        }
        let mut probes = Vec::new();
        for (worktree, composition) in places.into_iter().zip(compositions) {
            let labels = list_labels(&composition);
            let can_split = composition.composed.agent.can_split();
            let end = find_boundary(&composition.composed.prompt, &composition.rendered, common);
            let lane = Some(LanePlace { worktree, home: folder.home() });
            let options = ContextOptions { shared_bytes: Some(end), lane, ..options.clone() };
            probes.push(LaneProbe { probe: self.probe_context(composition, &options)?, labels, can_split });
        }
        Ok(probes)
    }
}

/// The probe of a lane.
struct LaneProbe {
    probe: ContextProbe,
    /// The end of each range of the prompt, and the label of its origin.
    labels: Vec<(usize, String)>,
    /// Whether the agent can get a prompt in two parts.
    can_split: bool,
}

/// Returns the end of each range of the prompt, and the label of its origin.
fn list_labels(composition: &Composition) -> Vec<(usize, String)> {
    let spans = composition.rendered.spans.iter();
    spans.map(|span| (span.end, origin_label(composition, span.start).0)).collect()
}

/// The place at which requests begin to differ.
struct SharedEnd {
    /// The bytes before it, in the order in which the model reads.
    bytes: usize,
    /// The place in the body of the first request; `None` if nothing differs.
    offset: Option<usize>,
}

/// Compares requests piece by piece, in the order in which the model reads them.
fn find_shared(probes: &[&ContextProbe]) -> SharedEnd {
    let Some((first, others)) = probes.split_first() else { return SharedEnd { bytes: 0, offset: None } };
    let mut bytes = 0;
    for (at, piece) in first.attributed.pieces.iter().enumerate() {
        if first.unread.contains(&at) {
            continue;
        }
        let own = first.body[piece.range.clone()].as_bytes();
        let shared = others.iter().map(|other| {
            let piece = other.attributed.pieces.get(at).map(|piece| piece.range.clone()).unwrap_or_default();
            let theirs = other.body[piece].as_bytes();
            own.iter().zip(theirs).take_while(|(a, b)| a == b).count()
        });
        let shared = shared.min().unwrap_or(own.len());
        bytes += shared;
        if shared < own.len() {
            return SharedEnd { bytes, offset: Some(piece.range.start + shared) };
        }
    }
    SharedEnd { bytes, offset: None }
}

fn describe_way(project: &Project, probes: &[LaneProbe]) -> Result<LaneWayOutput> {
    let all: Vec<&ContextProbe> = probes.iter().map(|lane| &lane.probe).collect();
    let shared = find_shared(&all);
    let read_bytes = |probe: &&ContextProbe| {
        let pieces = probe.attributed.pieces.iter().enumerate();
        let read = pieces.filter(|(at, _)| !probe.unread.contains(at));
        read.map(|(_, piece)| piece.range.len()).sum::<usize>()
    };
    let bytes = all.iter().map(read_bytes).min().unwrap_or_default();
    let first = all[0];
    let model = first.output.model.as_deref();
    let (disk, layout) = (project.disk(None), project.config.layout());
    let library = callsheet_core::Library::new(&disk);
    let (_, agent) = callsheet_core::find_agent(&library, &first.output.agent, &layout)?;
    let counter = TokenCounter::for_model(&agent, model);
    let shared_tokens = count_shared(first, shared.offset, &counter);
    let tokens = all.iter().map(|probe| probe.output.tokens).min().unwrap_or_default();
    let prices = project.prices()?;
    let price = model.and_then(|model| prices.find(model)).map(|(_, price)| {
        let total = all.iter().map(|probe| probe.output.tokens).sum();
        describe_price(price, total, shared_tokens * (all.len() - 1))
    });
    let percent = shared.bytes as f64 * 100.0 / bytes.max(1) as f64;
    Ok(LaneWayOutput {
        split: first.output.split,
        bytes,
        tokens,
        shared_bytes: shared.bytes,
        shared_tokens,
        shared_percent: (percent * 10.0).floor() / 10.0,
        ended_by: shared.offset.map(|offset| describe_end(first, &probes[0].labels, offset)),
        price,
    })
}

/// Counts the tokens of the parts before an offset of the first request.
fn count_shared(probe: &ContextProbe, offset: Option<usize>, counter: &TokenCounter) -> usize {
    let pieces = &probe.attributed.pieces;
    let last = offset.and_then(|offset| pieces.iter().position(|piece| piece.range.contains(&offset)));
    let (last, offset) = (last.unwrap_or(pieces.len()), offset.unwrap_or(probe.body.len()));
    let mut tokens = 0;
    for (part, output) in probe.attributed.parts.iter().zip(&probe.output.parts) {
        let Some(piece) = part.piece.filter(|piece| *piece <= last) else { continue };
        if piece < last || part.ranges.iter().all(|range| range.end <= offset) {
            tokens += output.tokens;
            continue;
        }
        for range in part.ranges.iter().filter(|range| range.start < offset) {
            let end = probe.body.floor_char_boundary(range.end.min(offset));
            tokens += counter.count(&probe.body[range.start..end]);
        }
    }
    tokens
}

fn describe_end(probe: &ContextProbe, labels: &[(usize, String)], offset: usize) -> LaneEndOutput {
    let found =
        probe.attributed.parts.iter().find(|part| part.ranges.iter().any(|range| range.contains(&offset)));
    let start = probe.body.floor_char_boundary(offset);
    let excerpt: String = probe.body[start..].chars().take(MOST_EXCERPT).collect();
    let origin = found.and_then(|part| {
        let from = part.prompt.as_ref()?.start;
        let range = part.ranges.iter().find(|range| range.contains(&offset))?;
        // Escapes make the body longer than the prompt, so the place is searched for by the decoded text.
        let before = probe.body.get(range.start..start)?;
        let decoded: String =
            serde_json::from_str(&format!("\"{before}\"")).unwrap_or_else(|_| before.to_owned());
        let place = from + decoded.len();
        labels.iter().find(|(end, _)| *end > place).map(|(_, label)| label.clone())
    });
    LaneEndOutput {
        kind: found.map_or(callsheet_core::library::agent::ContextKind::Other, |part| part.kind),
        name: found.map(|part| part.name.clone()).unwrap_or_default(),
        origin,
        excerpt,
    }
}

impl PreparedInput {
    /// Returns the input of a lane: the same with the number of the lane before the task.
    fn for_lane(&self, lane: usize) -> Self {
        let mut request = self.request.clone();
        let task = request.instructions.take().map(|text| text.to_string()).unwrap_or_default();
        request.instructions = Some(format!("{lane}. {task}").into());
        let diagnostics: Vec<Diagnostic> = self.diagnostics.clone();
        Self {
            request,
            session: self.session.clone(),
            texts: self.texts.clone(),
            listings: self.listings.clone(),
            replay: self.replay.clone(),
            diagnostics,
        }
    }
}
