//! Tests bad input: a stable code, the place, every place searched, a hint, and nothing on standard output.

use std::process::Command;

use callsheet_testing::{CommandOutput, TestProject};

fn expect_refusal(output: &CommandOutput, code: i32) -> String {
    assert_eq!((output.code, output.out().as_str()), (Some(code), ""), "{}", output.err());
    output.err()
}

#[test]
fn u6_unknown_phase_lists_searched_places() {
    let output = TestProject::new().run(["compose", "-p", "invalid-phase", "-a", "claude", "x"]);
    assert_eq!(
        expect_refusal(&output, 3),
        "error[TemplateNotFound]: no template for phase `invalid-phase`\n  \
         = looked in project:.callsheet/templates/system/CLAUDE-invalid-phase.md\n  \
         =           user:templates/system/CLAUDE-invalid-phase.md\n  \
         =           builtin:templates/system/CLAUDE-invalid-phase.md\n  \
         =           project:.callsheet/templates/system/BASE-invalid-phase.md\n  \
         =           user:templates/system/BASE-invalid-phase.md\n  \
         =           builtin:templates/system/BASE-invalid-phase.md\n  \
         = hint: known phases: archive, challenge, implement, plan, review\n"
    );
}

#[test]
fn json_error_is_one_object() {
    let output = TestProject::new().run(["--json", "compose", "-p", "pln", "x"]);
    let object: serde_json::Value = serde_json::from_str(&expect_refusal(&output, 3)).unwrap();
    let places = ["project:.callsheet/templates", "user:templates", "builtin:templates"]
        .map(|root| format!("{root}/system/BASE-pln.md"));
    let wanted = serde_json::json!({
        "schema": "callsheet/error/1",
        "code": "template/not-found",
        "severity": "error",
        "message": "no template for phase `pln`",
        "place": null,
        "looked_in": places,
        "hints": ["did you mean `plan`?", "known phases: archive, challenge, implement, plan, review"],
        "more": 0,
        "others": [],
        "exit_code": 3,
    });
    assert_eq!(object, wanted);
}

fn usage_error_json(message: &str, hints: &str) -> serde_json::Value {
    let hints: Vec<&str> = hints.split("; ").filter(|hint| !hint.is_empty()).collect();
    serde_json::json!({
        "schema": "callsheet/error/1", "code": "usage/bad", "severity": "error", "message": message, "place": null,
        "looked_in": [], "hints": hints, "more": 0, "others": [], "exit_code": 2,
    })
}

#[test]
fn json_usage_error_is_one_object() {
    let project = TestProject::new();
    let cases: [(&[&str], &str, &str); 5] = [
        (
            &["--json", "compose", "--fromat", "xml"],
            "unexpected argument '--fromat' found",
            "a similar argument exists: '--format'; Usage: callsheet compose --format <FORMAT> [TASK]",
        ),
        (
            &["compose", "--format", "binary", "--json"],
            "invalid value 'binary' for '--format <FORMAT>' [possible values: markdown, xml, json]",
            "",
        ),
        (
            &["--json", "templates", "show"],
            "the following required arguments were not provided: <NAME>",
            "Usage: callsheet templates show <NAME>",
        ),
        (
            &["--json", "compse"],
            "unrecognized subcommand 'compse'",
            "some similar subcommands exist: 'mcp', 'completions', 'compose'; Usage: callsheet [OPTIONS] <COMMAND>",
        ),
        (&["--json"], "no command given", "run `callsheet --help` to list commands"),
    ];
    for (args, message, hint) in cases {
        let output = project.run(args);
        let object: serde_json::Value = serde_json::from_str(&expect_refusal(&output, 2)).unwrap();
        assert_eq!(object, usage_error_json(message, hint));
    }
    let help = project.run(["--json", "compose", "--help"]);
    assert_eq!(help, project.run(["compose", "--help"]));
    assert_eq!((help.code, help.err().as_str()), (Some(0), ""));
    let plain = project.run(["compose", "--format", "binary", "--", "--json"]);
    assert_eq!(
        expect_refusal(&plain, 2),
        "error: invalid value 'binary' for '--format <FORMAT>'\n  [possible values: markdown, xml, json]\n\n\
         For more information, try '--help'.\n"
    );
}

#[test]
fn only_near_misspellings_get_suggestions() {
    let project = TestProject::new();
    project.write(".callsheet/recipes/role.toml", "");
    let near = [("rnu", "run"), ("rn", "run"), ("RUN", "run"), ("layres", "layers"), ("unifeid", "unified")];
    let far = [("nope", None), ("x", None), ("lyrs", None), ("rrunn", None)];
    for (given, meant) in near.map(|(given, meant)| (given, Some(meant))).into_iter().chain(far) {
        let suggestion =
            meant.map(|meant| format!("  = hint: did you mean `{meant}`?\n")).unwrap_or_default();
        assert_eq!(
            expect_refusal(&project.run(["compose", "-r", given, "x"]), 3),
            format!(
                "error[RecipeNotFound]: unknown recipe `{given}`\n  \
                 = looked in project:.callsheet/recipes/{given}.toml\n  \
                 =           user:recipes/{given}.toml\n  \
                 =           builtin:recipes/{given}.toml\n\
                 {suggestion}  = hint: known recipes: layers, role, run, staged, unified\n"
            )
        );
    }
}

#[test]
fn invalid_xml_characters_report_offset() {
    let project = TestProject::new();
    project.write("nul.txt", "ab\0c");
    project.write("bell.txt", "é\u{7}");
    project.write("fffe.txt", "x\u{fffe}");
    let output = project
        .run(["compose", "-q", "-p", "archive", "x", "-f", "nul.txt", "-f", "bell.txt", "-f", "fffe.txt"]);
    let hint = "  = hint: omit the file, or add `--format json`\n";
    assert_eq!(
        expect_refusal(&output, 3),
        format!(
            "error[XmlCharacter]: project:nul.txt: XML cannot represent U+0000 at offset 2\n  ┌─ project:nul.txt:1:3\n\
             1 │ ab\\u{{0}}c\n  │   ^^^^^\n{hint}\
             error[XmlCharacter]: project:bell.txt: XML cannot represent U+0007 at offset 2\n  ┌─ project:bell.txt:1:2\n\
             1 │ é\\u{{7}}\n  │  ^^^^^\n{hint}\
             error[XmlCharacter]: project:fffe.txt: XML cannot represent U+FFFE at offset 1\n  ┌─ project:fffe.txt:1:2\n\
             1 │ x\u{fffe}\n  │  ^\n{hint}"
        )
    );
}

#[test]
fn invalid_utf8_reports_offset() {
    let project = TestProject::new();
    project.write("latin.txt", b"caf\xe9");
    let output = project.run(["compose", "-q", "-p", "archive", "x", "-f", "latin.txt"]);
    assert_eq!(
        expect_refusal(&output, 3),
        "error[SourceUnreadable]: cannot read `project:latin.txt`: byte 0xE9 at offset 3 is not UTF-8\n"
    );
}

#[test]
fn non_regular_file_is_refused() {
    let project = TestProject::new();
    assert!(Command::new("mkfifo").arg(project.path().join("pipe")).status().unwrap().success());
    std::fs::create_dir(project.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", project.path().join("zero")).unwrap();
    let kinds = [("pipe", "FIFO"), ("/dev/zero", "device"), ("zero", "device")];
    for (path, kind) in kinds {
        let output = project.run(["compose", "-q", "-p", "archive", "x", "-f", path]);
        let err = expect_refusal(&output, 3);
        assert!(err.ends_with(&format!(": it is a {kind}, not a regular file\n")), "{err}");
    }
}

#[test]
fn missing_file_exits_with_4() {
    let project = TestProject::new();
    for args in [["-f", "no.txt"], ["--request", "no.txt"], ["--set-file", "a=no.txt"], ["--tools", "no.txt"]]
    {
        let output = project.run(["compose", "x"].iter().chain(&args));
        let looked = project.path().join("no.txt");
        assert_eq!(
            expect_refusal(&output, 4),
            format!("error[InputNotFound]: file not found: `no.txt`\n  = looked in {}\n", looked.display())
        );
    }
    let session = project.run(["compose", "--session", "no", "--role", "coder"]);
    assert_eq!(
        expect_refusal(&session, 4),
        format!(
            "error[InputNotFound]: `no` is not a directory\n  = looked in {}\n",
            project.path().join("no").display()
        )
    );
}

#[test]
fn all_unfilled_slots_are_reported() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "{{one}} {{two}}\n{{one}}");
    let output = project.run(["compose", "-r", "layers", "--role", "me", "x", "-s", "on=1"]);
    let error = |name: &str, column: usize, line: &str, pad: &str, suggestion: &str| {
        format!(
            "error[SlotUnfilled]: nothing fills `{name}`\n  ┌─ project:.callsheet/templates/identity/me.md:1:{column}\n\
             1 │ {line}\n  │ {pad}^^^\n{suggestion}  \
             = hint: add `--set {name}=…`, or leave it out with `--missing empty`\n"
        )
    };
    let line = "{{one}} {{two}}";
    let second = "error[SlotUnfilled]: nothing fills `one`\n  ┌─ project:.callsheet/templates/identity/me.md:2:3\n\
                  2 │ {{one}}\n  │   ^^^\n  = hint: did you mean `on`?\n  \
                  = hint: add `--set one=…`, or leave it out with `--missing empty`\n";
    assert_eq!(
        expect_refusal(&output, 3),
        error("one", 3, line, "  ", "  = hint: did you mean `on`?\n")
            + &error("two", 11, line, &" ".repeat(10), "")
            + second
    );
}

#[test]
fn path_like_names_are_refused() {
    let project = TestProject::new();
    for (flag, what) in
        [("--role", "role"), ("-a", "agent"), ("-p", "phase"), ("--command", "command"), ("-r", "recipe")]
    {
        for bad in ["../x", "a/b", "", "x.md", "a b", "é"] {
            let output = project.run([
                "compose",
                "x",
                &format!("{flag}{}{bad}", if flag.len() > 2 { "=" } else { "" }),
            ]);
            let err = expect_refusal(&output, 2);
            let first = format!("error[RequestBadName]: invalid {what} `{bad}`\n");
            // clap itself refuses a short option without a value.
            assert!(err.starts_with(&first) || (bad.is_empty() && err.starts_with("error: ")), "{err}");
        }
    }
}

#[test]
fn control_characters_in_errors_are_escaped() {
    let project = TestProject::new();
    project.write(".callsheet/templates/identity/me.md", "\u{1b}[31m{{x}}\u{202e}\u{9b}0m");
    let output = project.run(["compose", "-r", "layers", "--role", "me", "x"]);
    assert_eq!(
        expect_refusal(&output, 3),
        "error[SlotUnfilled]: nothing fills `x`\n  ┌─ project:.callsheet/templates/identity/me.md:1:8\n\
         1 │ \\u{1b}[31m{{x}}\\u{202e}\\u{9b}0m\n  │             ^\n  \
         = hint: add `--set x=…`, or leave it out with `--missing empty`\n"
    );
}

#[test]
fn all_unknown_request_keys_are_reported() {
    let project = TestProject::new();
    project.write("r.toml", "recipe = \"run\"\ninstrctions = \"x\"\n[task]\nwrte = []\n");
    let err = expect_refusal(&project.run(["compose", "--request", "r.toml"]), 2);
    let heads: Vec<&str> = err.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(
        heads,
        [
            "error[RequestUnknownKey]: unknown key `instrctions`",
            "error[RequestUnknownKey]: unknown key `task.wrte`"
        ]
    );
}

#[test]
fn full_disk_is_named_error() {
    let project = TestProject::new();
    for args in [
        &["compose", "-q", "-p", "plan", "x"][..],
        &["compose", "-q", "-p", "plan", "--secrets", "allow", "x"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = project.command().args(args).stdout(full).output().unwrap();
        let error = "error[OutputFailed]: standard output: No space left on device (os error 28)\n";
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
            (Some(70), error)
        );
    }
}

#[test]
fn closed_stdout_is_not_an_error() {
    let project = TestProject::new();
    project.write("big.txt", "x".repeat(2_000_000));
    let bin = env!("CARGO_BIN_EXE_callsheet");
    let script =
        format!("{bin} compose -q -p archive x -f big.txt | head -c 10; echo; echo ${{PIPESTATUS[0]}}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(project.path()).output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"<prompt><s\n0\n"[..], &b""[..]));
}
