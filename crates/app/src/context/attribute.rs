//! Attributes every byte of a request to one part: the prompt, an instruction file, a tool, or a text of the CLI.
//!
//! The prompt and the files are searched for first. Their text can neither begin nor end a text of the CLI, whatever it
//! contains.

use std::ops::Range;

use callsheet_core::library::agent::{ContextKind, ContextMarker};
use callsheet_wire::Protocol;

use super::json_spans::{DecodedText, JsonSpan};
use super::prompt_arrival::{PromptArrival, find_prompt};
use super::request_layout::{PieceRole, RequestPiece, lay_out};

/// A file that the CLI may load by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstructionFile {
    /// Its path from the project, or from the home directory with `~/`.
    pub path: String,
    pub text: String,
}

/// A text that was delivered to the agent, in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeliveredText {
    /// Its name if the prompt was delivered in several texts.
    pub name: String,
    pub text: String,
    /// The range of the prompt that it holds; its first bytes may be others.
    pub prompt: Range<usize>,
}

impl DeliveredText {
    /// Returns the number of bytes before those of the prompt.
    fn lead(&self) -> usize {
        self.text.len().saturating_sub(self.prompt.len())
    }
}

/// Everything that a request is compared with.
#[derive(Debug, Default)]
pub(crate) struct AttributionInputs<'a> {
    pub delivered: &'a [DeliveredText],
    pub files: &'a [InstructionFile],
    pub markers: &'a [ContextMarker],
    /// The CLI's pattern for names of tools of MCP servers.
    pub mcp_pattern: Option<&'a str>,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundPart {
    pub kind: ContextKind,
    pub name: String,
    /// The MCP server of a tool.
    pub server: Option<String>,
    /// The ranges of the body, in order.
    pub ranges: Vec<Range<usize>>,
    /// The text; of tools and structure the JSON.
    pub text: String,
    /// The range of the prompt that it holds.
    pub prompt: Option<Range<usize>>,
    /// The number of the piece of the request that it is in; `None` for the structure.
    pub piece: Option<usize>,
}

impl FoundPart {
    pub(crate) fn bytes(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }
}

/// A request, divided.
#[derive(Debug)]
pub(crate) struct AttributedRequest {
    /// The parts in the order in which the model reads them; the structure is last.
    pub parts: Vec<FoundPart>,
    pub pieces: Vec<RequestPiece>,
    /// How each delivered text arrived.
    pub arrivals: Vec<PromptArrival>,
    /// The loaded bytes of each instruction file.
    pub loaded: Vec<usize>,
}

/// Divides the body of a request; `None` if it is not JSON.
pub(crate) fn attribute(
    protocol: Protocol,
    body: &str,
    inputs: &AttributionInputs<'_>,
) -> Option<AttributedRequest> {
    let root = JsonSpan::parse(body)?;
    let pieces = lay_out(protocol, body, &root);
    let mut texts = PieceText::collect(body, &pieces)?;
    let delivered = inputs.delivered.iter().enumerate();
    let arrivals = delivered.map(|(number, delivered)| paint_prompt(&mut texts, number, delivered)).collect();
    let loaded = paint_files(&mut texts, inputs.files);
    texts.iter_mut().for_each(|text| text.paint_markers(inputs.markers));
    let mut parts = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if let PieceRole::Tool { name, namespace } = &piece.role {
            let server = find_server(inputs.mcp_pattern, name, namespace.as_deref());
            parts.push(FoundPart {
                kind: ContextKind::Tool,
                name: name.clone(),
                server,
                ranges: vec![piece.range.clone()],
                text: body[piece.range.clone()].to_owned(),
                prompt: None,
                piece: Some(at),
            });
        }
        for text in texts.iter().filter(|text| text.piece == at) {
            text.collect_parts(inputs, &mut parts);
        }
    }
    parts.push(find_structure(body, &parts));
    Some(AttributedRequest { parts, pieces, arrivals, loaded })
}

/// Returns the part of all bytes that no other part has.
fn find_structure(body: &str, parts: &[FoundPart]) -> FoundPart {
    let mut taken: Vec<Range<usize>> = parts.iter().flat_map(|part| part.ranges.iter().cloned()).collect();
    taken.sort_by_key(|range| range.start);
    let mut ranges = Vec::new();
    let mut at = 0;
    for range in taken.into_iter().chain(std::iter::once(body.len()..body.len())) {
        if range.start > at {
            ranges.push(at..range.start);
        }
        at = at.max(range.end);
    }
    let text = ranges.iter().map(|range| &body[range.clone()]).collect();
    FoundPart {
        kind: ContextKind::Other,
        name: "message structure and parameters".to_owned(),
        server: None,
        ranges,
        text,
        prompt: None,
        piece: None,
    }
}

/// Returns the MCP server of a tool.
fn find_server(pattern: Option<&str>, name: &str, namespace: Option<&str>) -> Option<String> {
    let (before, rest) = pattern?.split_once("{server}")?;
    let (between, after) = rest.split_once("{tool}")?;
    if let Some(namespace) = namespace {
        return namespace.strip_prefix(before).filter(|_| !before.is_empty()).map(str::to_owned);
    }
    let inner = name.strip_prefix(before)?.strip_suffix(after)?;
    // Without a mark before it, only the name of our own server is certain.
    if before.is_empty() {
        return inner
            .strip_prefix("callsheet")
            .filter(|rest| rest.starts_with(between))
            .map(|_| "callsheet".into());
    }
    inner.split_once(between).map(|(server, _)| server.to_owned())
}

/// The owner of a range of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextOwner {
    /// The piece itself.
    Piece,
    Marker(usize),
    File(usize),
    Prompt(usize),
}

/// A text of a piece, and the owner of each range.
struct PieceText {
    piece: usize,
    is_system: bool,
    decoded: DecodedText,
    owned: Vec<(Range<usize>, TextOwner)>,
    /// For each delivered text that is here, the offset in it of the first byte.
    prompt_starts: Vec<(usize, usize)>,
}

impl PieceText {
    /// Returns the texts of all pieces. `None` if one of them cannot be decoded.
    fn collect(body: &str, pieces: &[RequestPiece]) -> Option<Vec<Self>> {
        let mut texts = Vec::new();
        for (piece, RequestPiece { role, texts: ranges, .. }) in pieces.iter().enumerate() {
            for range in ranges {
                let decoded = DecodedText::new(body, range)?;
                let owned = vec![(0..decoded.text.len(), TextOwner::Piece)];
                let is_system = *role == PieceRole::System;
                texts.push(Self { piece, is_system, decoded, owned, prompt_starts: Vec::new() });
            }
        }
        Some(texts)
    }

    fn text(&self) -> &str {
        &self.decoded.text
    }

    /// Gives a range to an owner.
    fn paint(&mut self, range: Range<usize>, owner: TextOwner) {
        if range.is_empty() {
            return;
        }
        let mut painted = Vec::with_capacity(self.owned.len() + 2);
        for (old, who) in self.owned.drain(..) {
            let (left, right) = (old.start..old.end.min(range.start), old.start.max(range.end)..old.end);
            painted.extend((!left.is_empty()).then_some((left, who)));
            painted.extend((!right.is_empty()).then_some((right, who)));
        }
        painted.push((range, owner));
        painted.sort_by_key(|(range, _)| range.start);
        self.owned = painted;
    }

    /// Returns the offset of the next `needle` that touches neither the prompt nor a file.
    fn find_free(&self, needle: &str, from: usize) -> Option<usize> {
        let mut from = from;
        while let Some(found) = self.text().get(from..)?.find(needle) {
            let range = from + found..from + found + needle.len();
            let closed = self.owned.iter().find(|(owned, who)| {
                matches!(who, TextOwner::File(_) | TextOwner::Prompt(_))
                    && owned.start < range.end
                    && range.start < owned.end
            });
            match closed {
                None => return Some(range.start),
                Some((closed, _)) => from = closed.end.max(range.start + 1),
            }
            while !self.text().is_char_boundary(from) {
                from += 1;
            }
        }
        None
    }

    fn paint_markers(&mut self, markers: &[ContextMarker]) {
        for (number, marker) in markers.iter().enumerate() {
            let mut at = 0;
            while let Some(start) = self.find_free(&marker.starts, at) {
                let inner = start + marker.starts.len();
                let end = match (&marker.ends, &marker.before) {
                    (Some(ends), _) => self.find_free(ends, inner).map(|found| found + ends.len()),
                    (None, Some(before)) => self.find_free(before, inner),
                    (None, None) => None,
                };
                let end = end.unwrap_or(self.text().len());
                let free: Vec<Range<usize>> = self.free_ranges(start..end);
                free.into_iter().for_each(|range| self.paint(range, TextOwner::Marker(number)));
                at = end;
            }
        }
    }

    /// Returns the parts of a range that belong neither to the prompt nor to a file.
    fn free_ranges(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let free =
            self.owned.iter().filter(|(_, who)| matches!(who, TextOwner::Piece | TextOwner::Marker(_)));
        let inside = free.map(|(owned, _)| owned.start.max(range.start)..owned.end.min(range.end));
        inside.filter(|range| range.start < range.end).collect()
    }

    /// Adds a part for each owner, in the order of their first ranges.
    fn collect_parts(&self, inputs: &AttributionInputs<'_>, parts: &mut Vec<FoundPart>) {
        let first = parts.len();
        let mut owners: Vec<TextOwner> = Vec::new();
        for (range, owner) in &self.owned {
            let at = owners.iter().position(|known| known == owner).unwrap_or_else(|| {
                owners.push(*owner);
                parts.push(self.new_part(*owner, inputs));
                owners.len() - 1
            });
            let part = &mut parts[first + at];
            part.ranges.push(self.decoded.place(range.start)..self.decoded.place(range.end));
            part.text.push_str(&self.text()[range.clone()]);
            if let TextOwner::Prompt(number) = owner {
                let delivered = &inputs.delivered[*number];
                let starts = self.prompt_starts.iter().find(|(known, _)| known == number);
                let from = starts.map_or(0, |(_, from)| *from).saturating_sub(delivered.lead());
                let from = delivered.prompt.start + from;
                part.prompt = Some(from..(from + range.len()).min(delivered.prompt.end));
            }
        }
    }

    fn new_part(&self, owner: TextOwner, inputs: &AttributionInputs<'_>) -> FoundPart {
        let (kind, name) = match owner {
            TextOwner::Prompt(number) => (ContextKind::Prompt, inputs.delivered[number].name.clone()),
            TextOwner::File(number) => (ContextKind::Instructions, inputs.files[number].path.clone()),
            TextOwner::Marker(number) => (inputs.markers[number].kind, inputs.markers[number].name.clone()),
            TextOwner::Piece if self.is_system => (ContextKind::System, "system text".to_owned()),
            TextOwner::Piece => (ContextKind::Other, "other text".to_owned()),
        };
        let (ranges, text) = (Vec::new(), String::new());
        FoundPart { kind, name, server: None, ranges, text, prompt: None, piece: Some(self.piece) }
    }
}

/// Finds a delivered text and paints it.
fn paint_prompt(texts: &mut [PieceText], number: usize, delivered: &DeliveredText) -> PromptArrival {
    let candidates: Vec<&str> = texts.iter().map(PieceText::text).collect();
    let (found, mut arrival) = find_prompt(&candidates, &delivered.text);
    for piece in found {
        // A shared part is a part of the system text by its delivery.
        if texts[piece.text].is_system && !arrival.is_changed {
            (arrival.before, arrival.after) = (String::new(), String::new());
        }
        texts[piece.text].prompt_starts.push((number, piece.from));
        texts[piece.text].paint(piece.range, TextOwner::Prompt(number));
    }
    arrival
}

/// The least number of bytes by which a file is recognized, unless the whole of it is shorter.
const LEAST_MATCH: usize = 32;

/// The least number of bytes of a line by which the rest of a file is found again.
const LEAST_LINE: usize = 16;

/// Finds the files and paints them. Returns the number of loaded bytes of each.
fn paint_files(texts: &mut [PieceText], files: &[InstructionFile]) -> Vec<usize> {
    // Of several files with the same text, those that a text names come first.
    let mut order: Vec<usize> = (0..files.len()).collect();
    let is_named = |file: &InstructionFile| {
        let name = file.path.strip_prefix("~/").unwrap_or(&file.path);
        texts.iter().any(|text| text.text().contains(name))
    };
    order.sort_by_key(|number| !is_named(&files[*number]));
    let mut loaded = vec![0; files.len()];
    for number in order {
        let whole = files[number].text.trim();
        if whole.is_empty() {
            continue;
        }
        for text in texts.iter_mut() {
            let runs = find_runs(text, whole);
            let bytes: usize = runs.iter().map(ExactSizeIterator::len).sum();
            if bytes > 0 {
                loaded[number] += bytes;
                runs.into_iter().for_each(|range| text.paint(range, TextOwner::File(number)));
                break;
            }
        }
    }
    loaded
}

/// Returns the ranges of a text that hold the contents of a file, in order: the whole of it, or the runs that are left of it.
fn find_runs(text: &PieceText, whole: &str) -> Vec<Range<usize>> {
    if let Some(at) = text.find_free(whole, 0) {
        return std::iter::once(at..at + whole.len()).collect();
    }
    let (mut runs, mut at, mut rest): (Vec<Range<usize>>, usize, &str) = (Vec::new(), 0, whole);
    while !rest.is_empty() {
        let least = if runs.is_empty() { LEAST_MATCH.min(whole.len()) } else { LEAST_LINE };
        let anchor = &rest[..rest.floor_char_boundary(least)];
        let is_empty = anchor.trim().len() < LEAST_LINE.min(whole.len());
        let found = if is_empty { None } else { text.find_free(anchor, at) };
        let length = found.map_or(0, |start| common_prefix(&text.text()[start..], rest));
        let length = if length >= least { length } else { 0 };
        match found.filter(|_| length > 0) {
            Some(start) => {
                runs.push(start..start + length);
                at = start + length;
                rest = &rest[length..];
            }
            None => {
                let next = rest.find('\n').map_or(rest.len(), |end| end + 1);
                rest = &rest[next..];
            }
        }
    }
    runs
}

/// Returns the number of bytes with which both texts begin, up to a character.
pub(crate) fn common_prefix(a: &str, b: &str) -> usize {
    let equal = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    a.floor_char_boundary(equal)
}

#[cfg(test)]
mod tests;
