//! What a contract asks for, as rows: the words around them are the recipe's.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use crate::compose::{Composer, supplied_block};
use crate::contract::{Choice, Contract, Field, Kind, Required, Submission};
use crate::data;
use crate::diag::Code;
use crate::fill::Row;
use crate::prompt::{Block, From, Piece, Trust};
use crate::recipe::{self, Derive};
use crate::source::SourceId;
use crate::submission;
use crate::template::written;
use crate::text::Text;

/// What the submission server is called where a tool's name holds it.
pub(crate) const SERVER: &str = "callsheet";

/// Rows for the contracts that the recipe names, or else for that of the phase. A phase without one asks for
/// nothing.
pub(crate) fn rows(c: &mut Composer<'_>, name: &str, spec: &Derive) -> Option<Vec<Row>> {
    let of_phase = spec.contract.is_empty();
    let phase = c.field(recipe::Field::Phase).filter(|_| of_phase).map(String::from);
    let mut rows = Vec::new();
    for contract in spec.contract.iter().cloned().chain(phase) {
        match data::contract_file(c.library, &contract, &c.request.layout) {
            Ok((id, text, read)) => Wording { c, name, id, text }.contract(&contract, &read, &mut rows),
            Err(failure) if of_phase && failure.0.iter().all(|diag| diag.code == Code::ContractNotFound) => {
                return None;
            }
            Err(failure) => c.errors.extend(failure.0),
        }
    }
    Some(rows)
}

/// What the agent calls the tool of a contract.
pub(crate) fn tool(c: &Composer<'_>, contract: &str) -> String {
    let pattern = c.agent.tools.mcp.as_deref().unwrap_or("{tool}");
    pattern.replace("{server}", SERVER).replace("{tool}", contract)
}

struct Wording<'w, 'c> {
    c: &'w mut Composer<'c>,
    /// The derived value.
    name: &'w str,
    /// The contract's file.
    id: SourceId,
    text: Text,
}

impl Wording<'_, '_> {
    fn contract(&mut self, name: &str, contract: &Contract, rows: &mut Vec<Row>) {
        for (all, one, choices) in [
            ("verdicts", "verdict", &contract.verdict),
            ("tasks", "task_status", &contract.task_status),
            ("parts", "part", &contract.part),
        ] {
            if !choices.is_empty() {
                rows.push(Row { kind: all, fields: Vec::new() });
                rows.extend(choices.iter().map(|choice| self.choice(one, choice)));
            }
        }
        if !contract.verdict.is_empty() || !contract.task_status.is_empty() {
            rows.push(Row { kind: "thought", fields: Vec::new() });
        }
        if let Some(submission) = &contract.submission {
            self.submission(name, &contract.description, submission, rows);
        }
    }

    fn choice(&mut self, kind: &'static str, choice: &Choice) -> Row {
        let fields = alloc::vec![("name", self.said(&choice.name)), ("when", self.said(&choice.when))];
        Row { kind, fields }
    }

    fn submission(&mut self, name: &str, description: &str, submission: &Submission, rows: &mut Vec<Row>) {
        let description = self.said(description);
        let example = example(&submission.field);
        let example = match &submission.file {
            Some(file) if !self.c.request.mcp => {
                let file = self.said(file);
                rows.push(Row {
                    kind: "file",
                    fields: alloc::vec![("file", file), ("description", description)],
                });
                submission::as_yaml(&example)
            }
            _ => {
                let tool = self.made("tool", tool(self.c, name));
                rows.push(Row {
                    kind: "tool",
                    fields: alloc::vec![("tool", tool), ("description", description)],
                });
                format!("{:#}", Value::Object(example))
            }
        };
        self.fields("", &submission.field, rows);
        let example = self.made("example", example.trim_end().to_string());
        rows.push(Row { kind: "example", fields: alloc::vec![("example", example)] });
    }

    fn fields(&mut self, above: &str, fields: &[Field], rows: &mut Vec<Row>) {
        for field in fields {
            let path = format!("{above}{}", field.name);
            let kind = match field.kind {
                Kind::Choice => field.choices.join(" | "),
                kind => kind.name().to_string(),
            };
            let mut said = alloc::vec![
                ("path", self.made("path", path.clone())),
                ("type", self.made("type", kind)),
                ("description", self.said(&field.description)),
            ];
            let needed = match &field.required {
                Required::Always(true) => "required",
                Required::Always(false) => "optional",
                Required::Where(others) => {
                    let (other, value) =
                        others.iter().next().map_or(("", ""), |(a, b)| (a.as_str(), b.as_str()));
                    said.push(("field", self.made("field", other.to_string())));
                    said.push(("value", self.made("value", value.to_string())));
                    "where"
                }
            };
            rows.push(Row { kind: needed, fields: said });
            let each = if field.kind == Kind::Items { "[]." } else { "." };
            self.fields(&format!("{path}{each}"), &field.field, rows);
        }
    }

    /// Words of the contract's file.
    fn said(&mut self, words: &str) -> Block {
        let Some(place) = written(&self.text, words) else { return self.made("words", words.to_string()) };
        let origin = self.c.source_origin(&self.id, &self.text);
        self.ours_or_supplied("words", Piece { origin, start: place.start, end: place.end })
    }

    /// A text that was made of what the contract says.
    fn made(&mut self, field: &str, text: String) -> Block {
        let from = From::derived(self.name, field);
        let block = self.c.text_block(field, from, Trust::of(self.id.root()), text.into());
        self.ours_or_supplied(field, block.pieces[0])
    }

    /// A project's own contract must not pass for structure; ours needs no tags.
    fn ours_or_supplied(&self, name: &str, piece: Piece) -> Block {
        let mut block = supplied_block(name, piece);
        if Trust::of(self.id.root()) == Trust::Ours {
            block.supplied.clear();
        }
        block
    }
}

/// The example that an instruction shows: every field that has one.
pub(crate) fn example(fields: &[Field]) -> Map<String, Value> {
    let mut map = Map::new();
    for field in fields {
        let inner = || Value::Object(example(&field.field));
        let value = match field.kind {
            Kind::Items => field.example.clone().or_else(|| Some(Value::Array(alloc::vec![inner()]))),
            Kind::Map => Some(inner()),
            _ => field.example.clone(),
        };
        map.extend(value.map(|value| (field.name.clone(), value)));
    }
    map
}
