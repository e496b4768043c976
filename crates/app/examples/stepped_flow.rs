//! Steps a flow and runs its agents by itself, as a worker or an SDK would.
//!
//! `cargo run -p callsheet --example stepped_flow -- PROJECT AGENT`

#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use callsheet::{Error, ExternalEnd, FlowBegin, FlowStart, InterruptFlag, Project, RunStopper};

/// Gives the agent its prompt, and returns its text.
fn call_agent(agent: &mut Command, prompt: &str) -> std::io::Result<String> {
    let mut child = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().expect("a pipe").write_all(prompt.as_bytes())?;
    Ok(String::from_utf8_lossy(&child.wait_with_output()?.stdout).into_owned())
}

fn main() -> Result<(), Error> {
    callsheet::guard_if_asked();
    let [project, agent] = std::env::args().skip(1).collect::<Vec<_>>().try_into().expect("PROJECT AGENT");
    let project = Project::open(project)?;
    let start = FlowStart {
        name: "sdd".into(),
        request: "Add a login to the site".into(),
        agent: Some("claude".into()),
        ..FlowStart::default()
    };
    let stopper = RunStopper::new(&InterruptFlag::default());
    let mut flow = project.step_flow(FlowBegin::Start(&start))?;
    while let Some(lane) = flow.next_lane()? {
        let id = lane.run.id().clone();
        let prompt = lane.run.prompt().to_owned();
        let mut command = Command::new(&agent);
        command.current_dir(lane.run.place()).env("CALLSHEET_PHASE", &lane.phase);
        command.env("CALLSHEET_SESSION", lane.run.session().unwrap_or(lane.run.place()));
        let report = lane.run.execute_external(&project, &stopper, |output| {
            output.print(&call_agent(&mut command, &prompt).expect("the agent answers"));
            ExternalEnd::Exited(0)
        })?;
        println!("{} {}: {}", lane.phase, lane.lane, report.reply_outcome());
        flow.finish_lane(&id)?;
    }
    let flow = flow.close()?;
    println!("flow {}: {} in `{}`", flow.plan.name, flow.state.condition().name(), flow.state.phase);
    Ok(())
}
