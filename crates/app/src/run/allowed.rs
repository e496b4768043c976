//! Decides which commands the agent of a run may run without asking, and names them in its prompt.

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::library::agent::{Agent, CommandControl, PermissionLevel};
use callsheet_core::record::RunOptions;
use callsheet_core::request::{Profile, Request};
use callsheet_core::{AllowedCommand, Library, find_agent};

use super::options::{RunOverrides, RunSetup, apply_limits};
use crate::compose::inputs::{ComposeInput, RequestFile};
use crate::compose::{Composition, Purpose, compose_input};
use crate::error::Result;
use crate::project::Project;
use crate::project::profiles::project_profiles;

/// The commands that the agent of a run may run without asking.
#[derive(Debug, Default)]
pub(crate) struct AllowedCommands {
    /// The commands, each once.
    pub commands: Vec<AllowedCommand>,
    /// The commands that could not be allowed, and why.
    pub diagnostics: Vec<Diagnostic>,
}

impl AllowedCommands {
    /// Returns the commands as texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.commands.iter().map(ToString::to_string).collect()
    }
}

/// Parses commands. Reports all mistakes together.
pub(crate) fn parse_commands(texts: &[String]) -> Result<Vec<AllowedCommand>> {
    let mut wrong = Vec::new();
    let mut commands = Vec::new();
    for text in texts {
        match AllowedCommand::parse(text) {
            Ok(command) => commands.push(command),
            Err(diag) => wrong.push(diag),
        }
    }
    if wrong.is_empty() { Ok(commands) } else { Err(Diagnostics(wrong).into()) }
}

/// The source of an allowed command: whether the caller named it for this run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowSource {
    Caller,
    Settings,
}

/// Returns the commands that the agent may run: those of the caller, of the configuration, of the profile, and the checks.
/// `is_started` is false if the agent is not started with these options.
pub(crate) fn resolve_allowed(
    project: &Project,
    options: &RunOptions,
    agent: &Agent,
    profile: Option<&Profile>,
    is_started: bool,
) -> Result<AllowedCommands> {
    let mut allowed = AllowedCommands::default();
    let config = &project.config;
    let given = parse_commands(&options.allow)?;
    let is_edit = options.permit == PermissionLevel::Edit;
    // With all permissions there is nothing to allow.
    if !is_edit || !is_started || agent.commands.is_none() {
        if !given.is_empty() && options.permit != PermissionLevel::All {
            allowed.diagnostics.push(not_applied_warning(options, agent, is_edit, is_started));
        }
        return Ok(allowed);
    }
    let settings =
        parse_commands(&config.allow.value)?.into_iter().chain(profile_commands(project, profile)?);
    let mut wanted: Vec<(AllowedCommand, AllowSource)> =
        given.into_iter().map(|command| (command, AllowSource::Caller)).collect();
    wanted.extend(settings.map(|command| (command, AllowSource::Settings)));
    if config.allow_checks.value {
        for check in &options.checks {
            match AllowedCommand::from_words(&check.argv, true) {
                Some(command) => wanted.push((command, AllowSource::Settings)),
                None => allowed.diagnostics.push(odd_check_note(&check.name)),
            }
        }
    }
    let hard = config.hard.allow.as_deref().map(parse_commands).transpose()?;
    for (command, source) in wanted {
        let is_refused = hard.as_ref().is_some_and(|hard| !hard.iter().any(|most| most.covers(&command)));
        let found = match is_refused {
            true => Err(beyond_limit_warning(&command)),
            false => agent.check_command(&command),
        };
        match found {
            Ok(_) if allowed.commands.contains(&command) => {}
            Ok(_) => allowed.commands.push(command),
            Err(diag) if source == AllowSource::Caller => allowed.diagnostics.push(diag),
            // Such a command is part of every run: a warning each time would hide others.
            Err(diag) => allowed
                .diagnostics
                .push(Diagnostic { severity: callsheet_core::diag::Severity::Note, ..diag }),
        }
    }
    if !options.allow.is_empty() {
        allowed.diagnostics.extend(open_agent_note(agent));
    }
    Ok(allowed)
}

fn not_applied_warning(options: &RunOptions, agent: &Agent, is_edit: bool, is_started: bool) -> Diagnostic {
    let commands = options.allow.join("`, `");
    let (why, hint) = if !is_edit {
        (format!("the permission is `{}`", options.permit.name()), "add `--permit edit`")
    } else if !is_started {
        ("the agent is already running".to_owned(), "let callsheet start the agent")
    } else {
        (format!("callsheet cannot set the permissions of {}", agent.name), "remove `--allow`")
    };
    Diagnostic::warning(Code::AllowUnsupported, format!("`{commands}` is not allowed: {why}")).hint(hint)
}

fn odd_check_note(name: &str) -> Diagnostic {
    let message = format!(
        "the agent may not run the command of the check `{name}`: it contains quotes, variables or operators"
    );
    Diagnostic::note(Code::AllowUnsupported, message)
}

fn beyond_limit_warning(command: &AllowedCommand) -> Diagnostic {
    let message = format!("`{command}` is not allowed: your `[hard]` limits do not contain it");
    Diagnostic::warning(Code::AllowUnsupported, message)
}

/// Returns a note about an agent that runs every command.
fn open_agent_note(agent: &Agent) -> Option<Diagnostic> {
    let rules = agent.commands.as_ref().filter(|rules| rules.control != CommandControl::Rules)?;
    let note = rules.note.as_ref().map(|note| format!(", {note}")).unwrap_or_default();
    let message = format!("{} runs every command{note}: `--allow` adds nothing", agent.name);
    Some(Diagnostic::note(Code::AllowUnsupported, message))
}

/// Returns the commands that a profile allows; none if the profile is the project's own and the project is not trusted.
fn profile_commands(project: &Project, profile: Option<&Profile>) -> Result<Vec<AllowedCommand>> {
    let Some(profile) = profile.filter(|profile| !profile.allow.is_empty()) else { return Ok(Vec::new()) };
    let is_own = project_profiles(project)?.iter().any(|own| own.name == profile.name);
    if is_own && !project.is_trusted() { Ok(Vec::new()) } else { parse_commands(&profile.allow) }
}

/// Returns the agent that a run starts.
pub(super) fn find_run_agent(
    project: &Project,
    options: &RunOptions,
    named: Option<&str>,
    external: bool,
) -> Result<Agent> {
    let (disk, layout) = (project.disk(None), project.config.layout());
    let name = match (options.program.is_empty(), named) {
        (false, _) => "command",
        (true, Some(name)) if name != "base" => name,
        (true, _) if external => "command",
        (true, _) => return Err(no_agent_error().into()),
    };
    Ok(find_agent(&Library::new(&disk), name, &layout)?.1)
}

fn no_agent_error() -> Diagnostic {
    Diagnostic::error(Code::UsageBad, "no agent specified")
        .hint("add `--agent NAME`, or a program after `--`; run `callsheet agents` to list agents")
}

impl RunSetup {
    /// Names the commands that the agent may run in the request of its prompt.
    pub(crate) fn name_allowed(
        &self,
        project: &Project,
        request: &mut Request,
        profile: Option<&Profile>,
    ) -> Result<()> {
        let mut options = self.options.clone();
        apply_limits(&mut options, &project.config.hard);
        // The composition and the preparation of the run report an agent that is missing or invalid.
        let Ok(agent) = find_run_agent(project, &options, request.agent.as_deref(), true) else {
            return Ok(());
        };
        request.allow = resolve_allowed(project, &options, &agent, profile, self.starts_agent())?.texts();
        Ok(())
    }

    /// Returns whether callsheet starts the agent, so that it gets the permissions of this run.
    pub(super) const fn starts_agent(&self) -> bool {
        !self.external && self.pane.is_none()
    }
}

impl Project {
    /// Composes the prompt of a run, and completes the options of the run by the profile of the prompt. The prompt names the
    /// commands that the agent may run.
    pub fn compose_run(
        &self,
        input: &ComposeInput,
        file: RequestFile,
        setup: &mut RunSetup,
        given: &RunOverrides,
    ) -> Result<Composition> {
        let (mut prepared, options) = self.prepare_input(input, file, Purpose::Record)?;
        setup.options.allow.append(&mut prepared.request.allow);
        let disk = self.disk(None);
        let profile = Library::new(&disk).profile(&prepared.request)?;
        if let Some(profile) = &profile {
            setup.apply_profile(profile, given);
        }
        setup.name_allowed(self, &mut prepared.request, profile.as_ref())?;
        compose_input(self, prepared, options, Purpose::Record)
    }
}
