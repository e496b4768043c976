//! Tests `fuzz`: it finds templates and recipes that hostile values break.

use callsheet_testing::{CommandOutput, TestProject};
use serde_json::json;

fn create_project(path: &str, text: &str) -> TestProject {
    let project = TestProject::new();
    project.write(&format!(".callsheet/{path}"), text);
    project
}

fn clean(tried: usize) -> CommandOutput {
    let err = format!("{tried} values checked: 0 errors, 0 warnings\n");
    CommandOutput::new(0, "", err)
}

#[test]
fn every_construct_around_slot_is_checked() {
    let template = "# About {{a}}\n\n<!-- {{b}} -->\n\n<x y='{{c}}' {{d}}>\n{{e}}\n</x>\n\n~~~\n{{f}}\n~~~\n\n## {{g}}\n\n- {{h}}\n";
    let project = create_project("templates/identity/open.md", template);
    let finding = |what: &str, place: &str, line: &str, marks: &str, hint: &str| {
        let number = place.split(':').next().unwrap();
        let pad = " ".repeat(number.len());
        let hint = if hint.is_empty() { String::new() } else { format!("  = hint: tried: {hint}\n") };
        format!(
            "{what}\n{pad} ┌─ project:.callsheet/templates/identity/open.md:{place}\n{number} │ {line}\n{pad} │ {marks}\n{hint}"
        )
    };
    let escapes =
        |slot: &str, what: &str| format!("error[FuzzEscapes]: a value of `{slot}` can end the {what} opens");
    let dangles = |slot: &str, what: &str| {
        format!("warning[FuzzDangling]: without a value of `{slot}` a {what} is empty")
    };
    let (blank, line) = ("\"\\n\"", "<x y='{{c}}' {{d}}>");
    let wanted = [
        finding(&escapes("a", "heading that `#`"), "1:9", "# About {{a}}", "        ^^^^^", blank),
        finding(&escapes("b", "comment that `<!--`"), "3:6", "<!-- {{b}} -->", "     ^^^^^", "\"-->\""),
        finding(&escapes("c", "quoted attribute that `y='`"), "5:7", line, "      ^^^^^", "\"'\""),
        finding(&escapes("d", "tag that `<x`"), "5:14", line, "             ^^^^^", blank),
        finding(&escapes("e", "element that `<x>`"), "6:1", "{{e}}", "^^^^^", "\"a</x>b\""),
        finding(&dangles("f", "code block"), "10:1", "{{f}}", "^^^^^", ""),
        finding(&escapes("f", "code block that `~~~`"), "10:1", "{{f}}", "^^^^^", "\"a\\n~~~\\nb\""),
        finding(&dangles("g", "heading"), "13:4", "## {{g}}", "   ^^^^^", ""),
        finding(&escapes("g", "heading that `##`"), "13:4", "## {{g}}", "   ^^^^^", blank),
        finding(&dangles("h", "list item"), "15:3", "- {{h}}", "  ^^^^^", ""),
    ];
    let output = project.run(["fuzz", "identity/open", "--cases", "0"]);
    assert_eq!(output.out(), wanted.concat());
    assert_eq!((output.code, output.err().as_str()), (Some(1), "456 values checked: 7 errors, 3 warnings\n"));
}

#[test]
fn safe_template_has_no_findings() {
    let project =
        create_project("templates/identity/safe.md", "<log>\n{{log}}\n</log>\n\nSay {{what}}, {{> own}}.\n");
    project.write(".callsheet/templates/shared/own.md", "or {{what}} and {{more}}");
    assert_eq!(project.run(["fuzz", "identity/safe"]), clean(3 * 56 + 1 + 1000));
}

#[test]
fn recipe_is_tried_with_every_template() {
    let recipe = "format = 'markdown'\n[[section]]\nname = 'role'\npart = 'system'\nrequired = true\n\
                  blocks = [{ template = 'own/{role}.md' }]\n\
                  [[section]]\nname = 'task'\npart = 'instructions'\nblocks = [{ value = 'instructions' }]\n";
    let project = create_project("recipes/own.toml", recipe);
    project.write(".callsheet/own/good.md", "Do it.\n");
    project.write(".callsheet/own/bad.md", "<!-- {{instructions}} -->\n\nDo it.\n");
    let output = project.run(["fuzz", "own", "--cases", "50"]);
    let found = "error[FuzzEscapes]: a value of `instructions` can end the comment that `<!--` opens\n  \
                 ┌─ project:.callsheet/own/bad.md:1:6\n\
                 1 │ <!-- {{instructions}} -->\n  │      ^^^^^^^^^^^^^^^^\n  = hint: tried: \"-->\"\n";
    let err = "163 values checked: 1 error, 0 warnings\n";
    assert_eq!(output, CommandOutput::new(1, found, err));
    assert_eq!(project.run(["fuzz", "own", "--cases", "50", "--role", "good"]), clean(56 + 50));
    let output = project.run(["fuzz", "own", "--role", "god"]);
    assert_eq!((output.code, output.out().as_str()), (Some(3), ""));
    assert_eq!(
        output.err(),
        "error[TemplateNotFound]: no template for role `god`\n  \
         = looked in project:.callsheet/own/god.md\n  =           user:own/god.md\n  \
         =           builtin:own/god.md\n  = hint: did you mean `good`?\n  = hint: known roles: bad, good\n"
    );
}

#[test]
fn every_shipped_recipe_is_clean() {
    let project = TestProject::new();
    for recipe in ["layers", "run", "staged", "unified"] {
        let output = project.run(["fuzz", recipe, "--cases", "300", "--quiet"]);
        assert_eq!(output, CommandOutput::new(0, "", ""), "{recipe}");
    }
}

#[test]
fn unknown_name_lists_searched_places() {
    let output = TestProject::new().run(["fuzz", "unifed"]);
    assert_eq!((output.code, output.out().as_str()), (Some(3), ""));
    assert_eq!(
        output.err(),
        "error[TemplateNotFound]: no template or recipe `unifed`\n  \
         = looked in project:.callsheet/templates/unifed.md\n  =           user:templates/unifed.md\n  \
         =           builtin:templates/unifed.md\n  =           project:.callsheet/recipes/unifed.toml\n  \
         =           user:recipes/unifed.toml\n  =           builtin:recipes/unifed.toml\n  \
         = hint: did you mean `unified`?\n  \
         = hint: run `callsheet templates list` to list templates; recipes: layers, run, staged, unified\n"
    );
}

#[test]
fn recipe_options_are_refused_for_templates() {
    let output = TestProject::new().run(["fuzz", "identity/supervisor", "--role", "x"]);
    let err = "error[UsageBad]: `identity/supervisor` is a template: --role, --phase and --command are for recipes\n";
    assert_eq!(output, CommandOutput::new(2, "", err));
}

#[test]
fn json_is_whole_and_seed_deterministic() {
    let project = create_project("templates/identity/one.md", "<!-- {{a}} -->\n");
    let output = project.run(["fuzz", "identity/one", "--json", "--seed", "7", "--cases", "20"]);
    let wanted = json!({
        "schema": "callsheet/fuzz-report/1",
        "subject": "identity/one",
        "seed": 7,
        "tried_count": 77,
        "error_count": 1,
        "findings": [{
            "code": "fuzz/escapes",
            "severity": "error",
            "message": "a value of `a` can end the comment that `<!--` opens",
            "place": { "file": "project:.callsheet/templates/identity/one.md", "line": 1, "column": 6 },
            "looked_in": [],
            "hints": ["tried: \"-->\""],
            "more": 0,
            "input": "a",
            "value": "-->",
        }],
    });
    assert_eq!((output.code, output.err().as_str(), output.json()), (Some(1), "", wanted));
    assert_eq!(project.run(["fuzz", "identity/one", "--json", "--seed", "7", "--cases", "20"]), output);
}
