//! `context diff`: two versions of a CLI, two prompts, and a recorded probe with a new one.

use std::collections::BTreeMap;
use std::fs;

use callsheet_testing::{Cli, on_loopback, run_command};
use serde_json::Value;

use crate::project::{ProbeProject, assert_covered, codes_of};

const OLD: &str = "2.1.197";

/// Returns the texts of the parts by kind and name, in order.
fn texts_by_name(context: &Value) -> BTreeMap<(String, String), Vec<String>> {
    let mut texts: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for part in context["parts"].as_array().unwrap() {
        let word = |key: &str| part[key].as_str().unwrap().to_owned();
        texts.entry((word("kind"), word("name"))).or_default().push(word("text"));
    }
    texts
}

#[test]
fn versions_differ_in_exactly_these_parts() {
    on_loopback(&[Cli::Claude], || {
        let project =
            ProbeProject::new(&[("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n")]);
        let mut contexts = Vec::new();
        for version in [OLD, Cli::Claude.version()] {
            let program = Cli::Claude.program_of(version).unwrap();
            let mut command = project.command_with(&program);
            command.args([
                "--json",
                "-q",
                "context",
                "--isolated",
                "--full",
                "-a",
                "claude",
                "Fix the timeout",
            ]);
            let output = run_command(&mut command).expect_code(0);
            let context = output.json();
            assert_covered(&context);
            assert!(context["version"].as_str().unwrap().contains(version));
            project.write_beside(&format!("{version}.json"), output.out());
            contexts.push(context);
        }
        let files = [OLD, Cli::Claude.version()].map(|version| project.beside(&format!("{version}.json")));
        let args = files.each_ref().map(|path| path.to_str().unwrap());
        let diff = project.run(["--json", "context", "diff", args[0], args[1]]).expect_code(1).json();
        let [before, after] = [0, 1].map(|at| texts_by_name(&contexts[at]));
        let names: Vec<(String, String)> = before.keys().chain(after.keys()).cloned().collect();
        for name in names {
            let differs =
                diff["parts"].as_array().unwrap().iter().any(|part| {
                    (part["kind"].as_str(), part["name"].as_str()) == (Some(&name.0), Some(&name.1))
                });
            let [mut old, mut new] =
                [before.get(&name), after.get(&name)].map(|texts| texts.cloned().unwrap_or_default());
            old.sort();
            new.sort();
            assert_eq!(differs, old != new, "{name:?}");
        }
        // The newer version loads AGENTS.md, the older one does not.
        let loaded =
            diff["parts"].as_array().unwrap().iter().find(|part| part["kind"] == "instructions").unwrap();
        assert_eq!((&loaded["bytes_before"], loaded["name"].as_str()), (&Value::Null, Some("AGENTS.md")));
        let same = project.run(["--json", "context", "diff", args[0], args[0]]).expect_code(0).json();
        assert_eq!(same["parts"].as_array().unwrap().len(), 0);
    });
}

/// The prompt was composed for a version that does not load the file; the installed one does.
#[test]
fn file_paid_twice_is_named() {
    on_loopback(&[Cli::Claude], || {
        let project =
            ProbeProject::new(&[("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n")]);
        let layers = |agent: &str| {
            let mut command = project.command_with(&Cli::Claude.program().unwrap());
            let args = [
                "--json",
                "-q",
                "context",
                "--isolated",
                "-r",
                "layers",
                "-f",
                "AGENTS.md",
                "-a",
                agent,
                "Go",
            ];
            run_command(command.args(args)).expect_code(0).json()
        };
        let context = layers("claude@2.1.200");
        assert!(codes_of(&context).contains(&"context/paid-twice"), "{}", context["diagnostics"]);
    });
}

#[test]
fn recorded_probe_meets_new_probe() {
    on_loopback(&[Cli::Codex], || {
        let project =
            ProbeProject::new(&[("AGENTS.md", "# Agents\n\nUse tabs in every file of this project.\n")]);
        let program = Cli::Codex.program().unwrap();
        let run = |args: &[&str]| run_command(project.command_with(&program).args(args));
        run(&["-q", "context", "diff", "last"]).expect_code(4);
        let args = ["--json", "-q", "context", "--isolated", "--record", "-a", "codex", "Fix the timeout"];
        let recorded = run(&args).expect_code(0).json();
        let id = recorded["run"].as_str().unwrap().to_owned();
        let records = run(&["--json", "show", "--records", &id]).expect_code(0).json();
        let kinds: Vec<&Value> =
            records["items"].as_array().unwrap().iter().map(|record| &record["kind"]).collect();
        assert_eq!(kinds, ["composed", "context"]);
        run(&["verify", &id]).expect_code(0);
        run(&["verify", "--all"]).expect_code(0);
        let page = fs::canonicalize(project.path()).unwrap().join("run.html");
        run(&["show", &id, "--html", page.to_str().unwrap()]).expect_code(0);
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("Request of the CLI") && page.contains("data-part=\"instructions\""));
        // Runs without a probe do not hide the newest one.
        run(&["-q", "compose", "--record", "Something else"]).expect_code(0);
        // Ids of the request and of the session are no difference.
        let diff = run(&["--json", "context", "diff", "last"]).json();
        assert!(diff["equal_count"].as_u64() > Some(10), "{diff}");
        // Codex writes the keys of its metadata in any order.
        assert!(diff["parts"].as_array().unwrap().iter().all(|part| part["kind"] == "other"), "{diff}");
        project.write("AGENTS.md", "# Agents\n\nUse blanks in every file of this project.\n");
        let diff = run(&["--json", "context", "diff", "last"]).expect_code(1).json();
        let changed: Vec<&Value> =
            diff["parts"].as_array().unwrap().iter().filter(|part| part["kind"] == "instructions").collect();
        assert_eq!(changed.len(), 1);
        let lines = changed[0]["lines"].as_array().unwrap();
        assert_eq!(lines[1]["line"], "Use blanks in every file of this project.");
    });
}
