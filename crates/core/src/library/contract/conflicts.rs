//! Finds values that contradict each other, although each is valid by itself.

use alloc::format;
use alloc::vec::Vec;

use serde_json::Value;

use super::SubmissionValues;
use crate::diag::{Code, Diagnostic};
use crate::library::contract::SubmissionField;

/// Reports every choice in the data that another field forbids.
pub(crate) fn find_conflicts(fields: &[SubmissionField], data: &SubmissionValues) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    collect_conflicts(fields, data, data, "", &mut found);
    found
}

fn collect_conflicts(
    fields: &[SubmissionField],
    here: &SubmissionValues,
    whole: &SubmissionValues,
    above: &str,
    found: &mut Vec<Diagnostic>,
) {
    for field in fields {
        let Some(value) = here.get(&field.name) else { continue };
        let at = format!("{above}{}", field.name);
        let others = value.as_str().and_then(|choice| field.never.get(choice)).into_iter().flatten();
        for (other, forbidding) in others
            .filter(|(other, forbidding)| whole.get(*other).and_then(Value::as_str) == Some(*forbidding))
        {
            let choice = value.as_str().unwrap_or_default();
            let message =
                format!("`{at}` is `{choice}`, but `{other}` is `{forbidding}`: change one of them");
            found.push(Diagnostic::error(Code::SubmissionBad, message));
        }
        match value {
            Value::Object(map) => collect_conflicts(&field.field, map, whole, &format!("{at}."), found),
            Value::Array(entries) => {
                for (nth, map) in
                    entries.iter().enumerate().filter_map(|(nth, entry)| Some((nth, entry.as_object()?)))
                {
                    collect_conflicts(&field.field, map, whole, &format!("{at}[{}].", nth + 1), found);
                }
            }
            _ => {}
        }
    }
}
