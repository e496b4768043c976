//! The formats of a prompt: Markdown, XML and JSON, and the request bodies of model APIs.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PromptFormat {
    Markdown,
    Xml,
    Json,
}

/// The API whose request body a JSON prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ModelApi {
    Anthropic,
    Openai,
    Gemini,
}
