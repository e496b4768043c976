//! The style and the script of all pages.

use axum::http::header;
use axum::response::IntoResponse;

/// The style of all pages.
pub(crate) const STYLE: &str =
    concat!(include_str!("../../assets/style.css"), include_str!("../../assets/pictures.css"));

/// The script of all pages.
pub(crate) const SCRIPT: &str =
    concat!(include_str!("../../assets/page.js"), include_str!("../../assets/actions.js"));

/// Answers with the style.
pub(crate) async fn show_style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// Answers with the script.
pub(crate) async fn show_script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT)
}
