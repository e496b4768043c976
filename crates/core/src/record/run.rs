//! Builds the description of a run from its request, so that no record can contradict itself.

use alloc::format;
use alloc::string::{String, ToString};

use super::project::is_project_name;
use super::replay::find_contradiction;
use super::{Id, Run};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::request::Request;

impl Run {
    /// Creates the run of a prompt that was composed from `request` with `recipe`. Refuses everything that a
    /// ledger could not keep or that its verification would reject: an invalid request, a time that is not
    /// spelled `2026-01-31T12:00:00.000000Z`, a NUL character.
    pub fn new(id: Id, started: &str, request: &Request, recipe: &str) -> Result<Self, Diagnostics> {
        request.validate()?;
        let task = request.task.as_ref().and_then(|task| task.id.as_ref());
        let run = Self {
            task: task.map(ToString::to_string),
            agent: request.agent.clone(),
            phase: request.phase.clone(),
            role: request.role.clone(),
            ..Self::restore(id, recipe, started)
        };
        run.check(request)?;
        Ok(run)
    }

    /// Sets the run that this one retries or continues.
    #[must_use]
    pub fn with_parent(mut self, parent: Option<Id>) -> Self {
        self.parent = parent;
        self
    }

    /// Sets the project, or refuses a text that cannot be the name of one.
    pub fn with_project(mut self, project: impl Into<String>) -> Result<Self, Diagnostics> {
        let project = project.into();
        if !is_project_name(&project) {
            let message = format!("invalid project name `{project}`");
            return Err(Diagnostic::error(Code::LedgerProject, message).into());
        }
        self.project = Some(project);
        Ok(self)
    }

    /// Restores a run that was recorded, without a check: older versions recorded other ones.
    pub fn restore(id: Id, recipe: &str, started: &str) -> Self {
        Self {
            id,
            parent: None,
            task: None,
            agent: None,
            phase: None,
            role: None,
            recipe: recipe.into(),
            started: started.into(),
            project: None,
        }
    }

    /// Checks that a ledger can keep the run, and that `request` does not contradict it.
    pub(super) fn check(&self, request: &Request) -> Result<(), Diagnostics> {
        self.check_columns()?;
        match find_contradiction(self, request) {
            Some(field) => {
                let message = format!("the {field} differs from the request");
                Err(Diagnostic::error(Code::RequestBad, message).into())
            }
            None => Ok(()),
        }
    }

    /// Checks that a ledger can keep the run: its time, its project, and that PostgreSQL takes its texts.
    fn check_columns(&self) -> Result<(), Diagnostics> {
        let refuse = |code, message: String| Err(Diagnostic::error(code, message).into());
        let texts = [
            ("recipe", Some(&self.recipe)),
            ("task", self.task.as_ref()),
            ("agent", self.agent.as_ref()),
            ("phase", self.phase.as_ref()),
            ("role", self.role.as_ref()),
        ];
        let nul = texts.into_iter().find(|(_, text)| text.is_some_and(|text| text.contains('\0')));
        if let Some((name, _)) = nul {
            return refuse(Code::RequestBad, format!("the {name} of a run contains a NUL character"));
        }
        if !is_record_time(&self.started) {
            return refuse(Code::LedgerFailed, format!("invalid record time `{}`", self.started));
        }
        match self.project.as_ref().filter(|project| !is_project_name(project)) {
            Some(project) => refuse(Code::LedgerProject, format!("invalid project name `{project}`")),
            None => Ok(()),
        }
    }
}

/// Checks whether a text is spelled as the times of records are: `2026-01-31T12:00:00.000000Z`.
pub fn is_record_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000000Z";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == *form,
    };
    let within = |from: usize, least: u32, most: u32| {
        let number = text.get(from..from + 2).and_then(|digits| digits.parse().ok());
        number.is_some_and(|number| (least..=most).contains(&number))
    };
    text.len() == FORM.len()
        && text.bytes().zip(FORM).all(fits)
        && within(5, 1, 12)
        && within(8, 1, 31)
        && [(11, 23), (14, 59), (17, 59)].into_iter().all(|(from, most)| within(from, 0, most))
}
