//! Checks every answer of callsheet's MCP server in a test against the facts of the protocol's revision.
//!
//! The facts are in `revisions/`: the names and types of fields in the official schemas. The answers come from the
//! commands that a test runs, and from the clients that it starts.

#![expect(clippy::panic, reason = "an answer that does not fit its revision fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::McpServer;
use crate::documents::is_callsheet;
use crate::output::CommandOutput;

/// An answer of the server that fits its revision.
#[derive(Debug, Clone, PartialEq)]
pub struct McpAnswer {
    /// The revision whose facts the answer fits.
    pub revision: &'static str,
    /// The name of the type of the result or of the error.
    pub kind: String,
    /// The whole message.
    pub message: Value,
}

/// The last revision in which a client initializes a session. Answers to earlier ones have no other fields.
const WITH_SESSION: &str = "2025-11-25";

/// The revision in which each request names its version.
const WITHOUT_SESSION: &str = "2026-07-28";

static REVISIONS: LazyLock<[McpRevision; 2]> = LazyLock::new(|| {
    [
        McpRevision::read(WITH_SESSION, include_str!("../revisions/2025-11-25.json")),
        McpRevision::read(WITHOUT_SESSION, include_str!("../revisions/2026-07-28.json")),
    ]
});

/// The facts of a revision.
#[derive(Deserialize)]
struct McpFacts {
    /// The types of results, by method.
    results: BTreeMap<String, String>,
    /// The types of errors with data of their own, by code.
    errors: BTreeMap<String, String>,
    #[serde(rename = "$defs")]
    definitions: Map<String, Value>,
}

struct McpRevision {
    name: &'static str,
    facts: McpFacts,
    /// The validators, by the names of their types.
    validators: BTreeMap<String, Validator>,
}

impl McpRevision {
    fn read(name: &'static str, text: &str) -> Self {
        let mut facts: McpFacts =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        facts.definitions.values_mut().for_each(close_objects);
        let envelopes = ["JSONRPCResultResponse", "JSONRPCErrorResponse", "Error"].map(str::to_owned);
        let kinds = facts.results.values().chain(facts.errors.values()).chain(&envelopes);
        let validators = kinds.map(|kind| {
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": format!("#/$defs/{kind}"),
                "$defs": facts.definitions,
            });
            let validator = jsonschema::options().should_validate_formats(true).build(&schema);
            (kind.clone(), validator.unwrap_or_else(|error| panic!("{name} {kind}: {error}")))
        });
        Self { name, validators: validators.collect(), facts }
    }

    /// Checks a value against a type. The error has every mistake.
    fn check(&self, kind: &str, value: &Value) -> Result<(), String> {
        let Some(validator) = self.validators.get(kind) else { return Err(format!("no facts of {kind}")) };
        let mistakes: Vec<String> = validator
            .iter_errors(value)
            .map(|mistake| format!("{} {kind}{}: {mistake}", self.name, mistake.instance_path()))
            .collect();
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("\n")) }
    }

    /// Checks an answer to a request, and returns the name of its type.
    fn check_answer(&self, request: Option<&Value>, answer: &Value) -> Result<String, String> {
        if let Some(error) = answer.get("error") {
            self.check("JSONRPCErrorResponse", answer)?;
            let kind = self.facts.errors.get(&error["code"].to_string()).map_or("Error", String::as_str);
            self.check(kind, error)?;
            return Ok(kind.to_owned());
        }
        self.check("JSONRPCResultResponse", answer)?;
        let method = request.and_then(|request| request["method"].as_str());
        let Some(method) = method else { return Err(format!("no request has the id {}", answer["id"])) };
        let Some(kind) = self.facts.results.get(method) else {
            return Err(format!("{} has no result of `{method}`", self.name));
        };
        self.check(kind, &answer["result"])?;
        Ok(kind.clone())
    }
}

/// Forbids the fields that an object does not list. A client may ignore a field that it does not know, so a name
/// with a mistake in it would remain unseen.
fn close_objects(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(close_objects);
            let has_fields =
                map.get("type").is_some_and(|kind| kind == "object") && map.contains_key("properties");
            if has_fields && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close_objects),
        _ => {}
    }
}

/// Checks the answers of a server, given all that it read and wrote. The error says which answer does not fit.
pub fn check_mcp_session(input: &[u8], output: &[u8]) -> Result<Vec<McpAnswer>, String> {
    let (input, output) = (String::from_utf8_lossy(input), String::from_utf8_lossy(output));
    let mut requests: Vec<Value> = input.lines().filter_map(|line| read_message(line).ok()).collect();
    let answers: Result<Vec<Value>, String> = output
        .lines()
        .map(|line| read_message(line).map_err(|error| format!("not a message: {error}: {line}")))
        .collect();
    let answers = answers?;
    let agreed = find_agreed_version(&requests, &answers).unwrap_or(WITH_SESSION).to_owned();
    let mut checked = Vec::new();
    for message in answers {
        if let Some(method) = message.get("method") {
            return Err(format!("the server offers no messages of its own, and sent {method}"));
        }
        let id = message.get("id");
        let place = id.and_then(|id| requests.iter().position(|request| request.get("id") == Some(id)));
        let request = place.map(|place| requests.remove(place));
        let revision = find_revision(request.as_ref(), &agreed);
        let mut answer = message.clone();
        // JSON-RPC allows ids that the protocol does not, and an answer repeats the id of the client.
        if request.is_some() && answer["id"].is_f64() {
            answer["id"] = json!(0);
        }
        let kind = revision.check_answer(request.as_ref(), &answer)?;
        checked.push(McpAnswer { revision: revision.name, kind, message });
    }
    Ok(checked)
}

/// Parses a message. An id that is too large a number for the parser becomes a text.
fn read_message(line: &str) -> serde_json::Result<Value> {
    serde_json::from_str(line).or_else(|error| {
        let quoted = quote_number_id(line).ok_or(error)?;
        serde_json::from_str(&quoted)
    })
}

fn quote_number_id(line: &str) -> Option<String> {
    let (before, after) = line.split_once("\"id\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = value.find([',', '}', ' '])?;
    let (id, after) = value.split_at(end);
    id.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        .then(|| format!("{before}\"id\":\"{id}\"{after}"))
}

/// Returns the version in the answer to the client's `initialize`.
fn find_agreed_version<'a>(requests: &[Value], answers: &'a [Value]) -> Option<&'a str> {
    let request = requests.iter().find(|request| request["method"] == "initialize")?;
    let answer = answers.iter().find(|answer| answer["id"] == request["id"])?;
    answer["result"]["protocolVersion"].as_str()
}

/// Returns the revision of the answer to a request: the one that the request names, or else the session's.
fn find_revision(request: Option<&Value>, agreed: &str) -> &'static McpRevision {
    let [with_session, without_session] = &*REVISIONS;
    let version = request
        .and_then(|request| request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str());
    let version = version.unwrap_or(agreed);
    let has_session = ["2024-11-05", "2025-03-26", "2025-06-18", WITH_SESSION].contains(&version);
    if has_session { with_session } else { without_session }
}

/// Checks the answers of a command, if the command is the MCP server.
///
/// # Panics
///
/// If an answer does not fit its revision.
pub(crate) fn check_answers(command: &Command, input: &[u8], output: &CommandOutput) {
    let has = |word: &str| command.get_args().any(|arg| arg == word);
    if is_callsheet(command.get_program()) && has("mcp") && !has("install") {
        let checked = check_mcp_session(input, &output.stdout);
        assert!(checked.is_ok(), "{}", checked.err().unwrap_or_default());
    }
}

impl McpServer {
    /// Returns a server that also copies its input and output into a folder, one pair of files per process. More
    /// arguments may follow.
    pub fn recorded_in(&self, dir: &Path) -> Self {
        let script = r#"tee "$0/$$.in" | "$@" | tee "$0/$$.out""#;
        let words = ["-c", script].map(str::to_owned);
        let words = words.into_iter().chain([dir.display().to_string(), self.command.clone()]);
        let args = words.chain(self.args.iter().cloned()).collect();
        Self { command: "/bin/sh".to_owned(), args, env: self.env.clone() }
    }
}

/// Checks all sessions that were recorded in a folder.
pub fn check_recorded_sessions(dir: &Path) -> io::Result<Vec<McpAnswer>> {
    let mut checked = Vec::new();
    for entry in fs::read_dir(dir)? {
        let input = entry?.path();
        if input.extension().is_some_and(|extension| extension == "in") {
            // A client may kill a server before it answers, or while it writes its last answer.
            let output = fs::read(input.with_extension("out")).unwrap_or_default();
            let end = output.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let session = check_mcp_session(&fs::read(&input)?, &output[..end]);
            checked.extend(session.map_err(io::Error::other)?);
        }
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the words of a schema that are no facts.
    fn find_prose(schema: &Value) -> Vec<String> {
        let Value::Object(map) = schema else {
            return schema.as_array().into_iter().flatten().flat_map(find_prose).collect();
        };
        let prose = ["description", "title", "examples", "default"];
        let found = prose.iter().filter_map(|word| map.get(*word)?.as_str().map(str::to_owned));
        found.chain(map.values().flat_map(find_prose)).collect()
    }

    #[test]
    fn facts_have_no_prose() {
        for revision in &*REVISIONS {
            let definitions = Value::Object(revision.facts.definitions.clone());
            assert_eq!(find_prose(&definitions), [""; 0], "{}", revision.name);
        }
        let described = json!({ "a": [{ "description": "words", "properties": { "description": {} } }] });
        assert_eq!(find_prose(&described), ["words"]);
    }

    #[test]
    fn large_number_is_an_id() {
        let expected = json!({ "a": 1, "id": "1e400", "b": 2 });
        assert_eq!(read_message(r#"{"a":1,"id" : 1e400 ,"b":2}"#).unwrap(), expected);
        assert!(read_message(r#"{"a":1,"id":"x","b":1e400}"#).is_err());
    }
}
