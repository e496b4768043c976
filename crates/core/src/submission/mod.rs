//! Submissions: what an agent hands in, by a tool or by a file, becomes files of the session.
//!
//! One function judges both ways, [`submit`]: all mistakes at once, each with its place in the data, counted from
//! 1, so that the agent can correct itself. Nothing here writes a file: [`SessionChanges`] say what to write and remove.

mod conflicts;
mod fields;
mod markdown;
mod order;
mod overlap;
mod plan;
mod rules;
mod schema;
mod shared;
mod stale;
mod words;
mod yaml;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

pub(crate) use self::order::{ExecutionGroup, ExecutionPlan, ExecutionSubplan, order};
pub(crate) use self::overlap::{OwnedGlob, literal};
pub use self::schema::schema;
pub use self::shared::{SharedName, other_names};
pub use self::stale::waiting;
pub(crate) use self::words::unknown_slots;
pub use self::yaml::read_yaml;
pub(crate) use self::yaml::{write as as_yaml, write_compact_yaml as yaml_lines};
use crate::contract::{Contract, FieldType, Submission, SubmissionField};
use crate::data;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::lookup::{Library, names_in, read};
use crate::prefs::Preference;
use crate::request::Layout;
use crate::source::{SourceId, SourceRoot, Sources};

/// What is to become of the session's files; paths are relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// Path → text.
    pub write: BTreeMap<String, String>,
    /// Files that are there and worth nothing any more.
    pub remove: Vec<String>,
}

/// A submission that was found good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedSubmission {
    pub changes: SessionChanges,
    /// What the person approved, in the order given.
    pub preferences: Vec<Preference>,
    /// What only the person can answer.
    pub questions: Vec<String>,
}

/// The data of a submission: only known fields, in the order of the contract, texts without outer blank lines.
pub(crate) type SubmissionValues = Map<String, Value>;

/// The roles that there are: one for each template in `agents/`.
pub fn roles(sources: &dyn Sources, layout: &Layout) -> Vec<String> {
    names_in(sources, "templates/agents", layout)
}

/// Every contract that is handed in by a tool, by name; with a role only those that it may hand in.
pub fn tools(
    sources: &dyn Sources,
    layout: &Layout,
    role: Option<&str>,
) -> Result<Vec<(String, Contract)>, Diagnostics> {
    let library = Library::new(sources);
    let mut tools = Vec::new();
    let mut wrong = Vec::new();
    for name in names_in(sources, "contracts", layout) {
        match data::find_contract(&library, &name, layout) {
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

/// Judges `given` by the contract `name` and says which files of the session it becomes.
pub fn submit(
    sources: &dyn Sources,
    layout: &Layout,
    name: &str,
    given: &Value,
) -> Result<AcceptedSubmission, Diagnostics> {
    submit_with_shared_names(sources, layout, name, given, &Vec::new)
}

/// The same in a project in which links give files more than one name.
pub fn submit_with_shared_names(
    sources: &dyn Sources,
    layout: &Layout,
    name: &str,
    given: &Value,
    shared_names: &dyn Fn() -> Vec<SharedName>,
) -> Result<AcceptedSubmission, Diagnostics> {
    let roles = roles(sources, layout);
    let desk = SubmissionContext { library: Library::new(sources), layout, roles, shared_names };
    let submission = desk.submission(name)?;
    let (data, mut wrong) = desk.judge(&submission, given)?;
    wrong.extend(conflicts::conflicts(&submission.field, &data));
    let mut changes = SessionChanges::default();
    match &submission.plan {
        Some(plan) => desk.plan(&submission, plan, &data, &mut changes, &mut wrong)?,
        None if wrong.is_empty() => {
            desk.write_data(&submission, &data, &mut changes)?;
            desk.write_companions(&submission, &data, &mut changes)?;
        }
        None => {}
    }
    desk.check_needs(&submission, &data, &mut wrong)?;
    if !wrong.is_empty() {
        return Err(Diagnostics(wrong));
    }
    for pattern in &submission.stale {
        let path = path(pattern, &data);
        if desk.has_file(&path)? {
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

/// Where submissions are looked at.
struct SubmissionContext<'s> {
    library: Library<'s>,
    layout: &'s Layout,
    roles: Vec<String>,
    shared_names: &'s dyn Fn() -> Vec<SharedName>,
}

impl SubmissionContext<'_> {
    fn submission(&self, name: &str) -> Result<Submission, Diagnostics> {
        let (id, contract) = data::find_contract(&self.library, name, self.layout)?;
        contract.submission.ok_or_else(|| {
            Diagnostic::error(Code::SubmissionBad, format!("`{name}` is nothing that is handed in"))
                .looked([id])
                .into()
        })
    }

    fn judge(
        &self,
        submission: &Submission,
        given: &Value,
    ) -> Result<(SubmissionValues, Vec<Diagnostic>), Diagnostics> {
        fields::judge(&submission.field, given, &self.roles)
    }

    /// The data as YAML.
    fn write_data(
        &self,
        submission: &Submission,
        data: &SubmissionValues,
        changes: &mut SessionChanges,
    ) -> Result<(), Diagnostics> {
        let Some(file) = &submission.file else { return Ok(()) };
        let kept = kept(&submission.field, data);
        self.add(submission, file, data, yaml::write(&kept), changes)
    }

    /// What is made from the data.
    fn write_companions(
        &self,
        submission: &Submission,
        data: &SubmissionValues,
        changes: &mut SessionChanges,
    ) -> Result<(), Diagnostics> {
        for companion in &submission.write {
            let text = words::fill_file(&companion.text, &submission.field, data);
            self.add(submission, &companion.path, data, text, changes)?;
        }
        Ok(())
    }

    fn add(
        &self,
        submission: &Submission,
        pattern: &str,
        data: &SubmissionValues,
        text: String,
        changes: &mut SessionChanges,
    ) -> Result<(), Diagnostics> {
        let path = add_suffix(&path(pattern, data), submission.suffix.as_deref(), data);
        match SourceId::new(SourceRoot::Session, &path) {
            Ok(id) if id.path() == path => changes.write.insert(path, text),
            _ => {
                let message = format!("`{path}` cannot be the path of a file in the session");
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
            let path = path(pattern, data);
            if !self.has_file(&path)? {
                let message = format!("`{path}` is not in the session, and has to be there before");
                wrong.push(Diagnostic::error(Code::SubmissionBad, message));
            }
        }
        Ok(())
    }

    fn has_file(&self, path: &str) -> Result<bool, Diagnostics> {
        let Ok(id) = SourceId::new(SourceRoot::Session, path) else { return Ok(false) };
        Ok(read(self.library.sources, &id)?.is_some())
    }
}

/// `pattern` with every `{field}` as the data has it. Only names, slugs, choices and numbers can stand in a path.
pub(crate) fn path(pattern: &str, data: &SubmissionValues) -> String {
    let mut path = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        path.push_str(before);
        match data.get(name) {
            Some(Value::String(text)) => path.push_str(text),
            Some(Value::Number(number)) => path.push_str(&number.to_string()),
            _ => {}
        }
        rest = after;
    }
    path + rest
}

/// The path with what the field `suffix` holds at the end of the file's stem.
pub(crate) fn add_suffix(path: &str, suffix: Option<&str>, data: &SubmissionValues) -> String {
    let Some(word) = suffix.and_then(|field| data.get(field)?.as_str()) else { return path.to_string() };
    match path.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}_{word}.{extension}"),
        None => format!("{path}_{word}"),
    }
}

/// What of the data is written down as data.
fn kept(fields: &[SubmissionField], data: &SubmissionValues) -> SubmissionValues {
    let kept = fields.iter().filter(|field| field.kept);
    kept.filter_map(|field| Some((field.name.clone(), data.get(&field.name)?.clone()))).collect()
}
