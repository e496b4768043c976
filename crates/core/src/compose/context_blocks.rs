//! Named context blocks: text as given, or data as a titled list. `task_depth` becomes execution rules.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use crate::compose::Composer;
use crate::compose::derive::{TaskDepth, depth_row};
use crate::compose::fill::DerivedRow;
use crate::diag::{Code, Diagnostic, push_diagnostic};
use crate::library::omission::{OmissionReason, OmittedInput};
use crate::prompt::{Block, BudgetUnit};
use crate::source::origin::{OriginKind, Trust};
use crate::text::SharedText;

/// Derived values of the recipe that render the two kinds of blocks that are not plain text.
const DATA: &str = "context_data";
const DEPTH: &str = "execution_rules";

impl<'c> Composer<'c> {
    /// Adds the request's context blocks in the order given.
    pub(crate) fn add_context_blocks(&mut self, blocks: &mut Vec<Block>) {
        self.shown.insert("context");
        for (at, context) in self.request.context.iter().enumerate() {
            let first = blocks.len();
            if let Some(text) = &context.text {
                let from = OriginKind::Request(format!("context[{at}].text"));
                blocks.push(self.text_block(context.name.as_str(), from, Trust::Person, text.clone()));
            } else if let Some(data) = context.data.as_ref() {
                if context.name == "task_depth" {
                    blocks.extend(self.depth_block(data));
                } else if !data.is_empty() {
                    blocks.extend(self.data_block(&context.name, at, data));
                }
            }
            for block in &mut blocks[first..] {
                block.unit = Some(BudgetUnit::Context(at));
            }
        }
    }

    fn depth_block(&mut self, data: &Map<String, Value>) -> Option<Block> {
        let mut task = TaskDepth::default();
        let mistakes = self.errors.len();
        for (key, value) in data {
            let place = match key.as_str() {
                "depth" => &mut task.depth,
                "max_depth" => &mut task.max_depth,
                "max_steps" => &mut task.max_steps,
                _ => {
                    push_diagnostic(&mut self.errors, Code::DepthBad, || {
                        Diagnostic::error(Code::DepthBad, format!("`task_depth` has no `{key}`"))
                            .suggest(key, ["depth", "max_depth", "max_steps"])
                    });
                    continue;
                }
            };
            match parse_whole_number(value) {
                Some(number) => *place = number,
                None => {
                    let message = format!(
                        "invalid `{key}` of `task_depth`: {value}: expected a whole number of 0 or more"
                    );
                    self.errors.push(Diagnostic::error(Code::DepthBad, message));
                }
            }
        }
        let spec = self.find_spec_or_omit(DEPTH, "task_depth").filter(|_| self.errors.len() == mistakes)?;
        let row = depth_row(self, DEPTH, task);
        Some(self.render_rows(DEPTH, spec, alloc::vec![row], &[]))
    }

    fn data_block(&mut self, name: &str, at: usize, data: &Map<String, Value>) -> Option<Block> {
        let spec = self.find_spec_or_omit(DATA, name)?;
        let mut rows = Vec::new();
        for (key, value) in data {
            if !self.take_row(2) {
                break;
            }
            let mut field = |field: &'static str, text: SharedText| {
                let from = OriginKind::Request(format!("context[{at}].data.{field}"));
                let mut block = self.text_block(field, from, Trust::Person, text);
                block.supplied.iter_mut().for_each(|supplied| supplied.line = true);
                (field, block)
            };
            let fields = alloc::vec![field("key", key.as_str().into()), field("value", value_text(value))];
            rows.push(DerivedRow { kind: "entry", fields });
        }
        let from = OriginKind::new_derived(DATA, "title");
        let title = self.text_block("title", from, Trust::Person, to_title_case(name).into());
        let mut block = self.render_rows(DATA, spec, rows, &[("title", title)]);
        block.name = name.into();
        Some(block)
    }

    fn find_spec_or_omit(
        &mut self,
        spec: &str,
        block: &str,
    ) -> Option<&'c crate::library::recipe::DeriveSpec> {
        let found = self.spec(spec);
        if found.is_none() {
            let what = format!("context block {block}");
            self.omitted.push(OmittedInput::new(what, OmissionReason::NotShown, ""));
        }
        found
    }
}

fn parse_whole_number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64()?.try_into().ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn value_text(value: &Value) -> SharedText {
    match value {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

/// Converts a name to a title: `system_metadata` → `System Metadata`.
fn to_title_case(name: &str) -> String {
    let words = name.split(['_', '-', ' ']).filter(|word| !word.is_empty()).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    });
    words.collect::<Vec<_>>().join(" ")
}
