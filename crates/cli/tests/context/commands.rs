//! The pages and files of `context`, the probe in the project itself, and `doctor --probe`.

use std::fs;

use callsheet_testing::{Cli, on_loopback, run_command};

use crate::project::ProbeProject;

#[test]
fn page_shows_parts_and_origins() {
    on_loopback(&[Cli::Codex], || {
        let project =
            ProbeProject::new(&[("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n")]);
        let mut command = project.command_with(&Cli::Codex.program().unwrap());
        let args = ["context", "--isolated", "-a", "codex", "Fix the timeout"];
        let page = run_command(command.args(args)).expect_code(0).out();
        for line in [
            "KIND",
            "instructions  AGENTS.md",
            "prompt        prompt",
            "origins of the prompt",
            "cacheable: ",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        let mut command = project.command_with(&Cli::Codex.program().unwrap());
        let html = project.beside("context.html");
        command.args([
            "-q",
            "context",
            "--isolated",
            "-a",
            "codex",
            "--html",
            html.to_str().unwrap(),
            "Fix it",
        ]);
        run_command(&mut command).expect_code(0);
        let html = fs::read_to_string(html).unwrap();
        assert!(html.contains("Content-Security-Policy") && html.contains("data-part=\"tool\""));
        assert!(!html.contains("src=\"http") && !html.contains("href=\"http"));
    });
}

/// The copy is on the same branch, with the same commits and changes.
#[test]
fn copy_has_state_of_git() {
    on_loopback(&[Cli::Claude], || {
        let project = ProbeProject::new(&[]);
        project.git(&["switch", "-q", "-c", "feature/login"]);
        project.write("new.txt", "new");
        let context = project.probe(Cli::Claude, &["--full", "Fix it"]).expect_code(0).json();
        let parts = crate::project::parts_of(&context, "environment");
        let status =
            parts.iter().find(|part| part["name"] == "git status").unwrap()["text"].as_str().unwrap();
        for line in ["Current branch: feature/login", "?? new.txt", " files"] {
            assert!(status.contains(line), "{line}: {status}");
        }
        assert!(!status.contains("A  README.md"), "{status}");
    });
}

/// In the project itself, the files for the agent are removed again.
#[test]
fn probe_here_leaves_project_unchanged() {
    on_loopback(&[Cli::Claude], || {
        let project =
            ProbeProject::new(&[("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n")]);
        let context =
            project.probe(Cli::Claude, &["--here", "--write", "src/**", "Fix it"]).expect_code(0).json();
        assert!(!crate::project::codes_of(&context).contains(&"context/changed"));
        let status = project.git(&["status", "--short", "--ignored"]);
        assert!(!status.contains("prompt.md") && !status.contains("settings.json"), "{status}");
    });
}

#[test]
fn doctor_compares_clis_with_their_files() {
    on_loopback(&[Cli::Claude, Cli::Codex], || {
        let project = ProbeProject::new(&[]);
        for cli in [Cli::Claude, Cli::Codex] {
            let mut command = project.command_with(&cli.program().unwrap());
            let found = run_command(command.args(["--json", "-q", "doctor", "--probe"])).json();
            let name = format!("{} request", cli.name());
            let item =
                found["items"].as_array().unwrap().iter().find(|item| item["name"] == name.as_str()).unwrap();
            assert_eq!(item["state"], "good", "{item}");
            assert!(item["detail"].as_str().unwrap().contains("AGENTS.md"), "{item}");
        }
        // A file that says something else is reported with the difference.
        let text =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/builtin/agents/codex.toml"))
                .unwrap();
        let wrong =
            text.replace("loads = [[\"AGENTS.override.md\", \"AGENTS.md\"]]", "loads = [\"CLAUDE.md\"]");
        assert_ne!(text, wrong);
        project.write_beside("home/.config/callsheet/agents/codex.toml", wrong);
        let mut command = project.command_with(&Cli::Codex.program().unwrap());
        let found = run_command(command.args(["--json", "-q", "doctor", "--probe"])).expect_code(1).json();
        let item =
            found["items"].as_array().unwrap().iter().find(|item| item["name"] == "codex request").unwrap();
        let hint = item["hints"][0].as_str().unwrap();
        assert!(
            hint.contains("it loads `CLAUDE.md`") && hint.contains("it does not load `AGENTS.md`"),
            "{item}"
        );
    });
}
