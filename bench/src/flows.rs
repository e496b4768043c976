//! Flows: what every sub-plan costs besides its agent, which does nothing, and how that grows with their number.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::peers::Peers;
use crate::report::{Report, Row, Taken};

const FLOW: &str = r#"description = "Many parts, one after the other"
folder = "sessions"
changes = "changes.md"

[[phase]]
name = "planning"
recipe = "unified"
contract = "submit_plan"
ask = { phase = "plan", instructions = "{request}" }
outputs = ["04_planning/plan.yaml", "04_planning/execution_plan.yaml"]

[[phase.on]]
needs = ["plan", "exit"]
to = "implementing"

[[phase]]
name = "implementing"
recipe = "unified"
ask = { phase = "archive", instructions = "part {lane}", each = "plans" }
writes = "project"

[[phase.on]]
needs = ["exit"]
to = "done"
"#;

pub(crate) fn report(report: &mut Report, peers: &Peers, work: &Path, most: usize) {
    let counts = [most / 4, most];
    let times = counts.map(|count| run(peers, &work.join(count.to_string()), count));
    let [first, last] = times;
    let each = (last - first) / (counts[1] - counts[0]) as f64;
    let exponent = (last / first).ln() / (counts[1] as f64 / counts[0] as f64).ln();
    let taken = counts.iter().zip(times).map(|(count, nanoseconds)| Taken {
        name: format!("{count} sub-plans"),
        nanoseconds,
        remark: String::new(),
    });
    let each = Taken { name: "one more sub-plan".into(), nanoseconds: each, remark: String::new() };
    let row = Row::new(&format!("a flow of {most} sub-plans whose agent does nothing"));
    report.add(row.exponent("exponent of the time", exponent, 1.15).contenders(taken.chain([each])));
}

/// Nanoseconds for a flow of so many sub-plans, in a repository of its own.
fn run(peers: &Peers, dir: &Path, count: usize) -> f64 {
    let project = dir.join("project");
    fs::create_dir_all(project.join(".callsheet/flows")).expect("a folder");
    fs::write(project.join(".callsheet/flows/many.toml"), FLOW).expect("a flow");
    fs::write(project.join("notes.txt"), "notes\n").expect("a file");
    let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    for args in [&["init", "-q"][..], &["add", "notes.txt"], &["commit", "-q", "-m", "first"]] {
        let done = Command::new("git").current_dir(&project).args(identity).args(args).status();
        assert!(done.is_ok_and(|done| done.success()), "git {args:?}");
    }
    let own = std::env::current_exe().expect("our own program");
    let start = Instant::now();
    let done = Command::new(&peers.callsheet)
        .current_dir(&project)
        .env("HOME", dir)
        .env("XDG_STATE_HOME", dir.join("state"))
        .args(["-q", "flow", "start", "many", "many parts", "--"])
        .arg(own)
        .args(["agent", &count.to_string()])
        .stdout(Stdio::null())
        .status();
    let time = start.elapsed();
    assert!(done.is_ok_and(|done| done.success()), "a flow of {count} sub-plans");
    time.as_nanos() as f64
}

/// The agent: where it is to plan, it writes a plan of so many parts; else it does nothing.
pub(crate) fn agent(count: &str) {
    let (Ok(phase), Ok(session)) = (std::env::var("CALLSHEET_PHASE"), std::env::var("CALLSHEET_SESSION"))
    else {
        return;
    };
    if phase != "planning" {
        return;
    }
    let count: usize = count.parse().unwrap_or(1);
    let mut plan = String::from(
        "version: 2\nplan_overview: Parts.\nphase_1: Nothing.\nphase_2: Parts.\nphase_3: Nothing.\nconflict_map: []\ngroups:\n  - group_id: g1\n    mode: serial\n    plans:\n",
    );
    for number in 1..=count {
        let _ = writeln!(plan, "      - {{index: {number}, name: Part {number}}}");
    }
    plan += "needs_design: false\nneeds_docs: false\ndoc_files: []\nreview_strategy: {severity: low, focus: []}\nsubplans:\n";
    for number in 1..=count {
        let _ = writeln!(
            plan,
            "  - index: {number}\n    title: Part {number}\n    scope: It.\n    owned_files: [src/p{number}/**]\n    \
             dependencies: None.\n    isolation_rationale: Its own.\n    implementation_approach: As it is.\n    \
             acceptance_criteria: It works.\n    tasks: [Do it]"
        );
    }
    let folder = Path::new(&session).join("04_planning");
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("plan.yaml"), plan));
    written.expect("a plan");
}
