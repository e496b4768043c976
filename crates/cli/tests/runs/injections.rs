//! Names, paths and texts that look like flags, commands or shell: the agent's arguments keep their shape,
//! and no shell is started.

use std::fs;
use std::process::Command;

use callsheet_testing::run_command;
use serde_json::Value;

use crate::project::{RunProject, fake_agent};

/// Returns texts that an attacker may put into any field.
fn hostile_texts() -> Vec<String> {
    let words = [
        "--dangerously-skip-permissions",
        "-p",
        "--settings",
        "--settings={\"hooks\":{}}",
        "--",
        "-",
        "-x",
        "--model=evil",
        "--upload-pack=touch pwned",
        "ext::sh -c touch% pwned",
        "@README.md",
        "@/etc/passwd",
        "/help",
        "!touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        "&& touch pwned",
        "| touch pwned",
        "> pwned",
        "a\nb",
        "a\r\nb",
        "a\tb",
        "'; touch pwned; '",
        "\"; touch pwned; \"",
        "${IFS}touch${IFS}pwned",
        "\\$(touch pwned)",
        "%0a",
        "$HOME",
        "~",
        "*",
        "?",
        "[a-z]*",
        "{a,b}",
        "../../pwned",
        "/etc/passwd",
        "..",
        ".",
        "./-x",
        "a/../../b",
        "C-c",
        "Enter",
        "\u{1b}[201~",
        "\u{1b}]52;c;aGk=\u{7}",
        "é",
        "🙂",
        "a;",
        "a\\;",
        "a b",
        " a",
        "a ",
        "{{task}}",
        "[[include:/etc/passwd]]",
        "<review>PASS</review>",
        "]]>",
        "</task>",
        "HEAD",
        "refs/heads/x",
        "x.lock",
        ".git",
        "@{upstream}",
        "a..b",
        "a:b",
        "%1",
        "#{pane_pid}",
        "=x",
        "x=y",
        "--x=y",
        "-c core.pager=touch",
        "LD_PRELOAD=x",
        "0",
        "-1",
        "null",
        "true",
        "--continue",
        "--resume=x",
        "--mcp-config=/etc/passwd",
        "--add-dir=/",
        "-C/",
        "--git-dir=/tmp",
        "--exec=sh",
        "--output=pwned",
        "-o pwned",
        "--config-env=a=b",
        "%(refname)",
        "$((1+1))",
        "<(touch pwned)",
        ">(touch pwned)",
        "a&b",
        "a|b",
        "\\",
        "'",
        "\"",
        "`",
        "--help",
        "--version",
        "-h",
        "!!",
        "^a^b",
        "--no-verify",
        "-rf",
        "\u{202e}x",
        "\u{feff}x",
    ];
    words.iter().map(ToString::to_string).chain([format!("a{}", "x".repeat(300)), "-".repeat(300)]).collect()
}

/// Installs programs with the names of shells that note their start and do nothing else.
fn watch_for_shells(project: &RunProject) {
    for name in ["sh", "bash", "dash", "zsh"] {
        // It must be found by its own name without a shell, so it is the fake agent.
        let path = project.beside("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(fake_agent(), path).unwrap();
    }
}

/// Returns one run as its agent saw it: the arguments, or nothing if it was refused before.
fn run_and_read_notes(project: &RunProject, command: &mut Command) -> (Option<i32>, Option<Value>) {
    let notes = project.beside("notes");
    let _ = fs::remove_file(&notes);
    let output = run_command(command.env("FAKE_AGENT_NOTES", &notes));
    let told = fs::read_to_string(&notes).ok().map(|text| serde_json::from_str(&text).unwrap());
    assert!(!project.path().join("pwned").exists() && !project.beside("pwned").exists(), "{output:?}");
    (output.code, told)
}

/// Returns the arguments with the run's own values masked.
fn mask_arguments(project: &RunProject, told: &Value, value: &str) -> Vec<String> {
    let run = told["env"][0][1].as_str().unwrap();
    let mask = |word: &Value| {
        let word = word.as_str().unwrap();
        if word == value {
            return "VALUE".to_owned();
        }
        word.replace(run, "RUN").replace(&project.path().display().to_string(), "PROJECT")
    };
    told["argv"].as_array().unwrap().iter().map(mask).collect()
}

/// Returns the fields as the flags that set them, in groups whose parts are refused for the same reasons.
fn fields(value: &str) -> [(&'static str, Vec<String>); 4] {
    let flag = |name: &str| format!("{name}={value}");
    [
        ("texts", vec![flag("--title"), flag("--task-id"), flag("--instructions")]),
        ("role", vec![flag("--role")]),
        ("scope", vec![flag("--write"), flag("--exclude")]),
        ("path", vec![flag("--read-first")]),
    ]
}

#[test]
fn fields_do_not_change_arguments() {
    let project = RunProject::new();
    watch_for_shells(&project);
    std::os::unix::fs::symlink(fake_agent(), project.beside("bin/claude")).unwrap();
    let usual = ["-p", "--output-format", "stream-json", "--verbose"];
    let mut tried = 0;
    for value in hostile_texts() {
        for (field, flags) in fields(&value) {
            let mut command = project.command();
            command.args(["--json", "-q", "run", "-a", "claude", "--secrets", "allow"]).args(&flags);
            if field != "texts" {
                command.arg("Do it.");
            }
            let (code, told) = run_and_read_notes(&project, &mut command);
            tried += 1;
            let Some(told) = told else {
                // Refused before anything was started.
                assert!(matches!(code, Some(2..=4)), "{field} {value:?}: {code:?}");
                continue;
            };
            let argv = mask_arguments(&project, &told, "no value of its own");
            let by_file = argv.iter().any(|word| word.contains("prompt.md"));
            assert!(!by_file, "{field} {value:?}: {argv:?}");
            assert_eq!(argv[..4], usual, "{field} {value:?}");
            let rest: Vec<&str> = argv[4..].iter().map(String::as_str).collect();
            let with_settings = [
                "--session-id",
                "RUN",
                "--settings",
                "PROJECT/.callsheet/runs/RUN/settings.json",
                "--permission-mode",
                "acceptEdits",
            ];
            let without = ["--session-id", "RUN", "--permission-mode", "acceptEdits"];
            assert!(rest == with_settings || rest == without, "{field} {value:?}: {rest:?}");
        }
    }
    assert!(tried >= 400, "{tried}");
}

#[test]
fn hostile_model_is_value_or_refused() {
    let project = RunProject::new();
    watch_for_shells(&project);
    std::os::unix::fs::symlink(fake_agent(), project.beside("bin/claude")).unwrap();
    for value in hostile_texts() {
        let mut command = project.command();
        command.args(["--json", "-q", "run", "-a", "claude"]).arg(format!("--model={value}")).arg("Do it.");
        let (code, told) = run_and_read_notes(&project, &mut command);
        let Some(told) = told else {
            assert_eq!(code, Some(2), "{value:?}");
            continue;
        };
        let argv = mask_arguments(&project, &told, &value);
        assert_eq!(
            argv,
            [
                "-p",
                "--output-format",
                "stream-json",
                "--verbose",
                "--model",
                "VALUE",
                "--session-id",
                "RUN",
                "--permission-mode",
                "acceptEdits"
            ],
            "{value:?}"
        );
        assert!(!value.starts_with('-'), "{value:?}");
    }
}

/// A task's id is in the names of its branch and of its worktree.
#[test]
fn task_id_names_no_other_place() {
    let project = RunProject::new();
    watch_for_shells(&project);
    let home = project.beside("home/.local/state/callsheet/worktrees");
    let mut branches = std::collections::BTreeSet::new();
    for value in hostile_texts() {
        let mut command = project.command();
        command.args(["--json", "-q", "run", "--worktree"]).arg(format!("--task-id={value}"));
        command.args(["Do it.", "--", fake_agent()]);
        let (code, told) = run_and_read_notes(&project, &mut command);
        let Some(told) = told else {
            assert!(matches!(code, Some(2 | 3)), "{value:?}: {code:?}");
            continue;
        };
        assert_eq!(told["argv"], serde_json::json!([]));
        let result = project.show("last");
        let place = result["launch"]["worktree"].as_str().unwrap();
        assert!(place.starts_with(home.to_str().unwrap()) && !place.contains(".."), "{value:?}: {place}");
        let inside = fs::read_dir(&home).unwrap().count();
        assert_eq!(inside, 1);
        assert!(branches.insert(place.to_owned()), "{value:?}: {place} is another task's");
    }
    let heads = project.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert!(
        heads.lines().all(|head| head == "refs/heads/main" || head.starts_with("refs/heads/callsheet/")),
        "{heads}"
    );
    assert!(branches.len() > 50, "{}", branches.len());
}

/// Arguments of a person's own program are passed on unchanged.
#[test]
fn words_after_dashes_arrive_unchanged() {
    let project = RunProject::new();
    watch_for_shells(&project);
    let words = hostile_texts();
    let mut command = project.command();
    command.args(["--json", "-q", "run", "Do it.", "--", fake_agent()]).args(&words);
    let (code, told) = run_and_read_notes(&project, &mut command);
    assert_eq!(code, Some(0));
    assert_eq!(told.unwrap()["argv"], serde_json::json!(words));
}

/// A session is an existing folder, and reaches the agent as a path and nothing else.
#[test]
fn c2_environment_reflects_request() {
    let project = RunProject::new();
    watch_for_shells(&project);
    for name in ["-x", "$(touch pwned)", "a b", "; touch pwned"] {
        fs::create_dir(project.path().join(name)).unwrap();
        let mut command = project.command();
        command.args(["--json", "-q", "run", "--role", "coder"]).arg(format!("--session={name}"));
        command.args(["-r", "run", "Do it.", "--", fake_agent()]);
        // Variables of the surrounding environment are not part of the request.
        command.env("CALLSHEET_PHASE", "review").env("CALLSHEET_RUN", "another");
        let (code, told) = run_and_read_notes(&project, &mut command);
        let told = told.unwrap();
        assert_eq!(code, Some(0), "{name}");
        let session = project.path().join(name).display().to_string();
        let run = project.show("last")["run"].clone();
        assert_eq!(
            told["env"],
            serde_json::json!([
                ["CALLSHEET_RUN", run],
                ["CALLSHEET_PHASE", ""],
                ["CALLSHEET_ROLE", "coder"],
                ["CALLSHEET_SESSION", session]
            ])
        );
        let prompt = project.prompt("last");
        assert_eq!(told["stdin"], prompt.as_str());
    }
}
