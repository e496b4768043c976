//! Installs the pinned CLIs and mdBook, once per machine, and keeps them between builds.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::cli::Cli;

impl Cli {
    /// Returns the program of the pinned version. Installs it with npm if it is not yet in the cache. The
    /// error says why that failed.
    pub fn program(self) -> Result<PathBuf, String> {
        self.program_of(self.version())
    }

    /// Returns the program of a version. Installs it as [`Cli::program`] does.
    pub fn program_of(self, version: &'static str) -> Result<PathBuf, String> {
        static NODE: LazyLock<Result<String, String>> =
            LazyLock::new(|| run_command(Command::new("node").arg("--version")));
        NODE.clone()?;
        let home = self.home_of(version)?;
        let program = home.join("node_modules/.bin").join(self.name());
        if program.exists() {
            return Ok(program);
        }
        // npm is slow to give up: this process does not retry a failed install.
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = failed.get(&(self.name(), version)) {
            return Err(why.clone());
        }
        let package = format!("{}@{}", self.package(), version);
        let installed = install_once(self.name(), &home, |fresh| {
            npm_install(&package, fresh)?;
            if let Some(script) = self.install_script() {
                run_command(Command::new("node").arg(fresh.join("node_modules").join(script)))?;
            }
            check_version(&package, &fresh.join("node_modules/.bin").join(self.name()), fresh, version)
        });
        if let Err(why) = &installed {
            failed.insert((self.name(), version), why.clone());
        }
        installed.map(|()| program)
    }

    /// Returns the directory of the pinned version's installation, which may not exist yet.
    pub fn home(self) -> Result<PathBuf, String> {
        self.home_of(self.version())
    }

    fn home_of(self, version: &str) -> Result<PathBuf, String> {
        Ok(cache_dir()?.join(format!("{}-{version}", self.name())))
    }
}

/// Returns a folder whose `node_modules` holds this version of a package that is not a CLI. Installs it with
/// npm if it is not yet in the cache. The error says why that failed.
pub fn npm_package(package: &str, version: &str) -> Result<PathBuf, String> {
    let name = format!("npm{}", package.replace(['@', '/'], "-"));
    let home = cache_dir()?.join(format!("{name}-{version}"));
    install_once(&name, &home, |fresh| npm_install(&format!("{package}@{version}"), fresh))?;
    Ok(home)
}

/// mdBook, which makes a site of the documentation. The site needs its search, and no server.
const MDBOOK: (&str, &str) = ("mdbook", "0.5.4");

/// Returns mdBook of the pinned version. Builds it with cargo if it is not yet in the cache. The error says why
/// that failed.
pub fn mdbook() -> Result<PathBuf, String> {
    let (name, version) = MDBOOK;
    let home = cache_dir()?.join(format!("{name}-{version}"));
    install_once(name, &home, |fresh| {
        let build = tempfile::tempdir().map_err(|error| error.to_string())?;
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // The site is small: optimising mdBook takes longer than it saves.
        let flags =
            ["--debug", "--locked", "--quiet", "--no-default-features", "--features", "search", "--root"];
        let mut command = Command::new(cargo);
        command.args(["install", name, "--version", version]).args(flags).arg(fresh);
        // Outside the workspace, whose configuration is not for mdBook.
        run_command(command.current_dir(build.path()).env("CARGO_TARGET_DIR", build.path()))?;
        check_version(&format!("{name} {version}"), &fresh.join("bin").join(name), fresh, version)
    })?;
    Ok(home.join("bin").join(name))
}

/// The name and the version of each CLI that cannot be installed, and why.
static FAILED: Mutex<BTreeMap<(&'static str, &'static str), String>> = Mutex::new(BTreeMap::new());

/// Returns `$CALLSHEET_TEST_CACHE`, or else a directory in the user's cache: `cargo clean` removes neither.
fn cache_dir() -> Result<PathBuf, String> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CALLSHEET_TEST_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("callsheet-test")))
        .or_else(|| Some(set("HOME")?.join(".cache/callsheet-test")))
        .ok_or_else(|| "none of CALLSHEET_TEST_CACHE, XDG_CACHE_HOME and HOME is set".to_owned())
}

/// Runs `install` on a new directory, which becomes `home` only if that succeeded. Does nothing if `home` exists.
fn install_once(
    name: &str,
    home: &Path,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let cache = cache_dir()?;
    let attempt = |error: io::Error| format!("{}: {error}", cache.display());
    fs::create_dir_all(&cache).map_err(attempt)?;
    // Tests are many processes: one of them installs, the others wait for it.
    let lock = File::create(cache.join(format!("{name}.lock"))).map_err(attempt)?;
    lock.lock().map_err(attempt)?;
    if home.exists() {
        return Ok(());
    }
    let fresh = tempfile::Builder::new().prefix("new-").tempdir_in(&cache).map_err(attempt)?;
    install(fresh.path())?;
    fs::rename(fresh.path(), home).map_err(|error| format!("{}: {error}", home.display()))
}

/// Installs a package with npm into a directory. Scripts of packages do not run.
fn npm_install(package: &str, directory: &Path) -> Result<(), String> {
    let flags = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--prefix"];
    run_command(Command::new("npm").args(flags).arg(directory).arg(package)).map(drop)
}

/// Checks that an installed program prints its version.
fn check_version(package: &str, program: &Path, home: &Path, version: &str) -> Result<(), String> {
    let said = run_command(Command::new(program).arg("--version").env("HOME", home))?;
    if said.contains(version) { Ok(()) } else { Err(format!("{package} calls itself {said:?}")) }
}

fn run_command(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{program} cannot be started: {error}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(format!("{program} failed ({}): {last}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
