//! Markers: a reply of 60 MB, against a bare scan for `<` and against a regex for each tag.

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::library::contract::{Contract, ContractChoice};
use callsheet_core::reply::{Outcome, ReplyContext, read};
use regex::bytes::Regex;

use crate::measure::{contender, race};
use crate::report::{Report, Row, Taken};

/// Below the 64 MiB that are judged.
const SIZE: usize = 60_000_000;

fn contract() -> Contract {
    let choice = |name: &str| ContractChoice { name: name.into(), when: String::new() };
    Contract { verdict: vec![choice("PASS"), choice("NEEDS_CHANGES")], ..Contract::default() }
}

/// Prose and code, with something that has tags in it after every `gap` bytes, and a verdict at the end.
fn reply(gap: usize) -> Vec<u8> {
    let prose = "The handler checks the token before it reads the body, and the tests cover both ways; \
                 what is left is the error path of the second call, which nobody reaches yet.\n\n";
    let tagged = [
        "<thought>\nIs that so? Perhaps <review>NEEDS_CHANGES</review> is right.\n</thought>\n\n",
        "A list is a `Vec<T>`, and `<li>` is one of its entries: if a < b, then b > a.\n\n",
        "```html\n<ul><li>one</li></ul>\n<review>NEEDS_CHANGES</review>\n```\n\n",
        "I would not say `<review>NEEDS_CHANGES</review>` for that, nor <review>VERDICT</review>.\n\n",
        "<review>PASS</review>\n\n",
    ];
    let mut text = String::with_capacity(SIZE + 1024);
    let mut next = gap;
    let mut tagged = tagged.iter().cycle();
    while text.len() < SIZE {
        text.push_str(prose);
        if text.len() >= next {
            text.push_str(tagged.next().map_or("", |text| text));
            next = text.len().saturating_add(gap);
        }
    }
    text.push_str("\n<review>PASS</review>\n");
    text.into_bytes()
}

/// The plain solution with regular expressions: one for each tag. A marker must be alone on its lines; a thought
/// may be anywhere.
fn patterns() -> Vec<Regex> {
    let alone = |tag: &str| format!(r"(?im)^[ \t]*<{tag}\b[^<>]*>\s*([^<>]*?)\s*</{tag}\s*>[ \t]*\r?$");
    let thought = r"(?is)<thought\b[^>]*>(.*?)</thought\s*>".to_string();
    [alone("review"), alone("task_status"), thought]
        .iter()
        .map(|pattern| Regex::new(pattern).expect("a pattern"))
        .collect()
}

/// The same wherever a tag stands, in a sentence too: less than what has to be found out.
fn anywhere() -> Vec<Regex> {
    let pattern =
        |tag: &&str| Regex::new(&format!(r"(?is)<{tag}\b[^>]*>(.*?)</{tag}\s*>")).expect("a pattern");
    ["review", "task_status", "thought"].iter().map(pattern).collect()
}

fn all(patterns: &[Regex], reply: &[u8]) -> usize {
    let ends = |pattern: &Regex| {
        pattern.captures_iter(reply).filter_map(|found| Some(found.get(1)?.end() & 1)).sum::<usize>()
    };
    patterns.iter().map(ends).sum()
}

pub(crate) fn report(report: &mut Report, rounds: usize) {
    let contract = contract();
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
    let (patterns, anywhere) = (patterns(), anywhere());
    for (name, gap) in [
        ("at the end alone", usize::MAX),
        ("every MB", 1_000_000),
        ("every 4 KB", 4_000),
        ("every KB", 1_000),
    ] {
        let reply = reply(gap);
        let outcome = read(&asked, &reply, &OutputSpec::default()).outcome;
        assert_eq!(outcome, Outcome::Pass, "{name}");
        let mut contenders = vec![
            contender("memchr", || memchr::memchr_iter(b'<', &reply).map(|at| at & 1).sum()),
            contender("callsheet", || read(&asked, &reply, &OutputSpec::default()).problems.len()),
            contender("regex", || all(&patterns, &reply)),
            contender("regex anywhere", || all(&anywhere, &reply)),
        ];
        let times = race(&mut contenders, rounds.min(7));
        let row = Row::new(&format!("read a reply of 60 MB, tags {name}"))
            .faster("a regex per tag", Some(times[2] / times[1]), 10.0)
            .at_most("a memchr scan", times[1] / times[0], 3.0);
        let taken = contenders.iter().zip(&times).map(|(contender, time)| Taken {
            name: contender.name.into(),
            nanoseconds: *time,
            remark: String::new(),
        });
        report.add(row.contenders(taken));
    }
    growth(report, rounds);
}

/// How the time grows with the number of tags that are left open: the exponent between 8,000 and 512,000.
fn growth(report: &mut Report, rounds: usize) {
    let contract = contract();
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
    for piece in ["<thought>", "<review>", "<review>\n", "<!--", "`<code>` ", "<task_status id='"] {
        let sizes = [8_000_usize, 64_000, 512_000];
        let replies: Vec<String> = sizes.iter().map(|count| piece.repeat(*count)).collect();
        let mut contenders: Vec<_> = replies
            .iter()
            .map(|reply| {
                contender("growth", move || read(&asked, reply.as_bytes(), &OutputSpec::default()).problems.len())
            })
            .collect();
        let times = race(&mut contenders, rounds.min(10));
        let exponent = (times[2] / times[0]).ln() / (sizes[2] as f64 / sizes[0] as f64).ln();
        let shown = piece.replace('\n', "\\n");
        let fence = if shown.contains('`') { ("`` ", " ``") } else { ("`", "`") };
        let row = Row::new(&format!("growth with open tags, {}{shown}{} 8,000 to 512,000 times", fence.0, fence.1));
        report.add(row.exponent("exponent of the time", exponent, 1.15));
    }
}
