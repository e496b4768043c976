//! Naughty strings in every text of a ledger that reaches a page, in templates, addresses and comments: nothing executes, and
//! nothing breaks out of its element.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use callsheet::flow::FlowOptions;
use callsheet_core::record::{ChainLink, Digest, Event, Id, is_record_time, sha256};
use callsheet_testing::{browser_script, naughty_strings, report_missing};
use serde_json::{Value, json};

use super::{AGENT, HOSTILE, finish_journeys, run_task, run_tools, serve, start_flow};
use crate::project::FlowProject;
use crate::rounds::run_before_agent;

/// The most characters of a text: a page shows 4,000.
const MOST_CHARS: usize = 3500;

/// Joins the strings to texts that a page shows whole.
fn join_strings(strings: &[String]) -> Vec<String> {
    let mut texts = vec![HOSTILE.to_owned()];
    for string in strings {
        let last = texts.last_mut().unwrap();
        if last.chars().count() + string.chars().count() > MOST_CHARS {
            texts.push(string.clone());
        } else {
            last.push(' ');
            last.push_str(string);
        }
    }
    texts
}

/// Replaces the texts of an export. The same text gets the same replacement everywhere, so that records still fit together.
#[derive(Default)]
struct TextReplacer {
    numbers: BTreeMap<String, usize>,
    /// The places whose type refuses another text, as the kind of the record and a pointer.
    refused: BTreeSet<String>,
    replaced: BTreeSet<String>,
}

impl TextReplacer {
    fn replace_text(&mut self, text: &str, hostile: &str) -> String {
        let next = self.numbers.len();
        let number = *self.numbers.entry(text.to_owned()).or_insert(next);
        format!("{hostile} {number}")
    }

    /// Replaces the texts of a payload. A text that the type of its record refuses stays as it is.
    fn replace_payload(&mut self, kind: &str, of_flow: bool, payload: &str, hostile: &str) -> String {
        let mut payload: Value = serde_json::from_str(payload).unwrap();
        let mut places = Vec::new();
        list_texts(&payload, String::new(), &mut places);
        for place in places {
            let pattern: Vec<&str> =
                place.split('/').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).collect();
            let pattern = format!("{kind} {}", pattern.join("/"));
            if self.refused.contains(&pattern) {
                continue;
            }
            let leaf = payload.pointer_mut(&place).unwrap();
            let before = leaf.as_str().unwrap().to_owned();
            *leaf = Value::String(self.replace_text(&before, hostile));
            let is_read = is_readable(kind, of_flow, &payload);
            if is_read {
                self.replaced.insert(pattern);
            } else {
                *payload.pointer_mut(&place).unwrap() = Value::String(before);
                self.refused.insert(pattern);
            }
        }
        payload.to_string()
    }

    /// Replaces the texts of an export, and links its records anew.
    fn replace_export(&mut self, export: &str, hostile: &str) -> String {
        let mut lines: Vec<Value> = export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (mut before, mut count) = (Digest([0; 32]), 0);
        for line in &mut lines {
            let Some(record) = line.get_mut("record") else { continue };
            let kind = record["kind"].as_str().unwrap().to_owned();
            if let Some(payload) = record["payload"].as_str() {
                let payload = self.replace_payload(&kind, record["flow"].is_string(), payload, hostile);
                record["payload_sha256"] = json!(sha256(&[payload.as_bytes()]).to_string());
                record["payload"] = json!(payload);
            }
            let text = |name: &str| record[name].as_str();
            let link = ChainLink {
                seq: record["seq"].as_u64().unwrap(),
                run: text("run"),
                flow: text("flow"),
                kind: &kind,
                at: text("at").unwrap(),
                payload: Digest::parse(text("payload_sha256").unwrap()).unwrap(),
            };
            let chain = link.link_after(&before);
            record["before"] = json!(before.to_string());
            record["chain"] = json!(chain.to_string());
            (before, count) = (chain, count + 1);
        }
        assert!(count > 40, "{count}");
        lines[0]["callsheet_export"]["chain"] = json!(before.to_string());
        let end = lines.pop().unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let end = json!({ "end": { "lines": end["end"]["lines"], "sha256": sha256(&[text.as_bytes()]).to_string() } });
        format!("{text}{end}\n")
    }
}

/// Checks whether a payload can be read as a record of its kind; the first one of a flow also as its options.
fn is_readable(kind: &str, of_flow: bool, payload: &Value) -> bool {
    let options = payload.pointer("/event/more").filter(|_| of_flow);
    let has_options = options.is_none_or(|more| serde_json::from_value::<FlowOptions>(more.clone()).is_ok());
    has_options
        && Event::read(kind, &payload.to_string())
            .is_ok_and(|event| event.texts().is_ok() && (!of_flow || event.into_flow_record().is_ok()))
}

/// Lists the places of texts that a person, a file or an agent wrote: no ids, digests and times, and not the parts of a prompt,
/// whose digest is recorded.
fn list_texts(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let is_name = Id::parse(text).is_some() || Digest::parse(text).is_some() || is_record_time(text);
            if !is_name
                && !text.is_empty()
                && !matches!(place.as_str(), "/run/project" | "/event/more/project")
            {
                places.push(place);
            }
        }
        Value::Array(items) => {
            for (item, at) in items.iter().zip(0..) {
                list_texts(item, format!("{place}/{at}"), places);
            }
        }
        Value::Object(map) if place != "/output/parts" => {
            for (key, item) in map.iter().filter(|(key, _)| *key != "parts") {
                let key = key.replace('~', "~0").replace('/', "~1");
                list_texts(item, format!("{place}/{key}"), places);
            }
        }
        _ => {}
    }
}

/// Makes a ledger with runs and flows of every kind.
fn make_ledger(project: &FlowProject) -> String {
    run_before_agent(project, AGENT);
    let script = "cat > src/it.html; cat src/it.html; cat src/it.html >&2; echo half > src/a.txt; echo bad > leaked.txt; \
                  git branch moved; printf '\\n<question>Which one?</question>\\n<review>PASS</review>\\n'";
    let run = run_task(project, "T-1", HOSTILE, script, 5);
    let because = ["--because", "It is needed."];
    let decide = ["-q", "decide", &run, "leaked.txt", "--approve", "--yes"];
    project.run([&decide[..], &because].concat()).expect_code(0);
    run_tools(project, &[]);
    run_tools(project, &["--max-cost", "0.000001"]);
    start_flow(project, "The asking flow");
    let judged = start_flow(project, "The judged flow");
    let flow = ["--flow", judged["name"].as_str().unwrap()];
    project.run([&["-q", "flow", "decide", "--yes", "changes", "Plan it anew."][..], &flow].concat());
    run
}

#[test]
fn naughty_strings_stay_text_everywhere() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows/browser/hostile.cjs");
    let (mut browser, strings) = match (browser_script(&script), naughty_strings()) {
        (Ok(browser), Ok(strings)) => (browser, strings),
        (Err(why), _) | (_, Err(why)) => return report_missing(&format!("naughty strings: {why}")),
    };
    assert!(strings.len() > 400, "{}", strings.len());
    let project = FlowProject::new("quick.sh");
    let run = make_ledger(&project);
    write_templates(&project, &strings);
    let (own, own_address) = serve(&project);
    let export = project.run(["export", "--all"]).expect_code(0).out();
    let mut replacer = TextReplacer::default();
    let (mut servers, mut addresses) = (vec![own], Vec::new());
    for (text, number) in join_strings(&strings).iter().zip(0..) {
        let file = project.write_beside(&format!("export-{number}"), replacer.replace_export(&export, text));
        let ledger = project.beside(&format!("hostile-{number}.db")).display().to_string();
        project.run(["--ledger", &ledger, "import", file.to_str().unwrap()]).expect_code(0);
        let mut command = project.command();
        command.args(["--ledger", &ledger]);
        let (server, address) = super::start_server(command);
        servers.push(server);
        addresses.push(address);
    }
    // The fields that must be among those with another text; everything that the types of records allow is.
    for place in [
        "composed /run/task",
        "composed /run/agent",
        "composed /run/phase",
        "composed /launch/checks/*/name",
        "composed /launch/host",
        "exit /why",
        "exit /agent_version",
        "exit /told/model",
        "decided /what",
        "decided /detail/because",
        "flow /phase",
        "flow /event/lane",
        "flow /event/more/name",
        "observed /checks/*/output",
        "observed /worktree/changed/*/path",
        "observed /worktree/commits/*/ref",
        "replied /reply/questions/*",
        "output /text",
    ] {
        assert!(replacer.replaced.contains(place), "{place}: {:#?}", replacer.replaced);
    }
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    browser.env("OWN", own_address).env("RUN", run).env("WEB", templates);
    browser.env("STRINGS", project.write_beside("strings.json", serde_json::to_string(&strings).unwrap()));
    browser.env("ADDRESSES", json!(addresses).to_string());
    let result = finish_journeys(&mut browser);
    assert_eq!(result["problems"], json!([]), "{:#}", result["problems"]);
    assert!(result["pages"].as_u64().unwrap() > 1000, "{result}");
    drop(servers);
}

/// Writes templates whose names and texts are the strings, as far as the file system takes them.
fn write_templates(project: &FlowProject, strings: &[String]) {
    let text = strings.join("\n");
    let mut names: Vec<String> = strings.iter().map(|string| string.replace('/', "∕")).collect();
    names.retain(|name| !name.is_empty() && name.len() < 200);
    for name in &names {
        let file = project.path().join(".callsheet/templates/system").join(format!("{name}.md"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        // A few hold all strings: a page reads every template.
        std::fs::write(file, if name.contains("script") { &text } else { name }).unwrap();
    }
    assert!(names.len() > 300, "{}", names.len());
}
