//! Source code to work on: that of the crates which the bench itself is locked to, so that everybody who runs it
//! has the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// 60 MB in 10,000 files.
const AVERAGE: usize = 6_000;

const KINDS: [&str; 6] = ["rs", "md", "toml", "c", "h", "py"];

/// Folders that one packer or another leaves out by itself: with them, not everybody would do the same work.
const UNUSUAL: [&str; 9] = ["target", "build", "dist", "vendor", "bin", "out", "tmp", "logs", "coverage"];

/// Files with the path of each below its crate's folder.
pub(crate) struct Corpus(Vec<(String, String)>);

impl Corpus {
    pub(crate) fn load() -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let output = Command::new(cargo)
            .args(["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest])
            .output()
            .expect("cargo metadata");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata");
        let mut crates: Vec<(String, PathBuf)> = metadata["packages"]
            .as_array()
            .expect("packages")
            .iter()
            .filter(|package| package["source"].is_string())
            .map(|package| {
                let word = |key: &str| package[key].as_str().expect("a word");
                let folder = Path::new(word("manifest_path")).parent().expect("a folder");
                (format!("{}-{}", word("name"), word("version")), folder.to_path_buf())
            })
            .collect();
        crates.sort();
        let mut files = Vec::new();
        for (name, folder) in &crates {
            gather(folder, name, &mut files);
        }
        Self(files)
    }

    /// So many bytes of code in one text.
    pub(crate) fn text(&self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 4);
        for (path, content) in self.0.iter().cycle() {
            if path.ends_with(".rs") {
                text.push_str(content);
            }
            if text.len() >= bytes {
                let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                text.truncate(end);
                return text;
            }
        }
        text
    }

    /// Writes a repository of `files` files, of 6 KB on average, and a quarter as many more that its rules leave out.
    /// Returns how many bytes the former have.
    pub(crate) fn tree(&self, root: &Path, files: usize) -> usize {
        let (mut count, mut bytes) = (0, 0);
        for (round, (path, content)) in (0..).flat_map(|round| self.0.iter().map(move |file| (round, file))) {
            // Large files are taken as long as there are small ones to make up for them.
            if bytes + content.len() > AVERAGE * (count + 10) {
                continue;
            }
            write(&root.join(format!("part-{round}")).join(path), content);
            (count, bytes) = (count + 1, bytes + content.len());
            if count % 12 == 0 {
                let beside = Path::new(path).with_extension("log");
                write(&root.join(format!("part-{round}")).join(beside), &content[..0]);
            }
            if count % 6 == 0 {
                write(&root.join(format!("generated/{}/{count}.rs", count % 60)), content);
            }
            if count == files {
                break;
            }
        }
        write(&root.join(".gitignore"), "*.log\n/generated/\n");
        let made = Command::new("git").args(["init", "-q"]).current_dir(root).status();
        assert!(made.is_ok_and(|status| status.success()), "git init");
        bytes
    }
}

fn gather(folder: &Path, below: &str, files: &mut Vec<(String, String)>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a crate's folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let usual = !name.starts_with('.') && !UNUSUAL.contains(&name);
        let below = format!("{below}/{name}");
        if usual && path.is_dir() {
            gather(&path, &below, files);
        } else if usual && path.extension().is_some_and(|kind| KINDS.iter().any(|known| kind == *known)) {
            // What is no text, or holds a character that XML cannot carry, is not what is compared here.
            let text = fs::read_to_string(&path).ok();
            let fits = |text: &String| (100..100_000).contains(&text.len()) && !text.contains(is_odd);
            files.extend(text.filter(fits).map(|text| (below, text)));
        }
    }
}

fn is_odd(c: char) -> bool {
    (c.is_control() && !"\t\n".contains(c)) || ('\u{fffe}'..='\u{ffff}').contains(&c)
}

fn write(path: &Path, content: &str) {
    let folder = path.parent().expect("a folder");
    fs::create_dir_all(folder).and_then(|()| fs::write(path, content)).expect("a file");
}
