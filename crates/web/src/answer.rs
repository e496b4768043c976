//! Errors as pages: the diagnostics of the library with code and hint, and the refusals of the server and of its framework.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callsheet::Error;
use callsheet_core::diag::{Code, Diagnostic};
use serde_json::{Value, json};

use crate::action_forms::ActionRefusal;
use crate::pages::layout::PageLayout;
use crate::shown_text::ShownText;

/// A request without a page.
#[derive(Debug)]
pub(crate) struct PageFailure {
    status: StatusCode,
    title: &'static str,
    reasons: Vec<FailureReason>,
    retry_after: Option<HeaderValue>,
}

/// A reason of a failure.
#[derive(Debug)]
struct FailureReason {
    code: &'static str,
    message: ShownText,
    hint: ShownText,
}

#[derive(Debug, Template)]
#[template(path = "failure.html")]
struct FailurePage<'f> {
    layout: PageLayout,
    status: u16,
    title: &'static str,
    reasons: &'f [FailureReason],
    has_way_back: bool,
}

impl PageFailure {
    fn new(code: &'static str, status: StatusCode, title: &'static str, message: &str, hint: &str) -> Self {
        let reason = FailureReason { code, message: message.into(), hint: hint.into() };
        Self { status, title, reasons: vec![reason], retry_after: None }
    }

    /// The request names another server.
    pub(crate) fn foreign_host() -> Self {
        let message = "this server answers requests to 127.0.0.1 and localhost only";
        Self::new(
            "page/foreign-host",
            StatusCode::MISDIRECTED_REQUEST,
            "Wrong host",
            message,
            "open the address that `callsheet serve` printed",
        )
    }

    /// The browser has no valid cookie.
    pub(crate) fn no_session() -> Self {
        let message = "this browser has no session with this server";
        let hint = "open the address that `callsheet serve` printed, or start `callsheet serve --open`";
        Self::new("page/no-session", StatusCode::UNAUTHORIZED, "No session", message, hint)
    }

    /// The one-time code is void.
    pub(crate) fn void_code() -> Self {
        let message = "this address was used before, or it belongs to an earlier server";
        let hint = "open the address that `callsheet serve` printed, or start `callsheet serve --open`";
        Self::new("page/void-code", StatusCode::UNAUTHORIZED, "Void code", message, hint)
    }

    /// Another site made the request.
    pub(crate) fn foreign_origin() -> Self {
        let message = "a page of another site made this request";
        Self::new(
            "page/foreign-origin",
            StatusCode::FORBIDDEN,
            "Foreign origin",
            message,
            "repeat the action on a page of this server",
        )
    }

    /// The query has characters that people cannot see.
    pub(crate) fn invisible_query() -> Self {
        let message = "the address has characters that people cannot see";
        Self::new(
            "page/invalid-address",
            StatusCode::BAD_REQUEST,
            "Invalid request",
            message,
            "type the filter yourself",
        )
    }

    /// No page has this address.
    pub(crate) fn unknown_page() -> Self {
        Self::new(
            "page/not-found",
            StatusCode::NOT_FOUND,
            "No such page",
            "no page has this address",
            "look for it in the inbox",
        )
    }

    /// The page takes no such request.
    pub(crate) fn wrong_method() -> Self {
        let message = "this address does not take such a request";
        Self::new(
            "page/wrong-method",
            StatusCode::METHOD_NOT_ALLOWED,
            "Wrong method",
            message,
            "open the page, and use its buttons",
        )
    }

    /// The body is too large.
    pub(crate) fn large_body() -> Self {
        Self::new(
            "page/too-large",
            StatusCode::PAYLOAD_TOO_LARGE,
            "Too large",
            "the request has more than 256 KiB",
            "go back and shorten the text",
        )
    }

    /// The request took too long.
    pub(crate) fn too_slow() -> Self {
        let message = "the answer took longer than 30 seconds";
        Self::new("page/too-slow", StatusCode::GATEWAY_TIMEOUT, "Too slow", message, "reload the page")
    }

    /// The form of an action is not of a page of this session, or it was sent before.
    pub(crate) fn refused_action(refusal: ActionRefusal) -> Self {
        match refusal {
            ActionRefusal::Form => {
                let message = "this form is not of a page of this session";
                Self::new(
                    "page/foreign-form",
                    StatusCode::FORBIDDEN,
                    "Foreign form",
                    message,
                    "reload the page and repeat the action",
                )
            }
            ActionRefusal::Replayed => {
                let message = "this action was sent before";
                Self::new(
                    "page/sent-twice",
                    StatusCode::CONFLICT,
                    "Sent twice",
                    message,
                    "reload the page to see its result",
                )
            }
        }
    }

    /// A field of a form has no valid value.
    pub(crate) fn bad_form() -> Self {
        let message = "a field of the form has no valid value";
        Self::new(
            "page/invalid-form",
            StatusCode::BAD_REQUEST,
            "Invalid form",
            message,
            "reload the page and repeat the action",
        )
    }

    /// A text is missing.
    pub(crate) fn no_text() -> Self {
        let message = "this action needs a text";
        Self::new("page/no-text", StatusCode::BAD_REQUEST, "No text", message, "go back and write one")
    }

    /// Too many runs that pages started have not ended.
    pub(crate) fn too_much_work() -> Self {
        let message = "16 runs and flows that pages started have not ended";
        Self::new(
            "page/too-many-runs",
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many runs",
            message,
            "wait, or stop one",
        )
    }

    /// There are too many event streams.
    pub(crate) fn too_many_streams() -> Self {
        let message = "too many pages follow the ledger";
        let failure = Self::new(
            "page/too-many-streams",
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many streams",
            message,
            "close some tabs",
        );
        Self { retry_after: Some(HeaderValue::from_static("5")), ..failure }
    }

    /// The server ends.
    pub(crate) fn stopped() -> Self {
        let message = "the page could not be made";
        Self::new(
            "page/server-error",
            StatusCode::INTERNAL_SERVER_ERROR,
            "Server error",
            message,
            "start `callsheet serve` again",
        )
    }

    /// A template failed.
    pub(crate) fn not_rendered(error: &askama::Error) -> Self {
        Self::new(
            "page/server-error",
            StatusCode::INTERNAL_SERVER_ERROR,
            "Server error",
            &error.to_string(),
            "reload the page",
        )
    }
}

impl From<Error> for PageFailure {
    fn from(error: Error) -> Self {
        let (status, title) = match error.code() {
            Some(
                Code::RunNotFound
                | Code::TaskNotFound
                | Code::FlowNotFound
                | Code::TemplateNotFound
                | Code::LedgerNotThere,
            ) => (StatusCode::NOT_FOUND, "Not found"),
            Some(Code::UsageBad | Code::ViolationNotFound | Code::RunAmbiguous) => {
                (StatusCode::BAD_REQUEST, "Invalid request")
            }
            Some(Code::RunRefused | Code::PersonRequired | Code::PersonBelowGuard) => {
                (StatusCode::FORBIDDEN, "Refused")
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "Failed"),
        };
        let reason = |diag: &Diagnostic| FailureReason {
            code: diag.code.as_str(),
            message: ShownText::new(&diag.message),
            hint: ShownText::new(&diag.hints.join("; ")),
        };
        let reasons = error.diagnostics().iter().map(reason).collect();
        Self { status, title, reasons, retry_after: None }
    }
}

impl PageFailure {
    /// The failure of a request that the framework refused before a page saw it, by the status of its answer.
    fn from_status(status: StatusCode) -> Self {
        match status {
            StatusCode::METHOD_NOT_ALLOWED => Self::wrong_method(),
            StatusCode::NOT_FOUND => Self::unknown_page(),
            StatusCode::PAYLOAD_TOO_LARGE => Self::large_body(),
            StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::UNPROCESSABLE_ENTITY => {
                Self { status, ..Self::bad_form() }
            }
            status if status.is_client_error() => {
                let message = "the address or the form has a value that this page does not take";
                let hint = "open the page from the inbox, and try it again";
                Self::new("page/invalid-request", status, "Invalid request", message, hint)
            }
            status => Self { status, ..Self::stopped() },
        }
    }

    /// Checks whether the browser may open another page of this server.
    fn has_way_back(&self) -> bool {
        !matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::MISDIRECTED_REQUEST)
    }

    fn render_html(&self) -> String {
        let page = FailurePage {
            layout: PageLayout::plain(),
            status: self.status.as_u16(),
            title: self.title,
            reasons: &self.reasons,
            has_way_back: self.has_way_back(),
        };
        page.render().unwrap_or_else(|_| self.title.to_owned())
    }

    fn render_json(&self) -> String {
        let reason = |reason: &FailureReason| json!({ "code": reason.code, "message": reason.message.as_str(), "hint": reason.hint.as_str() });
        let reasons: Vec<Value> = self.reasons.iter().map(reason).collect();
        json!({ "status": self.status.as_u16(), "title": self.title, "errors": reasons }).to_string()
    }
}

impl IntoResponse for PageFailure {
    /// Returns an answer without a body: [`finish_answer`] writes it.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(seconds) = &self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.clone());
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// Checks whether the request is of a script that reads JSON.
pub(crate) fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.contains("application/json") && !accepted.contains("text/html")
}

/// Gives every answer that reports a failure the same form, also of the framework: a page, or JSON for a script that asked for it.
pub(crate) fn finish_answer(response: Response, as_json: bool) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let failure = parts.extensions.remove::<Arc<PageFailure>>();
    let failure = failure.unwrap_or_else(|| Arc::new(PageFailure::from_status(status)));
    let (kind, body) = match as_json {
        true => ("application/json", failure.render_json()),
        false => ("text/html; charset=utf-8", failure.render_html()),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Response::from_parts(parts, Body::from(body))
}
