//! Completes a run after its agent ended: records the exit, the reply, the observed changes and the check
//! results. Also completes runs whose callsheet died.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::library::agent::{DeliveryMethod, OutputSpec};
use callsheet_core::library::contract::Contract;
use callsheet_core::library::contract::Status;
use callsheet_core::record::{
    Event, Exit, Id, LaunchRecord, LogStream, Observed, RecordedReply, Replied, RunSummary,
};
use callsheet_core::reply::{
    Reply, ReplyContext, ReplyProblem, ReplyText, StreamDoubts, StreamReader, StreamText, read_text,
};
use callsheet_core::request::fact::{self, CheckResult, CheckRun, CheckSpec, EndReason, UnseenPath};
use callsheet_core::secrets::{PLACEHOLDER, SecretRedactor};
use callsheet_core::{Library, find_agent, find_contract};
use callsheet_run::{LivingProcess, ProcessTrace, WorktreeSnapshot, read_content_ids, run_check};
use callsheet_store::Ledger;

use super::notes::{MOST_LINE, RedactionRules};
use super::terminal::close_server;
use super::written_files::remove_files;
use super::{RunProgress, RunStopper, is_pane_alive};
use crate::compose::secrets;
use crate::error::{Error, Result};
use crate::project::Project;
use crate::project::state::{RunDir, path_error};
use crate::run::changes::record_contents;
use crate::run::claim::{SharedCheckout, release_claim};
use crate::run::spool::TextSpool;

/// Records the end of a run, the agent's reply and the observations. Returns the whole summary, because
/// retention may remove the run as soon as its last record is written.
#[expect(clippy::too_many_arguments, reason = "the facts at the end of a run")]
pub(super) fn finish(
    project: &Project,
    ledger: &mut Ledger,
    run: &Id,
    exit: Exit,
    stdout: StreamText<Vec<u8>>,
    prompt: &str,
    before: &WorktreeSnapshot,
    checking: &CheckContext<'_>,
    redactor: &mut SecretRedactor<'_>,
) -> Result<RunSummary> {
    let mut append = |event: &Event| ledger.append(Some(run), None, event);
    append(&Event::Exit(exit.clone()))?;
    let account = ledger.run_summary(run)?;
    let Some(launch) = account.launch.clone() else { return Ok(account) };
    record_reply(project, ledger, &account, &launch, stdout, Some(prompt), Some(&mut *redactor))?;
    let mut found = observe_changes(run, &launch, Some(before))?;
    if let Some(seen) = found.worktree.as_ref().filter(|_| project.config.keep_changes.value) {
        record_contents(ledger, run, before, &seen.changed, redactor)?;
    }
    found.checks = if exit.ended == EndReason::Unstarted {
        pending_results(&launch.options.checks, "the agent was not started", None)
    } else if matches!(exit.ended, EndReason::Unauthenticated | EndReason::Parked) {
        pending_results(&launch.options.checks, "the agent could not work", None)
    } else {
        run_checks(&launch, checking)
    };
    for check in &mut found.checks {
        check.output = redactor.redact_text(&check.output).into_owned();
    }
    record_observation(ledger, run, found)
}

/// Diffs the worktree against the snapshot and marks the changes that another run in the same checkout may
/// have made.
fn observe_changes(run: &Id, launch: &LaunchRecord, before: Option<&WorktreeSnapshot>) -> Result<Observed> {
    let mut found = Observed::default();
    let Some(before) = before else {
        let unseen = UnseenPath::new(".", "the state of the worktree before the run is unknown");
        found.worktree =
            Some(fact::WorktreeObservation { unseen: vec![unseen], ..fact::WorktreeObservation::default() });
        return Ok(found);
    };
    let shared = SharedCheckout::find(run)?;
    let mut seen = before.diff(&launch.scope, &shared.beside);
    found.shared_with = shared.runs();
    found.uncertain = shared.take_uncertain(&mut seen);
    found.contents = read_content_ids(launch.worktree.as_ref(), &seen.changed);
    found.worktree = Some(seen);
    Ok(found)
}

/// Records the observations, which are the last record of a run.
fn record_observation(ledger: &mut Ledger, run: &Id, observed: Observed) -> Result<RunSummary> {
    let mut account = ledger.run_summary(run)?;
    ledger.append(Some(run), None, &Event::Observed(observed.clone()))?;
    account.observed = Some(observed);
    Ok(account)
}

/// Returns a pending result for checks that did not run, whatever the reason.
fn pending_results(checks: &[CheckSpec], why: &str, ended: Option<EndReason>) -> Vec<CheckRun> {
    let pending = |check: &CheckSpec| CheckRun {
        name: check.name.clone(),
        argv: check.argv.clone(),
        result: CheckResult::Pending,
        ended,
        exit_code: None,
        duration_ms: 0,
        output: format!("not run: {why}"),
    };
    checks.iter().map(pending).collect()
}

/// Context in which the checks run.
pub(super) struct CheckContext<'c> {
    pub(super) stopper: &'c RunStopper,
    pub(super) progress: &'c RunProgress,
    pub(super) trace: &'c ProcessTrace,
    /// Start of the run: its time limit covers the checks too.
    pub(super) begun: Instant,
}

/// Time limit of a check that does not set its own.
const CHECK_TIME: Duration = Duration::from_secs(30 * 60);

/// Runs the checks in the time that the agent left of the run's limit. If a person ended the run, the
/// remaining checks stay pending.
fn run_checks(launch: &LaunchRecord, checking: &CheckContext<'_>) -> Vec<CheckRun> {
    let stop = &checking.stopper.person_stop_flag();
    let worktree = std::path::Path::new(&launch.worktree);
    let mut done = Vec::new();
    for (index, check) in launch.options.checks.iter().enumerate() {
        if stop.is_stopped() {
            done.extend(pending_results(&launch.options.checks[index..], "the run was stopped", None));
            break;
        }
        let left = launch
            .options
            .timeout_ms
            .map(|most| Duration::from_millis(most).saturating_sub(checking.begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            let why = "the run timed out";
            done.extend(pending_results(&launch.options.checks[index..], why, Some(EndReason::Timeout)));
            break;
        }
        checking.progress.set_activity(&format!("check {}", check.name));
        let own = check.timeout_ms.map_or(CHECK_TIME, Duration::from_millis);
        let time = left.map_or(own, |left| own.min(left));
        let check = CheckSpec { timeout_ms: u64::try_from(time.as_millis()).ok(), ..check.clone() };
        done.push(run_check(&check, worktree, None, stop, Some(checking.trace), &mut |_| {}));
    }
    done
}

/// Runs the checks of a run that are still pending because its callsheet died or was stopped, and records the
/// results.
pub(crate) fn run_pending_checks(
    project: &Project,
    ledger: &mut Ledger,
    account: RunSummary,
    stopper: &RunStopper,
    progress: &RunProgress,
) -> Result<RunSummary> {
    let (Some(launch), Some(seen)) = (&account.launch, &account.observed) else { return Ok(account) };
    let ran = |check: &&CheckSpec| {
        let is_it = |run: &&CheckRun| run.name == check.name && run.result != CheckResult::Pending;
        seen.checks.iter().find(is_it).cloned()
    };
    let open: Vec<CheckSpec> =
        launch.options.checks.iter().filter(|check| ran(check).is_none()).cloned().collect();
    if open.is_empty() {
        return Ok(account);
    }
    let clean = RedactionRules { rules: secrets::load_rules(project)?, values: Vec::new() };
    let mut redactor = clean.redactor();
    let mut rest = launch.clone();
    rest.options.checks = open;
    let run_dir = RunDir::from_run(&account.run.id)?;
    let run_lock = run_dir.try_lock()?;
    let trace = ProcessTrace::create(account.run.id.as_str(), run_dir.dir())
        .map_err(|error| path_error(run_dir.dir(), error))?;
    // The run's time is over; its checks get their own.
    let checking = CheckContext { stopper, progress, trace: &trace, begun: Instant::now() };
    let mut rest = run_checks(&rest, &checking).into_iter();
    trace.remove_cgroup_dir();
    drop(run_lock);
    run_dir.remove();
    let redact = |check: CheckRun, redactor: &mut SecretRedactor<'_>| {
        let output = redactor.redact_text(&check.output).into_owned();
        CheckRun { output, ..check }
    };
    let all =
        launch.options.checks.iter().filter_map(|check| {
            ran(&check).or_else(|| rest.next().map(|check| redact(check, &mut redactor)))
        });
    let found = Observed { checks: all.collect(), ..seen.clone() };
    record_observation(ledger, &account.run.id, found)
}

/// Most bytes of a reply's text that are kept with the reply, from its end. The ledger holds the whole
/// output.
const MOST_REPLY: usize = 1 << 20;

/// Longer than any secret.
const MOST_SECRET: usize = 64 << 10;

/// Records the agent's reply.
fn record_reply(
    project: &Project,
    ledger: &mut Ledger,
    account: &RunSummary,
    launch: &LaunchRecord,
    stdout: StreamText<Vec<u8>>,
    prompt: Option<&str>,
    redactor: Option<&mut SecretRedactor<'_>>,
) -> Result<()> {
    let replied = read_reply(project, account, launch, stdout, prompt, redactor)?;
    ledger.append(Some(&account.run.id), None, &Event::Replied(replied))?;
    Ok(())
}

/// Reads the claims of a reply, which are kept beside the facts. Judges the text as it is and redacts the
/// kept text.
fn read_reply(
    project: &Project,
    account: &RunSummary,
    launch: &LaunchRecord,
    stdout: StreamText<Vec<u8>>,
    prompt: Option<&str>,
    redactor: Option<&mut SecretRedactor<'_>>,
) -> Result<Replied> {
    let (disk, layout) = (project.disk(None), project.config.layout());
    let library = Library::new(&disk);
    // A flow names the contract of its phase.
    let name = match launch.flow.is_empty() {
        true => account.run.phase.as_ref(),
        false => launch.flow.get("contract").or_else(|| launch.flow.get("phase")),
    };
    let contract = match name {
        Some(name) => match find_contract(&library, name, &layout) {
            Ok((_, contract)) => contract,
            Err(Diagnostics(diags)) if diags.iter().all(|diag| diag.code == Code::ContractNotFound) => {
                Contract::default()
            }
            Err(failure) => return Err(failure.into()),
        },
        None => Contract::default(),
    };
    let asked = ReplyContext { contract: &contract, tasks: &launch.tasks, prompt };
    let StreamText { text, last_message, doubts } = stdout;
    let reply = read_text(&asked, StreamText { text: Cow::Owned(text), last_message, doubts });
    let verdict = reply.verdict.map(|verdict| verdict.name().to_owned());
    let recorded = redact_reply(reply, &launch.tasks, redactor);
    Ok(Replied { verdict, reply: RecordedReply { submitted: account.submitted.clone(), ..recorded } })
}

/// Returns the summary of a run that continues in a terminal, with the text of its pane as its reply.
pub(crate) fn terminal_summary(
    project: &Project,
    ledger: &mut Ledger,
    run: &Id,
    shown: &str,
) -> Result<RunSummary> {
    let mut account = ledger.run_summary(run)?;
    let Some(launch) = account.launch.clone() else { return Ok(account) };
    let prompt = ledger.prompt(run).ok();
    let clean = RedactionRules { rules: secrets::load_rules(project)?, values: Vec::new() };
    let mut redactor = clean.redactor();
    let stdout = read_shown_text(run, shown)?;
    let said = read_reply(project, &account, &launch, stdout, prompt.as_deref(), Some(&mut redactor))?;
    account.replied = Some(said);
    Ok(account)
}

fn read_shown_text(run: &Id, shown: &str) -> Result<StreamText<Vec<u8>>> {
    let mut reader =
        StreamReader::new(&OutputSpec::default(), &mut TextSpool::factory(RunDir::from_run(run)?.dir()));
    reader.take(shown.as_bytes());
    Ok(reader.finish())
}

/// Converts a reply into its recorded form: without secrets, and with only the end of its text. The verdict,
/// the outcome and the status of the requested tasks stay as they are, even if a secret rule matches them.
fn redact_reply(
    reply: Reply<'_>,
    asked: &[String],
    mut redactor: Option<&mut SecretRedactor<'_>>,
) -> RecordedReply {
    let Reply { verdict, outcome, tasks, questions, text, problems } = reply;
    let last_lines = text.last_message_lines();
    let (text, text_cut) = redact_end(&text, redactor.as_deref_mut());
    let mut clean = |text: String| match redactor.as_deref_mut() {
        Some(redactor) => redactor.redact_text(&text).into_owned(),
        None => text,
    };
    let task = |(id, status): (String, Status)| (if asked.contains(&id) { id } else { clean(id) }, status);
    let tasks = tasks.into_iter().map(task).collect();
    let questions = questions.into_iter().map(&mut clean).collect();
    let problem = |problem: ReplyProblem| ReplyProblem { message: clean(problem.message), ..problem };
    let problems = problems.into_iter().map(problem).collect();
    let submitted = Vec::new();
    RecordedReply { verdict, outcome, tasks, questions, text, text_cut, last_lines, problems, submitted }
}

/// Returns the end of a reply's text without its secrets, and whether the text is longer.
fn redact_end(text: &ReplyText<'_>, redactor: Option<&mut SecretRedactor<'_>>) -> (String, bool) {
    let whole: usize = text.pieces().map(|piece| piece.len()).sum();
    let Some(redactor) = redactor else { return keep_end(text.to_string(), MOST_REPLY) };
    // Secrets found earlier in the text are hidden at its end too. The window is far longer than the kept
    // text, so that no part of a secret that begins before the window is kept.
    let mut head_left = whole.saturating_sub(MOST_LINE);
    let (mut window, mut is_cut) = (String::new(), head_left > 0);
    for piece in text.pieces() {
        let mut rest = &*piece;
        while !rest.is_empty() {
            let limit = if head_left > 0 { MOST_LINE.min(head_left) } else { MOST_LINE } - window.len();
            let (part, after) = rest.split_at(rest.ceil_char_boundary(limit.min(rest.len())));
            window.push_str(part);
            rest = after;
            if head_left > 0 && window.len() >= MOST_LINE.min(head_left) {
                redactor.redact_text(&window);
                head_left = head_left.saturating_sub(window.len());
                window.clear();
            }
        }
    }
    let clean = redactor.redact_text(&window).into_owned();
    let clean = if is_cut {
        clean[clean.ceil_char_boundary(MOST_SECRET.min(clean.len()))..].to_owned()
    } else {
        clean
    };
    let (kept, is_more_cut) = keep_end(clean, MOST_REPLY);
    is_cut |= is_more_cut;
    (kept, is_cut)
}

/// Returns the last bytes of a text, and whether the text is longer.
fn keep_end(mut text: String, most: usize) -> (String, bool) {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.drain(..start);
    (text, start > 0)
}

/// Reads a run's output from the ledger. Truncated or redacted records are not the agent's exact words, so
/// no good word in them counts.
fn read_recorded_output(ledger: &mut Ledger, run: &Id, format: &OutputSpec) -> Result<StreamText<Vec<u8>>> {
    let mut reader = StreamReader::new(format, &mut TextSpool::factory(RunDir::from_run(run)?.dir()));
    let mut missing = None;
    ledger.for_each_output(run, LogStream::Stdout, &mut |output| match output {
        Some(output) => {
            reader.take(output.text.as_bytes());
            if output.cut {
                missing = Some("the ledger has only part of the output");
            } else if output.text.contains(PLACEHOLDER) {
                missing.get_or_insert("the ledger has the output without its secrets");
            }
        }
        None => missing = Some("output was removed from the ledger"),
    })?;
    let StreamText { text, last_message, doubts } = reader.finish();
    let doubts = missing.map(StreamDoubts::from_missing).unwrap_or_default().merge(doubts);
    Ok(StreamText { text, last_message, doubts })
}

/// How long the processes of a run get to end by themselves. Their guard ends them.
const PATIENCE: Duration = Duration::from_secs(3);

/// Refuses to complete a run whose processes live: its changes are not final yet.
fn living_processes_error(run: &Id, left: &[LivingProcess]) -> Error {
    let processes: Vec<String> = left.iter().take(MAX_SHOWN).map(ToString::to_string).collect();
    let more = if left.len() > MAX_SHOWN { ", …" } else { "" };
    let message = format!("processes of run {run} are still running: {}{more}", processes.join(", "));
    Diagnostic::error(Code::RunRefused, message).hint(format!("stop them with `callsheet stop {run}`")).into()
}

/// Most processes that an error lists.
const MAX_SHOWN: usize = 10;

/// Completes the records of a run whose callsheet died: its exit was not observed and its checks did not run,
/// but its changes can still be seen. Returns `None` if the run is complete already or another process drives
/// it.
pub(crate) fn recover(
    project: &Project,
    ledger: &mut Ledger,
    run: &Id,
    ended: EndReason,
    why: &str,
) -> Result<Option<RunSummary>> {
    let exit = Exit { why: Some(why.to_owned()), ..Exit::new(ended, None) };
    complete(project, ledger, run, exit, None)
}

/// Completes the records of a run with a known exit and, if it ran in a terminal, the text shown there.
pub fn complete(
    project: &Project,
    ledger: &mut Ledger,
    run: &Id,
    exit: Exit,
    shown: Option<&str>,
) -> Result<Option<RunSummary>> {
    let run_dir = RunDir::from_run(run)?;
    let Some(lock) = run_dir.try_lock()? else { return Ok(None) };
    // Read under the lock: another process may have completed the run.
    let known = ledger.run_summary(run)?;
    let trace = ProcessTrace::open(run.as_str(), run_dir.dir());
    let Some(launch) = known.launch.clone().filter(|_| !known.is_complete()) else {
        release_claim(run.as_str());
        trace.remove_cgroup_dir();
        run_dir.remove();
        return Ok(None);
    };
    if launch.options.by == Some(DeliveryMethod::Terminal) && run_dir.pane().is_none() {
        // Nothing was typed yet, so the terminal is known only by its server's name.
        close_server(run);
    }
    // An agent in a person's own pane has no guard, and only the person knows when it is done.
    let left = if run_dir.pane().is_some_and(|(server, _)| server.is_empty()) {
        Vec::new()
    } else {
        trace.wait_until_empty(PATIENCE)
    };
    if !left.is_empty() {
        return Err(living_processes_error(run, &left));
    }
    let (disk, layout) = (project.disk(None), project.config.layout());
    let name = if launch.options.program.is_empty() {
        known.run.agent.as_deref().unwrap_or("command")
    } else {
        "command"
    };
    let agent = find_agent(&Library::new(&disk), name, &layout).map(|(_, agent)| agent).unwrap_or_default();
    let why = exit.why.clone().unwrap_or_else(|| "callsheet was not running".into());
    if known.exit.is_none() {
        let exit = Exit { agent_version: exit.agent_version.clone().or_else(|| run_dir.version()), ..exit };
        ledger.append(Some(run), None, &Event::Exit(exit))?;
    }
    if known.replied.is_none() {
        let prompt = ledger.prompt(run).ok();
        let clean = RedactionRules { rules: secrets::load_rules(project)?, values: Vec::new() };
        let mut redactor = clean.redactor();
        // The ledger holds redacted text already.
        let (stdout, redactor) = match shown {
            Some(shown) => (read_shown_text(run, shown)?, Some(&mut redactor)),
            None => (read_recorded_output(ledger, run, &agent.output)?, None),
        };
        record_reply(project, ledger, &known, &launch, stdout, prompt.as_deref(), redactor)?;
    }
    let before = run_dir.snapshot();
    let mut found = observe_changes(run, &launch, before.as_ref())?;
    // A secret value of the request is known only to the process that died: any file may contain it.
    let keeps = project.config.keep_changes.value
        && known.changed.is_none()
        && ledger.prompt_record(run)?.sealed.is_none();
    if let (Some(before), Some(seen), true) = (&before, &found.worktree, keeps) {
        let clean = RedactionRules { rules: secrets::load_rules(project)?, values: Vec::new() };
        record_contents(ledger, run, before, &seen.changed, &mut clean.redactor())?;
    }
    found.checks = pending_results(&launch.options.checks, &why, None);
    let whole = record_observation(ledger, run, found)?;
    release_claim(run.as_str());
    trace.remove_cgroup_dir();
    if !run_dir.pane().as_ref().is_some_and(is_pane_alive) {
        remove_files(launch.worktree.as_ref(), run);
    }
    drop(lock);
    run_dir.remove();
    Ok(Some(whole))
}
