//! XML of source code: byte-exact, against escaping it and against only copying it.

use std::hint::black_box;

use callsheet_core::render::render;
use callsheet_core::request::RequestDocument;
use callsheet_core::{FileFormat, Library, PromptFormat, Request, SharedText, read_request};
use quick_xml::events::Event;

use crate::measure::{contender, race};
use crate::report::{Report, Row, Taken};
use crate::templates::Files;

const RECIPE: &str = "format = \"xml\"\n[[section]]\nname = \"context\"\npart = \"context\"\n\
                      blocks = [{ documents = [\"file\"] }]\n";

pub(crate) fn report(report: &mut Report, code: &str, rounds: usize) {
    let files = Files::recipe(RECIPE);
    let document = RequestDocument {
        name: Some("code.rs".into()),
        content: Some(SharedText::from(code.to_string())),
        ..RequestDocument::default()
    };
    let read = read_request("bench", &"recipe = \"bench\"".into(), FileFormat::Toml).expect("a request");
    let request = Request { documents: vec![document], ..read };
    let library = Library::new(&files);
    let recipe = library.recipe(&request).expect("a recipe");
    let ours = || {
        let composed = library.compose(&request, &recipe).expect("a prompt");
        render(&composed.prompt, PromptFormat::Xml, None).expect("a text").text
    };
    assert!(content_of_file(&ours()) == code, "a parser reads the same bytes");

    let mut contenders = [
        contender("memcpy into a new String", || black_box(code.to_string()).len()),
        contender("callsheet", || ours().len()),
        contender("quick-xml escape", || quick_xml::escape::escape(code).len()),
        contender("quick-xml partial_escape", || quick_xml::escape::partial_escape(code).len()),
    ];
    let times = race(&mut contenders, rounds);
    let taken = contenders.iter().zip(&times).map(|(contender, time)| Taken {
        name: contender.name.into(),
        nanoseconds: *time,
        remark: String::new(),
    });
    let row = Row::new(&format!("XML of {} MB of source code, byte-exact", code.len() / 1_000_000));
    let row = row.faster("quick-xml escape", Some(times[2] / times[1]), 8.0);
    report.add(row.at_most("memcpy into a new String", times[1] / times[0], 2.5).contenders(taken));
}

/// What a parser that knows nothing of us reads inside of the one file.
fn content_of_file(xml: &str) -> String {
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut content = String::new();
    let mut inside = false;
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(tag) => inside |= tag.name().as_ref() == "file",
            Event::End(tag) if tag.name().as_ref() == "file" => return content,
            Event::CData(text) if inside => content.push_str(&text.xml10_content()),
            Event::Text(text) if inside => content.push_str(&text.xml10_content()),
            Event::GeneralRef(name) if inside => {
                content.extend(name.resolve_char_ref().expect("a character"));
            }
            Event::Eof => return content,
            _ => {}
        }
    }
}
