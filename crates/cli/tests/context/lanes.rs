//! `context --lanes`: the beginning that the requests of two lanes share, before and after `--split`.

use callsheet_testing::{Cli, on_loopback, run_command};

use crate::project::ProbeProject;

fn check_lanes(cli: Cli, model: &[&str], least: f64) {
    let facts: String = (0..700)
        .map(|number| format!("{number}. The module {number} owns the table {}.\n", number * 7919))
        .collect();
    let project = ProbeProject::new(&[
        ("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n"),
        ("CLAUDE.md", "# Claude\n\nUse tabs in every file of this project.\n"),
        (".callsheet/memory/profile.md", &facts),
    ]);
    let lanes = |more: &[&str]| {
        let mut command = project.command_with(&cli.program().unwrap());
        let args =
            ["--json", "-q", "context", "--isolated", "-r", "layers", "-a", cli.name(), "--lanes", "2"];
        run_command(command.args(args).args(model).args(more).arg("Explain the second table"))
    };
    let report = lanes(&[]).expect_code(0).json();
    let ways = report["ways"].as_array().unwrap();
    let percent = |at: usize| ways[at]["shared_percent"].as_f64().unwrap();
    eprintln!(
        "{} {}: {:.1} % shared, with --split {:.1} %",
        cli.name(),
        cli.version(),
        percent(0),
        percent(1)
    );
    assert_eq!((ways.len(), &ways[0]["split"], &ways[1]["split"]), (2, &false.into(), &true.into()));
    assert!(percent(0) < least - 20.0 && percent(1) >= least, "{report:#}");
    assert!(
        ways[0]["ended_by"]["kind"] != "prompt"
            && ways[1]["shared_tokens"].as_u64() > ways[0]["shared_tokens"].as_u64()
    );
    let gate = lanes(&["--min-shared", "99.9"]).expect_code(1).json();
    assert_eq!(gate["passes"], false);
    lanes(&["--min-shared", "1", "--split"]).expect_code(0);
}

#[test]
fn claude_lanes_share_with_split() {
    on_loopback(&[Cli::Claude], || check_lanes(Cli::Claude, &[], 80.0));
}

#[test]
fn codex_lanes_share_with_split() {
    // For models that it knows, Codex adds instructions about other agents after the path of the worktree.
    on_loopback(&[Cli::Codex], || check_lanes(Cli::Codex, &["--model", "unknown"], 95.0));
}
