//! Builds one request from the flags, a request file and the configuration.
//!
//! Flags come on top of the request file: scalars replace, lists append, maps merge. Files that are named
//! explicitly may be anywhere; core handles all others.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::format::ModelApi;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::{DocumentKind, FilePolicy, MissingPolicy};
use callsheet_core::request::scope::Scope;
use callsheet_core::request::{ContextBlock, Request, RequestDocument, Task, check_tools, read_tools};
use callsheet_core::secrets::SecretMode;
use callsheet_core::{
    FileFormat, Library, Listing, ListingEntry, ListingLimits, PromptFormat, SharedText, Snapshot,
    SourceError, SourceId, SourceRoot, Sources, candidates, is_name, read_recipe, read_request,
    resolve_agent_name,
};
use callsheet_run::open_file;
use callsheet_run::{Disk, Roots, read_file};

use crate::compose::pack::{DetailChoices, GatheredDocuments, PathSelection, outside_error};
use crate::compose::secrets;
use crate::error::{Error, Result, usage_error};
use crate::paths::{canonicalize_or_keep, is_in_git, path_below, relative_path};
use crate::project::{Project, resolve_directory};

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
    request: Request,
    /// The input that standard input was read for.
    stdin: Option<&'static str>,
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

struct InputReader<'a> {
    project: &'a Project,
    diagnostics: Vec<Diagnostic>,
    /// The input that standard input was read for; it can be read only once.
    stdin: Option<&'static str>,
}

impl InputReader<'_> {
    fn read_request_file(&mut self, file: &str) -> Result<Request> {
        let text = self.read_text(file, "--request")?;
        // Some editors write a byte order mark, which is not part of either format.
        let text = text.strip_prefix('\u{feff}').map(SharedText::from).unwrap_or(text);
        let json = file.ends_with(".json") || text.trim_start().starts_with('{');
        let name = if file == "-" { "standard input" } else { file };
        Ok(read_request(name, &text, if json { FileFormat::Json } else { FileFormat::Toml })?)
    }

    /// Applies the flags that are given once: they replace.
    fn add_single(&mut self, input: &ComposeInput, request: &mut Request) -> Result<()> {
        let words = input.task.as_ref();
        if let Some(words) = words {
            request.instructions =
                Some(if words == "-" { self.read_text("-", "the task")? } else { words.as_str().into() });
        }
        let replace = |field: &mut Option<String>, flag: &Option<String>| {
            if flag.is_some() {
                field.clone_from(flag);
            }
        };
        replace(&mut request.recipe, &input.recipe);
        replace(&mut request.agent, &input.agent);
        replace(&mut request.phase, &input.phase);
        replace(&mut request.role, &input.role);
        replace(&mut request.command, &input.command);
        request.format = input.format.or(request.format);
        if input.api.is_some() && request.format.is_none() {
            request.format = Some(PromptFormat::Json);
        }
        if input.api.is_some() && request.format != Some(PromptFormat::Json) {
            return Err(usage_error("--api needs --format json").into());
        }
        request.missing = input.missing.or(request.missing);
        Ok(())
    }

    /// Applies the flags that add to a list or a map, and returns the documents that were read for them.
    fn add_repeated(&mut self, input: &ComposeInput, request: &mut Request) -> Result<GatheredDocuments> {
        let details = DetailChoices::new(self.project, &input.detail)?;
        let mut gathered = GatheredDocuments::new(request);
        for InputItem { kind, text } in &input.items {
            match kind {
                InputKind::File => self.add_files(text, &details, &mut gathered, request)?,
                InputKind::Artifact => {
                    self.add_document(DocumentKind::Artifact, text, &mut gathered, request)?;
                }
                InputKind::Embed => self.add_embed(text, request)?,
                kind => self.add_item(*kind, text, request)?,
            }
        }
        details.apply(request, &mut self.diagnostics);
        for path in &input.read_first {
            request.read_first.push(self.project_path(path)?);
        }
        self.add_task(input, request);
        if let Some(file) = &input.tools {
            let text = self.read_text(file, "--tools")?;
            match read_tools(&text)? {
                Some(tools) => request.tools.extend(tools),
                None => {
                    return Err(
                        usage_error(format!("`{file}` is not a JSON array of tool definitions")).into()
                    );
                }
            }
        }
        Ok(gathered)
    }

    fn add_task(&self, input: &ComposeInput, request: &mut Request) {
        let given = [&input.task_id, &input.title].iter().any(|flag| flag.is_some());
        let (write, exclude) = (&self.project.config.write.value, &self.project.config.exclude.value);
        if !given && [&input.write, &input.exclude, write, exclude].iter().all(|globs| globs.is_empty()) {
            return;
        }
        let task = request.task.get_or_insert_with(Task::default);
        if let Some(id) = &input.task_id {
            task.id = Some(id.as_str().into());
        }
        if let Some(title) = &input.title {
            task.title = Some(title.as_str().into());
        }
        task.write.extend(input.write.iter().cloned());
        task.exclude.extend(input.exclude.iter().cloned());
        // The configured `exclude` applies to every task; the configured `write` only if the task has none.
        task.exclude.extend(exclude.iter().cloned());
        if task.write.is_empty() {
            task.write.extend(write.iter().cloned());
        }
    }

    fn add_item(&mut self, kind: InputKind, item: &str, request: &mut Request) -> Result<()> {
        let flag = kind.flag();
        match kind {
            InputKind::Value | InputKind::ValueFile => {
                let (key, value) = parse_pair(flag, item)?;
                let value = match kind {
                    InputKind::Value => value.into(),
                    _ => self.read_text(value, "--set-file")?,
                };
                request.values.insert(key.into(), value);
                request.secret.remove(key);
            }
            InputKind::Secret | InputKind::SecretVariable => {
                let (key, place) = parse_pair(flag, item)?;
                let value = match kind {
                    InputKind::Secret => self.read_text(place, "--set-secret")?,
                    _ => secrets::read_variable(place)?,
                };
                request.values.insert(key.into(), value);
                request.secret.insert(key.into());
            }
            InputKind::Context | InputKind::ContextFile => {
                let (name, value) = parse_pair(flag, item)?;
                let text = match kind {
                    InputKind::Context => value.into(),
                    _ => self.read_text(value, "--context-file")?,
                };
                request.context.push(ContextBlock { name: name.into(), text: Some(text), data: None });
            }
            _ => {
                let earlier = request.documents.iter().filter(|d| d.kind == DocumentKind::Thought).count();
                request.documents.push(RequestDocument {
                    kind: DocumentKind::Thought,
                    name: Some(format!("thought-{}", earlier + 1)),
                    content: Some(item.into()),
                    ..RequestDocument::default()
                });
            }
        }
        Ok(())
    }

    /// Adds a file, or all files in a directory or matching a pattern.
    fn add_files(
        &mut self,
        item: &str,
        details: &DetailChoices,
        gathered: &mut GatheredDocuments,
        request: &mut Request,
    ) -> Result<()> {
        let is_dir = self.project.here.join(item).is_dir();
        let paths = PathSelection::new(self.project, item)?;
        match paths.filter(|paths| is_dir || paths.is_pattern()) {
            Some(paths) => {
                let carries_texts = self.carries_texts(request);
                let diagnostics =
                    gathered.add_tree(self.project, &paths, (details, carries_texts), request)?;
                self.diagnostics.extend(diagnostics);
                Ok(())
            }
            None if is_dir => Err(outside_error(item)),
            None => self.add_document(DocumentKind::File, item, gathered, request),
        }
    }

    /// Checks whether the recipe shows more of files than their paths. An unusable recipe is reported later.
    fn carries_texts(&self, request: &Request) -> bool {
        let disk = self.project.disk(None);
        let path = request.recipe.as_ref().map(|name| format!("recipes/{name}.toml")).unwrap_or_default();
        let places = candidates(&path, &request.layout);
        let found = places.iter().find_map(|id| Some((id, disk.text(id).ok().flatten()?)));
        let recipe = found.and_then(|(id, text)| read_recipe(id, &text).ok());
        recipe.is_none_or(|recipe| recipe.files == FilePolicy::Embed)
    }

    /// Adds a document. A file inside the project is passed by its path, and the composer reads it; any other
    /// file is read here and carries its own name.
    fn add_document(
        &mut self,
        kind: DocumentKind,
        file: &str,
        gathered: &mut GatheredDocuments,
        request: &mut Request,
    ) -> Result<()> {
        if file == "-" {
            let content = Some(self.read_text(file, "a document")?);
            let document =
                RequestDocument { kind, name: Some("stdin".into()), content, ..RequestDocument::default() };
            request.documents.push(document);
            return Ok(());
        }
        let given = self.project.here.join(file);
        let real = given.canonicalize().map_err(|_| not_found_error(file, &given))?;
        let inside = path_below(&given, &self.project.dir);
        if let Some(path) = &inside
            && real.starts_with(canonicalize_or_keep(&self.project.dir))
        {
            gathered.add(
                RequestDocument { kind, path: Some(path.clone()), ..RequestDocument::default() },
                request,
            );
            return Ok(());
        }
        let content = self.read_text(file, "a document")?;
        let own = || given.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = inside.or_else(own).unwrap_or_else(|| file.into());
        // A recipe that lists paths shows nothing of the file, and the composer reports that.
        if self.carries_texts(request) {
            let message = format!("`{file}` lies outside the project: the prompt calls it `{name}`");
            self.diagnostics.push(Diagnostic::warning(Code::InputOutside, message));
        }
        let document =
            RequestDocument { kind, name: Some(name), content: Some(content), ..RequestDocument::default() };
        if !request.documents.contains(&document) {
            request.documents.push(document);
        }
        Ok(())
    }

    /// Adds a file of the project, or some of its lines, whose text the person wants in the prompt.
    fn add_embed(&mut self, item: &str, request: &mut Request) -> Result<()> {
        let is_there = |path: &str| self.project.here.join(path).is_file();
        let (path, lines) = match item.rsplit_once(':').filter(|_| !is_there(item)) {
            Some((path, lines)) => {
                (path, Some(parse_line_range(lines).ok_or_else(|| bad_lines_error(lines))?))
            }
            None => (item, None),
        };
        if !is_there(path) {
            return Err(not_found_error(path, &self.project.here.join(path)));
        }
        let path = Some(self.project_path(path)?);
        request.documents.push(RequestDocument { path, embed: true, lines, ..RequestDocument::default() });
        Ok(())
    }

    /// Returns the path relative to the project, as in the worktree.
    fn project_path(&self, path: &str) -> Result<String> {
        let folder = if path.ends_with('/') { "/" } else { "" };
        match path_below(&self.project.here.join(path), &self.project.dir) {
            Some(path) => Ok(path + folder),
            None => Err(usage_error(format!("`{path}` lies outside the project")).into()),
        }
    }

    /// Resolves the session directory. `--session` may name any directory; a request file, which others may
    /// have written, only one inside the project.
    fn resolve_session(&mut self, input: &ComposeInput, request: &mut Request) -> Result<Option<PathBuf>> {
        let (path, dir) = match (&input.session, &request.session) {
            (Some(dir), _) => (self.project.session_path(dir), dir.clone()),
            (None, Some(dir)) => (self.project.dir.join(dir), PathBuf::from(dir)),
            (None, None) => return Ok(None),
        };
        let session = resolve_directory(&path, &dir)?;
        let project = canonicalize_or_keep(&self.project.dir);
        if input.session.is_none() && !session.starts_with(&project) {
            let message = format!("the session `{}` lies outside the project", dir.display());
            let hint = "`--session` may name any directory";
            return Err(Diagnostic::error(Code::RequestBad, message).hint(hint).into());
        }
        let shown = relative_path(&project, &session);
        request.session = Some(shown).filter(|path| path != ".");
        Ok(Some(session))
    }

    /// Reads an explicitly named file, or standard input for `-`.
    fn read_text(&mut self, file: &str, what: &'static str) -> Result<SharedText> {
        if file == "-" {
            return self.read_stdin(what);
        }
        let path = self.project.here.join(file);
        match read_file(&path, self.project.config.max_file_bytes.value) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(not_found_error(file, &path)),
            Err(error) => Err(unreadable_error(file, &error)),
        }
    }

    fn read_stdin(&mut self, what: &'static str) -> Result<SharedText> {
        if let Some(first) = self.stdin.replace(what) {
            return Err(usage_error(format!(
                "standard input is read for {first}; it cannot be read for {what} too"
            ))
            .into());
        }
        let limit = self.project.config.max_file_bytes.value;
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| {
            unreadable_error("standard input", &SourceError::Unreadable(error.to_string()))
        })?;
        if bytes.len() as u64 > limit {
            let error = SourceError::TooLarge { size: bytes.len() as u64, limit };
            return Err(unreadable_error("standard input", &error));
        }
        String::from_utf8(bytes).map(SharedText::from).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[offset];
            unreadable_error("standard input", &SourceError::NotUtf8 { offset, byte })
        })
    }
}

pub(crate) fn not_found_error(file: &str, path: &Path) -> Error {
    Diagnostic::error(Code::InputNotFound, format!("`{file}` is not there")).searched([path.display()]).into()
}

/// Returns the error for an input that cannot be used.
pub fn unreadable_error(file: &str, error: &SourceError) -> Error {
    Diagnostic::error(Code::InputUnreadable, format!("`{file}` cannot be used: {error}")).into()
}

pub(crate) fn parse_pair<'i>(flag: &str, item: &'i str) -> Result<(&'i str, &'i str)> {
    match item.split_once('=') {
        Some((key, value)) if is_name(key) => Ok((key, value)),
        Some((key, _)) => Err(usage_error(format!("--{flag}: `{key}` is not a name")).into()),
        None => Err(usage_error(format!("--{flag} takes KEY=VALUE, not `{item}`")).into()),
    }
}

/// Maximum number of missing files that are named.
const MOST_MISSING: usize = 10;

pub(crate) const GLOB_MARKS: [char; 4] = ['*', '?', '[', '{'];

/// Warns about files to read first that do not exist: most often that is a typo.
pub(crate) fn warn_missing_files(read_first: &[String], place: &Path) -> Vec<Diagnostic> {
    let is_missing = |path: &&String| {
        place.join(path).symlink_metadata().is_err()
            && (!path.contains(GLOB_MARKS) || is_unmatched_glob(path, place))
    };
    let missing: Vec<&String> = read_first.iter().filter(is_missing).collect();
    let warning = |path: &&String| {
        let lacks = if path.contains(GLOB_MARKS) { "no file matches it" } else { "there is no such file" };
        let message = format!("the agent is to read `{path}` first, and {lacks}");
        Diagnostic::warning(Code::InputNotFound, message).searched([format!("project:{path}")])
    };
    let mut warnings: Vec<Diagnostic> = missing.iter().take(MOST_MISSING).map(warning).collect();
    if let Some(more) = missing.len().checked_sub(MOST_MISSING).filter(|more| *more > 0) {
        let message = format!("the agent is to read {more} more files first that are not there");
        warnings.push(Diagnostic::warning(Code::InputNotFound, message));
    }
    warnings
}

/// Checks whether no file of the project matches a glob, as far as the listing shows.
fn is_unmatched_glob(glob: &str, place: &Path) -> bool {
    let judge = Scope { write: vec![glob.to_owned()], exclude: Vec::new() }.compile();
    let roots = Roots { project: Some(place.to_owned()), ..Roots::default() };
    let limits = ListingLimits { depth: 32, entries: 100_000, ignored: true };
    let whole = SourceId::new(SourceRoot::Project, ".").ok();
    let listed = whole.and_then(|whole| Disk::new(&roots, 0).list(&whole, limits).ok().flatten());
    listed.is_some_and(|listed| {
        // The listing never enters the `.git` folder.
        let is_git = |entry: &&ListingEntry| entry.dir && entry.path.rsplit('/').next() == Some(".git");
        let closed =
            listed.not_entered - listed.entries.iter().filter(is_git).count().min(listed.not_entered);
        let is_whole = listed.left_out == 0 && closed == 0;
        is_whole && !listed.entries.iter().any(|entry| judge.violation_reason(&entry.path).is_none())
    })
}

/// Parses `L1-L2`, or a single line number.
fn parse_line_range(lines: &str) -> Option<[usize; 2]> {
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some([first, last])
}

fn bad_lines_error(lines: &str) -> Diagnostic {
    usage_error(format!("--embed takes PATH or PATH:L1-L2, and `{lines}` are no lines"))
}

/// Opens the named file, or standard input for `-`.
pub fn open_input(project: &Project, file: &str) -> Result<Box<dyn BufRead>> {
    if file == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let path = project.here.join(file);
    match open_file(&path) {
        Ok(Some(found)) => Ok(Box::new(BufReader::new(found))),
        Ok(None) => Err(not_found_error(file, &path)),
        Err(error) => Err(unreadable_error(file, &error)),
    }
}
