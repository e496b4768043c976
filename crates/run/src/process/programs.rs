//! Finds the program that a command would start, before it is started.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::disk::read::open_file;

/// A program that cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProgram {
    /// The reason, if a file with its name was found.
    pub why: Option<String>,
    /// The files that were searched, in order.
    pub looked: Vec<PathBuf>,
}

/// The search path of a process that has none.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Finds `name` as the system does for a process that works in `cwd` and searches `path`: a name with a slash
/// is a file relative to `cwd`, any other name is searched in the directories of `path`.
pub fn find_program(name: &str, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, MissingProgram> {
    let candidates: Vec<PathBuf> = match name {
        "" => Vec::new(),
        name if name.contains('/') => vec![cwd.join(name)],
        // An empty entry means the working directory of the process; joining it yields `cwd`.
        name => std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)))
            .map(|dir| cwd.join(dir).join(name))
            .collect(),
    };
    let mut missing = MissingProgram { why: None, looked: Vec::new() };
    for candidate in candidates {
        match check_startable(&candidate, path, cwd) {
            Ok(()) => return Ok(candidate),
            Err(why) => {
                missing.why = missing.why.or(why);
                missing.looked.push(candidate);
            }
        }
    }
    Err(missing)
}

/// Returns the program that a command beginning with `env` starts, as far as that is obvious.
pub fn find_env_program<'w>(words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let mut words = words.into_iter();
    let env = words.next()?;
    if Path::new(env).file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let mut rest = words.filter(|word| !matches!(*word, "-S" | "-i" | "-" | "--") && !word.contains('='));
    // Other options take words of their own.
    rest.next().filter(|word| !word.starts_with('-'))
}

/// Checks whether the system can start this file. The error is the reason, if the file exists.
fn check_startable(file: &Path, path: Option<&OsStr>, cwd: &Path) -> Result<(), Option<String>> {
    let meta = file.metadata().map_err(|_| None)?;
    let shown = file.display();
    if !meta.is_file() {
        return Err(Some(format!("`{shown}` is not a regular file")));
    }
    if access(file, Access::EXEC_OK).is_err() {
        return Err(Some(format!("`{shown}` is not executable")));
    }
    let line = read_interpreter_line(file).unwrap_or_default();
    let Some(interpreter) = line.split_whitespace().next() else { return Ok(()) };
    let needs = |name: &str| Err(Some(format!("`{shown}` needs `{name}`, which cannot be started")));
    if access(cwd.join(interpreter), Access::EXEC_OK).is_err() {
        return needs(interpreter);
    }
    match find_env_program(line.split_whitespace()) {
        // The script names itself: it would start itself for ever, and says so.
        Some(name) if file.file_name() == Some(OsStr::new(name)) => Ok(()),
        Some(name) if find_program(name, path, cwd).is_err() => needs(name),
        _ => Ok(()),
    }
}

/// The longest first line of a script that Linux reads.
const MAX_SCRIPT_LINE: u64 = 256;

/// Reads the first line of a script, without `#!`.
fn read_interpreter_line(file: &Path) -> Option<String> {
    let mut line = Vec::new();
    open_file(file).ok()??.take(MAX_SCRIPT_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}
