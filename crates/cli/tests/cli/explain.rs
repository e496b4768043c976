//! Tests `explain`: every byte has its origin, and every absent input has its reason.

use callsheet_testing::TestProject;
use serde_json::Value;

/// Reads the bytes of a range's source without the program's help.
fn read_source_bytes(project: &TestProject, origin: &Value, request: &Value) -> Option<String> {
    let range = origin["source_start"].as_u64()? as usize..origin["source_end"].as_u64()? as usize;
    let whole = match origin["kind"].as_str()? {
        "source" => {
            let (root, path) = origin["source"].as_str()?.split_once(':')?;
            match root {
                "builtin" => {
                    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/builtin/");
                    std::fs::read_to_string(format!("{file}{path}")).unwrap()
                }
                "project" => project.read(path),
                _ => return None,
            }
        }
        "value" => request["values"][origin["name"].as_str()?].as_str()?.to_string(),
        "request" if origin["name"] == "instructions" => request["instructions"].as_str()?.to_string(),
        _ => return None,
    };
    Some(whole[range].to_string())
}

/// Reverses an encoding as the documentation describes it.
fn undo_encoding(encoding: &str, text: &str) -> String {
    match encoding {
        "plain" => text.to_string(),
        "cdata" => text.replace("]]>&#13;<![CDATA[", "\r").replace("]]><![CDATA[", ""),
        "crlf" => text.replace("]]><![CDATA[", "").replace('\n', "\r\n"),
        "attr" => [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&apos;", "'"),
            ("&#9;", "\t"),
            ("&#10;", "\n"),
            ("&#13;", "\r"),
            ("&amp;", "&"),
        ]
        .iter()
        .fold(text.to_string(), |text, (from, to)| text.replace(from, to)),
        "json" => serde_json::from_str(&format!("\"{text}\"")).unwrap(),
        other => unreachable!("{other}"),
    }
}

#[test]
fn ranges_cover_text_and_match_sources() {
    let project = TestProject::new();
    project.write("src/<a>.rs", "fn a() -> Vec<u8> {} // ]]> &amp;\r\n");
    project.write("README.md", "# Shop\r\n\r\nText.\n");
    project.write(
        ".callsheet/templates/system/BASE-x.md",
        "---\r\nname: x\r\nvariables: [v, PROJECT_STRUCTURE]\r\n---\r\nLine <one>\r\n{{v}}\r\n{{PROJECT_STRUCTURE}}\r\n",
    );
    let values = serde_json::json!({ "v": "val & ]]> \u{1f980}\r" });
    for (recipe, format) in [
        ("unified", "xml"),
        ("unified", "json"),
        ("unified", "markdown"),
        ("layers", "markdown"),
        ("run", "markdown"),
    ] {
        let mut request = serde_json::json!({
            "recipe": recipe, "phase": "x", "format": format, "values": values, "instructions": "Do \"it\"\n\n## Constraints\n\n---\n\nnow",
            "documents": [{ "path": "src/<a>.rs" }],
        });
        if recipe == "layers" {
            request["missing"] = "empty".into();
        }
        let output =
            project.run_with(&["explain", "--json", "--request", "-"], request.to_string().as_bytes());
        assert_eq!(output.code, Some(0), "{}", output.err());
        let explained = output.json();
        let text = explained["text"].as_str().unwrap();
        let (mut at, mut checked) = (0, 0);
        for origin in explained["origins"].as_array().unwrap() {
            let range = origin["start"].as_u64().unwrap() as usize..origin["end"].as_u64().unwrap() as usize;
            assert_eq!(range.start, at);
            at = range.end;
            let decoded = undo_encoding(origin["encoding"].as_str().unwrap(), &text[range]);
            if let Some(bytes) = read_source_bytes(&project, origin, &request) {
                assert_eq!(decoded, bytes, "{origin}");
                checked += 1;
            }
        }
        assert_eq!(at, text.len());
        assert!(checked >= 3, "{recipe} {format}: only {checked} ranges could be followed");
        assert_eq!(
            project.run_with(&["compose", "-q", "--request", "-"], request.to_string().as_bytes()).out(),
            text
        );
    }
}

#[test]
fn page_shows_line_numbers_and_absences() {
    let project = TestProject::new();
    project
        .write(".callsheet/templates/identity/me.md", "---\nname: me\nvariables: [v]\n---\nOne\nTwo {{v}}\n");
    project.write("CLAUDE.md", "claude");
    project.write("README.md", "A shop.\n");
    let output = project.run([
        "explain",
        "--tokens",
        "-r",
        "layers",
        "--role",
        "me",
        "-a",
        "claude",
        "-s",
        "v=\u{1b}[31m",
        "Go",
    ]);
    assert_eq!(output.err(), "");
    assert_eq!(
        output.out(),
        "── project:.callsheet/templates/identity/me.md (project)\n    5 │ One\n\
         ── project:.callsheet/templates/identity/me.md (project) + value v (person)\n      │ Two \\u{1b}[31m\n\
         ── engine (ours)\n      │ \n      │ ---\n      │ \n\
         ── derived project_documents.path (project)\n    1 │ <file path=\"README.md\">\n\
         ── project:README.md (project)\n    1 │ A shop.\n\
         ── engine (ours)\n      │ </file>\n      │ \n      │ ---\n      │ \n\
         ── request instructions (person)\n    1 │ Go\n\
         \nNot in this prompt\n  \
         section preferences: not given\n  \
         project:.callsheet/memory/profile.md: the optional file does not exist\n  \
         project:agentd/project.md: the optional file does not exist\n  \
         project:CLAUDE.md: the agent loads it by itself (Claude Code)\n  \
         project:AGENTS.md: the optional file does not exist\n  \
         section rules: not given\n  \
         section context: not given\n\nTokens\n   tokens     bytes\n       10        13  role\n       16        39  project\n        2         2  task\n       30        68  total\nestimated for claude-sonnet-4-5: o200k_base × 1.18, the ratio that was measured for models before Opus 4.7\nthe model accepts 200000 tokens\n"
    );
}

#[test]
fn colours_appear_only_on_request() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "One");
    let args = ["explain", "-r", "layers", "--role", "me", "Go"];
    assert!(!project.run(args).out().contains('\u{1b}'));
    let coloured = project.run(args.iter().chain(&["--color", "always"]));
    assert!(
        coloured
            .out()
            .starts_with("── \u{1b}[32mproject:.callsheet/templates/identity/me.md (project)\u{1b}[0m\n")
    );
}
