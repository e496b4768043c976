//! Installs the agent CLIs and packages that other tests need, before those tests start.

use std::path::Path;

use callsheet_testing::{Cli, browser_script, mdbook, report_missing};

#[test]
fn agent_clis_are_installed() {
    let failed: Vec<String> = Cli::ALL
        .into_iter()
        .filter_map(|cli| Some(format!("{} {}: {}", cli.name(), cli.version(), cli.program().err()?)))
        .collect();
    if !failed.is_empty() {
        report_missing(&failed.join("; "));
    }
}

#[test]
fn mdbook_is_installed() {
    if let Err(why) = mdbook() {
        report_missing(&format!("mdbook: {why}"));
    }
}

#[test]
fn browser_is_installed() {
    if let Err(why) = browser_script(Path::new("journeys.cjs")) {
        report_missing(&format!("the browser: {why}"));
    }
}
