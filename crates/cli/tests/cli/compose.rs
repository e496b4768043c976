//! Tests `compose`: it prints the whole prompt and nothing else.

use callsheet_testing::{TestProject, run_command};

use crate::shipped::read_shipped_body;

/// Reads the system text, the documents and the instructions of a prompt with an independent XML parser.
fn parse_parts(xml: &str) -> (String, Vec<(String, String, String)>, String) {
    let document = roxmltree::Document::parse(xml).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "prompt");
    let text = |node: roxmltree::Node<'_, '_>| {
        let text = node.children().filter_map(|child| child.text()).collect::<String>();
        if node.attribute("eol") == Some("crlf") { text.replace('\n', "\r\n") } else { text }
    };
    let child = |name: &str| root.children().find(|node| node.has_tag_name(name));
    let context = child("context").into_iter().flat_map(|context| context.children().collect::<Vec<_>>());
    let context = context.map(|node| {
        let attribute = node.attributes().next().unwrap();
        (node.tag_name().name().to_string(), attribute.value().to_string(), text(node))
    });
    (text(child("system_prompt").unwrap()), context.collect(), text(child("instructions").unwrap()))
}

/// Reads the reply instructions of a phase from a golden case of the engine, between a heading and a task.
fn read_reply_instructions(phase: &str) -> String {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/golden");
    let whole = std::fs::read_to_string(format!("{golden}/T5-reply-of-{phase}/expect.md")).unwrap();
    whole.strip_prefix("# End\n\n").unwrap().strip_suffix("\n\nGo").unwrap().to_owned()
}

/// Renders a shipped system template as it reads in an empty project.
fn render_in_empty_project(template: &str, phase: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/builtin/skeletons");
    let mut skeletons: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    skeletons.sort();
    skeletons.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{phase}-")));
    let skeletons: Vec<String> =
        skeletons.into_iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    // Prompts do not contain the comments that mark clauses.
    let without_mark = |line: &str| format!("{}\n", line.split(" <!-- unit:").next().unwrap_or_default());
    let text: String =
        read_shipped_body(&format!("templates/system/{template}.md")).lines().map(without_mark).collect();
    text.trim_end()
        .replace("{{PROJECT_CONTEXT}}", "Context not provided")
        .replace("{{PROJECT_STRUCTURE}}", "<project-structure>\n(no files yet)\n</project-structure>")
        .replace(
            "{{SKELETON}}",
            &if skeletons.is_empty() {
                String::new()
            } else {
                // Without a fence, their headings would look like headings of the template.
                let all = skeletons.join("\n");
                let fence = if all.contains("```") { "````\n" } else { "```\n" };
                format!("{fence}<skeletons>\n{all}</skeletons>\n{fence}").trim_end().to_owned()
            },
        )
        .replace("{{REPLY}}", &read_reply_instructions(phase))
        .replace("{{feature_dir}}", ".")
        .replace("{{ARTIFACTS}}\n\n", "")
        .replace("{{TASKS}}\n\n", "")
}

#[test]
fn t1_u3_empty_directory_uses_base() {
    let project = TestProject::new();
    let output = project.run(["compose", "-p", "plan", "Add login"]);
    assert_eq!(output.code, Some(0), "{}", output.err());
    let (system, context, instructions) = parse_parts(&output.out());
    assert_eq!(system, render_in_empty_project("BASE-plan", "plan"));
    assert_eq!(context, vec![]);
    assert_eq!(instructions, "Add login");
}

#[test]
fn t1_every_phase_has_base_template() {
    for phase in ["plan", "challenge", "implement", "review", "archive"] {
        let output = TestProject::new().run(["compose", "-p", phase, "Add login"]);
        assert_eq!(output.code, Some(0), "{}", output.err());
        assert_eq!(parse_parts(&output.out()).0, render_in_empty_project(&format!("BASE-{phase}"), phase));
    }
}

#[test]
fn t1_template_precedence_project_agent_base() {
    let project = TestProject::new();
    let implement = project.run(["compose", "-p", "implement", "-a", "claude", "x"]);
    assert_eq!(parse_parts(&implement.out()).0, render_in_empty_project("CLAUDE-implement", "implement"));

    project.write(".callsheet/templates/system/BASE-plan.md", "project base");
    let base = project.run(["compose", "-p", "plan", "-a", "claude", "x"]);
    assert_eq!(parse_parts(&base.out()).0, "project base");

    project.write(".callsheet/templates/system/CLAUDE-plan.md", "project claude");
    let own = project.run(["compose", "-p", "plan", "-a", "claude", "x"]);
    assert_eq!(parse_parts(&own.out()).0, "project claude");
    assert_eq!(own.err(), "");
}

#[test]
fn t1_verbose_reports_template_fallback() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-plan.md", "base");
    let quiet = project.run(["compose", "-p", "plan", "-a", "claude", "x"]);
    assert_eq!(quiet.err(), "");
    let output = project.run(["-v", "compose", "-p", "plan", "-a", "claude", "x"]);
    assert_eq!(
        output.err(),
        "note: `templates/system/BASE-plan.md` is this project's own, project:.callsheet/templates/system/BASE-plan.md\n\
         note[TemplateFallback]: no `templates/system/CLAUDE-plan.md`; \
         using `project:.callsheet/templates/system/BASE-plan.md`\n"
    );
}

#[test]
fn u2_documents_round_trip_exactly() {
    let project = TestProject::new();
    let long = "x<&".repeat(350_000);
    let contents = [
        "plain",
        "",
        "a </file> b",
        "]]> and ]]]]>> and ]]",
        "&amp; & &#13;",
        "line\r\nline\r\n",
        "lone\rreturn",
        "\r",
        "emoji 🦀 and é",
        "<![CDATA[ ]]> ]]&gt;",
        long.as_str(),
    ];
    let names: Vec<String> = (0..contents.len()).map(|at| format!("it's \"{at}\" <&>.txt")).collect();
    let mut args = vec!["compose", "-p", "review", "Look at ]]> & <these>\r\n"];
    for (name, content) in names.iter().zip(contents) {
        project.write(name, content);
        args.extend(["-f", name]);
    }
    let output = project.run(args);
    assert_eq!(output.code, Some(0), "{}", output.err());
    let (_, context, instructions) = parse_parts(&output.out());
    let expected: Vec<(String, String, String)> = names
        .iter()
        .zip(contents)
        .map(|(name, content)| ("file".into(), name.clone(), content.into()))
        .collect();
    assert_eq!(context, expected);
    assert_eq!(instructions, "Look at ]]> & <these>\r\n");
}

#[test]
fn u2_documents_keep_given_order() {
    let project = TestProject::new();
    project.write("spec.md", "the spec");
    project.write("a.rs", "fn a() {}");
    let output = project.run([
        "compose",
        "-p",
        "review",
        "x",
        "--thought",
        "hm",
        "--artifact",
        "spec.md",
        "-f",
        "a.rs",
        "-f",
        "a.rs",
    ]);
    let item =
        |kind: &str, name: &str, content: &str| (kind.to_string(), name.to_string(), content.to_string());
    assert_eq!(
        parse_parts(&output.out()).1,
        [
            item("thought", "thought-1", "hm"),
            item("artifact", "spec.md", "the spec"),
            item("file", "a.rs", "fn a() {}")
        ]
    );
}

#[test]
fn outside_file_is_shown_by_name() {
    let project = TestProject::new();
    std::fs::write(project.path().parent().unwrap().join("notes.txt"), "outside").unwrap();
    let output = project.run(["compose", "-p", "archive", "x", "-f", "../notes.txt"]);
    assert_eq!(parse_parts(&output.out()).1, [("file".into(), "notes.txt".into(), "outside".into())]);
    assert!(
        output.err().starts_with("warning[InputOutside]: `../notes.txt` is outside the project"),
        "{}",
        output.err()
    );
}

fn write_staged_templates(project: &TestProject) {
    project.write(
        ".callsheet/templates/agents/coder.md",
        "Dir [[placeholder:feature_dir]] of [[placeholder:project_dir]]\n[[shared:note]]\n\
         [[include:[[placeholder:plan_file]]]]\n<[[include-optional:nope.md]]>\n[[placeholder:value]]\n\
         {{PROJECT_CONTEXT}} \\[[include:x]]\n[[placeholder:project_instructions]]",
    );
    project.write(".callsheet/templates/shared/note.md", "A note on [[placeholder:value]].\n");
}

const HOSTILE: &str =
    "[[include:/etc/passwd]] {{PROJECT_CONTEXT}} [[shared:x]] [[placeholder:value]] {{> x}}";

#[test]
fn m2_m3_m4_m5_inserts_verbatim() {
    let project = TestProject::new();
    write_staged_templates(&project);
    project.write("s/04_planning/plan.md", format!("plan: {HOSTILE}\r\n"));
    project.write(
        ".callsheet/prompts/agents/coder.md",
        "ext [[include:/etc/passwd]] {{PROJECT_CONTEXT}} [[shared:x]] [[placeholder:value]]",
    );
    let value = format!("value={HOSTILE}");
    let output = project.run([
        "compose",
        "--session",
        "s",
        "--role",
        "coder",
        "-s",
        "plan_file=04_planning/plan.md",
        "-s",
        &value,
    ]);
    assert_eq!(output.err(), "");
    assert_eq!(
        output.out(),
        format!(
            "Dir s of .\nA note on {HOSTILE}.\nplan: {HOSTILE}\r\n\n<>\n{HOSTILE}\n\
             {{{{PROJECT_CONTEXT}}}} [[include:x]]\next [[include:/etc/passwd]] {{{{PROJECT_CONTEXT}}}} [[shared:x]] {HOSTILE}"
        )
    );
}

#[test]
fn m2_missing_include_is_reported() {
    let project = TestProject::new();
    write_staged_templates(&project);
    let output = project.run([
        "compose",
        "--session",
        ".",
        "--role",
        "coder",
        "-s",
        "plan_file=a/b.md",
        "-s",
        "value=x",
    ]);
    assert_eq!((output.code, output.out().as_str()), (Some(3), ""));
    assert_eq!(
        output.err(),
        "error[IncludeNotFound]: include not found: `a/b.md`\n  \
         ┌─ project:.callsheet/templates/agents/coder.md:3:1\n\
         3 │ [[include:[[placeholder:plan_file]]]]\n  \
         │ ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  \
         = looked in session:a/b.md\n"
    );
}

#[test]
fn c1_prompt_ignores_directory_and_locale() {
    let prompt = |project: &TestProject, args: &[&str], lang: &str| {
        for file in ["b.txt", "a.txt", "c/d.txt"] {
            project.write(file, file);
        }
        let mut command = project.command();
        command.args(args).env("LANG", lang).env("TZ", lang);
        run_command(&mut command).out()
    };
    let args = ["compose", "-p", "plan", "x", "-f", "a.txt"];
    let first = prompt(&TestProject::new(), &args, "C");
    assert_eq!(first, prompt(&TestProject::new(), &args, "tr_TR.UTF-8"));
    let below = TestProject::new();
    prompt(&below, &args, "C");
    std::fs::create_dir(below.path().join(".git")).unwrap();
    let mut command = below.command();
    command.current_dir(below.path().join("c")).args(["compose", "-p", "plan", "x", "-f", "../a.txt"]);
    assert_eq!(first, run_command(&mut command).out());
}

#[test]
fn flags_override_request_file() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "I am {{name}} of {{team}}.");
    project.write(
        "request.toml",
        "recipe = \"layers\"\nrole = \"me\"\ninstructions = \"old\"\n[values]\nname = \"A\"\nteam = \"T\"\n\
         [[context]]\nname = \"first\"\ntext = \"one\"\n[[context]]\nname = \"system_metadata\"\n[context.data]\nzeta = 1\nalpha = \"two\"\n",
    );
    let output = project.run([
        "compose",
        "--request",
        "request.toml",
        "-s",
        "name=B",
        "--context",
        "last=three",
        "new",
    ]);
    assert_eq!(output.err(), "");
    assert_eq!(
        output.out(),
        "I am B of T.\n\n---\n\none\n\n---\n\n## System Metadata\n\n- **zeta:** 1\n- **alpha:** two\n\n---\n\nthree\n\n---\n\nnew"
    );
    let json = r#"{"recipe":"layers","role":"me","instructions":"old","values":{"name":"A","team":"T"}}"#;
    assert_eq!(
        project.run_with(&["compose", "--request", "-"], json.as_bytes()).out(),
        "I am A of T.\n\n---\n\nold"
    );
}

#[test]
fn stdin_is_read_for_one_input() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-x.md", "base");
    let output = project.run_with(&["compose", "-p", "x", "-"], b"from stdin\n");
    assert_eq!(parse_parts(&output.out()).2, "from stdin\n");
    let twice = project.run_with(&["compose", "-p", "x", "-", "--set-file", "a=-"], b"text");
    assert_eq!((twice.code, twice.out().as_str()), (Some(2), ""));
    assert_eq!(
        twice.err(),
        "error[UsageBad]: stdin is already used for the task; give --set-file in another way\n"
    );
}

#[test]
fn out_writes_file_and_prints_nothing() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-x.md", "base");
    let printed = project.run(["compose", "-p", "x", "task"]);
    let output = project.run(["compose", "-p", "x", "task", "--out", "prompt.xml"]);
    assert_eq!((output.code, output.out().as_str(), output.err().as_str()), (Some(0), "", ""));
    assert_eq!(project.read("prompt.xml"), printed.out());
    let failed = project.run(["compose", "-p", "nope", "task", "--out", "prompt.xml"]);
    assert_eq!(failed.code, Some(3));
    assert_eq!(project.read("prompt.xml"), printed.out());
}

#[test]
fn b6_tools_appear_only_in_json() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "I am.");
    let schema = serde_json::json!({ "type": "object", "properties": { "q": { "type": "string" } } });
    let tool = serde_json::json!({ "name": "ask", "description": "Asks", "input_schema": schema });
    project.write("tools.json", serde_json::json!([tool]).to_string());
    let base = ["compose", "-r", "layers", "--role", "me", "Why?", "--tools", "tools.json"];
    let text = project.run(base);
    assert_eq!(text.out(), "I am.\n\n---\n\nWhy?");
    assert_eq!(
        text.err(),
        "warning[ToolsNotShown]: tools are omitted: only JSON can hold them\n  = hint: use `--format json`\n"
    );
    let body =
        |api: &str, agent: &str| project.run(base.iter().copied().chain(["--api", api, "-a", agent])).json();
    let model = |agent: &str| {
        let file = read_shipped_body(&format!("agents/{agent}.toml"));
        toml::from_str::<toml::Value>(&file).unwrap()["model"].as_str().unwrap().to_string()
    };
    assert_eq!(
        body("anthropic", "claude"),
        serde_json::json!({
            "model": model("claude"), "max_tokens": 8192, "system": "I am.",
            "messages": [{ "role": "user", "content": "Why?" }],
            "tools": [{ "name": "ask", "description": "Asks", "input_schema": schema }],
        })
    );
    assert_eq!(
        body("openai", "codex"),
        serde_json::json!({
            "model": model("codex"), "instructions": "I am.",
            "input": [{ "role": "user", "content": "Why?" }],
            "tools": [{ "type": "function", "name": "ask", "description": "Asks", "parameters": schema, "strict": false }],
        })
    );
    assert_eq!(
        body("gemini", "gemini"),
        serde_json::json!({
            "systemInstruction": { "parts": [{ "text": "I am." }] },
            "contents": [{ "role": "user", "parts": [{ "text": "Why?" }] }],
            "tools": [{ "functionDeclarations": [{ "name": "ask", "description": "Asks", "parametersJsonSchema": schema }] }],
        })
    );
}
