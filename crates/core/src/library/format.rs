//! The formats of a prompt: Markdown, XML and JSON, and the request bodies of model APIs.

use serde::{Deserialize, Serialize};

/// The format of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PromptFormat {
    /// Sections with `##` headings.
    Markdown,
    /// One XML document.
    Xml,
    /// The request body of a model API, or the prompt as JSON.
    Json,
}

/// The API whose request body a JSON prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ModelApi {
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Chat Completions API of OpenAI.
    Openai,
    /// The `generateContent` method of Gemini.
    Gemini,
}
