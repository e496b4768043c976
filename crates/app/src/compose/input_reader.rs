//! Reads the inputs that a caller names: files, standard input, the session.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::request::Request;
use callsheet_core::{FileFormat, SharedText, SourceError, is_name, read_request};
use callsheet_run::open_file;
use callsheet_run::read_file;

use super::inputs::ComposeInput;
use crate::error::{Error, Result, unreadable_error, usage_error};
use crate::paths::{canonicalize_or_keep, path_below, relative_path};
use crate::project::{Project, resolve_directory};

pub(super) struct InputReader<'a> {
    pub(super) project: &'a Project,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The input that standard input was read for; it can be read only once.
    pub(super) stdin: Option<&'static str>,
}

impl InputReader<'_> {
    pub(super) fn read_request_file(&mut self, file: &str) -> Result<Request> {
        let text = self.read_text(file, "--request")?;
        // Some editors write a byte order mark, which is not part of either format.
        let text = text.strip_prefix('\u{feff}').map(SharedText::from).unwrap_or(text);
        let json = file.ends_with(".json") || text.trim_start().starts_with('{');
        let name = if file == "-" { "standard input" } else { file };
        Ok(read_request(name, &text, if json { FileFormat::Json } else { FileFormat::Toml })?)
    }

    /// Returns the path relative to the project, as in the worktree.
    pub(super) fn project_path(&self, path: &str) -> Result<String> {
        let folder = if path.ends_with('/') { "/" } else { "" };
        match path_below(&self.project.here.join(path), &self.project.dir) {
            Some(path) => Ok(path + folder),
            None => Err(usage_error(format!("`{path}` is outside the project")).into()),
        }
    }

    /// Resolves the session directory. `--session` may name any directory; a request file, which others may
    /// have written, only one inside the project.
    pub(super) fn resolve_session(
        &mut self,
        input: &ComposeInput,
        request: &mut Request,
    ) -> Result<Option<PathBuf>> {
        let (path, dir) = match (&input.session, &request.session) {
            (Some(dir), _) => (self.project.session_path(dir), dir.clone()),
            (None, Some(dir)) => (self.project.dir.join(dir), PathBuf::from(dir)),
            (None, None) => return Ok(None),
        };
        let session = resolve_directory(&path, &dir)?;
        let project = canonicalize_or_keep(&self.project.dir);
        if input.session.is_none() && !session.starts_with(&project) {
            let message = format!("the session `{}` is outside the project", dir.display());
            let hint = "`--session` may name any directory";
            return Err(Diagnostic::error(Code::RequestBad, message).hint(hint).into());
        }
        let shown = relative_path(&project, &session);
        request.session = Some(shown).filter(|path| path != ".");
        Ok(Some(session))
    }

    /// Reads an explicitly named file, or standard input for `-`.
    pub(super) fn read_text(&mut self, file: &str, what: &'static str) -> Result<SharedText> {
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
                "stdin is already used for {first}; give {what} in another way"
            ))
            .into());
        }
        let limit = self.project.config.max_file_bytes.value;
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| unreadable_error("standard input", SourceError::Unreadable(error.to_string())))?;
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
    Diagnostic::error(Code::InputNotFound, format!("file not found: `{file}`"))
        .searched([path.display()])
        .into()
}

pub(crate) fn parse_pair<'i>(flag: &str, item: &'i str) -> Result<(&'i str, &'i str)> {
    match item.split_once('=') {
        Some((key, value)) if is_name(key) => Ok((key, value)),
        Some((key, _)) => Err(usage_error(format!("--{flag}: invalid name `{key}`")).into()),
        None => Err(usage_error(format!("invalid value `{item}` for `--{flag}`: expected KEY=VALUE")).into()),
    }
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

/// Reads the named file, or standard input for `-`, which nothing else reads.
pub fn read_input(project: &Project, file: &str) -> Result<SharedText> {
    InputReader { project, diagnostics: Vec::new(), stdin: None }.read_text(file, "a document")
}
