//! A session that agents hand things in to: what they hand in is judged by the core and written here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::prefs::{self, Preference};
use callsheet_core::request::Layout;
use callsheet_core::submission::{self, Submitted, read_yaml, waiting};
use callsheet_core::{Root, SourceId, Sources as _};
use callsheet_run::{Disk, Folder, Roots, WriteError};
use serde_json::{Value, json};

use crate::app::{App, named_directory};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) layout: Layout,
    pub(crate) disk: Disk,
    pub(crate) project: PathBuf,
    pub(crate) dir: PathBuf,
    max_file_bytes: u64,
}

/// What became of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) written: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Role → the preferences that were new.
    pub(crate) preferences: BTreeMap<String, Vec<String>>,
}

impl Done {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "written": self.written, "removed": self.removed, "preferences": self.preferences })
    }
}

impl Session {
    /// The session at `dir`, or the project as one.
    pub(crate) fn open(app: &App<'_>, dir: Option<&Path>) -> Result<Self, Failure> {
        let dir = match dir {
            Some(dir) => named_directory(&app.here.join(dir), dir)?,
            None => app.project.clone(),
        };
        let roots =
            Roots { user: app.user.clone(), project: Some(app.project.clone()), session: Some(dir.clone()) };
        let max_file_bytes = app.config.max_file_bytes.value;
        Ok(Self {
            layout: app.config.layout(),
            disk: Disk::new(&roots, max_file_bytes),
            project: app.project.clone(),
            dir,
            max_file_bytes,
        })
    }

    /// Hands in `data` by the contract `tool`: files are written, preferences remembered.
    pub(crate) fn hand_in(&self, tool: &str, data: &Value) -> Result<Done, Failure> {
        self.carry_out(submission::submit(&self.disk, &self.layout, tool, data)?)
    }

    /// Hands in the files that agents wrote for the contract `tool`; with `only`, a path in the session, that one.
    /// Nothing is written unless all of them are good.
    pub(crate) fn hand_in_files(&self, tool: &str, only: Option<&str>) -> Result<Vec<Done>, Failure> {
        let mut files = waiting(&self.disk, &self.layout, tool)?;
        files.retain(|(path, _)| only.is_none_or(|only| only == path));
        if files.is_empty() {
            let what = only.map_or_else(|| "a file".into(), |only| format!("`{only}`"));
            let message = format!("there is no {what} in the session that hands in `{tool}`");
            return Err(Diag::error(Code::InputNotFound, message).looked([self.dir.display()]).into());
        }
        let mut all = Vec::new();
        let mut wrong = Vec::new();
        for (path, named) in files {
            match self.judge_file(tool, &path, &named) {
                Ok(submitted) => all.push(submitted),
                Err(Failure(diags)) => wrong.extend(diags.into_iter().map(|mut diag| {
                    diag.looked.insert(0, format!("session:{path}"));
                    diag
                })),
            }
        }
        if !wrong.is_empty() {
            return Err(Failure(wrong));
        }
        all.into_iter().map(|submitted| self.carry_out(submitted)).collect()
    }

    /// What the name of a file says (a number, a role) holds for its data, too.
    fn judge_file(
        &self,
        tool: &str,
        path: &str,
        named: &serde_json::Map<String, Value>,
    ) -> Result<Submitted, Failure> {
        let unreadable =
            |why: String| Diag::error(Code::InputUnreadable, format!("`{path}` cannot be used: {why}"));
        let id = SourceId::new(Root::Session, path).map_err(|error| unreadable(error.to_string()))?;
        let text = self.disk.text(&id).map_err(|error| unreadable(error.to_string()))?;
        let mut data = read_yaml(path, &text.unwrap_or_default())?;
        for (field, value) in named {
            match data.get(field) {
                None => {
                    if let Value::Object(data) = &mut data {
                        data.insert(field.clone(), value.clone());
                    }
                }
                Some(given) if given == value => {}
                Some(given) => {
                    let message = format!("`{field}` is {given}, and the name of the file says {value}");
                    return Err(Diag::error(Code::SubmissionBad, message).into());
                }
            }
        }
        submission::submit(&self.disk, &self.layout, tool, &data)
    }

    fn carry_out(&self, submitted: Submitted) -> Result<Done, Failure> {
        let Submitted { changes, preferences } = submitted;
        let folder = open(&self.dir)?;
        folder.apply(&changes).map_err(|error| failed(&error))?;
        let preferences = remember(&self.project, &self.layout, self.max_file_bytes, &preferences)?;
        Ok(Done { written: changes.write.into_keys().collect(), removed: changes.remove, preferences })
    }
}

/// Adds preferences to the extension files of their roles; gives those that were new, by role.
pub(crate) fn remember(
    project: &Path,
    layout: &Layout,
    limit: u64,
    preferences: &[Preference],
) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let mut by_role: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Preference { role, bullet } in preferences {
        by_role.entry(role).or_default().push(bullet);
    }
    let mut added = BTreeMap::new();
    for (role, bullets) in by_role {
        let update = |text: &str| prefs::add(text, &bullets);
        let new = open(project)?.update(&prefs::file(layout, role), limit, update);
        added.insert(role.to_owned(), new.map_err(|error| failed(&error))?);
    }
    Ok(added)
}

pub(crate) fn open(dir: &Path) -> Result<Folder, Failure> {
    Folder::open(dir).map_err(|error| {
        Diag::error(Code::InputNotFound, format!("`{}` cannot be opened: {error}", dir.display())).into()
    })
}

pub(crate) fn failed(error: &WriteError) -> Failure {
    Diag::error(Code::OutputFailed, error.to_string()).into()
}
