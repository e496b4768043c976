//! Finds and reads contracts, and checks their words, fields and slots.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::verdict::{Status, Verdict};
use super::{Contract, ContractChoice, Submission, SubmissionField};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::layout::Layout;
use crate::library::lookup::DynLibrary;
use crate::library::read_toml::{FileFormat, ReadErrorCodes, check_length, find_file, read_data};
use crate::library::template::{TemplateNode, TextRange, parse_braces};
use crate::source::SourceId;
use crate::text::SharedText;

/// Reads and checks a contract.
pub fn read_contract(id: &SourceId, text: &SharedText) -> Result<Contract, Diagnostics> {
    check_length(id, text, Code::ContractBad)?;
    let codes = ReadErrorCodes { bad: Code::ContractBad, unknown: Code::ContractBad };
    let contract: Contract = read_data(&id.to_string(), text, FileFormat::Toml, codes)?;
    let unknown = contract.submission.as_ref().map(find_unknown_slots).unwrap_or_default();
    let bad = |slot: String| Diagnostic::error(Code::ContractBad, format!("{id}: nothing fills `{slot}`"));
    let mut wrong: Vec<Diagnostic> = unknown.into_iter().map(bad).collect();
    let mut fields: Vec<&str> = contract
        .submission
        .iter()
        .flat_map(|submission| &submission.field)
        .map(|field| field.name.as_str())
        .collect();
    fields.sort_unstable();
    for pair in fields.windows(2).filter(|pair| pair[0] == pair[1]) {
        wrong.push(Diagnostic::error(Code::ContractBad, format!("{id}: duplicate field `{}`", pair[0])));
    }
    let mut compare = |what: &str, said: &[ContractChoice], known: Vec<&str>| {
        for word in said.iter().map(|choice| &choice.name).filter(|word| !known.contains(&word.as_str())) {
            let message = format!("{id}: unknown {what} `{word}`");
            let hint = format!("known words: {}", known.join(", "));
            wrong.push(
                Diagnostic::error(Code::ContractBad, message).suggest(word, known.iter().copied()).hint(hint),
            );
        }
    };
    compare("verdict", &contract.verdict, Verdict::ALL.iter().map(|verdict| verdict.name()).collect());
    compare("status", &contract.task_status, Status::ALL.iter().map(|status| status.name()).collect());
    if wrong.is_empty() { Ok(contract) } else { Err(Diagnostics(wrong)) }
}

/// Finds and reads the contract `name`. Returns the id of its file, too.
pub fn find_contract(
    library: &DynLibrary<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, Contract), Diagnostics> {
    let (id, _, contract) = find_contract_file(library, name, layout)?;
    Ok((id, contract))
}

/// Finds and reads the contract `name`. Returns the id and the text of its file, too.
pub(crate) fn find_contract_file(
    library: &DynLibrary<'_>,
    name: &str,
    layout: &Layout,
) -> Result<(SourceId, SharedText, Contract), Diagnostics> {
    let (id, text) = find_file(library, "contracts", name, layout, Code::ContractNotFound)?;
    let contract = read_contract(&id, &text)?;
    Ok((id, text, contract))
}

/// Returns every slot in the wordings of the submission that no field fills.
fn find_unknown_slots(submission: &Submission) -> Vec<String> {
    let mut unknown = Vec::new();
    let known: Vec<&str> = submission.field.iter().map(|field| field.name.as_str()).collect();
    for companion in &submission.write {
        collect_unknown_slots(&companion.text, &known, &mut unknown);
    }
    collect_field_slots(&submission.field, &mut unknown);
    unknown
}

fn collect_field_slots(fields: &[SubmissionField], unknown: &mut Vec<String>) {
    for field in fields {
        let mut known: Vec<&str> = field.field.iter().map(|field| field.name.as_str()).collect();
        known.extend(["number", "text"]);
        collect_unknown_slots(field.each.as_deref().unwrap_or_default(), &known, unknown);
        collect_unknown_slots(field.wrap.as_deref().unwrap_or_default(), &["rows"], unknown);
        collect_field_slots(&field.field, unknown);
    }
}

fn collect_unknown_slots(words: &str, known: &[&str], unknown: &mut Vec<String>) {
    for node in parse_braces(words, TextRange { start: 0, end: words.len() }) {
        match node {
            TemplateNode::Slot(name) if !known.contains(&name.slice(words)) => {
                unknown.push(name.slice(words).to_string())
            }
            TemplateNode::Fragment(name) => unknown.push(["> ", name.slice(words)].concat()),
            _ => {}
        }
    }
}
