//! Recording: durable writes against hash + zstd + append + fdatasync of the same bytes, what prompts take on disk, and
//! how a ledger of many runs answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use callsheet_core::record::{RecordBundle, Run, build_record, sha256};
use callsheet_core::render::{RenderedText, render};
use callsheet_core::request::RequestDocument;
use callsheet_core::{
    Builtin, ComposedPrompt, Listing, ListingLimits, Request, SharedText, Snapshot, SourceError, SourceId,
    SourceRecorder, SourceRoot, Sources, compose,
};
use callsheet_store::{Ledger, LedgerUrl, new_id, now};

use crate::corpus::Corpus;
use crate::peers::Peers;
use crate::report::{Report, Row, Taken};

/// How many files a project has, and how many of them a prompt of about 50 KB holds.
const FILES: usize = 60;
const SHOWN: usize = 9;
const FILE_BYTES: usize = 5_000;

struct Project(BTreeMap<String, SharedText>);

impl Sources for Project {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        match id.root() {
            SourceRoot::Project => Ok(self.0.get(id.path()).cloned()),
            _ => Builtin.text(id),
        }
    }

    fn list(&self, dir: &SourceId, limits: ListingLimits) -> Result<Option<Listing>, SourceError> {
        match dir.root() {
            SourceRoot::Project => Ok((dir.path() == ".").then(Listing::default)),
            _ => Builtin.list(dir, limits),
        }
    }
}

/// A prompt that is finished and waits to be recorded.
struct Ready {
    request: Request,
    snapshot: Snapshot,
    composed: ComposedPrompt,
    rendered: RenderedText,
}

impl Ready {
    fn keep(&self) -> RecordBundle {
        let id = new_id().expect("an id");
        let run = Run::new(id, &now(), &self.request, &self.composed.prompt.recipe).expect("a run");
        let made = (&self.composed, &self.rendered, None);
        build_record(run, &self.request, &self.snapshot, made, &[]).expect("a record")
    }
}

/// Which files are new in every prompt.
#[derive(Clone, Copy)]
enum New {
    /// None of them was ever recorded.
    All,
    /// Every tenth prompt changes a file; some files are in most prompts, others in few.
    Few,
}

/// The prompts of a project in active use.
struct Work {
    files: Vec<String>,
    number: usize,
    new: New,
}

impl Work {
    fn new(new: New) -> Self {
        let code = Corpus::load().text(FILES * FILE_BYTES);
        let mut files = Vec::new();
        let mut rest = code.as_str();
        while files.len() < FILES {
            let (file, after) = rest.split_at(rest.floor_char_boundary(FILE_BYTES));
            files.push(file.to_owned());
            rest = after;
        }
        Self { files, number: 0, new }
    }

    fn next(&mut self) -> Ready {
        self.number += 1;
        let number = self.number;
        let mut shown: Vec<usize> = Vec::new();
        let mut at = number.wrapping_mul(2_654_435_761);
        while shown.len() < SHOWN {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // The square makes the first files the most likely ones.
            let unit = (at >> 11) as f64 / (1_u64 << 53) as f64;
            let file = (unit * unit * FILES as f64) as usize;
            if !shown.contains(&file) {
                shown.push(file);
            }
        }
        match self.new {
            New::All => shown.iter().for_each(|file| stamp(&mut self.files[*file], number)),
            New::Few if number % 10 == 0 => stamp(&mut self.files[shown[0]], number),
            New::Few => {}
        }
        let name = |file: &usize| format!("src/part_{file}.rs");
        let texts = shown.iter().map(|file| (name(file), SharedText::from(self.files[*file].as_str())));
        let document =
            |file: &usize| RequestDocument { path: Some(name(file)), ..RequestDocument::default() };
        let request = Request {
            recipe: Some("unified".into()),
            agent: Some("claude".into()),
            phase: Some("implement".into()),
            instructions: Some(
                format!("Do step {number} of the plan, and say what you did.").as_str().into(),
            ),
            documents: shown.iter().map(document).collect(),
            ..Request::default()
        };
        let sources = SourceRecorder::new(Project(texts.collect()));
        let composed = compose(&request, &sources).expect("a prompt");
        let rendered = render(&composed.prompt, composed.prompt.format, None).expect("a text");
        Ready { request, snapshot: sources.finish(), composed, rendered }
    }
}

/// A file with other first bytes.
fn stamp(file: &mut String, number: usize) {
    let rest = file.split_once("//!\n").map_or(file.as_str(), |(_, rest)| rest);
    *file = format!("// changed {number}\n//!\n{rest}");
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

pub(crate) fn report(report: &mut Report, dir: &Path, count: usize) {
    for (name, new) in [("every part of it new", New::All), ("like those before it", New::Few)] {
        let folder = dir.join(name.replace(' ', "-"));
        fs::create_dir_all(&folder).expect("a folder");
        let mut ledger = Ledger::create(&LedgerUrl::Sqlite(folder.join("ledger.db"))).expect("a ledger");
        let mut raw = OpenOptions::new().create(true).append(true).open(folder.join("raw")).expect("a file");
        let mut zip = zstd::bulk::Compressor::new(3).expect("zstd");
        let (mut limit, mut ours, mut whole) = (Vec::new(), Vec::new(), 0);
        let mut work = Work::new(new);
        for _ in 0..count {
            let ready = work.next();
            whole += ready.rendered.text.len();
            let start = Instant::now();
            append(&mut raw, &mut zip, ready.rendered.text.as_bytes());
            limit.push(start.elapsed());
            let start = Instant::now();
            ledger.record_prompt(&ready.keep()).expect("a record");
            ours.push(start.elapsed());
        }
        drop(ledger);
        let stored = fs::metadata(folder.join("ledger.db")).expect("a file").len() as f64;
        let (limit, ours) = (median(limit), median(ours));
        let mean = whole / count / 1000;
        let mut row = Row::new(&format!("record a prompt of {mean} KB durably, {name}")).at_most(
            "hash + zstd + append + fdatasync of the same bytes",
            ours / limit,
            1.2,
        );
        if matches!(new, New::Few) {
            row = row.at_most(
                &format!("bytes on disk per byte of {count} prompts"),
                stored / whole as f64,
                0.08,
            );
        }
        let taken =
            |name: &str, nanoseconds| Taken { name: name.into(), nanoseconds, remark: "median".into() };
        report.add(row.contenders([taken("append", limit), taken("callsheet", ours)]));
    }
}

fn append(file: &mut File, zip: &mut zstd::bulk::Compressor<'_>, text: &[u8]) {
    let digest = sha256(&[text]);
    let packed = zip.compress(text).expect("zstd");
    let line = [&digest.0[..], &(packed.len() as u64).to_be_bytes(), &packed].concat();
    file.write_all(&line).and_then(|()| file.sync_data()).expect("room on the disk");
}

/// Between these two lines of `docs/audit.md` stands what [`audit`] measured.
const BEGIN: &str = "<!-- measured: written by bench/run audit -->";
const END: &str = "<!-- end of measured -->";

/// Fills a ledger with runs, asks it as a person would, and writes what that took into `docs/audit.md`.
pub(crate) fn audit(runs: &str, machine: &str) -> Result<(), String> {
    let runs: usize = runs.parse().map_err(|_| format!("`{runs}` is no number of runs"))?;
    let dir = std::env::temp_dir().join(format!("callsheet-audit-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let path = dir.join("ledger.db");
    let mut ledger = Ledger::create(&LedgerUrl::Sqlite(path.clone())).map_err(|error| error.to_string())?;
    let (mut work, mut whole) = (Work::new(New::Few), 0);
    for _ in 0..runs {
        let ready = work.next();
        whole += ready.rendered.text.len();
        ledger.record_prompt(&ready.keep()).map_err(|error| error.to_string())?;
    }
    drop(ledger);
    let stored = fs::metadata(&path).map_err(|error| error.to_string())?.len();
    let mut table = format!(
        "{machine}\n\nA ledger of {runs} runs, each with a prompt of about {} KB:\n\n",
        whole / runs / 1000
    );
    table.push_str("| what | |\n|---|--:|\n");
    let _ = writeln!(table, "| the file | {:.1} MB |", stored as f64 / 1e6);
    let _ = writeln!(table, "| growth per run | {:.1} KB |", stored as f64 / runs as f64 / 1e3);
    let _ = writeln!(table, "| per byte of prompt | {:.3} bytes |", stored as f64 / whole as f64);
    let first = first_run(&path)?;
    let program = Peers::find().callsheet;
    let timed = |args: &[&str]| timed(&program, &path, args);
    let asked: [(&str, &[&str]); 6] = [
        ("`log`", &["log"]),
        ("`log --agent codex`, which none is", &["log", "--agent", "codex"]),
        ("`show last`", &["show", "last"]),
        ("`show last --prompt`", &["show", "last", "--prompt"]),
        ("`diff` of the first and the last", &["diff", &first, "last"]),
        ("`verify last`", &["verify", "last"]),
    ];
    for (name, args) in asked {
        let times: Vec<Duration> = (0..9).map(|_| timed(args)).collect::<Result<_, _>>()?;
        let _ = writeln!(table, "| {name} | {:.1} ms |", median(times) / 1e6);
    }
    let all = timed(&["verify", "--all", "--read-data"])?;
    let _ = writeln!(table, "| `verify --all --read-data` | {:.1} s |", all.as_secs_f64());
    fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/audit.md");
    let old = fs::read_to_string(&page).map_err(|error| error.to_string())?;
    let parts = old.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or("docs/audit.md has no place for what is measured")?;
    fs::write(&page, format!("{head}{BEGIN}\n\n{table}\n{END}{tail}")).map_err(|error| error.to_string())
}

fn first_run(path: &Path) -> Result<String, String> {
    let mut ledger = Ledger::open(&LedgerUrl::Sqlite(path.into())).map_err(|error| error.to_string())?;
    let records = ledger.records_after(0, 1).map_err(|error| error.to_string())?;
    records.into_iter().next().and_then(|record| record.run).ok_or_else(|| "there is no run".into())
}

fn timed(program: &Path, path: &Path, args: &[&str]) -> Result<Duration, String> {
    let mut command = Command::new(program);
    command.arg("--ledger").arg(path).args(args).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    let took = start.elapsed();
    if status.success() { Ok(took) } else { Err(format!("callsheet {} failed", args.join(" "))) }
}
