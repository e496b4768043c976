//! Tests the two entry points for Rust callers. Each test is named after the requirement that it proves.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::{DocumentKind, MissingPolicy};
use callsheet_core::render::render;
use callsheet_core::{
    Builtin, ContextItem, Listing, ListingEntry, ListingLimits, Prompt, PromptBuilder, PromptFormat, Request,
    SharedText, SlotValues, SourceError, SourceId, SourceRoot, Sources, UnifiedPrompt, compose,
    inject_variables, load_system_template,
};
use serde_json::{Value, json};

/// Texts by `ROOT:PATH`. Of the shipped files, only the recipes are available.
#[derive(Default)]
struct Files(RefCell<BTreeMap<String, String>>);

impl Files {
    fn from_files(files: &[(&str, &str)]) -> Self {
        let all = Self::default();
        all.put("builtin:templates/shared/data-block.md", "## {{title}}\n\n{{rows}}\n");
        files.iter().for_each(|(id, text)| all.put(id, text));
        all
    }

    fn put(&self, id: &str, text: &str) {
        self.0.borrow_mut().insert(id.into(), text.into());
    }
}

impl Sources for Files {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        match self.0.borrow().get(&id.to_string()) {
            Some(text) if text == "unreadable" => Err(SourceError::NotAFile("directory")),
            Some(text) => Ok(Some(text.as_str().into())),
            None if id.root() == SourceRoot::Builtin && id.path().starts_with("recipes/") => Builtin.text(id),
            None => Ok(None),
        }
    }

    fn list(&self, dir: &SourceId, _: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let start = format!("{dir}/");
        let files = self.0.borrow();
        let below = files.keys().filter_map(|id| id.strip_prefix(&start)).filter(|rest| !rest.contains('/'));
        let entries = below.map(|path| ListingEntry { path: path.into(), dir: false }).collect();
        Ok(Some(Listing { entries, ..Listing::default() }))
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

fn slot_values<const N: usize>(pairs: [(&str, &str); N]) -> SlotValues {
    pairs.into()
}

fn list_warnings<S: Sources>(builder: &PromptBuilder<S>) -> Vec<String> {
    builder.compose().unwrap().diagnostics.iter().map(ToString::to_string).collect()
}

const GREETER: (&str, &str) =
    ("builtin:templates/identity/greeter.md", "---\nvariables: [name]\n---\nYou are {{name}}.\n");

const ALL_LAYERS: &str = "You are Ada.

---

Uses PostgreSQL.

Talks to nobody.

---

Ask before a migration.

Write tests.

---

Add login.

---

The user table is there.";

#[test]
fn b1_layer_order_ignores_call_order() {
    let files = Files::from_files(&[GREETER]);
    let tools = vec![json!({"name": "grep"})];
    let memory = async |_: Option<&str>| Ok::<_, Infallible>(vec!["Uses PostgreSQL.", "Talks to nobody."]);
    let rules = async |_: Option<&str>, query: &str| {
        Ok::<_, Infallible>(vec![format!("Ask before a {query}."), "Write tests.".into()])
    };

    let mut forwards = PromptBuilder::new(&files);
    forwards.set_identity("greeter", slot_values([("name", "Ada")]));
    block_on(forwards.load_project_context(memory));
    block_on(forwards.load_relevant_rules("migration", rules));
    forwards.add_context("task", "Add login.").add_context("upstream", "The user table is there.");
    forwards.set_core_tools(tools.clone());

    let mut backwards = PromptBuilder::new(&files);
    backwards.set_tools(tools.clone());
    backwards.add_context("task", "Add login.").add_context("upstream", "The user table is there.");
    block_on(backwards.load_relevant_rules("migration", rules));
    block_on(backwards.load_project_context(memory));
    backwards.set_identity("greeter", slot_values([("name", "Ada")]));

    assert_eq!(forwards.build().unwrap(), (ALL_LAYERS.to_string(), tools));
    assert_eq!(backwards.build().unwrap(), forwards.build().unwrap());
}

#[test]
fn b1_empty_layer_leaves_no_separator() {
    let files = Files::from_files(&[GREETER]);
    assert_eq!(PromptBuilder::new(&files).build().unwrap(), (String::new(), vec![]));

    let mut identity = PromptBuilder::new(&files);
    identity.set_identity("greeter", slot_values([("name", "Ada")]));
    assert_eq!(identity.build_task_prompt().unwrap(), "You are Ada.");

    let mut context = PromptBuilder::new(&files);
    context.add_context("task", "Add login.");
    assert_eq!(context.build_task_prompt().unwrap(), "Add login.");
    context.set_identity("greeter", slot_values([("name", "Ada")]));
    assert_eq!(context.build_task_prompt().unwrap(), "You are Ada.\n\n---\n\nAdd login.");
}

#[test]
fn b2_identity_uses_template_search() {
    let own = ("project:.callsheet/templates/identity/greeter.md", "I am {{name}}, of this project.");
    let users = ("user:templates/identity/auditor.md", "You audit.");
    let files = Files::from_files(&[GREETER, own, users]);
    let mut builder = PromptBuilder::new(&files);
    builder.set_identity("greeter", slot_values([("name", "Ada")]));
    assert_eq!(builder.build_task_prompt().unwrap(), "I am Ada, of this project.");
    builder.set_identity("auditor", SlotValues::default());
    assert_eq!(builder.build_task_prompt().unwrap(), "You audit.");

    builder.set_identity("greter", SlotValues::default());
    assert_eq!(
        builder.build().unwrap_err().to_string(),
        "error[TemplateNotFound]: no template for role `greter`
  = looked in project:.callsheet/templates/identity/greter.md
  =           user:templates/identity/greter.md
  =           builtin:templates/identity/greter.md
  = hint: did you mean `greeter`?
  = hint: known roles: auditor, greeter"
    );
}

#[test]
fn b3_project_layer_contains_only_memory() {
    let files = Files::from_files(&[
        ("project:README.md", "A readme."),
        ("project:CLAUDE.md", "A file of instructions."),
        ("project:.callsheet/memory/profile.md", "A profile."),
    ]);
    let mut builder = PromptBuilder::for_project(&files, "shop");
    builder.add_context("task", "Add login.");
    assert_eq!(builder.build_task_prompt().unwrap(), "Add login.");

    block_on(builder.load_project_context(async |project: Option<&str>| {
        Ok::<_, Infallible>(vec![format!("Project {}.", project.unwrap_or("unknown")), " \n".into()])
    }));
    assert_eq!(builder.build_task_prompt().unwrap(), "Project shop.\n\n---\n\nAdd login.");

    block_on(builder.load_project_context(async |_: Option<&str>| Ok::<Vec<String>, Infallible>(vec![])));
    assert_eq!(builder.build_task_prompt().unwrap(), "Add login.");
    assert_eq!(list_warnings(&builder), [""; 0]);
}

#[test]
fn b3_b4_failed_source_is_warning() {
    let files = Files::from_files(&[]);
    let mut builder = PromptBuilder::new(&files);
    builder.add_context("task", "Add login.");
    let memory = async |_: Option<&str>| Err::<Vec<String>, _>("no connection");
    let rules = async |_: Option<&str>, _: &str| Err::<Vec<String>, _>("timed out");
    block_on(builder.load_project_context(memory));
    block_on(builder.load_relevant_rules("login", rules));
    assert_eq!(builder.build_task_prompt().unwrap(), "Add login.");
    assert_eq!(
        list_warnings(&builder),
        [
            "warning[SourceUnreadable]: layer memory is empty: no connection",
            "warning[SourceUnreadable]: layer rules is empty: timed out",
        ]
    );

    block_on(builder.load_relevant_rules("login", async |_: Option<&str>, _: &str| {
        Ok::<_, Infallible>(vec!["Hash passwords."])
    }));
    assert_eq!(builder.build_task_prompt().unwrap(), "Hash passwords.\n\n---\n\nAdd login.");
    assert_eq!(list_warnings(&builder).len(), 1);
}

#[test]
fn b4_rule_source_gets_query() {
    async fn rules(project: Option<&str>, query: &str) -> Result<Vec<String>, Infallible> {
        Ok(vec![format!("{project:?} {query}")])
    }
    let files = Files::from_files(&[]);
    let mut builder = PromptBuilder::for_project(&files, "shop");
    block_on(builder.load_relevant_rules("login", rules));
    assert_eq!(builder.build_task_prompt().unwrap(), "Some(\"shop\") login");
    let mut builder = PromptBuilder::new(&files);
    block_on(builder.load_relevant_rules("login", rules));
    assert_eq!(builder.build_task_prompt().unwrap(), "None login");
}

#[test]
fn b4_loading_is_send_with_sources() {
    fn can_be_sent<T: Send>(_: &T) {}
    async fn memory(_: Option<&str>) -> Result<Vec<String>, Infallible> {
        Ok(vec![])
    }
    let mut builder = PromptBuilder::new(Builtin);
    can_be_sent(&builder);
    can_be_sent(&builder.load_project_context(memory));
    can_be_sent(&async {
        builder.load_relevant_rules("login", async |_: Option<&str>, _: &str| memory(None).await).await;
        builder.build()
    });
}

#[test]
fn b5_blocks_keep_call_order() {
    let files = Files::from_files(&[]);
    let mut builder = PromptBuilder::new(&files);
    builder.add_context("hook", " indented\n").add_context("task", "one").add_context("blank", " \n\t");
    builder.add_context_section("system_metadata", [("workspace", json!(".")), ("retries", json!(2))]);
    builder.add_context_section("empty", [("", ""); 0]);
    builder.add_context("task", "two {{name}}");
    assert_eq!(
        builder.build_task_prompt().unwrap(),
        " indented\n\n\n---\n\none\n\n---\n\n\
         ## System Metadata\n\n- **workspace:** .\n- **retries:** 2\n\n---\n\ntwo {{name}}"
    );
}

#[test]
fn b5_invalid_block_name_is_refused() {
    let files = Files::from_files(&[]);
    let mut builder = PromptBuilder::new(&files);
    builder.add_context("two words", "x");
    assert_eq!(
        builder.build().unwrap_err().to_string(),
        "error[RequestBadName]: invalid context block name `two words`
  = hint: a name begins with a letter or digit and contains only letters, digits, `_` and `-`"
    );
}

#[test]
fn b6_both_setters_share_tool_list() {
    let files = Files::from_files(&[]);
    let (grep, edit) = (json!({"name": "grep"}), json!({"name": "edit"}));
    let mut builder = PromptBuilder::new(&files);
    builder.add_context("task", "Add login.");
    builder.set_core_tools(vec![grep.clone()]);
    assert_eq!(builder.build().unwrap(), ("Add login.".into(), vec![grep]));
    builder.set_tools(vec![edit.clone()]);
    assert_eq!(builder.build().unwrap(), ("Add login.".into(), vec![edit]));
}

#[test]
fn b7_repeated_build_is_identical() {
    let files = Files::from_files(&[GREETER]);
    let mut builder = PromptBuilder::new(&files);
    builder.set_identity("greeter", slot_values([("name", "Ada")])).add_context("task", "Add login.");
    let first = builder.build().unwrap();
    assert_eq!(first, ("You are Ada.\n\n---\n\nAdd login.".into(), vec![]));
    assert_eq!(builder.build().unwrap(), first);
    assert_eq!(builder.build_task_prompt().unwrap(), first.0);
    assert_eq!(builder.build().unwrap(), first);
}

#[test]
fn b8_template_found_by_any_name() {
    let files = Files::from_files(&[
        GREETER,
        ("builtin:templates/depth/greeter.md", "hidden by the identity"),
        ("builtin:templates/shared/note.md", "A note of {{ who }}.\n"),
        ("builtin:templates/system/BASE-plan.md", "You plan."),
        ("project:prompts/flat.md", "Flat."),
        ("builtin:templates/shared/broken.md", "---\nname: x\n"),
        ("project:.callsheet/templates/shared/note.md", "unreadable"),
    ]);
    let builder = PromptBuilder::new(&files);
    assert_eq!(builder.get_template("greeter").as_deref(), Some("You are {{name}}."));
    assert_eq!(builder.get_template("depth/greeter").as_deref(), Some("hidden by the identity"));
    assert_eq!(builder.get_template("system/BASE-plan.md").as_deref(), Some("You plan."));
    for none in ["BASE-plan", "flat", "nobody", "../greeter", "", "/etc/passwd", "{role}", "broken", "note"] {
        assert_eq!(builder.get_template(none), None, "{none}");
    }
    let mut builder = PromptBuilder::new(&files);
    builder.set_layout(Layout { templates: vec!["prompts".into()], ..Layout::default() });
    assert_eq!(builder.get_template("flat").as_deref(), Some("Flat."));
    assert_eq!(builder.get_template("note").as_deref(), Some("A note of {{ who }}."));
}

#[test]
fn b8_rendering_reports_template_errors() {
    let files = Files::from_files(&[
        ("builtin:templates/shared/note.md", "A note of {{ who }}.\n"),
        ("builtin:templates/shared/own.md", "{{role}}{{project_documents}}"),
        ("project:README.md", "A readme."),
    ]);
    let builder = PromptBuilder::new(&files);
    let said = |name: &str| builder.render_template(name, SlotValues::default()).unwrap_err().to_string();
    assert_eq!(
        said("note"),
        "error[SlotUnfilled]: nothing fills `who`
  ┌─ builtin:templates/shared/note.md:1:14
1 │ A note of {{ who }}.
  │              ^^^
  = hint: add `--set who=…`, or leave it out with `--missing empty`"
    );
    assert_eq!(
        said("depth/nobody"),
        "error[TemplateNotFound]: no template for section `depth/nobody`
  = looked in project:.callsheet/templates/depth/nobody.md
  =           user:templates/depth/nobody.md
  =           builtin:templates/depth/nobody.md"
    );
    assert_eq!(
        said("own"),
        "error[SlotUnfilled]: nothing fills `role`
  ┌─ builtin:templates/shared/own.md:1:3
1 │ {{role}}{{project_documents}}
  │   ^^^^
  = hint: add `--set role=…`, or leave it out with `--missing empty`"
    );
    assert_eq!(builder.render_template("own", slot_values([("role", "x")])).unwrap(), "x");
    assert_eq!(said("../note"), "error[RequestBadName]: invalid template name `../note`");
}

#[test]
fn b8_missing_variable_depends_on_strictness() {
    let files = Files::from_files(&[
        GREETER,
        (
            "builtin:templates/shared/note.md",
            "---\nvariables: [who, {name: when, default: today}, {name: why, required: false}]\n---\n\
             {{who}} {{when}} {{why}}.",
        ),
    ]);
    let mut builder = PromptBuilder::new(&files);
    builder.set_identity("greeter", SlotValues::default());
    assert_eq!(
        builder.build().unwrap_err().to_string(),
        "error[SlotUnfilled]: nothing fills `name`
  ┌─ builtin:templates/identity/greeter.md:4:11
4 │ You are {{name}}.
  │           ^^^^
  = hint: add `--set name=…`, or leave it out with `--missing empty`"
    );
    assert_eq!(
        builder.render_template("note", slot_values([("who", "{{when}}")])).unwrap(),
        "{{when}} today ."
    );

    builder.set_missing(MissingPolicy::Empty);
    assert_eq!(builder.build_task_prompt().unwrap(), "You are .");
    assert_eq!(
        list_warnings(&builder),
        ["warning[SlotUnfilled]: nothing fills `name`
  ┌─ builtin:templates/identity/greeter.md:4:11
4 │ You are {{name}}.
  │           ^^^^
  = hint: add `--set name=…`"]
    );
    assert_eq!(builder.render_template("note", SlotValues::default()).unwrap(), " today .");
}

#[test]
fn b8_templates_are_cached_until_reload() {
    let files = Files::from_files(&[("builtin:templates/identity/clerk.md", "first")]);
    let mut builder = PromptBuilder::new(&files);
    builder.set_identity("clerk", SlotValues::default());
    assert_eq!(builder.build_task_prompt().unwrap(), "first");
    assert_eq!(builder.get_template("late"), None);

    files.put("builtin:templates/identity/clerk.md", "second");
    files.put("builtin:templates/identity/late.md", "late");
    assert_eq!(builder.build_task_prompt().unwrap(), "first");
    assert_eq!(builder.get_template("clerk").as_deref(), Some("first"));
    assert_eq!(builder.get_template("late"), None);
    assert_eq!(PromptBuilder::new(&files).get_template("clerk").as_deref(), Some("second"));

    builder.reload();
    assert_eq!(builder.build_task_prompt().unwrap(), "second");
    assert_eq!(builder.get_template("late").as_deref(), Some("late"));
}

#[test]
fn b9_task_depth_selects_execution_rules() {
    let files = Files::from_files(&[
        ("builtin:templates/depth/plan-structure-guide.md", "Plan at most {{max_steps}} steps."),
        ("builtin:templates/depth/controlled-splitting.md", "Level {{current_depth}} of {{max_depth}}."),
        ("builtin:templates/depth/execution-focus.md", "Do it."),
    ]);
    let rules = |data: &[(&str, Value)]| {
        let mut builder = PromptBuilder::new(&files);
        builder.add_context_section("task_depth", data.iter().cloned());
        let composed = builder.compose().unwrap();
        let blocks: Vec<&str> =
            composed.prompt.sections.iter().flat_map(|s| &s.blocks).map(|block| &*block.name).collect();
        assert_eq!(blocks, ["execution_rules"]);
        builder.build_task_prompt().unwrap()
    };
    assert_eq!(rules(&[("depth", json!(0))]), "Plan at most 20 steps.");
    assert_eq!(rules(&[("depth", json!(0)), ("max_steps", json!("7"))]), "Plan at most 7 steps.");
    assert_eq!(rules(&[("depth", json!(1))]), "Level 1 of 2.");
    assert_eq!(rules(&[("depth", json!(2))]), "Do it.");
    assert_eq!(rules(&[("depth", json!(0)), ("max_depth", json!(0))]), "Do it.");

    let mut builder = PromptBuilder::new(&files);
    builder.add_context_section("task_depth", [("depth", json!(-1)), ("max_steps", json!("many"))]);
    assert_eq!(
        builder.build().unwrap_err().to_string(),
        "error[DepthBad]: invalid `depth` of `task_depth`: -1: expected a whole number of 0 or more
error[DepthBad]: invalid `max_steps` of `task_depth`: \"many\": expected a whole number of 0 or more"
    );
}

fn context_item(kind: DocumentKind, name: &str, content: &str) -> ContextItem {
    ContextItem { kind, name: name.into(), content: content.into() }
}

#[test]
fn u1_json_round_trips() {
    let bare = UnifiedPrompt { instructions: "Add login".into(), ..UnifiedPrompt::default() };
    assert_eq!(bare.to_json(), r#"{"context":[],"instructions":"Add login"}"#);
    let full = UnifiedPrompt {
        system_prompt: Some("".into()),
        context: vec![context_item(DocumentKind::Thought, "why", "\"\\\r\n\u{0}")],
        tools: vec![json!({"name": "grep", "input_schema": {"type": "object"}})],
        ..bare.clone()
    };
    assert_eq!(
        full.to_json(),
        concat!(
            r#"{"system_prompt":"","context":[{"type":"thought","name":"why","content":"\"\\\r\n\u0000"}],"#,
            r#""instructions":"Add login","tools":[{"name":"grep","input_schema":{"type":"object"}}]}"#
        )
    );
    for prompt in [bare, full] {
        assert_eq!(UnifiedPrompt::from_json(&prompt.to_json()).unwrap(), prompt);
    }
    let least = UnifiedPrompt::from_json(r#"{"instructions": ""}"#).unwrap();
    assert_eq!(least, UnifiedPrompt::default());
}

#[test]
fn u1_invalid_json_reports_every_field() {
    let failure = UnifiedPrompt::from_json(
        r#"{"system_prompt": null, "instruction": "Add login", "tools": {}, "context": [
            {"type": "file", "name": "a", "content": "b"},
            {"type": "image", "name": 3, "contents": "b"},
            "text"]}"#,
    )
    .unwrap_err();
    let messages: Vec<&str> = failure.0.iter().map(|diag| diag.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`instructions` is missing",
            "`system_prompt` is of type null, not string",
            "unknown key `instruction`",
            "`tools` is of type object, not array",
            "`context[1].content` is missing",
            "`context[1].type` is `image`, not one of file, artifact, thought",
            "`context[1].name` is of type number, not string",
            "unknown key `context[1].contents`",
            "`context[2]` is of type string, not object",
        ]
    );
    assert!(failure.0.iter().all(|diag| diag.code.as_str() == "prompt/bad"));
    for (json, message) in [
        ("[]", "it is of type array, not object"),
        (r#"{"instructions": "a", "instructions": "b"}"#, "duplicate field `instructions`"),
        ("{", "EOF while parsing an object"),
    ] {
        let failure = UnifiedPrompt::from_json(json).unwrap_err();
        assert_eq!(failure.0.iter().map(|diag| diag.message.as_str()).collect::<Vec<_>>(), [message]);
    }
}

#[test]
fn u1_schema_requires_instructions_and_items() {
    let schema = Value::from(schemars::schema_for!(UnifiedPrompt));
    assert_eq!(
        schema,
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "UnifiedPrompt",
            "description": "The input of an agent, in three parts, and the tools it may use.",
            "type": "object",
            "additionalProperties": false,
            "required": ["instructions"],
            "properties": {
                "system_prompt": {"type": "string", "description": "The identity of the agent and its way of working."},
                "context": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/ContextItem"},
                    "description": "The material that the agent works with.",
                    "default": [],
                },
                "instructions": {"type": "string", "description": "The work that the agent must do."},
                "tools": {
                    "type": "array",
                    "items": true,
                    "description": "JSON Schema tool definitions. They never become text.",
                },
            },
            "$defs": {
                "ContextItem": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["type", "name", "content"],
                    "description": "A file, an output of earlier work, or a thought.",
                    "properties": {
                        "type": {"$ref": "#/$defs/DocumentKind", "description": "The kind of the item."},
                        "name": {
                            "type": "string",
                            "description": "The path of a file, or the name of the item.",
                        },
                        "content": {"type": "string", "description": "The text of the item."},
                    },
                },
                "DocumentKind": {
                    "description": "The kind of a document.",
                    "oneOf": [
                        {"type": "string", "const": "file", "description": "A file of the project."},
                        {"type": "string", "const": "artifact", "description": "An output of earlier work."},
                        {"type": "string", "const": "thought", "description": "A thought of an agent or a person."},
                    ],
                },
            },
        })
    );
}

#[test]
fn u2_xml_has_parts_without_padding() {
    let prompt = UnifiedPrompt {
        system_prompt: Some("You plan.".into()),
        context: vec![
            context_item(DocumentKind::File, "src/main.rs", "fn main() {}\n"),
            context_item(DocumentKind::Artifact, "plan \"2\"", "a < b"),
            context_item(DocumentKind::Thought, "why", ""),
        ],
        instructions: "Add login".into(),
        tools: vec![json!({"name": "grep"})],
    };
    assert_eq!(
        prompt.to_xml().unwrap(),
        "<prompt><system_prompt>You plan.</system_prompt><context>\
         <file path=\"src/main.rs\">fn main() {}\n</file>\
         <artifact name=\"plan &quot;2&quot;\"><![CDATA[a < b]]></artifact>\
         <thought name=\"why\"></thought></context>\
         <instructions>Add login</instructions></prompt>"
    );
    let bare = UnifiedPrompt { instructions: "Add login".into(), ..UnifiedPrompt::default() };
    assert_eq!(
        bare.to_xml().unwrap(),
        "<prompt><system_prompt></system_prompt><instructions>Add login</instructions></prompt>"
    );
}

#[test]
fn u2_xml_round_trips_every_byte() {
    let hostile = " </file>]]>&amp;<![CDATA[\r\n\r\u{1F600}{{NAME}}\t";
    let prompt = UnifiedPrompt {
        system_prompt: Some(hostile.into()),
        context: vec![context_item(DocumentKind::File, hostile, hostile)],
        instructions: hostile.into(),
        tools: vec![],
    };
    let xml = prompt.to_xml().unwrap();
    let read = roxmltree::Document::parse(&xml).unwrap();
    let text = |tag: &str| {
        let node = read.descendants().find(|node| node.has_tag_name(tag)).unwrap();
        node.children().filter_map(|child| child.text()).collect::<String>()
    };
    for tag in ["system_prompt", "file", "instructions"] {
        assert_eq!(text(tag), hostile, "{tag}");
    }
    let file = read.descendants().find(|node| node.has_tag_name("file")).unwrap();
    assert_eq!(file.attribute("path"), Some(hostile));
}

#[test]
fn u2_invalid_xml_character_names_item() {
    let prompt = UnifiedPrompt {
        context: vec![context_item(DocumentKind::File, "image.png", "ab\u{0}c")],
        instructions: "Add login".into(),
        ..UnifiedPrompt::default()
    };
    assert_eq!(
        prompt.to_xml().unwrap_err().to_string(),
        "error[XmlCharacter]: document image.png: XML cannot represent U+0000 at offset 2
  ┌─ document image.png:1:3
1 │ ab\\u{0}c
  │   ^^^^^
  = hint: omit the file, or add `--format json`"
    );
}

#[test]
fn u1_composed_json_round_trips() {
    let files = Files::from_files(&[("builtin:templates/system/BASE-plan.md", "You plan \"{{goal}}\".")]);
    let request: Request = serde_json::from_value(json!({
        "recipe": "unified", "phase": "plan", "instructions": "Add\r\nlogin",
        "values": {"goal": "\\ \u{7}"},
        "documents": [{"type": "artifact", "name": "a \"b\"", "content": "\t"}],
        "context": [{"name": "hook", "text": "fired"}],
        "tools": [{"name": "grep"}],
    }))
    .unwrap();
    let composed = compose(&request, &files).unwrap();
    let unified = UnifiedPrompt {
        system_prompt: Some("You plan \"\\ \u{7}\".".into()),
        context: vec![
            context_item(DocumentKind::Artifact, "a \"b\"", "\t"),
            context_item(DocumentKind::Artifact, "hook", "fired"),
        ],
        instructions: "Add\r\nlogin".into(),
        tools: vec![json!({"name": "grep"})],
    };
    let json = render(&composed.prompt, PromptFormat::Json, None).unwrap().text;
    assert_eq!(UnifiedPrompt::from_json(&json).unwrap(), unified);
    assert_eq!(UnifiedPrompt::try_from(&composed.prompt).unwrap(), unified);
    assert_eq!(UnifiedPrompt::try_from(&Prompt::from(&unified)).unwrap(), unified);
}

#[test]
fn u3_t1_agent_template_beats_base() {
    let files = Files::from_files(&[
        ("builtin:templates/system/BASE-plan.md", "---\nname: plan\n---\n\nBase {{PROJECT_CONTEXT}}.\n"),
        ("builtin:templates/system/CLAUDE-plan.md", "Claude."),
        ("user:templates/system/CODEX-plan.md", "Codex."),
        ("project:.callsheet/templates/system/CODEX-plan.md", "Codex, of this project."),
    ]);
    let load = |agent| {
        let loaded = load_system_template(&files, &Layout::default(), agent, "plan").unwrap();
        (loaded.text, loaded.fallback.map(|note| note.to_string()).unwrap_or_default())
    };
    let own = |text: &str| (text.to_owned(), String::new());
    assert_eq!(load("CLAUDE"), own("Claude."));
    assert_eq!(load("claude"), own("Claude."));
    assert_eq!(load("codex"), own("Codex, of this project."));
    assert_eq!(load("base"), own("Base {{PROJECT_CONTEXT}}."));
    let note = "note[TemplateFallback]: no `templates/system/GEMINI-plan.md`; \
                using `builtin:templates/system/BASE-plan.md`";
    assert_eq!(load("GEMINI"), ("Base {{PROJECT_CONTEXT}}.".to_owned(), note.to_owned()));
}

/// The project keeps its templates in the folders of agentd and agent-queue.
#[test]
fn t1_b2_layout_sets_template_folders() {
    let files = Files::from_files(&[
        ("builtin:templates/system/BASE-plan.md", "Base."),
        ("builtin:templates/identity/clerk.md", "Shipped."),
        ("project:templates/system/CLAUDE-plan.md", "Ours."),
        ("project:src/prompts/clerk.md", "Flat."),
    ]);
    let layout = Layout { templates: vec!["templates".into(), "src/prompts".into()], ..Layout::default() };
    assert_eq!(load_system_template(&files, &layout, "claude", "plan").unwrap().text, "Ours.");
    let mut builder = PromptBuilder::new(files);
    builder.set_layout(layout);
    assert_eq!(builder.get_template("clerk").as_deref(), Some("Flat."));
    builder.set_layout(Layout::default());
    assert_eq!(builder.get_template("clerk").as_deref(), Some("Shipped."));
}

#[test]
fn u6_missing_template_lists_searched_places() {
    let files = Files::from_files(&[
        ("builtin:templates/system/BASE-plan.md", "Base."),
        ("builtin:templates/system/BASE-review.md", "Base."),
        ("project:.callsheet/templates/system/CLAUDE-review.md", "unreadable"),
    ]);
    let said = |agent, phase| {
        load_system_template(&files, &Layout::default(), agent, phase).unwrap_err().to_string()
    };
    assert_eq!(
        said("claude", "paln"),
        "error[TemplateNotFound]: no template for phase `paln`
  = looked in project:.callsheet/templates/system/CLAUDE-paln.md
  =           user:templates/system/CLAUDE-paln.md
  =           builtin:templates/system/CLAUDE-paln.md
  =           project:.callsheet/templates/system/BASE-paln.md
  =           user:templates/system/BASE-paln.md
  =           builtin:templates/system/BASE-paln.md
  = hint: did you mean `plan`?
  = hint: known phases: plan, review"
    );
    assert_eq!(
        said("claude", "review"),
        "error[SourceUnreadable]: cannot read `project:.callsheet/templates/system/CLAUDE-review.md`: \
         it is a directory, not a regular file"
    );
    assert_eq!(
        said("../claude", "plan"),
        "error[RequestBadName]: invalid agent `../claude`
  = hint: a name begins with a letter or digit and contains only letters, digits, `_` and `-`"
    );
}

#[test]
fn t4_variables_are_injected_once() {
    let template =
        "# Identity\r\n{{PROJECT_CONTEXT}} {{ TASKS }}{{SKELETON}} {{SKELETON}}\n\\{{TASKS}} {{> note}}";
    let given = slot_values([("TASKS", "1. {{PROJECT_CONTEXT}}\r\n"), ("UNUSED", "x")]);
    let injected = inject_variables(template, &given);
    assert_eq!(
        injected.text,
        "# Identity\nContext not provided 1. {{PROJECT_CONTEXT}}\r\n \n{{TASKS}} {{> note}}"
    );
    let warnings: Vec<String> = injected.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "warning[SlotUnfilled]: nothing fills `PROJECT_CONTEXT`
  ┌─ template:2:3
2 │ {{PROJECT_CONTEXT}} {{ TASKS }}{{SKELETON}} {{SKELETON}}
  │   ^^^^^^^^^^^^^^^",
            "warning[SlotUnfilled]: nothing fills `SKELETON`
  ┌─ template:2:34
2 │ {{PROJECT_CONTEXT}} {{ TASKS }}{{SKELETON}} {{SKELETON}}
  │                                  ^^^^^^^^",
            "warning[FragmentNotFound]: fragment `note` was not expanded
  ┌─ template:3:16
3 │ \\{{TASKS}} {{> note}}
  │                ^^^^",
        ]
    );
    let all = slot_values([("PROJECT_CONTEXT", ""), ("TASKS", ""), ("SKELETON", "{{> x}}")]);
    assert_eq!(inject_variables("{{PROJECT_CONTEXT}}{{SKELETON}}", &all).text, "{{> x}}");
    assert!(inject_variables("{{PROJECT_CONTEXT}}{{SKELETON}}", &all).warnings.is_empty());
}

/// Warnings of the rendering reach the caller, beside those of the composition and of the caller's sources.
#[test]
fn builders_return_all_warnings() {
    let codes =
        |diagnostics: &[Diagnostic]| -> Vec<Code> { diagnostics.iter().map(|diag| diag.code).collect() };
    let files =
        Files::from_files(&[("builtin:templates/identity/greeter.md", "You are {{name}}.\n\n## Rules")]);
    let mut builder = PromptBuilder::new(&files);
    builder.set_missing(MissingPolicy::Empty).set_identity("greeter", SlotValues::default());
    builder.add_context("task", "## Rules\n\nNone.");
    builder.set_core_tools(vec![serde_json::json!({ "name": "grep" })]);
    block_on(builder.load_relevant_rules("x", async |_, _| Err::<Vec<String>, _>("no answer")));
    let built = builder.build_prompt().unwrap();
    assert_eq!(codes(&built.diagnostics), [Code::SourceUnreadable, Code::SlotUnfilled, Code::TextFenced]);
    assert_eq!((built.text, built.tools), builder.build().unwrap());
    let filled = builder.fill_template("greeter", SlotValues::default()).unwrap();
    assert_eq!(
        (filled.text.as_str(), codes(&filled.warnings)),
        ("You are .\n\n## Rules", vec![Code::TemplateFallback, Code::SlotUnfilled])
    );

    let unified = UnifiedPrompt {
        instructions: "Go.".into(),
        tools: vec![serde_json::json!({ "name": "grep" })],
        ..UnifiedPrompt::default()
    };
    let rendered = unified.render(PromptFormat::Xml).unwrap();
    assert_eq!(codes(&rendered.diagnostics), [Code::ToolsNotShown]);
    assert_eq!(rendered.text, unified.to_xml().unwrap());
    let prompt = builder.compose().unwrap().prompt;
    let (data, warnings) = UnifiedPrompt::from_prompt(&prompt).unwrap();
    assert_eq!(codes(&warnings), Vec::<Code>::new(), "JSON needs no fence");
    assert_eq!(data, UnifiedPrompt::try_from(&prompt).unwrap());
}
