//! Tests `callsheet mcp install`: it shows the change and writes it only with `--write`.

use std::fs;

use callsheet_testing::TestProject;
use serde_json::{Value, json};

#[test]
fn install_without_write_only_shows_change() {
    let project = TestProject::new();
    project.write("session/x", "");
    let output =
        project.run(["mcp", "install", "--client", "claude", "--session", "session", "--role", "coder"]);
    let file = ".mcp.json";
    let expected = format!(
        "--- {file}\n+++ {file}\n@@ -0,0 +1,14 @@\n+{{\n+  \"mcpServers\": {{\n+    \"callsheet\": {{\n+      \
         \"command\": \"callsheet\",\n+      \"args\": [\n+        \"mcp\",\n+        \"--session\",\n+        \
         \"session\",\n+        \"--role\",\n+        \"coder\"\n+      ]\n+    }}\n+  }}\n+}}\n"
    );
    assert_eq!((output.code, output.out()), (Some(0), expected));
    assert_eq!(output.err(), format!("nothing was written; add `--write` to write this to {file}\n"));
    assert!(!project.path().join(".mcp.json").exists());
}

#[test]
fn existing_settings_are_kept() {
    let project = TestProject::new();
    let old = json!({ "zebra": 1, "mcpServers": { "other": { "command": "x" } }, "alpha": [2] });
    project.write(".gemini/settings.json", old.to_string());
    assert_eq!(project.run(["mcp", "install", "--client", "gemini", "--write"]).code, Some(0));
    let entry = json!({ "command": "callsheet", "args": ["mcp", "--session", "."], "trust": true });
    let mut expected = old;
    expected["mcpServers"]["callsheet"] = entry;
    let text = project.read(".gemini/settings.json");
    assert_eq!(text, serde_json::to_string_pretty(&expected).unwrap() + "\n");
    // A second install changes nothing.
    let again = project.run(["--json", "mcp", "install", "--client", "gemini", "--write"]);
    assert_eq!((again.json()["diff"].clone(), again.json()["written"].clone()), (json!(""), json!(false)));
}

#[test]
fn user_files_name_project() {
    let project = TestProject::new();
    let path = project.path().display().to_string();
    let home = project.home();
    fs::create_dir_all(home.join(".codex")).unwrap();
    let old = "# mine\nmodel = \"m\" # keep\n\n[mcp_servers.other]\ncommand = \"x\"\n";
    fs::write(home.join(".codex/config.toml"), old).unwrap();
    assert_eq!(project.run(["mcp", "install", "--client", "codex", "--write"]).code, Some(0));
    assert_eq!(
        fs::read_to_string(home.join(".codex/config.toml")).unwrap(),
        format!(
            "{old}\n[mcp_servers.callsheet]\ncommand = \"callsheet\"\nargs = [\"--project\", \"{path}\", \"mcp\", \
             \"--session\", \"{path}\"]\ndefault_tools_approval_mode = \"approve\"\n"
        )
    );
    assert_eq!(project.run(["mcp", "install", "--client", "copilot", "--write"]).code, Some(0));
    let written = fs::read_to_string(home.join(".copilot/mcp-config.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&written).unwrap(),
        json!({ "mcpServers": { "callsheet": {
            "type": "local",
            "command": "callsheet",
            "args": ["--project", path, "mcp", "--session", path],
            "tools": ["*"],
        } } })
    );
}

#[test]
fn invalid_file_is_left_unchanged() {
    let project = TestProject::new();
    project.write(".mcp.json", "{ // mine\n}");
    let output = project.run(["mcp", "install", "--client", "claude", "--write"]);
    let file = ".mcp.json";
    assert_eq!((output.code, output.out().as_str()), (Some(3), ""));
    assert_eq!(
        output.err(),
        format!(
            "error[ConfigBad]: cannot update `{file}`: key must be a string at line 1 column 3\n  \
             = hint: the file was not changed\n"
        )
    );
    assert_eq!(project.read(".mcp.json"), "{ // mine\n}");
}

#[test]
fn unknown_role_is_refused() {
    let output = TestProject::new().run(["mcp", "--role", "reviwer"]);
    assert_eq!((output.code, output.out().as_str()), (Some(2), ""));
    assert_eq!(
        output.err(),
        "error[UsageBad]: unknown role `reviwer`\n  = hint: did you mean `reviewer`?\n  = hint: known \
         roles: architect, code-researcher, coder, designer, planner, product-manager, reviewer, web-researcher\n"
    );
}
