//! Tests damaged and contradictory streams. Every recorded stream of a real CLI is changed in many ways: no
//! change makes a bad reply good, and no reply in a damaged stream is good.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::library::contract::Contract;
use callsheet_core::reply::{
    MOST_TEXT, Outcome, ProblemCode, Reply, ReplyContext, StreamReader, StreamText, TextSink, read, read_text,
};
use callsheet_core::{Builtin, Library, find_agent, find_contract, list_names};
use serde_json::{Value, json};

use crate::{is_long_run, print_measurement};

const AGENTS: [&str; 5] = ["claude", "codex", "copilot", "gemini", "opencode"];
const PASS: &str = "<review>PASS</review>";

fn review_contract() -> Contract {
    find_contract(&Library::new(&Builtin), "review", &Default::default()).unwrap().1
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

fn read_reply<'o>(contract: &Contract, output: &'o [u8], format: &OutputSpec) -> Reply<'o> {
    read(&ReplyContext { contract, tasks: &[], prompt: None }, output, format)
}

/// Random number generator with the same sequence in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Reads the recorded streams of an agent in which it passes.
fn read_recorded(agent: &str) -> Vec<(PathBuf, Vec<String>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams").join(agent);
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.file_stem().unwrap() != "error");
    let lines = |file: &PathBuf| fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
    files.iter().map(|file| (file.clone(), lines(file))).collect()
}

/// A stream as lines of bytes, and whether a change has damaged it.
#[derive(Clone)]
struct Changed {
    lines: Vec<Vec<u8>>,
    is_damaged: bool,
    /// The event that ends the stream.
    last: Vec<u8>,
    /// The number of bytes that are left of the whole stream.
    end: Option<usize>,
    how: Vec<String>,
}

impl Changed {
    fn new(lines: &[String]) -> Self {
        let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
        let last = lines[lines.len() - 1].clone();
        Self { lines, last, is_damaged: false, end: None, how: Vec::new() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut all = self.lines.join(&b'\n');
        all.push(b'\n');
        all.truncate(self.end.unwrap_or(all.len()));
        all
    }
}

/// Checks whether a line is an event, by serde_json.
fn is_event(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|event| event["type"].is_string())
}

/// Returns events in which an agent reports a failure.
fn error_events(agent: &str) -> Vec<Value> {
    match agent {
        "claude" => vec![
            json!({"type":"result","subtype":"error_during_execution","is_error":true}),
            json!({"type":"assistant","error":"unknown","message":{"content":[]}}),
            json!({"type":"error","error":{"message":"overloaded"}}),
        ],
        "codex" => vec![
            json!({"type":"error","message":"stream disconnected"}),
            json!({"type":"turn.failed","error":{"message":"gone"}}),
            json!({"type":"turn.aborted"}),
            json!({"type":"stream_error","message":"gone"}),
        ],
        "gemini" => vec![
            json!({"type":"error","severity":"error","message":"too many turns"}),
            json!({"type":"result","status":"error","error":{"message":"gone"}}),
            json!({"type":"tool_loop.aborted"}),
        ],
        "copilot" => vec![
            json!({"type":"session.error","data":{"message":"gone"}}),
            json!({"type":"result","exitCode":1}),
            json!({"type":"assistant.turn_error","data":{}}),
        ],
        _ => vec![
            json!({"type":"error","error":{"name":"APIError"}}),
            json!({"type":"step_finish","part":{"reason":"error"}}),
            json!({"type":"session.error","error":{}}),
        ],
    }
}

/// Makes a change that the reader must notice.
fn damage_stream(dice: &mut Dice, agent: &str, changed: &mut Changed) {
    let events: Vec<usize> = (0..changed.lines.len()).filter(|at| is_event(&changed.lines[*at])).collect();
    let at = events[dice.below(events.len())];
    let last = changed.lines.len() - 1;
    changed.is_damaged = true;
    let how = match dice.below(12) {
        0 => {
            let whole = changed.bytes();
            let end = dice.below(whole.len() - 1);
            let left = whole[..end].trim_ascii_end();
            // Truncation between two lines after the final event, which a swap may have moved, is
            // undetectable.
            let lines: Vec<&[u8]> = left.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
            let has_ended = lines.iter().any(|line| *line == changed.last.trim_ascii_end());
            let is_between = lines.last().is_some_and(|line| is_event(line));
            changed.is_damaged = left != whole.trim_ascii_end() && !(has_ended && is_between);
            changed.end = Some(end);
            "truncate the stream"
        }
        1 => {
            let line = &mut changed.lines[at];
            line.truncate(1 + dice.below(line.len() - 1));
            changed.is_damaged = !is_event(line);
            "truncate a line"
        }
        2 => {
            let line = &mut changed.lines[at];
            let place = dice.below(line.len());
            line[place] = [0, 1, 0x80, 0xC0, 0xED, 0xFF][dice.below(6)];
            "corrupt a byte"
        }
        3 => {
            let line = &mut changed.lines[at];
            let place = dice.below(line.len());
            line.insert(place, [b'{', b'}', b'"', b'\\', b'[', 0][dice.below(6)]);
            changed.is_damaged = !is_event(&changed.lines[at]);
            "insert a byte"
        }
        4 if at < last => {
            let next = changed.lines.remove(at + 1);
            changed.lines[at].extend(next);
            changed.is_damaged = !is_event(&changed.lines[at]);
            "join two lines"
        }
        4 | 5 => {
            let line = &mut changed.lines[at];
            let words: Vec<usize> = (1..line.len() - 1)
                .filter(|place| {
                    line[place - 1].is_ascii_alphanumeric() && line[*place].is_ascii_alphanumeric()
                })
                .collect();
            let place = words[dice.below(words.len())];
            let text =
                dice.pick(&["\\ud800", "\\udfff", "\\ud83d\\u0041", "\\u12", "\\x", "\t", "\u{7f}\u{0}"]);
            line.splice(place..place, text.bytes());
            changed.is_damaged = !is_event(&changed.lines[at]);
            "put a bad escape into a word"
        }
        6 => {
            let garbage: &[u8] = dice.pick(&[
                b"{".as_slice(),
                b"{\"type\":\"assistant\"",
                b"warning: something",
                b"[]",
                b"null",
                b"{}",
                b"\xEF\xBB\xBF{}",
                b"{\"type\":1}",
                PASS.as_bytes(),
            ]);
            changed.lines.insert(at, garbage.to_vec());
            "insert garbage"
        }
        7 => {
            let deep = format!("{{\"type\":\"x\",\"deep\":{}{}}}", "[".repeat(127), "]".repeat(127));
            changed.lines.insert(at, deep.into_bytes());
            "insert an event that is too deep"
        }
        8 => {
            let errors = error_events(agent);
            let error = errors[dice.below(errors.len())].to_string();
            changed.lines.insert(at, error.into_bytes());
            "insert an error"
        }
        9 => {
            let last = changed.last.clone();
            changed.lines.retain(|line| !line.starts_with(&last));
            "drop the end"
        }
        10 => {
            changed.lines.insert(dice.below(last + 2), changed.last.clone());
            let ends = changed.lines.iter().filter(|line| line.starts_with(&changed.last)).count();
            changed.is_damaged = ends > 1;
            "repeat the end"
        }
        _ => {
            let before = changed.lines[at].clone();
            changed.lines.push(before);
            "repeat an event after the end"
        }
    };
    changed.how.push(how.to_owned());
}

/// Makes a change after which the stream may be complete but has the same meaning.
fn disturb_stream(dice: &mut Dice, changed: &mut Changed) {
    let last = changed.lines.len() - 1;
    let at = dice.below(last);
    let how = match dice.below(6) {
        0 if last > 1 => {
            changed.lines.remove(at);
            "drop an event"
        }
        1 => {
            let line = changed.lines[at].clone();
            changed.lines.insert(dice.below(last), line);
            "repeat an event"
        }
        2 => {
            let other = dice.below(last + 1);
            changed.lines.swap(at, other);
            "swap two events"
        }
        3 => {
            changed.lines.insert(at, b"{\"type\":\"something.new\",\"data\":{\"content\":\"x\"}}".to_vec());
            "insert an unknown event"
        }
        4 => {
            changed.lines.insert(at, dice.pick(&[b"".as_slice(), b"  \t ", b"\r"]).to_vec());
            "insert an empty line"
        }
        _ => {
            changed.lines[at].push(b'\r');
            "end a line as others do"
        }
    };
    changed.how.push(how.to_owned());
}

/// Splits the texts into smaller pieces, as the agent's CLI would print them.
fn split_texts(dice: &mut Dice, agent: &str, lines: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for line in lines {
        let event: Value = serde_json::from_str(line).unwrap();
        let split = |text: &Value, dice: &mut Dice| {
            let text = text.as_str().unwrap().to_owned();
            let at = text.floor_char_boundary(dice.below(text.len() + 1));
            (text[..at].to_owned(), text[at..].to_owned())
        };
        let mut two = |path: &str, dice: &mut Dice| {
            let (first, second) = split(event.pointer(path).unwrap(), dice);
            for text in [first, second] {
                let mut event = event.clone();
                *event.pointer_mut(path).unwrap() = json!(text);
                out.push(event.to_string());
            }
        };
        match agent {
            "gemini" if event["delta"] == json!(true) => two("/content", dice),
            "opencode" if event["type"] == json!("text") => two("/part/text", dice),
            "copilot" if event["type"] == json!("assistant.message_delta") => two("/data/deltaContent", dice),
            "claude" if event.pointer("/message/content/0/text").is_some() => {
                if dice.below(2) == 0 {
                    two("/message/content/0/text", dice);
                } else {
                    let (first, second) = split(event.pointer("/message/content/0/text").unwrap(), dice);
                    let mut event = event.clone();
                    *event.pointer_mut("/message/content").unwrap() =
                        json!([{"type":"text","text":first}, {"text":second,"type":"text"}]);
                    out.push(event.to_string());
                }
            }
            _ => out.push(line.clone()),
        }
    }
    out
}

#[test]
fn damaged_streams_are_never_good() {
    let rounds = if is_long_run() { 20_000 } else { 400 };
    let contract = review_contract();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut tried, mut damaged) = (0, 0);
    for agent in AGENTS {
        let format = format_of(agent);
        for (file, lines) in read_recorded(agent) {
            let stream = |lines: &[String]| Changed::new(lines).bytes();
            assert_eq!(
                read_reply(&contract, &stream(&lines), format).outcome,
                Outcome::Pass,
                "{}",
                file.display()
            );
            let other =
                |to: &str| -> Vec<String> { lines.iter().map(|line| line.replace("PASS", to)).collect() };
            // `replace` does not find a word that is split over pieces, so the pieces are joined first.
            let whole = || -> Vec<String> {
                let joined = join_texts(agent, &lines);
                joined.iter().map(|line| line.replace(PASS, &format!("I cannot say {PASS}"))).collect()
            };
            let variants: [(&str, Vec<String>); 4] = [
                ("good", lines.clone()),
                ("MAJOR_ISSUES", join_and_replace(agent, &lines, "MAJOR_ISSUES")),
                ("NEEDS_CHANGES", replace_verdict(&contract, format, other("NEEDS_CHANGES"), agent, &lines)),
                ("inline", whole()),
            ];
            for (name, variant) in &variants {
                let is_good = read_reply(&contract, &stream(variant), format).outcome.is_good();
                assert_eq!(is_good, *name == "good", "{} as {name}", file.display());
                for _ in 0..rounds {
                    let mut changed = Changed::new(variant);
                    let is_inline = *name == "inline";
                    for _ in 0..dice.below(3) {
                        // Gemini's pieces have no numbers: a missing one changes the meaning of a sentence
                        // unnoticed.
                        if !(is_inline && agent == "gemini") {
                            disturb_stream(&mut dice, &mut changed);
                        }
                    }
                    if dice.below(3) > 0 {
                        damage_stream(&mut dice, agent, &mut changed);
                    }
                    let bytes = changed.bytes();
                    let reply = read_reply(&contract, &bytes, format);
                    tried += 1;
                    damaged += usize::from(changed.is_damaged);
                    let must_be_bad = changed.is_damaged || *name != "good";
                    assert!(
                        !(must_be_bad && reply.outcome.is_good()),
                        "{} as {name}, {:?}:\n{}",
                        file.display(),
                        changed.how,
                        String::from_utf8_lossy(&bytes)
                    );
                    if changed.is_damaged {
                        let doubts = [
                            ProblemCode::StreamFailed,
                            ProblemCode::StreamMixed,
                            ProblemCode::StreamIncomplete,
                            ProblemCode::StreamConflict,
                        ];
                        let is_said = reply.problems.iter().any(|problem| doubts.contains(&problem.code));
                        let is_text = reply.text.to_string().trim_start().starts_with('{');
                        assert!(
                            is_said || is_text || bytes.len() < 20,
                            "{} as {name}, {:?}: {:?}\n{}",
                            file.display(),
                            changed.how,
                            reply.problems,
                            String::from_utf8_lossy(&bytes)
                        );
                    }
                }
            }
            // The same text in other pieces gives the same reply.
            for (name, variant) in &variants {
                let before = read_reply(&contract, &stream(variant), format).outcome;
                for _ in 0..rounds / 10 {
                    let bytes = stream(&split_texts(&mut dice, agent, variant));
                    let after = read_reply(&contract, &bytes, format).outcome;
                    let is_same = after == before || (agent == "claude" && !after.is_good());
                    assert!(
                        is_same,
                        "{} as {name}: {after:?}\n{}",
                        file.display(),
                        String::from_utf8_lossy(&bytes)
                    );
                    tried += 1;
                }
            }
        }
    }
    print_measurement(&format!("changed streams: {tried}, of which damaged: {damaged}; 0 became good"));
    assert!(damaged > tried / 3, "{damaged} of {tried}");
}

/// Joins the texts of neighbouring pieces into one piece.
fn join_texts(agent: &str, lines: &[String]) -> Vec<String> {
    let path = match agent {
        "gemini" => "/content",
        "copilot" => "/data/deltaContent",
        _ => return lines.to_vec(),
    };
    let mut out: Vec<Value> = Vec::new();
    for line in lines {
        let event: Value = serde_json::from_str(line).unwrap();
        let is_piece = |event: &Value| {
            event["delta"] == json!(true) || event["type"] == json!("assistant.message_delta")
        };
        match out.last_mut() {
            Some(last) if is_piece(last) && is_piece(&event) => {
                let text = format!(
                    "{}{}",
                    last.pointer(path).unwrap().as_str().unwrap(),
                    event.pointer(path).unwrap().as_str().unwrap()
                );
                *last.pointer_mut(path).unwrap() = json!(text);
            }
            _ => out.push(event),
        }
    }
    out.iter().map(Value::to_string).collect()
}

fn join_and_replace(agent: &str, lines: &[String], word: &str) -> Vec<String> {
    join_texts(agent, lines).iter().map(|line| line.replace("PASS", word)).collect()
}

/// Returns the recorded pieces if the word is in one of them; otherwise joined ones.
fn replace_verdict(
    contract: &Contract,
    format: &OutputSpec,
    pieces: Vec<String>,
    agent: &str,
    lines: &[String],
) -> Vec<String> {
    match read_reply(contract, &Changed::new(&pieces).bytes(), format).outcome {
        Outcome::NeedsChanges => pieces,
        _ => join_and_replace(agent, lines, "NEEDS_CHANGES"),
    }
}

/// Returns the JSON pointers to an agent's texts, each with an event that has such a text.
fn text_pointers(agent: &str) -> Vec<(&'static str, Value)> {
    match agent {
        "claude" => vec![
            (
                "/message/content/0/text",
                json!({"type":"assistant","message":{"id":"x","content":[{"type":"text","text":"x"}]}}),
            ),
            (
                "/message/content/0/type",
                json!({"type":"assistant","message":{"id":"x","content":[{"type":"text","text":"x"}]}}),
            ),
            ("/message/content/0", json!({"type":"assistant","message":{"id":"x","content":["x"]}})),
            ("/message/content", json!({"type":"assistant","message":{"id":"x","content":"x"}})),
            ("/result", json!({"type":"result","subtype":"success","is_error":false,"result":"x"})),
        ],
        "codex" => {
            vec![("/item/text", json!({"type":"item.completed","item":{"type":"agent_message","text":"x"}}))]
        }
        "gemini" => vec![
            ("/content", json!({"type":"message","role":"assistant","content":"x","delta":true})),
            ("/role", json!({"type":"message","role":"assistant","content":"<review>MAJOR_ISSUES</review>"})),
        ],
        "copilot" => vec![
            ("/data/content", json!({"type":"assistant.message","data":{"messageId":"x","content":"x"}})),
            (
                "/data/deltaContent",
                json!({"type":"assistant.message_delta","data":{"messageId":"x","deltaContent":"x"}}),
            ),
        ],
        _ => vec![("/part/text", json!({"type":"text","part":{"messageID":"x","text":"x"}}))],
    }
}

/// An unreadable message may say anything, even that the review did not pass.
#[test]
fn unknown_message_form_is_a_doubt() {
    let bad = "<review>MAJOR_ISSUES</review>";
    let forms = [
        json!([bad]),
        json!({ "text": bad }),
        json!([{ "type": "text", "text": [bad] }]),
        json!([[bad]]),
        json!(1),
        json!(true),
        json!("output_text"),
        json!("model"),
    ];
    let contract = review_contract();
    let mut tried = 0;
    for agent in AGENTS {
        for (file, lines) in read_recorded(agent) {
            for (path, event) in text_pointers(agent) {
                let is_kind = path.ends_with("/type") || path == "/role";
                for form in forms.iter().filter(|form| !form.is_string() || is_kind) {
                    let mut event = event.clone();
                    *event.pointer_mut(path).unwrap() = form.clone();
                    let mut lines = lines.clone();
                    let at = lines.len() - 1;
                    // A final event replaces the recorded final event.
                    if event["type"] == json!("result") {
                        lines.pop();
                    }
                    lines.insert(at, event.to_string());
                    let output = lines.join("\n");
                    let reply = read_reply(&contract, output.as_bytes(), format_of(agent));
                    assert!(!reply.outcome.is_good(), "{} {event}", file.display());
                    tried += 1;
                }
            }
        }
    }
    // A message of Codex that was started or updated but not completed.
    for kind in ["item.started", "item.updated"] {
        for (file, mut lines) in read_recorded("codex") {
            let item = json!({ "type": kind, "item": { "id": "x", "type": "agent_message", "text": bad } });
            lines.insert(lines.len() - 1, item.to_string());
            let reply = read_reply(&contract, lines.join("\n").as_bytes(), format_of("codex")).outcome;
            assert!(!reply.is_good(), "{} {kind}", file.display());
            let whole = json!({ "type": "item.completed", "item": { "id": "x", "type": "agent_message", "text": "Done." } });
            lines.insert(lines.len() - 1, whole.to_string());
            assert!(read_reply(&contract, lines.join("\n").as_bytes(), format_of("codex")).outcome.is_good());
            tried += 1;
        }
    }
    print_measurement(&format!("{tried} messages of an unknown form, none is good"));
    assert!(tried > 150, "{tried}");
}

/// Returns events that may contain an agent's text, in a form that its CLI does not use.
fn unknown_forms(agent: &str, said: &str) -> Vec<Value> {
    match agent {
        "claude" => vec![
            json!({"type":"assistant","content":[{"type":"text","text":said}]}),
            json!({"type":"assistant","message":{"id":"x","text":said}}),
            json!({"type":"assistant","message":{"id":"x","content":[{"type":"text","content":said}]}}),
            json!({"type":"assistant","message":{"id":"x","content":[{"type":"output","value":said}]}}),
            json!({"type":"user","message":{"role":"assistant","content":said}}),
            json!({"type":"system","subtype":"final_message","text":said}),
            json!({"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":said}}}),
            json!({"type":"stream_event","event":{"type":"content_block_start","content_block":{"type":"text","text":said}}}),
            json!({"type":"Assistant","message":{"content":[{"type":"text","text":said}]}}),
            json!({"type":"message","content":said}),
        ],
        "codex" => vec![
            json!({"type":"item.completed","item":{"id":"x","type":"assistant_message","text":said}}),
            json!({"type":"item.completed","item":{"id":"x","type":"message","text":said}}),
            json!({"type":"item.completed","item":{"id":"x","type":"Agent_Message","text":said}}),
            json!({"type":"item.completed","item":{"id":"x","text":said}}),
            json!({"type":"item.completed","item":{"id":"x","item_type":"agent_message","text":said}}),
            json!({"type":"item.completed","item":{"id":"x","type":"agent_message","content":[{"text":said}]}}),
            json!({"type":"item.completed","item":{"id":"x","type":"agent_message","text":"ok","content":[{"text":said}]}}),
            json!({"type":"item.updated","item":{"id":"x","type":"message","text":said}}),
            json!({"type":"agent_message","message":said}),
            json!({"type":"Item.Completed","item":{"type":"agent_message","text":said}}),
        ],
        "gemini" => vec![
            json!({"type":"content","value":said}),
            json!({"type":"Message","role":"assistant","content":said}),
            json!({"type":"message","role":"assistant","text":said}),
            json!({"type":"message","role":"assistant","content":"ok","parts":[{"text":said}]}),
            json!({"type":"response","response":said}),
        ],
        "copilot" => vec![
            json!({"type":"assistant.final_message","data":{"content":said}}),
            json!({"type":"assistant.message","data":{"messageId":"x","text":said}}),
            json!({"type":"session.task_complete","data":{"summary":said}}),
            json!({"type":"message","data":{"content":said}}),
        ],
        _ => vec![
            json!({"type":"message","part":{"type":"text","text":said}}),
            json!({"type":"text","text":said}),
            json!({"type":"text","part":{"type":"text","content":said}}),
            json!({"type":"text","part":{"type":"text","text":"ok","more":said}}),
            json!({"type":"tool_use","part":{"type":"text","text":said}}),
            json!({"type":"Text","part":{"type":"text","text":said}}),
        ],
    }
}

/// Returns events of tools and of the person, and events without a marker.
fn harmless_events(agent: &str, said: &str) -> Vec<Value> {
    let mut events = unknown_forms(agent, "All is well.");
    // A message and its pieces are never harmless, regardless of their text.
    let is_own = |event: &Value| {
        ["stream_event", "assistant", "text"].iter().any(|kind| event["type"] == json!(kind))
            || event.pointer("/item/type") == Some(&json!("agent_message"))
            || event["role"] == json!("assistant")
    };
    events.retain(|event| !is_own(event));
    events.extend(match agent {
        "claude" => vec![
            json!({"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":said}]}}),
            json!({"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":said}]}}),
            json!({"type":"system","subtype":"hook_response","output":said}),
        ],
        "codex" => vec![
            json!({"type":"item.completed","item":{"id":"x","type":"command_execution","aggregated_output":said}}),
            json!({"type":"item.completed","item":{"id":"x","type":"reasoning","text":said}}),
            json!({"type":"item.completed","item":{"id":"x","type":"command_execution","status":"failed"}}),
        ],
        "gemini" => vec![
            json!({"type":"tool_result","status":"error","output":said,"error":{"message":said}}),
            json!({"type":"message","role":"user","content":said}),
        ],
        "copilot" => vec![
            json!({"type":"tool.execution_complete","data":{"success":false,"result":{"content":said}}}),
            json!({"type":"user.message","data":{"content":said}}),
            json!({"type":"assistant.reasoning","data":{"content":said}}),
        ],
        _ => vec![
            json!({"type":"tool_use","part":{"type":"tool","state":{"status":"error","output":said}}}),
            json!({"type":"reasoning","part":{"type":"reasoning","text":said}}),
        ],
    });
    events
}

/// A possible verdict in an unknown event is a doubt; the output of tools is not.
#[test]
fn marker_in_unknown_event_is_doubt() {
    let said = [
        "<review>MAJOR_ISSUES</review>",
        "No: &lt;review&gt;REJECTED&lt;/review&gt;",
        "<task_status id=\"1.1\">FAILED</task_status>",
        "<question>Is it?</question>",
        "I say <rev",
    ];
    let contract = review_contract();
    let mut tried = 0;
    for agent in AGENTS {
        for (file, lines) in read_recorded(agent) {
            let with = |event: &Value| {
                let mut lines = lines.clone();
                // After the first event of the stream and before the last message.
                lines.insert(1, event.to_string());
                read_reply(&contract, lines.join("\n").as_bytes(), format_of(agent)).outcome
            };
            for said in said {
                for event in unknown_forms(agent, said) {
                    assert!(!with(&event).is_good(), "{} {event}", file.display());
                    tried += 1;
                }
            }
            for event in harmless_events(agent, said[0]) {
                assert!(with(&event).is_good(), "{} {event}", file.display());
            }
        }
    }
    print_measurement(&format!("{tried} markers in events of an unknown form, none is ignored"));
    assert!(tried > 400, "{tried}");
}

/// Pieces of a message of Claude are not a doubt if the message repeats them.
#[test]
fn repeated_pieces_are_not_a_doubt() {
    let contract = review_contract();
    let piece = |text: &str| json!({"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":text}}});
    let stream = |pieces: [&str; 2]| {
        let events = [
            json!({"type":"system","subtype":"init"}),
            piece(pieces[0]),
            piece(pieces[1]),
            json!({"type":"assistant","message":{"id":"m","content":[{"type":"text","text":PASS}]}}),
            json!({"type":"result","subtype":"success","is_error":false,"result":PASS}),
        ];
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        read_reply(&contract, lines.join("\n").as_bytes(), format_of("claude")).outcome
    };
    assert_eq!(stream(["<review>PA", "SS</review>"]), Outcome::Pass);
    assert!(!stream(["<review>MAJOR", "_ISSUES</review>"]).is_good());
}

/// The error accompanies a text, or a final event that reports success.
#[test]
fn error_in_any_event_is_doubt() {
    let contract = review_contract();
    let mut tried = 0;
    // An error event, then plain text.
    for agent in AGENTS {
        for kind in [
            "error",
            "session.error",
            "turn.failed",
            "fatal",
            "turnFailed",
            "stream_exception",
            "run.cancelled",
            "request_timed_out",
            "timeout",
            "interrupted",
            "turn.aborted",
            "model.call_failure",
            "errors",
        ] {
            for event in [
                json!({"type":kind,"message":"boom"}),
                json!({"type":kind,"error":{"message":"boom"}}),
                json!({"type":kind,"data":{"message":"boom"}}),
            ] {
                let outputs = [
                    format!("{event}\n\n{PASS}\n"),
                    format!("{PASS}\n\n{event}\n"),
                    format!("Hm.\n{event}\n\n{PASS}\n"),
                ];
                for output in outputs {
                    let reply = read_reply(&contract, output.as_bytes(), format_of(agent)).outcome;
                    assert!(!reply.is_good(), "{agent} {output}");
                    tried += 1;
                }
            }
            for (file, mut lines) in read_recorded(agent) {
                lines.insert(1, json!({ "type": kind }).to_string());
                let reply = read_reply(&contract, lines.join("\n").as_bytes(), format_of(agent)).outcome;
                assert!(!reply.is_good(), "{} {kind}", file.display());
                tried += 1;
            }
        }
    }
    // A field of the final event, or of a message before it.
    for agent in AGENTS {
        let fields: &[(&str, &str)] = match agent {
            "claude" => &[("", "error"), ("", "errors"), ("", "api_error_status")],
            "codex" | "gemini" => &[("", "error"), ("", "errors")],
            "copilot" => &[("", "error"), ("", "errors"), ("/data", "error")],
            _ => &[("", "error"), ("", "errors"), ("/part", "error")],
        };
        for (file, lines) in read_recorded(agent) {
            for (at, field) in fields {
                for (value, is_error) in [
                    (json!("boom"), true),
                    (json!(["boom"]), true),
                    (json!({"message":"boom"}), true),
                    (json!(500), true),
                    (json!(true), true),
                    (json!(null), false),
                    (json!([]), false),
                    (json!({}), false),
                    (json!(""), false),
                    (json!(false), false),
                ] {
                    let mut lines = lines.clone();
                    let is_at = |line: &&mut String| {
                        let event: Value = serde_json::from_str(line).unwrap();
                        at.is_empty()
                            || event.pointer(at).is_some_and(Value::is_object)
                                && event["type"] != json!("user.message")
                    };
                    // The last event that has this object: the final event or a message.
                    let vital = |line: &&mut String| {
                        at.is_empty() || line.contains("assistant.message\"") || line.contains("step_finish")
                    };
                    let line = lines.iter_mut().rev().filter(is_at).find(vital).unwrap();
                    let mut event: Value = serde_json::from_str(line).unwrap();
                    event.pointer_mut(at).unwrap()[field] = value.clone();
                    *line = event.to_string();
                    let reply = read_reply(&contract, lines.join("\n").as_bytes(), format_of(agent)).outcome;
                    assert_eq!(reply.is_good(), !is_error, "{} {event}", file.display());
                    tried += 1;
                }
            }
        }
    }
    // Error events that only one CLI has.
    let others = [
        ("claude", json!({"type":"system","subtype":"error"})),
        ("claude", json!({"type":"system","subtype":"api_error"})),
        ("copilot", json!({"type":"model.call_finished","data":{"outcome":"error"}})),
        ("copilot", json!({"type":"model.call_final_result","data":{"result":"error"}})),
        ("copilot", json!({"type":"model.call_final_result","data":{"result":"http_400"}})),
    ];
    for (agent, event) in others {
        for (file, mut lines) in read_recorded(agent) {
            lines.insert(1, event.to_string());
            let reply = read_reply(&contract, lines.join("\n").as_bytes(), format_of(agent)).outcome;
            assert!(!reply.is_good(), "{} {event}", file.display());
            tried += 1;
        }
    }
    for (file, lines) in read_recorded("claude") {
        let last = lines.iter().rposition(|line| line.contains("\"type\":\"assistant\"")).unwrap();
        let mut lines = lines;
        lines[last] = lines[last].replace("\"stop_reason\":null", "\"stop_reason\":\"max_tokens\"");
        assert!(lines[last].contains("max_tokens"));
        let reply = read_reply(&contract, lines.join("\n").as_bytes(), format_of("claude")).outcome;
        assert!(!reply.is_good(), "{}", file.display());
        tried += 1;
    }
    print_measurement(&format!("{tried} events that report an error or do not, each read as what it is"));
}

#[test]
fn result_without_message_is_a_doubt() {
    let contract = review_contract();
    let stream = |said: &str, result: &str| {
        let events = [
            json!({"type":"system","subtype":"init","session_id":"s"}),
            json!({"type":"assistant","message":{"id":"m","content":[{"type":"text","text":said}]}}),
            json!({"type":"result","subtype":"success","is_error":false,"result":result}),
        ];
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        read_reply(&contract, lines.as_bytes(), format_of("claude")).outcome
    };
    assert_eq!(stream(PASS, PASS), Outcome::Pass);
    for said in ["I cannot say.", "It has a hole.", "<review>VERDICT</review>", " "] {
        assert!(!stream(said, PASS).is_good(), "{said}");
        assert!(!stream(PASS, said).is_good(), "{said}");
    }
}

/// The reader accepts a line as an event if and only if serde_json does.
#[test]
fn events_match_serde_json() {
    let rounds = if is_long_run() { 1_000_000 } else { 20_000 };
    let contract = review_contract();
    let text = |text: &str| json!({"type":"assistant","message":{"id":text,"content":[{"type":"text","text":text}]}});
    let seeds = [
        json!({"type":"x","a":[1,-2.5e3,0,1e-7,{"b":[[],{}]}],"c":"\u{1F600} é \" \\ \n \u{1}","d":null,"e":[true,false]}),
        json!({"type":"user","message":{"content":[{"type":"tool_result","content":"\u{FFFD}\u{10FFFF}"}]}}),
        json!({"type":"system","subtype":"other","deep":[[[[[[[[[[0]]]]]]]]]]}),
    ];
    let seeds: Vec<String> = seeds
        .iter()
        .map(Value::to_string)
        .chain(["{\"type\" : \"x\" , \"\\u00e9\\ud83d\\ude00\" : [ 1 , 2 ] , \"n\":-0.0E+1 }".to_owned()])
        .collect();
    let bits: [&[u8]; 24] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"0",
        b"-",
        b".",
        b"e",
        b"1",
        b" ",
        b"\t",
        b"\r",
        b"\\u",
        b"\\ud800",
        b"\\udc00",
        b"\xF0\x9F",
        b"\xC3",
        b"\x80",
        b"\0",
        b"tru",
    ];
    let mut dice = Dice(0xD1B5_4A32_D192_ED03);
    let mut accepted = 0;
    for _ in 0..rounds {
        let mut line = seeds[dice.below(seeds.len())].clone().into_bytes();
        for _ in 0..dice.below(4) {
            let at = dice.below(line.len());
            match dice.below(3) {
                0 => drop(line.remove(at)),
                1 => drop(line.splice(at..at, bits[dice.below(bits.len())].iter().copied())),
                _ => line[at] = u8::try_from(dice.below(256)).unwrap(),
            }
        }
        if line.contains(&b'\n') || line.trim_ascii().is_empty() {
            continue;
        }
        let expected = match serde_json::from_slice::<Value>(&line) {
            Ok(event) => event.is_object() && event["type"].is_string(),
            // The reader does not limit the size of numbers.
            Err(error) if error.to_string().contains("out of range") => continue,
            Err(_) => false,
        };
        // serde_json accepts a duplicate key.
        let twice = line.windows(7).filter(|bytes| bytes == b"\"type\":").count() > seeds.len();
        if twice {
            continue;
        }
        let begin = "{\"type\":\"system\",\"subtype\":\"init\"}\n".as_bytes();
        let end =
            format!("\n{}\n{{\"type\":\"result\",\"is_error\":false,\"result\":\"{PASS}\"}}\n", text(PASS));
        let stream = [begin, &line, end.as_bytes()].concat();
        let reply = read_reply(&contract, &stream, format_of("claude"));
        let is_mixed = reply.problems.iter().any(|problem| problem.code == ProblemCode::StreamMixed);
        assert_eq!(!is_mixed, expected, "{}: {:?}", String::from_utf8_lossy(&line), reply.problems);
        accepted += usize::from(expected);
    }
    assert!(accepted > rounds / 10 && accepted < rounds, "{accepted}");
}

/// The reply is the same, regardless of the pieces in which the output arrives.
#[test]
fn reply_ignores_output_chunking() {
    let rounds = if is_long_run() { 2_000 } else { 40 };
    let contract = review_contract();
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    for agent in AGENTS {
        let format = format_of(agent);
        for (file, lines) in read_recorded(agent) {
            let stream = Changed::new(&lines).bytes();
            let plain = "\u{feff}é \u{1F600}\n\n<review>PASS</review>\n".repeat(20).into_bytes();
            let torn: Vec<u8> = stream.iter().copied().filter(|_| dice.below(200) > 0).collect();
            let bytes: Vec<u8> = (0..2000).map(|_| u8::try_from(dice.below(256)).unwrap()).collect();
            for output in [stream, plain, torn, bytes] {
                let whole = read(&asked, &output, format);
                for _ in 0..rounds {
                    let mut reader = StreamReader::new(format, &mut || Box::new(Vec::new()));
                    let mut rest = &output[..];
                    while !rest.is_empty() {
                        let (piece, after) = rest.split_at(rest.len().min(1 + dice.below(300)));
                        reader.take(piece);
                        rest = after;
                    }
                    let StreamText { text, last_message, doubts } = reader.finish();
                    let reply =
                        read_text(&asked, StreamText { text: Cow::Owned(text), last_message, doubts });
                    assert_eq!(reply.outcome, whole.outcome, "{}", file.display());
                    assert_eq!(reply.text.to_string(), whole.text.to_string(), "{}", file.display());
                    assert_eq!(reply.problems, whole.problems, "{}", file.display());
                }
            }
        }
    }
}

/// Up to 64 MiB of text are judged in full; with one byte more no reply is good. Results of tools do not
/// count.
#[test]
fn text_limit_is_64_mebibytes() {
    let contract = review_contract();
    let end = format!("\n\n{PASS}\n");
    for (over, outcome) in [(0, Outcome::Pass), (1, Outcome::NoVerdict)] {
        let mut text = vec![b'x'; MOST_TEXT + over - end.len()];
        text.extend(end.bytes());
        let reply = read_reply(&contract, &text, &OutputSpec::default());
        assert_eq!(reply.outcome, outcome);
        let is_too_long = reply.problems.iter().any(|problem| problem.code == ProblemCode::TooLong);
        assert_eq!(is_too_long, over > 0);
    }
    let event = |item: Value| json!({"type":"item.completed","item":item}).to_string();
    let filler = "x".repeat(MOST_TEXT);
    for (kind, outcome) in [("command_execution", Outcome::Pass), ("agent_message", Outcome::NoVerdict)] {
        let stream = [
            "{\"type\":\"thread.started\"}".to_owned(),
            event(json!({"type":kind,"text":filler})),
            event(json!({"type":"agent_message","text":PASS})),
            "{\"type\":\"turn.completed\"}\n".to_owned(),
        ];
        let stream = stream.join("\n");
        assert_eq!(read_reply(&contract, stream.as_bytes(), format_of("codex")).outcome, outcome, "{kind}");
    }
}

/// A sink that loses data.
#[derive(Debug)]
struct LeakySink(Vec<u8>, usize);

impl TextSink for LeakySink {
    fn push(&mut self, bytes: &[u8]) -> bool {
        TextSink::push(&mut self.0, bytes) && self.0.len() < self.1
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn read(&mut self, at: usize, into: &mut [u8]) -> bool {
        TextSink::read(&mut self.0, at, into)
    }

    fn into_bytes(self: Box<Self>) -> Option<Vec<u8>> {
        Some(self.0)
    }
}

/// A reply is not good if its text was not kept in full.
#[test]
fn failing_sink_is_a_doubt() {
    let contract = review_contract();
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt: None };
    for agent in AGENTS {
        for (_, lines) in read_recorded(agent) {
            for limit in [0, 10] {
                let mut reader =
                    StreamReader::new(format_of(agent), &mut || Box::new(LeakySink(Vec::new(), limit)));
                reader.take(&Changed::new(&lines).bytes());
                let StreamText { text, last_message, doubts } = reader.finish();
                let reply = read_text(&asked, StreamText { text: Cow::Owned(text), last_message, doubts });
                let is_lost =
                    reply.problems.iter().any(|problem| problem.code == ProblemCode::OutputIncomplete);
                assert!(is_lost && !reply.outcome.is_good(), "{agent} {limit}: {:?}", reply.problems);
            }
        }
    }
}
