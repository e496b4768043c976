//! Tests the messages of the gate and the fate of a secret in each mode. This file contains no secret: the
//! tests assemble them at run time.

use std::fs;

use callsheet_testing::{CommandOutput, TestProject, run_command};
use serde_json::{Value, json};

/// Returns a token in GitHub's format.
fn token() -> String {
    ["ghp", "_", "wJ4kP0sXq9Z", "bT7mV2cR5nY", "8fL1dG6hK3aQu0"].concat()
}

const STARS: &str = "****************************************";

/// Creates a project with a system template of one word and a file that contains a token.
fn create_project() -> TestProject {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-plan.md", "Plan.");
    project.write("notes.txt", format!("first\nlogin: {}\n", token()));
    project
}

const ASK: [&str; 5] = ["-p", "plan", "-f", "notes.txt", "Go."];

fn run(project: &TestProject, args: &[&str]) -> CommandOutput {
    project.run(args.iter().chain(&ASK))
}

fn prompt(notes: &str) -> String {
    format!(
        "<prompt><system_prompt>Plan.</system_prompt><context><file path=\"notes.txt\">first\nlogin: {notes}\n</file></context>\
         <instructions>Go.</instructions></prompt>"
    )
}

fn expected_diagnostic(severity: &str, more: &str, hint: &str) -> String {
    format!(
        "{severity}[SecretFound]: a token of GitHub (github-token){more}\n  ┌─ project:notes.txt:2:8\n2 │ login: {STARS}\n  │        {}\n{hint}",
        STARS.replace('*', "^"),
    )
}

const WARN_HINT: &str = "  = hint: add `--secrets redact` to replace it by a placeholder, or `--secrets refuse` to compose nothing\n";

#[test]
fn every_mode_handles_found_secret() {
    let project = create_project();
    let warned = CommandOutput::new(0, prompt(&token()), expected_diagnostic("warning", "", WARN_HINT));
    assert_eq!(run(&project, &["compose"]), warned);
    assert_eq!(run(&project, &["compose", "--secrets", "warn"]), warned);
    let hint = "  = hint: add `--secrets redact` to replace it by a placeholder, or `--secrets allow` to let it through; give a secret \
                that the agent needs with `--set-secret`\n";
    let refused = CommandOutput::new(9, "", expected_diagnostic("error", "", hint));
    assert_eq!(run(&project, &["compose", "--secrets", "refuse"]), refused);
    let placeholder = "[secret:github-token:1]";
    let err = expected_diagnostic("warning", &format!(": replaced by `{placeholder}`"), "");
    let redacted = CommandOutput::new(0, prompt(placeholder), err);
    assert_eq!(run(&project, &["compose", "--secrets", "redact"]), redacted);
    // `allow` does not scan a prompt for standard output; it reports secrets in recorded prompts and files.
    let allowed = CommandOutput::new(0, prompt(&token()), "");
    assert_eq!(run(&project, &["compose", "--secrets", "allow"]), allowed);
    let told = CommandOutput::new(0, "", expected_diagnostic("warning", ": let through", ""));
    assert_eq!(run(&project, &["compose", "--secrets", "allow", "--out", "prompt.xml"]), told);
}

#[test]
fn json_lists_found_secrets() {
    let project = create_project();
    let secrets =
        |mode: &str| run(&project, &["compose", "--json", "--secrets", mode]).json()["secrets"].take();
    let place = json!({ "file": "project:notes.txt", "line": 2, "column": 8 });
    let found = json!({ "rule": "github-token", "place": place, "placeholder": null });
    assert_eq!(secrets("allow"), json!({ "mode": "allow", "found": [found] }));
    let mut redacted = found;
    redacted["placeholder"] = "[secret:github-token:1]".into();
    assert_eq!(secrets("redact"), json!({ "mode": "redact", "found": [redacted] }));
    let clean = project.run(["compose", "--json", "-p", "plan", "Go."]).json()["secrets"].take();
    assert_eq!(clean, json!({ "mode": "warn", "found": [] }));
}

#[test]
fn explain_masks_secret_and_keeps_ranges() {
    let project = create_project();
    let explained = run(&project, &["explain", "--json"]).json();
    assert_eq!(explained["text"], prompt(STARS));
    let last = explained["origins"].as_array().unwrap().last().unwrap();
    assert_eq!(last["end"], prompt(&token()).len());
}

#[test]
fn equal_secrets_share_placeholder() {
    let project = create_project();
    let other = token().replace("wJ4k", "Zq7c");
    let text = format!("{} {other} {}", token(), token());
    let composed =
        project.run(["compose", "--secrets", "redact", "-q", "-p", "plan", "-f", "notes.txt", &text]);
    let wanted = prompt("[secret:github-token:1]")
        .replace("Go.", "[secret:github-token:1] [secret:github-token:2] [secret:github-token:1]");
    assert_eq!(composed, CommandOutput::new(0, wanted, ""));
}

/// Neither the template nor the value alone is a secret.
#[test]
fn secret_across_two_pieces_is_found() {
    let project = TestProject::new();
    let half = token()[..20].to_string();
    project.write(".callsheet/templates/system/BASE-plan.md", format!("Log in with {half}{{{{rest}}}} now."));
    let value = format!("rest={}", &token()[20..]);
    let run = |mode: &str| project.run(["compose", "--secrets", mode, "-p", "plan", "--set", &value, "Go."]);
    let output = |severity: &str, more: &str| {
        format!(
            "{severity}[SecretFound]: a token of GitHub (github-token){more}: it arises in the finished prompt, where these \
             texts meet: project:.callsheet/templates/system/BASE-plan.md, value rest\n  ┌─ prompt:1:36\n1 │ \
             <prompt><system_prompt>Log in with {STARS} now.</system_prompt><instructions>Go.</instructions></promp\n  │ {}{}\n",
            " ".repeat(35),
            STARS.replace('*', "^"),
        )
    };
    let hint = "  = hint: remove it at its source\n";
    assert_eq!(run("redact"), CommandOutput::new(9, "", output("error", "") + hint));
    assert_eq!(run("refuse").code, Some(9));
    let whole = format!(
        "<prompt><system_prompt>Log in with {} now.</system_prompt><instructions>Go.</instructions></prompt>",
        token()
    );
    assert_eq!(run("warn"), CommandOutput::new(0, whole, output("warning", "") + WARN_HINT));
}

#[test]
fn secret_in_file_name_is_refused() {
    let project = create_project();
    let name = format!("{}.txt", token());
    project.write(&name, "text");
    let refused = project.run(["compose", "--secrets", "redact", "-p", "plan", "-f", &name, "Go."]);
    let message = "a token of GitHub (github-token): a name or path cannot be redacted";
    let err = format!(
        "error[SecretFound]: {message}\n  ┌─ request documents[0].path:1:1\n1 │ {STARS}.txt\n  │ {}\n",
        STARS.replace('*', "^")
    );
    assert_eq!((refused.code, refused.err().split("  = hint").next()), (Some(9), Some(err.as_str())));
}

#[test]
fn project_can_only_tighten_mode() {
    let project = create_project();
    let usual = run(&project, &["compose"]);
    for lax in ["allow", "warn"] {
        project.write(".callsheet/config.toml", format!("secrets = \"{lax}\"\n"));
        assert_eq!(run(&project, &["compose"]), usual, "{lax}");
    }
    let user = project.home().join(".config/callsheet");
    fs::create_dir_all(&user).unwrap();
    fs::write(user.join("config.toml"), "secrets = \"refuse\"\n").unwrap();
    assert_eq!(run(&project, &["compose"]).code, Some(9));
    fs::remove_file(user.join("config.toml")).unwrap();
    project.write(".callsheet/config.toml", "secrets = \"refuse\"\n");
    assert_eq!(run(&project, &["compose"]).code, Some(9));
    assert_eq!(run(&project, &["compose", "-q", "--secrets", "allow"]).out(), prompt(&token()));
    let by_variable =
        run_command(project.command().args(["compose", "-q"]).args(ASK).env("CALLSHEET_SECRETS", "allow"));
    assert_eq!(by_variable, CommandOutput::new(0, prompt(&token()), ""));
    let wrong = run_command(project.command().args(["compose"]).args(ASK).env("CALLSHEET_SECRETS", "never"));
    let err = "error[ConfigBad]: invalid CALLSHEET_SECRETS `never`: expected warn, refuse, redact or allow\n";
    assert_eq!(wrong, CommandOutput::new(3, "", err));
    fs::remove_file(project.path().join(".callsheet/config.toml")).unwrap();
    fs::write(user.join("config.toml"), "secrets = \"allow\"\n").unwrap();
    assert_eq!(
        run(&project, &["compose", "--out", "prompt.xml"]).err(),
        expected_diagnostic("warning", ": let through", "")
    );
}

#[test]
fn project_rules_only_add() {
    let project = create_project();
    let rule = "[[rule]]\nid = \"order-code\"\ndescription = \"an order code\"\nliterals = [\"ORD-\"]\npattern = 'ORD-[0-9]{8}'\n";
    project.write(".callsheet/secrets/providers.toml", rule);
    let ask = ["compose", "--secrets", "redact", "-q", "-p", "plan", "-f", "notes.txt", "ORD-12345678"];
    let wanted = prompt("[secret:github-token:2]").replace("Go.", "[secret:order-code:1]");
    assert_eq!(project.run(ask), CommandOutput::new(0, wanted, ""));
    project.write(".callsheet/secrets/providers.toml", "allow = ['.']\n");
    let err = "error[TrustRequired]: project:.callsheet/secrets/providers.toml: a project cannot declare text as not secret\n  = \
               hint: put `allow` into your own `secrets/` folder; a project's files can only add rules\n";
    assert_eq!(project.run(ask), CommandOutput::new(10, "", err));
}

/// A value marked as secret is inserted unchanged and appears in no other output.
#[test]
fn marked_value_appears_only_in_prompt() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-plan.md", "Log in with {{login}}.");
    project.write("login.txt", token());
    let whole = |login: &str| {
        format!(
            "<prompt><system_prompt>Log in with {login}.</system_prompt><instructions>Go.</instructions></prompt>"
        )
    };
    let ask = ["-p", "plan", "Go."];
    let delivered = CommandOutput::new(0, whole(&token()), "");
    let run = |more: &[&str]| project.run(more.iter().chain(&ask));
    let flag = ["compose", "--secrets", "refuse", "--set-secret", "login=login.txt"];
    assert_eq!(run(&flag), delivered);
    assert_eq!(project.run_with(&[&flag[..4], &["login=-"], &ask].concat(), token().as_bytes()), delivered);
    let mut by_variable = project.command();
    by_variable.args(["compose", "--secrets", "refuse", "--set-secret-env", "login=LOGIN"]).args(ask);
    assert_eq!(run_command(by_variable.env("LOGIN", token())), delivered);
    let request: Value = json!({ "phase": "plan", "instructions": "Go.", "values": { "login": token() }, "secret": ["login"] });
    project.write("request.json", request.to_string());
    assert_eq!(project.run(["compose", "--secrets", "refuse", "--request", "request.json"]), delivered);
    let explained = run(&["explain", "--json", "--set-secret", "login=login.txt"]);
    assert_eq!(
        (explained.json()["text"].as_str(), explained.err().as_str()),
        (Some(whole(STARS).as_str()), "")
    );
    let unset = project.run(["compose", "--set-secret-env", "login=LOGIN", "-p", "plan", "Go."]);
    let err = "error[InputNotFound]: the environment variable `LOGIN` is not set\n";
    assert_eq!(unset, CommandOutput::new(4, "", err));
    project
        .write("request.toml", "secret = [\"login\", \"model\"]\nphase = \"plan\"\ninstructions = \"Go.\"\n");
    let err = "error[RequestBad]: `login` cannot be marked as secret: the request has no such value\n\
               error[RequestBad]: `model` cannot be marked as secret: it becomes a field of request bodies\n";
    let refused = project.run(["compose", "--request", "request.toml"]);
    assert_eq!(refused, CommandOutput::new(2, "", err));
}

/// A diagnostic shows the line of the error, and that line may contain a key.
#[test]
fn errors_mask_secrets() {
    let project = TestProject::new();
    project.write("request.toml", format!("instructions = \"Log in with {}\n", token()));
    let refused = project.run(["compose", "--request", "request.toml"]);
    assert_eq!(
        (refused.code, refused.err().contains(&token()[..24]), refused.err().contains("****")),
        (Some(2), false, true)
    );
}
