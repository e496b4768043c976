//! What the fuzzers run: each takes any bytes and panics where a promise does not hold.
//!
//! `fuzz_targets/` gives these functions to libFuzzer; the test suite runs them on the kept corpus.

use callsheet_core::diag::{Code, Diagnostics};
use callsheet_core::library::template::{Template, TemplateNode, TemplateNotation};
use callsheet_core::render::{RenderedText, render};
use callsheet_core::source::origin::OriginKind;
use callsheet_core::{
    Builtin, FileFormat, MemorySources, Prompt, PromptFormat, Request, SourceId, SourceRoot, compose,
    read_request,
};

/// Runs one of `frontmatter`, `template`, `xml` and `request`.
pub(crate) fn run(target: &str, data: &[u8]) {
    match target {
        "frontmatter" => frontmatter(data),
        "template" => template(data),
        "xml" => xml(data),
        "request" => request(data),
        other => unreachable!("there is no target {other}"),
    }
}

fn project(path: &str) -> SourceId {
    SourceId::new(SourceRoot::Project, path).unwrap()
}

/// A diagnostic can be shown, whatever it is about.
fn shown(failure: &Diagnostics) {
    assert!(!failure.0.is_empty());
    is_visible(&failure.to_string());
}

pub(crate) fn is_visible(page: &str) {
    let hidden = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!page.contains(hidden), "{page:?}");
}

/// A header either can be read, or is an error of its file; the holes of the body lie in the text, one after the other.
fn frontmatter(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let id = project("x.md");
    for notation in [TemplateNotation::Braces, TemplateNotation::Brackets] {
        match Template::parse(id.clone(), text.into(), notation) {
            Ok(template) => in_order(&template.nodes, text),
            Err(error) => {
                assert_eq!(error.code, Code::FrontBad);
                shown(&error.into());
            }
        }
    }
}

pub(crate) fn in_order(nodes: &[TemplateNode], text: &str) {
    let mut at = 0;
    for node in nodes {
        let span = match node {
            TemplateNode::Text(span) | TemplateNode::Slot(span) | TemplateNode::Fragment(span) => *span,
            TemplateNode::Include(include) => {
                in_order(&include.path, text);
                include.at
            }
        };
        assert!(at <= span.start && span.start < span.end && span.end <= text.len(), "{node:?}");
        assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{node:?}");
        at = span.end;
    }
}

/// A template of any text gives a prompt whose bytes all have an origin, or errors that can be shown; what came from a
/// value is that value, byte for byte.
fn template(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = core::str::from_utf8(rest) else { return };
    // The last line is a value, so that both can grow.
    let (text, value) = text.rsplit_once('\n').unwrap_or((text, "value"));
    let (recipe, path) =
        if first % 2 == 0 { ("layers", "identity/fuzz.md") } else { ("staged", "agents/fuzz.md") };
    let mut sources = MemorySources::with_builtin();
    sources.insert(project(&format!(".callsheet/templates/{path}")), text);
    let request = Request {
        recipe: Some(recipe.into()),
        role: Some("fuzz".into()),
        instructions: Some("go".into()),
        missing: (first % 4 < 2).then_some(callsheet_core::library::recipe::MissingPolicy::Empty),
        values: [("a", value), ("b", "{{a}}[[placeholder:a]]")].into(),
        ..Request::default()
    };
    let prompt = match compose(&request, &sources) {
        Ok(composed) => composed.prompt,
        Err(failure) => return shown(&failure),
    };
    as_given(&prompt, &request);
    for format in [PromptFormat::Markdown, PromptFormat::Xml, PromptFormat::Json] {
        match render(&prompt, format, None) {
            Ok(rendered) => covered(&prompt, &rendered),
            Err(failure) => {
                assert!(
                    format == PromptFormat::Xml
                        && failure.0.iter().all(|error| error.code == Code::XmlCharacter)
                );
                shown(&failure);
            }
        }
    }
}

/// What a prompt has from the values of its request is what they are.
pub(crate) fn as_given(prompt: &Prompt, request: &Request) {
    for origin in &prompt.origins {
        if let OriginKind::Value(key) = &origin.from {
            assert_eq!(Some(&origin.text), request.values.get(key), "{key}");
        }
    }
}

/// Ranges cover the text without a gap, and undoing their encoding gives the bytes of their origins.
pub(crate) fn covered(prompt: &Prompt, rendered: &RenderedText) {
    let mut at = 0;
    for span in &rendered.spans {
        assert_eq!(span.start, at, "a gap or an overlap");
        at = span.end;
        let written = &rendered.text[span.start..span.end];
        let read = span.encoding.decode(written).unwrap();
        if let Some(piece) = span.piece {
            assert_eq!(read, piece.text(&prompt.origins));
        }
    }
    assert_eq!(at, rendered.text.len(), "a rest without an origin");
}

/// Any texts come back from the XML byte for byte, by a parser that is not ours, or are refused for a character that
/// XML cannot carry.
fn xml(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let mut parts = text.split('\u{1e}').map(str::to_owned).chain(core::iter::repeat("x".to_owned()));
    let mut part = || parts.next().unwrap();
    let (task, name, content, block) = (part(), part(), part(), part());
    if task.trim().is_empty() || block.trim().is_empty() {
        return;
    }
    let request = serde_json::json!({
        "recipe": "unified", "phase": "archive", "instructions": task,
        "documents": [{ "name": name, "content": content }], "context": [{ "name": "block", "text": block }],
    });
    let request: Request = serde_json::from_value(request).unwrap();
    let prompt = compose(&request, &Builtin).unwrap().prompt;
    let all: [&str; 4] = [&task, &name, &content, &block];
    let fits = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    let rendered = match render(&prompt, PromptFormat::Xml, None) {
        Ok(rendered) => rendered,
        Err(failure) => {
            assert!(failure.0.iter().all(|error| error.code == Code::XmlCharacter));
            assert!(all.iter().any(|text| !text.chars().all(fits)));
            return shown(&failure);
        }
    };
    assert!(all.iter().all(|text| text.chars().all(fits)));
    covered(&prompt, &rendered);
    reads_back(&rendered.text, all);
}

/// A parser that is not ours finds these texts in the XML: the task, the name and the content of a document, a block.
pub(crate) fn reads_back(xml: &str, [task, name, content, block]: [&str; 4]) {
    let document = roxmltree::Document::parse(xml).unwrap();
    let find = |tag: &str| document.descendants().find(|node| node.has_tag_name(tag)).unwrap();
    let text = |tag: &str| {
        let text = find(tag).children().map(|child| child.text().unwrap()).collect::<String>();
        // An element whose lines all end in CR LF says so, and has plain line ends.
        if find(tag).attribute("eol") == Some("crlf") { text.replace('\n', "\r\n") } else { text }
    };
    assert_eq!(text("instructions"), task);
    assert_eq!(find("file").attribute("path"), Some(name));
    assert_eq!(text("file"), content);
    assert_eq!(text("artifact"), block);
    let names = document.root_element().children().map(|node| node.tag_name().name()).collect::<Vec<_>>();
    assert_eq!(names, ["system_prompt", "context", "instructions"]);
}

/// A request is read or refused, the same after it was written down again, and never makes the engine fall over.
fn request(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = core::str::from_utf8(rest) else { return };
    let notation = if first % 2 == 0 { FileFormat::Toml } else { FileFormat::Json };
    let request = match read_request("request", &text.into(), notation) {
        Ok(request) => request,
        Err(failure) => return shown(&failure),
    };
    let written = serde_json::to_string(&request).unwrap();
    let again = read_request("again", &written.as_str().into(), FileFormat::Json).unwrap();
    assert_eq!(again, request);
    match compose(&request, &Builtin) {
        Err(failure) => shown(&failure),
        Ok(composed) => {
            assert_eq!(compose(&again, &Builtin).unwrap(), composed);
            let rendered = render(&composed.prompt, PromptFormat::Markdown, None).unwrap();
            covered(&composed.prompt, &rendered);
        }
    }
}
