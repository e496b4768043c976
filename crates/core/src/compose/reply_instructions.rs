//! The demands of a contract as rows: the recipe words them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use crate::compose::derive::use_value;
use crate::compose::fill::DerivedRow;
use crate::compose::{Composer, supplied_block};
use crate::diag::Code;
use crate::library::contract;
use crate::library::contract::ONE_TASK;
use crate::library::contract::paths::add_suffix;
use crate::library::contract::{Contract, ContractChoice, FieldType, Submission, SubmissionField};
use crate::library::recipe::{self, DeriveSpec};
use crate::library::template::find_literal;
use crate::library::yaml::write_compact_yaml;
use crate::prompt::{Block, Piece};
use crate::source::SourceId;
use crate::source::origin::{OriginKind, Trust};
use crate::text::SharedText;
use crate::text::name::is_name;

/// The name of the MCP server; agents show it in the names of its tools.
pub(crate) const SERVER: &str = "callsheet";

/// Returns rows for the contracts that the recipe names, or else for the contract of the phase. A phase
/// without a contract has no rows.
pub(crate) fn contract_rows(c: &mut Composer<'_>, name: &str, spec: &DeriveSpec) -> Option<Vec<DerivedRow>> {
    let of_phase = spec.contract.is_empty();
    let phase = c.field(recipe::RequestField::Phase).filter(|_| of_phase).map(String::from);
    let mut rows = Vec::new();
    for contract in spec.contract.iter().cloned().chain(phase) {
        match contract::find_contract_file(c.library, &contract, &c.request.layout) {
            Ok((id, text, read)) => {
                InstructionWriter { c, name, id, text }.push_contract_rows(&contract, &read, &mut rows)
            }
            Err(failure) if of_phase && failure.0.iter().all(|diag| diag.code == Code::ContractNotFound) => {
                return None;
            }
            Err(failure) => c.errors.extend(failure.0),
        }
    }
    Some(rows)
}

/// Returns the agent's name for the tool of a contract.
pub(crate) fn tool_name(c: &Composer<'_>, contract: &str) -> String {
    let pattern = c.agent.tools.mcp.as_deref().unwrap_or("{tool}");
    pattern.replace("{server}", SERVER).replace("{tool}", contract)
}

struct InstructionWriter<'w, 'c> {
    c: &'w mut Composer<'c>,
    /// The name of the derived value.
    name: &'w str,
    /// The file of the contract.
    id: SourceId,
    text: SharedText,
}

impl InstructionWriter<'_, '_> {
    fn push_contract_rows(&mut self, name: &str, contract: &Contract, rows: &mut Vec<DerivedRow>) {
        for (all, one, choices) in [
            ("verdicts", "verdict", &contract.verdict),
            ("tasks", "task_status", &contract.task_status),
            ("parts", "part", &contract.part),
        ] {
            if !choices.is_empty() {
                rows.push(match contract.tasks.as_slice() {
                    // The wording `tasks` itself names `ONE_TASK`; any other single task needs its own row.
                    [task] if all == "tasks" && task != ONE_TASK => {
                        DerivedRow { kind: "task", fields: alloc::vec![("task", self.quoted_block(task))] }
                    }
                    _ => DerivedRow { kind: all, fields: Vec::new() },
                });
                rows.extend(choices.iter().map(|choice| self.choice_row(one, choice)));
            }
        }
        if !contract.verdict.is_empty() || !contract.task_status.is_empty() {
            rows.extend(["question", "thought"].map(|kind| DerivedRow { kind, fields: Vec::new() }));
        }
        if let Some(submission) = &contract.submission {
            rows.push(self.submission_row(name, &contract.description, submission));
        }
    }

    fn choice_row(&mut self, kind: &'static str, choice: &ContractChoice) -> DerivedRow {
        let fields =
            alloc::vec![("name", self.quoted_block(&choice.name)), ("when", self.quoted_block(&choice.when))];
        DerivedRow { kind, fields }
    }

    /// Returns the row for the submission: the tool as the agent calls it, and the file for an agent without
    /// it. Each of several authors has a separate file.
    fn submission_row(&mut self, name: &str, description: &str, submission: &Submission) -> DerivedRow {
        let tool = self.generated_block("tool", tool_name(self.c, name));
        let mut fields = alloc::vec![("tool", tool), ("description", self.quoted_block(description))];
        let mut data = Map::new();
        if let Some(suffix) = &submission.suffix {
            let author = use_value(self.c, "review_role").map(|author| author.to_string());
            let author = author.filter(|author| is_name(author) && !submission.roles.contains(author));
            if let Some(author) = author {
                fields.push(("author", self.generated_block("author", author.clone())));
                data.insert(suffix.clone(), author.into());
            }
        }
        if let Some(file) = &submission.file {
            let file = add_suffix(file, submission.suffix.as_deref(), &data);
            fields.push(("file", self.generated_block("file", file)));
        }
        let example = write_compact_yaml(&build_example(&submission.field));
        fields.push(("example", self.generated_block("example", example.trim_end().to_string())));
        DerivedRow { kind: if data.is_empty() { "submission" } else { "submission_as" }, fields }
    }

    /// Returns words of the contract's file as a block.
    fn quoted_block(&mut self, words: &str) -> Block {
        let Some(place) = find_literal(&self.text, words) else {
            return self.generated_block("words", words.to_string());
        };
        let origin = self.c.source_origin(&self.id, &self.text);
        self.mark_supplied("words", Piece { origin, start: place.start, end: place.end })
    }

    /// Returns a text that was generated from the contract as a block.
    fn generated_block(&mut self, field: &str, text: String) -> Block {
        let from = OriginKind::new_derived(self.name, field);
        let block = self.c.text_block(field, from, Trust::from_root(self.id.root()), text.into());
        self.mark_supplied(field, block.pieces[0])
    }

    /// Marks a project's own contract as supplied, so that it cannot pass for structure. Callsheet's own
    /// needs no tags.
    fn mark_supplied(&self, name: &str, piece: Piece) -> Block {
        let mut block = supplied_block(name, piece);
        if Trust::from_root(self.id.root()) == Trust::Ours {
            block.supplied.clear();
        }
        block
    }
}

/// Returns the example that an instruction shows: every field that has one, except fields with a fixed value.
fn build_example(fields: &[SubmissionField]) -> Map<String, Value> {
    let mut map = Map::new();
    for field in fields.iter().filter(|field| field.fixed.is_none()) {
        let inner = || {
            Some(Value::Object(build_example(&field.field)))
                .filter(|inner| inner != &Value::Object(Map::new()))
        };
        let value = field.example.clone().or_else(|| match field.kind {
            FieldType::Items => Some(Value::Array(alloc::vec![inner()?])),
            FieldType::Map => inner(),
            _ => None,
        });
        map.extend(value.map(|value| (field.name.clone(), value)));
    }
    map
}
