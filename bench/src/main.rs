//! The engine against its peers and against the limit, in one interleaved run.
//!
//! `bench/run` starts it: without that, peers that are programs of their own are not there, and not measured.

mod corpus;
mod flows;
mod ledger;
mod lists;
mod looking;
mod machine;
mod markers;
mod measure;
mod memory;
mod packing;
mod pages;
mod peers;
mod process;
mod report;
mod start;
mod templates;
mod tokens;
mod xml;

use std::path::{Path, PathBuf};

use crate::corpus::Corpus;
use crate::peers::Peers;
use crate::report::Report;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

const USAGE: &str =
    "usage: bench/run [--quick] [start|packing|templates|xml|tokens|markers|ledger|lists|pages|flows|looking]…
       bench/run audit [RUNS]

--quick: fewer rounds and a smaller tree, for development. The page is written only by a whole run.
audit: fills a ledger with runs [5000] and writes what it takes, and how it answers, into docs/audit.md.";

/// How much is done.
struct Effort {
    rounds: usize,
    starts: usize,
    packs: usize,
    files: usize,
    code: usize,
    records: usize,
    subplans: usize,
    looked_at: usize,
    listed: usize,
}

const WHOLE: Effort = Effort {
    rounds: 30,
    starts: 200,
    packs: 15,
    files: 10_000,
    code: 10_000_000,
    records: 1_000,
    subplans: 1_000,
    looked_at: 100_000,
    listed: 100_000,
};
const QUICK: Effort = Effort {
    rounds: 5,
    starts: 40,
    packs: 3,
    files: 2_000,
    code: 2_000_000,
    records: 1_000,
    subplans: 100,
    looked_at: 10_000,
    listed: 10_000,
};

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tree", dir, files] => return packing::tree(Path::new(dir), files),
        ["page", ledger, name] => return lists::page(Path::new(ledger), name),
        ["walk", dir] => return packing::walk(dir.as_ref()),
        ["agent", count] => return flows::agent(count),
        ["audit"] => return audit("5000"),
        ["audit", runs] => return audit(runs),
        ["count", name, file] => return tokens::count(name, Path::new(file)),
        _ => {}
    }
    let quick = words.iter().any(|word| word == "--quick");
    words.retain(|word| word != "--quick");
    let parts = ["start", "packing", "templates", "xml", "tokens", "markers", "ledger", "lists", "pages", "flows", "looking"];
    if words.iter().any(|word| !parts.contains(&word.as_str())) {
        eprintln!("{USAGE}");
        std::process::exit(2);
    }
    let machine = machine::describe();
    let report = measure(if quick { &QUICK } else { &WHOLE }, &|part| {
        words.is_empty() || words.iter().any(|word| word == part)
    });
    if quick || !words.is_empty() {
        println!("{}", report.text(&machine));
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
    if let Err(error) = report.write(&machine, &page) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn audit(runs: &str) {
    if let Err(error) = ledger::audit(runs, &machine::describe()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn measure(effort: &Effort, wanted: &dyn Fn(&str) -> bool) -> Report {
    let peers = Peers::find();
    let work = Work::new();
    let (mut processes, mut report) = (Report::default(), Report::default());
    // Programs first: what this process holds by then counts as theirs until they have replaced it by their own.
    if wanted("start") {
        start::report(&mut processes, &peers, &work.folder("empty"), effort.starts);
    }
    if wanted("packing") {
        packing::report(&mut processes, &peers, &work.0, effort.files, effort.packs);
    }
    if wanted("flows") {
        flows::report(&mut processes, &peers, &work.folder("flows"), effort.subplans);
    }
    if wanted("looking") {
        looking::report(&mut processes, &peers, &work.folder("looking"), effort.looked_at, effort.packs);
    }
    if wanted("lists") {
        lists::report(&mut processes, &peers, &work.folder("lists"), effort.listed, effort.packs);
    }
    if wanted("pages") {
        pages::report(&mut processes, &peers, &work.folder("pages"), effort.listed, effort.packs);
    }
    if wanted("templates") {
        templates::report(&mut report, effort.rounds);
    }
    if wanted("xml") || wanted("tokens") {
        let code = Corpus::load().text(effort.code);
        if wanted("xml") {
            xml::report(&mut report, &code, effort.rounds);
        }
        if wanted("tokens") {
            tokens::report(&mut report, &peers, &code, &work.folder("tokens"), effort.packs);
        }
    }
    if wanted("markers") {
        markers::report(&mut report, effort.rounds);
    }
    if wanted("ledger") {
        ledger::report(&mut report, &work.folder("ledger"), effort.records);
    }
    report.extend(processes);
    report
}

/// A folder for what is made on the way. It lies outside of every repository, and goes when it is done with.
struct Work(PathBuf);

impl Work {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("callsheet-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
