//! Tests the origins of a request: a file or standard input, and flags that override it.

use crate::world::{Said, World};

fn printed(out: &str) -> Said {
    Said { code: 0, out: out.into(), err: String::new() }
}

fn world_with_identity() -> World {
    let world = World::new();
    world.write(".callsheet/templates/identity/me.md", "I am here.");
    world
}

#[test]
fn request_on_stdin_names_project() {
    let world = World::new();
    world.write("other/.callsheet/templates/identity/me.md", "I am there.");
    let request = br#"{"project":"other","recipe":"layers","role":"me","instructions":"Go."}"#;
    let said = world.run_with(&["compose", "--request", "-"], request);
    assert_eq!(said, printed("I am there.\n\n---\n\nGo."));
    let twice = world.run_with(&["compose", "--request", "-", "-"], request);
    let err =
        "error[usage/bad]: standard input is read for --request; it cannot be read for the task too\n".into();
    assert_eq!(twice, Said { code: 2, out: String::new(), err });
}

#[test]
fn project_flag_beats_request() {
    let world = world_with_identity();
    let request = br#"{"project":"nowhere","recipe":"layers","role":"me","instructions":"Go."}"#;
    let said = world.run_with(&["-C", ".", "compose", "--request", "-"], request);
    assert_eq!(said, printed("I am here.\n\n---\n\nGo."));
}

#[test]
fn request_layout_beats_configuration() {
    let world = World::new();
    world.write(".callsheet/config.toml", "[layout]\ntemplates = [\"configured\"]\n");
    world.write("configured/identity/me.md", "I am configured.");
    world.write("asked/identity/me.md", "I am asked for.");
    world.write("r.toml", "instructions = \"Go.\"\n[layout]\ntemplates = [\"asked\"]\n");
    let flags = ["compose", "-r", "layers", "--role", "me"];
    let asked = world.run(flags.into_iter().chain(["--request", "r.toml"]));
    assert_eq!(asked, printed("I am asked for.\n\n---\n\nGo."));
    let configured = world.run(flags.into_iter().chain(["Go."]));
    assert_eq!(configured, printed("I am configured.\n\n---\n\nGo."));
}

#[test]
fn byte_order_mark_is_skipped() {
    let world = world_with_identity();
    let json = "\u{feff}{\"recipe\":\"layers\",\"role\":\"me\",\"instructions\":\"Go.\"}";
    let toml = "\u{feff}recipe = \"layers\"\nrole = \"me\"\ninstructions = \"Go.\"\n";
    for request in [json, toml] {
        let said = world.run_with(&["compose", "--request", "-"], request.as_bytes());
        assert_eq!(said, printed("I am here.\n\n---\n\nGo."));
    }
}

#[test]
fn document_is_read_from_stdin() {
    let world = World::new();
    world.write(".callsheet/templates/system/BASE-x.md", "base");
    for (flag, kind) in [("-f", "file path"), ("--artifact", "artifact name")] {
        let said = world.run_with(&["compose", "-p", "x", "Go.", flag, "-"], b"a < b");
        let tag = kind.split(' ').next().unwrap();
        assert_eq!(
            said,
            printed(&format!(
                "<prompt><system_prompt>base</system_prompt><context><{kind}=\"stdin\"><![CDATA[a < b]]></{tag}>\
                 </context><instructions>Go.</instructions></prompt>"
            ))
        );
    }
}

#[test]
fn path_recipe_warns_once_outside_project() {
    let world = World::new();
    std::fs::write(world.project.parent().unwrap().join("notes.txt"), "outside").unwrap();
    let without = world.run(["compose", "-r", "run", "Go.", "--write", "a"]);
    let said = world.run(["compose", "-r", "run", "Go.", "--write", "a", "-f", "../notes.txt"]);
    let warning =
        "warning[document/not-shown]: `notes.txt` is left out: this recipe lists paths, and it has none\n";
    assert_eq!((said.code, said.out, said.err), (0, without.out, warning.into()));
}

/// `--session` accepts any directory; a request file may only name one inside the project.
#[test]
fn request_session_must_be_inside_project() {
    let world = World::new();
    world.write(".callsheet/templates/agents/me.md", "[[include:note.md]]");
    world.write("inside/note.md", "from inside");
    world.write("../outside/note.md", "from outside");
    std::os::unix::fs::symlink("../outside", world.project.join("link")).unwrap();
    let asked = |session: &str| {
        let request = format!(r#"{{"recipe":"staged","role":"me","session":"{session}"}}"#);
        world.run_with(&["compose", "--request", "-"], request.as_bytes())
    };
    assert_eq!(asked("inside"), printed("from inside"));
    for session in ["../outside", "link", "inside/../../outside"] {
        let err = format!(
            "error[request/bad]: the session `{session}` lies outside the project\n  \
             = hint: `--session` may name any directory\n"
        );
        assert_eq!(asked(session), Said { code: 2, out: String::new(), err });
    }
    let typed = world.run(["compose", "-r", "staged", "--role", "me", "--session", "../outside"]);
    assert_eq!(typed, printed("from outside"));
}
