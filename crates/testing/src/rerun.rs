//! Restarts the test program for one test, under other circumstances.

use std::any::type_name;
use std::process::Command;

use crate::not_tested;

/// Returns the test runner's name of a test: the path of the function whose closure is `F`.
pub(crate) fn test_name<F>() -> &'static str {
    let path = type_name::<F>();
    let path = path.split("::{{closure}}").next().unwrap_or(path);
    path.split_once("::").map_or(path, |(_crate, name)| name)
}

/// Runs one test with `command`, which starts the test program, and passes on its reports.
pub(crate) fn rerun_test(command: &mut Command, test: &str) {
    let output = command.args(["--exact", test, "--include-ignored", "--nocapture"]).output();
    let (ran, said) = match output {
        Ok(output) => {
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            // A name that matches no test would be a success as well.
            (output.status.success() && out.contains("test result: ok. 1 passed"), out + &error)
        }
        Err(error) => (false, error.to_string()),
    };
    assert!(ran, "{command:?}:\n{said}");
    said.lines().filter_map(|line| line.strip_prefix("NOT TESTED: ")).for_each(not_tested);
}
