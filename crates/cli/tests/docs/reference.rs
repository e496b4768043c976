//! Regenerates the pages of the reference from the program.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use callsheet::output::{DocumentSchema, INPUTS, OUTPUTS, schema_id};
use callsheet::project::config::Config;
use callsheet_core::diag::Code;
use callsheet_core::diag::exit::EXIT_CODES;
use callsheet_core::record::EventName;
use callsheet_testing::{TestProject, run_command};
use serde_json::Value;

use crate::pages::{compare_page, read_page};

#[test]
fn template_list_is_generated() {
    let page = "docs/templates.md";
    let text = read_page(page);
    let (before, _) = text.split_once("\n## Shipped templates\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_callsheet"))
        .args(["templates", "list", "--json"])
        .current_dir(tempfile::tempdir().unwrap().path())
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut table =
        String::from("\n## Shipped templates\n\n| template | is | tokens | variables |\n|---|---|--:|---|\n");
    for template in list["items"].as_array().unwrap() {
        let variables = template["variables"].as_array().unwrap().iter();
        let variables: Vec<String> = variables.map(|name| format!("`{}`", name.as_str().unwrap())).collect();
        let text = |key: &str| template[key].as_str().unwrap_or_else(|| panic!("{template} has no {key}"));
        table.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            text("path"),
            text("description"),
            template["tokens"],
            variables.join(" ")
        ));
        assert_eq!(template["source"], format!("builtin:{}", text("file")));
        for key in ["name", "category"] {
            assert!(!text(key).is_empty());
        }
    }
    compare_page(page, &format!("{before}{table}"));
}

fn print_help(command: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_callsheet")).args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns every command, in the order of their names, with its help page. A help page lists the commands below
/// its own.
fn collect_commands(command: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let help = print_help(command);
    let list = help.split_once("\nCommands:\n").map(|(_, list)| list.split("\n\n").next().unwrap());
    let names = list.into_iter().flat_map(str::lines).filter(|line| !line.starts_with("   "));
    let mut names: Vec<String> =
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    names.retain(|name| name != "help");
    names.sort();
    found.push((command.to_vec(), help));
    for name in names {
        collect_commands(&[command, &[name]].concat(), found);
    }
}

#[test]
fn command_line_reference_is_generated() {
    let mut page = String::from(
        "# The command line\n\nThe output of `--help` for every command, written by a test. Exit codes are in\n\
         [errors.md](errors.md).\n",
    );
    let mut commands = Vec::new();
    collect_commands(&[], &mut commands);
    for (command, help) in &commands {
        let title = ["callsheet"].into_iter().chain(command.iter().map(String::as_str));
        let title = title.collect::<Vec<_>>().join(" ");
        page.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", help.trim_end()));
    }
    // The completion script is made from the tree of commands: the page has no fewer.
    let script =
        Command::new(env!("CARGO_BIN_EXE_callsheet")).args(["completions", "elvish"]).output().unwrap();
    let script = String::from_utf8(script.stdout).unwrap();
    let names =
        script.lines().filter_map(|line| line.trim().strip_prefix("&'callsheet;")?.strip_suffix("'= {"));
    let names: BTreeSet<String> = names
        .map(|name| name.replace(';', " "))
        .filter(|name| name.split(' ').all(|word| word != "help"))
        .collect();
    let listed: BTreeSet<String> = commands.iter().skip(1).map(|(command, _)| command.join(" ")).collect();
    assert_eq!(listed, names);
    compare_page("docs/cli.md", &page);
}

#[test]
fn diagnostics_list_is_generated() {
    let mut page = String::from(
        "# Errors and exit codes\n\n\
         Every diagnostic has a stable code, a place, every place that was searched, and a hint. With `--json` an error is\n\
         [one object](json.md) on standard error.\n\n\
         ## Exit codes\n\n| exit code | meaning |\n|--:|---|\n",
    );
    for (code, meaning) in EXIT_CODES {
        page.push_str(&format!("| {code} | {meaning} |\n"));
    }
    page.push_str(
        "\n## Diagnostics\n\nThe exit code is that of the first error; warnings and notes change none.\n\n\
         | code | is shown as | exit code | meaning |\n|---|---|--:|---|\n",
    );
    for code in Code::ALL {
        page.push_str(&format!(
            "| `{code}` | `{}` | {} | {} |\n",
            code.name(),
            code.exit_code(),
            code.meaning()
        ));
    }
    compare_page("docs/errors.md", &page);
}

/// The schema of the ledger is public: the page shows the exact statements that create it.
#[test]
fn ledger_schema_matches_migrations() {
    use callsheet_core::record::Event;
    use callsheet_store::{DatabaseEngine, migrations};

    const BEGIN: &str = "<!-- schema: written by a test -->\n";
    const END: &str = "<!-- end of schema -->";
    let page = "docs/audit.md";
    let text = read_page(page);
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let mut schema = String::from("\n| kind of record | what it says |\n|---|---|\n");
    for (kind, meaning) in Event::KINDS {
        schema.push_str(&format!("| `{kind}` | {meaning} |\n"));
    }
    for (name, engine) in [
        ("SQLite", DatabaseEngine::Sqlite),
        ("PostgreSQL, in the schema `callsheet`", DatabaseEngine::Postgres),
    ] {
        schema.push_str(&format!("\n{name}:\n\n```sql\n"));
        migrations(engine).iter().for_each(|migration| schema.push_str(migration.sql));
        schema.push_str("```\n");
    }
    compare_page(page, &format!("{head}{BEGIN}{schema}\n{END}{tail}"));
}

/// A key of the configuration, as the schema has it.
struct ConfigKey {
    name: String,
    kind: String,
    meaning: String,
}

/// Collects the keys of a table of the configuration, and of the tables in it that have keys of their own.
fn collect_keys(table: &Value, schema: &Value, prefix: &str, keys: &mut Vec<ConfigKey>) {
    for (name, property) in table["properties"].as_object().unwrap() {
        let name = format!("{prefix}{name}");
        let resolved = resolve(property, schema);
        if resolved["properties"].is_object() {
            collect_keys(resolved, schema, &format!("{name}."), keys);
            continue;
        }
        let meaning = property["description"].as_str().unwrap_or_else(|| panic!("{name} has no description"));
        let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        keys.push(ConfigKey { kind: describe_type(property, schema), meaning, name });
    }
}

fn resolve<'a>(property: &'a Value, schema: &'a Value) -> &'a Value {
    match property["$ref"].as_str() {
        Some(path) => schema.pointer(path.trim_start_matches('#')).unwrap(),
        None => property,
    }
}

fn describe_type(property: &Value, schema: &Value) -> String {
    let property = resolve(property, schema);
    let words = |values: &[Value]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        quoted.join(", ")
    };
    if let Some(values) = property["enum"].as_array() {
        return words(values);
    }
    if let Some(cases) = property["anyOf"].as_array().or(property["oneOf"].as_array()) {
        let constants: Vec<Value> =
            cases.iter().map(|case| case["const"].clone()).filter(|value| !value.is_null()).collect();
        if constants.len() == cases.len() {
            return words(&constants);
        }
        let cases = cases.iter().filter(|case| case["type"] != "null");
        return cases.map(|case| describe_type(case, schema)).collect::<Vec<_>>().join(" or ");
    }
    let kind = match &property["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap(),
        other => panic!("a type of the configuration: {other} in {property}"),
    };
    match kind {
        "string" => "text".to_owned(),
        "boolean" => "`true`, `false`".to_owned(),
        "integer" => "whole number".to_owned(),
        "number" => "number".to_owned(),
        "array" => format!("list of {}", describe_type(&property["items"], schema)),
        "object" => match property["properties"].as_object() {
            Some(keys) => format!("`{{ {} }}`", keys.keys().cloned().collect::<Vec<_>>().join(", ")),
            None => format!("table of {}", describe_type(&property["additionalProperties"], schema)),
        },
        other => panic!("a type of the configuration: {other}"),
    }
}

/// Returns a strict and a loose value of a key, as TOML.
fn sample_values(key: &str) -> [&'static str; 2] {
    match key.trim_start_matches("hard.") {
        "project" => ["\"shop\""; 2],
        "recipe" => ["\"run\""; 2],
        "agent" => ["\"claude\""; 2],
        "role" => ["\"coder\""; 2],
        "ledger" => ["\"/nowhere/ledger.db\""; 2],
        "secrets" => ["\"refuse\"", "\"allow\""],
        "write" => ["[\"src/**\"]", "[\"**\"]"],
        "exclude" => ["[\"a/**\"]", "[\"b/**\"]"],
        "permit" => ["\"ask\"", "\"all\""],
        "allow" => ["[]", "[\"pytest *\"]"],
        "allow_checks" | "bell" => ["false", "true"],
        "notify" => ["[\"true\"]"; 2],
        "timeout" => ["\"1m\"", "\"9h\""],
        "max_cost" | "max_cost_per_day" | "max_cost_per_flow" => ["1.0", "2.0"],
        "checks" => ["{ lint = \"true\" }"; 2],
        "env" => ["{ NAME = \"value\" }"; 2],
        "max_file_bytes" => ["1000", "2000"],
        "digest_output" | "split" => ["false", "true"],
        "keep_changes" => ["true", "false"],
        "layout.templates" => ["[\"folder\"]"; 2],
        "layout.prompts" | "layout.project_context" | "layout.changes" | "layout.sessions" => {
            ["\"folder\""; 2]
        }
        other => panic!("a new key of the configuration: give a strict and a loose value of `{other}`"),
    }
}

/// Tries a key in an untrusted project's file, and returns its treatment.
fn try_in_project(key: &str) -> &'static str {
    let project = TestProject::new();
    let [strict, loose] = sample_values(key);
    let wishes = |of_project: &str, of_user: &str| {
        project.write(".callsheet/config.toml", of_project);
        fs::write(project.home().join("config.toml"), of_user).unwrap();
        let config = Config::load(Some(project.path()), Some(&project.home()), false);
        config.map(|config| config.trust_requests.len())
    };
    let [strict, loose] = [strict, loose].map(|value| format!("{key} = {value}\n"));
    match (wishes(&strict, ""), wishes(&loose, &strict)) {
        (Err(_), _) => "refused",
        (Ok(0), Ok(0)) => "applies",
        (Ok(0), _) => "needs trust if it is looser than yours",
        (Ok(_), _) => "needs trust",
    }
}

fn read_config(project: &TestProject, variable: Option<(&str, &str)>) -> Value {
    let mut command = project.command();
    let output = run_command(command.args(["config", "show", "--json"]).envs(variable));
    assert_eq!(output.code, Some(0), "{variable:?}");
    output.settings()
}

/// Tries the variable that has the name of a key, and returns it if it sets the key.
pub(crate) fn find_variable(project: &TestProject, key: &str) -> Option<String> {
    let variable = format!("CALLSHEET_{}", key.rsplit('.').next().unwrap().to_uppercase());
    let value = sample_values(key)[0].trim_matches('"');
    let config = read_config(project, Some((&variable, value)));
    (config[key]["from"] == "environment").then_some(variable)
}

/// Returns the names of all keys of the configuration.
fn config_keys() -> Vec<ConfigKey> {
    let output = Command::new(env!("CARGO_BIN_EXE_callsheet")).args(["schema", "config"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut keys = Vec::new();
    collect_keys(&schema, &schema, "", &mut keys);
    keys
}

/// Returns the variables that set a key of the configuration, each with its key.
pub(crate) fn setting_variables() -> Vec<(String, String)> {
    let project = TestProject::new();
    let keys = config_keys().into_iter();
    let mut found: Vec<(String, String)> =
        keys.filter_map(|key| Some((find_variable(&project, &key.name)?, key.name))).collect();
    found.sort();
    found
}

#[test]
fn configuration_reference_is_generated() {
    let mut page = String::from(
        "# Configuration\n\n\
         A setting is taken from the first of: a flag, an [environment variable](environment.md), the project's\n\
         `.callsheet/config.toml`, your own `config.toml` in `$XDG_CONFIG_HOME/callsheet` (or `~/.config/callsheet`), the\n\
         default. `callsheet config show` prints every setting and its origin, `callsheet schema config` the JSON Schema.\n\
         Nothing exceeds the limits of `[hard]` in your own file. [Trust](runs.md#trust) is for a project as a whole.\n\n\
         | key | type | default | variable | in a project's file | meaning |\n|---|---|---|---|---|---|\n",
    );
    let project = TestProject::new();
    let defaults = read_config(&project, None);
    for key in config_keys() {
        let default = match &defaults[&key.name]["value"] {
            Value::Null => "–".to_owned(),
            Value::Array(list) if list.is_empty() => "–".to_owned(),
            Value::Object(table) if table.is_empty() => "–".to_owned(),
            value => format!("`{value}`"),
        };
        let variable =
            find_variable(&project, &key.name).map_or("–".to_owned(), |variable| format!("`{variable}`"));
        page.push_str(&format!(
            "| `{}` | {} | {default} | {variable} | {} | {} |\n",
            key.name,
            key.kind,
            try_in_project(&key.name),
            key.meaning
        ));
    }
    compare_page("docs/configuration.md", &page);
}

#[test]
fn json_reference_is_generated() {
    let text = read_page("docs/json.md");
    let (before, _) = text.split_once("\n## Schemas\n").unwrap();
    let row = |known: &DocumentSchema| format!("| `{}` | {} |\n", schema_id(known.name), known.about);
    let inputs: String = INPUTS.iter().map(row).collect();
    let outputs: String = OUTPUTS.iter().map(row).collect();
    let schema = OUTPUTS.iter().find(|known| known.name == "event").unwrap().schema();
    let names = schema.pointer("/$defs/EventName/oneOf").unwrap().as_array().unwrap();
    assert_eq!(names.len(), EventName::ALL.len());
    let events: String = names
        .iter()
        .map(|name| {
            format!("| `{}` | {} |\n", name["const"].as_str().unwrap(), name["description"].as_str().unwrap())
        })
        .collect();
    let page = format!(
        "{before}\n## Schemas\n\n`callsheet schema NAME` prints a schema; `run-result` is the name of `callsheet/run-result/1`.\n\n\
         | input | is read by |\n|---|---|\n{inputs}\n| output | is printed by |\n|---|---|\n{outputs}\n\
         ## Events\n\n| event | means |\n|---|---|\n{events}"
    );
    compare_page("docs/json.md", &page);
}
