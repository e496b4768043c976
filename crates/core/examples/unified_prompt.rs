//! Assembles a prompt by hand from a system template, values, a file and instructions, as XML and as JSON.
//!
//! `cargo run -p callsheet-core --example unified_prompt`

use callsheet_core::diag::Diagnostics;
use callsheet_core::library::layout::Layout;
use callsheet_core::library::recipe::DocumentKind;
use callsheet_core::{Builtin, ContextItem, UnifiedPrompt, inject_variables, load_system_template};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it made")]
fn main() -> Result<(), Diagnostics> {
    // Claude has no template of its own for this phase, so the BASE one is used.
    let template = load_system_template(&Builtin, &Layout::default(), "claude", "archive")?.text;
    let values = [("PROJECT_CONTEXT", "A bookshop in Rust.")].into();
    let system = inject_variables(&template, &values);
    for warning in &system.warnings {
        eprintln!("{warning}");
    }

    let prompt = UnifiedPrompt {
        system_prompt: Some(system.text.into()),
        context: vec![ContextItem {
            kind: DocumentKind::File,
            name: "src/main.rs".into(),
            content: "fn main() { assert!(1 < 2 && true) }\n".into(),
        }],
        instructions: "Write the changelog.".into(),
        tools: vec![],
    };
    println!("{}", prompt.to_xml()?);
    assert_eq!(UnifiedPrompt::from_json(&prompt.to_json())?, prompt);

    // All mistakes are reported together, each with the path of its field.
    let wrong = r#"{"context": [{"type": "file", "name": "a", "contents": "b"}]}"#;
    match UnifiedPrompt::from_json(wrong) {
        Ok(_) => println!("it fits"),
        Err(failure) => eprintln!("{failure}"),
    }
    Ok(())
}
