//! Checks the spans of rendered prompts without the engine's own decoder.

use callsheet_core::Prompt;
use callsheet_core::render::{RenderedText, TextEncoding};

/// Checks that the spans cover the text without gap or overlap, that none is empty, and that decoding each
/// gives the bytes of its origin.
pub(crate) fn check_spans(prompt: &Prompt, rendered: &RenderedText) -> Result<(), String> {
    let mut at = 0;
    for span in &rendered.spans {
        if span.start != at || span.end <= span.start {
            return Err(format!("{}..{} does not go on at {at}", span.start, span.end));
        }
        at = span.end;
        let Some(text) = rendered.text.get(span.start..span.end) else {
            return Err(format!("{}..{} cuts a character", span.start, span.end));
        };
        let Some(piece) = span.piece else { continue };
        let wanted = piece.text(&prompt.origins);
        let undone = decode(span.encoding, text);
        if undone.as_deref() != Some(wanted) {
            return Err(format!("{text:?} stands for {wanted:?} and reads back as {undone:?}"));
        }
        if span.encoding.decode(text).as_deref() != Some(wanted) {
            return Err(format!("the engine reads {text:?} back as {:?}", span.encoding.decode(text)));
        }
    }
    if at == rendered.text.len() {
        Ok(())
    } else {
        Err(format!("nothing covers {at}..{}", rendered.text.len()))
    }
}

/// Decodes a text with readers that share no code with the engine.
pub(crate) fn decode(encoding: TextEncoding, text: &str) -> Option<String> {
    match encoding {
        TextEncoding::Plain => Some(text.to_owned()),
        // An XML parser would not change this text.
        TextEncoding::Cdata if !text.contains("]]>") && !text.contains('\r') => Some(text.to_owned()),
        TextEncoding::Cdata => decode_xml(&format!("<x><![CDATA[{text}]]></x>")),
        TextEncoding::Crlf => {
            decode_xml(&format!("<x><![CDATA[{text}]]></x>")).map(|text| text.replace('\n', "\r\n"))
        }
        TextEncoding::Attr => decode_references(text),
        TextEncoding::Json => decode_json(text),
    }
}

fn decode_xml(document: &str) -> Option<String> {
    let document = roxmltree::Document::parse(document).ok()?;
    Some(document.root_element().children().filter_map(|node| node.text()).collect())
}

fn decode_references(text: &str) -> Option<String> {
    let mut parts = text.split('&');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (name, after) = part.split_once(';')?;
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => char::from_u32(number.strip_prefix('#')?.parse().ok()?)?,
        });
        out.push_str(after);
    }
    (!text.contains(['<', '\r'])).then_some(out)
}

fn decode_json(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '"' || c < ' ' {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            c @ ('"' | '\\' | '/') => c,
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(out)
}
