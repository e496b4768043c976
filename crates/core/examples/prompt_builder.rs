//! Builds a prompt in five layers, with memory and rules that are loaded asynchronously.
//!
//! `cargo run -p callsheet-core --example prompt_builder`

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use callsheet_core::{MemorySources, PromptBuilder, SourceRoot};
use serde_json::json;

async fn load_memories(project: Option<&str>) -> Result<Vec<String>, Infallible> {
    Ok(vec![format!("The project `{}` keeps its data in PostgreSQL.", project.unwrap_or("?"))])
}

/// Returns the matching rules, global and of the project. A source that cannot search would return all its
/// rules.
async fn find_rules(_project: Option<&str>, query: &str) -> Result<Vec<String>, &'static str> {
    match query {
        "login" => Ok(vec!["Passwords are stored hashed.".into()]),
        _ => Err("the rule server does not answer"),
    }
}

/// Runs a future to its end: enough of a runtime for futures that never wait.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it made")]
fn main() -> Result<(), Box<dyn Error>> {
    // One template of our own; callsheet ships all others.
    let mut sources = MemorySources::with_builtin();
    let clerk = "You are {{name}}, a clerk of {{shop}}.";
    sources.put(SourceRoot::User, "templates/identity/clerk.md", clerk)?;
    let mut builder = PromptBuilder::for_project(sources, "shop");

    // These calls can come in any order: the layers keep theirs.
    builder.add_context("task", "Add a login page.");
    builder.add_context_section("system_metadata", [("workspace", "."), ("branch", "login")]);
    builder.set_core_tools(vec![json!({"name": "grep", "input_schema": {"type": "object"}})]);
    builder.set_identity("clerk", [("name", "Ada"), ("shop", "Books")].into());
    block_on(builder.load_project_context(load_memories));
    block_on(builder.load_relevant_rules("login", find_rules));

    let (system_prompt, tools) = builder.build()?;
    println!("{system_prompt}");
    assert_eq!(
        system_prompt,
        "You are Ada, a clerk of Books.\n\n---\n\n\
         The project `shop` keeps its data in PostgreSQL.\n\n---\n\n\
         Passwords are stored hashed.\n\n---\n\n\
         Add a login page.\n\n---\n\n\
         ## System Metadata\n\n- **workspace:** .\n- **branch:** login"
    );
    assert_eq!(tools.len(), 1);
    assert_eq!(builder.build_task_prompt()?, system_prompt);

    // A failed source leaves its layer empty and adds a warning.
    block_on(builder.load_relevant_rules("payment", find_rules));
    for warning in builder.compose()?.diagnostics {
        eprintln!("{warning}");
    }

    // Single templates, as written or filled. A value is never read as a template.
    assert_eq!(builder.get_template("clerk").as_deref(), Some("You are {{name}}, a clerk of {{shop}}."));
    assert_eq!(builder.get_template("nobody"), None);
    let variables = [("name", "{{shop}}"), ("shop", "Books")].into();
    assert_eq!(
        builder.render_template("identity/clerk.md", variables)?,
        "You are {{shop}}, a clerk of Books."
    );

    // Files are read once and cached until `reload`.
    builder.reload();
    Ok(())
}
