//! Plans a run: agent, directory, delivery, checks and limits, all known before a process starts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callsheet_core::delivery::{
    DeliveredPart, Delivery, DeliveryAction, DeliveryContext, PromptPart, by_file_line, plan_delivery,
};
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::agent::{Agent, DeliveryMethod};
use callsheet_core::record::{Id, LaunchRecord, Run, RunOptions};
use callsheet_core::request::scope::Scope;
use callsheet_core::{Library, Request};
use callsheet_run::{FingerprintCache, ProcessLimits, WorktreeSnapshot, existing_at_paths, host_name};

use super::agent_environment::{build_environment, mcp_server_command, path_to_utf8};
use super::allowed::{find_run_agent, resolve_allowed};
use super::cost::{CostLimitKind, CostMeter, check_cost_limit};
use super::day_limit::DayLimit;
use super::location::resolve_location;
use super::options::{RunLocation, RunSetup, apply_limits};
use super::preflight::{check_programs, path_warnings};
use super::split_list;
use super::written_files::{fingerprints_file, own_files, run_folder};
use crate::compose::tokens::TokenSummary;
use crate::compose::{Composition, secrets};
use crate::error::Result;
use crate::project::Project;
use crate::project::config_file::HardLimits;
use crate::run::claim::{CheckoutClaim, ClaimRequest, claim_checkout};

/// Returns `scope` with the globs that the hard limits always exclude.
fn restrict_scope(mut scope: Scope, hard: &HardLimits) -> Scope {
    let new = hard.exclude.iter().filter(|glob| !scope.exclude.contains(glob)).cloned();
    let new: Vec<String> = new.collect();
    scope.exclude.extend(new);
    scope
}

/// Fully planned run that is not started yet.
#[derive(Debug)]
pub struct PreparedRun {
    pub(super) finished: Composition,
    pub(super) run: Run,
    pub(super) agent: Agent,
    pub(super) delivery: Delivery,
    pub(super) delivery_context: DeliveryContext,
    /// The record of the start.
    pub launch: LaunchRecord,
    pub(super) before: WorktreeSnapshot,
    pub(super) fingerprints: (Arc<FingerprintCache>, PathBuf),
    /// Directory in which the agent works. Files for it are written below.
    pub(super) place: PathBuf,
    pub(super) limits: ProcessLimits,
    /// Session that the agent submits to.
    pub(super) session: Option<PathBuf>,
    /// Documents of the flow that the run belongs to.
    pub(super) watched: Option<PathBuf>,
    /// Lock that is held until the run is recorded.
    pub held: Option<File>,
    /// Measures the cost of the run.
    pub(super) meter: CostMeter,
    /// Cost limit of the day, and the costs of the runs before.
    pub(super) day_limit: Option<DayLimit>,
    /// Claim of the checkout; `None` in a dry run.
    pub(super) claim: Option<CheckoutClaim>,
}

impl Project {
    /// Plans the run of a composed prompt. Nothing is started or recorded.
    ///
    /// ```no_run
    /// use callsheet::{ComposeInput, InterruptFlag, Project, Purpose, RunOverrides, RunStopper};
    ///
    /// callsheet::guard_if_asked();
    /// let project = Project::open(".")?;
    /// let input = ComposeInput {
    ///     agent: Some("claude".into()),
    ///     task: Some("Fix the login timeout.".into()),
    ///     write: vec!["src/**".into()],
    ///     ..ComposeInput::default()
    /// };
    /// let composition = project.compose(&input, Purpose::Record)?;
    /// let overrides = RunOverrides { checks: vec!["test=cargo test".into()], ..RunOverrides::default() };
    /// let prepared = project.prepare(composition, overrides.complete(&project)?)?;
    /// let report = prepared.execute(&project, &RunStopper::new(&InterruptFlag::default()))?;
    /// println!("{}: {}", report.id(), report.summary.status().name());
    /// # Ok::<(), callsheet::Error>(())
    /// ```
    pub fn prepare(&self, composition: Composition, setup: impl Into<RunSetup>) -> Result<PreparedRun> {
        PreparedRun::new(self, composition, setup.into())
    }
}

impl PreparedRun {
    pub(super) fn new(project: &Project, finished: Composition, mut setup: RunSetup) -> Result<Self> {
        project.require_trust()?;
        apply_limits(&mut setup.options, &project.config.hard);
        secrets::refuse_secrets(
            project,
            Some(finished.gate_report.mode),
            &secrets::program_words(&setup.options),
        )?;
        let made = finished.inputs.as_ref().ok_or_else(|| {
            Diagnostic::error(Code::LedgerFailed, "this prompt was composed without recording")
        })?;
        let request = &made.request;
        let mut run = made.new_run(project, &finished.composed)?;
        run.parent.clone_from(&setup.parent);
        let (disk, layout) = (project.disk(None), project.config.layout());
        let library = Library::new(&disk);
        let agent = find_run_agent(project, &setup.options, request.agent.as_deref(), setup.external)?;
        let profile = finished.composed.profile.as_ref();
        let allowed = resolve_allowed(project, &setup.options, &agent, profile, setup.starts_agent())?;
        if let RunLocation::Fresh = setup.place {
            setup.place = RunLocation::Own(format!("run-{}", run.id));
        }
        let (dir, own_worktree) = resolve_location(project, &setup.place, setup.dry)?;
        let folder = run_folder(&dir, &run.id);
        let prompt = &finished.rendered.text;
        let (shown, folder_shown) = (path_to_utf8(&dir)?, path_to_utf8(&folder)?);
        let context = DeliveryContext {
            by: setup.options.by,
            by_file: by_file_line(&library, &layout, &format!("{folder_shown}/prompt.md"))?,
            folder: folder_shown,
            worktree: shown,
            command: setup.options.program.clone(),
            model: setup.options.model.clone(),
            session: Some(run.id.to_string()),
            mcp: if request.mcp { Some(mcp_server_command(project, &setup, &run)?) } else { None },
            scope: restrict_scope(
                setup.scope.clone().unwrap_or_else(|| finished.composed.scope.clone()),
                &project.config.hard,
            ),
            permit: setup.options.permit,
            allow: allowed.texts(),
            env: build_environment(
                &setup,
                &run,
                request.session.as_deref().map(|session| project.dir.join(session)),
            ),
            at_paths: existing_at_paths(prompt, &dir),
            pane: setup.pane.clone(),
            single_coder: setup.options.single_coder,
            split: setup
                .options
                .split
                .unwrap_or(agent.prompt.split)
                .then(|| setup.shared_bytes.unwrap_or_else(|| finished.shared_bytes())),
            requires_split: setup.requires_split,
            ..DeliveryContext::default()
        };
        let mut delivery = if setup.external {
            // The caller delivers the prompt.
            Delivery {
                by: DeliveryMethod::Stdin,
                acts: Vec::new(),
                parts: Vec::new(),
                diagnostics: Vec::new(),
            }
        } else {
            plan_delivery(&agent, prompt, &context)?
        };
        refuse_shared_secrets(project, request, &delivery, prompt)?;
        delivery.diagnostics.extend(allowed.diagnostics);
        // A dry run does not create the worktree, which would contain the project's files.
        let looked_at = if dir.is_dir() { &dir } else { &project.dir };
        check_programs(&delivery.acts, &setup.options.checks, looked_at)?;
        let meter = CostMeter::new(project, &agent, &setup.options)?;
        delivery.diagnostics.extend(check_cost_limit(
            &meter,
            &agent,
            delivery.by,
            cost_limit_kind(project, &setup),
        )?);
        let day_limit = DayLimit::read(project)?;
        day_limit.as_ref().map_or(Ok(()), DayLimit::check)?;
        if setup.scope.is_none() {
            let warnings = path_warnings(&context.scope, &request.read_first, looked_at).into_iter();
            delivery.diagnostics.extend(warnings.filter(|warning| !finished.diagnostics.contains(warning)));
        }
        let claim = if setup.dry {
            None
        } else {
            let flow = setup.flow.get("flow").map(String::as_str);
            let (scope, share) = (&context.scope, setup.options.share);
            Some(claim_checkout(&ClaimRequest { id: &run.id, flow, dir: &dir, scope, share: Some(share) })?)
        };
        let mut own = own_files(project, &dir, &delivery.acts, prompt)?;
        own.paths.extend(setup.own.iter().cloned());
        let kept = fingerprints_file(&dir)?;
        setup.fingerprints.load(&kept);
        // A dry run does not create the worktree.
        let looked = if setup.dry && !dir.exists() { &project.dir } else { &dir };
        let before = WorktreeSnapshot::take(looked, &own, &setup.fingerprints)?;
        let unchecked = before
            .size_limit_reason()
            .filter(|_| context.scope != Scope::default() && !setup.options.no_scope);
        if let Some(why) = unchecked {
            return Err(unobservable_error(&dir, why).into());
        }
        let named = || request.values.get("tasks").map(|tasks| split_list(tasks)).unwrap_or_default();
        let tasks = setup.tasks.clone().unwrap_or_else(named);
        let deadline = setup.options.timeout_ms.map(Duration::from_millis);
        let launch = LaunchRecord {
            options: RunOptions { by: (!setup.external).then_some(delivery.by), ..setup.options },
            parts: delivery.parts.clone(),
            host: host_name(),
            worktree: context.worktree.clone(),
            own_worktree,
            session: context.session.clone(),
            scope: context.scope.clone(),
            allowed: context.allow.clone(),
            env: setup.env.into_keys().collect(),
            tasks,
            head: before.head().map(str::to_owned),
            dirty: before.is_dirty(),
            tracking: None,
            flow: setup.flow,
        };
        let limits = ProcessLimits { deadline, ..ProcessLimits::default() };
        let session = setup.session.map(|session| session.canonicalize().unwrap_or(session));
        let held = None;
        let place = dir;
        let prints = (setup.fingerprints, kept);
        Ok(Self {
            finished,
            run,
            agent,
            delivery,
            delivery_context: context,
            launch,
            before,
            fingerprints: prints,
            place,
            limits,
            session,
            watched: setup.watched,
            held,
            meter,
            day_limit,
            claim,
        })
    }

    /// Returns the name of the agent or of the program that replaces it.
    pub(crate) fn agent_name(&self) -> &str {
        match self.launch.options.program.first() {
            Some(program) => program,
            None => &self.agent.name,
        }
    }

    /// Returns the agent.
    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Returns the prompt with its origins.
    pub(crate) fn composition(&self) -> &Composition {
        &self.finished
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &Id {
        &self.run.id
    }

    /// Returns the diagnostics of the prompt and of its delivery.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.finished.diagnostics.iter().chain(&self.delivery.diagnostics)
    }

    /// Takes the diagnostics of the prompt and of its delivery.
    pub(crate) fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        let mut all = std::mem::take(&mut self.finished.diagnostics);
        all.append(&mut self.delivery.diagnostics);
        all
    }

    /// Returns the actions that deliver the prompt.
    pub fn actions(&self) -> &[DeliveryAction] {
        &self.delivery.acts
    }

    /// Returns the part of the prompt that goes into the agent's system prompt; empty if there is none.
    pub(super) fn shared_part(&self) -> &str {
        shared_part(&self.delivery, self.prompt())
    }

    /// Returns the prompt.
    pub fn prompt(&self) -> &str {
        &self.finished.rendered.text
    }

    /// Counts the tokens of the prompt. Takes the sections out of it, so that the run can be shown but not started.
    pub fn count_tokens(&mut self) -> TokenSummary {
        self.finished.count_tokens()
    }

    /// Returns the directory that the agent works in.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the directory of the agent's session, if it has one.
    pub fn session(&self) -> Option<&Path> {
        self.session.as_deref()
    }
}

fn shared_part<'p>(delivery: &Delivery, prompt: &'p str) -> &'p str {
    let shared = delivery.parts.iter().find(|part| part.part == PromptPart::Shared);
    shared.and_then(|part| prompt.get(part.start..part.end)).unwrap_or_default()
}

/// Refuses a secret in a shared part that is an argument, which other users of the machine can see.
fn refuse_shared_secrets(
    project: &Project,
    request: &Request,
    delivery: &Delivery,
    prompt: &str,
) -> Result<()> {
    let is_argument =
        |part: &DeliveredPart| part.part == PromptPart::Shared && part.by == DeliveryMethod::Argument;
    if !delivery.parts.iter().any(is_argument) {
        return Ok(());
    }
    let shared = shared_part(delivery, prompt);
    let holds = |key: &String| {
        request.values.get(key).is_some_and(|value| !value.is_empty() && shared.contains(value.as_str()))
    };
    if !request.secret.iter().any(holds) && secrets::load_rules(project)?.scan(shared).is_empty() {
        return Ok(());
    }
    let message = "the shared part of the prompt has a secret, and the agent would take it as an argument";
    Err(Diagnostic::error(Code::DeliverRefused, message)
        .hint("remove `--split`, or add `--no-split`: other users of the machine can see arguments")
        .into())
}

/// Returns the origin of the run's cost limits; `None` if it has none.
fn cost_limit_kind(project: &Project, setup: &RunSetup) -> Option<CostLimitKind> {
    let is_limited = setup.options.max_cost_usd.is_some() || project.config.max_cost_per_day.value.is_some();
    let kind = if setup.requires_cost { CostLimitKind::Given } else { CostLimitKind::Configured };
    is_limited.then_some(kind)
}

fn unobservable_error(dir: &Path, why: &str) -> Diagnostic {
    let message = format!(
        "`{}` is not in a git repository, and {why}: changes cannot be compared with the scope",
        dir.display()
    );
    Diagnostic::error(Code::RunRefused, message)
        .hint("run `git init`, or add `--no-scope` to skip the comparison")
}
