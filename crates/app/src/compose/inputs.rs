//! Builds one request from the flags, a request file and the configuration.
//!
//! Flags come on top of the request file: scalars replace, lists append, maps merge. Files that are named
//! explicitly may be anywhere; core handles all others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use callsheet_core::diag::Diagnostic;
use callsheet_core::library::format::ModelApi;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::MissingPolicy;
use callsheet_core::request::{Request, check_tools};
use callsheet_core::secrets::SecretMode;
use callsheet_core::{Library, Listing, PromptFormat, SharedText, Snapshot, SourceId, resolve_agent_name};

use super::input_reader::InputReader;
use super::read_first::warn_missing_files;
use crate::compose::pack::GatheredDocuments;
use crate::error::Result;
use crate::paths::is_in_git;
use crate::project::Project;

/// The inputs of a prompt, as a caller names them. Paths are relative to [`Project::here`].
///
/// They come on top of the request: scalars replace, lists append, maps merge.
#[derive(Clone, Debug, Default)]
pub struct ComposeInput {
    /// The request to begin with.
    pub request: Request,
    /// A file with the request to begin with, as TOML or JSON; `-` is standard input.
    pub request_file: Option<String>,
    /// The task in words; `-` reads standard input.
    pub task: Option<String>,
    /// The recipe; else the configured one, or the one for the other inputs.
    pub recipe: Option<String>,
    /// The agent, with `@VERSION` for one that is not the newest.
    pub agent: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// The role.
    pub role: Option<String>,
    /// The command of a staged prompt.
    pub command: Option<String>,
    /// Values, context and documents, in the order in which they are added.
    pub items: Vec<InputItem>,
    /// `PATH=LEVEL`: how much of the files at a path the prompt carries.
    pub detail: Vec<String>,
    /// Paths that the agent should read first.
    pub read_first: Vec<String>,
    /// Globs of files that the agent may write.
    pub write: Vec<String>,
    /// Globs of files that the agent must not touch.
    pub exclude: Vec<String>,
    /// The id of the task.
    pub task_id: Option<String>,
    /// The title of the task.
    pub title: Option<String>,
    /// A file with a JSON array of tool definitions.
    pub tools: Option<String>,
    /// The directory in which includes are resolved; else the project.
    pub session: Option<PathBuf>,
    /// The format; else that of the recipe.
    pub format: Option<PromptFormat>,
    /// The API whose request body the prompt becomes.
    pub api: Option<ModelApi>,
    /// The most tokens of the prompt.
    pub budget: Option<usize>,
    /// The policy for a slot without a value; else that of the recipe.
    pub missing: Option<MissingPolicy>,
    /// The treatment of secrets; else the configured one.
    pub secrets: Option<SecretMode>,
    /// Whether the agent is attached to the MCP server.
    pub mcp: bool,
}

/// A value, a block of context or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputItem {
    /// The meaning of the text.
    pub kind: InputKind,
    /// `KEY=VALUE`, `NAME=PATH`, a path or a text.
    pub text: String,
}

/// The meaning of an [`InputItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputKind {
    /// `KEY=VALUE`: a value for a slot.
    Value,
    /// `KEY=PATH`: a value that is read from a file.
    ValueFile,
    /// `KEY=PATH`: a value that is delivered, and recorded only as a placeholder.
    Secret,
    /// `KEY=NAME`: the same, read from an environment variable.
    SecretVariable,
    /// `NAME=TEXT`: a block of context.
    Context,
    /// `NAME=PATH`: a block of context that is read from a file.
    ContextFile,
    /// A file, a directory or a glob.
    File,
    /// A file that an earlier run made.
    Artifact,
    /// `PATH` or `PATH:L1-L2`: a file, or some of its lines, whose text the prompt carries.
    Embed,
    /// A thought of an earlier run.
    Thought,
}

impl InputKind {
    /// Returns the name of the option that adds such an item.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Value => "set",
            Self::ValueFile => "set-file",
            Self::Secret => "set-secret",
            Self::SecretVariable => "set-secret-env",
            Self::Context => "context",
            Self::ContextFile => "context-file",
            Self::File => "file",
            Self::Artifact => "artifact",
            Self::Embed => "embed",
            Self::Thought => "thought",
        }
    }
}

/// A complete request and the sources that were read for it.
#[derive(Debug)]
pub(crate) struct PreparedInput {
    pub request: Request,
    /// The session directory, if it is not the project.
    pub session: Option<PathBuf>,
    /// Texts of the project that were already read; `listings` has the directories that were already walked.
    pub texts: BTreeMap<SourceId, SharedText>,
    pub listings: BTreeMap<SourceId, Listing>,
    /// The snapshot of an earlier prompt that this one must reproduce.
    pub replay: Option<Snapshot>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A request file, before any flag. It is read first because it may name the project, which determines the
/// meaning of the paths in the flags.
#[derive(Debug)]
pub struct RequestFile {
    pub(super) request: Request,
    /// The input that standard input was read for.
    pub(super) stdin: Option<&'static str>,
}

impl RequestFile {
    /// Reads the request file of an input, if it names one.
    pub fn read(project: &Project, input: &ComposeInput) -> Result<Self> {
        let mut inputs = InputReader { project, diagnostics: Vec::new(), stdin: None };
        let request = match &input.request_file {
            Some(file) => inputs.read_request_file(file)?,
            None => input.request.clone(),
        };
        Ok(Self { request: Request { mcp: request.mcp || input.mcp, ..request }, stdin: inputs.stdin })
    }

    /// Opens the project that the request names, unless the caller named one.
    pub fn open_project(&self, project: &Project) -> Result<Option<Project>> {
        let named = self.request.project.as_deref().filter(|_| !project.is_named);
        named.map(|dir| project.open_other(dir)).transpose()
    }
}

impl PreparedInput {
    /// Returns the input of a complete request for which nothing was read.
    pub(crate) fn from_request(request: Request) -> Self {
        Self {
            request,
            session: None,
            texts: BTreeMap::new(),
            listings: BTreeMap::new(),
            replay: None,
            diagnostics: Vec::new(),
        }
    }

    /// Applies the input on top of the request file.
    pub(crate) fn new(project: &Project, input: &ComposeInput, file: RequestFile) -> Result<Self> {
        let mut inputs = InputReader { project, diagnostics: Vec::new(), stdin: file.stdin };
        let mut request = Request { project: None, ..file.request };
        inputs.add_single(input, &mut request)?;
        let config = &project.config;
        let role_or_command = request.role.is_some() || request.command.is_some();
        if !role_or_command {
            request.role.clone_from(&config.role.value);
        }
        if request.recipe.is_none() {
            let usual = match (&request.phase, &request.command, &request.session, &input.session) {
                (Some(_), ..) => "unified",
                (None, None, None, None) => "run",
                _ => "staged",
            };
            request.recipe = config.recipe.value.clone().or_else(|| Some(usual.into()));
        }
        request.layout = merge_layout(request.layout, config.layout());
        let disk = project.disk(None);
        let library = Library::new(&disk);
        if request.agent.is_none() {
            let bound = library.profile(&request)?.and_then(|profile| profile.agent);
            request.agent = bound.or_else(|| config.agent.value.clone());
        }
        if let Some((name, version)) = request.agent.as_ref().and_then(|agent| agent.split_once('@')) {
            request.agent_version = Some(version.into());
            request.agent = Some(name.into());
        }
        request.agent = request.agent.map(|name| resolve_agent_name(&library, name, &request.layout));
        request.no_git |= !is_in_git(&project.dir);
        let GatheredDocuments { texts, listings, .. } = inputs.add_repeated(input, &mut request)?;
        let session = inputs.resolve_session(input, &mut request)?;
        check_tools(&request.tools)?;
        inputs.diagnostics.extend(warn_missing_files(&request.read_first, &project.dir));
        Ok(Self { request, session, texts, listings, replay: None, diagnostics: inputs.diagnostics })
    }
}

/// Merges the layouts: a value of the request that differs from the default beats the configuration.
fn merge_layout(asked: Layout, configured: Layout) -> Layout {
    let usual = Layout::default();
    Layout {
        templates: if asked.templates == usual.templates { configured.templates } else { asked.templates },
        prompts: if asked.prompts == usual.prompts { configured.prompts } else { asked.prompts },
        project_context: if asked.project_context == usual.project_context {
            configured.project_context
        } else {
            asked.project_context
        },
    }
}
