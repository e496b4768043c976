//! Tests the reading of hostile and sloppy replies.
//!
//! ```text
//! replies/<subject>.txt   === the name -> outcome, phase=…, tasks=…, agent=…, escapes=yes, end=none
//!                         --- prompt      (optional)
//!                         --- reply
//!                         --- expect      the whole reply; its text only if thoughts were removed
//! streams/<cli>/*.jsonl   recorded from the CLIs, read as replies to a review
//! ```
//!
//! `BLESS=1 cargo test -p callsheet-core --test replies` rewrites the expectations, but not the outcomes:
//! those state the intent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::library::contract::Contract;
use callsheet_core::reply::{Outcome, ProblemCode, Reply, ReplyContext, ReplyProblem, read};
use callsheet_core::{
    Builtin, FILES, Library, SourceId, SourceRoot, find_agent, find_contract, list_names, read_contract,
};
use proptest::prelude::*;

struct Case {
    title: String,
    name: String,
    outcome: String,
    options: BTreeMap<String, String>,
    prompt: Option<String>,
    reply: String,
    expect: String,
}

impl Case {
    fn parse(text: &str) -> Self {
        let (title, rest) = text.split_once('\n').unwrap();
        let (name, outcome) = title.split_once(" -> ").unwrap_or_else(|| panic!("no outcome: {title}"));
        let mut parts = outcome.split(' ');
        let outcome = parts.next().unwrap().to_owned();
        let options: BTreeMap<String, String> = parts
            .map(|option| option.split_once('=').unwrap_or_else(|| panic!("{title}")))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        for key in options.keys() {
            assert!(["phase", "tasks", "agent", "escapes", "end"].contains(&key.as_str()), "{title}: {key}");
        }
        let (prompt, rest) = match rest.strip_prefix("--- prompt\n") {
            Some(rest) => rest.split_once("--- reply\n").map(|(prompt, rest)| (Some(prompt), rest)).unwrap(),
            None => (None, rest.strip_prefix("--- reply\n").unwrap_or_else(|| panic!("no reply: {title}"))),
        };
        let (reply, expect) = rest.split_once("--- expect\n").unwrap_or_else(|| panic!("no end: {title}"));
        Self {
            title: title.to_owned(),
            name: name.to_owned(),
            outcome,
            options,
            prompt: prompt.map(str::to_owned),
            reply: reply.to_owned(),
            expect: expect.to_owned(),
        }
    }

    fn write(&self, expect: &str) -> String {
        let prompt = self.prompt.as_ref().map(|prompt| format!("--- prompt\n{prompt}")).unwrap_or_default();
        format!("=== {}\n{prompt}--- reply\n{}--- expect\n{expect}", self.title, self.reply)
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    fn output(&self) -> Vec<u8> {
        let reply = match self.option("end") {
            Some(_) => self.reply.strip_suffix('\n').unwrap(),
            None => &self.reply,
        };
        if self.option("escapes").is_some() { unescape(reply) } else { reply.as_bytes().to_vec() }
    }

    fn read(&self) -> (String, String) {
        let tasks: Vec<String> =
            self.option("tasks").into_iter().flat_map(|ids| ids.split(',')).map(str::to_owned).collect();
        let contract = find_shipped_contract(self.option("phase").unwrap_or("review"));
        let asked = ReplyContext { contract: &contract, tasks: &tasks, prompt: self.prompt.as_deref() };
        let output = self.output();
        let reply = read(&asked, &output, &self.option("agent").map(format_of).cloned().unwrap_or_default());
        (reply.outcome.name().to_owned(), render_reply(&reply, &String::from_utf8_lossy(&output)))
    }
}

/// Replaces the escapes `\r`, `\t`, `\\` and `\xNN`; all others are errors.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next().unwrap() {
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            other => panic!("\\{}", char::from(other)),
        }
    }
    out
}

/// Renders a whole reply for comparison.
fn render_reply(reply: &Reply<'_>, output: &str) -> String {
    let mut out = reply.outcome.name().to_owned();
    if let Some(verdict) = reply.verdict {
        write!(out, " {}", verdict.name()).unwrap();
    }
    out.push('\n');
    for (id, status) in &reply.tasks {
        writeln!(out, "task {id}: {}", status.name()).unwrap();
    }
    if reply.text.to_string() != output {
        writeln!(out, "text {:?}", reply.text.to_string()).unwrap();
    }
    for ReplyProblem { code, message, place, more } in &reply.problems {
        let place = place.map_or("-".to_owned(), |place| format!("{}:{}", place.line, place.column));
        let more = if *more > 0 { format!(" (+{more})") } else { String::new() };
        writeln!(out, "{place} {}: {message}{more}", code.name()).unwrap();
    }
    out
}

fn find_shipped_contract(name: &str) -> Contract {
    find_contract(&Library::new(&Builtin), name, &Default::default()).unwrap().1
}

fn format_of(agent: &str) -> &'static OutputSpec {
    static FORMATS: OnceLock<BTreeMap<String, OutputSpec>> = OnceLock::new();
    let load = |name: String| {
        let output = find_agent(&Library::new(&Builtin), &name, &Default::default()).unwrap().1.output;
        (name, output)
    };
    let names = || list_names(&Builtin, "agents", &Default::default());
    &FORMATS.get_or_init(|| names().into_iter().map(load).collect())[agent]
}

fn tests_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

fn list_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read_cases(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).unwrap();
    text.split("=== ").skip(1).map(Case::parse).collect()
}

#[test]
fn every_reply_has_expected_outcome() {
    let bless = env::var_os("BLESS").is_some();
    let (mut wrong, mut names) = (String::new(), Vec::new());
    for file in list_files(&tests_path("replies")) {
        let mut blessed = String::new();
        for case in read_cases(&file) {
            let (outcome, expect) = case.read();
            blessed += &case.write(&expect);
            if outcome != case.outcome {
                wrong += &format!("{}: is read as\n{expect}\n", case.title);
            } else if expect != case.expect && !bless {
                wrong += &format!("{}: expected\n{}but got\n{expect}\n", case.title, case.expect);
            }
            names.push(case.name);
        }
        if bless {
            fs::write(&file, blessed).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "names are given twice");
    assert!(all >= 150, "only {all} cases");
}

/// All problem codes and all outcomes occur in the table, and the documentation names all of them.
#[test]
fn every_problem_and_outcome_has_case() {
    let table: String =
        list_files(&tests_path("replies")).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let page = fs::read_to_string(tests_path("../../../docs/replies.md")).unwrap();
    let mut missing = Vec::new();
    // These need size or a ledger, which a table does not have. The proofs cover them.
    let elsewhere = [ProblemCode::TooLarge, ProblemCode::TooLong, ProblemCode::OutputIncomplete];
    for code in ProblemCode::ALL {
        if !elsewhere.contains(code) && !table.contains(&format!(" {}: ", code.name())) {
            missing.push(format!("case of {}", code.name()));
        }
        if !page.contains(&format!("| `{}` | {} |", code.name(), code.meaning())) {
            missing.push(format!("| `{}` | {} |", code.name(), code.meaning()));
        }
    }
    for outcome in Outcome::ALL {
        if !table.contains(&format!(" -> {}", outcome.name())) {
            missing.push(format!("case of {}", outcome.name()));
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn t6_recorded_streams_give_agent_text() {
    let said = |text: &str| format!("pass PASS\ntext {text:?}\n");
    let failed = |why: &str| {
        format!(
            "no_verdict\ntext \"\"\n- stream_failed: the agent's stream reports a failure: {why}\n\
             - no_verdict: no line holds only a verdict\n"
        )
    };
    let api = r#"{"type":"error","error":{"type":"invalid_request_error","code":400,"status":"INV…"#;
    let errors = [
        ("claude", failed("API Error: 400 the request is refused␊<review>PASS</review>")),
        ("codex", failed(api)),
        ("copilot", failed("400 the request is refused␊<review>PASS</review>")),
        ("gemini", failed(&format!("[API Error: {}…", &api[..68]))),
        (
            "opencode",
            failed("the request is refused␊<review>PASS</review>")
                .replace("\n- no_verdict", "\n- stream_incomplete: the stream has no start\n- no_verdict"),
        ),
    ];
    let asked = find_shipped_contract("review");
    for (cli, error) in errors {
        let expected = [
            ("denied", said("I may not.\n\n<review>PASS</review>\n")),
            ("error", error),
            ("thought", said("Nothing is wrong with it.\n\n<review>PASS</review>\n")),
            ("tool", said("I write a note first.\n\nIt is written.\n\n<review>PASS</review>\n")),
            ("verdict", said("I read the change.\n\n<review>PASS</review>\n")),
        ];
        let found: Vec<(String, String)> = list_files(&tests_path("streams").join(cli))
            .iter()
            .map(|file| {
                let output = fs::read(file).unwrap();
                let asked = ReplyContext { contract: &asked, tasks: &[], prompt: None };
                let reply = read(&asked, &output, format_of(cli));
                let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
                (name, render_reply(&reply, &String::from_utf8_lossy(&output)))
            })
            .collect();
        // Gemini CLI offers no shell tool without the permission, so that no call is denied.
        let expected: Vec<(String, String)> = expected
            .into_iter()
            .filter(|(name, _)| cli != "gemini" || *name != "denied")
            .map(|(name, expected)| (name.to_owned(), expected))
            .collect();
        assert_eq!(found, expected, "{cli}");
        // A stream that is read as text or as another agent's never passes: its texts are inside of lines.
        for file in list_files(&tests_path("streams").join(cli)) {
            let output = fs::read(&file).unwrap();
            for other in
                ["claude", "codex", "copilot", "gemini", "opencode"].into_iter().filter(|other| *other != cli)
            {
                let asked = ReplyContext { contract: &asked, tasks: &[], prompt: None };
                let outcome = read(&asked, &output, format_of(other)).outcome;
                assert!(!outcome.is_good(), "{} as {other}", file.display());
            }
        }
    }
}

#[test]
fn t6_plain_text_works_for_agents() {
    for agent in ["claude", "codex", "copilot", "gemini", "opencode"] {
        for case in
            read_cases(&tests_path("replies/alone.txt")).iter().filter(|case| case.option("agent").is_none())
        {
            let contract = find_shipped_contract(case.option("phase").unwrap_or("review"));
            let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
            let outcome = read(&asked, &case.output(), format_of(agent)).outcome.name();
            assert_eq!(outcome, case.outcome, "{} as {agent}", case.title);
        }
    }
}

#[test]
fn contract_with_unknown_words_is_refused() {
    let text = "description = \"x\"\n[[verdict]]\nname = \"PASSED\"\nwhen = \"x\"\n[[task_status]]\nname = \"DONE\"\nwhen = \"x\"\n";
    let id = SourceId::new(SourceRoot::Project, "contracts/own.toml").unwrap();
    assert_eq!(
        read_contract(&id, &text.into()).unwrap_err().to_string(),
        "error[ContractBad]: project:contracts/own.toml: unknown verdict `PASSED`\n  \
           = hint: did you mean `PASS`?\n  \
           = hint: known words: PASS, NEEDS_REVISION, NEEDS_CHANGES, REJECTED, MAJOR_ISSUES\n\
         error[ContractBad]: project:contracts/own.toml: unknown status `DONE`\n  \
           = hint: known words: COMPLETED, FAILED"
    );
}

fn config() -> ProptestConfig {
    let long = env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 1_000_000 } else { 20_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Pieces of replies that look like something else if they are combined.
const PIECES: [&str; 44] = [
    "<review>PASS</review>",
    "<review>NEEDS_CHANGES</review>",
    "<review>MAJOR_ISSUES</review>",
    "<review>REJECTED</review>",
    "<review>MAYBE</review>",
    "<review>",
    "</review>",
    "PASS",
    "<review>\nPASS\n</review>",
    "<REVIEW id='x'> pass </Review >",
    "<task_status id=\"1.1\">COMPLETED</task_status>",
    "<task_status id=\"1.1\">FAILED</task_status>",
    "<task_status id=1.2>",
    "<thought>",
    "</thought>",
    "<thought/>",
    "<thinking>",
    "</thinking>",
    "<think>",
    "```",
    "```\n",
    "~~~\n",
    "````\n",
    "`",
    "`\n",
    "> ",
    "<!--",
    "-->",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "\n",
    "\n\n",
    "\r\n",
    " ",
    "    ",
    "\t",
    "- ",
    "text",
    "é",
    "<",
    ">",
    "\u{feff}",
];

fn messy_reply() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24).prop_map(|pieces| pieces.concat())
}

fn outcome_of(phase: &str, reply: &str) -> Outcome {
    let contract = find_shipped_contract(phase);
    read(
        &ReplyContext { contract: &contract, tasks: &["1.1".into()], prompt: None },
        reply.as_bytes(),
        &OutputSpec::default(),
    )
    .outcome
}

/// Generates lines of text without any tag, fence or quote.
fn plain_text() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-z .,é]{0,12}", 0..4).prop_map(|lines| lines.join("\n") + "\n")
}

/// Generates text for the inside of a thought: without another thought, which could close it.
fn inside_thought() -> impl Strategy<Value = String> {
    messy_reply().prop_map(|text| text.replace("thought", "t").replace("think", "t"))
}

/// Generates text for the inside of a fence: without a thought and without a fence of the same kind.
fn inside_fence() -> impl Strategy<Value = String> {
    inside_thought().prop_map(|text| text.replace("```", "").replace('`', ""))
}

const VERDICTS: [(&str, Outcome); 5] = [
    ("<review>PASS</review>", Outcome::Pass),
    ("<review>NEEDS_CHANGES</review>", Outcome::NeedsChanges),
    ("<review>MAJOR_ISSUES</review>", Outcome::MajorIssues),
    ("<review>REJECTED</review>", Outcome::ForeignVerdict),
    ("", Outcome::NoVerdict),
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn reading_never_fails_or_invents_text(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..200), messy_reply().prop_map(String::into_bytes)],
        prompt in prop::option::of(messy_reply()),
        agent in prop::sample::select(vec!["claude", "codex", "gemini", "copilot", "opencode"]),
        phase in prop::sample::select(vec!["plan", "challenge", "implement", "review", "archive"]),
    ) {
        let contract = find_shipped_contract(phase);
        let asked = ReplyContext { contract: &contract, tasks: &["1.1".into(), "1.2".into()], prompt: prompt.as_deref() };
        let reply = read(&asked, &bytes, format_of(agent));
        let lossy = String::from_utf8_lossy(&bytes);
        // The text is a subsequence of the output.
        let mut rest = &*lossy;
        for piece in reply.text.pieces() {
            let at = rest.find(&*piece);
            prop_assert!(at.is_some(), "{piece:?} in {rest:?}");
            rest = &rest[at.unwrap() + piece.len()..];
        }
        prop_assert_eq!(reply.verdict.is_some(), !matches!(reply.outcome,
            Outcome::NoVerdict | Outcome::ForeignVerdict | Outcome::None | Outcome::Complete | Outcome::Incomplete));
    }

    /// A verdict at the beginning cannot be hidden, so it counts regardless of the text after it. A reply
    /// passes only because of the word `PASS`.
    #[test]
    fn t6_later_text_never_creates_pass(reply in messy_reply(), other in prop::sample::select(vec!["NEEDS_CHANGES", "REJECTED", "OK"])) {
        prop_assert_ne!(outcome_of("review", &format!("<review>{other}</review>\n\n{reply}")), Outcome::Pass);
        prop_assert_ne!(outcome_of("review", &reply.replace("PASS", other).replace("pass", other)), Outcome::Pass);
    }

    #[test]
    fn t6_pass_beside_other_verdict_fails(before in plain_text(), between in plain_text(), after in plain_text(), first in 0..2, other in 0..8_usize) {
        let others = ["NEEDS_CHANGES", "MAJOR_ISSUES", "REJECTED", "NEEDS_REVISION", "APPROVED", "PASSED", "NOT PASS", "PASS?"];
        let (pass, other) = ("<review>PASS</review>".to_owned(), format!("<review>{}</review>", others[other]));
        let (one, two) = if first == 0 { (pass, other) } else { (other, pass) };
        prop_assert_ne!(outcome_of("review", &format!("{before}{one}\n{between}{two}\n{after}")), Outcome::Pass);
    }

    /// If the closing tag of a thought is in code, a quote or a comment, it does not close the thought, and
    /// all text after it is removed.
    #[test]
    fn t6_thought_never_improves_outcome(before in plain_text(), inside in inside_thought(), after in plain_text(), verdict in 0..5_usize, last in any::<bool>()) {
        let (marker, outcome) = VERDICTS[verdict];
        let thought = format!("<thought>{inside}</thought>\n\n");
        let reply = if last { format!("{before}\n{marker}\n\n{thought}{after}") } else { format!("{before}\n{thought}{after}\n{marker}") };
        let found = outcome_of("review", &reply);
        // A fence inside may leave the thought open: then a bad verdict in it counts.
        prop_assert!(found == outcome || !found.is_good(), "{:?}: {:?}", found, reply);
    }

    #[test]
    fn t6_plain_thought_is_ignored(before in plain_text(), inside in plain_text(), other in 0..5_usize, after in plain_text(), verdict in 0..5_usize, last in any::<bool>()) {
        let (marker, outcome) = VERDICTS[verdict];
        let thought = format!("<thought>\n{inside}\n{}\n{inside}</thought>\n", VERDICTS[other].0);
        let reply = if last { format!("{before}\n{marker}\n\n{thought}{after}") } else { format!("{before}\n{thought}{after}\n\n{marker}") };
        prop_assert_eq!(outcome_of("review", &reply), outcome, "{:?}", reply);
        let contract = find_shipped_contract("review");
        let reply = read(&ReplyContext { contract: &contract, tasks: &[], prompt: None }, reply.as_bytes(), &OutputSpec::default()).text.to_string();
        let whole = if last { format!("{before}\n{marker}\n\n{after}") } else { format!("{before}\n{after}\n\n{marker}") };
        prop_assert_eq!(reply, whole);
    }

    #[test]
    fn t6_fenced_text_is_ignored(before in plain_text(), inside in inside_fence(), after in plain_text(), verdict in 0..5_usize, last in any::<bool>()) {
        let (marker, outcome) = VERDICTS[verdict];
        let fence = format!("```text\n{inside}\n```\n");
        let reply = if last { format!("{before}\n{marker}\n{fence}{after}") } else { format!("{before}{fence}{after}\n{marker}") };
        prop_assert_eq!(outcome_of("review", &reply), outcome, "{:?}", reply);
    }

    #[test]
    fn t6_truncated_reply_never_passes(reply in messy_reply(), cut in any::<prop::sample::Index>()) {
        let whole = format!("{}\n<review>NEEDS_CHANGES</review>\n", reply.replace('<', ""));
        let cut = whole.floor_char_boundary(cut.index(whole.len()));
        prop_assert_ne!(outcome_of("review", &whole[..cut]), Outcome::Pass);
    }
}

/// The time per piece does not grow with the number of open pieces: otherwise this test would not end.
#[test]
fn many_open_tags_are_read_fast() {
    for piece in [
        "<thought>",
        "<review>",
        "<review",
        "<!--",
        "```\n",
        "`\n",
        "<pre>",
        "<code>",
        "</thought>",
        "<review>PASS</review>",
        "> \n<review>x</review>\n",
        "<task_status id='",
        "<review>\nPASS\n</review>",
        "a\n<review>PASS</review>\n",
        "a\n\n<review>PASS</review>\n\n",
        "<thought/>",
        "< ",
        "-`",
        "~~~",
        "<thought><!--</thought>",
        "<!--<thought>--></thought>",
    ] {
        let reply = piece.repeat(if cfg!(debug_assertions) { 100_000 } else { 1_000_000 });
        let good = outcome_of("review", &reply).is_good();
        assert_eq!(good, piece == "a\n\n<review>PASS</review>\n\n", "{piece}");
    }
}

#[test]
fn distant_places_have_lines_and_columns() {
    let contract = find_shipped_contract("review");
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
    let long = "é".repeat(200_000);
    let reply = format!("{}{long}<review>x</review> <review>\ny <review>x</review>\n", "a\n".repeat(100_000));
    let reply = read(&asked, reply.as_bytes(), &OutputSpec::default());
    let places: Vec<_> =
        reply.problems.iter().filter_map(|problem| problem.place).map(|p| (p.line, p.column)).collect();
    assert_eq!(places, [(100_001, 200_001), (100_002, 3)]);
    // A tag that spans several blocks leaves some of them uncounted.
    let reply = format!("b\n<review {}>PASS</review></thought>", "x".repeat(300_000));
    let reply = read(&asked, reply.as_bytes(), &OutputSpec::default());
    let places: Vec<_> =
        reply.problems.iter().filter_map(|problem| problem.place).map(|p| (p.line, p.column)).collect();
    assert_eq!(places, [(2, 1), (2, 300_014), (2, 300_032)]);
}

/// No shipped text is a verdict if an agent repeats it.
#[test]
fn t5_shipped_files_are_not_verdicts() {
    for (path, text) in FILES {
        for phase in ["plan", "challenge", "review"] {
            assert!(!outcome_of(phase, text).is_good(), "{path} passes as a {phase}");
        }
        assert_eq!(outcome_of("implement", text), Outcome::Incomplete, "{path}");
    }
}
