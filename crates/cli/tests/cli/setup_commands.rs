//! Tests `init`, `check`, `templates`, `config show`, `schema`, `completions` and `man`.

use serde_json::{Value, json};

use crate::world::World;

#[test]
fn init_writes_once_and_overwrites_nothing() {
    let world = World::new();
    let first = world.run(["init"]);
    assert_eq!(
        (first.code, first.out.as_str()),
        (0, "wrote .callsheet/README.md\nwrote .callsheet/config.toml\nadded the ledger to .gitignore\n")
    );
    assert_eq!(world.read(".gitignore"), "/.callsheet/ledger.db*\n");
    world.write(".callsheet/config.toml", "agent = \"claude\"\n");
    let second = world.run(["init"]);
    assert_eq!(
        second.out,
        "kept .callsheet/README.md, which was there\nkept .callsheet/config.toml, which was there\n"
    );
    assert_eq!(world.read(".callsheet/config.toml"), "agent = \"claude\"\n");
    assert_eq!(
        world.run(["--json", "init"]).json(),
        json!({
            "written": [], "kept": [".callsheet/README.md", ".callsheet/config.toml"], "ignored": false,
        })
    );
    world.write(".gitignore", "target");
    assert_eq!(world.run(["--json", "init"]).json()["ignored"], true);
    assert_eq!(world.read(".gitignore"), "target\n/.callsheet/ledger.db*\n");
}

#[test]
fn initial_configuration_can_be_uncommented() {
    let world = World::new();
    world.run(["init"]);
    let before = world.run(["--json", "config", "show"]).json();
    let commented = world.read(".callsheet/config.toml");
    let settings: String = commented
        .lines()
        .filter_map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| rest.contains(" = ") || rest.starts_with('['))
                .or(Some(line).filter(|line| line.starts_with('[')))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    world.write(".callsheet/config.toml", &settings);
    let after = world.run(["--json", "config", "show"]);
    assert_eq!(after.code, 0, "{settings}{}", after.err);
    for (key, value) in before.as_object().unwrap() {
        assert_eq!(value["from"], "default", "{key}");
        assert_eq!(after.json()[key]["from"], "project:.callsheet/config.toml", "{key} is not in the file");
    }
}

#[test]
fn config_shows_origin_of_settings() {
    let world = World::new();
    world.write(".callsheet/config.toml", "agent = \"claude\"\nrecipe = \"layers\"\n");
    std::fs::create_dir_all(world.home().join(".config/callsheet")).unwrap();
    std::fs::write(
        world.home().join(".config/callsheet/config.toml"),
        "agent = \"codex\"\nrole = \"supervisor\"\n",
    )
    .unwrap();
    let mut command = world.command();
    command.args(["config", "show"]).env("CALLSHEET_RECIPE", "run");
    let said = crate::world::run_command(&mut command, b"");
    assert_eq!(
        said.out,
        "project = (not set)  # default\n\
         recipe = \"run\"  # environment\n\
         agent = \"claude\"  # project:.callsheet/config.toml\n\
         role = \"supervisor\"  # user:config.toml\n\
         ledger = (not set)  # default\n\
         secrets = (not set)  # default\n\
         write = []  # default\n\
         exclude = []  # default\n\
         permit = \"edit\"  # default\n\
         timeout = (not set)  # default\n\
         max_cost = (not set)  # default\n\
         checks = {}  # default\n\
         env = []  # default\n\
         max_file_bytes = 16777216  # default\n\
         digest_output = true  # default\n\
         layout.templates = [\".callsheet/templates\"]  # default\n\
         layout.prompts = \".callsheet/prompts\"  # default\n\
         layout.project_context = \"agentd/project.md\"  # default\n\
         layout.changes = \".callsheet/changes\"  # default\n\
         layout.sessions = \".callsheet/sessions\"  # default\n"
    );
}

#[test]
fn t4_template_folders_can_be_configured() {
    let world = World::new();
    world.write(
        ".callsheet/config.toml",
        "[layout]\ntemplates = [\"templates\", \".callsheet/templates\"]\nproject_context = \"ctx.md\"\n",
    );
    world.write("templates/system/BASE-plan.md", "own: {{PROJECT_CONTEXT}}");
    world.write(".callsheet/templates/system/BASE-plan.md", "second");
    world.write("ctx.md", "the context");
    let said = world.run(["compose", "-p", "plan", "x"]);
    assert_eq!(
        said.out,
        "<prompt><system_prompt><![CDATA[own: <project-context>the context</project-context>]]></system_prompt><instructions>x</instructions></prompt>"
    );
}

#[test]
fn all_configuration_errors_are_reported() {
    let world = World::new();
    world.write(".callsheet/config.toml", "agnet = \"claude\"\n[layout]\npromts = \"x\"\n");
    let said = world.run(["config", "show"]);
    let heads: Vec<&str> = said.err.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(said.code, 3);
    assert_eq!(
        heads,
        ["error[config/bad]: there is no key `agnet`", "error[config/bad]: there is no key `layout.promts`"]
    );
    world
        .write(".callsheet/config.toml", "[layout]\nprompts = \"../x\"\nproject_context = \"/etc/passwd\"\n");
    let said = world.run(["compose", "x"]);
    assert_eq!(
        said.err,
        "error[config/bad]: `project:.callsheet/config.toml`: `../x` cannot lie in the project: it contains `..`\n\
         error[config/bad]: `project:.callsheet/config.toml`: `/etc/passwd` cannot lie in the project: it is absolute\n"
    );
}

#[test]
fn check_reports_all_problems() {
    let world = World::new();
    let clean = world.run(["check"]);
    assert_eq!((clean.code, clean.out.as_str()), (0, ""), "{}", clean.err);
    world.write(".callsheet/templates/system/claude-plan.md", "# Identity\nx\n");
    world.write(".callsheet/templates/identity/me.md", "{{> nope}}");
    let said = world.run(["--json", "check"]);
    assert_eq!(said.code, 1);
    let codes: Vec<String> = said.json()["problems"]
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
    let world = World::new();
    let shown = world.run(["templates", "show", "identity/supervisor"]);
    assert_eq!(world.run(["templates", "show", "templates/identity/supervisor.md"]), shown);
    let ejected = world.run(["templates", "eject", "identity/supervisor"]);
    assert_eq!(ejected.out, "wrote .callsheet/templates/identity/supervisor.md\n");
    assert_eq!(world.read(".callsheet/templates/identity/supervisor.md"), shown.out);
    assert_eq!(world.run(["templates", "diff", "identity/supervisor"]).code, 0);
    let again = world.run(["templates", "eject", "identity/supervisor"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (
            3,
            "error[override/refused]: `project:.callsheet/templates/identity/supervisor.md` is there already; nothing is overwritten\n  = hint: look at it with `callsheet templates diff`\n"
        )
    );
    world.write(".callsheet/templates/identity/supervisor.md", format!("{}One more.\n", shown.out));
    let diff = world.run(["templates", "diff", "identity/supervisor"]);
    assert_eq!(diff.code, 1);
    assert_eq!(diff.out.lines().rfind(|line| line.starts_with('+')), Some("+One more."));
    let located = world.run(["templates", "where", "identity/supervisor"]);
    assert_eq!(
        located.out,
        "wins       project:.callsheet/templates/identity/supervisor.md\n\
         not there  user:templates/identity/supervisor.md\n\
         shadowed   builtin:templates/identity/supervisor.md\n"
    );
    let missing = world.run(["templates", "show", "identity/supervisr"]);
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (
            3,
            "error[template/not-found]: TemplateNotFound: there is no template `identity/supervisr`\n  \
             = looked in project:.callsheet/templates/identity/supervisr.md\n  \
             =           user:templates/identity/supervisr.md\n  \
             =           builtin:templates/identity/supervisr.md\n  \
             = hint: did you mean `identity/supervisor`?\n  \
             = hint: `callsheet templates list` lists them\n"
        )
    );
    let context = world.run(["templates", "eject", "context"]);
    assert_eq!(
        (context.code, context.err.as_str()),
        (3, "error[override/refused]: `context` is controlled by the pipeline and cannot be overridden\n")
    );
}

#[test]
fn invalid_template_name_is_reported() {
    let world = World::new();
    let said = world.run(["templates", "where", "../../x"]);
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (
            3,
            "",
            "error[template/not-found]: TemplateNotFound: there is no template `../../x`\n  \
             = hint: `callsheet templates list` lists them\n"
        )
    );
    assert_eq!(world.run(["templates", "show", "../../x"]), said);
}

#[test]
fn unusable_template_reports_reason_in_json() {
    let world = World::new();
    world.write(".callsheet/templates/identity/me.md", b"caf\xe9");
    let all = world.run(["--json", "templates", "list"]).json();
    let mine = all.as_array().unwrap().iter().find(|template| template["path"] == "identity/me").unwrap();
    assert_eq!(
        mine,
        &json!({
            "path": "identity/me",
            "file": "templates/identity/me.md",
            "source": "project:.callsheet/templates/identity/me.md",
            "shadowed": [],
            "tokens": 0,
            "variables": [],
            "problem": "`project:.callsheet/templates/identity/me.md` cannot be used: byte 0xE9 at offset 3 is not UTF-8",
        })
    );
}

#[test]
fn t7_template_list_contains_metadata() {
    let world = World::new();
    world.write(
        ".callsheet/templates/system/CLAUDE-plan.md",
        "---\nname: mine\ncategory: system\nversion: 3\n---\n{{b}} {{ a }} {{b}} {{PROJECT_CONTEXT}} {{ no.name }}",
    );
    let all = world.run(["--json", "templates", "list"]).json();
    let mine =
        all.as_array().unwrap().iter().find(|template| template["path"] == "system/CLAUDE-plan").unwrap();
    assert_eq!(
        mine,
        &json!({
            "path": "system/CLAUDE-plan",
            "file": "templates/system/CLAUDE-plan.md",
            "source": "project:.callsheet/templates/system/CLAUDE-plan.md",
            "shadowed": [],
            "tokens": 5,
            "name": "mine",
            "category": "system",
            "version": "3",
            "agent": "CLAUDE",
            "phase": "plan",
            "variables": ["b", "a", "PROJECT_CONTEXT"],
        })
    );
}

fn is_valid(schema: &Value, instance: &Value) -> bool {
    jsonschema::validator_for(schema).unwrap().is_valid(instance)
}

#[test]
fn u1_schemas_match_accepted_data() {
    let world = World::new();
    let schema = |name: &str| world.run(["schema", name]).json();
    let prompt =
        world.run(["compose", "-q", "-p", "plan", "--format", "json", "--thought", "hm", "x"]).json();
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
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = world.run(["completions", shell]);
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        // Each script contains every command.
        for command in
            ["compose", "explain", "run", "retry", "continue", "status", "recover", "decide", "stop"]
        {
            assert!(said.out.contains(command), "{shell}: {command}");
        }
    }
    world.write("complete.bash", world.run(["completions", "bash"]).out);
    let syntax =
        std::process::Command::new("bash").args(["-n", "complete.bash"]).current_dir(&world.project).status();
    assert!(syntax.unwrap().success());
    assert!(world.run(["man"]).out.starts_with(".ie \\n(.g .ds Aq \\(aq"));
    assert!(world.run(["man", "compose"]).out.contains(".SH NAME\ncallsheet\\-compose"));
    let wrong = world.run(["man", "compos"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (2, "error[usage/bad]: there is no command `compos`\n  = hint: did you mean `compose`?\n")
    );
}
