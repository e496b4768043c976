//! Tests how many ordinary lines are mistaken for secrets.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use callsheet_core::secrets::SecretRules;

use super::planted_secrets::Dice;

const LINES: usize = 5000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn collect_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && name != "target" && name != ".git" {
            collect_files(&path, found);
        } else if [
            ".rs", ".md", ".toml", ".lock", ".json", ".js", ".mjs", ".py", ".yml", ".yaml", ".txt", ".sh",
            ".html",
        ]
        .iter()
        .any(|end| name.ends_with(end))
        {
            found.push(path);
        }
    }
}

/// Reads the texts below `dir`, at most `most` of them, evenly spread.
fn read_texts(dir: &Path, most: usize) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_files(dir, &mut found);
    let step = found.len().div_ceil(most).max(1);
    let text = |path: PathBuf| Some((path.display().to_string(), fs::read_to_string(path).ok()?));
    found.into_iter().step_by(step).filter_map(text).collect()
}

/// Generates lines that look random and are not secrets.
fn generate_random_lines(dice: &mut Dice) -> Vec<String> {
    let hex = |dice: &mut Dice, length: usize| dice.random_string("0123456789abcdef", length);
    let mut lines = Vec::new();
    for _ in 0..60 {
        let uuid = [8, 4, 4, 4, 12].map(|length| hex(dice, length)).join("-");
        lines.push(format!("  \"id\": \"{uuid}\","));
        lines.push(format!("      partitionKey: \"{uuid}\","));
        lines.push(format!("checksum = \"{}\"", hex(dice, 64)));
        lines.push(format!("      \"integrity\": \"sha512-{}==\",", dice.base64(86)));
        lines.push(format!("<img src=\"data:image/png;base64,{}\">", dice.base64(700)));
        lines.push(format!("- uses: actions/checkout@{} # v4", hex(dice, 40)));
        lines.push(format!("FROM rust@sha256:{}", hex(dice, 64)));
        lines.push(format!("index {}..{} 100644", hex(dice, 10), hex(dice, 10)));
        lines.push(format!(
            "!function(e,t){{var n=e[{}],r=t.key||n.token;return r.split(\"{}\")}}({},this)",
            dice.below(99),
            dice.random_string("abc,;", 6),
            hex(dice, 3)
        ));
        lines.push(format!("h1:{}= go.sum", dice.base64(43)));
    }
    lines
}

#[test]
fn few_ordinary_lines_are_reported() {
    let registry = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registry = registry.map(|home| home.join("registry/src")).filter(|dir| dir.is_dir());
    let mut all = read_texts(&root(), 2000);
    match registry {
        Some(registry) => all.extend(read_texts(&registry, 2000)),
        None => writeln!(
            std::io::stderr(),
            "NOT TESTED: false alarms on other people's code: there is no registry"
        )
        .unwrap(),
    }
    let lines: Vec<(&str, &str)> = all
        .iter()
        .flat_map(|(name, text)| text.lines().map(move |line| (name.as_str(), line)))
        .filter(|(_, line)| !line.trim().is_empty() && line.len() < 4096)
        .collect();
    let made = generate_random_lines(&mut Dice(7));
    let step = lines.len() / (LINES - made.len());
    let sample =
        lines.iter().step_by(step.max(1)).copied().chain(made.iter().map(|line| ("made up", line.as_str())));
    let sample: Vec<(&str, &str)> = sample.collect();
    assert!(sample.len() >= LINES, "{} lines are too few", sample.len());
    let rules = SecretRules::load_shipped().unwrap();
    let mut alarms = Vec::new();
    for (name, line) in &sample {
        let hits = rules.scan(line);
        if let Some(hit) = hits.first() {
            alarms.push(format!("{name}: {}: {}", hit.rule, rules.mask(line)));
        }
    }
    writeln!(std::io::stderr(), "secrets: {} false alarms on {} ordinary lines", alarms.len(), sample.len())
        .unwrap();
    assert!(alarms.len() * 100 <= sample.len(), "{}", alarms.join("\n"));
}
