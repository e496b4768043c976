//! Builds one request from the flags, a request file and the configuration.
//!
//! Flags come on top of the request file: scalars replace, lists append, maps merge. Files that are named
//! explicitly may be anywhere; core handles all others.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::library::recipe::FilePolicy;
use callsheet_core::request::scope::Scope;
use callsheet_core::request::{ContextBlock, Request, RequestDocument, Task, check_tools, read_tools};
use callsheet_core::{
    FileFormat, Library, Listing, ListingEntry, ListingLimits, PromptFormat, SharedText, Snapshot,
    SourceError, SourceId, SourceRoot, Sources, candidates, is_name, read_recipe, read_request,
    resolve_agent_name,
};
use callsheet_run::open_file;
use callsheet_run::{Disk, Roots, read_file};
use clap::ArgMatches;

use crate::app::{AppContext, resolve_directory};
use crate::args::ComposeArgs;
use crate::failure::usage_error;
use crate::pack::{DetailChoices, GatheredDocuments, PathSelection, outside_error};
use crate::secrets;

/// The input of a composition: the request and its sources.
pub(crate) struct ComposeInput {
    pub(crate) request: Request,
    /// The session directory, if it is not the project.
    pub(crate) session: Option<PathBuf>,
    /// Texts of the project that were already read; `listings` has the directories that were already walked.
    pub(crate) texts: BTreeMap<SourceId, SharedText>,
    pub(crate) listings: BTreeMap<SourceId, Listing>,
    /// The snapshot of an earlier prompt that this one must reproduce.
    pub(crate) replay: Option<Snapshot>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A request file, before any flag. It is read first because it may name the project, which determines the
/// meaning of the paths in the flags.
pub(crate) struct RequestFile {
    request: Request,
    /// The input that standard input was read for.
    stdin: Option<&'static str>,
}

impl RequestFile {
    pub(crate) fn read(app: &AppContext<'_>, ask: &ComposeArgs) -> Result<Self, Diagnostics> {
        let mut inputs = InputReader { app, diagnostics: Vec::new(), stdin: None };
        let request = ask.request.as_ref().map(|file| inputs.read_request_file(file)).transpose()?;
        Ok(Self { request: request.unwrap_or_default(), stdin: inputs.stdin })
    }

    /// Marks the request as one for an agent that is attached to the MCP server.
    pub(crate) fn with_mcp(mut self) -> Self {
        self.request.mcp = true;
        self
    }

    /// Returns the context of the project that the request names, unless the command line names one.
    pub(crate) fn open_project<'p>(
        &self,
        app: &AppContext<'p>,
    ) -> Result<Option<AppContext<'p>>, Diagnostics> {
        let project = self.request.project.as_deref().filter(|_| !app.project_named);
        project.map(|dir| app.with_project(dir)).transpose()
    }
}

impl ComposeInput {
    /// Applies the flags on top of the request file. `given` knows the order of the flags.
    pub(crate) fn new(
        app: &AppContext<'_>,
        ask: &ComposeArgs,
        given: Option<&ArgMatches>,
        file: RequestFile,
    ) -> Result<Self, Diagnostics> {
        let mut inputs = InputReader { app, diagnostics: Vec::new(), stdin: file.stdin };
        let mut request = Request { project: None, ..file.request };
        inputs.add_single(ask, &mut request)?;
        let config = &app.config;
        let role_or_command = request.role.is_some() || request.command.is_some();
        if !role_or_command {
            request.role.clone_from(&config.role.value);
        }
        if request.recipe.is_none() {
            let usual = match (&request.phase, &request.command, &request.session, &ask.session) {
                (Some(_), ..) => "unified",
                (None, None, None, None) => "run",
                _ => "staged",
            };
            request.recipe = config.recipe.value.clone().or_else(|| Some(usual.into()));
        }
        request.layout = merge_layout(request.layout, config.layout());
        let disk = app.disk(None);
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
        request.no_git |= !is_in_git(&app.project);
        let GatheredDocuments { texts, listings, .. } = inputs.add_repeated(ask, given, &mut request)?;
        let session = inputs.resolve_session(ask, &mut request)?;
        check_tools(&request.tools)?;
        inputs.diagnostics.extend(warn_missing_files(&request.read_first, &app.project));
        Ok(Self { request, session, texts, listings, replay: None, diagnostics: inputs.diagnostics })
    }
}

/// Checks whether a folder belongs to a checkout, as far as that is visible without git.
pub(crate) fn is_in_git(dir: &Path) -> bool {
    dir.ancestors().any(|dir| dir.join(".git").exists())
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
    app: &'a AppContext<'a>,
    diagnostics: Vec<Diagnostic>,
    /// The input that standard input was read for; it can be read only once.
    stdin: Option<&'static str>,
}

impl InputReader<'_> {
    fn read_request_file(&mut self, file: &str) -> Result<Request, Diagnostics> {
        let text = self.read_text(file, "--request")?;
        // Some editors write a byte order mark, which is not part of either format.
        let text = text.strip_prefix('\u{feff}').map(SharedText::from).unwrap_or(text);
        let json = file.ends_with(".json") || text.trim_start().starts_with('{');
        let name = if file == "-" { "standard input" } else { file };
        read_request(name, &text, if json { FileFormat::Json } else { FileFormat::Toml })
    }

    /// Applies the flags that are given once: they replace.
    fn add_single(&mut self, ask: &ComposeArgs, request: &mut Request) -> Result<(), Diagnostics> {
        let words = ask.task.as_ref().or(ask.instructions.as_ref());
        if let Some(words) = words {
            request.instructions =
                Some(if words == "-" { self.read_text("-", "the task")? } else { words.as_str().into() });
        }
        let replace = |field: &mut Option<String>, flag: &Option<String>| {
            if flag.is_some() {
                field.clone_from(flag);
            }
        };
        replace(&mut request.recipe, &ask.recipe);
        replace(&mut request.agent, &ask.agent);
        replace(&mut request.phase, &ask.phase);
        replace(&mut request.role, &ask.role);
        replace(&mut request.command, &ask.command);
        request.format = ask.format.map(|format| format.0).or(request.format);
        if ask.api.is_some() && request.format.is_none() {
            request.format = Some(PromptFormat::Json);
        }
        if ask.api.is_some() && request.format != Some(PromptFormat::Json) {
            return Err(usage_error("--api needs --format json").into());
        }
        request.missing = ask.missing.map(|missing| missing.0).or(request.missing);
        Ok(())
    }

    /// Applies the flags that add to a list or a map, and returns the documents that were read for them.
    fn add_repeated(
        &mut self,
        ask: &ComposeArgs,
        given: Option<&ArgMatches>,
        request: &mut Request,
    ) -> Result<GatheredDocuments, Diagnostics> {
        let details = DetailChoices::new(self.app, &ask.detail)?;
        let mut gathered = GatheredDocuments::new(request);
        for (flag, item) in order_flags(ask, given) {
            match flag {
                "file" => self.add_files(item, &details, &mut gathered, request)?,
                "artifact" => self.add_document(DocumentKind::Artifact, item, &mut gathered, request)?,
                "embed" => self.add_embed(item, request)?,
                flag => self.add_item(flag, item, request)?,
            }
        }
        details.apply(request, &mut self.diagnostics);
        for path in &ask.read_first {
            request.read_first.push(self.project_path(path)?);
        }
        self.add_task(ask, request);
        if let Some(file) = &ask.tools {
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

    fn add_task(&self, ask: &ComposeArgs, request: &mut Request) {
        let given = [&ask.task_id, &ask.title].iter().any(|flag| flag.is_some());
        let (write, exclude) = (&self.app.config.write.value, &self.app.config.exclude.value);
        if !given && [&ask.write, &ask.exclude, write, exclude].iter().all(|globs| globs.is_empty()) {
            return;
        }
        let task = request.task.get_or_insert_with(Task::default);
        if let Some(id) = &ask.task_id {
            task.id = Some(id.as_str().into());
        }
        if let Some(title) = &ask.title {
            task.title = Some(title.as_str().into());
        }
        task.write.extend(ask.write.iter().cloned());
        task.exclude.extend(ask.exclude.iter().cloned());
        // The configured `exclude` applies to every task; the configured `write` only if the task has none.
        task.exclude.extend(exclude.iter().cloned());
        if task.write.is_empty() {
            task.write.extend(write.iter().cloned());
        }
    }

    fn add_item(&mut self, flag: &'static str, item: &str, request: &mut Request) -> Result<(), Diagnostics> {
        match flag {
            "set" | "set_file" => {
                let (key, value) = parse_pair(flag, item)?;
                let value = if flag == "set" { value.into() } else { self.read_text(value, "--set-file")? };
                request.values.insert(key.into(), value);
                request.secret.remove(key);
            }
            "set_secret" | "set_secret_env" => {
                let (key, place) = parse_pair(flag, item)?;
                let value = match flag {
                    "set_secret" => self.read_text(place, "--set-secret")?,
                    _ => secrets::read_variable(place)?,
                };
                request.values.insert(key.into(), value);
                request.secret.insert(key.into());
            }
            "context" | "context_file" => {
                let (name, value) = parse_pair(flag, item)?;
                let text =
                    if flag == "context" { value.into() } else { self.read_text(value, "--context-file")? };
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
    ) -> Result<(), Diagnostics> {
        let is_dir = self.app.here.join(item).is_dir();
        let paths = PathSelection::new(self.app, item)?;
        match paths.filter(|paths| is_dir || paths.is_pattern()) {
            Some(paths) => {
                let carries_texts = self.carries_texts(request);
                let diagnostics = gathered.add_tree(self.app, &paths, (details, carries_texts), request)?;
                self.diagnostics.extend(diagnostics);
                Ok(())
            }
            None if is_dir => Err(outside_error(item)),
            None => self.add_document(DocumentKind::File, item, gathered, request),
        }
    }

    /// Checks whether the recipe shows more of files than their paths. An unusable recipe is reported later.
    fn carries_texts(&self, request: &Request) -> bool {
        let disk = self.app.disk(None);
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
    ) -> Result<(), Diagnostics> {
        if file == "-" {
            let content = Some(self.read_text(file, "a document")?);
            let document =
                RequestDocument { kind, name: Some("stdin".into()), content, ..RequestDocument::default() };
            request.documents.push(document);
            return Ok(());
        }
        let given = self.app.here.join(file);
        let real = given.canonicalize().map_err(|_| not_found_error(file, &given))?;
        let inside = path_below(&given, &self.app.project);
        if let Some(path) = &inside
            && real.starts_with(canonicalize_or_keep(&self.app.project))
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
    fn add_embed(&mut self, item: &str, request: &mut Request) -> Result<(), Diagnostics> {
        let is_there = |path: &str| self.app.here.join(path).is_file();
        let (path, lines) = match item.rsplit_once(':').filter(|_| !is_there(item)) {
            Some((path, lines)) => {
                (path, Some(parse_line_range(lines).ok_or_else(|| bad_lines_error(lines))?))
            }
            None => (item, None),
        };
        if !is_there(path) {
            return Err(not_found_error(path, &self.app.here.join(path)));
        }
        let path = Some(self.project_path(path)?);
        request.documents.push(RequestDocument { path, embed: true, lines, ..RequestDocument::default() });
        Ok(())
    }

    /// Returns the path relative to the project, as in the worktree.
    fn project_path(&self, path: &str) -> Result<String, Diagnostics> {
        let folder = if path.ends_with('/') { "/" } else { "" };
        match path_below(&self.app.here.join(path), &self.app.project) {
            Some(path) => Ok(path + folder),
            None => Err(usage_error(format!("`{path}` lies outside the project")).into()),
        }
    }

    /// Resolves the session directory. `--session` may name any directory; a request file, which others may
    /// have written, only one inside the project.
    fn resolve_session(
        &mut self,
        ask: &ComposeArgs,
        request: &mut Request,
    ) -> Result<Option<PathBuf>, Diagnostics> {
        let (path, dir) = match (&ask.session, &request.session) {
            (Some(dir), _) => (self.app.session_path(dir), dir.clone()),
            (None, Some(dir)) => (self.app.project.join(dir), PathBuf::from(dir)),
            (None, None) => return Ok(None),
        };
        let session = resolve_directory(&path, &dir)?;
        let project = canonicalize_or_keep(&self.app.project);
        if ask.session.is_none() && !session.starts_with(&project) {
            let message = format!("the session `{}` lies outside the project", dir.display());
            let hint = "`--session` may name any directory";
            return Err(Diagnostic::error(Code::RequestBad, message).hint(hint).into());
        }
        let shown = relative_path(&project, &session);
        request.session = Some(shown).filter(|path| path != ".");
        Ok(Some(session))
    }

    /// Reads an explicitly named file, or standard input for `-`.
    fn read_text(&mut self, file: &str, what: &'static str) -> Result<SharedText, Diagnostics> {
        if file == "-" {
            return self.read_stdin(what);
        }
        let path = self.app.here.join(file);
        match read_file(&path, self.app.config.max_file_bytes.value) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(not_found_error(file, &path)),
            Err(error) => Err(unreadable_error(file, &error)),
        }
    }

    fn read_stdin(&mut self, what: &'static str) -> Result<SharedText, Diagnostics> {
        if let Some(first) = self.stdin.replace(what) {
            return Err(usage_error(format!(
                "standard input is read for {first}; it cannot be read for {what} too"
            ))
            .into());
        }
        let limit = self.app.config.max_file_bytes.value;
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

pub(crate) fn not_found_error(file: &str, path: &Path) -> Diagnostics {
    Diagnostic::error(Code::InputNotFound, format!("`{file}` is not there")).searched([path.display()]).into()
}

pub(crate) fn unreadable_error(file: &str, error: &SourceError) -> Diagnostics {
    Diagnostic::error(Code::InputUnreadable, format!("`{file}` cannot be used: {error}")).into()
}

pub(crate) fn parse_pair<'i>(flag: &str, item: &'i str) -> Result<(&'i str, &'i str), Diagnostics> {
    let flag = flag.replace('_', "-");
    match item.split_once('=') {
        Some((key, value)) if is_name(key) => Ok((key, value)),
        Some((key, _)) => Err(usage_error(format!("--{flag}: `{key}` is not a name")).into()),
        None => Err(usage_error(format!("--{flag} takes KEY=VALUE, not `{item}`")).into()),
    }
}

/// Returns the flags that may be mixed, in the order of the command line.
fn order_flags<'i>(ask: &'i ComposeArgs, given: Option<&ArgMatches>) -> Vec<(&'static str, &'i str)> {
    let flags: [(&'static str, &Vec<String>); 10] = [
        ("set", &ask.set),
        ("set_file", &ask.set_file),
        ("set_secret", &ask.set_secret),
        ("set_secret_env", &ask.set_secret_env),
        ("context", &ask.context),
        ("context_file", &ask.context_file),
        ("file", &ask.file),
        ("artifact", &ask.artifact),
        ("embed", &ask.embed),
        ("thought", &ask.thought),
    ];
    let mut items: Vec<(usize, &'static str, &str)> = Vec::new();
    for (flag, values) in flags {
        let places = given.and_then(|given| given.indices_of(flag)).into_iter().flatten();
        items.extend(places.zip(values).map(|(at, value)| (at, flag, value.as_str())));
    }
    items.sort_unstable();
    items.into_iter().map(|(_, flag, value)| (flag, value)).collect()
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

fn canonicalize_or_keep(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Returns `path` relative to `project` with `/` between components, or `None` if it is not below it. `.` and
/// `..` are resolved by name alone: a link inside the project keeps the name that the person gave.
pub(crate) fn path_below(path: &Path, project: &Path) -> Option<String> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    let below = plain.strip_prefix(project).map(Path::to_path_buf).or_else(|_| {
        // The project's path may contain a link.
        canonicalize_or_keep(&plain).strip_prefix(canonicalize_or_keep(project)).map(Path::to_path_buf)
    });
    let below = below.ok()?;
    Some(if below.as_os_str().is_empty() { ".".into() } else { join_slashes(&below) })
}

/// Returns the relative path from one directory to another, both in canonical form; `.` if they are the same.
pub(crate) fn relative_path(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| "..".into());
    let down = to.components().skip(shared).map(|part| part.as_os_str().to_string_lossy());
    let way: Vec<_> = up.chain(down).collect();
    if way.is_empty() { ".".into() } else { way.join("/") }
}

fn join_slashes(path: &Path) -> String {
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Opens the named file, or standard input for `-`.
pub(crate) fn open_input(app: &AppContext<'_>, file: &str) -> Result<Box<dyn BufRead>, Diagnostics> {
    if file == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let path = app.here.join(file);
    match open_file(&path) {
        Ok(Some(found)) => Ok(Box::new(BufReader::new(found))),
        Ok(None) => Err(not_found_error(file, &path)),
        Err(error) => Err(unreadable_error(file, &error)),
    }
}
