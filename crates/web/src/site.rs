//! The state that all requests share: the project, the session of the browser and the live events.

use std::sync::Arc;

use askama::Template;
use axum::response::Html;
use callsheet::Project;
use callsheet::error::Result;
use tokio::sync::Semaphore;

use crate::action_forms::{ActionForm, ActionForms};
use crate::actions::StartedWork;
use crate::answer::PageFailure;
use crate::live::EventHub;
use crate::pages::log_pane::LogIndexes;
use crate::session::BrowserSession;

/// The most pages that are made at the same time; further requests wait.
const MOST_AT_ONCE: usize = 8;

/// The result of a page.
pub(crate) type PageResult<T = Html<String>> = std::result::Result<T, PageFailure>;

/// State that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct SiteState {
    /// The project whose ledger is shown.
    pub(crate) project: Arc<Project>,
    /// The session of the browser.
    pub(crate) session: Arc<BrowserSession>,
    /// The live events.
    pub(crate) events: Arc<EventHub>,
    /// The indexes of logs.
    pub(crate) logs: Arc<LogIndexes>,
    /// The forms of actions.
    pub(crate) forms: Arc<ActionForms>,
    /// The runs and flows that pages started.
    pub(crate) work: Arc<StartedWork>,
    turns: Arc<Semaphore>,
}

impl SiteState {
    /// Creates the state of a server.
    pub(crate) fn new(
        project: Project,
        session: Arc<BrowserSession>,
        work: Arc<StartedWork>,
    ) -> Result<Self> {
        let project = Arc::new(project);
        let events = Arc::new(EventHub::new(Arc::clone(&project)));
        let forms = Arc::new(session.new_forms()?);
        let turns = Arc::new(Semaphore::new(MOST_AT_ONCE));
        Ok(Self { project, session, events, logs: Arc::default(), forms, work, turns })
    }

    /// Makes the fields of the forms of one page.
    pub(crate) fn new_form(&self) -> Result<ActionForm> {
        Ok(ActionForm { token: self.forms.token().to_owned(), id: ActionForms::new_id()? })
    }

    /// Calls the library on a thread that may wait for the ledger.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Project) -> PageResult<T> + Send + 'static,
    ) -> PageResult<T> {
        let _turn = self.turns.acquire().await.map_err(|_| PageFailure::stopped())?;
        let project = Arc::clone(&self.project);
        tokio::task::spawn_blocking(move || work(&project)).await.map_err(|_| PageFailure::stopped())?
    }

    /// Reads the data of a page and renders it.
    pub(crate) async fn render<T: Template>(
        &self,
        read: impl FnOnce(&Project) -> Result<T> + Send + 'static,
    ) -> PageResult {
        self.call(move |project| render_page(&read(project)?)).await
    }
}

/// Renders a page.
pub(crate) fn render_page(page: &impl Template) -> PageResult {
    page.render().map(Html).map_err(|error| PageFailure::not_rendered(&error))
}
