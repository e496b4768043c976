//! Installs the agent CLIs and packages that other tests need, before those tests start.

use std::path::Path;

use callsheet_testing::{Cli, browser_script, mdbook, report_missing};

#[test]
fn agent_clis_are_installed() {
    let versions = |cli: Cli| cli.versions().into_iter().map(move |version| (cli, version));
    let failed: Vec<String> = Cli::ALL
        .into_iter()
        .flat_map(versions)
        .filter_map(|(cli, version)| {
            Some(format!("{} {version}: {}", cli.name(), cli.program_of(version).err()?))
        })
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
