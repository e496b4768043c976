//! The output in `docs/context.md`: made by the real CLIs, and compared with them part by part.

use std::fs;
use std::path::PathBuf;

use callsheet_testing::{Cli, on_loopback, run_command};

use crate::project::ProbeProject;

fn page_path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/context.md"))
}

fn mark(cli: Cli, edge: &str) -> String {
    format!("<!-- {edge} of {} -->\n", cli.name())
}

/// Returns the kind and the name of each part: sizes depend on the paths of the machine.
fn parts_of_page(page: &str) -> Vec<String> {
    let rows = page.lines().skip_while(|line| !line.contains("KIND"));
    let rows = rows.skip(1).take_while(|line| !line.trim().is_empty());
    rows.map(|row| row.split_whitespace().skip(5).collect::<Vec<_>>().join(" ")).collect()
}

fn check_page(cli: Cli) {
    let project =
        ProbeProject::new(&[("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n")]);
    let mut command = project.command_with(&cli.program().unwrap());
    let args = ["-q", "context", "--isolated", "-a", cli.name(), "Fix the login timeout"];
    let page = run_command(command.args(args)).expect_code(0).out();
    let text = fs::read_to_string(page_path()).unwrap();
    let (start, end) = (mark(cli, "output"), mark(cli, "end"));
    let (before, rest) = text.split_once(&start).unwrap();
    let (kept, after) = rest.split_once(&end).unwrap();
    if parts_of_page(kept) != parts_of_page(&page) && std::env::var_os("BLESS").is_some() {
        let shown = format!("\n```text\n{page}```\n\n");
        fs::write(page_path(), format!("{before}{start}{shown}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(parts_of_page(kept), parts_of_page(&page), "BLESS=1 writes docs/context.md");
    assert!(kept.contains(cli.version()), "the page names another version of {}", cli.name());
}

/// One test, because all CLIs write to one page.
#[test]
fn page_shows_parts_of_clis() {
    on_loopback(&Cli::ALL, || Cli::ALL.into_iter().for_each(check_page));
}
