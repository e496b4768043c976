//! A short value that fits a JSON Schema, for a CLI that asks its model for JSON.

use serde_json::{Map, Value, json};

/// The most levels of a value.
const MOST_LEVELS: usize = 8;

/// Returns a short value that fits the usual keywords of a schema. Gemini writes the types in capitals.
pub(crate) fn shortest_value(schema: &Value) -> Value {
    value_at(schema, MOST_LEVELS)
}

fn value_at(schema: &Value, levels: usize) -> Value {
    if let Some(given) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
        return given.clone();
    }
    for union in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(union).and_then(|union| union.get(0)).filter(|_| levels > 0) {
            return value_at(first, levels - 1);
        }
    }
    let named = |kind: &Value| kind.as_str().map(str::to_ascii_lowercase);
    let kind = schema.get("type").and_then(|kind| named(kind).or_else(|| named(kind.get(0)?)));
    match kind.as_deref() {
        Some("object") | None if levels > 0 => object_at(schema, levels - 1),
        Some("array") => Value::Array(Vec::new()),
        Some("number" | "integer") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("string") => json!("ok"),
        _ => Value::Null,
    }
}

fn object_at(schema: &Value, levels: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_none_or(|names| names.iter().any(|known| known == name));
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let fields = properties.filter(|(name, _)| is_required(name));
    Value::Object(
        fields.map(|(name, schema)| (name.clone(), value_at(schema, levels))).collect::<Map<_, _>>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_their_schemas() {
        let router = json!({
            "type": "OBJECT", "required": ["why", "score"],
            "properties": {
                "why": { "type": "STRING" },
                "score": { "type": "INTEGER", "minimum": 1, "maximum": 100 },
                "more": { "type": "ARRAY" },
            },
        });
        assert_eq!(shortest_value(&router), json!({ "why": "ok", "score": 1 }));
        let all =
            json!({ "properties": { "a": { "enum": ["x", "y"] }, "b": { "type": ["null", "string"] } } });
        assert_eq!(shortest_value(&all), json!({ "a": "x", "b": null }));
        assert_eq!(shortest_value(&json!({ "anyOf": [{ "type": "boolean" }] })), json!(false));
    }
}
