//! Values that a shell completes: names of runs, tasks, flows and data files. Nothing is started, written or trusted.

use callsheet_core::diag::escape_invisible;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::lookup::list_roles;
use callsheet_core::list_names;
use callsheet_lint::catalog::list_templates;
use callsheet_run::Disk;
use callsheet_store::{RunFilter, RunRow, StoredFacts};

use crate::error::Result;
use crate::flow::find::read_all;
use crate::project::Project;

/// Kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// A run.
    Run,
    /// A task.
    Task,
    /// A started flow.
    Flow,
    /// The definition of a flow.
    FlowName,
    /// A role, an identity or a profile.
    Role,
    /// An agent.
    Agent,
    /// A phase.
    Phase,
    /// A recipe.
    Recipe,
    /// A template.
    Template,
    /// A contract.
    Contract,
}

/// A value with a few words about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionValue {
    /// The value.
    pub value: String,
    /// The words.
    pub about: String,
}

/// The most runs that are offered.
const MOST_RUNS: usize = 50;

/// The most runs that are searched for tasks.
const MOST_SEARCHED: usize = 500;

/// The most characters about a value.
const MOST_ABOUT: usize = 60;

impl Project {
    /// Returns the values of a kind that begin with `start`, in the order in which a person wants them.
    pub fn completion_values(&self, kind: CompletionKind, start: &str) -> Result<Vec<CompletionValue>> {
        let disk = self.disk(None);
        let layout = self.config.layout();
        let names = |folder: &str| list_names(&disk, folder, &layout);
        let values = match kind {
            CompletionKind::Run => self.run_values(start)?,
            CompletionKind::Task => self.task_values()?,
            CompletionKind::Flow => self.flow_values()?,
            CompletionKind::FlowName => plain(names("flows")),
            CompletionKind::Agent => plain(names("agents").into_iter().filter(|name| name != "command")),
            CompletionKind::Recipe => plain(names("recipes")),
            CompletionKind::Contract => plain(names("contracts")),
            CompletionKind::Role => plain(role_names(&disk, &layout)),
            CompletionKind::Phase => plain(phase_names(names("templates/system"))),
            CompletionKind::Template => {
                let templates = list_templates(&disk, &layout).into_iter();
                let value = |about: Option<String>, value| CompletionValue {
                    value,
                    about: about.unwrap_or_default(),
                };
                templates.map(|template| value(template.description, template.path)).collect()
            }
        };
        let fits = |value: &CompletionValue| value.value.starts_with(start) && is_plain(&value.value);
        Ok(values.into_iter().filter(fits).map(CompletionValue::shorten).collect())
    }

    fn run_values(&self, start: &str) -> Result<Vec<CompletionValue>> {
        let mut ledger = self.read_ledger()?;
        let project = self.project_filter(&ledger)?;
        let rows = ledger.runs(&RunFilter { project, limit: MOST_RUNS, ..RunFilter::default() })?;
        let mut values: Vec<CompletionValue> = Vec::new();
        if let Some(first) = rows.first().filter(|_| "last".starts_with(start)) {
            values.push(CompletionValue { value: "last".into(), about: run_words(first) });
        }
        // Short names are for people; ids come up when one is begun.
        let names = rows.iter().filter_map(|row| Some((format!("r{}", row.facts.as_ref()?.number), row)));
        let ids = rows.iter().map(|row| (row.run.id.to_string(), row)).filter(|_| !start.is_empty());
        let both = names.chain(ids).map(|(value, row)| CompletionValue { value, about: run_words(row) });
        values.extend(both);
        Ok(values)
    }

    fn task_values(&self) -> Result<Vec<CompletionValue>> {
        let mut ledger = self.read_ledger()?;
        let project = self.project_filter(&ledger)?;
        let rows = ledger.runs(&RunFilter { project, limit: MOST_SEARCHED, ..RunFilter::default() })?;
        let mut values: Vec<CompletionValue> = Vec::new();
        for row in rows {
            let Some(task) = &row.run.task else { continue };
            if values.iter().all(|known| known.value != *task) {
                let about = row.facts.as_ref().map(|facts| facts.title().to_owned()).unwrap_or_default();
                values.push(CompletionValue { value: task.clone(), about });
            }
        }
        Ok(values)
    }

    fn flow_values(&self) -> Result<Vec<CompletionValue>> {
        let mut ledger = self.read_ledger()?;
        let flows = read_all(self, &mut ledger)?;
        let value = |flow: &crate::flow::RecordedFlow| CompletionValue {
            value: flow.plan.name.clone(),
            about: format!("{}, {}", flow.plan.flow, flow.state.condition().name()),
        };
        Ok(flows.iter().rev().take(MOST_RUNS).map(value).collect())
    }
}

impl CompletionValue {
    /// Limits the words to one short line without invisible characters.
    fn shorten(mut self) -> Self {
        let line = self.about.lines().next().unwrap_or_default().replace('\t', " ");
        self.about = escape_invisible(&line).chars().take(MOST_ABOUT).collect();
        self
    }
}

/// Returns a few words about a run: its task and agent, its outcome, and the day.
fn run_words(row: &RunRow) -> String {
    let facts = row.facts.as_ref();
    let title = facts.map(StoredFacts::title).filter(|title| !title.is_empty());
    let parts = [
        row.run.task.as_deref(),
        row.run.agent.as_deref(),
        facts.map(|facts| facts.outcome.words()),
        row.run.started.get(..10),
        title,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn plain(names: impl IntoIterator<Item = String>) -> Vec<CompletionValue> {
    names.into_iter().map(|value| CompletionValue { value, about: String::new() }).collect()
}

/// Checks whether a shell takes a value as one word and as nothing else: names come from ledgers and repositories of others.
fn is_plain(value: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "_-./:@+,%".contains(c);
    !value.is_empty() && !value.starts_with('-') && value.chars().all(is_fine)
}

fn role_names(disk: &Disk, layout: &Layout) -> Vec<String> {
    let mut names = list_roles(disk, layout);
    names.extend(list_names(disk, "templates/identity", layout));
    names.extend(list_names(disk, "profiles", layout));
    names.sort();
    names.dedup();
    names
}

/// Returns the phases of the files `AGENT-PHASE`.
fn phase_names(files: Vec<String>) -> Vec<String> {
    let mut names: Vec<String> =
        files.iter().filter_map(|file| Some(file.split_once('-')?.1.to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of a cloned ledger must not become a command.
    #[test]
    fn shell_characters_are_not_offered() {
        for fine in ["T-12", "system/BASE-plan", "r42", "a_b.c:d@e"] {
            assert!(is_plain(fine), "{fine}");
        }
        for wrong in [
            "", "-rf", "a b", "a;b", "$(x)", "`x`", "a|b", "a'b", "a\"b", "a\\b", "a\nb", "é", "~x", "a&b",
            "a*",
        ] {
            assert!(!is_plain(wrong), "{wrong}");
        }
    }
}
