//! JSON: the unified prompt as data, or the body of a request to a model's API.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::markdown::{self, Structure};
use super::{Api, Item, Rendered, Span, Writer, encode, run};
use crate::diag::{Code, Diag, Failure};
use crate::prompt::{Part, Piece, Prompt, Section};
use crate::render::Encoding;

pub(super) fn write(prompt: &Prompt, api: Option<Api>, writer: &mut Writer<'_>) -> Result<(), Failure> {
    match api {
        None => {
            unified(prompt, writer);
            Ok(())
        }
        Some(api) => body(prompt, api, writer),
    }
}

fn unified(prompt: &Prompt, writer: &mut Writer<'_>) {
    writer.engine("{\"system_prompt\":\"");
    inside(prompt, part(prompt, Part::System), writer);
    writer.engine("\",\"context\":[");
    for (at, item) in context(prompt).into_iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let name = |writer: &mut Writer<'_>, name: &Name<'_>| match name {
            Name::Piece(piece) => escaped(*piece, writer),
            Name::Word(word) => writer.engine(word),
        };
        writer.engine(&format!("{comma}{{\"type\":\"{}\",\"name\":\"", item.kind));
        name(writer, &item.name);
        writer.engine("\",\"content\":\"");
        inside(prompt, item.items, writer);
        writer.engine("\"}");
    }
    writer.engine("],\"instructions\":\"");
    inside(prompt, part(prompt, Part::Instructions), writer);
    writer.engine("\"");
    if !prompt.tools.is_empty() {
        writer.engine(&format!(",\"tools\":{}", Value::from(prompt.tools.clone())));
    }
    writer.engine("}");
}

fn part(prompt: &Prompt, part: Part) -> Vec<Item<'_>> {
    run(prompt, prompt.sections.iter().filter(move |section| section.part == part))
}

enum Name<'p> {
    Piece(Piece),
    /// A name that needs no escape.
    Word(&'p str),
}

struct ContextItem<'p> {
    kind: &'static str,
    name: Name<'p>,
    items: Vec<Item<'p>>,
}

/// What stands in `context`: documents, and everything else as artifacts.
fn context(prompt: &Prompt) -> Vec<ContextItem<'_>> {
    let mut all = Vec::new();
    let sections = prompt.sections.iter().filter(|section| section.part == Part::Context);
    for section in sections {
        if section.heading.is_some() {
            let items = run(prompt, core::iter::once(section));
            all.push(ContextItem { kind: "artifact", name: Name::Word(&section.name), items });
            continue;
        }
        for block in &section.blocks {
            let (kind, name) = match block.document {
                Some((kind, name)) => (kind.name(), Name::Piece(name)),
                None => ("artifact", Name::Word(block.name.as_str())),
            };
            all.push(ContextItem { kind, name, items: alloc::vec![Item::Block(block)] });
        }
    }
    all
}

/// Writes items inside a JSON string: no fence is needed there.
fn inside(_: &Prompt, items: Vec<Item<'_>>, writer: &mut Writer<'_>) {
    for item in items {
        match item {
            Item::Engine(text) => engine_escaped(text, writer),
            Item::Piece(piece) => escaped(piece, writer),
            Item::Block(block) => block.pieces.iter().for_each(|piece| escaped(*piece, writer)),
        }
    }
}

fn escaped(piece: Piece, writer: &mut Writer<'_>) {
    writer.encoded(piece, Encoding::Json, encode::json);
}

fn engine_escaped(text: &str, writer: &mut Writer<'_>) {
    let mut out = alloc::string::String::new();
    encode::json(text, &mut out);
    writer.engine(&out);
}

/// Writes sections as Markdown inside a JSON string: for a model the text is one, so texts are kept
/// from passing for structure as in Markdown.
fn markdown_inside(prompt: &Prompt, items: &[Item<'_>], writer: &mut Writer<'_>) {
    let mut inner = Writer::new(prompt);
    markdown::items(items, &Structure::of(prompt), &mut inner);
    let Rendered { text, spans, talk } = Rendered { text: inner.text, spans: inner.spans, talk: inner.talk };
    writer.talk.extend(talk);
    for Span { start, end, piece, encoding } in spans {
        match piece {
            None => engine_escaped(&text[start..end], writer),
            // A name in a tag is encoded twice. Its bytes are the engine's spelling of it.
            Some(_) if encoding != Encoding::Plain => engine_escaped(&text[start..end], writer),
            Some(piece) => escaped(piece, writer),
        }
    }
}

fn body(prompt: &Prompt, api: Api, writer: &mut Writer<'_>) -> Result<(), Failure> {
    let incomplete =
        |message: &str, hint: &str| Failure::from(Diag::error(Code::ApiIncomplete, message).hint(hint));
    let user: Vec<&Section> = prompt.sections.iter().filter(|section| section.part != Part::System).collect();
    if user.is_empty() {
        return Err(incomplete("the body would have no message of the user", "give a task or context"));
    }
    let tools = tools(prompt, api)?;
    let model = || {
        prompt.model.as_deref().map(|model| Value::from(model).to_string()).ok_or_else(|| {
            incomplete("the body would name no model", "name it with `--set model=…`, or choose an agent")
        })
    };
    let system = prompt.sections.iter().any(|section| section.part == Part::System);
    let system_text = |writer: &mut Writer<'_>| markdown_inside(prompt, &part(prompt, Part::System), writer);
    let user_text =
        |writer: &mut Writer<'_>| markdown_inside(prompt, &run(prompt, user.iter().copied()), writer);
    match api {
        Api::Anthropic => {
            let max_tokens = prompt.max_tokens.unwrap_or(8192);
            writer.engine(&format!("{{\"model\":{},\"max_tokens\":{max_tokens}", model()?));
            if system {
                writer.engine(",\"system\":\"");
                system_text(writer);
                writer.engine("\"");
            }
            writer.engine(",\"messages\":[{\"role\":\"user\",\"content\":\"");
            user_text(writer);
            writer.engine("\"}]");
        }
        Api::Openai => {
            writer.engine(&format!("{{\"model\":{}", model()?));
            if system {
                writer.engine(",\"instructions\":\"");
                system_text(writer);
                writer.engine("\"");
            }
            writer.engine(",\"input\":[{\"role\":\"user\",\"content\":\"");
            user_text(writer);
            writer.engine("\"}]");
        }
        Api::Gemini => {
            writer.engine("{");
            if system {
                writer.engine("\"systemInstruction\":{\"parts\":[{\"text\":\"");
                system_text(writer);
                writer.engine("\"}]},");
            }
            writer.engine("\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"");
            user_text(writer);
            writer.engine("\"}]}]");
        }
    }
    if !tools.is_empty() {
        let tools = match api {
            Api::Gemini => json!([{ "functionDeclarations": tools }]),
            Api::Anthropic | Api::Openai => Value::from(tools),
        };
        writer.engine(&format!(",\"tools\":{tools}"));
    }
    writer.engine("}");
    Ok(())
}

/// Tool definitions in the shape that the API wants, whichever of the usual shapes they came in.
fn tools(prompt: &Prompt, api: Api) -> Result<Vec<Value>, Failure> {
    let mut shaped = Vec::new();
    let mut wrong = Vec::new();
    for (at, tool) in prompt.tools.iter().enumerate() {
        let inner = tool.get("function").unwrap_or(tool);
        let schema = ["input_schema", "inputSchema", "parameters", "parametersJsonSchema"]
            .iter()
            .find_map(|key| inner.get(key).cloned())
            .unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
        let Some(name) = inner.get("name").and_then(Value::as_str) else {
            let message = format!("tools[{at}] has no name");
            wrong.push(
                Diag::error(Code::ApiIncomplete, message).hint("a tool is {name, description, input_schema}"),
            );
            continue;
        };
        let mut map = Map::new();
        if api == Api::Openai {
            map.insert("type".to_string(), "function".into());
        }
        map.insert("name".to_string(), name.into());
        if let Some(description) = inner.get("description") {
            map.insert("description".to_string(), description.clone());
        }
        let key = match api {
            Api::Anthropic => "input_schema",
            Api::Openai => "parameters",
            Api::Gemini => "parametersJsonSchema",
        };
        map.insert(key.to_string(), schema);
        if api == Api::Openai {
            map.insert("strict".to_string(), false.into());
        }
        shaped.push(map.into());
    }
    if wrong.is_empty() { Ok(shaped) } else { Err(Failure(wrong)) }
}
