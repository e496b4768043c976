//! Composing: request + recipe + sources → prompt.
//!
//! The composer walks the recipe's sections, fills each block from where the recipe says, and keeps
//! going after a mistake so that all mistakes of one composition are reported at once. It writes no
//! text of its own: every byte is a piece of an [`Origin`].

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::agent::Agent;
use crate::data;
use crate::diag::{Code, Diag, Failure};
use crate::lookup::{self, Library, names_in};
use crate::prompt::{Absent, Block, From, Origin, Piece, Prompt, Section, Supplied, Trust, Why};
use crate::recipe::{BlockSpec, Field, Files, Recipe, SectionSpec};
use crate::request::{Document, DocumentKind, Request};
use crate::source::{Root, SourceId, Sources};
use crate::template::Template;
use crate::text::Text;

/// A prompt, what there is to say about it, and what is not in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Composed {
    pub prompt: Prompt,
    /// Warnings and notes, in order of appearance.
    pub talk: Vec<Diag>,
    pub absent: Vec<Absent>,
}

/// Composes the prompt that `request` asks for.
pub fn compose(request: &Request, sources: &dyn Sources) -> Result<Composed, Failure> {
    compose_with(request, &Library::new(sources), |_| {})
}

/// Composes by the recipe as `adjust` leaves it.
pub(crate) fn compose_with(
    request: &Request,
    library: &Library<'_>,
    adjust: impl FnOnce(&mut Recipe),
) -> Result<Composed, Failure> {
    request.validate()?;
    let Some(name) = &request.recipe else {
        return Err(Diag::error(Code::RequestIncomplete, "the request names no recipe").into());
    };
    let (recipe_id, recipe_text, mut recipe) = data::recipe(library, name, &request.layout)?;
    adjust(&mut recipe);
    let mut composer = Composer {
        request,
        library,
        recipe: &recipe,
        recipe_id,
        recipe_text,
        wordings: BTreeMap::new(),
        agent: Agent::default(),
        fields: BTreeMap::new(),
        origins: Vec::new(),
        by_source: BTreeMap::new(),
        by_value: BTreeMap::new(),
        derived: BTreeMap::new(),
        deriving: Vec::new(),
        used: BTreeSet::new(),
        chain: Vec::new(),
        errors: Vec::new(),
        talk: Vec::new(),
        absent: Vec::new(),
    };
    composer.set_fields();
    if let Some(agent) = composer.fields.get(&Field::Agent).filter(|agent| *agent != "base") {
        composer.agent = data::agent(library, agent, &request.layout)?;
    }
    let mut sections = Vec::new();
    for spec in &recipe.section {
        if let Some(mut section) = composer.section(spec) {
            section.heading = spec.heading.as_deref().and_then(|heading| composer.heading(heading));
            sections.push(section);
        }
    }
    composer.finish(name, sections)
}

pub(crate) struct Composer<'c> {
    pub(crate) request: &'c Request,
    pub(crate) library: &'c Library<'c>,
    pub(crate) recipe: &'c Recipe,
    pub(crate) recipe_id: SourceId,
    pub(crate) recipe_text: Text,
    pub(crate) wordings: BTreeMap<String, Arc<Template>>,
    pub(crate) agent: Agent,
    /// The request's fields with the recipe's defaults.
    fields: BTreeMap<Field, String>,
    pub(crate) origins: Vec<Origin>,
    by_source: BTreeMap<SourceId, u32>,
    pub(crate) by_value: BTreeMap<&'c str, u32>,
    pub(crate) derived: BTreeMap<&'c str, Option<Block>>,
    /// The derived values that are being worded, outermost first.
    pub(crate) deriving: Vec<&'c str>,
    pub(crate) used: BTreeSet<&'c str>,
    /// The templates that are being filled, outermost first.
    pub(crate) chain: Vec<Arc<Template>>,
    pub(crate) errors: Vec<Diag>,
    pub(crate) talk: Vec<Diag>,
    pub(crate) absent: Vec<Absent>,
}

impl<'c> Composer<'c> {
    fn set_fields(&mut self) {
        let request = self.request;
        let given = [
            (Field::Agent, &request.agent),
            (Field::Phase, &request.phase),
            (Field::Role, &request.role),
            (Field::Command, &request.command),
        ];
        for (field, value) in given {
            if let Some(value) = value.as_ref().or_else(|| self.recipe.defaults.get(&field)) {
                self.fields.insert(field, value.clone());
            }
        }
    }

    pub(crate) fn field(&self, field: Field) -> Option<&str> {
        self.fields.get(&field).map(String::as_str)
    }

    fn finish(mut self, recipe: &str, sections: Vec<Section>) -> Result<Composed, Failure> {
        if !self.errors.is_empty() {
            return Err(Failure(self.errors));
        }
        let taken = ["model", "max_tokens"];
        for key in self.request.values.keys() {
            if !self.used.contains(key.as_str()) && !taken.contains(&key.as_str()) {
                let known = self.recipe.derive.keys().map(String::as_str);
                let warning = Diag::warning(Code::ValueUnused, format!("no slot uses the value `{key}`"));
                self.talk.push(warning.suggest(key, known));
            }
        }
        self.absent.extend(self.library.shadowed());
        let value = |key: &str| self.request.values.get(key);
        let prompt = Prompt {
            recipe: recipe.to_string(),
            format: self.request.format.unwrap_or(self.recipe.format),
            separator: self.recipe.separator,
            model: value("model").map(ToString::to_string).or(self.agent.model),
            max_tokens: value("max_tokens").and_then(|n| n.parse().ok()).or(self.agent.max_tokens),
            origins: self.origins,
            sections,
            tools: self.request.tools.clone(),
        };
        Ok(Composed { prompt, talk: self.talk, absent: self.absent })
    }

    pub(crate) fn origin(&mut self, origin: Origin) -> u32 {
        self.origins.push(origin);
        u32::try_from(self.origins.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn source_origin(&mut self, id: &SourceId, text: &Text) -> u32 {
        if let Some(known) = self.by_source.get(id) {
            return *known;
        }
        let origin = self.origin(Origin::source(id.clone(), text.clone()));
        self.by_source.insert(id.clone(), origin);
        origin
    }

    fn whole(&self, origin: u32) -> Piece {
        Piece { origin, start: 0, end: self.origins[origin as usize].text.len() }
    }

    /// A block that is all of one text.
    pub(crate) fn text_block(&mut self, name: &str, from: From, trust: Trust, text: Text) -> Block {
        let origin = self.origin(Origin { from, trust, text });
        self.whole_block(name, origin)
    }

    /// A block that is all of one file.
    pub(crate) fn file_block(&mut self, name: &str, id: &SourceId, text: &Text) -> Block {
        let origin = self.source_origin(id, text);
        self.whole_block(name, origin)
    }

    pub(crate) fn whole_block(&self, name: &str, origin: u32) -> Block {
        supplied_block(name, self.whole(origin))
    }

    /// A heading is text of the recipe.
    fn heading(&mut self, heading: &str) -> Option<Piece> {
        let start = self.recipe_text.find(heading)?;
        let (id, text) = (self.recipe_id.clone(), self.recipe_text.clone());
        Some(Piece { origin: self.source_origin(&id, &text), start, end: start + heading.len() })
    }

    pub(crate) fn engine(&mut self, text: &str) -> Piece {
        let origin = self.origin(Origin { from: From::Engine, trust: Trust::Ours, text: text.into() });
        self.whole(origin)
    }

    fn section(&mut self, spec: &'c SectionSpec) -> Option<Section> {
        let mistakes = self.errors.len();
        let mut blocks = Vec::new();
        for block in &spec.blocks {
            let has = |field: Option<Field>| field.map(|field| self.fields.contains_key(&field));
            if has(block.when) == Some(false) || has(block.unless) == Some(true) {
                continue;
            }
            self.block(spec, block, &mut blocks);
        }
        blocks.retain(|block| block.document.is_some() || !self.is_blank(block));
        if let Some(cap) = spec.max_bytes {
            self.cap(spec, cap, &mut blocks);
        }
        if blocks.is_empty() {
            if spec.required && self.errors.len() == mistakes {
                self.errors.push(self.incomplete(spec));
            }
            self.absent.push(Absent {
                what: format!("section {}", spec.name),
                why: Why::Empty,
                detail: String::new(),
            });
            return None;
        }
        Some(Section { name: spec.name.clone(), part: spec.part, heading: None, blocks })
    }

    fn is_blank(&self, block: &Block) -> bool {
        block.pieces.iter().all(|piece| piece.text(&self.origins).trim().is_empty())
    }

    fn incomplete(&self, spec: &SectionSpec) -> Diag {
        let mut wanted: Vec<String> = Vec::new();
        for block in &spec.blocks {
            wanted.extend(block.when.map(|field| format!("`{field:?}`").to_lowercase()));
            for path in block.template.iter().flat_map(|template| template.all()) {
                let (_, unset) = self.path(path);
                wanted.extend(unset.map(|field| format!("`{field:?}`").to_lowercase()));
            }
            wanted.extend(block.value.as_ref().map(|value| format!("`{value}`")));
        }
        wanted.dedup();
        let error = Diag::error(
            Code::RequestIncomplete,
            format!("the section `{}` has nothing in it, and a prompt makes no sense without", spec.name),
        );
        // All that was wanted is there, and blank.
        if wanted.is_empty() { error } else { error.hint(format!("give {}", wanted.join(" or "))) }
    }

    fn block(&mut self, section: &SectionSpec, spec: &'c BlockSpec, blocks: &mut Vec<Block>) {
        if let Some(template) = &spec.template {
            blocks.extend(self.template_block(section, template.all()));
        } else if let Some(value) = &spec.value {
            let block = self.request_field(value).or_else(|| self.derived(value));
            blocks.extend(block);
        } else if let Some(kinds) = &spec.documents {
            self.documents(kinds, blocks);
        } else if spec.context == Some(true) {
            self.context(blocks);
        }
    }

    /// A template path with the request's fields put in, or the first field that is not set.
    fn path(&self, pattern: &str) -> (String, Option<Field>) {
        let mut path = pattern.to_string();
        let names = [
            ("{agent}", Field::Agent),
            ("{AGENT}", Field::Agent),
            ("{phase}", Field::Phase),
            ("{role}", Field::Role),
            ("{command}", Field::Command),
        ];
        for (hole, field) in names {
            if !path.contains(hole) {
                continue;
            }
            let Some(value) = self.fields.get(&field) else { return (path, Some(field)) };
            let upper = hole == "{AGENT}";
            let value = if upper { value.to_ascii_uppercase() } else { value.clone() };
            path = path.replace(hole, &value);
        }
        (path, None)
    }

    fn template_block(&mut self, section: &SectionSpec, patterns: &[String]) -> Option<Block> {
        let mut looked = Vec::new();
        let mut first = None;
        for pattern in patterns {
            let (path, unset) = self.path(pattern);
            if unset.is_some() {
                continue;
            }
            match self.library.template(&path, self.recipe.notation, &self.request.layout) {
                Err(error) => {
                    self.errors.push(error);
                    return None;
                }
                Ok(None) => {
                    looked.extend(lookup::candidates(&path, &self.request.layout));
                    first.get_or_insert(path);
                }
                Ok(Some(template)) => {
                    if let Some(first) = first.filter(|first| *first != path) {
                        let note = format!("no `{first}`; `{}` is used", template.id);
                        self.talk.push(Diag::note(Code::TemplateFallback, note));
                    }
                    let mut block = Block { name: section.name.clone(), ..Block::default() };
                    self.fill(&template, &[], &mut block);
                    return Some(block);
                }
            }
        }
        if !looked.is_empty() {
            let error = self.template_not_found(section, patterns, looked);
            self.errors.push(error);
        }
        None
    }

    fn template_not_found(&self, section: &SectionSpec, patterns: &[String], looked: Vec<SourceId>) -> Diag {
        let mut places: Vec<SourceId> = Vec::new();
        for place in looked {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let message = format!("TemplateNotFound: no template for the section `{}`", section.name);
        let mut error = Diag::error(Code::TemplateNotFound, message).looked(places);
        // The last pattern is the most general one: what fits it is what could have been asked for.
        let Some((dir, file)) = patterns.last().and_then(|last| last.rsplit_once('/')) else { return error };
        let holes = [
            ("{phase}", Field::Phase, "phases"),
            ("{role}", Field::Role, "roles"),
            ("{command}", Field::Command, "commands"),
        ];
        for (hole, field, plural) in holes {
            let Some((before, after)) = file.trim_end_matches(".md").split_once(hole) else { continue };
            let names = names_in(self.library.sources, dir, &self.request.layout);
            let fitting: Vec<&str> =
                names.iter().filter_map(|name| name.strip_prefix(before)?.strip_suffix(after)).collect();
            if let Some(given) = self.fields.get(&field) {
                error = error.suggest(given, fitting.iter().copied());
            }
            error = error.hint(format!("{plural} that exist: {}", fitting.join(", ")));
        }
        error
    }

    fn documents(&mut self, kinds: &[DocumentKind], blocks: &mut Vec<Block>) {
        let request = self.request;
        for (at, document) in request.documents.iter().enumerate() {
            if !kinds.contains(&document.kind) {
                continue;
            }
            let label = document.name.as_ref().or(document.path.as_ref()).cloned().unwrap_or_default();
            if self.recipe.files == Files::Paths && document.kind != DocumentKind::Thought {
                if document.path.is_none() {
                    let message = format!("`{label}` is left out: this recipe lists paths, and it has none");
                    self.talk.push(Diag::warning(Code::DocumentNotShown, message));
                    self.absent.push(Absent { what: label, why: Why::NotShown, detail: String::new() });
                }
                continue;
            }
            let Some(mut block) = self.document_text(document, &label) else { continue };
            let trust = if document.kind == DocumentKind::File { Trust::Project } else { Trust::Agent };
            let from = From::Request(format!("documents[{at}].name"));
            let name = self.origin(Origin { from, trust, text: label.as_str().into() });
            block.document = Some((document.kind, self.whole(name)));
            blocks.push(block);
        }
    }

    fn document_text(&mut self, document: &Document, label: &str) -> Option<Block> {
        let tag = document.kind.name();
        if let Some(content) = &document.content {
            let trust = if document.kind == DocumentKind::File { Trust::Project } else { Trust::Agent };
            return Some(self.text_block(tag, From::Document(label.into()), trust, content.clone()));
        }
        let path = document.path.as_deref().unwrap_or_default();
        let found = SourceId::new(Root::Project, path)
            .map_err(|why| {
                Diag::error(Code::RequestBad, format!("the document `{path}` cannot be read: {why}"))
            })
            .and_then(|id| lookup::read(self.library.sources, &id).map(|text| (id, text)));
        match found {
            Ok((id, Some(text))) => Some(self.file_block(tag, &id, &text)),
            Ok((id, None)) => {
                let message = format!("the document `{path}` is not there");
                self.errors.push(Diag::error(Code::DocumentNotFound, message).looked([id]));
                None
            }
            Err(error) => {
                self.errors.push(error);
                None
            }
        }
    }

    /// Cuts what is over `cap` at a line end and says so, in the prompt and in a warning.
    fn cap(&mut self, spec: &SectionSpec, cap: usize, blocks: &mut Vec<Block>) {
        let total: usize = blocks.iter().map(Block::len).sum();
        if total <= cap {
            return;
        }
        let mut room = cap;
        blocks.retain_mut(|block| {
            let length = block.len();
            if length <= room {
                room -= length;
                return true;
            }
            let text = block.text(&self.origins);
            let keep = text[..text.floor_char_boundary(room)].rfind('\n').map_or(0, |at| at + 1);
            truncate(block, keep);
            room = 0;
            keep > 0
        });
        let kept: usize = blocks.iter().map(Block::len).sum();
        let cut = total - kept;
        let message = format!("the section `{}` is cut: {cut} of {total} bytes are left out", spec.name);
        self.talk.push(Diag::warning(Code::SectionCut, message));
        self.absent.push(Absent {
            what: format!("section {}", spec.name),
            why: Why::Cut,
            detail: format!("{cut} of {total} bytes"),
        });
        if let Some(notice) = self.wording("cut-notice") {
            let from = || From::Derived { name: "cut-notice".into(), field: "bytes".into() };
            let count = self.text_block("bytes", from(), Trust::Ours, cut.to_string().into());
            let mut block = Block { name: "notice".into(), ..Block::default() };
            self.fill(&notice, &[("bytes", count)], &mut block);
            blocks.push(block);
        }
    }
}

pub(crate) fn supplied_block(name: &str, piece: Piece) -> Block {
    let supplied = alloc::vec![Supplied { pieces: 0..1, name: name.into() }];
    Block { name: name.into(), document: None, pieces: alloc::vec![piece], supplied }
}

fn truncate(block: &mut Block, keep: usize) {
    let mut room = keep;
    for piece in &mut block.pieces {
        piece.end = piece.start + (piece.end - piece.start).min(room);
        room -= piece.end - piece.start;
    }
    let left = block.pieces.iter().rposition(|piece| piece.start < piece.end).map_or(0, |at| at + 1);
    block.pieces.truncate(left);
    block.supplied.retain_mut(|supplied| {
        supplied.pieces.end = supplied.pieces.end.min(left);
        supplied.pieces.start < supplied.pieces.end
    });
}
