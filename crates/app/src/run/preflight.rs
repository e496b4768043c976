//! Finds mistakes that would otherwise show only after the agent was paid: missing programs, globs that match
//! nothing and missing files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use callsheet_core::delivery::DeliveryAction;
use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_core::request::fact::CheckSpec;
use callsheet_core::request::scope::Scope;
use callsheet_run::{MissingProgram, find_env_program, find_program};

use crate::compose::read_first::{GLOB_MARKS, warn_missing_files};
use crate::error::Result;

/// Checks that every program of these actions and checks can be started. Reports all missing ones together.
pub(super) fn check_programs(acts: &[DeliveryAction], checks: &[CheckSpec], place: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for act in acts {
        if let DeliveryAction::Spawn { argv, env, cwd, .. } | DeliveryAction::Open { argv, env, cwd } = act {
            let cwd = Path::new(cwd);
            missing.extend(agent_program_error(argv, env, if cwd.is_dir() { cwd } else { place }));
        }
    }
    if acts.iter().any(|act| matches!(act, DeliveryAction::Open { .. } | DeliveryAction::Type { .. })) {
        missing.extend(find_missing_program("tmux", &BTreeMap::new(), place).map(tmux_missing_error));
    }
    missing.extend(missing_check_programs(checks, place));
    if missing.is_empty() { Ok(()) } else { Err(Diagnostics(missing).into()) }
}

/// Returns an error for every check whose program cannot be started in `place`.
pub(crate) fn missing_check_programs(checks: &[CheckSpec], place: &Path) -> Vec<Diagnostic> {
    let check = |check: &CheckSpec| {
        let first = check.argv.first().map_or("", String::as_str);
        let behind = find_env_program(check.argv.iter().map(String::as_str));
        let find = |name| Some((name, find_missing_program(name, &BTreeMap::new(), place)?));
        let (name, missing) = find(first).or_else(|| find(behind?))?;
        let what = format!("cannot run the check `{}`", check.name);
        let hint = "if the agent will write this program, start it through a shell: `sh -c './PROGRAM'`";
        Some(program_not_found_error(&what, name, missing).hint(hint))
    };
    checks.iter().filter_map(check).collect()
}

/// Returns an error if the agent's program cannot be started in `place`.
pub(crate) fn missing_agent_program(name: &str, place: &Path) -> Option<Diagnostic> {
    agent_program_error(&[name.to_owned()], &BTreeMap::new(), place)
}

fn agent_program_error(argv: &[String], env: &BTreeMap<String, String>, cwd: &Path) -> Option<Diagnostic> {
    let name = argv.first().map_or("", String::as_str);
    let missing = find_missing_program(name, env, cwd)?;
    let hint = "run `callsheet doctor` to check all programs";
    Some(program_not_found_error("cannot start the agent", name, missing).hint(hint))
}

fn tmux_missing_error(missing: MissingProgram) -> Diagnostic {
    program_not_found_error("cannot open a terminal for the agent", "tmux", missing)
        .hint("install tmux, or remove `--terminal`")
}

fn find_missing_program(name: &str, env: &BTreeMap<String, String>, cwd: &Path) -> Option<MissingProgram> {
    let path: Option<OsString> = env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    find_program(name, path.as_deref().map(OsStr::new), cwd).err()
}

fn program_not_found_error(what: &str, name: &str, missing: MissingProgram) -> Diagnostic {
    let why = missing.why.unwrap_or_else(|| format!("program not found: `{name}`"));
    let looked = missing.looked.iter().map(|path| path.display());
    Diagnostic::error(Code::ProgramNotFound, format!("{what}: {why}")).searched(looked)
}

/// Warns about globs of the scope that can match nothing, and about missing files to read first.
pub(super) fn path_warnings(scope: &Scope, read_first: &[String], place: &Path) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for glob in &scope.write {
        if let Some(why) = unmatched_reason(glob, place) {
            let message = format!("the write glob `{glob}` {why}");
            warnings.push(
                Diagnostic::warning(Code::ScopeNowhere, message).hint("globs are relative to the project"),
            );
        }
    }
    warnings.extend(warn_missing_files(read_first, place));
    warnings
}

fn unmatched_reason(glob: &str, place: &Path) -> Option<String> {
    if glob.starts_with('/') {
        return Some("is absolute and matches nothing in the project".into());
    }
    let fixed = glob.split(GLOB_MARKS).next().unwrap_or_default();
    // The last name can be a file that the agent creates.
    let dir = fixed.rsplit_once('/').map_or("", |(dir, _)| dir);
    let is_there = dir.is_empty() || place.join(dir).is_dir();
    (!is_there).then(|| format!("begins with the directory `{dir}`, which does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmatched_globs_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("src/deep")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        for good in [
            "src/**",
            "**",
            "*.rs",
            "new.txt",
            "src/new.rs",
            "src/deep/*",
            "./src/*",
            "src",
            "src/",
            "{a,b}/c",
        ] {
            assert_eq!(unmatched_reason(good, dir.path()), None, "{good}");
        }
        for (bad, named) in
            [("srx/**", "srx"), ("src/dep/a.rs", "src/dep"), ("a/b/*.rs", "a/b"), ("file/x", "file")]
        {
            let why = format!("begins with the directory `{named}`, which does not exist");
            assert_eq!(unmatched_reason(bad, dir.path()), Some(why), "{bad}");
        }
        let why = "is absolute and matches nothing in the project";
        assert_eq!(unmatched_reason("/src/**", dir.path()).as_deref(), Some(why));
    }
}
