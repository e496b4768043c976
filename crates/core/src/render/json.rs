//! JSON: the unified prompt as data, or the body of a request to a model's API.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::{PromptWriter, SectionItem, encode, fence_items, render_as_markdown, section_items};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::library::format::ModelApi;
use crate::library::recipe::Part;
use crate::prompt::{Piece, Prompt, Section};
use crate::render::TextEncoding;

pub(super) fn write(
    prompt: &Prompt,
    api: Option<ModelApi>,
    writer: &mut PromptWriter<'_>,
) -> Result<(), Diagnostics> {
    match api {
        None => {
            write_unified(prompt, writer);
            Ok(())
        }
        Some(api) => write_body(prompt, api, writer),
    }
}

fn write_unified(prompt: &Prompt, writer: &mut PromptWriter<'_>) {
    writer.write_engine("{\"system_prompt\":\"");
    let system = fence_items(prompt, part_items(prompt, Part::System), writer);
    write_items(system, writer);
    writer.write_engine("\",\"context\":[");
    let mut comma = "";
    for_each_context_item(prompt, &mut |item| {
        let name = |writer: &mut PromptWriter<'_>, name: &ItemName<'_>| match name {
            ItemName::Piece(piece) => write_escaped(*piece, writer),
            ItemName::Word(word) => write_engine_escaped(word, writer),
        };
        writer.write_engine(core::mem::replace(&mut comma, ","));
        (0..item.edges[0]).for_each(|_| writer.push_edge());
        writer.write_engine(&format!("{{\"type\":\"{}\",\"name\":\"", item.kind));
        name(writer, &item.name);
        writer.write_engine("\",\"content\":\"");
        let items = if item.whole { fence_items(prompt, item.items, writer) } else { item.items };
        write_items(items, writer);
        writer.write_engine("\"}");
        (0..item.edges[1]).for_each(|_| writer.push_edge());
    });
    writer.write_engine("],\"instructions\":\"");
    let instructions = fence_items(prompt, part_items(prompt, Part::Instructions), writer);
    write_items(instructions, writer);
    writer.write_engine("\"");
    if !prompt.tools.is_empty() {
        writer.write_engine(&format!(",\"tools\":{}", Value::from(prompt.tools.clone())));
    }
    writer.write_engine("}");
}

fn part_items(prompt: &Prompt, part: Part) -> Vec<SectionItem<'_>> {
    section_items(prompt, prompt.sections.iter().filter(move |section| section.part == part))
}

enum ItemName<'p> {
    Piece(Piece),
    /// The name of a section or a block.
    Word(&'p str),
}

struct JsonContextItem<'p> {
    kind: &'static str,
    name: ItemName<'p>,
    items: Vec<SectionItem<'p>>,
    /// Whether the item is a whole section with a heading.
    whole: bool,
    /// The number of section and block edges before and after the item.
    edges: [usize; 2],
}

/// Passes the items of `context` to `take` one by one: documents, and everything else as artifacts.
fn for_each_context_item<'p>(prompt: &'p Prompt, take: &mut dyn FnMut(JsonContextItem<'p>)) {
    let sections = prompt.sections.iter().filter(|section| section.part == Part::Context);
    for section in sections {
        if section.heading.is_some() {
            let items = section_items(prompt, core::iter::once(section));
            let name = ItemName::Word(&section.name);
            take(JsonContextItem { kind: "artifact", name, items, whole: true, edges: [0, 0] });
            continue;
        }
        for (at, block) in section.blocks.iter().enumerate() {
            let (kind, name) = match block.document {
                Some((kind, name)) => (kind.name(), ItemName::Piece(name)),
                None => ("artifact", ItemName::Word(block.name.as_str())),
            };
            let edges = [if at == 0 { 2 } else { 1 }, 1];
            take(JsonContextItem {
                kind,
                name,
                items: alloc::vec![SectionItem::Block(block)],
                whole: false,
                edges,
            });
        }
    }
}

/// Writes items inside a JSON string, which needs no fence.
fn write_items(items: Vec<SectionItem<'_>>, writer: &mut PromptWriter<'_>) {
    for item in items {
        match item {
            SectionItem::Edge => writer.push_edge(),
            SectionItem::Engine(text) => write_engine_escaped(&text, writer),
            SectionItem::Piece(piece) => write_escaped(piece, writer),
            SectionItem::Block(block) => block.pieces.iter().for_each(|piece| write_escaped(*piece, writer)),
        }
    }
}

fn write_escaped(piece: Piece, writer: &mut PromptWriter<'_>) {
    writer.write_encoded(piece, TextEncoding::Json, encode::write_json);
}

fn write_engine_escaped(text: &str, writer: &mut PromptWriter<'_>) {
    let mut out = alloc::string::String::new();
    encode::write_json(text, &mut out);
    writer.write_engine(&out);
}

fn write_body(prompt: &Prompt, api: ModelApi, writer: &mut PromptWriter<'_>) -> Result<(), Diagnostics> {
    let incomplete = |message: &str, hint: &str| {
        Diagnostics::from(Diagnostic::error(Code::ApiIncomplete, message).hint(hint))
    };
    let user: Vec<&Section> = prompt.sections.iter().filter(|section| section.part != Part::System).collect();
    if user.is_empty() {
        return Err(incomplete("the body would have no user message", "give a task or context"));
    }
    let tools = convert_tools(prompt, api)?;
    if let (Some(model), true) = (&prompt.model, prompt.api.is_some_and(|own| own != api)) {
        let message = format!("this API does not have the agent's model `{model}`");
        return Err(incomplete(&message, "name one with `--set model=…`"));
    }
    let model = || {
        prompt.model.as_deref().map(|model| Value::from(model).to_string()).ok_or_else(|| {
            incomplete("the body would name no model", "name it with `--set model=…`, or choose an agent")
        })
    };
    let system = prompt.sections.iter().any(|section| section.part == Part::System);
    let system_text = |writer: &mut PromptWriter<'_>| {
        let items = render_as_markdown(prompt, &part_items(prompt, Part::System), writer);
        write_items(items, writer);
    };
    let user_text = |writer: &mut PromptWriter<'_>| {
        let items = render_as_markdown(prompt, &section_items(prompt, user.iter().copied()), writer);
        write_items(items, writer);
    };
    match api {
        ModelApi::Anthropic => {
            let max_tokens = prompt.max_tokens.or(prompt.usual_max_tokens).unwrap_or(8192);
            writer.write_engine(&format!("{{\"model\":{},\"max_tokens\":{max_tokens}", model()?));
            if system {
                writer.write_engine(",\"system\":\"");
                system_text(writer);
                writer.write_engine("\"");
            }
            writer.write_engine(",\"messages\":[{\"role\":\"user\",\"content\":\"");
            user_text(writer);
            writer.write_engine("\"}]");
        }
        ModelApi::Openai => {
            writer.write_engine(&format!("{{\"model\":{}", model()?));
            if let Some(most) = prompt.max_tokens {
                writer.write_engine(&format!(",\"max_output_tokens\":{most}"));
            }
            if system {
                writer.write_engine(",\"instructions\":\"");
                system_text(writer);
                writer.write_engine("\"");
            }
            writer.write_engine(",\"input\":[{\"role\":\"user\",\"content\":\"");
            user_text(writer);
            writer.write_engine("\"}]");
        }
        ModelApi::Gemini => {
            writer.write_engine("{");
            if let Some(most) = prompt.max_tokens {
                writer.write_engine(&format!("\"generationConfig\":{{\"maxOutputTokens\":{most}}},"));
            }
            if system {
                writer.write_engine("\"systemInstruction\":{\"parts\":[{\"text\":\"");
                system_text(writer);
                writer.write_engine("\"}]},");
            }
            writer.write_engine("\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"");
            user_text(writer);
            writer.write_engine("\"}]}]");
        }
    }
    if !tools.is_empty() {
        writer.write_engine(&format!(",\"tools\":{}", Value::from(tools)));
    }
    writer.write_engine("}");
    Ok(())
}

/// Converts tool definitions from any of the usual shapes to the shape of the API.
fn convert_tools(prompt: &Prompt, api: ModelApi) -> Result<Vec<Value>, Diagnostics> {
    let mut shaped = Vec::new();
    let mut declared = Vec::new();
    let mut wrong = Vec::new();
    for (at, tool) in prompt.tools.iter().enumerate() {
        let inner = tool.get("function").unwrap_or(tool);
        let schema = ["input_schema", "inputSchema", "parameters", "parametersJsonSchema"]
            .iter()
            .find_map(|key| inner.get(key).cloned());
        let kind = tool.get("type").and_then(Value::as_str);
        if schema.is_none() && kind.is_some_and(|kind| !["function", "custom"].contains(&kind)) {
            // A tool of the provider, such as web search, has its own shape.
            shaped.push(tool.clone());
            continue;
        }
        let schema = schema.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
        let Some(name) = inner.get("name").and_then(Value::as_str) else {
            let message = format!("tools[{at}] has no name");
            wrong.push(
                Diagnostic::error(Code::ApiIncomplete, message)
                    .hint("a tool is {name, description, input_schema}"),
            );
            continue;
        };
        let mut map = Map::new();
        if api == ModelApi::Openai {
            map.insert("type".to_string(), "function".into());
        }
        map.insert("name".to_string(), name.into());
        if let Some(description) = inner.get("description") {
            map.insert("description".to_string(), description.clone());
        }
        let key = match api {
            ModelApi::Anthropic => "input_schema",
            ModelApi::Openai => "parameters",
            ModelApi::Gemini => "parametersJsonSchema",
        };
        map.insert(key.to_string(), schema);
        if api == ModelApi::Openai {
            map.insert("strict".to_string(), false.into());
        }
        match api {
            ModelApi::Gemini => declared.push(Value::from(map)),
            ModelApi::Anthropic | ModelApi::Openai => shaped.push(map.into()),
        }
    }
    if !declared.is_empty() {
        shaped.insert(0, json!({ "functionDeclarations": declared }));
    }
    if wrong.is_empty() { Ok(shaped) } else { Err(Diagnostics(wrong)) }
}
