//! Embeds every file below `builtin/` as a table sorted by path.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&read_variable("CARGO_MANIFEST_DIR")?).join("builtin").canonicalize()?;
    let mut files = Vec::new();
    collect_files(&root, &mut files)?;
    let mut rows: Vec<(String, PathBuf)> = files
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(&root).map_err(io::Error::other)?;
            Ok((path.to_string_lossy().replace('\\', "/"), file))
        })
        .collect::<io::Result<_>>()?;
    rows.sort();
    let mut table = String::from("&[\n");
    for (path, file) in rows {
        writeln!(table, "    ({path:?}, include_str!({:?})),", file.display().to_string())
            .map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    fs::write(Path::new(&read_variable("OUT_DIR")?).join("builtin.rs"), table)
}

fn read_variable(name: &str) -> io::Result<OsString> {
    env::var_os(name).ok_or_else(|| io::Error::other(format!("{name} is not set")))
}

fn collect_files(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_files(&path, files)?;
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
