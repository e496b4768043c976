//! Installs the agent CLIs and packages that other tests need, before those tests start.

use callsheet_testing::{Cli, report_missing};

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
