//! Tests where the request of a flow comes from: an argument, standard input or a file.

use std::fs;

use crate::project::FlowProject;

fn request_of(project: &FlowProject) -> String {
    project.read_status()["request"].as_str().unwrap().to_owned()
}

#[test]
fn dash_reads_request_from_stdin() {
    let project = FlowProject::new("quick.sh");
    let agent = project.agent().to_str().unwrap().to_owned();
    let started = project
        .run_with(&["--json", "-q", "flow", "start", "sdd", "-", "--", &agent], b"Add a login\n\nIn red.\n");
    assert_eq!(started.code, Some(0), "{}", started.err());
    assert_eq!(request_of(&project), "Add a login\n\nIn red.\n");
    assert_eq!(project.read_status()["name"], "add-a-login-in-red");
    let refused = |stdin: &[u8]| {
        let output = project.run_with(&["flow", "start", "sdd", "-", "--", &agent], stdin);
        (output.code, output.err().lines().next().unwrap_or_default().to_owned())
    };
    assert_eq!(refused(b" \n"), (Some(2), "error[UsageBad]: the request is empty".into()));
    let (code, message) = refused(b"a\xff\n");
    assert!(code != Some(0) && message.contains("not UTF-8"), "{code:?} {message}");
    let (code, message) = refused(&vec![b'a'; 64 << 20]);
    assert!(code != Some(0) && message.contains("standard input"), "{code:?} {message}");
}

#[test]
fn file_option_reads_request() {
    let project = FlowProject::new("quick.sh");
    let agent = project.agent().to_str().unwrap().to_owned();
    let start = |more: &[&str]| {
        project.run([&["--json", "-q", "flow", "start", "sdd"], more, &["--", &agent]].concat())
    };
    project.write_beside("request.md", "Add a login\n");
    let started = start(&["--file", "../request.md"]);
    assert_eq!(started.code, Some(0), "{}", started.err());
    assert_eq!(request_of(&project), "Add a login\n");
    project.write_beside("empty.md", "\n");
    fs::create_dir(project.beside("folder")).unwrap();
    for (more, code) in [
        (&["--file", "../empty.md"][..], "usage/bad"),
        (&["--file", "../gone.md"], "input/not-found"),
        (&["--file", "../request.md", "Add it"], "usage/bad"),
        (&[], "usage/bad"),
    ] {
        assert_eq!(start(more).error().1, code, "{more:?}");
    }
    assert!(start(&["--file", "../folder"]).code.is_some_and(|code| code > 1));
}
