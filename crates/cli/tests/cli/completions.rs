//! Tests the completion of values by driving bash, and by the protocol of the other shells.

use std::process::Command;
use std::time::{Duration, Instant};

use callsheet_testing::{TestProject, callsheet_program, run_command};

use crate::ledger::{create_project, record};

/// Returns the candidates that bash shows for a command line, whose last word is at the cursor.
fn complete(project: &TestProject, words: &[&str]) -> Vec<String> {
    let program = callsheet_program();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    // bash has the words as it splits them: `=` and `:` are words of their own.
    let script = format!(
        "set -u; source <({0} completions bash); COMP_WORDS=({0} {1}); COMP_CWORD={2}; _callsheet; \
         for word in \"${{COMPREPLY[@]+${{COMPREPLY[@]}}}}\"; do printf '%s\\n' \"$word\"; done",
        program.display(),
        quoted.join(" "),
        words.len()
    );
    let own = project.command();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", &script]).current_dir(project.path()).env_clear();
    bash.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = run_command(&mut bash);
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""), "{words:?}");
    output.out().lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_names_of_project() {
    let project = create_project();
    let run = record(&project, "T-7");
    project.write(".callsheet/flows/own.toml", "");
    project.write(".callsheet/agents/mine.toml", "name = \"Mine\"\n");
    for (words, expected) in [
        (&["show", "la"][..], &["last"][..]),
        (&["show", ""], &["last", "r1"]),
        (&["show", "r"], &["r1"]),
        (&["show", &run[..6]], &[run.as_str()]),
        (&["diff", "last", &run[..6]], &[run.as_str()]),
        (&["verify", "last", &run[..6]], &[run.as_str()]),
        (&["status", "T"], &["T-7"]),
        (&["log", "--task", "="], &["T-7"]),
        (&["run", "--agent", "co"], &["codex", "copilot"]),
        (&["run", "-a", "m"], &["mine"]),
        (&["run", "--agent", "=", "cl"], &["claude"]),
        (&["run", "-qa", "op"], &["opencode"]),
        (&["compose", "--role", "re"], &["reviewer"]),
        (&["compose", "-p", "ch"], &["challenge"]),
        (&["compose", "--recipe", ""], &["layers", "run", "staged", "unified"]),
        (&["flow", "start", "s"], &["sdd", "staged"]),
        (&["flow", "start", "o"], &["own"]),
        (&["flow", "start", "sdd", "--agent-for", "pl"], &["plan"]),
        (&["flow", "start", "sdd", "--agent-for", "plan", "=", "cl"], &["claude"]),
        (&["templates", "show", "system/BASE-p"], &["system/BASE-plan"]),
        (&["templates", "sh"], &["show"]),
        (&["templ"], &["templates"]),
        (&["run", "--permit", "a"], &["ask", "all"]),
        (&["log", "--unt"], &["--until"]),
        (&["run", "--", "x"], &[]),
        (&["nothing", "x"], &[]),
        (&["show", "--nothing", "="], &[]),
    ] {
        assert_eq!(complete(&project, words), expected, "{words:?}");
    }
}

/// Other shells pass words as they are typed, and show a few words about each value.
#[test]
fn protocol_tells_values_with_words() {
    let project = create_project();
    let run = record(&project, "T-7");
    let ask = |words: &[&str]| {
        let index = words.len().to_string();
        let words = [&["__complete", "fish", &index, "callsheet"], words].concat();
        let output = project.run(words).expect_code(0);
        assert_eq!(output.err(), "");
        output.out()
    };
    let found = ask(&["show", &run[..6]]);
    assert!(found.starts_with(&format!("{run}\tT-7 claude composed only 20")), "{found}");
    assert_eq!(ask(&["run", "--agent=cl"]), "--agent=claude\t\n");
    assert_eq!(ask(&["compose", "--file", "x"]), ":files\n");
    assert_eq!(ask(&["flow", "st"]).lines().filter(|line| line.starts_with("st")).count(), 3);
}

/// A cloned repository and its ledger can hold any name; none of them may become a command or break the shell.
#[test]
fn hostile_names_are_not_completed() {
    let project = create_project();
    for task in ["T-1", "$(touch owned)", "a;b", "x y"] {
        record(&project, task);
    }
    project.write(".callsheet/agents/a$(touch owned).toml", "name = \"x\"\n");
    assert_eq!(complete(&project, &["log", "--task", ""]), ["T-1"]);
    assert_eq!(complete(&project, &["run", "-a", "a"]), [""; 0]);
    assert!(!project.path().join("owned").exists());
}

#[test]
fn completion_is_silent_without_project() {
    let project = TestProject::new();
    project.write(".callsheet/config.toml", "this is not toml\nledger = \"postgres://x@127.0.0.1:1/x\"\n");
    for words in [&["show", ""][..], &["run", "-C", "/nowhere", "-a", ""], &["status", ""]] {
        assert_eq!(complete(&project, words), [""; 0], "{words:?}");
    }
    let begun = Instant::now();
    assert_eq!(complete(&project, &["run", "-a", "cla"]), ["claude"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(!project.ledger().exists());
}
