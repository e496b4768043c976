//! Diagnostics for people and programs, without the secrets that they may quote.

use callsheet_core::diag::Diagnostic;
use callsheet_core::secrets::SecretRules;
use serde_json::{Value, json};

thread_local! {
    /// Rules for diagnostics of commands that have not loaded any. They are parsed at the first use.
    static SHIPPED: Option<SecretRules> = SecretRules::load_shipped().ok();
}

/// Returns the diagnostic without secrets, whatever text it quotes.
pub fn mask_diagnostic(diag: &Diagnostic) -> Diagnostic {
    SHIPPED.with(|rules| match rules {
        Some(rules) => rules.mask_diagnostic(diag.clone()),
        None => diag.clone(),
    })
}

/// Converts a diagnostic to JSON: `places` holds its own place and then the searched places.
pub fn diagnostic_json(diag: &Diagnostic) -> Value {
    let diag = mask_diagnostic(diag);
    let place = diag.place.as_ref().map(|place| {
        let (line, column) = place.line_column();
        format!("{}:{line}:{column}", place.name)
    });
    let places: Vec<String> = place.into_iter().chain(diag.looked.iter().cloned()).collect();
    let mut object = json!({
        "code": diag.code.as_str(),
        "severity": diag.severity.name(),
        "message": diag.message,
        "places": places,
        "hint": diag.hints.join("; "),
    });
    if diag.more > 0 {
        object["more"] = diag.more.into();
    }
    object
}

/// Joins the lines of a text into one.
pub fn join_lines(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
