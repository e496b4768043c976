//! Adds inputs to a request: values, context, documents, the task.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::recipe::{DocumentKind, FilePolicy};
use callsheet_core::request::{ContextBlock, Request, RequestDocument, Task, read_tools};
use callsheet_core::{PromptFormat, Sources, candidates, read_recipe};

use super::input_reader::{InputReader, not_found_error, parse_pair};
use super::inputs::{ComposeInput, InputItem, InputKind};
use crate::compose::pack::{DetailChoices, GatheredDocuments, PathSelection, outside_error};
use crate::compose::secrets;
use crate::error::{Result, usage_error};
use crate::paths::{canonicalize_or_keep, path_below};

impl InputReader<'_> {
    /// Applies the flags that are given once: they replace.
    pub(super) fn add_single(&mut self, input: &ComposeInput, request: &mut Request) -> Result<()> {
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
            return Err(usage_error("`--api` requires `--format json`").into());
        }
        request.missing = input.missing.or(request.missing);
        Ok(())
    }

    /// Applies the flags that add to a list or a map, and returns the documents that were read for them.
    pub(super) fn add_repeated(
        &mut self,
        input: &ComposeInput,
        request: &mut Request,
    ) -> Result<GatheredDocuments> {
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
            let message = format!("`{file}` is outside the project; the prompt names it `{name}`");
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
}

/// Parses `L1-L2`, or a single line number.
fn parse_line_range(lines: &str) -> Option<[usize; 2]> {
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some([first, last])
}

fn bad_lines_error(lines: &str) -> Diagnostic {
    usage_error(format!("invalid line range `{lines}` for `--embed`: expected PATH or PATH:L1-L2"))
}
