//! The server: its router, its limits, and its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use callsheet::error::Result;
use callsheet::{InterruptFlag, Project, SilentObserver};
use callsheet_core::diag::{Code, Diagnostic, is_invisible};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::actions::{
    StartedWork, continue_run, decide_change, decide_flow, preview_continue, retry_run, stop_run,
};
use crate::answer::{PageFailure, finish_answer, wants_json};
use crate::connection::TimedStream;
use crate::live::stream_events;
use crate::pages::assets::{show_script, show_style};
use crate::pages::attempts::show_attempts;
use crate::pages::costs::show_costs;
use crate::pages::flow::{show_flow, show_flows};
use crate::pages::inbox::show_inbox;
use crate::pages::log_pane::{find_lines, show_log};
use crate::pages::prompt_pane::show_source;
use crate::pages::run::show_run;
use crate::pages::templates::{show_template, show_templates};
use crate::pages::words::decode_query;
use crate::session::{BrowserSession, add_headers};
use crate::site::SiteState;

/// The most bytes of a request's body.
const MOST_BODY: usize = 256 << 10;

/// How long a browser may take to send the head of a request, also the next one on the same connection.
const HEAD_LIMIT: Duration = Duration::from_secs(5);

/// How long an answer may take, with the body of its request.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The most connections; further ones wait.
const MOST_CONNECTIONS: usize = 256;

/// The most threads that wait for the ledger.
const MOST_THREADS: usize = 16;

/// How often the server checks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The port; 0 for a free one.
    pub port: u16,
    /// Ends the server.
    pub interrupt: InterruptFlag,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// A server that listens.
#[derive(Debug)]
pub struct ServedPage {
    /// The address that it listens at.
    pub address: SocketAddr,
    session: Arc<BrowserSession>,
}

impl ServedPage {
    /// Returns the address for a browser, with the token of the session.
    pub fn token_address(&self) -> String {
        self.session.token_address()
    }

    /// Returns an address for a browser that is void after its first use. It replaces an earlier one.
    pub fn code_address(&self) -> Result<String> {
        self.session.code_address()
    }
}

/// Serves the pages of a project on loopback until the process is interrupted. Calls `ready` once it listens.
pub fn serve(
    mut project: Project,
    options: ServeOptions,
    ready: impl FnOnce(&ServedPage) -> Result<()>,
) -> Result<()> {
    let failed = |error: std::io::Error| serve_error(options.port, &error);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(MOST_THREADS)
        .enable_all()
        .build()
        .map_err(failed)?;
    let done = runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let session = Arc::new(BrowserSession::new(address.port())?);
        ready(&ServedPage { address, session: Arc::clone(&session) })?;
        // Requests repeat the notes of the ledger, and a person reads them once.
        let reporter = std::mem::replace(&mut project.observer, Arc::new(SilentObserver));
        let work = Arc::new(StartedWork::new(options.interrupt.clone(), reporter));
        let site = SiteState::new(project, session, Arc::clone(&work))?;
        accept_connections(&listener, &build_router(site), &options.interrupt).await;
        Ok(work)
    });
    // Runs that pages started are stopped, and their ends recorded.
    let done = done.map(|work| work.finish());
    // Threads that wait for the ledger end with the process.
    runtime.shutdown_background();
    done
}

fn serve_error(port: u16, error: &std::io::Error) -> Diagnostic {
    let diag = Diagnostic::error(Code::OutputFailed, format!("cannot listen on 127.0.0.1:{port}: {error}"));
    match error.kind() {
        std::io::ErrorKind::AddrInUse => diag.hint("add `--port N`, or leave it out for a free port"),
        _ => diag,
    }
}

fn build_router(site: SiteState) -> Router {
    let pages = Router::new()
        .route("/", get(show_inbox))
        .route("/runs/{run}", get(show_run))
        .route("/runs/{run}/source", get(show_source))
        .route("/runs/{run}/log", get(show_log))
        .route("/runs/{run}/log/find", get(find_lines))
        .route("/tasks/{task}", get(show_attempts))
        .route("/flows", get(show_flows))
        .route("/flows/{flow}", get(show_flow))
        .route("/costs", get(show_costs))
        .route("/templates", get(show_templates))
        .route("/templates/{*path}", get(show_template))
        .route("/actions/decide", post(decide_change))
        .route("/actions/stop", post(stop_run))
        .route("/actions/retry", post(retry_run))
        .route("/actions/continue/preview", post(preview_continue))
        .route("/actions/continue", post(continue_run))
        .route("/actions/flow", post(decide_flow))
        .route("/events", get(stream_events))
        .route("/assets/style.css", get(show_style))
        .route("/assets/page.js", get(show_script));
    pages
        .fallback(|| async { PageFailure::unknown_page() })
        .method_not_allowed_fallback(|| async { PageFailure::wrong_method() })
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(from_fn_with_state(site.clone(), guard_request))
        .with_state(site)
}

/// Checks every request before a page sees it, and adds the headers of every answer.
async fn guard_request(State(site): State<SiteState>, request: Request, next: Next) -> Response {
    let as_json = wants_json(request.headers());
    let response = match check_request(&site.session, &request) {
        Err(answer) => *answer,
        Ok(()) => match timeout(ANSWER_LIMIT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => PageFailure::too_slow().into_response(),
        },
    };
    let mut response = finish_answer(response, as_json);
    add_headers(response.headers_mut());
    response
}

/// Returns the answer to a request that no page sees.
fn check_request(session: &BrowserSession, request: &Request) -> Result<(), Box<Response>> {
    let (uri, headers) = (request.uri(), request.headers());
    let refuse = |failure: PageFailure| Err(Box::new(failure.into_response()));
    if !session.check_host(uri, headers) {
        return refuse(PageFailure::foreign_host());
    }
    if let Some(page) = session.open_session(request.method(), uri) {
        return Err(Box::new(open_page(session, page)));
    }
    // The pages of refusals need the style.
    if uri.path().starts_with("/assets/") {
        return Ok(());
    }
    if uri.path() == "/open" {
        return refuse(PageFailure::void_code());
    }
    if !session.has_cookie(headers) {
        return refuse(PageFailure::no_session());
    }
    // A page repeats its query in fields, where such characters would lie about the rest.
    if decode_query(uri.query().unwrap_or_default()).contains(is_invisible) {
        return refuse(PageFailure::invisible_query());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) && !session.check_origin(headers) {
        return refuse(PageFailure::foreign_origin());
    }
    if request.body().size_hint().lower() > MOST_BODY as u64 {
        return refuse(PageFailure::large_body());
    }
    Ok(())
}

/// Gives the cookie to a browser and leads it to a page, so that no secret stays in its address.
fn open_page(session: &BrowserSession, page: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A path that begins with two slashes of either kind would be another host.
    let page = format!("/{}", page.trim_start_matches(['/', '\\']));
    for (name, value) in [(header::LOCATION, page), (header::SET_COOKIE, session.cookie_header())] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    response
}

async fn accept_connections(listener: &TcpListener, router: &Router, interrupt: &InterruptFlag) {
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while !interrupt.is_set() {
        let Ok(Ok(permit)) = timeout(LOOK, Arc::clone(&connections).acquire_owned()).await else { continue };
        match timeout(LOOK, listener.accept()).await {
            Err(_) => {}
            // The process has too many open files, or the browser is gone.
            Ok(Err(_)) => sleep(LOOK).await,
            Ok(Ok((stream, peer))) => {
                tokio::spawn(serve_connection(stream, peer, router.clone(), permit));
            }
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    _permit: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let router = router.layer(axum::Extension(PeerAddress(peer)));
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(64 << 10);
    // A browser that is gone, or that does not read, ends its own connection only.
    let _ = connection.serve_connection(TokioIo::new(TimedStream::new(stream)), service).await;
}
