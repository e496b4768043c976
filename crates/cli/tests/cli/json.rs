//! The documents that callsheet reads and writes for programs.

use callsheet::output::{INPUTS, OUTPUTS};
use callsheet_testing::{TestProject, run_command};
use serde_json::{Value, json};

/// Returns every object schema in a schema that lists properties.
fn object_schemas<'s>(schema: &'s Value, found: &mut Vec<&'s Value>) {
    if schema["type"] == "object" && schema["properties"].is_object() {
        found.push(schema);
    }
    match schema {
        Value::Object(map) => map.values().for_each(|inner| object_schemas(inner, found)),
        Value::Array(items) => items.iter().for_each(|inner| object_schemas(inner, found)),
        _ => {}
    }
}

#[test]
fn every_schema_is_valid_and_closed() {
    let project = TestProject::new();
    for known in INPUTS.iter().chain(OUTPUTS) {
        let schema = project.run(["schema", known.name]).expect_code(0).json();
        assert!(jsonschema::meta::is_valid(&schema), "{}", known.name);
        assert_eq!(schema["$id"], format!("callsheet/{}/1", known.name));
        let mut objects = Vec::new();
        object_schemas(&schema, &mut objects);
        let open = objects.iter().find(|object| object["additionalProperties"] != false);
        assert_eq!(open, None, "{}", known.name);
    }
    for known in OUTPUTS {
        let schema = known.schema();
        let first = schema.get("required").and_then(|required| required[0].as_str());
        assert_eq!(first, Some("schema"), "{}", known.name);
    }
    assert!(OUTPUTS.is_sorted_by_key(|known| known.name));
    assert_eq!(project.run(["schema", "nothing"]).code, Some(2));
}

#[test]
fn request_schema_matches_reader() {
    let project = TestProject::new();
    let schema = project.run(["schema", "request"]).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let cases = [
        (json!({ "schema": "callsheet/request/1" }), true),
        (json!({ "schema": "callsheet/request/2" }), false),
        (json!({ "context": [{ "name": "a", "text": "x" }] }), true),
        (json!({ "context": [{ "name": "a", "data": { "k": 1 } }] }), true),
        (json!({ "context": [{ "name": "a", "text": "x", "data": null }] }), true),
        (json!({ "context": [{ "name": "a" }] }), false),
        (json!({ "context": [{ "name": "a", "text": "x", "data": {} }] }), false),
        (json!({ "documents": [{}] }), false),
        (json!({ "documents": [{ "content": "x" }] }), false),
        (json!({ "documents": [{ "content": "x", "name": "n" }] }), true),
        (json!({ "task": { "depth": 1_099_511_627_776_u64 } }), false),
        (json!({ "task": { "depth": 1 } }), true),
        (json!({ "unheard_of": 1 }), false),
    ];
    for (mut request, is_valid) in cases {
        request["instructions"] = json!("Go.");
        let composed = project.run_with(&["-q", "compose", "--request", "-"], request.to_string().as_bytes());
        assert_eq!(validator.is_valid(&request), is_valid, "{request}");
        assert_eq!(composed.code == Some(0), is_valid, "{request}: {}", composed.err());
    }
    // The name is not part of the prompt.
    let with = project.run_with(
        &["compose", "--request", "-"],
        br#"{"schema":"callsheet/request/1","instructions":"Go."}"#,
    );
    assert_eq!(with.out(), project.run(["compose", "Go."]).out());
}

#[test]
fn compose_json_has_prompt_and_tools() {
    let project = TestProject::new();
    let tool = json!({ "name": "ask", "description": "Asks.", "input_schema": { "type": "object" } });
    project.write("tools.json", json!([tool]).to_string());
    let args = ["compose", "-r", "layers", "--tools", "tools.json", "Go."];
    let composed = project.run(["--json"].iter().chain(&args)).json();
    assert_eq!((&composed["schema"], &composed["run"]), (&json!("callsheet/prompt/1"), &Value::Null));
    assert_eq!(composed["text"], project.run(["-q"].iter().chain(&args)).out());
    assert_eq!(composed["tools"], json!([tool]));
    let ranges = composed["origins"].as_array().unwrap().iter();
    let mut end = 0;
    for range in ranges {
        assert_eq!(range["start"], end, "without a gap");
        end = range["end"].as_u64().unwrap();
    }
    assert_eq!(end, composed["text"].as_str().unwrap().len() as u64);
    assert!(composed["diagnostics"].is_array());
}

#[test]
fn sources_replace_files() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "From the disk.");
    project.write("notes.txt", "A note.");
    let args = ["compose", "-q", "-r", "layers", "--role", "me", "-f", "notes.txt", "Go."];
    assert!(project.run(args).out().starts_with("From the disk."));
    let document =
        |sources: Value| json!({ "schema": "callsheet/sources/1", "sources": sources }).to_string();
    project.write(
        "sources.json",
        document(json!({ "project:.callsheet/templates/identity/me.md": "From the file." })),
    );
    let with = |file: &str| project.run(args.iter().chain(&["--sources", file]));
    let composed = with("sources.json");
    assert_eq!(composed.err(), "");
    assert!(composed.out().starts_with("From the file."), "{}", composed.out());
    assert!(composed.out().contains("A note."), "documents are still read");
    // What the file does not have does not exist, although the disk has it.
    project.write("empty.json", document(json!({})));
    assert_eq!(with("empty.json").code, Some(3));
    for wrong in [
        "",
        "{}",
        "[]",
        r#"{"sources":{"nowhere:x":"y"}}"#,
        r#"{"sources":{"project:../x":"y"}}"#,
        r#"{"sources":{},"more":1}"#,
    ] {
        project.write("wrong.json", wrong);
        assert_eq!(with("wrong.json").code, Some(2), "{wrong}");
    }
    // All mistakes of one kind at once.
    project.write("wrong.json", r#"{"sources":{"nowhere:x":"y","project:../x":"y"}}"#);
    let errors = with("wrong.json");
    assert!(
        errors.err().contains("`nowhere:x`") && errors.err().contains("`project:../x`"),
        "{}",
        errors.err()
    );
    assert_eq!(with("none.json").code, Some(4));
}

#[test]
fn render_writes_given_prompt() {
    let project = TestProject::new();
    let args = ["compose", "-q", "-p", "plan", "--thought", "Hm.", "Add login"];
    let data = project.run(args.iter().chain(&["--format", "json"])).out();
    let composed = project.run(args.iter().chain(&["--format", "xml"])).out();
    project.write("prompt.json", &data);
    assert_eq!(project.run(["render", "prompt.json", "--format", "xml"]).out(), composed);
    assert_eq!(project.run_with(&["render", "-", "--format", "json"], data.as_bytes()).out(), data);
    assert!(project.run(["render", "prompt.json", "--format", "markdown"]).out().contains("Add login"));
    let body =
        project.run(["render", "prompt.json", "--api", "openai", "--model", "m"]).expect_code(0).json();
    assert_eq!(body["model"], "m");
    assert_eq!(project.run(["render", "prompt.json"]).code, Some(2));
    project.write("prompt.json", r#"{"instructions": 1, "more": 2}"#);
    let wrong = project.run(["render", "prompt.json", "--format", "xml"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err().contains("instructions") && wrong.err().contains("more"), "{}", wrong.err());
}

#[test]
fn graph_is_printed_as_json() {
    let project = TestProject::new();
    let graph = project.run(["--json", "flow", "graph", "sdd"]).expect_code(0).json();
    assert_eq!((&graph["definition"], &graph["flow"]), (&json!("sdd"), &Value::Null));
    assert_eq!(graph["mermaid"], project.run(["flow", "graph", "sdd"]).out());
}

#[test]
fn json_behind_dashes_gets_hint() {
    let project = TestProject::new();
    let mut command = project.command();
    let ran = run_command(command.args(["run", "--no-scope", "Go.", "--", "true", "--json"]));
    let hint = "`--json` after `--` is for the program; callsheet's own goes before `--`\n";
    assert!(ran.err().starts_with(hint), "{}", ran.err());
    let mut command = project.command();
    let ran = run_command(command.args(["--json", "run", "--no-scope", "Go.", "--", "true", "--json"]));
    assert!(!ran.err().contains(hint), "{}", ran.err());
}
