//! Runs again with the facts of an earlier run in the prompt.

use std::path::PathBuf;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::{LaunchRecord, RunSummary, restore_request};
use callsheet_core::secrets::{SecretMode, find_missing_values};
use callsheet_core::{Library, Request, RunFacts, SlotValues};
use callsheet_store::Ledger;

use super::PreparedRun;
use super::options::{RunLocation, RunOverrides, RunSetup};
use super::tasks::{TaskRuns, find_task};
use crate::compose::inputs::PreparedInput;
use crate::compose::{ComposeOptions, Composition, Purpose, compose_input, secrets};
use crate::error::Result;
use crate::project::state::lock_task;
use crate::project::{Project, resolve_directory};

/// How to run again.
#[derive(Clone, Debug, Default)]
pub struct RerunOptions {
    /// The agent; else that of the earlier run.
    pub agent: Option<String>,
    /// The program with its arguments; else that of the earlier run.
    pub program: Vec<String>,
    /// Text of a person that the prompt adds.
    pub text: Option<String>,
    /// Whether the run starts even if the prompt and the facts are those of the earlier run.
    pub force: bool,
    /// Values that are delivered and not recorded.
    pub values: SlotValues,
    /// The treatment of secrets; else the configured one.
    pub secrets: Option<SecretMode>,
    /// Whether the run is only planned.
    pub dry: bool,
    /// Options that replace those of the earlier run.
    pub overrides: RunOverrides,
}

impl Project {
    /// Plans a new run of a task, with the facts of the earlier run `name` in its prompt. Refuses while a run of the task is
    /// running, and if nothing has changed since.
    ///
    /// ```no_run
    /// use callsheet::{InterruptFlag, Project, RerunOptions, RunStopper};
    ///
    /// callsheet::guard_if_asked();
    /// let project = Project::open(".")?;
    /// // `last` is the newest run of the project.
    /// let prepared = project.prepare_rerun("last", &RerunOptions::default())?;
    /// let report = prepared.execute(&project, &RunStopper::new(&InterruptFlag::default()))?;
    /// println!("{}", report.summary.status().name());
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn prepare_rerun(&self, name: &str, options: &RerunOptions) -> Result<PreparedRun> {
        let mut ledger = self.write_ledger()?;
        let row = self.find_own_run(&mut ledger, name)?;
        let held = lock_task(&self.task_key(&row.run)?, &find_task(self, &mut ledger, &row)?.key)?;
        let task = find_task(self, &mut ledger, &row)?;
        let parent = task.find_run(&row.run.id)?;
        if parent.launch.is_none() {
            let message = format!("run {} was composed but never started", row.run.id);
            return Err(refused_error(message).hint("start one with `callsheet run`").into());
        }
        if let Some(running) = task.runs.iter().find(|run| !run.is_complete()) {
            let message = format!("run {} of this task is still running", running.run.id);
            return Err(refused_error(message)
                .hint(
                    "wait, stop it with `callsheet stop`, or run `callsheet recover` if callsheet was killed",
                )
                .into());
        }
        let (mut request, facts) = restore_parent_request(self, &mut ledger, options, parent, &task)?;
        let known_facts = request.previous.replace(facts.clone());
        request.human_input = options.text.as_deref().map(Into::into);
        let run_options = merge_options(self, options, parent)?;
        if !options.force
            && options.overrides.allow.is_empty()
            && has_same_facts(&known_facts, &facts)
            && is_prompt_unchanged(self, &mut ledger, options, parent, &request, known_facts)?
        {
            let message = format!("nothing changed since run {}: same prompt, same facts", row.run.id);
            return Err(refused_error(message)
                .hint(format!(
                    "add instructions with `callsheet continue {} \"…\"`, or run it again with `--force`",
                    row.name()
                ))
                .into());
        }
        let profile = Library::new(&self.disk(None)).profile(&request)?;
        run_options.name_allowed(self, &mut request, profile.as_ref())?;
        let composition = compose_rerun(self, request, options)?;
        let mut ready = self.prepare(composition, run_options)?;
        if !options.dry {
            let action = if options.text.is_some() { "continue" } else { "retry" };
            self.record_page_action(&mut ledger, &row.run.id, action)?;
        }
        ready.held = Some(held);
        Ok(ready)
    }
}

fn refused_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::RunRefused, message)
}

/// Returns the parent's request as it was, and the facts for the next prompt.
fn restore_parent_request(
    project: &Project,
    ledger: &mut Ledger,
    options: &RerunOptions,
    parent: &RunSummary,
    task: &TaskRuns,
) -> Result<(Request, RunFacts)> {
    let composed = ledger.prompt_record(&parent.run.id)?;
    let mut request = ledger.with_blobs(|blob| restore_request(&composed, blob))?;
    let given = &options.values;
    let missing = find_missing_values(&request, given);
    if !missing.is_empty() {
        let message = format!("the secret values of {} are not stored", missing.join(", "));
        return Err(Diagnostic::error(Code::VerifySecret, message)
            .hint("give them with `--set-secret` or `--set-secret-env`")
            .into());
    }
    for key in request.secret.clone() {
        request.values.insert(key.as_str().into(), given.get(&key).cloned().unwrap_or_default());
    }
    if let Some(agent) = &options.agent {
        let (name, version) = agent.split_once('@').map_or((agent.as_str(), None), |(a, b)| (a, Some(b)));
        request.agent = Some(name.to_owned());
        request.agent_version = version.map(str::to_owned);
    }
    let attempts = task.runs.iter().filter(|run| run.launch.is_some()).count();
    let facts = parent.facts(attempts);
    Ok((request, if project.config.digest_output.value { facts } else { strip_output(facts) }))
}

fn strip_output(mut facts: RunFacts) -> RunFacts {
    facts.checks.iter_mut().for_each(|check| check.output = None);
    facts
}

/// Checks whether the parent's prompt already contained the facts that the parent then produced again.
fn has_same_facts(told: &Option<RunFacts>, facts: &RunFacts) -> bool {
    // A check's output can differ in nothing but its times.
    let bare =
        |facts: &RunFacts| RunFacts { run: None, attempts: None, reply: None, ..strip_output(facts.clone()) };
    told.as_ref().is_some_and(|told| bare(told) == bare(facts))
}

/// Checks whether the parent's request still composes the parent's prompt, that is, whether its sources are
/// unchanged.
fn is_prompt_unchanged(
    project: &Project,
    ledger: &mut Ledger,
    options: &RerunOptions,
    parent: &RunSummary,
    request: &Request,
    told: Option<RunFacts>,
) -> Result<bool> {
    let before = Request { previous: told, ..request.clone() };
    let finished = compose_rerun(project, before, options)?;
    let Some(made) = &finished.inputs else { return Ok(false) };
    if !made.request.secret.is_empty() {
        // The ledger has only the HMAC of a delivered secret value, so the prompts cannot be compared.
        return Ok(false);
    }
    let was = ledger.prompt(&parent.run.id)?;
    Ok(finished.rendered.text == was)
}

fn compose_rerun(project: &Project, request: Request, options: &RerunOptions) -> Result<Composition> {
    let session = request
        .session
        .as_ref()
        .map(|dir| resolve_directory(&project.dir.join(dir), dir.as_ref()))
        .transpose()?;
    let order = PreparedInput { session, ..PreparedInput::from_request(request) };
    let mode = secrets::choose_mode(project, options.secrets, Purpose::Record)?;
    compose_input(project, order, ComposeOptions { mode, budget: None, api: None }, Purpose::Record)
}

/// Returns the parent's run options, overridden by the options given now.
fn merge_options(project: &Project, rerun: &RerunOptions, parent: &RunSummary) -> Result<RunSetup> {
    let LaunchRecord { options: before, own_worktree, worktree, .. } =
        parent.launch.clone().unwrap_or_default();
    let given = &rerun.overrides;
    let mut setup = given.complete(project)?;
    setup.parent = Some(parent.run.id.clone());
    setup.dry = rerun.dry;
    let options = &mut setup.options;
    options.program = if rerun.program.is_empty() && rerun.agent.is_none() {
        before.program
    } else {
        project.resolve_typed_program(&rerun.program)
    };
    if given.model.is_none() && rerun.agent.is_none() {
        options.model = before.model;
    }
    if given.permit.is_none() {
        options.permit = before.permit;
    }
    let earlier: Vec<String> =
        before.allow.into_iter().filter(|known| !options.allow.contains(known)).collect();
    options.allow.splice(..0, earlier);
    // The parent's checks stay; checks that are configured or given now are added, or replace those of the
    // same name.
    let mut checks = before.checks;
    for check in std::mem::take(&mut options.checks) {
        checks.retain(|known| known.name != check.name);
        checks.push(check);
    }
    options.checks = checks;
    options.timeout_ms = options.timeout_ms.or(before.timeout_ms);
    setup.requires_cost |= options.max_cost_usd.is_none() && before.max_cost_usd.is_some();
    options.max_cost_usd = options.max_cost_usd.or(before.max_cost_usd);
    options.split = given.split.or(before.split).or(options.split);
    options.single_coder |= before.single_coder;
    options.no_scope |= before.no_scope;
    if own_worktree {
        let dir = PathBuf::from(worktree);
        setup.place = match (&parent.run.task, dir.is_dir()) {
            (_, true) => RunLocation::At(dir),
            (Some(task), false) => RunLocation::Own(task.clone()),
            (None, false) => RunLocation::Fresh,
        };
    } else if given.worktree {
        setup.place = parent.run.task.clone().map_or(RunLocation::Fresh, RunLocation::Own);
    }
    Ok(setup)
}
