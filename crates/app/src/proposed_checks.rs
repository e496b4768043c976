//! Finds the checks that a project's own files suggest. Runs none of them, and takes no word of a command from a file.

use std::path::Path;

use serde_json::Value;

use crate::error::Result;
use crate::session::open_folder;

/// Most bytes of a file that is searched for scripts or targets.
const MOST_BYTES: u64 = 1 << 20;

/// Scripts of `package.json` that end by themselves, by convention. Others, such as `test:watch`, may not.
const SCRIPTS: [&str; 5] = ["test", "lint", "typecheck", "check", "build"];

/// Beginning of the script `test` that `npm init` writes, which always fails.
const NO_TESTS: &str = "echo \"Error: no test specified\"";

/// A check that fits a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedCheck {
    /// Name of the check in the configuration.
    pub name: String,
    /// Command of the check, whose words are separated by single spaces.
    pub command: String,
    /// File of the project that suggests the check.
    pub file: &'static str,
}

impl ProposedCheck {
    fn new(name: &str, command: &str, file: &'static str) -> Self {
        Self { name: name.to_owned(), command: command.to_owned(), file }
    }
}

/// Returns the checks that the files at the top of a project suggest. A file that cannot be read suggests none.
pub(crate) fn find_checks(project: &Path) -> Result<Vec<ProposedCheck>> {
    let has = |path: &str| project.join(path).symlink_metadata().is_ok_and(|meta| meta.is_file());
    let folder = open_folder(project)?;
    let read = |path: &str| folder.read(path, MOST_BYTES).ok().flatten().unwrap_or_default();
    let mut checks = Vec::new();
    if has("Cargo.toml") {
        checks.push(ProposedCheck::new("cargo-test", "cargo test", "Cargo.toml"));
    }
    if has("package.json") {
        let managers = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn")];
        let manager = managers.iter().find(|(lock, _)| has(lock)).map_or("npm", |(_, manager)| manager);
        checks.extend(find_scripts(&read("package.json"), manager));
    }
    let python = ["pyproject.toml", "pytest.ini", "setup.cfg"];
    if let Some(file) = python.into_iter().find(|file| has(file)) {
        checks.push(ProposedCheck::new("pytest", "pytest", file));
    }
    if has("go.mod") {
        checks.push(ProposedCheck::new("go-test", "go test ./...", "go.mod"));
    }
    if has("Makefile") {
        checks.extend(find_target(&read("Makefile")));
    }
    Ok(checks)
}

/// Returns the checks of a `package.json`: the known scripts that it has.
fn find_scripts(text: &str, manager: &str) -> Vec<ProposedCheck> {
    let package: Value = serde_json::from_str(text).unwrap_or_default();
    let has = |script: &&str| {
        let command = package["scripts"][*script].as_str().unwrap_or_default().trim();
        !command.is_empty() && !command.starts_with(NO_TESTS)
    };
    let check = |script: &str| {
        // All three managers know `test` without `run`.
        let command = match script {
            "test" => format!("{manager} test"),
            script => format!("{manager} run {script}"),
        };
        ProposedCheck::new(&format!("{manager}-{script}"), &command, "package.json")
    };
    SCRIPTS.into_iter().filter(has).map(check).collect()
}

/// Returns the check of a Makefile: its target `test`, else its target `check`.
fn find_target(text: &str) -> Option<ProposedCheck> {
    let has = |target: &&str| {
        text.lines().any(|line| {
            let rest = line.strip_prefix(*target).map(str::trim_start);
            // `test := value` and `test ::= value` assign a variable.
            rest.and_then(|rest| rest.strip_prefix(':')).is_some_and(|rest| !rest.starts_with(['=', ':']))
        })
    };
    let target = ["test", "check"].into_iter().find(has)?;
    Some(ProposedCheck::new(&format!("make-{target}"), &format!("make {target}"), "Makefile"))
}

/// Puts proposals in the place of the examples in a commented configuration. They stay comments: the commands run the
/// project's own code, and a person agrees to that.
pub(crate) fn propose(config: &str, checks: &[ProposedCheck]) -> String {
    let mut lines = Vec::new();
    let mut is_example = false;
    for line in config.lines() {
        is_example &= !line.is_empty();
        if is_example && !checks.is_empty() {
            continue;
        }
        lines.push(line.to_owned());
        if line == "# [checks]" {
            is_example = true;
            lines.extend(
                checks.iter().map(|check| {
                    format!("# {} = \"{}\"    # from {}", check.name, check.command, check.file)
                }),
            );
        }
    }
    lines.join("\n") + "\n"
}
