//! An orchestrator in one file: composes with templates of its own, records, runs an agent, retries it with the facts of the
//! first run, and drives the flow `sdd`.
//!
//! `cargo run -p callsheet --example orchestrator -- PROJECT AGENT`: `AGENT` is a program that gets each prompt on its standard
//! input and works in the project.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example")]

use std::collections::BTreeMap;
use std::sync::Arc;

use callsheet::{
    ComposeInput, Error, FlowStart, InterruptFlag, Project, ProjectOptions, Purpose, RerunOptions,
    RunOverrides, RunStopper, SourceId, SourceRoot,
};

/// A role that is in no file.
const FIXER: &str = "You fix one thing, and nothing else.\n";

fn main() -> Result<(), Error> {
    callsheet::guard_if_asked();
    let [project, agent] = std::env::args().skip(1).collect::<Vec<_>>().try_into().expect("PROJECT AGENT");
    let role = SourceId::new(SourceRoot::Project, ".callsheet/profiles/fixer.md").expect("a path");
    let texts = Arc::new(BTreeMap::from([(role, FIXER.into())]));
    let project =
        Project::open_with(ProjectOptions { dir: Some(project.into()), texts, ..ProjectOptions::default() })?;

    // Compose and record, without a run.
    let input = ComposeInput {
        task: Some("Write `fixed` to src/fix.txt.".into()),
        role: Some("fixer".into()),
        agent: Some("command".into()),
        write: vec!["src/**".into()],
        ..ComposeInput::default()
    };
    let composition = project.compose(&input, Purpose::Record)?;
    println!("prompt: {} bytes, {} sections", composition.text().len(), composition.sections().count());
    println!("recorded: {}", project.record(&composition)?);

    // Run the agent with a check, and read its reply by the contract of the phase.
    let stopper = RunStopper::new(&InterruptFlag::default());
    let given =
        RunOverrides { checks: vec!["fixed=grep -q fixed src/fix.txt".into()], ..RunOverrides::default() };
    let mut setup = given.complete(&project)?;
    setup.options.program = vec![agent.clone()];
    let first = project.prepare(composition, setup)?.execute(&project, &stopper)?;
    let status = first.summary.status().name();
    println!("first run: {status}, exit code {}, reply {}", first.exit_code(), first.reply_outcome());

    // Retry with the facts of the first run in the prompt.
    let again = RerunOptions { force: true, ..RerunOptions::default() };
    let second = project.prepare_rerun(first.id().as_str(), &again)?.execute(&project, &stopper)?;
    println!("second run: {}, exit code {}", second.summary.status().name(), second.exit_code());

    // Drive a whole flow; a person decides where it waits.
    let start = FlowStart {
        name: "sdd".into(),
        request: "Add a login to the site".into(),
        program: vec![agent],
        share: true,
        ..FlowStart::default()
    };
    let flow = project.start_flow(&start, &InterruptFlag::default())?.flow;
    println!("flow {}: {} in `{}`", flow.plan.name, flow.state.condition().name(), flow.state.phase);
    Ok(())
}
