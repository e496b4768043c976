//! The actions of pages. Each calls the use case that the command calls, as a person on a page.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::{Extension, Form};
use callsheet::error::Result;
use callsheet::observer::Observer;
use callsheet::project::person::refuse_guarded_peer;
use callsheet::run::comments::{LineComment, comments_text};
use callsheet::run::decide::ChangeDecision;
use callsheet::{FlowChoice, InterruptFlag, Project, RerunOptions, RunStopper};
use callsheet_core::record::sha256;
use serde::Deserialize;

use crate::action_forms::ActionForm;
use crate::answer::PageFailure;
use crate::pages::layout::{PageLayout, PagePlace};
use crate::pages::words::{decode_query, encode_query};
use crate::server::PeerAddress;
use crate::shown_text::ShownText;
use crate::site::{PageResult, SiteState, render_page};

/// The most runs and flows that pages started and that have not ended.
const MOST_STARTED: usize = 16;

/// How long an action may fail before its page is answered.
const FAIL_SOON: Duration = Duration::from_millis(1500);

/// The most comments of one continuation.
const MOST_COMMENTS: usize = 200;

/// Runs and flows that pages started. They end with the server.
#[derive(Debug)]
pub(crate) struct StartedWork {
    interrupt: InterruptFlag,
    reporter: Arc<dyn Observer>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl StartedWork {
    pub(crate) fn new(interrupt: InterruptFlag, reporter: Arc<dyn Observer>) -> Self {
        Self { interrupt, reporter, threads: Mutex::default() }
    }

    /// Starts work on a thread of its own. Returns its error if it fails at once; a later one is reported where the server was
    /// started.
    fn start(&self, work: impl FnOnce(&InterruptFlag) -> Result<()> + Send + 'static) -> PageResult<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= MOST_STARTED {
            return Err(PageFailure::too_much_work());
        }
        let (send, receive) = mpsc::sync_channel(1);
        let (interrupt, reporter) = (self.interrupt.clone(), Arc::clone(&self.reporter));
        threads.push(thread::spawn(move || {
            if let Err(error) = work(&interrupt)
                && let Err(mpsc::SendError(error)) = send.send(error)
            {
                reporter.diagnostics(error.diagnostics());
            }
        }));
        drop(threads);
        match receive.recv_timeout(FAIL_SOON) {
            Ok(error) => Err(error.into()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    /// Waits until all work has ended.
    pub(crate) fn finish(&self) {
        let mut threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.retain(|thread| !thread.is_finished());
        if !threads.is_empty() {
            self.reporter.status("stopping the runs that pages started");
        }
        for thread in threads {
            drop(thread.join());
        }
    }
}

/// The fields of every action.
#[derive(Debug, Deserialize)]
pub(crate) struct ActionFields {
    form_token: String,
    action_id: String,
}

impl SiteState {
    /// Accepts an action of a page once, and calls a use case as the person on that page.
    async fn act<T: Send + 'static>(
        &self,
        peer: SocketAddr,
        fields: &ActionFields,
        work: impl FnOnce(&Project) -> PageResult<T> + Send + 'static,
    ) -> PageResult<T> {
        self.forms.accept(&fields.form_token, &fields.action_id).map_err(PageFailure::refused_action)?;
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.session.port));
        // Before it waits for its turn, and again before it acts: a process may end in between.
        let judge = move || refuse_guarded_peer(peer, server);
        tokio::task::spawn_blocking(judge).await.map_err(|_| PageFailure::stopped())??;
        self.call(move |project| {
            refuse_guarded_peer(peer, server)?;
            work(&project.on_page())
        })
        .await
    }
}

/// A decision about a change outside of the scope.
#[derive(Debug, Deserialize)]
pub(crate) struct DecideForm {
    #[serde(flatten)]
    fields: ActionFields,
    run: String,
    path: String,
    decision: String,
    #[serde(default)]
    because: String,
}

/// Decides about a change outside of the scope.
pub(crate) async fn decide_change(
    State(site): State<SiteState>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Form(form): Form<DecideForm>,
) -> PageResult<Redirect> {
    let decision = ChangeDecision::ALL.iter().find(|it| it.name() == form.decision).copied();
    let decision = decision.ok_or_else(PageFailure::bad_form)?;
    let address = format!("/runs/{}#change", encode_query(&form.run));
    site.act(peer, &form.fields, move |project| {
        let because = Some(form.because.trim()).filter(|text| !text.is_empty());
        project.decide_change(&form.run, &decode_query(&form.path), decision, because, false)?;
        Ok(Redirect::to(&address))
    })
    .await
}

/// An action about a run.
#[derive(Debug, Deserialize)]
pub(crate) struct RunForm {
    #[serde(flatten)]
    fields: ActionFields,
    run: String,
}

/// Stops a run.
pub(crate) async fn stop_run(
    State(site): State<SiteState>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Form(form): Form<RunForm>,
) -> PageResult<Redirect> {
    site.act(peer, &form.fields, move |project| {
        project.stop_run(&form.run)?;
        Ok(Redirect::to(&format!("/runs/{}", encode_query(&form.run))))
    })
    .await
}

/// Runs again with the facts of a run.
pub(crate) async fn retry_run(
    State(site): State<SiteState>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Form(form): Form<RunForm>,
) -> PageResult<Redirect> {
    let work = Arc::clone(&site.work);
    site.act(peer, &form.fields, move |project| {
        start_rerun(&work, project, &form.run, RerunOptions::default())
    })
    .await
}

/// Plans a new run and starts it. Leads to its page.
fn start_rerun(
    work: &StartedWork,
    project: &Project,
    run: &str,
    options: RerunOptions,
) -> PageResult<Redirect> {
    let ready = project.prepare_rerun(run, &options)?;
    let (id, project) = (ready.id().clone(), project.clone());
    work.start(move |interrupt| {
        ready.execute(&project, &RunStopper::new(interrupt))?;
        Ok(())
    })?;
    Ok(Redirect::to(&format!("/runs/{id}")))
}

/// Comments and a text that continue a run.
#[derive(Debug, Deserialize)]
pub(crate) struct ContinueForm {
    #[serde(flatten)]
    fields: ActionFields,
    run: String,
    #[serde(default)]
    text: String,
    /// The comments as a JSON array.
    #[serde(default)]
    comments: String,
    /// The SHA-256 of the prompt that the page showed.
    #[serde(default)]
    shown: String,
}

/// A comment as a page sends it.
#[derive(Debug, Deserialize)]
struct CommentField {
    #[serde(default)]
    path: String,
    line: u64,
    #[serde(default)]
    removed: bool,
    #[serde(default)]
    quote: String,
    text: String,
}

impl ContinueForm {
    /// Returns the comments and the text as one text.
    fn join_text(&self) -> PageResult<String> {
        let comments = match self.comments.trim() {
            "" => Vec::new(),
            json => serde_json::from_str::<Vec<CommentField>>(json).map_err(|_| PageFailure::bad_form())?,
        };
        if comments.len() > MOST_COMMENTS {
            return Err(PageFailure::bad_form());
        }
        let comments: Vec<LineComment> = comments
            .into_iter()
            .map(|CommentField { path, line, removed, quote, text }| LineComment {
                path,
                line,
                is_removed: removed,
                quote,
                text,
            })
            .collect();
        Ok(comments_text(&comments, &unix_lines(&self.text)))
    }
}

/// Returns a text as it was typed: a browser sends line ends of another kind.
fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The continuation of a run before it is started.
#[derive(Debug, Template)]
#[template(path = "continue.html")]
struct ContinuePage {
    layout: PageLayout,
    form: ActionForm,
    run: ShownText,
    run_value: String,
    text: String,
    prompt: Vec<(usize, ShownText, bool)>,
    size: usize,
    shown: String,
    has_changed: bool,
}

impl ContinuePage {
    fn read(project: &Project, run: &str, text: String, form: ActionForm) -> Result<Self> {
        let ready = project.prepare_rerun(run, &continue_options(&text, true))?;
        let mut ledger = project.read_ledger()?;
        let row = project.find_run(&mut ledger, run)?;
        let before = ledger.prompt(&row.run.id)?;
        let known: BTreeSet<&str> = before.lines().collect();
        let prompt = ready.prompt();
        let line = |(at, line): (usize, &str)| (at + 1, ShownText::from_line(line), !known.contains(line));
        Ok(Self {
            layout: PageLayout::read(project, &mut ledger, PagePlace::Other)?,
            form,
            run: row.name().into(),
            run_value: row.name(),
            size: prompt.len(),
            shown: sha256(&[prompt.as_bytes()]).to_string(),
            prompt: prompt.lines().enumerate().map(line).collect(),
            text,
            has_changed: false,
        })
    }
}

/// Shows the prompt of a continuation, and starts nothing.
pub(crate) async fn preview_continue(
    State(site): State<SiteState>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Form(form): Form<ContinueForm>,
) -> PageResult<Html<String>> {
    let next = site.new_form()?;
    let text = form.join_text()?;
    if text.is_empty() {
        return Err(PageFailure::no_text());
    }
    site.act(peer, &form.fields, move |project| {
        render_page(&ContinuePage::read(project, &form.run, text, next)?)
    })
    .await
}

fn continue_options(text: &str, dry: bool) -> RerunOptions {
    RerunOptions { text: Some(text.to_owned()), force: true, dry, ..RerunOptions::default() }
}

/// Continues a run with a text, if its prompt is the one that the page showed; else shows the new one.
pub(crate) async fn continue_run(
    State(site): State<SiteState>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Form(form): Form<ContinueForm>,
) -> PageResult<Response> {
    let next = site.new_form()?;
    let text = form.join_text()?;
    if text.is_empty() {
        return Err(PageFailure::no_text());
    }
    let work = Arc::clone(&site.work);
    site.act(peer, &form.fields, move |project| {
        let page = ContinuePage::read(project, &form.run, text.clone(), next)?;
        if page.shown != form.shown {
            return Ok(render_page(&ContinuePage { has_changed: true, ..page })?.into_response());
        }
        Ok(start_rerun(&work, project, &form.run, continue_options(&text, false))?.into_response())
    })
    .await
}

/// A decision about a flow.
#[derive(Debug, Deserialize)]
pub(crate) struct FlowForm {
    #[serde(flatten)]
    fields: ActionFields,
    flow: String,
    choice: String,
    #[serde(default)]
    text: String,
}

/// Decides about a flow, or resumes it, and drives it.
pub(crate) async fn decide_flow(
    State(site): State<SiteState>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    Form(form): Form<FlowForm>,
) -> PageResult<Redirect> {
    let text = unix_lines(form.text.trim());
    let choice = match form.choice.as_str() {
        "resume" => None,
        "approve" => Some(FlowChoice::Approve),
        "reject" => Some(FlowChoice::Reject),
        "changes" if text.is_empty() => return Err(PageFailure::no_text()),
        "answer" if text.is_empty() => return Err(PageFailure::no_text()),
        "changes" => Some(FlowChoice::Changes(text)),
        "answer" => Some(FlowChoice::Answer(text)),
        _ => return Err(PageFailure::bad_form()),
    };
    let work = Arc::clone(&site.work);
    site.act(peer, &form.fields, move |project| {
        let (project, flow) = (project.clone(), form.flow.clone());
        work.start(move |interrupt| {
            match &choice {
                Some(choice) => project.decide_flow(Some(&flow), choice, false, interrupt)?,
                None => project.resume_flow(Some(&flow), false, interrupt)?,
            };
            Ok(())
        })?;
        Ok(Redirect::to(&format!("/flows/{}", encode_query(&form.flow))))
    })
    .await
}
