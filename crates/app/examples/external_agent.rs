//! Records a run whose agent this program drives by itself, as an SDK or an HTTP call would.
//!
//! `cargo run -p callsheet --example external_agent -- PROJECT`

#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example")]

use callsheet::{
    ComposeInput, Error, ExternalEnd, InterruptFlag, Project, Purpose, RunOverrides, RunStopper,
};

fn main() -> Result<(), Error> {
    callsheet::guard_if_asked();
    let project = Project::open(std::env::args().nth(1).expect("PROJECT"))?;
    let input = ComposeInput {
        phase: Some("review".into()),
        task: Some("Review the change.".into()),
        write: vec!["notes/**".into()],
        ..ComposeInput::default()
    };
    let composition = project.compose(&input, Purpose::Record)?;
    let mut setup = RunOverrides::default().complete(&project)?;
    setup.external = true;
    let prepared = project.prepare(composition, setup)?;
    let stopper = RunStopper::new(&InterruptFlag::default());
    let report = prepared.execute_external(&project, &stopper, |output| {
        // The agent works and replies here.
        std::fs::write(project.dir.join("outside.txt"), "x\n").expect("a file");
        output.print("The change is good.\n\n<review>PASS</review>");
        ExternalEnd::Exited(0)
    })?;
    println!("{}: reply {}, exit code {}", report.id(), report.reply_outcome(), report.exit_code());
    for violation in report.summary.violations() {
        println!("outside of the scope: {}", violation.path);
    }
    Ok(())
}
