//! Counting tokens exactly: in a process that has counted before, and in one that has just been started.

use std::fs;
use std::path::Path;

use crate::measure::{contender, race};
use crate::peers::Peers;
use crate::process::{self, Program};
use crate::report::{Report, Row, Taken};

/// The very file that callsheet counts with.
#[expect(dead_code, reason = "only whole texts are counted here")]
#[path = "../../crates/app/src/compose/tokens/parts.rs"]
mod parts;

pub(crate) const COUNTERS: [&str; 4] = ["tiktoken", "bpe-openai", "splintr", "splintr in parallel"];

/// The counter by that name, with its vocabulary loaded: o200k_base.
fn counter(name: &str) -> Box<dyn Fn(&str) -> usize> {
    match name {
        "callsheet" => {
            let vocabulary = tiktoken::encoding::o200k_base();
            Box::new(move |text| parts::CountedParts::new(text, &|part| vocabulary.count(part)).total())
        }
        "tiktoken" => {
            let vocabulary = tiktoken::encoding::o200k_base();
            Box::new(move |text| vocabulary.count(text))
        }
        "bpe-openai" => Box::new(|text| bpe_openai::o200k_base().count(text)),
        _ => {
            let vocabulary = splintr::from_pretrained("o200k_base").expect("o200k_base");
            let parallel = name == "splintr in parallel";
            Box::new(move |text| {
                if parallel { vocabulary.encode_rayon(text).len() } else { vocabulary.encode_raw(text).len() }
            })
        }
    }
}

/// A process of its own that counts one file.
pub(crate) fn count(name: &str, file: &Path) {
    let text = fs::read_to_string(file).expect("a text");
    println!("{}", counter(name)(&text));
}

pub(crate) fn report(report: &mut Report, peers: &Peers, code: &str, work: &Path, rounds: usize) {
    let megabytes = code.len() / 1_000_000;
    let speed = |time: f64| format!("{:.0} MB/s", code.len() as f64 / time * 1e3);
    let add = |report: &mut Report, work: &str, names: Vec<String>, times: &[f64]| {
        let peers = names.iter().zip(times).skip(1).map(|(name, time)| (name.as_str(), *time));
        let (peer, best) = peers.min_by(|a, b| a.1.total_cmp(&b.1)).expect("peers");
        let row = Row::new(work).faster(&format!("{peer}, the fastest"), Some(best / times[0]), 1.0);
        let taken = names.iter().zip(times);
        report.add(row.contenders(taken.map(|(name, time)| Taken {
            name: name.clone(),
            nanoseconds: *time,
            remark: speed(*time),
        })));
    };

    let names: Vec<&'static str> = ["callsheet"].into_iter().chain(COUNTERS).collect();
    let counters: Vec<_> = names.iter().map(|name| (*name, counter(name))).collect();
    let tokens = counters[1].1(code);
    for (name, counter) in &counters {
        assert_eq!(counter(code), tokens, "{name} counts exactly");
    }
    let mut contenders: Vec<_> =
        counters.iter().map(|(name, counter)| contender(name, move || counter(code))).collect();
    let times = race(&mut contenders, rounds);
    let work_name = format!("exact tokens of {megabytes} MB of code, warm");
    add(report, &work_name, names.iter().map(|name| (*name).into()).collect(), &times);
    drop(contenders);

    let file = work.join("code.rs");
    fs::write(&file, code).expect("a file");
    let myself = std::env::current_exe().expect("this program");
    let ours = Program::new("callsheet compose --count", &peers.callsheet, work);
    let mut programs =
        vec![ours.args(["compose", "-q", "-a", "codex", "-p", "review", "-f", "code.rs", "--count", "x"])];
    programs.extend(
        COUNTERS.iter().map(|name| Program::new(name, &myself, work).args(["count", name]).arg(&file)),
    );
    let costs = process::race(&programs, rounds);
    let times: Vec<f64> = costs.iter().map(|cost| cost.nanoseconds).collect();
    let work_name = format!("exact tokens of {megabytes} MB of code, in a new process");
    add(report, &work_name, programs.iter().map(|program| program.name.clone()).collect(), &times);
}
