//! After an agent: how it ended, what it says, what really changed, and what the checks say. Also for runs whose
//! callsheet died.

use callsheet_core::agent::{Agent, By};
use callsheet_core::contract::Contract;
use callsheet_core::diag::{Code, Diag, Failure};
use callsheet_core::fact::{CheckResult, CheckRun, CheckSpec, Ended};
use callsheet_core::record::{Account, Event, Exit, Id, Launch, Observed, Replied, Stream};
use callsheet_core::reply::{Asked, read};
use callsheet_core::secrets::Redactor;
use callsheet_core::{Library, find_agent, find_contract};
use callsheet_run::{Before, Stop, own_program, run_check};
use callsheet_store::Ledger;
use serde_json::{Value, json};

use super::terminal::close_server;
use super::{Progress, Stopper, pane_lives, remove_files};
use crate::app::App;
use crate::ledger::failure;
use crate::state::Desk;

/// Records the end of a run, what the agent says of it, and what is found. Answers with the whole account: once the last of
/// it is recorded, retention may take the run at any time.
#[expect(clippy::too_many_arguments, reason = "all that is known at the end of a run")]
pub(super) fn finish(
    app: &App<'_>,
    ledger: &mut Ledger,
    run: &Id,
    agent: &Agent,
    exit: Exit,
    output: String,
    before: Option<&Before>,
    stopper: &Stopper,
    redactor: &mut Redactor<'_>,
    progress: &Progress,
) -> Result<Account, Failure> {
    let mut append = |event: &Event| ledger.append(Some(run), None, event).map_err(failure);
    append(&Event::Exit(exit.clone()))?;
    let account = ledger.account(run).map_err(failure)?;
    let Some(launch) = account.launch.clone() else { return Ok(account) };
    reply(app, ledger, &account, &launch, agent, &output)?;
    let worktree = before.map(|before| before.observe(&launch.scope));
    let mut checks = if exit.ended == Ended::Unstarted {
        pending(&launch.checks, "nothing was started")
    } else {
        checks(&launch, &stopper.stop_by_person(), progress)
    };
    for check in &mut checks {
        check.output = redactor.text(&check.output).into_owned();
    }
    observed(ledger, run, Observed { worktree, checks })
}

/// Records what was found, which is the last of a run.
fn observed(ledger: &mut Ledger, run: &Id, observed: Observed) -> Result<Account, Failure> {
    let mut account = ledger.account(run).map_err(failure)?;
    ledger.append(Some(run), None, &Event::Observed(observed.clone())).map_err(failure)?;
    account.observed = Some(observed);
    Ok(account)
}

/// Checks that nobody ran are pending, whatever the reason.
fn pending(checks: &[CheckSpec], why: &str) -> Vec<CheckRun> {
    let pending = |check: &CheckSpec| CheckRun {
        name: check.name.clone(),
        argv: check.argv.clone(),
        result: CheckResult::Pending,
        ended: None,
        exit_code: None,
        duration_ms: 0,
        output: format!("not run: {why}"),
    };
    checks.iter().map(pending).collect()
}

/// What an agent leaves behind that a limit has ended can still be checked; a person who ended it wants nothing more.
fn checks(launch: &Launch, stop: &Stop, progress: &Progress) -> Vec<CheckRun> {
    let Ok(guard) = own_program() else { return pending(&launch.checks, "our own program is not found") };
    let worktree = std::path::Path::new(&launch.worktree);
    let mut done = Vec::new();
    for (index, check) in launch.checks.iter().enumerate() {
        if stop.is_stopped() {
            done.extend(pending(&launch.checks[index..], "the run was ended"));
            break;
        }
        progress.does(format!("check {}", check.name));
        // One that is not told how long it may take gets no more time than the agent.
        let check = CheckSpec { timeout_ms: check.timeout_ms.or(launch.timeout_ms), ..check.clone() };
        done.push(run_check(&check, worktree, guard.clone(), stop, &mut |_| {}));
    }
    done
}

/// So much of a reply's text is kept with it, its end; all that was printed is in the ledger as output.
const MOST_REPLY: usize = 1 << 20;

/// Claims, kept beside the facts.
fn reply(
    app: &App<'_>,
    ledger: &mut Ledger,
    account: &Account,
    launch: &Launch,
    agent: &Agent,
    output: &str,
) -> Result<(), Failure> {
    let (disk, layout) = (app.disk(None), app.config.layout());
    let library = Library::new(&disk);
    let contract = match &account.run.phase {
        Some(phase) => match find_contract(&library, phase, &layout) {
            Ok((_, contract)) => contract,
            Err(Failure(diags)) if diags.iter().all(|diag| diag.code == Code::ContractNotFound) => {
                Contract::default()
            }
            Err(failure) => return Err(failure),
        },
        None => Contract::default(),
    };
    let prompt = ledger.prompt(&account.run.id).ok();
    let asked = Asked { contract: &contract, tasks: &launch.tasks, prompt: prompt.as_deref() };
    let reply = read(&asked, output.as_bytes(), agent.output.format);
    let verdict = reply.verdict.map(|verdict| verdict.name().to_owned());
    let mut value =
        serde_json::to_value(&reply).map_err(|error| Diag::error(Code::OutputFailed, error.to_string()))?;
    if let Value::String(text) = &mut value["text"]
        && text.len() > MOST_REPLY
    {
        *text = text.split_off(text.ceil_char_boundary(text.len() - MOST_REPLY));
        value["text_cut"] = json!(true);
    }
    if !account.submitted.is_empty() {
        value["submitted"] = json!(account.submitted);
    }
    let event = Event::Replied(Replied { verdict, reply: value });
    ledger.append(Some(&account.run.id), None, &event).map(drop).map_err(failure)
}

/// Completes the records of a run whose callsheet died: nobody saw how it ended, nobody ran its checks, and what changed
/// can still be seen. `None` where there is nothing to complete, or somebody still drives it.
pub(crate) fn recover(
    app: &App<'_>,
    ledger: &mut Ledger,
    run: &Id,
    ended: Ended,
    why: &str,
) -> Result<Option<Account>, Failure> {
    let desk = Desk::of(run)?;
    let Some(seat) = desk.sit()? else { return Ok(None) };
    // Read behind the lock: somebody may have been faster.
    let known = ledger.account(run).map_err(failure)?;
    let Some(launch) = known.launch.clone().filter(|_| !known.is_whole()) else {
        desk.clear();
        return Ok(None);
    };
    if launch.by == Some(By::Terminal) && desk.pane().is_none() {
        // Nothing was typed yet, so that nobody knows of the terminal but its server's name.
        close_server(run);
    }
    let (disk, layout) = (app.disk(None), app.config.layout());
    let name =
        if launch.program.is_empty() { known.run.agent.as_deref().unwrap_or("command") } else { "command" };
    let agent = find_agent(&Library::new(&disk), name, &layout).map(|(_, agent)| agent).unwrap_or_default();
    if known.exit.is_none() {
        let exit = Exit { why: Some(why.to_owned()), ..Exit::of(ended, None) };
        ledger.append(Some(run), None, &Event::Exit(exit)).map_err(failure)?;
    }
    if known.replied.is_none() {
        let said = ledger.log(run, Stream::Stdout, 0, None).map_err(failure)?;
        let output: String = said.lines.iter().map(|line| format!("{}\n", line.data)).collect();
        reply(app, ledger, &known, &launch, &agent, &output)?;
    }
    let worktree = desk.before().map(|before| before.observe(&launch.scope));
    let checks = pending(&launch.checks, why);
    let whole = observed(ledger, run, Observed { worktree, checks })?;
    if !desk.pane().as_ref().is_some_and(pane_lives) {
        remove_files(launch.worktree.as_ref(), run);
    }
    drop(seat);
    desk.clear();
    Ok(Some(whole))
}
