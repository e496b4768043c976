//! Runs the installed CLI of an agent against a probe, with the prompt and the delivery of a run.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::agent::{Agent, ProbeSpec, ProbeValues};
use callsheet_core::request::scope::Scope;
use callsheet_run::{
    FingerprintCache, OutputStream, OwnFiles, PerformError, PerformOptions, PerformOutcome, ProcessEvent,
    ProcessExit, ProcessLimits, StopFlag, WorktreeSnapshot, perform,
};
use callsheet_wire::{Probe, ProbeLimits, ReceivedRequest};
use memchr::memmem::{self, Finder};

use super::ContextOptions;
use super::attribute::InstructionFile;
use super::instruction_files::{list_files_above, list_home_files, list_instruction_files};
use super::probe_folder::{ProbeFolder, create_home};
use crate::compose::Composition;
use crate::error::Result;
use crate::project::Project;
use crate::project::state::{path_error, state_dir};
use crate::run::installed_agents::{VersionQuery, find_program, read_version};
use crate::run::written_files::{remove_written, write_gitignore};
use crate::run::{InterruptFlag, PreparedRun, RunLocation};

/// How long a CLI may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a CLI may take to end after its request was answered.
const PATIENCE_TO_END: Duration = Duration::from_secs(10);

/// How long a CLI may take to send its request after another one, such as one for a title, or after a refused one.
const PATIENCE_TO_ASK: Duration = Duration::from_secs(30);

/// A key that no provider accepts.
const KEY: &str = "callsheet-probe";

/// The most lines of output that an error quotes.
const MOST_LINES: usize = 6;

/// The most characters of such a line.
const MOST_COLUMNS: usize = 300;

/// Said before a CLI starts with the user's own home.
pub(super) const OWN_HOME: &str = "the CLI starts with your own home: your MCP servers, hooks and skills are started as in any run; \
                                   `--isolated` gives it an empty one";

/// What a CLI did in a probe.
#[derive(Debug)]
pub(super) struct ProbedAgent {
    pub agent: Agent,
    pub version: Option<String>,
    pub prepared: PreparedRun,
    /// The request with the prompt.
    pub request: ReceivedRequest,
    /// The other requests to a model.
    pub side_requests: Vec<ReceivedRequest>,
    /// The instruction files that the CLI could load.
    pub files: Vec<InstructionFile>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Runs the CLI with a composed prompt.
pub(super) fn probe_agent(
    project: &Project,
    composition: Composition,
    options: &ContextOptions,
) -> Result<ProbedAgent> {
    let folder = ProbeFolder::create(&project.dir, 0)?;
    let before = take_snapshot(project)?;
    let mut setup = options.overrides.complete(project)?;
    setup.dry = true;
    setup.shared_bytes = options.shared_bytes;
    let agent_name = composition.composed.agent.name.clone();
    let spec = composition.composed.agent.probe.clone().ok_or_else(|| unsupported(&agent_name))?;
    if let Some(model) = setup.options.model.as_ref().filter(|_| spec.fixes_model) {
        let message = format!("the model `{model}` would lead {agent_name} to another server");
        return Err(Diagnostic::error(Code::ContextFailed, message).hint("remove `--model`").into());
    }
    project.require_trust()?;
    setup.place = match &options.lane {
        Some(lane) => RunLocation::At(lane.worktree.clone()),
        None if options.here => RunLocation::Project,
        None => RunLocation::At(folder.copy(project, &spec, "worktree")?),
    };
    let mut prepared = project.prepare(composition, setup)?;
    let agent = prepared.agent().clone();
    let spec = agent.probe.clone().ok_or_else(|| unsupported(&agent.name))?;
    let probe = Probe::start(ProbeLimits::default()).map_err(|error| {
        Diagnostic::error(Code::ContextFailed, format!("cannot start the probe: {error}"))
    })?;
    let user_home = env::home_dir().unwrap_or_default();
    let isolated = options.lane.as_ref().map_or_else(|| folder.home(), |lane| lane.home.clone());
    let home = if options.isolated { isolated } else { user_home };
    let values = ProbeValues {
        url: probe.url(),
        key: KEY.to_owned(),
        home: home.display().to_string(),
        worktree: prepared.place().display().to_string(),
    };
    if options.isolated {
        create_home(&home, &spec, &values)?;
    }
    let acts = lead_to_probe(prepared.actions(), &spec, &values, options.isolated);
    let version = read_agent_version(&agent);
    let mut files = list_instruction_files(prepared.place(), &spec);
    files.extend(list_files_above(prepared.place(), &spec));
    files.extend(list_home_files(&home, &spec));
    if !options.isolated && options.lane.is_none() {
        project.observer.status(OWN_HOME);
    }
    let ran = run_cli(project, &prepared, &acts, &probe, options)?;
    let mut diagnostics: Vec<Diagnostic> = prepared.take_diagnostics();
    diagnostics.extend(find_changes(project, &before)?);
    let (request, rank, side_requests) = choose_request(probe.requests(), prepared.prompt())
        .ok_or_else(|| no_request(&agent, &spec, &probe, &ran, options))?;
    if rank != RequestRank::BEST {
        let message =
            format!("the request of {} offers no tools; it may not be the one of the task", agent.name);
        diagnostics.push(Diagnostic::warning(Code::ContextFailed, message));
    }
    Ok(ProbedAgent { agent, version, prepared, request, side_requests, files, diagnostics })
}

fn unsupported(name: &str) -> Diagnostic {
    let message = match name {
        "" => "no agent specified".to_owned(),
        name => format!("the file of {name} does not say how to probe its CLI"),
    };
    Diagnostic::error(Code::ContextFailed, message)
        .hint("choose an agent with `-a`: claude, codex, gemini, copilot or opencode")
        .hint("add a table `[probe]` to the agent's file (`callsheet schema agent`)")
}

/// Returns the version that the CLI reports.
fn read_agent_version(agent: &Agent) -> Option<String> {
    let start = agent.start.as_ref().filter(|start| !start.version.is_empty())?;
    read_version(&VersionQuery::new(&find_program(start.program.as_deref()?)?, &start.version))
}

/// Adds the variables and arguments that lead the CLI to the probe.
fn lead_to_probe(
    acts: &[DeliveryAction],
    spec: &ProbeSpec,
    values: &ProbeValues,
    isolated: bool,
) -> Vec<DeliveryAction> {
    let mut more: BTreeMap<String, String> = BTreeMap::new();
    // A proxy of the user must not get the request instead of the probe.
    for name in ["NO_PROXY", "no_proxy"] {
        let known = env::var(name).unwrap_or_default();
        more.insert(name.to_owned(), format!("127.0.0.1,localhost,{known}").trim_end_matches(',').to_owned());
    }
    if isolated {
        // A CLI that a project's settings lead to another host reaches only the probe, which refuses it.
        let proxy = values.url.rsplit_once('/').map_or(values.url.as_str(), |(host, _)| host);
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            more.insert(name.to_owned(), proxy.to_owned());
        }
    }
    if isolated {
        more.insert("HOME".to_owned(), values.home.clone());
        for (name, path) in [
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_CACHE_HOME", ".cache"),
        ] {
            more.insert(name.to_owned(), format!("{}/{path}", values.home));
        }
    }
    let given = spec.env.iter().chain(spec.isolated_env.iter().filter(|_| isolated));
    more.extend(given.map(|(name, text)| (name.clone(), values.fill(text))));
    let lead = |act: &DeliveryAction| match act {
        DeliveryAction::Spawn { argv, env, cwd, stdin } => {
            let argv = argv.iter().cloned().chain(spec.args.iter().map(|arg| values.fill(arg))).collect();
            let mut env = env.clone();
            env.extend(more.clone());
            DeliveryAction::Spawn { argv, env, cwd: cwd.clone(), stdin: stdin.clone() }
        }
        other => other.clone(),
    };
    acts.iter().map(lead).collect()
}

/// The end of a CLI, and its last lines.
struct RanCli {
    exit: Option<ProcessExit>,
    lines: Vec<String>,
    was_stopped: bool,
}

fn run_cli(
    project: &Project,
    prepared: &PreparedRun,
    acts: &[DeliveryAction],
    probe: &Probe,
    options: &ContextOptions,
) -> Result<RanCli> {
    let place = prepared.place().canonicalize().map_err(|error| path_error(prepared.place(), error))?;
    let writes = acts.iter().any(|act| matches!(act, DeliveryAction::Write { .. }));
    if writes {
        write_gitignore(&place)?;
    }
    let limits = ProcessLimits {
        deadline: Some(options.timeout.map_or(PATIENCE, |time| Duration::from_millis(time.millis()))),
        head_bytes: 1 << 20,
        tail_bytes: 64 << 10,
        ..ProcessLimits::default()
    };
    let stop = StopFlag::default();
    let with = PerformOptions { limits, stop: stop.clone(), ..PerformOptions::new(place.clone()) };
    let mut lines = LastLines::default();
    let has_ended = Arc::new(AtomicBool::new(false));
    let name = prepared.agent().name.clone();
    let progress = project.observer.show_progress(Box::new(move || format!("probing {name}")));
    let performed = thread::scope(|scope| {
        let ended = Arc::clone(&has_ended);
        let prompt = prepared.prompt();
        scope.spawn(move || stop_after_request(probe, prompt, &stop, &ended, &options.interrupted));
        let performed = perform(acts, prompt, &with, &mut |event| lines.add(event));
        has_ended.store(true, Ordering::SeqCst);
        performed
    });
    drop(progress);
    if options.here && writes {
        remove_written(&place, acts, prepared.prompt(), prepared.id());
    }
    let exit = match performed {
        Ok(PerformOutcome::Ran(exit)) => Some(exit),
        Ok(PerformOutcome::Typed { .. }) | Err(PerformError::Nothing) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(RanCli {
        exit,
        lines: if lines.errors.is_empty() { lines.others } else { lines.errors },
        was_stopped: with.stop.is_stopped(),
    })
}

/// Stops a CLI that does not end although its request was answered, or that makes too many requests.
fn stop_after_request(
    probe: &Probe,
    prompt: &str,
    stop: &StopFlag,
    ended: &AtomicBool,
    interrupted: &InterruptFlag,
) {
    let (mut answered, mut asked): (Option<Instant>, Option<Instant>) = (None, None);
    while !ended.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(20));
        let counts = probe.counts();
        if answered.is_none() && counts.kept + counts.refused > 0 {
            asked = asked.or_else(|| Some(Instant::now()));
            let is_whole =
                find_best(&probe.requests(), prompt).is_some_and(|(_, rank)| rank == RequestRank::BEST);
            answered = is_whole.then(Instant::now);
        }
        let is_late =
            |since: Option<Instant>, patience| since.is_some_and(|since| since.elapsed() > patience);
        if interrupted.is_set() || is_late(answered, PATIENCE_TO_END) || is_late(asked, PATIENCE_TO_ASK) {
            stop.stop();
        }
    }
}

/// The last lines that a CLI printed.
#[derive(Default)]
struct LastLines {
    errors: Vec<String>,
    others: Vec<String>,
}

impl LastLines {
    fn add(&mut self, event: ProcessEvent) {
        if let ProcessEvent::Output { stream, text, .. } = event {
            let lines = if stream == OutputStream::Stderr { &mut self.errors } else { &mut self.others };
            if lines.len() >= MOST_LINES {
                lines.remove(0);
            }
            let shown: String = text.chars().take(MOST_COLUMNS).collect();
            lines.extend((!text.trim().is_empty()).then_some(shown));
        }
    }
}

/// How likely a request is the one of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestRank {
    has_prompt: bool,
    offers_tools: bool,
}

impl RequestRank {
    const BEST: Self = Self { has_prompt: true, offers_tools: true };
    const NONE: Self = Self { has_prompt: false, offers_tools: false };

    /// Ranks a request by the longest line of the prompt, as JSON spells it.
    fn new(request: &ReceivedRequest, line: &Finder<'_>) -> Self {
        let has_prompt = line.find(&request.body).is_some();
        let offers_tools = memmem::find(&request.body, b"\"tools\":[{").is_some();
        Self { has_prompt, offers_tools }
    }
}

/// Returns the number of the first request to a model with the highest rank.
fn find_best(requests: &[ReceivedRequest], prompt: &str) -> Option<(usize, RequestRank)> {
    let line = prompt.lines().map(str::trim).max_by_key(|line| line.len()).unwrap_or_default();
    let quoted = serde_json::to_string(line).unwrap_or_default();
    let line = Finder::new(quoted.trim_matches('"'));
    let to_model = requests.iter().enumerate().filter(|(_, request)| request.protocol.is_some());
    let ranked = to_model.map(|(at, request)| (at, RequestRank::new(request, &line)));
    ranked.rev().max_by_key(|(_, rank)| *rank).filter(|(_, rank)| *rank != RequestRank::NONE)
}

/// Returns the request with the prompt and its rank, and the others to a model.
fn choose_request(
    mut requests: Vec<ReceivedRequest>,
    prompt: &str,
) -> Option<(ReceivedRequest, RequestRank, Vec<ReceivedRequest>)> {
    let (at, rank) = find_best(&requests, prompt)?;
    let chosen = requests.remove(at);
    requests.retain(|request| request.protocol.is_some());
    Some((chosen, rank, requests))
}

/// Explains why there is no request.
fn no_request(
    agent: &Agent,
    spec: &ProbeSpec,
    probe: &Probe,
    ran: &RanCli,
    options: &ContextOptions,
) -> Diagnostic {
    let ended = match &ran.exit {
        Some(exit) if ran.was_stopped || exit.code.is_none() => "it did not end in time".to_owned(),
        Some(exit) => format!("it ended with code {}", exit.code.unwrap_or_default()),
        None => "it was not started".to_owned(),
    };
    let refused = probe.refused();
    let why = match refused.first() {
        Some(first) => format!("its request was refused: {}", first.reason),
        None if probe.counts().outside > 0 => "its requests went to another path".to_owned(),
        None => ended,
    };
    let message = format!("{} sent no request with the prompt: {why}", agent.name);
    let mut diagnostic = Diagnostic::error(Code::ContextFailed, message);
    if !ran.lines.is_empty() {
        diagnostic = diagnostic.hint(format!("its last lines: {}", ran.lines.join(" | ")));
    }
    if !spec.login.is_empty() && !options.isolated {
        diagnostic = diagnostic.hint(format!("with your own home, {}", spec.login));
    }
    if !options.isolated {
        let hint = "settings of your home or of the project may lead it to another address; add `--isolated` to use an empty home";
        diagnostic = diagnostic.hint(hint);
    }
    diagnostic
}

fn snapshot_own_files(project: &Project) -> Result<OwnFiles> {
    let state = state_dir()?;
    let state = state.canonicalize().unwrap_or(state);
    // In the project itself, the files for the agent are written there and removed again.
    let runs = project.dir.canonicalize().unwrap_or_else(|_| project.dir.clone()).join(".callsheet/runs/");
    Ok(OwnFiles { paths: vec![state.join(""), runs], ..OwnFiles::default() })
}

fn take_snapshot(project: &Project) -> Result<WorktreeSnapshot> {
    let prints = Arc::new(FingerprintCache::default());
    Ok(WorktreeSnapshot::take(&project.dir, &snapshot_own_files(project)?, &prints)?)
}

/// Returns a warning if the project changed during the probe.
fn find_changes(project: &Project, before: &WorktreeSnapshot) -> Result<Option<Diagnostic>> {
    let observed = before.diff(&Scope::default(), &Vec::<PathBuf>::new());
    let paths: Vec<&str> = observed.changed.iter().map(|file| file.path.as_str()).collect();
    let unseen = observed.unseen.len();
    if paths.is_empty() && unseen == 0 && observed.head_before == observed.head_after {
        return Ok(None);
    }
    let shown = Path::new(&project.dir).display();
    let message = match paths.first() {
        Some(first) if paths.len() == 1 => format!("`{first}` changed during the probe"),
        Some(first) => format!("`{first}` and {} more files changed during the probe", paths.len() - 1),
        None => format!("it could not be seen whether `{shown}` changed during the probe"),
    };
    let hint = "the CLI, a hook or an MCP server of yours may have written it";
    Ok(Some(Diagnostic::warning(Code::ContextChanged, message).hint(hint)))
}
