//! Tests preferences on the command line.

use std::process::Stdio;

use serde_json::json;

use crate::world::{Said, World};

const FILE: &str = ".callsheet/prompts/agents/coder.md";

fn quiet(code: i32, err: &str) -> Said {
    Said { code, out: String::new(), err: err.to_owned() }
}

#[test]
fn m6_preference_enters_prompts_until_removed() {
    let world = World::new();
    world.write(FILE, "Be kind.\n\n## Tools\n\n- just\n");
    let prompt = |world: &World| {
        let said = world.run(["compose", "-r", "staged", "--role", "designer", "--missing", "empty"]);
        said.out
    };
    world.write("context.md", "c");
    world.write("04_planning/plan.md", "p");
    let before = prompt(&world);
    assert_eq!(
        world.run(["prefs", "add", "designer", "* **Bold**  colours"]),
        quiet(0, "added to .callsheet/prompts/agents/designer.md\n")
    );
    let after = prompt(&world);
    let section = "## Approved Preferences\n\n- **Bold** colours\n";
    assert_eq!(after.matches(section).count(), 1, "{after}");
    assert_eq!(before.matches("Approved").count() + 1, after.matches("Approved").count());

    assert_eq!(world.run(["prefs", "add", "coder", "Small commits"]).code, 0);
    assert_eq!(
        world.read(FILE),
        "Be kind.\n\n## Tools\n\n- just\n\n## Approved Preferences\n\n- Small commits\n"
    );
    assert_eq!(
        world.run(["prefs", "add", "coder", "+ JUST"]),
        quiet(0, &format!("{FILE} says so already\n"))
    );
    assert_eq!(world.run(["prefs", "list"]).out, "coder: Small commits\ndesigner: **Bold** colours\n");
    assert_eq!(
        world.run(["prefs", "list", "--json"]).json(),
        json!({ "coder": ["Small commits"], "designer": ["**Bold** colours"] })
    );
    assert_eq!(world.run(["prefs", "list", "coder"]).out, "coder: Small commits\n");

    assert_eq!(
        world.run(["prefs", "remove", "coder", "small COMMITS"]),
        quiet(0, &format!("removed from {FILE}\n"))
    );
    assert_eq!(world.read(FILE), "Be kind.\n\n## Tools\n\n- just\n");
    assert_eq!(
        world.run(["prefs", "remove", "coder", "just"]),
        quiet(1, &format!("{FILE} has no such preference\n"))
    );
    assert_eq!(world.run(["prefs", "remove", "designer", "**Bold** colours"]).code, 0);
    assert_eq!(prompt(&world), before);
}

#[test]
fn leading_bullet_is_not_an_option() {
    let world = World::new();
    let said = world.run(["prefs", "add", "coder", "- Small commits", "--json"]);
    assert_eq!((said.code, said.json()), (0, json!({ "added": ["Small commits"] })));
    let said = world.run(["prefs", "remove", "--json", "coder", "-  small commits"]);
    assert_eq!((said.code, said.json()), (0, json!({ "removed": "Small commits" })));
}

#[test]
fn unknown_roles_and_paths_are_refused() {
    let world = World::new();
    let roles =
        "architect, code-researcher, coder, designer, planner, product-manager, reviewer, web-researcher";
    for role in ["../../evil", "codr", "/etc/x", "."] {
        let hint = if role == "codr" { "  = hint: did you mean `coder`?\n" } else { "" };
        let expected = format!(
            "error[preference/bad]: there is no role `{role}`\n{hint}  = hint: roles that exist: {roles}\n"
        );
        assert_eq!(world.run(["prefs", "add", role, "x"]), quiet(2, &expected));
        assert_eq!(world.run(["prefs", "remove", role, "x"]), quiet(2, &expected));
    }
    world.write(".callsheet/templates/agents/tester.md", "Test.");
    assert_eq!(world.run(["prefs", "add", "tester", "x"]).code, 0);
}

#[test]
fn symlinked_folder_is_not_followed() {
    let world = World::new();
    let outside = world.project.parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    world.write(".callsheet/config.toml", "");
    std::os::unix::fs::symlink(&outside, world.project.join(".callsheet/prompts")).unwrap();
    let said = world.run(["prefs", "add", "coder", "x"]);
    let why = "a part of it is a symbolic link or no folder";
    let place = ".callsheet/prompts/agents";
    assert_eq!(said, quiet(70, &format!("error[output/failed]: `{place}` cannot be written: {why}\n")));
    assert_eq!(std::fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn concurrent_adds_store_each_preference_once() {
    let world = World::new();
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
            let mut command = world.command();
            command.args(["prefs", "add", "coder", wish]).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = world.read(FILE);
    let mut lines: Vec<String> = text.lines().skip(2).map(str::to_lowercase).collect();
    lines.sort();
    assert_eq!(text.lines().take(2).collect::<Vec<_>>(), ["## Approved Preferences", ""]);
    assert_eq!(lines, (0..8).map(|nth| format!("- wish {nth}")).collect::<Vec<_>>());
    let folder = world.project.join(".callsheet/prompts/agents");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}
