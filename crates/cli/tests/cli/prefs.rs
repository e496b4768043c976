//! Tests preferences on the command line.

use std::process::Stdio;

use callsheet_testing::{CommandOutput, TestProject};
use serde_json::json;

const FILE: &str = ".callsheet/prompts/agents/coder.md";

fn quiet(code: i32, err: &str) -> CommandOutput {
    CommandOutput::new(code, "", err)
}

#[test]
fn m6_preference_enters_prompts_until_removed() {
    let project = TestProject::new();
    project.write(FILE, "Be kind.\n\n## Tools\n\n- just\n");
    let prompt = |project: &TestProject| {
        let output = project.run(["compose", "-r", "staged", "--role", "designer", "--missing", "empty"]);
        output.out()
    };
    project.write("context.md", "c");
    project.write("04_planning/plan.md", "p");
    let before = prompt(&project);
    assert_eq!(
        project.run(["prefs", "add", "designer", "* **Bold**  colours"]),
        quiet(0, "added to .callsheet/prompts/agents/designer.md\n")
    );
    let after = prompt(&project);
    let section = "## Approved Preferences\n\n- **Bold** colours\n";
    assert_eq!(after.matches(section).count(), 1, "{after}");
    assert_eq!(before.matches("Approved").count() + 1, after.matches("Approved").count());

    assert_eq!(project.run(["prefs", "add", "coder", "Small commits"]).code, Some(0));
    assert_eq!(
        project.read(FILE),
        "Be kind.\n\n## Tools\n\n- just\n\n## Approved Preferences\n\n- Small commits\n"
    );
    assert_eq!(
        project.run(["prefs", "add", "coder", "+ JUST"]),
        quiet(0, &format!("{FILE} already has it\n"))
    );
    assert_eq!(project.run(["prefs", "list"]).out(), "coder: Small commits\ndesigner: **Bold** colours\n");
    assert_eq!(
        project.run(["prefs", "list", "--json"]).json()["items"],
        json!([{ "role": "coder", "text": "Small commits" }, { "role": "designer", "text": "**Bold** colours" }])
    );
    assert_eq!(project.run(["prefs", "list", "coder"]).out(), "coder: Small commits\n");

    assert_eq!(
        project.run(["prefs", "remove", "coder", "small COMMITS"]),
        quiet(0, &format!("removed from {FILE}\n"))
    );
    assert_eq!(project.read(FILE), "Be kind.\n\n## Tools\n\n- just\n");
    assert_eq!(
        project.run(["prefs", "remove", "coder", "just"]),
        quiet(1, &format!("{FILE} has no such preference\n"))
    );
    assert_eq!(project.run(["prefs", "remove", "designer", "**Bold** colours"]).code, Some(0));
    assert_eq!(prompt(&project), before);
}

#[test]
fn leading_bullet_is_not_an_option() {
    let project = TestProject::new();
    let output = project.run(["prefs", "add", "coder", "- Small commits", "--json"]);
    let preference = json!([{ "role": "coder", "text": "Small commits" }]);
    assert_eq!((output.code, &output.json()["added"]), (Some(0), &preference));
    let output = project.run(["prefs", "remove", "--json", "coder", "-  small commits"]);
    assert_eq!((output.code, &output.json()["removed"]), (Some(0), &preference));
}

#[test]
fn unknown_roles_and_paths_are_refused() {
    let project = TestProject::new();
    let roles =
        "architect, code-researcher, coder, designer, planner, product-manager, reviewer, web-researcher";
    for role in ["../../evil", "codr", "/etc/x", "."] {
        let hint = if role == "codr" { "  = hint: did you mean `coder`?\n" } else { "" };
        let expected =
            format!("error[PreferenceBad]: unknown role `{role}`\n{hint}  = hint: known roles: {roles}\n");
        assert_eq!(project.run(["prefs", "add", role, "x"]), quiet(2, &expected));
        assert_eq!(project.run(["prefs", "remove", role, "x"]), quiet(2, &expected));
    }
    project.write(".callsheet/templates/agents/tester.md", "Test.");
    assert_eq!(project.run(["prefs", "add", "tester", "x"]).code, Some(0));
}

#[test]
fn symlinked_folder_is_not_followed() {
    let project = TestProject::new();
    let outside = project.path().parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    project.write(".callsheet/config.toml", "");
    std::os::unix::fs::symlink(&outside, project.path().join(".callsheet/prompts")).unwrap();
    let output = project.run(["prefs", "add", "coder", "x"]);
    let why = "a part of it is a symbolic link or not a folder";
    let place = ".callsheet/prompts/agents";
    assert_eq!(output, quiet(70, &format!("error[OutputFailed]: cannot write `{place}`: {why}\n")));
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn concurrent_adds_store_each_preference_once() {
    let project = TestProject::new();
    // Eight preferences, each added by two processes that spell it differently.
    let wishes: Vec<String> = (0..16)
        .map(|nth| match nth % 4 {
            0 | 1 => format!("Wish {}", nth / 2),
            2 => format!("* WISH  {}", nth / 2),
            _ => format!("- wish {}", nth / 2),
        })
        .collect();
    let children: Vec<_> = wishes
        .iter()
        .map(|wish| {
            let mut command = project.command();
            command.args(["prefs", "add", "coder", wish]).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = project.read(FILE);
    let mut lines: Vec<String> = text.lines().skip(2).map(str::to_lowercase).collect();
    lines.sort();
    assert_eq!(text.lines().take(2).collect::<Vec<_>>(), ["## Approved Preferences", ""]);
    assert_eq!(lines, (0..8).map(|nth| format!("- wish {nth}")).collect::<Vec<_>>());
    let folder = project.path().join(".callsheet/prompts/agents");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}
