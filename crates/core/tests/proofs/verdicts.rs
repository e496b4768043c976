//! Tests verdicts: a reply passes only by a marker that is alone on its line, and only if nothing contradicts
//! it.
//!
//! ```text
//! verdicts/hostile.txt        replies to a review that must not pass, by class, one on a line
//! verdicts/hostile-tasks.txt  replies about task 1.1 that must not be complete
//! verdicts/benign.txt         replies that must pass
//! verdicts/spellings.txt      markers with `{}` for their word
//! verdicts/places.txt         replies that pass, with `{}` for another marker
//! verdicts/texts.txt          texts that agents write around a verdict
//! ```
//!
//! A line that begins with `#: ` names a class. In other lines `\n`, `\r`, `\t`, `\\` and `\u{…}` are
//! escapes.

use std::path::Path;
use std::{env, fs};

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::library::contract::Contract;
use callsheet_core::reply::{Outcome, ProblemCode, ReplyContext, read};
use callsheet_core::{Builtin, Library, find_contract};
use markdown::mdast::Node;

fn find_shipped_contract(name: &str) -> Contract {
    find_contract(&Library::new(&Builtin), name, &Default::default()).unwrap().1
}

fn read_corpus(name: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts").join(name);
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter(|line| !line.starts_with("#: ")).map(unescape).collect()
}

fn unescape(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match escape {
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'\\' => out.push('\\'),
            b'u' => {
                let (digits, after) = rest[1..].split_once('}').unwrap();
                out.push(char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap());
                rest = after;
            }
            other => panic!("\\{}", char::from(other)),
        }
    }
    out + rest
}

fn read_outcome(contract: &Contract, reply: &str) -> Outcome {
    read(
        &ReplyContext { contract, tasks: &["1.1".into()], prompt: None },
        reply.as_bytes(),
        &OutputSpec::default(),
    )
    .outcome
}

#[test]
fn hostile_replies_never_pass() {
    for (file, phase, least) in [("hostile.txt", "review", 600), ("hostile-tasks.txt", "implement", 60)] {
        let contract = find_shipped_contract(phase);
        let all = read_corpus(file);
        assert!(all.len() >= least, "only {} in {file}", all.len());
        let good: Vec<&String> =
            all.iter().filter(|reply| read_outcome(&contract, reply).is_good()).collect();
        assert!(good.is_empty(), "{} of {} in {file} pass:\n{}", good.len(), all.len(), render_list(&good));
    }
}

/// A bad verdict beside a pass is a conflict, and the bad verdict counts.
#[test]
fn bad_verdict_beside_pass_conflicts() {
    let contract = find_shipped_contract("review");
    let pass = "<review>PASS</review>\n\n";
    let all: Vec<String> =
        read_corpus("hostile.txt").into_iter().filter(|reply| reply.starts_with(pass)).collect();
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
    let mut silent = Vec::new();
    for reply in &all {
        let read = read(&asked, reply.as_bytes(), &OutputSpec::default());
        let told = read.problems.iter().any(|problem| {
            matches!(
                problem.code,
                ProblemCode::Conflict
                    | ProblemCode::BrokenMarker
                    | ProblemCode::UnopenedThought
                    | ProblemCode::UnclosedThought
            )
        });
        let counts = !reply.contains("No: <review>MAJOR_ISSUES") || read.outcome == Outcome::MajorIssues;
        if !told || !counts {
            silent.push(reply);
        }
    }
    assert!(
        all.len() >= 250 && silent.is_empty(),
        "{} of {}:\n{}",
        silent.len(),
        all.len(),
        render_list(&silent)
    );
}

/// Bad verdicts in the spellings of people and models.
const WORDS: [&str; 9] = [
    "MAJOR_ISSUES",
    "NEEDS_CHANGES",
    "REJECTED",
    "NEEDS_REVISION",
    "Major Issues",
    "major-issues",
    "M A J O R _ I S S U E S",
    "MAJOR<wbr>_ISSUES",
    "M\u{410}JOR_ISSUES",
];

/// Tries every spelling of another verdict in every place beside a pass.
#[test]
fn no_bad_spelling_passes_anywhere() {
    let contract = find_shipped_contract("review");
    let (spellings, places) = (read_corpus("spellings.txt"), read_corpus("places.txt"));
    let words = if case_count() > 20_000 { &WORDS[..] } else { &WORDS[..3] };
    let mut tried = 0;
    let mut good = Vec::new();
    let passing = |place: &&String| read_outcome(&contract, &place.replace("{}", "so")) == Outcome::Pass;
    assert!(places.iter().filter(passing).count() > 30, "without a marker there, they pass");
    for place in &places {
        for spelling in &spellings {
            for word in words {
                let reply = place.replace("{}", &spelling.replace("{}", word));
                tried += 1;
                if read_outcome(&contract, &reply).is_good() {
                    good.push(reply);
                }
            }
        }
    }
    let shown: Vec<&String> = good.iter().collect();
    assert!(good.is_empty(), "{} of {tried} pass:\n{}", good.len(), render_list(&shown));
    crate::print_measurement(&format!("{tried} spellings of another verdict beside a pass"));
    assert!(tried >= 5_000, "{tried}");
}

/// The usual texts of agents around a verdict do not change it.
#[test]
fn ordinary_text_keeps_verdict() {
    let contract = find_shipped_contract("review");
    let texts = read_corpus("texts.txt");
    let pass = "<review>PASS</review>";
    let mut bad = Vec::new();
    for text in &texts {
        let replies = [
            format!("{text}\n\n{pass}\n"),
            format!("{pass}\n\n{text}\n"),
            format!("{text}\n\n**{pass}**"),
            format!("{text}\n\n<review>\nPASS\n</review>\n"),
        ];
        bad.extend(replies.into_iter().filter(|reply| read_outcome(&contract, reply) != Outcome::Pass));
    }
    let shown: Vec<&String> = bad.iter().collect();
    assert!(texts.len() >= 100 && bad.is_empty(), "{} do not pass:\n{}", bad.len(), render_list(&shown));
}

#[test]
fn benign_replies_pass() {
    let contract = find_shipped_contract("review");
    let all = read_corpus("benign.txt");
    assert!(all.len() >= 60);
    let bad: Vec<&String> =
        all.iter().filter(|reply| read_outcome(&contract, reply) != Outcome::Pass).collect();
    assert!(bad.is_empty(), "{} of {} do not pass:\n{}", bad.len(), all.len(), render_list(&bad));
}

fn render_list(replies: &[&String]) -> String {
    replies.iter().map(|reply| format!("{reply:?}\n")).collect()
}

/// Random number generator with the same cases on every machine, without a library.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// Spellings of a pass; the first one is used much more often than the others.
const PASSES: [&str; 6] = [
    "<review>PASS</review>",
    "<review>\nPASS\n</review>",
    "<REVIEW id='x'> pass </Review >",
    "**<review>PASS</review>**",
    "<review>PASS</review>.",
    "<response><review>PASS</review></response>",
];

const OTHERS: [&str; 5] = [
    "<review>MAJOR_ISSUES</review>",
    "<review>\nNEEDS_CHANGES\n</review>",
    "<Review>rejected</review>",
    "<review>MAYBE</review>",
    "&lt;review&gt;MAJOR_ISSUES&lt;/review&gt;",
];

const PIECES: [&str; 66] = [
    "\n",
    "\n",
    "\n",
    "\n\n",
    "\n\n",
    "\n\n",
    "\n\n",
    "\r\n",
    " ",
    "  ",
    "    ",
    "\t",
    "- ",
    "* ",
    "1. ",
    "  - ",
    "> ",
    ">",
    "\n> ",
    "# ",
    "\n---\n",
    "\n===\n",
    "```",
    "\n```\n",
    "\n````\n",
    "\n~~~\n",
    "```xml\n",
    "`",
    "``",
    "\n`\n",
    "<!--",
    "-->",
    "<!-- x -->",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "<div>\n",
    "</div>",
    "<blockquote>",
    "</blockquote>",
    "<![CDATA[",
    "]]>",
    "<?x",
    "?>",
    "<script>",
    "</script>",
    "<file>",
    "</file>",
    "<tool_result>",
    "</tool_result>",
    "<b>",
    "*",
    "**",
    "_",
    "[",
    "](x)",
    "[x]: ",
    "![",
    "\\",
    "&lt;",
    "text",
    "x\ny",
    "| a |",
    "<review>",
    "</review>",
];

fn generate_reply(dice: &mut Dice, others: bool) -> String {
    let mut reply = String::new();
    let length = 1 + dice.roll(9);
    let at = dice.roll(length);
    let other = if others { dice.roll(length) } else { length };
    for piece in 0..length {
        if piece == at {
            reply.push_str(PASSES[dice.roll(12).saturating_sub(6)]);
        }
        if piece == other {
            reply.push_str(OTHERS[dice.roll(OTHERS.len())]);
        }
        if piece != at || dice.roll(2) == 0 {
            reply.push_str(PIECES[dice.roll(PIECES.len())]);
        }
    }
    reply
}

/// The result of the second parser for a reply: the source of each paragraph and HTML block that may contain
/// a verdict, and the ranges of text that are neither code nor quote.
#[derive(Default)]
struct Judge {
    units: Vec<String>,
    said: Vec<(usize, usize)>,
}

impl Judge {
    fn from_reply(reply: &str) -> Self {
        let mut judge = Self::default();
        let options = markdown::ParseOptions::default();
        judge.visit_node(reply, &markdown::to_mdast(reply, &options).unwrap(), true);
        judge
    }

    fn visit_node(&mut self, reply: &str, node: &Node, said: bool) {
        let place = node.position().map(|place| (place.start.offset, place.end.offset));
        let (start, end) = place.unwrap_or((0, 0));
        match node {
            Node::Blockquote(_) | Node::Code(_) | Node::InlineCode(_) => return,
            Node::Paragraph(paragraph) if paragraph.children.iter().all(is_plain) => {
                self.units.push(reply[start..end].to_owned());
            }
            // HTML inside of a paragraph is not a block and is judged with its paragraph.
            Node::Html(_) if said => self.units.push(reply[start..end].to_owned()),
            _ => {}
        }
        if matches!(node, Node::Text(_) | Node::Html(_)) {
            self.said.push((start, end));
        }
        let block = !matches!(node, Node::Paragraph(_) | Node::Heading(_));
        for child in node.children().into_iter().flatten() {
            self.visit_node(reply, child, block);
        }
    }

    /// Checks whether a block consists only of passes.
    fn has_pass(&self) -> bool {
        self.units.iter().any(|unit| {
            let mut rest = unit.clone();
            for pass in PASSES.iter().rev() {
                rest = rest.replace(pass, "");
            }
            // The marks of a bold pass: `is_plain` has checked its content.
            rest = rest.replace("****", "");
            rest != *unit && rest.trim_matches([' ', '\t', '\r', '\n']).is_empty()
        })
    }

    /// Checks whether a bad verdict is outside of code and quotes.
    fn has_other_verdict(&self, reply: &str) -> bool {
        OTHERS[..3].iter().any(|other| {
            let tag = other.find('>').unwrap() + 1;
            reply
                .match_indices(other)
                .any(|(at, _)| self.said.iter().any(|(start, end)| *start <= at && at + tag <= *end))
        })
    }
}

fn is_plain(node: &Node) -> bool {
    match node {
        Node::Text(_) | Node::Html(_) | Node::Break(_) => true,
        Node::Strong(strong) => strong.children.iter().all(is_plain),
        _ => false,
    }
}

fn case_count() -> usize {
    if env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1") { 1_000_000 } else { 20_000 }
}

/// Compares `judged` with the second parser on generated replies. Returns the number of replies that pass.
fn compare_with_judge(cases: usize, judged: impl Fn(&str) -> bool) -> Result<usize, String> {
    let mut dice = Dice(0x5eed_cafe_f00d_1234);
    let mut passed = 0;
    let mut wrong = Vec::new();
    for case in 0..cases {
        let reply = generate_reply(&mut dice, case % 2 == 1);
        if !judged(&reply) {
            continue;
        }
        passed += 1;
        let judge = Judge::from_reply(&reply);
        if !judge.has_pass() {
            wrong.push(format!("case {case} passes, and no block is a pass: {reply:?}"));
        }
        if judge.has_other_verdict(&reply) {
            wrong.push(format!("case {case} passes, and says something else: {reply:?}"));
        }
        if wrong.len() == 10 {
            break;
        }
    }
    if wrong.is_empty() { Ok(passed) } else { Err(wrong.join("\n")) }
}

#[test]
fn second_parser_agrees_on_passes() {
    let contract = find_shipped_contract("review");
    let passed = compare_with_judge(case_count(), |reply| read_outcome(&contract, reply) == Outcome::Pass)
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    crate::print_measurement(&format!("of {} generated replies {passed} pass", case_count()));
    assert!(passed > case_count() / 50, "only {passed} of {} pass", case_count());
}

/// Each of these wrong rules is detected: the proof can fail.
#[test]
fn wrong_rules_are_detected() {
    type Rule = fn(&str) -> bool;
    let rules: [(&str, Rule); 4] = [
        ("a marker anywhere", |reply| reply.contains("<review>PASS</review>")),
        ("a line of its own", |reply| reply.lines().any(|line| line.trim() == "<review>PASS</review>")),
        ("the last line, outside of fences", |reply| {
            reply.trim_end().ends_with("\n<review>PASS</review>") && reply.matches("```").count() % 2 == 0
        }),
        ("the end, after an empty line", |reply| reply.ends_with("\n\n<review>PASS</review>")),
    ];
    for (name, rule) in rules {
        assert!(compare_with_judge(20_000, rule).is_err(), "{name}");
    }
}

/// Texts that hide everything after them.
const HIDING: [&str; 10] = [
    "<!--",
    "<!-- ",
    "<?",
    "<![CDATA[",
    "<!x",
    "<pre>\n",
    "<think>",
    "[THINK]",
    "◁think▷",
    "<|channel|>analysis",
];

/// The time to judge a reply is linear in its size; otherwise the reply does not pass.
#[test]
fn repeated_pieces_are_read_in_time() {
    let contract = find_shipped_contract("review");
    let size = if case_count() > 20_000 { 64 << 20 } else { 16 << 10 };
    for piece in [
        "<review",
        "<review>",
        "<review ",
        "`",
        "``` ",
        "```\n",
        "~~~\n\n",
        ">",
        "> ",
        "> a\n",
        "- ",
        "- - - -\n",
        "-\n",
        "1. ",
        "[",
        "[a](",
        "![",
        "]",
        "*",
        "**a ",
        "_",
        "<",
        "</",
        "<!--",
        "<!-- ",
        "-->",
        "<?",
        "<![CDATA[",
        "<!x",
        "&",
        "&#",
        "&lt;",
        "\\",
        "\n",
        "\r",
        "\t",
        " ",
        "a\n\n",
        "<a>",
        "<a>\n\n",
        "</a>",
        "<think>",
        "<think/>",
        "<think/>x",
        "</think>",
        "[THINK]",
        "◁think▷",
        "<|channel|>analysis",
        "＜review＞",
        "&lt;review&gt;",
        "<review>PASS</review>",
        "<review>x</review>",
        "- <review>PASS</review>\n",
        "<pre>\n",
        "<pre>\n\n</pre>\n\n",
        "<a\n",
        "<review\n\n",
        "|",
        "| a |\n|---|\n",
        "[a]: <b>\n",
        "[a]: x\n\n",
        "a\u{301}",
        "е",
        "<е",
        "<a ",
        "<a b='",
        "~",
        "# ",
        "```a`\n",
        "\u{0}",
        "\u{fffd}",
        "<pre>",
        "<a b='<think>",
        "<div title=\"",
        "<script><think>",
        "====\n",
        "a  \n",
    ] {
        for reply in [
            piece.repeat(size / piece.len()),
            format!("{}\n\n<review>PASS</review>\n", piece.repeat(size / piece.len())),
        ] {
            let good = read_outcome(&contract, &reply).is_good();
            assert!(!good || !HIDING.contains(&piece), "{piece}");
        }
    }
}
