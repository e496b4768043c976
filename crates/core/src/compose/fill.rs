//! Fills the slots, fragments and includes of templates.
//!
//! A slot takes the first of: the row's own fields, the request's values, its fields, a derived value, the
//! frontmatter's default. A filled-in text is never parsed again.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::compose::Composer;
use crate::diag::{Code, Diagnostic, push_diagnostic};
use crate::library::lookup::{self, fragment_path, list_names};
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::library::recipe::MissingPolicy;
use crate::library::recipe::RecipeFile;
use crate::library::recipe::{DeriveSpec, DerivedValue, MissingSlotRule, RequestField, RowWording};
use crate::library::template::{IncludeNode, Template, TemplateNode, TemplateNotation, TextRange};
use crate::prompt::{Block, Piece, SuppliedText};
use crate::source::origin::{OriginKind, Trust};
use crate::source::{SourceId, SourceRoot};
use crate::text::SharedText;
use crate::text::name::{is_name, is_name_byte};

/// A field of a row takes as much memory as this many pieces, until it is rendered.
const FIELD_PIECES: usize = 8;

/// Values that belong to one row only.
pub(crate) type RowFields<'f> = &'f [(&'static str, Block)];

/// One row of a derived value, without words: the recipe words it.
pub(crate) struct DerivedRow {
    pub(crate) kind: &'static str,
    pub(crate) fields: Vec<(&'static str, Block)>,
}

impl<'c> Composer<'c> {
    /// Fills `template` into `block`. `fields` are the values of one row and take precedence over all others.
    pub(crate) fn fill(&mut self, template: &Arc<Template>, fields: RowFields<'_>, block: &mut Block) {
        if self.limits.is_full() {
            return;
        }
        if let Err(error) = self.limits.enter_template(template.nodes.len()) {
            self.errors.push(self.with_template_trace(error, template));
            return;
        }
        let origin = self.source_origin(&template.id, &template.text);
        block.pieces.reserve(template.nodes.len());
        block.supplied.reserve(template.nodes.len() / 2);
        self.chain.push(template.clone());
        let first = block.pieces.len();
        let mut skipped = 0;
        for (at, node) in template.nodes.iter().enumerate() {
            if self.limits.is_full() {
                break;
            }
            let before = block.pieces.len();
            match node {
                TemplateNode::Text(span) => {
                    let start = span.start + core::mem::take(&mut skipped);
                    block.pieces.push(Piece { origin, start, end: span.end });
                    continue;
                }
                TemplateNode::Slot(name) => self.fill_slot(template, *name, fields, block),
                TemplateNode::Fragment(name) => self.fill_fragment(template, *name, fields, block),
                TemplateNode::Include(include) => self.fill_include(template, include, fields, block),
            }
            if block.pieces[before..].iter().all(|piece| piece.text(&self.origins).trim().is_empty()) {
                skipped = self.drop_around(template, at, before, block);
                if at + 1 == template.nodes.len() {
                    self.drop_lines(origin, first, block);
                }
            }
        }
        self.chain.pop();
        self.limits.exit_template();
    }

    /// Removes the surroundings of an empty hole: the element that holds nothing else, and one of the empty
    /// lines around it. Returns how many bytes of the text after the hole to skip.
    fn drop_around(&self, template: &Template, at: usize, filled: usize, block: &mut Block) -> usize {
        let above = match at.checked_sub(1).map(|before| &template.nodes[before]) {
            None => "",
            // The rest of the text, if something before it was dropped.
            Some(TemplateNode::Text(_)) => block.pieces[filled - 1].text(&self.origins),
            Some(_) => return 0,
        };
        let below = match template.nodes.get(at + 1) {
            None => "",
            Some(TemplateNode::Text(span)) => span.slice(&template.text),
            Some(_) => return 0,
        };
        let (opening, closing) = find_enclosing_tags(above, below);
        let (above, below) = (&above[..above.len() - opening], &below[closing..]);
        let apart =
            (above.is_empty() || above.ends_with("\n\n")) && (below.is_empty() || below.starts_with("\n\n"));
        if !apart && opening == 0 {
            return 0;
        }
        let below = below.len().min(if apart { 2 } else { 1 });
        block.pieces.truncate(filled);
        block.supplied.retain(|supplied| supplied.pieces.end <= filled);
        if let Some(last) = block.pieces.last_mut().filter(|_| at > 0) {
            last.end -= opening;
        }
        closing + below
    }

    /// Removes the empty lines at the end of a template that ends with an empty hole.
    fn drop_lines(&self, origin: u32, first: usize, block: &mut Block) {
        for piece in block.pieces[first..].iter_mut().rev().take_while(|piece| piece.origin == origin) {
            piece.end = piece.start + piece.text(&self.origins).trim_end_matches('\n').len();
            if piece.start < piece.end {
                break;
            }
        }
    }

    /// Adds the chain of templates that led to the error.
    fn with_template_trace(&self, error: Diagnostic, template: &Template) -> Diagnostic {
        let mut chain = self.open_templates();
        chain.push(template.id.to_string());
        let shown = if chain.len() > 6 { chain.split_off(chain.len() - 6) } else { chain };
        error.hint(shown.join(" → "))
    }

    /// Fills a text that is not callsheet's own: all of it counts as supplied.
    pub(crate) fn fill_supplied(&mut self, template: &Arc<Template>, block: &mut Block) {
        let (pieces, supplied) = (block.pieces.len(), block.supplied.len());
        self.fill(template, &[], block);
        block.supplied.truncate(supplied);
        let (pieces, name) = (pieces..block.pieces.len(), Some(block.name.clone()));
        block.supplied.push(SuppliedText { pieces, name, line: false, tagged: false, path: None });
    }

    fn fill_slot(&mut self, template: &Template, span: TextRange, fields: RowFields<'_>, block: &mut Block) {
        let name = span.slice(&template.text);
        if let Some((_, value)) = fields.iter().find(|(field, _)| *field == name) {
            return append_block(block, value);
        }
        if let Some((origin, end)) = self.values.find(name) {
            let at = block.pieces.len();
            block.pieces.push(Piece { origin, start: 0, end });
            let supplied =
                SuppliedText { pieces: at..at + 1, name: None, line: false, tagged: false, path: None };
            return block.supplied.push(supplied);
        }
        if let Some(value) = self.resolve_slot(template, span) {
            // A derived value can be long, and a template can use it a thousand times.
            match self.limits.take(value.pieces.len(), 0) {
                Ok(()) => append_block(block, &value),
                Err(error) => self.errors.push(self.with_template_trace(error, template)),
            }
        }
    }

    /// Fills a slot for which neither the row nor the request has a value.
    fn resolve_slot(&mut self, template: &Template, span: TextRange) -> Option<Block> {
        let name = span.slice(&template.text);
        if let Some(block) = self.request_field(name) {
            return Some(block);
        }
        if self.deriving.contains(&name) {
            let place = span.start..span.end;
            self.errors.push(
                Diagnostic::error(
                    Code::FragmentCycle,
                    format!("the text of `{name}` contains `{name}` itself"),
                )
                .at(&template.id, &template.text, place)
                .hint(self.open_templates().join(" → ")),
            );
            return None;
        }
        if let Some(block) = self.derive_value(name) {
            return Some(block);
        }
        let declared = self
            .chain
            .iter()
            .rev()
            .find_map(|template| Some((template.id.clone(), template.front.variable(name)?.clone())));
        if let Some((source, variable)) = declared {
            if let Some(default) = variable.default {
                let trust = Trust::from_root(source.root());
                let from = OriginKind::new_default(source, name);
                return Some(self.text_block(name, from, trust, default));
            }
            if !variable.required {
                return None;
            }
        }
        self.report_unfilled(template, span)
    }

    fn open_templates(&self) -> Vec<String> {
        self.chain.iter().map(|open| open.id.to_string()).collect()
    }

    /// Returns the inputs that would fill a slot.
    fn filling_hint(&self, name: &str) -> String {
        let is_context = |spec: &DeriveSpec| spec.from == DerivedValue::ProjectContext;
        if self.recipe.derive.get(name).is_some_and(is_context) {
            let file = &self.request.layout.project_context;
            format!("describe the project in `{file}` (`layout.project_context`), or add `--set {name}=…`")
        } else {
            format!("add `--set {name}=…`")
        }
    }

    fn report_unfilled(&mut self, template: &Template, span: TextRange) -> Option<Block> {
        let name = span.slice(&template.text);
        let policy = self.request.missing.unwrap_or(match &self.recipe.missing {
            MissingSlotRule::Unsaid => MissingPolicy::Error,
            MissingSlotRule::Policy(policy) => *policy,
            MissingSlotRule::Notice(_) => MissingPolicy::Notice,
        });
        let diag = |diag: fn(Code, String) -> Diagnostic| {
            diag(Code::SlotUnfilled, format!("nothing fills `{name}`")).at(
                &template.id,
                &template.text,
                span.start..span.end,
            )
        };
        let hint = self.filling_hint(name);
        if policy == MissingPolicy::Error {
            let known = self.request.values.keys().map(SharedText::as_str);
            let known = known.chain(self.recipe.derive.keys().map(String::as_str));
            // A value that can be derived, but lacks its input, already has the right name.
            let known = known.filter(|known| *known != name);
            let hint = format!("{hint}, or leave it out with `--missing empty`");
            let error = || diag(Diagnostic::error).suggest(name, known).hint(hint);
            push_diagnostic(&mut self.errors, Code::SlotUnfilled, error);
            return None;
        }
        push_diagnostic(&mut self.diagnostics, Code::SlotUnfilled, || diag(Diagnostic::warning).hint(hint));
        match &self.recipe.missing {
            MissingSlotRule::Notice(notice)
                if policy == MissingPolicy::Notice && notice.slots.iter().any(|slot| slot == name) =>
            {
                let piece = self.engine_piece(&notice.notice);
                Some(Block { pieces: alloc::vec![piece], ..Block::default() })
            }
            _ => None,
        }
    }

    /// Returns a field of the request as a block.
    pub(crate) fn request_field(&mut self, name: &str) -> Option<Block> {
        let task = self.request.task.as_ref();
        let text = match name {
            "agent" => self.field(RequestField::Agent).map(SharedText::from),
            "phase" => self.field(RequestField::Phase).map(SharedText::from),
            "role" => self.field(RequestField::Role).map(SharedText::from),
            "command" => self.field(RequestField::Command).map(SharedText::from),
            "instructions" => self.request.instructions.clone(),
            "human_input" => self.request.human_input.clone(),
            "task_id" => task.and_then(|task| task.id.clone()),
            "task_title" => task.and_then(|task| task.title.clone()),
            "task_description" => task.and_then(|task| task.description.clone()),
            _ => None,
        }?;
        self.shown.extend(match name {
            "instructions" => Some("instructions"),
            "human_input" => Some("human_input"),
            "task_id" => Some("task.id"),
            "task_title" => Some("task.title"),
            "task_description" => Some("task.description"),
            _ => None,
        });
        // The well-known name of a task's text is `task`, whichever field it came from.
        let tag = if name == "instructions" { "task" } else { name };
        Some(self.text_block(tag, OriginKind::Request(name.into()), Trust::Person, text))
    }

    /// Returns a derived value, or `None` if it lacks its input.
    pub(crate) fn derive_value(&mut self, name: &str) -> Option<Block> {
        let recipe = self.recipe;
        let (name, spec) = recipe.derive.get_key_value(name)?;
        if let Some(known) = self.derived.get(name.as_str()) {
            return known.clone();
        }
        // A derived value is the same wherever it is used, so no template's defaults apply inside it.
        let outer = core::mem::take(&mut self.chain);
        self.deriving.push(name);
        let block = crate::compose::derive::derive(self, name, spec);
        self.deriving.pop();
        self.chain = outer;
        let block = block.map(|mut block| {
            // Several files keep their names.
            let files = block.supplied.iter().filter(|supplied| supplied.path.is_some()).count();
            if let Some(tag) = spec.tag.as_ref().filter(|_| !block.is_empty() && files < 2) {
                let (pieces, name) = (0..block.pieces.len(), Some(tag.as_str().into()));
                block.supplied =
                    alloc::vec![SuppliedText { pieces, name, line: false, tagged: true, path: None }];
            }
            block
        });
        self.derived.insert(name, block.clone());
        block
    }

    /// Takes the limit's share for a row of this many fields. Returns `false` if the limit is reached, so that the row need
    /// not be made.
    pub(crate) fn take_row(&mut self, fields: usize) -> bool {
        let taken = self.limits.take(fields * FIELD_PIECES, 0);
        self.errors.extend(taken.err());
        !self.limits.is_full()
    }

    pub(crate) fn spec(&self, name: &str) -> Option<&'c DeriveSpec> {
        self.recipe.derive.get(name)
    }

    /// Renders the rows by the recipe: each by its fragment, joined, wrapped. Without rows the block is
    /// empty.
    pub(crate) fn render_rows(
        &mut self,
        name: &str,
        spec: &DeriveSpec,
        rows: Vec<DerivedRow>,
        around: RowFields<'_>,
    ) -> Block {
        let mut all = Block { name: name.into(), ..Block::default() };
        let join = (rows.len() > 1).then(|| self.engine_piece(&spec.join));
        for row in rows {
            if self.limits.is_full() {
                break;
            }
            let before = all.pieces.len();
            all.pieces.extend(join.filter(|_| before > 0));
            let start = all.pieces.len();
            let each = match &spec.each {
                None => None,
                Some(RowWording::All(fragment)) => Some(fragment),
                Some(RowWording::Kinds(kinds)) => kinds.get(row.kind),
            };
            match each.map(|wording| self.find_wording(wording)) {
                Some(Some(wording)) => self.fill(&wording, &row.fields, &mut all),
                Some(None) => {}
                None => {
                    for (_, value) in row.fields {
                        append_block(&mut all, &value);
                    }
                }
            }
            // A row without a wording in the recipe leaves no gap.
            if all.pieces[start..].iter().all(|piece| piece.text(&self.origins).is_empty()) {
                all.pieces.truncate(before);
                all.supplied.retain(|supplied| supplied.pieces.end <= before);
            }
        }
        let Some(wrap) = spec.wrap.as_ref().filter(|_| !all.pieces.is_empty()) else { return all };
        let mut wrapped = Block { name: name.into(), ..Block::default() };
        if let Some(wording) = self.find_wording(wrap) {
            let mut fields: Vec<(&'static str, Block)> = around.to_vec();
            fields.push(("rows", all));
            self.fill(&wording, &fields, &mut wrapped);
        }
        wrapped
    }

    /// Returns a wording of the recipe: a fragment by its name, or the words themselves. The notation is
    /// always braces: a recipe's notation applies to its templates.
    pub(crate) fn find_wording(&mut self, wording: &str) -> Option<Arc<Template>> {
        if !wording.is_empty() && wording.bytes().all(|byte| is_name_byte(byte) || byte == b'/') {
            let RecipeFile { id, text, .. } = self.file;
            let at = text.find(wording).unwrap_or(0);
            return self.find_fragment(wording, TemplateNotation::Braces, |message| {
                Diagnostic::error(Code::FragmentNotFound, message).at(id, text, at..at + wording.len())
            });
        }
        if let Some(known) = self.wordings.get(wording) {
            return Some(known.clone());
        }
        let parsed = Template::parse_words(&self.file.id, &self.file.text, wording).map(Arc::new)?;
        self.wordings.insert(wording.into(), parsed.clone());
        Some(parsed)
    }

    fn find_fragment(
        &mut self,
        name: &str,
        notation: TemplateNotation,
        error: impl FnOnce(String) -> Diagnostic,
    ) -> Option<Arc<Template>> {
        match self.library.load_fragment(name, notation, &self.request.layout) {
            Ok(Some(fragment)) => Some(fragment),
            Ok(None) => {
                let (sources, layout) = (&self.library.sources, &self.request.layout);
                push_diagnostic(&mut self.errors, Code::FragmentNotFound, || {
                    let names = list_names(sources, "templates/shared", layout);
                    error(format!("fragment not found: `{name}`"))
                        .searched(lookup::candidates(&fragment_path(name), layout))
                        .suggest(name, names.iter().map(String::as_str))
                });
                None
            }
            Err(error) => {
                self.errors.push(error);
                None
            }
        }
    }

    fn fill_fragment(
        &mut self,
        template: &Template,
        span: TextRange,
        fields: RowFields<'_>,
        block: &mut Block,
    ) {
        let name = span.slice(&template.text);
        let place = |message| {
            Diagnostic::error(Code::FragmentNotFound, message).at(
                &template.id,
                &template.text,
                span.start..span.end,
            )
        };
        let Some(fragment) = self.find_fragment(name, template.notation, place) else { return };
        if self.chain.iter().any(|open| open.id == fragment.id) {
            let mut chain = self.open_templates();
            chain.push(fragment.id.to_string());
            let error =
                Diagnostic::error(Code::FragmentCycle, format!("the fragment `{name}` contains itself"))
                    .at(&template.id, &template.text, span.start..span.end)
                    .hint(chain.join(" → "));
            self.errors.push(error);
            return;
        }
        self.fill(&fragment, fields, block);
    }

    fn fill_include(
        &mut self,
        template: &Template,
        include: &IncludeNode,
        fields: RowFields<'_>,
        block: &mut Block,
    ) {
        let IncludeNode { path, at, optional } = include;
        let mut whole = String::new();
        let mistakes = self.errors.len();
        for node in path {
            match node {
                TemplateNode::Slot(name) => {
                    let mut value = Block::default();
                    self.fill_slot(template, *name, fields, &mut value);
                    whole.push_str(&value.text(&self.origins));
                }
                TemplateNode::Text(span) => whole.push_str(span.slice(&template.text)),
                TemplateNode::Fragment(_) | TemplateNode::Include(_) => {}
            }
        }
        if self.errors.len() > mistakes {
            return;
        }
        let here = |error: Diagnostic| error.at(&template.id, &template.text, at.start..at.end);
        let id = match SourceId::new(SourceRoot::Session, whole.trim()) {
            Ok(id) => id,
            Err(why) => {
                let message = format!("cannot include `{whole}`: {why}");
                push_diagnostic(&mut self.errors, Code::IncludeBadPath, || {
                    here(Diagnostic::error(Code::IncludeBadPath, message))
                        .hint("an include must be inside the session directory")
                });
                return;
            }
        };
        // A source does not change during a composition, so a known one is not read again.
        let found = match self.known_source(&id) {
            Some(known) => Ok(Some(known.clone())),
            None => lookup::read_source(&self.library.sources, &id),
        };
        match found {
            Ok(Some(text)) => match self.limits.take(1, text.len()) {
                Ok(()) => append_block(block, &self.file_block("include", &id, &text)),
                Err(error) => self.errors.push(here(error)),
            },
            Ok(None) if *optional => {
                self.omitted.push(OmittedInput::new(id.to_string(), OmissionReason::NotThere, ""));
            }
            Ok(None) => {
                let message = format!("include not found: `{}`", id.path());
                push_diagnostic(&mut self.errors, Code::IncludeNotFound, || {
                    here(Diagnostic::error(Code::IncludeNotFound, message).searched([&id]))
                });
            }
            Err(error) => push_diagnostic(&mut self.errors, error.code, || here(error)),
        }
    }
}

/// Returns how many bytes of the end of `above` and of the start of `below` are the tags of one element, each
/// on a line of its own.
fn find_enclosing_tags(above: &str, below: &str) -> (usize, usize) {
    let Some(line) = above.strip_suffix('\n').map(|lines| lines.rsplit('\n').next().unwrap_or(lines)) else {
        return (0, 0);
    };
    let tag = line.strip_prefix('<').and_then(|tag| tag.strip_suffix('>'));
    let Some(name) = tag.and_then(|tag| tag.split(' ').next()).filter(|name| is_name(name)) else {
        return (0, 0);
    };
    let closing = ["\n</", name, ">"].concat();
    let after = below.strip_prefix(closing.as_str());
    match after {
        Some(after) if after.is_empty() || after.starts_with('\n') => (line.len() + 1, closing.len()),
        _ => (0, 0),
    }
}

fn append_block(block: &mut Block, value: &Block) {
    let shift = block.pieces.len();
    block.pieces.extend_from_slice(&value.pieces);
    block.supplied.extend(value.supplied.iter().map(|supplied| SuppliedText {
        pieces: supplied.pieces.start + shift..supplied.pieces.end + shift,
        ..supplied.clone()
    }));
}
