//! Tests the kinds of secrets that are found, and look-alikes that raise no alarm. Each test generates both
//! from `tests/secrets`, so that the repository contains no secret.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use callsheet_core::library::layout::Layout;
use callsheet_core::secrets::SecretRules;
use callsheet_core::{
    Listing, ListingEntry, ListingLimits, SharedText, SourceError, SourceId, SourceRoot, Sources,
};

use crate::{is_long_run, print_measurement};

const KINDS: &str = include_str!("../secrets/kinds.txt");
const LOOKALIKES: &str = include_str!("../secrets/lookalikes.txt");

/// Random number generator with the same sequence in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn random_string(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[(self.next() % letters.len() as u64) as usize]).collect()
    }

    /// Generates a text from a line of the data.
    fn generate_text(&mut self, line: &str) -> String {
        let mut made = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('<') {
            made.push_str(&rest[..at]);
            let hole = rest[at..]
                .split_once('>')
                .and_then(|(hole, after)| Some((self.fill_hole(&hole[1..])?, after)));
            match hole {
                Some((text, after)) => {
                    made.push_str(&text);
                    rest = after;
                }
                None => {
                    made.push('<');
                    rest = &rest[at + 1..];
                }
            }
        }
        made + rest
    }

    fn fill_hole(&mut self, hole: &str) -> Option<String> {
        const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        const DIGITS: &str = "0123456789";
        if hole == "i" {
            return Some(
                [8, 4, 4, 4, 12].map(|length| self.random_string("0123456789abcdef", length)).join("-"),
            );
        }
        let mut chars = hole.chars();
        let kind = chars.next()?;
        let length = chars.as_str().parse().ok()?;
        let (capitals, small) = LETTERS.split_at(26);
        let alphabet = match kind {
            'A' => format!("{LETTERS}{DIGITS}"),
            'L' => LETTERS.into(),
            'U' => format!("{capitals}{DIGITS}"),
            'l' => format!("{small}{DIGITS}"),
            'h' => "0123456789abcdef".into(),
            'H' => "0123456789ABCDEF".into(),
            'd' => DIGITS.into(),
            'b' => format!("{LETTERS}{DIGITS}+/"),
            'u' => format!("{LETTERS}{DIGITS}-_"),
            'v' => format!("{small}234567"),
            'V' => format!("{capitals}234567"),
            'c' => format!("{LETTERS}{DIGITS}./"),
            'p' => format!("{LETTERS}{DIGITS}!#%^*-_+"),
            _ => return None,
        };
        Some(self.random_string(&alphabet, length))
    }
}

/// Typical texts around a secret that is recognizable by its format.
const AROUND: [fn(&str) -> String; 8] = [
    |secret| format!("SERVICE_LOGIN={secret}"),
    |secret| format!("    login: {secret}"),
    |secret| format!("  \"login\": \"{secret}\","),
    |secret| format!("const client = connect('{secret}');"),
    |secret| format!("Log in with {secret} until the new one is there."),
    |secret| format!("- `{secret}`"),
    |secret| format!("{{\"script\": \"login\\n{secret}\\nlogout\"}}"),
    str::to_owned,
];

/// Generates a text and returns it with the range of its secret.
fn plant_secret(dice: &mut Dice, line: &str, number: usize) -> (String, Range<usize>) {
    let made = dice.generate_text(line);
    let made = if number % 2 == 1 { made.replace("\\n", "\n") } else { made };
    let (before, secret, after) = match made.split_once('«').and_then(|(before, rest)| {
        let (secret, after) = rest.split_once('»')?;
        Some((before.to_owned(), secret.to_owned(), after.to_owned()))
    }) {
        Some(marked) => marked,
        None => {
            let text = AROUND[number % AROUND.len()]("\u{1}");
            let (before, after) = text.split_once('\u{1}').unwrap();
            (before.to_owned(), made, after.to_owned())
        }
    };
    let start = before.len();
    (format!("{before}{secret}{after}"), start..start + secret.len())
}

fn data_lines(data: &str) -> impl Iterator<Item = &str> {
    data.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}

#[test]
fn most_secrets_of_all_kinds_found() {
    let rules = SecretRules::load_shipped().unwrap();
    let each = if is_long_run() { 400 } else { 16 };
    let mut dice = Dice(16);
    let mut missed: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    let mut kinds = 0;
    for line in data_lines(KINDS) {
        let (kind, line) = line.split_once(" | ").unwrap();
        kinds += 1;
        for number in 0..each {
            let (text, secret) = plant_secret(&mut dice, line, number);
            let hits = rules.scan(&text);
            // If 80 % of a secret are hidden, the rest is useless.
            let hidden: usize = hits
                .iter()
                .map(|hit| hit.range.end.min(secret.end).saturating_sub(hit.range.start.max(secret.start)))
                .sum();
            if hidden * 10 < secret.len() * 8 {
                let entry = missed.entry(kind).or_insert((0, text));
                entry.0 += 1;
            }
        }
    }
    let all = kinds * each;
    let count: usize = missed.values().map(|(count, _)| count).sum();
    print_measurement(&format!("secrets: {} of {all} of {kinds} kinds found", all - count));
    assert!(kinds >= 120, "only {kinds} kinds");
    assert!(count * 100 <= all * 3, "{count} of {all} are missed: {missed:#?}");
    // At least half of the secrets of each kind are found.
    let lost: Vec<_> = missed.iter().filter(|(_, (count, _))| count * 2 > each).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn lookalikes_rarely_raise_alarms() {
    let rules = SecretRules::load_shipped().unwrap();
    let each = if is_long_run() { 200 } else { 2 };
    let mut dice = Dice(17);
    let (mut all, mut alarms) = (0, Vec::new());
    for line in data_lines(LOOKALIKES) {
        for _ in 0..each {
            let text = dice.generate_text(line);
            all += 1;
            let hits = rules.scan(&text);
            alarms.extend(hits.first().map(|hit| format!("{}: {text}", hit.rule)));
        }
    }
    print_measurement(&format!("lookalikes: {} alarms in {all} lines", alarms.len()));
    assert!(all >= 400, "only {all} lines");
    assert!(alarms.len() * 200 <= all, "{} of {all}:\n{}", alarms.len(), alarms.join("\n"));
}

/// The rule files of a directory in place of the shipped ones.
struct OtherRules(Vec<(String, String)>);

impl Sources for OtherRules {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        let found = self.0.iter().find(|(name, _)| id.path() == format!("secrets/{name}"));
        Ok(found.filter(|_| id.root() == SourceRoot::Builtin).map(|(_, text)| text.clone().into()))
    }

    fn list(&self, dir: &SourceId, _: ListingLimits) -> Result<Option<Listing>, SourceError> {
        let entries =
            self.0.iter().map(|(name, _)| ListingEntry { path: name.clone(), dir: false }).collect();
        let is_there = (dir.root(), dir.path()) == (SourceRoot::Builtin, "secrets");
        Ok(is_there.then_some(Listing { entries, ..Listing::default() }))
    }
}

/// Reports, without a limit, the time to scan the engine's source and documents, with the shipped rules and
/// with those in the directory that `CALLSHEET_OTHER_RULES` names.
#[test]
fn scan_time_is_measured() {
    measure_scan("shipped rules", &SecretRules::load_shipped().unwrap());
    if let Some(dir) = std::env::var_os("CALLSHEET_OTHER_RULES") {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| {
            let entry = entry.unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        });
        let other = SecretRules::load(&OtherRules(files.collect()), &Layout::default()).unwrap();
        measure_scan("other rules", &other);
    }
}

fn measure_scan(name: &str, rules: &SecretRules) {
    let mut text = String::new();
    let mut open = vec![
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "../../docs".into(),
        "../../Cargo.lock".into(),
    ];
    while let Some(path) = open.pop() {
        match std::fs::read_dir(&path) {
            Ok(entries) => open.extend(entries.map(|entry| entry.unwrap().path())),
            // Pictures of the documentation are no text.
            Err(_) if path.extension().is_some_and(|kind| kind == "png") => {}
            Err(_) => text.push_str(&std::fs::read_to_string(&path).unwrap()),
        }
    }
    rules.scan(&text);
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let found = rules.scan(&text).len();
        best = best.min(start.elapsed());
        assert!(found < text.lines().count() / 20, "{found}");
    }
    print_measurement(&format!("secrets, {name}: {} bytes looked through in {best:?}", text.len()));
}
