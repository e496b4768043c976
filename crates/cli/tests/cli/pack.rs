//! Tests `-f` with directories and patterns, and `--detail`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use callsheet_testing::{CommandOutput, TestProject, run_command};
use serde_json::json;

/// Creates a project with a system template of one word.
fn create_project(files: &[(&str, &str)]) -> TestProject {
    let project = TestProject::new();
    project.write(".callsheet/templates/system/BASE-plan.md", "Plan.");
    for (path, text) in files {
        project.write(path, text);
    }
    project
}

fn compose_plan(project: &TestProject, args: &[&str]) -> CommandOutput {
    project.run(["compose", "-p", "plan", "Go."].iter().chain(args))
}

/// Returns the output of a [`create_project`] whose prompt contains these documents, without a warning.
fn expected_prompt(documents: &str) -> CommandOutput {
    let out = format!(
        "<prompt><system_prompt>Plan.</system_prompt><context>{documents}</context>\
         <instructions>Go.</instructions></prompt>"
    );
    CommandOutput::new(0, out, "")
}

fn expected_files(files: &[(&str, &str)]) -> CommandOutput {
    expected_prompt(
        &files.iter().map(|(path, text)| format!("<file path=\"{path}\">{text}</file>")).collect::<String>(),
    )
}

fn expected_failure(code: i32, err: &str) -> CommandOutput {
    CommandOutput::new(code, "", format!("{err}\n"))
}

const TREE: [(&str, &str); 7] = [
    ("src/main.rs", "main"),
    ("src/a/one.rs", "one"),
    ("src/a/two.md", "two"),
    ("src/a-b.rs", "ab"),
    ("src/out.log", "log"),
    (".hidden", "hidden"),
    (".gitignore", "*.log\n"),
];

/// A long prompt is written to standard output part by part and to a file as a whole: the bytes are the same.
#[test]
fn long_prompt_is_same_on_stdout() {
    let texts: Vec<(String, String)> = (100..180)
        .map(|number| (format!("src/{number}"), format!("{number} words\n").repeat(number * 20)))
        .collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let project = create_project(&texts);
    let output = compose_plan(&project, &["-f", "src"]);
    assert!(output == expected_files(&texts), "{} bytes, {}", output.out().len(), output.err());
    assert!(output.out().len() > 2 << 20);
    // The prompt can only be compared with the agent's limit after the last part.
    let warned = compose_plan(&project, &["-f", "src", "-a", "codex"]);
    let whole = compose_plan(&project, &["-f", "src", "-a", "codex", "--out", "file"]);
    assert_eq!((warned.err().lines().count(), warned.err()), (2, whole.err()));
    assert!(warned.out() == project.read("file"));
}

#[test]
fn directory_adds_files_in_byte_order() {
    let project = create_project(&TREE);
    let all =
        [("src/a-b.rs", "ab"), ("src/a/one.rs", "one"), ("src/a/two.md", "two"), ("src/main.rs", "main")];
    for directory in ["src", "src/", "./src", "."] {
        assert_eq!(compose_plan(&project, &["-f", directory]), expected_files(&all), "{directory}");
    }
    assert_eq!(compose_plan(&project, &["-f", "src/a"]), expected_files(&all[1..3]));
}

#[test]
fn files_keep_given_order_without_duplicates() {
    let project = create_project(&TREE);
    let flags = ["-f", "src/main.rs", "-f", "src/a", "-f", "src/out.log", "-f", ".", "-f", "src/**/*.rs"];
    let all = [
        ("src/main.rs", "main"),
        ("src/a/one.rs", "one"),
        ("src/a/two.md", "two"),
        // `.gitignore` does not exclude a file that is named explicitly.
        ("src/out.log", "log"),
        ("src/a-b.rs", "ab"),
    ];
    assert_eq!(compose_plan(&project, &flags), expected_files(&all));
    project.write("request.toml", "documents = [{ path = \"src/a/two.md\" }]\n");
    let all = [("src/a/two.md", "two"), ("src/a/one.rs", "one")];
    assert_eq!(compose_plan(&project, &["--request", "request.toml", "-f", "src/a"]), expected_files(&all));
}

#[test]
fn pattern_adds_matching_files() {
    let project = create_project(&TREE);
    let (ab, one, two, main) =
        (("src/a-b.rs", "ab"), ("src/a/one.rs", "one"), ("src/a/two.md", "two"), ("src/main.rs", "main"));
    let matches: [(&str, &[(&str, &str)]); 8] = [
        ("src/*.rs", &[ab, main]),
        ("src/**/*.rs", &[ab, one, main]),
        ("**/*.rs", &[ab, one, main]),
        ("src/*/*", &[one, two]),
        ("src/{main,a/two}.*", &[two, main]),
        ("src/[a-l]*", &[ab]),
        ("src/a/?wo.md", &[two]),
        ("./src/../src/m*", &[main]),
    ];
    for (pattern, expected) in matches {
        assert_eq!(compose_plan(&project, &["-f", pattern]), expected_files(expected), "{pattern}");
    }
    let absolute = format!("{}/src/m*", project.path().display());
    assert_eq!(compose_plan(&project, &["-f", &absolute]), expected_files(&[main]));
}

#[test]
fn patterns_are_relative_to_current_directory() {
    let project = create_project(&TREE);
    fs::create_dir(project.path().join(".git")).unwrap();
    let there = |args: &[&str]| {
        let mut command = project.command();
        command.current_dir(project.path().join("src/a")).args(["compose", "-p", "plan", "Go."]).args(args);
        run_command(&mut command)
    };
    assert_eq!(there(&["-f", "*.rs"]), expected_files(&[("src/a/one.rs", "one")]));
    assert_eq!(there(&["-f", "../*.rs"]), expected_files(&[("src/a-b.rs", "ab"), ("src/main.rs", "main")]));
    assert_eq!(there(&["-f", "."]), expected_files(&[("src/a/one.rs", "one"), ("src/a/two.md", "two")]));
    let main = expected_prompt(
        "<file path=\"src/main.rs\">[Only the path is given: the content is left out]</file>",
    );
    assert_eq!(there(&["-f", "../main.rs", "--detail", "../*.rs=path"]), main);
}

#[test]
fn exact_file_name_beats_pattern() {
    let project =
        create_project(&[("pages/[id].ts", "one"), ("pages/i.ts", "other"), ("[x]/{y}.ts", "deep")]);
    assert_eq!(compose_plan(&project, &["-f", "pages/[id].ts"]), expected_files(&[("pages/[id].ts", "one")]));
    assert_eq!(compose_plan(&project, &["-f", "pages/[i].ts"]), expected_files(&[("pages/i.ts", "other")]));
    assert_eq!(compose_plan(&project, &["-f", "[x]"]), expected_files(&[("[x]/{y}.ts", "deep")]));
    let path = expected_prompt(
        "<file path=\"pages/[id].ts\">[Only the path is given: the content is left out]</file>",
    );
    assert_eq!(compose_plan(&project, &["-f", "pages/[id].ts", "--detail", "pages/[id].ts=path"]), path);
}

#[test]
fn binary_files_are_listed_and_counted() {
    let project = create_project(&[("tree/a.txt", "a"), ("config.toml", "")]);
    project.write("tree/logo.png", b"\x89PNG\0\0");
    project.write("tree/latin.txt", b"caf\xe9");
    project.write("tree/large.txt", "x".repeat(200));
    symlink("a.txt", project.path().join("tree/link")).unwrap();
    let output = run_command(
        project
            .command()
            .env("CALLSHEET_MAX_FILE_BYTES", "199")
            .args(["compose", "-p", "plan", "Go.", "-f", "tree"]),
    );
    let mut expected = expected_prompt(
        "<file path=\"tree/a.txt\">a</file>\
         <file path=\"tree/large.txt\">[Too large, 200 bytes: the content is left out]</file>\
         <file path=\"tree/latin.txt\">[Binary, 4 bytes: the content is left out]</file>\
         <file path=\"tree/link\">[A symbolic link, not followed: the content is left out]</file>\
         <file path=\"tree/logo.png\">[Binary, 6 bytes: the content is left out]</file>",
    );
    expected.stderr =
        "warning[DocumentLeftOut]: 4 documents are listed by path only: 2 binary, 1 too large, \
                    1 symbolic link\n"
            .into();
    assert_eq!(output, expected);
}

#[test]
fn non_utf8_name_is_a_warning() {
    let project = create_project(&[("tree/a.txt", "a")]);
    let name = project.path().join("tree").join(OsStr::from_bytes(b"caf\xe9"));
    if fs::write(name, "").is_err() {
        let output = "NOT TESTED: this file system takes no names that are not UTF-8\n";
        std::io::Write::write_all(&mut std::io::stderr(), output.as_bytes()).unwrap();
        return;
    }
    let mut expected = expected_files(&[("tree/a.txt", "a")]);
    expected.stderr =
        "warning[InputLeftOut]: `tree` contains a file name that is not UTF-8; skipped\n".into();
    assert_eq!(compose_plan(&project, &["-f", "tree"]), expected);
}

#[test]
fn pattern_without_match_is_an_error() {
    let project = create_project(&TREE);
    fs::create_dir(project.path().join("empty")).unwrap();
    let hint = "  = hint: hidden and gitignored files are skipped; name a file directly to include it";
    let root = project.path().display();
    let cases = [
        ("src/*.py", "`src/*.py` matches no file (4 files searched)", "/src"),
        ("*.py", "`*.py` matches no file (4 files searched)", ""),
        ("nowhere/*", "`nowhere/*` matches no file (0 files searched)", "/nowhere"),
        ("empty", "`empty` contains no file", "/empty"),
    ];
    for (path, message, looked) in cases {
        let error = format!("error[InputNotFound]: {message}\n  = looked in {root}{looked}\n{hint}");
        assert_eq!(compose_plan(&project, &["-f", path]), expected_failure(4, &error), "{path}");
    }
    let error = format!("error[InputNotFound]: file not found: `nowhere`\n  = looked in {root}/nowhere");
    assert_eq!(compose_plan(&project, &["-f", "nowhere"]), expected_failure(4, &error));
    let error = "error[UsageBad]: invalid glob `src/[`: unclosed `[`";
    assert_eq!(compose_plan(&project, &["-f", "src/["]), expected_failure(2, error));
}

#[test]
fn directory_outside_project_is_refused() {
    let project = create_project(&TREE);
    let outside = project.path().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink("../outside", project.path().join("out")).unwrap();
    for path in [outside.to_str().unwrap(), "../outside", "out", "../outside/*"] {
        let error = format!(
            "error[UsageBad]: `{path}` is outside the project; only directories inside the project can be packed\n  \
             = hint: name single files, or choose another project with `-C DIR`"
        );
        assert_eq!(compose_plan(&project, &["-f", path]), expected_failure(2, &error));
    }
}

#[test]
fn detail_sets_amount_per_file() {
    let project = create_project(&[
        ("docs/guide.md", "# Guide\n\nWords.\n"),
        ("src/a.py", "class A:\n    def b(self):\n        pass\n"),
        ("src/c.py", "import a\n"),
        ("src/d.py", "def d():\n    if a:\n        b\n"),
    ]);
    let flags = ["-f", ".", "--detail", "src=path", "--detail", "docs/guide.md=outline", "--detail"];
    let chosen =
        [&flags[..], &["**/[ad].py=outline", "--detail", "src/c.py=full", "--detail", "./src/d.py=full"]];
    let expected = expected_prompt(
        "<file path=\"docs/guide.md\">[This is an outline: 2 of 3 lines are left out]\n# Guide\n</file>\
         <file path=\"src/a.py\">[This is an outline: 1 of 3 lines are left out]\nclass A:\n    def b(self):\n</file>\
         <file path=\"src/c.py\">import a\n</file>\
         <file path=\"src/d.py\">def d():\n    if a:\n        b\n</file>",
    );
    assert_eq!(compose_plan(&project, &chosen.concat()), expected);
}

#[test]
fn detail_applies_to_all_documents() {
    let project = create_project(&[("a.md", "# A\nwords\n"), ("b.md", "# B\nwords\n")]);
    let outside = project.path().parent().unwrap().join("notes.md");
    fs::write(&outside, "# Notes\nwords\n").unwrap();
    project.write("request.toml", "documents = [{ path = \"a.md\", detail = \"path\" }]\n");
    let flags = [
        "--request",
        "request.toml",
        "--artifact",
        "b.md",
        "-f",
        outside.to_str().unwrap(),
        "--thought",
        "a.md",
        "--detail",
        "*.md=outline",
        "--detail",
        "../notes.md=outline",
    ];
    let outline = |kind: &str, name: &str, heading: &str| {
        let notice = "[This is an outline: 1 of 2 lines are left out]";
        let element = kind.split(' ').next().unwrap();
        format!("<{kind}=\"{name}\">{notice}\n{heading}\n</{element}>")
    };
    let mut expected = expected_prompt(
        &[
            outline("file path", "a.md", "# A"),
            outline("artifact name", "b.md", "# B"),
            outline("file path", "notes.md", "# Notes"),
            "<thought name=\"thought-1\">a.md</thought>".into(),
        ]
        .concat(),
    );
    expected.stderr = format!(
        "warning[InputOutside]: `{}` is outside the project; the prompt names it `notes.md`\n",
        outside.display()
    )
    .into();
    assert_eq!(compose_plan(&project, &flags), expected);
}

#[test]
fn unused_detail_warns_invalid_detail_fails() {
    let project = create_project(&[("a.md", "# A\n")]);
    let mut expected = expected_files(&[("a.md", "# A\n")]);
    expected.stderr = "warning[DetailUnused]: `--detail b.md=path` matches no document\n\
                    warning[DetailUnused]: `--detail *.rs=outline` matches no document\n"
        .into();
    let flags = ["-f", "a.md", "--detail", "b.md=path", "--detail", "*.rs=outline", "--detail", "a.md=full"];
    assert_eq!(compose_plan(&project, &flags), expected);
    for bad in ["a.md", "a.md=", "a.md=half", "outline"] {
        let error = format!(
            "error[UsageBad]: invalid value `{bad}` for `--detail`: expected PATH=full, PATH=outline or PATH=path"
        );
        assert_eq!(compose_plan(&project, &["-f", "a.md", "--detail", bad]), expected_failure(2, &error));
    }
}

/// A recipe that lists paths does not open the files.
#[test]
fn path_recipe_lists_packed_paths() {
    let project = create_project(&[("src/b.rs", "b"), ("src/a.rs", "a")]);
    project.write("src/blob", b"\0");
    project.write(
        ".callsheet/recipes/list.toml",
        "format = \"markdown\"\nfiles = \"paths\"\n\n[[section]]\nname = \"read\"\npart = \"context\"\n\
         blocks = [{ value = \"read_first\" }]\n\n[derive.read_first]\nfrom = \"read-first\"\n",
    );
    let output = project.run(["compose", "-r", "list", "-f", "src", "--detail", "src/a.rs=outline"]);
    assert_eq!(output, CommandOutput::new(0, "src/a.rs\nsrc/b.rs\nsrc/blob", ""));
}

#[test]
fn explain_lists_omitted_files() {
    let project = create_project(&[("tree/a.md", "# A\nwords\n"), ("tree/b.md", "# B\n")]);
    project.write("tree/c", b"\0");
    let output = project.run([
        "explain",
        "-q",
        "--json",
        "-p",
        "plan",
        "Go.",
        "-f",
        "tree",
        "--detail",
        "tree/a.md=outline",
        "--detail",
        "tree/b.md=path",
    ]);
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
    let expected = json!([
        {"what": "section preferences", "reason": {"code": "empty", "message": "not given"}, "detail": null},
        {"what": "project:tree/a.md", "reason": {"code": "outlined", "message": "only its outline is shown"}, "detail": "1 of 2 lines are left out"},
        {"what": "project:tree/b.md", "reason": {"code": "path_only", "message": "only its path is shown"}, "detail": null},
        {"what": "project:tree/c", "reason": {"code": "path_only", "message": "only its path is shown"}, "detail": "binary, 1 byte"},
        {"what": "builtin:templates/system/BASE-plan.md", "reason": {"code": "shadowed", "message": "an override won"},
         "detail": "by project:.callsheet/templates/system/BASE-plan.md"},
    ]);
    assert_eq!(output.json()["absent"], expected);
}

/// Packs many files of every kind and reads them back with an independent parser.
#[test]
fn packed_bytes_survive_xml_parser() {
    let project = create_project(&[]);
    let bits = [
        "fn main() {}\n",
        "</file>",
        "<![CDATA[",
        "]]",
        "]]>",
        ">",
        "&amp;",
        "&#13;",
        "\r\n",
        "\r",
        "\t",
        "é",
        "🦀",
        "\u{feff}",
        "  ",
        "<file path=\"x\">",
        "\n\n",
        "]",
        "\u{85}",
        "\u{2028}",
    ];
    let names = [
        "plain.rs",
        "with space.md",
        "quote\".txt",
        "less<than",
        "amp&ersand",
        "apo's",
        "tab\there",
        "ü.txt",
    ];
    let mut expected = Vec::new();
    // A hand-written generator gives the same bytes on every machine.
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for number in 0..1500 {
        let path = format!("tree/{}/{}/{number} {}", next(7), next(5), names[next(names.len())]);
        let text: String = (0..next(40)).map(|_| bits[next(bits.len())]).collect();
        project.write(&path, &text);
        expected.push((path, text));
    }
    expected.sort();
    let output = compose_plan(&project, &["-f", "tree"]);
    assert_eq!((output.code, output.err().as_str()), (Some(0), ""));
    let out = output.out();
    let document = roxmltree::Document::parse(&out).unwrap();
    let context = document.root_element().children().find(|node| node.has_tag_name("context")).unwrap();
    let found: Vec<(String, String)> = context
        .children()
        .map(|file| {
            let text: String = file.children().filter_map(|child| child.text()).collect();
            let is_crlf = file.attribute("eol") == Some("crlf");
            let text = if is_crlf { text.replace('\n', "\r\n") } else { text };
            (file.attribute("path").unwrap().to_string(), text)
        })
        .collect();
    assert_eq!(found, expected);
}
