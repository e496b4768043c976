//! Tests `init`, `check`, `templates`, `config show`, `schema`, `completions` and `man`.

use callsheet_testing::{TestProject, run_command};
use serde_json::{Value, json};

#[test]
fn init_writes_once_and_overwrites_nothing() {
    let project = TestProject::new();
    let first = project.run(["init"]);
    assert_eq!(
        (first.code, first.out().as_str()),
        (
            Some(0),
            "wrote .callsheet/README.md\nwrote .callsheet/config.toml\nadded the ledger to .gitignore\n"
        )
    );
    assert_eq!(project.read(".gitignore"), "/.callsheet/ledger.db*\n");
    project.write(".callsheet/config.toml", "agent = \"claude\"\n");
    let second = project.run(["init"]);
    assert_eq!(
        second.out(),
        "kept the existing .callsheet/README.md\nkept the existing .callsheet/config.toml\n"
    );
    assert_eq!(project.read(".callsheet/config.toml"), "agent = \"claude\"\n");
    assert_eq!(
        project.run(["--json", "init"]).json(),
        json!({
            "schema": "callsheet/init/1", "written": [], "kept": [".callsheet/README.md", ".callsheet/config.toml"], "ignored": false,
            "checks": [],
        })
    );
    project.write(".gitignore", "target");
    assert_eq!(project.run(["--json", "init"]).json()["ignored"], true);
    assert_eq!(project.read(".gitignore"), "target\n/.callsheet/ledger.db*\n");
}

#[test]
fn initial_configuration_can_be_uncommented() {
    let project = TestProject::new();
    project.run(["init"]);
    let before = project.run(["--json", "config", "show"]).settings();
    let commented = project.read(".callsheet/config.toml");
    let settings: String = commented
        .lines()
        .filter_map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| rest.contains(" = ") || rest.starts_with('['))
                .or(Some(line).filter(|line| line.starts_with('[')))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    project.write(".callsheet/config.toml", &settings);
    // Commands and programs of a project do not count before.
    project.run(["trust", "--yes"]).expect_code(0);
    let after = project.run(["--json", "config", "show"]);
    assert_eq!(after.code, Some(0), "{settings}{}", after.err());
    for (key, value) in before.as_object().unwrap() {
        assert_eq!(value["from"], "default", "{key}");
        assert_eq!(
            after.settings()[key]["from"],
            "project:.callsheet/config.toml",
            "{key} is not in the file"
        );
    }
}

#[test]
fn config_shows_origin_of_settings() {
    let project = TestProject::new();
    project.write(".callsheet/config.toml", "agent = \"claude\"\nrecipe = \"layers\"\n");
    std::fs::create_dir_all(project.home().join(".config/callsheet")).unwrap();
    std::fs::write(
        project.home().join(".config/callsheet/config.toml"),
        "agent = \"codex\"\nrole = \"supervisor\"\n",
    )
    .unwrap();
    let mut command = project.command();
    command.args(["config", "show"]).env("CALLSHEET_RECIPE", "run");
    let output = run_command(&mut command);
    assert_eq!(
        output.out(),
        "project = (not set)  # default\n\
         recipe = \"run\"  # environment\n\
         agent = \"claude\"  # project:.callsheet/config.toml\n\
         role = \"supervisor\"  # user:config.toml\n\
         ledger = (not set)  # default\n\
         secrets = (not set)  # default\n\
         write = []  # default\n\
         exclude = []  # default\n\
         permit = \"edit\"  # default\n\
         allow = []  # default\n\
         allow_checks = true  # default\n\
         timeout = (not set)  # default\n\
         max_cost = (not set)  # default\n\
         max_cost_per_day = (not set)  # default\n\
         max_cost_per_flow = (not set)  # default\n\
         checks = {}  # default\n\
         env = []  # default\n\
         max_file_bytes = 16777216  # default\n\
         digest_output = true  # default\n\
         keep_changes = true  # default\n\
         split = (not set)  # default\n\
         bell = true  # default\n\
         notify = []  # default\n\
         layout.templates = [\".callsheet/templates\"]  # default\n\
         layout.prompts = \".callsheet/prompts\"  # default\n\
         layout.project_context = \"agentd/project.md\"  # default\n\
         layout.changes = \".callsheet/changes\"  # default\n\
         layout.sessions = \".callsheet/sessions\"  # default\n"
    );
}

#[test]
fn t4_template_folders_can_be_configured() {
    let project = TestProject::new();
    project.write(
        ".callsheet/config.toml",
        "[layout]\ntemplates = [\"templates\", \".callsheet/templates\"]\nproject_context = \"ctx.md\"\n",
    );
    project.write("templates/system/BASE-plan.md", "own: {{PROJECT_CONTEXT}}");
    project.write(".callsheet/templates/system/BASE-plan.md", "second");
    project.write("ctx.md", "the context");
    let output = project.run(["compose", "-p", "plan", "x"]);
    assert_eq!(
        output.out(),
        "<prompt><system_prompt><![CDATA[own: <project-context>the context</project-context>]]></system_prompt><instructions>x</instructions></prompt>"
    );
}

#[test]
fn all_configuration_errors_are_reported() {
    let project = TestProject::new();
    project.write(".callsheet/config.toml", "agnet = \"claude\"\n[layout]\npromts = \"x\"\n");
    let output = project.run(["config", "show"]);
    let err = output.err();
    let heads: Vec<&str> = err.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(output.code, Some(3));
    assert_eq!(
        heads,
        ["error[ConfigBad]: unknown key `agnet`", "error[ConfigBad]: unknown key `layout.promts`"]
    );
    project
        .write(".callsheet/config.toml", "[layout]\nprompts = \"../x\"\nproject_context = \"/etc/passwd\"\n");
    let output = project.run(["compose", "x"]);
    assert_eq!(
        output.err(),
        "error[ConfigBad]: `project:.callsheet/config.toml`: invalid project path `../x`: it contains `..`\n\
         error[ConfigBad]: `project:.callsheet/config.toml`: invalid project path `/etc/passwd`: it is absolute\n"
    );
}

#[test]
fn check_reports_all_problems() {
    let project = TestProject::new();
    let clean = project.run(["check"]);
    assert_eq!((clean.code, clean.out().as_str()), (Some(0), ""), "{}", clean.err());
    project.write(".callsheet/templates/system/claude-plan.md", "# Identity\nx\n");
    project.write(".callsheet/templates/identity/me.md", "{{> nope}}");
    let output = project.run(["--json", "check"]);
    assert_eq!(output.code, Some(1));
    let codes: Vec<String> = output.json()["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|problem| problem["severity"] == "error")
        .map(|problem| problem["code"].as_str().unwrap().to_string())
        .collect();
    assert!(
        codes.contains(&"fragment/not-found".to_string()) && codes.contains(&"system/misnamed".to_string()),
        "{codes:?}"
    );
}

#[test]
fn templates_are_shown_ejected_and_compared() {
    let project = TestProject::new();
    let shown = project.run(["templates", "show", "identity/supervisor"]);
    assert_eq!(project.run(["templates", "show", "templates/identity/supervisor.md"]), shown);
    let ejected = project.run(["templates", "eject", "identity/supervisor"]);
    assert_eq!(ejected.out(), "wrote .callsheet/templates/identity/supervisor.md\n");
    assert_eq!(project.read(".callsheet/templates/identity/supervisor.md"), shown.out());
    assert_eq!(project.run(["templates", "diff", "identity/supervisor"]).code, Some(0));
    let again = project.run(["templates", "eject", "identity/supervisor"]);
    assert_eq!(
        (again.code, again.err().as_str()),
        (
            Some(3),
            "error[OverrideRefused]: `project:.callsheet/templates/identity/supervisor.md` already exists; it was not overwritten\n  = hint: look at it with `callsheet templates diff identity/supervisor`\n"
        )
    );
    project.write(".callsheet/templates/identity/supervisor.md", format!("{}One more.\n", shown.out()));
    let diff = project.run(["templates", "diff", "identity/supervisor"]);
    assert_eq!(diff.code, Some(1));
    assert_eq!(diff.out().lines().rfind(|line| line.starts_with('+')), Some("+One more."));
    let located = project.run(["templates", "where", "identity/supervisor"]);
    assert_eq!(
        located.out(),
        "wins      project:.callsheet/templates/identity/supervisor.md\n\
         no file   user:templates/identity/supervisor.md\n\
         shadowed  builtin:templates/identity/supervisor.md\n"
    );
    let missing = project.run(["templates", "show", "identity/supervisr"]);
    assert_eq!(
        (missing.code, missing.err().as_str()),
        (
            Some(3),
            "error[TemplateNotFound]: no template `identity/supervisr`\n  \
             = looked in project:.callsheet/templates/identity/supervisr.md\n  \
             =           user:templates/identity/supervisr.md\n  \
             =           builtin:templates/identity/supervisr.md\n  \
             = hint: did you mean `identity/supervisor`?\n  \
             = hint: run `callsheet templates list` to list templates\n"
        )
    );
    let context = project.run(["templates", "eject", "context"]);
    assert_eq!(
        (context.code, context.err().as_str()),
        (Some(3), "error[OverrideRefused]: `context` cannot be overridden\n")
    );
}

#[test]
fn invalid_template_name_is_reported() {
    let project = TestProject::new();
    let output = project.run(["templates", "where", "../../x"]);
    assert_eq!(
        (output.code, output.out().as_str(), output.err().as_str()),
        (
            Some(3),
            "",
            "error[TemplateNotFound]: no template `../../x`\n  \
             = hint: run `callsheet templates list` to list templates\n"
        )
    );
    assert_eq!(project.run(["templates", "show", "../../x"]), output);
}

#[test]
fn unusable_template_reports_reason_in_json() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", b"caf\xe9");
    let all = project.run(["--json", "templates", "list"]).json();
    let mine =
        all["items"].as_array().unwrap().iter().find(|template| template["path"] == "identity/me").unwrap();
    assert_eq!(
        mine,
        &json!({
            "path": "identity/me",
            "file": "templates/identity/me.md",
            "source": "project:.callsheet/templates/identity/me.md",
            "shadowed": [],
            "name": null,
            "description": null,
            "category": null,
            "version": null,
            "agent": null,
            "phase": null,
            "tokens": 0,
            "variables": [],
            "problem": {
                "code": "source/unreadable",
                "severity": "error",
                "message": "cannot read `project:.callsheet/templates/identity/me.md`: byte 0xE9 at offset 3 is not UTF-8",
                "place": null,
                "looked_in": [],
                "hints": [],
                "more": 0,
            },
        })
    );
}

#[test]
fn t7_template_list_contains_metadata() {
    let project = TestProject::new();
    project.write(
        ".callsheet/templates/system/CLAUDE-plan.md",
        "---\nname: mine\ncategory: system\nversion: 3\n---\n{{b}} {{ a }} {{b}} {{PROJECT_CONTEXT}} {{ no.name }}",
    );
    let all = project.run(["--json", "templates", "list"]).json();
    let mine = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|template| template["path"] == "system/CLAUDE-plan")
        .unwrap();
    assert_eq!(
        mine,
        &json!({
            "path": "system/CLAUDE-plan",
            "file": "templates/system/CLAUDE-plan.md",
            "source": "project:.callsheet/templates/system/CLAUDE-plan.md",
            "shadowed": [],
            "tokens": 5,
            "name": "mine",
            "description": null,
            "category": "system",
            "version": "3",
            "agent": "CLAUDE",
            "phase": "plan",
            "variables": ["b", "a", "PROJECT_CONTEXT"],
            "problem": null,
        })
    );
}

fn is_valid(schema: &Value, instance: &Value) -> bool {
    jsonschema::validator_for(schema).unwrap().is_valid(instance)
}

#[test]
fn u1_schemas_match_accepted_data() {
    let project = TestProject::new();
    let schema = |name: &str| project.run(["schema", name]).json();
    let prompt =
        project.run(["compose", "-q", "-p", "plan", "--format", "json", "--thought", "hm", "x"]).json();
    assert!(is_valid(&schema("unified-prompt"), &prompt));
    assert!(!is_valid(&schema("unified-prompt"), &json!({ "system_prompt": "x" })));
    assert!(!is_valid(
        &schema("unified-prompt"),
        &json!({ "instructions": "x", "context": [{ "type": "file", "name": "a" }] })
    ));
    assert!(!is_valid(
        &schema("unified-prompt"),
        &json!({ "instructions": "x", "context": [{ "type": "image", "name": "a", "content": "" }] })
    ));
    assert!(is_valid(
        &schema("request"),
        &json!({ "recipe": "run", "task": { "write": ["a"] }, "context": [{ "name": "a", "data": { "k": 1 } }] })
    ));
    assert!(!is_valid(&schema("request"), &json!({ "recpie": "run" })));
    assert!(is_valid(&schema("config"), &json!({ "agent": "claude", "layout": { "prompts": "p" } })));
    assert!(!is_valid(&schema("config"), &json!({ "agnet": "claude" })));
    for (folder, name) in [("recipes", "recipe"), ("agents", "agent")] {
        let folder = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/builtin/{}"), folder);
        let schema = schema(name);
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let data: Value = toml::from_str(&text).unwrap();
            assert!(is_valid(&schema, &data), "{text}");
        }
        assert!(!is_valid(&schema, &json!({ "unknown": 1 })));
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let project = TestProject::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = project.run(["completions", shell]);
        assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
        // Some scripts ask the program for every word; the others contain every command.
        if ["bash", "zsh", "fish"].contains(&shell) {
            assert!(output.out().contains(&format!("__complete {shell} ")), "{shell}");
            continue;
        }
        for command in
            ["compose", "explain", "run", "retry", "continue", "status", "recover", "decide", "stop"]
        {
            assert!(output.out().contains(command), "{shell}: {command}");
        }
    }
    project.write("complete.bash", project.run(["completions", "bash"]).out());
    let syntax =
        std::process::Command::new("bash").args(["-n", "complete.bash"]).current_dir(project.path()).status();
    assert!(syntax.unwrap().success());
    assert!(project.run(["man"]).out().starts_with(".ie \\n(.g .ds Aq \\(aq"));
    assert!(project.run(["man", "compose"]).out().contains(".SH NAME\ncallsheet\\-compose"));
    let wrong = project.run(["man", "compos"]);
    assert_eq!(
        (wrong.code, wrong.err().as_str()),
        (Some(2), "error[UsageBad]: unknown command `compos`\n  = hint: did you mean `compose`?\n")
    );
}
