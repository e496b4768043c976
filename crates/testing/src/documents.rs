//! Checks every JSON document that callsheet prints in a test against its published schema.

#![expect(clippy::panic, reason = "a document that does not fit its schema fails the test")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::Value;

use crate::output::CommandOutput;

/// The validators that were made so far, by the names of their schemas.
static VALIDATORS: LazyLock<Mutex<BTreeMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The commands whose JSON has a format of its own.
const OWN_FORMATS: [&str; 5] = ["schema", "export", "man", "completions", "mcp"];

/// Checks the documents on both streams of a command, if the command is callsheet.
///
/// # Panics
///
/// If a document does not fit its schema, or has none.
pub(crate) fn check_documents(command: &Command, output: &CommandOutput) {
    let program = command.get_program();
    if !is_callsheet(program) {
        return;
    }
    let args: Vec<&OsStr> = command.get_args().take_while(|arg| *arg != "--").collect();
    let has_own_format = args.iter().any(|arg| OWN_FORMATS.iter().any(|known| arg == known));
    let must_fit = args.iter().any(|arg| *arg == "--json") && !has_own_format;
    for stream in [&output.stdout, &output.stderr] {
        for line in String::from_utf8_lossy(stream).lines().filter(|line| line.starts_with('{')) {
            let document = serde_json::from_str(line).ok();
            let name = document.as_ref().and_then(|document: &Value| document["schema"].as_str());
            match (name, &document) {
                (Some(name), Some(document)) if name.starts_with("callsheet/") => {
                    check_document(program, name, document);
                }
                _ => assert!(!must_fit, "a document without a schema: {line}"),
            }
        }
    }
}

/// Checks whether a program is callsheet, by its name.
pub(crate) fn is_callsheet(program: &OsStr) -> bool {
    program.to_string_lossy().ends_with("/callsheet")
}

fn check_document(program: &OsStr, name: &str, document: &Value) {
    let validator = find_validator(program, name);
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {}\n{document}", errors.join("\n"));
}

fn find_validator(program: &OsStr, name: &str) -> Arc<Validator> {
    let mut known = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(validator) = known.get(name) {
        return Arc::clone(validator);
    }
    let short = name.split('/').nth(1).unwrap_or_default();
    let printed = Command::new(program).args(["schema", short]).output();
    let schema = printed.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
    let Some(schema) = schema else { panic!("no schema for {name}") };
    assert_eq!(schema["$id"], name, "another version of the schema");
    let validator = match jsonschema::validator_for(&schema) {
        Ok(validator) => Arc::new(validator),
        Err(error) => panic!("{name}: {error}"),
    };
    known.insert(name.to_owned(), Arc::clone(&validator));
    validator
}
