//! The session of a browser: the token, the one-time code, the cookie, and the checks of every request.
//!
//! Each rule is in one function: [`check_host`](BrowserSession::check_host), [`open_session`](BrowserSession::open_session),
//! [`has_cookie`](BrowserSession::has_cookie), [`check_origin`](BrowserSession::check_origin), and the headers of every answer. The
//! forms of actions are left to `action_forms`, the text of a refusal to `answer`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Uri};
use callsheet::error::Result;
use callsheet::random::random_key;
use callsheet_core::record::sha256;

use crate::action_forms::ActionForms;
use crate::base64::to_base64url;

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // A browser hides the origin of a form with a stricter policy, and the origin is checked.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

const CONTENT_POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'";

/// Adds the headers of every answer.
pub(crate) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        // An answer with a secret in its address has a stricter one.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Random text that only the browser of the person knows.
struct SecretWord(String);

impl SecretWord {
    fn generate() -> Result<Self> {
        Ok(Self(to_base64url(&random_key()?)))
    }

    /// Compares digests: the time does not depend on the number of equal characters.
    fn is_same(&self, given: &str) -> bool {
        sha256(&[self.0.as_bytes()]) == sha256(&[given.as_bytes()])
    }
}

impl fmt::Debug for SecretWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The session of the person who started the server. All browsers share it.
#[derive(Debug)]
pub(crate) struct BrowserSession {
    /// The port of the server.
    pub(crate) port: u16,
    token: SecretWord,
    cookie: SecretWord,
    code: Mutex<Option<SecretWord>>,
}

impl BrowserSession {
    /// Creates a session for the server on this port.
    pub(crate) fn new(port: u16) -> Result<Self> {
        Ok(Self {
            port,
            token: SecretWord::generate()?,
            cookie: SecretWord::generate()?,
            code: Mutex::default(),
        })
    }

    /// Creates the forms of this session.
    pub(crate) fn new_forms(&self) -> Result<ActionForms> {
        ActionForms::new(&self.cookie.0)
    }

    /// Returns the address of the first page with the token.
    pub(crate) fn token_address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token.0)
    }

    /// Returns an address with a code that is void after its first use. It replaces an earlier one.
    pub(crate) fn code_address(&self) -> Result<String> {
        let code = SecretWord::generate()?;
        let address = format!("http://127.0.0.1:{}/open?code={}", self.port, code.0);
        *self.code.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
        Ok(address)
    }

    /// Checks that a request names this server: another name can lead here through DNS.
    pub(crate) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let own = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let is_own = |host: &str| own.iter().any(|own| own == host);
        let mut hosts = headers.get_all(header::HOST).iter();
        let (first, second) = (hosts.next(), hosts.next());
        first.and_then(|host| host.to_str().ok()).is_some_and(is_own)
            && second.is_none()
            && uri.authority().is_none_or(|authority| is_own(authority.as_str()))
    }

    /// Returns the page that an address with a valid token or code leads to. A code is void afterwards.
    pub(crate) fn open_session<'u>(&self, method: &Method, uri: &'u Uri) -> Option<&'u str> {
        if method != Method::GET {
            return None;
        }
        let value = |name: &str| {
            let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if uri.path() == "/open" {
            let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
            let is_valid = value("code").zip(code.as_ref()).is_some_and(|(given, code)| code.is_same(given));
            return is_valid.then(|| *code = None).map(|()| "/");
        }
        value("token").filter(|given| self.token.is_same(given)).map(|_| uri.path())
    }

    /// Returns the header that gives the cookie to a browser.
    pub(crate) fn cookie_header(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.cookie.0)
    }

    /// Checks whether a request has the cookie.
    pub(crate) fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(key, value)| key == name && self.cookie.is_same(value))
    }

    /// Checks that a page of this server made a request that changes something.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> bool {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        let site = headers.get("sec-fetch-site");
        text(header::ORIGIN) == Some(format!("http://{host}").as_str())
            && site.is_none_or(|site| site == "same-origin")
    }

    fn cookie_name(&self) -> String {
        format!("callsheet_{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_code_replaces_earlier_one() {
        let session = BrowserSession::new(1).unwrap();
        let open = |address: &str| {
            let uri: Uri = address.strip_prefix("http://127.0.0.1:1").unwrap().parse().unwrap();
            session.open_session(&Method::GET, &uri).map(str::to_owned)
        };
        let (first, second) = (session.code_address().unwrap(), session.code_address().unwrap());
        assert_eq!([open(&first), open(&second), open(&second)], [None, Some("/".into()), None]);
        assert_eq!(open(&session.token_address()), Some("/".into()));
    }
}
