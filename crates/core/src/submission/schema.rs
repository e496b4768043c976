//! Builds the JSON Schema of a submission, for the tool that submits it.
//!
//! It uses only keywords that every agent's API accepts: no `if`, no `oneOf`. Rules that depend on other
//! fields are reported by `submit`.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use crate::library::contract::{FieldRequirement, FieldType, Submission, SubmissionField};
use crate::library::preferences;

/// Builds the schema. `roles` are the roles that a preference can be for.
pub fn build_schema(submission: &Submission, roles: &[String]) -> Value {
    object_schema(&submission.field, roles)
}

fn object_schema(fields: &[SubmissionField], roles: &[String]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.clone(), property_schema(field, roles))).collect();
    let is_required = |field: &&SubmissionField| field.required == FieldRequirement::Always(true);
    let required: Vec<&str> = fields.iter().filter(is_required).map(|field| field.name.as_str()).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property_schema(field: &SubmissionField, roles: &[String]) -> Value {
    let text = json!({ "type": "string" });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let mut schema = match field.kind {
        FieldType::Text | FieldType::Glob => text,
        FieldType::Name => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$" }),
        FieldType::Slug => json!({ "type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$" }),
        FieldType::Integer => json!({ "type": "integer" }),
        FieldType::Boolean => json!({ "type": "boolean" }),
        FieldType::Choice => json!({ "type": "string", "enum": field.choices }),
        FieldType::Texts | FieldType::Globs => list(text),
        FieldType::Integers => list(json!({ "type": "integer" })),
        FieldType::Map => object_schema(&field.field, roles),
        FieldType::Items => list(object_schema(&field.field, roles)),
        FieldType::Preferences => {
            let [role, bullet] = preferences::FIELDS;
            list(json!({
                "type": "object",
                "properties": { role: { "type": "string", "enum": roles }, bullet: { "type": "string" } },
                "required": preferences::FIELDS,
                "additionalProperties": false,
            }))
        }
    };
    let always = field.required == FieldRequirement::Always(true);
    match (field.kind, field.at_least) {
        (FieldType::Integer, Some(least)) => schema["minimum"] = least.into(),
        // In an optional field, an empty list counts as not given.
        (FieldType::Texts | FieldType::Globs | FieldType::Integers | FieldType::Items, Some(least))
            if always =>
        {
            schema["minItems"] = least.into();
        }
        (FieldType::Text | FieldType::Glob, _) if always => schema["minLength"] = 1.into(),
        _ => {}
    }
    if let Some(fixed) = field.fixed {
        schema["minimum"] = fixed.into();
        schema["maximum"] = fixed.into();
    }
    schema["description"] = field.description.clone().into();
    schema
}
