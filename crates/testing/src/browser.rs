//! A real browser for the tests of pages: Debian's Chromium, driven by Playwright from npm.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::install::npm_package;

/// Playwright without browsers of its own, and axe, which finds what keeps people out.
const PACKAGES: [(&str, &str); 2] = [("playwright-core", "1.65.1"), ("axe-core", "4.14.0")];

/// Returns a command that runs a script of Node.js, which can require Playwright and axe. The variable `CHROMIUM` names the
/// browser. The error says what is missing.
pub fn browser_script(script: &Path) -> Result<Command, String> {
    let chromium = find_chromium().ok_or("chromium is not installed")?;
    let mut modules = Vec::new();
    for (package, version) in PACKAGES {
        modules.push(npm_package(package, version)?.join("node_modules"));
    }
    let modules: OsString = env::join_paths(modules).map_err(|error| error.to_string())?;
    let mut command = Command::new("node");
    command.arg(script).env("NODE_PATH", modules).env("CHROMIUM", chromium);
    Ok(command)
}

fn find_chromium() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let programs = env::split_paths(&path).map(|folder| folder.join("chromium"));
    programs.into_iter().find(|program| program.is_file())
}
