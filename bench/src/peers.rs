//! The programs that take part. `bench/run` has put them where they are; a missing one is not measured.

use std::path::{Path, PathBuf};

use crate::process::Program;

pub(crate) struct Peers {
    pub(crate) callsheet: PathBuf,
    pub(crate) yek: Option<PathBuf>,
    pub(crate) code2prompt: Option<PathBuf>,
    pub(crate) files_to_prompt: Option<PathBuf>,
    pub(crate) repomix: Option<PathBuf>,
}

impl Peers {
    pub(crate) fn find() -> Self {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let peers = bench.join("target/peers");
        let there = |path: &str| Some(peers.join(path)).filter(|path| path.exists());
        Self {
            callsheet: bench
                .join("../target/release/callsheet")
                .canonicalize()
                .expect("callsheet, built by bench/run"),
            yek: there("cargo/bin/yek"),
            code2prompt: there("cargo/bin/code2prompt"),
            files_to_prompt: there("venv/bin/files-to-prompt"),
            repomix: there("npm/node_modules/.bin/repomix"),
        }
    }
}

/// The version that a program gives, which is the last word of its first line.
pub(crate) fn version(program: &Path, dir: &Path) -> String {
    let output = Program::new("version", program, dir).arg("--version").output();
    output.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or("unknown").to_string()
}
