//! `UnifiedPrompt`: a system prompt, context and instructions as plain data.
//!
//! A thin front end for callers that collect the parts themselves. It has no XML writer of its own: it
//! becomes a [`Prompt`], which is rendered like any other.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use roxmltree::Node;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::compose::supplied_block;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::format::PromptFormat;
use crate::library::read_toml::{self, FileFormat, ReadErrorCodes};
use crate::library::recipe::DocumentKind;
use crate::library::recipe::Part;
use crate::library::recipe::SectionSeparator;
use crate::prompt::OriginTable;
use crate::prompt::{Block, Piece, Prompt, Section};
use crate::render::{RenderedText, render};
use crate::source::origin::OriginKind;
use crate::source::origin::{Origin, Trust};
use crate::text::SharedText;

/// The input of an agent, in three parts, and the tools it may use.
///
/// ```
/// use callsheet_core::UnifiedPrompt;
///
/// let prompt = UnifiedPrompt::from_json(
///     r#"{"system_prompt": "You plan.",
///         "context": [{"type": "file", "name": "src/main.rs", "content": "fn main() {}"}],
///         "instructions": "Add login"}"#,
/// )?;
/// assert_eq!(
///     prompt.to_xml()?,
///     "<prompt><system_prompt>You plan.</system_prompt>\
///      <context><file path=\"src/main.rs\">fn main() {}</file></context>\
///      <instructions>Add login</instructions></prompt>"
/// );
/// assert_eq!(UnifiedPrompt::from_json(&prompt.to_json())?, prompt);
/// assert_eq!(UnifiedPrompt::from_xml(&prompt.to_xml()?)?, prompt);
/// # Ok::<(), callsheet_core::diag::Diagnostics>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    feature = "schema",
    schemars(description = "The input of an agent, in three parts, and the tools it may use.")
)]
pub struct UnifiedPrompt {
    /// The identity of the agent and its way of working.
    #[serde(default, deserialize_with = "deserialize_text", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "SharedText"))]
    pub system_prompt: Option<SharedText>,
    /// The material that the agent works with.
    #[serde(default)]
    pub context: Vec<ContextItem>,
    /// The work that the agent must do.
    pub instructions: SharedText,
    /// JSON Schema tool definitions. They never become text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
}

/// A file, an output of earlier work, or a thought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ContextItem {
    /// The kind of the item.
    #[serde(rename = "type")]
    pub kind: DocumentKind,
    /// The path of a file, or the name of the item.
    pub name: SharedText,
    /// The text of the item.
    pub content: SharedText,
}

/// Deserializes a text that may be omitted, but not be `null`.
fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SharedText>, D::Error> {
    SharedText::deserialize(deserializer).map(Some)
}

impl UnifiedPrompt {
    /// Reads JSON. Refuses invalid data and reports all errors at once, each with the path of its field.
    pub fn from_json(json: &str) -> Result<Self, Diagnostics> {
        let codes = ReadErrorCodes { bad: Code::PromptBad, unknown: Code::PromptBad };
        read_toml::read_data("prompt", &SharedText::from(json), FileFormat::Json, codes)
    }

    /// Writes JSON that [`from_json`](Self::from_json) reads back as the same prompt.
    pub fn to_json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Reads the XML that [`to_xml`](Self::to_xml) writes, or a composed prompt in XML. The XML holds no
    /// tools.
    pub fn from_xml(xml: &str) -> Result<Self, Diagnostics> {
        let bad = |message: String| Diagnostic::error(Code::PromptBad, message);
        let document =
            roxmltree::Document::parse(xml).map_err(|error| bad(format!("invalid XML: {error}")))?;
        let parts = document.root_element().children().filter(Node::is_element);
        let mut unified = Self::default();
        let mut instructions = None;
        for part in parts {
            match part.tag_name().name() {
                "system_prompt" => {
                    unified.system_prompt = Some(element_text(part)).filter(|text| !text.is_empty())
                }
                "instructions" => instructions = Some(element_text(part)),
                "context" => {
                    for item in part.children().filter(Node::is_element) {
                        unified.context.push(ContextItem::from_xml(item).ok_or_else(|| {
                            bad(format!("unexpected element `<{}>` in `<context>`", item.tag_name().name()))
                        })?);
                    }
                }
                other => return Err(bad(format!("unexpected element `<{other}>` in `<prompt>`")).into()),
            }
        }
        unified.instructions = instructions.ok_or_else(|| bad("`<instructions>` is missing".into()))?;
        Ok(unified)
    }

    /// Writes XML. A character that XML cannot carry is an error that names the item.
    /// [`render`](Self::render) returns the warnings too.
    pub fn to_xml(&self) -> Result<String, Diagnostics> {
        Ok(self.render(PromptFormat::Xml)?.text)
    }

    /// Renders the prompt in any format, with the origins of its bytes and the warnings of the rendering.
    pub fn render(&self, format: PromptFormat) -> Result<RenderedText, Diagnostics> {
        render(&Prompt::from(self), format, None)
    }

    /// Converts a composed prompt to data, and returns the warnings of the conversion. Text that belongs to
    /// none of the three parts becomes an artifact.
    pub fn from_prompt(prompt: &Prompt) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let rendered = render(prompt, PromptFormat::Json, None)?;
        Ok((Self::from_json(&rendered.text)?, rendered.diagnostics))
    }
}

/// Returns the text of an element, with its original line ends.
fn element_text(node: Node<'_, '_>) -> SharedText {
    let text: String = node.children().filter_map(|inside| inside.text()).collect();
    match node.attribute("eol") {
        Some("crlf") => text.replace('\n', "\r\n").into(),
        _ => text.into(),
    }
}

impl ContextItem {
    fn from_xml(node: Node<'_, '_>) -> Option<Self> {
        let kinds = [DocumentKind::File, DocumentKind::Artifact, DocumentKind::Thought];
        let kind = kinds.into_iter().find(|kind| kind.name() == node.tag_name().name())?;
        Some(Self { kind, name: node.attribute(kind.attribute())?.into(), content: element_text(node) })
    }
}

impl From<&UnifiedPrompt> for Prompt {
    fn from(unified: &UnifiedPrompt) -> Self {
        let mut origins = OriginTable::default();
        let mut whole = |from, trust, text: &SharedText| {
            let origin = origins.push(Origin { from, trust, text: text.clone() });
            Piece { origin, start: 0, end: text.len() }
        };
        let field = |name: &str| OriginKind::Request(name.into());
        let system = unified.system_prompt.iter().map(|text| {
            let piece = whole(field("system_prompt"), Trust::Person, text);
            supplied_block("system_prompt", piece)
        });
        let system: Vec<Block> = system.collect();
        let context = unified.context.iter().map(|item| {
            let trust = if item.kind == DocumentKind::File { Trust::Project } else { Trust::Agent };
            let name = whole(field("context.name"), trust, &item.name);
            let content = whole(OriginKind::Document(item.name.clone()), trust, &item.content);
            Block { document: Some((item.kind, name)), ..supplied_block(item.kind.name(), content) }
        });
        let context: Vec<Block> = context.collect();
        let task = whole(field("instructions"), Trust::Person, &unified.instructions);
        let parts = [
            ("role", Part::System, system),
            ("context", Part::Context, context),
            ("task", Part::Instructions, alloc::vec![supplied_block("task", task)]),
        ];
        let sections = parts
            .into_iter()
            .filter(|(_, _, blocks)| !blocks.is_empty())
            .map(|(name, part, blocks)| Section { name: name.into(), part, heading: None, blocks });
        Prompt {
            recipe: "unified".into(),
            format: PromptFormat::Xml,
            separator: SectionSeparator::Blank,
            sections: sections.collect(),
            origins,
            tools: unified.tools.clone(),
            model: None,
            api: None,
            max_tokens: None,
            usual_max_tokens: None,
        }
    }
}

/// Converts a composed prompt to data, without the warnings of [`UnifiedPrompt::from_prompt`].
impl TryFrom<&Prompt> for UnifiedPrompt {
    type Error = Diagnostics;

    fn try_from(prompt: &Prompt) -> Result<Self, Diagnostics> {
        Ok(Self::from_prompt(prompt)?.0)
    }
}
