//! Tests `demo`: its evidence, its folder, and the agent that acts on its prompts alone.

use std::fs;
use std::path::Path;

use callsheet_testing::{CommandOutput, TestProject, on_loopback, run_command, run_with_input};
use serde_json::{Value, json};

/// Returns a project with a folder for temporary files beside it.
fn demo_project() -> TestProject {
    let project = TestProject::new();
    let temporary = project.beside("tmp");
    fs::create_dir(&temporary).unwrap();
    project.with_variable("TMPDIR", temporary)
}

fn list_names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Returns the lines of the outputs that are evidence, without ids and durations.
fn evidence(out: &str) -> Vec<&str> {
    let starts = ["violation ", "check ", "changed ", "(exit code ", "document ", "phase ", "prompts "];
    let lines = out.lines().filter_map(|line| line.strip_prefix("  ")).map(str::trim_start);
    let lines = lines.filter(|line| starts.iter().any(|start| line.starts_with(start)));
    lines
        .map(|line| {
            line.strip_suffix(" ms)").and_then(|line| line.rsplit_once(" (")).map_or(line, |(line, _)| line)
        })
        .collect()
}

#[test]
fn demo_works_offline_in_empty_home() {
    on_loopback(&[], || {
        let project = demo_project();
        let output = project.run(["demo"]);
        assert_eq!((output.code, output.err()), (Some(0), String::new()));
        assert_eq!(
            evidence(&output.out()),
            [
                "changed    2 files, +2 -0",
                "violation  NOTES.md (pending)",
                "check      whitespace failed: `git diff --check`, exit code 2",
                "(exit code 5)",
                "changed    1 file, +1 -1",
                "check      whitespace passed",
                "document list-every-line-of-src-greetings-txt-in  done",
                "phase      review, round 2",
                "prompts composed again, the same bytes: 6",
            ]
        );
        for line in [
            "a scripted agent stands in for a model",
            "  reject: NOTES.md\n",
            "  Done. The check passes, and I changed nothing else.",
            "  - `whitespace`: failed. The last lines that it printed:",
            "  - `NOTES.md`: outside the write scope, approval rejected",
        ] {
            assert!(output.out().contains(line), "{line}: {}", output.out());
        }
        // The home, the project and the folder for temporary files are as they were.
        for folder in ["home", "project", "tmp"] {
            assert_eq!(list_names(&project.beside(folder)), [""; 0], "{folder}");
        }
        project.assert_no_process_left();
    });
}

#[test]
fn demo_json_has_all_steps() {
    let project = demo_project();
    let output = project.run(["--json", "demo"]);
    assert_eq!((output.code, output.err()), (Some(0), String::new()));
    let demo = output.json();
    assert_eq!(demo["directory"], Value::Null);
    let steps = demo["items"].as_array().unwrap();
    let commands = steps.iter().map(|step| {
        let words: Vec<&str> = step["command"].as_str().unwrap().split(' ').take(2).collect();
        (words.join(" "), step["exit_code"].as_i64().unwrap())
    });
    let wanted = [
        ("callsheet explain", 0),
        ("callsheet run", 5),
        ("callsheet show", 0),
        ("callsheet decide", 0),
        ("git clean", 0),
        ("callsheet retry", 0),
        ("callsheet show", 0),
        ("callsheet flow", 0),
        ("callsheet verify", 0),
    ];
    assert_eq!(commands.collect::<Vec<_>>(), wanted.map(|(command, code)| (command.to_owned(), code)));
    // A step without a title of its own has that of the step before it.
    assert_eq!(steps[3]["title"], steps[4]["title"]);
    assert!(steps.iter().all(|step| step["title"] != json!("") && step["output"].is_string()));
    // The program shows a part of this output, which is whole here.
    assert!(steps[0]["output"].as_str().unwrap().contains("## Output Format"));
}

/// Runs callsheet in a kept demo, with the variables that the demo names.
fn run_kept(project: &TestProject, args: &[&str]) -> CommandOutput {
    let kept = project.beside("kept");
    let mut command = project.command();
    command.current_dir(kept.join("project")).args(args);
    command.env("XDG_CONFIG_HOME", kept.join("config")).env("XDG_STATE_HOME", kept.join("state"));
    run_command(&mut command)
}

#[test]
fn kept_demo_can_be_continued() {
    let project = demo_project();
    fs::create_dir(project.beside("kept")).unwrap();
    let output = project.run(["demo", "--keep", "../kept"]);
    assert_eq!((output.code, output.err()), (Some(0), String::new()));
    let kept = project.beside("kept").display().to_string();
    let way_back = format!(
        "  cd {kept}/project\n  export XDG_CONFIG_HOME={kept}/config XDG_STATE_HOME={kept}/state\n  callsheet log\n"
    );
    assert!(output.out().ends_with(&way_back), "{}", output.out());
    assert_eq!(list_names(&project.home()), [""; 0]);
    let log = run_kept(&project, &["log", "--json"]);
    let log_json = log.json();
    let runs = log_json["items"].as_array().unwrap();
    let verdicts: Vec<&Value> = runs.iter().map(|run| &run["verdict"]).collect();
    let (pass, changes, none) = (json!("PASS"), json!("NEEDS_CHANGES"), Value::Null);
    assert_eq!(verdicts, [&pass, &none, &changes, &none, &none, &none], "{}", log.out());
    assert_eq!(run_kept(&project, &["verify", "--all"]).code, Some(0));
    let check = run_kept(&project, &["check"]);
    assert_eq!(check.code, Some(0), "{}{}", check.out(), check.err());
    let written = fs::read_to_string(project.beside("kept/project/docs/greetings.md")).unwrap();
    assert_eq!(written, "# Greetings\n\n- Hello, world\n- Goodbye, world\n");
    let greetings = fs::read_to_string(project.beside("kept/project/src/greetings.txt")).unwrap();
    assert_eq!(greetings, "Hello, world\nGoodbye, world\n");
    assert!(!project.beside("kept/project/NOTES.md").exists());

    let refused = project.run(["demo", "--keep", "../kept"]);
    assert_eq!(
        (refused.code, refused.out(), refused.err().as_str()),
        (
            Some(2),
            String::new(),
            "error[UsageBad]: `../kept` is not empty\n  = hint: name an empty or a new directory\n"
        )
    );
}

#[test]
fn failed_step_keeps_folder() {
    let project = demo_project();
    project
        .write_program("git", "#!/bin/sh\n[ \"$1\" = clean ] && exit 9\nPATH=${PATH#*:} exec git \"$@\"\n");
    let output = project.run(["--color", "never", "demo"]);
    assert_eq!(output.code, Some(70));
    let kept = list_names(&project.beside("tmp"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(
        output.err(),
        format!(
            "error[OutputFailed]: the demo failed at `git clean -f NOTES.md`: exit code 9 instead of exit code 0\n  \
             = hint: its files are kept in {}\n",
            project.beside("tmp").join(&kept[0]).display()
        )
    );
}

#[test]
fn demo_without_git_leaves_nothing() {
    let project = demo_project();
    let output = run_command(project.command().arg("demo").env("PATH", project.beside("bin")));
    assert_eq!(output.code, Some(4), "{}", output.err());
    assert!(output.err().ends_with("  = hint: the demo needs only git: install it\n"), "{}", output.err());
    assert_eq!(list_names(&project.beside("tmp")), [""; 0]);
}

const TASK: &str = "## Task\n\nAdd the line `bye` to `a.txt`.\n\n## Workspace\n";

/// Runs the scripted agent with a prompt, and returns the text of `a.txt` and whether it wrote notes.
fn act(project: &TestProject, prompt: &str) -> (String, bool) {
    let output = run_with_input(project.command().arg("__demo-agent"), prompt.as_bytes());
    assert_eq!((output.code, output.err()), (Some(0), String::new()));
    (project.read("a.txt"), project.path().join("NOTES.md").exists())
}

#[test]
fn agent_acts_on_prompt_alone() {
    let whitespace = format!("{TASK}\n<output>\na.txt:2: trailing whitespace.\n+bye\n</output>\n");
    let scope = format!("{TASK}\n- `NOTES.md`: outside the write scope, approval pending\n");
    for (prompt, text, has_notes) in [
        (TASK, "hi\nbye  \n", true),
        (&whitespace, "hi\nbye\n", true),
        (&scope, "hi\nbye  \n", false),
        (&format!("{whitespace}{}", scope.replace(TASK, "")), "hi\nbye\n", false),
    ] {
        let project = TestProject::new();
        project.write("a.txt", "hi\n");
        // A second attempt with the same prompt is no better.
        assert_eq!(act(&project, prompt), (text.to_owned(), has_notes), "{prompt}");
        assert_eq!(act(&project, prompt), (text.to_owned(), has_notes), "{prompt}");
    }
}
