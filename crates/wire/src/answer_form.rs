//! The form of an answer that a request asks for: JSON that fits a schema, in each protocol at another place.

use serde::Deserialize;
use serde_json::Value;

use crate::schema_value::shortest_value;

/// The most values of a body whose schema is read: as values, a list of small numbers needs twenty times its size.
const MOST_VALUES: usize = 100_000;

/// The most bytes of a formed answer, which can repeat a text of the schema.
const MOST_ANSWER: usize = 64 << 10;

#[derive(Deserialize)]
struct FormKeys {
    /// Gemini.
    #[serde(default, rename = "generationConfig")]
    generation: Option<GenerationKeys>,
    /// OpenAI Responses.
    #[serde(default)]
    text: Option<TextKeys>,
    /// OpenAI Chat Completions.
    #[serde(default)]
    response_format: Option<FormatKeys>,
}

#[derive(Deserialize)]
struct GenerationKeys {
    #[serde(default, alias = "responseJsonSchema", rename = "responseSchema")]
    schema: Option<Value>,
}

#[derive(Deserialize)]
struct TextKeys {
    #[serde(default)]
    format: Option<FormatKeys>,
}

#[derive(Deserialize)]
struct FormatKeys {
    #[serde(default)]
    schema: Option<Value>,
    #[serde(default)]
    json_schema: Option<Box<FormatKeys>>,
}

impl FormatKeys {
    fn schema(&self) -> Option<&Value> {
        self.schema.as_ref().or_else(|| self.json_schema.as_ref()?.schema.as_ref())
    }
}

impl FormKeys {
    fn schema(&self) -> Option<&Value> {
        let generation = self.generation.as_ref().and_then(|keys| keys.schema.as_ref());
        let text = || self.text.as_ref()?.format.as_ref()?.schema();
        generation.or_else(text).or_else(|| self.response_format.as_ref()?.schema())
    }
}

/// Returns a short text of the form that a request asks for, or `None` if it asks for none, or for one that is too large.
pub(crate) fn formed_answer(body: &[u8]) -> Option<String> {
    // Every value but the first follows one of these bytes.
    let values = body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b':')).count();
    if values > MOST_VALUES {
        return None;
    }
    let keys: FormKeys = serde_json::from_slice(body).ok()?;
    let formed = shortest_value(keys.schema()?).to_string();
    (formed.len() <= MOST_ANSWER).then_some(formed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_found_in_every_protocol() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#;
        for body in [
            format!(r#"{{"generationConfig":{{"responseSchema":{schema}}}}}"#),
            format!(r#"{{"generationConfig":{{"responseJsonSchema":{schema}}}}}"#),
            format!(r#"{{"text":{{"format":{{"type":"json_schema","schema":{schema}}}}}}}"#),
            format!(r#"{{"response_format":{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}}}"#),
        ] {
            assert_eq!(formed_answer(body.as_bytes()).as_deref(), Some(r#"{"a":1}"#), "{body}");
        }
        for body in ["{}", r#"{"text":"x"}"#, r#"{"response_format":{"type":"text"}}"#] {
            assert_eq!(formed_answer(body.as_bytes()), None, "{body}");
        }
    }
}
