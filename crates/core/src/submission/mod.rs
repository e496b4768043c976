//! Submissions: data that an agent submits by a tool or by a file, and that becomes files of the session.
//!
//! [`submit`] checks both. It reports all mistakes together, each with its place in the data, counted from 1,
//! so that the agent can correct itself. This module never writes a file: [`SessionChanges`] lists the files
//! to write and remove.

mod companions;
mod plan;
mod schema;
mod stale;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;

pub use self::schema::build_schema;
pub use self::stale::find_waiting_files;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::contract;
use crate::library::contract::paths::{add_suffix, fill_path};
use crate::library::contract::{
    Contract, FieldType, Submission, SubmissionContext, SubmissionField, SubmissionValues, find_conflicts,
};
use crate::library::layout::Layout;
use crate::library::lookup::{Library, list_names, list_roles};
use crate::library::plan::SharedName;
use crate::library::preferences::Preference;
use crate::library::yaml;
use crate::source::{SourceId, SourceRoot, Sources};

/// Files of the session to write and to remove. Paths are relative to the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// Path → text.
    pub write: BTreeMap<String, String>,
    /// Existing files that are obsolete.
    pub remove: Vec<String>,
}

/// Submission that passed all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedSubmission {
    /// Files to write and to remove.
    pub changes: SessionChanges,
    /// Preferences that the person approved, in the order given.
    pub preferences: Vec<Preference>,
    /// Questions that only the person can answer.
    pub questions: Vec<String>,
}

/// Returns every contract that can be submitted by a tool, with its name. If a role is given, returns only
/// the contracts that it may submit.
pub fn list_tools(
    sources: &dyn Sources,
    layout: &Layout,
    role: Option<&str>,
) -> Result<Vec<(String, Contract)>, Diagnostics> {
    let library = Library::new(sources);
    let mut tools = Vec::new();
    let mut wrong = Vec::new();
    for name in list_names(sources, "contracts", layout) {
        match contract::find_contract(&library, &name, layout) {
            Ok((_, contract)) => {
                let may = |submission: &Submission| {
                    role.is_none_or(|role| submission.roles.iter().any(|known| known == role))
                };
                if contract.submission.as_ref().is_some_and(may) {
                    tools.push((name, contract));
                }
            }
            Err(Diagnostics(diags)) => wrong.extend(diags),
        }
    }
    if wrong.is_empty() { Ok(tools) } else { Err(Diagnostics(wrong)) }
}

/// Checks `given` against the contract `name` and returns the files of the session that result from it.
pub fn submit(
    sources: &dyn Sources,
    layout: &Layout,
    name: &str,
    given: &Value,
) -> Result<AcceptedSubmission, Diagnostics> {
    submit_with_shared_names(sources, layout, name, given, &Vec::new)
}

/// Does the same in a project in which links give files more than one name.
pub fn submit_with_shared_names(
    sources: &dyn Sources,
    layout: &Layout,
    name: &str,
    given: &Value,
    shared_names: &dyn Fn() -> Vec<SharedName>,
) -> Result<AcceptedSubmission, Diagnostics> {
    let roles = list_roles(sources, layout);
    let context = SubmissionContext { library: Library::new(sources), layout, roles };
    let submission = context.find_submission(name)?;
    let (data, mut wrong) = context.check_fields(&submission, given)?;
    wrong.extend(find_conflicts(&submission.field, &data));
    let mut changes = SessionChanges::default();
    match &submission.plan {
        Some(plan) => context.write_plan(&submission, plan, &data, shared_names, &mut changes, &mut wrong)?,
        None if wrong.is_empty() => {
            context.write_data(&submission, &data, &mut changes)?;
            context.write_companions(&submission, &data, &mut changes)?;
        }
        None => {}
    }
    context.check_needs(&submission, &data, &mut wrong)?;
    if !wrong.is_empty() {
        return Err(Diagnostics(wrong));
    }
    for pattern in &submission.stale {
        let path = fill_path(pattern, &data);
        if context.has_file(&path)? {
            changes.remove.push(path);
        }
    }
    changes.remove.retain(|path| !changes.write.contains_key(path));
    changes.remove.sort();
    changes.remove.dedup();
    let preferences = submission.field.iter().filter(|field| field.kind == FieldType::Preferences);
    let preferences = preferences.filter_map(|field| data.get(&field.name)?.as_array());
    let preferences = preferences.flatten().filter_map(Preference::from_value).collect();
    let questions = submission.field.iter().filter(|field| field.asks);
    let questions = questions.filter_map(|field| data.get(&field.name)?.as_array()).flatten();
    let questions = questions.filter_map(Value::as_str).map(ToString::to_string).collect();
    Ok(AcceptedSubmission { changes, preferences, questions })
}

impl SubmissionContext<'_> {
    /// Adds the data as YAML to the changes.
    fn write_data(
        &self,
        submission: &Submission,
        data: &SubmissionValues,
        changes: &mut SessionChanges,
    ) -> Result<(), Diagnostics> {
        let Some(file) = &submission.file else { return Ok(()) };
        let kept = kept_values(&submission.field, data);
        self.add_file(submission, file, data, yaml::write_yaml(&kept), changes)
    }

    /// Adds the files that are rendered from the data.
    fn write_companions(
        &self,
        submission: &Submission,
        data: &SubmissionValues,
        changes: &mut SessionChanges,
    ) -> Result<(), Diagnostics> {
        for companion in &submission.write {
            let text = companions::fill_file(&companion.text, &submission.field, data);
            self.add_file(submission, &companion.path, data, text, changes)?;
        }
        Ok(())
    }

    fn add_file(
        &self,
        submission: &Submission,
        pattern: &str,
        data: &SubmissionValues,
        text: String,
        changes: &mut SessionChanges,
    ) -> Result<(), Diagnostics> {
        let path = add_suffix(&fill_path(pattern, data), submission.suffix.as_deref(), data);
        match SourceId::new(SourceRoot::Session, &path) {
            Ok(id) if id.path() == path => changes.write.insert(path, text),
            _ => {
                let message = format!("`{path}` is not a valid path in the session");
                return Err(Diagnostic::error(Code::ContractBad, message).into());
            }
        };
        Ok(())
    }

    fn check_needs(
        &self,
        submission: &Submission,
        data: &SubmissionValues,
        wrong: &mut Vec<Diagnostic>,
    ) -> Result<(), Diagnostics> {
        let is_known = |pattern: &&String| {
            let names = pattern.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
            names.into_iter().all(|(name, _)| data.get(name).is_some_and(|value| !value.is_null()))
        };
        for pattern in submission.needs.iter().filter(is_known) {
            let path = fill_path(pattern, data);
            if !self.has_file(&path)? {
                let message = format!("`{path}` must be in the session first");
                wrong.push(Diagnostic::error(Code::SubmissionBad, message));
            }
        }
        Ok(())
    }
}

/// Returns the fields that are stored as data.
fn kept_values(fields: &[SubmissionField], data: &SubmissionValues) -> SubmissionValues {
    let kept = fields.iter().filter(|field| field.kept);
    kept.filter_map(|field| Some((field.name.clone(), data.get(&field.name)?.clone()))).collect()
}
