//! `PromptBuilder`: the five layers, one call at a time.
//!
//! A thin front end: it fills a [`Request`] for the recipe `layers` and composes that. It does not search for
//! memory or rules; the caller supplies them, and only that is asynchronous.

pub(crate) mod system_template;
pub(crate) mod unified_prompt;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use serde_json::Value;

use crate::builder::system_template::InjectedTemplate;
use crate::compose::ComposedPrompt;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::format::PromptFormat;
use crate::library::layout::Layout;
use crate::library::lookup::Library;
use crate::library::recipe::MissingPolicy;
use crate::library::recipe::Part;
use crate::library::recipe::{
    BlockSpec, DerivedValue, OneOrMore, Recipe, RequestField, SectionPriority, SectionSpec,
};
use crate::render::render;
use crate::request::values::SlotValues;
use crate::request::{ContextBlock, MemoryEntry, Request};
use crate::source::Sources;
use crate::source::cached_sources::CachedSources;
use crate::text::SharedText;
use crate::text::name::is_name;

/// Builds a prompt of five layers: identity, project, rules, context, tools. They appear in this order
/// whatever the order of the calls, and an empty layer leaves no trace.
///
/// ```
/// use callsheet_core::{Builtin, PromptBuilder};
///
/// let mut builder = PromptBuilder::new(Builtin);
/// builder.add_context("task", "Add a login page.");
/// builder.add_context_section("system_metadata", [("workspace", "."), ("branch", "login")]);
///
/// let (system_prompt, _tools) = builder.build()?;
/// assert_eq!(
///     system_prompt,
///     "Add a login page.\n\n---\n\n## System Metadata\n\n- **workspace:** .\n- **branch:** login"
/// );
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct PromptBuilder<S> {
    files: CachedSources<S>,
    project_id: Option<String>,
    request: Request,
    /// Failures of the caller's own sources, by layer.
    warnings: BTreeMap<&'static str, Diagnostic>,
}

/// A prompt of five layers, with everything that its caller should know about it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BuiltPrompt {
    /// The system prompt.
    pub text: String,
    /// The definitions of tools.
    pub tools: Vec<Value>,
    /// Warnings and notes of the caller's sources, the composition and the rendering.
    pub diagnostics: Vec<Diagnostic>,
}

impl<S: Sources> PromptBuilder<S> {
    /// Creates a builder that belongs to no project.
    pub fn new(sources: S) -> Self {
        let files = CachedSources::new(sources);
        let request = Request { recipe: Some("layers".into()), ..Request::default() };
        Self { files, project_id: None, request, warnings: BTreeMap::new() }
    }

    /// Creates a builder that passes `project_id` to its memory and rule sources.
    pub fn for_project(sources: S, project_id: impl Into<String>) -> Self {
        Self { project_id: Some(project_id.into()), ..Self::new(sources) }
    }

    /// Sets the policy for a variable that nothing fills. By default it is an error that names the variable.
    pub fn set_missing(&mut self, policy: MissingPolicy) -> &mut Self {
        self.request.missing = Some(policy);
        self
    }

    /// Sets the folders in which a project keeps its templates.
    pub fn set_layout(&mut self, layout: Layout) -> &mut Self {
        self.request.layout = layout;
        self
    }

    /// Layer 1: the template `identity/NAME.md`, filled with `variables`. A name without a template makes
    /// [`build`](Self::build) fail: no prompt is better than one without an identity.
    pub fn set_identity(&mut self, name: impl Into<String>, variables: SlotValues) -> &mut Self {
        self.request.role = Some(name.into());
        self.request.values = variables;
        self
    }

    /// Layer 2: the texts that `memory` returns for the project's id. An error of the source leaves the layer
    /// empty and a warning in [`compose`](Self::compose).
    pub async fn load_project_context<T: Into<SharedText>, E: Display>(
        &mut self,
        memory: impl AsyncFnOnce(Option<&str>) -> Result<Vec<T>, E>,
    ) {
        let answer = memory(self.project_id.as_deref()).await;
        let texts = self.keep_loaded("memory", answer).into_iter();
        self.request.memories =
            texts.map(|content| MemoryEntry { kind: "project".into(), content }).collect();
    }

    /// Layer 3: the project's rules and the global ones that `rules` finds for the project's id and `query`;
    /// a source that cannot search returns all of them. Without this call there are none. An error of the
    /// source leaves the layer empty and a warning in [`compose`](Self::compose).
    pub async fn load_relevant_rules<T: Into<SharedText>, E: Display>(
        &mut self,
        query: &str,
        rules: impl AsyncFnOnce(Option<&str>, &str) -> Result<Vec<T>, E>,
    ) {
        let answer = rules(self.project_id.as_deref(), query).await;
        self.request.rules = self.keep_loaded("rules", answer);
    }

    fn keep_loaded<T: Into<SharedText>, E: Display>(
        &mut self,
        what: &'static str,
        got: Result<Vec<T>, E>,
    ) -> Vec<SharedText> {
        self.warnings.remove(what);
        match got {
            Ok(texts) => texts.into_iter().map(Into::into).filter(|text| !text.trim().is_empty()).collect(),
            Err(error) => {
                let message = format!("layer {what} is empty: {error}");
                self.warnings.insert(what, Diagnostic::warning(Code::SourceUnreadable, message));
                Vec::new()
            }
        }
    }

    /// Layer 4: adds a block with `content` as it is, without its name. Blocks appear in the order of the
    /// calls; the same name twice gives two blocks, and a blank one is ignored.
    pub fn add_context(&mut self, name: impl Into<String>, content: impl Into<SharedText>) -> &mut Self {
        let block = ContextBlock { name: name.into(), text: Some(content.into()), data: None };
        self.request.context.push(block);
        self
    }

    /// Layer 4: adds a block with a heading from `name` and a list from `data`. `task_depth` with `depth`,
    /// `max_depth` and `max_steps` becomes the execution rules for that depth instead.
    pub fn add_context_section<K: Into<String>, V: Into<Value>>(
        &mut self,
        name: impl Into<String>,
        data: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        let data = data.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.request.context.push(ContextBlock { name: name.into(), text: None, data: Some(data) });
        self
    }

    /// Layer 5: sets the definitions of tools, as JSON Schema. They never become text.
    pub fn set_core_tools(&mut self, tools: Vec<Value>) -> &mut Self {
        self.request.tools = tools;
        self
    }

    /// Does the same as [`set_core_tools`](Self::set_core_tools).
    pub fn set_tools(&mut self, tools: Vec<Value>) -> &mut Self {
        self.set_core_tools(tools)
    }

    /// Returns the system prompt and the tools. [`build_prompt`](Self::build_prompt) returns the warnings too.
    pub fn build(&self) -> Result<(String, Vec<Value>), Diagnostics> {
        let BuiltPrompt { text, tools, .. } = self.build_prompt()?;
        Ok((text, tools))
    }

    /// Returns the system prompt, the tools, and all diagnostics: of the caller's sources, of the composition
    /// and of the rendering.
    pub fn build_prompt(&self) -> Result<BuiltPrompt, Diagnostics> {
        let ComposedPrompt { prompt, mut diagnostics, .. } = self.compose()?;
        let rendered = render(&prompt, PromptFormat::Markdown, None)?;
        // The caller gets the tools beside the text.
        let is_news = |diag: &Diagnostic| diag.code != Code::ToolsNotShown;
        diagnostics.extend(rendered.diagnostics.into_iter().filter(is_news));
        Ok(BuiltPrompt { text: rendered.text, tools: prompt.tools, diagnostics })
    }

    /// Returns the system prompt alone, for an agent that takes one flat prompt.
    pub fn build_task_prompt(&self) -> Result<String, Diagnostics> {
        Ok(self.build()?.0)
    }

    /// Returns the prompt before it is rendered: with the origin of every byte, all warnings, and the omitted
    /// inputs.
    pub fn compose(&self) -> Result<ComposedPrompt, Diagnostics> {
        let mut composed = self.compose_layers(&self.request, |_| {})?;
        composed.diagnostics.splice(0..0, self.warnings.values().cloned());
        Ok(composed)
    }

    fn compose_layers(
        &self,
        request: &Request,
        adjust: impl FnOnce(&mut Recipe),
    ) -> Result<ComposedPrompt, Diagnostics> {
        let library = Library::new(&self.files);
        let mut file = library.recipe(request)?;
        let recipe = &mut file.recipe;
        recipe.defaults.remove(&RequestField::Role);
        // Memory is only the caller's: without any, no project file replaces it.
        for derive in recipe.derive.values_mut().filter(|_| request.memories.is_empty()) {
            if derive.from == DerivedValue::ProjectDocuments {
                derive.from = DerivedValue::Memories;
            }
        }
        adjust(recipe);
        library.compose(request, &file)
    }

    /// Returns the body of a template as it is written, or `None`. `name` is a path below `templates/`, with
    /// or without `.md`; a plain name is also searched in `identity/`, `depth/` and `shared/`.
    pub fn get_template(&self, name: &str) -> Option<String> {
        let library = Library::new(&self.files);
        let body = |path: &String| {
            let body = library.read_body(path, &self.request.layout).transpose()?;
            Some(body.map(|(_, text)| text))
        };
        // `render_template` reports the errors of an existing file.
        template_paths(name).iter().find_map(body)?.ok()
    }

    /// Returns the template that [`get_template`](Self::get_template) finds, filled with `variables`.
    /// [`fill_template`](Self::fill_template) returns the warnings too.
    pub fn render_template(&self, name: &str, variables: SlotValues) -> Result<String, Diagnostics> {
        Ok(self.fill_template(name, variables)?.text)
    }

    /// Returns the template that [`get_template`](Self::get_template) finds, filled with `variables`, and the
    /// warnings about it.
    pub fn fill_template(&self, name: &str, variables: SlotValues) -> Result<InjectedTemplate, Diagnostics> {
        let paths = template_paths(name);
        if paths.is_empty() {
            let message = format!("invalid template name `{name}`");
            return Err(Diagnostic::error(Code::RequestBadName, message).into());
        }
        let Request { recipe, missing, layout, .. } = &self.request;
        let (recipe, missing, layout) = (recipe.clone(), *missing, layout.clone());
        let request = Request { recipe, missing, layout, values: variables, ..Request::default() };
        let template = BlockSpec { template: Some(OneOrMore::More(paths)), ..BlockSpec::default() };
        let (name, blocks) = (name.into(), alloc::vec![template]);
        let section = SectionSpec {
            name,
            part: Part::System,
            heading: None,
            max_bytes: None,
            required: false,
            level: SectionPriority::Must,
            blocks,
        };
        let composed = self.compose_layers(&request, |recipe| recipe.section = alloc::vec![section])?;
        let ComposedPrompt { prompt, diagnostics: warnings, .. } = composed;
        let text = prompt.blocks(Part::System).map(|(_, block)| block.text(&prompt.origins)).collect();
        Ok(InjectedTemplate { text, warnings })
    }

    /// Drops every file that was read, so the next call reads it again.
    pub fn reload(&mut self) {
        self.files.clear();
    }
}

fn template_paths(name: &str) -> Vec<String> {
    let path = name.strip_suffix(".md").unwrap_or(name);
    if !path.split('/').all(is_name) {
        return Vec::new();
    }
    let folders = ["", "identity/", "depth/", "shared/"];
    let count = if path.contains('/') { 1 } else { folders.len() };
    folders[..count].iter().map(|folder| format!("templates/{folder}{path}.md")).collect()
}
