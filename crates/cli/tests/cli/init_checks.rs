//! Tests the checks that `init` proposes, and that no word of a project's file becomes part of a command.

use callsheet_testing::TestProject;
use serde_json::{Value, json};

/// The files of a project, and the checks that they suggest: name, command, file.
type Case = (&'static [(&'static str, &'static str)], &'static [[&'static str; 3]]);

const CASES: [Case; 14] = [
    (&[], &[]),
    (&[("Cargo.toml", "")], &[["cargo-test", "cargo test", "Cargo.toml"]]),
    (&[("pyproject.toml", "")], &[["pytest", "pytest", "pyproject.toml"]]),
    (&[("pytest.ini", ""), ("setup.cfg", "")], &[["pytest", "pytest", "pytest.ini"]]),
    (&[("setup.cfg", "")], &[["pytest", "pytest", "setup.cfg"]]),
    (&[("go.mod", "module x\n")], &[["go-test", "go test ./...", "go.mod"]]),
    (&[("Makefile", "all: test\ntest :\n\ttrue\ncheck:\n")], &[["make-test", "make test", "Makefile"]]),
    (&[("Makefile", "test := 1\ntests:\ncheck: all\n")], &[["make-check", "make check", "Makefile"]]),
    (&[("Makefile", "all:\n\ttest: x\ncheck ::= 1\n")], &[]),
    (
        &[("package.json", r#"{"scripts": {"build": "b", "test": "t", "lint": "l", "test:watch": "w"}}"#)],
        &[
            ["npm-test", "npm test", "package.json"],
            ["npm-lint", "npm run lint", "package.json"],
            ["npm-build", "npm run build", "package.json"],
        ],
    ),
    (
        &[("package.json", r#"{"scripts": {"test": "t", "lint": "l"}}"#), ("pnpm-lock.yaml", "")],
        &[["pnpm-test", "pnpm test", "package.json"], ["pnpm-lint", "pnpm run lint", "package.json"]],
    ),
    (
        &[("package.json", r#"{"scripts": {"typecheck": "t"}}"#), ("yarn.lock", "")],
        &[["yarn-typecheck", "yarn run typecheck", "package.json"]],
    ),
    (&[("package.json", r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#)], &[]),
    (
        &[("Cargo.toml", ""), ("package.json", r#"{"scripts": {"test": "t"}}"#), ("Makefile", "test:\n")],
        &[
            ["cargo-test", "cargo test", "Cargo.toml"],
            ["npm-test", "npm test", "package.json"],
            ["make-test", "make test", "Makefile"],
        ],
    ),
];

/// Returns the project's configuration without the marks of comments before settings.
fn uncomment(config: &str) -> String {
    let settings = config.lines().filter_map(|line| line.strip_prefix("# "));
    settings
        .filter(|line| line.contains(" = ") || line.starts_with('['))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn checks_json(checks: &[[&str; 3]]) -> Value {
    checks
        .iter()
        .map(|[name, command, file]| json!({ "name": name, "command": command, "file": file }))
        .collect()
}

#[test]
fn init_proposes_checks_of_project() {
    for (files, checks) in CASES {
        let project = TestProject::new();
        for (path, text) in files {
            project.write(path, text);
        }
        let output = project.run(["--json", "init"]);
        assert_eq!((output.code, output.err()), (Some(0), String::new()), "{files:?}");
        assert_eq!(output.json()["checks"], checks_json(checks), "{files:?}");
        // A proposal is a comment, and a check as soon as it is none.
        let config = project.read(".callsheet/config.toml");
        assert_eq!(project.run(["--json", "config", "show"]).settings()["checks"]["value"], json!({}));
        project.write(".callsheet/config.toml", uncomment(&config));
        let shown = project.run(["--json", "config", "show"]).settings()["checks"]["value"].clone();
        let wanted: Value = match checks {
            [] => json!({ "tests": "cargo test", "lint": "cargo clippy -- -D warnings" }),
            checks => checks.iter().map(|[name, command, _]| ((*name).to_owned(), json!(command))).collect(),
        };
        assert_eq!(shown, wanted, "{config}");
    }
}

#[test]
fn init_leads_to_runs_and_flows() {
    let project = TestProject::new();
    project.write("Cargo.toml", "");
    let output = project.run(["init"]);
    assert_eq!(
        (output.code, output.out().as_str(), output.err().as_str()),
        (
            Some(0),
            "wrote .callsheet/README.md\n\
             wrote .callsheet/config.toml\n\
             added the ledger to .gitignore\n\
             proposed the check `cargo test`, from Cargo.toml\n\
             To run the checks after every agent, remove the `# ` before `[checks]` and before the checks in\n\
             .callsheet/config.toml, then run `callsheet trust`\n",
            "Next:\n  \
             callsheet run -a claude --check cargo-test=\"cargo test\" \"Fix the login timeout\"\n  \
             callsheet flow start sdd -a claude --check cargo-test=\"cargo test\" \"Add login\"\n  \
             callsheet agents  # lists the agents, and which of them are installed\n"
        )
    );
    let before = project.read(".callsheet/config.toml");
    let again = project.run(["init"]);
    assert_eq!(
        again.out(),
        "kept the existing .callsheet/README.md\nkept the existing .callsheet/config.toml\n"
    );
    assert_eq!(project.read(".callsheet/config.toml"), before);
}

#[test]
fn quiet_init_prints_nothing() {
    let project = TestProject::new();
    project.write("Cargo.toml", "");
    let output = project.run(["-q", "init"]);
    assert_eq!((output.code, output.out(), output.err()), (Some(0), String::new(), String::new()));
    assert!(project.read(".callsheet/config.toml").contains("# cargo-test = \"cargo test\""));
}

#[test]
fn hostile_package_file_proposes_nothing() {
    let usual = TestProject::new();
    usual.run(["init"]);
    let usual = usual.read(".callsheet/config.toml");
    let long = format!(r#"{{"scripts": {{"test": "t"}}, "x": "{}"}}"#, "x".repeat(1 << 20));
    let deep = "[".repeat(100_000);
    for text in [
        r#"{"scripts": {"test; rm -rf ~": "t", "test\nlint = \"x\"": "t", "$(id)": "t", "--help": "t"}}"#,
        r#"{"scripts": {"test": ["rm"], "lint": {"x": 1}, "build": "", "check": null}}"#,
        r#"{"scripts": "test"}"#,
        "{\"scripts\": {\"test\": ",
        "scripts:\n  test: t\n",
        "\0\u{1b}[2J",
        "",
        &deep,
        &long,
    ] {
        let project = TestProject::new();
        project.write("package.json", text);
        let output = project.run(["--json", "init"]);
        let start = &text[..text.len().min(40)];
        assert_eq!((output.code, output.err()), (Some(0), String::new()), "{start}");
        assert_eq!(output.json()["checks"], json!([]), "{start}");
        assert_eq!(project.read(".callsheet/config.toml"), usual, "{start}");
    }
    let project = TestProject::new();
    project.write("package.json", [0xff, 0xfe]);
    project.write_beside("elsewhere", "test:\n");
    project.link("../elsewhere", "Makefile");
    assert_eq!(project.run(["--json", "init"]).json()["checks"], json!([]));
}

#[test]
fn script_text_never_reaches_command() {
    let project = TestProject::new();
    project
        .write("package.json", r#"{"scripts": {"test": "rm -rf ~; echo \"\n[env]\nX = 1", "$(id)": "x"}}"#);
    let output = project.run(["--json", "init"]);
    assert_eq!(output.json()["checks"], checks_json(&[["npm-test", "npm test", "package.json"]]));
    let config = project.read(".callsheet/config.toml");
    let lines: Vec<&str> = config.lines().filter(|line| line.contains("npm")).collect();
    assert_eq!(lines, ["# npm-test = \"npm test\"    # from package.json"]);
    assert!(config.lines().all(|line| line.is_empty() || line.starts_with("# ")), "{config}");
}
