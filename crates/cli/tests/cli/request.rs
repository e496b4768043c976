//! Tests the origins of a request: a file or standard input, and flags that override it.

use callsheet_testing::{CommandOutput, TestProject};

fn printed(out: &str) -> CommandOutput {
    CommandOutput::new(0, out, "")
}

fn create_project_with_identity() -> TestProject {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "I am here.");
    project
}

#[test]
fn request_on_stdin_names_project() {
    let project = TestProject::new();
    project.write("other/.callsheet/templates/identity/me.md", "I am there.");
    let request = br#"{"project":"other","recipe":"layers","role":"me","instructions":"Go."}"#;
    let output = project.run_with(&["compose", "--request", "-"], request);
    assert_eq!(output, printed("I am there.\n\n---\n\nGo."));
    let twice = project.run_with(&["compose", "--request", "-", "-"], request);
    let err = "error[UsageBad]: stdin is already used for --request; give the task in another way\n";
    assert_eq!(twice, CommandOutput::new(2, "", err));
}

#[test]
fn project_flag_beats_request() {
    let project = create_project_with_identity();
    let request = br#"{"project":"nowhere","recipe":"layers","role":"me","instructions":"Go."}"#;
    let output = project.run_with(&["-C", ".", "compose", "--request", "-"], request);
    assert_eq!(output, printed("I am here.\n\n---\n\nGo."));
}

#[test]
fn request_layout_beats_configuration() {
    let project = TestProject::new();
    project.write(".callsheet/config.toml", "[layout]\ntemplates = [\"configured\"]\n");
    project.write("configured/identity/me.md", "I am configured.");
    project.write("asked/identity/me.md", "I am asked for.");
    project.write("r.toml", "instructions = \"Go.\"\n[layout]\ntemplates = [\"asked\"]\n");
    let flags = ["compose", "-r", "layers", "--role", "me"];
    let asked = project.run(flags.into_iter().chain(["--request", "r.toml"]));
    assert_eq!(asked, printed("I am asked for.\n\n---\n\nGo."));
    let configured = project.run(flags.into_iter().chain(["Go."]));
    assert_eq!(configured, printed("I am configured.\n\n---\n\nGo."));
}

#[test]
fn byte_order_mark_is_skipped() {
    let project = create_project_with_identity();
    let json = "\u{feff}{\"recipe\":\"layers\",\"role\":\"me\",\"instructions\":\"Go.\"}";
    let toml = "\u{feff}recipe = \"layers\"\nrole = \"me\"\ninstructions = \"Go.\"\n";
    for request in [json, toml] {
        let output = project.run_with(&["compose", "--request", "-"], request.as_bytes());
        assert_eq!(output, printed("I am here.\n\n---\n\nGo."));
    }
}

#[test]
fn document_is_read_from_stdin() {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-x.md", "base");
    for (flag, kind) in [("-f", "file path"), ("--artifact", "artifact name")] {
        let output = project.run_with(&["compose", "-p", "x", "Go.", flag, "-"], b"a < b");
        let tag = kind.split(' ').next().unwrap();
        assert_eq!(
            output,
            printed(&format!(
                "<prompt><system_prompt>base</system_prompt><context><{kind}=\"stdin\"><![CDATA[a < b]]></{tag}>\
                 </context><instructions>Go.</instructions></prompt>"
            ))
        );
    }
}

#[test]
fn path_recipe_warns_once_outside_project() {
    let project = TestProject::new();
    std::fs::write(project.path().parent().unwrap().join("notes.txt"), "outside").unwrap();
    let without = project.run(["compose", "-r", "run", "Go.", "--write", "a"]);
    let output = project.run(["compose", "-r", "run", "Go.", "--write", "a", "-f", "../notes.txt"]);
    let warning = "warning[DocumentNotShown]: `notes.txt` is omitted: the recipe lists documents by path, and this one has no path\n";
    assert_eq!((output.code, output.out(), output.err()), (Some(0), without.out(), warning.into()));
}

/// `--session` accepts any directory; a request file may only name one inside the project.
#[test]
fn request_session_must_be_inside_project() {
    let project = TestProject::new();
    project.write(".callsheet/templates/agents/me.md", "[[include:note.md]]");
    project.write("inside/note.md", "from inside");
    project.write("../outside/note.md", "from outside");
    std::os::unix::fs::symlink("../outside", project.path().join("link")).unwrap();
    let asked = |session: &str| {
        let request = format!(r#"{{"recipe":"staged","role":"me","session":"{session}"}}"#);
        project.run_with(&["compose", "--request", "-"], request.as_bytes())
    };
    assert_eq!(asked("inside"), printed("from inside"));
    for session in ["../outside", "link", "inside/../../outside"] {
        let err = format!(
            "error[RequestBad]: the session `{session}` is outside the project\n  \
             = hint: `--session` may name any directory\n"
        );
        assert_eq!(asked(session), CommandOutput::new(2, "", err));
    }
    let typed = project.run(["compose", "-r", "staged", "--role", "me", "--session", "../outside"]);
    assert_eq!(typed, printed("from outside"));
}
