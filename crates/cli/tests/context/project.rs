//! A project in which agents are probed, and the parts of their requests.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use callsheet_testing::{Cli, CommandOutput, TestProject, run_command};
use serde_json::Value;

/// A project whose commands find the CLIs.
pub(crate) struct ProbeProject(TestProject);

impl Deref for ProbeProject {
    type Target = TestProject;

    fn deref(&self) -> &TestProject {
        &self.0
    }
}

impl ProbeProject {
    /// Creates a repository with one commit of these files. Gemini reads settings only below private folders.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let project = TestProject::in_private_dir();
        project.create_repository();
        for (path, text) in files {
            project.write(path, text);
        }
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "--allow-empty", "-m", "files"]);
        Self(project.with_variable("CALLSHEET_TEST_GRACE_MS", "500").with_arguments(&["-C", "."]))
    }

    /// Returns a command that finds this CLI.
    pub(crate) fn command_with(&self, program: &Path) -> Command {
        let mut command = self.command();
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        // Copilot unpacks itself into its cache, which takes seconds.
        let unpacked = Cli::Copilot.home().unwrap().join(".cache/copilot");
        command.env("COPILOT_PKG_CACHE_HOME", unpacked);
        command
    }

    /// Runs `callsheet context` with an empty home.
    pub(crate) fn probe(&self, cli: Cli, args: &[&str]) -> CommandOutput {
        let mut command = self.command_with(&cli.program().unwrap());
        command.args(["--json", "-q", "context", "--isolated", "-a", cli.name()]).args(args);
        run_command(&mut command)
    }
}

/// Returns the parts of a kind.
pub(crate) fn parts_of<'c>(context: &'c Value, kind: &str) -> Vec<&'c Value> {
    context["parts"].as_array().unwrap().iter().filter(|part| part["kind"] == kind).collect()
}

/// Returns the names of the parts of a kind.
pub(crate) fn names_of(context: &Value, kind: &str) -> Vec<String> {
    let mut names: Vec<String> =
        parts_of(context, kind).iter().map(|part| part["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Returns the codes of the diagnostics.
pub(crate) fn codes_of(context: &Value) -> Vec<&str> {
    context["diagnostics"].as_array().unwrap().iter().map(|found| found["code"].as_str().unwrap()).collect()
}

/// Asserts that the ranges of all parts cover the body, each byte once.
pub(crate) fn assert_covered(context: &Value) {
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for part in context["parts"].as_array().unwrap() {
        let own = part["ranges"].as_array().unwrap();
        let own: Vec<_> = own.iter().map(|range| (number(&range["start"]), number(&range["end"]))).collect();
        assert_eq!(own.iter().map(|(start, end)| end - start).sum::<usize>(), number(&part["bytes"]));
        ranges.extend(own);
    }
    ranges.sort_unstable();
    let mut at = 0;
    for (start, end) in ranges.into_iter().filter(|(start, end)| start < end) {
        assert_eq!(start, at);
        at = end;
    }
    assert_eq!(at, number(&context["bytes"]));
}
