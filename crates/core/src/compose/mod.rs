//! Composes a prompt from a request, a recipe and sources.
//!
//! The composer walks the recipe's sections and fills each block from the source that the recipe names. It
//! continues after a mistake, so all mistakes of a composition are reported at once. It writes no text of its
//! own: every byte is a piece of an [`Origin`].

pub mod compose_limits;
mod context_blocks;
mod degrade;
pub(crate) mod derive;
pub mod document;
pub(crate) mod fill;
pub(crate) mod outline;
mod profile;
pub(crate) mod reply_instructions;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::compose::compose_limits::ComposeLimits;
use crate::diag::{self, Code, Diagnostic, Diagnostics};
use crate::library::agent::Agent;
use crate::library::lookup::{self, DynLibrary, Library, list_names};
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::recipe::RecipeFile;
use crate::library::recipe::{BlockSpec, PathHole, Recipe, RequestField, SectionSpec};
use crate::library::template::{Template, TextRange, find_literal};
use crate::library::{agent, recipe};
use crate::prompt::OriginTable;
use crate::prompt::{Block, BudgetUnit, Piece, Prompt, Section, SuppliedText};
use crate::request::Request;
use crate::request::profile::Profile;
use crate::request::scope::Scope;
use crate::request::values::{ValueLookup, hash_key};
use crate::source::origin::{Origin, OriginKind, Trust};
use crate::source::{SourceId, Sources};
use crate::text::SharedText;

/// A composed prompt, its diagnostics, and the inputs that were omitted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ComposedPrompt {
    /// The composed prompt.
    pub prompt: Prompt,
    /// Warnings and notes, in order of appearance.
    pub diagnostics: Vec<Diagnostic>,
    /// The omitted inputs, each with its reason.
    pub omitted: Vec<OmittedInput>,
    /// The agent that reads the prompt; default data if the agent is `base`.
    pub agent: Agent,
    /// The profile of the role, if the recipe has profiles.
    pub profile: Option<Profile>,
    /// The write scope: that of the request, combined with that of the profile if the prompt shows it.
    pub scope: Scope,
    /// For each of the request's values, in their order, whether a slot used it.
    pub used: Vec<bool>,
}

/// Composes the prompt that `request` asks for.
///
/// ```
/// use callsheet_core::{Builtin, Request, compose};
///
/// let request = Request {
///     recipe: Some("unified".into()),
///     phase: Some("plan".into()),
///     instructions: Some("Add a login page.".into()),
///     ..Request::default()
/// };
/// let composed = compose(&request, &Builtin)?;
/// assert!(composed.prompt.sections.iter().any(|section| section.name == "task"));
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
pub fn compose(request: &Request, sources: &dyn Sources) -> Result<ComposedPrompt, Diagnostics> {
    let library = Library::new(sources);
    library.compose(request, &library.recipe(request)?)
}

impl<S: Sources> Library<S> {
    /// Returns the recipe that `request` names.
    pub fn recipe(&self, request: &Request) -> Result<RecipeFile, Diagnostics> {
        request.validate()?;
        match &request.recipe {
            Some(name) => recipe::find_recipe(self, name, &request.layout),
            None => Err(Diagnostic::error(Code::RequestIncomplete, "the request names no recipe").into()),
        }
    }

    /// Composes with a recipe that is already read. Does not read again the templates that this library has
    /// read.
    pub fn compose(&self, request: &Request, recipe: &RecipeFile) -> Result<ComposedPrompt, Diagnostics> {
        request.validate()?;
        Composer::new(request, recipe, self).compose()
    }
}

impl<'c> Composer<'c> {
    fn new(request: &'c Request, file: &'c RecipeFile, library: &'c DynLibrary<'c>) -> Self {
        Self {
            request,
            library,
            recipe: &file.recipe,
            file,
            wordings: BTreeMap::new(),
            agent: Agent::default(),
            scope: None,
            agent_file: None,
            fields: BTreeMap::new(),
            origins: OriginTable::new(&request.values),
            by_source: BTreeMap::new(),
            values: ValueLookup::new(&request.values),
            derived: BTreeMap::new(),
            deriving: Vec::new(),
            shown: BTreeSet::new(),
            chain: Vec::new(),
            limits: ComposeLimits::default(),
            errors: Vec::new(),
            diagnostics: Vec::new(),
            omitted: Vec::new(),
        }
    }

    fn compose(mut self) -> Result<ComposedPrompt, Diagnostics> {
        self.set_fields();
        self.set_agent()?;
        let mut sections = Vec::new();
        for spec in &self.recipe.section {
            if let Some(mut section) = self.compose_section(spec) {
                section.heading = spec.heading.as_deref().and_then(|heading| self.find_heading(heading));
                sections.push(section);
            }
        }
        self.into_composed(sections)
    }
}

pub(crate) struct Composer<'c> {
    pub(crate) request: &'c Request,
    pub(crate) library: &'c DynLibrary<'c>,
    pub(crate) recipe: &'c Recipe,
    pub(crate) file: &'c RecipeFile,
    pub(crate) wordings: BTreeMap<String, Arc<Template>>,
    pub(crate) agent: Agent,
    pub(crate) scope: Option<Scope>,
    agent_file: Option<SourceId>,
    /// The request's fields with the recipe's defaults.
    fields: BTreeMap<RequestField, String>,
    pub(crate) origins: OriginTable,
    /// The origin of each source, keyed by the hash of the path first: paths of templates share long
    /// prefixes.
    by_source: BTreeMap<(u64, SourceId), u32>,
    pub(crate) values: ValueLookup<'c>,
    pub(crate) derived: BTreeMap<&'c str, Option<Block>>,
    /// The parts of the request that the recipe used.
    pub(crate) shown: BTreeSet<&'static str>,
    /// The derived values that are being rendered, outermost first.
    pub(crate) deriving: Vec<&'c str>,
    /// The templates that are being filled, outermost first.
    pub(crate) chain: Vec<Arc<Template>>,
    pub(crate) limits: ComposeLimits,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) omitted: Vec<OmittedInput>,
}

impl<'c> Composer<'c> {
    fn set_fields(&mut self) {
        let request = self.request;
        let given = [
            (RequestField::Agent, &request.agent),
            (RequestField::Phase, &request.phase),
            (RequestField::Role, &request.role),
            (RequestField::Command, &request.command),
        ];
        for (field, value) in given {
            if let Some(value) = value.as_ref().or_else(|| self.recipe.defaults.get(&field)) {
                self.fields.insert(field, value.clone());
            }
        }
    }

    fn set_agent(&mut self) -> Result<(), Diagnostics> {
        let Some(name) = self.fields.remove(&RequestField::Agent) else { return Ok(()) };
        let layout = &self.request.layout;
        let name = agent::resolve_agent_name(self.library, name, layout);
        if name != "base" {
            match agent::find_agent(self.library, &name, layout) {
                Ok((id, agent)) => (self.agent, self.agent_file) = (agent, Some(id)),
                Err(Diagnostics(diags))
                    if diags.iter().all(|diag| diag.code == Code::AgentNotFound)
                        && agent::has_system_template(self.library, &name, layout) =>
                {
                    let name = name.to_ascii_lowercase();
                    self.agent.name.clone_from(&name);
                    let message = format!("the agent `{name}` has system templates but no definition");
                    let hint = format!("define how it is started in `agents/{name}.toml`");
                    self.diagnostics.push(Diagnostic::note(Code::AgentNotFound, message).hint(hint));
                }
                Err(failure) => return Err(failure),
            }
        }
        self.fields.insert(RequestField::Agent, name);
        Ok(())
    }

    pub(crate) fn field(&self, field: RequestField) -> Option<&str> {
        self.fields.get(&field).map(String::as_str)
    }

    fn into_composed(mut self, sections: Vec<Section>) -> Result<ComposedPrompt, Diagnostics> {
        if !self.errors.is_empty() {
            return Err(Diagnostics(self.errors));
        }
        let blocks = sections.iter().flat_map(|section| &section.blocks);
        ComposeLimits::default().take(0, blocks.map(Block::len).sum())?;
        for key in self.values.unused().filter(|key| !["model", "max_tokens"].contains(key)) {
            let known = self.recipe.derive.keys().map(String::as_str);
            diag::push_diagnostic(&mut self.diagnostics, Code::ValueUnused, || {
                let message = format!("no slot uses the value `{key}`");
                Diagnostic::warning(Code::ValueUnused, message).suggest(key, known)
            });
        }
        self.warn_not_shown();
        let used = self.by_source.keys().map(|(_, id)| id).chain([&self.file.id]).chain(&self.agent_file);
        self.omitted.extend(self.library.find_shadowed(used));
        let model = self.request.values.get("model").map(ToString::to_string);
        let profile = self.profile();
        let prompt = Prompt {
            recipe: self.file.name.clone(),
            format: self.request.format.unwrap_or(self.recipe.format),
            separator: self.recipe.separator,
            api: self.agent.api.filter(|_| model.is_none()),
            model: model.or_else(|| self.agent.model.clone()),
            max_tokens: self.parse_max_tokens()?,
            usual_max_tokens: self.agent.max_tokens,
            origins: self.origins,
            sections,
            tools: self.request.tools.clone(),
        };
        Ok(ComposedPrompt {
            prompt,
            profile,
            diagnostics: self.diagnostics,
            omitted: self.omitted,
            agent: self.agent,
            scope: self.scope.unwrap_or_else(|| Scope::from_request(self.request)),
            used: self.values.used,
        })
    }

    /// Warns about input that the recipe never used, so that it does not get lost silently.
    fn warn_not_shown(&mut self) {
        let request = self.request;
        let task = request.task.as_ref();
        let given = [
            ("instructions", request.instructions.is_some()),
            ("context", !request.context.is_empty()),
            ("documents", !request.documents.is_empty()),
            ("read_first", !request.read_first.is_empty()),
            ("memories", !request.memories.is_empty()),
            ("rules", !request.rules.is_empty()),
            ("previous", request.previous.is_some()),
            ("human_input", request.human_input.is_some()),
            ("task.id", task.is_some_and(|task| task.id.is_some())),
            ("task.title", task.is_some_and(|task| task.title.is_some())),
            ("task.description", task.is_some_and(|task| task.description.is_some())),
            ("task.criteria", task.is_some_and(|task| !task.criteria.is_empty())),
            ("task.write", task.is_some_and(|task| !task.write.is_empty())),
            ("task.exclude", task.is_some_and(|task| !task.exclude.is_empty())),
            ("task.depth", task.is_some_and(|task| task.depth.is_some() || task.max_depth.is_some())),
            ("task.max_steps", task.is_some_and(|task| task.max_steps.is_some())),
        ];
        for (what, _) in given.into_iter().filter(|(what, given)| *given && !self.shown.contains(what)) {
            let message = format!("`{what}` has no effect: the recipe `{}` does not use it", self.file.name);
            self.diagnostics.push(Diagnostic::warning(Code::RequestNotShown, message));
            self.omitted.push(OmittedInput::new(what, OmissionReason::NotShown, ""));
        }
    }

    /// Returns the most tokens that an answer may have, if a value sets it.
    fn parse_max_tokens(&self) -> Result<Option<u32>, Diagnostic> {
        let Some(given) = self.request.values.get("max_tokens") else { return Ok(None) };
        let most = given.parse().ok().filter(|most| *most > 0);
        most.map(Some).ok_or_else(|| {
            let message = format!("invalid value `{given}` for `max_tokens`: expected a number of tokens");
            Diagnostic::error(Code::RequestBad, message)
        })
    }

    pub(crate) fn add_origin(&mut self, origin: Origin) -> u32 {
        self.origins.push(origin)
    }

    pub(crate) fn source_origin(&mut self, id: &SourceId, text: &SharedText) -> u32 {
        let new = || self.origins.push(Origin::from_source(id.clone(), text.clone()));
        *self.by_source.entry((hash_key(id.path()), id.clone())).or_insert_with(new)
    }

    /// Returns the text of a source that is already part of the prompt.
    pub(crate) fn known_source(&self, id: &SourceId) -> Option<&SharedText> {
        let origin = self.by_source.get(&(hash_key(id.path()), id.clone()))?;
        Some(&self.origins[*origin].text)
    }

    pub(crate) fn whole_piece(&self, origin: u32) -> Piece {
        Piece { origin, start: 0, end: self.origins[origin].text.len() }
    }

    /// Returns a block that is the whole of one text.
    pub(crate) fn text_block(
        &mut self,
        name: impl Into<SharedText>,
        from: OriginKind,
        trust: Trust,
        text: SharedText,
    ) -> Block {
        let origin = self.add_origin(Origin { from, trust, text });
        self.whole_block(name, origin)
    }

    /// Returns a block that is the whole of one file.
    pub(crate) fn file_block(
        &mut self,
        name: impl Into<SharedText>,
        id: &SourceId,
        text: &SharedText,
    ) -> Block {
        let origin = self.source_origin(id, text);
        self.whole_block(name, origin)
    }

    pub(crate) fn whole_block(&self, name: impl Into<SharedText>, origin: u32) -> Block {
        supplied_block(name, self.whole_piece(origin))
    }

    /// Returns a heading as a piece of the recipe's text.
    fn find_heading(&mut self, heading: &str) -> Option<Piece> {
        let file = self.file;
        let TextRange { start, end } = find_literal(&file.text, heading)?;
        Some(Piece { origin: self.source_origin(&file.id, &file.text), start, end })
    }

    pub(crate) fn engine_piece(&mut self, text: &str) -> Piece {
        let origin =
            self.add_origin(Origin { from: OriginKind::Engine, trust: Trust::Ours, text: text.into() });
        self.whole_piece(origin)
    }

    fn compose_section(&mut self, spec: &'c SectionSpec) -> Option<Section> {
        let mistakes = self.errors.len();
        let absent = self.omitted.len();
        let mut blocks = Vec::new();
        for block in &spec.blocks {
            let has = |field: Option<RequestField>| field.map(|field| self.fields.contains_key(&field));
            if has(block.when) == Some(false) || has(block.unless) == Some(true) {
                continue;
            }
            let first = blocks.len();
            self.add_block(spec, block, &mut blocks);
            let level = block.level.unwrap_or(spec.level);
            blocks[first..].iter_mut().for_each(|block| block.level = level);
        }
        blocks.retain(|block| block.document.is_some() || !self.is_blank(block));
        // Cap before degrading: the kept part of a `must` block then does not depend on the degradation of
        // other blocks.
        if let Some(cap) = spec.max_bytes {
            self.truncate_blocks(spec, cap, &mut blocks);
        }
        if !self.request.steps.is_empty() {
            self.degrade(&spec.name, &mut blocks);
        }
        if blocks.is_empty() {
            if spec.required && self.errors.len() == mistakes {
                self.errors.push(self.incomplete_error(spec));
            }
            if !self.omitted[absent..].iter().any(|absent| absent.why == OmissionReason::Budget) {
                let what = format!("section {}", spec.name);
                self.omitted.push(OmittedInput::new(what, OmissionReason::Empty, ""));
            }
            return None;
        }
        Some(Section { name: spec.name.clone(), part: spec.part, heading: None, blocks })
    }

    fn is_blank(&self, block: &Block) -> bool {
        block.pieces.iter().all(|piece| piece.text(&self.origins).trim().is_empty())
    }

    fn incomplete_error(&self, spec: &SectionSpec) -> Diagnostic {
        let mut wanted: Vec<String> = Vec::new();
        for block in &spec.blocks {
            wanted.extend(block.when.map(|field| format!("`{field:?}`").to_lowercase()));
            for path in block.template.iter().flat_map(|template| template.as_slice()) {
                let (_, unset) = self.fill_path(path);
                wanted.extend(unset.map(|field| format!("`{field:?}`").to_lowercase()));
            }
            wanted.extend(block.value.as_ref().map(|value| format!("`{value}`")));
        }
        wanted.dedup();
        if wanted.iter().any(|wanted| wanted == "`instructions`") {
            let hint = "add it to the command, such as `callsheet run \"Fix …\"`";
            return Diagnostic::error(Code::RequestIncomplete, "no task given").hint(hint);
        }
        let error =
            Diagnostic::error(Code::RequestIncomplete, format!("required section `{}` is empty", spec.name));
        // Without a hint, everything wanted is given, and blank.
        if wanted.is_empty() { error } else { error.hint(format!("give {}", wanted.join(" or "))) }
    }

    fn add_block(&mut self, section: &SectionSpec, spec: &'c BlockSpec, blocks: &mut Vec<Block>) {
        let own = |block: Block| Block { unit: Some(BudgetUnit::Own), ..block };
        if let Some(template) = &spec.template {
            blocks.extend(self.template_block(section, template.as_slice()).map(own));
        } else if let Some(value) = &spec.value {
            let block = self.request_field(value).or_else(|| self.derive_value(value));
            blocks.extend(block.map(own));
        } else if let Some(kinds) = &spec.documents {
            self.add_documents(kinds, blocks);
        } else if spec.context == Some(true) {
            self.add_context_blocks(blocks);
        }
    }

    /// Returns a template path with the request's fields filled in, and the first field that is not set.
    fn fill_path(&self, pattern: &str) -> (String, Option<RequestField>) {
        let mut path = pattern.to_string();
        if !path.contains('{') {
            return (path, None);
        }
        for hole in PathHole::ALL {
            if !path.contains(hole.word) {
                continue;
            }
            let Some(value) = self.fields.get(&hole.field) else { return (path, Some(hole.field)) };
            path = path.replace(hole.word, &hole.write(value));
        }
        (path, None)
    }

    fn template_block(&mut self, section: &SectionSpec, patterns: &[String]) -> Option<Block> {
        let mut looked = Vec::new();
        let mut first = None;
        for pattern in patterns {
            let (path, unset) = self.fill_path(pattern);
            if unset.is_some() {
                continue;
            }
            match self.library.load_template(&path, self.recipe.notation, &self.request.layout) {
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
                        let note = format!("no `{first}`; using `{}`", template.id);
                        self.diagnostics.push(Diagnostic::note(Code::TemplateFallback, note));
                    }
                    let mut block = Block { name: section.name.as_str().into(), ..Block::default() };
                    self.fill(&template, &[], &mut block);
                    return Some(block);
                }
            }
        }
        if !looked.is_empty() {
            let error = self.template_not_found_error(section, patterns, looked);
            self.errors.push(error);
        }
        None
    }

    fn template_not_found_error(
        &self,
        section: &SectionSpec,
        patterns: &[String],
        looked: Vec<SourceId>,
    ) -> Diagnostic {
        let mut places: Vec<SourceId> = Vec::new();
        for place in looked {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        // The last pattern is the most general one: the names that match it are the valid choices.
        let last = patterns.last().map_or("", String::as_str);
        let given = PathHole::ALL.iter().filter(|hole| last.contains(hole.word));
        let given = given.filter_map(|hole| Some((hole.name(), self.fields.get(&hole.field)?)));
        let given: Vec<String> = given.map(|(name, value)| format!("{name} `{value}`")).collect();
        let wanted = match given.as_slice() {
            [] => format!("section `{}`", section.name),
            given => given.join(", "),
        };
        let message = format!("no template for {wanted}");
        let mut error = Diagnostic::error(Code::TemplateNotFound, message).searched(places);
        let Some((dir, file)) = last.rsplit_once('/') else { return error };
        for hole in PathHole::ALL {
            let field = hole.field;
            // Every agent can have a template of its own, so the names of existing ones are no choice.
            let Some((before, after)) = file.trim_end_matches(".md").split_once(hole.word) else { continue };
            if field == RequestField::Agent {
                continue;
            }
            let names = list_names(&self.library.sources, dir, &self.request.layout);
            let fitting = names.iter().filter_map(|name| name.strip_prefix(before)?.strip_suffix(after));
            let fitting: Vec<&str> =
                fitting.filter(|name| field != RequestField::Phase || lookup::is_phase_name(name)).collect();
            if let Some(given) = self.fields.get(&field) {
                error = error.suggest(given, fitting.iter().copied());
            }
            error = error.hint(format!("known {}s: {}", hole.name(), fitting.join(", ")));
        }
        error
    }

    /// Truncates the blocks to `cap` bytes at a line end and reports it, in the prompt and in a warning.
    fn truncate_blocks(&mut self, spec: &SectionSpec, cap: usize, blocks: &mut Vec<Block>) {
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
            block.truncate(keep);
            room = 0;
            keep > 0
        });
        let kept: usize = blocks.iter().map(Block::len).sum();
        let cut = total - kept;
        let message = format!("section `{}` is truncated: {cut} of {total} bytes omitted", spec.name);
        self.diagnostics.push(Diagnostic::warning(Code::SectionCut, message));
        self.omitted.push(OmittedInput::new(
            format!("section {}", spec.name),
            OmissionReason::Cut,
            format!("{cut} of {total} bytes"),
        ));
        if let Some(notice) = self.find_wording("cut-notice") {
            let from = || OriginKind::new_derived("cut-notice", "bytes");
            let count = self.text_block("bytes", from(), Trust::Ours, cut.to_string().into());
            let mut block = Block { name: "notice".into(), ..Block::default() };
            self.fill(&notice, &[("bytes", count)], &mut block);
            blocks.push(block);
        }
    }
}

pub(crate) fn supplied_block(name: impl Into<SharedText>, piece: Piece) -> Block {
    let name = name.into();
    let supplied = alloc::vec![SuppliedText {
        pieces: 0..1,
        name: Some(name.clone()),
        line: false,
        tagged: false,
        path: None
    }];
    Block { name, pieces: alloc::vec![piece], supplied, ..Block::default() }
}
